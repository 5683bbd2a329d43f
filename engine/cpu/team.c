#include "engine/cpu/team.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/canon/flush.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Looks for the next launch this often before it sleeps: a few microseconds. */
#define LOOKS 400

typedef struct member {
    team *team;
    uint32_t worker;
    pthread_t thread;
} member;

struct team {
    uint32_t threads;
    member *members; /* [threads - 1]: workers 1.. */
    uint32_t started;
    team_job job;
    void *context;
    size_t count;
    atomic_size_t next;
    atomic_uint round;  /* counts launches */
    atomic_uint active; /* workers that have not finished the round */
    bool ending;
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
};

static inline void look(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void claim(team *t, uint32_t worker) {
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
        if (index >= t->count) return;
        t->job(t->context, index, worker);
    }
}

/* Waits until the round is another than `seen`; returns it. */
static unsigned await_round(team *t, unsigned seen) {
    for (int i = 0; i < LOOKS; i++) {
        unsigned now = atomic_load_explicit(&t->round, memory_order_acquire);
        if (now != seen) return now;
        look();
    }
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->round) == seen)
        pthread_cond_wait(&t->begin, &t->lock);
    pthread_mutex_unlock(&t->lock);
    return atomic_load(&t->round);
}

static void *work(void *argument) {
    member *m = argument;
    team *t = m->team;
    flush_begin();
    unsigned seen = 0;
    for (;;) {
        seen = await_round(t, seen);
        if (t->ending) return NULL;
        claim(t, m->worker);
        if (atomic_fetch_sub_explicit(&t->active, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->end);
            pthread_mutex_unlock(&t->lock);
        }
    }
}

static void next_round(team *t) {
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->active, t->started);
    atomic_fetch_add_explicit(&t->round, 1, memory_order_release);
    pthread_cond_broadcast(&t->begin);
    pthread_mutex_unlock(&t->lock);
}

static void await_end(team *t) {
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(&t->active, memory_order_acquire) == 0) return;
        look();
    }
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->active) != 0)
        pthread_cond_wait(&t->end, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void team_run(team *t, size_t count, team_job job, void *context) {
    if (count <= 1 || t->started == 0) {
        for (size_t i = 0; i < count; i++)
            job(context, i, 0);
        return;
    }
    t->job = job;
    t->context = context;
    t->count = count;
    atomic_store(&t->next, 0);
    next_round(t);
    claim(t, 0);
    await_end(t);
}

tf_status team_open(uint32_t threads, team **out, tf_error *err) {
    TF_ASSERT(threads >= 1);
    team *t = mem_take(sizeof *t);
    if (t != NULL && threads > 1) t->members = mem_take((threads - 1) * sizeof *t->members);
    if (t == NULL || (threads > 1 && t->members == NULL)) {
        mem_free(t);
        return tf_fail(err, TF_W_NO_MEMORY, "starting %u threads", threads);
    }
    t->threads = threads;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->begin, NULL);
    pthread_cond_init(&t->end, NULL);
    for (uint32_t i = 0; i + 1 < threads; i++) {
        member *m = &t->members[t->started];
        *m = (member){.team = t, .worker = t->started + 1};
        /* A thread the system refuses is done without. */
        if (pthread_create(&m->thread, NULL, work, m) == 0) t->started++;
    }
    *out = t;
    return TF_OK;
}

void team_close(team *t) {
    if (t == NULL) return;
    t->ending = true;
    if (t->started > 0) next_round(t);
    for (uint32_t i = 0; i < t->started; i++)
        pthread_join(t->members[i].thread, NULL);
    pthread_cond_destroy(&t->end);
    pthread_cond_destroy(&t->begin);
    pthread_mutex_destroy(&t->lock);
    mem_free(t->members);
    mem_free(t);
}
