/* realpath is of the X/Open level. */
#define _XOPEN_SOURCE 700

#include "engine/pack/pack.h"

#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/base/thread.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_NAME  "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"
#define READ_BYTES  (4u << 20)

/* ---- one shard ---- */

typedef struct collect {
    tf_pack *pack;
    pack_tensor *list; /* heap, grows */
    size_t count, capacity;
    uint32_t shard;
} collect;

static tf_status take_tensor(void *context, const pack_tensor *tensor, tf_error *err) {
    collect *c = context;
    if (c->count == c->capacity) {
        size_t capacity = c->capacity == 0 ? 1024 : c->capacity * 2;
        pack_tensor *grown = mem_grow(c->list, capacity * sizeof *grown);
        if (grown == NULL) return tf_fail(err, TF_W_NO_MEMORY, "listing tensors");
        c->list = grown;
        c->capacity = capacity;
    }
    if (c->count >= TF_TENSORS_MAX) {
        tf_fail(err, TF_W_TOO_LARGE, "listing the tensors of %s", c->pack->dir);
        return tf_expected(err, "at most %u tensors", TF_TENSORS_MAX);
    }
    pack_tensor *t = &c->list[c->count];
    *t = *tensor;
    t->shard = c->shard;
    t->name = arena_copy(&c->pack->arena, tensor->name, strlen(tensor->name));
    if (t->name == NULL) return tf_fail(err, TF_W_NO_MEMORY, "listing tensors");
    c->count++;
    return TF_OK;
}

static tf_status read_length(int fd, const char *path, uint64_t size, uint64_t *length,
                             tf_error *err) {
    uint8_t le[8];
    if (size < sizeof le) {
        tf_fail(err, TF_W_TRUNCATED_FILE, "reading %s", path);
        tf_found(err, "%llu bytes", (unsigned long long)size);
        return tf_expected(err, "at least the 8 bytes of the header's length");
    }
    tf_status status = io_read_at(fd, path, le, sizeof le, 0, err);
    if (status != TF_OK) return status;
    *length = 0;
    for (int i = 7; i >= 0; i--)
        *length = *length << 8 | le[i];
    if (*length > TF_HEADER_BYTES_MAX) {
        tf_fail(err, TF_W_TOO_LARGE, "reading the header of %s", path);
        tf_found(err, "a header of %llu bytes", (unsigned long long)*length);
        return tf_expected(err, "at most %llu, as safetensors allows", TF_HEADER_BYTES_MAX);
    }
    if (*length <= size - sizeof le) return TF_OK;
    tf_fail(err, TF_W_TRUNCATED_FILE, "reading the header of %s", path);
    tf_found(err, "%llu bytes in the file", (unsigned long long)size);
    return tf_expected(err, "a header of %llu bytes after the first 8",
                       (unsigned long long)*length);
}

static tf_status open_shard(collect *c, uint32_t index, tf_error *err) {
    pack_shard *shard = &c->pack->shards[index];
    char path[2 * TF_PATH_BYTES_MAX];
    char *json = NULL;
    uint64_t length = 0;
    pack_header header;
    tf_status status = TF_OK;
    c->shard = index;
    snprintf(path, sizeof path, "%s/%s", c->pack->dir, shard->file);
    if (!io_exists(path)) {
        tf_fail(err, TF_W_MISSING_SHARD, "opening %s", path);
        tf_found(err, "no such file");
        return tf_remedy(err, "complete the download of %s", c->pack->dir);
    }
    TF_TRY(io_open(path, &shard->fd, &shard->size, err));
    TF_TRY(read_length(shard->fd, path, shard->size, &length, err));
    json = mem_take((size_t)length + 1);
    if (json == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "reading %s", path));
    TF_TRY(io_read_at(shard->fd, path, json, (size_t)length, 8, err));
    shard->header = digest_bytes(json, (size_t)length);
    shard->data_begin = 8 + length;
    header = (pack_header){path, json, (size_t)length, shard->data_begin,
                           shard->size - shard->data_begin};
    TF_TRY(pack_parse_header(&header, take_tensor, c, &shard->header_only, err));
    if (shard->header_only) {
        io_close(&shard->fd);
        c->pack->header_only = true;
    }
done:
    mem_free(json);
    return status;
}

/* ---- the index ---- */

typedef struct index_entry {
    const char *tensor; /* the document owns */
    const char *file;
} index_entry;

static int by_file(const void *a, const void *b) {
    return strcmp(((const index_entry *)a)->file, ((const index_entry *)b)->file);
}

/* Indexes and headers mostly come sorted; finding that out costs one walk. */
static void sort_unless_sorted(void *list, size_t count, size_t size,
                               int (*order)(const void *, const void *)) {
    const char *at = list;
    for (size_t i = 1; i < count; i++) {
        if (order(at + (i - 1) * size, at + i * size) <= 0) continue;
        qsort(list, count, size, order);
        return;
    }
}

static int by_tensor(const void *a, const void *b) {
    return strcmp(((const index_entry *)a)->tensor, ((const index_entry *)b)->tensor);
}

static tf_status check_shard_name(const char *index, const char *tensor, const char *file,
                                  tf_error *err) {
    size_t n = strlen(file);
    const char *suffix = ".safetensors";
    size_t k = strlen(suffix);
    bool good = n > k && n < TF_NAME_BYTES_MAX && file[0] != '.' && strchr(file, '/') == NULL &&
                strcmp(file + n - k, suffix) == 0;
    if (good) return TF_OK;
    tf_fail(err, TF_W_BAD_SHARD_NAME, "reading %s: tensor %s", index, tensor);
    tf_found(err, "the file '%s'", file);
    return tf_expected(err, "the name of a .safetensors file in the same folder");
}

/* Lists the index's entries by file; entries is heap, its strings the document's. */
static tf_status list_index(const char *path, const json_doc *doc, index_entry **entries,
                            size_t *count, tf_error *err) {
    const json_value *map = json_get(json_root(doc), "weight_map");
    *count = json_count(map);
    if (!json_is_object(map) || *count == 0) {
        tf_fail(err, TF_W_BAD_JSON, "reading %s: weight_map", path);
        tf_found(err, "%s", json_is_object(map) ? "an empty object" : "no object");
        return tf_expected(err, "an object of tensor names and file names");
    }
    *entries = mem_take(*count * sizeof **entries);
    if (*entries == NULL) return tf_fail(err, TF_W_NO_MEMORY, "reading %s", path);
    size_t i = 0;
    for (const json_value *m = json_first(map); m != NULL; m = json_next(m)) {
        const char *file = json_string(m);
        tf_status status = check_shard_name(path, json_key(m), file, err);
        if (status != TF_OK) return status;
        (*entries)[i++] = (index_entry){json_key(m), file};
    }
    sort_unless_sorted(*entries, *count, sizeof **entries, by_file);
    return TF_OK;
}

static tf_status take_shards(tf_pack *pack, const index_entry *entries, size_t count,
                             tf_error *err) {
    uint32_t shards = 0;
    for (size_t i = 0; i < count; i++)
        shards += i == 0 || strcmp(entries[i].file, entries[i - 1].file) != 0;
    if (shards > TF_SHARDS_MAX) {
        tf_fail(err, TF_W_TOO_LARGE, "opening pack %s", pack->dir);
        tf_found(err, "%u shards", shards);
        return tf_expected(err, "at most %u", TF_SHARDS_MAX);
    }
    pack->shards = arena_array(&pack->arena, shards, sizeof *pack->shards);
    if (pack->shards == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening pack %s", pack->dir);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(entries[i].file, entries[i - 1].file) == 0) continue;
        const char *file = arena_copy(&pack->arena, entries[i].file, strlen(entries[i].file));
        if (file == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening pack %s", pack->dir);
        pack->shards[pack->shard_count++] = (pack_shard){.file = file, .fd = -1};
    }
    return TF_OK;
}

/* Every tensor must be where the index says, and nothing more may be there. */
static tf_status compare_index(const tf_pack *pack, const char *path, index_entry *entries,
                               size_t count, tf_error *err) {
    sort_unless_sorted(entries, count, sizeof *entries, by_tensor);
    size_t i = 0;
    uint32_t k = 0;
    while (i < count || k < pack->tensor_count) {
        int order = i == count                ? 1
                    : k == pack->tensor_count ? -1
                                              : strcmp(entries[i].tensor, pack->tensors[k].name);
        if (order < 0) {
            tf_fail(err, TF_W_INDEX_DIFFERS, "reading %s: tensor %s", path, entries[i].tensor);
            tf_found(err, "no such tensor in any shard");
            return tf_expected(err, "it in %s", entries[i].file);
        }
        const char *file = pack->shards[pack->tensors[k].shard].file;
        if (order > 0) {
            tf_fail(err, TF_W_INDEX_DIFFERS, "reading %s: tensor %s", path, pack->tensors[k].name);
            return tf_found(err, "it in %s, but not in the index", file);
        }
        if (strcmp(entries[i].file, file) != 0) {
            tf_fail(err, TF_W_INDEX_DIFFERS, "reading %s: tensor %s", path, entries[i].tensor);
            tf_found(err, "it in %s", file);
            return tf_expected(err, "it in %s", entries[i].file);
        }
        i++;
        k++;
    }
    return TF_OK;
}

tf_status pack_parse_index(const char *name, const char *json, size_t n, size_t *entries,
                           tf_error *err) {
    json_doc *doc = NULL;
    index_entry *list = NULL;
    *entries = 0;
    tf_status status = json_parse(name, json, n, &doc, err);
    if (status == TF_OK) status = list_index(name, doc, &list, entries, err);
    json_free(doc);
    mem_free(list);
    return status;
}

/* ---- opening ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const pack_tensor *)a)->name, ((const pack_tensor *)b)->name);
}

static tf_status sort_tensors(tf_pack *pack, collect *c, tf_error *err) {
    sort_unless_sorted(c->list, c->count, sizeof *c->list, by_name);
    pack->tensors = arena_array(&pack->arena, c->count, sizeof *pack->tensors);
    if (pack->tensors == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening pack %s", pack->dir);
    if (c->count > 0) memcpy(pack->tensors, c->list, c->count * sizeof *c->list);
    pack->tensor_count = (uint32_t)c->count;
    for (size_t i = 1; i < c->count; i++) {
        if (strcmp(c->list[i - 1].name, c->list[i].name) != 0) continue;
        tf_fail(err, TF_W_DUPLICATE_TENSOR, "opening pack %s: tensor %s", pack->dir,
                c->list[i].name);
        tf_found(err, "it in %s at offset %llu and in %s at offset %llu",
                 pack->shards[c->list[i - 1].shard].file, (unsigned long long)c->list[i - 1].offset,
                 pack->shards[c->list[i].shard].file, (unsigned long long)c->list[i].offset);
        return tf_expected(err, "each name once");
    }
    return TF_OK;
}

static tf_status digest_inventory(tf_pack *pack, tf_error *err) {
    digest_state *state = digest_begin();
    if (state == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening pack %s", pack->dir);
    for (uint32_t i = 0; i < pack->tensor_count; i++) {
        const pack_tensor *t = &pack->tensors[i];
        /* Names and dtypes end in NUL, so that no two lists feed the same bytes. */
        digest_add(state, t->name, strlen(t->name) + 1);
        digest_add(state, dtype_name(t->dtype), strlen(dtype_name(t->dtype)) + 1);
        digest_add_u64(state, t->dims);
        for (uint32_t d = 0; d < t->dims; d++)
            digest_add_u64(state, t->shape[d]);
    }
    pack->digest = digest_end(state);
    return TF_OK;
}

static tf_status set_dir(tf_pack *pack, const char *dir, tf_error *err) {
    char real[PATH_MAX];
    const char *path = realpath(dir, real) == NULL ? dir : real;
    int n = snprintf(pack->dir, sizeof pack->dir, "%s", dir);
    const char *slash = strrchr(path, '/');
    const char *last = slash == NULL || slash[1] == '\0' ? path : slash + 1;
    size_t keep = strlen(last) < sizeof pack->name ? strlen(last) : sizeof pack->name - 1;
    memcpy(pack->name, last, keep);
    if (n > 0 && (size_t)n < sizeof pack->dir) return TF_OK;
    tf_fail(err, TF_W_TOO_LARGE, "opening a pack");
    tf_found(err, "a path of %d bytes", n);
    return tf_expected(err, "a path of 1 to %u bytes", TF_PATH_BYTES_MAX - 1);
}

/* Index or single file: the entries to look for. */
static tf_status find_shards(tf_pack *pack, const char *index_path, json_doc **doc,
                             index_entry **entries, size_t *count, tf_error *err) {
    char single[TF_PATH_BYTES_MAX + 32];
    snprintf(single, sizeof single, "%s/%s", pack->dir, SINGLE_NAME);
    if (io_exists(index_path)) {
        tf_status status = json_read(index_path, TF_JSON_BYTES_MAX, doc, err);
        if (status == TF_OK) status = list_index(index_path, *doc, entries, count, err);
        return status == TF_OK ? take_shards(pack, *entries, *count, err) : status;
    }
    if (!io_exists(single)) {
        tf_fail(err, TF_W_NO_WEIGHTS, "opening pack %s", pack->dir);
        tf_found(err, "neither %s nor %s", INDEX_NAME, SINGLE_NAME);
        return tf_remedy(err, "give the folder of a complete release");
    }
    const index_entry one = {"", SINGLE_NAME};
    return take_shards(pack, &one, 1, err);
}

static tf_status load(tf_pack *pack, collect *c, tf_error *err) {
    char index_path[TF_PATH_BYTES_MAX + 64];
    json_doc *doc = NULL;
    index_entry *entries = NULL;
    size_t count = 0;
    tf_status status = TF_OK;
    snprintf(index_path, sizeof index_path, "%s/%s", pack->dir, INDEX_NAME);
    TF_TRY(config_read(pack->dir, &pack->config, err));
    TF_TRY(find_shards(pack, index_path, &doc, &entries, &count, err));
    for (uint32_t i = 0; i < pack->shard_count; i++)
        TF_TRY(open_shard(c, i, err));
    TF_TRY(sort_tensors(pack, c, err));
    if (count > 0) TF_TRY(compare_index(pack, index_path, entries, count, err));
    TF_TRY(digest_inventory(pack, err));
done:
    json_free(doc);
    mem_free(entries);
    return status;
}

tf_status pack_open(const char *dir, tf_pack **out, tf_error *err) {
    *out = NULL;
    tf_pack *pack = mem_take(sizeof *pack);
    if (pack == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening pack %s", dir);
    arena_init(&pack->arena, 0);
    collect c = {.pack = pack};
    tf_status status = set_dir(pack, dir, err);
    if (status == TF_OK) status = load(pack, &c, err);
    mem_free(c.list);
    if (status != TF_OK) {
        pack_close(pack);
        return status;
    }
    arena_seal(&pack->arena);
    *out = pack;
    return TF_OK;
}

void pack_close(tf_pack *pack) {
    if (pack == NULL) return;
    for (uint32_t i = 0; i < pack->shard_count; i++)
        io_close(&pack->shards[i].fd);
    arena_free(&pack->arena);
    mem_free(pack);
}

/* ---- asking ---- */

const pack_tensor *pack_find(const tf_pack *pack, const char *name) {
    if (pack->tensor_count == 0) return NULL;
    pack_tensor key = {.name = name};
    return bsearch(&key, pack->tensors, pack->tensor_count, sizeof key, by_name);
}

tf_status pack_read(const tf_pack *pack, const pack_tensor *tensor, uint64_t offset, void *to,
                    size_t n, tf_error *err) {
    const pack_shard *shard = &pack->shards[tensor->shard];
    if (shard->header_only) {
        tf_fail(err, TF_W_HEADER_ONLY_PACK, "reading %s of pack %s", tensor->name, pack->dir);
        tf_found(err, "headers alone in %s", shard->file);
        return tf_remedy(err, "use a pack with its weights for work on bytes");
    }
    if (offset > tensor->bytes || n > tensor->bytes - offset) {
        tf_fail(err, TF_W_CANNOT_READ, "reading %s of pack %s", tensor->name, pack->dir);
        tf_found(err, "bytes %llu to %llu asked for", (unsigned long long)offset,
                 (unsigned long long)offset + n);
        return tf_expected(err, "at most its %llu", (unsigned long long)tensor->bytes);
    }
    char path[2 * TF_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%s", pack->dir, shard->file);
    return io_read_at(shard->fd, path, to, n, tensor->offset + offset, err);
}

/* ---- content ---- */

typedef struct content {
    const tf_pack *pack;
    tf_digest *digests; /* [tensor_count] */
    void **buffers;     /* [workers], READ_BYTES each, taken on first use */
} content;

static tf_status digest_tensor(void *context, size_t index, uint32_t worker, tf_error *err) {
    content *c = context;
    const pack_tensor *t = &c->pack->tensors[index];
    if (c->buffers[worker] == NULL) c->buffers[worker] = mem_take(READ_BYTES);
    digest_state *state = digest_begin();
    if (c->buffers[worker] == NULL || state == NULL) {
        if (state != NULL) digest_end(state);
        return tf_fail(err, TF_W_NO_MEMORY, "digesting %s", t->name);
    }
    tf_status status = TF_OK;
    for (uint64_t at = 0; at < t->bytes && status == TF_OK; at += READ_BYTES) {
        uint64_t left = t->bytes - at;
        size_t n = left < READ_BYTES ? (size_t)left : READ_BYTES;
        status = pack_read(c->pack, t, at, c->buffers[worker], n, err);
        if (status == TF_OK) digest_add(state, c->buffers[worker], n);
    }
    c->digests[index] = digest_end(state);
    return status;
}

tf_status pack_content_digest(const tf_pack *pack, uint32_t workers, tf_digest *out,
                              tf_error *err) {
    workers = thread_workers(workers, pack->tensor_count);
    content c = {.pack = pack};
    c.digests = mem_take(pack->tensor_count * sizeof *c.digests);
    c.buffers = mem_take(workers * sizeof *c.buffers);
    tf_status status = TF_OK;
    if (c.digests == NULL || c.buffers == NULL) {
        TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "digesting pack %s", pack->dir));
    }
    TF_TRY(thread_run(workers, pack->tensor_count, digest_tensor, &c, err));
    *out = digest_bytes(c.digests, pack->tensor_count * sizeof *c.digests);
done:
    for (uint32_t i = 0; c.buffers != NULL && i < workers; i++)
        mem_free(c.buffers[i]);
    mem_free(c.buffers);
    mem_free(c.digests);
    return status;
}
