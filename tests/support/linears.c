#include "tests/support/linears.h"

#include "engine/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- data ---- */

float linear_float(check_random *r, bool wild) {
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

float *linear_floats(check_random *r, size_t count, bool wild) {
    float *out = malloc(count * sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = linear_float(r, wild);
    return out;
}

linear linear_plain(check_random *r, tf_dtype dtype, uint32_t k, uint32_t n, bool wild) {
    linear l = {.source = {.form = WEIGHT_PLAIN, .dtype = dtype, .k = k, .n = n}};
    l.stored = malloc((size_t)k * n * 4);
    l.value = malloc((size_t)k * n * sizeof(float));
    for (size_t i = 0; i < (size_t)k * n; i++) {
        float v = linear_float(r, wild);
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

linear linear_exl3(check_random *r, exl3_codebook codebook, uint32_t bits2, uint32_t k,
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
        l.suh[i] = f16_from_f32(linear_float(r, false) + 0.1f);
    for (size_t i = 0; i < n; i++)
        l.svh[i] = f16_from_f32(linear_float(r, false));
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

void linear_drop(linear *l) {
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

void linear_leaf(const linear *l, port_profile profile, const float *x, uint32_t begin,
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

bool linear_tree(const float *parts, uint32_t first, uint32_t n, uint32_t begin, uint32_t size,
                 uint32_t end, float *out) {
    if (begin >= end) return false;
    if (size == 1) {
        memcpy(out, parts + (size_t)(begin - first) * n, n * sizeof *out);
        return true;
    }
    float *right = malloc(n * sizeof *right);
    linear_tree(parts, first, n, begin, size / 2, end, out);
    if (linear_tree(parts, first, n, begin + size / 2, size / 2, end, right)) {
        for (uint32_t i = 0; i < n; i++)
            out[i] = out[i] + right[i];
    }
    free(right);
    return true;
}

/* ---- devices ---- */

device *linear_device(check_case *t, const linear_setting *s) {
    tf_error err = {0};
    device *d = NULL;
    device_settings settings = {.threads = s->threads, .profile = s->profile, .isa = s->isa};
    CHECK(t, cpu_open(&settings, &d, &err) == TF_OK);
    return d;
}

port_linear linear_load(check_case *t, device *d, const linear *l) {
    tf_error err = {0};
    port_linear out = {0};
    CHECK(t, d->ops->load(d, &l->source, &out, &err) == TF_OK);
    return out;
}

void linear_launch(check_case *t, device *d, const port_launch *launch) {
    tf_error err = {0};
    CHECK(t, d->ops->reserve(d, launch, &err) == TF_OK);
    CHECK(t, d->ops->launch(d, launch, &err) == TF_OK);
}

size_t linear_isas(const char *names[4]) {
    size_t count = 0;
    for (cpu_isa isa = CPU_SCALAR; isa <= cpu_best_isa(); isa++)
        names[count++] = cpu_isa_name(isa);
    return count;
}

port_tensor linear_matrix(void *data, tf_dtype dtype, uint32_t rows, uint32_t columns) {
    return (port_tensor){
        .data = data, .dtype = dtype, .dims = 2, .shape = {rows, columns}, .stride = {columns, 1}};
}

bool linear_same(check_case *t, const float *got, const float *want, size_t count,
                 const char *what) {
    for (size_t i = 0; i < count; i++) {
        if (f32_bits(got[i]) != f32_bits(want[i]))
            return CHECKF(t, false, "%s: element %zu is %a (%08x), want %a (%08x)", what, i,
                          (double)got[i], f32_bits(got[i]), (double)want[i], f32_bits(want[i]));
    }
    return true;
}
