#include "backend/cpu/fast/sum_impl.h"
