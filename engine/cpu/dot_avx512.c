/* cpu/dot_avx512 - the steps of a product in registers of 16 outputs. */
#include "engine/cpu/dot_inner.h"

#include <immintrin.h>

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

/* ---- rotation ---- */

/* Sums to the lanes whose `half` bit is 0, differences (lower - higher) to the others. */
INLINE __m512 level(__m512 v, __m512 partner, __mmask16 higher) {
    return _mm512_mask_sub_ps(_mm512_add_ps(v, partner), higher, partner, v);
}

INLINE void rotate(__m512 v[8]) {
    UNROLL for (int i = 0; i < 8; i++) {
        v[i] = level(v[i], _mm512_permute_ps(v[i], 0xB1), 0xAAAA);
        v[i] = level(v[i], _mm512_permute_ps(v[i], 0x4E), 0xCCCC);
        v[i] = level(v[i], _mm512_shuffle_f32x4(v[i], v[i], 0xB1), 0xF0F0);
        v[i] = level(v[i], _mm512_shuffle_f32x4(v[i], v[i], 0x4E), 0xFF00);
    }
    UNROLL for (int bit = 0; bit < 3; bit++) {
        UNROLL for (int i = 0; i < 8; i++) {
            int half = 1 << bit;
            if ((i & half) != 0) continue;
            __m512 a = v[i];
            __m512 b = v[i + half];
            v[i] = _mm512_add_ps(a, b);
            v[i + half] = _mm512_sub_ps(a, b);
        }
    }
}

static void turn_in(const float *x, const float *suh, float *y) {
    __m512 v[8];
    UNROLL for (int i = 0; i < 8; i++) v[i] =
        _mm512_mul_ps(_mm512_loadu_ps(x + 16 * i), _mm512_loadu_ps(suh + 16 * i));
    rotate(v);
    UNROLL for (int i = 0; i < 8; i++)
        _mm512_storeu_ps(y + 16 * i, _mm512_mul_ps(v[i], _mm512_set1_ps(DOT_TURN)));
}

static void turn_out(float *y, const float *svh) {
    __m512 v[8];
    UNROLL for (int i = 0; i < 8; i++) v[i] = _mm512_loadu_ps(y + 16 * i);
    rotate(v);
    UNROLL for (int i = 0; i < 8; i++) {
        __m512 turned = _mm512_mul_ps(v[i], _mm512_set1_ps(DOT_TURN));
        _mm512_storeu_ps(y + 16 * i, _mm512_mul_ps(turned, _mm512_loadu_ps(svh + 16 * i)));
    }
}

static void round_bf16(const float *x, uint32_t count, float *y) {
    const __m512i one = _mm512_set1_epi32(1);
    const __m512i half = _mm512_set1_epi32(0x7fff);
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);
    const __m512i quiet = _mm512_set1_epi32(0x00400000);
    for (uint32_t i = 0; i < count; i += 16) {
        __mmask16 there = (__mmask16)(count - i < 16 ? (1u << (count - i)) - 1 : 0xffff);
        __m512i v = _mm512_maskz_loadu_epi32(there, x + i);
        __mmask16 nan =
            _mm512_cmp_ps_mask(_mm512_castsi512_ps(v), _mm512_castsi512_ps(v), _CMP_UNORD_Q);
        __m512i even = _mm512_and_si512(_mm512_srli_epi32(v, 16), one);
        __m512i up = _mm512_add_epi32(_mm512_add_epi32(v, half), even);
        up = _mm512_mask_or_epi32(up, nan, v, quiet);
        _mm512_mask_storeu_epi32(y + i, there, _mm512_and_si512(up, high));
    }
}

/* ---- weights ---- */

#define AHEAD 8192 /* bytes that the stream of weights is asked for before it is read */

static void widen_bf16(const uint16_t *from, const dot_slab *s, float *slab) {
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);
    for (uint32_t k = 0; k < s->count; k += 2, slab += 2 * s->stride) {
        for (uint32_t p = 0; p < s->panels; p++, from += 2 * PANEL) {
            __m512i pair = _mm512_loadu_si512(from);
            _mm_prefetch((const char *)from + AHEAD, _MM_HINT_T0);
            _mm512_storeu_si512(slab + p * PANEL, _mm512_slli_epi32(pair, 16));
            _mm512_storeu_si512(slab + s->stride + p * PANEL, _mm512_and_si512(pair, high));
        }
    }
}

static void widen_f16(const uint16_t *from, const dot_slab *s, float *slab) {
    for (size_t i = 0; i < s->count * s->stride; i += 16) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
        _mm_prefetch((const char *)(from + i) + AHEAD, _MM_HINT_T0);
        _mm512_storeu_ps(slab + i, _mm512_cvtph_ps(v));
    }
}

/* Sixteen-bit words (word before, word) of 16 columns lie at these places of a tile. */
INLINE __m512i places_of(uint32_t half_bits, const panel_place p[2]) {
    const __m512i run = _mm512_set_epi32(7, 6, 5, 4, 3, 2, 1, 0, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i before = _mm512_set_epi32(6, 5, 4, 3, 2, 1, 0, 7, 6, 5, 4, 3, 2, 1, 0, 7);
    const __mmask16 second = 0xff00;
    const __mmask16 wraps =
        (__mmask16)((p[0].word == 0 ? 0x00ff : 0) | (p[1].word == 0 ? second : 0));
    __m512i word = _mm512_mask_blend_epi32(second, _mm512_set1_epi32(p[0].word * 8),
                                           _mm512_set1_epi32(p[1].word * 8));
    __m512i low = _mm512_add_epi32(word, run);
    __m512i high = _mm512_sub_epi32(low, _mm512_set1_epi32(8));
    high = _mm512_mask_add_epi32(high, wraps, before, _mm512_set1_epi32((int)(half_bits - 1) * 8));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* A tile has 16 * half_bits bytes: 1 to 4 registers. */
INLINE __m512i pick(const uint16_t *tile, __m512i places, __mmask32 upper, int registers) {
    __m512i first = _mm512_loadu_si512(tile);
    if (registers == 1) return _mm512_permutexvar_epi16(places, first);
    __m512i low = _mm512_permutex2var_epi16(first, places, _mm512_loadu_si512(tile + 32));
    if (registers == 2) return low;
    __m512i third = _mm512_loadu_si512(tile + 64);
    __m512i fourth = registers == 3 ? third : _mm512_loadu_si512(tile + 96);
    __m512i high = _mm512_permutex2var_epi16(third, places, fourth);
    return _mm512_mask_blend_epi16(upper, low, high);
}

/* Codes of 16 states (MODEL 8), as f32.  mul1: dpbusd adds 64 times the four bytes to the bits of 2^17,
 * which gives 2^17 + sum as a float; what follows is exact until it is rounded to f16. */
INLINE __m512 code_of(__m512i state, exl3_codebook codebook) {
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
        bool mcg = codebook == EXL3_MCG;
        __m512i x =
            _mm512_mullo_epi32(state, _mm512_set1_epi32((int)(mcg ? 0xCBAC1FED : 89226354)));
        if (!mcg) x = _mm512_add_epi32(x, _mm512_set1_epi32(64248484));
        x = _mm512_xor_si512(_mm512_and_si512(x, _mm512_set1_epi32((int)0x8FFF8FFF)),
                             _mm512_set1_epi32(0x3B603B60));
        __m512 low = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
        __m512 high = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16)));
        v = _mm512_add_ps(low, high);
    }
    const int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return _mm512_cvtph_ps(_mm512_cvtps_ph(v, nearest));
}

/* Row by row: what is common to a row of all 16 tiles stays in registers. */
INLINE void widen_tiles(const uint16_t *tiles, uint32_t half_bits, exl3_codebook codebook,
                        int registers, float *slab) {
    const size_t tile = PANEL_RUNS * (size_t)half_bits;
    for (uint32_t row = 0; row < EXL3_TILE; row++) {
        const panel_place *p = panel_places[half_bits][row];
        __m512i places = places_of(half_bits, p);
        __mmask32 upper = _mm512_test_epi16_mask(places, _mm512_set1_epi16(64));
        __m512i shift = _mm512_mask_blend_epi32(0xff00, _mm512_set1_epi32(p[0].shift),
                                                _mm512_set1_epi32(p[1].shift));
        const uint16_t *from = tiles;
        for (uint32_t half = 0; half < DOT_SUB; half += EXL3_TILE) {
            float *to = slab + (half + row) * DOT_BLOCK;
            for (uint32_t panel = 0; panel < 8; panel++, from += tile) {
                __m512i state = _mm512_srlv_epi32(pick(from, places, upper, registers), shift);
                state = _mm512_and_si512(state, _mm512_set1_epi32(0xffff));
                _mm512_storeu_ps(to + panel * PANEL, code_of(state, codebook));
            }
        }
    }
}

#define TILES(codebook, registers) widen_tiles(tiles, w->bits2, codebook, registers, slab)
#define BY_BITS(codebook)            \
    do {                             \
        if (w->bits2 <= 4) {         \
            TILES(codebook, 1);      \
        } else if (w->bits2 <= 8) {  \
            TILES(codebook, 2);      \
        } else if (w->bits2 <= 12) { \
            TILES(codebook, 3);      \
        } else {                     \
            TILES(codebook, 4);      \
        }                            \
    } while (0)

static void widen_exl3(const port_linear *w, const uint16_t *tiles, float *slab) {
    for (size_t at = 0; at < (size_t)w->bits2 * 256; at += 64)
        _mm_prefetch((const char *)tiles + AHEAD + at, _MM_HINT_T0);
    switch (w->codebook) {
    case EXL3_MUL1:
        BY_BITS(EXL3_MUL1);
        break;
    case EXL3_MCG:
        BY_BITS(EXL3_MCG);
        break;
    case EXL3_DEFAULT:
    case EXL3_CODEBOOKS:
        BY_BITS(EXL3_DEFAULT);
        break;
    }
}

static void widen(const port_linear *w, uint32_t block, uint32_t k, float *slab, dot_slab *out) {
    out->w = slab;
    if (w->form == WEIGHT_EXL3) {
        widen_exl3(w, dot_tiles_at(w, block, k), slab);
    } else if (w->dtype == DTYPE_BF16) {
        widen_bf16(dot_u16_at(w, block, k), out, slab);
    } else if (w->dtype == DTYPE_F16) {
        widen_f16(dot_u16_at(w, block, k), out, slab);
    } else {
        out->w = dot_f32_at(w, block, k);
    }
}

/* ---- products ---- */

/* Chains over k = first, first + 2, ... of R rows and 16 * P outputs. */
INLINE void chain(const dot_slab *s, const float *w, const float *x, uint32_t first, int R, int P,
                  __m512 sum[6][4]) {
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int p = 0; p < P; p++) sum[r][p] = _mm512_setzero_ps();
    }
    w += first * s->stride;
    for (uint32_t k = first; k < s->count; k += 2, w += 2 * s->stride) {
        __m512 lanes[4];
        UNROLL for (int p = 0; p < P; p++) lanes[p] = _mm512_loadu_ps(w + p * 16);
        UNROLL for (int r = 0; r < R; r++) {
            __m512 row = _mm512_set1_ps(x[(size_t)r * DOT_BLOCK + k]);
            UNROLL for (int p = 0; p < P; p++) sum[r][p] =
                _mm512_fmadd_ps(row, lanes[p], sum[r][p]);
        }
    }
}

INLINE void add_chains(float *acc, const float *even, __m512 odd) {
    __m512 both = _mm512_add_ps(_mm512_load_ps(even), odd);
    _mm512_storeu_ps(acc, _mm512_add_ps(_mm512_loadu_ps(acc), both));
}

/* Twenty-four chains fill the registers; those over even k wait in memory. */
INLINE void tile(const dot_slab *s, const float *w, const float *x, float *acc, int R, int P) {
    _Alignas(64) float even[6 * 4 * 16];
    __m512 sum[6][4];
    chain(s, w, x, 0, R, P, sum);
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int p = 0; p < P; p++) _mm512_store_ps(even + (r * 4 + p) * 16, sum[r][p]);
    }
    chain(s, w, x, 1, R, P, sum);
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int p = 0; p < P; p++)
            add_chains(acc + (size_t)r * DOT_BLOCK + p * 16, even + (r * 4 + p) * 16, sum[r][p]);
    }
}

/* Few rows: both chains at once, else the units would wait for each other. */
INLINE void small_tile(const dot_slab *s, const float *w, const float *x, float *acc, int R,
                       int P) {
    __m512 even[3][4];
    __m512 odd[3][4];
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int p = 0; p < P; p++) {
            even[r][p] = _mm512_setzero_ps();
            odd[r][p] = _mm512_setzero_ps();
        }
    }
    uint32_t pairs = s->count / 2;
    for (uint32_t k = 0; k < 2 * pairs; k += 2, w += 2 * s->stride) {
        UNROLL for (int r = 0; r < R; r++) {
            __m512 first = _mm512_set1_ps(x[(size_t)r * DOT_BLOCK + k]);
            __m512 second = _mm512_set1_ps(x[(size_t)r * DOT_BLOCK + k + 1]);
            UNROLL for (int p = 0; p < P; p++) {
                even[r][p] = _mm512_fmadd_ps(first, _mm512_loadu_ps(w + p * 16), even[r][p]);
                odd[r][p] =
                    _mm512_fmadd_ps(second, _mm512_loadu_ps(w + s->stride + p * 16), odd[r][p]);
            }
        }
    }
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int p = 0; p < P; p++) {
            if (s->count % 2 != 0)
                even[r][p] = _mm512_fmadd_ps(_mm512_set1_ps(x[(size_t)r * DOT_BLOCK + 2 * pairs]),
                                             _mm512_loadu_ps(w + p * 16), even[r][p]);
            float *to = acc + (size_t)r * DOT_BLOCK + p * 16;
            __m512 both = _mm512_add_ps(even[r][p], odd[r][p]);
            _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), both));
        }
    }
}

#define TILE(rows, panels)                \
    case (rows)*8 + (panels):             \
        tile(s, w, x, acc, rows, panels); \
        break
#define SMALL(rows, panels)                     \
    case (rows)*8 + (panels):                   \
        small_tile(s, w, x, acc, rows, panels); \
        break

static void some_rows(const dot_slab *s, const float *w, const float *x, float *acc, uint32_t rows,
                      uint32_t panels) {
    switch (rows * 8 + panels) {
        SMALL(1, 1);
        SMALL(1, 2);
        SMALL(1, 3);
        SMALL(1, 4);
        SMALL(2, 1);
        SMALL(2, 2);
        SMALL(2, 3);
        SMALL(2, 4);
        SMALL(3, 1);
        SMALL(3, 2);
        SMALL(3, 3);
        SMALL(3, 4);
        TILE(4, 1);
        TILE(4, 2);
        TILE(4, 3);
        TILE(4, 4);
        TILE(5, 1);
        TILE(5, 2);
        TILE(5, 3);
        TILE(5, 4);
        TILE(6, 1);
        TILE(6, 2);
        TILE(6, 3);
        TILE(6, 4);
    }
}

static void multiply(const dot_slab *s, const float *x, uint32_t rows, float *acc) {
    while (rows > 0) {
        /* 6 rows at a time, or as evenly as the rest allows. */
        uint32_t parts = (rows + 5) / 6;
        uint32_t now = (rows + parts - 1) / parts;
        for (uint32_t p = 0; p < s->panels; p += 4) {
            uint32_t panels = s->panels - p < 4 ? s->panels - p : 4;
            some_rows(s, s->w + p * PANEL, x, acc + p * PANEL, now, panels);
        }
        x += now * DOT_BLOCK;
        acc += now * DOT_BLOCK;
        rows -= now;
    }
}

static void add_weighted(float weight, const float *part, float *acc) {
    UNROLL for (int i = 0; i < 8; i++) _mm512_storeu_ps(
        acc + 16 * i, _mm512_fmadd_ps(_mm512_set1_ps(weight), _mm512_loadu_ps(part + 16 * i),
                                      _mm512_loadu_ps(acc + 16 * i)));
}

static void gate(const float *g, const float *u, float limit, uint32_t count, float *y) {
    dot_gate(g, u, limit, count, y);
}

const dot_steps dot_avx512 = {
    .turn_in = turn_in,
    .turn_out = turn_out,
    .round_bf16 = round_bf16,
    .widen = widen,
    .multiply = multiply,
    .add_weighted = add_weighted,
    .gate = gate,
};
