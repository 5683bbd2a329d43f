/* support/tree - the source tree as data, and the rules of style over it.
 *
 * Idea: a rule reads a tree and complains in lines of "path:line: what, and what instead".  A bad
 * file can be planted beside the real ones, so that each rule is itself tested.
 * Trap: `code` is the text with comments and the insides of literals blanked, of the same length;
 * look for words there and for what people wrote in `text`. */
#ifndef TF_TESTS_SUPPORT_TREE_H
#define TF_TESTS_SUPPORT_TREE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tree_file {
    char path[256]; /* from the root */
    char *text;
    char *code; /* C sources only, else NULL */
} tree_file;

typedef struct tree {
    const char *root;
    const char *build; /* the build folder whose compile_commands.json counts */
    tree_file *files;  /* sorted by path */
    size_t count;
} tree;

typedef struct complaints {
    unsigned count;
    char text[3500]; /* the first ones, a line each */
} complaints;

/* Reads every text file that belongs to the project.  Exits when the root cannot be read. */
void tree_read(tree *t, const char *root, const char *build);
/* Adds a file, or replaces the one of that path. */
void tree_plant(tree *t, const char *path, const char *text);
void tree_free(tree *t);
const tree_file *tree_find(const tree *t, const char *path); /* NULL when absent */
/* Writes all files under dir, which exists.  For rules that ask an outside tool. */
void tree_write(const tree *t, const char *dir);

bool tree_is_c(const tree_file *f);
bool tree_is_under(const tree_file *f, const char *prefixes); /* prefixes separated by blanks */
unsigned tree_line_of(const char *text, const char *at);
/* The next occurrence of word, not as part of a longer identifier; NULL when there is none. */
const char *tree_word(const char *text, const char *word);

void complain(complaints *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The rules.  dir: an empty folder for those that ask an outside tool. */
void rule_floors(const tree *t, complaints *c);
void rule_files_fit(const tree *t, complaints *c);
void rule_functions_fit(const tree *t, complaints *c);
void rule_lines_are_clean(const tree *t, complaints *c);
void rule_headers_open_with_their_idea(const tree *t, complaints *c);
void rule_every_file_is_built(const tree *t, complaints *c);
void rule_every_room_has_a_test(const tree *t, complaints *c);
void rule_every_code_word_is_provoked(const tree *t, complaints *c);
void rule_every_mutant_names_a_case(const tree *t, complaints *c);
void rule_banned_words(const tree *t, complaints *c);
void rule_nolint_has_a_reason(const tree *t, complaints *c);
void rule_changelog_form(const tree *t, complaints *c);

#endif
