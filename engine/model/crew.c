#include "engine/model/crew.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

typedef struct member {
    crew *crew;
    uint32_t index;
    pthread_t thread;
    uint64_t done; /* rounds */
    tf_error err;  /* of the last round */
} member;

struct crew {
    uint32_t count, started;
    uint32_t patience_ms;
    member *members;
    crew_act act;
    void *context;
    uint64_t round;
    uint32_t failed; /* members of this round */
    bool ending, lost;
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
};

static bool all_done(const crew *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->members[i].done != c->round) return false;
    }
    return true;
}

static void *work(void *argument) {
    member *m = argument;
    crew *c = m->crew;
    uint64_t seen = 0;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (c->round == seen && !c->ending)
            pthread_cond_wait(&c->begin, &c->lock);
        if (c->ending) break;
        seen = c->round;
        pthread_mutex_unlock(&c->lock);
        m->err = (tf_error){0};
        tf_status status = c->act(c->context, m->index, &m->err);
        pthread_mutex_lock(&c->lock);
        m->done = seen;
        if (status != TF_OK) c->failed++;
        pthread_cond_signal(&c->end);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

tf_status crew_open(uint32_t count, uint32_t patience_ms, crew **out, tf_error *err) {
    crew *c = mem_take(sizeof *c);
    if (c != NULL) c->members = mem_take(count * sizeof *c->members);
    if (c == NULL || c->members == NULL) {
        mem_free(c);
        return tf_fail(err, TF_W_NO_MEMORY, "starting %u ranks", count);
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->begin, NULL);
    pthread_cond_init(&c->end, &monotonic);
    pthread_condattr_destroy(&monotonic);
    c->count = count;
    c->patience_ms = patience_ms;
    for (uint32_t i = 0; count > 1 && i < count; i++) {
        member *m = &c->members[i];
        *m = (member){.crew = c, .index = i};
        if (pthread_create(&m->thread, NULL, work, m) != 0) {
            crew_close(c);
            return tf_fail(err, TF_W_NO_MEMORY, "starting a thread for rank %u of %u", i, count);
        }
        c->started++;
    }
    *out = c;
    return TF_OK;
}

/* Waits for all; with a failure among them no longer than patience. */
static void await(crew *c) {
    struct timespec until = {0};
    while (!all_done(c)) {
        if (c->failed == 0) {
            pthread_cond_wait(&c->end, &c->lock);
            continue;
        }
        if (until.tv_sec == 0) {
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_sec += c->patience_ms / 1000;
            until.tv_nsec += (long)(c->patience_ms % 1000) * 1000000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
        }
        if (pthread_cond_timedwait(&c->end, &c->lock, &until) == ETIMEDOUT) {
            c->lost = !all_done(c);
            return;
        }
    }
}

/* How near to the cause: a failure of its own, a peer that is lost, the word of a peer. */
static int weight_of(const tf_error *e) {
    return e->status != TF_PEER ? 2 : e->word != TF_W_PEER_STOPPED ? 1 : 0;
}

static tf_status outcome(crew *c, tf_error *err) {
    const tf_error *first = NULL;
    for (uint32_t i = 0; i < c->count; i++) {
        const member *m = &c->members[i];
        if (m->done != c->round || m->err.status == TF_OK) continue;
        if (first == NULL || weight_of(&m->err) > weight_of(first)) first = &m->err;
    }
    if (first == NULL) return TF_OK;
    *err = *first;
    return err->status;
}

tf_status crew_run(crew *c, crew_act act, void *context, tf_error *err) {
    TF_ASSERT(!c->lost);
    if (c->count == 1) return act(context, 0, err);
    pthread_mutex_lock(&c->lock);
    c->act = act;
    c->context = context;
    c->failed = 0;
    c->round++;
    pthread_cond_broadcast(&c->begin);
    await(c);
    tf_status status = outcome(c, err);
    pthread_mutex_unlock(&c->lock);
    return status;
}

bool crew_is_lost(const crew *c) {
    return c->lost;
}

void crew_close(crew *c) {
    if (c == NULL) return;
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    pthread_cond_broadcast(&c->begin);
    bool lost = c->lost;
    pthread_mutex_unlock(&c->lock);
    for (uint32_t i = 0; lost && i < c->started; i++)
        pthread_detach(c->members[i].thread);
    if (lost) return; /* its memory stays: a thread may still look at it */
    for (uint32_t i = 0; i < c->started; i++)
        pthread_join(c->members[i].thread, NULL);
    pthread_cond_destroy(&c->end);
    pthread_cond_destroy(&c->begin);
    pthread_mutex_destroy(&c->lock);
    mem_free(c->members);
    mem_free(c);
}
