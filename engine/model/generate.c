/* model/generate - prompts in, ids out: as many requests side by side as there are slots.
 *
 * Idea: a wave of prompts is prefilled one after another and decoded together; since rows never
 * meet, who shares a step with whom changes no token. */
#include "engine/base/arena.h"
#include "engine/base/thread.h"
#include "engine/model/model.h"

#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static tf_status check_prompt(const tf_model *m, const tf_prompt *p, uint32_t index,
                              uint32_t tokens, tf_error *err) {
    if (p->count == 0) {
        tf_fail(err, TF_W_BAD_REQUEST, "running prompt %u", index);
        tf_found(err, "no ids");
        return tf_expected(err, "at least one");
    }
    uint64_t positions = (uint64_t)p->count + tokens - 1;
    if (positions <= m->options.context) return TF_OK;
    tf_fail(err, TF_W_CONTEXT_FULL, "running prompt %u", index);
    tf_found(err, "%u ids and %u tokens", p->count, tokens);
    tf_expected(err, "at most %llu positions", (unsigned long long)m->options.context);
    return tf_remedy(err, "ask for fewer tokens, or a larger context");
}

static tf_status prefill(tf_model *m, uint32_t index, const tf_prompt *p, uint32_t chunk,
                         int32_t *next, tf_error *err) {
    tf_status status = tf_model_reset(m, index, err);
    if (status == TF_OK) status = tf_model_sampling(m, index, p->temperature, p->seed, err);
    for (uint32_t at = 0; status == TF_OK && at < p->count; at += chunk) {
        uint32_t count = p->count - at < chunk ? p->count - at : chunk;
        status = tf_stop_check(err);
        if (status == TF_OK)
            status = tf_model_prefill(m, index, p->ids + at, count, NULL, next, err);
    }
    return status;
}

typedef struct wave {
    const tf_prompt *prompts;
    tf_generated *out;
    uint32_t count;
    tf_row *rows;  /* [count] */
    int32_t *next; /* [count] */
} wave;

static void keep(wave *w) {
    for (uint32_t i = 0; i < w->count; i++) {
        w->out[i].ids[w->out[i].count++] = w->next[i];
        w->rows[i] = (tf_row){i, w->next[i]};
    }
}

static tf_status run_wave(tf_model *m, wave *w, uint32_t tokens, uint32_t chunk, tf_timing *timing,
                          tf_error *err) {
    tf_status status = TF_OK;
    double began = now();
    for (uint32_t i = 0; status == TF_OK && i < w->count; i++) {
        status = prefill(m, i, &w->prompts[i], chunk, &w->next[i], err);
        timing->prefill_rows += w->prompts[i].count;
        w->out[i].count = 0;
    }
    timing->prefill_seconds += now() - began;
    if (status == TF_OK) keep(w);
    began = now();
    for (uint32_t k = 1; status == TF_OK && k < tokens; k++) {
        status = tf_stop_check(err);
        if (status == TF_OK) status = tf_model_decode(m, w->rows, w->count, NULL, w->next, err);
        timing->decode_rows += w->count;
        if (status == TF_OK) keep(w);
    }
    timing->decode_seconds += now() - began;
    return status;
}

tf_status tf_generate(tf_model *m, const tf_generation *g, tf_generated *out, tf_timing *timing,
                      tf_error *err) {
    uint32_t slots = m->options.slots;
    tf_timing unused;
    tf_status status = TF_OK;
    uint32_t chunk = g->chunk == 0 || g->chunk > m->options.rows ? m->options.rows : g->chunk;
    if (timing == NULL) timing = &unused;
    *timing = (tf_timing){0};
    if (g->tokens == 0) {
        tf_fail(err, TF_W_BAD_REQUEST, "generating");
        tf_found(err, "0 tokens");
        return tf_expected(err, "at least 1");
    }
    for (uint32_t i = 0; status == TF_OK && i < g->count; i++)
        status = check_prompt(m, &g->prompts[i], i, g->tokens, err);
    if (status != TF_OK) return status;
    wave w = {.rows = mem_take(slots * sizeof(tf_row)), .next = mem_take(slots * sizeof(int32_t))};
    if (w.rows == NULL || w.next == NULL)
        status = tf_fail(err, TF_W_NO_MEMORY, "generating for %u prompts", g->count);
    for (uint32_t at = 0; status == TF_OK && at < g->count; at += slots) {
        w.prompts = g->prompts + at;
        w.out = out + at;
        w.count = g->count - at < slots ? g->count - at : slots;
        status = run_wave(m, &w, g->tokens, chunk, timing, err);
    }
    mem_free(w.rows);
    mem_free(w.next);
    return status;
}
