/* model/fault - a failure that a test plants in one rank.
 *
 * Idea: what ends a rank in the field - an error, a hang, a killed process - happens at a named
 * phase, so that a test can watch how the others end.
 * Trap: with ranks as threads "kill" ends them all: it is for ranks that are processes. */
#ifndef TF_ENGINE_MODEL_FAULT_H
#define TF_ENGINE_MODEL_FAULT_H

#include "engine/base/status.h"

#include <stdint.h>

typedef struct planted_fault {
    const char *act; /* NULL, "die", "hang", "kill" */
    const char *phase;
    uint32_t rank;
} planted_fault;

/* Fails with planted-fault, never returns, ends the process, or does nothing. */
tf_status fault_reached(const planted_fault *f, const char *phase, uint32_t rank, tf_error *err);
/* Refuses what is none of the acts, phases or ranks: usage. */
tf_status fault_check(const planted_fault *f, uint32_t world, tf_error *err);

#endif
