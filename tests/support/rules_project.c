/* Rules that hold between files. */
#include "tests/support/tree.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_test(const tree_file *f) {
    return tree_is_under(f, "tests/test_ tests/fuzz/fuzz_") && tree_is_c(f);
}

/* Does any test program but the one about the tree hold the text? */
static bool tests_hold(const tree *t, const char *text, bool as_word) {
    for (size_t i = 0; i < t->count; i++) {
        const tree_file *f = &t->files[i];
        if (!is_test(f) || tree_is_under(f, "tests/test_tree.c")) continue;
        if ((as_word ? tree_word(f->text, text) : strstr(f->text, text)) != NULL) return true;
    }
    return false;
}

static char *read_whole(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    enum {
        LIMIT = 8 << 20
    };
    char *text = malloc(LIMIT + 1);
    size_t n = text == NULL ? 0 : fread(text, 1, LIMIT, file);
    if (text != NULL) text[n] = '\0';
    fclose(file);
    return text;
}

void rule_every_file_is_built(const tree *t, complaints *c) {
    char path[1024];
    snprintf(path, sizeof path, "%s/compile_commands.json", t->build);
    char *commands = read_whole(path);
    if (commands == NULL) {
        complain(c, "%s: missing; build with a preset of CMakePresets.json", path);
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        const tree_file *f = &t->files[i];
        size_t n = strlen(f->path);
        if (!tree_is_c(f)) continue;
        if (strcmp(f->path + n - 2, ".c") == 0) {
            char ending[300];
            snprintf(ending, sizeof ending, "/%s\"", f->path);
            if (strstr(commands, ending) == NULL)
                complain(c, "%s: no target builds it; lay it where CMakeLists.txt looks", f->path);
            continue;
        }
        bool used = false;
        char line[300];
        snprintf(line, sizeof line, "#include \"%s\"", f->path);
        for (size_t j = 0; j < t->count && !used; j++)
            used = j != i && strstr(t->files[j].text, line) != NULL;
        if (!used) complain(c, "%s: nobody includes it; remove it", f->path);
    }
    free(commands);
}

/* A room's header is what others see of it, so a test must see it too.  A header without a source
 * of its own (limits, tables of functions) is seen through its users. */
void rule_every_room_has_a_test(const tree *t, complaints *c) {
    for (size_t i = 0; i < t->count; i++) {
        const tree_file *f = &t->files[i];
        size_t n = strlen(f->path);
        if (!tree_is_under(f, "engine/ harness/") || strcmp(f->path + n - 2, ".h") != 0) continue;
        char source[256];
        snprintf(source, sizeof source, "%.*s.c", (int)n - 2, f->path);
        if (tree_find(t, source) == NULL) continue;
        char line[300];
        snprintf(line, sizeof line, "#include \"%s\"", f->path);
        if (!tests_hold(t, line, false))
            complain(c, "%s: no tests/test_*.c includes it; write one", f->path);
    }
}

void rule_every_code_word_is_provoked(const tree *t, complaints *c) {
    const tree_file *list = tree_find(t, "engine/base/words.def");
    if (list == NULL) {
        complain(c, "engine/base/words.def: missing");
        return;
    }
    for (const char *p = strstr(list->text, "\nWORD("); p != NULL; p = strstr(p + 1, "\nWORD(")) {
        char name[64];
        char word[64];
        if (sscanf(p, "\nWORD(%63[A-Z0-9_], %*[A-Z_], \"%63[^\"]\"", name, word) != 2) {
            complain(c,
                     "engine/base/words.def:%u: not WORD(NAME, TF_STATUS, \"word\", \"meaning\")",
                     tree_line_of(list->text, p + 1));
            continue;
        }
        char constant[80];
        char shown[80];
        snprintf(constant, sizeof constant, "TF_W_%s", name);
        char quoted[80];
        snprintf(shown, sizeof shown, "[%s]", word);
        snprintf(quoted, sizeof quoted, "\"%s\"", word);
        if (!tests_hold(t, constant, true) && !tests_hold(t, shown, false) &&
            !tests_hold(t, quoted, false))
            complain(c, "engine/base/words.def:%u: no test provokes %s; write a case that cites %s",
                     tree_line_of(list->text, p + 1), word, constant);
    }
}

/* ---- mutants ---- */

/* The value of a header line of a mutant, before the diff; "" when absent. */
static void mutant_field(const char *text, const char *key, char *value, size_t size) {
    value[0] = '\0';
    size_t n = strlen(key);
    for (const char *line = text; *line != '\0' && strncmp(line, "diff ", 5) != 0;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, key, n) == 0 && line[n] == ':') {
            const char *at = line + n + 1 + strspn(line + n + 1, " ");
            snprintf(value, size, "%.*s", (int)(line + length - at), at);
            return;
        }
        line += length + (line[length] == '\n');
    }
}

static bool case_exists(const tree *t, const char *name) {
    /* What a pin script prints is named after the pin, not in any source. */
    if (strncmp(name, "pins/", 5) == 0) return true;
    char quoted[200];
    snprintf(quoted, sizeof quoted, "{\"%s\"", name);
    for (size_t i = 0; i < t->count; i++)
        if (is_test(&t->files[i]) && strstr(t->files[i].text, quoted) != NULL) return true;
    return false;
}

static void check_expect(const tree *t, const tree_file *f, complaints *c) {
    char expect[1024];
    mutant_field(f->text, "Expect", expect, sizeof expect);
    if (expect[0] == '\0')
        complain(c, "%s: no Expect line; name the cases that must fail", f->path);
    char *rest = expect;
    for (char *name = strtok_r(expect, ", ", &rest); name != NULL;
         name = strtok_r(NULL, ", ", &rest))
        if (!case_exists(t, name))
            complain(c, "%s: Expect names %s, which no table of cases in tests/ holds", f->path,
                     name);
}

void rule_every_mutant_names_a_case(const tree *t, complaints *c) {
    for (size_t i = 0; i < t->count; i++) {
        const tree_file *f = &t->files[i];
        size_t n = strlen(f->path);
        if (!tree_is_under(f, "mutants/") || n < 7 || strcmp(f->path + n - 6, ".patch") != 0)
            continue;
        char value[512];
        mutant_field(f->text, "Mutant", value, sizeof value);
        char stem[256];
        snprintf(stem, sizeof stem, "%.*s", (int)(n - 6 - 8), f->path + 8);
        if (strcmp(value, stem) != 0)
            complain(c, "%s: its Mutant line says '%s'; the file name says '%s'", f->path, value,
                     stem);
        mutant_field(f->text, "Why", value, sizeof value);
        if (value[0] == '\0') complain(c, "%s: no Why line; say what goes wrong", f->path);
        check_expect(t, f, c);
    }
}

/* ---- changelog ---- */

static bool is_one_of(const char *line, size_t n, const char *const *options) {
    for (; *options != NULL; options++)
        if (strlen(*options) == n && strncmp(line, *options, n) == 0) return true;
    return false;
}

/* "## [1.2.3] - 2026-12-01" */
static bool is_release(const char *line, unsigned version[3]) {
    unsigned year, month, day;
    int end = 0;
    return sscanf(line, "## [%u.%u.%u] - %4u-%2u-%2u%n", &version[0], &version[1], &version[2],
                  &year, &month, &day, &end) == 6 &&
           (line[end] == '\n' || line[end] == '\0') && month >= 1 && month <= 12 && day >= 1 &&
           day <= 31;
}

static bool is_older(const unsigned a[3], const unsigned b[3]) {
    for (int i = 0; i < 3; i++)
        if (a[i] != b[i]) return a[i] < b[i];
    return false;
}

void rule_changelog_form(const tree *t, complaints *c) {
    static const char *const kinds[] = {"### Added",   "### Changed", "### Deprecated",
                                        "### Removed", "### Fixed",   "### Security",
                                        NULL};
    static const char unreleased[] = "## [Unreleased]";
    const tree_file *f = tree_find(t, "CHANGELOG.md");
    if (f == NULL) {
        complain(c, "CHANGELOG.md: missing");
        return;
    }
    if (strncmp(f->text, "# Changelog\n", 12) != 0)
        complain(c, "CHANGELOG.md:1: the title is '# Changelog'");
    unsigned last[3] = {~0u, ~0u, ~0u};
    unsigned sections = 0;
    unsigned number = 0;
    for (const char *line = f->text; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        number++;
        unsigned version[3];
        if (strncmp(line, "## ", 3) == 0) {
            bool first =
                sections++ == 0 && n == strlen(unreleased) && strncmp(line, unreleased, n) == 0;
            if (!first && !is_release(line, version))
                complain(c, "CHANGELOG.md:%u: write '## [1.2.3] - YYYY-MM-DD'", number);
            else if (!first && !is_older(version, last))
                complain(c, "CHANGELOG.md:%u: the newest release comes first", number);
            else if (!first)
                memcpy(last, version, sizeof last);
        } else if (strncmp(line, "### ", 4) == 0 && !is_one_of(line, n, kinds)) {
            complain(c,
                     "CHANGELOG.md:%u: a heading is Added, Changed, Deprecated, Removed, Fixed "
                     "or Security",
                     number);
        }
        line += n + (line[n] == '\n');
    }
    if (sections == 0) complain(c, "CHANGELOG.md: no section; begin with '## [Unreleased]'");
}
