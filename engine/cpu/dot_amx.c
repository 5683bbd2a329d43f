/* cpu/dot_amx - whole sub-blocks of bf16 weights by tiles of 16 rows, 32 k and 16 outputs.
 *
 * Idea: TDPBF16PS makes a chain over the even and one over the odd elements of its 16 pairs, from +0,
 * adds them, and adds the sum to the tile: the canonical sub-block, with subnormals flushed.
 * Trap: codes of EXL3 have 11 bits; cut into two bf16 parts they would make two chains that are added,
 * which is another rounding: they stay with the vector units. */
#include "engine/cpu/dot_inner.h"

#include <immintrin.h>
#include <string.h>

#define TILE_ROWS 16u
#define DEPTH     512u /* k between two visits to the sums; DOT_ROWS of them fill narrow */

/* What LDTILECFG reads. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "as the instruction wants it");

/* Tiles 0 to 3 are sums of two tiles of rows by two panels; 4 and 5 rows; 6 and 7 weights. */
static void configure(uint32_t first, uint32_t second) {
    static const uint8_t of_second[8] = {0, 0, 1, 1, 0, 1, 0, 0};
    _Alignas(64) tile_config c;
    memset(&c, 0, sizeof c);
    c.palette = 1;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t rows = i >= 6 ? TILE_ROWS : of_second[i] != 0 ? second : first;
        c.rows[i] = (uint8_t)(rows > 0 ? rows : 1); /* one that no instruction names */
        c.row_bytes[i] = 64;
    }
    _tile_loadconfig(&c);
}

/* To nearest, ties to even, as round_bf16 does; count a multiple of 32. */
static void narrow_row(const float *x, uint32_t count, uint16_t *y) {
    const __m512i half = _mm512_set1_epi32(0x7fff);
    const __m512i quiet = _mm512_set1_epi32(0x00400000);
    for (uint32_t i = 0; i < count; i += 16) {
        __m512 value = _mm512_loadu_ps(x + i);
        __m512i v = _mm512_castps_si512(value);
        __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
        __m512i even = _mm512_and_si512(_mm512_srli_epi32(v, 16), _mm512_set1_epi32(1));
        __m512i up = _mm512_add_epi32(_mm512_add_epi32(v, half), even);
        up = _mm512_mask_or_epi32(up, nan, v, quiet);
        __m256i high = _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
        _mm256_storeu_si256((__m256i *)(void *)(y + i), high);
    }
}

/* Rows, weights and sums of up to 32 rows and 32 outputs. */
typedef struct corner {
    const uint16_t *x; /* [rows, DEPTH] */
    const uint16_t *w; /* pairs of k */
    size_t pair_bytes;
    uint32_t subs; /* sub-blocks */
    float *acc;
} corner;

#define ROW_BYTES (DEPTH * sizeof(uint16_t))
#define SUM_BYTES (DOT_BLOCK * sizeof(float))

static void ask_ahead(const char *w, size_t pair_bytes) {
    for (size_t pair = 0; pair < TILE_ROWS; pair++)
        _mm_prefetch(w + DOT_AHEAD + pair * pair_bytes, _MM_HINT_T0);
}

static void one_by_one(const corner *c) {
    const char *w = (const char *)c->w;
    _tile_loadd(0, c->acc, SUM_BYTES);
    for (uint32_t i = 0; i < c->subs; i++, w += TILE_ROWS * c->pair_bytes) {
        ask_ahead(w, c->pair_bytes);
        _tile_loadd(4, c->x + i * DOT_SUB, ROW_BYTES);
        _tile_loadd(6, w, c->pair_bytes);
        _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, c->acc, SUM_BYTES);
}

static void one_by_two(const corner *c) {
    const char *w = (const char *)c->w;
    _tile_loadd(0, c->acc, SUM_BYTES);
    _tile_loadd(1, c->acc + PANEL, SUM_BYTES);
    for (uint32_t i = 0; i < c->subs; i++, w += TILE_ROWS * c->pair_bytes) {
        ask_ahead(w, c->pair_bytes);
        ask_ahead(w + 64, c->pair_bytes);
        _tile_loadd(4, c->x + i * DOT_SUB, ROW_BYTES);
        _tile_loadd(6, w, c->pair_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w + 64, c->pair_bytes);
        _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, c->acc, SUM_BYTES);
    _tile_stored(1, c->acc + PANEL, SUM_BYTES);
}

static void two_by_one(const corner *c) {
    const char *w = (const char *)c->w;
    const uint16_t *below = c->x + (size_t)TILE_ROWS * DEPTH;
    float *acc = c->acc + TILE_ROWS * DOT_BLOCK;
    _tile_loadd(0, c->acc, SUM_BYTES);
    _tile_loadd(2, acc, SUM_BYTES);
    for (uint32_t i = 0; i < c->subs; i++, w += TILE_ROWS * c->pair_bytes) {
        _tile_loadd(6, w, c->pair_bytes);
        _tile_loadd(4, c->x + i * DOT_SUB, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, below + i * DOT_SUB, ROW_BYTES);
        _tile_dpbf16ps(2, 5, 6);
    }
    _tile_stored(0, c->acc, SUM_BYTES);
    _tile_stored(2, acc, SUM_BYTES);
}

static void two_by_two(const corner *c) {
    const char *w = (const char *)c->w;
    const uint16_t *below = c->x + (size_t)TILE_ROWS * DEPTH;
    float *acc = c->acc + TILE_ROWS * DOT_BLOCK;
    _tile_loadd(0, c->acc, SUM_BYTES);
    _tile_loadd(1, c->acc + PANEL, SUM_BYTES);
    _tile_loadd(2, acc, SUM_BYTES);
    _tile_loadd(3, acc + PANEL, SUM_BYTES);
    for (uint32_t i = 0; i < c->subs; i++, w += TILE_ROWS * c->pair_bytes) {
        _tile_loadd(4, c->x + i * DOT_SUB, ROW_BYTES);
        _tile_loadd(6, w, c->pair_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w + 64, c->pair_bytes);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, below + i * DOT_SUB, ROW_BYTES);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c->acc, SUM_BYTES);
    _tile_stored(1, c->acc + PANEL, SUM_BYTES);
    _tile_stored(2, acc, SUM_BYTES);
    _tile_stored(3, acc + PANEL, SUM_BYTES);
}

/* All panels of up to 32 rows. */
static void strip(corner c, uint32_t panels, bool second) {
    for (; panels >= 2; panels -= 2, c.w += 2 * 2 * PANEL, c.acc += 2 * PANEL) {
        if (second) {
            two_by_two(&c);
        } else {
            one_by_two(&c);
        }
    }
    if (panels == 0) return;
    if (second) {
        two_by_one(&c);
    } else {
        one_by_one(&c);
    }
}

void dot_tiles_amx(const dot_task *t, dot_scratch *s, uint32_t k_end, float *acc) {
    const port_linear *w = t->w;
    uint32_t panels = panel_count(w, t->block);
    for (uint32_t k = t->k_begin; k < k_end; k += DEPTH) {
        uint32_t count = k_end - k < DEPTH ? k_end - k : DEPTH;
        for (uint32_t r = 0; r < t->rows; r++)
            narrow_row(t->x[r] + k, count, s->narrow + (size_t)r * DEPTH);
        for (uint32_t r = 0; r < t->rows; r += 2 * TILE_ROWS) {
            uint32_t left = t->rows - r;
            uint32_t first = left < TILE_ROWS ? left : TILE_ROWS;
            uint32_t second = left - first < TILE_ROWS ? left - first : TILE_ROWS;
            configure(first, second);
            strip((corner){.x = s->narrow + (size_t)r * DEPTH,
                           .w = dot_u16_at(w, t->block, k),
                           .pair_bytes = panels * PANEL * 2 * sizeof(uint16_t),
                           .subs = count / DOT_SUB,
                           .acc = acc + (size_t)r * DOT_BLOCK},
                  panels, second > 0);
        }
    }
    _tile_release();
}
