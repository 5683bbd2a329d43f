#include "engine/canon/flush.h"

#if defined(__x86_64__) || defined(__i386__)

#include <xmmintrin.h>

#define FTZ_AND_DAZ 0x8040u

uint64_t flush_begin(void) {
    uint32_t mode = _mm_getcsr();
    _mm_setcsr(mode | FTZ_AND_DAZ);
    return mode;
}

void flush_restore(uint64_t mode) {
    _mm_setcsr((uint32_t)mode);
}

#elif defined(__aarch64__)

#define FPCR_FZ (1ull << 24)

uint64_t flush_begin(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | FPCR_FZ));
    return mode;
}

void flush_restore(uint64_t mode) {
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}

#else
#error "flush: this processor's way to flush subnormals is not known"
#endif
