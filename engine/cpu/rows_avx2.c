#define ROWS_STEPS rows_avx2
#include "engine/cpu/rows_impl.h"
