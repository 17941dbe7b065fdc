#include "backend/cpu/fast/gemm_bf16_impl.h"
