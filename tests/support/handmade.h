/* support/handmade - a small pack and plans over it, made by hand.
 *
 * Idea: rank files are tested before and without planner and synthesiser: here are whole tensors,
 * rows, columns, spread pieces and empty ones, and an oracle that gathers a piece byte by byte.
 * Trap: the plans are no partition of the model; only their spans are right. */
#ifndef TF_TESTS_SUPPORT_HANDMADE_H
#define TF_TESTS_SUPPORT_HANDMADE_H

#include "engine/plan/plan.h"

typedef struct handmade {
    tf_pack pack;
    pack_shard shard;
    uint8_t *data; /* the shard's bytes */
    size_t bytes;
    uint32_t layers;
} handmade;

typedef struct handmade_options {
    uint32_t layers; /* besides top */
    uint64_t seed;   /* of the bytes */
    bool small;      /* two tensors a layer */
    bool big;        /* layer 0 has tensors beyond a buffer */
} handmade_options;

/* Writes dir/data.bin. */
void handmade_pack(const char *dir, handmade_options options, handmade *out);
void handmade_free(handmade *h);
/* Writes other bytes of the same inventory. */
void handmade_change(handmade *h, uint64_t seed);
tf_plan *handmade_plan(const handmade *h, uint32_t world, uint32_t rank);
void handmade_plan_free(tf_plan *plan);
/* The item's bytes, run by run from memory; to[item->bytes]. */
void handmade_gather(const handmade *h, const plan_item *item, uint8_t *to);

#endif
