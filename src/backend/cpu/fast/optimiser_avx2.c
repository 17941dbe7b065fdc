#include "backend/cpu/fast/optimiser_impl.h"
