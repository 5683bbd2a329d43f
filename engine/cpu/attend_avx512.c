/* cpu/attend_avx512 - attention's inner loops, sixteen lanes a register; attend_plain.c is the
 * definition. */
#include "engine/cpu/attend.h"
#include "engine/cpu/dot_inner.h"

#include <immintrin.h>

#define LANES ATTEND_LANES

/* v[i][j] becomes v[j][i]. */
DOT_INLINE void transpose(__m512 v[16]) {
    __m512 a[16];
    DOT_UNROLL for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
        a[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
    /* Columns c, c + 4, c + 8, c + 12 of rows 4g to 4g + 3 in v[4g + c], a quarter each. */
    DOT_UNROLL for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_shuffle_ps(a[i], a[i + 2], 0x44);
        v[i + 1] = _mm512_shuffle_ps(a[i], a[i + 2], 0xEE);
        v[i + 2] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        v[i + 3] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0xEE);
    }
    DOT_UNROLL for (int c = 0; c < 4; c++) {
        __m512 low = _mm512_shuffle_f32x4(v[c], v[c + 4], 0x88);
        __m512 high = _mm512_shuffle_f32x4(v[c + 8], v[c + 12], 0x88);
        __m512 low_odd = _mm512_shuffle_f32x4(v[c], v[c + 4], 0xDD);
        __m512 high_odd = _mm512_shuffle_f32x4(v[c + 8], v[c + 12], 0xDD);
        a[c] = _mm512_shuffle_f32x4(low, high, 0x88);
        a[c + 8] = _mm512_shuffle_f32x4(low, high, 0xDD);
        a[c + 4] = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
        a[c + 12] = _mm512_shuffle_f32x4(low_odd, high_odd, 0xDD);
    }
    DOT_UNROLL for (int i = 0; i < 16; i++) v[i] = a[i];
}

static void turn(const float *q, uint32_t heads, uint32_t dim, float *out) {
    for (uint32_t k = 0; k < dim; k += 16) {
        uint32_t count = dim - k < 16 ? dim - k : 16;
        __mmask16 there = (__mmask16)((1u << count) - 1);
        __m512 v[16];
        DOT_UNROLL for (uint32_t h = 0; h < 16; h++) {
            __mmask16 own = h < heads ? there : 0;
            v[h] = _mm512_maskz_loadu_ps(own, q + (size_t)(h < heads ? h : 0) * dim + k);
        }
        transpose(v);
        DOT_UNROLL for (uint32_t i = 0; i < 16; i++) {
            if (i < count) _mm512_storeu_ps(out + (size_t)(k + i) * LANES, v[i]);
        }
    }
}

/* n keys at once: a query's dim is read once for all of them. */
DOT_INLINE void dots_of(const float *q, const float *const *keys, int n, uint32_t dim, float *out) {
    __m512 acc[8];
    DOT_UNROLL for (int j = 0; j < n; j++) acc[j] = _mm512_setzero_ps();
    for (uint32_t begin = 0; begin < dim; begin += DOT_SUB) {
        uint32_t end = dim - begin < DOT_SUB ? dim : begin + DOT_SUB;
        __m512 even[8];
        __m512 odd[8];
        DOT_UNROLL for (int j = 0; j < n; j++) even[j] = odd[j] = _mm512_setzero_ps();
        uint32_t k = begin;
        for (; k + 1 < end; k += 2) {
            __m512 first = _mm512_loadu_ps(q + (size_t)k * LANES);
            __m512 second = _mm512_loadu_ps(q + (size_t)k * LANES + LANES);
            DOT_UNROLL for (int j = 0; j < n; j++) {
                even[j] = _mm512_fmadd_ps(first, _mm512_set1_ps(keys[j][k]), even[j]);
                odd[j] = _mm512_fmadd_ps(second, _mm512_set1_ps(keys[j][k + 1]), odd[j]);
            }
        }
        if (k < end) {
            __m512 last = _mm512_loadu_ps(q + (size_t)k * LANES);
            DOT_UNROLL for (int j = 0; j < n; j++) even[j] =
                _mm512_fmadd_ps(last, _mm512_set1_ps(keys[j][k]), even[j]);
        }
        DOT_UNROLL for (int j = 0; j < n; j++) acc[j] =
            _mm512_add_ps(acc[j], _mm512_add_ps(even[j], odd[j]));
    }
    DOT_UNROLL for (int j = 0; j < n; j++) _mm512_storeu_ps(out + j * (int)LANES, acc[j]);
}

static void key_dots(const float *q, const float *const *keys, uint32_t count, uint32_t dim,
                     float *out) {
    uint32_t j = 0;
    for (; j + 8 <= count; j += 8)
        dots_of(q, keys + j, 8, dim, out + (size_t)j * LANES);
    for (; j + 2 <= count; j += 2)
        dots_of(q, keys + j, 2, dim, out + (size_t)j * LANES);
    if (j < count) dots_of(q, keys + j, 1, dim, out + (size_t)j * LANES);
}

/* Four heads, n registers of dims from `begin` on; `there` are the lanes of the last one. */
DOT_INLINE void values_of(const attend_task *t, const float *sum, uint32_t head, uint32_t begin,
                          int n, __mmask16 there) {
    __m512 acc[4][4];
    DOT_UNROLL for (int h = 0; h < 4; h++) {
        DOT_UNROLL for (int i = 0; i < n; i++) acc[h][i] = _mm512_setzero_ps();
    }
    for (uint32_t j = 0; j < t->count; j++) {
        const float *w = t->scores + (size_t)j * LANES + head;
        const float *key = t->keys[j] + begin;
        __m512 v[4];
        DOT_UNROLL for (int i = 0; i < n; i++) v[i] =
            n == 1 ? _mm512_maskz_loadu_ps(there, key) : _mm512_loadu_ps(key + 16 * i);
        DOT_UNROLL for (int h = 0; h < 4; h++) {
            DOT_UNROLL for (int i = 0; i < n; i++) acc[h][i] =
                _mm512_fmadd_ps(_mm512_set1_ps(w[h]), v[i], acc[h][i]);
        }
    }
    DOT_UNROLL for (uint32_t h = 0; h < 4; h++) {
        if (head + h >= t->heads) break;
        float *y = t->y + (size_t)(head + h) * t->dim + begin;
        __m512 by = _mm512_set1_ps(sum[head + h]);
        DOT_UNROLL for (int i = 0; i < n; i++) _mm512_mask_storeu_ps(
            y + 16 * i, n == 1 ? there : 0xffff, _mm512_div_ps(acc[h][i], by));
    }
}

static void values(const attend_task *t, const float *sum) {
    uint32_t begin = 0;
    for (; begin + 64 <= t->dim; begin += 64) {
        for (uint32_t head = 0; head < t->heads; head += 4)
            values_of(t, sum, head, begin, 4, 0xffff);
    }
    for (; begin < t->dim; begin += 16) {
        uint32_t count = t->dim - begin < 16 ? t->dim - begin : 16;
        for (uint32_t head = 0; head < t->heads; head += 4)
            values_of(t, sum, head, begin, 1, (__mmask16)((1u << count) - 1));
    }
}

static void add_relus(const float *s, const float *w, uint32_t heads, float *acc) {
    __m512 v[16];
    __m512 sum = _mm512_loadu_ps(acc);
    DOT_UNROLL for (uint32_t j = 0; j < 16; j++) {
        __m512 score = _mm512_loadu_ps(s + j * LANES);
        __mmask16 kept = _mm512_cmp_ps_mask(score, _mm512_setzero_ps(), _CMP_NLE_UQ);
        v[j] = _mm512_maskz_mov_ps(kept, score);
    }
    transpose(v);
    DOT_UNROLL for (uint32_t h = 0; h < 16; h++) {
        if (h < heads) sum = _mm512_fmadd_ps(_mm512_set1_ps(w[h]), v[h], sum);
    }
    _mm512_storeu_ps(acc, sum);
}

#define ATTEND_STEPS attend_avx512
#include "engine/cpu/attend_impl.def"
