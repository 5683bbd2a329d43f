/* pins/pins - compares what a run made with what was captured, or captures it.
 *
 * Idea: a subject is a name and a text.  A check only ever reads; a capture writes beside the pin
 * (`name.txt.new`) and leaves the pin alone until a person accepts it (review.h).
 * Trap: a subject without a pin is a mismatch, never a silent capture; and a run that saw only part
 * of the subjects knows nothing about pins no subject claimed. */
#ifndef TF_HARNESS_PINS_PINS_H
#define TF_HARNESS_PINS_PINS_H

#include "engine/base/digest.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Consecutive bytes of a text that a reader thinks of as one: a layer. */
typedef struct pin_span {
    const char *name; /* letters, digits, _ + . - */
    size_t begin, end;
} pin_span;

typedef struct pin_subject {
    const char *name;    /* flash/w3/r2/plan: see pinfile_check_name */
    const char *what;    /* one line for a reader: "plan of flash, world 3, rank 2" */
    const char *made_by; /* the command line that prints this text */
    const char *text;
    size_t bytes;
    const pin_span *spans; /* cover the text in order; none: a part is a thousand lines */
    size_t span_count;
} pin_subject;

typedef struct pin_options {
    const char *root;     /* project root; pins lie in root/pins */
    const char *run;      /* the run that claims these pins */
    const char *pattern;  /* pinfile_match; NULL: all */
    const char *revision; /* for captured-at; NULL or "": none */
    const char *command;  /* how a person calls the tool, for messages: "build/tfverify" */
    bool capture;         /* differences become pending pins */
    bool accept;          /* with capture: straight into place */
    bool ci;              /* refuse to write anything */
} pin_options;

typedef enum {
    PIN_SAME,
    PIN_CHANGED,
    PIN_MISSING,
    PIN_LEFT_OUT, /* the pattern does not select it */
} pin_verdict;

typedef struct pin_counts {
    size_t same, changed, missing, left_out;
    size_t written; /* pending, or in place with accept */
} pin_counts;

typedef struct pin_book pin_book;

/* Copies the options.  Capturing with ci fails with pins-read-only. */
tf_status pin_open(const pin_options *options, pin_book **out, tf_error *err);
void pin_close(pin_book *book);

/* Would the pattern select a subject of this name?  Lets a caller spare the making of its text. */
bool pin_wants(const pin_book *book, const char *name);
/* Claims a name the pattern leaves out without its text. */
tf_status pin_claim(pin_book *book, const char *name, tf_error *err);
/* Compares, and with capture writes.  A difference fails with pin-changed or pin-missing in a
 * check, and is no failure in a capture; *verdict is set in both, and report gets what a person
 * must see: the first difference in context, the expression that changed, the commands. */
tf_status pin_meet(pin_book *book, const pin_subject *subject, pin_verdict *verdict,
                   tf_text *report, tf_error *err);
/* Pins of this run, selected by the pattern, that no subject claimed: one name a line.  Only for a
 * run that met all its subjects. */
tf_status pin_obsolete(pin_book *book, tf_text *names, size_t *count, tf_error *err);
/* For a run that met all its subjects: nothing-checked when a pattern selected none of them. */
tf_status pin_finish(const pin_book *book, tf_error *err);
void pin_count(const pin_book *book, pin_counts *out);

/* root/pins/name.txt, or with pending root/pins/name.txt.new. */
tf_status pin_path(const char *root, const char *name, bool pending, char *to, size_t size,
                   tf_error *err);
/* Names of all pins, or of all pending ones, sorted.  No folder: none.  io_free_names. */
tf_status pin_names(const char *root, bool pending, char ***names, size_t *count, tf_error *err);

#endif
