/* cpu/attend_avx2 - attention's inner loops, eight lanes a register; attend_plain.c is the
 * definition. */
#include "engine/cpu/attend.h"
#include "engine/cpu/dot_inner.h"

#include <immintrin.h>
#include <string.h>

#define LANES ATTEND_LANES

/* v[i][j] becomes v[j][i]. */
DOT_INLINE void transpose(__m256 v[8]) {
    __m256 a[8];
    __m256 b[8];
    DOT_UNROLL for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    DOT_UNROLL for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xEE);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xEE);
    }
    DOT_UNROLL for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

static void turn(const float *q, uint32_t heads, uint32_t dim, float *out) {
    uint32_t k = 0;
    memset(out, 0, (size_t)dim * LANES * sizeof *out);
    for (; k + 8 <= dim; k += 8) {
        uint32_t h = 0;
        for (; h + 8 <= heads; h += 8) {
            __m256 v[8];
            DOT_UNROLL for (uint32_t i = 0; i < 8; i++) v[i] =
                _mm256_loadu_ps(q + (size_t)(h + i) * dim + k);
            transpose(v);
            DOT_UNROLL for (uint32_t i = 0; i < 8; i++)
                _mm256_storeu_ps(out + (size_t)(k + i) * LANES + h, v[i]);
        }
        for (; h < heads; h++) {
            for (uint32_t i = 0; i < 8; i++)
                out[(k + i) * LANES + h] = q[(size_t)h * dim + k + i];
        }
    }
    for (; k < dim; k++) {
        for (uint32_t h = 0; h < heads; h++)
            out[k * LANES + h] = q[(size_t)h * dim + k];
    }
}

/* n keys and eight heads at once: a query's dim is read once for all of them. */
DOT_INLINE void dots_of(const float *q, const float *const *keys, int n, uint32_t dim, float *out) {
    __m256 acc[4];
    DOT_UNROLL for (int j = 0; j < n; j++) acc[j] = _mm256_setzero_ps();
    for (uint32_t begin = 0; begin < dim; begin += DOT_SUB) {
        uint32_t end = dim - begin < DOT_SUB ? dim : begin + DOT_SUB;
        __m256 even[4];
        __m256 odd[4];
        DOT_UNROLL for (int j = 0; j < n; j++) even[j] = odd[j] = _mm256_setzero_ps();
        uint32_t k = begin;
        for (; k + 1 < end; k += 2) {
            __m256 first = _mm256_loadu_ps(q + (size_t)k * LANES);
            __m256 second = _mm256_loadu_ps(q + (size_t)k * LANES + LANES);
            DOT_UNROLL for (int j = 0; j < n; j++) {
                even[j] = _mm256_fmadd_ps(first, _mm256_set1_ps(keys[j][k]), even[j]);
                odd[j] = _mm256_fmadd_ps(second, _mm256_set1_ps(keys[j][k + 1]), odd[j]);
            }
        }
        if (k < end) {
            __m256 last = _mm256_loadu_ps(q + (size_t)k * LANES);
            DOT_UNROLL for (int j = 0; j < n; j++) even[j] =
                _mm256_fmadd_ps(last, _mm256_set1_ps(keys[j][k]), even[j]);
        }
        DOT_UNROLL for (int j = 0; j < n; j++) acc[j] =
            _mm256_add_ps(acc[j], _mm256_add_ps(even[j], odd[j]));
    }
    DOT_UNROLL for (int j = 0; j < n; j++) _mm256_storeu_ps(out + j * (int)LANES, acc[j]);
}

static void key_dots(const float *q, const float *const *keys, uint32_t count, uint32_t dim,
                     float *out) {
    for (uint32_t half = 0; half < LANES; half += 8) {
        uint32_t j = 0;
        for (; j + 4 <= count; j += 4)
            dots_of(q + half, keys + j, 4, dim, out + (size_t)j * LANES + half);
        for (; j < count; j++)
            dots_of(q + half, keys + j, 1, dim, out + (size_t)j * LANES + half);
    }
}

/* Four heads, n registers of dims from `begin` on. */
DOT_INLINE void values_of(const attend_task *t, const float *sum, uint32_t head, uint32_t begin,
                          int n) {
    __m256 acc[4][2];
    DOT_UNROLL for (int h = 0; h < 4; h++) {
        DOT_UNROLL for (int i = 0; i < n; i++) acc[h][i] = _mm256_setzero_ps();
    }
    for (uint32_t j = 0; j < t->count; j++) {
        const float *w = t->scores + (size_t)j * LANES + head;
        const float *key = t->keys[j] + begin;
        __m256 v[2];
        DOT_UNROLL for (int i = 0; i < n; i++) v[i] = _mm256_loadu_ps(key + 8 * i);
        DOT_UNROLL for (int h = 0; h < 4; h++) {
            DOT_UNROLL for (int i = 0; i < n; i++) acc[h][i] =
                _mm256_fmadd_ps(_mm256_set1_ps(w[h]), v[i], acc[h][i]);
        }
    }
    DOT_UNROLL for (uint32_t h = 0; h < 4; h++) {
        if (head + h >= t->heads) break;
        float *y = t->y + (size_t)(head + h) * t->dim + begin;
        __m256 by = _mm256_set1_ps(sum[head + h]);
        DOT_UNROLL for (int i = 0; i < n; i++)
            _mm256_storeu_ps(y + 8 * i, _mm256_div_ps(acc[h][i], by));
    }
}

static void value_of(const attend_task *t, const float *sum, uint32_t head, uint32_t k) {
    float acc = 0.0f;
    for (uint32_t j = 0; j < t->count; j++)
        acc = fmaf(t->scores[(size_t)j * LANES + head], t->keys[j][k], acc);
    t->y[(size_t)head * t->dim + k] = acc / sum[head];
}

static void values(const attend_task *t, const float *sum) {
    uint32_t begin = 0;
    for (; begin + 16 <= t->dim; begin += 16) {
        for (uint32_t head = 0; head < t->heads; head += 4)
            values_of(t, sum, head, begin, 2);
    }
    for (; begin < t->dim; begin++) {
        for (uint32_t head = 0; head < t->heads; head++)
            value_of(t, sum, head, begin);
    }
}

static void add_relus(const float *s, const float *w, uint32_t heads, float *acc) {
    for (uint32_t part = 0; part < 4; part++) {
        uint32_t key = part % 2 * 8;
        uint32_t head = part / 2 * 8;
        __m256 v[8];
        __m256 sum = _mm256_loadu_ps(acc + key);
        DOT_UNROLL for (uint32_t j = 0; j < 8; j++) {
            __m256 score = _mm256_loadu_ps(s + (key + j) * LANES + head);
            __m256 kept = _mm256_cmp_ps(score, _mm256_setzero_ps(), _CMP_NLE_UQ);
            v[j] = _mm256_and_ps(kept, score);
        }
        transpose(v);
        DOT_UNROLL for (uint32_t h = 0; h < 8; h++) {
            if (head + h < heads) sum = _mm256_fmadd_ps(_mm256_set1_ps(w[head + h]), v[h], sum);
        }
        _mm256_storeu_ps(acc + key, sum);
    }
}

#define ATTEND_STEPS attend_avx2
#include "engine/cpu/attend_impl.def"
