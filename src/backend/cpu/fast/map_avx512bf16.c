#include "backend/cpu/fast/map_impl.h"
