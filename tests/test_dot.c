/* cpu/dot against sums written here from NUMERICS and MODEL 8, and every instruction set against the
 * plain one, bit for bit. */
#include "engine/base/arena.h"
#include "engine/canon/flush.h"
#include "engine/cpu/dot.h"
#include "engine/cpu/isa.h"
#include "tests/support/check.h"
#include "tests/support/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- data ---- */

/* Numbers of every size: most near 1, some wide, some subnormal, some zero of either sign. */
static float some_float(check_random *r, bool wild) {
    uint64_t bits = check_next(r);
    float unit = (float)((double)(bits >> 40) / 8388608.0 - 1.0);
    if (!wild) return unit;
    switch (bits & 15) {
    case 0:
        return (bits & 16) != 0 ? 0.0f : -0.0f;
    case 1:
        return unit * 1e-39f;
    case 2:
        return unit * 1e-20f;
    case 3:
        return unit * 1e15f;
    case 4:
        return unit * 1e-30f;
    }
    return unit;
}

static float *floats(check_random *r, size_t count, bool wild) {
    float *out = malloc(count * sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = some_float(r, wild);
    return out;
}

/* A linear as stored, and what its weights mean: value [K, N], for exl3 the codes. */
typedef struct linear {
    device_source source;
    void *stored;
    uint16_t *suh, *svh;
    float *value;
} linear;

static linear plain_linear(check_random *r, tf_dtype dtype, uint32_t k, uint32_t n, bool wild) {
    linear l = {.source = {.form = WEIGHT_PLAIN, .dtype = dtype, .k = k, .n = n}};
    l.stored = malloc((size_t)k * n * 4);
    l.value = malloc((size_t)k * n * sizeof(float));
    for (size_t i = 0; i < (size_t)k * n; i++) {
        float v = some_float(r, wild);
        if (dtype == DTYPE_F32) {
            ((float *)l.stored)[i] = v;
        } else if (dtype == DTYPE_BF16) {
            uint16_t bits = bf16_from_f32(v);
            ((uint16_t *)l.stored)[i] = bits;
            v = f32_from_bf16(bits);
        } else {
            uint16_t bits = f16_from_f32(fabsf(v) > 60000.0f ? 1.0f : v);
            ((uint16_t *)l.stored)[i] = bits;
            v = f32_from_f16(bits);
        }
        l.value[i % k * n + i / k] = v;
    }
    l.source.weight = l.stored;
    return l;
}

static linear exl3_linear(check_random *r, exl3_codebook codebook, uint32_t bits2, uint32_t k,
                          uint32_t n) {
    linear l = {
        .source = {.form = WEIGHT_EXL3, .codebook = codebook, .bits2 = bits2, .k = k, .n = n}};
    size_t words = (size_t)k / 16 * (n / 16) * 8 * bits2;
    uint16_t *trellis = malloc(words * sizeof *trellis);
    uint16_t *codes = malloc((size_t)k * n * sizeof *codes);
    for (size_t i = 0; i < words; i++)
        trellis[i] = (uint16_t)check_next(r);
    l.suh = malloc(k * sizeof *l.suh);
    l.svh = malloc(n * sizeof *l.svh);
    for (size_t i = 0; i < k; i++)
        l.suh[i] = f16_from_f32(some_float(r, false) + 0.1f);
    for (size_t i = 0; i < n; i++)
        l.svh[i] = f16_from_f32(some_float(r, false));
    exl3_decode(&(exl3_shape){k, n, bits2, codebook}, trellis, codes);
    l.value = malloc((size_t)k * n * sizeof(float));
    for (size_t i = 0; i < (size_t)k * n; i++)
        l.value[i] = f32_from_f16(codes[i]);
    free(codes);
    l.stored = trellis;
    l.source.trellis = trellis;
    l.source.suh = l.suh;
    l.source.svh = l.svh;
    return l;
}

static void drop_linear(linear *l) {
    free(l->stored);
    free(l->suh);
    free(l->svh);
    free(l->value);
}

/* ---- the rule, written once more ---- */

static void turn(float *v) {
    float next[128];
    for (uint32_t bit = 0; bit < 7; bit++) {
        for (uint32_t i = 0; i < 128; i++) {
            uint32_t other = i ^ 1u << bit;
            next[i] = (i >> bit & 1) != 0 ? v[other] - v[i] : v[i] + v[other];
        }
        memcpy(v, next, sizeof next);
    }
    for (uint32_t i = 0; i < 128; i++)
        v[i] = v[i] * (float)(1.0 / sqrt(128.0));
}

static float rounded(float v) {
    return f32_from_bf16(bf16_from_f32(v));
}

/* One row's leaf [begin, end) of K: n sums. */
static void want_leaf(const linear *l, port_profile profile, const float *x, uint32_t begin,
                      uint32_t end, float *out) {
    const device_source *s = &l->source;
    bool exl3 = s->form == WEIGHT_EXL3;
    float *ready = malloc((end - begin) * sizeof *ready);
    for (uint32_t k = begin; k < end; k++)
        ready[k - begin] = exl3 ? x[k] * f32_from_f16(s->suh[k]) : x[k];
    for (uint32_t k = 0; exl3 && k < end - begin; k += 128)
        turn(ready + k);
    for (uint32_t k = 0; k < end - begin; k++) {
        if (profile == PROFILE_BF16 && (exl3 || s->dtype == DTYPE_BF16))
            ready[k] = rounded(ready[k]);
    }
    for (uint32_t n = 0; n < s->n; n++) {
        float acc = 0.0f;
        for (uint32_t sub = begin; sub < end; sub += 32) {
            float chain[2] = {0.0f, 0.0f};
            for (uint32_t k = sub; k < end && k < sub + 32; k++)
                chain[(k - sub) % 2] =
                    fmaf(ready[k - begin], l->value[(size_t)k * s->n + n], chain[(k - sub) % 2]);
            float both = chain[0] + chain[1];
            acc = acc + both;
        }
        out[n] = acc;
    }
    for (uint32_t n = 0; exl3 && n < s->n; n += 128) {
        turn(out + n);
        for (uint32_t i = n; i < n + 128; i++)
            out[i] = out[i] * f32_from_f16(s->svh[i]);
    }
    free(ready);
}

/* The tree over leaves [begin, end) of all, absent ones skipped; parts [leaves of the rank, n]. */
static bool want_tree(const float *parts, uint32_t first, uint32_t n, uint32_t begin, uint32_t size,
                      uint32_t end, float *out) {
    if (begin >= end) return false;
    if (size == 1) {
        memcpy(out, parts + (size_t)(begin - first) * n, n * sizeof *out);
        return true;
    }
    float *right = malloc(n * sizeof *right);
    want_tree(parts, first, n, begin, size / 2, end, out);
    if (want_tree(parts, first, n, begin + size / 2, size / 2, end, right)) {
        for (uint32_t i = 0; i < n; i++)
            out[i] = out[i] + right[i];
    }
    free(right);
    return true;
}

/* ---- a launch ---- */

typedef struct setting {
    const char *isa;
    uint32_t threads;
    port_profile profile;
} setting;

static device *open_device(check_case *t, const setting *s) {
    tf_error err = {0};
    device *d = NULL;
    device_settings settings = {.threads = s->threads, .profile = s->profile, .isa = s->isa};
    CHECK(t, cpu_open(&settings, &d, &err) == TF_OK);
    return d;
}

/* y = the launch's; x, y and add are dense. */
static void run_dot(check_case *t, device *d, const linear *l, const args_dot *given,
                    uint32_t rows) {
    tf_error err = {0};
    args_dot a = *given;
    port_linear loaded;
    CHECK(t, d->ops->load(d, &l->source, &loaded, &err) == TF_OK);
    a.w = (port_weight){&loaded, 1, 0};
    port_launch launch = {CALL_DOT, "dot", rows, &a};
    CHECK(t, d->ops->reserve(d, &launch, &err) == TF_OK);
    CHECK(t, d->ops->launch(d, &launch, &err) == TF_OK);
    d->ops->drop(d, (void *)(uintptr_t)loaded.data);
}

static port_tensor matrix(float *data, uint32_t rows, uint32_t columns, size_t stride) {
    return (port_tensor){.data = data,
                         .dtype = DTYPE_F32,
                         .dims = 2,
                         .shape = {rows, columns},
                         .stride = {stride, 1}};
}

static bool same_bits(check_case *t, const float *got, const float *want, size_t count,
                      const char *what) {
    for (size_t i = 0; i < count; i++) {
        if (f32_bits(got[i]) != f32_bits(want[i]))
            return CHECKF(t, false, "%s: element %zu is %a (%08x), want %a (%08x)", what, i,
                          (double)got[i], f32_bits(got[i]), (double)want[i], f32_bits(want[i]));
    }
    return true;
}

static args_dot one_leaf(float *x, float *y, uint32_t rows, uint32_t k, uint32_t n) {
    return (args_dot){.x = matrix(x, rows, k, k),
                      .y = matrix(y, rows, n, n),
                      .leaf = k,
                      .leaves = 1,
                      .all_leaves = 1};
}

/* A linear over `rows` rows on a device, against the rule. */
static void hold(check_case *t, check_random *r, const setting *s, const linear *l, uint32_t rows,
                 bool wild) {
    uint32_t k = l->source.k;
    uint32_t n = l->source.n;
    float *x = floats(r, (size_t)rows * k, wild);
    float *y = malloc((size_t)rows * n * sizeof *y);
    float *want = malloc((size_t)rows * n * sizeof *want);
    char what[96];
    device *d = open_device(t, s);
    args_dot a = one_leaf(x, y, rows, k, n);
    run_dot(t, d, l, &a, rows);
    uint64_t mode = flush_begin();
    for (uint32_t i = 0; i < rows; i++)
        want_leaf(l, s->profile, x + (size_t)i * k, 0, k, want + (size_t)i * n);
    flush_restore(mode);
    snprintf(what, sizeof what, "%s, %u threads, profile %d, %u rows, K %u, N %u", s->isa,
             s->threads, (int)s->profile, rows, k, n);
    same_bits(t, y, want, (size_t)rows * n, what);
    d->ops->close(d);
    free(x);
    free(y);
    free(want);
}

/* ---- cases ---- */

static void sums_in_the_canonical_order(check_case *t) {
    check_random r = check_seed(t);
    static const uint32_t shapes[][2] = {{1, 1}, {2, 24}, {31, 6}, {33, 16}, {64, 130}, {257, 40}};
    static const tf_dtype dtypes[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (size_t k = 0; k < COUNT(dtypes); k++) {
            linear l = plain_linear(&r, dtypes[k], shapes[i][0], shapes[i][1], true);
            hold(t, &r, &(setting){"scalar", 1, PROFILE_F32}, &l, 3, true);
            hold(t, &r, &(setting){"scalar", 1, PROFILE_BF16}, &l, 2, true);
            drop_linear(&l);
        }
    }
}

static void exl3_is_turned_around_each_leaf(check_case *t) {
    check_random r = check_seed(t);
    for (exl3_codebook c = EXL3_DEFAULT; c < EXL3_CODEBOOKS; c++) {
        for (uint32_t bits2 = 2; bits2 <= 16; bits2++) {
            linear l = exl3_linear(&r, c, bits2, 128, bits2 % 3 == 0 ? 256 : 128);
            hold(t, &r, &(setting){"scalar", 1, PROFILE_F32}, &l, 1, false);
            drop_linear(&l);
        }
    }
}

static const check_entry cases[] = {
    {"dot/sums-in-the-canonical-order", sums_in_the_canonical_order},
    {"dot/exl3-is-turned-around-each-leaf", exl3_is_turned_around_each_leaf},
};

int main(int argc, char **argv) {
    (void)want_tree;
    return check_main(argc, argv, cases, COUNT(cases));
}
