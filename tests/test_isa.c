/* Which instructions a device computes with. */
#include "engine/cpu/isa.h"

#include "tests/support/check.h"

#include <string.h>

static void the_best_is_chosen_unless_asked(check_case *t) {
    tf_error err = {0};
    cpu_isa isa = CPU_SCALAR;
    CHECK(t, isa_choose(NULL, &isa, &err) == TF_OK);
    CHECK_U64(t, isa, cpu_best_isa());
    for (cpu_isa level = CPU_SCALAR; level <= cpu_best_isa(); level++) {
        CHECK(t, isa_choose(cpu_isa_name(level), &isa, &err) == TF_OK);
        CHECK_U64(t, isa, level);
    }
}

static void what_is_not_there_is_refused(check_case *t) {
    cpu_isa isa = CPU_SCALAR;
    tf_error err = {0};
    CHECK(t, isa_choose("avx3", &isa, &err) != TF_OK);
    CHECK_U64(t, err.word, TF_W_ISA_MISSING);
    CHECK_STR(t, err.found, "avx3");
    if (cpu_best_isa() == CPU_AMX) return;
    cpu_isa above = cpu_best_isa() + 1;
    err = (tf_error){0};
    device *d = NULL;
    CHECK(t, cpu_open(&(device_settings){.isa = cpu_isa_name(above)}, &d, &err) != TF_OK);
    CHECK_U64(t, err.word, TF_W_ISA_MISSING);
    CHECK(t, strstr(err.remedy, cpu_isa_name(cpu_best_isa())) != NULL);
}

static void a_kind_without_a_kernel_is_refused(check_case *t) {
    tf_error err = {0};
    device *d = NULL;
    CHECK(t, cpu_open(&(device_settings){.threads = 1}, &d, &err) == TF_OK);
    CHECK(t, !cpu_has(CALL_SHARE_ROWS));
    args_share_rows a = {0};
    port_launch l = {CALL_SHARE_ROWS, "embed", 1, &a};
    CHECK(t, d->ops->reserve(d, &l, &err) != TF_OK);
    CHECK_U64(t, err.word, TF_W_NO_KERNEL);
    d->ops->close(d);
}

static const check_entry cases[] = {
    {"isa/the-best-is-chosen-unless-asked", the_best_is_chosen_unless_asked},
    {"isa/what-is-not-there-is-refused", what_is_not_there_is_refused},
    {"isa/a-kind-without-a-kernel-is-refused", a_kind_without_a_kernel_is_refused},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
