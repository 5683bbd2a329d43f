/* run/share - the collectives of a list, each by one gather of bytes.
 *
 * Idea: who gives how much follows from the call's own arguments, the same on every rank; values
 * with one owner are copied to their place, partials stay apart until the tree (NUMERICS 3).
 * Trap: a rank may own nothing of a step; it gives 0 bytes and still takes part. */
#ifndef TF_ENGINE_RUN_SHARE_H
#define TF_ENGINE_RUN_SHARE_H

#include "engine/port/args.h"
#include "engine/port/exchange.h"

/* Memory on the side: what is sent where it does not lie in one piece, what came in before it goes to
 * its place, and each rank's count. */
typedef struct share_stage {
    char *send, *recv;
    size_t send_bytes, recv_bytes;
    uint64_t bytes[TF_WORLD_MAX];
} share_stage;

bool share_is(call_kind kind);
/* Stage memory that the launch wants. */
void share_need(const port_launch *l, uint32_t world, size_t *send_bytes, size_t *recv_bytes);
tf_status share_run(exchange *x, const port_launch *l, share_stage *stage, uint64_t decision,
                    tf_error *err);

#endif
