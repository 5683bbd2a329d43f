/* backends - the one table that names devices and exchanges (port/backends.h). */
#include "engine/port/backends.h"
#include "engine/base/check.h"
#include "engine/base/nearest.h"
#include "engine/cpu/cpu.h"
#include "engine/wire/exchange_mpi.h"
#include "engine/wire/exchange_threads.h"

#include <string.h>

static const char *const device_names[] = {"cpu", NULL};
static tf_status (*const device_opens[])(const device_settings *, device **, tf_error *) = {
    cpu_open,
};

static const char *const exchange_names[] = {"threads", "mpi", NULL};
static tf_status (*const exchange_opens[])(const exchange_settings *, exchange **, uint32_t *,
                                           tf_error *) = {
    exchange_threads_open,
    exchange_mpi_open,
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

const char *const *backend_device_names(void) {
    return device_names;
}

const char *const *backend_exchange_names(void) {
    return exchange_names;
}

/* The place of a name in a table; `count` where it is not there. */
static size_t find(const char *name, const char *const *names, size_t count) {
    size_t at = 0;
    while (at < count && strcmp(names[at], name) != 0)
        at++;
    return at;
}

/* What is known, and the nearest of it. */
static tf_status offer(const char *name, const char *const *names, size_t count, tf_error *err) {
    tf_text all = {0};
    for (size_t i = 0; i < count; i++)
        text_print(&all, "%s%s", i > 0 ? ", " : "", names[i]);
    tf_expected(err, "one of %s", text_str(&all));
    text_free(&all);
    const char *near = tf_nearest(name, names, count);
    return near == NULL ? err->status : tf_remedy(err, "did you mean '%s'?", near);
}

tf_status backend_device(const char *name, const device_settings *settings, device **out,
                         tf_error *err) {
    size_t at = find(name, device_names, COUNT(device_opens));
    if (at < COUNT(device_opens)) return device_opens[at](settings, out, err);
    tf_fail(err, TF_W_UNKNOWN_DEVICE, "looking for a device '%s'", name);
    return offer(name, device_names, COUNT(device_opens), err);
}

tf_status backend_exchange(const char *name, const exchange_settings *settings, exchange **ends,
                           uint32_t *count, tf_error *err) {
    TF_ASSERT(settings->world > 0 && settings->world <= TF_WORLD_MAX);
    size_t at = find(name, exchange_names, COUNT(exchange_opens));
    if (at < COUNT(exchange_opens)) return exchange_opens[at](settings, ends, count, err);
    tf_fail(err, TF_W_UNKNOWN_EXCHANGE, "looking for an exchange '%s'", name);
    return offer(name, exchange_names, COUNT(exchange_opens), err);
}

const char *const *backend_isas(void) {
    return cpu_isas();
}
