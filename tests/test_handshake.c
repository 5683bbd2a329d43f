/* Ranks that were started differently are refused before weights, by field and both values. */
#include "engine/run/handshake.h"

#include "engine/base/fault.h"
#include "tests/support/check.h"
#include "tests/support/ring.h"

#include <stdio.h>
#include <string.h>

/* What the odd rank says otherwise. */
typedef struct odd {
    uint32_t rank;
    uint32_t field;
    const char *name, *value; /* NULL: as all */
    int more;                 /* fields more than all */
} odd;

#define FIELDS 6
static const handshake_field agreed[HANDSHAKE_FIELDS] = {
    {"version", "0.1.0"},     {"settings digest", "aa11"}, {"plan fingerprint", "bb22"},
    {"pack digest", "cc33"},  {"config digest", "dd44"},   {"profile", "f32"},
    {"one more", "than all"},
};

static tf_status shake(ring_seat *s) {
    const odd *o = s->context;
    handshake_field fields[HANDSHAKE_FIELDS];
    memcpy(fields, agreed, sizeof fields);
    uint32_t count = FIELDS;
    if (o != NULL && s->x->rank == o->rank) {
        if (o->name != NULL) fields[o->field].name = o->name;
        if (o->value != NULL) fields[o->field].value = o->value;
        count = (uint32_t)((int)count + o->more);
    }
    return handshake_run(s->x, fields, count, &s->err);
}

/* All ranks refuse by the same words. */
static void refused(check_case *t, uint32_t world, odd o, const char *name, const char *found,
                    const char *expected) {
    ring r;
    if (!ring_open(t, &r, world, 0)) return;
    ring_run(&r, shake, &o);
    char what[100];
    snprintf(what, sizeof what, "comparing the ranks: %s differs", name);
    for (uint32_t i = 0; i < world; i++) {
        const tf_error *e = &r.seats[i].err;
        CHECK_U64(t, e->word, TF_W_HANDSHAKE_DIFFERS);
        CHECK_STR(t, e->what, what);
        CHECK_STR(t, e->found, found);
        CHECK_STR(t, e->expected, expected);
        CHECK(t, e->remedy[0] != '\0');
    }
    ring_close(&r);
}

static void ranks_alike_pass(check_case *t) {
    static const uint32_t worlds[] = {1, 2, 3, 8};
    for (size_t w = 0; w < COUNT(worlds); w++) {
        ring r;
        if (!ring_open(t, &r, worlds[w], 0)) return;
        ring_run(&r, shake, NULL);
        for (uint32_t i = 0; i < worlds[w]; i++)
            CHECKF(t, r.seats[i].status == TF_OK, "%s", r.seats[i].err.what);
        CHECK_STR(t, r.seats[0].x->log[0].site, "handshake");
        ring_close(&r);
    }
}

static void every_field_is_compared(check_case *t) {
    for (uint32_t f = 0; f < FIELDS; f++) {
        char expected[100];
        snprintf(expected, sizeof expected, "'%s' as on ranks 0, 1", agreed[f].value);
        refused(t, 3, (odd){2, f, NULL, "another", 0}, agreed[f].name, "'another' on rank 2",
                expected);
    }
}

static void ranks_of_each_value_are_named(check_case *t) {
    refused(t, 4, (odd){0, 1, NULL, "ff00", 0}, "settings digest", "'aa11' on ranks 1, 2, 3",
            "'ff00' as on rank 0");
    refused(t, 4, (odd){2, 3, NULL, "ff00", 0}, "pack digest", "'ff00' on rank 2",
            "'cc33' as on ranks 0, 1, 3");
}

static tf_status shake_at_length(ring_seat *s) {
    char value[300];
    memset(value, 'a', sizeof value);
    value[298] = s->x->rank == 1 ? 'b' : 'a';
    value[299] = '\0';
    handshake_field field = {"rope table", value};
    return handshake_run(s->x, &field, 1, &s->err);
}

static void values_differ_beyond_what_is_shown(check_case *t) {
    ring r;
    if (!ring_open(t, &r, 2, 0)) return;
    ring_run(&r, shake_at_length, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_U64(t, r.seats[i].err.word, TF_W_HANDSHAKE_DIFFERS);
        CHECK_STR(t, r.seats[i].err.what, "comparing the ranks: rope table differs");
        CHECK(t, strncmp(r.seats[i].err.found, "'aaaa", 5) == 0);
    }
    ring_close(&r);
}

static void another_number_of_fields_is_named(check_case *t) {
    refused(t, 3, (odd){1, 0, NULL, NULL, 1}, "one more", "'than all' on rank 1",
            "no one more as on ranks 0, 2");
    refused(t, 3, (odd){1, 0, NULL, NULL, -1}, "profile", "no profile on rank 1",
            "'f32' as on ranks 0, 2");
}

static void another_field_is_named(check_case *t) {
    refused(t, 2, (odd){1, 4, "codebook", NULL, 0}, "config digest", "codebook 'dd44' on rank 1",
            "'dd44' as on rank 0");
}

static tf_status shake_elsewhere(ring_seat *s) {
    static const uint64_t bytes[] = {8, 8};
    return ring_gather(s, "embed", bytes, 0, 0);
}

static void failed_exchange_passes_on(check_case *t) {
    ring r;
    const ring_act acts[] = {shake, shake_elsewhere};
    if (!ring_open(t, &r, 2, 0)) return;
    ring_run_each(&r, acts, NULL);
    CHECK_U64(t, r.seats[0].err.word, TF_W_EXCHANGE_DIFFERS);
    ring_close(&r);
}

static void survives_every_failed_allocation(check_case *t) {
#ifdef TF_FAULT
    for (uint64_t n = 1;; n++) {
        ring r;
        if (!ring_open(t, &r, 1, 0)) return;
        fault_arm(FAULT_ALLOC, n);
        ring_run(&r, shake, NULL);
        bool fired = fault_fired(FAULT_ALLOC);
        fault_arm(FAULT_ALLOC, 0);
        CHECK_U64(t, r.seats[0].status, fired ? TF_NO_MEMORY : TF_OK);
        ring_close(&r);
        if (!fired) break;
    }
#else
    check_skip(t, "faults are not built in");
#endif
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"handshake/ranks-alike-pass", ranks_alike_pass},
        {"handshake/every-field-is-compared", every_field_is_compared},
        {"handshake/ranks-of-each-value-are-named", ranks_of_each_value_are_named},
        {"handshake/values-differ-beyond-what-is-shown", values_differ_beyond_what_is_shown},
        {"handshake/another-number-of-fields-is-named", another_number_of_fields_is_named},
        {"handshake/another-field-is-named", another_field_is_named},
        {"handshake/failed-exchange-passes-on", failed_exchange_passes_on},
        {"handshake/survives-every-failed-allocation", survives_every_failed_allocation},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
