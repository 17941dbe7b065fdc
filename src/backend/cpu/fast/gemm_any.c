#include "backend/cpu/fast/gemm_impl.h"
