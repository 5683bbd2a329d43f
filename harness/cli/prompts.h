/* cli/prompts - prompts as people write them: lists of token ids.
 *
 * Idea: `--ids 0,12,7` is one prompt; a file has one a line, ids separated by commas or blanks, or a
 * JSON object {"ids": [0, 12, 7]}; empty lines and lines that begin with # are left out.
 * Trap: an id that is no number must not become another; every line is read to its end or refused. */
#ifndef TF_HARNESS_CLI_PROMPTS_H
#define TF_HARNESS_CLI_PROMPTS_H

#include "engine/base/arena.h"
#include "engine/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define PROMPTS_FILE_BYTES_MAX (64u << 20)
#define PROMPTS_IDS_MAX        1048576u /* of a prompt */

typedef struct prompt_ids {
    int32_t *ids; /* arena owns */
    uint32_t count;
    uint32_t line; /* of the file; 0: --ids */
} prompt_ids;

/* Zero it before use; prompts_free afterwards. */
typedef struct prompts {
    prompt_ids *list; /* [count] */
    uint32_t count, capacity;
    const char *path; /* borrowed: the file that was read last */
    tf_arena arena;
} prompts;

void prompts_free(prompts *p);
/* Adds one prompt of a list as --ids has it; `where` is for messages: "--ids", "p.txt line 3". */
tf_status prompts_add(prompts *p, const char *where, const char *text, size_t n, tf_error *err);
/* Adds those of a file's text; fails with bad-prompt, naming the line, and where there is none. */
tf_status prompts_parse(prompts *p, const char *path, const char *text, size_t n, tf_error *err);
tf_status prompts_read(prompts *p, const char *path, tf_error *err);
/* Is every id below `vocab`?  Fails with bad-token, naming line and id. */
tf_status prompts_check(const prompts *p, uint32_t vocab, tf_error *err);

#endif
