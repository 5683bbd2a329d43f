/* pack/inventory - every tensor that a model of a given config stores, without a pack (MODEL 2).
 *
 * Idea: one walk over the layers' roles gives name, type and shape of each tensor, and the role by
 * which its values are made; a linear is one BF16 tensor, or an EXL3 quartet of given bits.
 * Trap: drafts count from 0 by name (mtp.0) but continue the target layers as logical layers. */
#ifndef TF_ENGINE_PACK_INVENTORY_H
#define TF_ENGINE_PACK_INVENTORY_H

#include "engine/base/arena.h"
#include "engine/base/status.h"
#include "engine/pack/config.h"
#include "engine/pack/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The linears, y = W x with W stored [N, K]. */
typedef enum {
    LINEAR_WQ_A,
    LINEAR_WKV,
    LINEAR_WQ_B,
    LINEAR_WO_A, /* one a group: part g */
    LINEAR_WO_B,
    LINEAR_COMPRESSOR_WKV,
    LINEAR_COMPRESSOR_WGATE,
    LINEAR_INDEXER_WK,
    LINEAR_INDEXER_WQ_B,
    LINEAR_EXPERT_W1, /* part e */
    LINEAR_EXPERT_W2,
    LINEAR_EXPERT_W3,
    LINEAR_SHARED_W1,
    LINEAR_SHARED_W2,
    LINEAR_SHARED_W3,
    LINEAR_ENGRAM_WKV,
    LINEAR_MAIN_PROJ,
    LINEAR_HEAD,
    LINEAR_COUNT,
} inventory_linear;

typedef enum {
    ROLE_PLAIN, /* X.weight of a linear */
    ROLE_TRELLIS,
    ROLE_SUH,
    ROLE_SVH,
    ROLE_MARKER,
    ROLE_NORM,
    ROLE_HC_FN,
    ROLE_HC_BASE,
    ROLE_HC_SCALE,
    ROLE_SINK,
    ROLE_CHOOSER, /* gate.weight and indexer.weights_proj.weight */
    ROLE_GATE_BIAS,
    ROLE_ENGRAM_WEIGHT,
    ROLE_ENGRAM_TABLE,
    ROLE_ENGRAM_SCALE,
    ROLE_EMBED,
    ROLE_MARKOV_HEAD,
    ROLE_CONFIDENCE,
} inventory_role;

typedef struct inventory_tensor {
    const char *name; /* arena owns */
    uint64_t shape[3];
    uint64_t bytes;
    uint64_t fan_in; /* K of a linear; the row length of a projection; 0 elsewhere */
    uint32_t layer;  /* logical layer; CONFIG_NONE: top */
    tf_dtype dtype;
    uint32_t dims;
    inventory_role role;
    inventory_linear linear; /* LINEAR_COUNT unless of a linear */
} inventory_tensor;

/* EXL3 bits a weight.  layer: as in the name (mtp.1 is draft layer 1); part: expert or slice. */
typedef uint32_t (*inventory_bits)(inventory_linear linear, bool draft, uint32_t layer,
                                   uint32_t part);

/* Lists in model order; bits NULL: plain linears.  Arena owns the list. */
tf_status inventory_list(const tf_config *config, inventory_bits bits, tf_arena *arena,
                         inventory_tensor **tensors, size_t *count, tf_error *err);

#endif
