/* conv_winograd_avx512.c - Winograd's convolution for this instruction set. */
#include "backend/cpu/fast/conv_winograd_impl.h"
