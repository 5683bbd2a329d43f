/* cpu/dot_exl3_avx512 - EXL3 tiles to f32, and straight into the sums of one row.
 *
 * Idea: a row of a tile is 16 columns, one a lane: a permutation brings each lane the two words that
 * hold its state, a shift and a multiplication make the code.  Which words and what shift depend on the
 * width and the row alone. */
#include "engine/cpu/dot_inner.h"

#include <immintrin.h>

#define PANELS (DOT_BLOCK / PANEL)

/* The words of a row lie within 64 bytes that begin with the word before its first, or at the tile's
 * begin; where a run's first word is used, the word before it lies in the tile's last 64 bytes.
 * Index of (word before, word), for each lane, into one and then the other. */
#define FROM(bits, row) (PANEL_WORD(bits, row, 0) > 0 ? 8 * (PANEL_WORD(bits, row, 0) - 1) : 0)
#define NARROW(bits)    ((bits) <= 4) /* the whole tile is 64 bytes or less */
#define LAST(bits, run) ((NARROW(bits) ? ((bits)-1) * 8 : 56) + ((run) + 7) % 8)
#define AT(bits, row, half, run) \
    ((NARROW(bits) ? 0 : -FROM(bits, row)) + PANEL_WORD(bits, row, half) * 8 + (run))
#define BEFORE(bits, row, half, run) \
    (PANEL_WORD(bits, row, half) > 0 ? AT(bits, row, half, run) - 8 : LAST(bits, run))
#define BOTH(bits, row, half, run) \
    (uint32_t) BEFORE(bits, row, half, run) << 16 | (uint32_t)AT(bits, row, half, run)
#define HALF(bits, row, half)                                                         \
    BOTH(bits, row, half, 0), BOTH(bits, row, half, 1), BOTH(bits, row, half, 2),     \
        BOTH(bits, row, half, 3), BOTH(bits, row, half, 4), BOTH(bits, row, half, 5), \
        BOTH(bits, row, half, 6), BOTH(bits, row, half, 7)
#define WORDS(bits, row) \
    { HALF(bits, row, 0), HALF(bits, row, 1) }
static const uint32_t words_of[17][EXL3_TILE][PANEL] = PANEL_TABLE(WORDS);

/* What a step is built for. */
typedef struct width {
    exl3_codebook codebook;
    bool narrow;
} width;

/* Of a row, for each lane. */
typedef struct row_places {
    __m512i words, shift;
    size_t from; /* of the 64 bytes, in words */
    size_t last;
    bool wraps; /* some word before lies in the last 64 bytes */
} row_places;

DOT_INLINE row_places places_of(uint32_t half_bits, uint32_t row) {
    const panel_place *p = panel_places[half_bits][row];
    row_places out = {.last = 8 * (size_t)half_bits - 32, .wraps = p[0].word == 0};
    out.from = out.wraps ? 0 : 8 * (p[0].word - 1);
    out.words = _mm512_loadu_si512(words_of[half_bits][row]);
    out.shift = _mm512_mask_blend_epi32(0xff00, _mm512_set1_epi32((int)p[0].shift),
                                        _mm512_set1_epi32((int)p[1].shift));
    return out;
}

DOT_INLINE __m512i words_at(const uint16_t *tile, row_places p, width of, bool wraps) {
    if (of.narrow) return _mm512_permutexvar_epi16(p.words, _mm512_loadu_si512(tile));
    __m512i near = _mm512_loadu_si512(tile + p.from);
    if (!wraps) return _mm512_permutexvar_epi16(p.words, near);
    return _mm512_permutex2var_epi16(near, p.words, _mm512_loadu_si512(tile + p.last));
}

#define AND_THEN_XOR 0x78 /* a ^ (b & c) */

/* The f16 in the upper half of each lane, masked and turned as MODEL 8 says, times 2^-112. */
DOT_INLINE __m512 half_of(__m512i x) {
    const __m512i mask = _mm512_set1_epi32((int)0x81FFE000); /* 0x8FFF, as bits of an f32 */
    const __m512i turn = _mm512_set1_epi32(0x3B600000 >> 3);
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(turn, mask, _mm512_srai_epi32(x, 3), AND_THEN_XOR));
}

/* Codes of 16 states (MODEL 8), as f32.  Sums are exact; the three last steps cut 11 bits off by
 * Veltkamp's split, which is rounding to even for every sum there is.
 * mul1: dpbusd adds 64 times the four bytes to the bits of 2^17, and so makes the float 2^17 + sum. */
DOT_INLINE __m512 code_of(__m512i state, exl3_codebook codebook) {
    __m512 v;
    if (codebook == EXL3_MUL1) {
        const float scale = 0x1.bb8p-8f;  /* f16 0x1EEE */
        const float shift = -0x1.4c4p+3f; /* f16 0xC931 */
        __m512i x = _mm512_mullo_epi32(state, _mm512_set1_epi32((int)0x83DCD12D));
        __m512i sum =
            _mm512_dpbusd_epi32(_mm512_set1_epi32(0x48000000), x, _mm512_set1_epi32(0x40404040));
        v = _mm512_fmadd_ps(_mm512_castsi512_ps(sum), _mm512_set1_ps(scale),
                            _mm512_set1_ps(shift - 127.0f * 1024.0f * scale));
    } else {
        const int factor = codebook == EXL3_MCG ? (int)0xCBAC1FED : 89226354;
        const __m512 unit = _mm512_set1_ps(0x1p112f);
        __m512i x = _mm512_mullo_epi32(state, _mm512_set1_epi32(factor));
        if (codebook != EXL3_MCG) x = _mm512_add_epi32(x, _mm512_set1_epi32(64248484));
        __m512 low = _mm512_mul_ps(half_of(_mm512_slli_epi32(x, 16)), unit);
        v = _mm512_fmadd_ps(half_of(x), unit, low);
    }
    __m512 far = _mm512_mul_ps(v, _mm512_set1_ps(8193.0f));
    return _mm512_sub_ps(far, _mm512_sub_ps(far, v));
}

DOT_INLINE __m512 codes_at(const uint16_t *tile, row_places p, width of, bool wraps) {
    __m512i state = _mm512_srlv_epi32(words_at(tile, p, of, wraps), p.shift);
    return code_of(_mm512_and_si512(state, _mm512_set1_epi32(0xffff)), of.codebook);
}

/* ---- into the slab ---- */

DOT_INLINE void widen(const uint16_t *tiles, uint32_t half_bits, width of, const float *x,
                      float *slab) {
    (void)x;
    const size_t tile = PANEL_RUNS * (size_t)half_bits;
    for (uint32_t row = 0; row < EXL3_TILE; row++) {
        row_places p = places_of(half_bits, row);
        const uint16_t *from = tiles;
        for (uint32_t half = 0; half < DOT_SUB; half += EXL3_TILE) {
            float *to = slab + (half + row) * DOT_BLOCK;
            for (uint32_t panel = 0; panel < PANELS; panel++, from += tile)
                _mm512_storeu_ps(to + panel * PANEL, codes_at(from, p, of, p.wraps));
        }
    }
}

/* ---- into the sums of one row ---- */

DOT_INLINE void one_k(const uint16_t *tiles, size_t tile, width of, row_places p, bool wraps,
                      float x, __m512 sum[PANELS]) {
    DOT_UNROLL for (uint32_t panel = 0; panel < PANELS; panel++) sum[panel] = _mm512_fmadd_ps(
        _mm512_set1_ps(x), codes_at(tiles + panel * tile, p, of, wraps), sum[panel]);
}

DOT_INLINE void one_row(const uint16_t *tiles, uint32_t half_bits, width of, const float *x,
                        float *acc) {
    const size_t tile = PANEL_RUNS * (size_t)half_bits;
    __m512 even[PANELS];
    __m512 odd[PANELS];
    DOT_UNROLL for (uint32_t panel = 0; panel < PANELS; panel++) {
        even[panel] = _mm512_setzero_ps();
        odd[panel] = _mm512_setzero_ps();
    }
    for (uint32_t k = 0; k < DOT_SUB; k += 2) {
        const uint16_t *from = tiles + k / EXL3_TILE * PANELS * PANEL_RUNS * half_bits;
        row_places p = places_of(half_bits, k % EXL3_TILE);
        row_places q = places_of(half_bits, k % EXL3_TILE + 1);
        if (q.wraps) {
            one_k(from, tile, of, p, true, x[k], even);
            one_k(from, tile, of, q, true, x[k + 1], odd);
        } else if (p.wraps) {
            one_k(from, tile, of, p, true, x[k], even);
            one_k(from, tile, of, q, false, x[k + 1], odd);
        } else {
            one_k(from, tile, of, p, false, x[k], even);
            one_k(from, tile, of, q, false, x[k + 1], odd);
        }
    }
    DOT_UNROLL for (uint32_t panel = 0; panel < PANELS; panel++) {
        float *to = acc + panel * PANEL;
        __m512 both = _mm512_add_ps(even[panel], odd[panel]);
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), both));
    }
}

/* ---- by codebook and width ---- */

/* Each step is built for every codebook, and for tiles that one register holds and wider ones. */
#define BUILT(step, book, narrow)                             \
    case (book)*2 + (narrow):                                 \
        step(tiles, w->bits2, (width){book, narrow}, x, acc); \
        break;
#define CHOOSE(step)                                       \
    switch ((uint32_t)w->codebook * 2 + (w->bits2 <= 4)) { \
        BUILT(step, EXL3_DEFAULT, 0)                       \
        BUILT(step, EXL3_DEFAULT, 1)                       \
        BUILT(step, EXL3_MCG, 0)                           \
        BUILT(step, EXL3_MCG, 1)                           \
        BUILT(step, EXL3_MUL1, 0)                          \
        BUILT(step, EXL3_MUL1, 1)                          \
    }

static const uint16_t *ask_ahead(const port_linear *w, const uint16_t *tiles) {
    for (size_t at = 0; at < (size_t)w->bits2 * 256; at += 64)
        _mm_prefetch((const char *)tiles + DOT_AHEAD + at, _MM_HINT_T0);
    return tiles;
}

void dot_exl3_widen_avx512(const port_linear *w, uint32_t block, uint32_t k, float *slab) {
    const uint16_t *tiles = ask_ahead(w, dot_tiles_at(w, block, k));
    const float *x = NULL;
    float *acc = slab;
    CHOOSE(widen)
}

void dot_exl3_one_row_avx512(const port_linear *w, uint32_t block, uint32_t k, const float *x,
                             float *acc) {
    const uint16_t *tiles = ask_ahead(w, dot_tiles_at(w, block, k));
    CHOOSE(one_row)
}
