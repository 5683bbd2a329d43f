#include "engine/cpu/panel.h"

#include <string.h>

#define PLACE(bits, row, half) \
    { PANEL_WORD(bits, row, half), PANEL_SHIFT(bits, row, half) }
#define PLACES(bits, row) \
    { PLACE(bits, row, 0), PLACE(bits, row, 1) }
const panel_place panel_places[17][EXL3_TILE][2] = PANEL_TABLE(PLACES);

/* Bytes of k rows of a plain linear: pairs are whole. */
static uint64_t rows_of(const device_source *s) {
    return s->dtype == DTYPE_BF16 ? ((uint64_t)s->k + 1) / 2 * 2 : s->k;
}

static uint64_t plain_bytes(const device_source *s) {
    uint64_t panels = (s->n + PANEL - 1) / PANEL;
    return panels * rows_of(s) * PANEL * dtype_bytes(s->dtype);
}

/* A multiple of 64: k and n are multiples of 128. */
static uint64_t tiles_bytes(const device_source *s) {
    return (uint64_t)s->k * s->n * s->bits2 / 16;
}

uint64_t panel_bytes(const device_source *s) {
    if (s->form == WEIGHT_PLAIN) return plain_bytes(s);
    return tiles_bytes(s) + ((uint64_t)s->k + s->n) * sizeof(float);
}

/* Sixteen outputs go side by side, one unit of each after another: a pair of bf16, or one weight.
 *   row   first of `outputs` rows of k weights     to   [units] of [lanes], at the panel's first lane */
typedef struct panel_shape {
    size_t k, units, lanes, outputs;
} panel_shape;

static void panel_pairs(const uint16_t *row, const panel_shape *p, uint32_t *to) {
    for (size_t u = 0; u < p->k / 2; u++) {
        for (size_t n = 0; n < p->outputs; n++)
            memcpy(&to[u * p->lanes + n], row + n * p->k + 2 * u, sizeof *to);
    }
    for (size_t n = 0; p->k % 2 != 0 && n < p->outputs; n++)
        memcpy(&to[p->k / 2 * p->lanes + n], row + n * p->k + p->k - 1, sizeof *row);
}

static void panel_halves(const uint16_t *row, const panel_shape *p, uint16_t *to) {
    for (size_t u = 0; u < p->units; u++) {
        for (size_t n = 0; n < p->outputs; n++)
            to[u * p->lanes + n] = row[n * p->k + u];
    }
}

static void panel_words(const uint32_t *row, const panel_shape *p, uint32_t *to) {
    for (size_t u = 0; u < p->units; u++) {
        for (size_t n = 0; n < p->outputs; n++)
            to[u * p->lanes + n] = row[n * p->k + u];
    }
}

static void load_plain(const device_source *s, uint8_t *memory, const port_linear *w) {
    size_t bytes = dtype_bytes(s->dtype);
    bool pairs = s->dtype == DTYPE_BF16;
    memset(memory, 0, plain_bytes(s));
    for (uint32_t n = 0; n < s->n; n += PANEL) {
        const void *row = (const uint8_t *)s->weight + (size_t)n * s->k * bytes;
        panel_shape p = {
            .k = s->k,
            .units = pairs ? rows_of(s) / 2 : s->k,
            .lanes = PANEL * panel_count(w, n / PANEL_BLOCK),
            .outputs = s->n - n < PANEL ? s->n - n : PANEL,
        };
        size_t lane = n % PANEL_BLOCK;
        uint8_t *block = memory + (size_t)(n - lane) * rows_of(s) * bytes;
        void *to = block + lane * bytes * (pairs ? 2 : 1);
        if (pairs) {
            panel_pairs(row, &p, to);
        } else if (bytes == 2) {
            panel_halves(row, &p, to);
        } else {
            panel_words(row, &p, to);
        }
    }
}

/* Words of a tile come as little-endian pairs whose high one is first; runs are interleaved. */
static void load_tile(const uint16_t *from, uint32_t words, uint16_t *to) {
    for (uint32_t run = 0; run < PANEL_RUNS; run++) {
        for (uint32_t t = 0; t < words; t++)
            to[t * PANEL_RUNS + run] = from[(run * words + t) ^ 1];
    }
}

static void load_exl3(const device_source *s, uint8_t *memory, port_linear *out) {
    size_t tile = PANEL_RUNS * (size_t)s->bits2; /* words */
    size_t rows = s->k / EXL3_TILE;
    size_t columns = s->n / EXL3_TILE;
    const size_t side = PANEL_BLOCK / EXL3_TILE;
    uint16_t *to = (uint16_t *)(void *)memory;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++)
            load_tile(s->trellis + (r * columns + c) * tile, s->bits2,
                      to + ((c / side * rows + r) * side + c % side) * tile);
    }
    float *suh = (float *)(void *)(memory + tiles_bytes(s));
    float *svh = suh + s->k;
    for (size_t k = 0; k < s->k; k++)
        suh[k] = f32_from_f16(s->suh[k]);
    for (size_t n = 0; n < s->n; n++)
        svh[n] = f32_from_f16(s->svh[n]);
    out->suh = suh;
    out->svh = svh;
}

void panel_load(const device_source *s, void *memory, port_linear *out) {
    *out = (port_linear){
        .form = s->form,
        .dtype = s->dtype,
        .codebook = s->codebook,
        .bits2 = s->bits2,
        .k = s->k,
        .n = s->n,
        .data = memory,
    };
    if (s->form == WEIGHT_PLAIN) {
        load_plain(s, memory, out);
    } else {
        load_exl3(s, memory, out);
    }
}
