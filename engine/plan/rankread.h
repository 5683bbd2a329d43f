/* plan/rankread - many small reads of neighbouring bytes, by few large ones.
 *
 * Idea: a system call costs as much as copying some ten KiB, and weights are full of short runs: a
 * column split's, a scale's, a flag's.  Short reads near each other come out of a window.
 * Trap: the window is of the file it was opened for; a descriptor may be another file's later.
 * Used by: rankimage, rankverify. */
#ifndef TF_ENGINE_PLAN_RANKREAD_H
#define TF_ENGINE_PLAN_RANKREAD_H

#include "engine/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* It stays in a core's cache while it is used. */
#define RANKREAD_WINDOW ((size_t)256 << 10)
/* From here on copying twice costs more than the call it saves. */
#define RANKREAD_LONG ((size_t)64 << 10)

typedef struct rankread {
    int fd;
    const char *path;    /* for messages; borrowed */
    uint64_t limit;      /* the file's length: a window never reaches beyond */
    uint8_t *window;     /* [RANKREAD_WINDOW]; caller owns */
    uint64_t begin, end; /* what of the file the window holds */
    uint64_t last;       /* where the read before this one ended */
} rankread;

/* Forgets what it held, keeps the window's memory. */
void rankread_open(rankread *r, int fd, const char *path, uint64_t limit);
/* Exactly n bytes at `at`. */
tf_status rankread_at(rankread *r, uint64_t at, void *to, size_t n, tf_error *err);
/* The same bytes, less than RANKREAD_LONG of them, in the window; borrowed until the next read. */
tf_status rankread_view(rankread *r, uint64_t at, size_t n, const uint8_t **view, tf_error *err);

#endif
