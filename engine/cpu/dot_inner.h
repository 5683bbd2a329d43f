/* cpu/dot_inner - the steps of a product that every instruction set has a version of.
 *
 * Idea: dot_plain.c is the definition; the others hold the same sums in wider registers.  All of them
 * take blocks of 128 outputs, so that no version sees where a row or a matrix ends. */
#ifndef TF_ENGINE_CPU_DOT_INNER_H
#define TF_ENGINE_CPU_DOT_INNER_H

#include "engine/canon/fmath.h"
#include "engine/cpu/dot.h"

/* One sub-block of weights as f32: w[k * stride + lane]. */
typedef struct dot_slab {
    const float *w;
    size_t stride;   /* 16 * panels */
    uint32_t panels; /* 1 to 8 */
    uint32_t count;  /* k: 1 to 32 */
} dot_slab;

typedef struct dot_steps {
    /* y = R(x . suh), 128 values. */
    void (*turn_in)(const float *x, const float *suh, float *y);
    /* y = R(y) . svh, 128 values. */
    void (*turn_out)(float *y, const float *svh);
    /* To bf16 and back; y may be x. */
    void (*round_bf16)(const float *x, uint32_t count, float *y);
    /* A sub-block of stored weights to f32: slab [count, stride]. */
    void (*widen_bf16)(const uint16_t *from, const dot_slab *s, float *slab);
    void (*widen_f16)(const uint16_t *from, const dot_slab *s, float *slab);
    void (*widen_exl3)(const port_linear *w, uint32_t block, uint32_t k, float *slab);
    /* That and the product for one row, a whole sub-block and a whole block of exl3 or bf16 weights, which go into the
     * sums as they are read.  NULL: not here. */
    void (*one_row)(const port_linear *w, uint32_t block, uint32_t k, const float *x, float *acc);
    /* acc[row] = acc[row] + (even + odd); x [rows, 128] at the sub-block's first k, acc [rows, 128]. */
    void (*multiply)(const dot_slab *s, const float *x, uint32_t rows, float *acc);
    /* acc = fmaf(weight, part, acc), 128 values. */
    void (*add_weighted)(float weight, const float *part, float *acc);
    /* y = silu(min(g, limit)) . clamp(u, -limit, limit). */
    void (*gate)(const float *g, const float *u, float limit, uint32_t count, float *y);
} dot_steps;

extern const dot_steps dot_plain;
#if defined(__x86_64__)
extern const dot_steps dot_avx2;
extern const dot_steps dot_avx512;
void dot_exl3_widen_avx512(const port_linear *w, uint32_t block, uint32_t k, float *slab);
void dot_exl3_one_row_avx512(const port_linear *w, uint32_t block, uint32_t k, const float *x,
                             float *acc);
/* bf16 weights of the bf16 profile: k_begin to k_end, whole sub-blocks; acc holds +0. */
void dot_tiles_amx(const dot_task *t, dot_scratch *s, uint32_t k_end, float *acc);
#endif
/* Weights k to k + count - 1 of a block, into `slab`, or where they already lie as f32. */
void dot_widen(const dot_steps *steps, const port_linear *w, uint32_t block, uint32_t k,
               float *slab, dot_slab *out);
const dot_steps *dot_steps_of(cpu_isa isa);

#define DOT_TURN  0x1.6a09e6p-4f /* 1 / sqrt(128) */
#define DOT_AHEAD 8192           /* bytes that a stream of weights is asked for before it is read */

/* Small loops over registers leave nothing to index. */
#if defined(__clang__)
#define DOT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define DOT_UNROLL _Pragma("GCC unroll 16")
#endif
#define DOT_INLINE static inline __attribute__((always_inline))

static inline const float *dot_f32_at(const port_linear *w, uint32_t block, uint32_t k) {
    size_t lanes = PANEL * panel_count(w, block);
    return (const float *)w->data + (size_t)block * PANEL_BLOCK * w->k + k * lanes;
}
/* bf16 or f16: first weight of row k; of its pair, where k is even. */
static inline const uint16_t *dot_u16_at(const port_linear *w, uint32_t block, uint32_t k) {
    size_t lanes = PANEL * panel_count(w, block);
    size_t rows = w->dtype == DTYPE_BF16 ? ((size_t)w->k + 1) / 2 * 2 : w->k;
    return (const uint16_t *)w->data + (size_t)block * PANEL_BLOCK * rows + k * lanes;
}
/* exl3: the 8 tiles of 16 k, k a multiple of 16. */
static inline const uint16_t *dot_tiles_at(const port_linear *w, uint32_t block, uint32_t k) {
    size_t tile = PANEL_RUNS * (size_t)w->bits2;
    return (const uint16_t *)w->data + ((size_t)block * w->k + k) / EXL3_TILE * 8 * tile;
}

/* Its own loop in each version: 16 independent lanes are vectorised as they stand. */
static inline void dot_gate(const float *g, const float *u, float limit, uint32_t count, float *y) {
    for (uint32_t i = 0; i < count; i++) {
        float gate = g[i] < limit ? g[i] : limit;
        float value = u[i] < limit ? u[i] : limit;
        value = value > -limit ? value : -limit;
        y[i] = fm_silu(gate) * value;
    }
}

#endif
