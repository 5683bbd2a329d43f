#include "tests/sample/sample.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/pack/builtin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *need(void *p) {
    TF_ASSERT(p != NULL);
    return p;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const pack_tensor *)a)->name, ((const pack_tensor *)b)->name);
}

static void sort(tf_pack *pack) {
    qsort(pack->tensors, pack->tensor_count, sizeof *pack->tensors, by_name);
}

void sample_resize(pack_tensor *t) {
    t->bytes = dtype_bytes(t->dtype);
    for (uint32_t i = 0; i < t->dims; i++)
        t->bytes *= t->shape[i];
}

/* Unsorted; arrays have room for TENSORS_MAX. */
static void append(tf_pack *pack, const char *name, tf_dtype dtype, uint32_t dims,
                   const uint64_t *shape) {
    pack_tensor *t = &pack->tensors[pack->tensor_count++];
    *t = (pack_tensor){.dtype = dtype, .dims = dims};
    t->name = need(arena_copy(&pack->arena, name, strlen(name)));
    for (uint32_t i = 0; i < dims; i++)
        t->shape[i] = shape[i];
    sample_resize(t);
}

static void read_golden(tf_pack *pack, const char *name) {
    char path[512], line[512];
    snprintf(path, sizeof path, "%s/tests/golden/%s/tensors.tsv", TF_SOURCE_DIR, name);
    FILE *f = need(fopen(path, "r"));
    TF_ASSERT(fgets(line, sizeof line, f) != NULL);
    while (fgets(line, sizeof line, f) != NULL) {
        char *rest = line;
        const char *tensor = strtok_r(line, "\t", &rest);
        const char *type = strtok_r(NULL, "\t", &rest);
        char *sizes = strtok_r(NULL, "\t", &rest);
        tf_dtype dtype;
        TF_ASSERT(tensor != NULL && type != NULL && sizes != NULL);
        TF_ASSERT(dtype_parse(type, strlen(type), &dtype));
        uint64_t shape[3];
        uint32_t dims = 0;
        for (char *s = sizes; *s >= '0' && *s <= '9' && dims < 3; s += *s == 'x')
            shape[dims++] = strtoull(s, &s, 10);
        append(pack, tensor, dtype, dims, shape);
    }
    (void)fclose(f);
}

static void take_inventory(tf_pack *pack, const builtin_model *model) {
    inventory_tensor *list;
    size_t count;
    tf_error err = {0};
    tf_status status =
        inventory_list(&pack->config, model->bits, &pack->arena, &list, &count, &err);
    TF_ASSERT(status == TF_OK);
    for (size_t i = 0; i < count; i++)
        append(pack, list[i].name, list[i].dtype, list[i].dims, list[i].shape);
}

static void set_config(tf_pack *pack, const builtin_model *model) {
    tf_text json = {0};
    tf_error err = {0};
    builtin_config_json(model, model->layers, &json);
    tf_status status =
        config_parse("config.json", text_str(&json), json.length, &pack->config, &err);
    TF_ASSERT(status == TF_OK);
    text_free(&json);
}

tf_pack *sample_pack(const char *name) {
    tf_pack *pack = need(mem_take(sizeof *pack));
    const builtin_model *model = builtin_find(name);
    uint32_t room = model->header_only ? 250000 : 4000;
    arena_init(&pack->arena, 0);
    pack->tensors = need(arena_array(&pack->arena, room, sizeof *pack->tensors));
    snprintf(pack->name, sizeof pack->name, "%s", name);
    pack->digest = digest_str(name);
    set_config(pack, model);
    if (model->header_only)
        take_inventory(pack, model);
    else
        read_golden(pack, name);
    TF_ASSERT(pack->tensor_count > 0 && pack->tensor_count < room - 10);
    sort(pack);
    return pack;
}

void sample_free(tf_pack *pack) {
    arena_free(&pack->arena);
    mem_free(pack);
}

pack_tensor *sample_find(tf_pack *pack, const char *name) {
    pack_tensor key = {.name = name};
    return need(bsearch(&key, pack->tensors, pack->tensor_count, sizeof key, by_name));
}

void sample_add(tf_pack *pack, const char *name, tf_dtype dtype, uint32_t dims,
                const uint64_t *shape) {
    append(pack, name, dtype, dims, shape);
    sort(pack);
}

void sample_remove(tf_pack *pack, const char *name) {
    pack_tensor *t = sample_find(pack, name);
    *t = pack->tensors[--pack->tensor_count];
    sort(pack);
}

void sample_rename(tf_pack *pack, const char *from, const char *to) {
    sample_find(pack, from)->name = need(arena_copy(&pack->arena, to, strlen(to)));
    sort(pack);
}

unsigned char *sample_bytes(const pack_tensor *tensor) {
    unsigned char *bytes = need(mem_take(tensor->bytes));
    tf_digest name = digest_str(tensor->name);
    uint64_t state;
    memcpy(&state, name.bytes, sizeof state);
    for (uint64_t i = 0; i < tensor->bytes; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)(state >> 56);
    }
    return bytes;
}
