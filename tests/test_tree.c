/* Style as tests: each rule holds for the tree, and complains about a bad line planted in it. */
#include "tests/support/check.h"
#include "tests/support/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*tree_rule)(const tree *t, complaints *c);

/* The rule over the tree as it is. */
static void holds(check_case *t, tree_rule rule) {
    tree real;
    tree_read(&real, TF_SOURCE_DIR, TF_BUILD_DIR);
    complaints c = {0};
    rule(&real, &c);
    CHECKF(t, c.count == 0, "%u complaints:\n%s", c.count, c.text);
    tree_free(&real);
}

/* The rule with one file planted: the complaint that holds `want` is new. */
static void notices(check_case *t, tree_rule rule, const char *path, const char *text,
                    const char *want) {
    tree real;
    tree_read(&real, TF_SOURCE_DIR, TF_BUILD_DIR);
    complaints before = {0};
    complaints after = {0};
    rule(&real, &before);
    tree_plant(&real, path, text);
    rule(&real, &after);
    CHECKF(t, strstr(after.text, want) != NULL && strstr(before.text, want) == NULL,
           "planted %s; wanted a complaint with '%s', found:\n%s", path, want, after.text);
    tree_free(&real);
}

/* The rule says nothing about this file. */
static void accepts(check_case *t, tree_rule rule, const char *path, const char *text) {
    tree real;
    tree_read(&real, TF_SOURCE_DIR, TF_BUILD_DIR);
    complaints before = {0};
    complaints after = {0};
    rule(&real, &before);
    tree_plant(&real, path, text);
    rule(&real, &after);
    CHECKF(t, after.count == before.count, "planted %s; wanted no complaint, found:\n%s", path,
           after.text);
    tree_free(&real);
}

static void floors(check_case *t) {
    holds(t, rule_floors);
    notices(t, rule_floors, "engine/plan/x.c", "#include \"engine/emit/call.h\"\n",
            "engine/plan/x.c:1: engine/plan may not include engine/emit/call.h");
    notices(t, rule_floors, "harness/pins/x.c", "\n#include \"engine/plan/plan.h\"\n",
            "harness/pins/x.c:2: harness/pins may not include");
    notices(t, rule_floors, "engine/base/x.c", "#include \"engine/baser/x.h\"\n",
            "may not include");
    notices(t, rule_floors, "harness/cli/x.c", "#include <sqlite3.h>\n", "belongs to");
    notices(t, rule_floors, "tests/oracle/x.c", "#include \"engine/plan/plan.h\"\n",
            "tests/oracle may not include");
    accepts(t, rule_floors, "harness/pins/x.c", "#include \"engine/tf.h\"\n#include <stdio.h>\n");
}

static void files_fit(check_case *t) {
    holds(t, rule_files_fit);
    static char lines[2000];
    memset(lines, '\n', sizeof lines - 1);
    notices(t, rule_files_fit, "engine/base/x.c", lines, "engine/base/x.c: 1999 lines");
}

static void functions_fit(check_case *t) {
    holds(t, rule_functions_fit);
    char text[1000] = "static int f(int a) {\n";
    memset(text + strlen(text), '\n', 300);
    snprintf(text + strlen(text), 10, "}\n");
    notices(t, rule_functions_fit, "engine/base/x.c", text, "engine/base/x.c:1: f has 302 lines");
    notices(t, rule_functions_fit, "engine/base/x.c",
            "int g(int a, int b, int c, int d, int e, int (*f)(int, int), int g, int h) {\n}\n",
            "g takes 8 parameters");
    notices(t, rule_functions_fit, "engine/base/x.c",
            "int h(void) {\nif (a) { if (b) { if (c) { if (d) { if (e) { } } } } } }\n",
            "h nests 5 deep");
    accepts(t, rule_functions_fit, "engine/base/x.c",
            "#define M(a) { { { { { {\nint f(void) {\n    return '}' + \"}\"[0]; /* } */\n}\n");
}

static void lines_are_clean(check_case *t) {
    holds(t, rule_lines_are_clean);
    notices(t, rule_lines_are_clean, "engine/base/x.c", "int a; \n", "x.c:1: blanks at the end");
    notices(t, rule_lines_are_clean, "README.md", "a\r\n", "README.md:1: a carriage return");
    notices(t, rule_lines_are_clean, "engine/base/x.c", "\tint a;\n", "x.c:1: a tab");
    notices(t, rule_lines_are_clean, "engine/base/x.c", "int a;", "no newline at its end");
}

static void headers_open_with_their_idea(check_case *t) {
    holds(t, rule_headers_open_with_their_idea);
    notices(t, rule_headers_open_with_their_idea, "engine/base/x.h",
            "#ifndef TF_ENGINE_BASE_X_H\n#define TF_ENGINE_BASE_X_H\n#endif\n",
            "x.h:1: does not open with");
    notices(t, rule_headers_open_with_their_idea, "engine/base/x.h",
            "/* base/x - an idea. */\n#ifndef X_H\n#define X_H\n#endif\n",
            "guard is not TF_ENGINE_BASE_X_H");
}

/* Runs a command in a folder that holds the tree with one file planted. */
static int ask_outside(check_case *t, const char *path, const char *text, char *out, size_t size,
                       const char *command) {
    tree real;
    tree_read(&real, TF_SOURCE_DIR, TF_BUILD_DIR);
    if (path != NULL) tree_plant(&real, path, text);
    const char *dir = check_tmpdir(t);
    tree_write(&real, dir);
    tree_free(&real);
    return check_command(t, out, size, "cd %s && %s", dir, command);
}

static void headers_stand_alone(check_case *t) {
    static const char each[] =
        "find engine harness tests -name '*.h' -print0 | xargs -0 -n 8 -P 2 ${CC:-cc} -std=c11 "
        "-D_POSIX_C_SOURCE=200809L -DTF_FAULT -I. -Werror -fsyntax-only -Wno-pragma-once-outside-header "
        "$(pkg-config --cflags lua5.4 sqlite3 2>/dev/null) -x c";
    char out[4096];
    int code = ask_outside(t, NULL, NULL, out, sizeof out, each);
    CHECKF(t, code == 0, "%s", out);
    code = ask_outside(t, "engine/base/x.h", "size_t x(uint32_t a);\n", out, sizeof out, each);
    CHECKF(t, code != 0 && strstr(out, "engine/base/x.h:1:") != NULL, "planted; found:\n%s", out);
}

static void every_file_is_built(check_case *t) {
    holds(t, rule_every_file_is_built);
    notices(t, rule_every_file_is_built, "engine/base/deep/x.c", "int x;\n",
            "engine/base/deep/x.c: no target builds it");
    notices(t, rule_every_file_is_built, "engine/base/x.h", "int x;\n",
            "engine/base/x.h: nobody includes it");
}

static void every_room_has_a_test(check_case *t) {
    holds(t, rule_every_room_has_a_test);
    tree planted;
    tree_read(&planted, TF_SOURCE_DIR, TF_BUILD_DIR);
    tree_plant(&planted, "engine/base/lost.h", "int x;\n");
    complaints c = {0};
    rule_every_room_has_a_test(&planted, &c);
    CHECKF(t, strstr(c.text, "lost.h") == NULL, "a header alone is no room:\n%s", c.text);
    tree_plant(&planted, "engine/base/lost.c", "int x;\n");
    c = (complaints){0};
    rule_every_room_has_a_test(&planted, &c);
    CHECKF(t, strstr(c.text, "engine/base/lost.h: no tests/test_*.c includes it") != NULL,
           "planted; found:\n%s", c.text);
    tree_free(&planted);
}

static void every_code_word_is_provoked(check_case *t) {
    holds(t, rule_every_code_word_is_provoked);
    notices(
        t, rule_every_code_word_is_provoked, "engine/base/words.def",
        "\nWORD(USAGE, TF_USAGE, \"usage\", \"m\")\nWORD(MOON_FELL, TF_IO, \"moon-fell\", \"m\")\n",
        "words.def:3: no test provokes moon-fell");
    notices(t, rule_every_code_word_is_provoked, "engine/base/words.def", "\nWORD(moon)\n",
            "words.def:2: not WORD(");
}

static void every_mutant_names_a_case(check_case *t) {
    holds(t, rule_every_mutant_names_a_case);
    notices(t, rule_every_mutant_names_a_case, "mutants/x.patch",
            "Mutant: x\nWhy: y\nExpect: tree/floors, no/such-case\ndiff --git a/b b/b\n",
            "Expect names no/such-case");
    notices(t, rule_every_mutant_names_a_case, "mutants/x.patch",
            "Mutant: y\nWhy: y\nExpect: tree/floors\ndiff --git a/b b/b\n", "says 'y'");
    notices(t, rule_every_mutant_names_a_case, "mutants/x.patch",
            "Mutant: x\nWhy: y\ndiff --git a/b b/b\nExpect: tree/floors\n", "no Expect line");
    notices(t, rule_every_mutant_names_a_case, "mutants/x.patch",
            "Mutant: x\nExpect: tree/floors\ndiff --git a/b b/b\n", "no Why line");
    accepts(t, rule_every_mutant_names_a_case, "mutants/x.patch",
            "Mutant: x\nWhy: y\nExpect: tree/floors, tree/files-fit\ndiff --git a/b b/b\n");
}

static void mutants_apply(check_case *t) {
    static const char each[] =
        "for p in mutants/*.patch; do [ -e \"$p\" ] || continue; "
        "GIT_CEILING_DIRECTORIES=/ git apply --check \"$p\" 2>&1 | sed \"s,^,$p: ,\"; done";
    char out[4096];
    if (check_command(t, out, sizeof out, "git --version") != 0) {
        check_skip(t, "git is not installed");
        return;
    }
    ask_outside(t, NULL, NULL, out, sizeof out, each);
    CHECKF(t, out[0] == '\0', "%s", out);
    static const char stale[] = "Mutant: x\nWhy: y\nExpect: tree/floors\n"
                                "diff --git a/engine/base/check.c b/engine/base/check.c\n"
                                "--- a/engine/base/check.c\n+++ b/engine/base/check.c\n"
                                "@@ -1,1 +1,1 @@\n-a line that was never there\n+another\n";
    ask_outside(t, "mutants/x.patch", stale, out, sizeof out, each);
    CHECKF(t, strstr(out, "mutants/x.patch: error") != NULL, "planted; found:\n%s", out);
}

static void banned_words(check_case *t) {
    holds(t, rule_banned_words);
    notices(t, rule_banned_words, "engine/base/x.c", "\nvoid *p = malloc(3);\n",
            "x.c:2: malloc(; use mem_take");
    notices(t, rule_banned_words, "engine/plan/x.c", "const char *p = getenv(\"A\");\n", "getenv(");
    notices(t, rule_banned_words, "harness/lua/x.c", "void f(void) { printf(\"a\"); }\n",
            "printf(");
    notices(t, rule_banned_words, "tests/x.c", "void f(void) { strcpy(a, b); }\n", "strcpy(");
    notices(t, rule_banned_words, "README.md", "TODO: write it\n", "README.md:1: TODO");
    accepts(
        t, rule_banned_words, "engine/base/x.c",
        "/* malloc( in a * comment, its malloc( too */\nint n = snprintf(a, b, \"printf(\");\nx_free(a);\n");
    accepts(t, rule_banned_words, "harness/cli/x.c", "const char *p = getenv(\"CI\");\n");
}

static void nolint_has_a_reason(check_case *t) {
    holds(t, rule_nolint_has_a_reason);
    notices(t, rule_nolint_has_a_reason, "engine/base/x.c", "int a; /* NOLINT */\n",
            "x.c:1: write");
    notices(t, rule_nolint_has_a_reason, "engine/base/x.c", "// NOLINTNEXTLINE(bugprone-x)\n",
            "x.c:1: write");
    accepts(t, rule_nolint_has_a_reason, "engine/base/x.c",
            "// NOLINTNEXTLINE(bugprone-x): the library wants it\n");
}

static void changelog_form(check_case *t) {
    holds(t, rule_changelog_form);
    notices(t, rule_changelog_form, "CHANGELOG.md", "Changes\n", "CHANGELOG.md:1: the title");
    notices(t, rule_changelog_form, "CHANGELOG.md", "# Changelog\n\n## 1.0\n", ":3: write");
    notices(t, rule_changelog_form, "CHANGELOG.md",
            "# Changelog\n\n## [0.1.0] - 2026-01-01\n## [0.2.0] - 2026-02-01\n", ":4: the newest");
    notices(t, rule_changelog_form, "CHANGELOG.md",
            "# Changelog\n\n## [Unreleased]\n### Improved\n", ":4: a heading");
    accepts(t, rule_changelog_form, "CHANGELOG.md",
            "# Changelog\n\n## [Unreleased]\n### Added\n- a\n\n## [0.2.0] - 2026-02-01\n"
            "### Fixed\n- b\n\n## [0.1.0] - 2026-01-31\n");
}

static void format_clean(check_case *t) {
    static const char each[] = "find engine harness tests -name '*.[ch]' -print0 | "
                               "xargs -0 clang-format-14 --dry-run --Werror";
    char out[4096];
    if (check_command(t, out, sizeof out, "clang-format-14 --version") != 0) {
        check_skip(t, "clang-format-14 is not installed");
        return;
    }
    int code = ask_outside(t, NULL, NULL, out, sizeof out, each);
    CHECKF(t, code == 0, "%s", out);
    code = ask_outside(t, "engine/base/x.c", "int  a ;\n", out, sizeof out, each);
    CHECKF(t, code != 0 && strstr(out, "engine/base/x.c:1:") != NULL, "planted; found:\n%s", out);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"tree/floors", floors},
        {"tree/files-fit", files_fit},
        {"tree/functions-fit", functions_fit},
        {"tree/lines-are-clean", lines_are_clean},
        {"tree/headers-open-with-their-idea", headers_open_with_their_idea},
        {"tree/headers-stand-alone", headers_stand_alone},
        {"tree/every-file-is-built", every_file_is_built},
        {"tree/every-room-has-a-test", every_room_has_a_test},
        {"tree/every-code-word-is-provoked", every_code_word_is_provoked},
        {"tree/every-mutant-names-a-case", every_mutant_names_a_case},
        {"tree/mutants-apply", mutants_apply},
        {"tree/banned-words", banned_words},
        {"tree/nolint-has-a-reason", nolint_has_a_reason},
        {"tree/changelog-form", changelog_form},
        {"tree/format-clean", format_clean},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
