/* Cached built-in packs: made once, whatever the race, and never believed. */
#include "engine/base/io.h"
#include "engine/pack/cache.h"
#include "engine/pack/sums.h"
#include "tests/support/check.h"
#include "tests/support/golden.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* Uses the cache; the status, and what went wrong in err. */
static tf_status use(const char *cache, char dir[TF_PATH_BYTES_MAX], tf_error *err) {
    *err = (tf_error){0};
    return cache_builtin("tiny-bf16", cache, dir, err);
}

static void made_once_and_used_again(check_case *t) {
    const char *cache = at(check_tmpdir(t), "deep/cache");
    char dir[2][TF_PATH_BYTES_MAX];
    struct stat first;
    struct stat second;
    tf_error err;
    CHECK_U64(t, use(cache, dir[0], &err), TF_OK);
    CHECK_U64(t, stat(at(dir[0], "model.safetensors"), &first), 0);
    CHECK_U64(t, use(cache, dir[1], &err), TF_OK);
    CHECK_STR(t, dir[1], dir[0]);
    CHECK_U64(t, stat(at(dir[0], "model.safetensors"), &second), 0);
    CHECK_U64(t, first.st_ino, second.st_ino);
    CHECK_U64(t, entries(cache), 1);
    CHECK_U64(t, entries(dir[0]), 4);
}

static void models_have_folders_of_their_own(check_case *t) {
    const char *cache = check_tmpdir(t);
    static const char *const names[] = {"tiny-bf16", "tiny-exl3", "flash"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char dir[TF_PATH_BYTES_MAX];
        tf_error err = {0};
        CHECK_U64(t, cache_builtin(names[i], cache, dir, &err), TF_OK);
        const char *last = strrchr(dir, '/') + 1;
        CHECK(t, strncmp(last, names[i], strlen(names[i])) == 0);
        CHECK_U64(t, strlen(last), strlen(names[i]) + 9);
    }
    CHECK_U64(t, entries(cache), 3);
    char dir[TF_PATH_BYTES_MAX];
    tf_error err = {0};
    CHECK_U64(t, cache_builtin("other", cache, dir, &err), TF_USAGE);
}

static void two_processes_at_once_get_one_pack(check_case *t) {
    const char *cache = check_tmpdir(t);
    pid_t child[4];
    for (size_t i = 0; i < COUNT(child); i++) {
        child[i] = fork();
        if (child[i] == 0) {
            char dir[TF_PATH_BYTES_MAX];
            tf_error err;
            _exit(use(cache, dir, &err) == TF_OK ? 0 : 1);
        }
    }
    for (size_t i = 0; i < COUNT(child); i++) {
        int result = -1;
        CHECK(t, child[i] > 0 && waitpid(child[i], &result, 0) == child[i] && result == 0);
    }
    CHECK_U64(t, entries(cache), 1);
}

static bool overwrite(const char *path, long offset, char byte) {
    int fd = open(path, O_WRONLY);
    bool held = fd >= 0 && pwrite(fd, &byte, 1, offset) == 1;
    if (fd >= 0) close(fd);
    return held;
}

static void is_damaged(check_case *t, const char *cache, const char *file) {
    char dir[TF_PATH_BYTES_MAX];
    tf_error err;
    CHECKF(t, use(cache, dir, &err) == TF_BAD_INPUT, "%s is not noticed", file);
    CHECK_STR(t, tf_word_text(err.word), "folder-damaged");
    CHECKF(t, strstr(err.found, file) != NULL || strstr(err.expected, file) != NULL,
           "found %s, expected %s", err.found, err.expected);
    CHECK(t, strstr(err.remedy, dir) != NULL);
}

/* The remedy works. */
static void make_anew(check_case *t, const char *cache, char dir[TF_PATH_BYTES_MAX]) {
    tf_error err = {0};
    CHECK_U64(t, io_remove_tree(dir, &err), TF_OK);
    CHECK_U64(t, use(cache, dir, &err), TF_OK);
}

/* A shard replaced in place, same size and time, was once taken for current. */
static void bytes_replaced_with_same_size_and_time_are_noticed(check_case *t) {
    const char *cache = check_tmpdir(t);
    char dir[TF_PATH_BYTES_MAX];
    char path[TF_PATH_BYTES_MAX + 64];
    struct stat before;
    struct stat after;
    tf_error err;
    CHECK_U64(t, use(cache, dir, &err), TF_OK);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    CHECK_U64(t, stat(path, &before), 0);
    CHECK(t, overwrite(path, (long)before.st_size - 1, 'X'));
    struct timespec times[2] = {before.st_atim, before.st_mtim};
    CHECK_U64(t, utimensat(AT_FDCWD, path, times, 0), 0);
    CHECK_U64(t, stat(path, &after), 0);
    CHECK(t, after.st_size == before.st_size && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    is_damaged(t, cache, "model.safetensors");
    make_anew(t, cache, dir);
}

static void any_change_of_the_folder_is_noticed(check_case *t) {
    const char *cache = check_tmpdir(t);
    char dir[TF_PATH_BYTES_MAX];
    tf_error err;
    CHECK_U64(t, use(cache, dir, &err), TF_OK);
    CHECK(t, overwrite(at(dir, "config.json"), 0, ' '));
    is_damaged(t, cache, "config.json");
    make_anew(t, cache, dir);
    CHECK_U64(t, truncate(at(dir, "model.safetensors"), 1000), 0);
    is_damaged(t, cache, "model.safetensors");
    make_anew(t, cache, dir);
    CHECK_U64(t, unlink(at(dir, "engram-token-map.bin")), 0);
    is_damaged(t, cache, "engram-token-map.bin");
    make_anew(t, cache, dir);
    CHECK_U64(t, io_write_file(at(dir, "model.safetensors.index.json"), "{}", 2, &err), TF_OK);
    is_damaged(t, cache, "model.safetensors.index.json");
    make_anew(t, cache, dir);
    CHECK_U64(t, unlink(at(dir, SUMS_FILE)), 0);
    is_damaged(t, cache, "config.json");
    make_anew(t, cache, dir);
    CHECK(t, overwrite(at(dir, SUMS_FILE), 12, 'x'));
    is_damaged(t, cache, "digests 1");
}

static void a_cache_that_cannot_be_written_is_named(check_case *t) {
    const char *dir = check_tmpdir(t);
    char out[TF_PATH_BYTES_MAX];
    tf_error err = {0};
    CHECK_U64(t, io_write_file(at(dir, "file"), "x", 1, &err), TF_OK);
    CHECK_U64(t, use(at(dir, "file"), out, &err), TF_IO);
    CHECK_STR(t, tf_word_text(err.word), "cannot-write");
    CHECK(t, strstr(err.what, "built-in pack tiny-bf16") != NULL);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"cache/made-once-and-used-again", made_once_and_used_again},
        {"cache/models-have-folders-of-their-own", models_have_folders_of_their_own},
        {"cache/two-processes-at-once-get-one-pack", two_processes_at_once_get_one_pack},
        {"cache/bytes-replaced-with-same-size-and-time-are-noticed",
         bytes_replaced_with_same_size_and_time_are_noticed},
        {"cache/any-change-of-the-folder-is-noticed", any_change_of_the_folder_is_noticed},
        {"cache/a-cache-that-cannot-be-written-is-named", a_cache_that_cannot_be_written_is_named},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
