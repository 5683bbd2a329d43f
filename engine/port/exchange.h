/* port/exchange - how ranks hand each other bytes.
 *
 * Idea: one act carries every collective: each rank gives some bytes, all get all of them in rank
 * order.  Sums are not made here: partials arrive as they were sent, and every rank finishes the
 * same tree.
 * Trap: counts and site are compared before a byte is taken, since a rank that stands elsewhere in
 * its list would otherwise fill the others with the wrong numbers.
 * Trap: no wait is without end: a peer that neither answers nor beats for wait_ms is named, and the
 * run ends. */
#ifndef TF_ENGINE_PORT_EXCHANGE_H
#define TF_ENGINE_PORT_EXCHANGE_H

#include "engine/base/limits.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define EXCHANGE_WAIT_MS 4000u /* a silent peer is given up within 5 s */

typedef struct exchange_part {
    const char *site;      /* static or the list's: "attn", "embed" */
    const void *send;      /* bytes[rank]; free for reuse once gather has succeeded */
    void *recv;            /* sum of bytes, in rank order; may not overlap send */
    const uint64_t *bytes; /* [world] what each rank gives, as this rank believes */
    uint64_t decision;     /* hash of what this rank has decided so far; must be equal on all */
} exchange_part;

typedef struct exchange exchange;
typedef struct exchange_ops {
    const char *name;
    /* Fails with peer-gone, peer-silent, peer-stopped (its reason), exchange-differs (site, sequence
     * or bytes), decision-differs, interrupted (tf_stop_request).  After a failure recv holds
     * anything, and only stop and close may follow.  No allocation. */
    tf_status (*gather)(exchange *x, const exchange_part *part, tf_error *err);
    /* This rank lives and advances; cheap, called between calls and at least every wait_ms / 4
     * inside long ones (loading weights too). */
    void (*beat)(exchange *x);
    /* Tells the others why this rank ends; they fail with peer-stopped, those that wait already too.
     * The first stop counts; its reason is cut to EXCHANGE_REASON - 1 bytes. */
    void (*stop)(exchange *x, const char *reason);
    /* Is a peer known to have stopped or died?  Waits for nobody; for long work between exchanges
     * (loading), at least four times a second: mpirun kills the others a second after a rank died.
     * Fails with peer-stopped, peer-gone. */
    tf_status (*check)(exchange *x, tf_error *err);
    /* Never hangs; others that still wait for this rank fail with peer-gone. */
    void (*close)(exchange *x);
} exchange_ops;

/* The last exchanges of a rank, for the message when something stalls. */
#define EXCHANGE_LOG    16u
#define EXCHANGE_SITE   24u  /* bytes of a site's name that count, its NUL included */
#define EXCHANGE_REASON 200u /* bytes of a stop's reason, its NUL included */
typedef struct exchange_entry {
    char site[EXCHANGE_SITE];
    uint64_t sequence;
    uint64_t bytes; /* of all ranks */
    bool done;
} exchange_entry;

/* Begin of every exchange's own struct. */
struct exchange {
    const exchange_ops *ops;
    uint32_t world, rank;
    bool remote; /* takes and gives memory of the device, where others do with the host's */
    uint32_t wait_ms;
    uint64_t sequence;       /* of the next exchange */
    uint64_t bytes_received; /* from the others, in all */
    uint64_t spent_ns;       /* inside gather, in all: waits and copies */
    uint32_t delay_us_max;   /* tests: a random wait before each exchange; 0: none */
    uint64_t delay_state;
    exchange_entry log[EXCHANGE_LOG]; /* entry sequence mod EXCHANGE_LOG */
};

#endif
