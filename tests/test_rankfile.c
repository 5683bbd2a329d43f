/* What a reader of rank files promises: any damage and any exchange is refused, by the field. */
#include "engine/base/io.h"
#include "engine/plan/rankfile.h"
#include "engine/plan/rankimage.h"
#include "tests/support/check.h"
#include "tests/support/handmade.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    handmade pack;
    tf_plan *plans[4]; /* [world] */
    uint32_t world;
    char dir[256];
} scene;

static void set_up(check_case *t, scene *s, handmade_options options, uint32_t world) {
    memset(s, 0, sizeof *s);
    s->world = world;
    snprintf(s->dir, sizeof s->dir, "%s", check_tmpdir(t));
    handmade_pack(s->dir, options, &s->pack);
    for (uint32_t r = 0; r < world; r++) {
        tf_error err = {0};
        s->plans[r] = handmade_plan(&s->pack, world, r);
        CHECK_U64(t, rankfile_write_set(s->plans[r], s->dir, NULL, NULL, &err), TF_OK);
    }
}

static void tear_down(scene *s) {
    for (uint32_t r = 0; r < s->world; r++)
        handmade_plan_free(s->plans[r]);
    handmade_free(&s->pack);
}

static tf_status verify(const scene *s, const tf_plan *plan, rankfile_verify mode, tf_error *err) {
    tf_text report = {0};
    *err = (tf_error){0};
    tf_status status = rankfile_verify_set(s->dir, plan, mode, false, NULL, &report, err);
    text_free(&report);
    return status;
}

/* Refused in every mode, with and without the plan, by this word; `part` is in the act. */
static void refused(check_case *t, const scene *s, const tf_plan *plan, tf_word word,
                    const char *part) {
    for (rankfile_verify mode = RANKFILE_VERIFY_NONE; mode <= RANKFILE_VERIFY_FULL; mode++) {
        tf_error err;
        char line[2048];
        (void)verify(s, plan, mode, &err);
        tf_error_line(&err, line, sizeof line);
        CHECKF(t, err.word == word, "expected %s: %s", tf_word_text(word), line);
        CHECKF(t, strstr(err.what, part) != NULL, "'%s' is not in: %s", part, line);
    }
}

static char *path_in(const scene *s, uint32_t rank, const char *name, char path[512]) {
    snprintf(path, 512, "%s/rank%u/%s", s->dir, rank, name);
    return path;
}

static void move_file(check_case *t, const char *from, const char *to) {
    CHECK(t, rename(from, to) == 0);
}

static void exchange(check_case *t, const char *a, const char *b) {
    char other[600];
    snprintf(other, sizeof other, "%s.x", a);
    move_file(t, a, other);
    move_file(t, b, a);
    move_file(t, other, b);
}

/* ---- damage --------------------------------------------------------------------------------- */

static tf_word word_of_byte(size_t at) {
    if (at < 8) return TF_W_NOT_A_RANK_FILE;
    if (at < 4096) return TF_W_RANK_HEADER_DAMAGED;
    if (at < 4096 + 136) return TF_W_RANK_INDEX_DAMAGED; /* two entries, names of 8 bytes */
    if (at < 8192) return TF_W_RANK_PADDING_DAMAGED;
    size_t within = at % 4096, payload = at < 12288 ? 148 : 16 * 24 * 2;
    return within < payload ? TF_W_RANK_PAYLOAD_DAMAGED : TF_W_RANK_PADDING_DAMAGED;
}

static void set_byte(int fd, off_t at, char value) {
    if (pwrite(fd, &value, 1, at) != 1) printf("# cannot write a byte\n");
}

/* All that a full verification does to a file. */
static tf_word read_whole(const char *path, rankscratch *scratch) {
    rankfile *file = NULL;
    rankmeter meter;
    tf_error err = {0};
    rankmeter_begin(&meter, NULL, 0);
    tf_status status = rankfile_open(path, NULL, &file, &err);
    if (status == TF_OK) rankscratch_read_from(scratch, file);
    for (uint32_t i = 0; status == TF_OK && i < file->head.entries; i++)
        status = rankfile_check(file, i, scratch, &meter, &err);
    rankmeter_end(&meter);
    rankfile_close(file);
    return err.word;
}

static void refuses_every_flipped_byte(check_case *t) {
    scene s;
    rankscratch *scratch = NULL;
    char path[512], *bytes = NULL;
    size_t n = 0;
    tf_error err = {0};
    check_random r = check_seed(t);
    set_up(t, &s, (handmade_options){.small = true}, 1);
    path_in(&s, 0, "top.tfr", path);
    if (!CHECK_U64(t, io_read_file(path, 1u << 20, &bytes, &n, &err), TF_OK)) return;
    CHECK_U64(t, n, 16384);
    if (!CHECK_U64(t, rankscratch_take(1, RANKSCRATCH_PIECE, &scratch, &err), TF_OK)) return;
    int fd = open(path, O_WRONLY);
    size_t missed = 0;
    for (size_t i = 0; i < n && missed < 5; i++) {
        set_byte(fd, (off_t)i, (char)(bytes[i] ^ (1 << check_below(&r, 8))));
        tf_word word = read_whole(path, scratch);
        missed += !CHECKF(t, word == word_of_byte(i), "byte %zu: %s, expected %s", i,
                          tf_word_text(word), tf_word_text(word_of_byte(i)));
        if (i % 500 == 0) CHECK(t, verify(&s, NULL, RANKFILE_VERIFY_FULL, &err) != TF_OK);
        set_byte(fd, (off_t)i, bytes[i]);
    }
    close(fd);
    rankscratch_free(scratch, 1);
    CHECK_U64(t, verify(&s, NULL, RANKFILE_VERIFY_FULL, &err), TF_OK);
    mem_free(bytes);
    tear_down(&s);
}

static void refuses_every_cut(check_case *t) {
    scene s;
    char path[512];
    tf_error err;
    size_t missed = 0;
    set_up(t, &s, (handmade_options){.small = true}, 1);
    path_in(&s, 0, "top.tfr", path);
    for (long n = 16383; n >= 0 && missed<5; n -= n> 12200 && n < 12400 ? 1 : 37) {
        CHECK(t, truncate(path, n) == 0);
        (void)verify(&s, NULL, RANKFILE_VERIFY_NONE, &err);
        missed +=
            !CHECKF(t, err.word == TF_W_RANK_FILE_CUT, "%ld bytes: %s", n, tf_word_text(err.word));
    }
    CHECK(t, truncate(path, 0) == 0);
    refused(t, &s, NULL, TF_W_RANK_FILE_CUT, "top.tfr");
    tear_down(&s);
}

static void refuses_appended_bytes(check_case *t) {
    scene s;
    char path[512];
    set_up(t, &s, (handmade_options){.small = true}, 1);
    path_in(&s, 0, "top.tfr", path);
    CHECK(t, truncate(path, 16385) == 0);
    refused(t, &s, s.plans[0], TF_W_RANK_FILE_TOO_LONG, "length");
    CHECK(t, truncate(path, 16384 + 4096) == 0);
    refused(t, &s, NULL, TF_W_RANK_FILE_TOO_LONG, "length");
    tear_down(&s);
}

static void modes_read_what_they_say(check_case *t) {
    scene s;
    char path[512], *bytes = NULL;
    size_t n = 0;
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 1, .big = true}, 1);
    rankfile_checked c[3];
    for (rankfile_verify m = RANKFILE_VERIFY_NONE; m <= RANKFILE_VERIFY_FULL; m++) {
        CHECK_U64(t, rankfile_verify_rank(s.dir, 0, NULL, m, NULL, &c[m], &err), TF_OK);
        CHECK_U64(t, c[m].payloads, s.plans[0]->item_count);
        CHECK(t, digest_equal(c[m].set.digest, c[0].set.digest));
    }
    CHECK_U64(t, c[0].checked, 0);
    CHECK_U64(t, c[0].bytes_read, 0);
    CHECK(t, c[1].checked >= 4 && c[1].checked < c[1].payloads);
    CHECK_U64(t, c[2].checked, c[2].payloads);
    for (int m = 0; m < 3; m++)
        rankfile_set_free(&c[m].set);
    /* The first payload is in the sample; only `none` passes over it. */
    path_in(&s, 0, "L00.tfr", path);
    CHECK_U64(t, io_read_file(path, 1u << 26, &bytes, &n, &err), TF_OK);
    int fd = open(path, O_WRONLY);
    set_byte(fd, 8192, (char)(bytes[8192] ^ 4));
    close(fd);
    CHECK_U64(t, verify(&s, NULL, RANKFILE_VERIFY_NONE, &err), TF_OK);
    (void)verify(&s, NULL, RANKFILE_VERIFY_SAMPLE, &err);
    CHECK_U64(t, err.word, TF_W_RANK_PAYLOAD_DAMAGED);
    CHECK(t, strstr(err.what, "layers.0.norm") != NULL);
    mem_free(bytes);
    tear_down(&s);
}

/* ---- exchanges ------------------------------------------------------------------------------ */

static void refuses_another_ranks_file(check_case *t) {
    scene s;
    char a[512], b[512];
    set_up(t, &s, (handmade_options){.layers = 2}, 2);
    exchange(t, path_in(&s, 0, "L01.tfr", a), path_in(&s, 1, "L01.tfr", b));
    refused(t, &s, NULL, TF_W_WRONG_RANK, "rank0/L01.tfr: rank");
    refused(t, &s, s.plans[0], TF_W_WRONG_RANK, "rank0/L01.tfr: rank");
    exchange(t, a, b);
    /* Whole folders, so that all files agree with each other. */
    snprintf(a, sizeof a, "%s/rank0", s.dir);
    snprintf(b, sizeof b, "%s/rank1", s.dir);
    exchange(t, a, b);
    refused(t, &s, NULL, TF_W_WRONG_RANK, "rank0/top.tfr: rank");
    tear_down(&s);
}

static void refuses_another_layers_file(check_case *t) {
    scene s;
    char a[512], b[512];
    set_up(t, &s, (handmade_options){.layers = 3}, 1);
    exchange(t, path_in(&s, 0, "L00.tfr", a), path_in(&s, 0, "L02.tfr", b));
    refused(t, &s, NULL, TF_W_WRONG_LAYER, "L00.tfr: layer");
    refused(t, &s, s.plans[0], TF_W_WRONG_LAYER, "L00.tfr: layer");
    exchange(t, a, b);
    exchange(t, a, path_in(&s, 0, "top.tfr", b));
    refused(t, &s, s.plans[0], TF_W_WRONG_LAYER, "top.tfr: layer");
    tear_down(&s);
}

/* Writes a set of a changed plan or pack elsewhere and moves its L00 in. */
static void plant_foreign(check_case *t, scene *s, const scene *from) {
    char a[512], b[512];
    move_file(t, path_in(from, 0, "L00.tfr", a), path_in(s, 0, "L00.tfr", b));
}

static void refuses_another_world(check_case *t) {
    scene s, other;
    set_up(t, &s, (handmade_options){.layers = 1}, 2);
    set_up(t, &other, (handmade_options){.layers = 1}, 3);
    plant_foreign(t, &s, &other);
    refused(t, &s, NULL, TF_W_WRONG_WORLD, "L00.tfr: world");
    refused(t, &s, s.plans[0], TF_W_WRONG_WORLD, "L00.tfr: world");
    tf_error err;
    (void)verify(&s, s.plans[0], RANKFILE_VERIFY_NONE, &err);
    CHECK_STR(t, err.found, "3");
    CHECK_STR(t, err.expected, "2");
    /* All of one folder: each agrees with itself, not with its neighbour. */
    char a[512], b[512];
    snprintf(a, sizeof a, "%s/rank1", s.dir);
    snprintf(b, sizeof b, "%s/rank0", s.dir);
    CHECK(t, io_remove_tree(b, &(tf_error){0}) == TF_OK);
    snprintf(b, sizeof b, "%s/rank2", other.dir);
    char to[512];
    snprintf(to, sizeof to, "%s/rank2", s.dir);
    move_file(t, b, to);
    refused(t, &s, NULL, TF_W_WRONG_WORLD, "world");
    tear_down(&s);
    tear_down(&other);
}

typedef enum {
    OTHER_FAMILY,
    OTHER_PACK,
    OTHER_CONFIG,
    OTHER_PLAN
} other_field;

static void refuses_another_pack_or_plan(check_case *t) {
    static const tf_word words[] = {TF_W_WRONG_FAMILY, TF_W_WRONG_PACK, TF_W_WRONG_CONFIG,
                                    TF_W_STALE_PLAN};
    static const char *const fields[] = {"family", "pack digest", "config digest",
                                         "plan fingerprint"};
    for (other_field f = OTHER_FAMILY; f <= OTHER_PLAN; f++) {
        scene s, other;
        tf_error err = {0};
        set_up(t, &s, (handmade_options){.layers = 1}, 1);
        set_up(t, &other, (handmade_options){.layers = 1}, 1);
        tf_pack *pack = &other.pack.pack;
        /* The real fingerprint covers pack and config, so it changes with them. */
        other.plans[0]->fingerprint = digest_str("another plan");
        if (f == OTHER_FAMILY) memcpy(pack->config.family, "another", 8);
        if (f == OTHER_PACK) pack->digest = digest_str("another pack");
        if (f == OTHER_CONFIG) pack->config.digest = digest_str("another config");
        CHECK_U64(t, rankfile_write_set(other.plans[0], other.dir, NULL, NULL, &err), TF_OK);
        plant_foreign(t, &s, &other);
        refused(t, &s, NULL, words[f], fields[f]);
        refused(t, &s, s.plans[0], words[f], fields[f]);
        /* The whole set, sound in itself, is stale for the plan. */
        (void)verify(&s, other.plans[0], RANKFILE_VERIFY_NONE, &err);
        CHECK_U64(t, err.word, words[f]);
        tear_down(&s);
        tear_down(&other);
    }
}

static void refuses_an_index_the_plan_does_not_hold(check_case *t) {
    scene s;
    set_up(t, &s, (handmade_options){.layers = 1}, 1);
    plan_item *last = &s.plans[0]->items[s.plans[0]->item_count - 1];
    const char *kept = last->image;
    last->image = "layers.0.renamed";
    refused(t, &s, s.plans[0], TF_W_WRONG_INDEX, "L00.tfr: name");
    last->image = kept;
    uint64_t longer[TF_DIMS_MAX] = {last->shape[0] + 1};
    memcpy(longer + 1, last->shape + 1, (last->tensor->dims - 1) * sizeof longer[0]);
    last->shape = longer;
    refused(t, &s, s.plans[0], TF_W_WRONG_INDEX, "L00.tfr: shape");
    s.plans[0]->item_count--;
    refused(t, &s, s.plans[0], TF_W_WRONG_INDEX, "L00.tfr: entries");
    s.plans[0]->item_count++;
    tear_down(&s);
}

/* ---- the set -------------------------------------------------------------------------------- */

static void notices_missing_and_extra_files(check_case *t) {
    scene s;
    char a[512], b[512];
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 3}, 2);
    move_file(t, path_in(&s, 1, "L01.tfr", a), path_in(&s, 1, "aside", b));
    refused(t, &s, s.plans[1], TF_W_RANK_FILE_MISSING, "L01.tfr");
    refused(t, &s, NULL, TF_W_RANK_SET_DIFFERS, "set.txt");
    move_file(t, b, a);
    CHECK_U64(t, verify(&s, s.plans[1], RANKFILE_VERIFY_FULL, &err), TF_OK);
    CHECK_U64(t, io_write_file(path_in(&s, 1, "L07.tfr", a), "x", 1, &err), TF_OK);
    refused(t, &s, s.plans[1], TF_W_RANK_FILE_UNEXPECTED, "L07.tfr");
    refused(t, &s, NULL, TF_W_RANK_FILE_CUT, "L07.tfr");
    CHECK(t, unlink(a) == 0);
    /* A rank's folder that the plan wants is not there; without a plan it is another machine's. */
    snprintf(a, sizeof a, "%s/rank1", s.dir);
    snprintf(b, sizeof b, "%s/elsewhere", s.dir);
    move_file(t, a, b);
    CHECK_U64(t, verify(&s, NULL, RANKFILE_VERIFY_FULL, &err), TF_OK);
    CHECK_U64(t, verify(&s, s.plans[1], RANKFILE_VERIFY_NONE, &err), TF_IO);
    tear_down(&s);
}

static void notices_an_unfinished_or_mixed_set(check_case *t) {
    scene s, other;
    char path[512], *text = NULL;
    size_t n = 0;
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 1, .seed = 1}, 1);
    set_up(t, &other, (handmade_options){.layers = 1, .seed = 2}, 1);
    /* REPORTS 7: a sound file of the same plan with other weights. */
    plant_foreign(t, &s, &other);
    refused(t, &s, s.plans[0], TF_W_RANK_SET_DIFFERS, "set.txt");
    CHECK_U64(t, rankfile_write_set(s.plans[0], s.dir, NULL, NULL, &err), TF_OK);
    path_in(&s, 0, "set.txt", path);
    CHECK_U64(t, io_read_file(path, 1u << 20, &text, &n, &err), TF_OK);
    int fd = open(path, O_WRONLY);
    for (size_t i = 0; i < n; i += 3) {
        set_byte(fd, (off_t)i, i % 2 == 0 ? '\0' : (char)(text[i] ^ 1));
        (void)verify(&s, NULL, RANKFILE_VERIFY_NONE, &err);
        CHECK_U64(t, err.word, TF_W_RANK_SET_DIFFERS);
        set_byte(fd, (off_t)i, text[i]);
    }
    close(fd);
    CHECK(t, truncate(path, (off_t)n - 1) == 0);
    refused(t, &s, NULL, TF_W_RANK_SET_DIFFERS, "set.txt");
    CHECK(t, unlink(path) == 0);
    refused(t, &s, NULL, TF_W_RANK_SET_UNFINISHED, "rank0");
    mem_free(text);
    tear_down(&s);
    tear_down(&other);
}

static void notices_a_folder_without_ranks(check_case *t) {
    scene s;
    char path[512];
    tf_error err;
    set_up(t, &s, (handmade_options){.small = true}, 1);
    snprintf(s.dir, sizeof s.dir, "%s", check_tmpdir(t));
    refused(t, &s, NULL, TF_W_NO_RANK_FILES, s.dir);
    /* Not spelled as we spell it, or not a folder: no rank. */
    snprintf(path, sizeof path, "%s/rank01", s.dir);
    CHECK_U64(t, io_make_dirs(path, &err), TF_OK);
    snprintf(path, sizeof path, "%s/rank0", s.dir);
    err = (tf_error){0};
    CHECK_U64(t, io_write_file(path, "x", 1, &err), TF_OK);
    refused(t, &s, NULL, TF_W_NO_RANK_FILES, s.dir);
    CHECK(t, unlink(path) == 0);
    CHECK_U64(t, io_make_dirs(path, &err), TF_OK);
    refused(t, &s, NULL, TF_W_RANK_FILE_MISSING, "top.tfr");
    tear_down(&s);
}

static void reports_each_rank(check_case *t) {
    scene s;
    tf_text text = {0}, json = {0};
    tf_error err = {0};
    set_up(t, &s, (handmade_options){.layers = 1}, 3);
    CHECK_U64(
        t, rankfile_verify_set(s.dir, s.plans[2], RANKFILE_VERIFY_SAMPLE, false, NULL, &text, &err),
        TF_OK);
    CHECK(t, strstr(text_str(&text), "rank 0 of 3: 2 files, ") != NULL);
    CHECK(t, strstr(text_str(&text), "rank 2 of 3: 2 files, ") != NULL);
    CHECK(t, strstr(text_str(&text), "verified: sample\n") != NULL);
    CHECK_U64(t, rankfile_verify_set(s.dir, NULL, RANKFILE_VERIFY_FULL, true, NULL, &json, &err),
              TF_OK);
    static const char begin[] = "{\"mode\":\"full\",\"ranks\":[{\"rank\":0,";
    CHECK(t, strncmp(text_str(&json), begin, strlen(begin)) == 0);
    CHECK(t, strstr(text_str(&json), "},{\"rank\":2,\"world\":3,\"files\":2,") != NULL);
    text_free(&text);
    text_free(&json);
    tear_down(&s);
}

static void names_read_back(check_case *t) {
    static const char *const bad[] = {"L1.tfr", "L001.tfr",        "L-1.tfr",         "top",
                                      "L.tfr",  "L4294967295.tfr", "L00.tfr.tmp-1-2", "",
                                      "set.txt"};
    char name[RANKFILE_NAME_SIZE];
    uint32_t layer = 0;
    for (uint32_t l = 0; l < TF_LAYERS_MAX; l++) {
        rankfile_name(l, name);
        CHECK(t, rankfile_parse_name(name, &layer) && layer == l);
    }
    CHECK(t, rankfile_parse_name("top.tfr", &layer) && layer == CONFIG_NONE);
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECKF(t, !rankfile_parse_name(bad[i], &layer), "%s", bad[i]);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"rankfile/refuses-every-flipped-byte", refuses_every_flipped_byte},
        {"rankfile/refuses-every-cut", refuses_every_cut},
        {"rankfile/refuses-appended-bytes", refuses_appended_bytes},
        {"rankfile/modes-read-what-they-say", modes_read_what_they_say},
        {"rankfile/refuses-another-ranks-file", refuses_another_ranks_file},
        {"rankfile/refuses-another-layers-file", refuses_another_layers_file},
        {"rankfile/refuses-another-world", refuses_another_world},
        {"rankfile/refuses-another-pack-or-plan", refuses_another_pack_or_plan},
        {"rankfile/refuses-an-index-the-plan-does-not-hold",
         refuses_an_index_the_plan_does_not_hold},
        {"rankfile/notices-missing-and-extra-files", notices_missing_and_extra_files},
        {"rankfile/notices-an-unfinished-or-mixed-set", notices_an_unfinished_or_mixed_set},
        {"rankfile/notices-a-folder-without-ranks", notices_a_folder_without_ranks},
        {"rankfile/reports-each-rank", reports_each_rank},
        {"rankfile/names-read-back", names_read_back},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
