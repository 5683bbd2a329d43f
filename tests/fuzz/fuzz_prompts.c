/* Fuzz target: a file of prompts. */
#include "harness/cli/prompts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    prompts p = {0};
    tf_error err = {0};
    prompts_parse(&p, "fuzz", (const char *)data, size, &err);
    prompts_free(&p);
    return 0;
}
