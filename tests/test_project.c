/* A project from outside: its runs, its pins from capture to review, its store, all by the program. */
#include "harness/cli/capture_base.h"
#include "harness/cli/recording.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

#define TOOL TF_BUILD_DIR "/tfverify"

static char out[1 << 16];

/* A run that pins the text of value.txt, and two that end badly. */
static const char book[] =
    "run \"pins\" {\n"
    "  about = \"the value\",\n"
    "  test = function(t)\n"
    "    local f = io.open(\"value.txt\")\n"
    "    t:pin{name = \"value\", text = f:read(\"a\"), what = \"the value\", made_by = \"cat value.txt\"}\n"
    "    f:close()\n"
    "  end,\n"
    "}\n"
    "run \"mixed\" {\n"
    "  about = \"one of each\",\n"
    "  args = { size = \"3\" },\n"
    "  test = function(t, a)\n"
    "    t:is(1 + 1, 2, \"adds\")\n"
    "    t:case(\"inner\", function(t) t:skip(\"no moon\", \"lands\") end)\n"
    "    t:is(a.size, \"3\", \"size\")\n"
    "  end,\n"
    "}\n"
    "run \"loop\" { about = \"never ends\", test = function(t) while true do end end }\n";

/* A project of its own; the working folder of what `tool` runs. */
static char root[128];
static void project(check_case *t) {
    char path[160];
    snprintf(root, sizeof root, "%s", check_tmpdir(t));
    snprintf(path, sizeof path, "%s/scripts.lua", root);
    FILE *file = fopen(path, "w");
    CHECK(t, file != NULL && fputs(book, file) >= 0 && fclose(file) == 0);
    check_command(t, out, sizeof out, "printf 'one\\n' >%s/value.txt", root);
}

static int tool(check_case *t, const char *arguments) {
    return check_command(t, out, sizeof out, "cd %s && unset CI HARNESS_ACTIVE && %s %s", root,
                         TOOL, arguments);
}

static void says(check_case *t, const char *arguments, int code, const char *want) {
    int got = tool(t, arguments);
    CHECKF(t, got == code, "tfverify %s: exit %d, expected %d:\n%.2000s", arguments, got, code,
           out);
    CHECKF(t, strstr(out, want) != NULL, "tfverify %s: no '%s' in:\n%.2000s", arguments, want, out);
}

/* ---- runs ---- */

static void runs_are_listed_and_carried_out(check_case *t) {
    project(t);
    says(t, "run", 0, "mixed       one of each\n              size=3\n");
    says(
        t, "run --json", 0,
        "{\"name\":\"mixed\",\"about\":\"one of each\",\"at\":\"scripts.lua:9\",\"args\":{\"size\":\"3\"}}");
    says(
        t, "run mixed", 0,
        "TAP version 14\nok 1 - adds\n# Subtest: inner\n    ok 1 - lands # SKIP no moon\n    1..1\n"
        "ok 2 - inner\nok 3 - size\n1..3\n");
    says(t, "run mixed size=4", 1, "not ok 3 - size\n");
    CHECKF(t, strstr(out, "  ---\n") != NULL && strstr(out, "[check-failed]") != NULL, "%s", out);
    says(t, "db query 'SELECT script, outcome, held, failed, skipped FROM runs' --json", 0,
         "{\"script\":\"mixed\",\"outcome\":\"failed\",\"held\":1,\"failed\":1,\"skipped\":1}");
    says(t, "db query \"SELECT name FROM cases WHERE outcome = 'skipped'\" --json", 0,
         "\"inner/lands\"");
}

static void prove_reads_a_run(check_case *t) {
    project(t);
    if (check_command(t, out, sizeof out, "prove --version") != 0) {
        check_skip(t, "prove (Debian: perl) is not installed");
        return;
    }
    int code = check_command(t, out, sizeof out, "cd %s && prove -e %s run :: mixed", root, TOOL);
    CHECKF(t, code == 0 && strstr(out, "Result: PASS") != NULL, "%s", out);
    code =
        check_command(t, out, sizeof out, "cd %s && prove -e %s run :: mixed size=4", root, TOOL);
    CHECKF(t, code == 1 && strstr(out, "Failed 1/3 subtests") != NULL, "%s", out);
    CHECKF(t, strstr(out, "Parse errors") == NULL, "%s", out);
}

static void wrong_scripts_and_names_are_refused(check_case *t) {
    project(t);
    says(t, "run mixt", 2, "[unknown-run]");
    CHECKF(t, strstr(out, "1..0") == NULL, "a run that never began prints a plan:\n%s", out);
    says(t, "run mixed sise=3", 2, "[unknown-argument]");
    says(t, "run loop", 3, "[script-over-limit]");
    check_command(t, out, sizeof out, "echo 'run \"x\" {' >%s/scripts.lua", root);
    says(t, "run x", 3, "scripts.lua:2: ");
    CHECKF(t, strstr(out, "[script-syntax]") != NULL, "%s", out);
    check_command(t, out, sizeof out, "rm %s/scripts.lua", root);
    says(t, "run x", 2, "[no-project]");
}

/* Without io a script cannot even try. */
static void scripts_cannot_reach_the_system(check_case *t) {
    project(t);
    says(t, "run pins", 3, "[script-error]");
    says(t, "pins check", 3, "[script-error]");
}

static void ctrl_c_ends_a_run_and_is_recorded(check_case *t) {
    project(t);
    int code = check_command(
        t, out, sizeof out,
        "cd %s && { %s run loop >said 2>&1 & child=$!; sleep 0.5; kill -INT $child; "
        "wait $child; echo code $?; cat said; %s db query 'SELECT outcome FROM runs'; }",
        root, TOOL, TOOL);
    CHECK_U64(t, code, 0);
    CHECKF(t, strstr(out, "code 4") != NULL && strstr(out, "[interrupted]") != NULL, "%s", out);
    CHECKF(t, strstr(out, "\ninterrupted\n") != NULL, "the store does not know:\n%s", out);
}

/* ---- the store ---- */

static void a_store_that_cannot_be_used_is_named(check_case *t) {
    project(t);
    check_command(t, out, sizeof out,
                  "mkdir %s/build && head -c 5000 /dev/urandom >%s/build/tfverify.db", root, root);
    says(t, "run mixed", 3, "[store-damaged]");
    CHECKF(t, strstr(out, "build/tfverify.db") != NULL && strstr(out, "ok 1") == NULL, "%s", out);
    says(t, "run mixed --db elsewhere/s.db", 0, "ok 1 - adds");
    /* The version is 4 bytes at offset 60. */
    check_command(t, out, sizeof out,
                  "printf '\\0\\0\\0\\143' | dd of=%s/elsewhere/s.db bs=1 seek=60 conv=notrunc",
                  root);
    says(t, "run mixed --db elsewhere/s.db", 3,
         "found version 99, expected at most 2 [store-newer]");
    says(t, "run mixed --db /proc/nowhere/s.db", 3, "/proc/nowhere");
    says(t, "db query 'SELECT 1' --db none.db", 3, "[cannot-open]");
    says(t, "db query 'DELETE FROM runs' --db none.db", 3, "none.db");
}

static void a_full_disk_under_the_store_is_named(check_case *t) {
    project(t);
    static const char *const ways[] = {"unshare -m", "unshare -rm"};
    for (size_t i = 0; i < COUNT(ways); i++) {
        if (check_command(t, out, sizeof out, "%s mount -t tmpfs none %s", ways[i], root) != 0)
            continue;
        check_command(
            t, out, sizeof out,
            "%s sh -c 'mkdir -p %s/full; mount -t tmpfs -o size=40k none %s/full && cd %s && "
            "%s run mixed --db full/s.db; echo code $?'",
            ways[i], root, root, root, TOOL);
        CHECKF(t, strstr(out, "code 3") != NULL && strstr(out, "full/s.db") != NULL, "%s", out);
        return;
    }
    check_skip(t, "no tmpfs can be mounted here, neither as root nor in a user namespace");
}

/* ---- pins ---- */

static void pins_go_from_capture_to_review(check_case *t) {
    project(t);
    says(t, "pins check --trust", 3, "[no-pins]");
    says(t, "pins capture --trust", 0, "1 pending; ");
    says(t, "pins check --trust", 1, "[check-failed]");
    says(t, "pins review", 0, "+one");
    says(t, "pins accept value", 0, "accepted value");
    says(t, "pins check --trust", 0, "ok 1 - ");
    check_command(t, out, sizeof out, "printf 'two\\n' >%s/value.txt", root);
    says(t, "pins check --trust", 1, "-one");
    CHECKF(t, strstr(out, "+two") != NULL && strstr(out, "cat value.txt") != NULL, "%s", out);
    says(t, "pins capture --trust", 0, "1 pending; ");
    says(t, "pins review", 0, "+two");
    says(t, "pins reject value", 0, "value");
    says(t, "pins check --trust", 1, "not ok");
    says(t, "pins accept value", 2, "[nothing-pending]");
    says(t, "pins check --trust none", 2, "[nothing-checked]");
}

static void ci_writes_no_pins(check_case *t) {
    static const char *const commands[] = {"pins capture --trust", "pins capture --base HEAD",
                                           "pins accept value", "pins reject value"};
    project(t);
    says(t, "pins capture --trust", 0, "pending");
    for (size_t i = 0; i < COUNT(commands); i++) {
        int code =
            check_command(t, out, sizeof out, "cd %s && CI=1 %s %s", root, TOOL, commands[i]);
        CHECKF(t, code == 2 && strstr(out, "[pins-read-only]") != NULL, "%s: exit %d: %s",
               commands[i], code, out);
    }
    check_command(t, out, sizeof out, "ls %s/pins", root);
    CHECK_STR(t, out, "value.txt.new\n");
}

/* The pin says what the code did before the change. */
static void a_base_is_captured_where_it_was(check_case *t) {
    project(t);
    if (check_command(t, out, sizeof out, "git --version") != 0) {
        check_skip(t, "git is not installed");
        return;
    }
    int code = check_command(
        t, out, sizeof out,
        "cd %s && printf 'build\\n' >.gitignore && git init -q . && git config user.email a@b && "
        "git config user.name c && git add . && git commit -qm 1 && "
        "printf 'two\\n' >value.txt && git commit -qam 2",
        root);
    CHECKF(t, code == 0, "no repository: %s", out);
    says(t, "pins capture --trust && cd . && " TOOL " pins accept value", 0, "accepted value");
    says(t, "pins capture --base HEAD --trust", 0, "nothing differs from the pins");
    says(t, "pins capture --base HEAD~1 --trust", 0, "1 pending; ");
    says(t, "pins review", 0, "-two");
    CHECKF(t, strstr(out, "+one") != NULL, "%s", out);
    check_command(
        t, out, sizeof out,
        "cd %s && grep -c \"captured-at $(git rev-parse HEAD~1)$\" pins/value.txt.new; cat value.txt; ls build; git worktree list | wc -l",
        root);
    CHECK_STR(t, out, "1\ntwo\ntfverify.db\n1\n");
    says(t, "pins capture --base nowhere --trust", 2, "[unknown-revision]");
}

/* ---- somebody else's project ---- */

/* A build that prints a digest a line, another text, and nothing of ours but scripts.lua. */
static bool foreign(check_case *t) {
    static const char make_it[] =
        "cd %s && mkdir src && echo 'int a;' >src/a.c && echo 'int b;' >src/b.c && "
        "printf 'digests:\\n\\t@for f in src/*.c; do echo \"$$f $$(sha256sum <$$f | cut -c1-32)\"; "
        "done\\nsummary:\\n\\t@echo files; ls src\\nbroken:\\n\\t@echo half; exit 3\\n' >Makefile && "
        "printf 'build/\\n' >.gitignore && cat >scripts.lua <<'END'\n"
        "run \"pins\" {\n"
        "  about = \"what make prints\",\n"
        "  test = function(t)\n"
        "    t:pin(tf.command_pins(\"make -s digests\", { name = \"digests\" }))\n"
        "    t:pin(tf.command_pins(\"make -s summary\", { name = \"summary\" }))\n"
        "    t:refuses(\"command-failed\", function() tf.command(\"make -s broken\") end, \"fails\")\n"
        "    t:is(tf.command(\"exit 3\", { may_fail = true }).code, 3, \"may fail\")\n"
        "  end,\n"
        "}\n"
        "END\n";
    snprintf(root, sizeof root, "%s", check_tmpdir(t));
    if (check_command(t, out, sizeof out, "make --version && git --version") != 0) {
        check_skip(t, "make or git is not installed");
        return false;
    }
    int code = check_command(t, out, sizeof out, make_it, root);
    code |= check_command(t, out, sizeof out,
                          "cd %s && git init -q . && git config user.email a@b && git config "
                          "user.name c && git add . && git commit -qm 1",
                          root);
    return CHECKF(t, code == 0, "no project: %s", out);
}

static void a_foreign_project_is_pinned(check_case *t) {
    if (!foreign(t)) return;
    says(t, "pins capture", 0, "3 pending; ");
    says(t, "pins accept '*'", 0, "accepted digests/src/a.c");
    says(t, "pins check", 0, "ok 1 - digests/src/a.c");
    check_command(
        t, out, sizeof out,
        "cd %s && git add . && git commit -qm 2 && echo 'long b;' >src/b.c && git commit -qam 3",
        root);
    says(t, "pins check", 1, "not ok 2 - digests/src/b.c");
    CHECKF(t, strstr(out, "reproduce: make -s digests") != NULL, "%s", out);
    CHECKF(t, strstr(out, "\nok 3 - summary\n") != NULL, "%s", out);
    /* The revision before the change still makes what is pinned; the change itself does not. */
    says(t, "pins capture --base HEAD~1", 0, "nothing differs from the pins");
    says(t, "pins capture --base HEAD", 0, "1 pending; ");
    says(t, "pins review", 0, "digests/src/b.c");
    says(t, "pins accept digests/src/b.c", 0, "accepted");
    says(t, "pins check 'digests/*'", 0, "1..");
}

static void the_shipped_pins_hold(check_case *t) {
    snprintf(root, sizeof root, "%s", TF_SOURCE_DIR);
    const char *dir = check_tmpdir(t);
    char arguments[128];
    /* The sanitizers make the whole set slow; the release build checks it. */
#ifdef TF_FAULT
    static const char some[] = "pack=tiny-exl3 world=3";
#else
    static const char some[] = "";
#endif
    snprintf(arguments, sizeof arguments, "run pins %s --db %s/s.db", some, dir);
    says(t, arguments, 0, "ok 1 - ");
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"project/runs-are-listed-and-carried-out", runs_are_listed_and_carried_out},
        {"project/prove-reads-a-run", prove_reads_a_run},
        {"project/wrong-scripts-and-names-are-refused", wrong_scripts_and_names_are_refused},
        {"project/scripts-cannot-reach-the-system", scripts_cannot_reach_the_system},
        {"project/ctrl-c-ends-a-run-and-is-recorded", ctrl_c_ends_a_run_and_is_recorded},
        {"project/a-store-that-cannot-be-used-is-named", a_store_that_cannot_be_used_is_named},
        {"project/a-full-disk-under-the-store-is-named", a_full_disk_under_the_store_is_named},
        {"project/pins-go-from-capture-to-review", pins_go_from_capture_to_review},
        {"project/ci-writes-no-pins", ci_writes_no_pins},
        {"project/a-base-is-captured-where-it-was", a_base_is_captured_where_it_was},
        {"project/a-foreign-project-is-pinned", a_foreign_project_is_pinned},
        {"project/the-shipped-pins-hold", the_shipped_pins_hold},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
