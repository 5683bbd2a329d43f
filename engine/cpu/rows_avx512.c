#define ROWS_STEPS rows_avx512
#include "engine/cpu/rows_impl.h"
