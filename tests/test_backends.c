/* The table of devices and exchanges: each name opens, a mistyped one is named with the nearest. */
#include "engine/port/backends.h"

#include "tests/support/check.h"

#include <string.h>

static void every_device_opens(check_case *t) {
    const char *const *names = backend_device_names();
    CHECK_STR(t, names[0], "cpu");
    for (; *names != NULL; names++) {
        device_settings settings = {.threads = 1, .isa = "scalar"};
        device *d = NULL;
        tf_error err = {0};
        if (!CHECK_U64(t, backend_device(*names, &settings, &d, &err), TF_OK)) continue;
        CHECK_STR(t, d->ops->name, *names);
        d->ops->close(d);
    }
}

static void unknown_device_is_refused(check_case *t) {
    device_settings settings = {.threads = 1};
    device *d = NULL;
    tf_error err = {0};
    CHECK_U64(t, backend_device("cpuu", &settings, &d, &err), TF_USAGE);
    CHECK_U64(t, err.word, TF_W_UNKNOWN_DEVICE);
    CHECK_STR(t, err.what, "looking for a device 'cpuu'");
    CHECK_STR(t, err.expected, "one of cpu");
    CHECK_STR(t, err.remedy, "did you mean 'cpu'?");
    CHECK(t, d == NULL);
}

static void unknown_exchange_is_refused(check_case *t) {
    exchange_settings settings = {.world = 2};
    exchange *ends[2] = {NULL, NULL};
    uint32_t count = 7;
    tf_error err = {0};
    CHECK_U64(t, backend_exchange("thread", &settings, ends, &count, &err), TF_USAGE);
    CHECK_U64(t, err.word, TF_W_UNKNOWN_EXCHANGE);
    CHECK_STR(t, err.what, "looking for an exchange 'thread'");
    CHECK_STR(t, err.expected, "one of threads, mpi");
    CHECK_STR(t, err.remedy, "did you mean 'threads'?");
    err = (tf_error){0};
    CHECK_U64(t, backend_exchange("", &settings, ends, &count, &err), TF_USAGE);
    CHECK_STR(t, err.remedy, "");
    CHECK(t, count == 7 && ends[0] == NULL);
}

static void settings_reach_the_ends(check_case *t) {
    exchange *ends[3];
    uint32_t count = 0;
    tf_error err = {0};
    exchange_settings settings = {3, 1234, 56, 78};
    CHECK_U64(t, backend_exchange("threads", &settings, ends, &count, &err), TF_OK);
    CHECK_U64(t, count, 3);
    for (uint32_t r = 0; r < count; r++) {
        const exchange *x = ends[r];
        CHECK_STR(t, x->ops->name, "threads");
        CHECK(t, x->world == 3 && x->rank == r && x->wait_ms == 1234 && x->delay_us_max == 56);
        CHECKF(t, r == 0 || x->delay_state != ends[0]->delay_state, "ranks share their delays");
    }
    for (uint32_t r = 0; r < count; r++)
        ends[r]->ops->close(ends[r]);
    settings = (exchange_settings){.world = 1};
    CHECK_U64(t, backend_exchange("threads", &settings, ends, &count, &err), TF_OK);
    CHECK_U64(t, ends[0]->wait_ms, EXCHANGE_WAIT_MS);
    ends[0]->ops->close(ends[0]);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"backends/every-device-opens", every_device_opens},
        {"backends/unknown-device-is-refused", unknown_device_is_refused},
        {"backends/unknown-exchange-is-refused", unknown_exchange_is_refused},
        {"backends/settings-reach-the-ends", settings_reach_the_ends},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
