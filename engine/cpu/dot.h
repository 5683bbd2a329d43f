/* cpu/dot - y = xW by the canonical sum (NUMERICS, The canonical dot).
 *
 * Idea: a leaf of K is summed in sub-blocks of 32: a chain over the even k and one over the odd k, both
 * of fmaf from +0; then acc = acc + (even + odd).  Weights are widened to f32 for one sub-block and 128
 * outputs at a time, and every row takes them from there: one way for one row and for many.
 * Idea: EXL3 (MODEL 8): x is scaled by suh and rotated before, the leaf's sum rotated and scaled by
 * svh after, every multiplication and every level of the rotation (neighbours first) rounded alone.
 * Trap: rotation and scales belong to the leaf, before the tree: experts' sums have scales of their own.
 * Trap: in profile bf16, x is rounded where weights are bf16 or EXL3 (after the rotation); f16 and
 * f32 weights meet x as it is. */
#ifndef TF_ENGINE_CPU_DOT_H
#define TF_ENGINE_CPU_DOT_H

#include "engine/canon/partition.h"
#include "engine/cpu/cpu.h"
#include "engine/cpu/panel.h"

#define DOT_SUB   32u
#define DOT_BLOCK PANEL_BLOCK /* outputs of a leaf's sum; and k of a rotation */
#define DOT_ROWS  128u        /* rows that one call of dot_leaf may have */

/* What a leaf's sum needs on the side; 64-byte aligned, one a worker. */
typedef struct dot_scratch {
    float slab[DOT_SUB * DOT_BLOCK];  /* widened weights */
    float x[DOT_ROWS * DOT_BLOCK];    /* the rows, ready to be multiplied */
    uint16_t narrow[DOT_ROWS * 512u]; /* rows of 512 k in bf16, as tiles want them */
} dot_scratch;

typedef struct dot_task {
    const port_linear *w;
    const float *const *x;   /* [rows] at k = 0 */
    uint32_t rows;           /* 1 to DOT_ROWS */
    uint32_t k_begin, k_end; /* the leaf; k_begin a multiple of 128 */
    uint32_t block;          /* outputs 128 * block to + 127 */
} dot_task;

/* acc [rows, 128]: the leaf's sum of each row; outputs that are not there hold +0 or noise of a short
 * last panel. */
void dot_leaf(const cpu_device *d, dot_scratch *s, const dot_task *t, float *acc);

/* y = xW over all of K as one leaf, on the calling thread: for kernels that need a small product.
 * scratch [DOT_WHOLE_BYTES], 64-byte aligned. */
#define DOT_WHOLE_BYTES (sizeof(dot_scratch) + sizeof(float) * DOT_ROWS * DOT_BLOCK)
typedef struct dot_rows {
    const float *x;
    size_t x_stride;
    uint32_t rows;
    float *y;
    size_t y_stride;
} dot_rows;
void dot_whole(const cpu_device *d, void *scratch, const port_linear *w, const dot_rows *r);

/* What a call ships of its own leaves: a slab for each interval of the cover, or one of all of them where
 * there is no cover. */
typedef struct dot_slabs {
    port_ints cover; /* begin and end by turns */
    int64_t first_leaf, leaves;
} dot_slabs;
uint32_t dot_slabs_count(const port_ints *cover);
canon_range dot_interval(const dot_slabs *s, uint32_t i);
/* Of the widest interval. */
uint32_t dot_most_leaves(const dot_slabs *s);
/* sums [leaves + 1][size]: the subtree over the interval's leaves; where one leaf is all, that leaf. */
float *dot_join(float *sums, canon_range own, size_t size);

/* Runs jobs on the team, or on the calling thread where all of them together are a matter of
 * microseconds; `products` is the number of multiplications. */
void dot_run(const cpu_device *d, size_t jobs, uint64_t products, team_job job, void *context);

#endif
