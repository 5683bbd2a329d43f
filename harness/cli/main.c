/* tfverify - finds the command, runs it, turns its status into the exit code. */
#include "engine/base/nearest.h"
#include "engine/base/thread.h"
#include "engine/tf.h"
#include "harness/cli/commands.h"
#include "harness/cli/out.h"
#include "harness/cli/session.h"
#include "harness/lua/script.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const command *const tables[] = {prove_commands, engine_commands, pack_commands,
                                        model_commands, store_commands,  doctor_commands};

enum {
    TABLES = sizeof tables / sizeof tables[0],
    NAMES_MAX = 64
};

/* The first Ctrl-C asks; with the default action back in place the second one ends the process. */
static void on_signal(int number) {
    (void)number;
    tf_stop_request();
}

static void catch_signals(void) {
    struct sigaction action = {0};
    action.sa_handler = on_signal;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void help_all(tf_text *out) {
    text_add(out, "usage: tfverify COMMAND [OPTIONS] [ARGUMENTS]\n\n"
                  "Proves that a change to a tensor-parallel inference engine is safe before it "
                  "serves.\n\n");
    for (size_t t = 0; t < TABLES; t++)
        for (const command *c = tables[t]; c->name != NULL; c++)
            text_print(out, "  %-14s  %s\n", c->name, c->about);
    text_add(out, "\n"
                  "tfverify COMMAND --help     its options, with examples\n"
                  "tfverify help script        what a run of scripts.lua may use\n"
                  "tfverify help errors        every code word in [brackets] and its exit code\n\n"
                  "Exit: 0 held, 1 a check failed, 2 used wrongly, 3 could not run, 4 interrupted, "
                  "70 a rank died\n");
}

static void help_errors(tf_text *out) {
    for (int word = TF_W_NONE + 1; word < TF_W_COUNT; word++)
        text_print(out, "%-26s exit %-2d  %s\n", tf_word_text((tf_word)word),
                   tf_status_exit(tf_word_status((tf_word)word)), tf_word_meaning((tf_word)word));
}

/* Does name, of one or two words, begin the command line?  *used: how many words. */
static bool spoken(const char *name, char **words, size_t count, size_t *used) {
    size_t first = strcspn(name, " ");
    *used = name[first] == '\0' ? 1 : 2;
    if (count < *used || strlen(words[0]) != first || strncmp(words[0], name, first) != 0)
        return false;
    return *used == 1 || strcmp(words[1], name + first + 1) == 0;
}

static const command *find(char **words, size_t count, size_t *used) {
    for (size_t t = 0; t < TABLES; t++)
        for (const command *c = tables[t]; c->name != NULL; c++)
            if (spoken(c->name, words, count, used)) return c;
    return NULL;
}

/* Commands whose first word is `first`, one a line; their number. */
static size_t list_group(const char *first, tf_text *out) {
    size_t count = 0;
    size_t n = strlen(first);
    for (size_t t = 0; t < TABLES; t++)
        for (const command *c = tables[t]; c->name != NULL; c++)
            if (strncmp(c->name, first, n) == 0 && c->name[n] == ' ') {
                text_print(out, "  %-14s  %s\n", c->name, c->about);
                count++;
            }
    return count;
}

static tf_status unknown_command(char **words, size_t count, tf_error *err) {
    const char *names[NAMES_MAX];
    size_t known = 0;
    bool grouped = false;
    size_t n = strlen(words[0]);
    for (size_t t = 0; t < TABLES; t++)
        for (const command *c = tables[t]; c->name != NULL && known < NAMES_MAX; c++) {
            names[known++] = c->name;
            grouped = grouped || (strncmp(c->name, words[0], n) == 0 && c->name[n] == ' ');
        }
    char given[128];
    tf_text pair = {0};
    text_add(&pair, words[0]);
    if (count > 1 && (grouped || words[1][0] != '-')) text_print(&pair, " %s", words[1]);
    size_t keep = pair.length < sizeof given ? pair.length : sizeof given - 1;
    memcpy(given, text_str(&pair), keep);
    given[keep] = '\0';
    text_free(&pair);
    const char *near = tf_nearest(given, names, known);
    if (near == NULL) near = tf_nearest(words[0], names, known);
    tf_fail(err, TF_W_USAGE, "reading the command");
    tf_found(err, "'%s'", grouped ? given : words[0]);
    if (near != NULL) tf_expected(err, "'%s', perhaps", near);
    return tf_remedy(err, "tfverify --help lists the commands");
}

static bool is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

/* Pages without a command; false when the words ask for none. */
static bool help_page(char **words, size_t count, tf_text *out) {
    size_t used;
    if (count == 0 || (count == 1 && is_help(words[0]))) {
        help_all(out);
    } else if (count == 1 && strcmp(words[0], "--version") == 0) {
        text_add(out, "tfverify " TF_VERSION "\n");
    } else if (strcmp(words[0], "help") == 0 && strcmp(words[1], "errors") == 0) {
        help_errors(out);
    } else if (strcmp(words[0], "help") == 0 && strcmp(words[1], "script") == 0) {
        script_help(out);
    } else if (is_help(words[0])) {
        const command *c = find(words + 1, count - 1, &used);
        if (c == NULL) return list_group(words[1], out) > 0;
        args_help(c, out);
    } else if (count == 1 || is_help(words[1])) {
        return find(words, 1, &used) == NULL && list_group(words[0], out) > 0;
    } else {
        return false;
    }
    return true;
}

static tf_status run_command(char *const *argv, const command *c, char **words, size_t count,
                             tf_error *err) {
    tf_status status = TF_OK;
    tf_text page = {0};
    args a;
    session s;
    TF_TRY(args_parse(c, words, count, &a, err));
    if (a.given[OPT_HELP]) {
        args_help(c, &page);
        return out_text(&page, err);
    }
    TF_TRY(session_begin(&s, argv, &a, err));
    TF_TRY(c->run(&s, &a, err));
done:
    return status;
}

static tf_status run(char **argv, size_t count, tf_error *err) {
    char **words = argv + 1;
    tf_text page = {0};
    if (help_page(words, count, &page)) {
        tf_status status = out_text(&page, err);
        /* Nothing was asked, so nothing was answered. */
        return count == 0 && status == TF_OK ? TF_USAGE : status;
    }
    if (is_help(words[0])) {
        words++;
        count--;
    }
    size_t used = 0;
    const command *c = find(words, count, &used);
    if (c == NULL) return unknown_command(words, count, err);
    return run_command(argv, c, words + used, count - used, err);
}

int main(int argc, char **argv) {
    tf_error err = {0};
    catch_signals();
    out_begin(session_colour());
    tf_status status = run(argv, argc > 1 ? (size_t)argc - 1 : 0, &err);
    if (err.status != TF_OK) out_error(&err);
    tf_error lost = {0};
    if (out_finish(&lost) != TF_OK && status == TF_OK) {
        out_error(&lost);
        status = lost.status;
    }
    return tf_status_exit(status);
}
