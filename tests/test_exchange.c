/* Ranks as threads: bytes arrive in rank order whatever the timing, and a rank that stands elsewhere,
 * decided otherwise, stops, leaves or falls silent is named within the wait. */
#include "engine/wire/exchange_threads.h"

#include "engine/base/fault.h"
#include "engine/base/thread.h"
#include "engine/wire/record.h"
#include "tests/support/check.h"
#include "tests/support/ring.h"

#include <string.h>

#define SITE_OF(x) ((x)->rank == 1 ? "moe" : "attn")

/* ---- bytes ---- */

typedef struct walk {
    uint64_t seed;
    uint32_t rounds;
} walk;

static tf_status random_rounds(ring_seat *s) {
    const walk *w = s->context;
    check_random sizes = {w->seed}; /* the same on all ranks */
    tf_status status = TF_OK;
    for (uint32_t round = 0; round < w->rounds && status == TF_OK; round++) {
        uint64_t bytes[RING_MAX];
        for (uint32_t r = 0; r < s->x->world; r++) {
            uint64_t kind = check_below(&sizes, 40);
            uint64_t most = kind < 10 ? 1 : kind < 39 ? 3000 : 400000;
            bytes[r] = check_below(&sizes, most);
        }
        status = ring_gather(s, "some", bytes, round, round);
        s->x->ops->beat(s->x);
    }
    return status;
}

static void all_held(check_case *t, const ring *r, uint32_t rounds) {
    for (uint32_t i = 0; i < r->world; i++) {
        const ring_seat *s = &r->seats[i];
        CHECKF(t, s->status == TF_OK, "rank %u: %s: %s", i, s->err.what, s->err.found);
        CHECKF(t, !s->wrong, "rank %u of %u has a byte that was not sent", i, r->world);
        CHECK_U64(t, s->x->sequence, rounds);
        CHECK(t, s->x->log[(rounds - 1) % EXCHANGE_LOG].done);
    }
}

static const uint32_t worlds[] = {1, 2, 3, 4, 8};

static void in_every_world(check_case *t, uint32_t rounds, uint32_t delay_us_max) {
    check_random random = check_seed(t);
    for (size_t w = 0; w < COUNT(worlds); w++) {
        ring r;
        walk steps = {check_next(&random), rounds};
        if (!ring_open(t, &r, worlds[w], delay_us_max)) return;
        ring_run(&r, random_rounds, &steps);
        all_held(t, &r, rounds);
        ring_close(&r);
    }
}

static void bytes_arrive_in_rank_order(check_case *t) {
    in_every_world(t, 1500, 0);
}

static void random_delays_change_nothing(check_case *t) {
    in_every_world(t, 120, 700);
}

static tf_status three_pieces(ring_seat *s) {
    static const uint64_t bytes[] = {300001, 0, 131072};
    return ring_gather(s, "large", bytes, 3, 0);
}

static void counts_what_was_received(check_case *t) {
    ring r;
    if (!ring_open(t, &r, 3, 0)) return;
    ring_run(&r, three_pieces, NULL);
    all_held(t, &r, 1);
    CHECK_U64(t, r.seats[0].x->bytes_received, 131072);
    CHECK_U64(t, r.seats[1].x->bytes_received, 431073);
    CHECK_U64(t, r.seats[2].x->bytes_received, 300001);
    CHECK_U64(t, r.seats[1].x->log[0].bytes, 431073);
    CHECK(t, r.seats[0].x->spent_ns > 0);
    ring_close(&r);
}

static tf_status twenty_rounds(ring_seat *s) {
    static const uint64_t bytes[RING_MAX] = {8, 8, 8};
    for (uint64_t i = 0; i < 20; i++) {
        tf_status status = ring_gather(s, i % 2 == 0 ? "attn" : "moe", bytes, i, 0);
        if (status != TF_OK) return status;
    }
    return TF_OK;
}

static void log_holds_the_last_exchanges(check_case *t) {
    ring r;
    if (!ring_open(t, &r, 3, 0)) return;
    ring_run(&r, twenty_rounds, NULL);
    for (uint64_t i = 20 - EXCHANGE_LOG; i < 20; i++) {
        const exchange_entry *entry = &r.seats[2].x->log[i % EXCHANGE_LOG];
        CHECK_U64(t, entry->sequence, i);
        CHECK_STR(t, entry->site, i % 2 == 0 ? "attn" : "moe");
        CHECK_U64(t, entry->bytes, 24);
        CHECK(t, entry->done);
    }
    ring_close(&r);
}

/* ---- ranks that differ ---- */

static const uint64_t hundred[RING_MAX] = {100, 100, 100, 100, 100, 100, 100, 100};

static tf_status agree_once(ring_seat *s) {
    return ring_gather(s, "embed", hundred, 1, 5);
}

static tf_status other_site(ring_seat *s) {
    tf_status status = agree_once(s);
    return status != TF_OK ? status : ring_gather(s, SITE_OF(s->x), hundred, 2, 5);
}

/* Every rank refuses by this word; what rank 0 says is looked at. */
static void all_refuse(check_case *t, ring *r, ring_act act, tf_word word, const char *found_by_0,
                       const char *expected_by_0) {
    ring_run(r, act, NULL);
    for (uint32_t i = 0; i < r->world; i++) {
        const ring_seat *s = &r->seats[i];
        CHECK_U64(t, s->err.word, word);
        CHECKF(t, strstr(s->err.what, "exchange 1 (") != NULL, "rank %u: %s", i, s->err.what);
        CHECK(t, s->err.remedy[0] != '\0');
        CHECK(t, !s->x->log[1].done);
    }
    const tf_error *e = &r->seats[0].err;
    CHECKF(t, strstr(e->what, "ranks 0 and 1") != NULL, "%s", e->what);
    CHECKF(t, strstr(e->found, found_by_0) != NULL, "found: %s", e->found);
    CHECKF(t, strstr(e->expected, expected_by_0) != NULL, "expected: %s", e->expected);
    ring_close(r);
}

static void another_site_is_named(check_case *t) {
    ring r;
    if (!ring_open(t, &r, 3, 0)) return;
    all_refuse(t, &r, other_site, TF_W_EXCHANGE_DIFFERS, "rank 1 at exchange 1 (moe), 100 bytes",
               "exchange 1 (attn) as rank 0, which gives 100 bytes");
}

static tf_status other_bytes(ring_seat *s) {
    tf_status status = agree_once(s);
    uint64_t bytes[] = {100, 100, s->x->rank == 1 ? 96 : 100};
    return status != TF_OK ? status : ring_gather(s, "attn", bytes, 2, 5);
}

static void other_sizes_are_named(check_case *t) {
    ring r;
    if (!ring_open(t, &r, 3, 0)) return;
    all_refuse(t, &r, other_bytes, TF_W_EXCHANGE_DIFFERS, "rank 1 means that rank 2 gives 96 bytes",
               "100 bytes, as rank 0 means");
}

/* Large sizes take more rounds than small ones. */
static tf_status many_other_bytes(ring_seat *s) {
    tf_status status = agree_once(s);
    uint64_t bytes[] = {100, 100, s->x->rank == 1 ? 1000000 : 100};
    return status != TF_OK ? status : ring_gather(s, "attn", bytes, 2, 5);
}

static void another_count_of_rounds_is_named(check_case *t) {
    ring r;
    if (!ring_open(t, &r, 3, 0)) return;
    all_refuse(t, &r, many_other_bytes, TF_W_EXCHANGE_DIFFERS, "rank 2 gives 1000000 bytes",
               "100 bytes, as rank 0 means");
}

static tf_status other_sequence(ring_seat *s) {
    tf_status status = agree_once(s);
    if (s->x->rank == 1) s->x->sequence += 4;
    return status != TF_OK ? status : ring_gather(s, "attn", hundred, 2, 5);
}

static void another_sequence_is_named(check_case *t) {
    ring r;
    if (!ring_open(t, &r, 2, 0)) return;
    ring_run(&r, other_sequence, NULL);
    CHECK_U64(t, r.seats[0].err.word, TF_W_EXCHANGE_DIFFERS);
    CHECK(t, strstr(r.seats[0].err.found, "rank 1 at exchange 5 (attn)") != NULL);
    CHECK(t, strstr(r.seats[1].err.found, "rank 0 at exchange 1 (attn)") != NULL);
    ring_close(&r);
}

static tf_status other_decision(ring_seat *s) {
    tf_status status = agree_once(s);
    return status != TF_OK ? status
                           : ring_gather(s, "choose", hundred, 2, s->x->rank == 1 ? 0xabc : 5);
}

static void another_decision_is_named(check_case *t) {
    ring r;
    if (!ring_open(t, &r, 3, 0)) return;
    all_refuse(t, &r, other_decision, TF_W_DECISION_DIFFERS,
               "decisions of rank 1 hash to 0000000000000abc",
               "0000000000000005, as those of rank 0");
}

static tf_status nothing_taken(ring_seat *s) {
    static const uint64_t bytes[] = {16, 16, 16};
    char send[16] = "sixteen bytes ..", recv[48] = {0};
    exchange_part part = {SITE_OF(s->x), send, recv, bytes, 0};
    tf_status status = s->x->ops->gather(s->x, &part, &s->err);
    for (size_t i = 0; i < sizeof recv; i++)
        s->wrong |= recv[i] != 0;
    return status;
}

static void no_byte_is_taken_before_all_agree(check_case *t) {
    ring r;
    if (!ring_open(t, &r, 3, 0)) return;
    ring_run(&r, nothing_taken, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_U64(t, r.seats[i].err.word, TF_W_EXCHANGE_DIFFERS);
        CHECKF(t, !r.seats[i].wrong, "rank %u took bytes of ranks that stand elsewhere", i);
    }
    ring_close(&r);
}

/* ---- ranks that end or hang ---- */

static tf_status two_rounds(ring_seat *s) {
    tf_status status = agree_once(s);
    return status != TF_OK ? status : ring_gather(s, "attn", hundred, 2, 5);
}

/* Is not heard of until long after the others should have given up. */
static tf_status falls_silent(ring_seat *s) {
    tf_status status = agree_once(s);
    ring_nap(6 * RING_HURRY_MS);
    s->x->ops->stop(s->x, "nobody missed it");
    return status;
}

static void silent_rank_is_named_in_time(check_case *t) {
    ring r;
    const ring_act acts[] = {two_rounds, two_rounds, falls_silent};
    if (!ring_open(t, &r, 3, 0)) return;
    ring_hurry(&r);
    ring_run_each(&r, acts, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        const ring_seat *s = &r.seats[i];
        CHECK_U64(t, s->err.word, TF_W_PEER_SILENT);
        CHECK_STR(t, s->err.what, "exchange 1 (attn): waiting for rank 2");
        CHECK_STR(t, s->err.found,
                  "nothing of rank 2 for 300 ms; the last it came to is exchange 0 (embed)");
        CHECKF(t, s->took_ms >= RING_HURRY_MS && s->took_ms < 5 * RING_HURRY_MS, "%u ms",
               (unsigned)s->took_ms);
    }
    ring_close(&r);
}

static tf_status silent_from_the_begin(ring_seat *s) {
    ring_nap(6 * RING_HURRY_MS);
    s->x->ops->stop(s->x, "nobody missed it");
    return TF_OK;
}

static void rank_that_never_came_is_named(check_case *t) {
    ring r;
    const ring_act acts[] = {silent_from_the_begin, two_rounds};
    if (!ring_open(t, &r, 2, 0)) return;
    ring_hurry(&r);
    ring_run_each(&r, acts, NULL);
    CHECK_U64(t, r.seats[1].err.word, TF_W_PEER_SILENT);
    CHECK_STR(t, r.seats[1].err.found, "nothing of rank 0 for 300 ms; it came to no exchange yet");
    ring_close(&r);
}

static tf_status beats_for_long(ring_seat *s) {
    tf_status status = agree_once(s);
    for (int i = 0; i < 16; i++) {
        ring_nap(RING_HURRY_MS / 4);
        s->x->ops->beat(s->x);
    }
    return status != TF_OK ? status : ring_gather(s, "attn", hundred, 2, 5);
}

static void rank_that_beats_is_waited_for(check_case *t) {
    ring r;
    const ring_act acts[] = {two_rounds, beats_for_long, two_rounds};
    if (!ring_open(t, &r, 3, 0)) return;
    ring_hurry(&r);
    ring_run_each(&r, acts, NULL);
    all_held(t, &r, 2);
    ring_close(&r);
}

static tf_status stops(ring_seat *s) {
    tf_status status = agree_once(s);
    ring_nap(50);
    s->x->ops->stop(s->x, "out of memory in layer 7");
    s->x->ops->stop(s->x, "a second reason");
    return status;
}

/* Computes while the other stops, and comes later. */
static tf_status comes_late(ring_seat *s) {
    tf_status status = agree_once(s);
    ring_nap(120);
    return status != TF_OK ? status : ring_gather(s, "attn", hundred, 2, 5);
}

static void stop_reaches_all_at_once(check_case *t) {
    ring r;
    const ring_act acts[] = {two_rounds, stops, comes_late};
    if (!ring_open(t, &r, 3, 0)) return;
    ring_run_each(&r, acts, NULL);
    for (uint32_t i = 0; i < 3; i += 2) {
        const ring_seat *s = &r.seats[i];
        CHECK_U64(t, s->err.word, TF_W_PEER_STOPPED);
        CHECK_STR(t, s->err.what, "rank 1 stopped");
        CHECK_STR(t, s->err.found, "out of memory in layer 7");
        CHECK(t, s->took_ms < EXCHANGE_WAIT_MS);
    }
    ring_close(&r);
}

static tf_status stops_at_length(ring_seat *s) {
    static char reason[1000];
    memset(reason, 'a', sizeof reason - 1);
    s->x->ops->stop(s->x, reason);
    return TF_OK;
}

/* Loads weights, say, and asks in between. */
static tf_status checks(ring_seat *s) {
    tf_status status = agree_once(s);
    for (int i = 0; status == TF_OK && i < 400; i++) {
        status = s->x->ops->check(s->x, &s->err);
        ring_nap(10);
    }
    return status;
}

static void check_hears_a_stop(check_case *t) {
    ring r;
    const ring_act acts[] = {checks, stops, stops};
    if (!ring_open(t, &r, 3, 0)) return;
    ring_run_each(&r, acts, NULL);
    CHECK_U64(t, r.seats[0].err.word, TF_W_PEER_STOPPED);
    CHECK_STR(t, r.seats[0].err.found, "out of memory in layer 7");
    CHECK_U64(t, r.seats[1].status, TF_OK);
    ring_close(&r);
}

static void long_reason_is_cut(check_case *t) {
    ring r;
    const ring_act acts[] = {stops_at_length, two_rounds};
    if (!ring_open(t, &r, 2, 0)) return;
    ring_run_each(&r, acts, NULL);
    CHECK_U64(t, strlen(r.seats[1].err.found), EXCHANGE_REASON - 1);
    ring_close(&r);
}

static tf_status leaves(ring_seat *s) {
    tf_status status = agree_once(s);
    ring_nap(50);
    s->x->ops->close(s->x);
    return status;
}

static void rank_that_left_is_named(check_case *t) {
    ring r;
    const ring_act acts[] = {two_rounds, leaves};
    if (!ring_open(t, &r, 2, 0)) return;
    ring_run_each(&r, acts, NULL);
    CHECK_U64(t, r.seats[0].err.word, TF_W_PEER_GONE);
    CHECK_STR(t, r.seats[0].err.found, "rank 1 has closed its end");
    CHECK(t, r.seats[0].took_ms < EXCHANGE_WAIT_MS);
    r.seats[0].x->ops->close(r.seats[0].x);
}

static tf_status asks_to_stop(ring_seat *s) {
    tf_status status = agree_once(s);
    ring_nap(50);
    tf_stop_request();
    ring_nap(100);
    return status;
}

static void asking_to_stop_ends_a_wait(check_case *t) {
    ring r;
    const ring_act acts[] = {two_rounds, asks_to_stop};
    if (!ring_open(t, &r, 2, 0)) return;
    ring_run_each(&r, acts, NULL);
    tf_stop_reset();
    CHECK_U64(t, r.seats[0].err.word, TF_W_INTERRUPTED);
    CHECK(t, r.seats[0].took_ms < EXCHANGE_WAIT_MS);
    ring_close(&r);
}

static void time_nobody_looked_is_no_silence(check_case *t) {
    exchange x = {.wait_ms = 300};
    record_watch w = {0};
    const uint64_t ms = 1000000;
    CHECK(t, !record_silent(&x, &w, 0, 5 * ms));
    CHECKF(t, !record_silent(&x, &w, 0, 90000 * ms), "a process that was stopped found silence");
    for (uint64_t at = 20; at <= 180; at += 20)
        CHECK(t, !record_silent(&x, &w, 0, (90000 + at) * ms));
    CHECK(t, record_silent(&x, &w, 0, 90200 * ms));
    CHECK(t, !record_silent(&x, &w, 1, 90201 * ms));
    CHECK(t, !record_silent(&x, &w, 1, 90300 * ms));
}

static void gather_takes_no_memory(check_case *t) {
#ifdef TF_FAULT
    ring r;
    if (!ring_open(t, &r, 3, 0)) return;
    fault_arm(FAULT_ALLOC, 1);
    ring_run(&r, twenty_rounds, NULL);
    CHECK(t, !fault_fired(FAULT_ALLOC));
    fault_arm(FAULT_ALLOC, 0);
    all_held(t, &r, 20);
    ring_close(&r);
#else
    check_skip(t, "faults are not built in");
#endif
}

static void survives_every_failed_allocation(check_case *t) {
#ifdef TF_FAULT
    for (uint64_t n = 1;; n++) {
        exchange_settings settings = {.world = 3};
        exchange *ends[3];
        uint32_t count = 0;
        tf_error err = {0};
        fault_arm(FAULT_ALLOC, n);
        tf_status status = exchange_threads_open(&settings, ends, &count, &err);
        bool fired = fault_fired(FAULT_ALLOC);
        fault_arm(FAULT_ALLOC, 0);
        CHECK_U64(t, status, fired ? TF_NO_MEMORY : TF_OK);
        for (uint32_t i = 0; status == TF_OK && i < 3; i++)
            ends[i]->ops->close(ends[i]);
        if (!fired) break;
    }
#else
    check_skip(t, "faults are not built in");
#endif
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"exchange/bytes-arrive-in-rank-order", bytes_arrive_in_rank_order},
        {"exchange/random-delays-change-nothing", random_delays_change_nothing},
        {"exchange/counts-what-was-received", counts_what_was_received},
        {"exchange/log-holds-the-last-exchanges", log_holds_the_last_exchanges},
        {"exchange/another-site-is-named", another_site_is_named},
        {"exchange/other-sizes-are-named", other_sizes_are_named},
        {"exchange/another-count-of-rounds-is-named", another_count_of_rounds_is_named},
        {"exchange/another-sequence-is-named", another_sequence_is_named},
        {"exchange/another-decision-is-named", another_decision_is_named},
        {"exchange/no-byte-is-taken-before-all-agree", no_byte_is_taken_before_all_agree},
        {"exchange/silent-rank-is-named-in-time", silent_rank_is_named_in_time},
        {"exchange/rank-that-never-came-is-named", rank_that_never_came_is_named},
        {"exchange/rank-that-beats-is-waited-for", rank_that_beats_is_waited_for},
        {"exchange/stop-reaches-all-at-once", stop_reaches_all_at_once},
        {"exchange/check-hears-a-stop", check_hears_a_stop},
        {"exchange/long-reason-is-cut", long_reason_is_cut},
        {"exchange/rank-that-left-is-named", rank_that_left_is_named},
        {"exchange/asking-to-stop-ends-a-wait", asking_to_stop_ends_a_wait},
        {"exchange/time-nobody-looked-is-no-silence", time_nobody_looked_is_no_silence},
        {"exchange/gather-takes-no-memory", gather_takes_no_memory},
        {"exchange/survives-every-failed-allocation", survives_every_failed_allocation},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
