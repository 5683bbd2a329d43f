/* cpu/cpu - what the kernels of this folder share.
 *
 * Idea: a kernel is a function of a launch, listed in kernels.def; it may use the team and the
 * scratch memory it reserved, and nothing else.  The plain C of a kernel is its definition; a
 * vector version lies in a file of its own and equals it bit for bit.
 * Trap: lanes run over outputs, never over the axis that is summed (NUMERICS). */
#ifndef TF_ENGINE_CPU_CPU_H
#define TF_ENGINE_CPU_CPU_H

#include "engine/canon/ropetable.h"
#include "engine/cpu/team.h"
#include "engine/port/device.h"

typedef enum {
    CPU_SCALAR,
    CPU_AVX2,   /* AVX2, FMA, F16C */
    CPU_AVX512, /* F, BW, DQ, VL, and VNNI */
    CPU_AMX,    /* and AMX-BF16, for products of the bf16 profile; all else as AVX-512 */
    CPU_ISAS,
} cpu_isa;

/* Frequencies of a rotary table that launches asked for. */
#define CPU_ROPES 4u
typedef struct cpu_rope_table {
    rope_spec spec; /* .rope 0: none yet */
    double freq[ROPE_PAIRS_MAX];
} cpu_rope_table;

typedef struct cpu_device {
    device base;
    cpu_isa isa;
    uint32_t threads;
    team *team;
    uint8_t *scratch;    /* [threads][worker_bytes] */
    size_t worker_bytes; /* multiple of 64 */
    uint8_t *shared;     /* of the launch, all workers' */
    size_t shared_bytes;
    cpu_rope_table ropes[CPU_ROPES];
    uint32_t next_rope;       /* the oldest is replaced */
    struct cpu_block *blocks; /* memory taken: device owns */
} cpu_device;

/* Does the launch; the device's mode flushes subnormals on every thread. */
typedef tf_status (*cpu_kernel)(cpu_device *d, const port_launch *l, tf_error *err);
/* Scratch it needs: bytes a worker, and bytes shared. */
typedef void (*cpu_need)(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                         size_t *shared_bytes);

static inline void *cpu_scratch(const cpu_device *d, uint32_t worker) {
    return d->scratch + (size_t)worker * d->worker_bytes;
}

/* The best level of this machine and build; its name ("avx512") and back. */
cpu_isa cpu_best_isa(void);
const char *cpu_isa_name(cpu_isa isa);
/* Names of those this machine has, NULL-terminated; static storage. */
const char *const *cpu_isas(void);
/* Threads 0: one a core.  Fails with isa-missing, no-memory.  Close with base.ops->close. */
tf_status cpu_open(const device_settings *settings, device **out, tf_error *err);
/* Has the kind a kernel? */
bool cpu_has(call_kind kind);

/* A room's inner loops: `room`_plain is their definition, the others equal it in wider registers. */
#if defined(__x86_64__)
#define CPU_STEPS(room, isa) \
    ((isa) >= CPU_AVX512 ? &room##_avx512 : (isa) == CPU_AVX2 ? &room##_avx2 : &room##_plain)
#else
#define CPU_STEPS(room, isa) ((void)(isa), &room##_plain)
#endif

/* ---- kernels ---- */
#define PLAIN(NAME, run) tf_status run(cpu_device *d, const port_launch *l, tf_error *err);
#define KERNEL(NAME, run, need)                                                \
    PLAIN(NAME, run)                                                           \
    void need(const cpu_device *d, const port_launch *l, size_t *worker_bytes, \
              size_t *shared_bytes);
#include "engine/cpu/kernels.def"
#undef KERNEL
#undef PLAIN

#endif
