/* cpu/panel - weights as the products want them: blocks of 128 outputs, K ascending.
 *
 * Idea: an instruction's lanes are outputs, so the weights of 16 outputs lie side by side; a block is
 * read from its begin to its end by one job, as one stream.  A last block may hold fewer panels of 16.
 *     f16, f32  [block][K][16 * panels]                 bf16  [block][ceil(K/2)][16 * panels][2],
 *     exl3      [N/128][K/16][8 tiles][half_bits][8]    pairs of k, as AMX wants them
 * Trap: a tile's ring of bits is eight runs of half_bits 16-bit words, one for each column mod 8;
 * word t of the eight runs lies side by side, so that eight columns are shifted at once.
 * Trap: outputs and k that are not there are +0; their lanes are computed and never stored. */
#ifndef TF_ENGINE_CPU_PANEL_H
#define TF_ENGINE_CPU_PANEL_H

#include "engine/port/device.h"

#define PANEL       16u
#define PANEL_BLOCK 128u /* outputs of a block */
#define PANEL_RUNS  8u   /* runs of a tile */

uint64_t panel_bytes(const device_source *source);
/* memory [panel_bytes]; exl3 keeps suh and svh as f32 behind the tiles. */
void panel_load(const device_source *source, void *memory, port_linear *out);

static inline uint32_t panel_blocks(const port_linear *w) {
    return (w->n + PANEL_BLOCK - 1) / PANEL_BLOCK;
}
/* Panels of a block: 1 to 8. */
static inline uint32_t panel_count(const port_linear *w, uint32_t block) {
    uint32_t left = w->n - block * PANEL_BLOCK;
    return left >= PANEL_BLOCK ? PANEL_BLOCK / PANEL : (left + PANEL - 1) / PANEL;
}

/* Where the 16 bits of a weight lie in its run (MODEL 8): the low bits of (word before, word) >> shift.
 * The word before a run's first is the last of the run before.  Row of the tile, half = column div 8. */
#define PANEL_WEIGHT(row, half)      (8 * ((row) % 8 / 2) + (row) % 2 + 2 * ((row) / 8) + 4 * (half))
#define PANEL_END(bits, row, half)   ((bits) * (PANEL_WEIGHT(row, half) + 1) / 2)
#define PANEL_WORD(bits, row, half)  ((PANEL_END(bits, row, half) - 1) / 16)
#define PANEL_SHIFT(bits, row, half) (15 - (PANEL_END(bits, row, half) - 1) % 16)

/* A constant table [half_bits][row] of what `of` says of each. */
#define PANEL_ROWS(of, bits)                                                                     \
    [bits] = {of(bits, 0),  of(bits, 1),  of(bits, 2),  of(bits, 3), of(bits, 4),  of(bits, 5),  \
              of(bits, 6),  of(bits, 7),  of(bits, 8),  of(bits, 9), of(bits, 10), of(bits, 11), \
              of(bits, 12), of(bits, 13), of(bits, 14), of(bits, 15)}
#define PANEL_TABLE(of)                                                                     \
    {                                                                                       \
        PANEL_ROWS(of, 2), PANEL_ROWS(of, 3), PANEL_ROWS(of, 4), PANEL_ROWS(of, 5),         \
            PANEL_ROWS(of, 6), PANEL_ROWS(of, 7), PANEL_ROWS(of, 8), PANEL_ROWS(of, 9),     \
            PANEL_ROWS(of, 10), PANEL_ROWS(of, 11), PANEL_ROWS(of, 12), PANEL_ROWS(of, 13), \
            PANEL_ROWS(of, 14), PANEL_ROWS(of, 15), PANEL_ROWS(of, 16)                      \
    }

typedef struct panel_place {
    uint32_t word, shift;
} panel_place;
extern const panel_place panel_places[17][EXL3_TILE][2];

#endif
