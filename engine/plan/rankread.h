/* plan/rankread - many small reads of neighbouring bytes, by few larger ones.
 *
 * Idea: a system call costs as much as copying some ten KiB, and weights are full of short runs: a
 * column split's, a scale's, a flag's.  Short reads come out of blocks kept from before, as many as
 * cover a small layer, for a plan's order is not the file's.
 * Trap: the blocks are of the file they were read from; its descriptor may be another file's later.
 * Used by: rankimage, rankverify. */
#ifndef TF_ENGINE_PLAN_RANKREAD_H
#define TF_ENGINE_PLAN_RANKREAD_H

#include "engine/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define RANKREAD_BLOCK ((size_t)128 << 10)
#define RANKREAD_SLOTS 16u
#define RANKREAD_BYTES (RANKREAD_BLOCK * RANKREAD_SLOTS)

typedef struct rankread {
    int fd;
    const char *path;              /* for messages; borrowed */
    uint64_t limit;                /* the file's length: a block never reaches beyond */
    uint8_t *memory;               /* [RANKREAD_BYTES]; caller owns */
    uint64_t held[RANKREAD_SLOTS]; /* number of the block in each slot, plus 1; 0: none */
} rankread;

/* Forgets what it held, keeps the memory. */
void rankread_open(rankread *r, int fd, const char *path, uint64_t limit);
/* Exactly n bytes at `at`. */
tf_status rankread_at(rankread *r, uint64_t at, void *to, size_t n, tf_error *err);

#endif
