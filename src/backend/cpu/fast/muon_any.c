#include "backend/cpu/fast/muon_impl.h"
