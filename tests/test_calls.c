/* What call lists are made of: expressions, texts, buffers, captures, needs. */
#include "engine/base/fault.h"
#include "engine/base/io.h"
#include "engine/emit/buffers.h"
#include "engine/emit/build.h"
#include "engine/emit/call.h"
#include "engine/emit/calltext.h"
#include "engine/emit/capture.h"
#include "engine/emit/emit.h"
#include "engine/emit/expr.h"
#include "engine/emit/needs.h"
#include "engine/emit/pieces.h"
#include "tests/support/check.h"
#include "tests/support/lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- expressions ---- */

static void expressions_keep_their_making(check_case *t) {
    tf_arena arena;
    arena_init(&arena, 0);
    expr_scope s = {.arena = &arena};
    s.values[EXPR_HEADS] = 24;
    s.values[EXPR_FIRST_GROUP] = 6;
    expr_int width = expr_times(&s, EXPR_HEADS, 512);
    CHECK_U64(t, width.value, 12288);
    CHECK_STR(t, width.text, "H*512");
    expr_int sum = expr_add(&s, expr_of(&s, EXPR_FIRST_GROUP), expr_const(2));
    CHECK_STR(t, expr_mul(&s, sum, expr_const(3)).text, "(g0+2)*3");
    CHECK(t, expr_mul(&s, expr_const(3), expr_const(4)).text == NULL);
    CHECK_STR(t, expr_mul(&s, width, expr_const(1)).text, "H*512");
    CHECK_STR(t, expr_add(&s, expr_const(0), width).text, "H*512");
    expr_int less = expr_add(&s, expr_of(&s, EXPR_FIRST_GROUP), expr_const(-1));
    CHECK_U64(t, less.value, 5);
    CHECK_STR(t, less.text, "g0-1");
    CHECK_STR(t, expr_add(&s, expr_const(-1), expr_of(&s, EXPR_HEADS)).text, "H-1");
    CHECK_STR(t, expr_mul(&s, less, expr_const(3)).text, "(g0-1)*3");
    CHECK_U64(t, expr_add(&s, expr_const(-1), expr_const(-2)).value, -3);
    CHECK(t, !s.broken);
    expr_mul(&s, expr_const(INT64_MAX), expr_const(2));
    CHECK(t, s.broken);
    s.broken = false;
    expr_mul(&s, less, expr_const(-3));
    CHECK(t, s.broken);
    arena_free(&arena);
}

static void evaluation_repeats_the_making(check_case *t) {
    check_random r = check_seed(t);
    for (int round = 0; round < 3000; round++) {
        tf_arena arena;
        arena_init(&arena, 0);
        expr_scope s = {.arena = &arena};
        for (int i = 0; i < (int)EXPR_SYMBOLS; i++)
            s.values[i] = (int64_t)check_below(&r, 50);
        expr_int x = expr_of(&s, (expr_symbol)check_below(&r, EXPR_SYMBOLS));
        for (int step = 0; step < 6; step++) {
            bool symbol = check_below(&r, 2) == 0;
            expr_int y = symbol ? expr_of(&s, (expr_symbol)check_below(&r, EXPR_SYMBOLS))
                                : expr_const((int64_t)check_below(&r, 9));
            bool left = check_below(&r, 2) == 0;
            if (!symbol && check_below(&r, 2) == 0) {
                y = expr_const(-y.value);
                x = left ? expr_add(&s, y, x) : expr_add(&s, x, y);
            } else if (check_below(&r, 2) == 0) {
                x = left ? expr_add(&s, y, x) : expr_add(&s, x, y);
            } else {
                x = left ? expr_mul(&s, y, x) : expr_mul(&s, x, y);
            }
        }
        int64_t value = -1;
        tf_error err = {0};
        if (x.text != NULL) {
            CHECK_U64(t, expr_eval(x.text, s.values, &value, &err), TF_OK);
            CHECKF(t, value == x.value, "%s is %lld, evaluated to %lld", x.text, (long long)x.value,
                   (long long)value);
        }
        arena_free(&arena);
    }
}

static void damaged_expressions_are_refused(check_case *t) {
    static const char *const bad[] = {"",     "H+",  "*H",
                                      "H**2", "(H",  "H)",
                                      "Q",    "H H", "99999999999999999999",
                                      "H-",   "-H",  "H--1",
                                      "g0g",  "()",  "((((((((((((((((((((((((((((((((((H))))))))"};
    int64_t values[EXPR_SYMBOLS] = {0};
    for (size_t i = 0; i < COUNT(bad); i++) {
        int64_t out = 0;
        tf_error err = {0};
        expr_eval(bad[i], values, &out, &err);
        CHECKF(t, err.word == TF_W_BAD_EXPRESSION, "'%s' was taken", bad[i]);
    }
}

/* ---- texts ---- */

static void fill(int64_t values[EXPR_SYMBOLS], const shares_rank *s, uint32_t rows) {
    values[EXPR_WORLD] = s->world;
    values[EXPR_RANK] = s->rank;
    values[EXPR_HEADS] = s->heads;
    values[EXPR_FIRST_HEAD] = s->first_head;
    values[EXPR_GROUPS] = s->groups;
    values[EXPR_FIRST_GROUP] = s->first_group;
    values[EXPR_WIDTH] = s->width;
    values[EXPR_BLOCKS] = s->width / 128;
    values[EXPR_FIRST_BLOCK] = s->first_block;
    values[EXPR_VOCAB] = s->vocab;
    values[EXPR_FIRST_VOCAB] = s->first_vocab;
    values[EXPR_COLUMNS] = s->columns;
    values[EXPR_FIRST_COLUMN] = s->first_column;
    values[EXPR_ROWS] = rows;
    values[EXPR_START] = 0;
}

/* Every `number{expression}` of the text, evaluated with shares of the table. */
static size_t check_text(check_case *t, const char *text, const int64_t values[EXPR_SYMBOLS]) {
    size_t checked = 0;
    for (const char *open = strchr(text, '{'); open != NULL && !check_failed(t);
         open = strchr(open + 1, '{')) {
        const char *close = strchr(open, '}');
        char expression[256];
        snprintf(expression, sizeof expression, "%.*s", (int)(close - open - 1), open + 1);
        /* Holes of families, and what is listed and no sum: covers(W), rows(c0,c). */
        size_t word = strspn(expression, "abcdefghijklmnopqrstuvwxyz");
        if (open[-1] == '.' || (word > 1 && expression[word] == '(')) continue;
        const char *digits = open;
        while (digits > text && digits[-1] >= '0' && digits[-1] <= '9')
            digits--;
        int64_t value = 0;
        tf_error err = {0};
        CHECK_U64(t, expr_eval(expression, values, &value, &err), TF_OK);
        CHECKF(t, value == strtoll(digits, NULL, 10), "%.*s{%s}: the table says %lld",
               (int)(open - digits), digits, expression, (long long)value);
        checked++;
    }
    return checked;
}

static void expressions_hold_for_the_table(check_case *t) {
    for (size_t i = 0; i < SHARES_COUNT && !check_failed(t); i++) {
        if (strcmp(SHARES[i].pack, "flash") == 0 && SHARES[i].world != 3) continue;
        for (int p = 0; p < (int)PHASE_COUNT; p++) {
            const tf_calls *calls = lists_shared(t, i, (call_phase)p);
            if (calls == NULL) return;
            int64_t values[EXPR_SYMBOLS];
            fill(values, &SHARES[i], calls->rows);
            CHECK(t, check_text(t, text_str(&calls->text), values) > 30);
        }
    }
}

/* Two ranks differ in numbers alone: the same calls, the same expressions. */
static void ranks_share_their_expressions(check_case *t) {
    tf_plan *a = lists_plan(t, "tiny-exl3", 3, 0);
    tf_plan *b = lists_plan(t, "tiny-exl3", 3, 2);
    tf_calls *x = lists_calls(t, a, PHASE_DECODE, 0, 0);
    tf_calls *y = lists_calls(t, b, PHASE_DECODE, 0, 0);
    if (CHECK(t, x != NULL && y != NULL)) {
        const char *p = text_str(&x->text);
        const char *q = text_str(&y->text);
        /* Digits before a brace, and in lists whose making is named, may differ. */
        size_t braces = 0;
        for (; *p != '\0' && *q != '\0'; p++, q++) {
            while (*p != '\0' && strchr("0123456789,", *p) != NULL)
                p++;
            while (*q != '\0' && strchr("0123456789,", *q) != NULL)
                q++;
            if (!CHECKF(t, *p == *q, "%.60s\n%.60s", p, q)) break;
            if (*p == '\0') break;
            braces += *p == '{';
        }
        CHECK(t, braces > 500);
    }
    calls_free(x);
    calls_free(y);
    plan_free(a);
    plan_free(b);
}

static void a_line_reads_as_documented(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 2);
    tf_calls *calls = lists_calls(t, plan, PHASE_DECODE, 2, 0);
    tf_text line = {0};
    for (uint32_t i = 0; calls != NULL && i < calls->count; i++) {
        if (calls->calls[i].layer == 4 && strcmp(calls->calls[i].name, "wo_a") == 0)
            calltext_line(calls, &calls->calls[i], &line);
    }
    CHECK_STR(t, text_str(&line),
              "163 decode L4 dot wo_a grid=[2{n},256{g*128},1] flags=none x=L.o:F32[2{n},2{g},256] "
              "w=layers.4.attn.wo_a.slice.{g}:EXL3/mul1/4[256,128]x2{g}@6{g0} add=none leaf=256 "
              "first_leaf=0 leaves=1 all_leaves=1 cover=none y=L.z:F32[2{n},2{g},128]");
    text_free(&line);
    calls_free(calls);
    plan_free(plan);
}

/* ---- buffers ---- */

static bool alive_together(const call_buffer *a, const call_buffer *b) {
    return a->first <= b->last && b->first <= a->last;
}

static void check_places(check_case *t, const tf_calls *calls) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < calls->buffer_count; i++) {
        const call_buffer *a = &calls->buffers[i];
        if (!buffer_is_step(a) || a->first == UINT32_MAX) continue;
        CHECK_U64(t, a->offset % BUFFER_ALIGN, 0);
        if (a->offset + a->bytes > peak) peak = a->offset + a->bytes;
        for (uint32_t k = 0; k < i; k++) {
            const call_buffer *b = &calls->buffers[k];
            if (!buffer_is_step(b) || b->first == UINT32_MAX || !alive_together(a, b)) continue;
            bool apart = a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
            CHECKF(t, apart, "%s (calls %u-%u) lies over %s (calls %u-%u)", a->role, a->first,
                   a->last, b->role, b->first, b->last);
        }
    }
    CHECK(t, peak <= buffers_bytes(calls) && buffers_bytes(calls) < peak + BUFFER_ALIGN);
}

static void live_buffers_never_overlap(check_case *t) {
    static const call_phase phases[] = {PHASE_DECODE, PHASE_PREFILL, PHASE_DRAFT};
    for (uint32_t world = 1; world <= 4; world++) {
        tf_plan *plan = lists_plan(t, "tiny-exl3", world, world - 1);
        for (size_t p = 0; p < COUNT(phases); p++) {
            tf_calls *calls = lists_calls(t, plan, phases[p], 0, 0);
            if (calls != NULL) check_places(t, calls);
            calls_free(calls);
        }
        plan_free(plan);
    }
}

/* The last element that a view reaches lies within its buffer. */
static void check_view(check_case *t, const tf_calls *calls, const call *c, const call_tensor *v) {
    for (uint32_t i = 0; i < calls->buffer_count; i++) {
        const call_buffer *b = &calls->buffers[i];
        if (strcmp(b->role, v->role) != 0 || b->first > c->ordinal || b->last < c->ordinal)
            continue;
        int64_t last = v->is_view ? v->offset.value : 0;
        int64_t stride = 1;
        for (uint32_t d = v->dims; d-- > 0;) {
            last += (v->shape[d].value - 1) * (v->is_view ? v->stride[d].value : stride);
            stride *= v->shape[d].value;
        }
        CHECKF(t, (uint64_t)(last + 1) * dtype_bytes(v->dtype) <= b->bytes,
               "call %u %s reaches past %s", c->ordinal, c->name, v->role);
    }
}

static void views_stay_within(check_case *t) {
    for (int p = 0; p < (int)PHASE_PREFETCH; p++) {
        tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 1);
        tf_calls *calls = lists_calls(t, plan, (call_phase)p, 3, 0);
        for (uint32_t k = 0; calls != NULL && k < calls->count; k++) {
            const call *c = &calls->calls[k];
            for (uint32_t i = 0; i < c->arg_count; i++) {
                if (c->args[i].type == ARG_TENSOR) check_view(t, calls, c, &c->args[i].tensor);
            }
        }
        calls_free(calls);
        plan_free(plan);
    }
}

/* A rejected draft must leave what its position still needs (MODEL 5): window and block + 1. */
static void rings_hold_window_and_draft(check_case *t) {
    tf_plan *plan = lists_plan(t, "flash", 3, 2);
    tf_calls *calls = lists_calls(t, plan, PHASE_DECODE, 6, 0);
    const call_buffer *ring = calls == NULL ? NULL : calls_buffer(calls, "w.L0.kv");
    if (CHECK(t, ring != NULL)) CHECK(t, ring->shape[0].value >= 128 + 5 + 1);
    if (plan != NULL) CHECK(t, emit_ring(&plan->pack->config) >= 128 + 5 + 1);
    const call_buffer *pair = calls == NULL ? NULL : calls_buffer(calls, "s.L2.pair");
    if (CHECK(t, pair != NULL)) CHECK(t, pair->shape[0].value >= 5 + 2);
    const call_buffer *ids = calls == NULL ? NULL : calls_buffer(calls, "s.ids");
    if (CHECK(t, ids != NULL)) CHECK(t, ids->shape[0].value >= 3 + 5 + 1);
    calls_free(calls);
    plan_free(plan);
}

/* A view keeps the buffer's strides, whatever rows or columns it is cut to. */
static void views_keep_their_strides(check_case *t) {
    tf_calls list = {0};
    emitter e = {.list = &list};
    e.scope.arena = &list.arena;
    arena_init(&list.arena, 0);
    call_tensor whole = {.role = "x.a", .dtype = DTYPE_F32, .dims = 3};
    whole.shape[0] = num(5);
    whole.shape[1] = num(4);
    whole.shape[2] = num(6);
    call_tensor row = row_of(&e, whole, num(3));
    CHECK_U64(t, row.offset.value, 72);
    CHECK_U64(t, row.shape[0].value, 1);
    call_tensor columns = columns_of(&e, row, num(2), num(3));
    CHECK_U64(t, columns.offset.value, 74);
    CHECK_U64(t, columns.shape[2].value, 3);
    CHECK_U64(t, columns.stride[1].value, 6);
    CHECK(t, !e.scope.broken);
    arena_free(&list.arena);
}

/* ---- captures ---- */

static const char *write_capture(check_case *t, const tf_calls *calls, const char *dir) {
    static char path[256];
    snprintf(path, sizeof path, "%s/c.jsonl", dir);
    tf_text text = {0};
    tf_error err = {0};
    capture_write(calls, &text);
    CHECK_U64(t, io_write_file(path, text_str(&text), text.length, &err), TF_OK);
    text_free(&text);
    return path;
}

static tf_word recheck(check_case *t, const char *path, tf_error *err) {
    tf_text report = {0};
    *err = (tf_error){0};
    const tf_pack *pack = lists_pack(t, "tiny-exl3");
    if (pack != NULL) capture_check(pack, path, &report, err);
    CHECK(t, (err->status == TF_OK) == (report.length > 0));
    text_free(&report);
    return err->word;
}

static void capture_holds_what_was_emitted(check_case *t) {
    for (int p = 0; p < (int)PHASE_COUNT; p++) {
        tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 2);
        tf_calls *calls = lists_calls(t, plan, (call_phase)p, 0, 0);
        tf_error err;
        if (calls != NULL) {
            const char *path = write_capture(t, calls, check_tmpdir(t));
            CHECK_STR(t, tf_word_text(recheck(t, path, &err)), "none");
        }
        calls_free(calls);
        plan_free(plan);
    }
}

/* Changes the first `from` after `after` into `to`, of equal length. */
static bool edit(const char *path, const char *after, const char *from, const char *to) {
    char *data = NULL;
    size_t n = 0;
    tf_error err = {0};
    if (io_read_file(path, 1u << 30, &data, &n, &err) != TF_OK) return false;
    char *at = strstr(data, after);
    at = at == NULL ? NULL : strstr(at, from);
    if (at != NULL) memcpy(at, to, strlen(to));
    bool done = at != NULL && io_write_file(path, data, n, &err) == TF_OK;
    mem_free(data);
    return done;
}

static void capture_names_the_first_difference(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 2);
    tf_calls *calls = lists_calls(t, plan, PHASE_DECODE, 0, 0);
    const char *path = calls == NULL ? NULL : write_capture(t, calls, check_tmpdir(t));
    tf_error err;
    if (path != NULL && CHECK(t, edit(path, "\"wo_a\"", "x2{g}@6{g0}", "x2{g}@5{g0}"))) {
        CHECK_U64(t, recheck(t, path, &err), TF_W_CALLS_DIFFER);
        CHECK(t, strstr(err.what, "wo_a: w") != NULL);
        CHECK(t, strstr(err.found, "@5{g0}") != NULL && strstr(err.expected, "@6{g0}") != NULL);
    }
    calls_free(calls);
    plan_free(plan);
}

static void damaged_captures_are_refused(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 2);
    tf_calls *calls = lists_calls(t, plan, PHASE_DRAFT, 0, 0);
    const char *path = calls == NULL ? NULL : write_capture(t, calls, check_tmpdir(t));
    char *data = NULL;
    size_t n = 0;
    tf_error err = {0};
    if (path == NULL || io_read_file(path, 1u << 30, &data, &n, &err) != TF_OK) {
        CHECK(t, false);
        return;
    }
    /* Cut anywhere, it never passes. */
    for (size_t cut = 0; cut < n; cut += n / 40 + 1) {
        CHECK_U64(t, io_write_file(path, data, cut, &err), TF_OK);
        CHECKF(t, recheck(t, path, &err) != TF_W_NONE, "cut at %zu it passes", cut);
    }
    /* Without its last line all that is left is right. */
    size_t whole_lines = n - 1;
    while (data[whole_lines - 1] != '\n')
        whole_lines--;
    CHECK_U64(t, io_write_file(path, data, whole_lines, &err), TF_OK);
    CHECK_U64(t, recheck(t, path, &err), TF_W_CALLS_DIFFER);
    err = (tf_error){0};
    CHECK_U64(t, io_write_file(path, "", 0, &err), TF_OK);
    CHECK_U64(t, recheck(t, path, &err), TF_W_BAD_CAPTURE);
    err = (tf_error){0};
    CHECK_U64(t, io_write_file(path, data, n, &err), TF_OK);
    CHECK(t, edit(path, "pack_digest", "\":\"", "\":\"0"));
    CHECK_U64(t, recheck(t, path, &err), TF_W_BAD_CAPTURE);
    mem_free(data);
    calls_free(calls);
    plan_free(plan);
}

/* ---- needs ---- */

static void uneven_ranks_need_their_own(check_case *t) {
    const tf_pack *pack = lists_pack(t, "flash");
    tf_text even = {0};
    tf_text uneven = {0};
    tf_error err = {0};
    if (pack == NULL) return;
    CHECK_U64(t, needs_describe(pack, 2, NULL, false, &even, &err), TF_OK);
    CHECK_U64(t, needs_describe(pack, 3, NULL, false, &uneven, &err), TF_OK);
    CHECK(t, strstr(text_str(&even), "alone, not") == NULL);
    CHECK(t, strstr(text_str(&even), "attend q=32x512") != NULL);
    const char *small = strstr(text_str(&uneven), "attend q=16x512");
    CHECK(t, small != NULL && strstr(small, "-- rank 2 alone, not 0,1") != NULL);
    CHECK(t, strstr(text_str(&uneven), "attend q=24x512") != NULL);
    CHECK(t, strstr(text_str(&uneven), "attend q=21x512") == NULL);
    text_free(&even);
    text_free(&uneven);
}

static void ragged_widths_are_each_needed(check_case *t) {
    const tf_pack *pack = lists_pack(t, "tiny-exl3");
    tf_text text = {0};
    tf_error err = {0};
    if (pack == NULL) return;
    CHECK_U64(t, needs_describe(pack, 1, NULL, true, &text, &err), TF_OK);
    CHECK(t, strstr(text_str(&text), "w2=EXL3/mul1/2[640,256]") != NULL);
    CHECK(t, strstr(text_str(&text), "w2=EXL3/mul1/3[640,256]") != NULL);
    text_free(&text);
    err = (tf_error){0};
    CHECK_U64(t, needs_describe(pack, 5, NULL, false, &text, &err), TF_REFUSED);
    CHECK_U64(t, err.word, TF_W_WORLD_NOT_ADMITTED);
    text_free(&text);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"expr/keeps-its-making", expressions_keep_their_making},
        {"expr/evaluates-to-what-was-made", evaluation_repeats_the_making},
        {"expr/damaged-texts-are-refused", damaged_expressions_are_refused},
        {"calltext/expressions-hold-for-the-table", expressions_hold_for_the_table},
        {"calltext/ranks-share-their-expressions", ranks_share_their_expressions},
        {"calltext/a-line-reads-as-documented", a_line_reads_as_documented},
        {"buffers/live-ones-never-overlap", live_buffers_never_overlap},
        {"buffers/views-stay-within", views_stay_within},
        {"buffers/views-keep-their-strides", views_keep_their_strides},
        {"buffers/rings-hold-window-and-draft", rings_hold_window_and_draft},
        {"capture/holds-what-was-emitted", capture_holds_what_was_emitted},
        {"capture/names-the-first-difference", capture_names_the_first_difference},
        {"capture/damaged-ones-are-refused", damaged_captures_are_refused},
        {"needs/uneven-ranks-need-their-own", uneven_ranks_need_their_own},
        {"needs/ragged-widths-are-each-needed", ragged_widths_are_each_needed},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
