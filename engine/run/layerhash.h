/* run/layerhash - what a run computed, layer by layer, as hashes that two runs can be compared by.
 *
 * Idea: JSON Lines (FORMATS, Layer hashes).  A header
 *     {"layer_hashes":1,"model":"tiny-exl3","plan":"..","split":"..","world":3,"rank":1,
 *      "settings":"..","profile":"f32"}          (one line)
 * and a line for every point in the order it was computed:
 *     {"step":0,"phase":"prefill","layer":"L2","point":"attn.sum","shape":[17,256],"hash":".."}
 * The hash is XXH3-128 of the raw float32 rows, tightly one after another.
 * Trap: partials belong to a rank and to a split's intervals; everything after a sum is every rank's.
 * The plan names the pack too, so whether partials may be compared is for "split" to say. */
#ifndef TF_ENGINE_RUN_LAYERHASH_H
#define TF_ENGINE_RUN_LAYERHASH_H

#include "engine/base/digest.h"
#include "engine/port/device.h"

/* POINT(NAME, "text", is it a rank's own?) in the order of a layer. */
#define LAYERHASH_POINTS(POINT)               \
    POINT(IDS, "ids", false)                  \
    POINT(ATTN_PARTIAL, "attn.partial", true) \
    POINT(ATTN_SUM, "attn.sum", false)        \
    POINT(FFN_PARTIAL, "ffn.partial", true)   \
    POINT(FFN_SUM, "ffn.sum", false)          \
    POINT(STREAMS, "streams", false)          \
    POINT(LOGITS, "logits", true)             \
    POINT(ALL_LOGITS, "logits.whole", false)

typedef enum {
#define POINT(name, text, own) LAYERHASH_##name,
    LAYERHASH_POINTS(POINT)
#undef POINT
    LAYERHASH_COUNT,
} layerhash_point;

const char *layerhash_point_name(layerhash_point point);
bool layerhash_point_parse(const char *name, layerhash_point *out);
/* Does a rank hold values of its own there? */
bool layerhash_is_own(layerhash_point point);

typedef struct layerhash_header {
    const char *model;
    tf_digest plan, settings;
    tf_digest split; /* of the world and of every unit's ranges */
    uint32_t world, rank;
    const char *profile;
    device *device; /* whose memory the points lie in; NULL: the host's */
} layerhash_header;

typedef struct layerhash layerhash;

tf_status layerhash_open(const char *path, const layerhash_header *header, layerhash **out,
                         tf_error *err);
/* Of the calls that follow. */
void layerhash_step(layerhash *h, uint32_t step, const char *phase);
/* An exec_seen: picks the points out of all calls. */
void layerhash_seen(void *context, const call *c, const port_launch *l);
/* The file appears here, whole; frees h, also after a failure. */
tf_status layerhash_finish(layerhash *h, tf_error *err);
/* Leaves no file.  NULL is fine. */
void layerhash_drop(layerhash *h);

#endif
