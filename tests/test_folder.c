/* A folder appears whole or not at all. */
#include "engine/base/fault.h"
#include "engine/base/folder.h"
#include "engine/base/io.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *at(const char *dir, const char *name) {
    static char path[4][1200];
    static unsigned turn;
    char *to = path[turn++ % 4];
    io_join(to, sizeof path[0], dir, name);
    return to;
}

static size_t entries(const char *dir) {
    char **names = NULL;
    size_t count = 0;
    tf_error err = {0};
    io_list(dir, &names, &count, &err);
    io_free_names(names, count);
    return count;
}

static bool put(const char *dir, const char *name) {
    tf_error err = {0};
    return io_write_file(at(dir, name), "x", 1, &err) == TF_OK;
}

static void appears_with_its_files_at_once(check_case *t) {
    const char *dir = check_tmpdir(t);
    folder_writer w;
    tf_error err = {0};
    CHECK_U64(t, folder_create(&w, at(dir, "a/b/c//"), &err), TF_OK);
    CHECK(t, put(w.temporary, "one") && put(w.temporary, "two"));
    CHECK(t, !io_exists(at(dir, "a/b/c")));
    CHECK_U64(t, folder_commit(&w, &err), TF_OK);
    CHECK_U64(t, entries(at(dir, "a/b/c")), 2);
    folder_discard(&w);
    CHECK_U64(t, entries(at(dir, "a/b/c")), 2);
    CHECK_U64(t, entries(at(dir, "a/b")), 1);
}

static void discarded_leaves_nothing(check_case *t) {
    const char *dir = check_tmpdir(t);
    folder_writer w;
    tf_error err = {0};
    CHECK_U64(t, folder_create(&w, at(dir, "p"), &err), TF_OK);
    CHECK(t, put(w.temporary, "one"));
    folder_discard(&w);
    CHECK_U64(t, entries(dir), 0);
}

static void what_is_there_is_refused(check_case *t) {
    const char *dir = check_tmpdir(t);
    folder_writer w;
    tf_error err = {0};
    CHECK(t, put(dir, "file"));
    CHECK_U64(t, io_make_dirs(at(dir, "full/inner"), &err), TF_OK);
    CHECK_U64(t, io_make_dirs(at(dir, "empty"), &err), TF_OK);
    CHECK_U64(t, symlink("nowhere", at(dir, "link")), 0);
    static const char *const taken[] = {"file", "full", "full/", "link"};
    for (size_t i = 0; i < COUNT(taken); i++) {
        err = (tf_error){0};
        CHECK_U64(t, folder_create(&w, at(dir, taken[i]), &err), TF_REFUSED);
        CHECK_STR(t, tf_word_text(err.word), "folder-exists");
        folder_discard(&w);
    }
    err = (tf_error){0};
    CHECK_U64(t, folder_create(&w, at(dir, "empty"), &err), TF_OK);
    CHECK(t, put(w.temporary, "one"));
    CHECK_U64(t, folder_commit(&w, &err), TF_OK);
    CHECK_U64(t, entries(at(dir, "empty")), 1);
    CHECK_U64(t, entries(dir), 4);
}

static void the_loser_of_a_race_is_told(check_case *t) {
    const char *dir = check_tmpdir(t);
    folder_writer first;
    folder_writer second;
    tf_error err = {0};
    CHECK_U64(t, folder_create(&first, at(dir, "p"), &err), TF_OK);
    CHECK_U64(t, folder_create(&second, at(dir, "p"), &err), TF_OK);
    CHECK(t, put(first.temporary, "mine") && put(second.temporary, "yours"));
    CHECK_U64(t, folder_commit(&first, &err), TF_OK);
    CHECK_U64(t, folder_commit(&second, &err), TF_REFUSED);
    CHECK_STR(t, tf_word_text(err.word), "folder-exists");
    folder_discard(&second);
    CHECK(t, io_exists(at(dir, "p/mine")));
    CHECK_U64(t, entries(dir), 1);
}

static void leftovers_of_dead_processes_go_others_stay(check_case *t) {
    const char *dir = check_tmpdir(t);
    folder_writer w;
    tf_error err = {0};
    char own[64];
    snprintf(own, sizeof own, "p.tmp-%ld-77", (long)getpid());
    /* Process ids end far below this one. */
    const char *const made[] = {"p.tmp-999999999-0/x", own, "q.tmp-999999999-0", "p.tmp-",
                                "p.tmp-999999999"};
    for (size_t i = 0; i < COUNT(made); i++) {
        CHECK_U64(t, io_make_dirs(at(dir, made[i]), &err), TF_OK);
    }
    CHECK_U64(t, folder_create(&w, at(dir, "p"), &err), TF_OK);
    CHECK(t, !io_exists(at(dir, "p.tmp-999999999-0")));
    for (size_t i = 1; i < COUNT(made); i++) {
        CHECKF(t, io_exists(at(dir, made[i])), "%s was removed", made[i]);
    }
    folder_discard(&w);
}

static void impossible_places_are_refused(check_case *t) {
    const char *dir = check_tmpdir(t);
    folder_writer w;
    tf_error err = {0};
    char longest[2000];
    CHECK(t, put(dir, "file"));
    CHECK_U64(t, folder_create(&w, at(dir, "file/p"), &err), TF_IO);
    CHECK_STR(t, tf_word_text(err.word), "cannot-write");
    CHECK(t, err.remedy[0] != '\0');
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    err = (tf_error){0};
    CHECK_U64(t, folder_create(&w, longest, &err), TF_IO);
    err = (tf_error){0};
    CHECK_U64(t, folder_create(&w, "", &err), TF_IO);
}

#ifdef TF_FAULT
static void survives_every_failed_step(check_case *t) {
    const char *dir = check_tmpdir(t);
    bool fired = true;
    for (uint64_t n = 1; fired && n < 100; n++) {
        char path[1200];
        folder_writer w;
        tf_error err = {0};
        snprintf(path, sizeof path, "%s/p%llu", dir, (unsigned long long)n);
        fault_arm(FAULT_WRITE, n);
        tf_status status = folder_create(&w, path, &err);
        if (status == TF_OK) status = io_write_file(at(w.temporary, "x"), "x", 1, &err);
        if (status == TF_OK) status = folder_commit(&w, &err);
        fired = fault_fired(FAULT_WRITE);
        fault_arm(FAULT_WRITE, 0);
        folder_discard(&w);
        CHECKF(t, (status == TF_OK) == !fired, "fault %llu", (unsigned long long)n);
        CHECKF(t, io_exists(path) == !fired, "fault %llu", (unsigned long long)n);
        CHECKF(t, entries(dir) == (fired ? 0 : 1), "fault %llu leaves %zu names",
               (unsigned long long)n, entries(dir));
    }
    CHECK(t, !fired);
}
#else
static void survives_every_failed_step(check_case *t) {
    check_skip(t, "this build has no fault injection");
}
#endif

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"folder/appears-with-its-files-at-once", appears_with_its_files_at_once},
        {"folder/discarded-leaves-nothing", discarded_leaves_nothing},
        {"folder/what-is-there-is-refused", what_is_there_is_refused},
        {"folder/the-loser-of-a-race-is-told", the_loser_of_a_race_is_told},
        {"folder/leftovers-of-dead-processes-go-others-stay",
         leftovers_of_dead_processes_go_others_stay},
        {"folder/impossible-places-are-refused", impossible_places_are_refused},
        {"folder/survives-every-failed-step", survives_every_failed_step},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
