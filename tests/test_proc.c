/* Children: their output whole, their limits kept, nothing left behind. */
#include "engine/base/thread.h"
#include "harness/base/proc.h"
#include "tests/support/check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static tf_status shell(const char *line, proc_result *result, tf_error *err) {
    *err = (tf_error){0};
    *result = (proc_result){0};
    return proc_run(&(proc_request){.shell = line, .time_ms = 60000}, result, err);
}

static void streams_and_codes_come_back(check_case *t) {
    proc_result r;
    tf_error err;
    CHECK_U64(t, shell("printf out; printf err >&2; exit 7", &r, &err), TF_OK);
    CHECK_STR(t, text_str(&r.out), "out");
    CHECK_STR(t, text_str(&r.err), "err");
    CHECK(t, r.end == PROC_EXITED && r.code == 7);
    proc_free(&r);
    CHECK_U64(t, shell("kill -SEGV $$", &r, &err), TF_OK);
    CHECK(t, r.end == PROC_SIGNALED && r.signal == SIGSEGV);
    proc_free(&r);
}

static void arguments_pass_as_they_are(check_case *t) {
    const char *const argv[] = {"printf", "%s|", "a b", "$HOME", "'\"", NULL};
    const char *const env[] = {"PATH_NO=1", "HOME=/nowhere", NULL};
    proc_result r;
    tf_error err = {0};
    CHECK_U64(t, proc_run(&(proc_request){.argv = argv}, &r, &err), TF_OK);
    CHECK_STR(t, text_str(&r.out), "a b|$HOME|'\"|");
    proc_free(&r);
    proc_request request = {.shell = "echo $HOME $PATH_NO; pwd; cat", .env = env, .dir = "/usr"};
    CHECK_U64(t, proc_run(&request, &r, &err), TF_OK);
    CHECK_STR(t, text_str(&r.out), "/nowhere 1\n/usr\n");
    proc_free(&r);
}

/* 100 MB on both streams fill any pipe: both must be drained together, and the rest dropped. */
static void much_output_on_both_streams_does_not_block(check_case *t) {
    proc_request request = {
        .shell = "head -c 100000000 /dev/zero; head -c 100000000 /dev/zero >&2; echo end",
        .output_bytes = 1000,
        .time_ms = 120000};
    proc_result r;
    tf_error err = {0};
    CHECK_U64(t, proc_run(&request, &r, &err), TF_OK);
    CHECK(t, r.end == PROC_EXITED && r.code == 0);
    CHECK_U64(t, r.out.length, 1000);
    CHECK_U64(t, r.err.length, 1000);
    CHECK(t, r.out_cut && r.err_cut);
    proc_free(&r);
}

/* A grandchild keeps the pipe open: the child's end is the end, after a grace. */
static void a_grandchild_that_holds_the_pipe_is_not_waited_for(check_case *t) {
    proc_result r;
    tf_error err;
    time_t begin = time(NULL);
    CHECK_U64(t, shell("setsid sleep 300 & echo $!", &r, &err), TF_OK);
    CHECK(t, r.end == PROC_EXITED && r.code == 0);
    CHECKF(t, time(NULL) - begin < 10, "waited %ld s", (long)(time(NULL) - begin));
    long held = strtol(text_str(&r.out), NULL, 10);
    if (held > 1) kill((pid_t)held, SIGKILL);
    proc_free(&r);
}

static void a_time_limit_ends_the_whole_group(check_case *t) {
    proc_request request = {.shell = "trap '' TERM; sleep 300 & echo $!; wait; sleep 300",
                            .time_ms = 200};
    proc_result r;
    tf_error err = {0};
    CHECK_U64(t, proc_run(&request, &r, &err), TF_OK);
    CHECK(t, r.end == PROC_TIMED_OUT);
    long child = strtol(text_str(&r.out), NULL, 10);
    /* A zombie that init has not yet collected still has a name, so ask for its state. */
    char out[200];
    check_command(t, out, sizeof out, "sleep 0.2; grep -s State: /proc/%ld/status", child);
    CHECKF(t, out[0] == '\0' || strstr(out, "Z") != NULL, "pid %ld lives: %s", child, out);
    CHECK_U64(t, proc_check(&request, &r, &err), TF_IO);
    CHECK_U64(t, err.word, TF_W_COMMAND_FAILED);
    CHECKF(t, strstr(err.found, "no end after 200 ms") != NULL, "%s", err.found);
    proc_free(&r);
}

/* The child goes at TERM; what it started does not listen. */
static void a_deaf_grandchild_goes_with_the_group(check_case *t) {
    proc_request request = {.shell = "(trap '' TERM; exec sleep 300) & echo $!; wait",
                            .time_ms = 300};
    proc_result r;
    tf_error err = {0};
    char out[200];
    CHECK_U64(t, proc_run(&request, &r, &err), TF_OK);
    CHECK(t, r.end == PROC_TIMED_OUT);
    long left = strtol(text_str(&r.out), NULL, 10);
    check_command(t, out, sizeof out, "sleep 0.2; grep -s State: /proc/%ld/status", left);
    CHECKF(t, left > 1 && (out[0] == '\0' || strstr(out, "Z") != NULL), "pid %ld lives: %s", left,
           out);
    proc_free(&r);
}

static void a_failed_command_is_told_with_its_last_words(check_case *t) {
    proc_request request = {.shell = "echo begun; echo 'no such pack' >&2; exit 3"};
    proc_result r;
    tf_error err = {0};
    CHECK_U64(t, proc_run(&request, &r, &err), TF_OK);
    CHECK_U64(t, proc_check(&request, &r, &err), TF_IO);
    CHECK_STR(t, err.found, "exit code 3: no such pack");
    CHECK_STR(t, err.expected, "exit code 0");
    proc_free(&r);
}

static void a_program_that_is_not_there_is_named(check_case *t) {
    const char *const argv[] = {"no-such-program-anywhere", "x", NULL};
    proc_result r;
    tf_error err = {0};
    CHECK_U64(t, proc_run(&(proc_request){.argv = argv}, &r, &err), TF_IO);
    CHECK_U64(t, err.word, TF_W_CANNOT_RUN);
    CHECKF(t, strstr(err.what, "no-such-program-anywhere x") != NULL, "%s", err.what);
    proc_free(&r);
    err = (tf_error){0};
    CHECK_U64(t, proc_run(&(proc_request){.shell = "true", .dir = "/no/such"}, &r, &err), TF_IO);
    CHECKF(t, strstr(err.what, "/no/such") != NULL, "%s", err.what);
    proc_free(&r);
}

static void memory_is_limited(check_case *t) {
    const char *const argv[] = {"/bin/dd", "if=/dev/zero", "of=/dev/null",
                                "bs=512M", "count=1",      NULL};
    proc_request request = {.argv = argv, .memory_bytes = (uint64_t)128 << 20};
    proc_result r;
    tf_error err = {0};
    CHECK_U64(t, proc_run(&request, &r, &err), TF_OK);
    CHECKF(t, r.end != PROC_EXITED || r.code != 0, "512 MB fit into 128 MB");
    proc_free(&r);
}

/* Raises the stop flag while the child runs. */
static void stop_soon(int number) {
    (void)number;
    tf_stop_request();
}

static void ctrl_c_ends_the_child_and_tells(check_case *t) {
    signal(SIGALRM, stop_soon);
    alarm(1);
    proc_result r;
    tf_error err;
    CHECK_U64(t, shell("sleep 300", &r, &err), TF_INTERRUPTED);
    CHECK_U64(t, err.word, TF_W_INTERRUPTED);
    proc_free(&r);
    tf_stop_reset();
    signal(SIGALRM, SIG_DFL);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"proc/streams-and-codes-come-back", streams_and_codes_come_back},
        {"proc/arguments-pass-as-they-are", arguments_pass_as_they_are},
        {"proc/much-output-on-both-streams-does-not-block",
         much_output_on_both_streams_does_not_block},
        {"proc/a-grandchild-that-holds-the-pipe-is-not-waited-for",
         a_grandchild_that_holds_the_pipe_is_not_waited_for},
        {"proc/a-time-limit-ends-the-whole-group", a_time_limit_ends_the_whole_group},
        {"proc/a-deaf-grandchild-goes-with-the-group", a_deaf_grandchild_goes_with_the_group},
        {"proc/a-failed-command-is-told-with-its-last-words",
         a_failed_command_is_told_with_its_last_words},
        {"proc/a-program-that-is-not-there-is-named", a_program_that_is_not_there_is_named},
        {"proc/memory-is-limited", memory_is_limited},
        {"proc/ctrl-c-ends-the-child-and-tells", ctrl_c_ends_the_child_and_tells},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
