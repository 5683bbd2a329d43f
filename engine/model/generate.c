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
        model_prompt p = {.prompt = &w->prompts[i], .chunk = chunk};
        status = model_run_prompt(m, i, &p, &w->next[i], err);
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
    tf_status status = model_check_tokens(g->tokens, err);
    uint32_t chunk = model_chunk(m, g->chunk);
    if (timing == NULL) timing = &unused;
    *timing = (tf_timing){0};
    for (uint32_t i = 0; status == TF_OK && i < g->count; i++)
        status = model_check_prompt(m, &g->prompts[i], i, g->tokens, err);
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
