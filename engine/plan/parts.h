/* plan/parts - the steps of plan_make, for plan.c and for tests.
 *
 * Idea: units are shared out first; then every tensor of the model is found and cut; the text is
 * written last, from the finished items alone.
 * Trap: nothing here looks at a tensor's bytes; a plan needs headers only. */
#ifndef TF_ENGINE_PLAN_PARTS_H
#define TF_ENGINE_PLAN_PARTS_H

#include "engine/plan/plan.h"

#include <stdint.h>

/* Elements [begin, end) of dimension `dim` of a row-major tensor, as one run of equal pieces. */
plan_span plan_cut(const pack_tensor *tensor, uint32_t dim, uint64_t begin, uint64_t end);

/* How one axis is cut: rank r has its elements [bounds[r], bounds[r + 1]). */
typedef struct plan_bounds {
    uint32_t world;
    uint64_t at[TF_WORLD_MAX + 1];
} plan_bounds;

/* One rank's part of a tensor. */
typedef struct plan_piece {
    plan_span span;
    uint64_t shape[TF_DIMS_MAX];
} plan_piece;

/* The part of `rank` when dimension `dim`, one of whose elements stands for `scale` of the axis, is
 * cut at the bounds.  Fails with bytes-not-owned-once when the parts of all ranks do not add up. */
tf_status plan_take_part(const pack_tensor *tensor, const plan_bounds *bounds, uint32_t dim,
                         uint32_t scale, uint32_t rank, plan_piece *part, tf_error *err);

/* Fills items, item_of, layer_end and the byte counts of a plan whose ranges are set. */
tf_status plan_fill_items(tf_plan *plan, tf_error *err);

/* Adds the canonical text (FORMATS, "Plan text and fingerprint") to `text`, to `digest`, or both;
 * either may be NULL. */
tf_status plan_write_text(const tf_plan *plan, tf_text *text, digest_state *digest, tf_error *err);

#endif
