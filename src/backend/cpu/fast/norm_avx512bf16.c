#include "backend/cpu/fast/norm_impl.h"
