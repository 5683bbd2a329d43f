/* Review: a pending pin is shown, then accepted or rejected; never behind anybody's back. */
#include "harness/pins/review.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "harness/pins/pinfile.h"
#include "harness/pins/pins.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

static void capture(check_case *t, const char *root, const char *name, const char *text,
                    bool accept) {
    pin_options options = {.root = root, .run = "pins", .capture = true, .accept = accept};
    pin_subject s = {.name = name,
                     .what = "calls of a test",
                     .made_by = "tfverify emit --pack test",
                     .text = text,
                     .bytes = strlen(text)};
    pin_book *book = NULL;
    pin_verdict verdict;
    tf_text report = {0};
    tf_error err = {0};
    CHECK(t, pin_open(&options, &book, &err) == TF_OK);
    CHECK(t, pin_meet(book, &s, &verdict, &report, &err) == TF_OK);
    text_free(&report);
    pin_close(book);
}

static bool exists(const char *root, const char *path) {
    char whole[1200];
    snprintf(whole, sizeof whole, "%s/pins/%s", root, path);
    return io_exists(whole);
}

/* The text a pin holds; empty when there is none. */
static void pinned(const char *root, const char *name, char *to, size_t size) {
    char path[1200];
    snprintf(path, sizeof path, "%s/pins/%s.txt", root, name);
    pin_file file;
    tf_error err = {0};
    to[0] = '\0';
    if (pinfile_read(path, name, &file, &err) != TF_OK) return;
    snprintf(to, size, "%.*s", (int)file.bytes, file.text);
    pinfile_free(&file);
}

typedef tf_status (*act)(const review_options *options, tf_text *out, size_t *count, tf_error *err);

typedef struct outcome {
    tf_status status;
    tf_error err;
    size_t count;
    char out[16384];
} outcome;

static outcome do_it(act act_to_do, const review_options *options) {
    outcome o = {.status = TF_OK};
    tf_text out = {0};
    o.status = act_to_do(options, &out, &o.count, &o.err);
    snprintf(o.out, sizeof o.out, "%s", text_str(&out));
    text_free(&out);
    return o;
}

static void shows_each_pending_change_as_a_diff(check_case *t) {
    const char *root = check_tmpdir(t);
    review_options options = {.root = root, .command = "build/tfverify"};
    outcome o = do_it(review_show, &options);
    CHECK(t, o.status == TF_OK && o.count == 0);
    CHECK_STR(t, o.out, "0 pending pins\n");
    capture(t, root, "a/plan", "x\nheads=24{H}\n", true);
    capture(t, root, "a/plan", "x\nheads=16{H}\n", false);
    capture(t, root, "b/plan", "fresh\n", false);
    o = do_it(review_show, &options);
    CHECK_U64(t, o.count, 2);
    CHECK(t, strstr(o.out, "=== a/plan: changed\ncalls of a test\n") != NULL);
    CHECK(t, strstr(o.out, " x\n-heads=24{H}\n+heads=16{H}\n") != NULL);
    CHECK(t,
          strstr(o.out, "changed: heads: 24{H} -> 16{H}, the value of {H}, in 1 line\n") != NULL);
    CHECK(t, strstr(o.out, "=== b/plan: new\n") != NULL && strstr(o.out, "+fresh\n") != NULL);
    CHECK(t, strstr(o.out, "accept: build/tfverify pins accept NAME|--all") != NULL);
    options.pattern = "b/*";
    o = do_it(review_show, &options);
    CHECK_U64(t, o.count, 1);
    CHECK(t, strstr(o.out, "a/plan") == NULL);
}

static void accept_puts_the_selected_ones_in_place(check_case *t) {
    const char *root = check_tmpdir(t);
    capture(t, root, "a/plan", "old\n", true);
    capture(t, root, "a/plan", "new\n", false);
    capture(t, root, "b/plan", "other\n", false);
    review_options options = {.root = root, .pattern = "a/plan"};
    outcome o = do_it(review_accept, &options);
    CHECK(t, o.status == TF_OK && o.count == 1);
    CHECK_STR(t, o.out, "accepted a/plan\n");
    char text[64];
    pinned(root, "a/plan", text, sizeof text);
    CHECK_STR(t, text, "new\n");
    CHECK(t, !exists(root, "a/plan.txt.new") && exists(root, "b/plan.txt.new"));
    CHECK(t, !exists(root, "b/plan.txt"));
    options.pattern = NULL;
    o = do_it(review_accept, &options);
    CHECK(t, o.status == TF_OK && o.count == 1 && exists(root, "b/plan.txt"));
    /* What is accepted bears no trace of having been pending. */
    char path[1200];
    char *data = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/pins/b/plan.txt", root);
    CHECK(t, io_read_file(path, 100000, &data, &n, &o.err) == TF_OK);
    CHECK(t, strstr(data, "replaces") == NULL);
    mem_free(data);
}

static void reject_removes_and_keeps_the_pin(check_case *t) {
    const char *root = check_tmpdir(t);
    capture(t, root, "a", "old\n", true);
    capture(t, root, "a", "new\n", false);
    review_options options = {.root = root};
    outcome o = do_it(review_reject, &options);
    CHECK(t, o.status == TF_OK && o.count == 1);
    char text[64];
    pinned(root, "a", text, sizeof text);
    CHECK_STR(t, text, "old\n");
    CHECK(t, !exists(root, "a.txt.new"));
    o = do_it(review_reject, &options);
    CHECK_U64(t, o.status, TF_USAGE);
    CHECK_U64(t, o.err.word, TF_W_NOTHING_PENDING);
    o = do_it(review_accept, &options);
    CHECK_U64(t, o.err.word, TF_W_NOTHING_PENDING);
}

static void a_pin_that_changed_since_is_not_undone(check_case *t) {
    const char *root = check_tmpdir(t);
    capture(t, root, "a", "one\n", true);
    capture(t, root, "a", "two\n", false);
    capture(t, root, "b", "fine\n", false);
    char command[256];
    CHECK_U64(t,
              check_command(t, command, sizeof command, "cp %s/pins/a.txt.new %s/kept", root, root),
              0);
    capture(t, root, "a", "three\n", true);
    CHECK_U64(t,
              check_command(t, command, sizeof command, "cp %s/kept %s/pins/a.txt.new", root, root),
              0);
    review_options options = {.root = root};
    outcome o = do_it(review_show, &options);
    CHECK(t, strstr(o.out, "stale: the pin changed") != NULL);
    o = do_it(review_accept, &options);
    CHECK_U64(t, o.status, TF_REFUSED);
    CHECK_U64(t, o.err.word, TF_W_PENDING_PIN_STALE);
    char text[64];
    pinned(root, "a", text, sizeof text);
    CHECK_STR(t, text, "three\n");
    CHECKF(t, !exists(root, "b.txt"), "one was accepted although another could not be");
}

static void ci_accepts_nothing(check_case *t) {
    const char *root = check_tmpdir(t);
    capture(t, root, "a", "one\n", false);
    review_options options = {.root = root, .ci = true};
    outcome o = do_it(review_accept, &options);
    CHECK_U64(t, o.status, TF_REFUSED);
    CHECK_U64(t, o.err.word, TF_W_PINS_READ_ONLY);
    o = do_it(review_reject, &options);
    CHECK_U64(t, o.err.word, TF_W_PINS_READ_ONLY);
    CHECK(t, exists(root, "a.txt.new") && !exists(root, "a.txt"));
    o = do_it(review_show, &options);
    CHECK(t, o.status == TF_OK && o.count == 1);
}

static void a_damaged_pending_pin_is_refused(check_case *t) {
    const char *root = check_tmpdir(t);
    capture(t, root, "a", "one\n", false);
    char out[256];
    CHECK_U64(t, check_command(t, out, sizeof out, "echo more >> %s/pins/a.txt.new", root), 0);
    review_options options = {.root = root};
    outcome o = do_it(review_accept, &options);
    CHECK_U64(t, o.err.word, TF_W_PIN_DAMAGED);
    CHECK(t, !exists(root, "a.txt"));
    o = do_it(review_show, &options);
    CHECK_U64(t, o.err.word, TF_W_PIN_DAMAGED);
    /* A pin copied over a pending one was never captured. */
    capture(t, root, "b", "one\n", true);
    CHECK_U64(
        t, check_command(t, out, sizeof out, "cp %s/pins/b.txt %s/pins/b.txt.new", root, root), 0);
    options.pattern = "b";
    o = do_it(review_accept, &options);
    CHECK_U64(t, o.err.word, TF_W_PIN_DAMAGED);
}

static void an_accept_that_was_killed_is_finished_by_the_next(check_case *t) {
    const char *root = check_tmpdir(t);
    capture(t, root, "a", "one\n", false);
    char out[256];
    CHECK_U64(t, check_command(t, out, sizeof out, "cp %s/pins/a.txt.new %s/kept", root, root), 0);
    review_options options = {.root = root};
    CHECK(t, do_it(review_accept, &options).status == TF_OK);
    CHECK_U64(t, check_command(t, out, sizeof out, "cp %s/kept %s/pins/a.txt.new", root, root), 0);
    outcome o = do_it(review_show, &options);
    CHECK(t, o.status == TF_OK && o.count == 0 && !exists(root, "a.txt.new"));
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"review/shows-each-pending-change-as-a-diff", shows_each_pending_change_as_a_diff},
        {"review/accept-puts-the-selected-ones-in-place", accept_puts_the_selected_ones_in_place},
        {"review/reject-removes-and-keeps-the-pin", reject_removes_and_keeps_the_pin},
        {"review/a-pin-that-changed-since-is-not-undone", a_pin_that_changed_since_is_not_undone},
        {"review/ci-accepts-nothing", ci_accepts_nothing},
        {"review/a-damaged-pending-pin-is-refused", a_damaged_pending_pin_is_refused},
        {"review/an-accept-that-was-killed-is-finished-by-the-next",
         an_accept_that_was_killed_is_finished_by_the_next},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
