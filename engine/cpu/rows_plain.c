#define ROWS_STEPS rows_plain
#include "engine/cpu/rows_impl.h"
