/* batchnorm_avx512bf16.c - batch norm for this instruction set. */
#include "backend/cpu/fast/batchnorm_impl.h"
