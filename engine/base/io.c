/* base/io - see the header.
 *
 * Trap: O_DIRECT, fallocate and flock are beyond POSIX, so this file alone asks for them; each has
 * a way to do without where the file system refuses it. */
#define _GNU_SOURCE
#include "engine/base/io.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/fault.h"
#include "engine/base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* read and write may be cut short or interrupted at any size; 1 GiB a call is safe everywhere. */
#define IO_CHUNK ((size_t)1 << 30)

tf_status io_open(const char *path, int *fd, uint64_t *size, tf_error *err) {
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    int saved = errno;
    if (*fd < 0) return tf_fail_errno(err, TF_W_CANNOT_OPEN, saved, "opening %s", path);
    struct stat st;
    int failed = fstat(*fd, &st);
    saved = errno;
    if (failed != 0 || S_ISDIR(st.st_mode)) {
        io_close(fd);
        saved = failed != 0 ? saved : EISDIR;
        return tf_fail_errno(err, TF_W_CANNOT_OPEN, saved, "opening %s", path);
    }
    *size = (uint64_t)st.st_size;
    return TF_OK;
}

void io_close(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

tf_status io_read_at(int fd, const char *path, void *to, size_t n, uint64_t offset, tf_error *err) {
    char *at = to;
    size_t left = n;
    while (left > 0) {
        ssize_t got = -1;
        errno = EIO;
        if (!fault_hits(FAULT_READ)) {
            got = pread(fd, at, left < IO_CHUNK ? left : IO_CHUNK, (off_t)offset);
        }
        int saved = errno;
        if (got < 0 && saved == EINTR) continue;
        if (got < 0) {
            return tf_fail_errno(err, TF_W_CANNOT_READ, saved, "reading %s at byte %llu", path,
                                 (unsigned long long)offset);
        }
        if (got == 0) {
            tf_fail(err, TF_W_CANNOT_READ, "reading %s at byte %llu", path,
                    (unsigned long long)offset);
            tf_found(err, "the end of the file");
            return tf_expected(err, "%zu more bytes", left);
        }
        at += got;
        left -= (size_t)got;
        offset += (uint64_t)got;
    }
    return TF_OK;
}

tf_status io_read_file(const char *path, uint64_t limit_bytes, char **data, size_t *n,
                       tf_error *err) {
    int fd = -1;
    uint64_t size = 0;
    char *buf = NULL;
    tf_status status = TF_OK;
    *data = NULL;
    *n = 0;
    TF_TRY(io_open(path, &fd, &size, err));
    if (size > limit_bytes) {
        tf_fail(err, TF_W_TOO_LARGE, "reading %s", path);
        tf_found(err, "%llu bytes", (unsigned long long)size);
        TF_TRY(tf_expected(err, "at most %llu bytes", (unsigned long long)limit_bytes));
    }
    buf = mem_take((size_t)size + 1);
    if (buf == NULL) {
        TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "reading %s (%llu bytes)", path,
                       (unsigned long long)size));
    }
    TF_TRY(io_read_at(fd, path, buf, (size_t)size, 0, err));
    *data = buf;
    *n = (size_t)size;
    buf = NULL;
done:
    io_close(&fd);
    mem_free(buf);
    return status;
}

#define TEMPORARY_MARK ".tmp-"

bool io_is_temporary(const char *name) {
    return strstr(name, TEMPORARY_MARK) != NULL;
}

/* Splits off the directory: "." when there is none. */
static void parent_of(const char *path, char *dir, size_t size) {
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (n == 0) {
        snprintf(dir, size, ".");
        return;
    }
    snprintf(dir, size, "%.*s", (int)n, path);
}

static tf_status create(io_writer *w, const char *path, int flags, tf_error *err) {
    static _Atomic uint64_t serial;
    *w = (io_writer){.fd = -1};
    int n = snprintf(w->path, sizeof w->path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof w->path) {
        tf_fail(err, TF_W_TOO_LARGE, "creating %s", path);
        tf_found(err, "a path of %d bytes", n);
        return tf_expected(err, "fewer than %zu bytes", sizeof w->path);
    }
    snprintf(w->temporary, sizeof w->temporary, "%s" TEMPORARY_MARK "%ld-%llu", path,
             (long)getpid(), (unsigned long long)atomic_fetch_add(&serial, 1));
    errno = EIO;
    if (!fault_hits(FAULT_WRITE)) {
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | flags, 0666);
        if (w->fd < 0 && errno == EINVAL && flags != 0) {
            /* The file system knows no O_DIRECT; it may have made the file before it said so. */
            unlink(w->temporary);
            flags = 0;
            w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        }
    }
    int saved = errno;
    if (w->fd < 0) return tf_fail_errno(err, TF_W_CANNOT_WRITE, saved, "creating %s", path);
    w->open = true;
    w->direct = flags != 0;
    return TF_OK;
}

tf_status io_create(io_writer *w, const char *path, tf_error *err) {
    return create(w, path, 0, err);
}

static tf_status write_failed(const io_writer *w, int saved, tf_error *err) {
    tf_word word = saved == ENOSPC || saved == EDQUOT ? TF_W_NO_SPACE : TF_W_CANNOT_WRITE;
    tf_fail_errno(err, word, saved, "writing %s", w->path);
    if (word == TF_W_NO_SPACE) return tf_remedy(err, "free space there or choose another folder");
    return err->status;
}

tf_status io_create_direct(io_writer *w, const char *path, uint64_t bytes, tf_error *err) {
    tf_status status = create(w, path, O_DIRECT, err);
    if (status != TF_OK || bytes == 0) return status;
    int failed = -1;
    int saved = EIO;
    if (!fault_hits(FAULT_WRITE)) {
        failed = fallocate(w->fd, 0, 0, (off_t)bytes);
        saved = errno;
    }
    /* Without fallocate the space is found out by writing. */
    if (failed == 0 || saved == EOPNOTSUPP || saved == ENOSYS || saved == EINTR) return TF_OK;
    status = write_failed(w, saved, err);
    io_discard(w);
    return status;
}

/* Some devices want larger blocks than IO_ALIGN: such a file is written through the cache. */
static bool leave_direct(io_writer *w) {
    if (!w->direct) return false;
    w->direct = false;
    int flags = fcntl(w->fd, F_GETFL);
    return flags >= 0 && fcntl(w->fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

static tf_status write_some(io_writer *w, const void *data, size_t n, bool positioned,
                            uint64_t offset, tf_error *err) {
    const char *at = data;
    while (n > 0) {
        size_t chunk = n < IO_CHUNK ? n : IO_CHUNK;
        ssize_t put = -1;
        errno = EIO;
        if (!fault_hits(FAULT_WRITE)) {
            put = positioned ? pwrite(w->fd, at, chunk, (off_t)offset) : write(w->fd, at, chunk);
        }
        int saved = errno;
        if (put < 0 && saved == EINTR) continue;
        if (put < 0 && saved == EINVAL && leave_direct(w)) continue;
        if (put < 0) return write_failed(w, saved, err);
        at += put;
        n -= (size_t)put;
        offset += (uint64_t)put;
    }
    return TF_OK;
}

tf_status io_write(io_writer *w, const void *data, size_t n, tf_error *err) {
    return write_some(w, data, n, false, 0, err);
}

tf_status io_write_at(io_writer *w, const void *data, size_t n, uint64_t offset, tf_error *err) {
    return write_some(w, data, n, true, offset, err);
}

tf_status io_finish(io_writer *w, tf_error *err) {
    int failed = -1;
    errno = EIO;
    /* What went through the page cache tells its errors to fsync alone. */
    if (!fault_hits(FAULT_WRITE)) failed = w->direct ? 0 : fsync(w->fd);
    int saved = errno;
    if (failed == 0) {
        failed = close(w->fd);
        saved = errno;
        w->fd = -1;
    }
    return failed == 0 ? TF_OK : write_failed(w, saved, err);
}

static int open_dir(const char *dir) {
    return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

tf_status io_sync_file_system(const char *dir, tf_error *err) {
    int failed = -1;
    int fd = -1;
    errno = EIO;
    if (!fault_hits(FAULT_WRITE)) fd = open_dir(dir);
    int saved = errno;
    if (fd >= 0) {
        failed = syncfs(fd);
        saved = errno;
        close(fd);
    }
    if (failed == 0) return TF_OK;
    return tf_fail_errno(err, TF_W_CANNOT_WRITE, saved, "syncing the file system of %s", dir);
}

tf_status io_rename(io_writer *w, tf_error *err) {
    int failed = -1;
    errno = EIO;
    if (!fault_hits(FAULT_WRITE)) failed = rename(w->temporary, w->path);
    int saved = errno;
    if (failed != 0) return write_failed(w, saved, err);
    w->open = false;
    return TF_OK;
}

tf_status io_sync_dir(const char *dir, tf_error *err) {
    int failed = -1;
    int fd = open_dir(dir);
    int saved = errno;
    if (fd >= 0) {
        failed = fsync(fd);
        saved = errno;
        close(fd);
        /* Some file systems know no sync of a directory; the renames themselves held. */
        if (failed != 0 && saved == EINVAL) failed = 0;
    }
    if (failed == 0) return TF_OK;
    return tf_fail_errno(err, TF_W_CANNOT_WRITE, saved, "syncing the folder %s", dir);
}

tf_status io_commit(io_writer *w, tf_error *err) {
    char dir[TF_PATH_BYTES_MAX];
    parent_of(w->path, dir, sizeof dir);
    tf_status status = TF_OK;
    TF_ASSERT(!w->direct);
    TF_TRY(io_finish(w, err));
    TF_TRY(io_rename(w, err));
    TF_TRY(io_sync_dir(dir, err));
done:
    return status;
}

void io_discard(io_writer *w) {
    if (!w->open) return;
    if (w->fd >= 0) close(w->fd);
    unlink(w->temporary);
    w->fd = -1;
    w->open = false;
}

tf_status io_write_file(const char *path, const void *data, size_t n, tf_error *err) {
    io_writer w;
    tf_status status = TF_OK;
    TF_TRY(io_create(&w, path, err));
    TF_TRY(io_write(&w, data, n, err));
    TF_TRY(io_commit(&w, err));
done:
    io_discard(&w);
    return status;
}

tf_status io_make_dirs(const char *path, tf_error *err) {
    char part[TF_PATH_BYTES_MAX];
    int n = snprintf(part, sizeof part, "%s", path);
    if (n <= 0 || (size_t)n >= sizeof part) {
        return tf_fail_errno(err, TF_W_CANNOT_WRITE, n <= 0 ? ENOENT : ENAMETOOLONG,
                             "making the folder '%s'", path);
    }
    for (char *at = part + 1;; at++) {
        if (*at != '/' && *at != '\0') continue;
        char kept = *at;
        *at = '\0';
        int failed = mkdir(part, 0777);
        int saved = errno;
        if (failed != 0 && !(saved == EEXIST && io_is_dir(part))) {
            tf_fail_errno(err, TF_W_CANNOT_WRITE, saved, "making the folder %s", part);
            return tf_remedy(err, "choose a folder that can be written");
        }
        *at = kept;
        if (kept == '\0') return TF_OK;
    }
}

tf_status io_free_bytes(const char *path, uint64_t *bytes, tf_error *err) {
    struct statvfs st;
    int failed = statvfs(path, &st);
    int saved = errno;
    if (failed != 0)
        return tf_fail_errno(err, TF_W_CANNOT_OPEN, saved, "asking %s for free space", path);
    *bytes = (uint64_t)st.f_bavail * (uint64_t)st.f_frsize;
    return TF_OK;
}

void io_read_ahead(int fd) {
    /* Where it is not taken, reading is only slower. */
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

tf_status io_lock_dir(const char *dir, int *lock, bool *taken, tf_error *err) {
    *taken = false;
    *lock = open_dir(dir);
    int saved = errno;
    if (*lock < 0) return tf_fail_errno(err, TF_W_CANNOT_OPEN, saved, "opening %s", dir);
    int failed = flock(*lock, LOCK_EX | LOCK_NB);
    saved = errno;
    *taken = failed == 0 || saved != EWOULDBLOCK;
    if (failed != 0) io_close(lock);
    return TF_OK;
}

tf_status io_remove_file(const char *path, tf_error *err) {
    int failed = unlink(path);
    int saved = errno;
    if (failed == 0 || saved == ENOENT) return TF_OK;
    return tf_fail_errno(err, TF_W_CANNOT_WRITE, saved, "removing %s", path);
}

bool io_exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

bool io_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

tf_status io_remove_tree(const char *path, tf_error *err) {
    struct stat st;
    if (lstat(path, &st) != 0) return TF_OK;
    if (S_ISDIR(st.st_mode)) {
        char **names = NULL;
        size_t count = 0;
        tf_status status = io_list(path, &names, &count, err);
        for (size_t i = 0; i < count && status == TF_OK; i++) {
            char child[TF_PATH_BYTES_MAX];
            if (!io_join(child, sizeof child, path, names[i])) {
                status = tf_fail_errno(err, TF_W_CANNOT_WRITE, ENAMETOOLONG, "removing %s/%s", path,
                                       names[i]);
                break;
            }
            status = io_remove_tree(child, err);
        }
        io_free_names(names, count);
        if (status != TF_OK) return status;
    }
    int failed = S_ISDIR(st.st_mode) ? rmdir(path) : unlink(path);
    int saved = errno;
    if (failed != 0 && saved != ENOENT) {
        return tf_fail_errno(err, TF_W_CANNOT_WRITE, saved, "removing %s", path);
    }
    return TF_OK;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

tf_status io_list(const char *dir, char ***names, size_t *count, tf_error *err) {
    *names = NULL;
    *count = 0;
    size_t capacity = 0;
    char **list = NULL;
    size_t n = 0;
    tf_status status = TF_OK;
    DIR *handle = opendir(dir);
    int saved = errno;
    if (handle == NULL) return tf_fail_errno(err, TF_W_CANNOT_OPEN, saved, "listing %s", dir);
    for (struct dirent *e = readdir(handle); e != NULL; e = readdir(handle)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (n == capacity) {
            capacity = capacity == 0 ? 16 : capacity * 2;
            char **grown = mem_grow(list, capacity * sizeof *list);
            if (grown == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "listing %s", dir));
            list = grown;
        }
        size_t length = strlen(e->d_name) + 1;
        list[n] = mem_take(length);
        if (list[n] == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "listing %s", dir));
        memcpy(list[n++], e->d_name, length);
    }
    if (n > 1) qsort(list, n, sizeof *list, by_bytes);
    *names = list;
    *count = n;
    list = NULL;
done:
    closedir(handle);
    if (list != NULL) io_free_names(list, n);
    return status;
}

void io_free_names(char **names, size_t count) {
    for (size_t i = 0; i < count; i++)
        mem_free(names[i]);
    mem_free(names);
}

bool io_join(char *to, size_t size, const char *dir, const char *name) {
    int n = snprintf(to, size, "%s/%s", dir, name);
    return n > 0 && (size_t)n < size;
}
