/* TAP: what is written reads back, an independent reader agrees, and lies are refused. */
#include "harness/base/tap.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

static void write_sample(tap_writer *w, tf_text *text, unsigned version) {
    tap_begin(w, text, version);
    tap_note(w, "two\nlines");
    tap_point(w, TAP_OK, "holds # and \\ stay", NULL, NULL, 0);
    tap_enter(w, "inner");
    tap_point(w, TAP_SKIP, "absent", "no # device", NULL, 0);
    const tap_field fields[] = {{"message", "found \"3\", expected 4"},
                                {"left", NULL},
                                {"diff", "--- a\n\n  + b: c"},
                                {"odd", " x\ny"}};
    tap_enter(w, "deeper");
    tap_point(w, TAP_NOT_OK, "differs", NULL, fields, COUNT(fields));
    tap_leave(w, "deeper");
    tap_leave(w, "inner");
    tap_point(w, TAP_ERROR, "no pack", "cannot-open", NULL, 0);
    tap_point(w, TAP_TODO, "known", "later", NULL, 0);
    tap_finish(w);
}

/* The exact form, as a person sees it: pinned here. */
static void a_stream_has_this_form(check_case *t) {
    tf_text text = {0};
    tap_writer w;
    write_sample(&w, &text, 14);
    CHECK_STR(t, text_str(&text),
              "TAP version 14\n"
              "# two\n"
              "# lines\n"
              "ok 1 - holds \\# and \\\\ stay\n"
              "# Subtest: inner\n"
              "    ok 1 - absent # SKIP no \\# device\n"
              "    # Subtest: deeper\n"
              "        not ok 1 - differs\n"
              "          ---\n"
              "          message: \"found \\\"3\\\", expected 4\"\n"
              "          diff: |\n"
              "            --- a\n"
              "            \n"
              "              + b: c\n"
              "          odd: \" x\\ny\"\n"
              "          ...\n"
              "        1..1\n"
              "    not ok 2 - deeper\n"
              "    1..2\n"
              "not ok 2 - inner\n"
              "not ok 3 - no pack # ERROR cannot-open\n"
              "not ok 4 - known # TODO later\n"
              "1..4\n");
    CHECK(t, !tap_held(&w));
    text_free(&text);
}

typedef struct seen {
    char text[2000];
    char yaml[500];
} seen;

static tf_status look(void *context, const tap_event *e, tf_error *err) {
    (void)err;
    seen *s = context;
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof s->text - used, "%u/%llu/%d/%s/%s;", e->depth,
             (unsigned long long)e->number, (int)e->outcome, e->name, e->reason);
    if (e->yaml[0] != '\0') snprintf(s->yaml, sizeof s->yaml, "%s", e->yaml);
    return TF_OK;
}

static void what_is_written_reads_back(check_case *t) {
    tf_text text = {0};
    tap_writer w;
    write_sample(&w, &text, 14);
    seen s = {"", ""};
    tap_summary sum;
    tf_error err = {0};
    CHECK_U64(t, tap_read("sample", text.data, text.length, look, &s, &sum, &err), TF_OK);
    CHECK_STR(t, s.text,
              "0/1/0/holds # and \\ stay/;1/1/2/absent/no # device;2/1/1/differs/;1/2/1/deeper/;"
              "0/2/1/inner/;0/3/4/no pack/cannot-open;0/4/3/known/later;");
    CHECK_STR(t, s.yaml,
              "message: \"found \\\"3\\\", expected 4\"\ndiff: |\n  --- a\n  \n    + b: c\n"
              "odd: \" x\\ny\"\n");
    CHECK_U64(t, sum.planned, 4);
    CHECK_U64(t, sum.held, 1);
    CHECK_U64(t, sum.failed, 2);
    CHECK_U64(t, sum.todo, 1);
    text_free(&text);
}

static void prove_agrees(check_case *t) {
    char out[4096];
    if (check_command(t, out, sizeof out, "prove --version") != 0) {
        check_skip(t, "prove (Debian: perl) is not installed");
        return;
    }
    for (int good = 0; good < 2; good++) {
        tf_text text = {0};
        tap_writer w;
        if (good == 0) {
            write_sample(&w, &text, 13);
        } else {
            tap_begin(&w, &text, 13);
            tap_enter(&w, "inner # odd");
            tap_point(&w, TAP_OK, "a", NULL, (const tap_field[]){{"b", "c\nd"}}, 1);
            tap_leave(&w, "inner # odd");
            tap_point(&w, TAP_SKIP, "b", "why", NULL, 0);
            tap_finish(&w);
            CHECK(t, tap_held(&w));
        }
        const char *dir = check_tmpdir(t);
        char path[128];
        snprintf(path, sizeof path, "%s/a.t", dir);
        FILE *file = fopen(path, "w");
        CHECK(t, file != NULL && fputs(text_str(&text), file) >= 0 && fclose(file) == 0);
        int code = check_command(t, out, sizeof out, "prove -e cat %s", path);
        CHECKF(t, (code == 0) == (good == 1), "prove exits %d:\n%s", code, out);
        CHECKF(t, strstr(out, good ? "Result: PASS" : "Failed 2/4 subtests") != NULL, "%s", out);
        CHECKF(t, strstr(out, "Parse errors") == NULL, "%s", out);
        text_free(&text);
    }
}

static void lies_are_refused(check_case *t) {
    static const struct {
        const char *text, *found;
    } lies[] = {
        {"", "no plan"},
        {"ok 1 - a\n", "no plan"},
        {"1..2\nok 1 - a\n", "fewer or more points"},
        {"1..1\nok 1\nok 2\n", "fewer or more points"},
        {"ok 1\nok 2\n1..3\n", "another count"},
        {"ok 1\nok 3\n1..2\n", "out of its order"},
        {"ok 1\n1..1\nok 2\n", "after the plan"},
        {"1..1\n1..1\nok 1\n", "a second plan"},
        {"1..x\nok 1\n", "without a number"},
        {"    not ok 1 - in\n    1..1\nok 1 - out\n1..1\n", "ok over a subtest with failures"},
        {"    ok 1 - in\nok 1 - out\n1..1\n", "no plan"},
        {"        ok 1 - in\nok 1\n1..1\n", "too deep"},
        {"1..99999999999999999999\n", "without a number"},
    };
    for (size_t i = 0; i < COUNT(lies); i++) {
        tap_summary sum;
        tf_error err = {0};
        tf_status status =
            tap_read("lie", lies[i].text, strlen(lies[i].text), NULL, NULL, &sum, &err);
        CHECKF(t, status == TF_BAD_INPUT && err.word == TF_W_BAD_TAP, "taken: %s", lies[i].text);
        CHECKF(t, strstr(err.found, lies[i].found) != NULL, "%s: says '%s'", lies[i].text,
               err.found);
    }
    tap_summary sum;
    tf_error err = {0};
    static const char bail[] = "1..3\nok 1\nBail out! the disk is gone\n";
    CHECK_U64(t, tap_read("x", bail, sizeof bail - 1, NULL, NULL, &sum, &err), TF_IO);
    CHECK_U64(t, err.word, TF_W_TAP_BAILED_OUT);
    CHECKF(t, strstr(err.found, "the disk is gone") != NULL, "%s", err.found);
}

static void other_writers_are_understood(check_case *t) {
    static const char text[] = "TAP version 13\r\n1..5\r\nok\r\nnot ok # todo soon\nok 3 a\n"
                               "some noise, okay\nok 4 - b # skip\n  not a point\nok 5#skip x\n";
    tap_summary sum;
    tf_error err = {0};
    CHECK_U64(t, tap_read("x", text, sizeof text - 1, NULL, NULL, &sum, &err), TF_OK);
    CHECK_U64(t, sum.held, 2);
    CHECK_U64(t, sum.skipped, 2);
    CHECK_U64(t, sum.todo, 1);
    static const char none[] = "1..0 # SKIP no device\n";
    CHECK_U64(t, tap_read("x", none, sizeof none - 1, NULL, NULL, &sum, &err), TF_OK);
    CHECK(t, sum.skip_all);
}

/* Any bytes: refused or read, never a crash. */
static void any_bytes_end(check_case *t) {
    static const char *const parts[] = {"ok",    "not ok", " 1", " - a",     "\n", "    ",
                                        "1..",   "2",      "# ", "SKIP",     "\\", "  ---",
                                        "  ...", "TODO",   "\t", "Bail out!"};
    check_random random = check_seed(t);
    for (int round = 0; round < 5000; round++) {
        tf_text text = {0};
        uint64_t n = check_below(&random, 40);
        for (uint64_t i = 0; i < n; i++)
            text_add(&text, parts[check_below(&random, COUNT(parts))]);
        tap_summary sum;
        tf_error err = {0};
        tf_status status = tap_read("x", text_str(&text), text.length, NULL, NULL, &sum, &err);
        CHECK(t, status == TF_OK || err.status != TF_OK);
        text_free(&text);
    }
}

static void nothing_is_not_green(check_case *t) {
    tf_text text = {0};
    tap_writer w;
    tap_begin(&w, &text, 14);
    tap_finish(&w);
    CHECK(t, !tap_held(&w));
    text_clear(&text);
    tap_begin(&w, &text, 14);
    tap_enter(&w, "empty");
    tap_leave(&w, "empty");
    CHECKF(t, strstr(text_str(&text), "not ok 1 - empty") != NULL, "%s", text_str(&text));
    text_free(&text);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"tap/a-stream-has-this-form", a_stream_has_this_form},
        {"tap/what-is-written-reads-back", what_is_written_reads_back},
        {"tap/prove-agrees", prove_agrees},
        {"tap/lies-are-refused", lies_are_refused},
        {"tap/other-writers-are-understood", other_writers_are_understood},
        {"tap/any-bytes-end", any_bytes_end},
        {"tap/nothing-is-not-green", nothing_is_not_green},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
