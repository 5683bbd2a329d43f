/* What rank files promise when the machine fails: a clear error, whole files or none, no temporary
 * file, and a resumed write that ends well. */
#include "engine/base/fault.h"
#include "engine/base/io.h"
#include "engine/plan/rankfile.h"
#include "tests/support/check.h"
#include "tests/support/handmade.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    handmade pack;
    tf_plan *plan;
    char dir[256];
    char folder[300];
} scene;

static void set_up(check_case *t, scene *s, handmade_options options) {
    snprintf(s->dir, sizeof s->dir, "%s", check_tmpdir(t));
    snprintf(s->folder, sizeof s->folder, "%s/rank0", s->dir);
    handmade_pack(check_tmpdir(t), options, &s->pack);
    s->plan = handmade_plan(&s->pack, 1, 0);
}

static void tear_down(scene *s) {
    handmade_plan_free(s->plan);
    handmade_free(&s->pack);
}

/* No temporary name; every rank file there is whole. */
static void check_leavings(check_case *t, const scene *s) {
    char **names = NULL;
    size_t count = 0;
    tf_error err = {0};
    if (!io_exists(s->folder)) return;
    if (!CHECK_U64(t, io_list(s->folder, &names, &count, &err), TF_OK)) return;
    for (size_t i = 0; i < count; i++) {
        uint32_t layer = 0;
        char path[1024];
        rankfile *file = NULL;
        CHECKF(t, !io_is_temporary(names[i]), "%s was left", names[i]);
        if (!rankfile_parse_name(names[i], &layer)) continue;
        snprintf(path, sizeof path, "%s/%s", s->folder, names[i]);
        rankfile_head want = rankfile_want(s->plan, layer);
        CHECKF(t, rankfile_open(path, &want, &file, &err) == TF_OK, "%s is not whole", path);
        rankfile_close(file);
    }
    io_free_names(names, count);
}

static void check_whole(check_case *t, const scene *s) {
    tf_text report = {0};
    tf_error err = {0};
    char line[2048];
    bool ok = rankfile_verify_set(s->dir, s->plan, RANKFILE_VERIFY_FULL, false, NULL, &report,
                                  &err) == TF_OK;
    CHECKF(t, ok, "%s", tf_error_line(&err, line, sizeof line));
    text_free(&report);
}

#ifdef TF_FAULT
typedef tf_status (*act)(const scene *s, tf_error *err);

static tf_status write_anew(const scene *s, tf_error *err) {
    rankfile_options o = {.workers = 2};
    return rankfile_write_set(s->plan, s->dir, &o, NULL, err);
}

static tf_status write_again(const scene *s, tf_error *err) {
    rankfile_options o = {.workers = 1, .resume = true};
    return rankfile_write_set(s->plan, s->dir, &o, NULL, err);
}

static tf_status digest_only(const scene *s, tf_error *err) {
    rankfile_set set = {0};
    tf_status status = rankfile_digest_set(s->plan, NULL, &set, err);
    rankfile_set_free(&set);
    return status;
}

static tf_status verify_all(const scene *s, tf_error *err) {
    tf_text report = {0};
    tf_status status =
        rankfile_verify_set(s->dir, s->plan, RANKFILE_VERIFY_FULL, true, NULL, &report, err);
    text_free(&report);
    return status;
}

/* Fails the n-th call of the kind for n = 1, 2, ... until none is hit. */
static void walk(check_case *t, const scene *s, fault_kind kind, act run, bool fresh,
                 tf_word word) {
    uint64_t n = 1;
    for (;; n++) {
        tf_error err = {0}, ignored = {0};
        if (fresh) CHECK_U64(t, io_remove_tree(s->folder, &ignored), TF_OK);
        fault_arm(kind, n);
        tf_status status = run(s, &err);
        bool fired = fault_fired(kind);
        fault_arm(kind, 0);
        check_leavings(t, s);
        if (!fired) {
            CHECK_U64(t, status, TF_OK);
            break;
        }
        /* A resumed write may answer a failed look at an old file by writing it again. */
        bool healed = status == TF_OK && run == write_again;
        if (!healed)
            CHECKF(t, status == tf_word_status(word) && err.status == status, "call %llu: %s",
                   (unsigned long long)n, tf_word_text(err.word));
        if (check_failed(t)) break;
    }
    CHECKF(t, n > 1, "no call was hit");
}

static void survives(check_case *t, fault_kind kind, tf_word word) {
    scene s;
    set_up(t, &s, (handmade_options){.layers = 2, .seed = 1});
    bool writes_only = kind == FAULT_WRITE;
    walk(t, &s, kind, write_anew, true, word);
    check_whole(t, &s);
    walk(t, &s, kind, write_again, false, word);
    check_whole(t, &s);
    if (!writes_only) walk(t, &s, kind, digest_only, false, word);
    if (!writes_only) walk(t, &s, kind, verify_all, false, word);
    tear_down(&s);
}
#endif

static void survives_every_failed_write(check_case *t) {
#ifdef TF_FAULT
    survives(t, FAULT_WRITE, TF_W_CANNOT_WRITE);
#else
    check_skip(t, "built without fault injection");
#endif
}

static void survives_every_failed_read(check_case *t) {
#ifdef TF_FAULT
    survives(t, FAULT_READ, TF_W_CANNOT_READ);
#else
    check_skip(t, "built without fault injection");
#endif
}

static void survives_every_failed_allocation(check_case *t) {
#ifdef TF_FAULT
    survives(t, FAULT_ALLOC, TF_W_NO_MEMORY);
#else
    check_skip(t, "built without fault injection");
#endif
}

static void a_source_that_ends_early_leaves_nothing(check_case *t) {
    scene s;
    char path[1100];
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 2, .big = true});
    snprintf(path, sizeof path, "%s/data.bin", s.pack.pack.dir);
    CHECK(t, truncate(path, (off_t)s.pack.bytes / 2) == 0);
    CHECK_U64(t, rankfile_write_set(s.plan, s.dir, NULL, NULL, &err), TF_IO);
    CHECK_U64(t, err.word, TF_W_CANNOT_READ);
    CHECK(t, strstr(err.what, "making rank file ") != NULL);
    check_leavings(t, &s);
    tear_down(&s);
}

static void a_pack_without_weights_is_named_first(check_case *t) {
    scene s;
    tf_error err[2];
    memset(err, 0, sizeof err);
    rankfile_set set = {0};
    set_up(t, &s, (handmade_options){.layers = 1});
    s.pack.pack.header_only = true;
    CHECK(t, rankfile_write_set(s.plan, s.dir, NULL, NULL, &err[0]) != TF_OK);
    CHECK(t, rankfile_digest_set(s.plan, NULL, &set, &err[1]) != TF_OK);
    CHECK_U64(t, err[0].word, TF_W_HEADER_ONLY_PACK);
    CHECK_U64(t, err[1].word, TF_W_HEADER_ONLY_PACK);
    CHECK(t, !io_exists(s.folder));
    tear_down(&s);
}

static void a_path_that_cannot_be_a_folder_is_named(check_case *t) {
    scene s;
    char path[1100];
    tf_error err = {0}, none = {0};
    set_up(t, &s, (handmade_options){.layers = 1});
    snprintf(path, sizeof path, "%s/file", s.dir);
    CHECK_U64(t, io_write_file(path, "x", 1, &none), TF_OK);
    CHECK_U64(t, rankfile_write_set(s.plan, path, NULL, NULL, &err), TF_IO);
    CHECK_U64(t, err.word, TF_W_CANNOT_WRITE);
    CHECK(t, strstr(err.what, path) != NULL);
    tear_down(&s);
}

/* An item larger than any disk needs no small one. */
static void asks_for_space_before_the_first_byte(check_case *t) {
    scene s;
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 1});
    s.plan->items[0].bytes = 1ull << 60;
    CHECK_U64(t, rankfile_write_set(s.plan, s.dir, NULL, NULL, &err), TF_IO);
    CHECK_U64(t, err.word, TF_W_NO_SPACE);
    CHECK(t, strstr(err.found, " bytes available") != NULL);
    CHECK(t, strtoull(err.expected, NULL, 10) > 1ull << 60);
    CHECK(t, strstr(err.expected, " bytes needed") != NULL);
    CHECK(t, !io_exists(s.folder));
    tear_down(&s);
}

/* ---- small disks ---------------------------------------------------------------------------- */

static bool mount_small(check_case *t, const char *dir, const char *options) {
    char out[512];
    if (geteuid() != 0) {
        check_skip(t, "only root can mount a small tmpfs");
        return false;
    }
    if (check_command(t, out, sizeof out, "mount -t tmpfs -o %s tmpfs %s", options, dir) == 0)
        return true;
    out[strcspn(out, "\n")] = '\0';
    check_skip(t, "a small tmpfs cannot be mounted: %s", out);
    return false;
}

static void unmount(check_case *t, const char *dir) {
    char out[512];
    CHECKF(t, check_command(t, out, sizeof out, "umount %s", dir) == 0, "%s", out);
}

static bool fill_disk(void *context, const char *unit, uint64_t done, uint64_t total) {
    const scene *s = context;
    char path[400];
    (void)unit;
    (void)done;
    (void)total;
    snprintf(path, sizeof path, "%s/filler", s->dir);
    FILE *f = fopen(path, "ab");
    static const char block[4096];
    while (f != NULL && fwrite(block, 1, sizeof block, f) == sizeof block && fflush(f) == 0)
        continue;
    if (f != NULL) (void)fclose(f);
    return true;
}

/* The space was there when asked for; someone else takes it during the write. */
static void a_disk_that_fills_leaves_nothing(check_case *t) {
    scene s;
    char path[400];
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 3});
    if (mount_small(t, s.dir, "size=2m")) {
        rankfile_options o = {.workers = 1, .progress = fill_disk, .context = &s};
        CHECK_U64(t, rankfile_write_set(s.plan, s.dir, &o, NULL, &err), TF_IO);
        CHECK_U64(t, err.word, TF_W_NO_SPACE);
        CHECK(t, err.remedy[0] != '\0');
        check_leavings(t, &s);
        snprintf(path, sizeof path, "%s/filler", s.dir);
        CHECK(t, unlink(path) == 0);
        tf_error none = {0};
        CHECK_U64(t, rankfile_write_set(s.plan, s.dir, NULL, NULL, &none), TF_OK);
        check_whole(t, &s);
        unmount(t, s.dir);
    }
    tear_down(&s);
}

static void a_read_only_disk_is_named(check_case *t) {
    scene s;
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 1});
    if (mount_small(t, s.dir, "size=2m,ro")) {
        CHECK_U64(t, rankfile_write_set(s.plan, s.dir, NULL, NULL, &err), TF_IO);
        CHECK_U64(t, err.word, TF_W_CANNOT_WRITE);
        CHECK(t, strstr(err.what, s.dir) != NULL);
        unmount(t, s.dir);
    }
    tear_down(&s);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"rankfile/survives-every-failed-write", survives_every_failed_write},
        {"rankfile/survives-every-failed-read", survives_every_failed_read},
        {"rankfile/survives-every-failed-allocation", survives_every_failed_allocation},
        {"rankfile/a-source-that-ends-early-leaves-nothing",
         a_source_that_ends_early_leaves_nothing},
        {"rankfile/a-pack-without-weights-is-named-first", a_pack_without_weights_is_named_first},
        {"rankfile/a-path-that-cannot-be-a-folder-is-named",
         a_path_that_cannot_be_a_folder_is_named},
        {"rankfile/asks-for-space-before-the-first-byte", asks_for_space_before_the_first_byte},
        {"rankfile/a-disk-that-fills-leaves-nothing", a_disk_that_fills_leaves_nothing},
        {"rankfile/a-read-only-disk-is-named", a_read_only_disk_is_named},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
