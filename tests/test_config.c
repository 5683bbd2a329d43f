/* config.json: the golden ones give the known roles; every inconsistency is refused by its field. */
#include "engine/base/io.h"
#include "engine/pack/builtin.h"
#include "engine/pack/config.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The golden file with the value of one key replaced; NULL value: the key removed. */
static void edited(check_case *t, const char *key, const char *value, char *to, size_t size) {
    static char golden[1 << 14];
    FILE *file = fopen(TF_SOURCE_DIR "/tests/golden/tiny-bf16/config.json", "r");
    if (!CHECK(t, file != NULL)) return;
    golden[fread(golden, 1, sizeof golden - 1, file)] = '\0';
    fclose(file);
    snprintf(to, size, "%s", golden);
    if (key == NULL) return;
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    /* The last one: model_type stands at the root too. */
    char *begin = NULL;
    for (char *p = strstr(golden, quoted); p != NULL; p = strstr(p + 1, quoted))
        begin = p;
    if (!CHECKF(t, begin != NULL, "the golden config has no %s", key)) return;
    const char *end = begin + strlen(quoted) + 1;
    end = *end == '[' || *end == '{' ? strchr(end, *end == '[' ? ']' : '}') + 1
                                     : end + strcspn(end, ",\n");
    int before = (int)(begin - golden);
    if (value == NULL)
        snprintf(to, size, "%.*s\"eos_token_id\": 1%s", before, golden, end);
    else
        snprintf(to, size, "%.*s%s %s%s", before, golden, quoted, value, end);
}

static tf_status parse(const char *text, tf_config *c, tf_error *err) {
    *err = (tf_error){0};
    return config_parse("config.json", text, strlen(text), c, err);
}

static void the_golden_config_gives_the_known_roles(check_case *t) {
    static tf_config c;
    static char text[1 << 14];
    tf_error err = {0};
    edited(t, NULL, NULL, text, sizeof text);
    if (!CHECKF(t, parse(text, &c, &err) == TF_OK, "%s: %s", err.what, err.found)) return;
    CHECK_U64(t, c.layers, 14);
    CHECK_U64(t, c.heads, 16);
    CHECK_U64(t, c.groups, 8);
    /* kv_source(L) is the greatest source at or below L, index_source likewise. */
    static const uint32_t kv[] = {2, 2, 4, 4, 6, 6, 6, 6, 6};
    static const uint32_t index[] = {2, 2, 4, 4, 6, 6, 8, 8, 10};
    for (uint32_t l = 0; l < c.layers; l++) {
        const config_layer *layer = &c.layer[l];
        bool compresses = l >= 2 && l <= 10;
        CHECK_U64(t, layer->kind, l >= 11 ? LAYER_DRAFT : LAYER_TARGET);
        CHECK_U64(t, layer->kv_source, compresses ? kv[l - 2] : CONFIG_NONE);
        CHECK_U64(t, layer->index_source, compresses ? index[l - 2] : CONFIG_NONE);
        CHECK_U64(t, layer->owns_kv, compresses && layer->kv_source == l);
        CHECK_U64(t, layer->owns_index, compresses && layer->index_source == l);
        CHECK_U64(t, layer->makes_candidates, l == 6);
        CHECK_U64(t, layer->uses_candidates, l == 8 || l == 10);
        CHECK_U64(t, layer->tap, l >= 8 && l <= 10 ? l - 8 : CONFIG_NONE);
        CHECK_U64(t, layer->engram, l == 1 ? 0 : l == 4 ? 1 : CONFIG_NONE);
        CHECK_U64(t, layer->routed_experts, l >= 11 ? 4 : 6);
    }
}

static void the_text_is_canonical(check_case *t) {
    static tf_config a;
    static tf_config b;
    static char text[1 << 14];
    static char packed[1 << 14];
    tf_error err = {0};
    edited(t, NULL, NULL, text, sizeof text);
    size_t n = 0;
    /* Another layout of the same document is the same config. */
    for (const char *p = text; *p != '\0'; p++)
        if (*p != '\n' && *p != ' ') packed[n++] = *p;
    packed[n] = '\0';
    CHECK_U64(t, parse(text, &a, &err), TF_OK);
    CHECK_U64(t, parse(packed, &b, &err), TF_OK);
    CHECK(t, digest_equal(a.digest, b.digest));
    edited(t, "rope_theta", "10001", text, sizeof text);
    CHECK_U64(t, parse(text, &b, &err), TF_OK);
    CHECK(t, !digest_equal(a.digest, b.digest));
}

static void every_builtin_config_is_accepted(check_case *t) {
    static tf_config c;
    for (const char *const *name = builtin_kinds(); *name != NULL; name++) {
        const builtin_model *model = builtin_find(*name);
        tf_text text = {0};
        tf_error err = {0};
        builtin_config_json(model, model->layers, &text);
        CHECKF(t, config_parse(*name, text.data, text.length, &c, &err) == TF_OK, "%s: %s",
               err.what, err.found);
        text_free(&text);
    }
}

typedef struct wrong_field {
    const char *key, *value;
    tf_word word;
    const char *said; /* in what, found, expected or remedy */
} wrong_field;

static const wrong_field wrong[] = {
    {"hidden_size", NULL, TF_W_BAD_JSON, "hidden_size"},
    {"hidden_size", "0", TF_W_BAD_JSON, "hidden_size"},
    {"hidden_size", "\"64\"", TF_W_BAD_JSON, "\"64\""},
    {"hidden_size", "64.5", TF_W_BAD_JSON, "64.5"},
    {"num_attention_heads", "15", TF_W_BAD_CONFIG, "a multiple of o_groups 8"},
    {"moe_intermediate_size", "650", TF_W_BAD_CONFIG, "a multiple of the split block 128"},
    {"vocab_size", "1281", TF_W_BAD_CONFIG, "a multiple of the split block 128"},
    {"qk_rope_head_dim", "31", TF_W_BAD_CONFIG, "a pair"},
    {"qk_rope_head_dim", "65536", TF_W_BAD_CONFIG, "at most head_dim"},
    {"num_experts_per_tok", "7", TF_W_BAD_CONFIG, "n_routed_experts 6"},
    {"engram_pad_token_id", "1280", TF_W_BAD_CONFIG, "at most vocab_size - 1 1279"},
    {"num_key_value_heads", "2", TF_W_BAD_JSON, "num_key_value_heads"},
    {"hidden_act", "\"gelu\"", TF_W_BAD_CONFIG, "'gelu'"},
    {"scoring_func", "\"softmax\"", TF_W_BAD_CONFIG, "'softmax'"},
    {"norm_topk_prob", "false", TF_W_BAD_CONFIG, "norm_topk_prob"},
    {"attention_bias", "true", TF_W_BAD_CONFIG, "attention_bias"},
    {"rope_theta", "0", TF_W_BAD_CONFIG, "a number above 0"},
    {"rope_theta", "-1", TF_W_BAD_CONFIG, "a number above 0"},
    {"rope_theta", "1e999", TF_W_BAD_JSON, "rope_theta"},
    {"rope_theta", "1", TF_W_BAD_CONFIG, "above 1"},
    {"compress_rope_theta", "1e-300", TF_W_BAD_CONFIG, "above 1"},
    {"compress_rope_theta", "2e12", TF_W_BAD_CONFIG, "at most 1e+12"},
    {"rope_scaling", "{\"rope_type\":\"linear\",\"factor\":2}", TF_W_BAD_CONFIG, "'linear'"},
    {"rope_scaling", "{\"rope_type\":\"yarn\",\"factr\":2}", TF_W_UNKNOWN_KEY, "factr"},
    {"rope_scaling", "3", TF_W_BAD_CONFIG, "an object"},
    {"compress_ratios", "[0,0,2]", TF_W_BAD_CONFIG, "3 ratios"},
    {"compress_ratios", "[0,0,3,2,2,2,1,1,1,1,1,0,0,0]", TF_W_BAD_CONFIG, "3 on layer 2"},
    {"compress_ratios", "[0,0,2,2,2,2,1,1,1,1,1,0,0,1]", TF_W_BAD_CONFIG, "1 on layer 13"},
    {"kv_source_layer_ids", "[2,6,4]", TF_W_BAD_CONFIG, "4 after 6"},
    {"kv_source_layer_ids", "[2,4,4]", TF_W_BAD_CONFIG, "4 after 4"},
    {"kv_source_layer_ids", "[1,4,6]", TF_W_BAD_CONFIG, "layer 1, whose compress ratio is 0"},
    {"kv_source_layer_ids", "[2,4,11]", TF_W_BAD_CONFIG, "layer 11"},
    {"kv_source_layer_ids", "[4,6]", TF_W_BAD_CONFIG, "kv_source_layer_ids"},
    {"kv_source_layer_ids", "[2,4]", TF_W_BAD_CONFIG, "source"},
    {"index_source_layer_ids", "[2,6,8,10]", TF_W_BAD_CONFIG, "index_source_layer_ids"},
    {"candidate_source_layer_id", "7", TF_W_BAD_CONFIG, "layer 7, which is no index source"},
    {"candidate_source_layer_id", "4", TF_W_BAD_CONFIG, "candidate_source_layer_id"},
    {"engram_layer_ids", "[4,1]", TF_W_BAD_CONFIG, "1 after 4"},
    {"engram_num_embeddings", "[4488]", TF_W_BAD_CONFIG, "1 counts"},
    {"dspark_target_layer_ids", "[]", TF_W_BAD_CONFIG, "none, with 3 draft layers"},
    {"dspark_target_layer_ids", "[8,9,12]", TF_W_BAD_CONFIG, "layer 12"},
    {"sliding_window", "8, \"sliding_windw\": 9", TF_W_UNKNOWN_KEY,
     "did you mean 'sliding_window'?"},
};

static void every_inconsistency_is_refused_by_its_field(check_case *t) {
    static tf_config c;
    static char text[1 << 14];
    for (size_t i = 0; i < COUNT(wrong); i++) {
        tf_error err = {0};
        edited(t, wrong[i].key, wrong[i].value, text, sizeof text);
        tf_status status = parse(text, &c, &err);
        CHECKF(t, status == TF_BAD_INPUT && err.word == wrong[i].word, "%s = %s: [%s] %s",
               wrong[i].key, wrong[i].value == NULL ? "(none)" : wrong[i].value,
               tf_word_text(err.word), err.what);
        bool said = strstr(err.what, wrong[i].said) != NULL ||
                    strstr(err.found, wrong[i].said) != NULL ||
                    strstr(err.expected, wrong[i].said) != NULL ||
                    strstr(err.remedy, wrong[i].said) != NULL;
        CHECKF(t, said, "%s = %s: %s: found %s, expected %s", wrong[i].key,
               wrong[i].value == NULL ? "(none)" : wrong[i].value, err.what, err.found,
               err.expected);
    }
}

/* Another value for a key of the text. */
static void set_number(char *text, const char *key, unsigned value) {
    static char rest[1 << 14];
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    char *at = strstr(text, quoted);
    if (at == NULL) abort();
    at += strlen(quoted);
    snprintf(rest, sizeof rest, "%s", at + strcspn(at, ",}"));
    snprintf(at, sizeof rest - (size_t)(at - text), " %u%s", value, rest);
}

/* More than the tables of cosines hold, with heads that are wide enough. */
static void too_many_rotating_dims_are_refused(check_case *t) {
    static tf_config c;
    static char text[1 << 14];
    tf_error err = {0};
    edited(t, NULL, NULL, text, sizeof text);
    set_number(text, "head_dim", 1024);
    set_number(text, "index_head_dim", 1024);
    set_number(text, "qk_rope_head_dim", 514);
    CHECK_U64(t, parse(text, &c, &err), TF_BAD_INPUT);
    CHECK_U64(t, err.word, TF_W_BAD_CONFIG);
    CHECKF(t, strstr(err.what, "qk_rope_head_dim") != NULL && strstr(err.expected, "512") != NULL,
           "%s: expected %s", err.what, err.expected);
    set_number(text, "qk_rope_head_dim", 512);
    err = (tf_error){0};
    CHECKF(t, parse(text, &c, &err) == TF_OK, "%s", err.what);
}

static void other_families_are_refused(check_case *t) {
    static tf_config c;
    static const struct {
        const char *text;
        tf_word word;
        const char *said;
    } other[] = {{"{\"model_type\":\"llama\"}", TF_W_UNKNOWN_MODEL, "'llama'"},
                 {"{}", TF_W_UNKNOWN_MODEL, "''"},
                 {"[]", TF_W_UNKNOWN_MODEL, "''"},
                 {"{\"model_type\":\"deepseek_v41\"}", TF_W_BAD_CONFIG, ""},
                 {"{\"model_type\":\"deepseek_v41\",\"text_config\":[]}", TF_W_BAD_CONFIG, ""}};
    for (size_t i = 0; i < COUNT(other); i++) {
        tf_error err = {0};
        CHECKF(t, parse(other[i].text, &c, &err) == TF_BAD_INPUT && err.word == other[i].word,
               "%s: [%s]", other[i].text, tf_word_text(err.word));
        CHECKF(t, strstr(err.found, other[i].said) != NULL, "%s: %s", other[i].text, err.found);
    }
    tf_error err = {0};
    CHECK_U64(t, config_read("/no/such/folder", &c, &err), TF_IO);
    CHECKF(t, strstr(err.what, "/no/such/folder/config.json") != NULL, "%s", err.what);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"config/the-golden-config-gives-the-known-roles", the_golden_config_gives_the_known_roles},
        {"config/the-text-is-canonical", the_text_is_canonical},
        {"config/every-builtin-config-is-accepted", every_builtin_config_is_accepted},
        {"config/every-inconsistency-is-refused-by-its-field",
         every_inconsistency_is_refused_by_its_field},
        {"config/too-many-rotating-dims-are-refused", too_many_rotating_dims_are_refused},
        {"config/other-families-are-refused", other_families_are_refused},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
