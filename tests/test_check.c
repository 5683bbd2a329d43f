/* Assertions of the product, and the tests' own writer: who watches the watchmen. */
#include "engine/base/check.h"
#include "tests/support/check.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs act in a child, with what it prints in text; returns its wait status. */
static int in_child(check_case *t, void (*act)(void), char *text, size_t size) {
    int ends[2];
    if (!CHECK(t, pipe(ends) == 0)) return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        act();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t n = 1; n > 0 && used + 1 < size; used += n > 0 ? (size_t)n : 0)
        n = read(ends[0], text + used, size - 1 - used);
    text[used] = '\0';
    close(ends[0]);
    int status = -1;
    CHECK(t, waitpid(child, &status, 0) == child);
    return status;
}

static void break_a_promise(void) {
    TF_ASSERT(1 + 1 == 3);
}

static void keep_a_promise(void) {
    TF_ASSERT(1 + 1 == 2);
}

static void a_broken_promise_aborts_with_its_place(check_case *t) {
    char text[1024];
    int status = in_child(t, break_a_promise, text, sizeof text);
    CHECK(t, WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECKF(t, strstr(text, "1 + 1 == 3") != NULL && strstr(text, "test_check.c") != NULL, "%s",
           text);
    CHECK_U64(t, in_child(t, keep_a_promise, text, sizeof text), 0);
}

static void good(check_case *t) {
    CHECK(t, true);
}
static void bad(check_case *t) {
    CHECK_U64(t, 1, 2);
}
static void absent(check_case *t) {
    check_skip(t, "no moon");
}
static const check_entry three[] = {{"a/good", good}, {"a/bad", bad}, {"a/absent", absent}};

static void run_three(void) {
    char name[] = "x";
    char *argv[] = {name, NULL};
    _exit(check_main(1, argv, three, COUNT(three)));
}
static void run_good(void) {
    char name[] = "x";
    char only[] = "good";
    char *argv[] = {name, only, NULL};
    _exit(check_main(2, argv, three, COUNT(three)));
}
static void run_none(void) {
    char name[] = "x";
    char only[] = "nothing";
    char *argv[] = {name, only, NULL};
    _exit(check_main(2, argv, three, COUNT(three)));
}

/* A runner that never fails, and one that ran nothing, both look green. */
static void a_failed_case_fails_the_program(check_case *t) {
    char text[2048];
    int status = in_child(t, run_three, text, sizeof text);
    CHECK_U64(t, WEXITSTATUS(status), 1);
    CHECKF(t,
           strstr(text, "1..3\nok 1 - a/good\n") != NULL &&
               strstr(text, "found 1, expected 2\nnot ok 2 - a/bad\n") != NULL &&
               strstr(text, "ok 3 - a/absent # SKIP no moon\n") != NULL,
           "%s", text);
    CHECK_U64(t, WEXITSTATUS(in_child(t, run_good, text, sizeof text)), 0);
}

static void nothing_run_is_not_green(check_case *t) {
    char text[2048];
    CHECK_U64(t, WEXITSTATUS(in_child(t, run_none, text, sizeof text)), 3);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"check/a-broken-promise-aborts-with-its-place", a_broken_promise_aborts_with_its_place},
        {"check/a-failed-case-fails-the-program", a_failed_case_fails_the_program},
        {"check/nothing-run-is-not-green", nothing_run_is_not_green},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
