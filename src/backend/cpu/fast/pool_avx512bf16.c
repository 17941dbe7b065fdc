/* pool_avx512bf16.c - pooling for this instruction set. */
#include "backend/cpu/fast/pool_impl.h"
