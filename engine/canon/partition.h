/* canon/partition - how units are shared out over ranks.
 *
 * Idea: share = floor(units * w / total) in 128-bit integers; left-over units go one each to the
 * largest remainders, ties to the LOWER rank; ranges are contiguous in rank order (MODEL 7).
 * Trap: a range's base is its begin, never rank * size. */
#ifndef TF_ENGINE_CANON_PARTITION_H
#define TF_ENGINE_CANON_PARTITION_H

#include "engine/base/status.h"

#include <stdint.h>

typedef struct canon_range {
    uint32_t begin;
    uint32_t end; /* half open */
} canon_range;

/* Who shares: world ranks, a weight each (all 1 when even machines). */
typedef struct canon_split {
    uint32_t world;          /* 1..TF_WORLD_MAX */
    const uint64_t *weights; /* [world]; NULL: all equal */
} canon_split;

/* ranges[world]; caller owns.  Fails by name: no ranks, too many, all weights zero, or a rank that
 * gets no unit (`what` names the unit: "output groups"). */
tf_status canon_partition(const char *what, uint32_t units, const canon_split *split,
                          canon_range *ranges, tf_error *err);

static inline uint32_t canon_size(canon_range r) {
    return r.end - r.begin;
}

#endif
