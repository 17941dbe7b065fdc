/* conv_winograd_avx2.c - Winograd's convolution for this instruction set. */
#include "backend/cpu/fast/conv_winograd_impl.h"
