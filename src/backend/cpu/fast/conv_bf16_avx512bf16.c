#include "backend/cpu/fast/conv_bf16_impl.h"
