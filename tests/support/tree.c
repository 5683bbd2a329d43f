#include "tests/support/tree.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void stop(const char *what, const char *path) {
    printf("Bail out! %s %s\n", what, path);
    exit(1);
}

void complain(complaints *c, const char *format, ...) {
    c->count++;
    size_t used = strlen(c->text);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(c->text + used, sizeof c->text - used, format, args);
    va_end(args);
    /* A line that does not fit is left out whole; the count tells. */
    if (n < 0 || used + (size_t)n + 2 > sizeof c->text)
        c->text[used] = '\0';
    else
        memcpy(c->text + used + (size_t)n, "\n", 2);
}

bool tree_is_under(const tree_file *f, const char *prefixes) {
    const char *p = prefixes;
    while (*p != '\0') {
        size_t n = strcspn(p, " ");
        if (n > 0 && strncmp(f->path, p, n) == 0) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

static bool ends_with(const char *path, const char *tail) {
    size_t n = strlen(path);
    size_t k = strlen(tail);
    return n >= k && strcmp(path + n - k, tail) == 0;
}

bool tree_is_c(const tree_file *f) {
    return ends_with(f->path, ".c") || ends_with(f->path, ".h");
}

unsigned tree_line_of(const char *text, const char *at) {
    unsigned line = 1;
    for (const char *p = text; p < at; p++)
        line += *p == '\n';
    return line;
}

static bool is_word_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

const char *tree_word(const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *p = strstr(text, word); p != NULL; p = strstr(p + 1, word)) {
        bool open_left = p == text || !is_word_char(p[-1]) || !is_word_char(word[0]);
        bool open_right = !is_word_char(p[n]) || !is_word_char(word[n - 1]);
        if (open_left && open_right) return p;
    }
    return NULL;
}

/* Blanks comments and the insides of literals; newlines stay. */
static void blank(char *code) {
    char inside = 0; /* one of / * " ' */
    for (char *p = code; *p != '\0'; p++) {
        if (inside == 0) {
            if (*p == '"' || *p == '\'') {
                inside = *p;
                continue;
            }
            if (*p != '/' || (p[1] != '*' && p[1] != '/')) continue;
            inside = p[1] == '*' ? '*' : '/';
            *p = ' ';
            *++p = ' ';
            continue;
        }
        bool literal = inside == '"' || inside == '\'';
        if (inside == '*' && *p == '*' && p[1] == '/') {
            *p = ' ';
            *++p = ' ';
            inside = 0;
        } else if (inside == '/' && *p == '\n') {
            inside = 0;
        } else if (literal && inside == *p) {
            inside = 0;
        } else {
            if (literal && *p == '\\' && p[1] != '\0') *p++ = ' ';
            if (*p != '\n') *p = ' ';
        }
    }
}

static void set_text(tree_file *f, char *text) {
    f->text = text;
    f->code = NULL;
    if (!tree_is_c(f)) return;
    size_t n = strlen(text) + 1;
    f->code = malloc(n);
    if (f->code == NULL) stop("out of memory at", f->path);
    memcpy(f->code, text, n);
    blank(f->code);
}

static tree_file *add(tree *t, const char *path) {
    if ((t->count & (t->count - 1)) == 0) {
        size_t room = t->count == 0 ? 1 : 2 * t->count;
        tree_file *grown = realloc(t->files, room * sizeof *grown);
        if (grown == NULL) stop("out of memory at", path);
        t->files = grown;
    }
    tree_file *f = &t->files[t->count++];
    if (snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path)
        stop("the path is too long:", path);
    return f;
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) stop("cannot read", path);
    size_t n = 0;
    char *text = NULL;
    for (size_t room = 1u << 14;; room *= 2) {
        char *grown = realloc(text, room + 1);
        if (grown == NULL) stop("out of memory at", path);
        text = grown;
        n += fread(text + n, 1, room - n, file);
        if (n < room) break;
    }
    fclose(file);
    text[n] = '\0';
    return text;
}

static bool wanted(const char *path) {
    static const char *const tails[] = {".c",   ".h",  ".def", ".sql", ".lua", ".patch", ".md",
                                        ".txt", ".cu", ".cuh", ".awk", "/run", "floors"};
    if (strcmp(path, "bootstrap") == 0 || strcmp(path, "LICENSE") == 0) return true;
    if (ends_with(path, ".clang-format") || ends_with(path, ".clang-tidy")) return true;
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++)
        if (ends_with(path, tails[i])) return true;
    return false;
}

static bool skipped(const char *name, const char *path) {
    static const char *const folders[] = {"build", ".git", "tests/golden", "pins", ".cache"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (strcmp(path, folders[i]) == 0) return true;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strncmp(path, "build-", 6) == 0;
}

static void walk(tree *t, const char *folder) {
    char full[1024];
    snprintf(full, sizeof full, "%s/%s", t->root, folder);
    DIR *dir = opendir(full);
    if (dir == NULL) stop("cannot list", full);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[512];
        int n = snprintf(path, sizeof path, "%s%s%s", folder, folder[0] == '\0' ? "" : "/",
                         entry->d_name);
        if (n < 0 || (size_t)n >= sizeof path) stop("the path is too long:", path);
        if (skipped(entry->d_name, path)) continue;
        struct stat st;
        snprintf(full, sizeof full, "%s/%s", t->root, path);
        if (lstat(full, &st) != 0) continue;
        if (S_ISDIR(st.st_mode)) {
            walk(t, path);
        } else if (S_ISREG(st.st_mode) && wanted(path)) {
            tree_file *f = add(t, path);
            set_text(f, read_text(full));
        }
    }
    closedir(dir);
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const tree_file *)a)->path, ((const tree_file *)b)->path);
}

void tree_read(tree *t, const char *root, const char *build) {
    *t = (tree){.root = root, .build = build};
    walk(t, "");
    qsort(t->files, t->count, sizeof t->files[0], by_path);
}

const tree_file *tree_find(const tree *t, const char *path) {
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->files[i].path, path) == 0) return &t->files[i];
    return NULL;
}

void tree_plant(tree *t, const char *path, const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = malloc(n);
    if (copy == NULL) stop("out of memory at", path);
    memcpy(copy, text, n);
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->files[i].path, path) == 0) {
            free(t->files[i].text);
            free(t->files[i].code);
            set_text(&t->files[i], copy);
            return;
        }
    set_text(add(t, path), copy);
}

void tree_free(tree *t) {
    for (size_t i = 0; i < t->count; i++) {
        free(t->files[i].text);
        free(t->files[i].code);
    }
    free(t->files);
    *t = (tree){0};
}

void tree_write(const tree *t, const char *dir) {
    for (size_t i = 0; i < t->count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", dir, t->files[i].path);
        for (char *slash = strchr(path + strlen(dir) + 1, '/'); slash != NULL;
             slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            mkdir(path, 0777);
            *slash = '/';
        }
        FILE *file = fopen(path, "wb");
        if (file == NULL || fputs(t->files[i].text, file) < 0 || fclose(file) != 0)
            stop("cannot write", path);
    }
}
