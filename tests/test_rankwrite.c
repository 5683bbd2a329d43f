/* What writing rank files promises: the right bytes in the promised form, whole files or none,
 * nothing left behind, the same set at any number of workers. */
#include "engine/base/fault.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"
#include "engine/plan/admission.h"
#include "engine/plan/rankfile.h"
#include "engine/plan/rankimage.h"
#include "tests/support/check.h"
#include "tests/support/handmade.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    handmade pack;
    tf_plan *plan;
    char dir[256];
    char folder[300]; /* of the plan's rank */
} scene;

static void set_up(check_case *t, scene *s, handmade_options options, uint32_t world,
                   uint32_t rank) {
    snprintf(s->dir, sizeof s->dir, "%s", check_tmpdir(t));
    handmade_pack(check_tmpdir(t), options, &s->pack);
    s->plan = handmade_plan(&s->pack, world, rank);
    snprintf(s->folder, sizeof s->folder, "%s/rank%u", s->dir, rank);
}

static void tear_down(scene *s) {
    handmade_plan_free(s->plan);
    handmade_free(&s->pack);
    tf_stop_reset();
}

/* Names in a folder that hold `part`; 0 for a folder that is not there. */
static size_t names_with(const char *folder, const char *part) {
    char **names = NULL;
    size_t count = 0, n = 0;
    tf_error err = {0};
    if (io_list(folder, &names, &count, &err) != TF_OK) return 0;
    for (size_t i = 0; i < count; i++)
        n += strstr(names[i], part) != NULL;
    io_free_names(names, count);
    return n;
}

static bool in_folder(const scene *s, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    return io_exists(path);
}

static bool verifies(check_case *t, const scene *s) {
    tf_text report = {0};
    tf_error err = {0};
    char line[2048];
    bool ok = rankfile_verify_set(s->dir, s->plan, RANKFILE_VERIFY_FULL, false, NULL, &report,
                                  &err) == TF_OK;
    text_free(&report);
    return CHECKF(t, ok, "%s", tf_error_line(&err, line, sizeof line));
}

static tf_digest writes(check_case *t, const scene *s, const rankfile_options *o) {
    rankfile_set set = {0};
    tf_error err = {0};
    char line[2048];
    bool ok = rankfile_write_set(s->plan, s->dir, o, &set, &err) == TF_OK;
    CHECKF(t, ok, "%s", tf_error_line(&err, line, sizeof line));
    tf_digest digest = set.digest;
    rankfile_set_free(&set);
    return digest;
}

static bool same_digest(check_case *t, tf_digest a, tf_digest b) {
    char x[DIGEST_HEX], y[DIGEST_HEX];
    return CHECK_STR(t, digest_hex(a, x), digest_hex(b, y));
}

/* ---- bytes and form ------------------------------------------------------------------------- */

static void check_item(check_case *t, const scene *s, const rankfile *file, const plan_item *item) {
    const rankfile_entry *e = rankfile_find(file, item->image);
    tf_error err = {0};
    if (!CHECKF(t, e != NULL, "%s is not in %s", item->image, file->path)) return;
    CHECK_U64(t, e->bytes, item->bytes);
    CHECK_U64(t, e->dims, item->tensor->dims);
    CHECK(t, memcmp(e->shape, item->shape, sizeof e->shape[0] * e->dims) == 0);
    CHECK_U64(t, e->offset % 4096, 0);
    uint8_t *want = malloc(item->bytes + 1), *got = malloc(item->bytes + 1);
    handmade_gather(&s->pack, item, want);
    CHECK_U64(t, rankfile_read(file, e, 0, got, (size_t)e->bytes, &err), TF_OK);
    CHECKF(t, memcmp(want, got, (size_t)item->bytes) == 0, "bytes of %s", item->image);
    CHECK(t, digest_equal(e->digest, digest_bytes(want, (size_t)item->bytes)));
    free(want);
    free(got);
}

static void holds_the_bytes_the_plan_names(check_case *t) {
    for (uint32_t world = 1; world <= 4; world++) {
        scene s;
        uint32_t rank = world - 1;
        handmade_options o = {.layers = world, .seed = world, .big = world == 3};
        set_up(t, &s, o, world, rank);
        writes(t, &s, NULL);
        for (uint32_t i = 0; i < s.plan->item_count; i++) {
            const plan_item *item = &s.plan->items[i];
            char name[RANKFILE_NAME_SIZE], path[512];
            rankfile *file = NULL;
            tf_error err = {0};
            rankfile_head want = rankfile_want(s.plan, item->layer);
            rankfile_name(item->layer, name);
            snprintf(path, sizeof path, "%s/%s", s.folder, name);
            if (CHECK_U64(t, rankfile_open(path, &want, &file, &err), TF_OK))
                check_item(t, &s, file, item);
            rankfile_close(file);
        }
        tear_down(&s);
    }
}

static uint64_t le(const char *from, int n) {
    uint64_t v = 0;
    while (n-- > 0)
        v = v << 8 | (uint8_t)from[n];
    return v;
}

/* The bytes, by the numbers of the format's table alone. */
static void has_the_documented_form(check_case *t) {
    scene s;
    char path[512], *d = NULL;
    size_t n = 0;
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 8, .small = true}, 2, 1);
    writes(t, &s, NULL);
    snprintf(path, sizeof path, "%s/L07.tfr", s.folder);
    if (!CHECK_U64(t, io_read_file(path, 1u << 20, &d, &n, &err), TF_OK)) return;
    CHECK_U64(t, n, 4096 * 4);
    CHECK(t, memcmp(d, "TFRANK1\0", 8) == 0);
    CHECK_U64(t, le(d + 8, 4), 1);
    CHECK_U64(t, le(d + 12, 4), 7);
    CHECK_U64(t, le(d + 16, 4), 2);
    CHECK_U64(t, le(d + 20, 4), 1);
    CHECK_STR(t, d + 24, "handmade");
    CHECK(t, memcmp(d + 88, s.plan->fingerprint.bytes, 16) == 0);
    CHECK(t, memcmp(d + 104, s.pack.pack.digest.bytes, 16) == 0);
    CHECK(t, memcmp(d + 120, s.pack.pack.config.digest.bytes, 16) == 0);
    CHECK_U64(t, le(d + 136, 8), 4096);
    uint64_t index_bytes = 48 + 8 + strlen("layers.7.norm") + 48 + 16 + strlen("layers.7.cols");
    CHECK_U64(t, le(d + 144, 8), index_bytes);
    CHECK_U64(t, le(d + 152, 8), n);
    CHECK_U64(t, le(d + 160, 4), 2);
    tf_digest index = digest_bytes(d + 4096, (size_t)index_bytes), head = digest_bytes(d, 4080);
    CHECK(t, memcmp(d + 168, index.bytes, 16) == 0);
    CHECK(t, memcmp(d + 4080, head.bytes, 16) == 0);
    const char *e = d + 4096; /* norm: F32 [37] */
    CHECK_U64(t, le(e, 2), strlen("layers.7.norm"));
    CHECK_U64(t, le(e + 2, 2), 1);
    CHECK(t, memcmp(e + 8, "F32\0\0\0\0\0", 8) == 0);
    CHECK_U64(t, le(e + 16, 8), 8192);
    CHECK_U64(t, le(e + 24, 8), 148);
    tf_digest payload = digest_bytes(d + 8192, 148);
    CHECK(t, memcmp(e + 32, payload.bytes, 16) == 0);
    CHECK_U64(t, le(e + 48, 8), 37);
    CHECK(t, memcmp(e + 56, "layers.7.norm", 13) == 0);
    CHECK_U64(t, le(e + 69 + 16, 8), 12288); /* cols begins at the next block */
    mem_free(d);
    tear_down(&s);
}

static void set_text_is_canonical(check_case *t) {
    scene s;
    char path[1200], *d = NULL;
    size_t n = 0;
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 1, .small = true}, 2, 0);
    memset(s.pack.data, 7, s.pack.bytes);
    snprintf(path, sizeof path, "%s/data.bin", s.pack.pack.dir);
    /* In place: the pack holds the file open. */
    FILE *f = fopen(path, "wb");
    CHECK(t, f != NULL && fwrite(s.pack.data, 1, s.pack.bytes, f) == s.pack.bytes);
    CHECK(t, fclose(f) == 0);
    writes(t, &s, NULL);
    snprintf(path, sizeof path, "%s/set.txt", s.folder);
    if (!CHECK_U64(t, io_read_file(path, 1u << 20, &d, &n, &err), TF_OK)) return;
    CHECK_STR(t, d,
              "rank-files 1 handmade world 2 rank 0\n"
              "config 8555dcf672c663f7201a7c2cd4104783\n"
              "pack ed84cf27548fd7ae7b38bddc437a327a\n"
              "plan 486543cc337cd7e878f445a7a473fab4\n"
              "file top.tfr bytes=16384 5b6544a766b2ffe657433f606313d13e\n"
              "file L00.tfr bytes=16384 28f7d6126c42aa469e974845483c6844\n"
              "total files=2 bytes=32768\n"
              "digest a389dc3fed5352d033d80fe66546d403\n");
    mem_free(d);
    tear_down(&s);
}

static void digest_without_writing_is_the_same(check_case *t) {
    scene s;
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 3, .seed = 5, .big = true}, 2, 1);
    tf_digest written = writes(t, &s, NULL);
    for (uint32_t workers = 1; workers <= 5; workers += 2) {
        rankfile_set set = {0};
        rankfile_options o = {.workers = workers};
        CHECK_U64(t, rankfile_digest_set(s.plan, &o, &set, &err), TF_OK);
        same_digest(t, set.digest, written);
        CHECK_U64(t, set.count, 4);
        rankfile_set_free(&set);
    }
    handmade_change(&s.pack, 6);
    rankfile_set other = {0};
    CHECK_U64(t, rankfile_digest_set(s.plan, NULL, &other, &err), TF_OK);
    CHECK(t, !digest_equal(other.digest, written));
    rankfile_set_free(&other);
    tear_down(&s);
}

static void same_bytes_at_any_number_of_workers(check_case *t) {
    scene s;
    char out[256], first[300];
    set_up(t, &s, (handmade_options){.layers = 5, .seed = 9}, 3, 2);
    writes(t, &s, &(rankfile_options){.workers = 1});
    snprintf(first, sizeof first, "%s", s.folder);
    for (uint32_t workers = 2; workers <= 8; workers *= 2) {
        snprintf(s.dir, sizeof s.dir, "%s", check_tmpdir(t));
        writes(t, &s, &(rankfile_options){.workers = workers});
        int rc = check_command(t, out, sizeof out, "diff -r %s %s/rank2", first, s.dir);
        CHECKF(t, rc == 0, "%u workers: %s", workers, out);
    }
    tear_down(&s);
}

/* ---- admission, progress, stops ------------------------------------------------------------- */

typedef struct {
    uint32_t questions;
} spy;

static void on_question(void *context, tf_op op, uint32_t world) {
    spy *p = context;
    p->questions += op == TF_OP_RANK_FILES && world == 5;
}

static void asks_admission_before_anything(check_case *t) {
    scene s;
    spy p = {0};
    tf_text report = {0};
    set_up(t, &s, (handmade_options){.layers = 1}, 5, 0);
    admission_spy(on_question, &p);
    tf_error err[4];
    memset(err, 0, sizeof err);
    rankfile_set set = {0};
    CHECK_U64(t, rankfile_write_set(s.plan, s.dir, NULL, NULL, &err[0]), TF_REFUSED);
    CHECK_U64(t, rankfile_digest_set(s.plan, NULL, &set, &err[1]), TF_REFUSED);
    CHECK_U64(
        t, rankfile_verify_set(s.dir, s.plan, RANKFILE_VERIFY_NONE, false, NULL, &report, &err[2]),
        TF_REFUSED);
    CHECK_U64(t, rankfile_verify_rank(s.dir, 0, s.plan, RANKFILE_VERIFY_NONE, NULL, NULL, &err[3]),
              TF_REFUSED);
    for (int i = 0; i < 4; i++)
        CHECK_U64(t, err[i].word, TF_W_WORLD_NOT_ADMITTED);
    admission_spy(NULL, NULL);
    CHECK_U64(t, p.questions, 4);
    CHECK(t, !io_exists(s.folder));
    text_free(&report);
    tear_down(&s);
}

typedef struct {
    uint64_t calls, last, total, stop_after; /* 0: never */
    bool signal, backwards;
} watch;

static bool on_progress(void *context, const char *unit, uint64_t done, uint64_t total) {
    watch *w = context;
    w->calls++;
    w->backwards = w->backwards || done < w->last || strcmp(unit, "bytes") != 0;
    w->last = done;
    w->total = total;
    if (w->stop_after == 0 || w->calls < w->stop_after) return true;
    if (!w->signal) return false;
    tf_stop_request();
    return true;
}

static void progress_ends_at_its_total(check_case *t) {
    scene s;
    set_up(t, &s, (handmade_options){.layers = 4, .seed = 2}, 2, 0);
    for (int round = 0; round < 2; round++) {
        watch w = {0};
        rankfile_options o = {
            .workers = 3, .resume = round == 1, .progress = on_progress, .context = &w};
        writes(t, &s, &o);
        CHECK(t, !w.backwards && w.calls > 4);
        CHECK_U64(t, w.last, w.total);
    }
    watch w = {0};
    rankfile_options o = {.progress = on_progress, .context = &w};
    tf_text report = {0};
    tf_error err = {0};
    CHECK_U64(t, rankfile_verify_set(s.dir, NULL, RANKFILE_VERIFY_SAMPLE, true, &o, &report, &err),
              TF_OK);
    CHECK(t, !w.backwards && w.calls > 4);
    CHECK_U64(t, w.last, w.total);
    text_free(&report);
    tear_down(&s);
}

/* Stopped at every step: nothing half-written, and a resumed write ends at the same set. */
static void a_stop_leaves_nothing_half_written(check_case *t) {
    scene s;
    set_up(t, &s, (handmade_options){.layers = 4, .seed = 3}, 2, 1);
    rankfile_set want = {0};
    tf_error ignored = {0};
    CHECK_U64(t, rankfile_digest_set(s.plan, NULL, &want, &ignored), TF_OK);
    for (uint64_t step = 1; step <= 10; step++) {
        watch w = {.stop_after = step, .signal = step % 2 == 0};
        rankfile_options o = {.workers = 2, .progress = on_progress, .context = &w};
        tf_error err = {0};
        tf_status status = rankfile_write_set(s.plan, s.dir, &o, NULL, &err);
        tf_stop_reset();
        if (status == TF_OK) break;
        CHECK_U64(t, err.word, TF_W_INTERRUPTED);
        CHECK_U64(t, names_with(s.folder, ".tmp-"), 0);
        CHECK(t, !in_folder(&s, "set.txt"));
        same_digest(t, writes(t, &s, &(rankfile_options){.resume = true}), want.digest);
        verifies(t, &s);
    }
    rankfile_set_free(&want);
    tear_down(&s);
}

static bool die_on_progress(void *context, const char *unit, uint64_t done, uint64_t total) {
    (void)context;
    (void)unit;
    if (done * 2 > total) raise(SIGKILL);
    return true;
}

static void a_killed_writer_leaves_what_the_next_removes(check_case *t) {
    scene s;
    set_up(t, &s, (handmade_options){.layers = 4, .seed = 4}, 2, 1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        tf_error err = {0};
        rankfile_options o = {.workers = 1, .progress = die_on_progress};
        _exit(rankfile_write_set(s.plan, s.dir, &o, NULL, &err) == TF_OK ? 0 : 1);
    }
    int how = 0;
    CHECK(t, waitpid(child, &how, 0) == child && WIFSIGNALED(how));
    CHECK(t, names_with(s.folder, ".tmp-") > 0);
    CHECK(t, !in_folder(&s, "set.txt"));
    writes(t, &s, &(rankfile_options){.resume = true});
    CHECK_U64(t, names_with(s.folder, ".tmp-"), 0);
    verifies(t, &s);
    tear_down(&s);
}

/* ---- resume --------------------------------------------------------------------------------- */

static void resume_keeps_what_is_whole(check_case *t) {
    scene s;
    char path[512];
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 5, .seed = 5}, 2, 0);
    tf_digest before = writes(t, &s, NULL);
    snprintf(path, sizeof path, "%s/L01.tfr", s.folder);
    CHECK(t, unlink(path) == 0);
    snprintf(path, sizeof path, "%s/L03.tfr", s.folder);
    FILE *f = fopen(path, "r+b");
    CHECK(t, f != NULL && fseek(f, 8192, SEEK_SET) == 0);
    int byte = fgetc(f);
    CHECK(t, fseek(f, 8192, SEEK_SET) == 0 && fputc(byte ^ 1, f) != EOF && fclose(f) == 0);
    rankfile_set set = {0};
    rankfile_options o = {.resume = true};
    CHECK_U64(t, rankfile_write_set(s.plan, s.dir, &o, &set, &err), TF_OK);
    CHECK_U64(t, set.kept, 4);
    same_digest(t, set.digest, before);
    verifies(t, &s);
    rankfile_set_free(&set);
    tear_down(&s);
}

/* REPORTS 28: bytes replaced in place, names, sizes and inventory the same. */
static void resume_rewrites_files_of_other_weights(check_case *t) {
    scene s;
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 2, .seed = 6}, 2, 0);
    tf_digest before = writes(t, &s, NULL);
    handmade_change(&s.pack, 7);
    rankfile_set set = {0}, want = {0};
    rankfile_options o = {.resume = true};
    CHECK_U64(t, rankfile_digest_set(s.plan, NULL, &want, &err), TF_OK);
    CHECK_U64(t, rankfile_write_set(s.plan, s.dir, &o, &set, &err), TF_OK);
    CHECK_U64(t, set.kept, 0);
    CHECK(t, !digest_equal(set.digest, before));
    same_digest(t, set.digest, want.digest);
    rankfile_set_free(&set);
    rankfile_set_free(&want);
    tear_down(&s);
}

static void refuses_a_folder_with_files_of_another_set(check_case *t) {
    scene s;
    char path[512];
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 2}, 2, 0);
    writes(t, &s, NULL);
    snprintf(path, sizeof path, "%s/L09.tfr", s.folder);
    CHECK_U64(t, io_write_file(path, "x", 1, &err), TF_OK);
    CHECK_U64(t, rankfile_write_set(s.plan, s.dir, NULL, NULL, &err), TF_REFUSED);
    CHECK_U64(t, err.word, TF_W_RANK_FILE_UNEXPECTED);
    CHECK(t, strstr(err.found, "L09.tfr") != NULL);
    CHECK(t, in_folder(&s, "set.txt"));
    tear_down(&s);
}

/* ---- two writers ---------------------------------------------------------------------------- */

typedef struct {
    const scene *s;
    tf_error err;
    bool asked;
} rival;

static bool write_inside(void *context, const char *unit, uint64_t done, uint64_t total) {
    rival *r = context;
    (void)unit;
    (void)done;
    (void)total;
    if (!r->asked) (void)rankfile_write_set(r->s->plan, r->s->dir, NULL, NULL, &r->err);
    r->asked = true;
    return true;
}

static void refuses_a_folder_being_written(check_case *t) {
    scene s;
    set_up(t, &s, (handmade_options){.layers = 2}, 2, 0);
    rival r = {.s = &s};
    writes(t, &s, &(rankfile_options){.workers = 1, .progress = write_inside, .context = &r});
    CHECK(t, r.asked);
    CHECK_U64(t, r.err.word, TF_W_RANK_FOLDER_BUSY);
    verifies(t, &s);
    /* The lock goes with its holder. */
    writes(t, &s, NULL);
    tear_down(&s);
}

static void two_processes_never_mix(check_case *t) {
    scene s;
    set_up(t, &s, (handmade_options){.layers = 6, .seed = 8}, 2, 0);
    pid_t child[3];
    int good = 0;
    fflush(stdout);
    for (int i = 0; i < 3; i++) {
        child[i] = fork();
        if (child[i] != 0) continue;
        tf_error err = {0};
        tf_status status = rankfile_write_set(s.plan, s.dir, NULL, NULL, &err);
        _exit(status == TF_OK ? 0 : err.word == TF_W_RANK_FOLDER_BUSY ? 1 : 2);
    }
    for (int i = 0; i < 3; i++) {
        int how = 0;
        CHECK(t, waitpid(child[i], &how, 0) == child[i] && WIFEXITED(how));
        CHECK(t, WEXITSTATUS(how) < 2);
        good += WEXITSTATUS(how) == 0;
    }
    CHECK(t, good >= 1);
    CHECK_U64(t, names_with(s.folder, ".tmp-"), 0);
    verifies(t, &s);
    tear_down(&s);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"rankfile/holds-the-bytes-the-plan-names", holds_the_bytes_the_plan_names},
        {"rankfile/has-the-documented-form", has_the_documented_form},
        {"rankfile/set-text-is-canonical", set_text_is_canonical},
        {"rankfile/digest-without-writing-is-the-same", digest_without_writing_is_the_same},
        {"rankfile/same-bytes-at-any-number-of-workers", same_bytes_at_any_number_of_workers},
        {"rankfile/asks-admission-before-anything", asks_admission_before_anything},
        {"rankfile/progress-ends-at-its-total", progress_ends_at_its_total},
        {"rankfile/a-stop-leaves-nothing-half-written", a_stop_leaves_nothing_half_written},
        {"rankfile/a-killed-writer-leaves-what-the-next-removes",
         a_killed_writer_leaves_what_the_next_removes},
        {"rankfile/resume-keeps-what-is-whole", resume_keeps_what_is_whole},
        {"rankfile/resume-rewrites-files-of-other-weights", resume_rewrites_files_of_other_weights},
        {"rankfile/refuses-a-folder-with-files-of-another-set",
         refuses_a_folder_with_files_of_another_set},
        {"rankfile/refuses-a-folder-being-written", refuses_a_folder_being_written},
        {"rankfile/two-processes-never-mix", two_processes_never_mix},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
