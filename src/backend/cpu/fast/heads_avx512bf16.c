#include "backend/cpu/fast/heads_impl.h"
