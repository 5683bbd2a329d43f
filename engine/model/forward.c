/* model/forward - a prompt and its continuation with all logits, as a text.
 *
 * Idea: two runs that must be the same forward must give the same text, so what may differ between
 * them stands nowhere in it. */
#include "engine/base/arena.h"
#include "engine/model/model.h"
#include "engine/model/tokensha.h"
#include "engine/run/diverge.h"

typedef struct run {
    tf_model *model;
    const tf_prompt *prompt;
    uint32_t tokens, chunk;
    float *logits;   /* [chunk, V] */
    int32_t *chosen; /* [tokens] */
    digest_state *prefill, *decode;
} run;

static size_t row_bytes(const run *r) {
    return tf_model_vocab(r->model) * sizeof(float);
}

static void hash_chunk(void *context, uint32_t rows) {
    run *r = context;
    digest_add(r->prefill, r->logits, rows * row_bytes(r));
}

static tf_status prefill(run *r, tf_error *err) {
    model_prompt p = {r->prompt, r->chunk, r->logits, hash_chunk, r};
    return model_run_prompt(r->model, 0, &p, r->chosen, err);
}

static tf_status decode(run *r, tf_error *err) {
    tf_status status = TF_OK;
    for (uint32_t k = 1; status == TF_OK && k < r->tokens; k++) {
        tf_row row = {0, r->chosen[k - 1]};
        status = tf_model_decode(r->model, &row, 1, r->logits, &r->chosen[k], err);
        if (status == TF_OK) digest_add(r->decode, r->logits, row_bytes(r));
    }
    return status;
}

static void write_ids(tf_text *out, const char *what, const int32_t *ids, uint32_t count) {
    text_print(out, "%s ", what);
    text_i32s(out, ids, count);
    text_char(out, '\n');
}

static void write_digest(tf_text *out, const char *what, tf_digest d) {
    char hex[DIGEST_HEX];
    text_print(out, "%s %s\n", what, digest_hex(d, hex));
}

static tf_status write_text(run *r, tf_text *out, tf_error *err) {
    char sha[SHA256_HEX];
    tokensha(r->chosen, r->tokens, sha);
    text_print(out, "prompt of %u, %u tokens\n", r->prompt->count, r->tokens);
    write_ids(out, "ids", r->prompt->ids, r->prompt->count);
    write_digest(out, "logits of the prompt", digest_end(r->prefill));
    write_digest(out, "logits of the tokens", digest_end(r->decode));
    r->prefill = r->decode = NULL;
    write_ids(out, "tokens", r->chosen, r->tokens);
    text_print(out, "token_sha %s\n", sha);
    return text_done(out, err);
}

tf_status tf_diverge(const char *a, const char *b, bool json, tf_text *out, tf_error *err) {
    return diverge_compare(a, b, json, out, err);
}

void tf_token_sha(const int32_t *ids, uint32_t count, char hex[SHA256_HEX]) {
    tokensha(ids, count, hex);
}

tf_status tf_forward_text(tf_model *m, const tf_prompt *prompt, uint32_t tokens, uint32_t chunk,
                          tf_text *out, tf_error *err) {
    chunk = model_chunk(m, chunk);
    tf_status status = model_check_tokens(tokens, err);
    if (status == TF_OK) status = model_check_prompt(m, prompt, 0, tokens, err);
    if (status != TF_OK) return status;
    run r = {.model = m, .prompt = prompt, .tokens = tokens, .chunk = chunk};
    r.logits = mem_take(chunk * row_bytes(&r));
    r.chosen = mem_take(tokens * sizeof *r.chosen);
    r.prefill = digest_begin();
    r.decode = digest_begin();
    if (r.logits == NULL || r.chosen == NULL || r.prefill == NULL || r.decode == NULL)
        status = tf_fail(err, TF_W_NO_MEMORY, "running a forward of %u rows", chunk);
    if (status == TF_OK) status = prefill(&r, err);
    if (status == TF_OK) status = decode(&r, err);
    if (status == TF_OK) status = write_text(&r, out, err);
    if (r.prefill != NULL) digest_end(r.prefill);
    if (r.decode != NULL) digest_end(r.decode);
    mem_free(r.logits);
    mem_free(r.chosen);
    return status;
}
