/* Ranks as threads: bytes arrive in rank order whatever the timing, and a rank that stands elsewhere,
 * decided otherwise, stops, leaves or falls silent is named within the wait. */
#include "engine/wire/exchange_threads.h"

#include "engine/base/fault.h"
#include "engine/base/thread.h"
#include "engine/port/backends.h"
#include "engine/wire/record.h"
#include "tests/support/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define WORLD_MAX 8u
#define WAIT_MS   300u

typedef struct ring {
    uint32_t world, delay_us;
    exchange *ends[WORLD_MAX];
} ring;

typedef struct seat {
    ring *ring;
    exchange *x;
    uint32_t rank;
    void (*act)(struct seat *s);
    uint64_t seed;
    tf_status status;
    tf_error err;
    uint64_t took_ms;
    uint32_t rounds;
    bool wrong;
} seat;

static bool ring_open(check_case *t, ring *r, uint32_t world, uint32_t delay_us) {
    *r = (ring){.world = world, .delay_us = delay_us};
    exchange_settings settings = {world, WAIT_MS, delay_us, 7};
    uint32_t count = 0;
    tf_error err = {0};
    CHECK_U64(t, backend_exchange("threads", &settings, r->ends, &count, &err), TF_OK);
    return CHECK_U64(t, count, world);
}

static void ring_close(ring *r) {
    for (uint32_t i = 0; i < r->world; i++)
        r->ends[i]->ops->close(r->ends[i]);
}

static void *sit(void *context) {
    seat *s = context;
    uint64_t began = record_now_ns();
    s->act(s);
    s->took_ms = (record_now_ns() - began) / 1000000u;
    return NULL;
}

/* Every rank acts on a thread of its own. */
static void act(ring *r, seat *seats, void (*each)(seat *s), uint64_t seed) {
    pthread_t threads[WORLD_MAX];
    for (uint32_t i = 0; i < r->world; i++) {
        seats[i] = (seat){.ring = r, .x = r->ends[i], .rank = i, .act = each, .seed = seed};
        if (pthread_create(&threads[i], NULL, sit, &seats[i]) != 0) abort();
    }
    for (uint32_t i = 0; i < r->world; i++)
        pthread_join(threads[i], NULL);
}

static uint8_t content(uint64_t round, uint32_t rank, uint64_t at) {
    return (uint8_t)(round * 131 + rank * 29 + at * 7 + (at >> 8) + 1);
}

/* One exchange of the given sizes; wrong where a byte is not the one its rank sent. */
static tf_status exchange_once(seat *s, const char *site, const uint64_t *bytes, uint64_t round,
                               uint64_t decision) {
    uint64_t total = record_begin_of(&(exchange_part){.bytes = bytes}, s->x->world);
    uint8_t *send = malloc(bytes[s->rank] + 1);
    uint8_t *recv = calloc(1, total + 1);
    if (send == NULL || recv == NULL) abort();
    for (uint64_t i = 0; i < bytes[s->rank]; i++)
        send[i] = content(round, s->rank, i);
    exchange_part part = {site, send, recv, bytes, decision};
    tf_status status = s->x->ops->gather(s->x, &part, &s->err);
    memset(send, 0xee, bytes[s->rank]); /* free for reuse at once */
    const uint8_t *at = recv;
    for (uint32_t r = 0; status == TF_OK && r < s->x->world; at += bytes[r], r++) {
        for (uint64_t i = 0; i < bytes[r]; i++)
            s->wrong |= at[i] != content(round, r, i);
    }
    s->wrong |= status == TF_OK && recv[total] != 0;
    free(send);
    free(recv);
    return status;
}

/* ---- bytes ---- */

static void random_rounds(seat *s) {
    check_random sizes = {s->seed}; /* the same on all ranks */
    s->x->delay_us_max = s->ring->delay_us;
    for (uint32_t round = 0; round < s->rounds && s->status == TF_OK; round++) {
        uint64_t bytes[WORLD_MAX];
        for (uint32_t r = 0; r < s->x->world; r++) {
            uint64_t kind = check_below(&sizes, 40);
            bytes[r] = kind < 10   ? 0
                       : kind < 39 ? check_below(&sizes, 3000)
                                   : check_below(&sizes, 400000);
        }
        s->status = exchange_once(s, "some", bytes, round, round);
        s->x->ops->beat(s->x);
    }
}

static void many_rounds(seat *s) {
    s->rounds = 1500;
    random_rounds(s);
}

static void few_rounds(seat *s) {
    s->rounds = 120;
    random_rounds(s);
}

static void all_held(check_case *t, const ring *r, const seat *seats, uint32_t rounds) {
    for (uint32_t i = 0; i < r->world; i++) {
        CHECKF(t, seats[i].status == TF_OK, "rank %u: %s %s", i, seats[i].err.what,
               seats[i].err.found);
        CHECKF(t, !seats[i].wrong, "rank %u of %u has a byte that was not sent", i, r->world);
        CHECK_U64(t, r->ends[i]->sequence, rounds);
        CHECK_U64(t, r->ends[i]->log[(rounds - 1) % EXCHANGE_LOG].done, true);
    }
}

static const uint32_t worlds[] = {1, 2, 3, 4, 8};

static void bytes_arrive_in_rank_order(check_case *t) {
    check_random r = check_seed(t);
    for (size_t w = 0; w < COUNT(worlds); w++) {
        ring all;
        seat seats[WORLD_MAX];
        if (!ring_open(t, &all, worlds[w], 0)) return;
        act(&all, seats, many_rounds, check_next(&r));
        all_held(t, &all, seats, 1500);
        ring_close(&all);
    }
}

static void random_delays_change_nothing(check_case *t) {
    check_random r = check_seed(t);
    for (size_t w = 0; w < COUNT(worlds); w++) {
        ring all;
        seat seats[WORLD_MAX];
        if (!ring_open(t, &all, worlds[w], 700)) return;
        act(&all, seats, few_rounds, check_next(&r));
        all_held(t, &all, seats, 120);
        ring_close(&all);
    }
}

static void counts_what_was_received(check_case *t) {
    ring all;
    seat seats[WORLD_MAX];
    if (!ring_open(t, &all, 3, 0)) return;
    act(&all, seats, few_rounds, 5);
    uint64_t in_all = 0, each = 0;
    for (uint32_t i = 0; i < 3; i++)
        in_all += all.ends[i]->bytes_received;
    for (uint32_t i = 0; i < EXCHANGE_LOG; i++)
        each += all.ends[0]->log[i].bytes;
    CHECK(t, in_all % 2 == 0 && in_all > 2 * each && each > 0);
    CHECK(t, all.ends[0]->spent_ns > 0);
    ring_close(&all);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"exchange/bytes-arrive-in-rank-order", bytes_arrive_in_rank_order},
        {"exchange/random-delays-change-nothing", random_delays_change_nothing},
        {"exchange/counts-what-was-received", counts_what_was_received},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
