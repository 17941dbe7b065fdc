/* conv_winograd_any.c - Winograd's convolution for this instruction set. */
#include "backend/cpu/fast/conv_winograd_impl.h"
