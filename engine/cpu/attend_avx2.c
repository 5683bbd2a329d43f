#define ATTEND_STEPS attend_avx2
#include "engine/cpu/attend_impl.h"
