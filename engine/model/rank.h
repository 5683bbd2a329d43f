/* model/rank - one rank of a model: its plan, weights, device and executor.
 *
 * Idea: opening goes in steps, and no rank reads a byte of a weight before all ranks have agreed on
 * what they are.
 * Trap: what a rank is asked to do must be the same on all; a step's rows are checked above. */
#ifndef TF_ENGINE_MODEL_RANK_H
#define TF_ENGINE_MODEL_RANK_H

#include "engine/model/fault.h"
#include "engine/port/backends.h"
#include "engine/run/exec.h"

typedef struct rank_options {
    const tf_pack *pack;
    const uint64_t *weights; /* [world], or NULL */
    const char *device, *rank_dir, *cache_dir;
    device_settings settings;
    uint32_t slots, rows;
    uint64_t context;
    planted_fault fault;
    bool (*progress)(void *context, const char *unit, uint64_t done, uint64_t total);
    void *progress_context; /* rank 0 tells */
    const char *layer_hashes;
} rank_options;

typedef struct rank rank;

/* Borrows the options' texts and the exchange. */
tf_status rank_open(const rank_options *options, exchange *x, rank **out, tf_error *err);
void rank_close(rank *r);

/* Rows of a step.  A chunk: one slot, positions from start on. */
typedef struct rank_step {
    call_phase phase; /* PHASE_PREFILL or PHASE_DECODE */
    uint32_t rows;
    int64_t start;             /* of a chunk */
    const int32_t *ids;        /* [rows] */
    const int32_t *slots;      /* [rows], of a chunk [1] */
    const int64_t *positions;  /* [rows]; decode */
    const double *temperature; /* as many as slots */
    const int64_t *seed;
    bool logits;
    uint32_t number; /* of this step, in layer hashes */
} rank_step;
/* tokens [rows], of a chunk [1]; logits [rows, V].  Each may be NULL. */
tf_status rank_run(rank *r, const rank_step *step, int32_t *tokens, float *logits, tf_error *err);

/* Sees every call of every step after it has run; NULL: nobody. */
void rank_observe(rank *r, exec_seen seen, void *context);
/* Ends the layer hashes: the file appears. */
tf_status rank_finish_hashes(rank *r, tf_error *err);
uint64_t rank_state_bytes(const rank *r);
tf_status rank_read_state(rank *r, uint32_t slot, void *to, tf_error *err);
tf_status rank_write_state(rank *r, uint32_t slot, const void *from, tf_error *err);

const tf_plan *rank_plan(const rank *r);
const device *rank_device(const rank *r);
exec_memory rank_memory(const rank *r);

#endif
