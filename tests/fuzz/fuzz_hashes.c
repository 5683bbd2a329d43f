/* Any bytes as a file of layer hashes: refused by line, or a run. */
#include "engine/run/diverge.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    diverge_run run = {0};
    tf_error err = {0};
    tf_status status = diverge_parse("hashes", (const char *)data, size, &run, &err);
    if (status != TF_OK && err.word != TF_W_BAD_HASHES) abort();
    if (status == TF_OK && (run.world == 0 || run.rank >= run.world)) abort();
    diverge_run_free(&run);
    return 0;
}
