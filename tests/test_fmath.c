/* canon/fmath against the platform's double functions, over all of float32. */
#include "engine/canon/fmath.h"

#include "engine/canon/flush.h"
#include "tests/support/check.h"

#include <math.h>

typedef float (*function)(float);
typedef double (*truth)(double);

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static double silu(double x) {
    return x < -1e38 ? 0.0 : x / (1.0 + exp(-x));
}

static double softplus(double x) {
    return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double rsqrt(double x) {
    return 1.0 / sqrt(x);
}

static const struct {
    const char *name;
    function fm;
    truth want;
    double low; /* asked for x >= low alone */
} functions[] = {
    {"exp", fm_exp, exp, -HUGE_VAL},    {"log", fm_log, log, 0.0},
    {"log1p", fm_log1p, log1p, 0.0},    {"sigmoid", fm_sigmoid, sigmoid, -HUGE_VAL},
    {"silu", fm_silu, silu, -HUGE_VAL}, {"softplus", fm_softplus, softplus, -HUGE_VAL},
    {"rsqrt", fm_rsqrt, rsqrt, 0.0},    {"sin", fm_sin, sin, -HUGE_VAL},
    {"cos", fm_cos, cos, -HUGE_VAL},
};

#define LEAST_NORMAL 1.1754943508222875e-38
#define WRONG        1e9

/* Distance in units of the last place of `want`; what would be subnormal may be 0 instead. */
static double ulps(float got, double want) {
    float nearest = (float)want;
    int e;
    if (isnan(want)) return isnan(got) ? 0.0 : WRONG;
    if (isinf(nearest) && isinf(got)) return nearest == got ? 0.0 : WRONG;
    if (isnan(got) || isinf(got)) return WRONG;
    if (fabs(want) < LEAST_NORMAL)
        return got == 0.0f || fabs((double)got) <= LEAST_NORMAL ? 0.0 : WRONG;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1.0, e - 24);
}

typedef struct worst {
    double ulps;
    float at;
} worst;

static void look(worst *w, size_t f, uint32_t bits) {
    float x = fm_float(bits);
    if (isnan(x) || (double)x < functions[f].low) return;
    double d = ulps(functions[f].fm(x), functions[f].want((double)x));
    if (d > w->ulps) *w = (worst){d, x};
}

static void is_within_2_ulp(check_case *t, const worst *w) {
    for (size_t f = 0; f < COUNT(functions); f++) {
        check_note(t, "%s: at most %.3f ulp", functions[f].name, w[f].ulps);
        CHECKF(t, w[f].ulps <= 2.0, "%s(%a) is %.3f ulp off", functions[f].name, (double)w[f].at,
               w[f].ulps);
    }
}

#if defined(TF_DEBUG)
#define STEP 16007u
#else
#define STEP 1009u
#endif

static void two_ulp_over_the_whole_range(check_case *t) {
    worst w[COUNT(functions)] = {{0}};
    uint64_t mode = flush_begin();
    for (uint64_t u = 0; u < 1ull << 32; u += STEP) {
        for (size_t f = 0; f < COUNT(functions); f++)
            look(&w[f], f, (uint32_t)u);
    }
    flush_restore(mode);
    is_within_2_ulp(t, w);
}

/* Where a function bends, saturates, reduces or begins to vanish. */
static void two_ulp_around_special_points(check_case *t) {
    static const float points[] = {
        0.0f,        1e-37f,     1e-20f,      1e-7f,   0.34657359f,  0.5f,        0.70710678f,
        0.78539816f, 1.0f,       1.41421356f, 1.5f,    2.0f,         3.14159265f, 6.2831f,
        11.0f,       16.6f,      17.32868f,   32.0f,   55.0f,        80.0f,       87.33654f,
        88.0f,       88.722839f, 89.0f,       103.97f, 102943.7041f, 1e5f,        8388608,
        16777216.0f, 1e10f,      3.3e38f,     120.0f,  119.33f,      79.0f,       1e15f,
        7.0f,        48.0f,      56.0f,       112.0f,  64.0f,        1.57079637f, 4.71238898f};
    worst w[COUNT(functions)] = {{0}};
    uint64_t mode = flush_begin();
    for (size_t p = 0; p < COUNT(points); p++) {
        for (int32_t near = -1500; near <= 1500; near++) {
            uint32_t u = (fm_bits(points[p]) + (uint32_t)near) & 0x7fffffffu;
            for (size_t f = 0; f < COUNT(functions); f++) {
                look(&w[f], f, u);
                look(&w[f], f, u | 0x80000000u);
            }
        }
    }
    flush_restore(mode);
    is_within_2_ulp(t, w);
}

/* ---- values that are none ---- */

static void what_has_no_number_says_so(check_case *t) {
    const float nan = fm_float(0x7fc00001u);
    const float least = fm_float(0x00800000u);
    for (size_t f = 0; f < COUNT(functions); f++)
        CHECKF(t, isnan(functions[f].fm(nan)), "%s of NaN is a number", functions[f].name);
    CHECK(t, fm_exp(INFINITY) == INFINITY && fm_exp(88.73f) == INFINITY);
    CHECK(t, fm_bits(fm_exp(-INFINITY)) == 0 && fm_bits(fm_exp(-87.4f)) == 0);
    CHECK(t, fm_exp(-87.33654f) >= least);
    CHECK(t, fm_bits(fm_exp(0.0f)) == fm_bits(1.0f) && fm_bits(fm_exp(-0.0f)) == fm_bits(1.0f));
    CHECK(t, fm_log(0.0f) == -INFINITY && fm_log(-0.0f) == -INFINITY);
    CHECK(t, fm_log(fm_float(1)) == -INFINITY && fm_log(fm_float(0x80000001u)) == -INFINITY);
    CHECK(t, fm_log(least) > -INFINITY && fm_log(INFINITY) == INFINITY);
    CHECK(t, fm_bits(fm_log(1.0f)) == 0);
    CHECK(t, isnan(fm_log(-least)) && isnan(fm_log(-1.0f)) && isnan(fm_log(-INFINITY)));
    CHECK(t, fm_sigmoid(INFINITY) == 1.0f && fm_sigmoid(-INFINITY) == 0.0f);
    CHECK(t, fm_sigmoid(0.0f) == 0.5f && fm_sigmoid(-0.0f) == 0.5f);
    CHECK(t, fm_silu(INFINITY) == INFINITY && fm_silu(0.0f) == 0.0f && fm_silu(3e38f) == 3e38f);
    CHECK(t, fm_silu(-INFINITY) == 0.0f && fm_silu(-3e38f) == 0.0f);
    CHECK(t, fm_softplus(INFINITY) == INFINITY && fm_softplus(-INFINITY) == 0.0f);
    CHECK(t, fm_rsqrt(0.0f) == INFINITY && fm_rsqrt(INFINITY) == 0.0f && isnan(fm_rsqrt(-1.0f)));
    CHECK(t, isnan(fm_sin(INFINITY)) && isnan(fm_cos(-INFINITY)));
    CHECK(t, fm_bits(fm_sin(-0.0f)) == 0x80000000u && fm_cos(0.0f) == 1.0f);
}

/* ---- the same bits ---- */

#define SAMPLES 4096u

/* Bit patterns that go all over float32, always the same. */
static void sample(float *x) {
    uint32_t u = 0x2545f491u;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        u = u * 1664525u + 1013904223u;
        /* Every second one where these functions have their use. */
        uint32_t exponent = 100u + (u >> 8) % 36u;
        x[i] = fm_float(i % 2 == 0 ? u : (u & 0x807fffffu) | exponent << 23);
    }
}

/* A NaN's own bits are no promise. */
static uint32_t promised(float y) {
    return isnan(y) ? 0x7fc00000u : fm_bits(y);
}

static void gives_the_bits_it_always_gave(check_case *t) {
    static const uint64_t pinned[COUNT(functions)] = {
        0x5960fea44736d388ull, /* exp */
        0x8d2dabb39af2b398ull, /* log */
        0xcfc953f090219413ull, /* log1p */
        0x2f5dea20f513372dull, /* sigmoid */
        0x300898bcf12c4ee9ull, /* silu */
        0x37b846741c7ebd13ull, /* softplus */
        0xacc41820beb85180ull, /* rsqrt */
        0xad3be7681c2ff83cull, /* sin */
        0xfcd2effa42770251ull, /* cos */
    };
    float x[SAMPLES];
    uint64_t mode = flush_begin();
    sample(x);
    for (size_t f = 0; f < COUNT(functions); f++) {
        uint64_t hash = 0xcbf29ce484222325ull;
        for (uint32_t i = 0; i < SAMPLES; i++)
            hash = (hash ^ promised(functions[f].fm(x[i]))) * 0x100000001b3ull;
        CHECKF(t, hash == pinned[f], "%s: digest 0x%016llx", functions[f].name,
               (unsigned long long)hash);
    }
    flush_restore(mode);
}

#if defined(__x86_64__)

#if defined(__clang__)
#define LANES(instructions) __attribute__((target(instructions), noinline))
#else /* gcc makes lanes of short loops alone, unless told */
#define LANES(instructions) \
    __attribute__((target(instructions), noinline, optimize("O3", "fp-contract=off")))
#endif
#define LOOP(name, instructions, fm)                                                   \
    LANES(instructions) static void name(const float *restrict x, float *restrict y) { \
        for (uint32_t i = 0; i < SAMPLES; i++)                                         \
            y[i] = fm(x[i]);                                                           \
    }
#define AVX2      "avx2,fma"
#define AVX512    "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"
#define LOOPS(fm) LOOP(fm##_8, AVX2, fm) LOOP(fm##_16, AVX512, fm)

LOOPS(fm_exp)
LOOPS(fm_log)
LOOPS(fm_log1p)
LOOPS(fm_sigmoid)
LOOPS(fm_silu)
LOOPS(fm_softplus)
LOOPS(fm_rsqrt)
LOOPS(fm_sin)
LOOPS(fm_cos)

static void (*const loops[][2])(const float *restrict, float *restrict) = {
    {fm_exp_8, fm_exp_16},         {fm_log_8, fm_log_16},   {fm_log1p_8, fm_log1p_16},
    {fm_sigmoid_8, fm_sigmoid_16}, {fm_silu_8, fm_silu_16}, {fm_softplus_8, fm_softplus_16},
    {fm_rsqrt_8, fm_rsqrt_16},     {fm_sin_8, fm_sin_16},   {fm_cos_8, fm_cos_16},
};

static bool have(size_t level) {
    if (level == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static void loops_of_lanes_give_the_same_bits(check_case *t) {
    float x[SAMPLES];
    float y[SAMPLES];
    uint64_t mode = flush_begin();
    sample(x);
    for (size_t f = 0; f < COUNT(functions); f++) {
        for (size_t level = 0; level < 2 && have(level); level++) {
            loops[f][level](x, y);
            uint32_t i = 0;
            while (i < SAMPLES && promised(y[i]) == promised(functions[f].fm(x[i])))
                i++;
            CHECKF(t, i == SAMPLES, "%s, %s: x %a", functions[f].name, level == 0 ? AVX2 : AVX512,
                   (double)x[i % SAMPLES]);
        }
    }
    flush_restore(mode);
}

#else

static void loops_of_lanes_give_the_same_bits(check_case *t) {
    check_skip(t, "loops are compiled for x86-64's instruction sets");
}

#endif

static const check_entry cases[] = {
    {"fmath/two-ulp-over-the-whole-range", two_ulp_over_the_whole_range},
    {"fmath/two-ulp-around-special-points", two_ulp_around_special_points},
    {"fmath/what-has-no-number-says-so", what_has_no_number_says_so},
    {"fmath/gives-the-bits-it-always-gave", gives_the_bits_it_always_gave},
    {"fmath/loops-of-lanes-give-the-same-bits", loops_of_lanes_give_the_same_bits},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
