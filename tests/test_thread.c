/* What base/thread promises: each job once, errors that do not depend on timing, a stop that is
 * obeyed between jobs. */
#include "engine/base/thread.h"

#include "engine/base/fault.h"
#include "tests/support/check.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define JOBS 1000

typedef struct {
    atomic_uint done[JOBS];
    atomic_uint worker_uses[64];
    uint32_t workers;
    uint64_t fails_at[4]; /* job numbers that fail */
    size_t fail_count;
    size_t slow;    /* this job fails late */
    size_t stop_at; /* this job asks to stop */
} ledger;

static void nap(long ms) {
    struct timespec t = {.tv_sec = 0, .tv_nsec = ms * 1000000L};
    nanosleep(&t, NULL);
}

static tf_status one_job(void *context, size_t index, uint32_t worker, tf_error *err) {
    ledger *l = context;
    atomic_fetch_add(&l->done[index], 1);
    if (worker < 64) atomic_fetch_add(&l->worker_uses[worker], 1);
    if (index == l->slow) nap(30);
    if (index == l->stop_at) tf_stop_request();
    for (size_t i = 0; i < l->fail_count; i++) {
        if (l->fails_at[i] == index) return tf_fail(err, TF_W_USAGE, "job %zu", index);
    }
    return TF_OK;
}

static ledger quiet_ledger(void) {
    ledger l = {.slow = SIZE_MAX, .stop_at = SIZE_MAX};
    return l;
}

static void runs_every_job_once(check_case *t) {
    check_random r = check_seed(t);
    for (int round = 0; round < 40; round++) {
        ledger l = quiet_ledger();
        size_t count = check_below(&r, JOBS + 1);
        uint32_t workers = (uint32_t)check_below(&r, 9);
        tf_error err = {0};
        CHECK_U64(t, thread_run(workers, count, one_job, &l, &err), TF_OK);
        uint32_t limit = thread_workers(workers, count);
        for (size_t i = 0; i < JOBS; i++) {
            if (!CHECK_U64(t, atomic_load(&l.done[i]), i < count ? 1 : 0)) return;
        }
        for (uint32_t i = limit; i < 64; i++)
            CHECK_U64(t, atomic_load(&l.worker_uses[i]), 0);
    }
}

static void counts_workers_within_jobs(check_case *t) {
    CHECK(t, thread_cores() >= 1);
    CHECK_U64(t, thread_workers(0, SIZE_MAX), thread_cores());
    CHECK_U64(t, thread_workers(7, 3), 3);
    CHECK_U64(t, thread_workers(7, 0), 1);
    CHECK_U64(t, thread_workers(3, 7), 3);
}

/* Job 10 fails late, after 11 and 12 have failed: the error is still that of job 10. */
static void reports_the_lowest_failed_job(check_case *t) {
    for (int round = 0; round < 5; round++) {
        ledger l = quiet_ledger();
        l.fails_at[0] = 12;
        l.fails_at[1] = 10;
        l.fails_at[2] = 11;
        l.fail_count = 3;
        l.slow = 10;
        tf_error err = {0};
        CHECK_U64(t, thread_run(4, JOBS, one_job, &l, &err), TF_USAGE);
        CHECK_STR(t, err.what, "job 10");
    }
}

static void starts_no_job_after_a_failure(check_case *t) {
    ledger l = quiet_ledger();
    l.fails_at[0] = 5;
    l.fail_count = 1;
    tf_error err = {0};
    CHECK_U64(t, thread_run(1, JOBS, one_job, &l, &err), TF_USAGE);
    for (size_t i = 0; i < JOBS; i++)
        CHECK_U64(t, atomic_load(&l.done[i]), i <= 5 ? 1 : 0);
}

static void on_signal(int number) {
    (void)number;
    tf_stop_request();
}

static void obeys_a_stop_between_jobs(check_case *t) {
    ledger l = quiet_ledger();
    l.stop_at = 3;
    tf_error err = {0};
    CHECK_U64(t, thread_run(1, JOBS, one_job, &l, &err), TF_INTERRUPTED);
    CHECK_STR(t, tf_word_text(err.word), "interrupted");
    CHECK_U64(t, atomic_load(&l.done[3]), 1);
    CHECK_U64(t, atomic_load(&l.done[4]), 0);
    tf_stop_reset();
    CHECK(t, !tf_stop_requested());

    /* The last job's stop comes too late to leave anything undone. */
    l = quiet_ledger();
    l.stop_at = 3;
    tf_error none = {0};
    CHECK_U64(t, thread_run(1, 4, one_job, &l, &none), TF_OK);
    tf_stop_reset();
}

static void takes_a_stop_from_a_signal(check_case *t) {
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, &before);
    tf_error err = {0};
    CHECK_U64(t, tf_stop_check(&err), TF_OK);
    raise(SIGUSR1);
    CHECK_U64(t, tf_stop_check(&err), TF_INTERRUPTED);
    tf_stop_reset();
    sigaction(SIGUSR1, &before, NULL);
}

static void fails_clean_when_memory_is_out(check_case *t) {
#ifdef TF_FAULT
    ledger l = quiet_ledger();
    tf_error err = {0};
    fault_arm(FAULT_ALLOC, 1);
    CHECK_U64(t, thread_run(2, JOBS, one_job, &l, &err), TF_NO_MEMORY);
    fault_arm(FAULT_ALLOC, 0);
    CHECK_U64(t, atomic_load(&l.done[0]), 0);
#else
    check_skip(t, "built without fault injection");
#endif
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"thread/runs-every-job-once", runs_every_job_once},
        {"thread/counts-workers-within-jobs", counts_workers_within_jobs},
        {"thread/reports-the-lowest-failed-job", reports_the_lowest_failed_job},
        {"thread/starts-no-job-after-a-failure", starts_no_job_after_a_failure},
        {"thread/obeys-a-stop-between-jobs", obeys_a_stop_between_jobs},
        {"thread/takes-a-stop-from-a-signal", takes_a_stop_from_a_signal},
        {"thread/fails-clean-when-memory-is-out", fails_clean_when_memory_is_out},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
