/* token_sha (FORMATS): the check values. */
#include "engine/model/tokensha.h"
#include "tests/support/check.h"

#include <string.h>

static void the_check_values_hold(check_case *t) {
    static const int32_t ids[] = {1, 2, 3};
    char sha[SHA256_HEX];
    tokensha(ids, 3, sha);
    CHECKF(t, strncmp(sha, "8a6ae1512200", TOKENSHA_SHORT) == 0, "%s", sha);
    tokensha(ids, 0, sha);
    CHECKF(t, strncmp(sha, "e3b0c44298fc", TOKENSHA_SHORT) == 0, "%s", sha);
    CHECK_U64(t, strlen(sha), 64);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"tokensha/the-check-values-hold", the_check_values_hold},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
