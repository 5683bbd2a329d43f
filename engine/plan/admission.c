#include "engine/plan/admission.h"

#include "engine/base/check.h"

#include <stdio.h>

#define YES    ADMIT_YES
#define SIGNED ADMIT_SIGNED

/* The one place that decides.  A world that is not named here is refused everywhere; world 8 is
 * open, and canon_partition refuses it by name for a model that has too few units of something. */
static const struct {
    uint32_t world;
    admission of[TF_OP_COUNT]; /* in the order of tf_op */
} worlds[] = {
    /*  plan files decode draft prefill prefetch forward serve gate */
    {1, {YES, YES, YES, YES, YES, YES, YES, YES, YES}},
    {2, {YES, YES, YES, YES, YES, YES, YES, YES, YES}},
    {3, {YES, YES, YES, YES, YES, YES, YES, SIGNED, YES}},
    {4, {YES, YES, YES, YES, YES, YES, YES, YES, YES}},
    {8, {YES, YES, YES, YES, YES, YES, YES, YES, YES}},
};
#define WORLDS (sizeof worlds / sizeof worlds[0])

static void (*spy)(void *context, tf_op op, uint32_t world);
static void *spy_context;

const char *admission_op_name(tf_op op) {
    switch (op) {
    case TF_OP_PLAN:
        return "plan";
    case TF_OP_RANK_FILES:
        return "rank files";
    case TF_OP_EMIT_DECODE:
        return "emit decode";
    case TF_OP_EMIT_DRAFT:
        return "emit draft";
    case TF_OP_EMIT_PREFILL:
        return "emit prefill";
    case TF_OP_EMIT_PREFETCH:
        return "emit prefetch";
    case TF_OP_FORWARD:
        return "forward";
    case TF_OP_SERVE:
        return "serve";
    case TF_OP_GATE:
        return "gate";
    case TF_OP_COUNT:
        break;
    }
    return "unknown operation";
}

admission admission_of(tf_op op, uint32_t world) {
    TF_ASSERT(op >= 0 && op < TF_OP_COUNT);
    for (size_t i = 0; i < WORLDS; i++) {
        if (worlds[i].world == world) return worlds[i].of[op];
    }
    return ADMIT_NO;
}

/* "1, 2, 3, 4, 8" */
static const char *open_worlds(tf_op op, char *buf, size_t size) {
    size_t at = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < WORLDS && at < size; i++) {
        if (worlds[i].of[op] == ADMIT_NO) continue;
        int n = snprintf(buf + at, size - at, "%s%u%s", at > 0 ? ", " : "", worlds[i].world,
                         worlds[i].of[op] == ADMIT_SIGNED ? " (signed off)" : "");
        at += n > 0 ? (size_t)n : size;
    }
    return buf;
}

tf_status admission_ask(tf_op op, uint32_t world, bool has_sign_off, tf_error *err) {
    if (spy != NULL) spy(spy_context, op, world);
    char open[128];
    switch (admission_of(op, world)) {
    case ADMIT_YES:
        return TF_OK;
    case ADMIT_SIGNED:
        if (has_sign_off) return TF_OK;
        tf_fail(err, TF_W_NEEDS_SIGN_OFF, "asking for %s at %u ranks", admission_op_name(op),
                world);
        tf_found(err, "no sign-off");
        tf_expected(err, "a sign-off of this world, plan, pack, binary and device");
        return tf_remedy(err, "pass the gate at %u ranks and have it signed, or use a world of %s",
                         world, open_worlds(op, open, sizeof open));
    case ADMIT_NO:
        break;
    }
    tf_fail(err, TF_W_WORLD_NOT_ADMITTED, "asking for %s", admission_op_name(op));
    tf_found(err, "%u ranks", world);
    tf_expected(err, "%s", open_worlds(op, open, sizeof open));
    return tf_remedy(err, "use a world of %s", open);
}

static const char *admission_word(admission a) {
    switch (a) {
    case ADMIT_NO:
        return "no";
    case ADMIT_YES:
        return "yes";
    case ADMIT_SIGNED:
        return "signed";
    }
    return "unknown";
}

static void describe_json(tf_text *out) {
    text_add(out, "{\"worlds\":[");
    for (size_t i = 0; i < WORLDS; i++)
        text_print(out, "%s%u", i == 0 ? "" : ",", worlds[i].world);
    text_add(out, "],\"other_worlds\":\"no\",\"operations\":{");
    for (int op = 0; op < (int)TF_OP_COUNT; op++) {
        text_print(out, "%s\"%s\":{", op == 0 ? "" : ",", admission_op_name((tf_op)op));
        for (size_t i = 0; i < WORLDS; i++)
            text_print(out, "%s\"%u\":\"%s\"", i == 0 ? "" : ",", worlds[i].world,
                       admission_word(worlds[i].of[op]));
        text_char(out, '}');
    }
    text_add(out, "}}\n");
}

void admission_describe(bool json, tf_text *out) {
    if (json) {
        describe_json(out);
        return;
    }
    text_print(out, "%-14s", "world");
    for (size_t i = 0; i < WORLDS; i++)
        text_print(out, "%-8u", worlds[i].world);
    text_add(out, "any other\n");
    for (int op = 0; op < (int)TF_OP_COUNT; op++) {
        text_print(out, "%-14s", admission_op_name((tf_op)op));
        for (size_t i = 0; i < WORLDS; i++)
            text_print(out, "%-8s", admission_word(worlds[i].of[op]));
        text_add(out, "no\n");
    }
}

void admission_spy(void (*seen)(void *context, tf_op op, uint32_t world), void *context) {
    spy = seen;
    spy_context = context;
}
