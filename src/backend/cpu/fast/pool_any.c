/* pool_any.c - pooling for this instruction set. */
#include "backend/cpu/fast/pool_impl.h"
