/* model/model - requests side by side over the ranks of this process.
 *
 * Idea: a request is a slot, a length and how it samples; the ranks hold its state.  Every act is
 * checked here once, then done by all ranks alike.
 * Trap: a failed step leaves ranks at different places; the model then refuses everything but close. */
#ifndef TF_ENGINE_MODEL_MODEL_H
#define TF_ENGINE_MODEL_MODEL_H

#include "engine/model/crew.h"
#include "engine/model/rank.h"
#include "engine/tf.h"

typedef struct slot {
    uint32_t length; /* positions known */
    double temperature;
    int64_t seed;
} slot;

struct tf_model {
    const tf_pack *pack;
    rank_options options;
    uint64_t weights[TF_WORLD_MAX];
    uint32_t world;
    uint32_t count;  /* ranks of this process: world, or 1 */
    exchange **ends; /* [count] */
    rank **ranks;    /* [count] */
    crew *crew;
    slot *slots;    /* [options.slots] */
    uint32_t steps; /* done so far */
    bool broken;
    struct tf_model *left_before; /* of those whose rank was left behind: they stay */
    /* Rows of the step in hand, [options.rows] each. */
    int32_t *ids, *row_slots;
    int64_t *positions, *seeds;
    double *temperatures;
    tf_arena arena;
};

/* All ranks do the act; a failure breaks the model. */
tf_status model_act(tf_model *m, crew_act act, void *context, tf_error *err);
/* bad-slot, model-broken. */
tf_status model_check_slot(const tf_model *m, uint32_t index, tf_error *err);

/* Rows of a prefill chunk: those asked for, where the model has as many; 0: as many as it has. */
uint32_t model_chunk(const tf_model *m, uint32_t asked);
/* bad-request for none. */
tf_status model_check_tokens(uint32_t tokens, tf_error *err);
/* Has the prompt ids, and is there room for them and the tokens?  bad-request, context-full. */
tf_status model_check_prompt(const tf_model *m, const tf_prompt *p, uint32_t index, uint32_t tokens,
                             tf_error *err);
/* A prompt that a slot forgets everything else for, in chunks. */
typedef struct model_prompt {
    const tf_prompt *prompt;
    uint32_t chunk;
    float *logits; /* [chunk, V] of the last chunk; NULL: not asked for */
    void (*seen)(void *context, uint32_t rows); /* after each chunk; may be NULL */
    void *context;
} model_prompt;
/* next: the token after the prompt. */
tf_status model_run_prompt(tf_model *m, uint32_t index, const model_prompt *p, int32_t *next,
                           tf_error *err);

#endif
