/* conv_direct_any.c - direct convolution for this instruction set. */
#include "backend/cpu/fast/conv_direct_impl.h"
