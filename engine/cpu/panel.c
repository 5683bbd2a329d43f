#include "engine/cpu/panel.h"

#include <string.h>

static uint64_t plain_bytes(const device_source *s) {
    uint64_t panels = (s->n + PANEL - 1) / PANEL;
    uint64_t pairs = (s->k + 1) / 2;
    return panels * pairs * PANEL * 2 * dtype_bytes(s->dtype);
}

static uint64_t tiles_bytes(const device_source *s) {
    return (uint64_t)s->k * s->n * s->bits2 / 16;
}

uint64_t panel_bytes(const device_source *s) {
    if (s->form == WEIGHT_PLAIN) return plain_bytes(s);
    uint64_t tiles = (tiles_bytes(s) + 63) / 64 * 64;
    return tiles + ((uint64_t)s->k + s->n) * sizeof(float);
}

static void load_plain(const device_source *s, uint8_t *memory) {
    size_t bytes = dtype_bytes(s->dtype);
    size_t pairs = (s->k + 1) / 2;
    memset(memory, 0, plain_bytes(s));
    for (size_t n = 0; n < s->n; n++) {
        const uint8_t *row = (const uint8_t *)s->weight + n * s->k * bytes;
        uint8_t *panel = memory + (n / PANEL) * pairs * PANEL * 2 * bytes;
        for (size_t k = 0; k < s->k; k++) {
            size_t at = ((k / 2) * PANEL + n % PANEL) * 2 + k % 2;
            memcpy(panel + at * bytes, row + k * bytes, bytes);
        }
    }
}

static void load_exl3(const device_source *s, uint8_t *memory, port_linear *out) {
    size_t tile = 8 * (size_t)s->bits2; /* words */
    size_t rows = s->k / EXL3_TILE;
    size_t columns = s->n / EXL3_TILE;
    uint16_t *to = (uint16_t *)(void *)memory;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++)
            memcpy(to + (c * rows + r) * tile, s->trellis + (r * columns + c) * tile,
                   tile * sizeof *to);
    }
    float *suh = (float *)(void *)(memory + (tiles_bytes(s) + 63) / 64 * 64);
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
        load_plain(s, memory);
    } else {
        load_exl3(s, memory, out);
    }
}
