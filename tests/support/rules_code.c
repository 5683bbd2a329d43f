/* Rules that look at one source file at a time. */
#include "tests/support/tree.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    FILE_LINES_MAX = 650,
    FUNCTION_LINES_MAX = 72,
    PARAMETERS_MAX = 7,
    NESTING_MAX = 4
};

/* ---- floors ---- */

typedef struct floor_line {
    char place[128];
    char allowed[512]; /* places separated by blanks */
} floor_line;

/* Reads one line of .ci/floors; false for blank lines and comments. */
static bool floor_parse(const char *line, size_t n, floor_line *out) {
    const char *colon = memchr(line, ':', n);
    if (n == 0 || line[0] == '#' || colon == NULL) return false;
    snprintf(out->place, sizeof out->place, "%.*s", (int)(colon - line), line);
    snprintf(out->allowed, sizeof out->allowed, "%.*s", (int)(line + n - colon - 1), colon + 1);
    return true;
}

/* Is path the place itself or inside it?  A place may also be the beginning of file names. */
static bool in_place(const char *path, const char *place, size_t n) {
    if (n == 0 || strncmp(path, place, n) != 0) return false;
    return path[n] == '\0' || path[n] == '/' || path[n] == '.' || path[n] == '_';
}

static bool in_any_place(const char *path, const char *places) {
    for (const char *p = places; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (in_place(path, p, n)) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

/* The line of .ci/floors with the longest place that holds path (header NULL), or that of header. */
static bool floor_of(const char *floors, const char *path, const char *header, floor_line *out) {
    size_t best = 0;
    for (const char *line = floors; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        floor_line f;
        if (floor_parse(line, n, &f)) {
            size_t length = strlen(f.place);
            bool fits =
                header != NULL ? strcmp(f.place, header) == 0 : in_place(path, f.place, length);
            if (fits && length > best) {
                best = length;
                *out = f;
            }
        }
        line += n + (line[n] == '\n');
    }
    return best > 0;
}

static void check_include(const tree_file *f, const char *floors, const char *at, complaints *c) {
    unsigned line = tree_line_of(f->text, at);
    char name[256];
    floor_line floor = {0};
    if (sscanf(at, "#include \"%250[^\"]\"", name) == 1) {
        if (!floor_of(floors, f->path, NULL, &floor)) {
            complain(c, "%s: no line of .ci/floors holds it; add its folder there", f->path);
            return;
        }
        bool same_folder =
            floor.place[0] != '\0' && in_place(name, floor.place, strlen(floor.place));
        if (!same_folder && !in_any_place(name, floor.allowed))
            complain(c, "%s:%u: %s may not include %s; it may include:%s", f->path, line,
                     floor.place, name, floor.allowed);
    } else if (sscanf(at, "#include %250[^ \n]", name) == 1) {
        if (floor_of(floors, "", name, &floor) && !in_any_place(f->path, floor.allowed))
            complain(c, "%s:%u: %s belongs to%s alone; ask that room", f->path, line, name,
                     floor.allowed);
    }
}

void rule_floors(const tree *t, complaints *c) {
    const tree_file *floors = tree_find(t, ".ci/floors");
    if (floors == NULL) {
        complain(c, ".ci/floors: missing");
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        const tree_file *f = &t->files[i];
        if (!tree_is_c(f)) continue;
        for (const char *p = f->text; p != NULL; p = strchr(p, '\n')) {
            p += *p == '\n';
            if (strncmp(p, "#include ", 9) == 0) check_include(f, floors->text, p, c);
            if (*p == '\0') break;
        }
    }
}

/* ---- size ---- */

void rule_files_fit(const tree *t, complaints *c) {
    for (size_t i = 0; i < t->count; i++) {
        const tree_file *f = &t->files[i];
        if (!tree_is_c(f)) continue;
        unsigned lines = tree_line_of(f->text, f->text + strlen(f->text)) - 1;
        if (lines > FILE_LINES_MAX)
            complain(c, "%s: %u lines; split it, %d is the most", f->path, lines, FILE_LINES_MAX);
    }
}

typedef struct function_shape {
    char name[64];
    const char *begin;
    unsigned parameters;
    int depth_max;
} function_shape;

/* head: the text between the last ';' or '}' outside braces and the '{'. */
static bool function_head(const char *head, const char *brace, function_shape *shape) {
    while (head < brace && isspace((unsigned char)*head))
        head++;
    const char *open = memchr(head, '(', (size_t)(brace - head));
    if (open == NULL || memchr(head, '=', (size_t)(brace - head)) != NULL) return false;
    *shape = (function_shape){.begin = head, .depth_max = 0};
    const char *name = open;
    while (name > head && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
        name--;
    snprintf(shape->name, sizeof shape->name, "%.*s", (int)(open - name), name);
    int depth = 0;
    shape->parameters = 1;
    for (const char *p = open; p < brace; p++) {
        depth += (*p == '(') - (*p == ')');
        shape->parameters += *p == ',' && depth == 1;
        if (depth == 0) break;
    }
    return true;
}

static void function_ends(const tree_file *f, const function_shape *shape, const char *end,
                          complaints *c) {
    unsigned first = tree_line_of(f->code, shape->begin);
    unsigned lines = tree_line_of(f->code, end) - first + 1;
    /* A test program's main is a table of its cases. */
    bool table = strcmp(shape->name, "main") == 0 && tree_is_under(f, "tests/");
    if (lines > FUNCTION_LINES_MAX && !table)
        complain(c, "%s:%u: %s has %u lines; %d fit a screen", f->path, first, shape->name, lines,
                 FUNCTION_LINES_MAX);
    if (shape->parameters > PARAMETERS_MAX)
        complain(c, "%s:%u: %s takes %u parameters; over %d, take a struct", f->path, first,
                 shape->name, shape->parameters, PARAMETERS_MAX);
    if (shape->depth_max - 1 > NESTING_MAX)
        complain(c, "%s:%u: %s nests %d deep; over %d, return early or name a part", f->path, first,
                 shape->name, shape->depth_max - 1, NESTING_MAX);
}

/* Skips a preprocessor line with its continuations. */
static const char *skip_directive(const char *p) {
    while (*p != '\0' && *p != '\n')
        p += *p == '\\' && p[1] == '\n' ? 2 : 1;
    return p;
}

static void functions_of(const tree_file *f, complaints *c) {
    function_shape shape = {0};
    bool inside = false;
    int depth = 0;
    const char *head = f->code;
    for (const char *p = f->code; *p != '\0'; p++) {
        if (*p == '#' && (p == f->code || p[-1] == '\n')) {
            p = skip_directive(p);
            if (depth == 0) head = p;
            if (*p == '\0') return;
        } else if (*p == '{') {
            if (depth++ == 0) inside = function_head(head, p, &shape);
            if (depth > shape.depth_max) shape.depth_max = depth;
        } else if (*p == '}') {
            if (--depth == 0 && inside) function_ends(f, &shape, p, c);
            if (depth == 0) head = p + 1;
        } else if (*p == ';' && depth == 0) {
            head = p + 1;
        }
    }
}

void rule_functions_fit(const tree *t, complaints *c) {
    for (size_t i = 0; i < t->count; i++)
        if (tree_is_c(&t->files[i])) functions_of(&t->files[i], c);
}

/* ---- lines and words ---- */

void rule_lines_are_clean(const tree *t, complaints *c) {
    for (size_t i = 0; i < t->count; i++) {
        const tree_file *f = &t->files[i];
        if (tree_is_under(f, "mutants/")) continue; /* a diff has blanks at ends of lines */
        for (const char *p = f->text; *p != '\0'; p++) {
            bool ends = p[1] == '\n';
            if ((*p == ' ' || *p == '\t') && ends)
                complain(c, "%s:%u: blanks at the end of the line", f->path,
                         tree_line_of(f->text, p));
            if (*p == '\r')
                complain(c, "%s:%u: a carriage return; lines end with LF", f->path,
                         tree_line_of(f->text, p));
            if (*p == '\t' && tree_is_c(f))
                complain(c, "%s:%u: a tab; indent by blanks", f->path, tree_line_of(f->text, p));
        }
        size_t n = strlen(f->text);
        if (n > 0 && f->text[n - 1] != '\n') complain(c, "%s: no newline at its end", f->path);
    }
}

/* "engine/base/io.h" opens with a comment "base/io - what it is for" and has the guard
 * TF_ENGINE_BASE_IO_H. */
void rule_headers_open_with_their_idea(const tree *t, complaints *c) {
    for (size_t i = 0; i < t->count; i++) {
        const tree_file *f = &t->files[i];
        size_t n = strlen(f->path);
        if (n < 2 || strcmp(f->path + n - 2, ".h") != 0) continue;
        const char *slash = strchr(f->path, '/');
        const char *name = slash == NULL ? f->path : slash + 1;
        char opening[300];
        snprintf(opening, sizeof opening, "/* %.*s - ", (int)strlen(name) - 2, name);
        if (strncmp(f->text, opening, strlen(opening)) != 0)
            complain(c, "%s:1: does not open with '%s': what it is for, its idea, its trap",
                     f->path, opening);
        char guard[300] = "TF_";
        size_t used = 3;
        for (const char *p = f->path; *p != '\0'; p++)
            guard[used++] = (char)(isalnum((unsigned char)*p) ? toupper((unsigned char)*p) : '_');
        guard[used] = '\0';
        if (tree_word(f->code, guard) == NULL)
            complain(c, "%s: its guard is not %s", f->path, guard);
    }
}

typedef struct banned {
    const char *word;
    const char *instead;
    const char *scope;  /* prefixes of paths where it is banned */
    const char *except; /* prefixes where it is the very purpose of the file */
} banned;

static const char ours[] = "engine/ harness/ kernels/";
static const char all_c[] = "engine/ harness/ kernels/ tests/";

static const banned words[] = {
    {"malloc(", "mem_take or an arena (base/arena)", ours, "engine/base/arena.c"},
    {"calloc(", "mem_take or an arena (base/arena)", ours, "engine/base/arena.c"},
    {"realloc(", "mem_grow (base/arena)", ours, "engine/base/arena.c"},
    {"free(", "mem_free (base/arena)", ours, "engine/base/arena.c"},
    {"strdup(", "arena_copy (base/arena)", ours, ""},
    {"alloca(", "an arena (base/arena)", all_c, ""},
    {"strcpy(", "snprintf or base/text", all_c, ""},
    {"strcat(", "snprintf or base/text", all_c, ""},
    {"strncpy(", "snprintf", all_c, ""},
    {"strncat(", "snprintf or base/text", all_c, ""},
    {"sprintf(", "snprintf or base/text", all_c, ""},
    {"vsprintf(", "vsnprintf", all_c, ""},
    {"gets(", "a bounded read", all_c, ""},
    {"strtok(", "strtok_r or strcspn", all_c, ""},
    {"atoi(", "strtoull with its end checked", all_c, ""},
    {"atol(", "strtoull with its end checked", all_c, ""},
    {"atof(", "strtod with its end checked", all_c, ""},
    {"printf(", "a tf_text; harness/cli/out prints", ours, "harness/cli/out.c"},
    {"vprintf(", "a tf_text; harness/cli/out prints", ours, "harness/cli/out.c"},
    {"puts(", "a tf_text; harness/cli/out prints", ours, "harness/cli/out.c"},
    {"putchar(", "a tf_text; harness/cli/out prints", ours, "harness/cli/out.c"},
    {"perror(", "tf_fail_errno", ours, ""},
    {"strerror(", "tf_fail_errno", ours, "engine/base/status.c"},
    {"stdout", "a tf_text; harness/cli/out prints", ours, "harness/cli/out.c"},
    {"stderr", "tf_fail; harness/cli/out prints", ours, "harness/cli/out.c engine/base/check.c"},
    {"exit(", "return a tf_status", ours, "harness/cli/main.c"},
    {"abort(", "TF_ASSERT", ours, "engine/base/check.c"},
    {"assert(", "TF_ASSERT", ours, ""},
    {"getenv(", "an argument; harness/cli reads the environment", ours, "harness/cli/"},
    {"system(", "harness/base/proc", ours, ""},
    {"popen(", "harness/base/proc", ours, ""},
    {"rand(", "a seeded generator", all_c, ""},
    {"random(", "a seeded generator", all_c, ""},
    {"setlocale(", "nothing: recorded text knows no locale", all_c, ""},
    {"time(", "nothing: recorded text knows no time", "engine/", ""},
    {"localtime(", "nothing: recorded text knows no place", ours, ""},
    {"__DATE__", "nothing: a build is the same tomorrow", all_c, ""},
    {"__TIME__", "nothing: a build is the same tomorrow", all_c, ""},
};

/* In comments and documents too. */
static const banned anywhere[] = {
    /* TAP knows a directive of this name. */
    {"TODO", "the work itself, or an issue", "", "harness/base/tap tests/test_tap.c"},
    {"FIXME", "the work itself, or an issue", "", ""},
    {"XXX", "the work itself, or an issue", "", ""},
};

static void find_word(const tree_file *f, const char *text, const banned *b, complaints *c) {
    for (const char *p = tree_word(text, b->word); p != NULL; p = tree_word(p + 1, b->word))
        complain(c, "%s:%u: %s; use %s", f->path, tree_line_of(text, p), b->word, b->instead);
}

void rule_banned_words(const tree *t, complaints *c) {
    for (size_t i = 0; i < t->count; i++) {
        const tree_file *f = &t->files[i];
        for (size_t w = 0; tree_is_c(f) && w < sizeof words / sizeof words[0]; w++)
            if (tree_is_under(f, words[w].scope) && !tree_is_under(f, words[w].except))
                find_word(f, f->code, &words[w], c);
        if (tree_is_under(f, "tests/support/rules_code.c tests/test_tree.c")) continue;
        for (size_t w = 0; w < sizeof anywhere / sizeof anywhere[0]; w++)
            if (!tree_is_under(f, anywhere[w].except)) find_word(f, f->text, &anywhere[w], c);
    }
}

void rule_nolint_has_a_reason(const tree *t, complaints *c) {
    for (size_t i = 0; i < t->count; i++) {
        const tree_file *f = &t->files[i];
        if (!tree_is_c(f) || tree_is_under(f, "tests/support/rules_code.c tests/test_tree.c"))
            continue;
        for (const char *p = strstr(f->text, "NOLINT"); p != NULL; p = strstr(p + 6, "NOLINT")) {
            char check[128] = "";
            char reason[64] = "";
            if (sscanf(p, "NOLINTNEXTLINE(%127[^)\n]): %63[^\n]", check, reason) != 2)
                complain(c, "%s:%u: write NOLINTNEXTLINE(check): reason", f->path,
                         tree_line_of(f->text, p));
        }
    }
}
