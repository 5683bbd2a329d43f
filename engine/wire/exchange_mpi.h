/* wire/exchange_mpi - ranks that are processes, on one host or several, started by mpirun.
 *
 * Idea: one end a process.  A header goes ahead of the bytes, and a peer's bytes are received only
 * after its header agreed with one's own.  Waits poll and sleep by turns, and meanwhile listen to
 * beats and stops and look whether the peers' processes live.
 * Trap: an MPI that lost a process waits for it for ever in MPI_Finalize.  After a failure, close
 * leaves MPI as it is, and the process must end: mpirun then ends the others.
 * Trap: all calls of an end are made by the thread that opened it. */
#ifndef TF_ENGINE_WIRE_EXCHANGE_MPI_H
#define TF_ENGINE_WIRE_EXCHANGE_MPI_H

#include "engine/port/backends.h"

/* ends [1] at least; *count is 1.  Fails with exchange-missing, wrong-world, peer-silent,
 * no-memory. */
tf_status exchange_mpi_open(const exchange_settings *settings, exchange **ends, uint32_t *count,
                            tf_error *err);

#endif
