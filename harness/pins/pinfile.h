/* pins/pinfile - one pin as a file: a header of fixed order, a line `--`, then the canonical text.
 *
 *     pin 1
 *     name flash/w3/r2/plan              the file's path below pins/, without .txt
 *     what plan of flash, world 3, rank 2
 *     run pins                           the run that claims it
 *     made-by tfverify plan --pack flash --world 3 --rank 2
 *     captured-at 0f3c...                revision whose tool made the text, or none
 *     tool 0.1.0
 *     digest <32 hex>                    XXH3-128 of the whole text
 *     text <bytes> bytes <lines> lines   of the whole text
 *     replaces <32 hex>|none             pending pins only: the digest of the pin it was compared with
 *     head <lines> lines                 only over PIN_WHOLE_BYTES: what follows the header
 *     part <name> <lines> lines <32 hex> only with head: consecutive parts of the whole text
 *     --
 *
 * Idea: everything in the header that speaks about the text below it is checked when it is read.
 * Trap: a pin is compared by its digest; the header's other lines may change without a mismatch. */
#ifndef TF_HARNESS_PINS_PINFILE_H
#define TF_HARNESS_PINS_PINFILE_H

#include "engine/base/arena.h"
#include "engine/base/digest.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Texts up to here are held whole: what a reviewer can still read. */
#define PIN_WHOLE_BYTES (256u * 1024u)
/* Of longer ones whole lines up to here are held. */
#define PIN_HEAD_BYTES (32u * 1024u)
/* Parts of a longer one; a layer each, or lines by the thousand. */
#define PIN_PARTS_MAX 4096u
/* A pin file: the text, the parts, the header. */
#define PIN_FILE_BYTES_MAX (PIN_WHOLE_BYTES + PIN_PARTS_MAX * 128u + 16384u)
#define PIN_NAME_BYTES_MAX 240u
/* Components of a name: folders a walk goes down. */
#define PIN_DEPTH_MAX 8u

typedef struct pin_part {
    const char *name;
    uint64_t lines;
    tf_digest digest;
} pin_part;

/* Zero it before use.  Its arena owns every text. */
typedef struct pin_file {
    tf_arena arena;
    const char *name;
    const char *what;
    const char *run;
    const char *made_by;
    const char *captured_at;
    const char *tool;
    tf_digest digest;
    uint64_t text_bytes, text_lines; /* of the whole text */
    bool pending;                    /* has a `replaces` line */
    tf_digest replaces;              /* pending: zero when there was no pin */
    bool whole;
    const pin_part *parts; /* not whole: at least one */
    size_t part_count;
    const char *text; /* the whole text or its first lines */
    size_t bytes;
} pin_file;

void pinfile_free(pin_file *file);
/* path is for messages.  Fails with pin-damaged, naming the line.  data is copied. */
tf_status pinfile_parse(const char *path, const char *data, size_t n, pin_file *out, tf_error *err);
/* Also refuses a file whose name line is not `name`: a copied or moved pin. */
tf_status pinfile_read(const char *path, const char *name, pin_file *out, tf_error *err);
/* The bytes of the file. */
void pinfile_print(tf_text *out, const pin_file *file);
/* Replaces the file at path, making its folder. */
tf_status pinfile_write(const char *path, const pin_file *file, tf_error *err);

/* Components of [A-Za-z0-9_+.-], none beginning with a dot, joined by `/`.  Else bad-pin-name. */
tf_status pinfile_check_name(const char *name, tf_error *err);
/* Glob with `*` (any bytes, also `/`) and `?` against the name, or the name from any component on:
 * `w3/` followed by a star matches flash/w3/r2/plan.  NULL matches all. */
bool pinfile_match(const char *pattern, const char *name);

#endif
