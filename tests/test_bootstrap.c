/* bootstrap on machines that lack things, played by a PATH of stand-ins. */
#include "tests/support/check.h"

#include <string.h>

static char out[1 << 15];

/* Tools bootstrap itself is written with; those of the build stay out. */
static const char basics[] =
    "bash env dirname nproc cat cut sort tr sed awk grep head tail mkdir rm";

/* A folder to be the whole PATH: the basics, and stand-ins written by `extra` (shell, in it). */
static const char *machine(check_case *t, const char *extra) {
    const char *dir = check_tmpdir(t);
    int code =
        check_command(t, out, sizeof out,
                      "cd %s && for x in %s; do ln -s \"$(command -v $x || echo /bin/$x)\" .; "
                      "done; %s; chmod +x * 2>/dev/null; true",
                      dir, basics, extra);
    CHECKF(t, code == 0, "cannot set up the stand-ins: %s", out);
    return dir;
}

static int bootstrap(check_case *t, const char *path, const char *arguments) {
    return check_command(t, out, sizeof out, "PATH=%s %s/bootstrap %s", path, TF_SOURCE_DIR,
                         arguments);
}

#define NOT_ROOT "printf '#!/bin/bash\\necho 1000\\n' >id"
#define ROOT     "printf '#!/bin/bash\\necho 0\\n' >id"
/* Writes down what it was asked. */
#define APT                                                                 \
    "printf '#!/bin/bash\\necho \"$*\" >>\"${0%%/*}/asked\"\\n' >apt-get; " \
    "printf '#!/bin/bash\\n[ -e \"${0%%/*}/stale\" ] || exit 0; exit 100\\n' >apt-cache"

static void prints_the_command_where_it_may_not_install(check_case *t) {
    const char *path = machine(t, NOT_ROOT "; " APT);
    CHECK_U64(t, bootstrap(t, path, ""), 3);
    CHECKF(t, strstr(out, "run as root: apt-get install -y --no-install-recommends ") != NULL, "%s",
           out);
    CHECKF(t, strstr(out, "libsqlite3-dev") != NULL && strstr(out, "the store of runs") != NULL,
           "no package with its reason in:\n%s", out);
    CHECK_U64(t, check_command(t, out, sizeof out, "test -e %s/asked", path), 1);
}

static void names_the_packages_of_other_distributions(check_case *t) {
    CHECK_U64(t, bootstrap(t, machine(t, ROOT), "run pins"), 3);
    CHECKF(t, strstr(out, "dnf install") != NULL && strstr(out, "sqlite-devel") != NULL, "%s", out);
    CHECKF(t, strstr(out, "pacman -S") != NULL && strstr(out, "apk add") != NULL, "%s", out);
}

static void refreshes_lists_only_if_they_lack_a_package(check_case *t) {
    const char *path = machine(t, ROOT "; " APT);
    CHECK_U64(t, bootstrap(t, path, ""), 3);
    CHECKF(t, strstr(out, "installed, yet not found") != NULL, "%s", out);
    check_command(t, out, sizeof out, "cat %s/asked", path);
    CHECKF(t, strstr(out, "install -y --no-install-recommends cmake") != NULL, "%s", out);
    CHECKF(t, strstr(out, "update") == NULL, "lists were refreshed without need:\n%s", out);
    path = machine(t, ROOT "; " APT "; touch stale");
    CHECK_U64(t, bootstrap(t, path, ""), 3);
    check_command(t, out, sizeof out, "cat %s/asked", path);
    CHECKF(t, strstr(out, "update") != NULL, "lists were not refreshed:\n%s", out);
}

static void goes_through_sudo_when_it_is_there(check_case *t) {
    const char *path =
        machine(t, NOT_ROOT "; " APT "; printf '#!/bin/bash\\n[ \"$1\" = -n ] && exit 0; "
                            "echo \"$*\" >>\"${0%%/*}/sudo-asked\"\\n' >sudo");
    CHECK_U64(t, bootstrap(t, path, ""), 3);
    check_command(t, out, sizeof out, "cat %s/sudo-asked", path);
    CHECKF(t, strstr(out, "env DEBIAN_FRONTEND=noninteractive apt-get") != NULL, "%s", out);
}

/* All that is needed is there, played by stand-ins; MPI is not. */
#define ALL_NEEDED                                                            \
    "for x in cc ninja make git prove; do printf '#!/bin/bash\n' >$x; done; " \
    "printf '#!/bin/bash\n[ \"$2\" != ompi-c ]\n' >pkg-config; "              \
    "printf '#!/bin/bash\necho cmake version 3.25.1\n' >cmake"

static void does_without_what_is_only_wanted(check_case *t) {
    const char *path = machine(t, NOT_ROOT "; " ALL_NEEDED);
    CHECKF(t, bootstrap(t, path, "") == 0, "%s", out);
    CHECKF(t,
           strstr(out, "doing without libopenmpi-dev (ranks as processes), openmpi-bin (starts") !=
               NULL,
           "%s", out);
    CHECKF(t, strstr(out, "bootstrap: next: ") != NULL, "%s", out);
    path = machine(t, ROOT "; " APT "; " ALL_NEEDED);
    CHECK_U64(t, bootstrap(t, path, ""), 0);
    check_command(t, out, sizeof out, "cat %s/asked", path);
    CHECKF(t, strstr(out, "--no-install-recommends libopenmpi-dev openmpi-bin\n") != NULL, "%s",
           out);
}

static void help_needs_nothing(check_case *t) {
    CHECK_U64(t, bootstrap(t, machine(t, "true"), "--help"), 0);
    CHECKF(t, strstr(out, "usage: ./bootstrap") != NULL, "%s", out);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"bootstrap/prints-the-command-where-it-may-not-install",
         prints_the_command_where_it_may_not_install},
        {"bootstrap/names-the-packages-of-other-distributions",
         names_the_packages_of_other_distributions},
        {"bootstrap/refreshes-lists-only-if-they-lack-a-package",
         refreshes_lists_only_if_they_lack_a_package},
        {"bootstrap/goes-through-sudo-when-it-is-there", goes_through_sudo_when_it_is_there},
        {"bootstrap/does-without-what-is-only-wanted", does_without_what_is_only_wanted},
        {"bootstrap/help-needs-nothing", help_needs_nothing},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
