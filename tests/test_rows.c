/* What is done to a row by itself (engine/cpu/rows): every step by its rule, bit for bit, by every
 * instruction set. */
#include "engine/cpu/rows.h"

#include "engine/canon/flush.h"
#include "engine/canon/fmath.h"
#include "tests/support/launch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define S    ROWS_STREAMS
#define WIDE 100u /* six times sixteen, and a rest */

/* Where rows begin and how long they are: none, rests alone, whole pieces, both. */
static const size_t lengths[] = {0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 64, WIDE};

static size_t steps_here(const rows_steps *steps[CPU_ISAS]) {
    size_t count = 0;
    for (cpu_isa isa = CPU_SCALAR; isa <= cpu_best_isa(); isa++)
        steps[count++] = rows_steps_of(isa);
    return count;
}

static bool same(check_case *t, const char *what, size_t n, const float *got, const float *want) {
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            return CHECKF(t, false, "%s of %zu: element %zu is %a, not %a", what, n, i,
                          (double)got[i], (double)want[i]);
    }
    return true;
}

/* A step's own case: makes data of length n, works out `want`, runs `steps`. */
typedef void (*step_case)(check_case *t, check_random *r, const rows_steps *steps, size_t n);

static void by_every_set(check_case *t, step_case one) {
    check_random r = check_seed(t);
    const rows_steps *steps[CPU_ISAS];
    size_t sets = steps_here(steps);
    uint64_t mode = flush_begin();
    for (size_t i = 0; i < COUNT(lengths) && !check_failed(t); i++) {
        check_random again = r;
        for (size_t s = 0; s < sets && !check_failed(t); s++) {
            again = r;
            one(t, &again, steps[s], lengths[i]);
        }
        r = again;
    }
    flush_restore(mode);
}

/* ---- sums ---- */

static float tree(const float p[16]) {
    float h[8];
    for (int i = 0; i < 8; i++)
        h[i] = p[i] + p[i + 8];
    return ((h[0] + h[4]) + (h[2] + h[6])) + ((h[1] + h[5]) + (h[3] + h[7]));
}

static void sum_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float in[4][WIDE + 1];
    float p[2][16] = {{0}};
    launch_fill(r, in[0], 4 * (WIDE + 1), true);
    const float *x = in[0] + 1;
    const float *key = in[1] + 1;
    const float *qw = in[2];
    const float *kw = in[3];
    for (size_t k = 0; k < n; k++) {
        p[0][k % 16] = fmaf(x[k], x[k], p[0][k % 16]);
        p[1][k % 16] = fmaf(x[k] * qw[k], kw[k] * key[k], p[1][k % 16]);
    }
    float want[2] = {tree(p[0]), tree(p[1])};
    float got[2] = {steps->squares(x, n), steps->gate(x, key, qw, kw, n)};
    CHECKF(t, memcmp(got, want, sizeof got) == 0, "of %zu: %a and %a, not %a and %a", n,
           (double)got[0], (double)got[1], (double)want[0], (double)want[1]);
}

static void sums_have_sixteen_chains(check_case *t) {
    by_every_set(t, sum_case);
}

/* ---- element by element ---- */

static void element_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float x[WIDE + 1];
    float w[WIDE + 1];
    float y[WIDE + 1];
    float want[WIDE + 1];
    launch_fill(r, x, WIDE + 1, true);
    launch_fill(r, w, WIDE + 1, true);
    launch_fill(r, y, WIDE + 1, true);
    want[n] = y[n] = 77.0f; /* nobody writes past the end */
    for (size_t k = 0; k < n; k++)
        want[k] = w[k + 1] * (x[k + 1] * 0.3f);
    if (n < WIDE) steps->scale(x + 1, w + 1, 0.3f, n, y);
    if (n < WIDE) same(t, "scale", n + 1, y, want);
    memcpy(y, x, sizeof y);
    for (size_t k = 0; k < n; k++)
        want[k] = w[k] * (x[k] * -2.5f);
    steps->scale(y, w, -2.5f, n, y);
    same(t, "scale in place", n, y, want);
    memcpy(y, x, sizeof y);
    for (size_t k = 0; k < n; k++)
        want[k] = fmaf(1.7f, w[k], x[k]);
    steps->add(1.7f, w, n, y);
    same(t, "add", n, y, want);
    /* Twenty times as wide, so that both ends are met. */
    for (size_t k = 0; k < n; k++) {
        y[k] = x[k] * 20.0f;
        want[k] = sqrtf(fm_softplus(y[k]));
    }
    steps->affinity(y, n);
    same(t, "affinity", n, y, want);
}

static void elements_do_not_meet(check_case *t) {
    by_every_set(t, element_case);
}

/* ---- rotation ---- */

static void rotation_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    static const int64_t positions[] = {0, 1, 3, 4095, 65536, 1000003, 2147483647};
    rope_spec spec = {2 * WIDE, 160000, true, 16, 32, 1, 65536};
    double freq[ROPE_PAIRS_MAX];
    float got[2 * WIDE];
    float want[2 * WIDE];
    float x[2 * WIDE];
    float y[2 * WIDE];
    ropetable_frequencies(&spec, freq);
    for (size_t i = 0; i < COUNT(positions); i++) {
        ropetable_row(freq, (uint32_t)n, positions[i], want);
        steps->angles(freq, (uint32_t)n, positions[i], got);
        same(t, "angles", 2 * n, got, want);
    }
    launch_fill(r, x, 2 * WIDE, true);
    for (int back = 0; back < 2; back++) {
        memcpy(y, x, sizeof y);
        steps->turn(got, (uint32_t)n, back == 1, y);
        for (size_t k = 0; k < n; k++) {
            float c = got[2 * k];
            float s = back == 1 ? -got[2 * k + 1] : got[2 * k + 1];
            float product[2] = {x[2 * k + 1] * s, x[2 * k + 1] * c};
            want[2 * k] = fmaf(x[2 * k], c, -product[0]);
            want[2 * k + 1] = fmaf(x[2 * k], s, product[1]);
        }
        same(t, back == 1 ? "turn back" : "turn", 2 * n, y, want);
    }
}

static void pairs_turn(check_case *t) {
    by_every_set(t, rotation_case);
}

/* ---- streams ---- */

static void stream_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float x[S][WIDE + 3]; /* streams lie apart */
    float want[S][WIDE + 3];
    float b[WIDE];
    float y[WIDE];
    float pre[S];
    float post[S];
    float comb[S][S];
    launch_fill(r, x[0], (size_t)S * (WIDE + 3), true);
    launch_fill(r, b, WIDE, true);
    launch_fill(r, pre, S, false);
    launch_fill(r, post, S, false);
    launch_fill(r, comb[0], (size_t)S * S, false);
    memcpy(want, x, sizeof want);
    for (size_t k = 0; k < n; k++) {
        want[0][k] = pre[0] * x[0][k];
        for (size_t s = 1; s < S; s++)
            want[0][k] = fmaf(pre[s], x[s][k], want[0][k]);
    }
    steps->collapse(x[0], WIDE + 3, pre, n, y);
    same(t, "collapse", n, y, want[0]);
    memcpy(want, x, sizeof want);
    for (size_t k = 0; k < n; k++) {
        for (size_t j = 0; j < S; j++) {
            want[j][k] = post[j] * b[k];
            for (size_t i = 0; i < S; i++)
                want[j][k] = fmaf(comb[i][j], x[i][k], want[j][k]);
        }
    }
    steps->post(b, post, comb[0], n, WIDE + 3, x[0]);
    same(t, "post", (size_t)S * (WIDE + 3), x[0], want[0]);
}

static void streams_are_added_in_ascending_order(check_case *t) {
    by_every_set(t, stream_case);
}

/* ---- mixing ---- */

/* MODEL 3 in its own words, every operation rounded alone. */
static void mix_rule(const float v[24], float eps, int64_t iterations, float *pre, float *post,
                     float c[S][S]) {
    for (size_t i = 0; i < S; i++) {
        pre[i] = fm_sigmoid(v[i]) + eps;
        post[i] = 2.0f * fm_sigmoid(v[4 + i]);
        float most = fmaxf(fmaxf(v[8 + 4 * i], v[9 + 4 * i]), fmaxf(v[10 + 4 * i], v[11 + 4 * i]));
        float sum = 0.0f;
        for (size_t j = 0; j < S; j++)
            sum += c[i][j] = fm_exp(v[8 + 4 * i + j] - most);
        for (size_t j = 0; j < S; j++)
            c[i][j] = c[i][j] / sum + eps;
    }
    for (int64_t k = 0; k < 2 * iterations - 1; k++) {
        for (size_t i = 0; i < S; i++) {
            float sum = 0.0f;
            for (size_t j = 0; j < S; j++)
                sum += k % 2 == 0 ? c[j][i] : c[i][j];
            sum += eps;
            for (size_t j = 0; j < S; j++)
                *(k % 2 == 0 ? &c[j][i] : &c[i][j]) /= sum;
        }
    }
}

static void mix_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float m[24];
    float base[24];
    float scale[3];
    float v[24];
    float got[24];
    float want[24];
    launch_fill(r, m, 24, true);
    launch_fill(r, base, 24, false);
    launch_fill(r, scale, 3, false);
    for (size_t i = 0; i < 24; i++) {
        m[i] = n % 2 == 1 ? m[i] * 300.0f : m[i]; /* no exponential may overflow */
        v[i] = fmaf(m[i], scale[i / 4 < 2 ? i / 4 : 2], base[i]);
    }
    for (int64_t iterations = 1; iterations <= 20; iterations += iterations < 3 ? 1 : 17) {
        rows_mix row = {m, base, scale, 1e-6f, iterations, got, got + 4, got + 8};
        float comb[S][S];
        mix_rule(v, 1e-6f, iterations, want, want + 4, comb);
        memcpy(want + 8, comb, sizeof comb);
        steps->mix(&row);
        same(t, "mix", 24, got, want);
        for (size_t i = 0; i < 24; i++)
            CHECKF(t, got[i] >= 0.0f && got[i] <= 2.0f, "mix %zu is %g", i, (double)got[i]);
    }
}

static void mixes_follow_the_model(check_case *t) {
    by_every_set(t, mix_case);
}

/* ---- draws ---- */

#define STEP 0x9e3779b97f4a7c15ull

static void draw_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float logits[WIDE];
    float got[WIDE];
    float want[WIDE];
    launch_fill(r, logits, WIDE, false);
    rows_draw d = {logits, (uint32_t)n, 0.7f, check_next(r), 1000, got};
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = rows_mixed(d.key + (1000 + i + 1) * STEP) >> 33;
        float v = fminf(((float)bits + 0.5f) / 2147483648.0f, 1.0f - 0x1p-24f);
        float noise = -fm_log(fm_log1p(v / (1.0f - v)));
        want[i] = fmaf(0.7f, noise, logits[i]);
    }
    steps->draw(&d);
    same(t, "draw", n, got, want);
}

static void beat_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float x[WIDE];
    launch_fill(r, x, WIDE, true);
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] < 5.0f ? x[i] : 5.0f;
    CHECK(t, !steps->beats(x, n, 5.0f));
    for (size_t i = 0; i < n; i++) {
        float was = x[i];
        x[i] = 5.0f;
        CHECK(t, !steps->beats(x, n, 5.0f)); /* the earlier of equals stays */
        x[i] = i % 2 == 0 ? 5.000001f : NAN;
        CHECKF(t, steps->beats(x, n, 5.0f), "element %zu of %zu", i, n);
        x[i] = was;
    }
}

static void what_is_better_is_found(check_case *t) {
    by_every_set(t, beat_case);
}

static void draws_follow_their_rule(check_case *t) {
    by_every_set(t, draw_case);
}

/* What rows_mixed makes `z` of. */
static uint64_t unmixed(uint64_t z) {
    uint64_t factor[2] = {0x94d049bb133111ebull, 0xbf58476d1ce4e5b9ull};
    uint32_t shift[3] = {31, 27, 30};
    for (int k = 0; k < 3; k++) {
        uint64_t x = z;
        for (uint32_t i = shift[k]; i < 64; i += shift[k])
            x = z ^ x >> shift[k];
        z = x;
        if (k == 2) break;
        uint64_t inverse = factor[k];
        for (int i = 0; i < 6; i++) /* of an odd number: every round doubles the digits that hold */
            inverse *= 2 - factor[k] * inverse;
        z *= inverse;
    }
    return z;
}

/* No logit may be overruled for good: the noise of the last of all random numbers is a number. */
static void noise_has_two_ends(check_case *t) {
    const rows_steps *steps[CPU_ISAS];
    size_t sets = steps_here(steps);
    float none[1] = {0.0f};
    uint64_t mode = flush_begin();
    CHECK(t, rows_mixed(unmixed(12345)) == 12345);
    for (size_t s = 0; s < sets; s++) {
        float last = 23.0f;
        for (uint32_t k = 0; k <= 64; k++) {
            uint64_t bits = k == 64 ? UINT64_MAX : (UINT64_MAX >> 6) * k;
            float noise = NAN;
            rows_draw d = {none, 1, 1.0f, unmixed(bits) - STEP, 0, &noise};
            steps[s]->draw(&d);
            CHECKF(t, noise > -3.0f && noise <= last, "of %016llx: %g", (unsigned long long)bits,
                   (double)noise);
            CHECK(t, k != 0 || noise > 22.0f);
            last = noise;
        }
    }
    flush_restore(mode);
}

static const check_entry cases[] = {
    {"rows/sums-have-sixteen-chains", sums_have_sixteen_chains},
    {"rows/elements-do-not-meet", elements_do_not_meet},
    {"rows/pairs-turn", pairs_turn},
    {"rows/streams-are-added-in-ascending-order", streams_are_added_in_ascending_order},
    {"rows/mixes-follow-the-model", mixes_follow_the_model},
    {"rows/draws-follow-their-rule", draws_follow_their_rule},
    {"rows/what-is-better-is-found", what_is_better_is_found},
    {"rows/noise-has-two-ends", noise_has_two_ends},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
