/* Models, inventories and values of the built-in packs, before anything is written. */
#include "engine/base/arena.h"
#include "engine/base/digest.h"
#include "engine/pack/builtin.h"
#include "engine/pack/inventory.h"
#include "engine/pack/recipe.h"
#include "tests/support/check.h"
#include "tests/support/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN TF_SOURCE_DIR "/tests/golden/"

static void generator_gives_the_published_values(check_case *t) {
    static const uint64_t bits[4] = {0x335f2402de994412, 0x1a235987027fae47, 0xc22f187c17d2fcf6,
                                     0xe020d0e4655de1dc};
    static const double normal[4] = {-0.9062557813780162, -1.4854771784232366, -0.11192747839416445,
                                     1.6795993339852526};
    static const double unit[2] = {0.20067048139626298, 0.10210189386498192};
    uint64_t key = recipe_key(14, "embed.weight");
    CHECK_U64(t, key, 0x35f3c4426c98a872);
    for (size_t i = 0; i < 4; i++) {
        CHECK_U64(t, recipe_bits(key, i), bits[i]);
        CHECKF(t, memcmp(&(double){recipe_normal(bits[i])}, &normal[i], 8) == 0, "normal %zu", i);
    }
    for (size_t i = 0; i < 2; i++) {
        CHECKF(t, memcmp(&(double){recipe_unit(bits[i])}, &unit[i], 8) == 0, "unit %zu", i);
    }
}

/* The config and the inventory of a built-in model. */
typedef struct listed {
    const builtin_model *model;
    tf_config config;
    tf_arena arena;
    inventory_tensor *tensors;
    size_t count;
} listed;

static bool list(check_case *t, const char *name, uint32_t layers, listed *out) {
    tf_text json = {0};
    tf_error err = {0};
    char line[2048];
    memset(out, 0, sizeof *out);
    arena_init(&out->arena, 0);
    out->model = builtin_find(name);
    if (!CHECK(t, out->model != NULL)) return false;
    builtin_config_json(out->model, layers == 0 ? out->model->layers : layers, &json);
    tf_status status = config_parse("config.json", json.data, json.length, &out->config, &err);
    if (status == TF_OK) {
        status = inventory_list(&out->config, out->model->bits, &out->arena, &out->tensors,
                                &out->count, &err);
    }
    text_free(&json);
    return CHECKF(t, status == TF_OK, "%s", tf_error_line(&err, line, sizeof line));
}

static void any_part_equals_the_whole(check_case *t) {
    static listed l;
    check_random random = check_seed(t);
    if (!list(t, "tiny-exl3", 0, &l)) return;
    for (size_t i = 0; i < l.count; i += 1 + check_below(&random, 40)) {
        const inventory_tensor *tensor = &l.tensors[i];
        uint32_t width = dtype_bytes(tensor->dtype);
        uint64_t elements = tensor->bytes / width;
        uint8_t *whole = malloc(tensor->bytes);
        uint8_t *part = malloc(tensor->bytes);
        if (!CHECK(t, whole != NULL && part != NULL)) return;
        recipe_values(l.model, tensor, 0, elements, whole);
        uint64_t begin = check_below(&random, elements);
        uint64_t count = 1 + check_below(&random, elements - begin);
        recipe_values(l.model, tensor, begin, count, part);
        CHECKF(t, memcmp(part, whole + begin * width, count * width) == 0,
               "%s from %llu, %llu elements", tensor->name, (unsigned long long)begin,
               (unsigned long long)count);
        free(whole);
        free(part);
    }
    arena_free(&l.arena);
}

/* The window that cuts a row in which a pair was added. */
static void preferred_tokens_survive_any_cut(check_case *t) {
    static listed l;
    if (!list(t, "tiny-bf16", 0, &l)) return;
    for (size_t i = 0; i < l.count; i++) {
        if (l.tensors[i].role != ROLE_MARKOV_HEAD) continue;
        enum {
            ELEMENTS = 1280 * 64
        };
        static uint16_t whole[ELEMENTS];
        static uint16_t parts[ELEMENTS];
        CHECK_U64(t, l.tensors[i].bytes, sizeof whole);
        recipe_values(l.model, &l.tensors[i], 0, ELEMENTS, whole);
        for (uint64_t at = 0; at < ELEMENTS; at += 37) {
            uint64_t n = ELEMENTS - at < 37 ? ELEMENTS - at : 37;
            recipe_values(l.model, &l.tensors[i], at, n, parts + at);
        }
        CHECK(t, memcmp(whole, parts, sizeof whole) == 0);
    }
    arena_free(&l.arena);
}

static void configs_equal_the_golden_bytes(check_case *t) {
    static const char *const names[] = {"tiny-bf16", "tiny-exl3"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char path[600];
        char *want = NULL;
        size_t n = 0;
        tf_text got = {0};
        snprintf(path, sizeof path, GOLDEN "%s/config.json", names[i]);
        if (!CHECK(t, golden_read(path, &want, &n))) return;
        builtin_config_json(builtin_find(names[i]), 11, &got);
        CHECK_STR(t, text_str(&got), want);
        text_free(&got);
        free(want);
    }
}

static void preferences_equal_the_golden_list(check_case *t) {
    static const char *const names[] = {"tiny-bf16", "tiny-exl3"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const builtin_model *m = builtin_find(names[i]);
        char path[600];
        char *want = NULL;
        size_t n = 0;
        tf_text got = {0};
        snprintf(path, sizeof path, GOLDEN "%s/synth.json", names[i]);
        if (!CHECK(t, golden_read(path, &want, &n))) return;
        text_print(&got, "{\"kind\":\"%s\",\"seed\":%llu,\"markov_pairs\":[", names[i] + 5,
                   (unsigned long long)m->seed);
        for (size_t p = 0; p < m->markov_pairs->count; p++) {
            text_print(&got, "%s[%u,%u]", p == 0 ? "" : ",", m->markov_pairs->at[p][0],
                       m->markov_pairs->at[p][1]);
        }
        text_add(&got, "],\"markov_boost\":");
        text_f64(&got, m->markov_boost);
        text_char(&got, '}');
        CHECK_STR(t, text_str(&got), want);
        text_free(&got);
        free(want);
    }
}

static void more_layers_extend_the_roles(check_case *t) {
    static listed l;
    if (!list(t, "tiny-exl3", 20, &l)) return;
    CHECK_U64(t, l.config.target_layers, 20);
    CHECK_U64(t, l.config.layers, 23);
    for (uint32_t i = 11; i < 20; i++) {
        CHECK_U64(t, l.config.layer[i].ratio, 1);
        CHECK_U64(t, l.config.layer[i].owns_kv, false);
        CHECK_U64(t, l.config.layer[i].owns_index, i % 2 == 0);
    }
    CHECK_U64(t, l.config.layer[22].ratio, 0);
    arena_free(&l.arena);
}

/* MODEL 2: the figures that the real release's headers add up to. */
static void flash_counts_of_each_width(check_case *t) {
    static listed l;
    if (!list(t, "flash", 0, &l)) return;
    uint32_t count[LINEAR_COUNT][2][9] = {{{0}}};
    for (size_t i = 0; i < l.count; i++) {
        const inventory_tensor *tensor = &l.tensors[i];
        if (tensor->role != ROLE_TRELLIS) continue;
        bool draft = tensor->layer != CONFIG_NONE && tensor->layer >= 40;
        count[tensor->linear][draft][tensor->shape[2] / 16]++;
    }
    static const struct {
        inventory_linear linear;
        uint32_t draft, bits, want;
    } figures[] = {
        {LINEAR_WQ_A, 0, 5, 39},        {LINEAR_WQ_A, 0, 6, 1},
        {LINEAR_WKV, 0, 5, 39},         {LINEAR_WKV, 0, 6, 1},
        {LINEAR_SHARED_W1, 0, 4, 19},   {LINEAR_SHARED_W1, 0, 5, 21},
        {LINEAR_SHARED_W3, 0, 4, 19},   {LINEAR_SHARED_W3, 0, 5, 21},
        {LINEAR_SHARED_W2, 0, 4, 18},   {LINEAR_SHARED_W2, 0, 5, 22},
        {LINEAR_EXPERT_W1, 0, 2, 1920}, {LINEAR_EXPERT_W1, 0, 3, 13440},
        {LINEAR_EXPERT_W2, 0, 2, 1920}, {LINEAR_EXPERT_W2, 0, 3, 13440},
        {LINEAR_EXPERT_W3, 0, 2, 1920}, {LINEAR_EXPERT_W3, 0, 3, 13440},
        {LINEAR_EXPERT_W1, 1, 4, 384},  {LINEAR_EXPERT_W2, 1, 4, 384},
        {LINEAR_EXPERT_W3, 1, 4, 384},  {LINEAR_WO_A, 0, 5, 320},
        {LINEAR_WO_A, 1, 4, 24},        {LINEAR_COMPRESSOR_WKV, 0, 5, 4},
        {LINEAR_INDEXER_WK, 0, 8, 4},   {LINEAR_COMPRESSOR_WGATE, 0, 5, 3},
        {LINEAR_ENGRAM_WKV, 0, 5, 1},   {LINEAR_INDEXER_WQ_B, 0, 5, 8},
        {LINEAR_ENGRAM_WKV, 0, 4, 1},   {LINEAR_MAIN_PROJ, 1, 4, 1},
        {LINEAR_HEAD, 0, 6, 1},
    };
    for (size_t i = 0; i < COUNT(figures); i++) {
        CHECKF(t, count[figures[i].linear][figures[i].draft][figures[i].bits] == figures[i].want,
               "figure %zu: %u", i, count[figures[i].linear][figures[i].draft][figures[i].bits]);
    }
    arena_free(&l.arena);
}

/* Bytes of weights that a token reads: linears, of the experts only those that are chosen. */
static uint64_t read_of_a_token(const listed *l) {
    const tf_config *c = &l->config;
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->count; i++) {
        const inventory_tensor *tensor = &l->tensors[i];
        bool drafts = tensor->layer != CONFIG_NONE && tensor->layer >= c->target_layers;
        if (drafts || (tensor->role != ROLE_PLAIN && tensor->role != ROLE_TRELLIS)) continue;
        bool routed = strstr(tensor->name, ".experts.") != NULL;
        bytes += routed ? tensor->bytes * c->experts_per_tok / c->routed_experts : tensor->bytes;
    }
    return bytes;
}

static void bench_packs_are_wide_and_still_whole(check_case *t) {
    static listed l;
    static const struct {
        const char *name;
        uint64_t read, bytes;
    } sizes[] = {{"bench-bf16", 1500000000, 6000000000}, {"bench-exl3", 250000000, 2500000000}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        if (!list(t, sizes[i].name, 0, &l)) return;
        uint64_t bytes = 0;
        for (size_t k = 0; k < l.count; k++)
            bytes += l.tensors[k].bytes;
        CHECKF(t, bytes <= sizes[i].bytes, "%s has %llu bytes", sizes[i].name,
               (unsigned long long)bytes);
        CHECKF(t, read_of_a_token(&l) >= sizes[i].read, "a token of %s reads %llu bytes",
               sizes[i].name, (unsigned long long)read_of_a_token(&l));
        const tf_config *c = &l.config;
        /* World 8 has a unit of everything for each rank. */
        CHECK(t, c->groups == 8 && c->expert_width / 128 >= 8 && c->vocab / 128 >= 8);
        bool has[3] = {false};
        bool masked = false;
        for (uint32_t k = 0; k < c->target_layers; k++) {
            has[c->layer[k].ratio] = true;
            masked = masked || c->layer[k].uses_candidates;
        }
        CHECK(t, has[0] && has[1] && has[2] && masked && c->engram_count == 2);
        arena_free(&l.arena);
    }
}

static void tokens_share_no_more_ids_than_there_are(check_case *t) {
    CHECK_U64(t, (uint64_t)builtin_token(699, 990), 699);
    CHECK_U64(t, (uint64_t)builtin_token(701, 990), 700);
    CHECK_U64(t, (uint64_t)builtin_token(1279, 990), 989);
    for (uint32_t token = 0; token < 16384; token++)
        CHECK(t, builtin_token(token, 990) >= 0 && builtin_token(token, 990) < 990);
}

static void names_are_found_and_no_others(check_case *t) {
    size_t count = 0;
    for (const char *const *kind = builtin_kinds(); *kind != NULL; kind++)
        CHECK(t, builtin_find(*kind) != NULL);
    for (const char *const *name = builtin_names(); *name != NULL; name++) {
        const builtin_model *m = builtin_find(*name);
        if (CHECK(t, m != NULL)) CHECK_STR(t, m->name, *name);
        CHECK(t, !m->large);
        count++;
    }
    CHECK_U64(t, count, 3);
    CHECK(t, builtin_find("tiny") == NULL && builtin_find("") == NULL);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"recipe/generator-gives-the-published-values", generator_gives_the_published_values},
        {"recipe/any-part-equals-the-whole", any_part_equals_the_whole},
        {"recipe/preferred-tokens-survive-any-cut", preferred_tokens_survive_any_cut},
        {"builtin/configs-equal-the-golden-bytes", configs_equal_the_golden_bytes},
        {"builtin/preferences-equal-the-golden-list", preferences_equal_the_golden_list},
        {"builtin/more-layers-extend-the-roles", more_layers_extend_the_roles},
        {"builtin/names-are-found-and-no-others", names_are_found_and_no_others},
        {"builtin/tokens-share-no-more-ids-than-there-are",
         tokens_share_no_more_ids_than_there_are},
        {"inventory/flash-counts-of-each-width", flash_counts_of_each_width},
        {"inventory/bench-packs-are-wide-and-still-whole", bench_packs_are_wide_and_still_whole},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
