/* The forward against the publisher's own numbers (tests/golden): logits, tokens, token_sha. */
#include "engine/base/digest.h"
#include "tests/support/check.h"
#include "tests/support/forward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a correct float32 engine may differ from float64 by, on any logit. */
#define LOGIT_TOLERANCE 5e-4

static double furthest(const float *got, const float *want, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

static void sha_of(const int32_t *ids, uint32_t count, char hex[65]) {
    char text[1024];
    size_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", i == 0 ? "" : ",", ids[i]);
    sha256_hex(text, n, hex);
}

static void check_prompt(check_case *t, tf_model *m, forward_golden *g, uint32_t p) {
    uint32_t length = forward_lengths[p];
    uint32_t rows = forward_rows(p);
    int32_t tokens[FORWARD_TOKENS];
    char name[64];
    char sha[65];
    float *logits = malloc((size_t)rows * FORWARD_VOCAB * sizeof *logits);
    if (logits == NULL) abort();
    if (forward_run(t, m, g, p, FORWARD_IDS_MAX, logits, tokens)) {
        snprintf(name, sizeof name, "prefill.%u.logits", length);
        const float *prefill = forward_golden_floats(t, g, name);
        snprintf(name, sizeof name, "decode.%u.logits", length);
        const float *decode = forward_golden_floats(t, g, name);
        double first = furthest(logits, prefill, (size_t)length * FORWARD_VOCAB);
        double later = furthest(logits + (size_t)length * FORWARD_VOCAB, decode,
                                (size_t)(FORWARD_TOKENS - 1) * FORWARD_VOCAB);
        check_note(t, "prompt of %u: logits within %.2e in prefill, %.2e in decode", length, first,
                   later);
        CHECK(t, first <= LOGIT_TOLERANCE);
        CHECK(t, later <= LOGIT_TOLERANCE);
        CHECK(t, memcmp(tokens, g->greedy[p], sizeof tokens) == 0);
        sha_of(tokens, FORWARD_TOKENS, sha);
        CHECK_STR(t, sha, g->token_sha[p]);
    }
    free(logits);
}

static void check_pack(check_case *t, const char *name) {
    forward_golden g;
    tf_pack *pack = forward_pack(t, name);
    tf_model_options o = {0};
    if (pack == NULL) return;
    tf_model *m = forward_open(t, pack, 1, NULL, &o);
    if (m != NULL && forward_golden_open(t, name, &g)) {
        for (uint32_t p = 0; p < FORWARD_PROMPTS; p++)
            check_prompt(t, m, &g, p);
        forward_golden_close(&g);
    }
    tf_model_close(m);
    tf_pack_close(pack);
}

static void plain_weights_give_the_golden_numbers(check_case *t) {
    check_pack(t, "tiny-bf16");
}

static void trellis_weights_give_the_golden_numbers(check_case *t) {
    check_pack(t, "tiny-exl3");
}

/* ---- the profile that rounds what enters a product ---- */

static double rms_distance(const float *a, const float *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum / (double)count);
}

/* Ours may lie 1.3 times as far from float64 as the publisher's own bf16 does. */
static void check_rounded(check_case *t, const char *name) {
    static float logits[FORWARD_IDS_MAX * FORWARD_VOCAB];
    forward_golden g = {0};
    golden_file rounded = {0};
    char path[512];
    tf_pack *pack = forward_pack(t, name);
    tf_model_options o = {.profile = TF_PROFILE_BF16};
    if (pack == NULL) return;
    snprintf(path, sizeof path, TF_SOURCE_DIR "/tests/golden/%s/expected-bf16.safetensors", name);
    tf_model *m = forward_open(t, pack, 1, NULL, &o);
    bool held =
        m != NULL && forward_golden_open(t, name, &g) && CHECK(t, golden_open(path, &rounded));
    for (uint32_t p = 0; held && p < FORWARD_PROMPTS; p++) {
        char key[64];
        tf_error err = {0};
        golden_tensor publisher;
        uint32_t length = forward_lengths[p];
        size_t count = (size_t)length * FORWARD_VOCAB;
        snprintf(key, sizeof key, "prefill.%u.logits", length);
        const float *exact = forward_golden_floats(t, &g, key);
        snprintf(key, sizeof key, "bf16.prefill.%u.logits", length);
        held = golden_find(&rounded, key, &publisher) && exact != NULL &&
               tf_model_reset(m, 0, &err) == TF_OK &&
               tf_model_prefill(m, 0, g.prompt[p], length, logits, NULL, &err) == TF_OK;
        if (!CHECK(t, held)) break;
        double ours = rms_distance(logits, exact, count);
        double theirs = rms_distance((const float *)(const void *)publisher.data, exact, count);
        check_note(t, "prompt of %u: %.4f from float64, the publisher's bf16 %.4f", length, ours,
                   theirs);
        CHECK(t, ours <= 1.3 * theirs);
        CHECK(t, ours > 1e-4); /* it does round */
    }
    golden_close(&rounded);
    forward_golden_close(&g);
    tf_model_close(m);
    tf_pack_close(pack);
}

static void the_rounded_profile_is_as_near_as_the_publishers(check_case *t) {
    check_rounded(t, "tiny-bf16");
    check_rounded(t, "tiny-exl3");
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"forward/plain-weights-give-the-golden-numbers", plain_weights_give_the_golden_numbers},
        {"forward/trellis-weights-give-the-golden-numbers",
         trellis_weights_give_the_golden_numbers},
        {"forward/the-rounded-profile-is-as-near-as-the-publishers",
         the_rounded_profile_is_as_near_as_the_publishers},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
