/* batchnorm_avx2.c - batch norm for this instruction set. */
#include "backend/cpu/fast/batchnorm_impl.h"
