/* base/thread - a fixed set of workers over a range of jobs.
 *
 * Idea: jobs are numbered, results go where the number says, so the order of threads never shows.
 * Trap: the failure reported is that of the lowest job number that failed, so messages repeat. */
#ifndef TF_ENGINE_BASE_THREAD_H
#define TF_ENGINE_BASE_THREAD_H

#include "engine/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does job `index`; worker is 0..workers-1 (for scratch memory of its own). */
typedef tf_status (*thread_job)(void *context, size_t index, uint32_t worker, tf_error *err);

/* Cores this process may use, at least 1. */
uint32_t thread_cores(void);
/* How many workers thread_run starts for `count` jobs: the size of an array of scratch. */
uint32_t thread_workers(uint32_t workers, size_t count);
/* Runs jobs 0..count-1 on `workers` threads (0: one a core); after a failure or tf_stop_requested
 * no new job starts.  Returns the lowest failed job's error, or interrupted. */
tf_status thread_run(uint32_t workers, size_t count, thread_job job, void *context, tf_error *err);

/* Ctrl-C: a handler sets the flag (async-signal-safe), long work asks between steps. */
void tf_stop_request(void);
void tf_stop_reset(void);
bool tf_stop_requested(void);
/* interrupted when asked to stop, else TF_OK. */
tf_status tf_stop_check(tf_error *err);

#endif
