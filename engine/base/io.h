/* base/io - files: read whole, written so that a reader never sees half of one.
 *
 * Idea: every write goes to a temporary name beside its target, is synced, renamed, and its
 * directory synced.  An interrupted process leaves at most a `.tmp-*` name, removed by io_discard
 * or by the next writer.
 * Trap: errno is read on the line of the call; cleanup must not lose it. */
#ifndef TF_ENGINE_BASE_IO_H
#define TF_ENGINE_BASE_IO_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stddef.h>
#include <stdint.h>

/* Reads a whole file of at most limit_bytes; data gets a NUL after its end.  Free with mem_free. */
tf_status io_read_file(const char *path, uint64_t limit_bytes, char **data, size_t *n,
                       tf_error *err);
/* Opens for reading; *size in bytes.  Caller closes fd with io_close. */
tf_status io_open(const char *path, int *fd, uint64_t *size, tf_error *err);
void io_close(int *fd);
/* Reads exactly n bytes at offset; path is for the message. */
tf_status io_read_at(int fd, const char *path, void *to, size_t n, uint64_t offset, tf_error *err);

typedef struct io_writer {
    int fd; /* valid when open */
    bool open;
    bool direct;          /* past the page cache: see io_create_direct */
    char path[1024];      /* final name */
    char temporary[1080]; /* same directory */
} io_writer;

/* Begin, write, then io_commit (sync, rename, sync the directory) or io_discard (unlink).
 * io_discard after io_commit does nothing: call it always on the way out. */
tf_status io_create(io_writer *w, const char *path, tf_error *err);
tf_status io_write(io_writer *w, const void *data, size_t n, tf_error *err);
tf_status io_write_at(io_writer *w, const void *data, size_t n, uint64_t offset, tf_error *err);
tf_status io_commit(io_writer *w, tf_error *err);
void io_discard(io_writer *w);
/* As io_create for a file of `bytes`, whose space is taken at once (no-space before the first
 * write) and which is written past the page cache where the file system can.  So io_write_at takes
 * memory, sizes and offsets that are multiples of IO_ALIGN only. */
#define IO_ALIGN 4096u
tf_status io_create_direct(io_writer *w, const char *path, uint64_t bytes, tf_error *err);
/* io_commit in steps, for many files of one directory: finish each, sync the file system, rename
 * each, sync the directory.  A file written past the page cache is finished without a sync of its
 * own: asking the disk to empty its cache once a file can cost more than the file's bytes. */
tf_status io_finish(io_writer *w, tf_error *err);
tf_status io_sync_file_system(const char *dir, tf_error *err);
tf_status io_rename(io_writer *w, tf_error *err);
tf_status io_sync_dir(const char *dir, tf_error *err);
/* The three in one. */
tf_status io_write_file(const char *path, const void *data, size_t n, tf_error *err);

/* mkdir -p. */
tf_status io_make_dirs(const char *path, tf_error *err);
tf_status io_free_bytes(const char *path, uint64_t *bytes, tf_error *err);
bool io_exists(const char *path);
bool io_is_dir(const char *path);
/* Advice: the file will be read from begin to end. */
void io_read_ahead(int fd);
/* Makes this process the directory's one writer until *lock is closed by io_close, also when it is
 * killed.  False in *taken: another holds it.  A file system without locks always gives it, with
 * *lock -1. */
tf_status io_lock_dir(const char *dir, int *lock, bool *taken, tf_error *err);
/* Is this the temporary name of some io_writer? */
bool io_is_temporary(const char *name);
/* Removes a file; a missing one is fine. */
tf_status io_remove_file(const char *path, tf_error *err);
/* Removes a tree; a missing one is fine. */
tf_status io_remove_tree(const char *path, tf_error *err);
/* Names in a directory without . and .., sorted bytewise.  Free with io_free_names. */
tf_status io_list(const char *dir, char ***names, size_t *count, tf_error *err);
void io_free_names(char **names, size_t count);
/* "dir/name" into to; false when it does not fit. */
bool io_join(char *to, size_t size, const char *dir, const char *name);

#endif
