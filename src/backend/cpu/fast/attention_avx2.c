#include "backend/cpu/fast/attention_impl.h"
