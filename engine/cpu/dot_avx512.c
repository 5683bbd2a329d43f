/* cpu/dot_avx512 - the steps of a product in registers of 16 outputs. */
#include "engine/cpu/dot_inner.h"

#include <immintrin.h>

/* ---- rotation ---- */

/* Sums to the lanes whose `half` bit is 0, differences (lower - higher) to the others. */
DOT_INLINE __m512 level(__m512 v, __m512 partner, __mmask16 higher) {
    return _mm512_mask_sub_ps(_mm512_add_ps(v, partner), higher, partner, v);
}

DOT_INLINE void rotate(__m512 v[8]) {
    DOT_UNROLL for (int i = 0; i < 8; i++) {
        v[i] = level(v[i], _mm512_permute_ps(v[i], 0xB1), 0xAAAA);
        v[i] = level(v[i], _mm512_permute_ps(v[i], 0x4E), 0xCCCC);
        v[i] = level(v[i], _mm512_shuffle_f32x4(v[i], v[i], 0xB1), 0xF0F0);
        v[i] = level(v[i], _mm512_shuffle_f32x4(v[i], v[i], 0x4E), 0xFF00);
    }
    DOT_UNROLL for (int bit = 0; bit < 3; bit++) {
        DOT_UNROLL for (int i = 0; i < 8; i++) {
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
    DOT_UNROLL for (int i = 0; i < 8; i++) v[i] =
        _mm512_mul_ps(_mm512_loadu_ps(x + 16 * i), _mm512_loadu_ps(suh + 16 * i));
    rotate(v);
    DOT_UNROLL for (int i = 0; i < 8; i++)
        _mm512_storeu_ps(y + 16 * i, _mm512_mul_ps(v[i], _mm512_set1_ps(DOT_TURN)));
}

static void turn_out(float *y, const float *svh) {
    __m512 v[8];
    DOT_UNROLL for (int i = 0; i < 8; i++) v[i] = _mm512_loadu_ps(y + 16 * i);
    rotate(v);
    DOT_UNROLL for (int i = 0; i < 8; i++) {
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

static void widen_bf16(const uint16_t *from, const dot_slab *s, float *slab) {
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);
    for (uint32_t k = 0; k < s->count; k += 2, slab += 2 * s->stride) {
        for (uint32_t p = 0; p < s->panels; p++, from += 2 * PANEL) {
            __m512i pair = _mm512_loadu_si512(from);
            _mm_prefetch((const char *)from + DOT_AHEAD, _MM_HINT_T0);
            _mm512_storeu_si512(slab + p * PANEL, _mm512_slli_epi32(pair, 16));
            _mm512_storeu_si512(slab + s->stride + p * PANEL, _mm512_and_si512(pair, high));
        }
    }
}

static void widen_f16(const uint16_t *from, const dot_slab *s, float *slab) {
    for (size_t i = 0; i < s->count * s->stride; i += 16) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
        _mm_prefetch((const char *)(from + i) + DOT_AHEAD, _MM_HINT_T0);
        _mm512_storeu_ps(slab + i, _mm512_cvtph_ps(v));
    }
}

/* ---- products ---- */

/* Chains over k = first, first + 2, ... of R rows and 16 * P outputs. */
DOT_INLINE void chain(const dot_slab *s, const float *w, const float *x, uint32_t first, int R,
                      int P, __m512 sum[6][4]) {
    DOT_UNROLL for (int r = 0; r < R; r++) {
        DOT_UNROLL for (int p = 0; p < P; p++) sum[r][p] = _mm512_setzero_ps();
    }
    w += first * s->stride;
    for (uint32_t k = first; k < s->count; k += 2, w += 2 * s->stride) {
        __m512 lanes[4];
        DOT_UNROLL for (int p = 0; p < P; p++) lanes[p] = _mm512_loadu_ps(w + p * 16);
        DOT_UNROLL for (int r = 0; r < R; r++) {
            __m512 row = _mm512_set1_ps(x[(size_t)r * DOT_BLOCK + k]);
            DOT_UNROLL for (int p = 0; p < P; p++) sum[r][p] =
                _mm512_fmadd_ps(row, lanes[p], sum[r][p]);
        }
    }
}

DOT_INLINE void add_chains(float *acc, const float *even, __m512 odd) {
    __m512 both = _mm512_add_ps(_mm512_load_ps(even), odd);
    _mm512_storeu_ps(acc, _mm512_add_ps(_mm512_loadu_ps(acc), both));
}

/* Twenty-four chains fill the registers; those over even k wait in memory. */
DOT_INLINE void tile(const dot_slab *s, const float *w, const float *x, float *acc, int R, int P) {
    _Alignas(64) float even[6 * 4 * 16];
    __m512 sum[6][4];
    chain(s, w, x, 0, R, P, sum);
    DOT_UNROLL for (int r = 0; r < R; r++) {
        DOT_UNROLL for (int p = 0; p < P; p++) _mm512_store_ps(even + (r * 4 + p) * 16, sum[r][p]);
    }
    chain(s, w, x, 1, R, P, sum);
    DOT_UNROLL for (int r = 0; r < R; r++) {
        DOT_UNROLL for (int p = 0; p < P; p++)
            add_chains(acc + (size_t)r * DOT_BLOCK + p * 16, even + (r * 4 + p) * 16, sum[r][p]);
    }
}

/* Few rows: both chains at once, else the units would wait for each other. */
DOT_INLINE void small_tile(const dot_slab *s, const float *w, const float *x, float *acc, int R,
                           int P) {
    __m512 even[3][4];
    __m512 odd[3][4];
    DOT_UNROLL for (int r = 0; r < R; r++) {
        DOT_UNROLL for (int p = 0; p < P; p++) {
            even[r][p] = _mm512_setzero_ps();
            odd[r][p] = _mm512_setzero_ps();
        }
    }
    uint32_t pairs = s->count / 2;
    for (uint32_t k = 0; k < 2 * pairs; k += 2, w += 2 * s->stride) {
        DOT_UNROLL for (int r = 0; r < R; r++) {
            __m512 first = _mm512_set1_ps(x[(size_t)r * DOT_BLOCK + k]);
            __m512 second = _mm512_set1_ps(x[(size_t)r * DOT_BLOCK + k + 1]);
            DOT_UNROLL for (int p = 0; p < P; p++) {
                even[r][p] = _mm512_fmadd_ps(first, _mm512_loadu_ps(w + p * 16), even[r][p]);
                odd[r][p] =
                    _mm512_fmadd_ps(second, _mm512_loadu_ps(w + s->stride + p * 16), odd[r][p]);
            }
        }
    }
    DOT_UNROLL for (int r = 0; r < R; r++) {
        DOT_UNROLL for (int p = 0; p < P; p++) {
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

/* Pairs of k go from their stream straight into the sums. */
static void one_row_bf16(const uint16_t *from, const float *x, float *acc) {
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);
    __m512 even[8];
    __m512 odd[8];
    DOT_UNROLL for (int p = 0; p < 8; p++) {
        even[p] = _mm512_setzero_ps();
        odd[p] = _mm512_setzero_ps();
    }
    for (uint32_t k = 0; k < DOT_SUB; k += 2, from += 2 * DOT_BLOCK) {
        __m512 first = _mm512_set1_ps(x[k]);
        __m512 second = _mm512_set1_ps(x[k + 1]);
        DOT_UNROLL for (int p = 0; p < 8; p++) {
            __m512i pair = _mm512_loadu_si512(from + 32 * p);
            _mm_prefetch((const char *)(from + 32 * p) + DOT_AHEAD, _MM_HINT_T0);
            __m512 low = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
            even[p] = _mm512_fmadd_ps(first, low, even[p]);
            __m512 upper = _mm512_castsi512_ps(_mm512_and_si512(pair, high));
            odd[p] = _mm512_fmadd_ps(second, upper, odd[p]);
        }
    }
    DOT_UNROLL for (int p = 0; p < 8; p++) {
        __m512 both = _mm512_add_ps(even[p], odd[p]);
        _mm512_storeu_ps(acc + 16 * p, _mm512_add_ps(_mm512_loadu_ps(acc + 16 * p), both));
    }
}

static void one_row(const port_linear *w, uint32_t block, uint32_t k, const float *x, float *acc) {
    if (w->form == WEIGHT_EXL3) {
        dot_exl3_one_row_avx512(w, block, k, x, acc);
    } else {
        one_row_bf16(dot_u16_at(w, block, k), x, acc);
    }
}

static void add_weighted(float weight, const float *part, float *acc) {
    DOT_UNROLL for (int i = 0; i < 8; i++) _mm512_storeu_ps(
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
    .widen_bf16 = widen_bf16,
    .widen_f16 = widen_f16,
    .widen_exl3 = dot_exl3_widen_avx512,
    .multiply = multiply,
    .one_row = one_row,
    .add_weighted = add_weighted,
    .gate = gate,
};
