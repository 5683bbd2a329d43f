/* plan/tensors - every tensor that a model stores, and the axis it is cut along (MODEL 2 and 7).
 *
 * Idea: one table in the order a forward needs them; the planner walks it layer by layer, and what
 * it does not name is refused.
 * Trap: it is written apart from what makes packs, so that the two can contradict each other. */
#ifndef TF_ENGINE_PLAN_TENSORS_H
#define TF_ENGINE_PLAN_TENSORS_H

#include "engine/pack/config.h"
#include "engine/pack/dtype.h"
#include "engine/plan/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sizes that shapes are made of; EXTENT_NONE where a form has only one. */
typedef enum {
    EXTENT_NONE,
    EXTENT_ONE,
    EXTENT_HIDDEN,
    EXTENT_VOCAB,
    EXTENT_Q_LORA,
    EXTENT_HEADS,
    EXTENT_HEAD_DIM,
    EXTENT_QUERY,    /* heads * head_dim */
    EXTENT_GROUP_IN, /* heads of one group * head_dim */
    EXTENT_O_LORA,
    EXTENT_GROUPS_OUT, /* groups * o_lora */
    EXTENT_INDEX_HEADS,
    EXTENT_INDEX_DIM,
    EXTENT_INDEX_QUERY, /* index_heads * index_head_dim */
    EXTENT_EXPERTS,     /* routed, of the layer */
    EXTENT_WIDTH,       /* of one expert */
    EXTENT_STREAMS,
    EXTENT_STREAMS_IN, /* streams * hidden */
    EXTENT_MIX,        /* streams * (streams + 2): pre, post, comb */
    EXTENT_MIX_SCALES, /* one each for pre, post, comb */
    EXTENT_TABLE_ROWS, /* of the layer's n-gram table */
    EXTENT_TABLE_DIM,
    EXTENT_TABLE_SCALES, /* one for 32 dims */
    EXTENT_TABLE_OUT,    /* columns * dim: one looked-up row each */
    EXTENT_KEYS_VALUE,   /* (streams + 1) * hidden */
    EXTENT_TAPS,         /* draft targets * hidden */
    EXTENT_MARKOV,
    EXTENT_CONFIDENCE, /* hidden + markov */
    EXTENT_COUNT
} tensor_extent;

typedef enum {
    FORM_LINEAR, /* K, N: one plain [N, K], or an EXL3 quartet */
    FORM_MATRIX, /* rows, columns */
    FORM_VECTOR, /* n */
} tensor_form;

/* The layers that have it. */
typedef enum {
    WHEN_TOP,
    WHEN_ALWAYS,
    WHEN_KV_SOURCE,
    WHEN_KV_PAIRS, /* a kv source at ratio 2 */
    WHEN_INDEX_SOURCE,
    WHEN_ENGRAM,
    WHEN_FIRST_DRAFT,
    WHEN_LAST_DRAFT,
} tensor_when;

typedef enum {
    EACH_ONCE,
    EACH_GROUP,
    EACH_EXPERT,
} tensor_each;

typedef struct tensor_rule {
    const char *name; /* within its layer; '%' is the group or expert */
    tensor_form form;
    tensor_extent first, second;
    tf_dtype dtype; /* of a linear: when plain */
    plan_axis axis; /* of a linear: K or N; else AXIS_ROWS is its first dimension */
    plan_unit unit;
    plan_category category; /* in a draft layer all is BYTES_DRAFT */
    tensor_when when;
    tensor_each each; /* rules side by side with one `each` repeat together */
} tensor_rule;

extern const tensor_rule tensor_rules[];
extern const size_t tensor_rule_count;

/* extent[EXTENT_COUNT] for a layer; CONFIG_NONE: top. */
void tensor_extents(const tf_config *config, uint32_t layer, uint64_t *extent);
bool tensor_applies(const tensor_rule *rule, const tf_config *config, uint32_t layer);

/* Names that the text model does not read (vision and the like). */
bool tensor_is_ignored(const char *name);
/* A name some rule could give at some layer, whatever the config says. */
bool tensor_is_known(const char *name);

#endif
