/* The product's rates against what the machine can do: bytes of weights a second against a plain read of
 * the same bytes by the same threads, products a second against chains of fused multiply-adds. */
#include "tests/bench/bench.h"

#include "engine/base/arena.h"
#include "engine/cpu/cpu.h"
#include "engine/pack/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define DEPTH     5120u
#define READ_JOBS 64u

/* ---- the machine ---- */

typedef struct reading {
    const uint64_t *words;
    size_t count;
    uint64_t sums[READ_JOBS];
} reading;

/* Wide loads that wait for nothing. */
#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static uint64_t
read_words(const uint64_t *from, size_t count) {
    uint64_t sum = 0;
#if defined(__x86_64__)
    __m256i lanes[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                        _mm256_setzero_si256()};
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        for (size_t k = 0; k < 4; k++) {
            const void *at = from + i + 4 * k;
            lanes[k] = _mm256_xor_si256(lanes[k], _mm256_loadu_si256(at));
        }
    }
    for (size_t k = 0; k < 4; k++)
        sum ^= (uint64_t)_mm256_extract_epi64(lanes[k], 0);
#else
    for (size_t i = 0; i < count; i++)
        sum ^= from[i];
#endif
    return sum;
}

static void read_part(void *context, size_t index, uint32_t worker) {
    reading *r = context;
    size_t count = r->count / READ_JOBS;
    (void)worker;
    r->sums[index] = read_words(r->words + count * index, count);
}

/* Bytes a second. */
static double read_rate(const cpu_device *d, const void *data, size_t bytes) {
    reading r = {.words = data, .count = bytes / 8};
    double begin = bench_now();
    team_run(d->team, READ_JOBS, read_part, &r);
    double rate = (double)bytes / (bench_now() - begin);
    volatile uint64_t seen = r.sums[0];
    (void)seen;
    return rate;
}

#define CHAINS 12
#define STEPS  20000000u

typedef struct peak {
    float result[64];
    cpu_isa isa;
} peak;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float chains_avx512(float x) {
    __m512 sum[CHAINS];
    __m512 a = _mm512_set1_ps(x);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (uint32_t k = 0; k < STEPS; k++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm512_fmadd_ps(a, sum[i], a);
    }
    float all = 0.0f;
    for (int i = 0; i < CHAINS; i++)
        all += _mm512_cvtss_f32(sum[i]);
    return all;
}

__attribute__((target("avx2,fma"))) static float chains_avx2(float x) {
    __m256 sum[CHAINS];
    __m256 a = _mm256_set1_ps(x);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (uint32_t k = 0; k < STEPS; k++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm256_fmadd_ps(a, sum[i], a);
    }
    float all = 0.0f;
    for (int i = 0; i < CHAINS; i++)
        all += _mm256_cvtss_f32(sum[i]);
    return all;
}
#endif

#if defined(__x86_64__)
/* TDPBF16PS on four sums: 16 rows, 16 pairs and 16 outputs each. */
__attribute__((target("amx-tile,amx-bf16"))) static void tiles_amx(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = 64;
        c.rows[i] = 16;
    }
    _tile_loadconfig(&c);
    _tile_zero(4);
    _tile_zero(6);
    for (uint32_t k = 0; k < STEPS / 16; k++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 6);
        _tile_dpbf16ps(2, 4, 6);
        _tile_dpbf16ps(3, 4, 6);
    }
    _tile_release();
}
#endif

static void tiles_part(void *context, size_t index, uint32_t worker) {
    (void)context;
    (void)index;
    (void)worker;
#if defined(__x86_64__)
    tiles_amx();
#endif
}

/* Multiply-adds of bf16 a second. */
static double tiles_rate(const cpu_device *d) {
    double begin = bench_now();
    team_run(d->team, d->threads, tiles_part, NULL);
    return (double)d->threads * (STEPS / 16) * 4 * 16 * 16 * 32 / (bench_now() - begin);
}

static void multiply_part(void *context, size_t index, uint32_t worker) {
    peak *p = context;
    (void)worker;
#if defined(__x86_64__)
    p->result[index] = p->isa >= CPU_AVX512 ? chains_avx512(0.5f) : chains_avx2(0.5f);
#else
    p->result[index] = 0.0f;
#endif
}

/* Fused multiply-adds a second: independent chains in registers on every thread. */
static double multiply_rate(const cpu_device *d) {
    peak p = {.isa = d->isa};
    uint32_t jobs = d->threads < 64 ? d->threads : 64;
    double begin = bench_now();
    team_run(d->team, jobs, multiply_part, &p);
    double lanes = d->isa >= CPU_AVX512 ? 16 : 8;
    return (double)jobs * CHAINS * STEPS * lanes / (bench_now() - begin);
}

/* ---- the product ---- */

typedef struct subject {
    device *d;
    port_linear w;
    size_t bytes; /* of weights */
    float *x, *y;
    uint32_t rows;
} subject;

static float *noise(size_t count) {
    float *out = mem_take(count * sizeof *out);
    uint32_t state = 1;
    for (size_t i = 0; out != NULL && i < count; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = (float)(int32_t)state / 2147483648.0f;
    }
    return out;
}

static subject prepare(device *d, device_source *source, uint32_t rows) {
    tf_error err = {0};
    subject s = {.d = d, .rows = rows};
    bool exl3 = source->form == WEIGHT_EXL3;
    uint64_t weights = (uint64_t)source->k * source->n;
    s.bytes = exl3 ? weights * source->bits2 / 16 : weights * dtype_bytes(source->dtype);
    uint32_t *stored = mem_take(s.bytes);
    uint16_t *scales = mem_take((source->k > source->n ? source->k : source->n) * sizeof *scales);
    s.x = noise((size_t)rows * source->k);
    s.y = mem_take((size_t)rows * source->n * sizeof *s.y);
    if (stored == NULL || scales == NULL || s.x == NULL || s.y == NULL) exit(3);
    /* Values near 1 in every format. */
    uint32_t one = source->dtype == DTYPE_F32 ? 0x3f800000u : 0x3f803f80u;
    for (size_t i = 0; i < s.bytes / 4; i++) {
        uint32_t random = (uint32_t)i * 2654435761u;
        stored[i] = exl3 ? random : one | (random & 0x00070007u);
    }
    for (size_t i = 0; i < source->k || i < source->n; i++)
        scales[i] = 0x3c00;
    source->weight = stored;
    source->trellis = (const uint16_t *)stored;
    source->suh = scales;
    source->svh = scales;
    if (d->ops->load(d, source, &s.w, &err) != TF_OK) bench_stop(&err);
    mem_free(stored);
    mem_free(scales);
    return s;
}

static void finish(subject *s) {
    s->d->ops->drop(s->d, (void *)(uintptr_t)s->w.data);
    mem_free(s->x);
    mem_free(s->y);
}

/* Seconds of one product. */
static double product_seconds(subject *s) {
    tf_error err = {0};
    args_dot a = {
        .x = {s->x, DTYPE_F32, 2, {s->rows, s->w.k}, {s->w.k, 1}},
        .w = {&s->w, 1, 0},
        .leaf = s->w.k,
        .leaves = 1,
        .all_leaves = 1,
        .y = {s->y, DTYPE_F32, 2, {s->rows, s->w.n}, {s->w.n, 1}},
    };
    port_launch l = {CALL_DOT, "bench", s->rows, &a};
    if (s->d->ops->reserve(s->d, &l, &err) != TF_OK) bench_stop(&err);
    double begin = bench_now();
    if (s->d->ops->launch(s->d, &l, &err) != TF_OK) bench_stop(&err);
    return bench_now() - begin;
}

static void row_decode(device *base) {
    cpu_device *d = (cpu_device *)base;
    device_source source = {.form = WEIGHT_PLAIN, .dtype = DTYPE_BF16, .k = DEPTH, .n = 10 * DEPTH};
    subject s = prepare(base, &source, 1);
    double rates[ROUNDS];
    double reads[ROUNDS];
    double ratios[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        reads[i] = read_rate(d, s.w.data, s.bytes);
        rates[i] = (double)s.bytes / product_seconds(&s);
        ratios[i] = rates[i] / reads[i];
    }
    printf("dot: %s, %u threads, bf16 weights, 1 row: %.1f GB/s; plain read %.1f GB/s, ratio %.2f "
           "(limit 0.80)\n",
           base->isa, d->threads, bench_median(rates, ROUNDS) / 1e9,
           bench_median(reads, ROUNDS) / 1e9, bench_median(ratios, ROUNDS));
    finish(&s);
}

static void row_prefill(device *base, device_source source, const char *what, uint32_t rows) {
    cpu_device *d = (cpu_device *)base;
    bool tiles = base->profile == PROFILE_BF16;
    subject s = prepare(base, &source, rows);
    double rates[ROUNDS];
    double peaks[ROUNDS];
    double ratios[ROUNDS];
    product_seconds(&s);
    for (int i = 0; i < ROUNDS; i++) {
        peaks[i] = tiles ? tiles_rate(d) : multiply_rate(d);
        rates[i] = (double)rows * source.k * source.n / product_seconds(&s);
        ratios[i] = rates[i] / peaks[i];
    }
    printf("dot: %s, %u threads, %s, %u rows: %.0f G multiply-adds/s; peak %.0f, ratio %.2f (limit "
           "%s)\n",
           base->isa, d->threads, what, rows, bench_median(rates, ROUNDS) / 1e9,
           bench_median(peaks, ROUNDS) / 1e9, bench_median(ratios, ROUNDS),
           tiles ? "0.40" : "0.50");
    finish(&s);
}

static void row_exl3(device *base, exl3_codebook codebook, uint32_t bits2) {
    cpu_device *d = (cpu_device *)base;
    device_source source = {
        .form = WEIGHT_EXL3, .codebook = codebook, .bits2 = bits2, .k = DEPTH, .n = 4 * DEPTH};
    subject s = prepare(base, &source, 1);
    double rates[ROUNDS];
    double reads[ROUNDS];
    product_seconds(&s);
    for (int i = 0; i < ROUNDS; i++) {
        reads[i] = read_rate(d, s.w.data, s.bytes);
        rates[i] = (double)source.k * source.n / product_seconds(&s);
    }
    double weights = bench_median(rates, ROUNDS);
    double bytes = weights * bits2 / 16;
    double read = bench_median(reads, ROUNDS);
    printf("dot: %s, %u threads, EXL3 %s %.1f bits, 1 row: %.1f G weights/s, %.1f GB/s of %.1f: "
           "bound by %s\n",
           base->isa, d->threads, exl3_codebook_name(codebook), bits2 / 2.0, weights / 1e9,
           bytes / 1e9, read / 1e9, bytes > 0.7 * read ? "memory" : "decoding");
    finish(&s);
}

static void all_rows(const char *isa) {
    tf_error err = {0};
    device *d = NULL;
    device_settings settings = {.isa = isa};
    if (cpu_open(&settings, &d, &err) != TF_OK) bench_stop(&err);
    device_source source = {.form = WEIGHT_PLAIN, .k = DEPTH, .n = DEPTH};
    row_decode(d);
    source.dtype = DTYPE_F32;
    row_prefill(d, source, "f32 weights", 256);
    source.dtype = DTYPE_BF16;
    row_prefill(d, source, "bf16 weights", 256);
    source = (device_source){
        .form = WEIGHT_EXL3, .codebook = EXL3_MUL1, .bits2 = 6, .k = DEPTH, .n = DEPTH};
    row_prefill(d, source, "EXL3 weights of 3 bits", 256);
    for (uint32_t bits2 = 4; bits2 <= 8; bits2 += 2)
        row_exl3(d, EXL3_MUL1, bits2);
    row_exl3(d, EXL3_MUL1, 5);
    row_exl3(d, EXL3_MCG, 6);
    d->ops->close(d);
}

/* bf16 inputs and weights, by tiles. */
static void tile_rows(void) {
    tf_error err = {0};
    device *d = NULL;
    device_settings settings = {.isa = "amx", .profile = PROFILE_BF16};
    if (cpu_best_isa() != CPU_AMX) {
        printf("dot: amx: this machine has none\n");
        return;
    }
    if (cpu_open(&settings, &d, &err) != TF_OK) bench_stop(&err);
    device_source source = {.form = WEIGHT_PLAIN, .dtype = DTYPE_BF16, .k = DEPTH, .n = DEPTH};
    row_prefill(d, source, "profile bf16, bf16 weights", 256);
    d->ops->close(d);
}

void bench_dot(void) {
    for (cpu_isa isa = CPU_AVX2; isa <= cpu_best_isa() && isa <= CPU_AVX512; isa++)
        all_rows(cpu_isa_name(isa));
    tile_rows();
}

bench_limits bench_limits_now(uint32_t threads) {
    tf_error err = {0};
    device *d = NULL;
    void *memory = NULL;
    const size_t bytes = 512u << 20;
    device_settings settings = {.threads = threads};
    if (cpu_open(&settings, &d, &err) != TF_OK || d->ops->take(d, bytes, &memory, &err) != TF_OK)
        bench_stop(&err);
    memset(memory, 1, bytes);
    cpu_device *cpu = (cpu_device *)d;
    double reads[ROUNDS];
    read_rate(cpu, memory, bytes); /* a new team is not on all its cores yet */
    for (int i = 0; i < ROUNDS; i++)
        reads[i] = read_rate(cpu, memory, bytes);
    bench_limits limits = {bench_median(reads, ROUNDS), multiply_rate(cpu)};
    d->ops->close(d);
    return limits;
}
