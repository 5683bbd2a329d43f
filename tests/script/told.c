#include "tests/script/told.h"

#include <stdio.h>
#include <string.h>

static void tell(told *to, unsigned depth, const char *line) {
    size_t used = strlen(to->text);
    snprintf(to->text + used, sizeof to->text - used, "%*s%s\n", (int)depth * 2, "", line);
}

static tf_status on_enter(void *context, unsigned depth, const char *name, tf_error *err) {
    (void)err;
    char line[400];
    snprintf(line, sizeof line, "> %s", name);
    tell(context, depth, line);
    return TF_OK;
}

static tf_status on_leave(void *context, unsigned depth, const char *name, bool held,
                          tf_error *err) {
    (void)err, (void)name;
    tell(context, depth, held ? "< held" : "< bad");
    return TF_OK;
}

static tf_status on_point(void *context, unsigned depth, const report_point *p, tf_error *err) {
    (void)err;
    told *to = context;
    char line[2400];
    snprintf(line, sizeof line, "%s %s%s%s%s%s%s%s", report_outcome_text(p->outcome), p->name,
             p->reason == NULL ? "" : " # ", p->reason == NULL ? "" : p->reason,
             p->word == NULL ? "" : " @", p->word == NULL ? "" : p->place,
             p->word == NULL ? "" : " ", p->message == NULL ? "" : p->message);
    tell(to, depth, line);
    size_t used = strlen(to->details);
    if (p->detail != NULL)
        snprintf(to->details + used, sizeof to->details - used, "%s\n", p->detail);
    return TF_OK;
}

static tf_status on_note(void *context, unsigned depth, const char *line, tf_error *err) {
    (void)err;
    char noted[1200];
    snprintf(noted, sizeof noted, "# %s", line);
    tell(context, depth, noted);
    return TF_OK;
}

static tf_status on_made(void *context, const report_made *made, tf_error *err) {
    (void)err;
    told *to = context;
    to->made += made->kind != NULL && made->name != NULL && made->pack != NULL;
    return TF_OK;
}

static tf_status on_pin(void *context, const char *name, const char *verdict, tf_error *err) {
    (void)err, (void)name, (void)verdict;
    told *to = context;
    to->pins++;
    return TF_OK;
}

report_sink told_sink(told *to) {
    return (report_sink){to, on_enter, on_leave, on_point, on_note, on_made, on_pin};
}
