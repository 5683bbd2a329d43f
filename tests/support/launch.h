/* support/launch - kernels called by hand: a device, arguments, a launch.
 *
 * Idea: a case fills an args_<kind> and names an instruction set and a number of threads; what it gets
 * is compared with sums of its own, and with the other sets bit for bit. */
#ifndef TF_TESTS_SUPPORT_LAUNCH_H
#define TF_TESTS_SUPPORT_LAUNCH_H

#include "engine/cpu/cpu.h"
#include "tests/support/check.h"

/* Instruction sets of this machine, plain C first; NULL-terminated. */
const char *const *launch_isas(void);
/* NULL after failing the case.  Close with base.ops->close. */
device *launch_device(check_case *t, const char *isa, uint32_t threads);
/* Reserves and launches; the status, err is the case's to look at. */
tf_status launch_try(device *d, call_kind kind, uint32_t rows, const void *args, tf_error *err);
/* The same, and it must succeed. */
bool launch_run(check_case *t, device *d, call_kind kind, uint32_t rows, const void *args);
/* A linear [n outputs, k] f32, loaded; the device owns it. */
bool launch_linear(check_case *t, device *d, const float *weight, uint32_t k, uint32_t n,
                   port_linear *out);

/* Tight tensors. */
port_tensor launch_1(void *data, tf_dtype dtype, uint32_t a);
port_tensor launch_2(void *data, tf_dtype dtype, uint32_t a, uint32_t b);
port_tensor launch_3(void *data, tf_dtype dtype, uint32_t a, uint32_t b, uint32_t c);

/* Ordinary values around 0, now and then a very small, very large, zero or subnormal one. */
void launch_fill(check_random *r, float *to, size_t count, bool wild);

#endif
