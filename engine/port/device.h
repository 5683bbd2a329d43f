/* port/device - what the executor asks of the machine that computes.
 *
 * Idea: memory, weights in the device's own layout, and launches of resolved calls; nothing here
 * knows a model.  A launch is done when the next one that needs it runs: in order, as if at once.
 * Trap: memory for a launch's own use is reserved when lists are bound; launching allocates nothing. */
#ifndef TF_ENGINE_PORT_DEVICE_H
#define TF_ENGINE_PORT_DEVICE_H

#include "engine/port/args.h"

typedef enum {
    PROFILE_F32,
    PROFILE_BF16,
} port_profile; /* NUMERICS, Activations */

typedef struct device_settings {
    uint32_t threads; /* 0: one a core */
    port_profile profile;
    const char *
        isa; /* NULL: the best this machine has; "scalar", "avx2", ...: refused where it lacks it */
} device_settings;

/* A linear's stored bytes, as rank files hold them: plain [N, K] of dtype; or exl3 trellis
 * [K/16, N/16, 8 * bits2] i16, suh [K] and svh [N] f16. */
typedef struct device_source {
    weight_form form;
    tf_dtype dtype;
    exl3_codebook codebook;
    uint32_t bits2;
    uint32_t k, n;
    const void *weight; /* plain */
    const uint16_t *trellis, *suh, *svh;
} device_source;

/* Pieces of memory at even distances; either side may be the device's or the host's. */
typedef struct device_pieces {
    void *to;
    size_t to_stride; /* bytes from one piece to the next */
    const void *from;
    size_t from_stride;
    size_t bytes; /* of a piece */
    size_t count;
} device_pieces;

typedef struct device device;
typedef struct device_ops {
    const char *name;
    void (*close)(device *d);
    /* Zeroed, aligned to BUFFER_ALIGN; freed by close. */
    tf_status (*take)(device *d, uint64_t bytes, void **memory, tf_error *err);
    void (*drop)(device *d, void *memory);
    tf_status (*write)(device *d, void *to, const void *from, size_t bytes, tf_error *err);
    tf_status (*read)(device *d, void *to, const void *from, size_t bytes, tf_error *err);
    /* Done on return where a side is the host's. */
    tf_status (*copy)(device *d, const device_pieces *pieces, tf_error *err);
    /* Device owns what `out` points to. */
    tf_status (*load)(device *d, const device_source *source, port_linear *out, tf_error *err);
    /* Makes room for the launch's own scratch memory. */
    tf_status (*reserve)(device *d, const port_launch *l, tf_error *err);
    tf_status (*launch)(device *d, const port_launch *l, tf_error *err);
} device_ops;

/* Begin of every device's own struct. */
struct device {
    const device_ops *ops;
    const char *isa;
    port_profile profile;
    bool remote; /* the host cannot look into its memory: only write, read and copy can */
    uint64_t weight_bytes, memory_bytes, scratch_bytes; /* taken so far */
};

#endif
