/* Layer hashes and where two runs part (engine/run/layerhash, diverge). */
#include "engine/run/diverge.h"
#include "engine/run/layerhash.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORLD  3
#define LAYERS 2
#define STEPS  3

/* What one value of a made-up run is changed by: the point on a rank at a step and layer. */
typedef struct change {
    uint32_t rank, step, layer;
    layerhash_point point;
} change;

static port_tensor rows_of(float *data, uint32_t rows, uint32_t columns, size_t stride) {
    return (port_tensor){data, DTYPE_F32, 2, {rows, columns}, {stride, 1}};
}

/* Values of a rank are its own at partials, everybody's elsewhere. */
static void fill(float *data, uint32_t count, uint32_t step, uint32_t layer, layerhash_point point,
                 uint32_t rank) {
    for (uint32_t i = 0; i < count; i++)
        data[i] = (float)(1000 * step + 100 * layer + 10 * (uint32_t)point + i) +
                  (layerhash_is_own(point) ? 0.25f * (float)(rank + 1) : 0.0f);
}

static void see(layerhash *h, const change *c, uint32_t rank, uint32_t step, uint32_t layer,
                layerhash_point point) {
    float data[8];
    fill(data, 8, step, layer, point, rank);
    bool changed =
        c != NULL && c->rank == rank && c->step == step && c->layer == layer && c->point == point;
    uint32_t at = point == LAYERHASH_IDS ? 1 : 5;
    if (changed) data[at] = -data[at];
    args_dot dot = {.y = rows_of(data, 2, 3, 4)};
    args_reduce reduce = {.y = rows_of(data, 2, 3, 4)};
    args_experts_down down = {.y = rows_of(data, 2, 3, 4)};
    args_post post = {.streams = rows_of(data, 2, 3, 4)};
    args_share_columns whole = {.y = rows_of(data, 2, 3, 4)};
    args_share_rows ids = {.ids = {data, DTYPE_I32, 1, {2}, {1}}};
    const struct {
        call_kind kind;
        const char *name;
        const void *args;
    } of[LAYERHASH_COUNT] = {
        [LAYERHASH_IDS] = {CALL_SHARE_ROWS, "embed", &ids},
        [LAYERHASH_ATTN_PARTIAL] = {CALL_DOT, "wo_b", &dot},
        [LAYERHASH_ATTN_SUM] = {CALL_REDUCE, "attn", &reduce},
        [LAYERHASH_FFN_PARTIAL] = {CALL_EXPERTS_DOWN, "experts_down", &down},
        [LAYERHASH_FFN_SUM] = {CALL_REDUCE, "ffn", &reduce},
        [LAYERHASH_STREAMS] = {CALL_POST, "post_ffn", &post},
        [LAYERHASH_LOGITS] = {CALL_DOT, "head", &dot},
        [LAYERHASH_ALL_LOGITS] = {CALL_SHARE_COLUMNS, "logits", &whole},
    };
    bool top = point == LAYERHASH_IDS || point >= LAYERHASH_LOGITS;
    call one = {.kind = of[point].kind, .name = of[point].name, .layer = top ? CALL_TOP : layer};
    port_launch launch = {one.kind, one.name, 2, of[point].args};
    layerhash_seen(h, &one, &launch);
}

static layerhash_header header_of(uint32_t world, uint32_t rank) {
    char split[32];
    snprintf(split, sizeof split, "world %u", world);
    return (layerhash_header){.model = "m",
                              .plan = digest_str("plan"),
                              .settings = digest_str("set"),
                              .split = digest_str(split),
                              .world = world,
                              .rank = rank,
                              .profile = "f32"};
}

static bool write_file(const char *path, const layerhash_header *head, const change *c,
                       uint32_t steps) {
    tf_error err = {0};
    layerhash *h = NULL;
    uint32_t rank = head->rank;
    if (layerhash_open(path, head, &h, &err) != TF_OK) return false;
    for (uint32_t step = 0; step < steps; step++) {
        layerhash_step(h, step, step == 0 ? "prefill" : "decode");
        see(h, c, rank, step, 0, LAYERHASH_IDS);
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            for (layerhash_point p = LAYERHASH_ATTN_PARTIAL; p <= LAYERHASH_STREAMS; p++)
                see(h, c, rank, step, layer, p);
        }
        see(h, c, rank, step, 0, LAYERHASH_LOGITS);
        see(h, c, rank, step, 0, LAYERHASH_ALL_LOGITS);
    }
    return layerhash_finish(h, &err) == TF_OK;
}

static bool write_rank(const char *path, const change *c, uint32_t world, uint32_t rank,
                       uint32_t steps) {
    layerhash_header head = header_of(world, rank);
    return write_file(path, &head, c, steps);
}

static bool write_run(const char *dir, const char *name, const change *c, uint32_t world,
                      uint32_t steps, char *path, size_t size) {
    bool held = true;
    snprintf(path, size, "%s/%s", dir, name);
    for (uint32_t r = 0; r < world; r++) {
        char file[1100];
        snprintf(file, sizeof file, world == 1 ? "%s" : "%s.r%u", path, r);
        held = held && write_rank(file, c, world, r, steps);
    }
    return held;
}

/* ---- the file ---- */

static void a_file_appears_whole_or_not_at_all(check_case *t) {
    char path[1100];
    const char *dir = check_tmpdir(t);
    tf_error err = {0};
    layerhash *h = NULL;
    layerhash_header head = header_of(1, 0);
    snprintf(path, sizeof path, "%s/h", dir);
    CHECK(t, layerhash_open(path, &head, &h, &err) == TF_OK);
    CHECK(t, !io_exists(path));
    layerhash_drop(h);
    CHECK(t, !io_exists(path));
    CHECK(t, write_rank(path, NULL, 1, 0, 1));
    CHECK(t, io_exists(path));
    snprintf(path, sizeof path, "%s/no/such/h", dir);
    CHECK(t, layerhash_open(path, &head, &h, &err) == TF_IO);
}

/* The file that holds what one call of name `name` with this y writes. */
static char *lines_of(check_case *t, const char *name, const port_tensor *y) {
    char path[1100];
    char *text = NULL;
    size_t n = 0;
    tf_error err = {0};
    layerhash *h = NULL;
    layerhash_header head = header_of(1, 0);
    args_reduce reduce = {.y = *y};
    call one = {.kind = CALL_REDUCE, .name = name, .layer = 4};
    port_launch launch = {CALL_REDUCE, name, y->shape[0], &reduce};
    snprintf(path, sizeof path, "%s/h", check_tmpdir(t));
    CHECK(t, layerhash_open(path, &head, &h, &err) == TF_OK);
    layerhash_step(h, 7, "decode");
    layerhash_seen(h, &one, &launch);
    CHECK(t, layerhash_finish(h, &err) == TF_OK);
    CHECK(t, io_read_file(path, 65536, &text, &n, &err) == TF_OK);
    return text;
}

/* Rows are hashed without what lies between them, on whatever axis it lies. */
static void a_hash_is_of_the_rows_alone(check_case *t) {
    float wide[24];
    float tight[2 * 3 * 2];
    char hex[DIGEST_HEX];
    for (int i = 0; i < 24; i++)
        wide[i] = (float)i + 0.5f;
    port_tensor views[] = {
        {wide, DTYPE_F32, 3, {2, 3, 2}, {12, 4, 1}}, /* columns of rows */
        {wide, DTYPE_F32, 3, {2, 3, 2}, {12, 2, 1}}, /* rows that end early */
        {wide, DTYPE_F32, 3, {2, 3, 2}, {6, 2, 1}},  /* all in one piece */
        {wide, DTYPE_F32, 3, {1, 3, 2}, {99, 2, 1}}, /* one row: its stride says nothing */
    };
    for (size_t v = 0; v < COUNT(views); v++) {
        const port_tensor *y = &views[v];
        size_t n = 0;
        for (uint32_t i = 0; i < y->shape[0] * 6; i++, n++)
            tight[n] = wide[i / 6 * y->stride[0] + i / 2 % 3 * y->stride[1] + i % 2];
        char *text = lines_of(t, "attn", y);
        digest_hex(digest_bytes(tight, n * sizeof *tight), hex);
        CHECKF(t, text != NULL && strstr(text, hex) != NULL, "view %zu: no %s in %s", v, hex, text);
        mem_free(text);
    }
    char *text = lines_of(t, "attn", &views[0]);
    CHECK(t, text != NULL && strstr(text, "{\"step\":7,\"phase\":\"decode\",\"layer\":\"L4\","
                                          "\"point\":\"attn.sum\",\"shape\":[2,3,2],") != NULL);
    mem_free(text);
}

static void a_call_of_another_name_is_no_point(check_case *t) {
    float data[2] = {1, 2};
    port_tensor y = rows_of(data, 1, 2, 2);
    char *text = lines_of(t, "other", &y);
    CHECK(t, text != NULL && strstr(text, "step") == NULL);
    mem_free(text);
}

static void points_have_names(check_case *t) {
    layerhash_point p;
    for (layerhash_point i = 0; i < LAYERHASH_COUNT; i++)
        CHECK(t, layerhash_point_parse(layerhash_point_name(i), &p) && p == i);
    CHECK(t, !layerhash_point_parse("attn", &p));
}

/* ---- parting ---- */

static void compare(check_case *t, const char *a, const char *b, const char *want, tf_word word) {
    tf_text out = {0};
    tf_error err = {0};
    diverge_compare(a, b, false, &out, &err);
    CHECK_U64(t, err.word, word);
    CHECKF(t, strstr(text_str(&out), want) != NULL, "wanted '%s' in:\n%s%s", want, text_str(&out),
           err.what);
    text_free(&out);
}

static void equal_runs_have_no_difference(check_case *t) {
    char a[1024];
    char b[1024];
    const char *dir = check_tmpdir(t);
    CHECK(t, write_run(dir, "a", NULL, WORLD, STEPS, a, sizeof a));
    CHECK(t, write_run(dir, "b", NULL, WORLD, STEPS, b, sizeof b));
    compare(t, a, b, "no difference", TF_W_NONE);
}

static void the_first_difference_has_its_place_and_class(check_case *t) {
    static const struct {
        change change;
        const char *place, *class;
    } rows[] = {
        {{2, 1, 0, LAYERHASH_IDS}, "step 1, decode, top, ids, rank 2", "class: input"},
        {{1, 1, 0, LAYERHASH_LOGITS}, "step 1, decode, top, logits, rank 1", "class: local"},
        {{1, 1, 1, LAYERHASH_ATTN_PARTIAL},
         "step 1, decode, L1, attn.partial, rank 1",
         "class: local"},
        {{2, 0, 0, LAYERHASH_FFN_PARTIAL},
         "step 0, prefill, L0, ffn.partial, rank 2",
         "class: local"},
        {{2, 2, 1, LAYERHASH_ATTN_SUM}, "step 2, decode, L1, attn.sum, rank 2", "class: exchange"},
        {{0, 1, 0, LAYERHASH_FFN_SUM}, "step 1, decode, L0, ffn.sum, rank 0", "class: exchange"},
        {{1, 0, 1, LAYERHASH_STREAMS}, "step 0, prefill, L1, streams, rank 1", "class: later"},
        {{0, 2, 0, LAYERHASH_ALL_LOGITS},
         "step 2, decode, top, logits.whole, rank 0",
         "class: later"},
    };
    char a[1024];
    char b[1024];
    const char *dir = check_tmpdir(t);
    CHECK(t, write_run(dir, "a", NULL, WORLD, STEPS, a, sizeof a));
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK(t, write_run(dir, "b", &rows[i].change, WORLD, STEPS, b, sizeof b));
        compare(t, a, b, rows[i].place, TF_W_HASHES_DIFFER);
        compare(t, a, b, rows[i].class, TF_W_HASHES_DIFFER);
    }
}

/* Rank 2 differs at an earlier point than rank 0: the earlier point is told. */
static void the_earliest_point_wins_over_the_lowest_rank(check_case *t) {
    static const change early = {2, 1, 0, LAYERHASH_ATTN_PARTIAL};
    static const change late = {0, 1, 1, LAYERHASH_ATTN_PARTIAL};
    char a[1024];
    char b[1024];
    char file[1100];
    const char *dir = check_tmpdir(t);
    CHECK(t, write_run(dir, "a", NULL, WORLD, STEPS, a, sizeof a));
    CHECK(t, write_run(dir, "b", &early, WORLD, STEPS, b, sizeof b));
    snprintf(file, sizeof file, "%s.r0", b);
    CHECK(t, write_rank(file, &late, WORLD, 0, STEPS));
    compare(t, a, b, "step 1, decode, L0, attn.partial, rank 2", TF_W_HASHES_DIFFER);
}

static void partials_of_other_worlds_are_left_out(check_case *t) {
    static const change partial = {1, 1, 1, LAYERHASH_ATTN_PARTIAL};
    static const change sum = {1, 1, 1, LAYERHASH_ATTN_SUM};
    char a[1024];
    char b[1024];
    const char *dir = check_tmpdir(t);
    CHECK(t, write_run(dir, "a", NULL, 1, STEPS, a, sizeof a));
    CHECK(t, write_run(dir, "b", &partial, WORLD, STEPS, b, sizeof b));
    compare(t, a, b, "only what every rank holds alike was compared", TF_W_NONE);
    CHECK(t, write_run(dir, "b", &sum, WORLD, STEPS, b, sizeof b));
    compare(t, a, b, "step 1, decode, L1, attn.sum, rank 1", TF_W_HASHES_DIFFER);
    compare(t, a, b, "class: sum", TF_W_HASHES_DIFFER);
    compare(t, b, a, "step 1, decode, L1, attn.sum, rank 1", TF_W_HASHES_DIFFER);
}

/* The same world, cut by other weights: intervals are others. */
static void partials_of_other_weights_are_left_out(check_case *t) {
    static const change partial = {0, 0, 0, LAYERHASH_FFN_PARTIAL};
    char a[1024];
    char b[1024];
    const char *dir = check_tmpdir(t);
    CHECK(t, write_run(dir, "a", NULL, WORLD, STEPS, a, sizeof a));
    snprintf(b, sizeof b, "%s/b", dir);
    for (uint32_t r = 0; r < WORLD; r++) {
        char file[1100];
        layerhash_header head = header_of(WORLD, r);
        head.split = digest_str("world 3, 2,1,1");
        snprintf(file, sizeof file, "%s.r%u", b, r);
        CHECK(t, write_file(file, &head, &partial, STEPS));
    }
    compare(t, a, b, "the splits differ: only what every rank holds alike", TF_W_NONE);
}

/* A rank's file, named in full, is that rank's on the other side too. */
static void a_ranks_own_file_meets_its_rank(check_case *t) {
    static const change partial = {1, 1, 1, LAYERHASH_ATTN_PARTIAL};
    static const change sum = {1, 1, 1, LAYERHASH_ATTN_SUM};
    char a[1024];
    char b[1024];
    char one[1100];
    char two[1100];
    const char *dir = check_tmpdir(t);
    CHECK(t, write_run(dir, "a", NULL, WORLD, STEPS, a, sizeof a));
    CHECK(t, write_run(dir, "b", &partial, WORLD, STEPS, b, sizeof b));
    snprintf(one, sizeof one, "%s.r1", a);
    snprintf(two, sizeof two, "%s.r2", a);
    compare(t, one, a, "no difference", TF_W_NONE);
    compare(t, a, one, "no difference", TF_W_NONE);
    compare(t, one, b, "attn.partial, rank 1", TF_W_HASHES_DIFFER);
    compare(t, b, one, "class: local", TF_W_HASHES_DIFFER);
    compare(t, two, b, "no difference", TF_W_NONE);
    compare(t, one, two, "the ranks differ: only what every rank holds alike", TF_W_NONE);
    /* Nobody looked at the other ranks' partials. */
    CHECK(t, write_run(dir, "b", &sum, WORLD, STEPS, b, sizeof b));
    compare(t, one, b, "class: sum", TF_W_HASHES_DIFFER);
}

static void what_differs_from_the_start_is_told(check_case *t) {
    char a[1024];
    char b[1024];
    const char *dir = check_tmpdir(t);
    layerhash_header head = header_of(1, 0);
    CHECK(t, write_run(dir, "a", NULL, 1, STEPS, a, sizeof a));
    snprintf(b, sizeof b, "%s/b", dir);
    head.settings = digest_str("others");
    CHECK(t, write_file(b, &head, NULL, STEPS));
    compare(t, a, b, "the settings differ", TF_W_NONE);
    head.profile = "bf16";
    head.model = "n";
    CHECK(t, write_file(b, &head, NULL, STEPS));
    compare(t, a, b, "the profiles differ: other bits are no fault", TF_W_NONE);
    compare(t, a, b, "the models differ", TF_W_NONE);
}

static void files_of_two_runs_are_refused(check_case *t) {
    char a[1024];
    char b[1024];
    char file[1100];
    const char *dir = check_tmpdir(t);
    layerhash_header head = header_of(WORLD, 2);
    CHECK(t, write_run(dir, "a", NULL, WORLD, STEPS, a, sizeof a));
    CHECK(t, write_run(dir, "b", NULL, WORLD, STEPS, b, sizeof b));
    snprintf(file, sizeof file, "%s.r2", b);
    head.settings = digest_str("others");
    CHECK(t, write_file(file, &head, NULL, STEPS));
    compare(t, a, b, "", TF_W_BAD_HASHES);
    CHECK(t, write_rank(file, NULL, WORLD, 1, STEPS));
    compare(t, a, b, "", TF_W_BAD_HASHES);
    CHECK(t, write_rank(file, NULL, WORLD, 2, STEPS));
    compare(t, a, b, "no difference", TF_W_NONE);
    /* A run at world 1 was written to the same name. */
    CHECK(t, write_rank(b, NULL, 1, 0, STEPS));
    compare(t, a, b, "", TF_W_BAD_HASHES);
    snprintf(file, sizeof file, "%s.r0", b);
    compare(t, a, file, "no difference", TF_W_NONE);
}

static void json_says_the_same(check_case *t) {
    static const change other = {1, 1, 1, LAYERHASH_FFN_SUM};
    char a[1024];
    char b[1024];
    const char *dir = check_tmpdir(t);
    tf_text out = {0};
    tf_error err = {0};
    json_doc *doc = NULL;
    CHECK(t, write_run(dir, "a", NULL, WORLD, STEPS, a, sizeof a));
    CHECK(t, write_run(dir, "b", &other, WORLD, STEPS, b, sizeof b));
    CHECK(t, diverge_compare(a, b, true, &out, &err) == TF_MISMATCH);
    CHECK(t, json_parse("report", text_str(&out), out.length, &doc, &err) == TF_OK);
    const json_value *o = doc == NULL ? NULL : json_root(doc);
    if (o != NULL) {
        CHECK_STR(t, json_string(json_get(o, "class")), "exchange");
        CHECK_STR(t, json_string(json_get(o, "point")), "ffn.sum");
        CHECK_U64(t, json_number(json_get(o, "rank")), 1);
        CHECK_U64(t, json_number(json_get(o, "layer")), 1);
        const char *left = json_string(json_get(json_get(o, "a"), "hash"));
        const char *right = json_string(json_get(json_get(o, "b"), "hash"));
        CHECKF(t, strlen(left) == 32 && strcmp(left, right) != 0, "%s", text_str(&out));
    }
    json_free(doc);
    text_free(&out);
}

static void a_shorter_run_parts_where_it_ends(check_case *t) {
    char a[1024];
    char b[1024];
    const char *dir = check_tmpdir(t);
    CHECK(t, write_run(dir, "a", NULL, WORLD, STEPS, a, sizeof a));
    CHECK(t, write_run(dir, "b", NULL, WORLD, STEPS - 1, b, sizeof b));
    compare(t, a, b, "step 2, decode, top, ids, rank 0", TF_W_HASHES_DIFFER);
    compare(t, b, a, "class: shape", TF_W_HASHES_DIFFER);
}

static void damaged_files_are_refused_by_line(check_case *t) {
    static const struct {
        const char *from, *to, *line;
    } rows[] = {
        {"layer_hashes\":1", "layer_hashes\":2", "line 1"},
        {"\"world\":1", "\"world\":0", "line 1"},
        {"\"rank\":0", "\"rank\":1", "line 1"},
        {"\"split\"", "\"spilt\"", "line 1"},
        {"\"model\":\"m", "\"model\":\"\\u001b[2J", "line 1"},
        {"\"L0\"", "\"LX\"", "line 3"},
        {"attn.sum", "attn.sun", "line 4"},
        {"[2,3]", "[2,-3]", "line 3"},
        {"\"step\":0", "\"step\":0.5", "line 2"},
        {"\"hash\":\"", "\"hash\":\"x", "line 2"},
    };
    char path[1100];
    char *text = NULL;
    size_t n = 0;
    tf_error err = {0};
    snprintf(path, sizeof path, "%s/h", check_tmpdir(t));
    CHECK(t, write_rank(path, NULL, 1, 0, 1));
    CHECK(t, io_read_file(path, 1 << 20, &text, &n, &err) == TF_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char changed[16384];
        diverge_run run = {0};
        char *at = strstr(text, rows[i].from);
        if (!CHECKF(t, at != NULL, "no %s", rows[i].from)) continue;
        int m = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, rows[i].to,
                         at + strlen(rows[i].from));
        err = (tf_error){0};
        CHECK(t, diverge_parse("h", changed, (size_t)m, &run, &err) == TF_BAD_INPUT);
        CHECK_U64(t, err.word, TF_W_BAD_HASHES);
        CHECKF(t, strstr(err.what, rows[i].line) != NULL, "%s: %s", rows[i].to, err.what);
    }
    for (size_t cut = 0; cut < n; cut += 37) {
        diverge_run run = {0};
        err = (tf_error){0};
        tf_status status = diverge_parse("h", text, cut, &run, &err);
        CHECK(t, status == TF_BAD_INPUT || (cut > 0 && text[cut - 1] == '\n'));
        diverge_run_free(&run);
    }
    mem_free(text);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"layerhash/a-file-appears-whole-or-not-at-all", a_file_appears_whole_or_not_at_all},
        {"layerhash/a-hash-is-of-the-rows-alone", a_hash_is_of_the_rows_alone},
        {"layerhash/a-call-of-another-name-is-no-point", a_call_of_another_name_is_no_point},
        {"layerhash/points-have-names", points_have_names},
        {"diverge/equal-runs-have-no-difference", equal_runs_have_no_difference},
        {"diverge/the-first-difference-has-its-place-and-class",
         the_first_difference_has_its_place_and_class},
        {"diverge/the-earliest-point-wins-over-the-lowest-rank",
         the_earliest_point_wins_over_the_lowest_rank},
        {"diverge/partials-of-other-worlds-are-left-out", partials_of_other_worlds_are_left_out},
        {"diverge/partials-of-other-weights-are-left-out", partials_of_other_weights_are_left_out},
        {"diverge/a-ranks-own-file-meets-its-rank", a_ranks_own_file_meets_its_rank},
        {"diverge/what-differs-from-the-start-is-told", what_differs_from_the_start_is_told},
        {"diverge/files-of-two-runs-are-refused", files_of_two_runs_are_refused},
        {"diverge/json-says-the-same", json_says_the_same},
        {"diverge/a-shorter-run-parts-where-it-ends", a_shorter_run_parts_where_it_ends},
        {"diverge/damaged-files-are-refused-by-line", damaged_files_are_refused_by_line},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
