#include "backend/cpu/fast/dropout_impl.h"
