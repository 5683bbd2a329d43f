#include "engine/base/check.h"

#include <stdio.h>
#include <stdlib.h>

/* The one message printed below the command line: the process ends here. */
_Noreturn void tf_assert_failed(const char *expression, const char *file, int line) {
    fprintf(stderr, "tfverify: internal error: %s does not hold (%s:%d)\n", expression, file, line);
    abort();
}
