#include "tests/support/launch.h"

#include <string.h>

const char *const *launch_isas(void) {
    return cpu_isas();
}

device *launch_device(check_case *t, const char *isa, uint32_t threads) {
    device_settings s = {.threads = threads, .isa = isa};
    device *d = NULL;
    tf_error err = {0};
    return CHECKF(t, cpu_open(&s, &d, &err) == TF_OK, "%s", err.what) ? d : NULL;
}

tf_status launch_try(device *d, call_kind kind, uint32_t rows, const void *args, tf_error *err) {
    port_launch l = {kind, "test", rows, args};
    tf_status status = d->ops->reserve(d, &l, err);
    return status == TF_OK ? d->ops->launch(d, &l, err) : status;
}

bool launch_run(check_case *t, device *d, call_kind kind, uint32_t rows, const void *args) {
    tf_error err = {0};
    return CHECKF(t, launch_try(d, kind, rows, args, &err) == TF_OK, "%s: %s", err.what, err.found);
}

bool launch_linear(check_case *t, device *d, const float *weight, uint32_t k, uint32_t n,
                   port_linear *out) {
    device_source s = {.form = WEIGHT_PLAIN, .dtype = DTYPE_F32, .k = k, .n = n, .weight = weight};
    tf_error err = {0};
    return CHECKF(t, d->ops->load(d, &s, out, &err) == TF_OK, "%s", err.what);
}

port_tensor launch_1(void *data, tf_dtype dtype, uint32_t a) {
    return (port_tensor){data, dtype, 1, {a}, {1}};
}

port_tensor launch_2(void *data, tf_dtype dtype, uint32_t a, uint32_t b) {
    return (port_tensor){data, dtype, 2, {a, b}, {b, 1}};
}

port_tensor launch_3(void *data, tf_dtype dtype, uint32_t a, uint32_t b, uint32_t c) {
    return (port_tensor){data, dtype, 3, {a, b, c}, {(size_t)b * c, c, 1}};
}

void launch_fill(check_random *r, float *to, size_t count, bool wild) {
    static const float odd[] = {0.0f, -0.0f, 1e-40f, -1e-42f, 1e-30f, 3e15f, -2e12f, 1.0f};
    for (size_t i = 0; i < count; i++) {
        double u = (double)(check_next(r) >> 11) * 0x1p-53;
        double v = (double)(check_next(r) >> 11) * 0x1p-53;
        to[i] = (float)((u + v - 1.0) * 2.0);
        if (wild && check_below(r, 12) == 0) to[i] = odd[check_below(r, sizeof odd / sizeof *odd)];
    }
}
