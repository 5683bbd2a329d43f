/* Pins: the file, the check, the capture, and what a partial run may not say. */
#include "harness/pins/pins.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "harness/pins/pinfile.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pin_subject subject_of(const char *name, const char *text) {
    return (pin_subject){.name = name,
                         .what = "calls of a test",
                         .made_by = "tfverify emit --pack test",
                         .text = text,
                         .bytes = strlen(text)};
}

static pin_options options_of(const char *root) {
    return (pin_options){.root = root, .run = "pins", .revision = "abc123"};
}

typedef struct outcome {
    tf_status status;
    pin_verdict verdict;
    tf_error err;
    char report[16384];
    pin_counts counts;
} outcome;

/* One run over one subject. */
static outcome meet(check_case *t, const pin_options *options, const pin_subject *subject) {
    outcome o = {0};
    pin_book *book = NULL;
    tf_text report = {0};
    o.status = pin_open(options, &book, &o.err);
    if (!CHECK(t, o.status == TF_OK)) return o;
    o.status = pin_meet(book, subject, &o.verdict, &report, &o.err);
    snprintf(o.report, sizeof o.report, "%s", text_str(&report));
    pin_count(book, &o.counts);
    text_free(&report);
    pin_close(book);
    return o;
}

static void accept_text(check_case *t, const char *root, const char *name, const char *text) {
    pin_options options = options_of(root);
    options.capture = options.accept = true;
    pin_subject subject = subject_of(name, text);
    outcome o = meet(t, &options, &subject);
    CHECK(t, o.status == TF_OK && o.counts.written == 1);
}

static bool has_file(const char *root, const char *path) {
    char full_path[1200];
    snprintf(full_path, sizeof full_path, "%s/%s", root, path);
    return io_exists(full_path);
}

/* ---- names and patterns --------------------------------------------------------------------- */

static void refuses_names_that_are_no_files(check_case *t) {
    static const char *const bad[] = {"",       "/a",   "a/",  "a//b",    ".",      "..",
                                      "a/../b", ".git", "a b", "a\nname", "a/.b/c", "\xc3\xa4"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        tf_error err = {0};
        CHECKF(t, pinfile_check_name(bad[i], &err) == TF_BAD_INPUT, "accepted '%s'", bad[i]);
        CHECK_U64(t, err.word, TF_W_BAD_PIN_NAME);
    }
    char deep[] = "a/b/c/d/e/f/g/h/i";
    tf_error err = {0};
    CHECK(t, pinfile_check_name(deep, &err) != TF_OK);
    deep[15] = '\0';
    err = (tf_error){0};
    CHECK(t, pinfile_check_name(deep, &err) == TF_OK);
    CHECK(t, pinfile_check_name("flash/w3/r2/decode-n_1+2.b", &err) == TF_OK);
}

static void a_pattern_matches_from_any_component(check_case *t) {
    const char *name = "flash/w3/r2/plan";
    CHECK(t, pinfile_match("w3/*", name));
    CHECK(t, pinfile_match("flash/*", name));
    CHECK(t, pinfile_match("plan", name));
    CHECK(t, pinfile_match("r?/plan", name));
    CHECK(t, pinfile_match(name, name));
    CHECK(t, pinfile_match(NULL, name));
    CHECK(t, pinfile_match("*", name));
    CHECK(t, !pinfile_match("3/*", name));
    CHECK(t, !pinfile_match("w3", name));
    CHECK(t, !pinfile_match("w33/*", name));
    CHECK(t, !pinfile_match("lan", name));
    CHECK(t, !pinfile_match("", name));
    /* A backtracking matcher would not come back from this one. */
    char stars[200] = "";
    for (int i = 0; i < 40; i++)
        memcpy(stars + i * 2, "*a", 3);
    CHECK(t, !pinfile_match(stars, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
}

/* ---- check and capture ---------------------------------------------------------------------- */

static void a_new_pin_is_a_mismatch_and_not_written(check_case *t) {
    const char *root = check_tmpdir(t);
    pin_options options = options_of(root);
    pin_subject subject = subject_of("a/plan", "one\n");
    outcome o = meet(t, &options, &subject);
    CHECK_U64(t, o.status, TF_BAD_INPUT);
    CHECK_U64(t, o.err.word, TF_W_NO_PINS);
    CHECK(t, strstr(o.err.remedy, "pins capture") != NULL);
    accept_text(t, root, "a/other", "two\n");
    options.ci = true;
    o = meet(t, &options, &subject);
    CHECK_U64(t, o.status, TF_MISMATCH);
    CHECK_U64(t, o.err.word, TF_W_PIN_MISSING);
    CHECK_U64(t, o.verdict, PIN_MISSING);
    CHECK(t, !has_file(root, "pins/a/plan.txt") && !has_file(root, "pins/a/plan.txt.new"));
    CHECK(t, strstr(o.report, "reproduce: tfverify emit --pack test\n") != NULL);
}

static void a_capture_waits_for_a_person(check_case *t) {
    const char *root = check_tmpdir(t);
    pin_options options = options_of(root);
    options.capture = true;
    pin_subject subject = subject_of("a/plan", "one\n");
    outcome o = meet(t, &options, &subject);
    CHECK(t, o.status == TF_OK && o.verdict == PIN_MISSING && o.counts.written == 1);
    CHECK(t, has_file(root, "pins/a/plan.txt.new") && !has_file(root, "pins/a/plan.txt"));
    options.capture = false;
    o = meet(t, &options, &subject);
    CHECK_U64(t, o.err.word, TF_W_PIN_MISSING);
    accept_text(t, root, "a/plan", "one\n");
    CHECK(t, has_file(root, "pins/a/plan.txt") && !has_file(root, "pins/a/plan.txt.new"));
    o = meet(t, &options, &subject);
    CHECK(t, o.status == TF_OK && o.verdict == PIN_SAME);
}

static void a_capture_that_equals_the_pin_drops_the_pending_one(check_case *t) {
    const char *root = check_tmpdir(t);
    accept_text(t, root, "a", "one\n");
    pin_options options = options_of(root);
    options.capture = true;
    pin_subject other = subject_of("a", "two\n");
    outcome o = meet(t, &options, &other);
    CHECK(t, o.status == TF_OK && o.verdict == PIN_CHANGED && has_file(root, "pins/a.txt.new"));
    pin_subject again = subject_of("a", "one\n");
    o = meet(t, &options, &again);
    CHECK(t, o.status == TF_OK && o.verdict == PIN_SAME && o.counts.written == 0);
    CHECK(t, !has_file(root, "pins/a.txt.new"));
}

static void a_mismatch_shows_the_first_difference(check_case *t) {
    const char *root = check_tmpdir(t);
    accept_text(t, root, "flash/w3/r2/decode", "a\nb\nc\nd heads=24{H}\ne\nf\ng\nh\n");
    pin_options options = options_of(root);
    pin_subject now =
        subject_of("flash/w3/r2/decode", "a\nb\nc\nd heads=16{H}\ne\nf\ng\nh changed\n");
    outcome o = meet(t, &options, &now);
    CHECK_U64(t, o.status, TF_MISMATCH);
    CHECK_U64(t, o.err.word, TF_W_PIN_CHANGED);
    CHECK(t, strstr(o.report, " a\n b\n c\n-d heads=24{H}\n+d heads=16{H}\n e\n f\n g\n") != NULL);
    CHECK(t, strstr(o.report, "first difference in line 4") != NULL);
    CHECK(t, strstr(o.report, "changed: heads: 24{H} -> 16{H}, the value of {H}") != NULL);
    CHECK(t, strstr(o.report, "pinned at abc123 by tfverify " TF_VERSION) != NULL);
    CHECK(t, strstr(o.report, "reproduce: tfverify emit --pack test\n") != NULL);
    CHECK(t, strstr(o.report, "accept: tfverify pins capture 'flash/w3/r2/decode'") != NULL);
}

static void every_changed_byte_is_a_mismatch(check_case *t) {
    const char *root = check_tmpdir(t);
    check_random r = check_seed(t);
    char text[] = "plan 1 test\nheads 24{64/W}\n\ntotals 3  \n";
    accept_text(t, root, "a", text);
    pin_options options = options_of(root);
    for (size_t i = 0; i < strlen(text); i++) {
        char kept = text[i];
        do
            text[i] = (char)(1 + check_below(&r, 255));
        while (text[i] == kept);
        pin_subject now = subject_of("a", text);
        outcome o = meet(t, &options, &now);
        CHECKF(t, o.err.word == TF_W_PIN_CHANGED, "byte %zu became %d", i, text[i]);
        CHECK(t, strstr(o.report, "first difference in line") != NULL);
        text[i] = kept;
    }
}

/* ---- long texts ----------------------------------------------------------------------------- */

typedef struct long_text {
    char *text;
    size_t bytes;
    pin_span spans[50];
    char names[50][8];
} long_text;

/* Fifty layers of 200 lines of 40 bytes: 400,000 bytes. */
static long_text long_text_of(uint64_t odd_layer, uint64_t odd_line) {
    long_text l = {.text = calloc(50 * 200, 41)};
    for (uint64_t layer = 0; layer < 50; layer++) {
        l.spans[layer].begin = l.bytes;
        for (uint64_t line = 0; line < 200; line++) {
            bool odd = layer == odd_layer && line == odd_line;
            l.bytes += (size_t)snprintf(
                l.text + l.bytes, 41, "L%02llu call %05llu heads=%d{H} ......",
                (unsigned long long)layer, (unsigned long long)line, odd ? 16 : 24);
            while (l.bytes % 40 != 39)
                l.text[l.bytes++] = '.';
            l.text[l.bytes++] = '\n';
        }
        l.spans[layer].end = l.bytes;
        snprintf(l.names[layer], sizeof l.names[layer], "L%llu", (unsigned long long)layer);
    }
    return l;
}

static pin_subject long_subject(long_text *l, bool spans) {
    for (size_t i = 0; i < 50; i++)
        l->spans[i].name = l->names[i];
    pin_subject s = subject_of("long", "");
    s.text = l->text;
    s.bytes = l->bytes;
    s.spans = spans ? l->spans : NULL;
    s.span_count = spans ? 50 : 0;
    return s;
}

static void a_long_text_is_held_by_layer(check_case *t) {
    const char *root = check_tmpdir(t);
    pin_options options = options_of(root);
    options.capture = options.accept = true;
    long_text was = long_text_of(99, 0), deep = long_text_of(37, 5), early = long_text_of(0, 7);
    pin_subject s = long_subject(&was, true);
    outcome o = meet(t, &options, &s);
    CHECK(t, o.status == TF_OK && o.counts.written == 1);
    char path[1200];
    snprintf(path, sizeof path, "%s/pins/long.txt", root);
    pin_file file;
    CHECK(t, pinfile_read(path, "long", &file, &o.err) == TF_OK);
    CHECK(t, !file.whole && file.part_count == 50 && file.bytes <= PIN_HEAD_BYTES);
    CHECK(t, file.bytes > PIN_HEAD_BYTES - 40);
    CHECK_U64(t, file.text_lines, 10000);
    pinfile_free(&file);
    options.capture = options.accept = false;
    o = meet(t, &options, &s);
    CHECK(t, o.status == TF_OK && o.verdict == PIN_SAME);
    s = long_subject(&deep, true);
    o = meet(t, &options, &s);
    CHECK_U64(t, o.err.word, TF_W_PIN_CHANGED);
    CHECK(t, strstr(o.report, "parts that differ: L37, 1 of 50\n") != NULL);
    CHECK(t, strstr(o.report, "it begins now with\n  L37 call 00000") != NULL);
    CHECK(t, strstr(o.report, "the text before: tfverify pins capture --base abc123") != NULL);
    s = long_subject(&early, true);
    o = meet(t, &options, &s);
    CHECK(t, strstr(o.report, "parts that differ: L0, 1 of 50\n") != NULL);
    CHECK(t, strstr(o.report, "first difference in line 8 ") != NULL);
    CHECK(t, strstr(o.report, "heads: 24{H} -> 16{H}") != NULL);
    free(was.text);
    free(deep.text);
    free(early.text);
}

static void a_long_text_without_layers_is_held_by_lines(check_case *t) {
    const char *root = check_tmpdir(t);
    pin_options options = options_of(root);
    options.capture = options.accept = true;
    long_text was = long_text_of(99, 0), now = long_text_of(12, 50);
    pin_subject s = long_subject(&was, false);
    CHECK(t, meet(t, &options, &s).status == TF_OK);
    options.capture = options.accept = false;
    s = long_subject(&now, false);
    outcome o = meet(t, &options, &s);
    CHECKF(t, strstr(o.report, "parts that differ: lines-2001-3000, 1 of 10\n") != NULL, "%s",
           o.report);
    free(was.text);
    free(now.text);
}

/* ---- damage --------------------------------------------------------------------------------- */

static void a_damaged_pin_is_refused_by_name(check_case *t) {
    const char *root = check_tmpdir(t);
    check_random r = check_seed(t);
    accept_text(t, root, "a/b", "one\ntwo heads=24{H}\n");
    char path[1200];
    snprintf(path, sizeof path, "%s/pins/a/b.txt", root);
    char *good = NULL;
    size_t n = 0;
    tf_error err = {0};
    CHECK(t, io_read_file(path, 1 << 20, &good, &n, &err) == TF_OK);
    pin_options options = options_of(root);
    pin_subject subject = subject_of("a/b", "one\ntwo heads=24{H}\n");
    /* Cut anywhere. */
    for (size_t cut = 0; cut < n; cut++) {
        CHECK(t, io_write_file(path, good, cut, &err) == TF_OK);
        outcome o = meet(t, &options, &subject);
        CHECKF(t, o.err.word == TF_W_PIN_DAMAGED, "cut at %zu", cut);
        CHECK(t, strstr(o.err.what, "a/b.txt") != NULL && o.err.remedy[0] != '\0');
    }
    /* A flipped byte anywhere is damage, or stands in one of the lines that only tell. */
    const char *told = strstr(good, "what "), *digest = strstr(good, "digest ");
    for (size_t i = 0; i < n; i++) {
        char kept = good[i];
        good[i] = (char)(kept ^ (1 << check_below(&r, 7)));
        CHECK(t, io_write_file(path, good, n, &err) == TF_OK);
        outcome o = meet(t, &options, &subject);
        good[i] = kept;
        bool tells = good + i > told && good + i < digest;
        CHECKF(t, o.status != TF_OK || tells, "byte %zu of %zu", i, n);
    }
    mem_free(good);
}

static void a_checked_out_pin_with_carriage_returns_is_named(check_case *t) {
    tf_error err = {0};
    pin_file file;
    static const char crlf[] = "pin 1\r\nname a\r\n";
    CHECK(t, pinfile_parse("a.txt", crlf, sizeof crlf - 1, &file, &err) == TF_BAD_INPUT);
    CHECK_U64(t, err.word, TF_W_PIN_DAMAGED);
    CHECK(t, strstr(err.found, "carriage return") != NULL);
}

static void a_copied_pin_is_refused(check_case *t) {
    const char *root = check_tmpdir(t);
    accept_text(t, root, "w2", "one\n");
    char out[256];
    CHECK_U64(t, check_command(t, out, sizeof out, "cp %s/pins/w2.txt %s/pins/w3.txt", root, root),
              0);
    pin_options options = options_of(root);
    pin_subject subject = subject_of("w3", "one\n");
    outcome o = meet(t, &options, &subject);
    CHECK_U64(t, o.err.word, TF_W_PIN_DAMAGED);
    CHECK_STR(t, o.err.found, "'w2'");
}

static void what_is_printed_is_what_is_read(check_case *t) {
    check_random r = check_seed(t);
    for (int round = 0; round < 2000; round++) {
        char text[200];
        size_t n = check_below(&r, sizeof text);
        for (size_t i = 0; i < n; i++)
            text[i] = (char)(check_below(&r, 4) == 0 ? '\n' : (char)check_below(&r, 256));
        pin_file file = {.name = "a/b",
                         .what = "what\nname x",
                         .run = "pins",
                         .made_by = "",
                         .captured_at = "none",
                         .tool = "1",
                         .digest = digest_bytes(text, n),
                         .text_bytes = n,
                         .pending = check_below(&r, 2) == 1,
                         .whole = true,
                         .text = text,
                         .bytes = n};
        file.text_lines = n > 0 && text[n - 1] != '\n';
        for (size_t i = 0; i < n; i++)
            file.text_lines += text[i] == '\n';
        tf_text printed = {0}, again = {0};
        tf_error err = {0};
        pin_file back;
        pinfile_print(&printed, &file);
        CHECK(t, pinfile_parse("x", printed.data, printed.length, &back, &err) == TF_OK);
        CHECK_STR(t, back.what, "what?name x");
        CHECK(t, back.bytes == n && memcmp(back.text, text, n) == 0);
        pinfile_print(&again, &back);
        CHECK_STR(t, text_str(&again), text_str(&printed));
        pinfile_free(&back);
        text_free(&printed);
        text_free(&again);
    }
}

/* ---- the end of a run ----------------------------------------------------------------------- */

/* Meets the listed subjects and says what is obsolete. */
static void run_over(check_case *t, const pin_options *options, const char *const *names,
                     size_t count, char *obsolete, size_t size) {
    pin_book *book = NULL;
    tf_error err = {0};
    tf_text text = {0}, report = {0};
    size_t found = 0;
    CHECK(t, pin_open(options, &book, &err) == TF_OK);
    for (size_t i = 0; i < count; i++) {
        pin_subject s = subject_of(names[i], names[i]);
        pin_verdict verdict;
        CHECK(t, pin_meet(book, &s, &verdict, &report, &err) == TF_OK);
    }
    CHECK(t, pin_obsolete(book, &text, &found, &err) == TF_OK);
    snprintf(obsolete, size, "%s", text_str(&text));
    text_free(&text);
    text_free(&report);
    pin_close(book);
}

static void obsolete_pins_are_those_of_this_run_nobody_claimed(check_case *t) {
    const char *root = check_tmpdir(t);
    static const char *const names[] = {"a/w1/plan", "a/w2/plan", "b/w1/plan", "b/w2/plan"};
    for (size_t i = 0; i < COUNT(names); i++)
        accept_text(t, root, names[i], names[i]);
    pin_options foreign = options_of(root);
    foreign.run = "digests";
    foreign.capture = foreign.accept = true;
    pin_subject theirs = subject_of("c/lib", "x\n");
    CHECK(t, meet(t, &foreign, &theirs).status == TF_OK);
    pin_options options = options_of(root);
    char obsolete[256];
    run_over(t, &options, names, 4, obsolete, sizeof obsolete);
    CHECK_STR(t, obsolete, "");
    run_over(t, &options, names, 3, obsolete, sizeof obsolete);
    CHECK_STR(t, obsolete, "b/w2/plan\n");
    CHECK(t, has_file(root, "pins/b/w2/plan.txt"));
    /* Outside its pattern a run says nothing. */
    options.pattern = "a/*";
    run_over(t, &options, names, 1, obsolete, sizeof obsolete);
    CHECK_STR(t, obsolete, "a/w2/plan\n");
}

static void two_subjects_of_one_name_are_refused(check_case *t) {
    const char *root = check_tmpdir(t);
    accept_text(t, root, "a", "one\n");
    pin_options options = options_of(root);
    pin_book *book = NULL;
    tf_error err = {0};
    tf_text report = {0};
    pin_verdict verdict;
    CHECK(t, pin_open(&options, &book, &err) == TF_OK);
    pin_subject s = subject_of("a", "one\n");
    CHECK(t, pin_meet(book, &s, &verdict, &report, &err) == TF_OK);
    CHECK(t, pin_meet(book, &s, &verdict, &report, &err) == TF_BAD_INPUT);
    CHECK_U64(t, err.word, TF_W_PIN_NAMED_TWICE);
    text_free(&report);
    pin_close(book);
}

static void a_pattern_that_selects_nothing_is_no_pass(check_case *t) {
    const char *root = check_tmpdir(t);
    pin_options options = options_of(root);
    options.pattern = "w9/*";
    pin_book *book = NULL;
    tf_error err = {0};
    tf_text report = {0};
    pin_verdict verdict;
    CHECK(t, pin_open(&options, &book, &err) == TF_OK);
    pin_subject s = subject_of("a/w1/plan", "one\n");
    CHECK(t, pin_meet(book, &s, &verdict, &report, &err) == TF_OK);
    CHECK_U64(t, verdict, PIN_LEFT_OUT);
    CHECK(t, pin_finish(book, &err) == TF_USAGE);
    CHECK_U64(t, err.word, TF_W_NOTHING_CHECKED);
    text_free(&report);
    pin_close(book);
}

static void ci_never_captures(check_case *t) {
    const char *root = check_tmpdir(t);
    pin_options options = options_of(root);
    options.capture = options.accept = options.ci = true;
    pin_book *book = NULL;
    tf_error err = {0};
    CHECK(t, pin_open(&options, &book, &err) == TF_REFUSED);
    CHECK_U64(t, err.word, TF_W_PINS_READ_ONLY);
    CHECK(t, book == NULL && !has_file(root, "pins"));
}

/* Eight processes write one pin; whoever wins, the file is whole. */
static void eight_writers_leave_one_whole_pin(check_case *t) {
    const char *root = check_tmpdir(t);
    pid_t children[8];
    for (size_t i = 0; i < COUNT(children); i++) {
        children[i] = fork();
        if (children[i] != 0) continue;
        char text[4000];
        memset(text, (int)('a' + i), sizeof text - 2);
        text[sizeof text - 2] = '\n';
        text[sizeof text - 1] = '\0';
        pin_options options = options_of(root);
        options.capture = options.accept = true;
        pin_subject s = subject_of("a/b", text);
        int bad = 0;
        for (int round = 0; round < 20; round++) {
            pin_book *book = NULL;
            tf_error err = {0};
            tf_text report = {0};
            pin_verdict verdict;
            bad |= pin_open(&options, &book, &err) != TF_OK;
            bad |= pin_meet(book, &s, &verdict, &report, &err) != TF_OK;
            text_free(&report);
            pin_close(book);
        }
        _exit(bad);
    }
    for (size_t i = 0; i < COUNT(children); i++) {
        int status = 0;
        waitpid(children[i], &status, 0);
        CHECK_U64(t, status, 0);
    }
    char path[1200];
    snprintf(path, sizeof path, "%s/pins/a/b.txt", root);
    pin_file file;
    tf_error err = {0};
    CHECK(t, pinfile_read(path, "a/b", &file, &err) == TF_OK);
    pinfile_free(&file);
    char **names = NULL;
    size_t count = 0;
    snprintf(path, sizeof path, "%s/pins/a", root);
    CHECK(t, io_list(path, &names, &count, &err) == TF_OK);
    CHECK_U64(t, count, 1);
    io_free_names(names, count);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"pins/refuses-names-that-are-no-files", refuses_names_that_are_no_files},
        {"pins/a-pattern-matches-from-any-component", a_pattern_matches_from_any_component},
        {"pins/a-new-pin-is-a-mismatch-and-not-written", a_new_pin_is_a_mismatch_and_not_written},
        {"pins/a-capture-waits-for-a-person", a_capture_waits_for_a_person},
        {"pins/a-capture-that-equals-the-pin-drops-the-pending-one",
         a_capture_that_equals_the_pin_drops_the_pending_one},
        {"pins/a-mismatch-shows-the-first-difference", a_mismatch_shows_the_first_difference},
        {"pins/every-changed-byte-is-a-mismatch", every_changed_byte_is_a_mismatch},
        {"pins/a-long-text-is-held-by-layer", a_long_text_is_held_by_layer},
        {"pins/a-long-text-without-layers-is-held-by-lines",
         a_long_text_without_layers_is_held_by_lines},
        {"pins/a-damaged-pin-is-refused-by-name", a_damaged_pin_is_refused_by_name},
        {"pins/a-checked-out-pin-with-carriage-returns-is-named",
         a_checked_out_pin_with_carriage_returns_is_named},
        {"pins/a-copied-pin-is-refused", a_copied_pin_is_refused},
        {"pins/what-is-printed-is-what-is-read", what_is_printed_is_what_is_read},
        {"pins/obsolete-pins-are-those-of-this-run-nobody-claimed",
         obsolete_pins_are_those_of_this_run_nobody_claimed},
        {"pins/two-subjects-of-one-name-are-refused", two_subjects_of_one_name_are_refused},
        {"pins/a-pattern-that-selects-nothing-is-no-pass",
         a_pattern_that_selects_nothing_is_no_pass},
        {"pins/ci-never-captures", ci_never_captures},
        {"pins/eight-writers-leave-one-whole-pin", eight_writers_leave_one_whole_pin},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
