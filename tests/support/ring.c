#include "tests/support/ring.h"

#include "engine/port/backends.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool ring_open(check_case *t, ring *r, uint32_t world, uint32_t delay_us_max) {
    *r = (ring){.world = world};
    exchange_settings settings = {world, 0, delay_us_max, 7};
    exchange *ends[RING_MAX];
    uint32_t count = 0;
    tf_error err = {0};
    if (!CHECK_U64(t, backend_exchange("threads", &settings, ends, &count, &err), TF_OK))
        return false;
    for (uint32_t i = 0; i < count; i++)
        r->seats[i].x = ends[i];
    return CHECK_U64(t, count, world);
}

void ring_close(ring *r) {
    for (uint32_t i = 0; i < r->world; i++)
        r->seats[i].x->ops->close(r->seats[i].x);
}

void ring_hurry(ring *r) {
    for (uint32_t i = 0; i < r->world; i++)
        r->seats[i].x->wait_ms = RING_HURRY_MS;
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void ring_nap(uint32_t ms) {
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&nap, NULL);
}

typedef struct player {
    ring_seat *seat;
    ring_act act;
    pthread_t thread;
} player;

static void *play(void *context) {
    player *p = context;
    uint64_t began = now_ms();
    p->seat->status = p->act(p->seat);
    p->seat->took_ms = now_ms() - began;
    return NULL;
}

void ring_run_each(ring *r, const ring_act *acts, void *context) {
    player players[RING_MAX];
    for (uint32_t i = 0; i < r->world; i++) {
        ring_seat *s = &r->seats[i];
        *s = (ring_seat){.x = s->x, .context = context};
        players[i] = (player){.seat = s, .act = acts[i]};
        if (pthread_create(&players[i].thread, NULL, play, &players[i]) != 0) abort();
    }
    for (uint32_t i = 0; i < r->world; i++)
        pthread_join(players[i].thread, NULL);
}

void ring_run(ring *r, ring_act act, void *context) {
    ring_act acts[RING_MAX];
    for (uint32_t i = 0; i < r->world; i++)
        acts[i] = act;
    ring_run_each(r, acts, context);
}

static uint8_t content(uint64_t seed, uint32_t rank, uint64_t at) {
    /* No power of two of bytes repeats. */
    return (uint8_t)(seed * 131 + rank * 29 + at * 7 + (at >> 8) + (at >> 16) + (at >> 24) + 1);
}

tf_status ring_gather(ring_seat *s, const char *site, const uint64_t *bytes, uint64_t seed,
                      uint64_t decision) {
    exchange *x = s->x;
    uint64_t total = 0, own = bytes[x->rank];
    for (uint32_t r = 0; r < x->world; r++)
        total += bytes[r];
    uint8_t *send = malloc(own + 1);
    uint8_t *recv = calloc(1, total + 1);
    if (send == NULL || recv == NULL) abort();
    for (uint64_t i = 0; i < own; i++)
        send[i] = content(seed, x->rank, i);
    exchange_part part = {site, send, recv, bytes, decision};
    tf_status status = x->ops->gather(x, &part, &s->err);
    memset(send, 0xee, own + 1); /* free for reuse at once */
    const uint8_t *at = recv;
    for (uint32_t r = 0; status == TF_OK && r < x->world; at += bytes[r], r++) {
        for (uint64_t i = 0; i < bytes[r]; i++)
            s->wrong |= at[i] != content(seed, r, i);
    }
    s->wrong |= status == TF_OK && recv[total] != 0;
    free(send);
    free(recv);
    return status;
}
