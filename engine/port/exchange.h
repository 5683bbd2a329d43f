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
    const void *send;      /* bytes[rank] */
    void *recv;            /* sum of bytes, in rank order; may not overlap send */
    const uint64_t *bytes; /* [world] what each rank gives, as this rank believes */
    uint64_t decision;     /* hash of what this rank has decided so far; must be equal on all */
} exchange_part;

typedef struct exchange exchange;
typedef struct exchange_ops {
    const char *name;
    /* Fails with peer-gone, peer-silent, peer-stopped (its reason), exchange-differs (site, sequence
     * or bytes), decision-differs. */
    tf_status (*gather)(exchange *x, const exchange_part *part, tf_error *err);
    /* This rank lives and advances; cheap, called between calls and inside long ones. */
    void (*beat)(exchange *x);
    /* Tells the others why this rank ends; they fail with peer-stopped. */
    void (*stop)(exchange *x, const char *reason);
    void (*close)(exchange *x);
} exchange_ops;

/* The last exchanges of a rank, for the message when something stalls. */
#define EXCHANGE_LOG 16u
typedef struct exchange_entry {
    char site[24];
    uint64_t sequence;
    uint64_t bytes; /* of all ranks */
    bool done;
} exchange_entry;

/* Begin of every exchange's own struct. */
struct exchange {
    const exchange_ops *ops;
    uint32_t world, rank;
    uint32_t wait_ms;
    uint64_t sequence;       /* of the next exchange */
    uint64_t bytes_received; /* in all */
    uint32_t delay_us_max;   /* tests: a random wait before each exchange; 0: none */
    uint64_t delay_state;
    exchange_entry log[EXCHANGE_LOG]; /* entry sequence mod EXCHANGE_LOG */
};

#endif
