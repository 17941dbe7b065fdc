/* processor.c - in place of the backend's: AMX wherever the rest of those kernels can run, since its
 * tile instructions are made in software here (soft.h). Elsewhere the tests of AMX are skipped. */
#include "backend/cpu/kernel.h"

enum isa processor_isa(void)
{
    if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512dq")) return ISA_AMX;
    return __builtin_cpu_supports("avx512dq") ? ISA_AVX512
           : __builtin_cpu_supports("avx2")   ? ISA_AVX2
                                              : ISA_ANY;
}
