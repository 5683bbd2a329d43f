#define _GNU_SOURCE /* syscall: the kernel is asked for AMX state by number */
#include "engine/cpu/isa.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#endif

static const char *const names[CPU_ISAS] = {"scalar", "avx2", "avx512", "amx"};

const char *cpu_isa_name(cpu_isa isa) {
    return names[isa];
}

#if defined(__x86_64__)

#include <cpuid.h>

/* Tiles are 8 KiB of state that Linux hands out on request only. */
static bool may_use_tiles(void) {
#if defined(__linux__)
    const long request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

static bool has_amx(void) {
    unsigned a, b, c, d;
    const unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if ((d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
    return may_use_tiles();
}

/* clang 14 has no name for it. */
static bool has_f16c(void) {
    unsigned a, b, c, d;
    const unsigned f16c = 1u << 29;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & f16c) != 0;
}

static bool has(cpu_isa isa) {
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512vnni");
    switch (isa) {
    case CPU_AVX2:
        return avx2;
    case CPU_AVX512:
        return avx512;
    case CPU_AMX:
        return avx512 && has_amx();
    case CPU_SCALAR:
    case CPU_ISAS:
        break;
    }
    return true;
}

#else

static bool has(cpu_isa isa) {
    return isa == CPU_SCALAR;
}

#endif

cpu_isa cpu_best_isa(void) {
    cpu_isa best = CPU_SCALAR;
    for (cpu_isa isa = CPU_SCALAR; isa < CPU_ISAS; isa++) {
        if (has(isa)) best = isa;
    }
    return best;
}

const char *const *cpu_isas(void) {
    /* Levels build on each other: what is missing is at the end. */
    static const char *const all[CPU_ISAS][CPU_ISAS + 1] = {
        {"scalar"},
        {"scalar", "avx2"},
        {"scalar", "avx2", "avx512"},
        {"scalar", "avx2", "avx512", "amx"},
    };
    return all[cpu_best_isa()];
}

tf_status isa_choose(const char *name, cpu_isa *out, tf_error *err) {
    *out = cpu_best_isa();
    if (name == NULL) return TF_OK;
    for (cpu_isa isa = CPU_SCALAR; isa < CPU_ISAS; isa++) {
        if (strcmp(name, names[isa]) != 0) continue;
        *out = isa;
        if (has(isa)) return TF_OK;
    }
    tf_fail(err, TF_W_ISA_MISSING, "choosing the instructions of the cpu");
    tf_found(err, "%s", name);
    tf_expected(err, "one of scalar, avx2, avx512, amx that this machine has: up to %s",
                names[cpu_best_isa()]);
    return tf_remedy(err, "leave the choice out, or ask for %s", names[cpu_best_isa()]);
}
