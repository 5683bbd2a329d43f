/* cli/args - one table of options for every command.
 *
 * Idea: an option means the same wherever it is taken, so it stands once in a table with its form
 * and its help; a command only says which ones it takes.
 * Trap: an option of another command is refused, never ignored; the nearest known one is named. */
#ifndef TF_HARNESS_CLI_ARGS_H
#define TF_HARNESS_CLI_ARGS_H

#include "engine/base/limits.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    OPT_HELP,
    OPT_ROOT,
    OPT_DB,
    OPT_JSON,
    OPT_PACK,
    OPT_WORLD,
    OPT_RANK,
    OPT_WEIGHTS,
    OPT_PHASE,
    OPT_LAYER,
    OPT_ROWS,
    OPT_START,
    OPT_CONTEXT,
    OPT_LOGITS,
    OPT_BUFFERS,
    OPT_LAYERS,
    OPT_RESUME,
    OPT_WORKERS,
    OPT_VERIFY,
    OPT_BASE,
    OPT_RUN,
    OPT_TRUST,
    OPT_KEEP,
    OPT_IDS,
    OPT_PROMPTS,
    OPT_TOKENS,
    OPT_CHUNK,
    OPT_SLOTS,
    OPT_TEMPERATURE,
    OPT_SEED,
    OPT_RANKS,
    OPT_THREADS,
    OPT_ISA,
    OPT_PROFILE,
    OPT_RANK_DIR,
    OPT_HASHES,
    OPT_WAIT,
    OPT_FAULT,
    OPT_COUNT
} option_id;

#define OPT(name) (1ull << OPT_##name)

enum {
    ARG_OPERANDS_MAX = 64
};

typedef struct args {
    bool given[OPT_COUNT];
    const char *text[OPT_COUNT]; /* the value as typed; borrowed from argv */
    double real[OPT_COUNT];      /* of options that take one with a fraction */
    uint64_t number[OPT_COUNT];  /* of options that take one; a layer as tf_emit_request wants it */
    uint64_t weights[TF_WORLD_MAX];
    uint32_t weight_count;
    const char *operands[ARG_OPERANDS_MAX];
    size_t operand_count;
} args;

typedef struct session session;

typedef struct command {
    const char *name;     /* as typed: "plan", "pack synth" */
    const char *operands; /* "KIND DIR" */
    const char *about;    /* one line */
    const char *help;     /* paragraphs; the examples last */
    uint64_t options;     /* OPT(...) | ...; --help is always taken */
    uint32_t operands_min;
    uint32_t operands_max;
    tf_status (*run)(const session *s, const args *a, tf_error *err);
} command;

/* words: what follows the command's name.  Fails with usage. */
tf_status args_parse(const command *c, char **words, size_t count, args *out, tf_error *err);
/* The page of `--help`. */
void args_help(const command *c, tf_text *out);
#endif
