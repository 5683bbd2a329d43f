/* The store: what is told is there for readers at once, after a kill too; and it refuses by name. */
#include "engine/base/io.h"
#include "engine/base/text.h"
#include "harness/base/store.h"
#include "tests/support/check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[256];

static const char *fresh(check_case *t) {
    snprintf(path, sizeof path, "%s/deep/er/store.db", check_tmpdir(t));
    return path;
}

static store *open_store(check_case *t, store_mode mode) {
    store *s = NULL;
    tf_error err = {0};
    char line[1024];
    CHECKF(t, store_open(path, mode, 2000, &s, &err) == TF_OK, "%s",
           tf_error_line(&err, line, sizeof line));
    return s;
}

/* The answer to a query, in a buffer of its own. */
static const char *ask(check_case *t, const char *sql, bool json) {
    static char answer[4096];
    tf_text out = {0};
    tf_error err = {0};
    char line[1024];
    store *s = open_store(t, STORE_READ);
    if (s == NULL) return "";
    CHECKF(t, store_query(s, sql, json, &out, &err) == TF_OK, "%s",
           tf_error_line(&err, line, sizeof line));
    snprintf(answer, sizeof answer, "%s", text_str(&out));
    text_free(&out);
    store_close(s);
    return answer;
}

static void next_call(void *context, size_t index, store_call *row) {
    const char *line = context;
    *row = (store_call){(uint32_t)index, (uint32_t)index / 3, "mat\"mul", "wq", line, strlen(line)};
}

/* A run with one of everything; error free. */
static void tell_all(check_case *t, store *s, const char *digest) {
    static char line[] = "0 matmul x=[1,2]";
    tf_error err = {0};
    int64_t run = 0;
    store_environment e = {
        .command = "tfverify run pins", .script = "pins", .cores = 2, .dirty = true};
    store_made made = {"calls", "flash/w3/r2/decode", "flash", 3, 2, digest, 123};
    store_counts counts = {1, 0, 0, 0};
    CHECK_U64(t, store_begin(s, &e, &run, &err), TF_OK);
    CHECK(t, run > 0);
    CHECK_U64(t, store_case(s, "a/b", "held", NULL, NULL, "scripts.lua:3", &err), TF_OK);
    CHECK_U64(t, store_add_made(s, &made, &err), TF_OK);
    CHECK_U64(t, store_add_calls(s, digest, 7, next_call, line, &err), TF_OK);
    CHECK_U64(t, store_pin(s, "flash/w3/r2/decode", "same", &err), TF_OK);
    CHECK_U64(t, store_end(s, "held", &counts, &err), TF_OK);
}

static void what_a_run_told_can_be_asked(check_case *t) {
    fresh(t);
    store *s = open_store(t, STORE_WRITE);
    if (s == NULL) return;
    tell_all(t, s, "d1");
    CHECK_STR(
        t, ask(t, "SELECT outcome, script, cores, dirty, ended >= began AS later FROM runs", false),
        "outcome  script  cores  dirty  later\nheld     pins        2      1      1\n");
    CHECK_STR(t, ask(t, "SELECT kind, line FROM calls WHERE ordinal = 6", true),
              "[\n{\"kind\":\"mat\\\"mul\",\"line\":\"0 matmul x=[1,2]\"}\n]\n");
    CHECK_STR(t, ask(t, "SELECT NULL AS n, 0.5 AS h, -1 AS m", true),
              "[\n{\"n\":null,\"h\":0.5,\"m\":-1}\n]\n");
    CHECK_STR(t, ask(t, "SELECT 1 AS one WHERE 0", true), "[\n]\n");
    store_close(s);
}

static void a_list_of_calls_is_kept_once(check_case *t) {
    fresh(t);
    store *s = open_store(t, STORE_WRITE);
    if (s == NULL) return;
    tell_all(t, s, "d1");
    tell_all(t, s, "d1");
    tell_all(t, s, "d2");
    bool known = false;
    tf_error err = {0};
    CHECK(t, store_has_calls(s, "d2", &known, &err) == TF_OK && known);
    CHECK(t, store_has_calls(s, "d3", &known, &err) == TF_OK && !known);
    CHECK_STR(
        t,
        ask(t, "SELECT (SELECT count(*) FROM runs) AS r, (SELECT count(*) FROM calls) AS c", true),
        "[\n{\"r\":3,\"c\":14}\n]\n");
    store_close(s);
}

/* Readers see each fact at once and never wait for the writer. */
static void readers_do_not_wait(check_case *t) {
    fresh(t);
    store *s = open_store(t, STORE_WRITE);
    if (s == NULL) return;
    tf_error err = {0};
    CHECK_U64(t, store_begin(s, &(store_environment){0}, NULL, &err), TF_OK);
    for (int i = 0; i < 3; i++) {
        char want[64];
        snprintf(want, sizeof want, "[\n{\"n\":%d}\n]\n", i);
        CHECK_STR(t, ask(t, "SELECT count(*) AS n FROM cases", true), want);
        CHECK_U64(t, store_case(s, "x", "held", NULL, NULL, NULL, &err), TF_OK);
    }
    store_close(s);
    CHECK_STR(t, ask(t, "SELECT outcome FROM runs", true), "[\n{\"outcome\":null}\n]\n");
}

static int told_end; /* where the child says that it stands in the middle of its third list */

static void next_then_stand(void *context, size_t index, store_call *row) {
    next_call(context, index, row);
    if (index != 30000) return;
    if (write(told_end, "x", 1) == 1) pause();
    _exit(1);
}

static _Noreturn void record_until_killed(void) {
    static char line[] = "a line";
    store *s = NULL;
    tf_error err = {0};
    bool fine = store_open(path, STORE_WRITE, 2000, &s, &err) == TF_OK &&
                store_begin(s, &(store_environment){.script = "killed"}, NULL, &err) == TF_OK;
    for (int i = 0; i < 3 && fine; i++) {
        char digest[16];
        snprintf(digest, sizeof digest, "d%d", i);
        fine = store_case(s, digest, "held", NULL, NULL, NULL, &err) == TF_OK &&
               store_add_calls(s, digest, i == 2 ? 50000 : 50, i == 2 ? next_then_stand : next_call,
                               line, &err) == TF_OK;
    }
    _exit(1);
}

/* Told, killed in the middle of a list, asked. */
static void a_killed_run_leaves_a_readable_store(check_case *t) {
    fresh(t);
    int ends[2];
    if (!CHECK(t, pipe(ends) == 0)) return;
    told_end = ends[1];
    pid_t child = fork();
    if (child == 0) record_until_killed();
    close(ends[1]);
    char byte;
    CHECK(t, read(ends[0], &byte, 1) == 1);
    kill(child, SIGKILL);
    int status = 0;
    CHECK(t, waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    close(ends[0]);
    CHECK_STR(t, ask(t, "SELECT count(*) AS n FROM cases", true), "[\n{\"n\":3}\n]\n");
    /* Whole lists or none of one. */
    CHECK_STR(t,
              ask(t,
                  "SELECT count(*) AS lists, (SELECT count(*) FROM calls) AS calls FROM call_lists",
                  true),
              "[\n{\"lists\":2,\"calls\":100}\n]\n");
    store *s = open_store(t, STORE_WRITE);
    if (s != NULL) tell_all(t, s, "after");
    store_close(s);
}

static void refused(check_case *t, store_mode mode, tf_word word, const char *found) {
    store *s = NULL;
    tf_error err = {0};
    tf_status status = store_open(path, mode, 100, &s, &err);
    CHECKF(t, status != TF_OK && err.word == word, "opened, or refused by [%s]: %s",
           tf_word_text(err.word), err.found);
    CHECKF(t, strstr(err.what, path) != NULL, "the store is not named: %s", err.what);
    CHECKF(t, strstr(err.found, found) != NULL, "found says '%s'", err.found);
    CHECK(t, s == NULL);
}

static void a_missing_store_is_not_made_by_asking(check_case *t) {
    fresh(t);
    refused(t, STORE_READ, TF_W_CANNOT_OPEN, "");
    CHECK(t, !io_exists(path));
}

static void a_newer_store_is_refused(check_case *t) {
    fresh(t);
    store_close(open_store(t, STORE_WRITE));
    char out[512];
    /* The version is 4 bytes at offset 60, the most significant first. */
    check_command(t, out, sizeof out,
                  "printf '\\0\\0\\0\\143' | dd of=%s bs=1 seek=60 conv=notrunc", path);
    refused(t, STORE_WRITE, TF_W_STORE_NEWER, "version 99");
    refused(t, STORE_READ, TF_W_STORE_NEWER, "version 99");
}

static void a_damaged_store_is_refused(check_case *t) {
    fresh(t);
    char out[512];
    check_command(t, out, sizeof out, "mkdir -p $(dirname %s) && head -c 9000 /dev/urandom >%s",
                  path, path);
    refused(t, STORE_WRITE, TF_W_STORE_DAMAGED, "");
    /* Of an SQLite file, the schema page. */
    fresh(t);
    store_close(open_store(t, STORE_WRITE));
    check_command(t, out, sizeof out,
                  "head -c 3000 /dev/zero | tr '\\0' x | dd of=%s bs=1 seek=100 conv=notrunc",
                  path);
    refused(t, STORE_WRITE, TF_W_STORE_DAMAGED, "");
}

static void a_store_of_another_program_is_refused(check_case *t) {
    fresh(t);
    store_close(open_store(t, STORE_WRITE));
    char out[512];
    /* The application is 4 bytes at offset 68. */
    check_command(t, out, sizeof out, "printf '\\0\\0\\0\\1' | dd of=%s bs=1 seek=68 conv=notrunc",
                  path);
    refused(t, STORE_WRITE, TF_W_STORE_FOREIGN, "another program");
}

/* In the middle of a list the writer holds the lock; another one gives up after its wait. */
static void try_beside(void *context, size_t index, store_call *row) {
    check_case *t = context;
    *row = (store_call){(uint32_t)index, 0, "k", "n", "line", 4};
    if (index != 1) return;
    store *s = NULL;
    tf_error err = {0};
    tf_status status = store_open(path, STORE_WRITE, 100, &s, &err);
    if (status == TF_OK) status = store_begin(s, &(store_environment){0}, NULL, &err);
    CHECKF(t, status == TF_IO && err.word == TF_W_STORE_LOCKED, "%s [%s]", tf_status_text(status),
           tf_word_text(err.word));
    CHECKF(t, strstr(err.what, path) != NULL && strstr(err.remedy, "--db") != NULL, "%s; %s",
           err.what, err.remedy);
    store_close(s);
}

static void a_locked_store_is_named(check_case *t) {
    fresh(t);
    store *s = open_store(t, STORE_WRITE);
    if (s == NULL) return;
    tf_error err = {0};
    CHECK_U64(t, store_add_calls(s, "d", 3, try_beside, t, &err), TF_OK);
    store_close(s);
}

static void an_older_store_is_brought_up(check_case *t) {
    fresh(t);
    tf_error err = {0};
    CHECK_U64(t, store_make_old(path, 1, &err), TF_OK);
    CHECK_STR(t,
              ask(t, "SELECT count(*) AS n FROM sqlite_schema WHERE name = 'cases_by_name'", true),
              "[\n{\"n\":0}\n]\n");
    store *s = open_store(t, STORE_WRITE);
    if (s == NULL) return;
    tell_all(t, s, "d");
    store_close(s);
    CHECK_STR(t,
              ask(t, "SELECT count(*) AS n FROM sqlite_schema WHERE name = 'cases_by_name'", true),
              "[\n{\"n\":1}\n]\n");
}

static void a_query_only_reads(check_case *t) {
    static const char *const wrong[] = {
        "DELETE FROM runs",
        "SELECT 1; SELECT 2",
        "",
        "SELEKT 1",
        "DROP TABLE runs",
        "ATTACH 'x.db' AS x",
        "SELECT * FROM no_such_table",
        "PRAGMA user_version = 7",
        "VACUUM",
    };
    fresh(t);
    store_close(open_store(t, STORE_WRITE));
    store *s = open_store(t, STORE_READ);
    for (size_t i = 0; i < COUNT(wrong) && s != NULL; i++) {
        tf_text out = {0};
        tf_error err = {0};
        tf_status status = store_query(s, wrong[i], false, &out, &err);
        CHECKF(t, status == TF_USAGE && err.word == TF_W_BAD_SQL, "'%s' gave %s [%s]", wrong[i],
               tf_status_text(status), tf_word_text(err.word));
        text_free(&out);
    }
    store_close(s);
}

static void stores_merge_by_uuid(check_case *t) {
    char other[256];
    tf_error err = {0};
    uint64_t runs = 9;
    fresh(t);
    store *s = open_store(t, STORE_WRITE);
    if (s == NULL) return;
    tell_all(t, s, "shared");
    tell_all(t, s, "theirs");
    store_close(s);
    snprintf(other, sizeof other, "%s", path);
    fresh(t);
    s = open_store(t, STORE_WRITE);
    if (s == NULL) return;
    tell_all(t, s, "shared");
    for (int again = 0; again < 2; again++) {
        CHECK_U64(t, store_merge(s, other, &runs, &err), TF_OK);
        CHECK_U64(t, runs, again == 0 ? 2 : 0);
    }
    static const char counts[] =
        "SELECT (SELECT count(*) FROM runs) AS r, (SELECT count(*) FROM cases) AS k,"
        "(SELECT count(*) FROM made) AS m, (SELECT count(*) FROM pins) AS p,"
        "(SELECT count(*) FROM call_lists) AS l, (SELECT count(*) FROM calls) AS c";
    CHECK_STR(t, ask(t, counts, true),
              "[\n{\"r\":3,\"k\":3,\"m\":3,\"p\":3,\"l\":2,\"c\":14}\n]\n");
    CHECK_U64(t, store_merge(s, path, &runs, &err), TF_USAGE);
    err = (tf_error){0};
    CHECK(t,
          store_merge(s, "/no/such/store", &runs, &err) != TF_OK && err.word == TF_W_CANNOT_OPEN);
    store_close(s);
}

static void gc_keeps_the_newest_and_what_they_need(check_case *t) {
    fresh(t);
    store *s = open_store(t, STORE_WRITE);
    if (s == NULL) return;
    tell_all(t, s, "old");
    tell_all(t, s, "both");
    tell_all(t, s, "both");
    uint64_t removed = 0;
    tf_error err = {0};
    CHECK_U64(t, store_gc(s, 1, &removed, &err), TF_OK);
    CHECK_U64(t, removed, 2);
    store_close(s);
    static const char counts[] =
        "SELECT (SELECT count(*) FROM runs) AS r, (SELECT count(*) FROM cases) AS k,"
        "(SELECT count(*) FROM calls) AS c, (SELECT min(digest) FROM call_lists) AS d";
    CHECK_STR(t, ask(t, counts, true), "[\n{\"r\":1,\"k\":1,\"c\":7,\"d\":\"both\"}\n]\n");
}

/* Two processes record side by side, and nothing of either is lost. */
static void writers_take_turns(check_case *t) {
    fresh(t);
    store_close(open_store(t, STORE_WRITE));
    for (int who = 0; who < 3; who++) {
        if (fork() != 0) continue;
        store *s = NULL;
        tf_error err = {0};
        static char line[] = "a line";
        bool fine = store_open(path, STORE_WRITE, 20000, &s, &err) == TF_OK &&
                    store_begin(s, &(store_environment){0}, NULL, &err) == TF_OK;
        for (int i = 0; i < 20 && fine; i++) {
            char digest[32];
            snprintf(digest, sizeof digest, "%d", i);
            fine = store_case(s, digest, "held", NULL, NULL, NULL, &err) == TF_OK &&
                   store_add_calls(s, digest, 200, next_call, line, &err) == TF_OK;
        }
        store_close(s);
        _exit(fine ? 0 : 1);
    }
    int status;
    for (int who = 0; who < 3; who++)
        CHECK(t, wait(&status) > 0 && status == 0);
    CHECK_STR(
        t,
        ask(t, "SELECT (SELECT count(*) FROM cases) AS k, (SELECT count(*) FROM calls) AS c", true),
        "[\n{\"k\":60,\"c\":4000}\n]\n");
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"store/what-a-run-told-can-be-asked", what_a_run_told_can_be_asked},
        {"store/a-list-of-calls-is-kept-once", a_list_of_calls_is_kept_once},
        {"store/readers-do-not-wait", readers_do_not_wait},
        {"store/a-killed-run-leaves-a-readable-store", a_killed_run_leaves_a_readable_store},
        {"store/a-missing-store-is-not-made-by-asking", a_missing_store_is_not_made_by_asking},
        {"store/a-newer-store-is-refused", a_newer_store_is_refused},
        {"store/a-damaged-store-is-refused", a_damaged_store_is_refused},
        {"store/a-store-of-another-program-is-refused", a_store_of_another_program_is_refused},
        {"store/a-locked-store-is-named", a_locked_store_is_named},
        {"store/an-older-store-is-brought-up", an_older_store_is_brought_up},
        {"store/a-query-only-reads", a_query_only_reads},
        {"store/stores-merge-by-uuid", stores_merge_by_uuid},
        {"store/gc-keeps-the-newest-and-what-they-need", gc_keeps_the_newest_and_what_they_need},
        {"store/writers-take-turns", writers_take_turns},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
