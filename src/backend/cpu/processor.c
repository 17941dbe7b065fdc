/* processor.c - which instructions this processor has, and the system lets us use: the same sets as
 * cmake/flags.cmake compiles for. The tests of AMX in software put another in its place (tests/amx). */
#include "backend/cpu/kernel.h"
#include <pthread.h>
#ifdef FRUGAL_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifdef FRUGAL_X86
/* The tiles' 8 KiB of state are given to a process that asks once, for all its threads, and by
 * Linux 5.16 and later only (Documentation/arch/x86/xstate.rst). */
static bool tiles_granted(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
}

/* By number, because not every compiler knows their names: Intel's manual, volume 2, CPUID. */
static bool has_bf16(void)
{
    u32 a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

static bool has_tiles(void)
{
    u32 a, b, c, d, tile = 1u << 24, tile_bf16 = 1u << 22;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & tile) && (d & tile_bf16);
}

static enum isa processor_look(void)
{
    /* Whoever has AVX2 has the older F16C too, for which clang 14 does not know to ask. */
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("bmi2");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!avx2) return ISA_ANY;
    if (!avx512) return ISA_AVX2;
    if (has_tiles()) /* whose bf16 outside of tiles is slower than f32: bench/results/bf16.md */
        return tiles_granted() ? ISA_AMX : ISA_AVX512;
    return has_bf16() ? ISA_AVX512BF16 : ISA_AVX512;
}
#else
static enum isa processor_look(void) { return ISA_ANY; }
#endif

static enum isa processor;

static void look_once(void) { processor = processor_look(); }

enum isa processor_isa(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_once);
    return processor;
}
