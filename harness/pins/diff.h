/* pins/diff - what changed between two texts: lines, and in a line the token with its expression.
 *
 * Idea: the greedy search for the shortest edit, given up after DIFF_EDITS_MAX edits and begun again
 * at the furthest point reached.  Time is lines x DIFF_EDITS_MAX and memory a constant at worst.
 * Trap: blanks at a line's end, tabs, carriage returns and a missing last newline are differences
 * like any other, so they are made visible; control bytes never reach a terminal. */
#ifndef TF_HARNESS_PINS_DIFF_H
#define TF_HARNESS_PINS_DIFF_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stddef.h>
#include <stdint.h>

/* Edits searched before the search settles for what it has; 2 MB of trace. */
#define DIFF_EDITS_MAX 1024
/* Different token changes listed by a report; the rest are counted together. */
#define DIFF_CHANGES_MAX 24
/* Bytes of a line shown before it is cut. */
#define DIFF_LINE_BYTES_MAX 600

typedef struct diff_text {
    const char *at; /* borrowed; need not end in a NUL */
    size_t bytes;
} diff_text;

typedef struct diff_limits {
    uint32_t context; /* lines around a change */
    uint32_t hunks;   /* shown; 0: all */
    uint32_t lines;   /* shown of one hunk; 0: all */
} diff_limits;

typedef struct diff_totals {
    size_t removed, added; /* lines */
    size_t hunks;
    size_t first_line; /* where the texts first differ, from 1; 0: equal */
} diff_totals;

/* The first token in which two lines differ; fields are empty where a line has no such token. */
typedef struct diff_change {
    char name[48]; /* of the argument it belongs to ("heads"); may be empty */
    char from[96];
    char to[96];
    bool same_expression; /* both end in the same {expression}: only its value changed */
} diff_change;

/* Unified hunks, then the token changes of paired lines with how many lines each touched.
 * Adds nothing to out when the texts are equal.  totals may be NULL. */
tf_status diff_write(tf_text *out, diff_text a, diff_text b, const diff_limits *limits,
                     diff_totals *totals, tf_error *err);
/* False when the lines have the same tokens. */
bool diff_token(const char *a, size_t a_bytes, const char *b, size_t b_bytes, diff_change *out);
/* One line as a person must see it, without its newline. */
void diff_visible(tf_text *out, const char *line, size_t bytes);

#endif
