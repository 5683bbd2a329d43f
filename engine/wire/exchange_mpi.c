#include "engine/wire/exchange_mpi.h"

#ifndef TF_MPI

tf_status exchange_mpi_open(const exchange_settings *settings, exchange **ends, uint32_t *count,
                            tf_error *err) {
    (void)settings;
    (void)ends;
    (void)count;
    tf_fail(err, TF_W_EXCHANGE_MISSING, "opening the exchange mpi");
    tf_found(err, "a build without MPI");
    return tf_remedy(err, "apt-get install libopenmpi-dev openmpi-bin, then build again");
}

#else

#include "engine/base/arena.h"
#include "engine/base/thread.h"
#include "engine/wire/record.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Larger parts travel in pieces: MPI counts in int, and a piece is soon over. */
#define PIECE_BYTES (16u << 20)
#define OPEN_MS     10000u
#define BEAT_MS     300u
#define LOOK_MS     50u /* at the processes of peers */
#define STOP_MS     200u
#define GRACE_MS    200u
#define YIELD_NS    300000u
#define NAP_NS_MIN  20000u
#define NAP_NS_MAX  200000u

enum {
    TAG_HEADER = 1,
    TAG_BYTES,
    TAG_NEWS,
};

/* What ranks tell each other besides exchanges. */
typedef enum {
    NEWS_BEAT,
    NEWS_STOP,
    NEWS_BYE,
} news_kind;

typedef struct news {
    uint32_t kind, rank;
    char reason[EXCHANGE_REASON]; /* of NEWS_STOP; else not sent */
} news;
#define NEWS_BYTES  offsetof(news, reason)

/* Sent at open.  Two ranks share processes where host is equal: its name and the name of the
 * namespace that process numbers belong to. */
typedef struct card {
    uint32_t world;
    int32_t pid;
    char host[120];
} card;

/* Requests of an exchange, each [world]. */
typedef enum {
    HEADER_IN,
    HEADER_OUT,
    BYTES_IN,
    BYTES_OUT,
    DIRECTIONS,
} direction;

typedef struct peer {
    bool same_host;
    uint64_t left_ns;   /* said bye; 0: did not */
    uint64_t gone_ns;   /* its process was seen to be gone; 0: it was not */
    uint64_t heard;     /* messages of any kind */
    record_watch watch; /* of `heard` */
    MPI_Request beat;   /* the last one sent */
} peer;

typedef struct end {
    exchange base;
    bool failed;  /* MPI may wait for someone who is gone */
    bool leaving; /* waits are for byes */
    news in, out, beat;
    MPI_Request listen; /* always posted, into `in` */
    uint64_t beat_ns;   /* when beats were last sent */
    uint64_t looked_ns; /* when processes were last looked at */
    uint64_t asked_ns;  /* was asked to stop while it waited */
    uint64_t stop_ns;   /* heard a stop; 0: did not */
    uint32_t stop_rank;
    char stop_reason[EXCHANGE_REASON];
    card *cards;           /* [world] */
    peer *peers;           /* [world] */
    char *headers;         /* [world] record_header */
    MPI_Request *requests; /* [DIRECTIONS][world] */
    int *done;             /* [DIRECTIONS * world] */
    MPI_Status *statuses;  /* [DIRECTIONS * world] */
} end;

static record_header *header_of(const end *e, uint32_t rank) {
    return (record_header *)(void *)(e->headers + rank * record_header_bytes(e->base.world));
}

/* ---- news ---- */

static tf_status check_mpi(end *e, int code, const char *act, uint32_t rank, tf_error *err) {
    if (code == MPI_SUCCESS) return TF_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    e->failed = true;
    tf_fail(err, TF_W_PEER_GONE, "%s rank %u", act, rank);
    tf_found(err, "MPI says: %.200s", text);
    return tf_remedy(err, "see what rank %u printed last, and whether its host is reached", rank);
}

static int listen_again(end *e) {
    return MPI_Irecv(&e->in, (int)sizeof e->in, MPI_BYTE, MPI_ANY_SOURCE, TAG_NEWS, MPI_COMM_WORLD,
                     &e->listen);
}

static void hear(end *e) {
    news *n = &e->in;
    if (n->rank >= e->base.world) return;
    peer *p = &e->peers[n->rank];
    p->heard++;
    if (n->kind == NEWS_BYE) p->left_ns = record_now_ns();
    if (n->kind == NEWS_STOP && e->stop_ns == 0) {
        e->stop_ns = record_now_ns();
        e->stop_rank = n->rank;
        memcpy(e->stop_reason, n->reason, EXCHANGE_REASON);
        e->stop_reason[EXCHANGE_REASON - 1] = '\0';
    }
}

/* Takes all news that came. */
static void listen_now(end *e) {
    for (int came = 1; came;) {
        if (e->listen == MPI_REQUEST_NULL && listen_again(e) != MPI_SUCCESS) return;
        if (MPI_Test(&e->listen, &came, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
        if (came) hear(e);
    }
}

/* At most one beat a peer is on its way: a peer that takes none gets no more. */
static void send_beats(end *e) {
    for (uint32_t r = 0; r < e->base.world; r++) {
        peer *p = &e->peers[r];
        int sent = 1;
        if (r == e->base.rank || p->left_ns > 0) continue;
        if (p->beat != MPI_REQUEST_NULL) MPI_Test(&p->beat, &sent, MPI_STATUS_IGNORE);
        if (!sent) continue;
        MPI_Isend(&e->beat, (int)NEWS_BYTES, MPI_BYTE, (int)r, TAG_NEWS, MPI_COMM_WORLD, &p->beat);
    }
}

static void beat_at(end *e, uint64_t now_ns) {
    uint32_t every_ms = e->base.wait_ms / 8 < BEAT_MS ? e->base.wait_ms / 8 : BEAT_MS;
    if (now_ns - e->beat_ns < every_ms * 1000000ull) return;
    e->beat_ns = now_ns;
    send_beats(e);
    listen_now(e);
}

static void beat(exchange *x) {
    beat_at((end *)x, record_now_ns());
}

/* Tells all; waits for the sends to be done for a moment only. */
static void tell_all(end *e, news_kind kind, size_t bytes) {
    MPI_Request *sends = e->requests; /* whatever they were: the exchange is over or has failed */
    uint32_t world = e->base.world;
    e->out.kind = kind;
    e->out.rank = e->base.rank;
    for (uint32_t r = 0; r < world; r++) {
        sends[r] = MPI_REQUEST_NULL;
        if (r == e->base.rank) continue;
        MPI_Isend(&e->out, (int)bytes, MPI_BYTE, (int)r, TAG_NEWS, MPI_COMM_WORLD, &sends[r]);
    }
    uint64_t began_ns = record_now_ns();
    for (int sent = 0; !sent && record_now_ns() - began_ns < STOP_MS * 1000000ull;) {
        if (MPI_Testall((int)world, sends, &sent, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return;
        if (!sent) record_nap(NAP_NS_MIN);
    }
}

/* ---- waiting ---- */

static bool waits_for(const end *e, uint32_t rank) {
    if (rank == e->base.rank) return false;
    if (e->leaving) return e->peers[rank].left_ns == 0;
    for (uint32_t d = 0; d < DIRECTIONS; d++) {
        if (e->requests[d * e->base.world + rank] != MPI_REQUEST_NULL) return true;
    }
    return false;
}

/* A process that ended stays a zombie until its parent looks. */
static bool is_zombie(int32_t pid) {
    char path[40], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    text[n > 0 ? n : 0] = '\0';
    /* The name, in parentheses, may hold any byte. */
    const char *state = strrchr(text, ')');
    return state != NULL && (strncmp(state, ") Z", 3) == 0 || strncmp(state, ") X", 3) == 0);
}

static bool is_gone(const end *e, uint32_t rank) {
    int32_t pid = e->cards[rank].pid;
    if (!e->peers[rank].same_host) return false;
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) return true;
    return is_zombie(pid);
}

static tf_status fail_gone(const end *e, uint32_t rank, const char *how, tf_error *err) {
    if (e->stop_ns > 0) return record_fail_stopped(e->stop_rank, e->stop_reason, err);
    const exchange_entry *at = &e->base.log[e->base.sequence % EXCHANGE_LOG];
    if (waits_for(e, rank))
        tf_fail(err, TF_W_PEER_GONE, "exchange %llu (%s): waiting for rank %u",
                (unsigned long long)e->base.sequence, at->site, rank);
    else
        tf_fail(err, TF_W_PEER_GONE, "before exchange %llu: looking after rank %u",
                (unsigned long long)e->base.sequence, rank);
    tf_found(err, "rank %u, process %d, %s", rank, (int)e->cards[rank].pid, how);
    return tf_remedy(err, "see what rank %u printed last, and whether memory ran out (dmesg)",
                     rank);
}

static tf_status check(exchange *x, tf_error *err) {
    end *e = (end *)x;
    tf_status status = TF_OK;
    uint64_t now_ns = record_now_ns();
    if (now_ns - e->looked_ns < LOOK_MS * 1000000ull && !tf_stop_requested()) return TF_OK;
    e->looked_ns = now_ns;
    listen_now(e);
    if (e->stop_ns > 0) status = record_fail_stopped(e->stop_rank, e->stop_reason, err);
    for (uint32_t r = 0; status == TF_OK && r < x->world; r++) {
        if (r == x->rank || e->peers[r].left_ns > 0 || !is_gone(e, r)) continue;
        listen_now(e); /* it may have said why before it ended */
        status = fail_gone(e, r, "has ended", err);
    }
    e->failed |= status != TF_OK;
    return status;
}

static bool entered(const end *e, uint32_t rank) {
    return e->requests[HEADER_IN * e->base.world + rank] == MPI_REQUEST_NULL;
}

/* A peer's end may be seen before its last bytes and words, which say more: it counts after a moment
 * in which both were looked for. */
static bool is_over(uint64_t since_ns, uint64_t now_ns) {
    return since_ns > 0 && now_ns > since_ns + GRACE_MS * 1000000ull;
}

/* Looks after the peers while waiting.  TF_OK: keep waiting. */
static tf_status trouble(end *e, uint64_t now_ns, tf_error *err) {
    listen_now(e);
    if (is_over(e->stop_ns, now_ns)) return record_fail_stopped(e->stop_rank, e->stop_reason, err);
    bool look = now_ns - e->looked_ns >= LOOK_MS * 1000000ull;
    bool ending = e->stop_ns > 0;
    if (look) e->looked_ns = now_ns;
    for (uint32_t r = 0; r < e->base.world; r++) {
        if (!waits_for(e, r)) continue;
        peer *p = &e->peers[r];
        if (look && p->gone_ns == 0 && is_gone(e, r)) p->gone_ns = now_ns;
        if (is_over(p->gone_ns, now_ns) || is_over(p->left_ns, now_ns))
            return fail_gone(e, r, p->gone_ns > 0 ? "has ended" : "has closed its end", err);
        if (record_silent(&e->base, &p->watch, p->heard, now_ns))
            return record_fail_silent(&e->base, r, entered(e, r), err);
        ending |= p->gone_ns > 0;
    }
    beat_at(e, now_ns);
    /* When a rank dies, mpirun asks the others to end: the death is the better answer. */
    if (!tf_stop_requested() || ending) return TF_OK;
    if (e->asked_ns == 0) e->asked_ns = now_ns;
    return is_over(e->asked_ns, now_ns) ? tf_stop_check(err) : TF_OK;
}

typedef struct patience {
    uint64_t idle_since_ns, nap_ns;
} patience;

static void begin_wait(end *e) {
    for (uint32_t r = 0; r < e->base.world; r++)
        e->peers[r].watch = (record_watch){0};
}

/* A step of a wait that got nothing: lets others run and looks again, soon with sleeps between. */
static tf_status be_patient(end *e, patience *p, tf_error *err) {
    uint64_t now_ns = record_now_ns();
    if (p->idle_since_ns == 0) *p = (patience){now_ns, NAP_NS_MIN};
    if (now_ns - p->idle_since_ns < YIELD_NS) {
        sched_yield();
        return TF_OK;
    }
    tf_status status = trouble(e, now_ns, err);
    if (status != TF_OK) {
        e->failed = true;
        return status;
    }
    record_nap(p->nap_ns);
    if (p->nap_ns < NAP_NS_MAX) p->nap_ns *= 2;
    return TF_OK;
}

/* ---- operations ---- */

static int piece_bytes(uint64_t bytes, uint64_t at) {
    if (at >= bytes) return 0;
    return (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
}

static tf_status receive_piece(end *e, const exchange_part *part, uint32_t rank, uint64_t at,
                               tf_error *err) {
    int bytes = piece_bytes(part->bytes[rank], at);
    if (bytes == 0) return TF_OK;
    char *to = (char *)part->recv + record_begin_of(part, rank) + at;
    return check_mpi(e,
                     MPI_Irecv(to, bytes, MPI_BYTE, (int)rank, TAG_BYTES, MPI_COMM_WORLD,
                               &e->requests[BYTES_IN * e->base.world + rank]),
                     "receiving bytes of", rank, err);
}

static tf_status send_piece(end *e, const exchange_part *part, uint32_t rank, uint64_t at,
                            tf_error *err) {
    int bytes = piece_bytes(part->bytes[e->base.rank], at);
    if (bytes == 0) return TF_OK;
    const char *from = (const char *)part->send + at;
    return check_mpi(e,
                     MPI_Isend(from, bytes, MPI_BYTE, (int)rank, TAG_BYTES, MPI_COMM_WORLD,
                               &e->requests[BYTES_OUT * e->base.world + rank]),
                     "sending bytes to", rank, err);
}

static tf_status trade_headers(end *e, uint32_t rank, tf_error *err) {
    uint32_t world = e->base.world;
    int bytes = (int)record_header_bytes(world);
    tf_status status =
        check_mpi(e,
                  MPI_Irecv(header_of(e, rank), bytes, MPI_BYTE, (int)rank, TAG_HEADER,
                            MPI_COMM_WORLD, &e->requests[HEADER_IN * world + rank]),
                  "receiving a header of", rank, err);
    if (status != TF_OK) return status;
    return check_mpi(e,
                     MPI_Isend(header_of(e, e->base.rank), bytes, MPI_BYTE, (int)rank, TAG_HEADER,
                               MPI_COMM_WORLD, &e->requests[HEADER_OUT * world + rank]),
                     "sending a header to", rank, err);
}

static tf_status arrived(end *e, const exchange_part *part, uint32_t request, tf_error *err) {
    uint32_t rank = request % e->base.world;
    e->peers[rank].heard++;
    if (request / e->base.world != HEADER_IN) return TF_OK;
    tf_status status =
        record_compare(&e->base, header_of(e, e->base.rank), header_of(e, rank), rank, err);
    if (status != TF_OK) {
        e->failed = true;
        return status;
    }
    return receive_piece(e, part, rank, 0, err);
}

/* Until no request is open. */
static tf_status complete_all(end *e, const exchange_part *part, tf_error *err) {
    int all = (int)(DIRECTIONS * e->base.world);
    patience left = {0, 0};
    begin_wait(e);
    for (;;) {
        int count = 0;
        int code = MPI_Testsome(all, e->requests, &count, e->done, e->statuses);
        if (code == MPI_SUCCESS && count == MPI_UNDEFINED) return TF_OK;
        for (int i = 0; i < count; i++) {
            uint32_t request = (uint32_t)e->done[i];
            tf_status status = TF_OK;
            if (code == MPI_ERR_IN_STATUS)
                status = check_mpi(e, e->statuses[i].MPI_ERROR, "exchanging with",
                                   request % e->base.world, err);
            if (status == TF_OK) status = arrived(e, part, request, err);
            if (status != TF_OK) return status;
        }
        if (count > 0) left.idle_since_ns = 0;
        tf_status status = count > 0 ? TF_OK : be_patient(e, &left, err);
        if (status != TF_OK) return status;
    }
}

static tf_status gather(exchange *x, const exchange_part *part, tf_error *err) {
    end *e = (end *)x;
    tf_status status = TF_OK;
    uint64_t most = 0, own = part->bytes[x->rank];
    uint64_t began_ns = record_begin(x, part, header_of(e, x->rank));
    for (uint32_t r = 0; r < x->world; r++)
        most = part->bytes[r] > most ? part->bytes[r] : most;
    if (own > 0) memcpy((char *)part->recv + record_begin_of(part, x->rank), part->send, own);
    uint64_t at = 0;
    do {
        for (uint32_t r = 0; r < x->world; r++) {
            if (r == x->rank) continue;
            /* Bytes are received at once only where a header has agreed. */
            if (at == 0)
                TF_TRY(trade_headers(e, r, err));
            else
                TF_TRY(receive_piece(e, part, r, at, err));
            TF_TRY(send_piece(e, part, r, at, err));
        }
        TF_TRY(complete_all(e, part, err));
        at += PIECE_BYTES;
    } while (at < most);
    record_end(x, part, began_ns);
done:
    return status;
}

static void stop(exchange *x, const char *reason) {
    end *e = (end *)x;
    /* The bytes of an exchange that failed are no longer waited for. */
    e->failed = true;
    size_t length = strlen(reason);
    if (length >= EXCHANGE_REASON) length = EXCHANGE_REASON - 1;
    memset(e->out.reason, 0, sizeof e->out.reason);
    memcpy(e->out.reason, reason, length);
    tell_all(e, NEWS_STOP, sizeof e->out);
}

static void end_free(end *e) {
    mem_free(e->cards);
    mem_free(e->peers);
    mem_free(e->headers);
    mem_free(e->requests);
    mem_free(e->done);
    mem_free(e->statuses);
    mem_free(e);
}

/* MPI_Finalize is entered only together: after a bye of everyone. */
static void close_end(exchange *x) {
    end *e = (end *)x;
    tf_error err = {0};
    patience left = {0, 0};
    if (!e->failed) tell_all(e, NEWS_BYE, NEWS_BYTES);
    e->leaving = true;
    begin_wait(e);
    for (uint32_t r = 0; r < x->world && !e->failed;) {
        listen_now(e);
        if (waits_for(e, r))
            be_patient(e, &left, &err);
        else
            r++;
    }
    /* What MPI may still write to stays. */
    if (e->failed) return;
    for (uint32_t r = 0; r < x->world; r++) {
        if (e->peers[r].beat != MPI_REQUEST_NULL) MPI_Request_free(&e->peers[r].beat);
    }
    if (e->listen != MPI_REQUEST_NULL) {
        MPI_Cancel(&e->listen);
        MPI_Wait(&e->listen, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    end_free(e);
}

static const exchange_ops ops = {"mpi", gather, beat, stop, check, close_end};

/* ---- opening ---- */

static tf_status begin_mpi(tf_error *err) {
    int begun = 0, ended = 0, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (ended) {
        tf_fail(err, TF_W_EXCHANGE_MISSING, "opening the exchange mpi");
        tf_found(err, "MPI was closed in this process, which cannot be undone");
        return tf_remedy(err, "open it once a process");
    }
    if (!begun) MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return TF_OK;
}

static end *end_take(uint32_t world) {
    end *e = mem_take(sizeof *e);
    if (e == NULL) return NULL;
    size_t requests = DIRECTIONS * (size_t)world;
    e->cards = mem_take(world * sizeof *e->cards);
    e->peers = mem_take(world * sizeof *e->peers);
    e->headers = mem_take(world * record_header_bytes(world));
    e->requests = mem_take(requests * sizeof(MPI_Request));
    e->done = mem_take(requests * sizeof *e->done);
    e->statuses = mem_take(requests * sizeof *e->statuses);
    if (e->cards == NULL || e->peers == NULL || e->headers == NULL || e->requests == NULL ||
        e->done == NULL || e->statuses == NULL) {
        end_free(e);
        return NULL;
    }
    for (size_t i = 0; i < requests; i++)
        e->requests[i] = MPI_REQUEST_NULL;
    for (uint32_t r = 0; r < world; r++)
        e->peers[r].beat = MPI_REQUEST_NULL;
    e->listen = MPI_REQUEST_NULL;
    return e;
}

static card own_card(uint32_t world) {
    card c = {.world = world, .pid = (int32_t)getpid()};
    char name[64] = "", space[48] = "";
    if (gethostname(name, sizeof name - 1) != 0) name[0] = '\0';
    if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) space[0] = '\0';
    snprintf(c.host, sizeof c.host, "%s %s", name, space);
    return c;
}

static tf_status trade_cards(end *e, const card *own, tf_error *err) {
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0, bytes = (int)sizeof *own;
    uint64_t began_ns = record_now_ns();
    int code =
        MPI_Iallgather(own, bytes, MPI_BYTE, e->cards, bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    while (code == MPI_SUCCESS && !done) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done) break;
        if (record_now_ns() - began_ns > OPEN_MS * 1000000ull) {
            tf_fail(err, TF_W_PEER_SILENT, "opening the exchange mpi");
            tf_found(err, "not all ranks answered within %u ms", OPEN_MS);
            return tf_remedy(err, "see what the ranks printed");
        }
        record_nap(NAP_NS_MAX);
    }
    tf_status status = check_mpi(e, code, "trading cards as", e->base.rank, err);
    for (uint32_t r = 0; status == TF_OK && r < e->base.world; r++)
        e->peers[r].same_host = strcmp(e->cards[r].host, own->host) == 0;
    return status;
}

static tf_status compare_worlds(const end *e, tf_error *err) {
    for (uint32_t r = 0; r < e->base.world; r++) {
        uint32_t asked = e->cards[r].world;
        if (asked == e->base.world) continue;
        tf_fail(err, TF_W_WRONG_WORLD, "opening the exchange mpi");
        tf_found(err, "%u processes", e->base.world);
        tf_expected(err, "the %u ranks that rank %u was asked for", asked, r);
        return tf_remedy(err, "start as many processes as ranks: mpirun -n %u tfverify ...", asked);
    }
    return TF_OK;
}

tf_status exchange_mpi_open(const exchange_settings *settings, exchange **ends, uint32_t *count,
                            tf_error *err) {
    int size = 0, rank = 0;
    tf_status status = begin_mpi(err);
    if (status != TF_OK) return status;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    exchange_settings found = *settings;
    found.world = (uint32_t)size;
    end *e = end_take(found.world);
    if (e == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening the exchange mpi");
    record_open(&e->base, &ops, &found, (uint32_t)rank);
    e->beat = (news){.kind = NEWS_BEAT, .rank = (uint32_t)rank};
    card own = own_card(settings->world);
    status = trade_cards(e, &own, err);
    if (status == TF_OK && compare_worlds(e, err) != TF_OK) {
        /* All ranks see this and come here. */
        MPI_Finalize();
        end_free(e);
        return err->status;
    }
    if (status != TF_OK) return status;
    listen_now(e);
    ends[0] = &e->base;
    *count = 1;
    return TF_OK;
}

#endif
