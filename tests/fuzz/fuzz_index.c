/* Any bytes as an index over shards: refused with its reason, or a list of entries. */
#include "engine/pack/pack.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tf_error err = {0};
    size_t entries = 0;
    tf_status status =
        pack_parse_index("model.safetensors.index.json", (const char *)data, size, &entries, &err);
    if (status == TF_OK ? entries == 0 : err.word == TF_W_NONE || err.what[0] == '\0') abort();
    return 0;
}
