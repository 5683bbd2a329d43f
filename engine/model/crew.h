/* model/crew - the ranks of this process, a thread each, that act together.
 *
 * Idea: every act of the model is one function run by all ranks; the act is over when all are.
 * Trap: a rank that hangs must not hang the caller: once one has failed, the others have a bounded
 * time, and who is late is left behind. */
#ifndef TF_ENGINE_MODEL_CREW_H
#define TF_ENGINE_MODEL_CREW_H

#include "engine/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct crew crew;
typedef tf_status (*crew_act)(void *context, uint32_t index, tf_error *err);

/* count ranks; one runs on the caller's thread, since MPI wants it there. */
tf_status crew_open(uint32_t count, uint32_t patience_ms, crew **out, tf_error *err);
/* The error of the rank whose failure is the cause (no mere answer to a peer's); the lowest such. */
tf_status crew_run(crew *c, crew_act act, void *context, tf_error *err);
/* A rank was left behind: what it uses must not be freed. */
bool crew_is_lost(const crew *c);
void crew_close(crew *c);

#endif
