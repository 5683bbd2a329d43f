/* A model's life: what it refuses, what it keeps, what it holds (engine/model). */
#include "engine/model/model.h"

#include "engine/base/arena.h"
#include "engine/model/fault.h"
#include "engine/model/prepared.h"
#include "engine/model/rank.h"
#include "tests/support/check.h"
#include "tests/support/forward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tf_model *open_tiny(check_case *t, tf_pack **pack, uint32_t world,
                           const tf_model_options *o) {
    *pack = forward_pack(t, "tiny-exl3");
    return *pack == NULL ? NULL : forward_open(t, *pack, world, NULL, o);
}

static void close_both(tf_model *m, tf_pack *pack) {
    tf_model_close(m);
    tf_pack_close(pack);
}

/* ---- refusals ---- */

static void ids_outside_the_vocabulary_are_refused(check_case *t) {
    static const int32_t bad[] = {-1, FORWARD_VOCAB, INT32_MAX};
    tf_pack *pack = NULL;
    tf_model_options o = {0};
    tf_model *m = open_tiny(t, &pack, 1, &o);
    for (size_t i = 0; m != NULL && i < COUNT(bad); i++) {
        tf_error err = {0};
        int32_t ids[2] = {5, bad[i]};
        CHECK(t, tf_model_prefill(m, 0, ids, 2, NULL, NULL, &err) == TF_USAGE);
        CHECK_U64(t, err.word, TF_W_BAD_TOKEN);
        CHECKF(t, strstr(err.expected, "1279") != NULL, "%s", err.expected);
        tf_row row = {0, bad[i]};
        err = (tf_error){0};
        CHECK(t, tf_model_decode(m, &row, 1, NULL, NULL, &err) == TF_USAGE);
        CHECK_U64(t, err.word, TF_W_BAD_TOKEN);
        CHECK_U64(t, tf_model_length(m, 0), 0);
    }
    close_both(m, pack);
}

static void slots_that_are_not_there_or_not_together_are_refused(check_case *t) {
    tf_pack *pack = NULL;
    tf_model_options o = {.slots = 2};
    tf_model *m = open_tiny(t, &pack, 1, &o);
    if (m != NULL) {
        tf_error err = {0};
        tf_row apart[3] = {{0, 1}, {1, 1}, {0, 2}};
        int32_t id = 3;
        CHECK(t, tf_model_prefill(m, 2, &id, 1, NULL, NULL, &err) == TF_USAGE);
        CHECK_U64(t, err.word, TF_W_BAD_SLOT);
        err = (tf_error){0};
        CHECK(t, tf_model_decode(m, apart, 3, NULL, NULL, &err) == TF_USAGE);
        CHECK_U64(t, err.word, TF_W_BAD_SLOT);
        err = (tf_error){0};
        tf_row together[3] = {{0, 1}, {0, 2}, {1, 1}};
        CHECK(t, tf_model_decode(m, together, 3, NULL, NULL, &err) == TF_OK);
        CHECK_U64(t, tf_model_length(m, 0), 2);
        CHECK_U64(t, tf_model_length(m, 1), 1);
    }
    close_both(m, pack);
}

static void a_full_context_is_refused_before_a_step(check_case *t) {
    tf_pack *pack = NULL;
    tf_model_options o = {.context = 8, .rows = 16};
    tf_model *m = open_tiny(t, &pack, 1, &o);
    if (m != NULL) {
        tf_error err = {0};
        int32_t ids[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
        tf_row row = {0, 1};
        CHECK(t, tf_model_prefill(m, 0, ids, 9, NULL, NULL, &err) == TF_USAGE);
        CHECK_U64(t, err.word, TF_W_CONTEXT_FULL);
        err = (tf_error){0};
        CHECK(t, tf_model_prefill(m, 0, ids, 8, NULL, NULL, &err) == TF_OK);
        CHECK(t, tf_model_decode(m, &row, 1, NULL, NULL, &err) == TF_USAGE);
        CHECK_U64(t, err.word, TF_W_CONTEXT_FULL);
    }
    close_both(m, pack);
}

static void steps_of_no_or_too_many_rows_are_refused(check_case *t) {
    tf_pack *pack = NULL;
    tf_model_options o = {.rows = 4};
    tf_model *m = open_tiny(t, &pack, 1, &o);
    for (uint32_t count = 0; m != NULL && count <= 5; count += 5) {
        tf_error err = {0};
        int32_t ids[5] = {1, 2, 3, 4, 5};
        CHECK(t, tf_model_prefill(m, 0, ids, count, NULL, NULL, &err) == TF_USAGE);
        CHECK_U64(t, err.word, TF_W_BAD_REQUEST);
        CHECK(t, err.found[0] != '\0' && err.expected[0] != '\0');
    }
    close_both(m, pack);
}

static void more_than_the_rings_hold_is_not_taken_back(check_case *t) {
    tf_pack *pack = NULL;
    tf_model_options o = {0};
    tf_model *m = open_tiny(t, &pack, 1, &o);
    if (m != NULL) {
        tf_error err = {0};
        int32_t ids[20] = {1, 2, 3};
        CHECK(t, tf_model_prefill(m, 0, ids, 20, NULL, NULL, &err) == TF_OK);
        CHECK(t, tf_model_rollback(m, 0, 13, &err) == TF_REFUSED);
        CHECK_U64(t, err.word, TF_W_ROLLBACK_TOO_FAR);
        CHECK_STR(t, err.expected, "14 to 20");
        err = (tf_error){0};
        CHECK(t, tf_model_rollback(m, 0, 21, &err) == TF_REFUSED);
        err = (tf_error){0};
        CHECK(t, tf_model_rollback(m, 0, 14, &err) == TF_OK);
        CHECK_U64(t, tf_model_length(m, 0), 14);
    }
    close_both(m, pack);
}

static void sampling_takes_temperatures_only(check_case *t) {
    static const double bad[] = {-1.0, 1e7, (double)NAN, (double)INFINITY};
    tf_pack *pack = NULL;
    tf_model_options o = {0};
    tf_model *m = open_tiny(t, &pack, 1, &o);
    for (size_t i = 0; m != NULL && i < COUNT(bad); i++) {
        tf_error err = {0};
        CHECK(t, tf_model_sampling(m, 0, bad[i], 1, &err) == TF_USAGE);
        CHECK_U64(t, err.word, TF_W_BAD_REQUEST);
    }
    close_both(m, pack);
}

static void a_model_needs_weights_a_folder_and_an_open_world(check_case *t) {
    tf_error err = {0};
    tf_model *m = NULL;
    tf_model_options o = {.cache_dir = TF_BUILD_DIR "/cache"};
    tf_pack *flash = forward_pack(t, "flash");
    tf_pack *tiny = forward_pack(t, "tiny-exl3");
    tf_split split = {.world = 1};
    CHECK(t, flash == NULL || tf_model_open(flash, &split, &o, &m, &err) == TF_REFUSED);
    CHECK_U64(t, err.word, TF_W_HEADER_ONLY_PACK);
    split.world = 5;
    err = (tf_error){0};
    CHECK(t, tf_model_open(tiny, &split, &o, &m, &err) == TF_REFUSED);
    CHECK_U64(t, err.word, TF_W_WORLD_NOT_ADMITTED);
    split.world = 1;
    o.cache_dir = NULL;
    err = (tf_error){0};
    CHECK(t, tf_model_open(tiny, &split, &o, &m, &err) == TF_USAGE);
    o.rank_dir = TF_BUILD_DIR "/no-such-folder";
    err = (tf_error){0};
    CHECK(t, tf_model_open(tiny, &split, &o, &m, &err) != TF_OK);
    CHECKF(t, strstr(err.what, "no-such-folder") != NULL, "%s", err.what);
    tf_pack_close(flash);
    tf_pack_close(tiny);
}

/* ---- state ---- */

static void a_damaged_or_foreign_state_is_refused(check_case *t) {
    tf_pack *pack = NULL;
    tf_model_options o = {.context = 64};
    tf_model *m = open_tiny(t, &pack, 1, &o);
    if (m != NULL) {
        /* magic, config, pack, context, profile, length, digest, state */
        static const size_t at[] = {0, 8, 24, 40, 48, 52, 56, 72, 5000};
        tf_error err = {0};
        size_t bytes = tf_model_state_bytes(m);
        char *state = malloc(bytes);
        int32_t ids[20] = {1, 2, 3};
        CHECK(t, tf_model_prefill(m, 0, ids, 20, NULL, NULL, &err) == TF_OK);
        CHECK(t, state != NULL && tf_model_save(m, 0, state, bytes, &err) == TF_OK);
        for (size_t i = 0; state != NULL && i < COUNT(at); i++) {
            err = (tf_error){0};
            state[at[i]] ^= (char)0x80;
            CHECKF(t, tf_model_restore(m, 0, state, bytes, &err) == TF_REFUSED, "byte %zu", at[i]);
            CHECK_U64(t, err.word, TF_W_STATE_DIFFERS);
            state[at[i]] ^= (char)0x80;
        }
        err = (tf_error){0};
        CHECK(t, tf_model_restore(m, 0, state, bytes - 1, &err) == TF_REFUSED);
        err = (tf_error){0};
        CHECK(t, tf_model_restore(m, 0, state, bytes, &err) == TF_OK);
        CHECK_U64(t, tf_model_length(m, 0), 20);
        free(state);
    }
    close_both(m, pack);
}

/* ---- faults ---- */

static void a_rank_that_fails_ends_the_others_with_its_reason(check_case *t) {
    static const char *const phases[] = {"open", "load", "prefill", "decode"};
    for (size_t i = 0; i < COUNT(phases); i++) {
        tf_error err = {0};
        tf_model *m = NULL;
        tf_model_options o = {.cache_dir = TF_BUILD_DIR "/cache", .fault = {"die", phases[i], 2}};
        tf_pack *pack = forward_pack(t, "tiny-exl3");
        tf_split split = {.world = 3};
        int32_t ids[3] = {1, 2, 3};
        tf_row row = {0, 4};
        tf_status status = tf_model_open(pack, &split, &o, &m, &err);
        CHECK(t, (status == TF_OK) == (i >= 2));
        if (status == TF_OK) status = tf_model_prefill(m, 0, ids, 3, NULL, NULL, &err);
        CHECK(t, (status == TF_OK) == (i >= 3));
        if (status == TF_OK) status = tf_model_decode(m, &row, 1, NULL, NULL, &err);
        CHECK(t, status != TF_OK);
        CHECK_U64(t, err.word, TF_W_PLANTED_FAULT);
        CHECKF(t, strstr(err.what, "rank 2") != NULL, "%s", err.what);
        if (m != NULL) {
            err = (tf_error){0};
            CHECK(t, tf_model_prefill(m, 0, ids, 1, NULL, NULL, &err) == TF_REFUSED);
            CHECK_U64(t, err.word, TF_W_MODEL_BROKEN);
        }
        close_both(m, pack);
    }
}

static void faults_have_names(check_case *t) {
    static const planted_fault bad[] = {
        {"dance", "open", 0}, {"die", "lunch", 0}, {"die", NULL, 0}, {"die", "open", 2}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        tf_error err = {0};
        CHECK(t, fault_check(&bad[i], 2, &err) == TF_USAGE);
        CHECK(t, err.expected[0] != '\0');
    }
    planted_fault good = {"die", "load", 1};
    tf_error err = {0};
    CHECK(t, fault_check(&good, 2, &err) == TF_OK);
    CHECK(t, fault_reached(&good, "load", 0, &err) == TF_OK);
    CHECK(t, fault_reached(&good, "open", 1, &err) == TF_OK);
    CHECK(t, fault_reached(&good, "load", 1, &err) == TF_INTERNAL);
}

/* ---- memory ---- */

static uint64_t step_plan(check_case *t, const tf_plan *plan, call_phase phase, uint32_t rows,
                          uint64_t context) {
    emit_request r = {.phase = phase, .layer = EMIT_ALL_LAYERS, .rows = rows, .context = context};
    tf_error err = {0};
    tf_calls *calls = NULL;
    if (!CHECK(t, emit_calls(plan, &r, &calls, &err) == TF_OK)) return 0;
    uint64_t bytes = calls->step_bytes;
    calls_free(calls);
    return bytes;
}

/* A step's memory is what the lists' buffer plan says, and a token takes none. */
static void memory_is_the_buffer_plan_and_a_token_takes_none(check_case *t) {
    tf_pack *pack = NULL;
    tf_model_options o = {.rows = 32, .context = 256};
    tf_model *m = open_tiny(t, &pack, 3, &o);
    for (uint32_t r = 0; m != NULL && r < 3; r++) {
        tf_model_memory before;
        tf_model_memory_of(m, r, &before);
        const tf_plan *plan = rank_plan(m->ranks[r]);
        uint64_t most = step_plan(t, plan, PHASE_PREFILL, 32, 256);
        uint64_t decode = step_plan(t, plan, PHASE_DECODE, 1, 256);
        CHECK_U64(t, before.step, most > decode ? most : decode);
        CHECK(t, before.weights >= plan->bytes / 2 && before.state > 0 && before.in_out > 0);
    }
    if (m != NULL) {
        tf_error err = {0};
        int32_t ids[3] = {1, 2, 3};
        tf_row row = {0, 4};
        CHECK(t, tf_model_prefill(m, 0, ids, 3, NULL, NULL, &err) == TF_OK);
        CHECK(t, tf_model_decode(m, &row, 1, NULL, NULL, &err) == TF_OK);
        uint64_t taken = mem_count();
        for (int k = 0; k < 20; k++)
            CHECK(t, tf_model_decode(m, &row, 1, NULL, NULL, &err) == TF_OK);
        CHECK_U64(t, mem_count(), taken);
    }
    close_both(m, pack);
}

/* ---- rank files ---- */

static void rank_files_are_made_once_and_again_for_a_changed_pack(check_case *t) {
    char dir[3][TF_PATH_BYTES_MAX];
    char copy[TF_PATH_BYTES_MAX];
    char out[512];
    const char *folder = check_tmpdir(t);
    tf_pack *pack = forward_pack(t, "tiny-bf16");
    tf_error err = {0};
    rankfile_options o = {.workers = 1};
    snprintf(copy, sizeof copy, "%s/pack", folder);
    check_command(t, out, sizeof out, "cp -r '%s' '%s'", tf_pack_dir(pack), copy);
    tf_pack_close(pack);
    for (int i = 0; i < 3; i++) {
        tf_plan *plan = NULL;
        if (i == 2) check_command(t, out, sizeof out, "touch '%s'/*.safetensors", copy);
        if (!CHECK(t, tf_pack_open(copy, folder, &pack, &err) == TF_OK)) return;
        CHECK(t, plan_make(pack, 2, 1, NULL, &plan, &err) == TF_OK);
        CHECK(t, prepared_folder(plan, folder, &o, dir[i], &err) == TF_OK);
        CHECK(t,
              rankfile_verify_rank(dir[i], 1, plan, RANKFILE_VERIFY_FULL, &o, NULL, &err) == TF_OK);
        plan_free(plan);
        tf_pack_close(pack);
    }
    CHECK_STR(t, dir[1], dir[0]);
    CHECK(t, strcmp(dir[2], dir[0]) != 0);
}

/* ---- sampling ---- */

static void a_draw_depends_on_seed_and_position_alone(check_case *t) {
    tf_pack *pack = NULL;
    int32_t ids[4][24];
    int32_t prompt[3] = {5, 9, 300};
    for (int i = 0; i < 4; i++) {
        tf_model_options o = {.slots = i == 1 ? 3 : 1};
        tf_model *m = open_tiny(t, &pack, i == 2 ? 3 : 1, &o);
        tf_error err = {0};
        int64_t seed = i == 3 ? 8 : 7;
        tf_prompt p[3] = {{prompt, 3, 0.9, seed}, {prompt, 2, 0.0, 1}, {prompt, 1, 0.5, 2}};
        int32_t other[2][24];
        tf_generated out[3] = {{ids[i], 0}, {other[0], 0}, {other[1], 0}};
        tf_generation g = {p, i == 1 ? 3 : 1, 24, 0};
        if (m != NULL) CHECK(t, tf_generate(m, &g, out, NULL, &err) == TF_OK);
        close_both(m, pack);
    }
    CHECK(t, memcmp(ids[0], ids[1], sizeof ids[0]) == 0); /* among others */
    CHECK(t, memcmp(ids[0], ids[2], sizeof ids[0]) == 0); /* at world 3 */
    CHECK(t, memcmp(ids[0], ids[3], sizeof ids[0]) != 0); /* another seed */
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"model/ids-outside-the-vocabulary-are-refused", ids_outside_the_vocabulary_are_refused},
        {"model/slots-that-are-not-there-or-not-together-are-refused",
         slots_that_are_not_there_or_not_together_are_refused},
        {"model/a-full-context-is-refused-before-a-step", a_full_context_is_refused_before_a_step},
        {"model/steps-of-no-or-too-many-rows-are-refused",
         steps_of_no_or_too_many_rows_are_refused},
        {"model/more-than-the-rings-hold-is-not-taken-back",
         more_than_the_rings_hold_is_not_taken_back},
        {"model/sampling-takes-temperatures-only", sampling_takes_temperatures_only},
        {"model/a-model-needs-weights-a-folder-and-an-open-world",
         a_model_needs_weights_a_folder_and_an_open_world},
        {"model/a-damaged-or-foreign-state-is-refused", a_damaged_or_foreign_state_is_refused},
        {"model/a-rank-that-fails-ends-the-others-with-its-reason",
         a_rank_that_fails_ends_the_others_with_its_reason},
        {"model/faults-have-names", faults_have_names},
        {"model/memory-is-the-buffer-plan-and-a-token-takes-none",
         memory_is_the_buffer_plan_and_a_token_takes_none},
        {"model/rank-files-are-made-once-and-again-for-a-changed-pack",
         rank_files_are_made_once_and_again_for_a_changed_pack},
        {"model/a-draw-depends-on-seed-and-position-alone",
         a_draw_depends_on_seed_and_position_alone},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
