#include "engine/plan/plan.h"

#include "engine/base/check.h"
#include "engine/plan/parts.h"

#include <string.h>

#define BLOCK 128u /* of the expert width and of the vocabulary (MODEL 7) */

const char *plan_unit_name(plan_unit u) {
    switch (u) {
    case UNIT_GROUP:
        return "output groups";
    case UNIT_EXPERT_BLOCK:
        return "expert blocks";
    case UNIT_VOCAB_BLOCK:
        return "vocabulary blocks";
    case UNIT_ENGRAM_COLUMN:
        return "hash columns";
    case UNIT_NONE:
        break;
    }
    return "none";
}

const char *plan_category_name(plan_category c) {
    switch (c) {
    case BYTES_ATTENTION:
        return "attention";
    case BYTES_EXPERTS:
        return "experts";
    case BYTES_SHARED:
        return "shared";
    case BYTES_ROUTER:
        return "router";
    case BYTES_ENGRAM:
        return "engram";
    case BYTES_EMBED:
        return "embed";
    case BYTES_HEAD:
        return "head";
    case BYTES_DRAFT:
        return "draft";
    case BYTES_OTHER:
        return "other";
    case BYTES_CATEGORIES:
        break;
    }
    return "unknown category";
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* 4,2,2 and 2,1,1 are one plan, and so one fingerprint. */
static void set_weights(tf_plan *plan, const uint64_t *weights) {
    uint64_t divisor = 0;
    for (uint32_t r = 0; r < plan->world; r++) {
        plan->weights[r] = weights == NULL ? 1 : weights[r];
        divisor = common_divisor(plan->weights[r], divisor);
    }
    for (uint32_t r = 0; divisor > 1 && r < plan->world; r++)
        plan->weights[r] /= divisor;
}

static tf_status whole_blocks(const char *what, uint32_t size, uint32_t *blocks, tf_error *err) {
    *blocks = size / BLOCK;
    if (size % BLOCK == 0) return TF_OK;
    tf_fail(err, TF_W_SPLIT_NOT_ON_BLOCK, "cutting the %s into blocks of %u", what, BLOCK);
    tf_found(err, "%s %u", what, size);
    return tf_expected(err, "a multiple of %u", BLOCK);
}

static tf_status count_units(tf_plan *plan, tf_error *err) {
    const tf_config *c = &plan->pack->config;
    tf_status status = TF_OK;
    plan->units[UNIT_GROUP] = c->groups;
    plan->units[UNIT_ENGRAM_COLUMN] = c->engram_count == 0 ? 0 : config_engram_columns(c);
    TF_TRY(whole_blocks("expert width", c->expert_width, &plan->units[UNIT_EXPERT_BLOCK], err));
    TF_TRY(whole_blocks("vocabulary", c->vocab, &plan->units[UNIT_VOCAB_BLOCK], err));
done:
    return status;
}

static tf_status share_units(tf_plan *plan, tf_error *err) {
    canon_split split = {plan->world, plan->weights};
    for (int u = 0; u < (int)UNIT_COUNT; u++) {
        canon_range *ranges = arena_array(&plan->arena, plan->world, sizeof *ranges);
        if (ranges == NULL) return tf_fail(err, TF_W_NO_MEMORY, "sharing out units");
        plan->ranges[u] = ranges;
        if (plan->units[u] == 0) continue;
        tf_status status =
            canon_partition(plan_unit_name((plan_unit)u), plan->units[u], &split, ranges, err);
        if (status != TF_OK) return status;
        plan->range[u] = ranges[plan->rank];
    }
    return TF_OK;
}

static tf_status take_fingerprint(tf_plan *plan, tf_error *err) {
    digest_state *digest = digest_begin();
    if (digest == NULL) return tf_fail(err, TF_W_NO_MEMORY, "taking a plan's fingerprint");
    tf_status status = plan_write_text(plan, NULL, digest, err);
    plan->fingerprint = digest_end(digest);
    plan->text = arena_take(&plan->arena, sizeof *plan->text);
    if (status == TF_OK && plan->text == NULL)
        status = tf_fail(err, TF_W_NO_MEMORY, "taking a plan's fingerprint");
    return status;
}

tf_status plan_make(const tf_pack *pack, uint32_t world, uint32_t rank, const uint64_t *weights,
                    tf_plan **out, tf_error *err) {
    *out = NULL;
    tf_plan *plan = NULL;
    tf_status status = TF_OK;
    TF_TRY(admission_ask(TF_OP_PLAN, world, false, err));
    if (rank >= world) {
        tf_fail(err, TF_W_BAD_RANK, "planning %s", pack->name);
        tf_found(err, "rank %u", rank);
        return tf_expected(err, "0 to %u at %u ranks", world - 1, world);
    }
    plan = mem_take(sizeof *plan);
    if (plan == NULL) return tf_fail(err, TF_W_NO_MEMORY, "planning %s", pack->name);
    arena_init(&plan->arena, 0);
    plan->pack = pack;
    plan->world = world;
    plan->rank = rank;
    set_weights(plan, weights);
    TF_TRY(count_units(plan, err));
    TF_TRY(share_units(plan, err));
    TF_TRY(plan_fill_items(plan, err));
    TF_TRY(take_fingerprint(plan, err));
    arena_seal(&plan->arena);
    *out = plan;
done:
    if (status != TF_OK) {
        tf_under(err, "planning rank %u of %u", rank, world);
        plan_free(plan);
    }
    return status;
}

void plan_free(tf_plan *plan) {
    if (plan == NULL) return;
    if (plan->text != NULL) text_free(plan->text);
    arena_free(&plan->arena);
    mem_free(plan);
}

const char *plan_text(const tf_plan *plan) {
    tf_error ignored = {0};
    if (plan->text->length == 0 && plan_write_text(plan, plan->text, NULL, &ignored) != TF_OK)
        text_free(plan->text);
    return text_str(plan->text);
}

static uint32_t heads_per_group(const tf_plan *plan) {
    return plan->pack->config.heads / plan->pack->config.groups;
}

uint32_t plan_heads(const tf_plan *plan) {
    return canon_size(plan->range[UNIT_GROUP]) * heads_per_group(plan);
}

uint32_t plan_first_head(const tf_plan *plan) {
    return plan->range[UNIT_GROUP].begin * heads_per_group(plan);
}

uint32_t plan_groups(const tf_plan *plan) {
    return canon_size(plan->range[UNIT_GROUP]);
}

uint32_t plan_expert_width(const tf_plan *plan) {
    return canon_size(plan->range[UNIT_EXPERT_BLOCK]) * BLOCK;
}

uint32_t plan_vocab(const tf_plan *plan) {
    return canon_size(plan->range[UNIT_VOCAB_BLOCK]) * BLOCK;
}

uint32_t plan_first_vocab(const tf_plan *plan) {
    return plan->range[UNIT_VOCAB_BLOCK].begin * BLOCK;
}

void plan_layer_items(const tf_plan *plan, uint32_t layer, uint32_t *begin, uint32_t *end) {
    uint32_t slot = layer == CONFIG_NONE ? 0 : layer + 1;
    TF_ASSERT(slot <= plan->pack->config.layers);
    *begin = slot == 0 ? 0 : plan->layer_end[slot - 1];
    *end = plan->layer_end[slot];
}

const plan_item *plan_find(const tf_plan *plan, const char *image) {
    const pack_tensor *tensors = plan->pack->tensors;
    uint32_t begin = 0, end = plan->pack->tensor_count;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        int order = strcmp(tensors[middle].name, image);
        if (order == 0) {
            uint32_t item = plan->item_of[middle];
            return item < plan->item_count ? &plan->items[item] : NULL;
        }
        if (order < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return NULL;
}
