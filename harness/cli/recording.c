#include "harness/cli/recording.h"

#include "engine/tf.h"
#include "harness/cli/out.h"

#include <stdio.h>
#include <string.h>

static void print_tap(recording *r) {
    out_string(text_str(&r->text));
    text_clear(&r->text);
}

static void full_name(const recording *r, unsigned depth, const char *name, char *to, size_t size) {
    size_t used = 0;
    to[0] = '\0';
    for (unsigned i = 0; i < depth && used < size; i++) {
        int n = snprintf(to + used, size - used, "%s/", r->cases[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used < size) snprintf(to + used, size - used, "%s", name);
}

static tf_status on_enter(void *context, unsigned depth, const char *name, tf_error *err) {
    (void)err;
    recording *r = context;
    if (depth < REPORT_DEPTH_MAX) r->cases[depth] = name;
    tap_enter(&r->tap, name);
    return TF_OK;
}

static tf_status on_leave(void *context, unsigned depth, const char *name, bool held,
                          tf_error *err) {
    (void)depth, (void)held, (void)err;
    recording *r = context;
    tap_leave(&r->tap, name);
    print_tap(r);
    return TF_OK;
}

static tap_outcome tap_of(report_outcome outcome) {
    switch (outcome) {
    case REPORT_OK:
        return TAP_OK;
    case REPORT_FAILED:
        return TAP_NOT_OK;
    case REPORT_SKIPPED:
        return TAP_SKIP;
    case REPORT_ERROR:
        return TAP_ERROR;
    }
    return TAP_ERROR;
}

static tf_status on_point(void *context, unsigned depth, const report_point *p, tf_error *err) {
    recording *r = context;
    bool held = p->outcome == REPORT_OK || p->outcome == REPORT_SKIPPED;
    const tap_field fields[] = {{"message", held ? NULL : p->message},
                                {"word", held ? NULL : p->word},
                                {"at", held ? NULL : p->place},
                                {"detail", held ? NULL : p->detail}};
    const char *reason = p->outcome == REPORT_ERROR ? p->word : p->reason;
    tap_point(&r->tap, tap_of(p->outcome), p->name, reason, fields,
              sizeof fields / sizeof fields[0]);
    if (depth == 0) print_tap(r);
    char name[1024];
    full_name(r, depth, p->name, name, sizeof name);
    r->points++;
    if (r->progress) {
        char line[80];
        snprintf(line, sizeof line, "%llu checked: %.48s", (unsigned long long)r->points, name);
        out_status_line(line);
    }
    if (r->store == NULL) return TF_OK;
    const char *message = p->outcome == REPORT_SKIPPED ? p->reason : p->message;
    return store_case(r->store, name, report_outcome_text(p->outcome), p->word, message, p->place,
                      err);
}

static tf_status on_note(void *context, unsigned depth, const char *line, tf_error *err) {
    (void)depth, (void)err;
    recording *r = context;
    tap_note(&r->tap, line);
    return TF_OK;
}

static void next_call(void *context, size_t index, store_call *row) {
    const tf_calls *calls = context;
    tf_call_row from;
    tf_calls_row(calls, index, &from);
    *row = (store_call){from.ordinal, from.layer, from.kind, from.name, from.line, from.line_bytes};
}

static tf_status on_made(void *context, const report_made *made, tf_error *err) {
    recording *r = context;
    tf_status status = TF_OK;
    char hex[DIGEST_HEX];
    bool known = true;
    if (r->store == NULL) return TF_OK;
    digest_hex(made->digest, hex);
    store_made row = {made->kind, made->name, made->pack, made->world,
                      made->rank, hex,        made->bytes};
    if (made->calls != NULL) {
        status = store_has_calls(r->store, hex, &known, err);
        if (status != TF_OK) return status;
    }
    if (!known) {
        /* The row callback only reads; its context has no const. */
        void *calls;
        memcpy(&calls, &made->calls, sizeof calls);
        status = store_add_calls(r->store, hex, tf_calls_count(made->calls), next_call, calls, err);
        if (status != TF_OK) return status;
    }
    return store_add_made(r->store, &row, err);
}

static tf_status on_pin(void *context, const char *name, const char *verdict, tf_error *err) {
    recording *r = context;
    return r->store == NULL ? TF_OK : store_pin(r->store, name, verdict, err);
}

void recording_begin(recording *r, store *db, unsigned tap_version, bool progress) {
    *r = (recording){.store = db, .progress = progress};
    tap_begin(&r->tap, &r->text, tap_version);
}

report_sink recording_sink(recording *r) {
    return (report_sink){.context = r,
                         .enter = on_enter,
                         .leave = on_leave,
                         .point = on_point,
                         .note = on_note,
                         .made = on_made,
                         .pin = on_pin};
}

void recording_end(recording *r) {
    if (r->progress) out_status_line("");
    /* A run that never began has nothing to say but its failure. */
    if (r->points > 0) {
        tap_finish(&r->tap);
        print_tap(r);
    }
    text_free(&r->text);
}
