/* A rank's observers: layer hashes in a file, and whoever else looks on beside them. */
#include "engine/model/rank.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "engine/model/model.h"
#include "tests/support/check.h"
#include "tests/support/forward.h"

#include <stdio.h>
#include <string.h>

#define TOKENS 3

static const int32_t ids[] = {0, 12, 7, 1279, 3};

static void count_points(void *context, const call *c, const port_launch *l) {
    uint32_t *count = context;
    (void)l;
    *count += c->kind == CALL_REDUCE;
}

/* A chunk and two decode steps; the tokens go to `tokens`. */
static tf_status run(tf_model *m, int32_t *tokens, tf_error *err) {
    tf_generation g = {&(tf_prompt){.ids = ids, .count = COUNT(ids)}, 1, TOKENS, 0};
    tf_generated made = {tokens, 0};
    return tf_generate(m, &g, &made, NULL, err);
}

static uint32_t lines_with(check_case *t, const char *path, const char *what) {
    char *text = NULL;
    size_t n = 0;
    uint32_t count = 0;
    tf_error err = {0};
    if (!CHECKF(t, io_read_file(path, 1 << 20, &text, &n, &err) == TF_OK, "%s", path)) return 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    mem_free(text);
    return count;
}

/* Every rank writes its file, and another that looks on sees every call of it meanwhile and after. */
static void who_looks_on_beside_the_hashes_sees_all(check_case *t) {
    char path[600];
    int32_t plain[TOKENS];
    int32_t watched[TOKENS];
    uint32_t seen = 0;
    tf_error err = {0};
    tf_model_options o = {.context = 64};
    tf_pack *pack = forward_pack(t, "tiny-exl3");
    if (pack == NULL) return;
    tf_model *m = forward_open(t, pack, 2, NULL, &o);
    CHECK(t, m != NULL && run(m, plain, &err) == TF_OK);
    tf_model_close(m);
    snprintf(path, sizeof path, "%s/h", check_tmpdir(t));
    o.layer_hashes = path;
    m = forward_open(t, pack, 2, NULL, &o);
    if (m != NULL) {
        rank_observe(m->ranks[1], count_points, &seen);
        CHECK(t, run(m, watched, &err) == TF_OK);
        CHECK(t, memcmp(plain, watched, sizeof plain) == 0);
        uint32_t reduces = 2 * pack->config.target_layers * TOKENS;
        CHECK_U64(t, seen, reduces);
        CHECK(t, tf_model_finish_hashes(m, &err) == TF_OK);
        CHECK(t, !io_exists(path));
        for (int r = 0; r < 2; r++) {
            char file[700];
            snprintf(file, sizeof file, "%s.r%d", path, r);
            CHECK_U64(t, lines_with(t, file, ".sum\""), reduces);
            CHECK_U64(t, lines_with(t, file, ".partial\""), reduces);
            CHECK_U64(t, lines_with(t, file, "\"step\":2,\"phase\":\"decode\",\"layer\":\"top\""),
                      2);
        }
        CHECK(t, run(m, watched, &err) == TF_OK);
        CHECK_U64(t, seen, 2 * reduces);
        rank_observe(m->ranks[1], NULL, NULL);
        CHECK(t, run(m, watched, &err) == TF_OK);
        CHECK_U64(t, seen, 2 * reduces);
    }
    tf_model_close(m);
    tf_pack_close(pack);
}

static void a_run_that_fails_leaves_no_hashes(check_case *t) {
    char path[600];
    int32_t tokens[TOKENS];
    tf_error err = {0};
    tf_pack *pack = forward_pack(t, "tiny-exl3");
    if (pack == NULL) return;
    snprintf(path, sizeof path, "%s/h", check_tmpdir(t));
    tf_model_options o = {.context = 64, .layer_hashes = path, .fault = {"die", "decode", 0}};
    tf_model *m = forward_open(t, pack, 1, NULL, &o);
    if (m != NULL) {
        CHECK(t, run(m, tokens, &err) != TF_OK && err.word == TF_W_PLANTED_FAULT);
        CHECK(t, tf_model_finish_hashes(m, &err) != TF_OK);
    }
    tf_model_close(m);
    CHECK(t, !io_exists(path));
    tf_pack_close(pack);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"rank/who-looks-on-beside-the-hashes-sees-all", who_looks_on_beside_the_hashes_sees_all},
        {"rank/a-run-that-fails-leaves-no-hashes", a_run_that_fails_leaves_no_hashes},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
