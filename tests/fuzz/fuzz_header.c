/* A safetensors header.  What is accepted must tile its data exactly: the sum of all tensors' bytes
 * is the data, and none reaches beyond it. */
#include "engine/pack/pack.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    DATA_BEGIN = 64
};

typedef struct sums {
    uint64_t data_bytes;
    uint64_t bytes;
} sums;

static tf_status add(void *context, const pack_tensor *tensor, tf_error *err) {
    (void)err;
    sums *s = context;
    uint64_t end = tensor->offset + tensor->bytes;
    if (tensor->offset < DATA_BEGIN || end < tensor->offset || strlen(tensor->name) == 0) abort();
    if (s->data_bytes != UINT64_MAX && end > DATA_BEGIN + s->data_bytes) abort();
    s->bytes += tensor->bytes;
    return TF_OK;
}

/* The first two bytes say how much data follows. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    sums s = {.data_bytes = (uint64_t)data[0] | (uint64_t)data[1] << 8};
    const pack_header header = {"fuzz", (const char *)data + 2, size - 2, DATA_BEGIN, s.data_bytes};
    bool header_only = false;
    tf_error err = {0};
    /* Marked so, the header itself says how much there would be. */
    if (s.data_bytes == 0) s.data_bytes = UINT64_MAX;
    tf_status status = pack_parse_header(&header, add, &s, &header_only, &err);
    if ((status == TF_OK) != (err.status == TF_OK)) abort();
    if (status == TF_OK && !header_only && s.bytes != header.data_bytes) abort();
    return 0;
}
