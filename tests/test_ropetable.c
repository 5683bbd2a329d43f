/* canon/ropetable against the publisher's values and against long double libm. */
#include "engine/canon/ropetable.h"

#include "engine/pack/dtype.h"
#include "tests/support/check.h"
#include "tests/support/golden.h"

#include <math.h>
#include <string.h>

#define UNIT TF_SOURCE_DIR "/tests/golden/unit/unit.safetensors"

static const rope_spec plain = {.rope = 64, .theta = 10000.0};
static const rope_spec yarn = {.rope = 64,
                               .theta = 160000.0,
                               .yarn = true,
                               .factor = 16.0,
                               .beta_fast = 32.0,
                               .beta_slow = 1.0,
                               .original = 65536.0};

/* As listed in unit.json under rope_positions. */
static const int64_t positions[] = {0, 1, 2, 127, 128, 4095, 65535, 65536, 69999};

static void is_the_publishers(check_case *t, const rope_spec *s, const char *name) {
    double freq[ROPE_PAIRS_MAX];
    float row[2 * ROPE_PAIRS_MAX];
    golden_file unit = {0};
    golden_tensor want;
    bool opened = golden_open(UNIT, &unit) && golden_find(&unit, name, &want);
    if (CHECK(t, opened)) {
        CHECK_STR(t, want.shape, "9x32x2");
        ropetable_frequencies(s, freq);
        for (size_t p = 0; p < COUNT(positions); p++) {
            ropetable_row(freq, 32, positions[p], row);
            for (size_t i = 0; i < 64; i++) {
                float w;
                memcpy(&w, want.data + (p * 64 + i) * sizeof w, sizeof w);
                /* The publisher's angles are of float32: wrong by as much as their last place. */
                double angle = (double)positions[p] * freq[i / 2];
                double slack = 2e-7 + angle * 1.2e-7;
                CHECKF(t, fabs((double)row[i] - (double)w) <= slack,
                       "%s: position %lld, element %zu is %.9g, want %.9g", name,
                       (long long)positions[p], i, (double)row[i], (double)w);
            }
        }
    }
    golden_close(&unit);
}

static void plain_is_the_publishers(check_case *t) {
    is_the_publishers(t, &plain, "rope.plain");
}

static void yarn_is_the_publishers(check_case *t) {
    is_the_publishers(t, &yarn, "rope.yarn");
}

/* ---- by the formula, in long double ---- */

static void frequencies_by_formula(const rope_spec *s, long double *freq) {
    const long double two_pi = 6.28318530717958647692528676655900577L;
    long double theta = (long double)s->theta;
    long double low = 0.0L;
    long double high = 1.0L;
    if (s->yarn) {
        long double n = (long double)s->rope;
        long double original = (long double)s->original;
        low = floorl(n * logl(original / ((long double)s->beta_fast * two_pi)) /
                     (2.0L * logl(theta)));
        high =
            ceill(n * logl(original / ((long double)s->beta_slow * two_pi)) / (2.0L * logl(theta)));
        low = fmaxl(low, 0.0L);
        high = fminl(high, n - 1.0L);
    }
    for (uint32_t i = 0; i < s->rope / 2; i++) {
        long double f = powl(theta, -2.0L * i / s->rope);
        long double ramp = fminl(fmaxl((i - low) / (high - low), 0.0L), 1.0L);
        freq[i] = s->yarn ? f * (1.0L - ramp) + f / (long double)s->factor * ramp : f;
    }
}

static void frequencies_are_the_formulas(check_case *t) {
    rope_spec specs[] = {plain, yarn, yarn, yarn, plain};
    specs[2].rope = 32;
    specs[3].rope = 128;
    specs[3].factor = 40.0;
    specs[3].original = 4096.0;
    specs[4].theta = 500000.0;
    specs[4].rope = 512;
    for (size_t i = 0; i < COUNT(specs); i++) {
        double got[ROPE_PAIRS_MAX];
        long double want[ROPE_PAIRS_MAX];
        ropetable_frequencies(&specs[i], got);
        frequencies_by_formula(&specs[i], want);
        for (uint32_t k = 0; k < specs[i].rope / 2; k++) {
            long double off = fabsl((long double)got[k] / want[k] - 1.0L);
            CHECKF(t, off < 1e-14L, "spec %zu: frequency %u is off by %Lg", i, k, off);
        }
    }
}

/* MODEL: the real model's ramp runs from dimension 15 to 25. */
static void yarn_leaves_fast_waves_alone(check_case *t) {
    rope_spec fast = yarn;
    double stretched[ROPE_PAIRS_MAX];
    double own[ROPE_PAIRS_MAX];
    fast.yarn = false;
    ropetable_frequencies(&yarn, stretched);
    ropetable_frequencies(&fast, own);
    for (uint32_t i = 0; i < 32; i++) {
        double ratio = own[i] / stretched[i];
        if (i <= 15) CHECKF(t, ratio == 1.0, "pair %u is stretched by %g", i, ratio);
        if (i > 15 && i < 25) CHECKF(t, ratio > 1.0 && ratio < 16.0, "pair %u: %g", i, ratio);
        if (i >= 25) CHECKF(t, fabs(ratio - 16.0) < 1e-12, "pair %u: %g", i, ratio);
    }
}

/* Cosine and sine of p . freq, whose own rounding is put back. */
static void waves(int64_t p, double freq, long double *cosine, long double *sine) {
    long double angle = (long double)p * (long double)freq;
    long double lost = fmal((long double)p, (long double)freq, -angle);
    *cosine = cosl(angle) - sinl(angle) * lost;
    *sine = sinl(angle) + cosl(angle) * lost;
}

/* Each value is the float nearest to the cosine or sine of position times frequency. */
static void rows_are_rounded_once(check_case *t) {
    check_random r = check_seed(t);
    double freq[ROPE_PAIRS_MAX];
    float row[2 * ROPE_PAIRS_MAX];
    for (uint32_t round = 0; round < 2000; round++) {
        const rope_spec *s = round % 2 == 0 ? &plain : &yarn;
        int64_t p = (int64_t)(check_next(&r) >> (33 + check_below(&r, 30)));
        if (round == 0) p = 0x7fffffff;
        ropetable_frequencies(s, freq);
        ropetable_row(freq, s->rope / 2, p, row);
        for (uint32_t i = 0; i < s->rope / 2; i++) {
            long double cosine;
            long double sine;
            waves(p, freq[i], &cosine, &sine);
            CHECKF(t, row[2 * i] == (float)cosine, "position %lld: cosine %u is %a, want %La",
                   (long long)p, i, (double)row[2 * i], cosine);
            CHECKF(t, row[2 * i + 1] == (float)sine, "position %lld: sine %u is %a, want %La",
                   (long long)p, i, (double)row[2 * i + 1], sine);
        }
    }
}

static void gives_the_bits_it_always_gave(check_case *t) {
    uint64_t hash = 0xcbf29ce484222325ull;
    double freq[ROPE_PAIRS_MAX];
    float row[2 * ROPE_PAIRS_MAX];
    for (uint32_t s = 0; s < 2; s++) {
        ropetable_frequencies(s == 0 ? &plain : &yarn, freq);
        for (int64_t p = 0; p < 1 << 20; p += 1021) {
            ropetable_row(freq, 32, p, row);
            for (uint32_t i = 0; i < 64; i++)
                hash = (hash ^ f32_bits(row[i])) * 0x100000001b3ull;
        }
    }
    CHECKF(t, hash == 0xf3dcd8490d1a2895ull, "digest 0x%016llx", (unsigned long long)hash);
}

static const check_entry cases[] = {
    {"ropetable/plain-is-the-publishers", plain_is_the_publishers},
    {"ropetable/yarn-is-the-publishers", yarn_is_the_publishers},
    {"ropetable/frequencies-are-the-formulas", frequencies_are_the_formulas},
    {"ropetable/yarn-leaves-fast-waves-alone", yarn_leaves_fast_waves_alone},
    {"ropetable/rows-are-rounded-once", rows_are_rounded_once},
    {"ropetable/gives-the-bits-it-always-gave", gives_the_bits_it_always_gave},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
