/* Any bytes as a file of prompts: refused by name, or prompts that have ids. */
#include "harness/cli/prompts.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    prompts p = {0};
    tf_error err = {0};
    tf_status status = prompts_parse(&p, "prompts", (const char *)data, size, &err);
    if (status == TF_OK && p.count == 0) abort();
    for (uint32_t i = 0; i < p.count; i++) {
        if (p.list[i].count == 0 || p.list[i].ids[0] < 0) abort();
    }
    prompts_free(&p);
    return 0;
}
