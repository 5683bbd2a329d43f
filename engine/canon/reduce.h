/* canon/reduce - the canonical sum of a split product (NUMERICS 3, "Across leaves").
 *
 * Idea: one binary tree over leaf indexes, of the next power of two of their number, the same at
 * every world; a rank pre-adds the whole subtrees it owns, every rank finishes the same tree.
 * Trap: an absent leaf is skipped; adding 0.0 for it would turn -0 into +0.
 * Trap: flushing of subnormals is the calling thread's setting, not this room's. */
#ifndef TF_ENGINE_CANON_REDUCE_H
#define TF_ENGINE_CANON_REDUCE_H

#include "engine/base/status.h"
#include "engine/canon/partition.h"

#include <stddef.h>
#include <stdint.h>

/* No range needs more intervals: two a level of a tree of 2^32 leaves. */
#define CANON_COVER_MAX 64u

/* The maximal subtrees whose leaves all lie in `range`, ascending, as leaf ranges: the fewest
 * partials that `range` can be shipped as.  A subtree's absent leaves (from `leaves` on) ask for
 * nothing, so the last interval may be short of a power of two.  `range` within [0, leaves).
 *
 *   cover   [CANON_COVER_MAX]   caller owns
 *
 * Returns how many; 0 for an empty range. */
uint32_t canon_cover(canon_range range, uint32_t leaves, canon_range *cover);

/* Joins the partials of all ranks, columns side by side.
 *
 *   parts   [count, n] f32   one row an interval, ascending by begin
 *   cover   [count]          subtrees that together hold every leaf of [0, leaves) once
 *   out     [n] f32          caller owns; may not overlap parts
 *
 * Fails with cover-not-whole or cover-not-aligned; out is then untouched.  No allocation. */
tf_status canon_reduce(const float *parts, const canon_range *cover, uint32_t count,
                       uint32_t leaves, size_t n, float *out, tf_error *err);

/* Pre-adds a rank's own leaves into what it ships: one row for each interval of canon_cover.
 *
 *   leaf    [canon_size(range), n] f32   partial of each of the rank's leaves
 *   cover   [count]                      canon_cover(range, leaves)
 *   out     [count, n] f32               caller owns; may not overlap leaf */
void canon_subtrees(const float *leaf, canon_range range, const canon_range *cover, uint32_t count,
                    size_t n, float *out);

#endif
