/* cpu/team - threads that wait for work between launches.
 *
 * Idea: jobs are numbered and claimed by one counter; results go where the number says, so the order
 * of threads never shows.  A worker looks for work for a moment, then sleeps.
 * Trap: ranks share the cores of a small machine; a worker that spins for long starves its peers. */
#ifndef TF_ENGINE_CPU_TEAM_H
#define TF_ENGINE_CPU_TEAM_H

#include "engine/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct team team;
typedef void (*team_job)(void *context, size_t index, uint32_t worker);

/* threads >= 1, the caller included.  Every worker flushes subnormals. */
tf_status team_open(uint32_t threads, team **out, tf_error *err);
void team_close(team *t);
/* Runs jobs 0..count-1 and returns when all are done; the caller is worker 0.  No allocation. */
void team_run(team *t, size_t count, team_job job, void *context);

#endif
