/* The same bits of every logit, however the model is cut, scheduled, computed, batched or resumed
 * (NUMERICS). */
#include "engine/model/model.h"
#include "tests/support/check.h"
#include "tests/support/forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT_17 1
#define PROMPT_96 2

/* ---- what all must equal: world 1, one thread, plain C would do as well, whole prompts ---- */

typedef struct reference {
    const char *pack;
    tf_profile profile;
    tf_pack *opened;
    forward_golden golden;
    float *logits[FORWARD_PROMPTS]; /* [forward_rows, V] */
} reference;

static float *take_logits(uint32_t rows) {
    float *logits = malloc((size_t)rows * FORWARD_VOCAB * sizeof *logits);
    if (logits == NULL) abort();
    return logits;
}

static bool reference_open(check_case *t, reference *r, const char *pack, tf_profile profile) {
    tf_model_options o = {.profile = profile, .threads = 1};
    *r = (reference){.pack = pack, .profile = profile};
    r->opened = forward_pack(t, pack);
    if (r->opened == NULL || !forward_golden_open(t, pack, &r->golden)) return false;
    tf_model *m = forward_open(t, r->opened, 1, NULL, &o);
    bool held = m != NULL;
    for (uint32_t p = 0; held && p < FORWARD_PROMPTS; p++) {
        int32_t tokens[FORWARD_TOKENS];
        r->logits[p] = take_logits(forward_rows(p));
        held = forward_run(t, m, &r->golden, p, FORWARD_IDS_MAX, r->logits[p], tokens);
    }
    tf_model_close(m);
    return held;
}

static void reference_close(reference *r) {
    for (uint32_t p = 0; p < FORWARD_PROMPTS; p++)
        free(r->logits[p]);
    forward_golden_close(&r->golden);
    tf_pack_close(r->opened);
}

static bool same_bits(check_case *t, const char *what, const float *got, const float *want,
                      uint32_t rows) {
    size_t count = (size_t)rows * FORWARD_VOCAB;
    if (memcmp(got, want, count * sizeof *got) == 0) return true;
    size_t at = 0;
    while (memcmp(&got[at], &want[at], sizeof *got) == 0)
        at++;
    return CHECKF(t, false, "%s: row %zu, logit %zu is %.9g, not %.9g", what, at / FORWARD_VOCAB,
                  at % FORWARD_VOCAB, (double)got[at], (double)want[at]);
}

/* A whole run of one prompt by another model equals the reference. */
static void same_run(check_case *t, reference *r, tf_model *m, const char *what, uint32_t p,
                     uint32_t chunk) {
    int32_t tokens[FORWARD_TOKENS];
    float *logits = take_logits(forward_rows(p));
    if (forward_run(t, m, &r->golden, p, chunk, logits, tokens))
        same_bits(t, what, logits, r->logits[p], forward_rows(p));
    free(logits);
}

typedef struct cutting {
    uint32_t world;
    const char *weights;
    uint32_t delay_us;
} cutting;

static void check_cuts(check_case *t, const char *pack, tf_profile profile) {
    static const cutting cuts[] = {
        {3, "2,1,1", 0}, {3, NULL, 60}, {3, NULL, 0}, {2, NULL, 0}, {4, NULL, 0}};
    reference r;
    if (reference_open(t, &r, pack, profile)) {
        size_t count = check_sanitized() ? 2 : COUNT(cuts);
        for (size_t i = 0; i < count; i++) {
            char what[64];
            tf_model_options o = {
                .profile = profile, .delay_us = cuts[i].delay_us, .delay_seed = 7 + i};
            snprintf(what, sizeof what, "world %u%s%s", cuts[i].world,
                     cuts[i].weights == NULL ? "" : " by weights",
                     cuts[i].delay_us == 0 ? "" : " with delays");
            tf_model *m = forward_open(t, r.opened, cuts[i].world, cuts[i].weights, &o);
            if (m != NULL) same_run(t, &r, m, what, PROMPT_17, FORWARD_IDS_MAX);
            if (m != NULL && cuts[i].delay_us == 0) same_run(t, &r, m, what, PROMPT_96, 40);
            tf_model_close(m);
        }
    }
    reference_close(&r);
}

static void every_world_plain(check_case *t) {
    check_cuts(t, "tiny-bf16", TF_PROFILE_F32);
}

static void every_world_trellis(check_case *t) {
    check_cuts(t, "tiny-exl3", TF_PROFILE_F32);
}

static void every_world_rounded(check_case *t) {
    check_cuts(t, "tiny-bf16", TF_PROFILE_BF16);
}

static void every_chunk_length(check_case *t) {
    reference r;
    if (reference_open(t, &r, "tiny-exl3", TF_PROFILE_F32)) {
        tf_model_options o = {0};
        tf_model *m = forward_open(t, r.opened, 1, NULL, &o);
        float *logits = take_logits(FORWARD_IDS_MAX);
        uint32_t more = check_sanitized() ? 8 : 1;
        for (uint32_t chunk = 1; m != NULL && chunk <= 17; chunk += more) {
            char what[32];
            tf_error err = {0};
            snprintf(what, sizeof what, "chunks of %u", chunk);
            CHECK(t, tf_model_reset(m, 0, &err) == TF_OK);
            for (uint32_t at = 0; at < FORWARD_IDS_MAX; at += chunk) {
                uint32_t n = FORWARD_IDS_MAX - at < chunk ? FORWARD_IDS_MAX - at : chunk;
                CHECK(t,
                      tf_model_prefill(m, 0, r.golden.prompt[PROMPT_96] + at, n,
                                       logits + (size_t)at * FORWARD_VOCAB, NULL, &err) == TF_OK);
            }
            same_bits(t, what, logits, r.logits[PROMPT_96], FORWARD_IDS_MAX);
        }
        free(logits);
        tf_model_close(m);
    }
    reference_close(&r);
}

/* The first rows of a prompt: plain C takes its time. */
static void same_beginning(check_case *t, const reference *r, tf_model *m, const char *what) {
    tf_error err = {0};
    float *logits = take_logits(3);
    const float *want = r->logits[PROMPT_17];
    CHECK(t, tf_model_prefill(m, 0, r->golden.prompt[PROMPT_17], 3, logits, NULL, &err) == TF_OK);
    same_bits(t, what, logits, want, 3);
    for (uint32_t i = 3; i < 5; i++) {
        tf_row row = {0, r->golden.prompt[PROMPT_17][i]};
        CHECK(t, tf_model_decode(m, &row, 1, logits, NULL, &err) == TF_OK);
        same_bits(t, what, logits, want + (size_t)i * FORWARD_VOCAB, 1);
    }
    free(logits);
}

static void check_machine(check_case *t, const reference *r, const char *isa, uint32_t threads) {
    char what[64];
    tf_split split = {.world = 1};
    tf_error err = {0};
    tf_model *m = NULL;
    tf_model_options o = {
        .profile = r->profile, .isa = isa, .threads = threads, .cache_dir = TF_BUILD_DIR "/cache"};
    snprintf(what, sizeof what, "%s on %u threads", isa, threads);
    if (tf_model_open(r->opened, &split, &o, &m, &err) == TF_OK) {
        same_beginning(t, r, m, what);
    } else {
        CHECK_U64(t, err.word, TF_W_ISA_MISSING);
        check_note(t, "%s: this machine lacks it", what);
    }
    tf_model_close(m);
}

/* Threads of one rank, and every instruction set this machine has. */
static void every_thread_count_and_instruction_set(check_case *t) {
    static const char *const isas[] = {"scalar", "avx2", "avx512", "amx"};
    static const tf_profile profiles[] = {TF_PROFILE_F32, TF_PROFILE_BF16};
    for (size_t p = 0; p < COUNT(profiles); p++) {
        reference r;
        bool held = reference_open(t, &r, p == 0 ? "tiny-exl3" : "tiny-bf16", profiles[p]);
        for (size_t i = 0; held && i < COUNT(isas); i++) {
            for (uint32_t threads = 1; threads <= 2; threads++)
                check_machine(t, &r, isas[i], threads);
        }
        reference_close(&r);
    }
}

/* ---- requests side by side ---- */

#define OTHERS 7

/* Slot `own` runs prompt 17; the others run stretches of prompt 96, all in one step each time. */
static void run_among_others(check_case *t, reference *r, tf_model *m, uint32_t own) {
    tf_error err = {0};
    tf_row rows[OTHERS + 1];
    float *logits = take_logits(OTHERS + 1);
    int32_t *prompt = r->golden.prompt[PROMPT_96];
    uint32_t length = forward_lengths[PROMPT_17];
    for (uint32_t s = 0; s <= OTHERS; s++) {
        CHECK(t, tf_model_reset(m, s, &err) == TF_OK);
        const int32_t *ids = s == own ? r->golden.prompt[PROMPT_17] : prompt + s;
        CHECK(t, tf_model_prefill(m, s, ids, s == own ? length : 3 + s, NULL, NULL, &err) == TF_OK);
    }
    for (uint32_t k = 0; k + 1 < FORWARD_TOKENS; k++) {
        for (uint32_t s = 0; s <= OTHERS; s++)
            rows[s] =
                (tf_row){s, s == own ? r->golden.greedy[PROMPT_17][k] : prompt[(k + 11 * s) % 96]};
        CHECK(t, tf_model_decode(m, rows, OTHERS + 1, logits, NULL, &err) == TF_OK);
        same_bits(t, "among others", logits + (size_t)own * FORWARD_VOCAB,
                  r->logits[PROMPT_17] + (size_t)(length + k) * FORWARD_VOCAB, 1);
    }
    free(logits);
}

static void alone_and_among_others_in_any_order(check_case *t) {
    reference r;
    if (reference_open(t, &r, "tiny-exl3", TF_PROFILE_F32)) {
        tf_model_options o = {.slots = OTHERS + 1};
        tf_model *m = forward_open(t, r.opened, 1, NULL, &o);
        for (uint32_t own = 0; m != NULL && own <= OTHERS; own += 5)
            run_among_others(t, &r, m, own);
        tf_model_close(m);
    }
    reference_close(&r);
}

/* A model that has read the prompt of 17, and room for the logits of six rows. */
typedef struct reader {
    reference r;
    tf_model *m;
    float *logits;
    const int32_t *greedy;
    uint32_t length;   /* of the prompt */
    const float *want; /* of the token after it, and those that follow */
} reader;

static bool reader_open(check_case *t, reader *a) {
    tf_model_options o = {0};
    tf_error err = {0};
    *a = (reader){.logits = take_logits(6), .length = forward_lengths[PROMPT_17]};
    if (!reference_open(t, &a->r, "tiny-exl3", TF_PROFILE_F32)) return false;
    a->greedy = a->r.golden.greedy[PROMPT_17];
    a->want = a->r.logits[PROMPT_17] + (size_t)a->length * FORWARD_VOCAB;
    a->m = forward_open(t, a->r.opened, 1, NULL, &o);
    return CHECK(t, a->m != NULL && tf_model_prefill(a->m, 0, a->r.golden.prompt[PROMPT_17],
                                                     a->length, NULL, NULL, &err) == TF_OK);
}

static void reader_close(reader *a) {
    free(a->logits);
    tf_model_close(a->m);
    reference_close(&a->r);
}

/* Six rows from token `at` on, of which the first `same` equal the reference and `kept` stay. */
static void reader_step(check_case *t, reader *a, const tf_row rows[6], uint32_t at, uint32_t same,
                        uint32_t kept) {
    tf_error err = {0};
    CHECK(t, tf_model_decode(a->m, rows, 6, a->logits, NULL, &err) == TF_OK);
    same_bits(t, "six rows", a->logits, a->want + (size_t)at * FORWARD_VOCAB, same);
    CHECK(t, tf_model_rollback(a->m, 0, a->length + at + kept, &err) == TF_OK);
}

/* Several rows of one request in a step, as a verified draft has them; two are taken back and run again
 * with the next. */
static void rows_of_one_request_in_one_step(check_case *t) {
    reader a;
    bool held = reader_open(t, &a);
    for (uint32_t at = 0; held && at + 6 < FORWARD_TOKENS; at += 4) {
        tf_row rows[6];
        for (uint32_t i = 0; i < 6; i++)
            rows[i] = (tf_row){0, a.greedy[at + i]};
        reader_step(t, &a, rows, at, 6, 4);
    }
    reader_close(&a);
}

/* Wrong tokens that were rolled back leave nothing behind. */
static void rejected_rows_leave_nothing_behind(check_case *t) {
    reader a;
    bool held = reader_open(t, &a);
    for (uint32_t k = 0; held && k + 1 < FORWARD_TOKENS; k++) {
        tf_row rows[6] = {{0, a.greedy[k]}};
        for (uint32_t i = 1; i < 6; i++)
            rows[i] = (tf_row){0, (int32_t)((k * 131 + i * 17) % FORWARD_VOCAB)};
        reader_step(t, &a, rows, k, 1, 1);
    }
    reader_close(&a);
}

/* ---- resumed ---- */

/* The run is cut at ten places; there its state moves into another model, of another world. */
static void resumed_in_another_world_and_fresh(check_case *t) {
    static const uint32_t cuts[10] = {1, 2, 3, 8, 16, 17, 18, 24, 41, 63};
    reference r;
    if (reference_open(t, &r, "tiny-exl3", TF_PROFILE_F32)) {
        tf_model_options o = {.slots = 2};
        tf_error err = {0};
        tf_model *models[2] = {forward_open(t, r.opened, 1, NULL, &o),
                               forward_open(t, r.opened, 3, NULL, &o)};
        bool held = models[0] != NULL && models[1] != NULL;
        size_t bytes = held ? tf_model_state_bytes(models[0]) : 0;
        char *state = malloc(bytes + 1);
        float *logits = take_logits(1);
        uint32_t length = forward_lengths[PROMPT_17];
        CHECK(t, held && tf_model_state_bytes(models[1]) == bytes);
        for (uint32_t at = 0, cut = 0; held && at < forward_rows(PROMPT_17); at++) {
            if (cut < COUNT(cuts) && cuts[cut] == at) {
                CHECK(t, tf_model_save(models[cut % 2], cut % 2, state, bytes, &err) == TF_OK);
                cut++;
                CHECK(t, tf_model_restore(models[cut % 2], cut % 2, state, bytes, &err) == TF_OK);
            }
            tf_row row = {cut % 2, at < length ? r.golden.prompt[PROMPT_17][at]
                                               : r.golden.greedy[PROMPT_17][at - length]};
            CHECK(t, tf_model_decode(models[cut % 2], &row, 1, logits, NULL, &err) == TF_OK);
            same_bits(t, "resumed", logits, r.logits[PROMPT_17] + (size_t)at * FORWARD_VOCAB, 1);
        }
        free(state);
        free(logits);
        tf_model_close(models[0]);
        tf_model_close(models[1]);
    }
    reference_close(&r);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"invariance/every-world-plain", every_world_plain},
        {"invariance/every-world-trellis", every_world_trellis},
        {"invariance/every-world-rounded", every_world_rounded},
        {"invariance/every-chunk-length", every_chunk_length},
        {"invariance/every-thread-count-and-instruction-set",
         every_thread_count_and_instruction_set},
        {"invariance/alone-and-among-others-in-any-order", alone_and_among_others_in_any_order},
        {"invariance/rows-of-one-request-in-one-step", rows_of_one_request_in_one_step},
        {"invariance/rejected-rows-leave-nothing-behind", rejected_rows_leave_nothing_behind},
        {"invariance/resumed-in-another-world-and-fresh", resumed_in_another_world_and_fresh},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
