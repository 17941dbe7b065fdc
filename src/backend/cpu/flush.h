/* flush.h - while kernels run, a number too small to be written with a full mantissa (below
 * 2^-126, 1e-38) is zero.
 *
 * The mean that Adam keeps for a weight whose gradient is zero from some step on shrinks by a tenth
 * a step and would stay among those numbers for ever; processors take many times longer for a root
 * or a quotient of one. Threads inherit the mode of the thread that starts them. */
#ifndef BACKEND_CPU_FLUSH_H
#define BACKEND_CPU_FLUSH_H
#include "base/types.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
enum { FLUSH_BITS = 0x8040 }; /* MXCSR: flush results to zero, take operands as zero */

static inline u64 flush_begin(void) /* returns the mode until now, for flush_end */
{
    u32 before = _mm_getcsr();
    _mm_setcsr(before | FLUSH_BITS);
    return before;
}

static inline void flush_end(u64 before) { _mm_setcsr((u32)before); }

#elif defined(__aarch64__)
enum { FLUSH_BITS = 1 << 24 }; /* FPCR.FZ: both */

static inline u64 flush_begin(void)
{
    u64 before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" ::"r"(before | FLUSH_BITS));
    return before;
}

static inline void flush_end(u64 before) { __asm__ volatile("msr fpcr, %0" ::"r"(before)); }

#else
enum { FLUSH_BITS = 0 };

static inline u64  flush_begin(void) { return 0; }
static inline void flush_end(u64 before) { (void)before; }
#endif

#endif
