/* model/prompt - a whole prompt through a slot, for those who generate and those who only compare. */
#include "engine/base/thread.h"
#include "engine/model/model.h"

uint32_t model_chunk(const tf_model *m, uint32_t asked) {
    return asked == 0 || asked > m->options.rows ? m->options.rows : asked;
}

tf_status model_check_tokens(uint32_t tokens, tf_error *err) {
    if (tokens > 0) return TF_OK;
    tf_fail(err, TF_W_BAD_REQUEST, "generating");
    tf_found(err, "0 tokens");
    return tf_expected(err, "at least 1");
}

tf_status model_check_prompt(const tf_model *m, const tf_prompt *p, uint32_t index, uint32_t tokens,
                             tf_error *err) {
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

tf_status model_run_prompt(tf_model *m, uint32_t index, const model_prompt *p, int32_t *next,
                           tf_error *err) {
    const tf_prompt *prompt = p->prompt;
    tf_status status = tf_model_reset(m, index, err);
    if (status == TF_OK)
        status = tf_model_sampling(m, index, prompt->temperature, prompt->seed, err);
    for (uint32_t at = 0; status == TF_OK && at < prompt->count; at += p->chunk) {
        uint32_t count = prompt->count - at < p->chunk ? prompt->count - at : p->chunk;
        status = tf_stop_check(err);
        if (status == TF_OK)
            status = tf_model_prefill(m, index, prompt->ids + at, count, p->logits, next, err);
        if (status == TF_OK && p->seen != NULL) p->seen(p->context, count);
    }
    return status;
}
