/* wire/exchange_threads - ranks that are threads of one process.
 *
 * Idea: bytes travel through memory that the ends share, in rounds of at most STAGE_BYTES a rank.  A
 * round has one wait: a rank writes its piece, the last to come wakes the others, and all copy in
 * rank order.  Pieces lie in two halves used by turns, so that leaving a round needs no wait: who
 * enters round n + 2 has seen all ranks enter n + 1, hence leave n.
 * Trap: nobody ever reads another's send buffer, since its owner may fail and free it meanwhile. */
#ifndef TF_ENGINE_WIRE_EXCHANGE_THREADS_H
#define TF_ENGINE_WIRE_EXCHANGE_THREADS_H

#include "engine/port/backends.h"

/* ends [world]; *count is the world.  Each end is used by one thread at a time.  Fails with
 * no-memory. */
tf_status exchange_threads_open(const exchange_settings *settings, exchange **ends, uint32_t *count,
                                tf_error *err);

#endif
