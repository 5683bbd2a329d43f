/* Ranks as processes: the program starts itself under mpirun, each rank writes what befell it, and
 * the cases read that.  Killed, frozen and differing ranks are named by all others in time. */
#include "engine/wire/exchange_mpi.h"

#include "engine/base/thread.h"
#include "engine/port/backends.h"
#include "engine/run/fate.h"
#include "engine/run/handshake.h"
#include "tests/support/check.h"
#include "tests/support/ring.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- a rank ---- */

#define HURRY_MS 500u
static const uint64_t hundred[RING_MAX] = {100, 100, 100, 100};

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void asked_to_end(int number) {
    (void)number;
    tf_stop_request();
}

/* Writes DIR/<what><rank>. */
static void note(const char *dir, const char *what, uint32_t rank, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s%u", dir, what, rank);
    FILE *file = fopen(path, "w");
    if (file == NULL) abort();
    fputs(text, file);
    if (fclose(file) != 0) abort();
}

static tf_status rounds(ring_seat *s, uint32_t count) {
    check_random sizes = {17};
    tf_status status = TF_OK;
    for (uint32_t round = 0; round < count && status == TF_OK; round++) {
        uint64_t bytes[RING_MAX];
        for (uint32_t r = 0; r < s->x->world; r++) {
            uint64_t kind = check_below(&sizes, 40);
            bytes[r] = check_below(&sizes, kind < 10 ? 1 : kind < 39 ? 3000 : 400000);
        }
        status = ring_gather(s, "some", bytes, round, round);
        s->x->ops->beat(s->x);
    }
    return status;
}

static tf_status many(ring_seat *s) {
    return rounds(s, 500);
}

static tf_status delayed(ring_seat *s) {
    s->x->delay_us_max = 2000;
    return rounds(s, 60);
}

/* More than one piece. */
static tf_status large(ring_seat *s) {
    static const uint64_t bytes[RING_MAX] = {0, 20000003, 5};
    return ring_gather(s, "large", bytes, 1, 0);
}

/* Twice all alike, then rank 1 may be odd. */
static tf_status then(ring_seat *s, const char *site, uint64_t own_bytes, uint64_t decision) {
    const uint64_t bytes[] = {100, 100, own_bytes};
    for (uint64_t i = 0; i < 2; i++) {
        tf_status status = ring_gather(s, "embed", hundred, i, 3);
        if (status != TF_OK) return status;
    }
    return ring_gather(s, site, bytes, 2, decision);
}

static tf_status site(ring_seat *s) {
    return then(s, s->x->rank == 1 ? "moe" : "attn", 100, 3);
}

static tf_status bytes(ring_seat *s) {
    return then(s, "attn", s->x->rank == 1 ? 2000000 : 100, 3);
}

static tf_status decision(ring_seat *s) {
    return then(s, "attn", 100, s->x->rank == 1 ? 4 : 3);
}

/* Rank 2 does not come to the third exchange. */
static tf_status without_rank_2(ring_seat *s, int number) {
    const char *dir = s->context;
    for (uint64_t i = 0; i < 2; i++) {
        tf_status status = ring_gather(s, "embed", hundred, i, 3);
        if (status != TF_OK) return status;
    }
    if (s->x->rank == 2) {
        char text[32];
        ring_nap(100);
        snprintf(text, sizeof text, "%llu", (unsigned long long)now_ms());
        note(dir, "ended", 2, text);
        raise(number);
    }
    return ring_gather(s, "attn", hundred, 2, 3);
}

static tf_status killed(ring_seat *s) {
    return without_rank_2(s, SIGKILL);
}

/* Rank 2 dies while the others load. */
static tf_status loading(ring_seat *s) {
    tf_status status = TF_OK;
    if (s->x->rank == 2) return without_rank_2(s, SIGKILL);
    for (uint64_t i = 0; i < 2 && status == TF_OK; i++)
        status = ring_gather(s, "embed", hundred, i, 3);
    for (int i = 0; i < 400 && status == TF_OK; i++) {
        s->x->ops->beat(s->x);
        status = s->x->ops->check(s->x, &s->err);
        ring_nap(10);
    }
    return status;
}

static tf_status frozen(ring_seat *s) {
    s->x->wait_ms = HURRY_MS;
    return without_rank_2(s, SIGSTOP);
}

static tf_status slow(ring_seat *s) {
    s->x->wait_ms = HURRY_MS;
    for (int i = 0; s->x->rank == 2 && i < 15; i++) {
        ring_nap(HURRY_MS / 10);
        s->x->ops->beat(s->x);
    }
    return ring_gather(s, "attn", hundred, 1, 0);
}

static tf_status stopped(ring_seat *s) {
    if (s->x->rank == 1) {
        ring_nap(100);
        return tf_fail(&s->err, TF_W_NOT_A_NUMBER, "choosing a token");
    }
    return ring_gather(s, "attn", hundred, 1, 0);
}

static tf_status left(ring_seat *s) {
    if (s->x->rank == 1) return TF_OK;
    return ring_gather(s, "attn", hundred, 1, 0);
}

static tf_status shaken(ring_seat *s) {
    handshake_field fields[] = {{"version", "0.1.0"},
                                {"pack digest", s->x->rank == 2 ? "dd44" : "cc33"}};
    return handshake_run(s->x, fields, 2, &s->err);
}

static const struct {
    const char *name;
    tf_status (*act)(ring_seat *s);
} acts[] = {
    {"many", many},     {"delayed", delayed},   {"large", large},     {"site", site},
    {"bytes", bytes},   {"decision", decision}, {"killed", killed},   {"loading", loading},
    {"frozen", frozen}, {"slow", slow},         {"stopped", stopped}, {"left", left},
    {"shaken", shaken},
};

/* Ends as the command line does: says why, tells the others, closes, exits with the status' code. */
static int as_rank(const char *act, const char *dir) {
    struct sigaction on_term = {.sa_handler = asked_to_end};
    sigaction(SIGTERM, &on_term, NULL);
    exchange_settings settings = {.world = 3, .delay_seed = 5};
    ring_seat s = {0};
    char context[512], text[4096], log[FATE_BYTES] = "", line[2048];
    snprintf(context, sizeof context, "%s", dir);
    s.context = context;
    uint32_t count = 0;
    s.status = backend_exchange("mpi", &settings, &s.x, &count, &s.err);
    bool open = s.status == TF_OK;
    for (size_t i = 0; open && i < COUNT(acts); i++) {
        if (strcmp(acts[i].name, act) == 0) s.status = acts[i].act(&s);
    }
    uint32_t rank = open ? s.x->rank : (uint32_t)getpid();
    if (open) fate_text(s.x, log, sizeof log);
    snprintf(text, sizeof text, "%llu\n%s\n%s%s", (unsigned long long)now_ms(),
             s.status == TF_OK ? (s.wrong ? "wrong bytes" : "held")
                               : tf_error_line(&s.err, line, sizeof line),
             log, "");
    note(dir, "rank", rank, text);
    if (open && s.status != TF_OK) fate_tell(s.x, &s.err);
    if (open) s.x->ops->close(s.x);
    tf_error again = {0};
    if (open && s.status == TF_OK && strcmp(act, "many") == 0 &&
        backend_exchange("mpi", &settings, &s.x, &count, &again) != TF_OK)
        note(dir, "again", rank, tf_word_text(again.word));
    return s.status == TF_OK ? 0 : tf_status_exit(s.status);
}

/* ---- the cases ---- */

typedef struct told {
    int code; /* mpirun's */
    char output[1 << 14];
    char dir[400];
    struct {
        char text[4096]; /* time, error line, log */
        char exit[16];
    } ranks[3];
} told;
static told to;

static void read_note(const char *what, uint32_t rank, char *text, size_t size) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s%u", to.dir, what, rank);
    FILE *file = fopen(path, "r");
    size_t n = file == NULL ? 0 : fread(text, 1, size - 1, file);
    text[n] = '\0';
    if (file != NULL) fclose(file);
}

/* Starts `processes` ranks; a shell around each one keeps its exit code.  False: skipped. */
static bool start(check_case *t, const char *act, uint32_t processes) {
#ifdef TF_MPI
    bool built = true;
#else
    bool built = false;
#endif
    if (!built || check_command(t, to.output, sizeof to.output, "mpirun --version") != 0) {
        check_skip(t, built ? "mpirun is not installed" : "MPI is not built in");
        return false;
    }
    snprintf(to.dir, sizeof to.dir, "%s", check_tmpdir(t));
    to.code = check_command(
        t, to.output, sizeof to.output,
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 "
        "TSAN_OPTIONS=report_bugs=0 "
        "timeout -k 5 60 mpirun --oversubscribe -n %u sh -c 'trap \"\" TERM; "
        "%s/tests/test_mpi --as-rank %s %s; code=$?; "
        "echo $code >%s/exit$OMPI_COMM_WORLD_RANK; exit $code'",
        processes, TF_BUILD_DIR, act, to.dir, to.dir);
    for (uint32_t r = 0; r < 3; r++) {
        read_note("rank", r, to.ranks[r].text, sizeof to.ranks[r].text);
        read_note("exit", r, to.ranks[r].exit, sizeof to.ranks[r].exit);
    }
    return true;
}

static bool all_held(check_case *t, const char *act) {
    if (!start(t, act, 3)) return false;
    CHECKF(t, to.code == 0, "mpirun ended with %d:\n%s", to.code, to.output);
    for (uint32_t r = 0; r < 3; r++)
        CHECKF(t, strstr(to.ranks[r].text, "\nheld\n") != NULL, "rank %u: %s", r, to.ranks[r].text);
    return true;
}

/* What the rank said holds `want`, and it ended with 70. */
static void said(check_case *t, uint32_t rank, const char *want) {
    CHECKF(t, strstr(to.ranks[rank].text, want) != NULL, "rank %u: no '%s' in: %s\nmpirun: %s",
           rank, want, to.ranks[rank].text, to.output);
    CHECK_STR(t, to.ranks[rank].exit, "70\n");
}

static void bytes_arrive_in_rank_order(check_case *t) {
    if (!all_held(t, "many")) return;
    for (uint32_t r = 0; r < 3; r++) {
        char word[64];
        read_note("again", r, word, sizeof word);
        CHECK_STR(t, word, tf_word_text(TF_W_EXCHANGE_MISSING));
    }
}

static void random_delays_change_nothing(check_case *t) {
    all_held(t, "delayed");
}

static void large_parts_go_in_pieces(check_case *t) {
    all_held(t, "large");
}

static void another_site_is_named(check_case *t) {
    if (!start(t, "site", 3)) return;
    said(t, 0, "found rank 1 at exchange 2 (moe), 100 bytes");
    said(t, 0, "[exchange-differs]");
    said(t, 1, "[exchange-differs]");
    said(t, 2, "rank 1 at exchange 2 (moe)");
}

static void other_sizes_are_named(check_case *t) {
    if (!start(t, "bytes", 3)) return;
    said(t, 0, "rank 1 means that rank 2 gives 2000000 bytes");
    said(t, 1, "[exchange-differs]");
    said(t, 2, "rank 1 means that rank 2 gives 2000000 bytes");
}

static void another_decision_is_named(check_case *t) {
    if (!start(t, "decision", 3)) return;
    said(t, 0, "decisions of rank 1 hash to 0000000000000004");
    said(t, 1, "[decision-differs]");
    said(t, 2, "[decision-differs]");
}

/* Milliseconds from the end of rank 2 to what the rank said. */
static int64_t after_end(uint32_t rank) {
    char ended[64];
    read_note("ended", 2, ended, sizeof ended);
    return strtoll(to.ranks[rank].text, NULL, 10) - strtoll(ended, NULL, 10);
}

static void killed_rank_is_named_in_time(check_case *t) {
    if (!start(t, "killed", 3)) return;
    for (uint32_t r = 0; r < 2; r++) {
        said(t, r, "exchange 2 (attn): waiting for rank 2: found rank 2, process ");
        said(t, r, "has ended [peer-gone]");
        said(t, r, "  exchange 1 embed 300 bytes done\n  exchange 2 attn 300 bytes pending\n");
        CHECKF(t, after_end(r) < 5000, "%d ms", (int)after_end(r));
    }
    CHECK_STR(t, to.ranks[2].exit, "137\n");
    CHECK(t, to.code != 0);
}

static void rank_killed_between_exchanges_is_named(check_case *t) {
    if (!start(t, "loading", 3)) return;
    for (uint32_t r = 0; r < 2; r++) {
        said(t, r, "before exchange 2: looking after rank 2: found rank 2, process ");
        CHECKF(t, after_end(r) < 5000, "%d ms", (int)after_end(r));
    }
}

static void frozen_rank_is_named_in_time(check_case *t) {
    if (!start(t, "frozen", 3)) return;
    for (uint32_t r = 0; r < 2; r++) {
        said(t, r, "found nothing of rank 2 for 500 ms; the last it came to is exchange 1 (embed)");
        CHECKF(t, after_end(r) < 5000, "%d ms", (int)after_end(r));
    }
}

static void rank_that_beats_is_waited_for(check_case *t) {
    all_held(t, "slow");
}

static void stop_reaches_all(check_case *t) {
    if (!start(t, "stopped", 3)) return;
    CHECK(t, strstr(to.ranks[1].text, "choosing a token") != NULL);
    said(t, 0, "rank 1 stopped: found choosing a token [not-a-number] [peer-stopped]");
    said(t, 2, "[peer-stopped]");
}

static void rank_that_left_is_named(check_case *t) {
    if (!start(t, "left", 3)) return;
    said(t, 0, "has closed its end [peer-gone]");
    said(t, 2, "waiting for rank 1");
}

static void another_world_is_refused(check_case *t) {
    if (!start(t, "many", 2)) return;
    check_command(t, to.output, sizeof to.output, "cat %s/rank*", to.dir);
    CHECKF(t, strstr(to.output, "found 2 processes, expected the 3 ranks") != NULL, "%s",
           to.output);
    CHECKF(t, strstr(to.output, tf_word_text(TF_W_WRONG_WORLD)) != NULL, "%s", to.output);
    CHECKF(t, strstr(to.output, "mpirun -n 3") != NULL, "%s", to.output);
    CHECK_STR(t, to.ranks[0].exit, "2\n");
    CHECK_STR(t, to.ranks[1].exit, "2\n");
}

static void handshake_goes_over_processes(check_case *t) {
    if (!start(t, "shaken", 3)) return;
    for (uint32_t r = 0; r < 3; r++)
        said(t, r, "pack digest differs: found 'dd44' on rank 2, expected 'cc33' as on ranks 0, 1");
}

static void build_without_it_says_so(check_case *t) {
#ifdef TF_MPI
    check_skip(t, "MPI is built in");
#else
    exchange_settings settings = {.world = 3};
    exchange *end = NULL;
    uint32_t count = 0;
    tf_error err = {0};
    CHECK_U64(t, backend_exchange("mpi", &settings, &end, &count, &err), TF_IO);
    CHECK_U64(t, err.word, TF_W_EXCHANGE_MISSING);
    CHECK(t, strstr(err.remedy, "libopenmpi-dev") != NULL);
#endif
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "--as-rank") == 0) return as_rank(argv[2], argv[3]);
    static const check_entry cases[] = {
        {"mpi/bytes-arrive-in-rank-order", bytes_arrive_in_rank_order},
        {"mpi/random-delays-change-nothing", random_delays_change_nothing},
        {"mpi/large-parts-go-in-pieces", large_parts_go_in_pieces},
        {"mpi/another-site-is-named", another_site_is_named},
        {"mpi/other-sizes-are-named", other_sizes_are_named},
        {"mpi/another-decision-is-named", another_decision_is_named},
        {"mpi/killed-rank-is-named-in-time", killed_rank_is_named_in_time},
        {"mpi/rank-killed-between-exchanges-is-named", rank_killed_between_exchanges_is_named},
        {"mpi/frozen-rank-is-named-in-time", frozen_rank_is_named_in_time},
        {"mpi/rank-that-beats-is-waited-for", rank_that_beats_is_waited_for},
        {"mpi/stop-reaches-all", stop_reaches_all},
        {"mpi/rank-that-left-is-named", rank_that_left_is_named},
        {"mpi/another-world-is-refused", another_world_is_refused},
        {"mpi/handshake-goes-over-processes", handshake_goes_over_processes},
        {"mpi/build-without-it-says-so", build_without_it_says_so},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
