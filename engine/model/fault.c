#include "engine/model/fault.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

tf_status fault_reached(const planted_fault *f, const char *phase, uint32_t rank, tf_error *err) {
    if (f->act == NULL || f->rank != rank || strcmp(f->phase, phase) != 0) return TF_OK;
    if (strcmp(f->act, "kill") == 0) raise(SIGKILL);
    while (strcmp(f->act, "hang") == 0)
        pause();
    return tf_fail(err, TF_W_PLANTED_FAULT, "rank %u, %s", rank, phase);
}

static tf_status one_of(const char *what, const char *value, const char *const *names,
                        const char *list, tf_error *err) {
    for (; *names != NULL; names++) {
        if (value != NULL && strcmp(value, *names) == 0) return TF_OK;
    }
    tf_fail(err, TF_W_USAGE, "planting a fault: its %s", what);
    tf_found(err, "%s", value == NULL ? "none" : value);
    return tf_expected(err, "%s", list);
}

tf_status fault_check(const planted_fault *f, uint32_t world, tf_error *err) {
    static const char *const acts[] = {"die", "hang", "kill", NULL};
    static const char *const phases[] = {"open", "load", "prefill", "decode", NULL};
    if (f->act == NULL) return TF_OK;
    tf_status status = one_of("act", f->act, acts, "die, hang or kill", err);
    if (status != TF_OK) return status;
    status = one_of("phase", f->phase, phases, "open, load, prefill or decode", err);
    if (status != TF_OK || f->rank < world) return status;
    tf_fail(err, TF_W_USAGE, "planting a fault: its rank");
    tf_found(err, "%u", f->rank);
    return tf_expected(err, "0 to %u", world - 1);
}
