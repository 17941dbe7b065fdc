#include "backend/cpu/fast/attention_bf16_impl.h"
