/* conv_direct_avx512.c - direct convolution for this instruction set. */
#include "backend/cpu/fast/conv_direct_impl.h"
