/* The diff of pins: shortest edits, bounded work, and nothing invisible. */
#include "harness/pins/diff.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const diff_limits full = {.context = 3};

static char *diff_of(check_case *t, const char *a, const char *b, diff_totals *totals) {
    tf_text out = {0};
    tf_error err = {0};
    CHECK(t, diff_write(&out, (diff_text){a, strlen(a)}, (diff_text){b, strlen(b)}, &full, totals,
                        &err) == TF_OK);
    char *copy = calloc(1, out.length + 1);
    memcpy(copy, text_str(&out), out.length);
    text_free(&out);
    return copy;
}

static void equal_texts_say_nothing(check_case *t) {
    diff_totals totals;
    char *d = diff_of(t, "a\nb\n", "a\nb\n", &totals);
    CHECK_STR(t, d, "");
    CHECK_U64(t, totals.first_line, 0);
    free(d);
    d = diff_of(t, "", "", NULL);
    CHECK_STR(t, d, "");
    free(d);
}

static void shows_three_lines_around(check_case *t) {
    diff_totals totals;
    char *d = diff_of(t, "1\n2\n3\n4\nold\n6\n7\n8\n9\n", "1\n2\n3\n4\nnew\n6\n7\n8\n9\n", &totals);
    CHECK_STR(t, d,
              "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-old\n+new\n 6\n 7\n 8\n"
              "changed: old -> new, in 1 line\n");
    CHECK_U64(t, totals.first_line, 5);
    CHECK_U64(t, totals.removed, 1);
    CHECK_U64(t, totals.added, 1);
    free(d);
}

static void names_the_expression_that_changed(check_case *t) {
    diff_change c;
    const char *was = "7 decode L8 attend core heads=24{H} q=[1,24{H},512]";
    const char *now = "7 decode L8 attend core heads=16{H} q=[1,16{H},512]";
    CHECK(t, diff_token(was, strlen(was), now, strlen(now), &c));
    CHECK_STR(t, c.name, "heads");
    CHECK_STR(t, c.from, "24{H}");
    CHECK_STR(t, c.to, "16{H}");
    CHECK(t, c.same_expression);
    now = "7 decode L8 attend core heads=24{64/W} q=[1,24{H},512]";
    CHECK(t, diff_token(was, strlen(was), now, strlen(now), &c));
    CHECK_STR(t, c.to, "24{64/W}");
    CHECK(t, !c.same_expression);
    CHECK(t, !diff_token(was, strlen(was), was, strlen(was), &c));
    CHECK(t, diff_token(was, strlen(was), "7 decode", 8, &c));
    CHECK_STR(t, c.from, "L8");
    CHECK_STR(t, c.to, "");
    char *d = diff_of(t, "a h=24{H}\nb h=24{H}\nc\n", "a h=16{H}\nb h=16{H}\nc\n", NULL);
    CHECK(t, strstr(d, "changed: h: 24{H} -> 16{H}, the value of {H}, in 2 lines\n") != NULL);
    free(d);
}

static void blanks_and_line_ends_are_visible(check_case *t) {
    char *d = diff_of(t, "a b\nx\ty\n", "a b  \nx\ty\r\n", NULL);
    CHECK(t, strstr(d, "-a b\n") != NULL);
    CHECK(t, strstr(d, "+a b\xc2\xb7\xc2\xb7\n") != NULL);
    CHECK(t, strstr(d, "-x\\ty\n") != NULL);
    CHECK(t, strstr(d, "+x\\ty\\r\n") != NULL);
    free(d);
    d = diff_of(t, "last\n", "last", NULL);
    CHECK_STR(t, d, "@@ -1,1 +1,1 @@\n-last\n+last\n\\ no newline at the end\n");
    free(d);
    d = diff_of(t, "", "\x1b[31m \x80 \xc2\x9b \xc3\xa4\n", NULL);
    CHECK(t, strstr(d, "+\\x1b[31m \\x80 \\xc2\\x9b \xc3\xa4\n") != NULL);
    free(d);
}

/* ---- properties ----------------------------------------------------------------------------- */

typedef struct lines {
    char text[8192];
    size_t count;
} lines;

static void random_lines(check_random *r, lines *out, size_t count, uint64_t alphabet) {
    size_t used = 0;
    out->text[0] = '\0';
    out->count = count;
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(out->text + used, sizeof out->text - used, "%llu\n",
                                 (unsigned long long)check_below(r, alphabet));
}

/* Applies a diff with endless context to nothing: the ' ' and '-' lines are a, ' ' and '+' are b. */
static bool side_equals(const char *diff, char mark, const char *want) {
    for (const char *at = diff; *at != '\0';) {
        const char *end = strchr(at, '\n');
        size_t n = (size_t)(end - at);
        if (strncmp(at, "changed:", 8) == 0) break;
        if (*at == ' ' || *at == mark) {
            if (strncmp(want, at + 1, n - 1) != 0 || want[n - 1] != '\n') return false;
            want += n;
        }
        at = end + 1;
    }
    return *want == '\0';
}

static void every_diff_rebuilds_both_sides(check_case *t) {
    check_random r = check_seed(t);
    static const diff_limits whole = {.context = 1000000};
    for (int round = 0; round < 3000; round++) {
        lines a, b;
        uint64_t alphabet = 1 + check_below(&r, 12);
        random_lines(&r, &a, check_below(&r, 40), alphabet);
        random_lines(&r, &b, check_below(&r, 40), alphabet);
        tf_text out = {0};
        tf_error err = {0};
        diff_totals sums;
        CHECK(t, diff_write(&out, (diff_text){a.text, strlen(a.text)},
                            (diff_text){b.text, strlen(b.text)}, &whole, &sums, &err) == TF_OK);
        bool same = strcmp(a.text, b.text) == 0;
        CHECK(t, same == (out.length == 0));
        if (!same)
            CHECKF(t,
                   side_equals(text_str(&out), '-', a.text) &&
                       side_equals(text_str(&out), '+', b.text),
                   "a:\n%sb:\n%sdiff:\n%s", a.text, b.text, text_str(&out));
        CHECK_U64(t, a.count - sums.removed, b.count - sums.added);
        text_free(&out);
    }
}

/* Length of the longest common subsequence, by the table. */
static size_t common(const lines *a, const lines *b) {
    static size_t table[64][64];
    const char *la[64], *lb[64];
    size_t n = 0, m = 0;
    for (const char *p = a->text; *p != '\0'; p = strchr(p, '\n') + 1)
        la[n++] = p;
    for (const char *p = b->text; *p != '\0'; p = strchr(p, '\n') + 1)
        lb[m++] = p;
    for (size_t i = n + 1; i-- > 0;) {
        for (size_t j = m + 1; j-- > 0;) {
            if (i == n || j == m) {
                table[i][j] = 0;
                continue;
            }
            size_t length = strcspn(la[i], "\n") + 1;
            bool equal = strncmp(la[i], lb[j], length) == 0;
            size_t skip = table[i + 1][j] > table[i][j + 1] ? table[i + 1][j] : table[i][j + 1];
            table[i][j] = equal ? 1 + table[i + 1][j + 1] : skip;
        }
    }
    return table[0][0];
}

static void finds_the_shortest_edit(check_case *t) {
    check_random r = check_seed(t);
    for (int round = 0; round < 2000; round++) {
        lines a, b;
        uint64_t alphabet = 2 + check_below(&r, 6);
        random_lines(&r, &a, check_below(&r, 40), alphabet);
        random_lines(&r, &b, check_below(&r, 40), alphabet);
        diff_totals sums;
        char *d = diff_of(t, a.text, b.text, &sums);
        CHECK_U64(t, a.count - sums.removed, common(&a, &b));
        free(d);
    }
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Two texts without a common line are the worst case of a search for the shortest edit. */
static void time_does_not_grow_with_the_square(check_case *t) {
    double took[2];
    for (int i = 0; i < 2; i++) {
        size_t count = i == 0 ? 10000 : 80000;
        char *a = calloc(count, 32), *b = calloc(count, 32);
        for (size_t l = 0; l < count; l++) {
            snprintf(a + l * 9, 32, "a%07zu\n", l);
            snprintf(b + l * 9, 32, "b%07zu\n", l);
        }
        tf_text out = {0};
        tf_error err = {0};
        diff_totals sums;
        static const diff_limits one = {.context = 3, .hunks = 1, .lines = 10};
        double begin = seconds();
        CHECK(t, diff_write(&out, (diff_text){a, count * 9}, (diff_text){b, count * 9}, &one, &sums,
                            &err) == TF_OK);
        took[i] = seconds() - begin;
        CHECK_U64(t, sums.removed, count);
        CHECK_U64(t, sums.added, count);
        CHECK(t, out.length < 4096);
        text_free(&out);
        free(a);
        free(b);
    }
    /* Eight times the lines: linear is 8, the square is 64. */
    CHECKF(t, took[1] < 32 * took[0] + 0.2, "%.3f s, then %.3f s", took[0], took[1]);
}

static void long_texts_keep_their_common_lines(check_case *t) {
    /* More edits than one search holds, with equal lines between them. */
    size_t count = 6000;
    char *a = calloc(count, 12), *b = calloc(count, 12);
    size_t na = 0, nb = 0;
    for (size_t l = 0; l < count; l++) {
        bool differ = l % 2 == 0;
        na += (size_t)snprintf(a + na, 12, "%s%06zu\n", differ ? "x" : "=", l);
        nb += (size_t)snprintf(b + nb, 12, "%s%06zu\n", differ ? "y" : "=", l);
    }
    tf_text out = {0};
    tf_error err = {0};
    diff_totals sums;
    CHECK(t, diff_write(&out, (diff_text){a, na}, (diff_text){b, nb}, &full, &sums, &err) == TF_OK);
    CHECK_U64(t, sums.removed, count / 2);
    CHECK_U64(t, sums.added, count / 2);
    CHECK_U64(t, sums.hunks, 1);
    text_free(&out);
    free(a);
    free(b);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"diff/equal-texts-say-nothing", equal_texts_say_nothing},
        {"diff/shows-three-lines-around", shows_three_lines_around},
        {"diff/names-the-expression-that-changed", names_the_expression_that_changed},
        {"diff/blanks-and-line-ends-are-visible", blanks_and_line_ends_are_visible},
        {"diff/every-diff-rebuilds-both-sides", every_diff_rebuilds_both_sides},
        {"diff/finds-the-shortest-edit", finds_the_shortest_edit},
        {"diff/time-does-not-grow-with-the-square", time_does_not_grow_with_the_square},
        {"diff/long-texts-keep-their-common-lines", long_texts_keep_their_common_lines},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
