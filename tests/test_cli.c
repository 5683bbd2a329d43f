/* The command line from outside: exit codes, help, refusals; and its parts that have none. */
#include "engine/base/nearest.h"
#include "engine/tf.h"
#include "harness/cli/args.h"
#include "harness/cli/commands.h"
#include "harness/cli/out.h"
#include "harness/cli/progress.h"
#include "harness/cli/session.h"
#include "harness/cli/subject.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

#define TOOL TF_BUILD_DIR "/tfverify"

static char out[1 << 16];

/* ---- options ---- */

static const command sample = {.name = "sample",
                               .operands = "A [B]",
                               .about = "a sample",
                               .help = "",
                               .options = OPT(WORLD) | OPT(WEIGHTS) | OPT(JSON) | OPT(LAYER),
                               .operands_min = 1,
                               .operands_max = 2};

static tf_status parse(const char *line, args *a, tf_error *err) {
    static char copy[256];
    char *words[16];
    size_t count = 0;
    snprintf(copy, sizeof copy, "%s", line);
    char *rest = copy;
    for (char *w = strtok_r(copy, " ", &rest); w != NULL && count < COUNT(words);
         w = strtok_r(NULL, " ", &rest))
        words[count++] = w;
    *err = (tf_error){0};
    return args_parse(&sample, words, count, a, err);
}

static void options_are_read_in_either_form(check_case *t) {
    args a;
    tf_error err;
    CHECK_U64(t, parse("x --world 3 --weights=2,1,1 --json y", &a, &err), TF_OK);
    CHECK_U64(t, a.number[OPT_WORLD], 3);
    CHECK_U64(t, a.weight_count, 3);
    CHECK_U64(t, a.weights[0], 2);
    CHECK(t, a.given[OPT_JSON] && !a.given[OPT_LAYER]);
    CHECK_U64(t, a.operand_count, 2);
    CHECK_STR(t, a.operands[1], "y");
    CHECK_U64(t, parse("--layer top -- --world", &a, &err), TF_OK);
    CHECK_U64(t, a.number[OPT_LAYER], TF_TOP_LAYER);
    CHECK_STR(t, a.operands[0], "--world");
    CHECK_U64(t, parse("-", &a, &err), TF_OK);
}

static void wrong_options_name_the_thing(check_case *t) {
    static const struct {
        const char *line, *found, *expected;
    } wrong[] = {
        {"x --wrold 3", "--wrold", "--world, perhaps"},
        {"x --rank 3", "--rank", ""},
        {"x --world three", "'three'", "a whole number"},
        {"x --world -1", "'-1'", "a whole number"},
        {"x --world 99999999999999999999", "'99999999999999999999'", "a whole number"},
        {"x --world 4294967296", "'4294967296'", "a whole number"},
        {"x --world", "''", "W"},
        {"x --weights 1,,2", "'1,,2'", "separated by commas"},
        {"x --json=yes", "'yes'", "no value"},
        {"x --json --json", "--json twice", "once"},
        {"x --layer bottom", "'bottom'", "top or all"},
        {"", "0 of its arguments", "A [B]"},
        {"x y z", "'z' too many", "A [B]"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        args a;
        tf_error err;
        CHECKF(t, parse(wrong[i].line, &a, &err) == TF_USAGE && err.word == TF_W_USAGE,
               "'%s' was taken", wrong[i].line);
        CHECKF(t, strstr(err.found, wrong[i].found) != NULL, "'%s': found says '%s'", wrong[i].line,
               err.found);
        CHECKF(t, strstr(err.expected, wrong[i].expected) != NULL, "'%s': expected says '%s'",
               wrong[i].line, err.expected);
    }
}

static void nearest_name_is_one_a_person_meant(check_case *t) {
    static const char *const names[] = {"plan", "emit", "pack synth", "rank verify", "doctor"};
    CHECK_STR(t, tf_nearest("palne", names, COUNT(names)), "plan");
    CHECK_STR(t, tf_nearest("emti", names, COUNT(names)), "emit");
    CHECK_STR(t, tf_nearest("pack snyth", names, COUNT(names)), "pack synth");
    CHECK_STR(t, tf_nearest("doct", names, COUNT(names)), "doctor");
    CHECK(t, tf_nearest("serve", names, COUNT(names)) == NULL);
    CHECK(t, tf_nearest("", names, COUNT(names)) == NULL);
}

/* ---- progress ---- */

static void progress_tells_rate_and_time_left(check_case *t) {
    char line[80];
    progress_line(line, sizeof line, "writing rank 2", "bytes", 1200000000, 2000000000, 2000);
    CHECK_STR(t, line, "writing rank 2: 1.2 GB of 2.0 GB, 60 %, 600 MB/s, 1 s left");
    progress_line(line, sizeof line, "writing", "bytes", 0, 2000, 0);
    CHECK_STR(t, line, "writing: 0 B of 2.0 kB, 0 %");
    progress_line(line, sizeof line, "reading", "files", 1, 1000, 1000);
    CHECK_STR(t, line, "reading: 1 files of 1000 files, 0 %, 1 files/s, 17 min left");
    progress_line(line, sizeof line, "nothing", "bytes", 0, 0, 500);
    CHECK_STR(t, line, "nothing: 0 B of 0 B, 100 %");
}

/* ---- the program ---- */

static int run(check_case *t, const char *arguments) {
    return check_command(t, out, sizeof out, "cd / && %s %s", TOOL, arguments);
}

static void says(check_case *t, const char *arguments, int code, const char *want) {
    int got = run(t, arguments);
    CHECKF(t, got == code, "tfverify %s: exit %d, expected %d; it said:\n%s", arguments, got, code,
           out);
    CHECKF(t, strstr(out, want) != NULL, "tfverify %s: no '%s' in:\n%s", arguments, want, out);
}

static void every_command_has_its_page(check_case *t) {
    static char list[sizeof out];
    CHECK_U64(t, run(t, "--help"), 0);
    memcpy(list, out, sizeof list);
    unsigned commands = 0;
    for (const char *line = list; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        if (strncmp(line, "  ", 2) == 0) {
            char name[64];
            const char *end = strstr(line + 2, "  ");
            snprintf(name, sizeof name, "%.*s --help", end == NULL ? 0 : (int)(end - line - 2),
                     line + 2);
            says(t, name, 0, "Options\n  --help");
            CHECKF(t, strstr(out, "Examples\n  tfverify") != NULL, "%s shows no example", name);
            commands++;
        }
        line += n + (line[n] == '\n');
    }
    CHECK(t, commands > 0);
}

static void a_wrong_command_names_the_nearest(check_case *t) {
    says(t, "doctr", 2, "found 'doctr', expected 'doctor', perhaps [usage]");
    says(t, "doctor --jsno", 2, "found --jsno, expected --json, perhaps [usage]");
    says(t, "serve", 2, "found 'serve' [usage]");
    says(t, "help doctr", 2, "'doctor', perhaps");
    says(t, "", 2, "usage: tfverify COMMAND");
    says(t, "--version", 0, "tfverify " TF_VERSION "\n");
}

static void help_errors_lists_every_word(check_case *t) {
    CHECK_U64(t, run(t, "help errors"), 0);
    for (int word = TF_W_NONE + 1; word < TF_W_COUNT; word++)
        CHECKF(t, strstr(out, tf_word_text((tf_word)word)) != NULL, "%s is not listed",
               tf_word_text((tf_word)word));
}

/* Each `build/tfverify ...` and `tfverify ...` line of the README begins with a command we have. */
static void the_readme_shows_commands_that_exist(check_case *t) {
    static char readme[1 << 16];
    FILE *file = fopen(TF_SOURCE_DIR "/README.md", "r");
    if (!CHECK(t, file != NULL)) return;
    readme[fread(readme, 1, sizeof readme - 1, file)] = '\0';
    fclose(file);
    unsigned seen = 0;
    static const char mark[] = "$ build/tfverify ";
    for (const char *p = strstr(readme, mark); p != NULL; p = strstr(p + 1, mark), seen++) {
        char line[256];
        char arguments[300];
        const char *words = p + sizeof mark - 1;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(words, "\n'#"), words);
        /* An option of another command is refused before --help is answered. */
        snprintf(arguments, sizeof arguments, "%s --help", line);
        CHECKF(t, run(t, arguments) == 0, "README: tfverify %s:\n%s", line, out);
    }
    CHECK(t, seen > 5);
}

static void lost_output_is_a_failure(check_case *t) {
    says(t, "doctor >/dev/full", 3, "writing to standard output");
}

static void a_project_is_found_upwards(check_case *t) {
    const char *dir = check_tmpdir(t);
    int code = check_command(t, out, sizeof out,
                             "mkdir -p %s/a/b && touch %s/scripts.lua && cd %s/a/b && %s doctor "
                             "| grep ^project",
                             dir, dir, dir, TOOL);
    CHECK_U64(t, code, 0);
    CHECKF(t, strstr(out, dir) != NULL && strstr(out, "/a") == NULL, "%s", out);
    code = check_command(t, out, sizeof out, "%s doctor --root %s/a", TOOL, dir);
    CHECK_U64(t, code, 2);
    CHECKF(t, strstr(out, "[no-project]") != NULL, "%s", out);
    code = check_command(t, out, sizeof out, "%s doctor --root %s/none", TOOL, dir);
    CHECK_U64(t, code, 3);
    CHECKF(t, strstr(out, "[cannot-open]") != NULL, "%s", out);
}

static void colour_is_for_terminals_alone(check_case *t) {
    says(t, "doctr", 2, "tfverify: ");
    CHECKF(t, strchr(out, '\033') == NULL, "%s", out);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"cli/options-are-read-in-either-form", options_are_read_in_either_form},
        {"cli/wrong-options-name-the-thing", wrong_options_name_the_thing},
        {"cli/nearest-name-is-one-a-person-meant", nearest_name_is_one_a_person_meant},
        {"cli/progress-tells-rate-and-time-left", progress_tells_rate_and_time_left},
        {"cli/every-command-has-its-page", every_command_has_its_page},
        {"cli/a-wrong-command-names-the-nearest", a_wrong_command_names_the_nearest},
        {"cli/help-errors-lists-every-word", help_errors_lists_every_word},
        {"cli/the-readme-shows-commands-that-exist", the_readme_shows_commands_that_exist},
        {"cli/lost-output-is-a-failure", lost_output_is_a_failure},
        {"cli/a-project-is-found-upwards", a_project_is_found_upwards},
        {"cli/colour-is-for-terminals-alone", colour_is_for_terminals_alone},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
