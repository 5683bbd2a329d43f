/* bench/bench - what the files of the bench share. */
#ifndef TF_TESTS_BENCH_BENCH_H
#define TF_TESTS_BENCH_BENCH_H

#include "engine/base/status.h"

#include <stddef.h>

#define ROUNDS 5

/* Seconds of a clock that only advances. */
double bench_now(void);
/* Sorts the values. */
double bench_median(double *values, size_t count);
_Noreturn void bench_stop(const tf_error *err);

/* ---- rows ---- */
void bench_dot(void);

#endif
