/* tf.h's plans: facts of a plan as a person, a script or a table asks for them. */
#include "engine/base/check.h"
#include "engine/plan/plan.h"
#include "engine/tf.h"

#include <assert.h>
#include <string.h>

static_assert(TF_UNITS == (int)UNIT_COUNT, "one share a unit");
static_assert(TF_CATEGORIES >= (int)BYTES_CATEGORIES, "one count a category");

tf_status tf_plan_make(const tf_pack *pack, const tf_split *split, tf_plan **out, tf_error *err) {
    return plan_make(pack, split->world, split->rank, split->has_weights ? split->weights : NULL,
                     out, err);
}

void tf_plan_close(tf_plan *plan) {
    plan_free(plan);
}

const char *tf_plan_text(const tf_plan *plan) {
    return plan_text(plan);
}

tf_digest tf_plan_fingerprint(const tf_plan *plan) {
    return plan->fingerprint;
}

void tf_plan_facts_of(const tf_plan *plan, tf_plan_facts *out) {
    *out = (tf_plan_facts){
        .world = plan->world,
        .rank = plan->rank,
        .weight = plan->weights[plan->rank],
        .heads = plan_heads(plan),
        .first_head = plan_first_head(plan),
        .expert_width = plan_expert_width(plan),
        .vocab = plan_vocab(plan),
        .first_vocab = plan_first_vocab(plan),
        .items = plan->item_count,
        .bytes = plan->bytes,
    };
    for (int u = 0; u < (int)UNIT_COUNT; u++)
        out->units[u] = (tf_unit_share){plan->units[u], plan->range[u].begin, plan->range[u].end};
    for (int c = 0; c < (int)BYTES_CATEGORIES; c++)
        out->category_bytes[c] = plan->category_bytes[c];
}

const char *tf_unit_name(uint32_t unit) {
    return plan_unit_name((plan_unit)unit);
}

uint32_t tf_category_count(void) {
    return BYTES_CATEGORIES;
}

const char *tf_category_name(uint32_t category) {
    return plan_category_name((plan_category)category);
}

static void json_u64(tf_text *out, const char *key, uint64_t value) {
    text_json(out, key);
    text_char(out, ':');
    text_u64(out, value);
    text_char(out, ',');
}

void tf_plan_json(const tf_plan *plan, tf_text *out) {
    tf_plan_facts f;
    tf_plan_facts_of(plan, &f);
    char hex[DIGEST_HEX];
    text_add(out, "{\"pack\":");
    text_json(out, plan->pack->name);
    text_char(out, ',');
    json_u64(out, "world", f.world);
    json_u64(out, "rank", f.rank);
    json_u64(out, "weight", f.weight);
    text_print(out, "\"fingerprint\":\"%s\",", digest_hex(plan->fingerprint, hex));
    text_add(out, "\"units\":{");
    for (uint32_t u = 0; u < TF_UNITS; u++) {
        text_add(out, u == 0 ? "" : ",");
        text_json(out, tf_unit_name(u));
        text_print(out, ":{\"total\":%u,\"begin\":%u,\"end\":%u}", f.units[u].total,
                   f.units[u].begin, f.units[u].end);
    }
    text_add(out, "},");
    json_u64(out, "heads", f.heads);
    json_u64(out, "first_head", f.first_head);
    json_u64(out, "expert_width", f.expert_width);
    json_u64(out, "vocab", f.vocab);
    json_u64(out, "first_vocab", f.first_vocab);
    json_u64(out, "items", f.items);
    json_u64(out, "bytes", f.bytes);
    text_add(out, "\"bytes_by_category\":{");
    for (uint32_t c = 0; c < tf_category_count(); c++) {
        text_add(out, c == 0 ? "" : ",");
        text_json(out, tf_category_name(c));
        text_char(out, ':');
        text_u64(out, f.category_bytes[c]);
    }
    text_add(out, "}}");
}

tf_status tf_admit(const char *operation, uint32_t world, tf_error *err) {
    int op = 0;
    while (op < (int)TF_OP_COUNT && strcmp(admission_op_name((tf_op)op), operation) != 0)
        op++;
    TF_ASSERT(op < (int)TF_OP_COUNT);
    return admission_ask((tf_op)op, world, false, err);
}

void tf_admission_describe(bool json, tf_text *out) {
    admission_describe(json, out);
}
