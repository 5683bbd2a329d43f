/* canon/flush: subnormals are zero while it holds, on this thread, and not after. */
#include "engine/canon/flush.h"

#include "engine/canon/fmath.h"
#include "tests/support/check.h"

#include <pthread.h>

/* Volatile: the sums are the machine's, not the compiler's. */
static float product(float a, float b) {
    volatile float x = a;
    volatile float y = b;
    volatile float z = x * y;
    return z;
}

static bool flushes_results(void) {
    return fm_bits(product(1e-20f, 1e-20f)) == 0 && fm_bits(product(-1e-20f, 1e-20f)) == 1u << 31;
}

static bool flushes_inputs(void) {
    return fm_bits(product(fm_float(0x007fffffu), 2e30f)) == 0;
}

static void subnormals_are_zero_in_and_out(check_case *t) {
    CHECK(t, !flushes_results() && !flushes_inputs());
    uint64_t mode = flush_begin();
    bool results = flushes_results();
    bool inputs = flushes_inputs();
    bool normal = product(1.17549435e-38f, 1.0f) > 0.0f;
    flush_restore(mode);
    CHECK(t, results);
    CHECK(t, inputs);
    CHECK(t, normal);
}

static void the_mode_before_comes_back(check_case *t) {
    uint64_t outer = flush_begin();
    uint64_t inner = flush_begin();
    flush_restore(inner);
    bool held = flushes_results() && flushes_inputs();
    flush_restore(outer);
    CHECK(t, held);
    CHECK(t, !flushes_results() && !flushes_inputs());
}

static void *other(void *flushes) {
    *(bool *)flushes = flushes_results();
    uint64_t mode = flush_begin();
    (void)mode;
    return NULL;
}

static void it_is_the_threads_own(check_case *t) {
    bool there = true;
    pthread_t thread;
    if (!CHECK(t, pthread_create(&thread, NULL, other, &there) == 0)) return;
    pthread_join(thread, NULL);
    CHECK(t, !there);
    CHECK(t, !flushes_results());
}

static const check_entry cases[] = {
    {"flush/subnormals-are-zero-in-and-out", subnormals_are_zero_in_and_out},
    {"flush/the-mode-before-comes-back", the_mode_before_comes_back},
    {"flush/it-is-the-threads-own", it_is_the_threads_own},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
