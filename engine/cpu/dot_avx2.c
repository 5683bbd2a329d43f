/* cpu/dot_avx2 - the steps of a product in registers of 8 outputs. */
#include "engine/cpu/dot_inner.h"

#include <immintrin.h>

/* ---- rotation ---- */

#define LEVEL(v, partner, higher) \
    _mm256_blend_ps(_mm256_add_ps(v, partner), _mm256_sub_ps(partner, v), higher)

DOT_INLINE void rotate(__m256 v[16]) {
    DOT_UNROLL for (int i = 0; i < 16; i++) {
        v[i] = LEVEL(v[i], _mm256_permute_ps(v[i], 0xB1), 0xAA);
        v[i] = LEVEL(v[i], _mm256_permute_ps(v[i], 0x4E), 0xCC);
        v[i] = LEVEL(v[i], _mm256_permute2f128_ps(v[i], v[i], 1), 0xF0);
    }
    DOT_UNROLL for (int bit = 0; bit < 4; bit++) {
        DOT_UNROLL for (int i = 0; i < 16; i++) {
            int half = 1 << bit;
            if ((i & half) != 0) continue;
            __m256 a = v[i];
            __m256 b = v[i + half];
            v[i] = _mm256_add_ps(a, b);
            v[i + half] = _mm256_sub_ps(a, b);
        }
    }
}

static void turn_in(const float *x, const float *suh, float *y) {
    __m256 v[16];
    DOT_UNROLL for (int i = 0; i < 16; i++) v[i] =
        _mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_loadu_ps(suh + 8 * i));
    rotate(v);
    DOT_UNROLL for (int i = 0; i < 16; i++)
        _mm256_storeu_ps(y + 8 * i, _mm256_mul_ps(v[i], _mm256_set1_ps(DOT_TURN)));
}

static void turn_out(float *y, const float *svh) {
    __m256 v[16];
    DOT_UNROLL for (int i = 0; i < 16; i++) v[i] = _mm256_loadu_ps(y + 8 * i);
    rotate(v);
    DOT_UNROLL for (int i = 0; i < 16; i++) {
        __m256 turned = _mm256_mul_ps(v[i], _mm256_set1_ps(DOT_TURN));
        _mm256_storeu_ps(y + 8 * i, _mm256_mul_ps(turned, _mm256_loadu_ps(svh + 8 * i)));
    }
}

static void round_bf16(const float *x, uint32_t count, float *y) {
    const __m256i high = _mm256_set1_epi32((int)0xffff0000);
    const __m256i quiet = _mm256_set1_epi32(0x00400000);
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        __m256i bits = _mm256_castps_si256(v);
        __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), even);
        up = _mm256_blendv_epi8(up, _mm256_or_si256(bits, quiet), nan);
        _mm256_storeu_ps(y + i, _mm256_castsi256_ps(_mm256_and_si256(up, high)));
    }
    for (; i < count; i++)
        y[i] = f32_from_bf16(bf16_from_f32(x[i]));
}

/* ---- weights ---- */

static void widen_bf16(const uint16_t *from, const dot_slab *s, float *slab) {
    const __m256i high = _mm256_set1_epi32((int)0xffff0000);
    for (uint32_t k = 0; k < s->count; k += 2, slab += 2 * s->stride) {
        for (size_t lane = 0; lane < s->stride; lane += 8, from += 16) {
            __m256i pair = _mm256_loadu_si256((const __m256i *)(const void *)from);
            _mm_prefetch((const char *)from + DOT_AHEAD, _MM_HINT_T0);
            __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16));
            __m256 odd = _mm256_castsi256_ps(_mm256_and_si256(pair, high));
            _mm256_storeu_ps(slab + lane, even);
            _mm256_storeu_ps(slab + s->stride + lane, odd);
        }
    }
}

static void widen_f16(const uint16_t *from, const dot_slab *s, float *slab) {
    for (size_t i = 0; i < s->count * s->stride; i += 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        _mm256_storeu_ps(slab + i, _mm256_cvtph_ps(v));
    }
}

/* States of the eight columns that lie at one place of their runs. */
DOT_INLINE __m256i states_at(const uint16_t *tile, uint32_t half_bits, panel_place p) {
    const __m128i *words = (const __m128i *)(const void *)tile;
    __m128i word = _mm_loadu_si128(words + p.word);
    __m128i before = _mm_loadu_si128(words + (p.word > 0 ? p.word : half_bits) - 1);
    if (p.word == 0) before = _mm_alignr_epi8(before, before, 14); /* of the run before */
    __m128i low = _mm_srl_epi16(word, _mm_cvtsi32_si128((int)p.shift));
    __m128i high = _mm_sll_epi16(before, _mm_cvtsi32_si128(16 - (int)p.shift));
    return _mm256_cvtepu16_epi32(_mm_or_si128(low, high));
}

/* The f16 in the upper half of each lane, masked and turned as MODEL 8 says, times 2^-112. */
DOT_INLINE __m256 half_of(__m256i x) {
    const __m256i mask = _mm256_set1_epi32((int)0x81FFE000); /* 0x8FFF, as bits of an f32 */
    const __m256i turn = _mm256_set1_epi32(0x3B600000 >> 3);
    return _mm256_castsi256_ps(
        _mm256_xor_si256(_mm256_and_si256(_mm256_srai_epi32(x, 3), mask), turn));
}

/* Codes of eight states (MODEL 8), as f32.  Sums are exact; the three last steps cut 11 bits off by
 * Veltkamp's split, which is rounding to even for every sum there is. */
DOT_INLINE __m256 codes_of(__m256i state, exl3_codebook codebook) {
    __m256 v;
    if (codebook == EXL3_MUL1) {
        const float scale = 0x1.bb8p-8f;  /* f16 0x1EEE */
        const float shift = -0x1.4c4p+3f; /* f16 0xC931 */
        __m256i x = _mm256_mullo_epi32(state, _mm256_set1_epi32((int)0x83DCD12D));
        __m256i pairs = _mm256_maddubs_epi16(x, _mm256_set1_epi8(1));
        __m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(scale),
                            _mm256_set1_ps(1024.0f * scale + shift));
    } else {
        const int factor = codebook == EXL3_MCG ? (int)0xCBAC1FED : 89226354;
        const __m256 unit = _mm256_set1_ps(0x1p112f);
        __m256i x = _mm256_mullo_epi32(state, _mm256_set1_epi32(factor));
        if (codebook != EXL3_MCG) x = _mm256_add_epi32(x, _mm256_set1_epi32(64248484));
        __m256 low = _mm256_mul_ps(half_of(_mm256_slli_epi32(x, 16)), unit);
        v = _mm256_fmadd_ps(half_of(x), unit, low);
    }
    __m256 far = _mm256_mul_ps(v, _mm256_set1_ps(8193.0f));
    return _mm256_sub_ps(far, _mm256_sub_ps(far, v));
}

DOT_INLINE void widen_tiles(const uint16_t *tiles, uint32_t half_bits, exl3_codebook codebook,
                            float *slab) {
    for (uint32_t row = 0; row < EXL3_TILE; row++) {
        const panel_place *p = panel_places[half_bits][row];
        const uint16_t *from = tiles;
        for (uint32_t half = 0; half < DOT_SUB; half += EXL3_TILE) {
            float *to = slab + (half + row) * DOT_BLOCK;
            for (uint32_t panel = 0; panel < 8; panel++, from += PANEL_RUNS * half_bits) {
                for (uint32_t side = 0; side < 2; side++, to += 8)
                    _mm256_storeu_ps(to, codes_of(states_at(from, half_bits, p[side]), codebook));
            }
        }
    }
}

static void widen_exl3(const port_linear *w, uint32_t block, uint32_t k, float *slab) {
    const uint16_t *tiles = dot_tiles_at(w, block, k);
    switch (w->codebook) {
    case EXL3_MUL1:
        widen_tiles(tiles, w->bits2, EXL3_MUL1, slab);
        break;
    case EXL3_MCG:
        widen_tiles(tiles, w->bits2, EXL3_MCG, slab);
        break;
    case EXL3_DEFAULT:
    case EXL3_CODEBOOKS:
        widen_tiles(tiles, w->bits2, EXL3_DEFAULT, slab);
        break;
    }
}

/* ---- products ---- */

/* Chains over k = first, first + 2, ... of R rows and 8 * V outputs. */
DOT_INLINE void chain(const dot_slab *s, const float *w, const float *x, uint32_t first, int R,
                      int V, __m256 sum[6][4]) {
    DOT_UNROLL for (int r = 0; r < R; r++) {
        DOT_UNROLL for (int v = 0; v < V; v++) sum[r][v] = _mm256_setzero_ps();
    }
    w += first * s->stride;
    for (uint32_t k = first; k < s->count; k += 2, w += 2 * s->stride) {
        DOT_UNROLL for (int r = 0; r < R; r++) {
            __m256 row = _mm256_broadcast_ss(x + (size_t)r * DOT_BLOCK + k);
            DOT_UNROLL for (int v = 0; v < V; v++) sum[r][v] =
                _mm256_fmadd_ps(row, _mm256_loadu_ps(w + 8 * v), sum[r][v]);
        }
    }
}

/* Up to twelve chains fill the registers; those over even k wait in memory. */
DOT_INLINE void tile(const dot_slab *s, const float *w, const float *x, float *acc, int R, int V) {
    __m256 even[6][4];
    __m256 odd[6][4];
    chain(s, w, x, 0, R, V, even);
    chain(s, w, x, 1, R, V, odd);
    DOT_UNROLL for (int r = 0; r < R; r++) {
        DOT_UNROLL for (int v = 0; v < V; v++) {
            float *to = acc + (size_t)r * DOT_BLOCK + 8 * v;
            __m256 both = _mm256_add_ps(even[r][v], odd[r][v]);
            _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), both));
        }
    }
}

static void some_rows(const dot_slab *s, const float *w, const float *x, float *acc,
                      uint32_t rows) {
    switch (rows) {
    case 1:
        tile(s, w, x, acc, 1, 2);
        break;
    case 2:
        tile(s, w, x, acc, 2, 2);
        break;
    case 3:
        tile(s, w, x, acc, 3, 2);
        break;
    case 4:
        tile(s, w, x, acc, 4, 2);
        break;
    case 5:
        tile(s, w, x, acc, 5, 2);
        break;
    default:
        tile(s, w, x, acc, 6, 2);
        break;
    }
}

static void multiply(const dot_slab *s, const float *x, uint32_t rows, float *acc) {
    while (rows > 0) {
        /* 6 rows at a time, or as evenly as the rest allows. */
        uint32_t parts = (rows + 5) / 6;
        uint32_t now = (rows + parts - 1) / parts;
        for (size_t lane = 0; lane < s->stride; lane += PANEL)
            some_rows(s, s->w + lane, x, acc + lane, now);
        x += now * DOT_BLOCK;
        acc += now * DOT_BLOCK;
        rows -= now;
    }
}

/* ---- one row: weights go from their stream straight into the sums ---- */

typedef struct two_chains {
    __m256 even[4], odd[4]; /* of 32 outputs */
} two_chains;

DOT_INLINE two_chains no_chains(void) {
    return (two_chains){{_mm256_setzero_ps()}, {_mm256_setzero_ps()}}; /* and the rest */
}

DOT_INLINE void add_chains(two_chains c, float *acc) {
    DOT_UNROLL for (int v = 0; v < 4; v++) {
        __m256 both = _mm256_add_ps(c.even[v], c.odd[v]);
        _mm256_storeu_ps(acc + 8 * v, _mm256_add_ps(_mm256_loadu_ps(acc + 8 * v), both));
    }
}

static void one_row_bf16(const uint16_t *from, const float *x, float *acc) {
    const __m256i high = _mm256_set1_epi32((int)0xffff0000);
    for (uint32_t lane = 0; lane < DOT_BLOCK; lane += 32) {
        const uint16_t *at = from + 2 * lane;
        two_chains c = no_chains();
        for (uint32_t k = 0; k < DOT_SUB; k += 2, at += 2 * DOT_BLOCK) {
            __m256 first = _mm256_broadcast_ss(x + k);
            __m256 second = _mm256_broadcast_ss(x + k + 1);
            _mm_prefetch((const char *)at + DOT_AHEAD, _MM_HINT_T0);
            _mm_prefetch((const char *)at + DOT_AHEAD + 64, _MM_HINT_T0);
            DOT_UNROLL for (int v = 0; v < 4; v++) {
                __m256i pair = _mm256_loadu_si256((const __m256i *)(const void *)(at + 16 * v));
                __m256 low = _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16));
                __m256 upper = _mm256_castsi256_ps(_mm256_and_si256(pair, high));
                c.even[v] = _mm256_fmadd_ps(first, low, c.even[v]);
                c.odd[v] = _mm256_fmadd_ps(second, upper, c.odd[v]);
            }
        }
        add_chains(c, acc + lane);
    }
}

/* Two tiles side by side, one row of each. */
DOT_INLINE void one_k(const uint16_t *tiles, uint32_t half_bits, uint32_t row,
                      exl3_codebook codebook, const float *x, __m256 sum[4]) {
    const panel_place *p = panel_places[half_bits][row];
    DOT_UNROLL for (int v = 0; v < 4; v++) {
        const uint16_t *tile = tiles + (size_t)(v / 2) * PANEL_RUNS * half_bits;
        __m256 codes = codes_of(states_at(tile, half_bits, p[v % 2]), codebook);
        sum[v] = _mm256_fmadd_ps(_mm256_broadcast_ss(x), codes, sum[v]);
    }
}

DOT_INLINE void one_row_tiles(const uint16_t *tiles, uint32_t half_bits, exl3_codebook codebook,
                              const float *x, float *acc) {
    const size_t tile = PANEL_RUNS * (size_t)half_bits;
    for (uint32_t panel = 0; panel < 8; panel += 2) {
        two_chains c = no_chains();
        for (uint32_t k = 0; k < DOT_SUB; k += 2) {
            const uint16_t *from = tiles + (k / EXL3_TILE * 8 + panel) * tile;
            one_k(from, half_bits, k % EXL3_TILE, codebook, x + k, c.even);
            one_k(from, half_bits, k % EXL3_TILE + 1, codebook, x + k + 1, c.odd);
        }
        add_chains(c, acc + panel * PANEL);
    }
}

static void one_row(const port_linear *w, uint32_t block, uint32_t k, const float *x, float *acc) {
    if (w->form == WEIGHT_PLAIN) {
        one_row_bf16(dot_u16_at(w, block, k), x, acc);
        return;
    }
    const uint16_t *tiles = dot_tiles_at(w, block, k);
    switch (w->codebook) {
    case EXL3_MUL1:
        one_row_tiles(tiles, w->bits2, EXL3_MUL1, x, acc);
        break;
    case EXL3_MCG:
        one_row_tiles(tiles, w->bits2, EXL3_MCG, x, acc);
        break;
    case EXL3_DEFAULT:
    case EXL3_CODEBOOKS:
        one_row_tiles(tiles, w->bits2, EXL3_DEFAULT, x, acc);
        break;
    }
}

static void add_weighted(float weight, const float *part, float *acc) {
    for (int i = 0; i < 16; i++)
        _mm256_storeu_ps(acc + 8 * i,
                         _mm256_fmadd_ps(_mm256_set1_ps(weight), _mm256_loadu_ps(part + 8 * i),
                                         _mm256_loadu_ps(acc + 8 * i)));
}

static void gate(const float *g, const float *u, float limit, uint32_t count, float *y) {
    dot_gate(g, u, limit, count, y);
}

const dot_steps dot_avx2 = {
    .turn_in = turn_in,
    .turn_out = turn_out,
    .round_bf16 = round_bf16,
    .widen_bf16 = widen_bf16,
    .widen_f16 = widen_f16,
    .widen_exl3 = widen_exl3,
    .multiply = multiply,
    .one_row = one_row,
    .add_weighted = add_weighted,
    .gate = gate,
};
