/* Any bytes as config.json: refused with its reason, or read into roles that hang together. */
#include "engine/pack/config.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tf_config c;
    tf_error err = {0};
    if (config_parse("config.json", (const char *)data, size, &c, &err) != TF_OK) {
        if (err.word == TF_W_NONE || err.what[0] == '\0') abort();
        return 0;
    }
    if (c.layers == 0 || c.layers > TF_LAYERS_MAX || c.heads % c.groups != 0) abort();
    for (uint32_t l = 0; l < c.layers; l++) {
        const config_layer *layer = &c.layer[l];
        if (layer->ratio == 0) continue;
        if (layer->kv_source > l || !c.layer[layer->kv_source].owns_kv) abort();
        if (layer->index_source > l || !c.layer[layer->index_source].owns_index) abort();
    }
    return 0;
}
