/* support/ring - ranks as threads, for tests of what ranks do together.
 *
 * Idea: one function a rank; what each returned, and when, is looked at afterwards.
 * Trap: a wait that is short makes a busy machine look like a silent rank; only cases about silence
 * shorten it (ring_hurry). */
#ifndef TF_TESTS_SUPPORT_RING_H
#define TF_TESTS_SUPPORT_RING_H

#include "engine/port/exchange.h"
#include "tests/support/check.h"

#define RING_MAX      8u
#define RING_HURRY_MS 300u

typedef struct ring_seat {
    exchange *x;
    void *context;
    tf_status status; /* what the rank's function returned */
    tf_error err;
    uint64_t took_ms;
    bool wrong; /* for the function's use */
} ring_seat;

typedef struct ring {
    uint32_t world;
    ring_seat seats[RING_MAX];
} ring;

typedef tf_status (*ring_act)(ring_seat *s);

/* Of the exchange "threads". */
bool ring_open(check_case *t, ring *r, uint32_t world, uint32_t delay_us_max);
void ring_close(ring *r);
/* Peers are silent after RING_HURRY_MS. */
void ring_hurry(ring *r);
/* Every rank acts on a thread of its own; returns when all have. */
void ring_run(ring *r, ring_act act, void *context);
/* Each rank its own act. */
void ring_run_each(ring *r, const ring_act *acts, void *context);
void ring_nap(uint32_t ms);
/* One exchange: each rank gives bytes[rank] bytes that follow from seed, its rank and their place;
 * sets s->wrong where one that arrived is another. */
tf_status ring_gather(ring_seat *s, const char *site, const uint64_t *bytes, uint64_t seed,
                      uint64_t decision);

#endif
