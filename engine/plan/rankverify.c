/* plan/rankverify - rank files held to themselves, to each other, and to a plan.
 *
 * Idea: a folder's own text is made again from its files and compared with set.txt; there is no
 * parser to fool, and a missing, exchanged or mixed-in file is a differing line.
 * Trap: without a plan the folder's and the file's name say which rank and layer are wanted; a file
 * renamed into another place must be refused for that. */
#include "engine/base/check.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"
#include "engine/plan/admission.h"
#include "engine/plan/rankfile.h"
#include "engine/plan/rankimage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- payloads ------------------------------------------------------------------------------- */

static tf_status check_padding(const rankfile *file, uint32_t i, const uint8_t *bytes, size_t n,
                               tf_error *err) {
    for (size_t k = 0; k < n; k++) {
        if (bytes[k] == 0) continue;
        const rankfile_entry *e = &file->entries[i];
        tf_fail(err, TF_W_RANK_PADDING_DAMAGED, "reading %s: byte %" PRIu64 ", after %s",
                file->path, e->offset + e->bytes + k, e->name);
        tf_found(err, "%u", bytes[k]);
        return tf_expected(err, "0");
    }
    return TF_OK;
}

static tf_status check_digest(const rankfile *file, uint32_t i, tf_digest found, tf_error *err) {
    const rankfile_entry *e = &file->entries[i];
    char f[DIGEST_HEX], x[DIGEST_HEX];
    if (digest_equal(found, e->digest)) return TF_OK;
    tf_fail(err, TF_W_RANK_PAYLOAD_DAMAGED, "reading %s: digest of %s", file->path, e->name);
    tf_found(err, "%s", digest_hex(found, f));
    tf_expected(err, "%s", digest_hex(e->digest, x));
    return tf_remedy(err, "write the rank files again");
}

void rankscratch_read_from(rankscratch *scratch, const rankfile *file) {
    io_read_ahead(file->fd);
    rankread_open(&scratch->reader, file->fd, file->path, file->head.file_bytes);
}

tf_status rankfile_check(const rankfile *file, uint32_t i, rankscratch *scratch, rankmeter *meter,
                         tf_error *err) {
    const rankfile_entry *e = &file->entries[i];
    uint64_t end = i + 1 < file->head.entries ? e[1].offset : file->head.file_bytes;
    digest_state *state = NULL;
    tf_digest digest = digest_bytes("", 0);
    tf_status status = TF_OK;
    for (uint64_t at = e->offset; at < end;) {
        size_t n = RANKSCRATCH_PIECE;
        if (n > end - at) n = (size_t)(end - at);
        TF_TRY(rankread_at(&scratch->reader, at, scratch->chunk, n, err));
        uint64_t left = at - e->offset < e->bytes ? e->bytes - (at - e->offset) : 0;
        size_t payload = left < n ? (size_t)left : n;
        if (payload == e->bytes) {
            digest = digest_bytes(scratch->chunk, payload);
        } else {
            if (state == NULL) state = digest_begin();
            if (state == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "reading %s", file->path));
            digest_add(state, scratch->chunk, payload);
        }
        TF_TRY(check_padding(file, i, scratch->chunk + payload, n - payload, err));
        TF_TRY(rankmeter_add(meter, n, err));
        at += n;
    }
done:
    if (state != NULL) digest = digest_end(state);
    return status == TF_OK ? check_digest(file, i, digest, err) : status;
}

bool rankfile_sampled(const rankfile *file, uint32_t entry) {
    if (entry == 0 || entry + 1 == file->head.entries) return true;
    tf_digest d = digest_str(file->entries[entry].name);
    return ((d.bytes[15] ^ file->head.plan.bytes[15]) & 15) == 0;
}

/* ---- one rank ------------------------------------------------------------------------------- */

typedef struct checking {
    char folder[TF_PATH_BYTES_MAX];
    rankfile_head want; /* of the first file, or of the plan; layer from the file's name */
    rankfile_verify mode;
    const rankimage_set *images; /* NULL without a plan */
    uint32_t *layers;            /* [set.count], plan order */
    rankfile_set set;
    uint64_t *payloads, *checked, *bytes_read; /* [set.count] */
    rankscratch *scratch;
    uint32_t workers;
    rankmeter *meter;
    tf_arena arena;
} checking;

/* The fingerprint holds, so these can differ only by a fault of a writer. */
static tf_status check_against_image(const rankfile *file, const rankimage *image, tf_error *err) {
    if (file->head.entries != image->head.entries) {
        tf_fail(err, TF_W_WRONG_INDEX, "reading %s: entries", file->path);
        tf_found(err, "%" PRIu32, file->head.entries);
        return tf_expected(err, "%" PRIu32, image->head.entries);
    }
    for (uint32_t i = 0; i < file->head.entries; i++) {
        const rankfile_entry *f = &file->entries[i];
        const plan_item *item = &image->items[i];
        const pack_tensor *t = item->tensor;
        const char *field = strcmp(f->name, item->image) != 0 ? "name"
                            : f->dtype != t->dtype            ? "dtype"
                            : f->dims != t->dims              ? "dims"
                            : memcmp(f->shape, item->shape, sizeof f->shape[0] * t->dims) != 0
                                ? "shape"
                                : NULL;
        if (field == NULL) continue;
        tf_fail(err, TF_W_WRONG_INDEX, "reading %s: %s of entry %" PRIu32, file->path, field, i);
        tf_found(err, "%s %s", f->name, dtype_name(f->dtype));
        return tf_expected(err, "%s %s", item->image, dtype_name(t->dtype));
    }
    return TF_OK;
}

/* What is passed over counts as done, so that the total is the files' length in every mode. */
static tf_status check_payloads(checking *c, size_t index, const rankfile *file, uint32_t worker,
                                tf_error *err) {
    if (c->mode != RANKFILE_VERIFY_NONE) rankscratch_read_from(&c->scratch[worker], file);
    for (uint32_t i = 0; i < file->head.entries; i++) {
        uint64_t begin = file->entries[i].offset;
        uint64_t end =
            i + 1 < file->head.entries ? file->entries[i + 1].offset : file->head.file_bytes;
        bool wanted = c->mode == RANKFILE_VERIFY_FULL ||
                      (c->mode == RANKFILE_VERIFY_SAMPLE && rankfile_sampled(file, i));
        tf_status status = wanted ? rankfile_check(file, i, &c->scratch[worker], c->meter, err)
                                  : rankmeter_add(c->meter, end - begin, err);
        if (status != TF_OK) return status;
        c->checked[index] += wanted;
        if (wanted) c->bytes_read[index] += end - begin;
    }
    return TF_OK;
}

static tf_status verify_one(void *context, size_t index, uint32_t worker, tf_error *err) {
    checking *c = context;
    rankfile_row *row = &c->set.rows[index];
    rankfile_head want = c->want;
    rankfile *file = NULL;
    char path[TF_PATH_BYTES_MAX];
    tf_status status = TF_OK;
    want.layer = c->layers[index];
    rankfile_name(want.layer, row->name);
    rankset_path(c->folder, row->name, path);
    TF_TRY(rankfile_open(path, &want, &file, err));
    if (c->images != NULL)
        TF_TRY(check_against_image(file, rankimage_find(c->images, want.layer), err));
    row->bytes = file->head.file_bytes;
    row->digest = file->digest;
    c->payloads[index] = file->head.entries;
    TF_TRY(rankmeter_add(c->meter, rankfile_data_begin(file->head.index_bytes), err));
    TF_TRY(check_payloads(c, index, file, worker, err));
done:
    rankfile_close(file);
    return status;
}

static int top_first(const void *a, const void *b) {
    /* CONFIG_NONE + 1 wraps to 0, so top comes before every layer. */
    uint32_t x = *(const uint32_t *)a + 1, y = *(const uint32_t *)b + 1;
    return (x > y) - (x < y);
}

static tf_status missing_or_extra(tf_error *err, const checking *c, tf_word word, uint32_t layer) {
    char name[RANKFILE_NAME_SIZE];
    rankfile_name(layer, name);
    tf_fail(err, word, "verifying %s: %s", c->folder, name);
    if (word == TF_W_RANK_FILE_MISSING) {
        tf_found(err, "no such file");
        return tf_remedy(err, "write the rank files again with resume");
    }
    tf_found(err, "a file that the plan has not");
    return tf_remedy(err, "remove it, or write the rank files into a new folder");
}

static tf_status list_files(checking *c, uint32_t *count, tf_error *err) {
    char **names = NULL;
    size_t name_count = 0;
    tf_status status = TF_OK;
    uint32_t n = 0;
    TF_TRY(io_list(c->folder, &names, &name_count, err));
    c->layers = arena_array(&c->arena, name_count, sizeof *c->layers);
    c->payloads = arena_array(&c->arena, name_count, sizeof *c->payloads);
    c->checked = arena_array(&c->arena, name_count, sizeof *c->checked);
    c->bytes_read = arena_array(&c->arena, name_count, sizeof *c->bytes_read);
    if (c->layers == NULL || c->payloads == NULL || c->checked == NULL || c->bytes_read == NULL)
        TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "listing %s", c->folder));
    for (size_t i = 0; i < name_count; i++)
        n += rankfile_parse_name(names[i], &c->layers[n]);
    if (n > 1) qsort(c->layers, n, sizeof *c->layers, top_first);
    *count = n;
    for (uint32_t i = 0; c->images != NULL && i < n; i++) {
        if (rankimage_find(c->images, c->layers[i]) == NULL)
            TF_TRY(missing_or_extra(err, c, TF_W_RANK_FILE_UNEXPECTED, c->layers[i]));
    }
    for (uint32_t i = 0; c->images != NULL && i < c->images->count; i++) {
        uint32_t layer = c->images->images[i].head.layer;
        if (i >= n || c->layers[i] != layer)
            TF_TRY(missing_or_extra(err, c, TF_W_RANK_FILE_MISSING, layer));
    }
    if (n == 0) TF_TRY(missing_or_extra(err, c, TF_W_RANK_FILE_MISSING, CONFIG_NONE));
done:
    io_free_names(names, name_count);
    return status;
}

/* Without a plan the files must agree with the first of them. */
static tf_status want_from_first(checking *c, uint32_t rank, tf_error *err) {
    char name[RANKFILE_NAME_SIZE], path[TF_PATH_BYTES_MAX];
    rankfile *file = NULL;
    rankfile_name(c->layers[0], name);
    rankset_path(c->folder, name, path);
    tf_status status = rankfile_open(path, NULL, &file, err);
    if (status == TF_OK) c->want = file->head;
    c->want.rank = rank; /* as the folder's name says */
    rankfile_close(file);
    return status;
}

/* The line that begins there, of "the end". */
static const char *line_at(const char *at, char *line, size_t size) {
    snprintf(line, size, "%.*s", (int)strcspn(at, "\n"), *at == '\0' ? "the end" : at);
    return line;
}

/* First differing line of both. */
static tf_status compare_texts(const char *path, const char *found, const char *expected,
                               tf_error *err) {
    if (strcmp(found, expected) == 0) return TF_OK;
    size_t begin = 0;
    for (size_t i = 0; found[i] == expected[i]; i++) {
        if (found[i] == '\n') begin = i + 1;
    }
    char line[200];
    tf_fail(err, TF_W_RANK_SET_DIFFERS, "comparing the files with %s", path);
    tf_found(err, "%s", line_at(found + begin, line, sizeof line));
    tf_expected(err, "%s", line_at(expected + begin, line, sizeof line));
    return tf_remedy(err, "write the rank files again with resume");
}

static tf_status check_set_text(checking *c, tf_error *err) {
    const uint64_t limit = 1u << 20;
    char path[TF_PATH_BYTES_MAX];
    char *data = NULL;
    size_t n = 0;
    tf_text text = {0};
    tf_status status = TF_OK;
    rankset_path(c->folder, RANKFILE_SET_TEXT, path);
    if (!io_exists(path)) {
        tf_fail(err, TF_W_RANK_SET_UNFINISHED, "verifying %s", c->folder);
        tf_found(err, "no " RANKFILE_SET_TEXT);
        TF_TRY(tf_remedy(err, "write the rank files again with resume"));
    }
    TF_TRY(io_read_file(path, limit, &data, &n, err));
    rankfile_set_text(&c->set, &text);
    TF_TRY(text_done(&text, err));
    /* A NUL inside would hide what follows it. */
    if (memchr(data, 0, n) != NULL) data[0] = '\0';
    TF_TRY(compare_texts(path, text.data, data, err));
done:
    mem_free(data);
    text_free(&text);
    return status;
}

static tf_status check_files(checking *c, uint32_t count, tf_error *err) {
    const rankfile_options *options = c->meter->options;
    tf_status status = TF_OK;
    TF_TRY(rankset_begin(&c->want, count, &c->set, err));
    c->workers = thread_workers(options == NULL ? 0 : options->workers, count);
    if (c->mode != RANKFILE_VERIFY_NONE)
        TF_TRY(rankscratch_take(c->workers, RANKSCRATCH_PIECE, &c->scratch, err));
    TF_TRY(thread_run(c->workers, count, verify_one, c, err));
    TF_TRY(rankset_end(&c->set, err));
    TF_TRY(check_set_text(c, err));
done:
    return status;
}

static void hand_over(checking *c, rankfile_checked *out) {
    *out = (rankfile_checked){.set = c->set};
    for (uint32_t i = 0; i < c->set.count; i++) {
        out->payloads += c->payloads[i];
        out->checked += c->checked[i];
        out->bytes_read += c->bytes_read[i];
    }
    c->set = (rankfile_set){0};
}

static tf_status verify_rank(const char *dir, uint32_t rank, const tf_plan *plan,
                             rankfile_verify mode, rankmeter *meter, rankfile_checked *out,
                             tf_error *err) {
    checking c = {.mode = mode, .meter = meter};
    rankimage_set images = {0};
    uint32_t count = 0;
    tf_status status = TF_OK;
    TF_TRY(rankset_folder(dir, rank, c.folder, err));
    if (plan != NULL) {
        TF_TRY(rankimage_plan(plan, &images, err));
        c.images = &images;
        c.want = rankfile_want(plan, CONFIG_NONE);
    }
    TF_TRY(list_files(&c, &count, err));
    if (plan == NULL) TF_TRY(want_from_first(&c, rank, err));
    TF_TRY(check_files(&c, count, err));
    hand_over(&c, out);
done:
    rankscratch_free(c.scratch, c.workers);
    rankfile_set_free(&c.set);
    rankimage_free(&images);
    arena_free(&c.arena);
    return status;
}

/* ---- all ranks ------------------------------------------------------------------------------ */

/* "rank7", spelled as rankset_folder does. */
static bool parse_folder(const char *name, uint32_t *rank) {
    char spelled[32];
    if (strncmp(name, "rank", 4) != 0) return false;
    *rank = (uint32_t)strtoul(name + 4, NULL, 10);
    snprintf(spelled, sizeof spelled, "rank%" PRIu32, *rank);
    return strcmp(name, spelled) == 0 && *rank < TF_WORLD_MAX;
}

/* Adds the bytes of the files that will be looked at; what cannot be opened fails when it is. */
static tf_status add_folder_bytes(const char *folder, uint64_t *sum, tf_error *err) {
    char **names = NULL;
    size_t count = 0;
    tf_status status = io_list(folder, &names, &count, err);
    for (size_t i = 0; status == TF_OK && i < count; i++) {
        char path[TF_PATH_BYTES_MAX];
        tf_error later = {0};
        uint32_t layer = 0;
        uint64_t bytes = 0;
        int fd = -1;
        if (!rankfile_parse_name(names[i], &layer)) continue;
        rankset_path(folder, names[i], path);
        if (io_open(path, &fd, &bytes, &later) == TF_OK) *sum += bytes;
        io_close(&fd);
    }
    io_free_names(names, count);
    return status;
}

typedef struct found_ranks {
    bool present[TF_WORLD_MAX];
    uint32_t count;
    uint64_t bytes;
} found_ranks;

static tf_status find_ranks(const char *dir, found_ranks *found, tf_error *err) {
    char **names = NULL;
    size_t count = 0;
    tf_status status = TF_OK;
    TF_TRY(io_list(dir, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        char folder[TF_PATH_BYTES_MAX];
        uint32_t rank = 0;
        if (!parse_folder(names[i], &rank)) continue;
        TF_TRY(rankset_folder(dir, rank, folder, err));
        if (!io_is_dir(folder)) continue;
        found->present[rank] = true;
        found->count++;
        TF_TRY(add_folder_bytes(folder, &found->bytes, err));
    }
    if (found->count == 0) {
        tf_fail(err, TF_W_NO_RANK_FILES, "verifying %s", dir);
        tf_found(err, "no rank<r> folder");
        TF_TRY(tf_remedy(err, "give the folder that the rank files were written under"));
    }
done:
    io_free_names(names, count);
    return status;
}

static const char *const mode_names[] = {"none", "sample", "full"};

typedef struct reporting {
    rankfile_verify mode;
    bool json;
    rankmeter *meter;
    tf_text *text;
} reporting;

static void report_rank(const reporting *r, const rankfile_checked *c, bool first) {
    const rankfile_head *h = &c->set.head;
    char plan[DIGEST_HEX], digest[DIGEST_HEX];
    digest_hex(h->plan, plan);
    digest_hex(c->set.digest, digest);
    text_print(r->text,
               r->json ? "%s{\"rank\":%" PRIu32 ",\"world\":%" PRIu32 ",\"files\":%" PRIu32
                         ",\"bytes\":%" PRIu64 ",\"payloads\":%" PRIu64 ",\"checked\":%" PRIu64
                         ",\"bytes_read\":%" PRIu64 ",\"plan\":\"%s\",\"digest\":\"%s\"}"
                       : "%srank %" PRIu32 " of %" PRIu32 ": %" PRIu32 " files, %" PRIu64
                         " bytes, payloads %" PRIu64 ", checked %" PRIu64 " (%" PRIu64
                         " bytes), plan %s, digest %s\n",
               r->json && !first ? "," : "", h->rank, h->world, c->set.count, c->set.bytes,
               c->payloads, c->checked, c->bytes_read, plan, digest);
}

static tf_status verify_ranks(const char *dir, const found_ranks *found, const tf_plan *plan,
                              const reporting *r, tf_error *err) {
    rankfile_head shared = {0};
    bool first = true;
    for (uint32_t rank = 0; rank < TF_WORLD_MAX; rank++) {
        rankfile_checked c = {0};
        if (!found->present[rank]) continue;
        const tf_plan *of_rank = plan != NULL && plan->rank == rank ? plan : NULL;
        tf_status status = verify_rank(dir, rank, of_rank, r->mode, r->meter, &c, err);
        if (status == TF_OK && first) shared = c.set.head;
        if (status == TF_OK) status = rankset_compare(dir, &c.set.head, &shared, err);
        if (status == TF_OK) report_rank(r, &c, first);
        rankfile_set_free(&c.set);
        if (status != TF_OK) return status;
        first = false;
    }
    return TF_OK;
}

tf_status rankfile_verify_rank(const char *dir, uint32_t rank, const tf_plan *plan,
                               rankfile_verify mode, const rankfile_options *options,
                               rankfile_checked *out, tf_error *err) {
    char folder[TF_PATH_BYTES_MAX];
    rankmeter meter;
    rankfile_checked checked = {0};
    tf_status status = TF_OK;
    rankmeter_begin(&meter, options, 0);
    if (plan != NULL) TF_TRY(admission_ask(TF_OP_RANK_FILES, plan->world, false, err));
    TF_TRY(rankset_folder(dir, rank, folder, err));
    TF_TRY(add_folder_bytes(folder, &meter.total, err));
    TF_TRY(verify_rank(dir, rank, plan, mode, &meter, &checked, err));
    if (out != NULL) {
        *out = checked;
        checked = (rankfile_checked){0};
    }
done:
    rankfile_set_free(&checked.set);
    rankmeter_end(&meter);
    return status;
}

tf_status rankfile_verify_set(const char *dir, const tf_plan *plan, rankfile_verify mode, bool json,
                              const rankfile_options *options, tf_text *report, tf_error *err) {
    found_ranks found = {0};
    rankmeter meter;
    tf_status status = TF_OK;
    rankmeter_begin(&meter, options, 0);
    if (plan != NULL) TF_TRY(admission_ask(TF_OP_RANK_FILES, plan->world, false, err));
    TF_TRY(find_ranks(dir, &found, err));
    meter.total = found.bytes;
    if (plan != NULL) found.present[plan->rank] = true; /* so that its absence is told */
    if (json) text_print(report, "{\"mode\":\"%s\",\"ranks\":[", mode_names[mode]);
    TF_TRY(verify_ranks(dir, &found, plan, &(reporting){mode, json, &meter, report}, err));
    if (json) text_add(report, "]}\n");
    if (!json) text_print(report, "verified: %s\n", mode_names[mode]);
    TF_TRY(text_done(report, err));
done:
    rankmeter_end(&meter);
    return status;
}
