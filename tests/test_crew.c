/* The ranks of one process, acting together (engine/model/crew). */
#include "engine/model/crew.h"
#include "tests/support/check.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define RANKS 4

typedef struct tally {
    atomic_uint runs[RANKS];
    tf_word fails[RANKS]; /* TF_W_NONE: the rank succeeds */
    atomic_bool hang;     /* of rank 1, while set */
} tally;

static void sleep_1ms(void) {
    struct timespec t = {.tv_nsec = 1000000};
    nanosleep(&t, NULL);
}

static tf_status count(void *context, uint32_t index, tf_error *err) {
    tally *c = context;
    atomic_fetch_add(&c->runs[index], 1);
    while (index == 1 && atomic_load(&c->hang))
        sleep_1ms();
    if (c->fails[index] == TF_W_NONE) return TF_OK;
    return tf_fail(err, c->fails[index], "rank %u", index);
}

static void every_rank_acts_once_a_round(check_case *t) {
    tf_error err = {0};
    for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
        crew *c = NULL;
        tally all = {0};
        CHECK(t, crew_open(ranks, 100, &c, &err) == TF_OK);
        for (int round = 0; round < 200; round++)
            CHECK(t, crew_run(c, count, &all, &err) == TF_OK);
        for (uint32_t i = 0; i < RANKS; i++)
            CHECK_U64(t, atomic_load(&all.runs[i]), i < ranks ? 200 : 0);
        crew_close(c);
    }
}

/* The others only answer the one that failed: its reason is told. */
static void the_cause_is_told_not_its_echo(check_case *t) {
    tf_error err = {0};
    crew *c = NULL;
    tally all = {.fails = {TF_W_PEER_STOPPED, TF_W_PEER_GONE, TF_W_CANNOT_READ, TF_W_PEER_STOPPED}};
    CHECK(t, crew_open(RANKS, 100, &c, &err) == TF_OK);
    CHECK(t, crew_run(c, count, &all, &err) == TF_IO);
    CHECK_U64(t, err.word, TF_W_CANNOT_READ);
    CHECK_STR(t, err.what, "rank 2");
    /* Without a failure of its own: who saw the peer go, not who was told. */
    all.fails[2] = TF_W_PEER_STOPPED;
    err = (tf_error){0};
    CHECK(t, crew_run(c, count, &all, &err) == TF_PEER);
    CHECK_U64(t, err.word, TF_W_PEER_GONE);
    memset(all.fails, 0, sizeof all.fails);
    err = (tf_error){0};
    CHECK(t, crew_run(c, count, &all, &err) == TF_OK);
    crew_close(c);
}

static void who_hangs_is_left_behind_in_time(check_case *t) {
    tf_error err = {0};
    crew *c = NULL;
    static tally all; /* a thread looks at it after the case */
    struct timespec begin;
    struct timespec end;
    all.fails[0] = TF_W_PEER_SILENT;
    atomic_store(&all.hang, true);
    CHECK(t, crew_open(3, 100, &c, &err) == TF_OK);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    CHECK(t, crew_run(c, count, &all, &err) == TF_PEER);
    clock_gettime(CLOCK_MONOTONIC, &end);
    CHECK(t, crew_is_lost(c));
    CHECK(t, end.tv_sec - begin.tv_sec < 10);
    crew_close(c); /* returns, though a rank still hangs */
    atomic_store(&all.hang, false);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"crew/every-rank-acts-once-a-round", every_rank_acts_once_a_round},
        {"crew/the-cause-is-told-not-its-echo", the_cause_is_told_not_its_echo},
        {"crew/who-hangs-is-left-behind-in-time", who_hangs_is_left_behind_in_time},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
