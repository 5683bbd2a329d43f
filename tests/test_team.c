/* Jobs of a team: each is done once, by a thread that flushes subnormals. */
#include "engine/cpu/team.h"

#include "engine/canon/flush.h"
#include "tests/support/check.h"

#include <stdatomic.h>
#include <string.h>

#define JOBS 300u

typedef struct seen {
    atomic_uint times[JOBS];
    atomic_uint foreign;   /* jobs of a worker that is not of the team */
    atomic_uint subnormal; /* jobs that met one */
    uint32_t threads;
} seen;

static void see(void *context, size_t index, uint32_t worker) {
    seen *s = context;
    volatile float small = 1e-30f;
    volatile float product = small * 1e-10f;
    atomic_fetch_add(&s->times[index], 1);
    if (worker >= s->threads) atomic_fetch_add(&s->foreign, 1);
    if (product != 0.0f) atomic_fetch_add(&s->subnormal, 1);
}

static void each_job_is_done_once(check_case *t) {
    for (uint32_t threads = 1; threads <= 4; threads++) {
        tf_error err = {0};
        team *pool = NULL;
        CHECK(t, team_open(threads, &pool, &err) == TF_OK);
        /* After: threads begin with the mode of the one that made them. */
        uint64_t mode = flush_begin();
        for (size_t count = 0; count <= JOBS; count += count < 5 ? 1 : 59) {
            seen s;
            memset(&s, 0, sizeof s);
            s.threads = threads;
            team_run(pool, count, see, &s);
            uint32_t wrong = 0;
            for (size_t i = 0; i < JOBS; i++)
                wrong += atomic_load(&s.times[i]) != (i < count ? 1u : 0u);
            CHECKF(t, wrong == 0, "%u threads, %zu jobs: %u not done once", threads, count, wrong);
            CHECK_U64(t, atomic_load(&s.foreign), 0);
            CHECK_U64(t, atomic_load(&s.subnormal), 0);
        }
        flush_restore(mode);
        team_close(pool);
    }
}

static const check_entry cases[] = {
    {"team/each-job-is-done-once", each_job_is_done_once},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
