#include "engine/pack/exl3.h"

#include "engine/base/thread.h"
#include "engine/pack/exl3_codec.h"

#include <string.h>

/* Tensors a job: claiming one costs more than passing over a name. */
enum {
    BATCH = 512
};

/* EXL3_DEFAULT, which has no marker, when the tensor is none. */
static exl3_codebook marked(const pack_tensor *t) {
    const char *dot = strrchr(t->name, '.');
    if (dot == NULL || t->dtype != DTYPE_I32 || t->dims != 0) return EXL3_DEFAULT;
    for (int c = EXL3_MCG; c < (int)EXL3_CODEBOOKS; c++) {
        if (strcmp(dot + 1, exl3_codebook_name((exl3_codebook)c)) == 0) return (exl3_codebook)c;
    }
    return EXL3_DEFAULT;
}

static tf_status check_marker(const tf_pack *pack, const pack_tensor *t, exl3_codebook codebook,
                              tf_error *err) {
    uint8_t b[4];
    tf_status status = pack_read(pack, t, 0, b, sizeof b, err);
    if (status != TF_OK) return status;
    uint32_t found =
        (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    if (found == exl3_marker(codebook)) return TF_OK;
    tf_fail(err, TF_W_EXL3_MARKER, "checking tensor %s of pack %s", t->name, pack->name);
    tf_found(err, "0x%08X", found);
    return tf_expected(err, "0x%08X, the multiplier of codebook %s", exl3_marker(codebook),
                       exl3_codebook_name(codebook));
}

/* A job's context is not const; what it points at may be. */
typedef struct markers {
    const tf_pack *pack;
} markers;

static tf_status check_batch(void *context, size_t index, uint32_t worker, tf_error *err) {
    const tf_pack *pack = ((const markers *)context)->pack;
    (void)worker;
    size_t begin = index * BATCH;
    size_t end = pack->tensor_count - begin < BATCH ? pack->tensor_count : begin + BATCH;
    tf_status status = TF_OK;
    for (size_t i = begin; i < end && status == TF_OK; i++) {
        const pack_tensor *t = &pack->tensors[i];
        exl3_codebook codebook = marked(t);
        if (codebook == EXL3_DEFAULT || pack->shards[t->shard].header_only) continue;
        status = check_marker(pack, t, codebook, err);
    }
    return status;
}

tf_status exl3_check_markers(const tf_pack *pack, uint32_t workers, tf_error *err) {
    markers context = {pack};
    return thread_run(workers, (pack->tensor_count + BATCH - 1) / BATCH, check_batch, &context,
                      err);
}
