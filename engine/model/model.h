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

#endif
