#include "harness/base/tap.h"

#include "engine/base/check.h"

#include <string.h>

/* ---- writing ---- */

static void indent(tap_writer *w) {
    for (unsigned i = 0; i < w->depth; i++)
        text_add(w->out, "    ");
}

/* A description or a reason: one line, with what would begin a directive escaped. */
static void put_name(tf_text *out, const char *name) {
    for (const char *p = name; *p != '\0'; p++) {
        if (*p == '\\' || *p == '#') text_char(out, '\\');
        text_char(out, *p == '\n' || *p == '\r' ? ' ' : *p);
    }
}

void tap_begin(tap_writer *w, tf_text *out, unsigned version) {
    *w = (tap_writer){.out = out};
    text_print(out, "TAP version %u\n", version);
}

void tap_enter(tap_writer *w, const char *name) {
    TF_ASSERT(w->depth + 1 < TAP_DEPTH_MAX);
    indent(w);
    text_add(w->out, "# Subtest: ");
    put_name(w->out, name);
    text_char(w->out, '\n');
    w->depth++;
    w->levels[w->depth] = (tap_level){0};
}

static void put_plan(tap_writer *w) {
    indent(w);
    text_print(w->out, "1..%llu\n", (unsigned long long)w->levels[w->depth].points);
}

void tap_leave(tap_writer *w, const char *name) {
    TF_ASSERT(w->depth > 0);
    const tap_level inner = w->levels[w->depth];
    put_plan(w);
    w->depth--;
    tap_point(w, inner.bad == 0 && inner.points > 0 ? TAP_OK : TAP_NOT_OK, name, NULL, NULL, 0);
}

/* A YAML scalar: one line in double quotes, several as a block.  Readers of TAP know only a part of
 * YAML: a block whose first line is its least indented, and whose empty lines are indented too. */
static void put_value(tap_writer *w, const char *value) {
    bool block = strchr(value, '\n') != NULL && value[0] != ' ' && value[0] != '\n';
    if (!block) {
        text_char(w->out, ' ');
        /* A JSON string is a YAML string. */
        text_json(w->out, value);
        text_char(w->out, '\n');
        return;
    }
    text_add(w->out, " |\n");
    for (const char *line = value; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        indent(w);
        text_add(w->out, "    ");
        text_add_n(w->out, line, n);
        text_char(w->out, '\n');
        line += n + (line[n] == '\n');
    }
}

static void put_fields(tap_writer *w, const tap_field *fields, size_t count) {
    size_t given = 0;
    for (size_t i = 0; i < count; i++)
        given += fields[i].value != NULL;
    if (given == 0) return;
    indent(w);
    text_add(w->out, "  ---\n");
    for (size_t i = 0; i < count; i++) {
        if (fields[i].value == NULL) continue;
        indent(w);
        text_print(w->out, "  %s:", fields[i].key);
        put_value(w, fields[i].value);
    }
    indent(w);
    text_add(w->out, "  ...\n");
}

void tap_point(tap_writer *w, tap_outcome outcome, const char *name, const char *reason,
               const tap_field *fields, size_t field_count) {
    static const char *const directives[] = {[TAP_OK] = NULL,
                                             [TAP_NOT_OK] = NULL,
                                             [TAP_SKIP] = "SKIP",
                                             [TAP_TODO] = "TODO",
                                             [TAP_ERROR] = "ERROR"};
    tap_level *level = &w->levels[w->depth];
    bool ok = outcome == TAP_OK || outcome == TAP_SKIP;
    level->bad += outcome == TAP_NOT_OK || outcome == TAP_ERROR;
    indent(w);
    text_print(w->out, "%s %llu - ", ok ? "ok" : "not ok", (unsigned long long)++level->points);
    put_name(w->out, name);
    if (directives[outcome] != NULL) {
        text_print(w->out, " # %s", directives[outcome]);
        if (reason != NULL && reason[0] != '\0') text_char(w->out, ' ');
        if (reason != NULL) put_name(w->out, reason);
    }
    text_char(w->out, '\n');
    put_fields(w, fields, field_count);
}

void tap_note(tap_writer *w, const char *lines) {
    for (const char *line = lines; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        indent(w);
        text_add(w->out, n == 0 ? "#" : "# ");
        text_add_n(w->out, line, n);
        text_char(w->out, '\n');
        line += n + (line[n] == '\n');
    }
}

void tap_finish(tap_writer *w) {
    while (w->depth > 0)
        tap_leave(w, "ended early");
    put_plan(w);
}

void tap_bail_out(tap_writer *w, const char *reason) {
    text_add(w->out, "Bail out! ");
    put_name(w->out, reason);
    text_char(w->out, '\n');
}

bool tap_held(const tap_writer *w) {
    return w->levels[0].bad == 0 && w->levels[0].points > 0;
}
