/* pool_avx2.c - pooling for this instruction set. */
#include "backend/cpu/fast/pool_impl.h"
