/* Experts and tokens chosen (engine/cpu/choice). */
#include "tests/support/launch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIM     24u
#define EXPERTS 9u
#define TOP     3u
#define ROWS    17u

typedef struct router {
    float gate[EXPERTS][DIM], bias[EXPERTS], x[ROWS][DIM];
    int32_t ids[ROWS][TOP];
    float weights[ROWS][TOP];
} router;

static bool route(check_case *t, router *r, const char *isa, uint32_t rows, tf_error *err) {
    device *d = launch_device(t, isa, 2);
    port_linear gate;
    if (d == NULL) return false;
    bool held = launch_linear(t, d, &r->gate[0][0], DIM, EXPERTS, &gate);
    args_route a = {.x = launch_2(r->x, DTYPE_F32, rows, DIM),
                    .w = {&gate, 1, 0},
                    .bias = launch_1(r->bias, DTYPE_F32, EXPERTS),
                    .topk = TOP,
                    .eps = 1e-20,
                    .scale = 1.5,
                    .ids = launch_2(r->ids, DTYPE_I32, rows, TOP),
                    .weights = launch_2(r->weights, DTYPE_F32, rows, TOP)};
    held = held && launch_try(d, CALL_ROUTE, rows, &a, err) == TF_OK;
    d->ops->close(d);
    return held;
}

static double score_of(const router *r, uint32_t row, uint32_t expert) {
    double dot = 0;
    for (uint32_t k = 0; k < DIM; k++)
        dot += (double)r->x[row][k] * (double)r->gate[expert][k];
    return sqrt(log1p(exp(dot)));
}

/* The bias decides who is chosen and has no part in the weights. */
static void a_bias_chooses_and_does_not_weigh(check_case *t) {
    check_random random = check_seed(t);
    static router r;
    tf_error err = {0};
    launch_fill(&random, &r.gate[0][0], EXPERTS * DIM, false);
    launch_fill(&random, &r.x[0][0], ROWS * DIM, false);
    launch_fill(&random, r.bias, EXPERTS, false);
    if (!CHECK(t, route(t, &r, NULL, ROWS, &err))) return;
    for (uint32_t i = 0; i < ROWS; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < TOP; k++) {
            sum += score_of(&r, i, (uint32_t)r.ids[i][k]);
            CHECK(t, k == 0 || r.ids[i][k] > r.ids[i][k - 1]);
        }
        for (uint32_t e = 0; e < EXPERTS; e++) {
            uint32_t better = 0;
            bool chosen = false;
            double own = score_of(&r, i, e) + (double)r.bias[e];
            for (uint32_t o = 0; o < EXPERTS; o++)
                better += score_of(&r, i, o) + (double)r.bias[o] > own;
            for (uint32_t k = 0; k < TOP; k++)
                chosen = chosen || r.ids[i][k] == (int32_t)e;
            CHECKF(t, chosen == (better < TOP), "row %u expert %u", i, e);
        }
        for (uint32_t k = 0; k < TOP; k++) {
            double want = score_of(&r, i, (uint32_t)r.ids[i][k]) / sum * 1.5;
            CHECKF(t, fabs((double)r.weights[i][k] - want) < 1e-6, "row %u weight %u: %g, not %g",
                   i, k, (double)r.weights[i][k], want);
        }
    }
}

static void equal_experts_are_taken_from_the_lowest_on(check_case *t) {
    static router r;
    tf_error err = {0};
    memset(&r, 0, sizeof r);
    CHECK(t, route(t, &r, NULL, 2, &err));
    CHECK(t, r.ids[1][0] == 0 && r.ids[1][1] == 1 && r.ids[1][2] == 2);
    CHECK(t, fabs((double)r.weights[1][0] - 0.5) < 1e-6);
}

static void routes_have_the_same_bits_everywhere(check_case *t) {
    check_random random = check_seed(t);
    static router want;
    tf_error err = {0};
    launch_fill(&random, &want.gate[0][0], EXPERTS * DIM, false);
    launch_fill(&random, &want.x[0][0], ROWS * DIM, true);
    launch_fill(&random, want.bias, EXPERTS, false);
    CHECK(t, route(t, &want, "scalar", ROWS, &err));
    for (const char *const *isa = launch_isas(); *isa != NULL; isa++) {
        for (uint32_t rows = 1; rows <= ROWS; rows += 4) {
            static router got;
            got = want;
            memset(got.weights, 0, sizeof got.weights);
            CHECK(t, route(t, &got, *isa, rows, &err));
            CHECK(t, memcmp(got.weights, want.weights, rows * sizeof got.weights[0]) == 0);
            CHECK(t, memcmp(got.ids, want.ids, rows * sizeof got.ids[0]) == 0);
        }
    }
}

static void a_nan_among_scores_is_refused(check_case *t) {
    static router r;
    tf_error err = {0};
    memset(&r, 0, sizeof r);
    r.x[1][3] = NAN;
    r.gate[2][3] = 1.0f;
    CHECK(t, !route(t, &r, NULL, 2, &err));
    CHECK_U64(t, err.word, TF_W_NOT_A_NUMBER);
    CHECKF(t, strstr(err.what, "row 1") != NULL, "%s", err.what);
}

/* ---- tokens ---- */

#define VOCAB 40u

/* The token of `world` ranks that share the vocabulary; -1 after a failure. */
static int32_t choose(check_case *t, float *logits, uint32_t world, double temperature,
                      int64_t seed, int64_t position) {
    float bests[4][1][2];
    int32_t token = -1;
    tf_error err = {0};
    device *d = launch_device(t, NULL, 1);
    bool held = d != NULL;
    int32_t slot = 0;
    for (uint32_t r = 0; held && r < world; r++) {
        uint32_t begin = VOCAB * r / world;
        uint32_t end = VOCAB * (r + 1) / world;
        args_best a = {.logits = launch_2(logits + begin, DTYPE_F32, 1, end - begin),
                       .first = begin,
                       .temperature = launch_1(&temperature, DTYPE_F64, 1),
                       .seed = launch_1(&seed, DTYPE_I64, 1),
                       .where = {&slot, 1, &position, 0},
                       .ahead = 1,
                       .y = launch_2(bests[r], DTYPE_F32, 1, 2)};
        held = launch_try(d, CALL_BEST, 1, &a, &err) == TF_OK;
    }
    args_pick p = {.x = launch_3(bests, DTYPE_F32, world, 1, 2),
                   .y = launch_1(&token, DTYPE_I32, 1)};
    held = held && launch_try(d, CALL_PICK, 1, &p, &err) == TF_OK;
    if (d != NULL) d->ops->close(d);
    return held ? token : -1;
}

static void the_best_token_is_the_lowest_of_equals(check_case *t) {
    float logits[VOCAB];
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = -(float)(i % 7);
    logits[12] = logits[25] = logits[39] = 4.0f;
    for (uint32_t world = 1; world <= 4; world++)
        CHECK_U64(t, choose(t, logits, world, 0.0, 0, 0), 12);
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = i < 20 ? -0.0f : 0.0f;
    for (uint32_t world = 1; world <= 4; world++)
        CHECK_U64(t, choose(t, logits, world, 0.0, 0, 0), 0);
}

static void a_nan_logit_is_refused(check_case *t) {
    float logits[VOCAB] = {0};
    logits[31] = NAN;
    CHECK(t, choose(t, logits, 2, 0.0, 0, 0) == -1);
    CHECK(t, choose(t, logits, 1, 1.0, 0, 0) == -1);
}

/* A draw is the same at every world, and depends on seed and position. */
static void draws_do_not_depend_on_the_world(check_case *t) {
    check_random r = check_seed(t);
    float logits[VOCAB];
    uint32_t other_seed = 0;
    uint32_t other_position = 0;
    launch_fill(&r, logits, VOCAB, false);
    for (int64_t p = 0; p < 100; p++) {
        int32_t one = choose(t, logits, 1, 1.0, 5, p);
        for (uint32_t world = 2; world <= 4; world++)
            CHECK_U64(t, choose(t, logits, world, 1.0, 5, p), one);
        other_seed += choose(t, logits, 1, 1.0, 6, p) != one;
        other_position += choose(t, logits, 1, 1.0, 5, p + 1) != one;
    }
    CHECK(t, other_seed > 50 && other_position > 50);
}

/* Draws follow the softmax: chi-square of 8 tokens over 4000 draws. */
static void draws_follow_the_softmax(check_case *t) {
    float logits[VOCAB];
    uint32_t count[VOCAB] = {0};
    double sum = 0;
    double chi = 0;
    const uint32_t draws = 4000;
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = i < 8 ? 0.4f * (float)i : -60.0f;
    for (uint32_t i = 0; i < 8; i++)
        sum += exp((double)logits[i] / 0.8);
    for (uint32_t k = 0; k < draws; k++)
        count[choose(t, logits, 1, 0.8, 77, k)]++;
    for (uint32_t i = 0; i < 8; i++) {
        double want = draws * exp((double)logits[i] / 0.8) / sum;
        chi += (count[i] - want) * (count[i] - want) / want;
    }
    /* 7 degrees of freedom: 24.3 is passed by one in a thousand. */
    CHECKF(t, chi < 24.3, "chi-square %.1f", chi);
}

/* ---- confidence ---- */

static void confidence_is_the_product_with_both_halves(check_case *t) {
    check_random r = check_seed(t);
    float hidden[10];
    float embed[6];
    float w[16];
    float y = 0;
    double want = 0;
    device *d = launch_device(t, NULL, 1);
    port_linear linear;
    launch_fill(&r, hidden, 10, false);
    launch_fill(&r, embed, 6, false);
    launch_fill(&r, w, 16, false);
    for (uint32_t k = 0; k < 16; k++)
        want += (double)w[k] * (double)(k < 10 ? hidden[k] : embed[k - 10]);
    if (d != NULL && launch_linear(t, d, w, 16, 1, &linear)) {
        args_confidence a = {.hidden = launch_2(hidden, DTYPE_F32, 1, 10),
                             .embed = launch_2(embed, DTYPE_F32, 1, 6),
                             .w = {&linear, 1, 0},
                             .y = launch_1(&y, DTYPE_F32, 1)};
        launch_run(t, d, CALL_CONFIDENCE, 1, &a);
        CHECKF(t, fabs((double)y - want) < 1e-5, "%g, not %g", (double)y, want);
    }
    if (d != NULL) d->ops->close(d);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"choice/a-bias-chooses-and-does-not-weigh", a_bias_chooses_and_does_not_weigh},
        {"choice/equal-experts-are-taken-from-the-lowest-on",
         equal_experts_are_taken_from_the_lowest_on},
        {"choice/routes-have-the-same-bits-everywhere", routes_have_the_same_bits_everywhere},
        {"choice/a-nan-among-scores-is-refused", a_nan_among_scores_is_refused},
        {"choice/the-best-token-is-the-lowest-of-equals", the_best_token_is_the_lowest_of_equals},
        {"choice/a-nan-logit-is-refused", a_nan_logit_is_refused},
        {"choice/draws-do-not-depend-on-the-world", draws_do_not_depend_on_the_world},
        {"choice/draws-follow-the-softmax", draws_follow_the_softmax},
        {"choice/confidence-is-the-product-with-both-halves",
         confidence_is_the_product_with_both_halves},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
