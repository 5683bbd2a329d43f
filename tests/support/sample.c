#include "tests/support/sample.h"

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

/* What the known models share; tiny and flash differ in the numbers that follow. */
static void set_common(tf_config *c) {
    snprintf(c->family, sizeof c->family, "deepseek_v41");
    c->draft_layers = 3;
    c->groups = 8;
    c->o_lora = 128;
    c->shared_experts = 1;
    c->hc_mult = 4;
    c->engram_count = 2;
    c->engram_ngram = 4;
    c->engram_heads = 8;
    c->draft_target_count = 3;
    c->digest = digest_str("a config");
}

static void set_tiny(tf_config *c, bool exl3) {
    c->hidden = exl3 ? 256 : 64;
    c->vocab = 1280;
    c->target_layers = 11;
    c->heads = 16;
    c->head_dim = c->q_lora = c->markov_rank = exl3 ? 128 : 64;
    c->index_heads = 16;
    c->index_head_dim = exl3 ? 128 : 32;
    c->routed_experts = 6;
    c->draft_routed_experts = 4;
    c->expert_width = 640;
    c->engram_layers[0] = 1;
    c->engram_layers[1] = 4;
    c->engram_head_dim = 32;
    c->engram_vocab = 120;
    c->engram_rows[0] = 4488;
    c->engram_rows[1] = 7806;
    c->exl3 = exl3;
}

static void set_flash(tf_config *c) {
    c->hidden = 5120;
    c->vocab = 129280;
    c->target_layers = 40;
    c->heads = 64;
    c->head_dim = 512;
    c->q_lora = 1280;
    c->o_lora = 1024;
    c->markov_rank = 256;
    c->index_heads = 32;
    c->index_head_dim = 128;
    c->routed_experts = 384;
    c->draft_routed_experts = 128;
    c->expert_width = 2304;
    c->engram_layers[0] = 1;
    c->engram_layers[1] = 14;
    c->engram_head_dim = 256;
    c->engram_vocab = 16000000;
    c->engram_rows[0] = 384006168;
    c->engram_rows[1] = 384016682;
    c->exl3 = true;
}

static bool is_in(uint32_t value, const uint32_t *list) {
    for (; *list != 0; list++) {
        if (*list == value) return true;
    }
    return false;
}

static void set_layers(tf_config *c, uint32_t ratio1, const uint32_t *kv, const uint32_t *index) {
    c->layers = c->target_layers + c->draft_layers;
    for (uint32_t i = 0; i < c->layers; i++) {
        config_layer *l = &c->layer[i];
        bool draft = i >= c->target_layers;
        l->kind = draft ? LAYER_DRAFT : LAYER_TARGET;
        l->ratio = draft || i < 2 ? 0 : i < ratio1 ? 2 : 1;
        l->owns_kv = is_in(i, kv);
        l->owns_index = is_in(i, index);
        l->engram = i == c->engram_layers[0] ? 0 : i == c->engram_layers[1] ? 1 : CONFIG_NONE;
        l->routed_experts = draft ? c->draft_routed_experts : c->routed_experts;
    }
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
    fclose(f);
}

static void take_inventory(tf_pack *pack) {
    inventory_tensor *list;
    size_t count;
    tf_error err = {0};
    tf_status status = inventory_list(&pack->config, builtin_find("flash")->bits, &pack->arena,
                                      &list, &count, &err);
    TF_ASSERT(status == TF_OK);
    for (size_t i = 0; i < count; i++)
        append(pack, list[i].name, list[i].dtype, list[i].dims, list[i].shape);
}

tf_pack *sample_pack(const char *name) {
    tf_pack *pack = need(mem_take(sizeof *pack));
    tf_config *c = &pack->config;
    bool flash = strcmp(name, "flash") == 0;
    uint32_t room = flash ? 250000 : 4000;
    arena_init(&pack->arena, 0);
    pack->tensors = need(arena_array(&pack->arena, room, sizeof *pack->tensors));
    snprintf(pack->name, sizeof pack->name, "%s", name);
    pack->digest = digest_str(name);
    set_common(c);
    if (flash) {
        set_flash(c);
        set_layers(c, 20, (uint32_t[]){2, 8, 14, 20, 0},
                   (uint32_t[]){2, 8, 14, 20, 24, 28, 32, 36, 0});
        take_inventory(pack);
    } else {
        set_tiny(c, strcmp(name, "tiny-exl3") == 0);
        set_layers(c, 6, (uint32_t[]){2, 4, 6, 0}, (uint32_t[]){2, 4, 6, 8, 10, 0});
        read_golden(pack, name);
    }
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
