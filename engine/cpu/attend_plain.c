#define ATTEND_STEPS attend_plain
#include "engine/cpu/attend_impl.h"
