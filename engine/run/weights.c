#include "engine/run/weights.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was loaded under a name; one of the two. */
typedef struct held {
    struct held *next; /* in its bucket */
    const char *key;   /* image, or stem with the run of rows */
    port_tensor tensor;
    port_weight linear;
} held;

#define BUCKETS 4096u

struct weights {
    const tf_plan *plan;
    device *device;
    rankfile **files; /* [layers + 1]: top, then layers */
    uint32_t file_count;
    uint64_t bytes, bytes_read;
    bool (*progress)(void *, uint64_t, uint64_t);
    void *context;
    held *buckets[BUCKETS];
    tf_arena arena;
};

/* ---- opening ---- */

static tf_status open_file(weights *w, const char *dir, uint32_t index, tf_error *err) {
    char name[RANKFILE_NAME_SIZE];
    char path[TF_PATH_BYTES_MAX];
    uint32_t layer = index == 0 ? CONFIG_NONE : index - 1;
    rankfile_head want = rankfile_want(w->plan, layer);
    rankfile_name(layer, name);
    int n = snprintf(path, sizeof path, "%s/rank%u/%s", dir, w->plan->rank, name);
    if (n < 0 || (size_t)n >= sizeof path) {
        return tf_fail(err, TF_W_TOO_LARGE, "naming the rank files of %s", dir);
    }
    return rankfile_open(path, &want, &w->files[index], err);
}

tf_status weights_open(const tf_plan *plan, const char *dir, device *d, weights **out,
                       tf_error *err) {
    rankfile_checked checked = {0};
    tf_status status =
        rankfile_verify_rank(dir, plan->rank, plan, RANKFILE_VERIFY_NONE, NULL, &checked, err);
    rankfile_set_free(&checked.set);
    if (status != TF_OK) return status;
    weights *w = mem_take(sizeof *w);
    if (w == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening the rank files of %s", dir);
    w->plan = plan;
    w->device = d;
    arena_init(&w->arena, 0);
    uint32_t count = plan->pack->config.layers + 1;
    w->files = arena_array(&w->arena, count, sizeof(rankfile *));
    if (w->files == NULL) status = tf_fail(err, TF_W_NO_MEMORY, "opening the files of %s", dir);
    for (uint32_t i = 0; status == TF_OK && i < count; i++) {
        status = open_file(w, dir, i, err);
        w->file_count = i + 1;
    }
    for (uint32_t i = 0; i < plan->item_count; i++)
        w->bytes += plan->items[i].bytes;
    if (status != TF_OK) {
        weights_close(w);
        return status;
    }
    *out = w;
    return TF_OK;
}

void weights_close(weights *w) {
    if (w == NULL) return;
    for (uint32_t i = 0; i < w->file_count; i++)
        rankfile_close(w->files[i]);
    arena_free(&w->arena);
    mem_free(w);
}

uint64_t weights_bytes_read(const weights *w) {
    return w->bytes_read;
}

uint64_t weights_bytes(const weights *w) {
    return w->bytes;
}

void weights_progress(weights *w, bool (*progress)(void *, uint64_t, uint64_t), void *context) {
    w->progress = progress;
    w->context = context;
}

/* ---- finding ---- */

static held **bucket_of(weights *w, const char *key) {
    return &w->buckets[text_hash(key) % BUCKETS];
}

static held *find(weights *w, const char *key) {
    for (held *e = *bucket_of(w, key); e != NULL; e = e->next) {
        if (strcmp(e->key, key) == 0) return e;
    }
    return NULL;
}

static held *add(weights *w, const char *key, tf_error *err) {
    held *e = arena_take(&w->arena, sizeof *e);
    if (e != NULL) e->key = arena_copy(&w->arena, key, strlen(key));
    if (e == NULL || e->key == NULL) {
        tf_fail(err, TF_W_NO_MEMORY, "loading weight %s", key);
        return NULL;
    }
    return e;
}

/* Only what was loaded in whole can be found. */
static void keep_entry(weights *w, held *e) {
    held **bucket = bucket_of(w, e->key);
    e->next = *bucket;
    *bucket = e;
}

/* ---- reading ---- */

typedef struct payload {
    uint8_t *data; /* caller frees */
    const rankfile_entry *entry;
} payload;

static tf_status missing(const char *image, tf_error *err) {
    tf_fail(err, TF_W_WRONG_INDEX, "loading weight %s", image);
    tf_found(err, "no such entry in this rank's files");
    return tf_remedy(err, "write the rank files again: tfverify rank write");
}

/* Bytes [offset, offset + n) of an image's payload; n 0: to its end. */
static tf_status read_run(weights *w, const char *image, uint64_t offset, uint64_t n, payload *out,
                          tf_error *err) {
    const plan_item *item = plan_find(w->plan, image);
    if (item == NULL) return missing(image, err);
    const rankfile *file = w->files[item->layer == CONFIG_NONE ? 0 : item->layer + 1];
    const rankfile_entry *entry = rankfile_find(file, image);
    if (entry == NULL) return missing(image, err);
    if (n == 0) n = entry->bytes - offset;
    out->entry = entry;
    out->data = mem_take_aligned(64, n == 0 ? 1 : n);
    if (out->data == NULL) {
        tf_fail(err, TF_W_NO_MEMORY, "reading weight %s", image);
        return tf_found(err, "%llu bytes", (unsigned long long)n);
    }
    tf_status status = rankfile_read(file, entry, offset, out->data, n, err);
    if (status != TF_OK) return status;
    w->bytes_read += n;
    if (w->progress != NULL && !w->progress(w->context, w->bytes_read, w->bytes)) {
        return tf_fail(err, TF_W_INTERRUPTED, "loading weights");
    }
    return TF_OK;
}

/* ---- tensors ---- */

static tf_status place_tensor(weights *w, const payload *p, bool keep, port_tensor *out,
                              tf_error *err) {
    bool wide = !keep && (p->entry->dtype == DTYPE_BF16 || p->entry->dtype == DTYPE_F16);
    uint64_t bytes = wide ? p->entry->bytes * 2 : p->entry->bytes;
    device *d = w->device;
    tf_status status = d->ops->take(d, bytes, &out->data, err);
    out->dtype = wide ? DTYPE_F32 : p->entry->dtype;
    if (status != TF_OK) return status;
    d->memory_bytes -= bytes;
    d->weight_bytes += bytes;
    if (!wide) return d->ops->write(d, out->data, p->data, bytes, err);
    float *floats = mem_take_aligned(64, bytes);
    if (floats == NULL) return tf_fail(err, TF_W_NO_MEMORY, "widening weight %s", p->entry->name);
    dtype_widen(p->entry->dtype, p->data, p->entry->bytes / 2, floats);
    status = d->ops->write(d, out->data, floats, bytes, err);
    mem_free(floats);
    return status;
}

tf_status weights_tensor(weights *w, const char *image, bool keep, port_tensor *out,
                         tf_error *err) {
    held *e = find(w, image);
    if (e == NULL) {
        payload p = {0};
        e = add(w, image, err);
        if (e == NULL) return err->status;
        tf_status status = read_run(w, image, 0, 0, &p, err);
        if (status == TF_OK) status = place_tensor(w, &p, keep, &e->tensor, err);
        mem_free(p.data);
        if (status != TF_OK) return status;
        keep_entry(w, e);
    }
    out->data = e->tensor.data;
    out->dtype = e->tensor.dtype;
    return TF_OK;
}

/* ---- linears ---- */

static exl3_codebook codebook_of(const char *name) {
    exl3_codebook c = EXL3_DEFAULT;
    while (c < EXL3_CODEBOOKS && strcmp(exl3_codebook_name(c), name) != 0)
        c++;
    TF_ASSERT(c < EXL3_CODEBOOKS);
    return c;
}

static tf_status load_plain(weights *w, const char *image, device_source *s, uint64_t first_row,
                            port_linear *out, tf_error *err) {
    payload p = {0};
    uint64_t row = (uint64_t)s->k * dtype_bytes(s->dtype);
    tf_status status = read_run(w, image, first_row * row, s->n * row, &p, err);
    s->weight = p.data;
    if (status == TF_OK) status = w->device->ops->load(w->device, s, out, err);
    mem_free(p.data);
    return status;
}

static tf_status load_exl3(weights *w, const call_weight *of, int64_t index, device_source *s,
                           port_linear *out, tf_error *err) {
    static const char *const parts[3] = {".trellis", ".suh", ".svh"};
    payload p[3] = {{0}, {0}, {0}};
    char image[TF_NAME_BYTES_MAX];
    tf_status status = TF_OK;
    for (int i = 0; status == TF_OK && i < 3; i++) {
        bool fits = call_member_image(of, index, parts[i], image, sizeof image);
        TF_ASSERT(fits);
        status = read_run(w, image, 0, 0, &p[i], err);
    }
    s->trellis = (const uint16_t *)(const void *)p[0].data;
    s->suh = (const uint16_t *)(const void *)p[1].data;
    s->svh = (const uint16_t *)(const void *)p[2].data;
    if (status == TF_OK) status = w->device->ops->load(w->device, s, out, err);
    for (int i = 0; i < 3; i++)
        mem_free(p[i].data);
    return status;
}

static tf_status load_member(weights *w, const call_weight *of, uint32_t member, port_linear *out,
                             tf_error *err) {
    int64_t index = of->first.value + member;
    device_source s = {
        .form = of->form,
        .dtype = of->dtype,
        .k = (uint32_t)of->k.value,
        .n = (uint32_t)of->n.value,
    };
    if (of->form == WEIGHT_EXL3) {
        s.codebook = codebook_of(of->codebook);
        s.bits2 = of->bits2 != 0 ? of->bits2 : of->each[member];
        return load_exl3(w, of, index, &s, out, err);
    }
    char image[TF_NAME_BYTES_MAX];
    bool fits = call_member_image(of, index, ".weight", image, sizeof image);
    TF_ASSERT(fits);
    return load_plain(w, image, &s, (uint64_t)of->first_row.value, out, err);
}

static tf_status load_family(weights *w, const call_weight *of, port_weight *out, tf_error *err) {
    uint32_t count = of->count.value == 0 ? 1 : (uint32_t)of->count.value;
    port_linear *members = arena_array(&w->arena, count, sizeof *members);
    if (members == NULL) return tf_fail(err, TF_W_NO_MEMORY, "loading weight %s", of->stem);
    for (uint32_t i = 0; i < count; i++) {
        tf_status status = load_member(w, of, i, &members[i], err);
        if (status != TF_OK) return status;
    }
    *out = (port_weight){members, count, (uint32_t)of->first.value};
    return TF_OK;
}

/* A tensor [N, K] used as a linear: its role is the image's whole name. */
static tf_status load_matrix(weights *w, const call_tensor *t, port_weight *out, tf_error *err) {
    port_linear *one = arena_take(&w->arena, sizeof *one);
    if (one == NULL) return tf_fail(err, TF_W_NO_MEMORY, "loading weight %s", t->role);
    device_source s = {
        .form = WEIGHT_PLAIN,
        .dtype = t->dtype,
        .k = (uint32_t)t->shape[1].value,
        .n = (uint32_t)t->shape[0].value,
    };
    *out = (port_weight){one, 1, 0};
    return load_plain(w, t->role, &s, 0, one, err);
}

tf_status weights_linear(weights *w, const call_arg *arg, port_weight *out, tf_error *err) {
    char key[TF_NAME_BYTES_MAX + 64];
    bool matrix = arg->type == ARG_TENSOR;
    if (matrix) {
        snprintf(key, sizeof key, "%s as linear", arg->tensor.role);
    } else {
        snprintf(key, sizeof key, "%s rows %lld+%lld", arg->weight.stem,
                 (long long)arg->weight.first_row.value, (long long)arg->weight.n.value);
    }
    held *e = find(w, key);
    if (e == NULL) {
        e = add(w, key, err);
        if (e == NULL) return err->status;
        tf_status status = matrix ? load_matrix(w, &arg->tensor, &e->linear, err)
                                  : load_family(w, &arg->weight, &e->linear, err);
        if (status != TF_OK) return status;
        keep_entry(w, e);
    }
    *out = e->linear;
    return TF_OK;
}
