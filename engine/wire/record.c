#include "engine/wire/record.h"

#include <string.h>
#include <time.h>

uint64_t record_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void record_nap(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&t, NULL);
}

/* splitmix64. */
static uint64_t mix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void record_open(exchange *x, const exchange_ops *ops, const exchange_settings *settings,
                 uint32_t rank) {
    x->ops = ops;
    x->world = settings->world;
    x->rank = rank;
    x->wait_ms = settings->wait_ms == 0 ? EXCHANGE_WAIT_MS : settings->wait_ms;
    x->delay_us_max = settings->delay_us_max;
    x->delay_state = settings->delay_seed + rank;
}

uint64_t record_begin(exchange *x, const exchange_part *part, record_header *header) {
    uint64_t began_ns = record_now_ns();
    if (x->delay_us_max > 0) record_nap(mix(&x->delay_state) % (x->delay_us_max + 1u) * 1000u);
    exchange_entry *entry = &x->log[x->sequence % EXCHANGE_LOG];
    memset(entry, 0, sizeof *entry);
    size_t length = strlen(part->site);
    if (length >= EXCHANGE_SITE) length = EXCHANGE_SITE - 1;
    memcpy(entry->site, part->site, length);
    entry->sequence = x->sequence;
    for (uint32_t r = 0; r < x->world; r++)
        entry->bytes += part->bytes[r];
    header->sequence = x->sequence;
    header->decision = part->decision;
    memcpy(header->site, entry->site, EXCHANGE_SITE);
    memcpy(header->bytes, part->bytes, x->world * sizeof part->bytes[0]);
    return began_ns;
}

void record_end(exchange *x, const exchange_part *part, uint64_t began_ns) {
    exchange_entry *entry = &x->log[x->sequence % EXCHANGE_LOG];
    entry->done = true;
    x->sequence++;
    x->bytes_received += entry->bytes - part->bytes[x->rank];
    x->spent_ns += record_now_ns() - began_ns;
}

uint64_t record_begin_of(const exchange_part *part, uint32_t rank) {
    uint64_t at = 0;
    for (uint32_t r = 0; r < rank; r++)
        at += part->bytes[r];
    return at;
}

typedef unsigned long long ull;

static tf_status fail_place(const exchange *x, const record_header *own, const record_header *other,
                            uint32_t rank, tf_error *err) {
    tf_fail(err, TF_W_EXCHANGE_DIFFERS,
            "exchange %llu (%s): ranks %u and %u stand at different ones", (ull)own->sequence,
            own->site, x->rank, rank);
    tf_found(err, "rank %u at exchange %llu (%.23s), %llu bytes of its own", rank,
             (ull)other->sequence, other->site, (ull)other->bytes[rank]);
    tf_expected(err, "exchange %llu (%s) as rank %u, which gives %llu bytes", (ull)own->sequence,
                own->site, x->rank, (ull)own->bytes[x->rank]);
    return tf_remedy(err, "compare the last exchanges that both ranks print");
}

static tf_status fail_bytes(const exchange *x, const record_header *own, const record_header *other,
                            uint32_t rank, tf_error *err) {
    uint32_t giver = 0;
    while (giver + 1 < x->world && own->bytes[giver] == other->bytes[giver])
        giver++;
    tf_fail(err, TF_W_EXCHANGE_DIFFERS, "exchange %llu (%s): ranks %u and %u mean different sizes",
            (ull)own->sequence, own->site, x->rank, rank);
    tf_found(err, "rank %u means that rank %u gives %llu bytes", rank, giver,
             (ull)other->bytes[giver]);
    tf_expected(err, "%llu bytes, as rank %u means", (ull)own->bytes[giver], x->rank);
    return tf_remedy(err, "compare the last exchanges that both ranks print");
}

tf_status record_compare(const exchange *x, const record_header *own, const record_header *other,
                         uint32_t rank, tf_error *err) {
    if (other->sequence != own->sequence || memcmp(other->site, own->site, EXCHANGE_SITE) != 0)
        return fail_place(x, own, other, rank, err);
    if (memcmp(other->bytes, own->bytes, x->world * sizeof own->bytes[0]) != 0)
        return fail_bytes(x, own, other, rank, err);
    if (other->decision == own->decision) return TF_OK;
    tf_fail(err, TF_W_DECISION_DIFFERS, "exchange %llu (%s): ranks %u and %u decided differently",
            (ull)own->sequence, own->site, x->rank, rank);
    tf_found(err, "decisions of rank %u hash to %016llx", rank, (ull)other->decision);
    tf_expected(err, "%016llx, as those of rank %u", (ull)own->decision, x->rank);
    return tf_remedy(err, "write the layer hashes of both and run tfverify diverge on them");
}

/* Looks are far closer than this, unless the process did not run. */
#define LOOK_NS_MAX 100000000u

bool record_silent(const exchange *x, record_watch *w, uint64_t beats, uint64_t now_ns) {
    if (w->looked_ns == 0 || beats != w->beats) *w = (record_watch){beats, now_ns, 0};
    uint64_t passed_ns = now_ns - w->looked_ns;
    w->silent_ns += passed_ns < LOOK_NS_MAX ? passed_ns : LOOK_NS_MAX;
    w->looked_ns = now_ns;
    return w->silent_ns >= x->wait_ms * 1000000ull;
}

tf_status record_fail_silent(const exchange *x, uint32_t rank, bool entered, tf_error *err) {
    const exchange_entry *own = &x->log[x->sequence % EXCHANGE_LOG];
    tf_fail(err, TF_W_PEER_SILENT, "exchange %llu (%s): waiting for rank %u", (ull)own->sequence,
            own->site, rank);
    if (!entered && x->sequence == 0) {
        tf_found(err, "nothing of rank %u for %u ms; it came to no exchange yet", rank, x->wait_ms);
    } else {
        const exchange_entry *last = &x->log[(x->sequence - !entered) % EXCHANGE_LOG];
        tf_found(err, "nothing of rank %u for %u ms; the last it came to is exchange %llu (%s)",
                 rank, x->wait_ms, (ull)last->sequence, last->site);
    }
    tf_expected(err, "its bytes, or a sign that it advances");
    return tf_remedy(err, "see whether rank %u hangs, is stopped or swaps", rank);
}

tf_status record_fail_stopped(uint32_t rank, const char *reason, tf_error *err) {
    tf_fail(err, TF_W_PEER_STOPPED, "rank %u stopped", rank);
    tf_found(err, "%s", reason);
    return tf_remedy(err, "look at rank %u first: the others only followed it", rank);
}
