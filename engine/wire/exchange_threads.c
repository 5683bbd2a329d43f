#include "engine/wire/exchange_threads.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/thread.h"
#include "engine/wire/record.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* A piece stays in the second level's cache of the core that wrote it. */
#define STAGE_BYTES (128u << 10)
/* Looks for the others this often before it sleeps: a few microseconds. */
#define LOOKS    500
#define SLICE_NS 20000000u

/* What a rank shows the others.  Its beats are on a line of their own: they change all the time. */
typedef struct seat {
    _Alignas(64) atomic_uint_fast64_t beats;
    _Alignas(64) atomic_uint_fast64_t posted; /* rounds */
    /* By the parity of a round: where the rank stands, set by an exchange's first round; its piece. */
    record_header *header[2];
    char *stage[2]; /* [STAGE_BYTES] */
    bool left;      /* hub's lock guards it */
} seat;

typedef struct hub {
    uint32_t world;
    bool look; /* a core a rank: looking does not starve who is looked for */
    _Alignas(64) atomic_uint arrived;
    _Alignas(64) atomic_uint_fast64_t rounds; /* all arrived */
    pthread_mutex_t lock;                     /* guards the rest; waits sleep on it */
    pthread_cond_t changed;
    uint32_t open_ends;
    bool stopped;
    uint32_t stop_rank;
    char stop_reason[EXCHANGE_REASON];
    char *memory; /* headers and stages */
    seat seats[];
} hub;

typedef struct end {
    exchange base;
    hub *hub;
    uint64_t round;       /* completed by this end */
    uint64_t first;       /* round of the exchange it is at */
    record_watch watch[]; /* [world] */
} end;

/* ---- waiting ---- */

static inline void look(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static bool complete(const end *e) {
    return atomic_load_explicit(&e->hub->rounds, memory_order_acquire) > e->round;
}

/* With the lock held.  TF_OK: keep waiting. */
static tf_status trouble(end *e, tf_error *err) {
    hub *h = e->hub;
    uint32_t rank = e->base.rank;
    if (h->stopped && h->stop_rank != rank)
        return record_fail_stopped(h->stop_rank, h->stop_reason, err);
    uint64_t now = record_now_ns();
    for (uint32_t r = 0; r < h->world; r++) {
        seat *s = &h->seats[r];
        if (atomic_load(&s->posted) > e->round) continue;
        const exchange_entry *at = &e->base.log[e->base.sequence % EXCHANGE_LOG];
        if (s->left) {
            tf_fail(err, TF_W_PEER_GONE, "exchange %llu (%s): waiting for rank %u",
                    (unsigned long long)at->sequence, at->site, r);
            tf_found(err, "rank %u has closed its end", r);
            return tf_remedy(err, "see what rank %u printed last", r);
        }
        uint64_t beats = atomic_load_explicit(&s->beats, memory_order_relaxed);
        if (record_silent(&e->base, &e->watch[r], beats, now))
            return record_fail_silent(&e->base, r, e->round > e->first, err);
    }
    return tf_stop_check(err);
}

static void sleep_slice(hub *h) {
    uint64_t until = record_now_ns() + SLICE_NS;
    struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
                         .tv_nsec = (long)(until % 1000000000u)};
    pthread_cond_timedwait(&h->changed, &h->lock, &t);
}

/* Says that this rank's piece lies ready, and waits until everyone's does. */
static tf_status meet(end *e, tf_error *err) {
    hub *h = e->hub;
    seat *own = &h->seats[e->base.rank];
    atomic_store(&own->posted, e->round + 1);
    if (atomic_fetch_add(&h->arrived, 1) + 1 == h->world) {
        /* Nobody arrives at the next round before it sees this one complete. */
        atomic_store(&h->arrived, 0);
        pthread_mutex_lock(&h->lock);
        atomic_store_explicit(&h->rounds, e->round + 1, memory_order_release);
        pthread_cond_broadcast(&h->changed);
        pthread_mutex_unlock(&h->lock);
    }
    for (int i = 0; h->look && i < LOOKS && !complete(e); i++)
        look();
    tf_status status = TF_OK;
    if (!complete(e)) {
        memset(e->watch, 0, h->world * sizeof e->watch[0]);
        pthread_mutex_lock(&h->lock);
        /* What completed is taken even if someone has stopped since: its own comparison says more
         * than the news of a stop. */
        while (!complete(e) && (status = trouble(e, err)) == TF_OK)
            sleep_slice(h);
        pthread_mutex_unlock(&h->lock);
    }
    if (status == TF_OK) e->round++;
    return status;
}

/* ---- operations ---- */

static uint64_t piece_bytes(uint64_t bytes, uint64_t at) {
    if (at >= bytes) return 0;
    return bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
}

static void put_piece(end *e, const exchange_part *part, uint64_t at) {
    seat *own = &e->hub->seats[e->base.rank];
    uint64_t bytes = piece_bytes(part->bytes[e->base.rank], at);
    if (bytes > 0) memcpy(own->stage[e->round % 2], (const char *)part->send + at, bytes);
}

/* After the round that carried the pieces. */
static void take_pieces(end *e, const exchange_part *part, uint64_t at) {
    char *to = part->recv;
    for (uint32_t r = 0; r < e->hub->world; to += part->bytes[r], r++) {
        uint64_t bytes = piece_bytes(part->bytes[r], at);
        const char *from = e->hub->seats[r].stage[(e->round - 1) % 2];
        if (bytes > 0) memcpy(to + at, from, bytes);
    }
}

static tf_status gather(exchange *x, const exchange_part *part, tf_error *err) {
    end *e = (end *)x;
    hub *h = e->hub;
    tf_status status = TF_OK;
    uint32_t turn = (e->first = e->round) % 2;
    record_header *own = h->seats[x->rank].header[turn];
    uint64_t began_ns = record_begin(x, part, own);
    uint64_t most = 0;
    for (uint32_t r = 0; r < x->world; r++)
        most = part->bytes[r] > most ? part->bytes[r] : most;
    uint64_t at = 0;
    do {
        put_piece(e, part, at);
        TF_TRY(meet(e, err));
        for (uint32_t r = 0; at == 0 && r < x->world; r++) {
            if (r == x->rank) continue;
            TF_TRY(record_compare(x, own, h->seats[r].header[turn], r, err));
        }
        take_pieces(e, part, at);
        at += STAGE_BYTES;
    } while (at < most);
    record_end(x, part, began_ns);
done:
    return status;
}

static void beat(exchange *x) {
    seat *own = &((end *)x)->hub->seats[x->rank];
    uint64_t beats = atomic_load_explicit(&own->beats, memory_order_relaxed);
    atomic_store_explicit(&own->beats, beats + 1, memory_order_relaxed);
}

static void stop(exchange *x, const char *reason) {
    hub *h = ((end *)x)->hub;
    pthread_mutex_lock(&h->lock);
    if (!h->stopped) {
        h->stopped = true;
        h->stop_rank = x->rank;
        size_t length = strlen(reason);
        if (length >= EXCHANGE_REASON) length = EXCHANGE_REASON - 1;
        memcpy(h->stop_reason, reason, length);
    }
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static tf_status check(exchange *x, tf_error *err) {
    hub *h = ((end *)x)->hub;
    pthread_mutex_lock(&h->lock);
    bool stopped = h->stopped && h->stop_rank != x->rank;
    tf_status status = stopped ? record_fail_stopped(h->stop_rank, h->stop_reason, err) : TF_OK;
    pthread_mutex_unlock(&h->lock);
    return status;
}

static void hub_free(hub *h) {
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    mem_free(h->memory);
    mem_free(h);
}

static void close_end(exchange *x) {
    end *e = (end *)x;
    hub *h = e->hub;
    pthread_mutex_lock(&h->lock);
    h->seats[x->rank].left = true;
    bool last = --h->open_ends == 0;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    if (last) hub_free(h);
    mem_free(e);
}

/* ---- a world of one ---- */

static tf_status gather_alone(exchange *x, const exchange_part *part, tf_error *err) {
    (void)err;
    end *e = (end *)x;
    uint64_t began_ns = record_begin(x, part, e->hub->seats[0].header[0]);
    if (part->bytes[0] > 0) memcpy(part->recv, part->send, part->bytes[0]);
    record_end(x, part, began_ns);
    return TF_OK;
}

static const exchange_ops ops = {"threads", gather, beat, stop, check, close_end};
static const exchange_ops ops_alone = {"threads", gather_alone, beat, stop, check, close_end};

/* ---- opening ---- */

static hub *hub_take(uint32_t world) {
    size_t header = record_header_bytes(world);
    size_t stage = world > 1 ? STAGE_BYTES : 0;
    size_t bytes = sizeof(hub) + world * sizeof(seat);
    hub *h = mem_take_aligned(64, bytes);
    if (h == NULL) return NULL;
    memset(h, 0, bytes);
    h->memory = mem_take(world * 2 * (header + stage));
    if (h->memory == NULL) {
        mem_free(h);
        return NULL;
    }
    char *at = h->memory;
    for (uint32_t i = 0; i < world * 2; i++, at += stage)
        h->seats[i / 2].stage[i % 2] = at;
    for (uint32_t i = 0; i < world * 2; i++, at += header)
        h->seats[i / 2].header[i % 2] = (record_header *)(void *)at;
    h->world = h->open_ends = world;
    h->look = TF_ONLY_SPEED(thread_cores() >= world);
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&h->changed, &clock);
    pthread_condattr_destroy(&clock);
    return h;
}

tf_status exchange_threads_open(const exchange_settings *settings, exchange **ends, uint32_t *count,
                                tf_error *err) {
    uint32_t world = settings->world;
    hub *h = hub_take(world);
    uint32_t opened = 0;
    for (; h != NULL && opened < world; opened++) {
        end *e = mem_take(sizeof *e + world * sizeof e->watch[0]);
        if (e == NULL) break;
        record_open(&e->base, world > 1 ? &ops : &ops_alone, settings, opened);
        e->hub = h;
        ends[opened] = &e->base;
    }
    if (opened < world) {
        for (uint32_t r = 0; r < opened; r++)
            mem_free(ends[r]);
        if (h != NULL) hub_free(h);
        return tf_fail(err, TF_W_NO_MEMORY, "opening %u ends of an exchange", world);
    }
    *count = world;
    return TF_OK;
}
