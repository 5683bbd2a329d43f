#include "tests/support/lists.h"

#include "engine/tf.h"

#include <string.h>

const tf_pack *lists_pack(check_case *t, const char *name) {
    static struct {
        const char *name;
        tf_pack *pack;
    } open[4];
    for (size_t i = 0; i < COUNT(open); i++) {
        if (open[i].pack != NULL && strcmp(open[i].name, name) == 0) return open[i].pack;
        if (open[i].pack != NULL) continue;
        tf_error err = {0};
        tf_pack_open(name, TF_BUILD_DIR "/packs", &open[i].pack, &err);
        char line[2048];
        CHECKF(t, err.status == TF_OK, "%s", tf_error_line(&err, line, sizeof line));
        open[i].name = name;
        return open[i].pack;
    }
    return NULL;
}

tf_plan *lists_plan(check_case *t, const char *pack, uint32_t world, uint32_t rank) {
    const tf_pack *p = lists_pack(t, pack);
    tf_plan *plan = NULL;
    tf_error err = {0};
    if (p != NULL) plan_make(p, world, rank, NULL, &plan, &err);
    char line[2048];
    CHECKF(t, plan != NULL, "%s", tf_error_line(&err, line, sizeof line));
    return plan;
}

tf_calls *lists_calls(check_case *t, const tf_plan *plan, call_phase phase, uint32_t rows,
                      uint64_t start) {
    emit_request r = {.phase = phase, .layer = EMIT_ALL_LAYERS, .rows = rows, .start = start};
    tf_calls *calls = NULL;
    tf_error err = {0};
    if (plan != NULL) emit_calls(plan, &r, &calls, &err);
    char line[2048];
    CHECKF(t, calls != NULL, "%s", tf_error_line(&err, line, sizeof line));
    return calls;
}

const tf_calls *lists_shared(check_case *t, size_t index, call_phase phase) {
    static tf_plan *plans[64];
    static tf_calls *lists[64][PHASE_COUNT];
    if (!CHECK(t, index < COUNT(plans))) return NULL;
    const shares_rank *s = &SHARES[index];
    if (plans[index] == NULL) plans[index] = lists_plan(t, s->pack, s->world, s->rank);
    if (plans[index] == NULL) return NULL;
    if (lists[index][phase] == NULL)
        lists[index][phase] = lists_calls(t, plans[index], phase, 0, 0);
    return lists[index][phase];
}

/* What a kernel writes besides y; `both` are read as well. */
static const struct {
    call_kind kind;
    const char *arg;
    bool both;
} writes[] = {
    {CALL_COPIES, "streams", false}, {CALL_COPIES, "pre", false},  {CALL_MIX, "pre", false},
    {CALL_MIX, "post", false},       {CALL_MIX, "comb", false},    {CALL_ROUTE, "ids", false},
    {CALL_ROUTE, "weights", false},  {CALL_POST, "streams", true}, {CALL_ENGRAM, "streams", true},
    {CALL_ROPE, "x", true},          {CALL_HASH, "ring", true},    {CALL_COMPRESS, "ring", true},
};

bool lists_writes(call_kind kind, const char *arg) {
    if (strcmp(arg, "y") == 0) return true;
    for (size_t i = 0; i < COUNT(writes); i++) {
        if (writes[i].kind == kind && strcmp(writes[i].arg, arg) == 0) return true;
    }
    return false;
}

bool lists_reads(call_kind kind, const char *arg) {
    if (strcmp(arg, "y") == 0) return false;
    for (size_t i = 0; i < COUNT(writes); i++) {
        if (writes[i].kind == kind && strcmp(writes[i].arg, arg) == 0) return writes[i].both;
    }
    return true;
}
