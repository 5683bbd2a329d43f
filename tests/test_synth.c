/* Built-in packs as written: every golden digest, the real release's figures, nothing half done. */
#include "engine/base/digest.h"
#include "engine/base/fault.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"
#include "engine/pack/synth.h"
#include "tests/support/check.h"
#include "tests/support/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GOLDEN TF_SOURCE_DIR "/tests/golden/"

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

static bool make(check_case *t, const char *kind, uint32_t layers, const char *dir) {
    tf_error err = {0};
    char line[2048];
    synth_request request = {.layers = layers};
    tf_status status = synth_model(kind, &request.model, &err);
    if (status == TF_OK) status = synth_make(&request, dir, &err);
    return CHECKF(t, status == TF_OK, "%s", tf_error_line(&err, line, sizeof line));
}

/* Checks one line of tensors.tsv: name, dtype, shape, half a SHA-256. */
static bool line_holds(check_case *t, golden_file *file, char *line) {
    char *save = NULL;
    const char *name = strtok_r(line, "\t", &save);
    const char *dtype = strtok_r(NULL, "\t", &save);
    const char *shape = strtok_r(NULL, "\t", &save);
    const char *sha = strtok_r(NULL, "\t", &save);
    golden_tensor tensor;
    if (!CHECKF(t, sha != NULL && golden_find(file, name, &tensor), "%s is missing", name)) {
        return false;
    }
    char hex[SHA256_HEX] = "";
    if (tensor.data != NULL) sha256_hex(tensor.data, tensor.end - tensor.begin, hex);
    hex[32] = '\0';
    return CHECKF(t, strcmp(tensor.dtype, dtype) == 0 && strcmp(tensor.shape, shape) == 0,
                  "%s is %s %s, not %s %s", name, tensor.dtype, tensor.shape, dtype, shape) &&
           CHECKF(t, strcmp(hex, sha) == 0, "%s: %s, not %s", name, hex, sha);
}

/* Every tensor of the golden list is in the file; returns how many. */
static size_t golden_tensors_hold(check_case *t, const char *kind, golden_file *file) {
    char *list = NULL;
    size_t n = 0;
    if (!CHECK(t, golden_read(at(at(GOLDEN, kind), "tensors.tsv"), &list, &n))) return 0;
    size_t count = 0;
    size_t wrong = 0;
    char *save = NULL;
    strtok_r(list, "\n", &save); /* the head line */
    for (char *line = strtok_r(NULL, "\n", &save); line != NULL && wrong < 10;
         line = strtok_r(NULL, "\n", &save)) {
        count++;
        if (!line_holds(t, file, line)) wrong++;
    }
    free(list);
    return count;
}

static void pack_is_golden(check_case *t, const char *kind, size_t tensors) {
    const char *dir = check_tmpdir(t);
    golden_file file;
    if (!make(t, kind, 0, at(dir, "p"))) return;
    CHECK_U64(t, entries(at(dir, "p")), 3);
    if (!CHECK(t, golden_open(at(dir, "p/model.safetensors"), &file))) return;
    CHECK_U64(t, golden_tensors_hold(t, kind, &file), tensors);
    CHECK_U64(t, golden_count(&file), tensors);
    golden_close(&file);
    static const char *const beside[] = {"config.json", "engram-token-map.bin"};
    for (size_t i = 0; i < COUNT(beside); i++) {
        char *got = NULL;
        char *want = NULL;
        size_t got_n = 0;
        size_t want_n = 0;
        CHECK(t, golden_read(at(at(dir, "p"), beside[i]), &got, &got_n));
        CHECK(t, golden_read(at(at(GOLDEN, kind), beside[i]), &want, &want_n));
        CHECKF(t, got_n == want_n && memcmp(got, want, got_n) == 0, "%s differs", beside[i]);
        free(got);
        free(want);
    }
}

static void tiny_bf16_has_every_golden_digest(check_case *t) {
    pack_is_golden(t, "tiny-bf16", 669);
}

static void tiny_exl3_has_every_golden_digest(check_case *t) {
    pack_is_golden(t, "tiny-exl3", 2052);
}

static void more_layers_keep_every_golden_tensor(check_case *t) {
    const char *dir = check_tmpdir(t);
    golden_file file;
    golden_tensor tensor;
    if (!make(t, "tiny-exl3", 14, at(dir, "p"))) return;
    if (!CHECK(t, golden_open(at(dir, "p/model.safetensors"), &file))) return;
    CHECK_U64(t, golden_tensors_hold(t, "tiny-exl3", &file), 2052);
    CHECK(t, golden_find(&file, "layers.13.attn.wq_a.trellis", &tensor));
    CHECK(t, golden_find(&file, "layers.12.attn.indexer.wq_b.trellis", &tensor));
    CHECK(t, !golden_find(&file, "layers.13.attn.indexer.wq_b.trellis", &tensor));
    CHECK(t, !golden_find(&file, "layers.14.attn.wq_a.trellis", &tensor));
    golden_close(&file);
}

/* Bytes of a whole file. */
static tf_digest file_digest(check_case *t, const char *path) {
    char *data = NULL;
    size_t n = 0;
    CHECK(t, golden_read(path, &data, &n));
    tf_digest digest = digest_bytes(data, n);
    free(data);
    return digest;
}

static void workers_never_show(check_case *t) {
    const char *dir = check_tmpdir(t);
    tf_digest digest[2];
    for (uint32_t i = 0; i < 2; i++) {
        synth_request request = {.model = builtin_find("tiny-exl3"), .workers = i == 0 ? 1 : 5};
        char path[1200];
        tf_error err = {0};
        snprintf(path, sizeof path, "%s/%u", dir, i);
        CHECK_U64(t, synth_make(&request, path, &err), TF_OK);
        digest[i] = file_digest(t, at(path, "model.safetensors"));
    }
    CHECK(t, digest_equal(digest[0], digest[1]));
}

static void elements_are_aligned_without_gaps(check_case *t) {
    const char *dir = check_tmpdir(t);
    golden_file file;
    if (!make(t, "tiny-exl3", 0, at(dir, "p"))) return;
    if (!CHECK(t, golden_open(at(dir, "p/model.safetensors"), &file))) return;
    CHECK_U64(t, file.data_begin % 8, 0);
    size_t expected = 0;
    const char *end = file.bytes + file.data_begin;
    const char *key = "\"data_offsets\":[";
    for (const char *p = file.bytes + 8; (p = golden_seek(p, end, key)) != NULL;) {
        size_t begin = 0;
        size_t stop = 0;
        p += strlen(key);
        CHECK_U64(t, sscanf(p, "%zu,%zu", &begin, &stop), 2);
        if (!CHECK_U64(t, begin, expected)) break;
        expected = stop;
    }
    CHECK_U64(t, file.data_begin + expected, file.n);
    golden_tensor norm;
    golden_tensor fn;
    CHECK(t, golden_find(&file, "norm.weight", &norm) && norm.begin % 2 == 0);
    CHECK(t, golden_find(&file, "layers.3.hc_ffn_fn", &fn) && fn.begin % 4 == 0);
    golden_close(&file);
}

/* What the headers of one flash shard add up to. */
typedef struct figures {
    uint64_t tensors, linears, trellis_bytes, weights;
} figures;

static bool add_shard(check_case *t, const char *path, figures *sum) {
    golden_file file;
    if (!CHECKF(t, golden_open(path, &file), "%s", path)) return false;
    const char *end = file.bytes + file.data_begin;
    CHECKF(t, file.n == file.data_begin, "%s has data", path);
    CHECKF(t, golden_seek(file.bytes + 8, end, "\"tfverify_header_only\":\"1\"") != NULL, "%s",
           path);
    const char *mark = ".trellis\":{\"dtype\":\"I16\",\"shape\":[";
    for (const char *p = file.bytes + 8; (p = golden_seek(p, end, mark)) != NULL;) {
        unsigned long long shape[3] = {0};
        unsigned long long offset[2] = {0};
        p += strlen(mark);
        CHECK_U64(t,
                  sscanf(p, "%llu,%llu,%llu],\"data_offsets\":[%llu,%llu]", &shape[0], &shape[1],
                         &shape[2], &offset[0], &offset[1]),
                  5);
        sum->linears++;
        sum->trellis_bytes += offset[1] - offset[0];
        sum->weights += shape[0] * shape[1] * 256;
    }
    sum->tensors += golden_count(&file);
    golden_close(&file);
    return true;
}

static void flash_has_the_figures_of_the_release(check_case *t) {
    const char *dir = check_tmpdir(t);
    figures sum = {0};
    char **names = NULL;
    size_t count = 0;
    tf_error err = {0};
    if (!make(t, "flash", 0, at(dir, "p"))) return;
    CHECK_U64(t, io_list(at(dir, "p"), &names, &count, &err), TF_OK);
    for (size_t i = 0; i < count; i++) {
        if (strstr(names[i], ".safetensors") == NULL || strstr(names[i], ".json") != NULL) continue;
        add_shard(t, at(at(dir, "p"), names[i]), &sum);
    }
    io_free_names(names, count);
    CHECK_U64(t, sum.linears, 47900);
    CHECK_U64(t, sum.trellis_bytes, 207106834432);
    double bits = (double)sum.trellis_bytes * 8 / (double)sum.weights;
    CHECKF(t, bits > 2.93115 && bits < 2.93125, "%.6f bits a weight", bits);

    char *index = NULL;
    size_t n = 0;
    size_t indexed = 0;
    CHECK(t, golden_read(at(dir, "p/model.safetensors.index.json"), &index, &n));
    for (const char *p = index; (p = golden_seek(p, index + n, ".safetensors\"")) != NULL; p++) {
        indexed++;
    }
    CHECK_U64(t, indexed, sum.tensors);
    free(index);
}

static void flash_keeps_its_tables_apart(check_case *t) {
    const char *dir = check_tmpdir(t);
    golden_file file;
    golden_tensor table;
    if (!make(t, "flash", 0, at(dir, "p"))) return;
    static const char *const layer[] = {"layers.1", "layers.14"};
    static const char *const rows[] = {"384006168", "384016682"};
    for (size_t i = 0; i < 2; i++) {
        char name[100];
        char want[64];
        snprintf(name, sizeof name, "p/engram-0000%zu-of-00002.safetensors", i + 1);
        if (!CHECK(t, golden_open(at(dir, name), &file))) return;
        CHECK_U64(t, golden_count(&file), 2);
        snprintf(name, sizeof name, "%s.engram.embed.weight", layer[i]);
        snprintf(want, sizeof want, "%sx256", rows[i]);
        CHECK(t, golden_find(&file, name, &table));
        CHECK_STR(t, table.shape, want);
        CHECK_STR(t, table.dtype, "F8_E4M3");
        golden_close(&file);
    }
    /* Names that the text model ignores are there, to be ignored. */
    if (!CHECK(t, golden_open(at(dir, "p/model-00001-of-00044.safetensors"), &file))) return;
    CHECK(t, golden_find(&file, "vision.patch_embed.weight", &table));
    CHECK(t, golden_find(&file, "aligner.proj.weight", &table));
    CHECK(t, golden_find(&file, "layers.0.ffn.gate.bias_vl", &table));
    golden_close(&file);
}

static void wrong_requests_are_refused_by_name(check_case *t) {
    const char *dir = check_tmpdir(t);
    const builtin_model *model = NULL;
    tf_error err = {0};
    CHECK_U64(t, synth_model("tiny-bf61", &model, &err), TF_USAGE);
    CHECK_STR(t, tf_word_text(err.word), "unknown-builtin");
    CHECK(t, strstr(err.expected, "tiny-bf16, tiny-exl3, flash") != NULL);

    static const struct {
        const char *kind;
        uint32_t layers;
    } tries[] = {{"tiny-exl3", 10}, {"tiny-exl3", TF_LAYERS_MAX}, {"flash", 41}, {"flash", 1}};
    for (size_t i = 0; i < COUNT(tries); i++) {
        synth_request request = {.model = builtin_find(tries[i].kind), .layers = tries[i].layers};
        err = (tf_error){0};
        CHECK_U64(t, synth_make(&request, at(dir, "p"), &err), TF_USAGE);
        CHECK_STR(t, tf_word_text(err.word), "layers-out-of-range");
    }
    CHECK_U64(t, entries(dir), 0);
}

static void what_is_there_stays(check_case *t) {
    const char *dir = check_tmpdir(t);
    tf_error err = {0};
    synth_request request = {.model = builtin_find("tiny-bf16")};
    CHECK_U64(t, io_make_dirs(at(dir, "p"), &err), TF_OK);
    CHECK_U64(t, io_write_file(at(dir, "p/mine"), "x", 1, &err), TF_OK);
    CHECK_U64(t, synth_make(&request, at(dir, "p"), &err), TF_REFUSED);
    CHECK_STR(t, tf_word_text(err.word), "folder-exists");
    CHECK_U64(t, entries(at(dir, "p")), 1);
    CHECK_U64(t, entries(dir), 1);
}

/* Stops after so many calls: by its answer, or as Ctrl-C does. */
typedef struct stopper {
    unsigned calls, after;
    bool by_flag;
    uint64_t last, total;
    bool ordered;
} stopper;

static bool stop_later(void *context, const char *unit, uint64_t done, uint64_t total) {
    stopper *s = context;
    s->ordered = s->ordered && strcmp(unit, "bytes") == 0 && done > s->last && done <= total;
    s->last = done;
    s->total = total;
    if (++s->calls < s->after) return true;
    if (s->by_flag) tf_stop_request();
    return s->by_flag;
}

static void interrupted_leaves_nothing(check_case *t) {
    const char *dir = check_tmpdir(t);
    for (unsigned after = 1; after <= 6; after++) {
        for (unsigned by_flag = 0; by_flag < 2; by_flag++) {
            stopper s = {.after = after, .by_flag = by_flag == 1, .ordered = true};
            synth_request request = {
                .model = builtin_find("tiny-exl3"), .progress = stop_later, .context = &s};
            tf_error err = {0};
            tf_status status = synth_make(&request, at(dir, "p"), &err);
            tf_stop_reset();
            CHECKF(t, status == TF_INTERRUPTED, "after %u: %s", after, tf_status_text(status));
            CHECK_STR(t, tf_word_text(err.word), "interrupted");
            CHECK_U64(t, entries(dir), 0);
        }
    }
}

static void progress_ends_at_the_total(check_case *t) {
    const char *dir = check_tmpdir(t);
    static const char *const kinds[] = {"tiny-bf16", "flash"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        stopper s = {.after = 1000000, .ordered = true};
        synth_request request = {
            .model = builtin_find(kinds[i]), .progress = stop_later, .context = &s};
        tf_error err = {0};
        CHECK_U64(t, synth_make(&request, at(dir, kinds[i]), &err), TF_OK);
        CHECK(t, s.ordered && s.calls > 2);
        CHECK_U64(t, s.last, s.total);
    }
}

static void places_that_cannot_be_written_are_named(check_case *t) {
    const char *dir = check_tmpdir(t);
    tf_error err = {0};
    synth_request request = {.model = builtin_find("tiny-bf16")};
    CHECK_U64(t, io_write_file(at(dir, "file"), "x", 1, &err), TF_OK);
    static const char *const places[] = {"file/p", "file/deep/p"};
    for (size_t i = 0; i < COUNT(places); i++) {
        err = (tf_error){0};
        CHECK_U64(t, synth_make(&request, at(dir, places[i]), &err), TF_IO);
        CHECK_STR(t, tf_word_text(err.word), "cannot-write");
        CHECK(t, strstr(err.what, "file") != NULL && err.remedy[0] != '\0');
    }
    CHECK_U64(t, entries(dir), 1);
}

static void survives_every_failed_step(check_case *t) {
#ifdef TF_FAULT
    static const fault_kind kinds[] = {FAULT_WRITE, FAULT_ALLOC, FAULT_READ};
    const char *dir = check_tmpdir(t);
    for (size_t k = 0; k < COUNT(kinds); k++) {
        bool fired = true;
        uint64_t step = 1;
        for (uint64_t n = 1; fired; n += step) {
            char path[1200];
            tf_error err = {0};
            synth_request request = {
                .model = builtin_find("tiny-bf16"), .workers = 1, .list_digests = true};
            snprintf(path, sizeof path, "%s/p", dir);
            fault_arm(kinds[k], n);
            tf_status status = synth_make(&request, path, &err);
            fired = fault_fired(kinds[k]);
            fault_arm(kinds[k], 0);
            CHECKF(t, (status == TF_OK) == !fired, "kind %zu fault %llu: %s", k,
                   (unsigned long long)n, tf_status_text(status));
            CHECKF(t, entries(dir) == (fired ? 0 : 1), "kind %zu fault %llu leaves %zu names", k,
                   (unsigned long long)n, entries(dir));
            if (n > 60) step = n / 4; /* the windows, and the names of tensors: alike */
            io_remove_tree(path, &err);
            if (check_failed(t)) return;
        }
    }
#else
    check_skip(t, "this build has no fault injection");
#endif
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"synth/tiny-bf16-has-every-golden-digest", tiny_bf16_has_every_golden_digest},
        {"synth/tiny-exl3-has-every-golden-digest", tiny_exl3_has_every_golden_digest},
        {"synth/more-layers-keep-every-golden-tensor", more_layers_keep_every_golden_tensor},
        {"synth/workers-never-show", workers_never_show},
        {"synth/elements-are-aligned-without-gaps", elements_are_aligned_without_gaps},
        {"synth/flash-has-the-figures-of-the-release", flash_has_the_figures_of_the_release},
        {"synth/flash-keeps-its-tables-apart", flash_keeps_its_tables_apart},
        {"synth/wrong-requests-are-refused-by-name", wrong_requests_are_refused_by_name},
        {"synth/what-is-there-stays", what_is_there_stays},
        {"synth/interrupted-leaves-nothing", interrupted_leaves_nothing},
        {"synth/progress-ends-at-the-total", progress_ends_at_the_total},
        {"synth/places-that-cannot-be-written-are-named", places_that_cannot_be_written_are_named},
        {"synth/survives-every-failed-step", survives_every_failed_step},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
