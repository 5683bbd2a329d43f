/* base/thread - see the header.
 *
 * Idea: jobs are claimed in ascending order by one counter, so when job n fails every job below n
 * was claimed already and runs to its end: the lowest failure does not depend on timing.
 * Trap: sched_getaffinity is the one call here beyond POSIX; a container's cpu set shows nowhere
 * else. */
#define _GNU_SOURCE
#include "engine/base/thread.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

/* Lock-free, hence safe in a signal handler. */
static atomic_bool stop_flag;

void tf_stop_request(void) {
    atomic_store(&stop_flag, true);
}

void tf_stop_reset(void) {
    atomic_store(&stop_flag, false);
}

bool tf_stop_requested(void) {
    return atomic_load_explicit(&stop_flag, memory_order_relaxed);
}

tf_status tf_stop_check(tf_error *err) {
    if (!tf_stop_requested()) return TF_OK;
    return tf_fail(err, TF_W_INTERRUPTED, "asked to stop");
}

uint32_t thread_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int count = CPU_COUNT(&set);
        if (count > 0) return (uint32_t)count;
    }
    /* More cores than cpu_set_t has bits: the set is refused, the count is not. */
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online <= INT32_MAX ? (uint32_t)online : 1;
}

uint32_t thread_workers(uint32_t workers, size_t count) {
    if (workers == 0) workers = thread_cores();
    if (workers > count) workers = (uint32_t)count;
    return workers > 0 ? workers : 1;
}

typedef struct team {
    thread_job job;
    void *context;
    size_t count;
    atomic_size_t next;
    atomic_bool failed;
    pthread_mutex_t lock; /* guards lowest and error */
    size_t lowest;        /* count: none failed */
    tf_error error;       /* of the lowest */
} team;

typedef struct member {
    team *team;
    uint32_t worker;
    bool started;
    pthread_t thread;
} member;

static void note_failure(team *t, size_t index, const tf_error *err) {
    atomic_store(&t->failed, true);
    pthread_mutex_lock(&t->lock);
    if (index < t->lowest) {
        t->lowest = index;
        t->error = *err;
    }
    pthread_mutex_unlock(&t->lock);
}

static void *work(void *argument) {
    member *m = argument;
    team *t = m->team;
    while (!atomic_load(&t->failed) && !tf_stop_requested()) {
        size_t index = atomic_fetch_add(&t->next, 1);
        if (index >= t->count) break;
        tf_error err = {0};
        if (t->job(t->context, index, m->worker, &err) != TF_OK) {
            TF_ASSERT(err.status != TF_OK);
            note_failure(t, index, &err);
        }
    }
    return NULL;
}

tf_status thread_run(uint32_t workers, size_t count, thread_job job, void *context, tf_error *err) {
    TF_ASSERT(job != NULL);
    if (count == 0) return TF_OK;
    workers = thread_workers(workers, count);
    member *members = mem_take(workers * sizeof *members);
    if (members == NULL) {
        return tf_fail(err, TF_W_NO_MEMORY, "starting %u workers", workers);
    }
    team t = {.job = job, .context = context, .count = count, .lowest = count};
    pthread_mutex_init(&t.lock, NULL);
    for (uint32_t i = 0; i < workers; i++) {
        members[i].team = &t;
        members[i].worker = i;
        /* The caller is worker 0.  A thread the system refuses is done without: the jobs are
         * shared by those that run. */
        members[i].started =
            i > 0 && pthread_create(&members[i].thread, NULL, work, &members[i]) == 0;
    }
    work(&members[0]);
    for (uint32_t i = 1; i < workers; i++) {
        if (members[i].started) pthread_join(members[i].thread, NULL);
    }
    pthread_mutex_destroy(&t.lock);
    mem_free(members);
    if (t.lowest < count) {
        *err = t.error;
        return err->status;
    }
    if (atomic_load(&t.next) >= count) return TF_OK;
    return tf_fail(err, TF_W_INTERRUPTED, "asked to stop");
}
