#define ATTEND_STEPS attend_avx512
#include "engine/cpu/attend_impl.h"
