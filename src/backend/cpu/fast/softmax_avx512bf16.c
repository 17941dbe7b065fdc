#include "backend/cpu/fast/softmax_impl.h"
