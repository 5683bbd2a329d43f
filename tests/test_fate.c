/* What ranks say when a run ends badly: where each is, and why the first one went. */
#include "engine/run/fate.h"

#include "tests/support/check.h"
#include "tests/support/ring.h"

#include <stdio.h>
#include <string.h>

static const uint64_t hundred[RING_MAX] = {100, 100, 100};

static tf_status done_and_pending(ring_seat *s) {
    for (uint64_t i = 0; i < 3; i++) {
        tf_status status = ring_gather(s, i == 1 ? "moe" : "attn", hundred, i, 0);
        if (status != TF_OK) return status;
    }
    if (s->x->rank == 1) {
        ring_nap(5 * RING_HURRY_MS);
        fate_tell(s->x, &s->err);
        return TF_OK;
    }
    return ring_gather(s, "choose", hundred, 3, 0);
}

static void text_shows_who_is_where(check_case *t) {
    ring r;
    char text[FATE_BYTES];
    if (!ring_open(t, &r, 3, 0)) return;
    ring_hurry(&r);
    ring_run(&r, done_and_pending, NULL);
    size_t length = fate_text(r.seats[2].x, text, sizeof text);
    CHECK_U64(t, length, strlen(text));
    CHECK_STR(t, text,
              "rank 2 of 3: 3 exchanges done, 600 bytes received\n"
              "  exchange 0 attn 300 bytes done\n"
              "  exchange 1 moe 300 bytes done\n"
              "  exchange 2 attn 300 bytes done\n"
              "  exchange 3 choose 300 bytes pending\n");
    fate_text(r.seats[1].x, text, sizeof text);
    CHECK(t, strstr(text, "rank 1 of 3: 3 exchanges done") != NULL);
    CHECK(t, strstr(text, "pending") == NULL);
    ring_close(&r);
}

/* The longest text there can be. */
static exchange full_log(void) {
    exchange x = {.world = 256, .rank = 255, .sequence = UINT64_MAX, .bytes_received = UINT64_MAX};
    for (uint32_t i = 0; i < EXCHANGE_LOG; i++) {
        exchange_entry *entry = &x.log[i];
        memset(entry->site, 'x', EXCHANGE_SITE - 1);
        entry->sequence = UINT64_MAX - (EXCHANGE_LOG - 1 - i) % EXCHANGE_LOG;
        entry->bytes = UINT64_MAX;
    }
    return x;
}

static void text_fits_and_is_cut(check_case *t) {
    exchange x = full_log();
    char text[FATE_BYTES], cut[100];
    size_t whole = fate_text(&x, text, sizeof text);
    CHECKF(t, whole < FATE_BYTES - 1, "%zu bytes", whole);
    CHECK(t, text[whole - 1] == '\n' && strstr(text, "exchange 18446744073709551600 xxx") != NULL);
    CHECK(t, strstr(text, "18446744073709551615 bytes pending\n") != NULL);
    memset(cut, 'z', sizeof cut);
    CHECK_U64(t, fate_text(&x, cut, 50), 49);
    CHECK_U64(t, strlen(cut), 49);
    CHECK(t, memcmp(cut, text, 49) == 0 && cut[50] == 'z');
    CHECK_U64(t, fate_text(&x, cut, 0), 0);
}

static void oldest_comes_first(check_case *t) {
    exchange x = full_log();
    char text[FATE_BYTES];
    x.sequence = 1000;
    for (uint64_t i = 985; i <= 1000; i++) {
        x.log[i % EXCHANGE_LOG] = (exchange_entry){"s", i, 1, i < 1000};
    }
    fate_text(&x, text, sizeof text);
    const char *at = text;
    for (uint64_t i = 985; i <= 1000; i++) {
        char want[40];
        snprintf(want, sizeof want, "exchange %u s 1 bytes %s\n", (unsigned)i,
                 i < 1000 ? "done" : "pending");
        at = strstr(at, want);
        if (!CHECKF(t, at != NULL, "no '%s' in order in:\n%s", want, text)) return;
    }
}

static tf_status hears(ring_seat *s) {
    return ring_gather(s, "attn", hundred, 0, 0);
}

static tf_status tells(ring_seat *s) {
    tf_error *why = s->context;
    fate_tell(s->x, why);
    return TF_OK;
}

static void reason_reaches_the_others(check_case *t) {
    ring r;
    const ring_act acts[] = {hears, tells, hears};
    tf_error why = {0};
    tf_fail(&why, TF_W_NOT_A_NUMBER, "choosing a token");
    tf_found(&why, "a NaN at id 17");
    if (!ring_open(t, &r, 3, 0)) return;
    ring_run_each(&r, acts, &why);
    CHECK_U64(t, r.seats[0].err.word, TF_W_PEER_STOPPED);
    CHECK_STR(t, r.seats[2].err.what, "rank 1 stopped");
    CHECK_STR(t, r.seats[2].err.found, "choosing a token: found a NaN at id 17 [not-a-number]");
    ring_close(&r);
}

static void long_reason_keeps_its_word(check_case *t) {
    ring r;
    const ring_act acts[] = {tells, hears};
    tf_error why = {0};
    tf_fail(&why, TF_W_CANNOT_READ, "%0300d", 7);
    if (!ring_open(t, &r, 2, 0)) return;
    ring_run_each(&r, acts, &why);
    const char *found = r.seats[1].err.found;
    CHECK_U64(t, strlen(found), EXCHANGE_REASON - 1);
    CHECKF(t, strcmp(found + strlen(found) - 15, "0 [cannot-read]") == 0, "%s", found);
    ring_close(&r);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"fate/text-shows-who-is-where", text_shows_who_is_where},
        {"fate/text-fits-and-is-cut", text_fits_and_is_cut},
        {"fate/oldest-comes-first", oldest_comes_first},
        {"fate/reason-reaches-the-others", reason_reaches_the_others},
        {"fate/long-reason-keeps-its-word", long_reason_keeps_its_word},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
