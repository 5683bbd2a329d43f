/* wire/record - what every exchange does besides moving bytes.
 *
 * Idea: a header says where a rank stands - sequence, site, sizes, decision - and is compared with
 * one's own before a byte of that rank is taken; the last ones stay in the log of struct exchange.
 * Trap: the order of the checks is the message: a rank at another exchange has other sizes too, and
 * the sizes would mislead. */
#ifndef TF_ENGINE_WIRE_RECORD_H
#define TF_ENGINE_WIRE_RECORD_H

#include "engine/port/backends.h"

#include <stddef.h>

/* Travels between ranks of one build; the handshake compares versions. */
typedef struct record_header {
    uint64_t sequence;
    uint64_t decision;
    char site[EXCHANGE_SITE];
    uint64_t bytes[]; /* [world] */
} record_header;

static inline size_t record_header_bytes(uint32_t world) {
    return sizeof(record_header) + world * sizeof(uint64_t);
}

/* Fills the part of an end that all exchanges share. */
void record_open(exchange *x, const exchange_ops *ops, const exchange_settings *settings,
                 uint32_t rank);
/* Waits the injected delay, notes the exchange as pending and says in *header where this rank
 * stands.  Returns the time, for record_end. */
uint64_t record_begin(exchange *x, const exchange_part *part, record_header *header);
/* Notes the exchange as done and steps on. */
void record_end(exchange *x, const exchange_part *part, uint64_t began_ns);
/* Fails with exchange-differs or decision-differs where `rank` stands elsewhere than x. */
tf_status record_compare(const exchange *x, const record_header *own, const record_header *other,
                         uint32_t rank, tf_error *err);
/* Where the bytes of `rank` begin in recv. */
uint64_t record_begin_of(const exchange_part *part, uint32_t rank);

/* Who is waited for: a peer that neither answers nor advances for wait_ms is silent.  Time in which
 * nobody looked - the process was stopped, say - does not count. */
typedef struct record_watch {
    uint64_t beats;     /* as last seen */
    uint64_t looked_ns; /* when last seen; 0: never */
    uint64_t silent_ns; /* that the beats have not changed */
} record_watch;
/* Returns whether the peer is silent by now. */
bool record_silent(const exchange *x, record_watch *w, uint64_t beats, uint64_t now_ns);
/* What to say of a peer; `entered` says whether it has come to the exchange that x is at: all before
 * were compared, so they are its own too. */
tf_status record_fail_silent(const exchange *x, uint32_t rank, bool entered, tf_error *err);
tf_status record_fail_stopped(uint32_t rank, const char *reason, tf_error *err);

uint64_t record_now_ns(void); /* CLOCK_MONOTONIC */
void record_nap(uint64_t ns);

#endif
