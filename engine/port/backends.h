/* port/backends - find a device or an exchange by its name.
 *
 * Idea: engine/backends.c alone names cpu, threads, mpi; everybody else looks down at this header. */
#ifndef TF_ENGINE_PORT_BACKENDS_H
#define TF_ENGINE_PORT_BACKENDS_H

#include "engine/port/device.h"
#include "engine/port/exchange.h"

/* Fails with unknown-device, isa-missing, no-memory.  Close with ops->close. */
tf_status backend_device(const char *name, const device_settings *settings, device **out,
                         tf_error *err);

typedef struct exchange_settings {
    uint32_t world;
    uint32_t wait_ms;      /* 0: EXCHANGE_WAIT_MS */
    uint32_t delay_us_max; /* tests */
    uint64_t delay_seed;
} exchange_settings;

/* Opens the ends that live in this process: "threads" all of them, "mpi" the one of its rank.
 *
 *   ends   [world]   caller owns; close each with ops->close
 *
 * Fails with unknown-exchange, exchange-missing (not in this build), wrong-world (mpirun started
 * another number of ranks), no-memory. */
tf_status backend_exchange(const char *name, const exchange_settings *settings, exchange **ends,
                           uint32_t *count, tf_error *err);
/* NULL-terminated; static storage. */
const char *const *backend_device_names(void);
const char *const *backend_exchange_names(void);
/* Instruction sets of device cpu that this machine has. */
const char *const *backend_isas(void);

#endif
