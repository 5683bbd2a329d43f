/* run/share - the collectives of a list, each by one gather of bytes.
 *
 * Idea: who gives how much follows from the call's own arguments, the same on every rank; values
 * with one owner are copied to their place, partials stay apart until the tree (NUMERICS 3).  What
 * lies where the exchange cannot reach goes over a stage.
 * Trap: a rank may own nothing of a step; it gives 0 bytes and still takes part. */
#ifndef TF_ENGINE_RUN_SHARE_H
#define TF_ENGINE_RUN_SHARE_H

#include "engine/port/device.h"
#include "engine/port/exchange.h"

/* Memory on the side: what is sent where it does not lie in one piece, what came in before it goes to
 * its place.  It is of the kind that the exchange takes. */
typedef struct share_area {
    char *data;
    size_t bytes;
} share_area;

typedef struct share {
    device *device; /* both borrowed */
    exchange *exchange;
    share_area send, recv;
    share_area ids;                /* the host's: what tokens a step asks for */
    uint64_t counts[TF_WORLD_MAX]; /* bytes each rank gives */
    uint64_t decision;             /* of the exchange at hand */
} share;

bool share_is(call_kind kind);
/* Zero but for device and exchange; share_close afterwards. */
void share_close(share *s);
/* Makes room for what the launch puts aside. */
tf_status share_reserve(share *s, const port_launch *l, tf_error *err);
/* No allocation. */
tf_status share_run(share *s, const port_launch *l, uint64_t decision, tf_error *err);

#endif
