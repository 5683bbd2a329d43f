#include "tests/support/forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const uint32_t forward_lengths[FORWARD_PROMPTS] = {1, 17, 96};

uint32_t forward_rows(uint32_t prompt) {
    return forward_lengths[prompt] + FORWARD_TOKENS - 1;
}

/* ---- golden ---- */

/* Numbers of a JSON list that begins at `at`; how many were read. */
static uint32_t read_list(const char *at, int32_t *out, uint32_t most) {
    uint32_t count = 0;
    for (at++; count < most; at++) {
        char *end = NULL;
        out[count++] = (int32_t)strtol(at, &end, 10);
        for (at = end; *at == ' ' || *at == '\n'; at++) {
        }
        if (*at != ',') break;
    }
    return count;
}

/* The value behind `"key": ` inside the object named `section`. */
static const char *value_of(const char *text, const char *section, const char *key) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", section);
    const char *at = strstr(text, quoted);
    if (at == NULL) return NULL;
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    at = strstr(at, quoted);
    if (at == NULL) return NULL;
    for (at += strlen(quoted); *at == ' ' || *at == '\n'; at++) {
    }
    return at;
}

static bool read_json(const char *text, forward_golden *g) {
    const char *prompts = strstr(text, "\"prompts\"");
    if (prompts == NULL) return false;
    const char *at = strchr(prompts, '[');
    for (uint32_t p = 0; p < FORWARD_PROMPTS; p++) {
        char key[8];
        snprintf(key, sizeof key, "%u", forward_lengths[p]);
        if (at == NULL) return false;
        at = strchr(at + 1, '[');
        if (at == NULL || read_list(at, g->prompt[p], FORWARD_IDS_MAX) != forward_lengths[p])
            return false;
        const char *greedy = value_of(text, "greedy", key);
        if (greedy == NULL || read_list(greedy, g->greedy[p], FORWARD_TOKENS) != FORWARD_TOKENS)
            return false;
        const char *sha = value_of(text, "token_sha", key);
        if (sha == NULL) return false;
        memcpy(g->token_sha[p], sha + 1, 64);
    }
    return true;
}

bool forward_golden_open(check_case *t, const char *pack, forward_golden *g) {
    char path[512];
    char *text = NULL;
    size_t n = 0;
    memset(g, 0, sizeof *g);
    snprintf(path, sizeof path, TF_SOURCE_DIR "/tests/golden/%s/expected.json", pack);
    bool read = golden_read(path, &text, &n);
    if (!CHECKF(t, read && read_json(text, g), "%s cannot be read", path)) {
        free(text);
        return false;
    }
    free(text);
    snprintf(path, sizeof path, TF_SOURCE_DIR "/tests/golden/%s/expected.safetensors", pack);
    return CHECKF(t, golden_open(path, &g->file), "%s cannot be read", path);
}

void forward_golden_close(forward_golden *g) {
    golden_close(&g->file);
}

const float *forward_golden_floats(check_case *t, forward_golden *g, const char *name) {
    golden_tensor found;
    bool held = golden_find(&g->file, name, &found) && found.data != NULL &&
                strcmp(found.dtype, "F32") == 0;
    return CHECKF(t, held, "no golden tensor %s", name) ? (const float *)(const void *)found.data
                                                        : NULL;
}

/* ---- models ---- */

tf_pack *forward_pack(check_case *t, const char *pack) {
    tf_error err = {0};
    char line[2048];
    tf_pack *out = NULL;
    bool held = tf_pack_open(pack, TF_BUILD_DIR "/cache", &out, &err) == TF_OK;
    CHECKF(t, held, "%s", tf_error_line(&err, line, sizeof line));
    return held ? out : NULL;
}

tf_model *forward_open(check_case *t, const tf_pack *pack, uint32_t world, const char *weights,
                       const tf_model_options *options) {
    tf_split split = {.world = world, .has_weights = weights != NULL};
    tf_model_options o = *options;
    tf_error err = {0};
    char line[2048];
    tf_model *m = NULL;
    for (uint32_t r = 0; weights != NULL && *weights != '\0'; r++) {
        char *end = NULL;
        split.weights[r] = strtoull(weights, &end, 10);
        weights = *end == ',' ? end + 1 : end;
    }
    if (o.cache_dir == NULL) o.cache_dir = TF_BUILD_DIR "/cache";
    bool held = tf_model_open(pack, &split, &o, &m, &err) == TF_OK;
    CHECKF(t, held, "%s", tf_error_line(&err, line, sizeof line));
    return held ? m : NULL;
}

bool forward_run(check_case *t, tf_model *m, const forward_golden *g, uint32_t prompt,
                 uint32_t chunk, float *logits, int32_t *tokens) {
    tf_error err = {0};
    char line[2048];
    uint32_t count = forward_lengths[prompt];
    float *at = logits;
    tf_status status = tf_model_reset(m, 0, &err);
    for (uint32_t i = 0; status == TF_OK && i < count; i += chunk) {
        uint32_t n = count - i < chunk ? count - i : chunk;
        status = tf_model_prefill(m, 0, g->prompt[prompt] + i, n, at, &tokens[0], &err);
        if (at != NULL) at += (size_t)n * FORWARD_VOCAB;
    }
    for (uint32_t k = 0; status == TF_OK && k + 1 < FORWARD_TOKENS; k++) {
        tf_row row = {0, g->greedy[prompt][k]};
        status = tf_model_decode(m, &row, 1, at, &tokens[k + 1], &err);
        if (at != NULL) at += FORWARD_VOCAB;
    }
    return CHECKF(t, status == TF_OK, "%s", tf_error_line(&err, line, sizeof line));
}
