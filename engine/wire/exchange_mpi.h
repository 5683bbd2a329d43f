/* wire/exchange_mpi - ranks that are processes, on one host or several.
 *
 * Idea: one end a process; a header goes ahead of the bytes, and a peer's bytes are received only
 * after its header agreed with one's own.
 * Trap: an MPI that lost a process may wait for it for ever, in MPI_Finalize above all. */
#ifndef TF_ENGINE_WIRE_EXCHANGE_MPI_H
#define TF_ENGINE_WIRE_EXCHANGE_MPI_H

#include "engine/port/backends.h"

/* ends [1] at least; *count is 1.  Fails with exchange-missing, wrong-world, no-memory. */
tf_status exchange_mpi_open(const exchange_settings *settings, exchange **ends, uint32_t *count,
                            tf_error *err);

#endif
