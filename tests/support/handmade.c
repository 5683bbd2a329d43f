#include "tests/support/handmade.h"

#include "tests/support/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum {
    CUT_WHOLE,
    CUT_ROWS,
    CUT_COLUMNS,
    CUT_STRIP,  /* eight columns of very many */
    CUT_PIECES, /* a whole range, then spread bytes */
} cut;

typedef struct recipe {
    const char *name;
    tf_dtype dtype;
    uint32_t dims;
    uint64_t shape[3];
    cut cut;
    bool big;
} recipe;

/* The first two are the small ones. */
static const recipe recipes[] = {
    {"norm", DTYPE_F32, 1, {37}, CUT_WHOLE, false},
    {"cols", DTYPE_BF16, 2, {16, 24}, CUT_COLUMNS, false},
    {"scalar", DTYPE_I32, 0, {0}, CUT_WHOLE, false},
    {"rows", DTYPE_BF16, 2, {12, 700}, CUT_ROWS, false},
    {"strip", DTYPE_U8, 2, {5, 9000}, CUT_STRIP, false},
    {"pieces", DTYPE_U8, 1, {64}, CUT_PIECES, false},
    {"empty", DTYPE_F32, 1, {0}, CUT_WHOLE, false},
    {"deep", DTYPE_F16, 3, {4, 3, 512}, CUT_COLUMNS, false},
    {"big", DTYPE_U8, 1, {9000001}, CUT_WHOLE, true},
    {"bigcols", DTYPE_BF16, 2, {1500, 4096}, CUT_COLUMNS, true},
};

static uint64_t bytes_of(const recipe *r) {
    uint64_t n = dtype_bytes(r->dtype);
    for (uint32_t i = 0; i < r->dims; i++)
        n *= r->shape[i];
    return n;
}

static bool used(const recipe *r, const handmade_options *o, uint32_t layer) {
    if (o->small) return r < recipes + 2;
    return !r->big || (o->big && layer == 0);
}

static void must(bool held, const char *what) {
    if (held) return;
    printf("Bail out! %s\n", what);
    exit(1);
}

void handmade_change(handmade *h, uint64_t seed) {
    char path[1200];
    check_random r = {.state = seed * 0x9E3779B97F4A7C15u};
    for (size_t i = 0; i < h->bytes; i++)
        h->data[i] = (uint8_t)(check_next(&r) >> 32);
    snprintf(path, sizeof path, "%s/data.bin", h->pack.dir);
    FILE *f = fopen(path, "wb");
    must(f != NULL && fwrite(h->data, 1, h->bytes, f) == h->bytes && fclose(f) == 0, path);
}

void handmade_pack(const char *dir, handmade_options options, handmade *out) {
    *out = (handmade){.layers = options.layers};
    tf_pack *p = &out->pack;
    arena_init(&p->arena, 0);
    snprintf(p->dir, sizeof p->dir, "%s", dir);
    snprintf(p->name, sizeof p->name, "handmade");
    snprintf(p->config.family, sizeof p->config.family, "handmade");
    p->config.digest = digest_str("config");
    p->digest = digest_str("inventory");
    p->tensors = calloc(COUNT(recipes) * (options.layers + 1), sizeof *p->tensors);
    out->shard.file = "data.bin";
    /* Tensors begin at odd places, as in a real shard. */
    uint64_t at = 13;
    for (uint32_t l = 0; l <= options.layers; l++) {
        for (const recipe *r = recipes; r < recipes + COUNT(recipes); r++) {
            if (!used(r, &options, l - 1)) continue;
            pack_tensor *x = &p->tensors[p->tensor_count++];
            *x = (pack_tensor){.dtype = r->dtype, .dims = r->dims, .bytes = bytes_of(r)};
            memcpy(x->shape, r->shape, sizeof r->shape);
            x->name = l == 0 ? arena_print(&p->arena, "top.%s", r->name)
                             : arena_print(&p->arena, "layers.%u.%s", l - 1, r->name);
        }
    }
    /* Last to first: a plan's order is not the shard's. */
    for (uint32_t i = p->tensor_count; i > 0; i--) {
        p->tensors[i - 1].offset = at;
        at += p->tensors[i - 1].bytes;
    }
    out->bytes = (size_t)at;
    out->data = malloc(out->bytes);
    out->shard.size = at;
    p->shards = &out->shard;
    p->shard_count = 1;
    handmade_change(out, options.seed);
    char path[1200];
    snprintf(path, sizeof path, "%s/data.bin", dir);
    out->shard.fd = open(path, O_RDONLY | O_CLOEXEC);
    must(out->shard.fd >= 0, path);
}

void handmade_free(handmade *h) {
    close(h->shard.fd);
    arena_free(&h->pack.arena);
    free(h->pack.tensors);
    free(h->data);
}

static const recipe *recipe_of(const pack_tensor *x) {
    const char *name = strrchr(x->name, '.') + 1;
    for (const recipe *r = recipes; r < recipes + COUNT(recipes); r++) {
        if (strcmp(r->name, name) == 0) return r;
    }
    must(false, x->name);
    return NULL;
}

typedef struct made {
    uint64_t shape[TF_DIMS_MAX];
    plan_span spans[2];
} made;

static void cut_rows(const pack_tensor *x, made *m, uint32_t world, uint32_t rank) {
    uint64_t row = x->bytes / x->shape[0];
    uint64_t begin = x->shape[0] * rank / world, end = x->shape[0] * (rank + 1) / world;
    m->shape[0] = end - begin;
    m->spans[0] = (plan_span){begin * row, (end - begin) * row, 0, 1};
}

static void cut_columns(const pack_tensor *x, made *m, uint64_t begin, uint64_t end) {
    uint32_t last = x->dims - 1;
    uint64_t size = dtype_bytes(x->dtype), row = x->shape[last] * size;
    m->shape[last] = end - begin;
    m->spans[0] = (plan_span){begin * size, (end - begin) * size, row, x->bytes / row};
}

static void cut_item(plan_item *item, made *m, uint32_t world, uint32_t rank) {
    const pack_tensor *x = item->tensor;
    const recipe *r = recipe_of(x);
    uint64_t columns = x->dims == 0 ? 1 : x->shape[x->dims - 1];
    memcpy(m->shape, x->shape, sizeof m->shape);
    m->spans[0] = (plan_span){0, x->bytes, 0, 1};
    item->span_count = x->bytes == 0 ? 0 : 1;
    if (r->cut == CUT_ROWS) cut_rows(x, m, world, rank);
    if (r->cut == CUT_COLUMNS)
        cut_columns(x, m, columns * rank / world, columns * (rank + 1) / world);
    if (r->cut == CUT_STRIP) cut_columns(x, m, 8u * rank, 8u * rank + 8);
    if (r->cut == CUT_PIECES) {
        m->shape[0] = 16;
        m->spans[0] = (plan_span){rank, 8, 0, 1};
        m->spans[1] = (plan_span){32 + rank % 4, 2, 8, 4};
        item->span_count = 2;
    }
    item->shape = m->shape;
    item->spans = m->spans;
    for (uint32_t i = 0; i < item->span_count; i++)
        item->bytes += item->spans[i].length * item->spans[i].count;
}

tf_plan *handmade_plan(const handmade *h, uint32_t world, uint32_t rank) {
    tf_plan *plan = calloc(1, sizeof *plan);
    char text[64];
    plan->pack = &h->pack;
    plan->world = world;
    plan->rank = rank;
    snprintf(text, sizeof text, "plan world %u rank %u", world, rank);
    plan->fingerprint = digest_str(text);
    arena_init(&plan->arena, 0);
    plan->items = arena_array(&plan->arena, h->pack.tensor_count, sizeof *plan->items);
    made *parts = arena_array(&plan->arena, h->pack.tensor_count, sizeof *parts);
    must(plan->items != NULL && parts != NULL, "no memory");
    for (uint32_t i = 0; i < h->pack.tensor_count; i++) {
        plan_item *item = &plan->items[plan->item_count++];
        unsigned layer = CONFIG_NONE;
        item->tensor = &h->pack.tensors[i];
        item->image = item->tensor->name;
        if (sscanf(item->image, "layers.%u.", &layer) != 1) layer = CONFIG_NONE;
        item->layer = layer;
        cut_item(item, &parts[i], world, rank);
        plan->bytes += item->bytes;
    }
    return plan;
}

void handmade_plan_free(tf_plan *plan) {
    arena_free(&plan->arena);
    free(plan);
}

void handmade_gather(const handmade *h, const plan_item *item, uint8_t *to) {
    for (uint32_t s = 0; s < item->span_count; s++) {
        plan_span span = item->spans[s];
        for (uint64_t i = 0; i < span.count * span.length; i++) {
            uint64_t within = span.offset + i / span.length * span.stride + i % span.length;
            *to++ = h->data[item->tensor->offset + within];
        }
    }
}
