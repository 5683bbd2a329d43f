/* What stands between ids and logits, against the publisher's own intermediates: selections equal,
 * everything else within what float32 costs. */
#include "engine/model/model.h"
#include "tests/support/check.h"
#include "tests/support/forward.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct probe {
    check_case *t;
    forward_golden *g;
    uint32_t length; /* 17 or 96 */
    uint32_t compared;
} probe;

/* Of the values compared: the most that float32 was seen to cost is a tenth of it. */
#define TOLERANCE 2e-4

static bool find(probe *p, uint32_t layer, const char *what, golden_tensor *out) {
    char name[64];
    if (layer == CALL_TOP) {
        snprintf(name, sizeof name, "probe.%u.%s", p->length, what);
    } else {
        snprintf(name, sizeof name, "probe.%u.L%u.%s", p->length, layer, what);
    }
    return golden_find(&p->g->file, name, out) && out->data != NULL;
}

/* Rows of the golden tensor: all of the prompt's, the last 8, or one a compressed row. */
static uint32_t first_of(const golden_tensor *g) {
    unsigned rows = 0;
    return sscanf(g->shape, "%ux", &rows) == 1 ? rows : 0;
}

static size_t columns_of(const golden_tensor *g, size_t element) {
    return (g->end - g->begin) / element / first_of(g);
}

static void compare(probe *p, const call *c, const char *what, const port_tensor *t,
                    uint32_t step) {
    golden_tensor g;
    double most = 0;
    uint32_t at = 0;
    if (!find(p, c->layer, what, &g)) return;
    uint32_t rows = first_of(&g);
    size_t columns = columns_of(&g, sizeof(float));
    uint32_t begin = step > 1 ? step - 1 : t->shape[0] > rows ? t->shape[0] - rows : 0;
    const float *want = (const float *)(const void *)g.data;
    for (uint32_t i = 0; i < rows; i++) {
        const float *got = port_f32(t, begin + (size_t)i * step);
        for (size_t k = 0; k < columns; k++) {
            double w = (double)want[i * columns + k];
            double d = fabs((double)got[k] - w) / fmax(1.0, fabs(w));
            if (d <= most) continue;
            most = d;
            at = i;
        }
    }
    p->compared++;
    CHECKF(p->t, most <= TOLERANCE, "L%u %s: off by %.2e in row %u", c->layer, what, most, at);
}

/* ---- selections ---- */

static void compare_choice(probe *p, const call *c, const port_tensor *t) {
    golden_tensor g;
    if (!find(p, c->layer, "topk", &g)) return;
    size_t columns = columns_of(&g, sizeof(int32_t));
    const int32_t *want = (const int32_t *)(const void *)g.data;
    for (uint32_t i = 0; i < p->length; i++) {
        const int32_t *got = port_i32(t, i);
        for (uint32_t k = 0; k < t->shape[1]; k++) {
            int32_t w = k < columns ? want[i * columns + k] : -1;
            CHECKF(p->t, got[k] == w, "L%u row %u: choice %u is %d, wanted %d", c->layer, i, k,
                   got[k], w);
        }
    }
    p->compared++;
}

static void compare_candidates(probe *p, const call *c, const args_candidates *a) {
    golden_tensor g;
    if (!find(p, c->layer, "candidates", &g)) return;
    size_t columns = columns_of(&g, sizeof(int32_t));
    const int32_t *want = (const int32_t *)(const void *)g.data;
    for (uint32_t i = 0; i < p->length; i++) {
        uint8_t kept[FORWARD_IDS_MAX] = {0};
        const int32_t *block = port_i32(&a->y, i);
        for (uint32_t k = 0; k < a->y.shape[1] && block[k] >= 0; k++) {
            for (int64_t j = block[k] * a->block; j < (block[k] + 1) * a->block; j++) {
                if (j < FORWARD_IDS_MAX) kept[j] = 1;
            }
        }
        uint32_t visible = (i + 1) / (uint32_t)a->ratio;
        for (uint32_t j = 0; j < columns && j < visible; j++)
            CHECKF(p->t, kept[j] == want[i * columns + j], "L%u row %u: candidate %u", c->layer, i,
                   j);
    }
    p->compared++;
}

static void compare_router(probe *p, const call *c, const args_route *a) {
    golden_tensor ids;
    golden_tensor shares;
    if (!find(p, c->layer, "router_idx", &ids)) return;
    bool weighed = find(p, c->layer, "router_w", &shares);
    uint32_t k = (uint32_t)a->topk;
    for (uint32_t i = 0; i < p->length; i++) {
        const int32_t *want = (const int32_t *)(const void *)ids.data + i * k;
        const float *w = (const float *)(const void *)shares.data + i * k;
        for (uint32_t j = 0; j < k; j++) {
            const int32_t *got = port_i32(&a->ids, i);
            uint32_t at = 0;
            while (at < k && got[at] != want[j])
                at++;
            if (!CHECKF(p->t, at < k, "L%u row %u: expert %d", c->layer, i, want[j])) continue;
            CHECK(p->t, !weighed || fabsf(port_f32(&a->weights, i)[at] - w[j]) <= 1e-5f);
            CHECK(p->t, at == 0 || got[at - 1] < got[at]);
        }
    }
    p->compared++;
}

static void compare_hashes(probe *p, const args_hash *a) {
    golden_tensor g;
    if (!find(p, CALL_TOP, "engram_hashes", &g)) return;
    size_t columns = columns_of(&g, sizeof(int32_t)) / a->y.shape[1];
    const int32_t *want = (const int32_t *)(const void *)g.data;
    for (uint32_t i = 0; i < p->length; i++) {
        for (uint32_t table = 0; table < a->y.shape[1]; table++) {
            const int64_t *got =
                (const int64_t *)a->y.data + i * a->y.stride[0] + table * a->y.stride[1];
            int64_t begin = 0;
            for (size_t k = 0; k < columns; k++) {
                size_t at = (i * a->y.shape[1] + table) * columns + k;
                CHECKF(p->t, begin + got[k] == want[at], "row %u table %u column %zu: %lld, not %d",
                       i, table, k, (long long)(begin + got[k]), want[at]);
                begin += a->primes.values[table * columns + k];
            }
        }
    }
    p->compared++;
}

/* Scores of rows in sight; the weights' factor is folded into them. */
static void compare_scores(probe *p, const call *c, const args_scores *a) {
    golden_tensor g;
    golden_tensor w;
    if (!find(p, c->layer, "index_scores", &g) || !find(p, c->layer, "index_w", &w)) return;
    size_t columns = columns_of(&g, sizeof(float));
    size_t heads = columns_of(&w, sizeof(float));
    const float *want = (const float *)(const void *)g.data;
    const float *factors = (const float *)(const void *)w.data;
    for (uint32_t i = 0; i < p->length; i++) {
        for (size_t h = 0; h < heads; h++) {
            double got = (double)port_f32(&a->weights, i)[h] * a->scale;
            CHECK(p->t, fabs(got - (double)factors[i * heads + h]) <= TOLERANCE);
        }
        for (uint32_t j = 0; j < (i + 1) / (uint32_t)a->ratio; j++) {
            double d = fabs((double)port_f32(&a->y, i)[j] - (double)want[i * columns + j]);
            CHECKF(p->t, d <= TOLERANCE, "L%u row %u score %u: off by %.2e", c->layer, i, j, d);
        }
    }
    p->compared++;
}

/* ---- which call holds which probe ---- */

static void seen_norm(probe *p, const call *c, const args_norm *a) {
    static const struct {
        const char *call, *probe;
    } names[] = {{"attn_norm", "attn_in"}, {"ffn_norm", "ffn_in"}, {"q_norm", "qr"}};
    for (size_t i = 0; i < COUNT(names); i++) {
        if (strcmp(c->name, names[i].call) == 0) compare(p, c, names[i].probe, &a->y, 1);
    }
}

static uint32_t ratio_of(uint32_t layer) {
    return layer < 6 ? 2 : 1; /* of the tiny packs' long range */
}

static void seen_rope(probe *p, const call *c, const args_rope *a) {
    if (strcmp(c->name, "q") == 0) compare(p, c, "q", &a->x, 1);
    if (strcmp(c->name, "kv") == 0) compare(p, c, "window_kv", &a->x, 1);
    if (strcmp(c->name, "index_query") == 0) compare(p, c, "index_q", &a->x, 1);
    if (strcmp(c->name, "index_key") == 0) compare(p, c, "index_k", &a->x, ratio_of(c->layer));
    if (strcmp(c->name, "compressed") == 0)
        compare(p, c, "compressed_kv", &a->x, ratio_of(c->layer));
}

static void seen_mix(probe *p, const call *c, const args_mix *a) {
    bool attn = strcmp(c->name, "mix_attn") == 0;
    compare(p, c, attn ? "hc_attn_pre" : "hc_ffn_pre", &a->pre, 1);
    compare(p, c, attn ? "hc_attn_post" : "hc_ffn_post", &a->post, 1);
    compare(p, c, attn ? "hc_attn_comb" : "hc_ffn_comb", &a->comb, 1);
}

static void seen(void *context, const call *c, const port_launch *l) {
    probe *p = context;
    const char *sum = strcmp(c->name, "attn") == 0 ? "attn_out" : "ffn_out";
    const char *streams = strcmp(c->name, "post_attn") == 0 ? "mid_stream" : "stream_out";
    if (c->kind == CALL_NORM) seen_norm(p, c, l->args);
    if (c->kind == CALL_ROPE) seen_rope(p, c, l->args);
    if (c->kind == CALL_COLLAPSE && c->layer == CALL_TOP)
        compare(p, c, "final_hidden", &((const args_collapse *)l->args)->y, 1);
    if (c->kind == CALL_MIX) seen_mix(p, c, l->args);
    if (c->kind == CALL_REDUCE) compare(p, c, sum, &((const args_reduce *)l->args)->y, 1);
    if (c->kind == CALL_POST) compare(p, c, streams, &((const args_post *)l->args)->streams, 1);
    if (c->kind == CALL_ENGRAM)
        compare(p, c, "stream_after_engram", &((const args_engram *)l->args)->streams, 1);
    if (c->kind == CALL_SHARE_COLUMNS && c->layer != CALL_TOP)
        compare(p, c, "engram_rows", &((const args_share_columns *)l->args)->y, 1);
    if (c->kind == CALL_SCORES) compare_scores(p, c, l->args);
    if (c->kind == CALL_TOPK) compare_choice(p, c, &((const args_topk *)l->args)->y);
    if (c->kind == CALL_CANDIDATES) compare_candidates(p, c, l->args);
    if (c->kind == CALL_ROUTE) compare_router(p, c, l->args);
    if (c->kind == CALL_HASH) compare_hashes(p, l->args);
}

static void check_pack(check_case *t, const char *name) {
    static const uint32_t least[FORWARD_PROMPTS] = {0, 180, 30};
    forward_golden g;
    tf_pack *pack = forward_pack(t, name);
    tf_model_options o = {0};
    if (pack == NULL) return;
    tf_model *m = forward_open(t, pack, 1, NULL, &o);
    if (m != NULL && forward_golden_open(t, name, &g)) {
        static float logits[FORWARD_IDS_MAX * FORWARD_VOCAB];
        for (uint32_t i = 1; i < FORWARD_PROMPTS; i++) {
            probe p = {.t = t, .g = &g, .length = forward_lengths[i]};
            tf_error err = {0};
            rank_observe(m->ranks[0], seen, &p);
            CHECK(t, tf_model_reset(m, 0, &err) == TF_OK);
            CHECK(t, tf_model_prefill(m, 0, g.prompt[i], p.length, logits, NULL, &err) == TF_OK);
            CHECKF(t, p.compared >= least[i], "%u probes of %u were found", p.compared, p.length);
        }
        forward_golden_close(&g);
    }
    tf_model_close(m);
    tf_pack_close(pack);
}

static void plain_weights_pass_the_golden_probes(check_case *t) {
    check_pack(t, "tiny-bf16");
}

static void trellis_weights_pass_the_golden_probes(check_case *t) {
    check_pack(t, "tiny-exl3");
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"probes/plain-weights-pass-the-golden-probes", plain_weights_pass_the_golden_probes},
        {"probes/trellis-weights-pass-the-golden-probes", trellis_weights_pass_the_golden_probes},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
