/* config.json: the real layers in their roles, no field without a part in the digest. */
#include "engine/base/nearest.h"
#include "engine/pack/builtin.h"
#include "engine/pack/config.h"
#include "tests/support/check.h"
#include "tests/support/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN TF_SOURCE_DIR "/tests/golden/"

static tf_config config;

/* The golden config with the first `from` replaced; NULL: as it is.  Caller frees. */
static char *edited(check_case *t, const char *from, const char *to) {
    char *text = NULL;
    size_t n = 0;
    if (!CHECK(t, golden_read(GOLDEN "tiny-exl3/config.json", &text, &n))) return NULL;
    if (from == NULL) return text;
    char *at = strstr(text, from);
    char *out = calloc(1, n + strlen(to) + 1);
    if (CHECKF(t, at != NULL && out != NULL, "no '%s' to edit", from)) {
        size_t head = (size_t)(at - text);
        memcpy(out, text, head);
        snprintf(out + head, n + strlen(to) + 1 - head, "%s%s", to, at + strlen(from));
    }
    free(text);
    return out;
}

static tf_status parse(const char *text, tf_error *err) {
    *err = (tf_error){0};
    return config_parse("config.json", text, strlen(text), &config, err);
}

/* Written down from the published description (MODEL 1), layer by layer. */
static void real_layers_have_their_roles(check_case *t) {
    tf_text json = {0};
    tf_error err = {0};
    const builtin_model *flash = builtin_find("flash");
    if (!CHECK(t, flash != NULL)) return;
    builtin_config_json(flash, flash->layers, &json);
    CHECK_U64(t, config_parse("flash", text_str(&json), json.length, &config, &err), TF_OK);
    text_free(&json);
    CHECK_U64(t, config.layers, 43);
    for (uint32_t l = 0; l < 43 && !check_failed(t); l++) {
        const config_layer *layer = &config.layer[l];
        uint32_t ratio = l < 2 || l >= 40 ? 0 : l < 20 ? 2 : 1;
        uint32_t kv = l < 8 ? 2 : l < 14 ? 8 : l < 20 ? 14 : 20;
        uint32_t index = l < 20 ? kv : l / 4 * 4;
        check_note(t, "layer %u", l);
        CHECK_U64(t, layer->ratio, ratio);
        CHECK_U64(t, layer->kv_source, ratio == 0 ? CONFIG_NONE : kv);
        CHECK_U64(t, layer->index_source, ratio == 0 ? CONFIG_NONE : index);
        CHECK_U64(t, layer->owns_kv, l == 2 || l == 8 || l == 14 || l == 20);
        CHECK_U64(t, layer->owns_index, ratio != 0 && index == l);
        CHECK_U64(t, layer->makes_candidates, l == 20);
        CHECK_U64(t, layer->uses_candidates, ratio != 0 && l > 20 && index == l);
        CHECK_U64(t, layer->engram, l == 1 ? 0 : l == 14 ? 1 : CONFIG_NONE);
        CHECK_U64(t, layer->tap, l >= 37 && l <= 39 ? l - 37 : CONFIG_NONE);
        CHECK_U64(t, layer->kind, l >= 40 ? LAYER_DRAFT : LAYER_TARGET);
        CHECK_U64(t, layer->routed_experts, l >= 40 ? 128 : 384);
        CHECK_U64(t, layer->experts_per_tok, l >= 40 ? 3 : 6);
    }
    CHECK(t, config.heads == 64 && config.groups == 8 && config.vocab == 129280);
    CHECK(t, config.expert_width == 2304 && config.rms_eps == 1e-20);
}

static void missing_fields_are_named(check_case *t) {
    static const char *const fields[] = {
        "hidden_size",  "vocab_size",        "compress_ratios", "hc_eps",
        "rope_scaling", "engram_vocab_size", "swiglu_limit",    "kv_source_layer_ids",
        "head_dim",     "scoring_func",      "index_topk",      "dspark_block_size"};
    for (size_t i = 0; i < COUNT(fields); i++) {
        char from[64];
        char to[64];
        /* A harmless key of the same length takes its place. */
        snprintf(from, sizeof from, "\"%s\"", fields[i]);
        snprintf(to, sizeof to, "\"use_cache\":0, \"dtype\":0, \"torch_dtype\"");
        char *text = edited(t, from, to);
        tf_error err;
        if (text == NULL) return;
        parse(text, &err);
        CHECKF(t, err.status == TF_BAD_INPUT && strstr(err.what, fields[i]) != NULL, "%s: %s",
               fields[i], err.what);
        free(text);
    }
}

/* No field may be left out of the digest that plans carry. */
static void every_number_changes_the_digest(check_case *t) {
    char *text = edited(t, NULL, NULL);
    tf_error err;
    if (text == NULL || !CHECK_U64(t, parse(text, &err), TF_OK)) return;
    tf_digest whole = config.digest;
    size_t changed = 0;
    char *end = strstr(text, "\"quantization_config\"");
    for (char *at = strchr(text, ':'); at != NULL && at < end; at = strchr(at + 1, ':')) {
        char *digit = at + strspn(at, ": ");
        size_t digits = strspn(digit, "0123456789");
        if (digits == 0 || digits > 4) continue;
        /* Positions, tokens of the tokeniser and the like have no part in the arithmetic. */
        const char *harmless[] = {"max_position", "bos_token", "eos_token", "\"pad_token"};
        bool skip = false;
        for (size_t h = 0; h < COUNT(harmless); h++) {
            const char *key = at;
            while (key > text && key[-1] != '\n')
                key--;
            const char *found = strstr(key, harmless[h]);
            skip = skip || (found != NULL && found < at);
        }
        if (skip) continue;
        char kept = digit[digits - 1];
        digit[digits - 1] = (char)(kept == '9' ? '8' : kept + 1);
        bool same = parse(text, &err) == TF_OK && digest_equal(config.digest, whole);
        CHECKF(t, !same, "the digest does not see the change of %.40s", at - 20);
        changed++;
        digit[digits - 1] = kept;
    }
    CHECKF(t, changed > 30, "only %zu fields were changed", changed);
    free(text);
}

static void nearest_is_near_or_nothing(check_case *t) {
    static const char *const names[] = {"plan", "emit", "pins check", "doctor"};
    CHECK_STR(t, tf_nearest("plna", names, COUNT(names)), "plan");
    CHECK_STR(t, tf_nearest("do", names, COUNT(names)), "doctor");
    CHECK(t, tf_nearest("zzzzzz", names, COUNT(names)) == NULL);
    CHECK(t, tf_nearest("", names, COUNT(names)) == NULL);
    char endless[4096];
    memset(endless, 'p', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    CHECK(t, tf_nearest(endless, names, COUNT(names)) == NULL);
}

static void any_cut_is_refused(check_case *t) {
    char *text = edited(t, NULL, NULL);
    tf_error err;
    if (text == NULL) return;
    size_t n = strlen(text);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    for (size_t cut = 0; cut < n; cut += 7) {
        err = (tf_error){0};
        CHECKF(t, config_parse("c", text, cut, &config, &err) != TF_OK, "cut at %zu it passes",
               cut);
    }
    free(text);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"roles/real-layers-have-their-roles", real_layers_have_their_roles},
        {"roles/missing-fields-are-named", missing_fields_are_named},
        {"roles/every-number-changes-the-digest", every_number_changes_the_digest},
        {"roles/any-cut-is-refused", any_cut_is_refused},
        {"nearest/is-near-or-nothing", nearest_is_near_or_nothing},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
