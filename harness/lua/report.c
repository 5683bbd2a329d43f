#include "harness/lua/report.h"

#include "engine/base/check.h"

#include <stdio.h>
#include <string.h>

const char *report_outcome_text(report_outcome outcome) {
    switch (outcome) {
    case REPORT_OK:
        return "ok";
    case REPORT_FAILED:
        return "failed";
    case REPORT_SKIPPED:
        return "skipped";
    case REPORT_ERROR:
        return "error";
    }
    return "?";
}

tf_status report_enter(report *r, const char *name, tf_error *err) {
    if (r->depth == REPORT_DEPTH_MAX) {
        tf_fail(err, TF_W_SCRIPT_ERROR, "opening the case %s", name);
        return tf_found(err, "%u cases open around it already", r->depth);
    }
    report_case *c = &r->cases[r->depth++];
    *c = (report_case){.opened = false};
    snprintf(c->name, sizeof c->name, "%s", name);
    return TF_OK;
}

/* Tells the sink of every case around that it does not know yet. */
static tf_status open_cases(report *r, tf_error *err) {
    for (unsigned i = 0; i < r->depth; i++) {
        report_case *c = &r->cases[i];
        if (c->opened) continue;
        c->opened = true;
        tf_status status = TF_OK;
        if (r->sink.enter != NULL) status = r->sink.enter(r->sink.context, i, c->name, err);
        if (status != TF_OK) return status;
    }
    return TF_OK;
}

tf_status report_leave(report *r, tf_error *err) {
    TF_ASSERT(r->depth > 0);
    const report_case *c = &r->cases[--r->depth];
    if (!c->opened) return TF_OK;
    if (c->bad && r->depth > 0) r->cases[r->depth - 1].bad = true;
    if (r->sink.leave == NULL) return TF_OK;
    return r->sink.leave(r->sink.context, r->depth, c->name, !c->bad, err);
}

tf_status report_add(report *r, const report_point *point, tf_error *err) {
    switch (point->outcome) {
    case REPORT_OK:
        r->counts.held++;
        break;
    case REPORT_FAILED:
        r->counts.failed++;
        break;
    case REPORT_SKIPPED:
        r->counts.skipped++;
        break;
    case REPORT_ERROR:
        r->counts.errors++;
        break;
    }
    bool bad = point->outcome == REPORT_FAILED || point->outcome == REPORT_ERROR;
    if (bad && r->depth > 0) r->cases[r->depth - 1].bad = true;
    tf_status status = open_cases(r, err);
    if (status != TF_OK || r->sink.point == NULL) return status;
    return r->sink.point(r->sink.context, r->depth, point, err);
}

tf_status report_note(report *r, const char *text, tf_error *err) {
    /* A note alone opens no case: one that nothing was checked in stays unseen. */
    unsigned depth = 0;
    while (depth < r->depth && r->cases[depth].opened)
        depth++;
    while (*text != '\0' && r->sink.note != NULL) {
        char line[1024];
        size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), text);
        tf_status status = r->sink.note(r->sink.context, depth, line, err);
        if (status != TF_OK) return status;
        text += n + (text[n] == '\n');
    }
    return TF_OK;
}

tf_status report_tell_made(report *r, const report_made *made, tf_error *err) {
    return r->sink.made == NULL ? TF_OK : r->sink.made(r->sink.context, made, err);
}

tf_status report_tell_pin(report *r, const char *name, const char *verdict, tf_error *err) {
    return r->sink.pin == NULL ? TF_OK : r->sink.pin(r->sink.context, name, verdict, err);
}
