#include "engine/pack/synth.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/folder.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"
#include "engine/pack/recipe.h"
#include "engine/pack/sums.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A multiple of 8, so that no element is cut. */
#define WINDOW_BYTES ((uint64_t)4 << 20)

/* Raise when the recipe, the layout or a name changes: cached packs are then made anew. */
#define SYNTH_VERSION 1u

typedef struct shard {
    char file[64];
    const inventory_tensor **tensors; /* in file order */
    uint64_t *offsets;                /* count + 1, within the data */
    size_t count;
    tf_text header; /* the JSON, padded so that data begins on a multiple of 8 */
} shard;

typedef struct job {
    const synth_request *request;
    const builtin_model *model;
    uint32_t layers;
    tf_arena arena;
    tf_config config;
    tf_text config_json;
    shard *shards;
    size_t shard_count;
    uint64_t total_bytes;
    folder_writer folder;
    /* While a shard's data is written. */
    const shard *current;
    io_writer *writer;
    uint8_t *scratch;
    pthread_mutex_t lock; /* of done_bytes and the callback */
    uint64_t done_bytes;
} job;

tf_status synth_model(const char *name, const builtin_model **out, tf_error *err) {
    *out = builtin_find(name);
    if (*out != NULL) return TF_OK;
    tf_text names = {0};
    for (const char *const *n = builtin_kinds(); *n != NULL; n++) {
        text_print(&names, "%s%s", names.length == 0 ? "" : ", ", *n);
    }
    tf_fail(err, TF_W_UNKNOWN_BUILTIN, "looking for a built-in pack");
    tf_found(err, "'%s'", name);
    tf_expected(err, "one of %s", text_str(&names));
    text_free(&names);
    return err->status;
}

static tf_status choose_layers(job *j, tf_error *err) {
    const builtin_model *m = j->model;
    uint32_t most = m->scales ? TF_LAYERS_MAX - 8u : m->layers;
    j->layers = j->request->layers == 0 ? m->layers : j->request->layers;
    if (j->layers >= m->layers && j->layers <= most) return TF_OK;
    tf_fail(err, TF_W_LAYERS_OUT_OF_RANGE, "making %s", m->name);
    tf_found(err, "%u target layers", j->layers);
    return tf_expected(err, "%u to %u", m->layers, most);
}

void synth_recipe_text(const builtin_model *model, uint32_t layers, tf_text *out) {
    text_print(out, "synth %u %s seed %llu layers %u boost ", SYNTH_VERSION, model->name,
               (unsigned long long)model->seed, layers);
    text_f64(out, model->markov_boost);
    text_char(out, '\n');
    for (size_t i = 0; model->markov_pairs != NULL && i < model->markov_pairs->count; i++) {
        text_print(out, "pair %u %u\n", model->markov_pairs->at[i][0],
                   model->markov_pairs->at[i][1]);
    }
    builtin_config_json(model, layers, out);
    text_char(out, '\n');
}

/* ---- layout --------------------------------------------------------------------------------- */

/* Names of a real release that the text model does not use, so that ignoring them is exercised. */
static const inventory_tensor IGNORED[] = {
    {.name = "aligner.proj.weight", .dtype = DTYPE_BF16, .dims = 2, .shape = {5120, 1024}},
    {.name = "image_newline", .dtype = DTYPE_BF16, .dims = 1, .shape = {5120}},
    {.name = "layers.0.ffn.gate.bias_vl", .dtype = DTYPE_F16, .dims = 1, .shape = {384}},
    {.name = "mtp.0.ffn.gate.bias_vl", .dtype = DTYPE_F16, .dims = 1, .shape = {128}},
    {.name = "vision.blocks.0.attn.qkv.weight",
     .dtype = DTYPE_BF16,
     .dims = 2,
     .shape = {3072, 1024}},
    {.name = "vision.patch_embed.weight", .dtype = DTYPE_BF16, .dims = 2, .shape = {1024, 588}},
};
enum {
    IGNORED_COUNT = sizeof IGNORED / sizeof IGNORED[0]
};

/* One file when there is data.  Else as a real release: the top, a file a layer, and the tables of
 * engram apart. */
static size_t shard_of(const job *j, const inventory_tensor *t) {
    if (!j->model->header_only || t->layer == CONFIG_NONE) return 0;
    if (t->role == ROLE_ENGRAM_TABLE || t->role == ROLE_ENGRAM_SCALE) {
        return 1u + j->config.layers + j->config.layer[t->layer].engram;
    }
    return 1u + t->layer;
}

static void name_shards(job *j) {
    if (!j->model->header_only) {
        snprintf(j->shards[0].file, sizeof j->shards[0].file, "model.safetensors");
        return;
    }
    uint32_t layered = 1u + j->config.layers;
    for (uint32_t i = 0; i < j->shard_count; i++) {
        char *to = j->shards[i].file;
        bool table = i >= layered;
        snprintf(to, sizeof j->shards[i].file, "%s-%05u-of-%05u.safetensors",
                 table ? "engram" : "model", table ? i - layered + 1 : i + 1,
                 table ? j->config.engram_count : layered);
    }
}

/* Wider elements first, so that each is aligned in the file; then by name. */
static int by_width_and_name(const void *a, const void *b) {
    const inventory_tensor *x = *(const inventory_tensor *const *)a;
    const inventory_tensor *y = *(const inventory_tensor *const *)b;
    uint32_t wx = dtype_bytes(x->dtype);
    uint32_t wy = dtype_bytes(y->dtype);
    if (wx != wy) return wx > wy ? -1 : 1;
    return strcmp(x->name, y->name);
}

static tf_status lay_out_shard(job *j, shard *s, const inventory_tensor **tensors, tf_error *err) {
    s->tensors = tensors;
    s->offsets = arena_array(&j->arena, s->count + 1, sizeof *s->offsets);
    if (s->offsets == NULL) return tf_fail(err, TF_W_NO_MEMORY, "laying out %s", s->file);
    qsort(s->tensors, s->count, sizeof *s->tensors, by_width_and_name);
    text_add(&s->header, "{\"__metadata__\":{\"format\":\"pt\"");
    if (j->model->header_only) text_add(&s->header, ",\"tfverify_header_only\":\"1\"");
    text_char(&s->header, '}');
    uint64_t at = 0;
    for (size_t i = 0; i < s->count; i++) {
        const inventory_tensor *t = s->tensors[i];
        text_print(&s->header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name,
                   dtype_name(t->dtype));
        for (uint32_t d = 0; d < t->dims; d++) {
            if (d > 0) text_char(&s->header, ',');
            text_u64(&s->header, t->shape[d]);
        }
        text_add(&s->header, "],\"data_offsets\":[");
        text_u64(&s->header, at);
        s->offsets[i] = at;
        at += t->bytes;
        text_char(&s->header, ',');
        text_u64(&s->header, at);
        text_add(&s->header, "]}");
    }
    s->offsets[s->count] = at;
    text_char(&s->header, '}');
    static const char blanks[] = "       ";
    text_add_n(&s->header, blanks, (8 - s->header.length % 8) % 8);
    return text_done(&s->header, err);
}

/* Sorts tensors into shards; the list of pointers is grouped by shard with a counting sort. */
static tf_status lay_out(job *j, inventory_tensor *tensors, size_t count, tf_error *err) {
    size_t extra = j->model->header_only ? IGNORED_COUNT : 0;
    j->shard_count = j->model->header_only ? 1u + j->config.layers + j->config.engram_count : 1u;
    j->shards = arena_array(&j->arena, j->shard_count, sizeof *j->shards);
    const inventory_tensor **grouped = arena_array(&j->arena, count + extra, sizeof(void *));
    inventory_tensor *ignored = arena_array(&j->arena, IGNORED_COUNT, sizeof *ignored);
    size_t *next = arena_array(&j->arena, j->shard_count, sizeof *next);
    if (j->shards == NULL || grouped == NULL || ignored == NULL || next == NULL) {
        return tf_fail(err, TF_W_NO_MEMORY, "laying out %zu tensors", count);
    }
    for (size_t i = 0; i < extra; i++) {
        ignored[i] = IGNORED[i];
        ignored[i].layer = CONFIG_NONE;
        ignored[i].bytes = dtype_bytes(ignored[i].dtype);
        for (uint32_t d = 0; d < ignored[i].dims; d++) {
            ignored[i].bytes *= ignored[i].shape[d];
        }
    }
    for (size_t i = 0; i < count + extra; i++) {
        const inventory_tensor *t = i < count ? &tensors[i] : &ignored[i - count];
        j->shards[shard_of(j, t)].count++;
    }
    for (size_t s = 1; s < j->shard_count; s++) {
        next[s] = next[s - 1] + j->shards[s - 1].count;
    }
    for (size_t i = 0; i < count + extra; i++) {
        const inventory_tensor *t = i < count ? &tensors[i] : &ignored[i - count];
        grouped[next[shard_of(j, t)]++] = t;
    }
    name_shards(j);
    tf_status status = TF_OK;
    for (size_t s = 0; s < j->shard_count && status == TF_OK; s++) {
        shard *made = &j->shards[s];
        status = lay_out_shard(j, made, grouped + (next[s] - made->count), err);
        j->total_bytes += made->header.length + 8;
        if (!j->model->header_only) j->total_bytes += made->offsets[made->count];
    }
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

static tf_status tell(job *j, uint64_t bytes, tf_error *err) {
    if (j->request->progress == NULL) return TF_OK;
    pthread_mutex_lock(&j->lock);
    j->done_bytes += bytes;
    bool go = j->request->progress(j->request->context, "bytes", j->done_bytes, j->total_bytes);
    pthread_mutex_unlock(&j->lock);
    return go ? TF_OK : tf_fail(err, TF_W_INTERRUPTED, "making %s", j->folder.path);
}

/* Index of the tensor that holds data byte `at`. */
static size_t tensor_at(const shard *s, uint64_t at) {
    size_t begin = 0;
    size_t end = s->count;
    while (end - begin > 1) {
        size_t middle = begin + (end - begin) / 2;
        if (s->offsets[middle] <= at) {
            begin = middle;
        } else {
            end = middle;
        }
    }
    return begin;
}

static tf_status write_window(void *context, size_t index, uint32_t worker, tf_error *err) {
    job *j = context;
    const shard *s = j->current;
    uint8_t *buf = j->scratch + worker * WINDOW_BYTES;
    uint64_t begin = index * WINDOW_BYTES;
    uint64_t end = s->offsets[s->count];
    if (end - begin > WINDOW_BYTES) end = begin + WINDOW_BYTES;
    size_t i = tensor_at(s, begin);
    for (uint64_t at = begin; at < end; i++) {
        const inventory_tensor *t = s->tensors[i];
        uint64_t stop = s->offsets[i + 1] < end ? s->offsets[i + 1] : end;
        uint32_t width = dtype_bytes(t->dtype);
        TF_ASSERT((at - s->offsets[i]) % width == 0 && (stop - at) % width == 0);
        recipe_values(j->model, t, (at - s->offsets[i]) / width, (stop - at) / width,
                      buf + (at - begin));
        at = stop;
    }
    tf_status status =
        io_write_at(j->writer, buf, (size_t)(end - begin), 8 + s->header.length + begin, err);
    return status == TF_OK ? tell(j, end - begin, err) : status;
}

static tf_status write_shard(job *j, const shard *s, tf_error *err) {
    io_writer w = {.fd = -1};
    tf_status status = TF_OK;
    char path[TF_PATH_BYTES_MAX + 128];
    uint8_t length[8];
    for (uint32_t i = 0; i < 8; i++) {
        length[i] = (uint8_t)(s->header.length >> (8 * i));
    }
    TF_TRY(tf_stop_check(err));
    io_join(path, sizeof path, j->folder.temporary, s->file);
    TF_TRY(io_create(&w, path, err));
    TF_TRY(io_write(&w, length, sizeof length, err));
    TF_TRY(io_write(&w, s->header.data, s->header.length, err));
    TF_TRY(tell(j, 8 + s->header.length, err));
    if (!j->model->header_only) {
        size_t windows = (size_t)((s->offsets[s->count] + WINDOW_BYTES - 1) / WINDOW_BYTES);
        uint32_t workers = thread_workers(j->request->workers, windows);
        j->scratch = arena_take(&j->arena, workers * (size_t)WINDOW_BYTES);
        if (j->scratch == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "making %s", s->file));
        j->current = s;
        j->writer = &w;
        TF_TRY(thread_run(workers, windows, write_window, j, err));
    }
    TF_TRY(io_commit(&w, err));
done:
    io_discard(&w);
    return status;
}

static tf_status write_small(const job *j, const char *name, const void *data, size_t n,
                             tf_error *err) {
    char path[TF_PATH_BYTES_MAX + 128];
    io_join(path, sizeof path, j->folder.temporary, name);
    return io_write_file(path, data, n, err);
}

static tf_status write_token_map(job *j, tf_error *err) {
    uint32_t vocab = j->config.vocab;
    int32_t *map = arena_array(&j->arena, vocab, sizeof *map);
    if (map == NULL) return tf_fail(err, TF_W_NO_MEMORY, "making the token map");
    for (uint32_t token = 0; token < vocab; token++) {
        map[token] = builtin_token(token, (uint32_t)j->config.engram_compressed_vocab);
    }
    return write_small(j, "engram-token-map.bin", map, vocab * sizeof *map, err);
}

/* Which shard holds a tensor, as a release of several files says it. */
static tf_status write_index(const job *j, tf_error *err) {
    tf_text out = {0};
    uint64_t total = 0;
    for (size_t s = 0; s < j->shard_count; s++) {
        total += j->shards[s].offsets[j->shards[s].count];
    }
    text_print(&out, "{\"metadata\":{\"total_size\":%llu},\"weight_map\":{",
               (unsigned long long)total);
    const char *comma = "";
    for (size_t s = 0; s < j->shard_count; s++) {
        for (size_t i = 0; i < j->shards[s].count; i++) {
            text_add(&out, comma);
            text_char(&out, '"');
            text_add(&out, j->shards[s].tensors[i]->name);
            text_add(&out, "\":\"");
            text_add(&out, j->shards[s].file);
            text_char(&out, '"');
            comma = ",\n";
        }
    }
    text_add(&out, "}}\n");
    tf_status status = text_done(&out, err);
    if (status == TF_OK) {
        status = write_small(j, "model.safetensors.index.json", out.data, out.length, err);
    }
    text_free(&out);
    return status;
}

static tf_status write_all(job *j, const char *dir, tf_error *err) {
    tf_status status = TF_OK;
    uint64_t free_bytes = 0;
    TF_TRY(folder_create(&j->folder, dir, err));
    TF_TRY(io_free_bytes(j->folder.temporary, &free_bytes, err));
    if (free_bytes < j->total_bytes) {
        tf_fail(err, TF_W_NO_SPACE, "making %s", dir);
        tf_found(err, "%llu bytes free", (unsigned long long)free_bytes);
        tf_expected(err, "%llu", (unsigned long long)j->total_bytes);
        TF_TRY(tf_remedy(err, "free space there or choose another folder"));
    }
    TF_TRY(write_small(j, "config.json", j->config_json.data, j->config_json.length, err));
    if (j->model->header_only) {
        TF_TRY(write_index(j, err));
    } else {
        TF_TRY(write_token_map(j, err));
    }
    for (size_t s = 0; s < j->shard_count; s++) {
        TF_TRY(write_shard(j, &j->shards[s], err));
    }
    TF_TRY(tf_stop_check(err));
    if (j->request->list_digests) TF_TRY(sums_write(j->folder.temporary, err));
    TF_TRY(folder_commit(&j->folder, err));
done:
    folder_discard(&j->folder);
    return status;
}

tf_status synth_make(const synth_request *request, const char *dir, tf_error *err) {
    job *j = mem_take(sizeof *j);
    if (j == NULL) return tf_fail(err, TF_W_NO_MEMORY, "making %s", dir);
    tf_status status = TF_OK;
    inventory_tensor *tensors = NULL;
    size_t count = 0;
    j->request = request;
    j->model = request->model;
    arena_init(&j->arena, 0);
    pthread_mutex_init(&j->lock, NULL);
    TF_TRY(choose_layers(j, err));
    builtin_config_json(j->model, j->layers, &j->config_json);
    TF_TRY(text_done(&j->config_json, err));
    TF_TRY(
        config_parse("config.json", j->config_json.data, j->config_json.length, &j->config, err));
    TF_TRY(inventory_list(&j->config, j->model->bits, &j->arena, &tensors, &count, err));
    TF_TRY(lay_out(j, tensors, count, err));
    TF_TRY(write_all(j, dir, err));
done:
    for (size_t s = 0; j->shards != NULL && s < j->shard_count; s++) {
        text_free(&j->shards[s].header);
    }
    text_free(&j->config_json);
    arena_free(&j->arena);
    pthread_mutex_destroy(&j->lock);
    mem_free(j);
    return status;
}
