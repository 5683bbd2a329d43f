/* plan/rankimage - what the rank files of a plan are, byte by byte.
 *
 * Idea: the one path by which a plan's bytes become a file's.  Writing, the digest of what would be
 * written and the check of what a resumed write keeps differ only in where the bytes go.
 * Trap: the front is made last, for it holds the payloads' digests, but lies first in the file.
 * Used by: rankwrite, rankverify; nobody else. */
#ifndef TF_ENGINE_PLAN_RANKIMAGE_H
#define TF_ENGINE_PLAN_RANKIMAGE_H

#include "engine/base/arena.h"
#include "engine/base/status.h"
#include "engine/plan/plan.h"
#include "engine/plan/rankfile.h"
#include "engine/plan/rankread.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* One file to be. */
typedef struct rankimage {
    char name[RANKFILE_NAME_SIZE];
    rankfile_head head;     /* its index digest comes with rankimage_make */
    const plan_item *items; /* [head.entries]; plan owns */
} rankimage;

typedef struct rankimage_set {
    const tf_plan *plan;
    rankimage *images; /* [count], plan order; arena owns */
    uint32_t count;
    uint64_t bytes; /* of all files */
    tf_arena arena;
} rankimage_set;

/* Lays out every file: name and length.  Free with rankimage_free, also after a failure. */
tf_status rankimage_plan(const tf_plan *plan, rankimage_set *out, tf_error *err);
void rankimage_free(rankimage_set *set);
/* The image of that layer, or NULL. */
const rankimage *rankimage_find(const rankimage_set *set, uint32_t layer);

/* A worker's memory. */
typedef struct rankscratch {
    uint8_t *chunk; /* [chunk_bytes], aligned for direct writes */
    size_t chunk_bytes;
    rankfile_entry *entries; /* [entry_capacity] of the file in the making */
    uint32_t entry_capacity;
    rankread reader;
    char path[2 * TF_PATH_BYTES_MAX]; /* of the file that reader reads */
} rankscratch;
/* Bytes are read and digested in pieces that stay in a core's cache in between. */
#define RANKSCRATCH_PIECE ((size_t)256 << 10)
/* What one direct write takes, so that its start is small against its run. */
#define RANKSCRATCH_WRITE ((size_t)4 << 20)
/* One for each worker; chunk_bytes is whole pieces.  Free with rankscratch_free; caller owns. */
tf_status rankscratch_take(uint32_t workers, size_t chunk_bytes, rankscratch **out, tf_error *err);
void rankscratch_free(rankscratch *scratch, uint32_t workers);

/* Where a file's bytes go: whole blocks of RANKFILE_ALIGN from aligned memory, each once, the front
 * at offset 0 last or with all the rest.  A sink that only counts may get NULL and no offsets. */
typedef struct rankimage_sink {
    tf_status (*put)(void *context, const uint8_t *data, size_t n, uint64_t offset, tf_error *err);
    void *context;
    bool only_counts;
} rankimage_sink;
/* Makes the file's bytes and its digest, reading the source once. */
tf_status rankimage_make(rankimage *image, const tf_pack *pack, rankscratch *scratch,
                         const rankimage_sink *sink, tf_digest *digest, tf_error *err);

/* What is done of all, told from one thread at a time. */
typedef struct rankmeter {
    const rankfile_options *options; /* may be NULL */
    pthread_mutex_t lock;
    uint64_t done, total;
} rankmeter;
void rankmeter_begin(rankmeter *meter, const rankfile_options *options, uint64_t total);
void rankmeter_end(rankmeter *meter);
/* interrupted when the user's function says so, or on tf_stop_request. */
tf_status rankmeter_add(rankmeter *meter, uint64_t n, tf_error *err);

/* Reads entry i and the padding behind it, and holds both to digest and zeros.  Before the first
 * of a file, rankscratch_read_from it. */
void rankscratch_read_from(rankscratch *scratch, const rankfile *file);
tf_status rankfile_check(const rankfile *file, uint32_t i, rankscratch *scratch, rankmeter *meter,
                         tf_error *err);

/* What the files of all ranks share: family, world, pack, config. */
tf_status rankset_compare(const char *path, const rankfile_head *found, const rankfile_head *want,
                          tf_error *err);
/* head: what the files share.  Makes the rows, zeroed. */
tf_status rankset_begin(const rankfile_head *head, uint32_t count, rankfile_set *out,
                        tf_error *err);
/* Sums up once every row is filled. */
tf_status rankset_end(rankfile_set *set, tf_error *err);
/* "dir/rank<r>". */
tf_status rankset_folder(const char *dir, uint32_t rank, char path[TF_PATH_BYTES_MAX],
                         tf_error *err);
/* "folder/name", of a folder that rankset_folder named: it fits. */
void rankset_path(const char *folder, const char *name, char path[TF_PATH_BYTES_MAX]);

#endif
