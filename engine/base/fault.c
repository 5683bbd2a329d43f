#include "engine/base/fault.h"

#ifdef TF_FAULT

#include <stdatomic.h>

static _Atomic uint64_t left[FAULT_KINDS];
static atomic_bool fired[FAULT_KINDS];

void fault_arm(fault_kind kind, uint64_t n) {
    atomic_store(&fired[kind], false);
    atomic_store(&left[kind], n);
}

bool fault_fired(fault_kind kind) {
    return atomic_load(&fired[kind]);
}

bool fault_hits(fault_kind kind) {
    uint64_t n = atomic_load(&left[kind]);
    while (n > 0) {
        if (!atomic_compare_exchange_weak(&left[kind], &n, n - 1)) continue;
        if (n > 1) return false;
        atomic_store(&fired[kind], true);
        return true;
    }
    return false;
}

#else
/* ISO C wants a declaration in every unit. */
typedef int fault_is_off;
#endif
