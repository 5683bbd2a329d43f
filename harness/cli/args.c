#include "harness/cli/args.h"

#include "engine/base/nearest.h"

#include "engine/tf.h"

#include <ctype.h>
#include <string.h>

typedef enum {
    FORM_FLAG,
    FORM_TEXT,
    FORM_NUMBER,
    FORM_LAYER,
    FORM_WEIGHTS,
    FORM_REAL
} option_form;

typedef struct option {
    const char *name;
    const char *value; /* its name in help */
    option_form form;
    const char *about;
} option;

static const option options[OPT_COUNT] = {
    [OPT_HELP] = {"--help", NULL, FORM_FLAG, "this page"},
    [OPT_ROOT] = {"--root", "DIR", FORM_TEXT,
                  "the project: the folder of scripts.lua (default: the nearest one upwards)"},
    [OPT_DB] = {"--db", "FILE", FORM_TEXT, "the store (default: build/tfverify.db of the project)"},
    [OPT_JSON] = {"--json", NULL, FORM_FLAG, "print JSON"},
    [OPT_PACK] = {"--pack", "PACK", FORM_TEXT,
                  "a directory, or a built-in pack: tiny-bf16, tiny-exl3, flash"},
    [OPT_WORLD] = {"--world", "W", FORM_NUMBER, "number of ranks (default: 1)"},
    [OPT_RANK] = {"--rank", "R", FORM_NUMBER, "one rank, from 0"},
    [OPT_WEIGHTS] = {"--weights", "A,B,...", FORM_WEIGHTS,
                     "what each rank can carry, for unequal machines; sets --world"},
    [OPT_PHASE] = {"--phase", "PHASE", FORM_TEXT, "decode, prefill, draft or prefetch"},
    [OPT_LAYER] = {"--layer", "L", FORM_LAYER, "a layer from 0, top or all (default: all)"},
    [OPT_ROWS] = {"--rows", "N", FORM_NUMBER,
                  "rows of a decode step or a prefill chunk (default: 1 and 128)"},
    [OPT_START] = {"--start", "S", FORM_NUMBER,
                   "prefill: position of the chunk's first row (default: 0)"},
    [OPT_CONTEXT] = {"--context", "N", FORM_NUMBER,
                     "positions a request's state can hold (default: 4096)"},
    [OPT_LOGITS] = {"--logits", NULL, FORM_FLAG, "with the logits of every row on every rank"},
    [OPT_BUFFERS] = {"--buffers", NULL, FORM_FLAG,
                     "print the buffers with sizes and lifetimes instead of the calls"},
    [OPT_LAYERS] = {"--layers", "N", FORM_NUMBER, "number of target layers (default: the kind's)"},
    [OPT_RESUME] = {"--resume", NULL, FORM_FLAG, "keep files that are there and verify"},
    [OPT_WORKERS] = {"--workers", "N", FORM_NUMBER, "threads (default: one a core)"},
    [OPT_VERIFY] = {"--verify", "MODE", FORM_TEXT,
                    "none: headers only; sample: some payloads; full: every byte (default)"},
    [OPT_BASE] = {"--base", "REV", FORM_TEXT,
                  "capture what the code did at this git revision, built in a worktree of its own"},
    [OPT_RUN] = {"--run", "NAME", FORM_TEXT, "the run that makes the texts (default: pins)"},
    [OPT_TRUST] = {"--trust", NULL, FORM_FLAG, "give the scripts Lua's own io and os"},
    [OPT_KEEP] = {"--keep", "N", FORM_NUMBER, "number of newest runs to keep (default: 100)"},
    [OPT_IDS] = {"--ids", "A,B,...", FORM_TEXT, "token ids of a prompt"},
    [OPT_PROMPTS] = {"--prompts", "FILE", FORM_TEXT,
                     "prompts, one a line: 0,12,7 or {\"ids\": [0, 12, 7]}"},
    [OPT_TOKENS] = {"--tokens", "N", FORM_NUMBER, "ids to generate for each prompt (default: 16)"},
    [OPT_CHUNK] = {"--chunk", "N", FORM_NUMBER, "rows of a prefill chunk (default: 128)"},
    [OPT_SLOTS] = {"--slots", "N", FORM_NUMBER, "prompts that run side by side (default: 1)"},
    [OPT_TEMPERATURE] = {"--temperature", "T", FORM_REAL,
                         "draw tokens instead of the best (default: 0, the best)"},
    [OPT_SEED] = {"--seed", "N", FORM_NUMBER, "of the draws; the same seed draws the same"},
    [OPT_RANKS] = {"--ranks", "HOW", FORM_TEXT,
                   "threads: all ranks in this process (default); mpi: below mpirun -n W"},
    [OPT_THREADS] = {"--threads", "N", FORM_NUMBER,
                     "threads of a rank (default: the cores shared out)"},
    [OPT_ISA] = {"--isa", "NAME", FORM_TEXT,
                 "scalar, avx2, avx512 or amx (default: the best there is)"},
    [OPT_PROFILE] = {"--profile", "P", FORM_TEXT, "f32 (default) or bf16 activations"},
    [OPT_RANK_DIR] = {"--rank-dir", "DIR", FORM_TEXT,
                      "rank files made by rank write (default: made once, in the cache)"},
    [OPT_HASHES] = {"--layer-hashes", "FILE", FORM_TEXT,
                    "write hashes of every layer, for diverge; FILE.r0, ... at a world above 1"},
    [OPT_WAIT] = {"--wait", "SECONDS", FORM_REAL,
                  "give up a rank that neither answers nor advances (default: 4)"},
    [OPT_FAULT] = {"--fault", "R:PHASE:ACT", FORM_TEXT,
                   "for tests: rank R at open, load, prefill or decode will die, hang or kill"},
};

/* ---- parsing ---- */

static bool takes(const command *c, size_t id) {
    return id == OPT_HELP || (c->options & (1ull << id)) != 0;
}

static tf_status unknown_option(const command *c, const char *word, size_t n, tf_error *err) {
    char given[64];
    size_t keep = n < sizeof given ? n : sizeof given - 1;
    memcpy(given, word, keep);
    given[keep] = '\0';
    const char *names[OPT_COUNT];
    size_t count = 0;
    for (size_t id = 0; id < OPT_COUNT; id++)
        if (takes(c, id)) names[count++] = options[id].name;
    const char *near = tf_nearest(given, names, count);
    tf_fail(err, TF_W_USAGE, "reading the options of '%s'", c->name);
    tf_found(err, "%s", given);
    if (near != NULL) tf_expected(err, "%s, perhaps", near);
    return tf_remedy(err, "tfverify %s --help lists what it takes", c->name);
}

static tf_status bad_value(const char *name, const char *value, const char *form, tf_error *err) {
    tf_fail(err, TF_W_USAGE, "reading %s", name);
    tf_found(err, "'%s'", value);
    return tf_expected(err, "%s", form);
}

/* Digits only: no sign, no blank, no 0x. */
static bool parse_number(const char *text, size_t n, uint64_t *out) {
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) return false;
        value = 10 * value + digit;
    }
    *out = value;
    return n > 0;
}

static bool parse_weights(const char *text, args *out) {
    out->weight_count = 0;
    for (const char *p = text;;) {
        size_t n = strcspn(p, ",");
        if (out->weight_count == TF_WORLD_MAX) return false;
        if (!parse_number(p, n, &out->weights[out->weight_count++])) return false;
        if (p[n] == '\0') return true;
        p += n + 1;
    }
}

/* A decimal number without exponent: 0.7. */
static bool parse_real(const char *text, double *out) {
    uint64_t whole = 0;
    uint64_t parts = 0;
    size_t n = strcspn(text, ".");
    size_t digits = text[n] == '.' ? strlen(text + n + 1) : 0;
    if (!parse_number(text, n, &whole) || digits > 9) return false;
    if (text[n] == '.' && !parse_number(text + n + 1, digits, &parts)) return false;
    double scale = 1.0;
    for (size_t i = 0; i < digits; i++)
        scale *= 10.0;
    *out = (double)whole + (double)parts / scale;
    return true;
}

static tf_status set_value(size_t id, const char *value, args *out, tf_error *err) {
    const option *o = &options[id];
    out->text[id] = value;
    switch (o->form) {
    case FORM_FLAG:
        return TF_OK;
    case FORM_TEXT:
        if (value[0] == '\0') return bad_value(o->name, value, "a text that is not empty", err);
        return TF_OK;
    case FORM_LAYER:
        out->number[id] = strcmp(value, "top") == 0 ? TF_TOP_LAYER : TF_ALL_LAYERS;
        if (strcmp(value, "top") == 0 || strcmp(value, "all") == 0) return TF_OK;
        if (!parse_number(value, strlen(value), &out->number[id]) ||
            out->number[id] >= TF_TOP_LAYER)
            return bad_value(o->name, value, "a layer's number, top or all", err);
        return TF_OK;
    case FORM_NUMBER:
        /* What is too many is for the room that knows: only what no field holds ends here. */
        if (!parse_number(value, strlen(value), &out->number[id]) ||
            (out->number[id] > UINT32_MAX && id != OPT_START))
            return bad_value(o->name, value, "a whole number below 4294967296", err);
        return TF_OK;
    case FORM_REAL:
        if (!parse_real(value, &out->real[id]))
            return bad_value(o->name, value, "a number from 0, as in 0.7", err);
        return TF_OK;
    case FORM_WEIGHTS:
        if (!parse_weights(value, out))
            return bad_value(o->name, value, "whole numbers separated by commas, as in 2,1,1", err);
        return TF_OK;
    }
    return TF_OK;
}

/* words[*at] is an option; moves *at to its last word. */
static tf_status parse_option(const command *c, char **words, size_t count, size_t *at, args *out,
                              tf_error *err) {
    const char *word = words[*at];
    size_t n = strcspn(word, "=");
    if (strcmp(word, "-h") == 0) {
        word = options[OPT_HELP].name;
        n = strlen(word);
    }
    for (size_t id = 0; id < OPT_COUNT; id++) {
        const option *o = &options[id];
        if (!takes(c, id) || strlen(o->name) != n || strncmp(word, o->name, n) != 0) continue;
        bool attached = word[n] == '=';
        const char *value = attached ? word + n + 1 : NULL;
        if (o->form == FORM_FLAG && attached) return bad_value(o->name, value, "no value", err);
        if (o->form != FORM_FLAG && !attached) {
            if (*at + 1 == count) return bad_value(o->name, "", o->value, err);
            value = words[++*at];
        }
        if (out->given[id]) {
            tf_fail(err, TF_W_USAGE, "reading the options of '%s'", c->name);
            tf_found(err, "%s twice", o->name);
            return tf_expected(err, "it once");
        }
        out->given[id] = true;
        return set_value(id, value, out, err);
    }
    return unknown_option(c, word, n, err);
}

static tf_status check_operands(const command *c, const args *a, tf_error *err) {
    if (a->given[OPT_HELP]) return TF_OK;
    if (a->operand_count >= c->operands_min && a->operand_count <= c->operands_max) return TF_OK;
    tf_fail(err, TF_W_USAGE, "running '%s'", c->name);
    if (a->operand_count < c->operands_min)
        tf_found(err, "%zu of its arguments", a->operand_count);
    else
        tf_found(err, "'%s' too many", a->operands[c->operands_max]);
    tf_expected(err, "%s", c->operands[0] == '\0' ? "options only" : c->operands);
    return tf_remedy(err, "tfverify %s --help shows its form", c->name);
}

tf_status args_parse(const command *c, char **words, size_t count, args *out, tf_error *err) {
    *out = (args){0};
    tf_status status = TF_OK;
    bool only_operands = false;
    for (size_t i = 0; i < count; i++) {
        bool is_option = !only_operands && words[i][0] == '-' && words[i][1] != '\0';
        if (is_option && strcmp(words[i], "--") == 0) {
            only_operands = true;
        } else if (is_option) {
            TF_TRY(parse_option(c, words, count, &i, out, err));
        } else if (out->operand_count == ARG_OPERANDS_MAX) {
            tf_fail(err, TF_W_USAGE, "reading the arguments of '%s'", c->name);
            tf_found(err, "more than %d", ARG_OPERANDS_MAX);
            return tf_expected(err, "%s", c->operands);
        } else {
            out->operands[out->operand_count++] = words[i];
        }
    }
    TF_TRY(check_operands(c, out, err));
done:
    return status;
}

void args_help(const command *c, tf_text *out) {
    text_print(out, "usage: tfverify %s [OPTIONS]%s%s\n\n", c->name,
               c->operands[0] != '\0' ? " " : "", c->operands);
    text_char(out, (char)toupper((unsigned char)c->about[0]));
    text_print(out, "%s.\n\nOptions\n", c->about + 1);
    for (size_t id = 0; id < OPT_COUNT; id++) {
        if (!takes(c, id)) continue;
        const char *value = options[id].value == NULL ? "" : options[id].value;
        text_print(out, "  %-14s %-12s %s\n", options[id].name, value, options[id].about);
    }
    if (c->help[0] != '\0') text_print(out, "\n%s", c->help);
}
