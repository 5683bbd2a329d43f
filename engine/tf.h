/* tf - the engine as its users see it.
 *
 * Why the boundary is here: the harness proves things about an engine it must not be part of.  So
 * it gets whole objects - a pack, a plan, a list of calls, a set of rank files - each with a
 * canonical text and a digest, and never a pointer into their making.  Whatever a pin holds comes
 * out of this header; whatever runs later executes the same lists.
 *
 * Idea: handles are opaque and freed by their `_close`; every function that can fail returns
 * tf_status and fills a caller-owned tf_error; texts go to a caller-owned tf_text.
 * Trap: a plan borrows its pack and a call list its plan: close in reverse order. */
#ifndef TF_ENGINE_TF_H
#define TF_ENGINE_TF_H

#include "engine/base/digest.h"
#include "engine/base/limits.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tf_pack tf_pack;
typedef struct tf_plan tf_plan;
typedef struct tf_calls tf_calls;

#define TF_ALL_LAYERS UINT32_MAX
#define TF_TOP_LAYER  (UINT32_MAX - 1) /* embedding before the first layer, head after the last */

/* What long work tells while it runs; done and total in `unit` ("bytes", "files").  May be NULL.
 * Called from one thread at a time.  Return false to stop the work with `interrupted`. */
typedef bool (*tf_progress)(void *context, const char *unit, uint64_t done, uint64_t total);

/* ---- packs ---------------------------------------------------------------------------------- */

/* A directory, or a built-in name (tiny-bf16, tiny-exl3, flash), which is made in cache_dir on
 * first use and digest-checked on every one. */
tf_status tf_pack_open(const char *dir_or_name, const char *cache_dir, tf_pack **out,
                       tf_error *err);
void tf_pack_close(tf_pack *pack);
const char *tf_pack_name(const tf_pack *pack); /* pack owns */
const char *tf_pack_dir(const tf_pack *pack);
bool tf_pack_has_data(const tf_pack *pack); /* false: headers only */
tf_digest tf_pack_digest(const tf_pack *pack);
uint32_t tf_pack_layers(const tf_pack *pack); /* target and draft layers */
uint32_t tf_pack_vocab(const tf_pack *pack);
/* A listing: layer roles, tensors by kind, bytes, EXL3 linears and bits.  json: one object. */
void tf_pack_describe(const tf_pack *pack, bool json, tf_text *out);
tf_status tf_pack_content_digest(const tf_pack *pack, tf_digest *out, tf_error *err);
/* Makes a pack: kind is a built-in name; layers 0: its own count, else that many target layers
 * (for tests of size; the digests of tensors.tsv then hold for no more than the shared ones). */
tf_status tf_pack_synth(const char *kind, const char *dir, uint32_t layers, tf_progress progress,
                        void *context, tf_error *err);
/* NULL-terminated; static storage. */
const char *const *tf_pack_builtins(void);

/* ---- plans ---------------------------------------------------------------------------------- */

typedef struct tf_split {
    uint32_t world;
    uint32_t rank;
    uint64_t weights[TF_WORLD_MAX]; /* used when has_weights */
    bool has_weights;
} tf_split;

tf_status tf_plan_make(const tf_pack *pack, const tf_split *split, tf_plan **out, tf_error *err);
void tf_plan_close(tf_plan *plan);
const char *tf_plan_text(const tf_plan *plan); /* plan owns */
tf_digest tf_plan_fingerprint(const tf_plan *plan);

/* What a person asks of a plan; sizes are this rank's, from its ranges' begin and end. */
#define TF_UNITS      4  /* see tf_unit_name */
#define TF_CATEGORIES 16 /* at most; see tf_category_count */
typedef struct tf_unit_share {
    uint32_t total; /* units of the model */
    uint32_t begin; /* this rank's, half open */
    uint32_t end;
} tf_unit_share;
typedef struct tf_plan_facts {
    uint32_t world, rank;
    uint64_t weight; /* of this rank; 1 when machines are equal */
    tf_unit_share
        units[TF_UNITS]; /* output groups, expert blocks, vocabulary blocks, hash columns */
    uint32_t heads, first_head;
    uint32_t expert_width;
    uint32_t vocab, first_vocab;
    uint32_t items;
    uint64_t bytes;
    uint64_t category_bytes[TF_CATEGORIES];
} tf_plan_facts;
void tf_plan_facts_of(const tf_plan *plan, tf_plan_facts *out);
const char *tf_unit_name(uint32_t unit); /* "output groups", ... */
uint32_t tf_category_count(void);
const char *tf_category_name(uint32_t category); /* "attention", ... */
/* One object, facts and fingerprint. */
void tf_plan_json(const tf_plan *plan, tf_text *out);

/* ---- emitted calls -------------------------------------------------------------------------- */

typedef enum {
    TF_PHASE_DECODE,
    TF_PHASE_PREFILL,
    TF_PHASE_DRAFT,
    TF_PHASE_PREFETCH,
    TF_PHASE_COUNT
} tf_phase;
const char *tf_phase_name(tf_phase phase);
bool tf_phase_parse(const char *name, tf_phase *out);

typedef struct tf_emit_request {
    tf_phase phase;
    uint32_t layer;   /* TF_ALL_LAYERS, TF_TOP_LAYER or a logical layer */
    uint32_t rows;    /* n: rows of a step, or a chunk's length; 0: the phase's usual (1, 128) */
    uint64_t start;   /* prefill: absolute position of the chunk's first row */
    uint64_t context; /* positions a request's state can hold; 0: 4096 */
    bool logits;      /* every row's logits over the whole vocabulary, on every rank */
} tf_emit_request;

tf_status tf_emit(const tf_plan *plan, const tf_emit_request *request, tf_calls **out,
                  tf_error *err);
void tf_calls_close(tf_calls *calls);
size_t tf_calls_count(const tf_calls *calls);
const char *tf_calls_text(const tf_calls *calls); /* one call a line; calls own */
tf_digest tf_calls_digest(const tf_calls *calls);
/* One line of the text and its facts, for a store; all owned by calls. */
typedef struct tf_call_row {
    uint32_t ordinal;
    uint32_t layer;
    const char *kind;
    const char *name;
    const char *line; /* line_bytes long, no newline */
    size_t line_bytes;
} tf_call_row;
void tf_calls_row(const tf_calls *calls, size_t index, tf_call_row *out);
void tf_calls_json(const tf_calls *calls,
                   tf_text *out); /* JSON Lines, header line first: a capture */
/* Buffer roles with sizes and lifetimes, and the peak. */
void tf_calls_buffers(const tf_calls *calls, bool json, tf_text *out);
/* Compares with a recorded capture (JSON Lines, its header names pack, world, rank, phase, rows,
 * start).  First difference: mismatch, named. */
tf_status tf_calls_check(const tf_pack *pack, const char *capture_path, tf_text *report,
                         tf_error *err);
/* Kernel variants all ranks of a world can be asked for, and which rank lacks which. */
tf_status tf_needs(const tf_pack *pack, const tf_split *split, bool json, tf_text *out,
                   tf_error *err);

/* ---- rank files ----------------------------------------------------------------------------- */

typedef enum {
    TF_VERIFY_NONE,
    TF_VERIFY_SAMPLE,
    TF_VERIFY_FULL
} tf_verify;

typedef struct tf_rank_options {
    uint32_t workers; /* 0: one a core */
    bool resume;      /* keep files of the same plan and weights that verify */
    tf_progress progress;
    void *context;
} tf_rank_options;

/* Writes this rank's files under dir/rank<r>; out_digest (may be NULL) is the rank-file digest. */
tf_status tf_rank_write(const tf_plan *plan, const char *dir, const tf_rank_options *options,
                        tf_digest *out_digest, tf_error *err);
/* What a pin holds of them: per file its name, length and digest, then the digest of all (digest may
 * be NULL).  The text of set.txt, computed without writing. */
tf_status tf_rank_text(const tf_plan *plan, const tf_rank_options *options, tf_text *out,
                       tf_digest *digest, tf_error *err);
/* Checks every rank<r> folder under dir against itself, and against the plan when one is given. */
tf_status tf_rank_verify(const char *dir, const tf_plan *plan, tf_verify mode, bool json,
                         const tf_rank_options *options, tf_text *report, tf_error *err);

/* ---- models: a forward that executes the emitted lists --------------------------------------- */

typedef struct tf_model tf_model;

typedef enum {
    TF_PROFILE_F32, /* float32 activations */
    TF_PROFILE_BF16 /* what enters a product with a bf16 or EXL3 weight is rounded to bf16 */
} tf_profile;

/* For tests of what happens when a rank fails; act NULL: nothing does. */
typedef struct tf_model_fault {
    const char *act;   /* "die" (fails), "hang" (never answers again), "kill" (its process ends) */
    const char *phase; /* "open", "load", "prefill", "decode" */
    uint32_t rank;
} tf_model_fault;

typedef struct tf_model_options {
    const char *device; /* NULL: "cpu" */
    const char *isa;    /* NULL: the best this machine has */
    const char *ranks;  /* NULL: "threads", all ranks in this process; "mpi": this process is one */
    const char *rank_dir; /* folder of rank<r> folders; NULL: made in cache_dir and kept there */
    const char *cache_dir;
    tf_profile profile;
    uint32_t threads;  /* of a rank; 0: the cores shared out among the ranks here */
    uint32_t slots;    /* requests side by side; 0: 1 */
    uint32_t rows;     /* most rows of a step or chunk; 0: 128 */
    uint64_t context;  /* positions of a request; 0: 4096 */
    uint32_t wait_ms;  /* a silent rank is given up; 0: 4000 */
    uint32_t delay_us; /* tests: each rank waits at random up to this before each exchange */
    uint64_t delay_seed;
    const char
        *layer_hashes; /* file to write them to (FILE.r0, FILE.r1, ... above world 1) or NULL */
    tf_model_fault fault;
    tf_progress progress; /* while weights load */
    void *context_of_progress;
} tf_model_options;

/* Ranks of split->world; split->rank means nothing.  Everything is checked on every rank - plan, rank
 * files, device, that all ranks agree - before the first byte of a weight is read.  Borrows the pack. */
tf_status tf_model_open(const tf_pack *pack, const tf_split *split, const tf_model_options *options,
                        tf_model **out, tf_error *err);
void tf_model_close(tf_model *model);

/* Positions of a slot start at 0.  After a failure other than a refused argument only close is open. */
uint32_t tf_model_length(const tf_model *model, uint32_t slot);
uint32_t tf_model_vocab(const tf_model *model);
/* The rank of this process, 0 where all ranks are in it; rank 0 should print. */
uint32_t tf_model_rank(const tf_model *model);
/* Forgets the request. */
tf_status tf_model_reset(tf_model *model, uint32_t slot, tf_error *err);
/* Takes back the newest positions; as many as a step of drafts can add.  Fails with
 * rollback-too-far. */
tf_status tf_model_rollback(tf_model *model, uint32_t slot, uint32_t length, tf_error *err);
/* How the slot's tokens are chosen: 0 is the best one, else a draw keyed by (seed, position). */
tf_status tf_model_sampling(tf_model *model, uint32_t slot, double temperature, int64_t seed,
                            tf_error *err);

/* Ids for the slot's next positions, at most options.rows of them.
 *
 *   ids     [count] i32
 *   logits  [count, V] f32 of every row, or NULL
 *   next    the token chosen after the last row; may be NULL
 *
 * Fails with bad-token, context-full, bad-slot. */
tf_status tf_model_prefill(tf_model *model, uint32_t slot, const int32_t *ids, uint32_t count,
                           float *logits, int32_t *next, tf_error *err);
/* A row of a step: the next token of a request.  Rows of one request stand together, in order. */
typedef struct tf_row {
    uint32_t slot;
    int32_t id;
} tf_row;
/*   logits  [count, V] f32, or NULL
 *   next    [count] i32: the token chosen after each row */
tf_status tf_model_decode(tf_model *model, const tf_row *rows, uint32_t count, float *logits,
                          int32_t *next, tf_error *err);

/* Ends options.layer_hashes: the files appear, whole.  Without it they never do. */
tf_status tf_model_finish_hashes(tf_model *model, tf_error *err);
/* Where two runs part: files of layer hashes, FILE or FILE.r0, FILE.r1, ...  A difference fails with
 * hashes-differ, after the report is written. */
tf_status tf_diverge(const char *a, const char *b, bool json, tf_text *out, tf_error *err);

/* A request's state, the same bytes at every world. */
size_t tf_model_state_bytes(const tf_model *model);
tf_status tf_model_save(tf_model *model, uint32_t slot, void *to, size_t bytes, tf_error *err);
/* Fails with state-differs for another model, context or profile, or damaged bytes. */
tf_status tf_model_restore(tf_model *model, uint32_t slot, const void *from, size_t bytes,
                           tf_error *err);

/* Bytes held by one rank of this process. */
typedef struct tf_model_memory {
    uint64_t weights;
    uint64_t state;     /* of all slots */
    uint64_t step;      /* peak of the lists' buffers */
    uint64_t scratch;   /* of kernels and exchanges */
    uint64_t in_out;    /* inputs and outputs of a step */
    uint64_t exchanged; /* bytes received from ranks so far */
} tf_model_memory;
void tf_model_memory_of(const tf_model *model, uint32_t rank, tf_model_memory *out);
const char *tf_model_isa(const tf_model *model);
/* Instruction sets of the cpu device that this machine has, NULL-terminated: "scalar", "avx2", ... */
const char *const *tf_model_isas(void);
/* The last exchanges of each rank here, a line each: to print when a run ended early. */
void tf_model_exchanges(const tf_model *model, tf_text *out);

typedef struct tf_prompt {
    const int32_t *ids;
    uint32_t count;
    double temperature;
    int64_t seed;
} tf_prompt;
typedef struct tf_generation {
    const tf_prompt *prompts;
    uint32_t count;  /* of prompts */
    uint32_t tokens; /* for each */
    uint32_t chunk;  /* rows of a prefill chunk; 0: options.rows */
} tf_generation;
typedef struct tf_generated {
    int32_t *ids; /* [tokens] caller owns */
    uint32_t count;
} tf_generated;
typedef struct tf_timing {
    double prefill_seconds, decode_seconds;
    uint64_t prefill_rows, decode_rows;
} tf_timing;
/* Runs prompts through the slots, as many side by side as there are.
 *
 *   out     [count]   one for each prompt
 *   timing  may be NULL */
tf_status tf_generate(tf_model *model, const tf_generation *generation, tf_generated *out,
                      tf_timing *timing, tf_error *err);

/* token_sha: SHA-256 over the ids in decimal joined by commas; its short form is the first 12 digits. */
void tf_token_sha(const int32_t *ids, uint32_t count, char hex[SHA256_HEX]);

/* The same for one prompt, with every row's logits over the whole vocabulary, as a text that a pin can
 * hold: the digest of the logits' bits in prefill and in decode, the tokens, and their token_sha.  It
 * says nothing of world, ranks, threads, instructions or chunks, since none of them may show in it. */
tf_status tf_forward_text(tf_model *model, const tf_prompt *prompt, uint32_t tokens, uint32_t chunk,
                          tf_text *out, tf_error *err);

/* ---- admission ------------------------------------------------------------------------------ */

/* Is the operation ("plan", "rank files", "emit decode", ...) open at this world?  To be asked before
 * anything is opened; every function above asks again.  world-not-admitted, needs-sign-off. */
tf_status tf_admit(const char *operation, uint32_t world, tf_error *err);
/* The table operation x world. */
void tf_admission_describe(bool json, tf_text *out);

#endif
