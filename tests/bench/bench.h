/* bench/bench - what the files of the bench share. */
#ifndef TF_TESTS_BENCH_BENCH_H
#define TF_TESTS_BENCH_BENCH_H

#include "engine/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define ROUNDS 5

/* Seconds of a clock that only advances. */
double bench_now(void);
/* Sorts the values. */
double bench_median(double *values, size_t count);
_Noreturn void bench_stop(const tf_error *err);

/* What this machine can do at most, now: bytes a second that threads read from memory, and fused
 * multiply-adds a second that they do in registers. */
typedef struct bench_limits {
    double read, multiply;
} bench_limits;
bench_limits bench_limits_now(uint32_t threads);

/* ---- rows ---- */
void bench_dot(void);
/* folder keeps the bench packs, and their rank files, between runs. */
void bench_forward(const char *folder);

#endif
