/* support/linears - linears of random weights, and the sums that NUMERICS and MODEL 8 ask of them, written
 * once more from those pages: nothing here calls the product under test. */
#ifndef TF_TESTS_SUPPORT_LINEARS_H
#define TF_TESTS_SUPPORT_LINEARS_H

#include "engine/port/device.h"
#include "tests/support/check.h"

/* Near 1; wild: some wide, some subnormal, some zero of either sign. */
float linear_float(check_random *r, bool wild);
float *linear_floats(check_random *r, size_t count, bool wild); /* free */

/* A linear as stored, and what its weights mean: value [K, N], for exl3 the codes. */
typedef struct linear {
    device_source source;
    void *stored;
    uint16_t *suh, *svh;
    float *value;
} linear;

linear linear_plain(check_random *r, tf_dtype dtype, uint32_t k, uint32_t n, bool wild);
linear linear_exl3(check_random *r, exl3_codebook codebook, uint32_t bits2, uint32_t k, uint32_t n);
void linear_drop(linear *l);

/* One row's leaf [begin, end) of K: N sums.  The caller flushes subnormals. */
void linear_leaf(const linear *l, port_profile profile, const float *x, uint32_t begin,
                 uint32_t end, float *out);
/* The node [begin, begin + size) of the tree whose leaves end at `end`; parts [from leaf first, n].
 * False when no leaf is there. */
bool linear_tree(const float *parts, uint32_t first, uint32_t n, uint32_t begin, uint32_t size,
                 uint32_t end, float *out);

/* A device of these settings; "scalar", "avx2", ... */
typedef struct linear_setting {
    const char *isa;
    uint32_t threads;
    port_profile profile;
} linear_setting;
device *linear_device(check_case *t, const linear_setting *s);
/* Loads, reserves and launches, all without fault. */
port_linear linear_load(check_case *t, device *d, const linear *l);
void linear_launch(check_case *t, device *d, const port_launch *launch);
/* Which levels this machine has, the plain one first. */
size_t linear_isas(const char *names[4]);

port_tensor linear_matrix(void *data, tf_dtype dtype, uint32_t rows, uint32_t columns);
bool linear_same(check_case *t, const float *got, const float *want, size_t count,
                 const char *what);

#endif
