/* isa.c - in place of the backend's: AMX wherever the rest of those kernels can run, since its tile
 * instructions are made in software here (soft.h). */
#include "backend/cpu/kernel.h"

enum isa kernel_isa(void)
{
    bool bf16 = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512dq");
    return bf16 ? ISA_AMX : ISA_ANY;
}
