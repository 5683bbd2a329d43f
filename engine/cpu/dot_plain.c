/* cpu/dot_plain - the steps of a product in plain C: the definition. */
#include "engine/cpu/dot_inner.h"

#include <math.h>

/* Neighbours first; the sum goes to the lower index, the difference to the higher. */
static void rotate(float v[DOT_BLOCK]) {
    for (uint32_t half = 1; half < DOT_BLOCK; half *= 2) {
        for (uint32_t i = 0; i < DOT_BLOCK; i++) {
            if ((i & half) != 0) continue;
            float a = v[i];
            float b = v[i + half];
            v[i] = a + b;
            v[i + half] = a - b;
        }
    }
}

static void turn_in(const float *x, const float *suh, float *y) {
    for (uint32_t i = 0; i < DOT_BLOCK; i++)
        y[i] = x[i] * suh[i];
    rotate(y);
    for (uint32_t i = 0; i < DOT_BLOCK; i++)
        y[i] = y[i] * DOT_TURN;
}

static void turn_out(float *y, const float *svh) {
    rotate(y);
    for (uint32_t i = 0; i < DOT_BLOCK; i++) {
        float turned = y[i] * DOT_TURN;
        y[i] = turned * svh[i];
    }
}

static void round_bf16(const float *x, uint32_t count, float *y) {
    for (uint32_t i = 0; i < count; i++)
        y[i] = f32_from_bf16(bf16_from_f32(x[i]));
}

/* One row of a tile: 16 columns. */
static void widen_row(const port_linear *w, const uint16_t *tile, uint32_t row, float *to) {
    for (uint32_t column = 0; column < EXL3_TILE; column++) {
        panel_place p = panel_places[w->bits2][row][column / PANEL_RUNS];
        uint32_t run = column % PANEL_RUNS;
        uint32_t before = p.word > 0 ? (p.word - 1) * PANEL_RUNS + run
                                     : (w->bits2 - 1) * PANEL_RUNS + (run + 7) % PANEL_RUNS;
        uint32_t both = (uint32_t)tile[before] << 16 | tile[p.word * PANEL_RUNS + run];
        to[column] = f32_from_f16(exl3_code(w->codebook, (uint16_t)(both >> p.shift)));
    }
}

static void widen_exl3(const port_linear *w, uint32_t block, uint32_t k, float *slab) {
    for (uint32_t i = 0; i < DOT_SUB; i++) {
        const uint16_t *tiles = dot_tiles_at(w, block, k + i / EXL3_TILE * EXL3_TILE);
        for (uint32_t p = 0; p < DOT_BLOCK / PANEL; p++)
            widen_row(w, tiles + p * PANEL_RUNS * w->bits2, i % EXL3_TILE,
                      slab + i * DOT_BLOCK + p * PANEL);
    }
}

static void widen_bf16(const uint16_t *from, const dot_slab *s, float *slab) {
    for (uint32_t k = 0; k < s->count; k++) {
        for (size_t lane = 0; lane < s->stride; lane++)
            slab[k * s->stride + lane] =
                f32_from_bf16(from[k / 2 * 2 * s->stride + 2 * lane + k % 2]);
    }
}

static void widen_f16(const uint16_t *from, const dot_slab *s, float *slab) {
    for (size_t i = 0; i < s->count * s->stride; i++)
        slab[i] = f32_from_f16(from[i]);
}

static void multiply(const dot_slab *s, const float *x, uint32_t rows, float *acc) {
    for (uint32_t r = 0; r < rows; r++, x += DOT_BLOCK, acc += DOT_BLOCK) {
        for (size_t lane = 0; lane < s->stride; lane++) {
            float even = 0.0f;
            float odd = 0.0f;
            for (uint32_t k = 0; k < s->count; k += 2)
                even = fmaf(x[k], s->w[k * s->stride + lane], even);
            for (uint32_t k = 1; k < s->count; k += 2)
                odd = fmaf(x[k], s->w[k * s->stride + lane], odd);
            acc[lane] = acc[lane] + (even + odd);
        }
    }
}

static void add_weighted(float weight, const float *part, float *acc) {
    for (uint32_t i = 0; i < DOT_BLOCK; i++)
        acc[i] = fmaf(weight, part[i], acc[i]);
}

static void gate(const float *g, const float *u, float limit, uint32_t count, float *y) {
    dot_gate(g, u, limit, count, y);
}

const dot_steps dot_plain = {
    .turn_in = turn_in,
    .turn_out = turn_out,
    .round_bf16 = round_bf16,
    .widen_bf16 = widen_bf16,
    .widen_f16 = widen_f16,
    .widen_exl3 = widen_exl3,
    .multiply = multiply,
    .add_weighted = add_weighted,
    .gate = gate,
};
