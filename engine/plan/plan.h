/* plan/plan - who owns which bytes, made from headers alone.
 *
 * Idea: every stored tensor becomes an item of this rank, is owned by others, or is on the ignore
 * list; nothing is left over.  The canonical text of the result has a fingerprint that pins hold.
 * Trap: a split tensor's bytes must be owned exactly once over all ranks; sizes that "fit" are no
 * proof (REPORTS 1-5). */
#ifndef TF_ENGINE_PLAN_PLAN_H
#define TF_ENGINE_PLAN_PLAN_H

#include "engine/base/arena.h"
#include "engine/base/digest.h"
#include "engine/base/text.h"
#include "engine/canon/partition.h"
#include "engine/pack/pack.h"
#include "engine/plan/admission.h"

#include <stdint.h>

/* The units that are split (MODEL 7). */
typedef enum {
    UNIT_GROUP,        /* output group: H/groups heads, o_lora rows of wo_b */
    UNIT_EXPERT_BLOCK, /* 128 of the expert width */
    UNIT_VOCAB_BLOCK,  /* 128 of the vocabulary */
    UNIT_ENGRAM_COLUMN,
    UNIT_COUNT,
    UNIT_NONE = UNIT_COUNT, /* held whole by every rank */
} plan_unit;

typedef enum {
    AXIS_WHOLE,
    AXIS_ROWS,
    AXIS_COLUMNS,
    AXIS_PICK
} plan_axis;
/* Of a linear: AXIS_ROWS is K, AXIS_COLUMNS is N (the first dimension of a plain [N, K]).  Of any
 * other tensor AXIS_ROWS is its first dimension.  AXIS_PICK: whole, to the one rank that owns unit
 * `range` (wo_a.slice.g). */

/* What a stored tensor is of its linear. */
typedef enum {
    PART_PLAIN, /* [N, K] */
    PART_TRELLIS,
    PART_SUH,
    PART_SVH,
    PART_MARKER, /* mul1 or mcg */
    PART_NONE,   /* not of a linear */
} plan_part;

/* Bytes of a stored tensor: `count` runs of `length` bytes, the first at `offset` (within the
 * tensor's data), each `stride` after the one before. */
typedef struct plan_span {
    uint64_t offset;
    uint64_t length;
    uint64_t stride; /* 0 when count is 1 */
    uint64_t count;
} plan_span;

typedef enum {
    BYTES_ATTENTION,
    BYTES_EXPERTS,
    BYTES_SHARED,
    BYTES_ROUTER,
    BYTES_ENGRAM,
    BYTES_EMBED,
    BYTES_HEAD,
    BYTES_DRAFT,
    BYTES_OTHER,
    BYTES_CATEGORIES,
} plan_category;

typedef struct plan_item {
    const pack_tensor *tensor; /* pack owns */
    const char *image;         /* name in the rank file: the stored one; pack owns.  The local index
                                * of wo_a.slice.g is g - first group of the rank */
    plan_part part;
    uint32_t layer; /* logical layer; CONFIG_NONE: top */
    plan_axis axis;
    plan_unit unit;
    canon_range range;     /* of the unit; {0, 0} when unit is UNIT_NONE */
    const uint64_t *shape; /* of this rank's part, tensor->dims entries; items alike share it */
    const plan_span *spans;
    uint32_t span_count;
    uint64_t bytes;
    plan_category category;
} plan_item;

#define PLAN_OTHERS  (UINT32_MAX - 1) /* another rank has all of it */
#define PLAN_IGNORED (UINT32_MAX - 2) /* the text model does not read it */

typedef struct tf_plan {
    const tf_pack *pack; /* borrowed; must outlive the plan */
    uint32_t world, rank;
    uint64_t weights[TF_WORLD_MAX];  /* in lowest terms; all 1 for equal machines */
    uint32_t units[UNIT_COUNT];      /* how many there are; 0: the model has none */
    canon_range range[UNIT_COUNT];   /* this rank's */
    canon_range *ranges[UNIT_COUNT]; /* [world] each */
    plan_item *items; /* plan order: top, then layers ascending, names as the model needs them */
    uint32_t item_count;
    uint32_t *layer_end; /* [layers + 1]: where the items of top, layer 0, 1, ... end */
    uint32_t *item_of;   /* [pack->tensor_count]: its item, or PLAN_OTHERS, PLAN_IGNORED */
    uint64_t bytes, category_bytes[BYTES_CATEGORIES];
    tf_text *text;         /* see plan_text */
    tf_digest fingerprint; /* XXH3-128 of the canonical text (FORMATS) */
    tf_arena arena;
} tf_plan;

/* weights [world]; NULL: equal machines.  Asks admission first.  Free with plan_free.  Refuses by
 * word: a rank outside the world, a rank without a unit, a cut inside a block, and every stored
 * name that is missing, of another form, or left over. */
tf_status plan_make(const tf_pack *pack, uint32_t world, uint32_t rank, const uint64_t *weights,
                    tf_plan **out, tf_error *err);
void plan_free(tf_plan *plan);

/* The canonical text, tens of megabytes for a large model, so it is put together at the first call
 * only (from one thread); "" when memory is out.  Plan owns. */
const char *plan_text(const tf_plan *plan);

/* This rank's sizes, by begin/end and never by rank * size. */
uint32_t plan_heads(const tf_plan *plan);
uint32_t plan_first_head(const tf_plan *plan);
uint32_t plan_groups(const tf_plan *plan);
uint32_t plan_expert_width(const tf_plan *plan);
uint32_t plan_vocab(const tf_plan *plan);
uint32_t plan_first_vocab(const tf_plan *plan);

/* Every item of a layer is one run of the list; layer CONFIG_NONE is top. */
void plan_layer_items(const tf_plan *plan, uint32_t layer, uint32_t *begin, uint32_t *end);
/* NULL when this rank has no such item. */
const plan_item *plan_find(const tf_plan *plan, const char *image);
const char *plan_category_name(plan_category c);
const char *plan_unit_name(plan_unit u); /* "output groups" */

#endif
