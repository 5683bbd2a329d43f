/* Which bytes a plan selects, against the oracle: gather the whole tensor, slice it element by
 * element, compare. */
#include "engine/base/arena.h"
#include "engine/pack/synth.h"
#include "engine/plan/plan.h"
#include "tests/oracle/slices.h"
#include "tests/sample/sample.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

typedef struct share {
    uint32_t world;
    uint64_t weights[4];
} share;

static const share SHARES[] = {
    {1, {1}},    {2, {1, 1}},    {3, {1, 1, 1}}, {4, {1, 1, 1, 1}},
    {2, {3, 1}}, {3, {2, 1, 1}}, {3, {1, 1, 2}},
};
static const char *const PACKS[] = {"tiny-bf16", "tiny-exl3"};

static tf_plan *make(check_case *t, const tf_pack *pack, const share *s, uint32_t rank) {
    tf_plan *plan = NULL;
    tf_error err = {0};
    char line[1024];
    tf_status status = plan_make(pack, s->world, rank, s->weights, &plan, &err);
    CHECKF(t, status == TF_OK, "%s, rank %u of %u: %s", pack->name, rank, s->world,
           tf_error_line(&err, line, sizeof line));
    return plan;
}

static oracle_model model_of(const tf_config *c) {
    return (oracle_model){c->groups,
                          c->expert_width,
                          c->vocab,
                          c->engram_ngram,
                          c->engram_heads,
                          (uint32_t)c->engram_vocab,
                          {(int)c->engram_layers[0], (int)c->engram_layers[1]}};
}

static oracle_tensor as_oracle(const pack_tensor *t) {
    oracle_tensor o = {t->name, t->dims, {0}, dtype_bytes(t->dtype)};
    for (uint32_t i = 0; i < t->dims && i < 3; i++)
        o.shape[i] = t->shape[i];
    return o;
}

/* The bytes that an item's spans select, in order. */
static size_t gather(const plan_item *item, const unsigned char *whole, unsigned char *part) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < item->span_count; i++) {
        const plan_span *span = &item->spans[i];
        for (uint64_t k = 0; k < span->count; k++) {
            uint64_t at = span->offset + k * span->stride;
            if (at + span->length > item->tensor->bytes) return SIZE_MAX;
            memcpy(part + bytes, whole + at, span->length);
            bytes += span->length;
        }
    }
    return bytes;
}

static bool same_as_oracle(check_case *t, const tf_plan *plan, const oracle *o, uint32_t index,
                           const unsigned char *whole) {
    const pack_tensor *tensor = &plan->pack->tensors[index];
    oracle_tensor named = as_oracle(tensor);
    unsigned char *want = mem_take(tensor->bytes), *got = mem_take(tensor->bytes);
    size_t want_bytes = oracle_slice(o, &named, whole, want, plan->rank), got_bytes = 0;
    uint64_t said = 0;
    if (plan->item_of[index] < plan->item_count) {
        const plan_item *item = &plan->items[plan->item_of[index]];
        got_bytes = gather(item, whole, got);
        said = item->bytes;
    }
    bool same = got_bytes == want_bytes && memcmp(got, want, got_bytes) == 0 && said == got_bytes;
    CHECKF(t, same, "%s, rank %u of %u, %s: %zu bytes of the plan differ from %zu of the oracle",
           plan->pack->name, plan->rank, plan->world, tensor->name, got_bytes, want_bytes);
    mem_free(want);
    mem_free(got);
    return same;
}

/* Layers that have every kind of tensor between them; experts that are alike once. */
static bool is_looked_at(const char *name) {
    const char *expert = strstr(name, ".experts.");
    if (expert != NULL && strchr("05", expert[9]) == NULL) return false;
    return strncmp(name, "layers.", 7) != 0 || strchr("1256", name[7]) != NULL;
}

static void slices_equal_the_oracles(check_case *t) {
    oracle *o = mem_take(sizeof *o);
    for (size_t p = 0; p < COUNT(PACKS); p++) {
        tf_pack *pack = sample_pack(PACKS[p]);
        oracle_model model = model_of(&pack->config);
        for (size_t s = 0; s < COUNT(SHARES) && !check_failed(t); s++) {
            tf_plan *plans[4] = {NULL};
            oracle_make(o, &model, SHARES[s].world, SHARES[s].weights);
            for (uint32_t r = 0; r < SHARES[s].world; r++)
                if ((plans[r] = make(t, pack, &SHARES[s], r)) == NULL) return;
            for (uint32_t i = 0; i < pack->tensor_count && !check_failed(t); i++) {
                if (!is_looked_at(pack->tensors[i].name)) continue;
                unsigned char *whole = sample_bytes(&pack->tensors[i]);
                for (uint32_t r = 0; r < SHARES[s].world && !check_failed(t); r++)
                    same_as_oracle(t, plans[r], o, i, whole);
                mem_free(whole);
            }
            for (uint32_t r = 0; r < SHARES[s].world; r++)
                plan_free(plans[r]);
        }
        sample_free(pack);
    }
    mem_free(o);
}

/* Marks the bytes an item selects in a map of owners. */
static void mark(const plan_item *item, unsigned char *owners) {
    for (uint32_t i = 0; i < item->span_count; i++) {
        const plan_span *span = &item->spans[i];
        for (uint64_t k = 0; k < span->count; k++) {
            for (uint64_t b = 0; b < span->length; b++)
                owners[span->offset + k * span->stride + b]++;
        }
    }
}

static void check_owners(check_case *t, const pack_tensor *tensor, uint32_t world,
                         const unsigned char *owners) {
    oracle_tensor named = as_oracle(tensor);
    unsigned char want = oracle_is_split(&named) ? 1 : (unsigned char)world;
    for (uint64_t b = 0; b < tensor->bytes; b++) {
        if (!CHECKF(t, owners[b] == want, "%s at %u ranks: byte %llu has %u owners, not %u",
                    tensor->name, world, (unsigned long long)b, owners[b], want))
            return;
    }
}

/* REPORTS 3: every name present, half the bytes. */
static void every_byte_of_a_split_tensor_is_owned_once(check_case *t) {
    for (size_t p = 0; p < COUNT(PACKS); p++) {
        tf_pack *pack = sample_pack(PACKS[p]);
        for (size_t s = 0; s < COUNT(SHARES) && !check_failed(t); s++) {
            tf_plan *plans[4] = {NULL};
            for (uint32_t r = 0; r < SHARES[s].world; r++)
                if ((plans[r] = make(t, pack, &SHARES[s], r)) == NULL) return;
            for (uint32_t i = 0; i < pack->tensor_count && !check_failed(t); i++) {
                if (!is_looked_at(pack->tensors[i].name)) continue;
                unsigned char *owners = mem_take(pack->tensors[i].bytes);
                for (uint32_t r = 0; r < SHARES[s].world; r++) {
                    uint32_t item = plans[r]->item_of[i];
                    if (item < plans[r]->item_count) mark(&plans[r]->items[item], owners);
                }
                check_owners(t, &pack->tensors[i], SHARES[s].world, owners);
                mem_free(owners);
            }
            for (uint32_t r = 0; r < SHARES[s].world; r++)
                plan_free(plans[r]);
        }
        sample_free(pack);
    }
}

static const plan_item *item_of(check_case *t, const tf_plan *plan, const char *name) {
    const plan_item *item = plan_find(plan, name);
    CHECKF(t, item != NULL, "rank %u has no item %s", plan->rank, name);
    return item;
}

/* REPORTS 1: rank 0's sinks on every rank. */
static void the_sink_of_every_rank_is_its_own(check_case *t) {
    tf_pack *pack = sample_pack("tiny-bf16");
    uint32_t head = 0;
    for (uint32_t r = 0; r < 3; r++) {
        tf_plan *plan = make(t, pack, &SHARES[2], r);
        if (plan == NULL) return;
        const plan_item *sink = item_of(t, plan, "layers.3.attn.attn_sink");
        if (sink != NULL) {
            CHECK_U64(t, sink->spans[0].offset, head * sizeof(float));
            CHECK_U64(t, sink->shape[0], plan_heads(plan));
            CHECK_U64(t, plan_first_head(plan), head);
        }
        head += plan_heads(plan);
        plan_free(plan);
    }
    CHECK_U64(t, head, pack->config.heads);
    sample_free(pack);
}

/* REPORTS 2: a loader's rank that defaults to 0. */
static void no_rank_reads_the_bytes_of_rank_0(check_case *t) {
    tf_pack *pack = sample_pack("tiny-exl3");
    tf_plan *zero = make(t, pack, &SHARES[3], 0);
    if (zero == NULL) return;
    uint32_t compared = 0;
    for (uint32_t r = 1; r < 4; r++) {
        tf_plan *plan = make(t, pack, &SHARES[3], r);
        if (plan == NULL) return;
        for (uint32_t i = 0; i < plan->item_count; i++) {
            const plan_item *item = &plan->items[i];
            if (item->unit == UNIT_NONE) continue;
            uint32_t other = zero->item_of[item->tensor - pack->tensors];
            if (other >= zero->item_count) continue;
            compared++;
            if (!CHECKF(t, item->spans[0].offset != zero->items[other].spans[0].offset,
                        "rank %u starts %s where rank 0 does", r, item->image))
                break;
        }
        plan_free(plan);
    }
    CHECK(t, compared > 500);
    plan_free(zero);
    sample_free(pack);
}

/* REPORTS 4: a grouped output projection sliced by heads; every shape fits. */
static void output_groups_go_whole_to_their_owner(check_case *t) {
    tf_pack *pack = sample_pack("tiny-exl3");
    static const char *const parts[] = {"trellis", "suh", "svh", "mul1"};
    for (uint32_t r = 0; r < 3; r++) {
        tf_plan *plan = make(t, pack, &SHARES[2], r);
        if (plan == NULL) return;
        canon_range own = plan->range[UNIT_GROUP];
        for (uint32_t g = 0; g < 8; g++) {
            for (size_t k = 0; k < COUNT(parts); k++) {
                char name[64];
                snprintf(name, sizeof name, "mtp.1.attn.wo_a.slice.%u.%s", g, parts[k]);
                const plan_item *item = plan_find(plan, name);
                bool mine = g >= own.begin && g < own.end;
                if (!CHECKF(t, (item != NULL) == mine, "rank %u, %s", r, name)) continue;
                if (item == NULL) continue;
                CHECK(t, item->axis == AXIS_PICK && item->bytes == item->tensor->bytes);
                CHECK(t, item->range.begin == g && item->range.end == g + 1);
            }
        }
        plan_free(plan);
    }
    sample_free(pack);
}

/* REPORTS 24: tensors that must agree, rounded apart. */
static void tensors_that_must_agree_are_cut_alike(check_case *t) {
    tf_pack *pack = sample_pack("tiny-bf16");
    for (size_t s = 0; s < COUNT(SHARES); s++) {
        for (uint32_t r = 0; r < SHARES[s].world; r++) {
            tf_plan *plan = make(t, pack, &SHARES[s], r);
            if (plan == NULL) return;
            const plan_item *w1 = item_of(t, plan, "layers.5.ffn.experts.4.w1.weight");
            const plan_item *w3 = item_of(t, plan, "layers.5.ffn.shared_experts.w3.weight");
            const plan_item *w2 = item_of(t, plan, "layers.5.ffn.experts.4.w2.weight");
            const plan_item *q = item_of(t, plan, "layers.5.attn.wq_b.weight");
            const plan_item *sink = item_of(t, plan, "layers.5.attn.attn_sink");
            const plan_item *o = item_of(t, plan, "layers.5.attn.wo_b.weight");
            const plan_item *embed = item_of(t, plan, "embed.weight");
            const plan_item *head = item_of(t, plan, "head.weight");
            if (check_failed(t)) return;
            uint32_t width = plan_expert_width(plan), heads = plan_heads(plan);
            CHECK(t, w1->shape[0] == width && w3->shape[0] == width && w2->shape[1] == width);
            CHECK(t, q->shape[0] == heads * 64 && sink->shape[0] == heads);
            CHECK(t, o->shape[1] == plan_groups(plan) * 128 && heads == 2 * plan_groups(plan));
            CHECK(t, embed->shape[0] == plan_vocab(plan) && head->shape[0] == plan_vocab(plan));
            CHECK_U64(t, embed->spans[0].offset, plan_first_vocab(plan) * 64ull * 2);
            plan_free(plan);
        }
    }
    sample_free(pack);
}

/* REPORTS 25: weights cut, their scales not. */
static void scales_are_cut_with_their_weights(check_case *t) {
    tf_pack *pack = sample_pack("tiny-exl3");
    for (uint32_t r = 0; r < 4; r++) {
        tf_plan *plan = make(t, pack, &SHARES[3], r);
        if (plan == NULL) return;
        const plan_item *rows = item_of(t, plan, "layers.4.engram.embed.weight");
        const plan_item *scales = item_of(t, plan, "layers.4.engram.embed.scale");
        const plan_item *w1 = item_of(t, plan, "layers.4.ffn.experts.1.w1.trellis");
        const plan_item *w1_svh = item_of(t, plan, "layers.4.ffn.experts.1.w1.svh");
        const plan_item *w1_suh = item_of(t, plan, "layers.4.ffn.experts.1.w1.suh");
        const plan_item *w2 = item_of(t, plan, "layers.4.ffn.experts.1.w2.trellis");
        const plan_item *w2_suh = item_of(t, plan, "layers.4.ffn.experts.1.w2.suh");
        const plan_item *w2_svh = item_of(t, plan, "layers.4.ffn.experts.1.w2.svh");
        if (check_failed(t)) return;
        CHECK_U64(t, scales->shape[0], rows->shape[0]);
        CHECK_U64(t, scales->spans[0].offset * 32, rows->spans[0].offset);
        CHECK_U64(t, w1_svh->shape[0], w1->shape[1] * 16);
        CHECK_U64(t, w1_svh->spans[0].offset / 2, w1->spans[0].offset / (2 * 16 * 2) * 16);
        CHECK(t, w1_suh->axis == AXIS_WHOLE && w2_svh->axis == AXIS_WHOLE);
        CHECK_U64(t, w2_suh->shape[0], w2->shape[0] * 16);
        plan_free(plan);
    }
    sample_free(pack);
}

static void flash_shares_are_as_specified(check_case *t) {
    static const struct {
        uint32_t world, rank, heads, first_head, width, vocab, first_vocab;
    } want[] = {
        {1, 0, 64, 0, 2304, 129280, 0},    {2, 1, 32, 32, 1152, 64640, 64640},
        {3, 0, 24, 0, 768, 43136, 0},      {3, 1, 24, 24, 768, 43136, 43136},
        {3, 2, 16, 48, 768, 43008, 86272}, {4, 0, 16, 0, 640, 32384, 0},
        {4, 2, 16, 32, 512, 32256, 64768}, {8, 0, 8, 0, 384, 16256, 0},
    };
    tf_pack *pack = sample_pack("flash");
    for (size_t i = 0; i < COUNT(want); i++) {
        tf_plan *plan = NULL;
        tf_error err = {0};
        if (!CHECK_U64(t, plan_make(pack, want[i].world, want[i].rank, NULL, &plan, &err), TF_OK))
            break;
        CHECK_U64(t, plan_heads(plan), want[i].heads);
        CHECK_U64(t, plan_first_head(plan), want[i].first_head);
        CHECK_U64(t, plan_expert_width(plan), want[i].width);
        CHECK_U64(t, plan_vocab(plan), want[i].vocab);
        CHECK_U64(t, plan_first_vocab(plan), want[i].first_vocab);
        const plan_item *head = item_of(t, plan, "head.trellis");
        if (head != NULL)
            CHECK_U64(t, head->spans[0].offset, want[i].first_vocab / 16 * (16 * 6 * 2ull));
        plan_free(plan);
    }
    sample_free(pack);
}

/* From the first item on: what comes before names the pack's digests. */
static const char *items_text(const tf_plan *plan) {
    return strstr(plan_text(plan), "\ntensor embed.weight");
}

/* A pack on disk and the list that the golden data gives of it are planned alike, and the bytes
 * that the plan selects can be read. */
static void a_pack_on_disk_plans_as_its_list_does(check_case *t) {
    for (size_t p = 0; p < COUNT(PACKS); p++) {
        char dir[512];
        tf_error err = {0};
        tf_pack *stored = NULL, *listed = sample_pack(PACKS[p]);
        synth_request request = {.model = builtin_find(PACKS[p])};
        snprintf(dir, sizeof dir, "%s/%s", check_tmpdir(t), PACKS[p]);
        if (!CHECK_U64(t, synth_make(&request, dir, &err), TF_OK)) return;
        if (!CHECK_U64(t, pack_open(dir, &stored, &err), TF_OK)) return;
        for (uint32_t r = 0; r < 3; r++) {
            tf_plan *a = make(t, stored, &SHARES[5], r), *b = make(t, listed, &SHARES[5], r);
            if (a == NULL || b == NULL) return;
            CHECK_STR(t, items_text(a), items_text(b));
            const plan_item *last = &a->items[a->item_count - 1];
            unsigned char byte;
            uint64_t at = last->spans[0].offset + last->spans[0].length - 1;
            CHECK_U64(t, pack_read(stored, last->tensor, at, &byte, 1, &err), TF_OK);
            plan_free(a);
            plan_free(b);
        }
        sample_free(listed);
        pack_close(stored);
    }
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"plan/slices-equal-the-oracles", slices_equal_the_oracles},
        {"plan/every-byte-of-a-split-tensor-is-owned-once",
         every_byte_of_a_split_tensor_is_owned_once},
        {"plan/the-sink-of-every-rank-is-its-own", the_sink_of_every_rank_is_its_own},
        {"plan/no-rank-reads-the-bytes-of-rank-0", no_rank_reads_the_bytes_of_rank_0},
        {"plan/output-groups-go-whole-to-their-owner", output_groups_go_whole_to_their_owner},
        {"plan/tensors-that-must-agree-are-cut-alike", tensors_that_must_agree_are_cut_alike},
        {"plan/scales-are-cut-with-their-weights", scales_are_cut_with_their_weights},
        {"plan/a-pack-on-disk-plans-as-its-list-does", a_pack_on_disk_plans_as_its_list_does},
        {"plan/flash-shares-are-as-specified", flash_shares_are_as_specified},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
