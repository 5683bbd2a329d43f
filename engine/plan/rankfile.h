/* plan/rankfile - one rank's weights on disk: a file per layer plus `top`.
 *
 * Idea: a file is a tree of digests.  The header holds the index's digest, the index each
 * payload's, padding is zero; so the digest of the front (header and index, up to the first
 * payload) stands for every byte of the file, and one pass over the data makes both the file and
 * its digest.  `set.txt`, written last, lists the files: a folder without it is unfinished.
 * Trap: the plan and the pack digest come from headers alone.  Files of other weights in the same
 * layout differ in payload digests only, so a resumed write compares those with the source.
 *
 * All integers are little-endian.  Header (4096 bytes):
 *     offset size
 *          0    8  magic "TFRANK1\0"
 *          8    4  format version, 1
 *         12    4  layer; 0xffffffff: top
 *         16    4  world
 *         20    4  rank
 *         24   64  family, zero filled
 *         88   16  plan fingerprint
 *        104   16  pack digest
 *        120   16  config digest
 *        136    8  index offset, 4096
 *        144    8  index length
 *        152    8  file length, a multiple of 4096
 *        160    4  entries in the index
 *        164    4  zero
 *        168   16  index digest
 *        184 3896  zero
 *       4080   16  header digest: XXH3-128 of the 4080 bytes before
 * Index: per entry, in plan order
 *          0    2  length of the name
 *          2    2  dims
 *          4    4  zero
 *          8    8  dtype, safetensors' spelling, zero filled
 *         16    8  payload offset, a multiple of 4096
 *         24    8  payload length
 *         32   16  payload digest
 *         48  8*d  shape
 *     48+8*d    n  name, without a NUL
 * Payloads follow in index order, each at the next multiple of 4096; all bytes between are zero. */
#ifndef TF_ENGINE_PLAN_RANKFILE_H
#define TF_ENGINE_PLAN_RANKFILE_H

#include "engine/base/arena.h"
#include "engine/base/digest.h"
#include "engine/base/limits.h"
#include "engine/base/status.h"
#include "engine/base/text.h"
#include "engine/pack/dtype.h"
#include "engine/plan/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANKFILE_ALIGN     4096u
#define RANKFILE_VERSION   1u
#define RANKFILE_SET_TEXT  "set.txt"
#define RANKFILE_NAME_SIZE 16 /* "top.tfr", "L07.tfr", "L1023.tfr" */

typedef struct rankfile_head {
    char family[64];
    uint32_t layer; /* CONFIG_NONE: top */
    uint32_t world, rank;
    tf_digest plan, pack, config;
    uint32_t entries;
    uint64_t index_bytes;
    uint64_t file_bytes;
    tf_digest index;
} rankfile_head;

typedef struct rankfile_entry {
    const char *name; /* NUL-terminated */
    tf_dtype dtype;
    uint32_t dims;
    uint64_t shape[TF_DIMS_MAX];
    uint64_t offset, bytes;
    tf_digest digest;
} rankfile_entry;

/* An open file whose header, index and bounds hold; its payloads are believed by rankfile_check
 * only.  Reading is safe from many threads. */
typedef struct rankfile {
    char path[TF_PATH_BYTES_MAX];
    int fd;
    rankfile_head head;
    rankfile_entry *entries;        /* [head.entries], ascending offsets; file owns */
    const rankfile_entry **by_name; /* [head.entries], ascending names */
    tf_digest digest;               /* of the front: stands for the file's bytes */
    tf_arena arena;
} rankfile;

/* ---- one file ------------------------------------------------------------------------------- */

/* What a file must be: all of rankfile_head but its sizes and index. */
rankfile_head rankfile_want(const tf_plan *plan, uint32_t layer);
/* "top.tfr", "L07.tfr", and back. */
void rankfile_name(uint32_t layer, char name[RANKFILE_NAME_SIZE]);
bool rankfile_parse_name(const char *name, uint32_t *layer);

/* Refuses by word and field a file that is damaged in header, index or length, and with `want` one
 * of another family, world, rank, layer, pack, config or plan, naming both values.  Close with
 * rankfile_close. */
tf_status rankfile_open(const char *path, const rankfile_head *want, rankfile **out, tf_error *err);
void rankfile_close(rankfile *file);
/* NULL when absent. */
const rankfile_entry *rankfile_find(const rankfile *file, const char *name);
/* n bytes at `offset` of the entry's payload. */
tf_status rankfile_read(const rankfile *file, const rankfile_entry *entry, uint64_t offset,
                        void *to, size_t n, tf_error *err);
/* First payload byte of a file with such an index. */
uint64_t rankfile_data_begin(uint64_t index_bytes);

/* The parsers over memory, for rankfile_open and for fuzzing.  `header` is RANKFILE_ALIGN bytes;
 * `front` is all before the first payload.  parse_index fills entries and by_name of a file whose
 * path and head are set and whose arena is empty. */
tf_status rankfile_parse_header(const char *path, const uint8_t *header, uint64_t file_bytes,
                                rankfile_head *head, tf_error *err);
tf_status rankfile_parse_index(rankfile *file, const uint8_t *front, tf_error *err);
/* The inverse: fills front[rankfile_data_begin(head->index_bytes)] and head->index. */
uint64_t rankfile_entry_bytes(const char *name, uint32_t dims);
uint64_t rankfile_index_bytes(const rankfile_entry *entries, uint32_t count);
void rankfile_encode(rankfile_head *head, const rankfile_entry *entries, uint8_t *front);

/* ---- the set of one rank -------------------------------------------------------------------- */

typedef struct rankfile_row {
    char name[RANKFILE_NAME_SIZE];
    uint64_t bytes;
    tf_digest digest;
} rankfile_row;

/* Free with rankfile_set_free; a zeroed one is empty. */
typedef struct rankfile_set {
    rankfile_head head; /* what its files share; layer and sizes mean nothing */
    rankfile_row *rows; /* [count], plan order: top first */
    uint32_t count;
    uint64_t bytes;
    uint32_t kept;    /* files that a resumed write left as they were */
    tf_digest digest; /* rank-file digest: XXH3-128 over per row its name, length as u64, digest */
} rankfile_set;

void rankfile_set_free(rankfile_set *set);
/* Canonical text: what set.txt and a pin hold. */
void rankfile_set_text(const rankfile_set *set, tf_text *out);

typedef struct rankfile_options {
    uint32_t workers; /* 0: one a core, two for writing */
    bool resume;      /* keep files of the same plan and weights that verify in full */
    /* Bytes done of all; one thread at a time; false stops with interrupted.  May be NULL. */
    bool (*progress)(void *context, const char *unit, uint64_t done, uint64_t total);
    void *context;
} rankfile_options;

/* Writes dir/rank<r>/.  Refuses a folder that another process is writing, or that holds rank files
 * which the plan does not name; asks for free space before the first byte.  After any failure no
 * temporary file is left and every file under its final name is whole; after an interruption the
 * finished files stay for resume.  Memory: a few MiB a worker and one front.  out may be NULL. */
tf_status rankfile_write_set(const tf_plan *plan, const char *dir, const rankfile_options *options,
                             rankfile_set *out, tf_error *err);
/* The set those files would be, through the same code, writing nothing. */
tf_status rankfile_digest_set(const tf_plan *plan, const rankfile_options *options,
                              rankfile_set *out, tf_error *err);

typedef enum {
    RANKFILE_VERIFY_NONE,   /* header, index, bounds, set.txt */
    RANKFILE_VERIFY_SAMPLE, /* and the payloads that rankfile_sampled chooses */
    RANKFILE_VERIFY_FULL,   /* and every byte */
} rankfile_verify;

typedef struct rankfile_checked {
    rankfile_set set;
    uint64_t payloads, checked; /* entries, and those whose bytes were read */
    uint64_t bytes_read;
} rankfile_checked;

/* The first and last entry of a file, and about one in 16 of the others, by a digest of the plan's
 * fingerprint and the name: no chance, and no pattern. */
bool rankfile_sampled(const rankfile *file, uint32_t entry);
/* Checks dir/rank<rank>: every file, their agreement with each other, set.txt, and with `plan` (may
 * be NULL) that they are its files with its items.  out may be NULL. */
tf_status rankfile_verify_rank(const char *dir, uint32_t rank, const tf_plan *plan,
                               rankfile_verify mode, const rankfile_options *options,
                               rankfile_checked *out, tf_error *err);
/* Checks every rank<r> under dir, and that they are of one world and pack; the folder of plan's
 * rank (plan may be NULL) must be there and be that plan's.  The report has a line a rank, or is a
 * JSON object. */
tf_status rankfile_verify_set(const char *dir, const tf_plan *plan, rankfile_verify mode, bool json,
                              const rankfile_options *options, tf_text *report, tf_error *err);

#endif
