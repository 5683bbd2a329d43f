/* plan/rankfile - the format, both ways, and the reader.
 *
 * Idea: nothing is believed before the digest over it held and the file's length confirmed it;
 * then every field is held to the one value the format allows, so that no two files mean the same.
 * Trap: a plan's fingerprint covers pack and config, so those are compared first: the message must
 * name what differs, not what follows from it. */
#include "engine/plan/rankfile.h"

#include "engine/base/check.h"
#include "engine/base/io.h"
#include "engine/plan/rankimage.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t magic[8] = {'T', 'F', 'R', 'A', 'N', 'K', '1', 0};

typedef struct disk_header {
    uint8_t magic[8];
    uint8_t version[4];
    uint8_t layer[4];
    uint8_t world[4];
    uint8_t rank[4];
    uint8_t family[64];
    uint8_t plan[16];
    uint8_t pack[16];
    uint8_t config[16];
    uint8_t index_offset[8];
    uint8_t index_bytes[8];
    uint8_t file_bytes[8];
    uint8_t entries[4];
    uint8_t zero[4];
    uint8_t index[16];
    uint8_t rest[3896];
    uint8_t digest[16];
} disk_header;

static_assert(sizeof(disk_header) == RANKFILE_ALIGN, "the header is one block");
static_assert(offsetof(disk_header, family) == 24, "as the header's table says");
static_assert(offsetof(disk_header, plan) == 88, "as the header's table says");
static_assert(offsetof(disk_header, index_offset) == 136, "as the header's table says");
static_assert(offsetof(disk_header, index) == 168, "as the header's table says");
static_assert(offsetof(disk_header, digest) == 4080, "as the header's table says");

typedef struct disk_entry {
    uint8_t name_bytes[2];
    uint8_t dims[2];
    uint8_t zero[4];
    uint8_t dtype[8];
    uint8_t offset[8];
    uint8_t bytes[8];
    uint8_t digest[16];
} disk_entry; /* the shape and the name follow */

static_assert(sizeof(disk_entry) == 48, "as the header's table says");
static_assert(RANKFILE_ALIGN == IO_ALIGN, "blocks of the file can be written directly");

static void put(uint8_t *to, size_t n, uint64_t value) {
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *from, size_t n) {
    uint64_t value = 0;
    for (size_t i = n; i > 0; i--)
        value = value << 8 | from[i - 1];
    return value;
}

static bool all_zero(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] != 0) return false;
    }
    return true;
}

static uint64_t align_up(uint64_t n) {
    return (n + RANKFILE_ALIGN - 1) / RANKFILE_ALIGN * RANKFILE_ALIGN;
}

uint64_t rankfile_data_begin(uint64_t index_bytes) {
    return RANKFILE_ALIGN + align_up(index_bytes);
}

/* ---- names ---------------------------------------------------------------------------------- */

void rankfile_name(uint32_t layer, char name[RANKFILE_NAME_SIZE]) {
    if (layer == CONFIG_NONE) {
        snprintf(name, RANKFILE_NAME_SIZE, "top.tfr");
    } else {
        snprintf(name, RANKFILE_NAME_SIZE, "L%02" PRIu32 ".tfr", layer);
    }
}

bool rankfile_parse_name(const char *name, uint32_t *layer) {
    char spelled[RANKFILE_NAME_SIZE];
    *layer = CONFIG_NONE;
    if (name[0] == 'L') *layer = (uint32_t)strtoul(name + 1, NULL, 10);
    rankfile_name(*layer, spelled);
    return strcmp(name, spelled) == 0;
}

/* Refusals print it. */
static const char *layer_text(uint32_t layer, char text[24]) {
    if (layer == CONFIG_NONE) {
        snprintf(text, 24, "top");
    } else {
        snprintf(text, 24, "layer %" PRIu32, layer);
    }
    return text;
}

/* ---- encode --------------------------------------------------------------------------------- */

uint64_t rankfile_entry_bytes(const char *name, uint32_t dims) {
    return sizeof(disk_entry) + 8u * dims + strlen(name);
}

uint64_t rankfile_index_bytes(const rankfile_entry *entries, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += rankfile_entry_bytes(entries[i].name, entries[i].dims);
    return bytes;
}

static uint8_t *encode_entry(const rankfile_entry *e, uint8_t *at) {
    size_t name_bytes = strlen(e->name);
    const char *dtype = dtype_name(e->dtype);
    TF_ASSERT(name_bytes >= 1 && name_bytes <= TF_NAME_BYTES_MAX);
    TF_ASSERT(e->dims <= TF_DIMS_MAX && strlen(dtype) <= 8);
    disk_entry d = {0};
    put(d.name_bytes, 2, name_bytes);
    put(d.dims, 2, e->dims);
    memcpy(d.dtype, dtype, strlen(dtype));
    put(d.offset, 8, e->offset);
    put(d.bytes, 8, e->bytes);
    memcpy(d.digest, e->digest.bytes, 16);
    memcpy(at, &d, sizeof d);
    at += sizeof d;
    for (uint32_t i = 0; i < e->dims; i++, at += 8)
        put(at, 8, e->shape[i]);
    memcpy(at, e->name, name_bytes);
    return at + name_bytes;
}

void rankfile_encode(rankfile_head *head, const rankfile_entry *entries, uint8_t *front) {
    TF_ASSERT(head->index_bytes == rankfile_index_bytes(entries, head->entries));
    memset(front, 0, (size_t)rankfile_data_begin(head->index_bytes));
    uint8_t *at = front + RANKFILE_ALIGN;
    for (uint32_t i = 0; i < head->entries; i++)
        at = encode_entry(&entries[i], at);
    head->index = digest_bytes(front + RANKFILE_ALIGN, (size_t)head->index_bytes);

    disk_header d = {0};
    memcpy(d.magic, magic, sizeof magic);
    put(d.version, 4, RANKFILE_VERSION);
    put(d.layer, 4, head->layer);
    put(d.world, 4, head->world);
    put(d.rank, 4, head->rank);
    memcpy(d.family, head->family, strlen(head->family));
    memcpy(d.plan, head->plan.bytes, 16);
    memcpy(d.pack, head->pack.bytes, 16);
    memcpy(d.config, head->config.bytes, 16);
    put(d.index_offset, 8, RANKFILE_ALIGN);
    put(d.index_bytes, 8, head->index_bytes);
    put(d.file_bytes, 8, head->file_bytes);
    put(d.entries, 4, head->entries);
    memcpy(d.index, head->index.bytes, 16);
    memcpy(front, &d, sizeof d);
    tf_digest digest = digest_bytes(front, offsetof(disk_header, digest));
    memcpy(front + offsetof(disk_header, digest), digest.bytes, 16);
}

/* ---- header --------------------------------------------------------------------------------- */

static tf_digest digest_of(const uint8_t bytes[16]) {
    tf_digest d;
    memcpy(d.bytes, bytes, 16);
    return d;
}

static tf_status bad_digest(tf_error *err, tf_word word, const char *path, const char *part,
                            tf_digest found, tf_digest expected) {
    char f[DIGEST_HEX], e[DIGEST_HEX];
    tf_fail(err, word, "reading %s: digest of %s", path, part);
    tf_found(err, "%s", digest_hex(found, f));
    tf_expected(err, "%s", digest_hex(expected, e));
    return tf_remedy(err, "write the rank files again");
}

/* A field beyond what any writer puts there, under a digest that holds. */
static tf_status bad_field(tf_error *err, const char *path, const char *field, uint64_t found,
                           const char *expected) {
    tf_fail(err, TF_W_RANK_HEADER_DAMAGED, "reading %s: %s", path, field);
    tf_found(err, "%" PRIu64, found);
    return tf_expected(err, "%s", expected);
}

static bool family_ok(const uint8_t family[64]) {
    size_t n = 0;
    while (n < 64 && family[n] > 0x20 && family[n] < 0x7f)
        n++;
    return n > 0 && n < 64 && all_zero(family + n, 64 - n);
}

static tf_status check_length(const char *path, uint64_t found, uint64_t expected, tf_error *err) {
    if (found == expected) return TF_OK;
    tf_word word = found < expected ? TF_W_RANK_FILE_CUT : TF_W_RANK_FILE_TOO_LONG;
    tf_fail(err, word, "reading %s: length of the file", path);
    tf_found(err, "%" PRIu64 " bytes", found);
    tf_expected(err, "%" PRIu64 " bytes", expected);
    return tf_remedy(err, "write the rank files again");
}

static tf_status check_fields(const char *path, const disk_header *d, const rankfile_head *head,
                              tf_error *err) {
    if (get(d->index_offset, 8) != RANKFILE_ALIGN)
        return bad_field(err, path, "index offset", get(d->index_offset, 8), "4096");
    if (!family_ok(d->family)) return bad_field(err, path, "family", d->family[0], "a name");
    if (head->world < 1 || head->world > TF_WORLD_MAX)
        return bad_field(err, path, "world", head->world, "1 to 256");
    if (head->rank >= head->world)
        return bad_field(err, path, "rank", head->rank, "less than the world");
    if (head->layer != CONFIG_NONE && head->layer >= TF_LAYERS_MAX)
        return bad_field(err, path, "layer", head->layer, "a layer within the limit, or top");
    if (head->entries > TF_TENSORS_MAX)
        return bad_field(err, path, "entries", head->entries, "at most 4000000");
    if (head->index_bytes > TF_HEADER_BYTES_MAX)
        return bad_field(err, path, "index length", head->index_bytes, "at most 100000000");
    uint64_t data_begin = rankfile_data_begin(head->index_bytes);
    if (head->file_bytes < data_begin || head->file_bytes % RANKFILE_ALIGN != 0 ||
        head->file_bytes > INT64_MAX)
        return bad_field(err, path, "file length", head->file_bytes,
                         "whole blocks of 4096 and no less than the index needs");
    if (!all_zero(d->zero, sizeof d->zero) || !all_zero(d->rest, sizeof d->rest))
        return bad_field(err, path, "unused bytes", 1, "zeros");
    return TF_OK;
}

tf_status rankfile_parse_header(const char *path, const uint8_t *header, uint64_t file_bytes,
                                rankfile_head *head, tf_error *err) {
    disk_header d;
    memset(head, 0, sizeof *head);
    if (file_bytes < RANKFILE_ALIGN) return check_length(path, file_bytes, RANKFILE_ALIGN, err);
    memcpy(&d, header, sizeof d);
    if (memcmp(d.magic, magic, sizeof magic) != 0) {
        tf_fail(err, TF_W_NOT_A_RANK_FILE, "reading %s: magic", path);
        tf_found(err, "%016" PRIx64, get(d.magic, 8));
        return tf_expected(err, "%016" PRIx64, get(magic, 8));
    }
    tf_digest digest = digest_bytes(header, offsetof(disk_header, digest));
    if (!digest_equal(digest, digest_of(d.digest)))
        return bad_digest(err, TF_W_RANK_HEADER_DAMAGED, path, "the header", digest,
                          digest_of(d.digest));
    uint32_t version = (uint32_t)get(d.version, 4);
    if (version != RANKFILE_VERSION) {
        tf_fail(err, TF_W_RANK_FILE_VERSION, "reading %s: format version", path);
        tf_found(err, "%" PRIu32, version);
        tf_expected(err, "%u", RANKFILE_VERSION);
        return tf_remedy(err, "write the rank files again with this program");
    }
    head->layer = (uint32_t)get(d.layer, 4);
    head->world = (uint32_t)get(d.world, 4);
    head->rank = (uint32_t)get(d.rank, 4);
    head->plan = digest_of(d.plan);
    head->pack = digest_of(d.pack);
    head->config = digest_of(d.config);
    head->entries = (uint32_t)get(d.entries, 4);
    head->index_bytes = get(d.index_bytes, 8);
    head->file_bytes = get(d.file_bytes, 8);
    head->index = digest_of(d.index);
    tf_status status = check_fields(path, &d, head, err);
    if (status != TF_OK) return status;
    memcpy(head->family, d.family, sizeof head->family);
    return check_length(path, file_bytes, head->file_bytes, err);
}

/* ---- index ---------------------------------------------------------------------------------- */

typedef struct index_reader {
    rankfile *file;
    const uint8_t *at, *end;
    uint64_t next; /* where the next payload must begin */
} index_reader;

static tf_status bad_entry(tf_error *err, const rankfile *file, uint32_t i, const char *field,
                           const char *why) {
    tf_fail(err, TF_W_RANK_INDEX_DAMAGED, "reading %s: index entry %" PRIu32 ": %s", file->path, i,
            field);
    return tf_found(err, "%s", why);
}

static bool shape_fills(const rankfile_entry *e) {
    uint64_t n = dtype_bytes(e->dtype);
    for (uint32_t i = 0; i < e->dims; i++) {
        if (__builtin_mul_overflow(n, e->shape[i], &n)) return false;
    }
    return n == e->bytes;
}

static tf_status read_entry(index_reader *r, uint32_t i, tf_error *err) {
    rankfile *file = r->file;
    rankfile_entry *e = &file->entries[i];
    disk_entry d;
    size_t left = (size_t)(r->end - r->at);
    if (left < sizeof d) return bad_entry(err, file, i, "size", "the index ends early");
    memcpy(&d, r->at, sizeof d);
    size_t name_bytes = (size_t)get(d.name_bytes, 2);
    e->dims = (uint32_t)get(d.dims, 2);
    if (e->dims > TF_DIMS_MAX) return bad_entry(err, file, i, "dims", "more than 8");
    if (name_bytes < 1 || name_bytes > TF_NAME_BYTES_MAX)
        return bad_entry(err, file, i, "name", "a length out of 1 to 512");
    if (left - sizeof d < 8u * e->dims + name_bytes)
        return bad_entry(err, file, i, "size", "the index ends early");
    r->at += sizeof d;
    for (uint32_t k = 0; k < e->dims; k++, r->at += 8)
        e->shape[k] = get(r->at, 8);
    for (size_t k = 0; k < name_bytes; k++) {
        if (r->at[k] <= 0x20 || r->at[k] == 0x7f)
            return bad_entry(err, file, i, "name", "a blank or control character");
    }
    e->name = arena_copy(&file->arena, (const char *)r->at, name_bytes);
    if (e->name == NULL) return tf_fail(err, TF_W_NO_MEMORY, "reading %s", file->path);
    r->at += name_bytes;

    size_t dtype_length = 0;
    while (dtype_length < sizeof d.dtype && d.dtype[dtype_length] != 0)
        dtype_length++;
    if (!dtype_parse((const char *)d.dtype, dtype_length, &e->dtype) ||
        !all_zero(d.dtype + dtype_length, sizeof d.dtype - dtype_length))
        return bad_entry(err, file, i, "dtype", "an unknown one");
    e->offset = get(d.offset, 8);
    e->bytes = get(d.bytes, 8);
    e->digest = digest_of(d.digest);
    if (!all_zero(d.zero, sizeof d.zero)) return bad_entry(err, file, i, "unused bytes", "not 0");
    if (!shape_fills(e)) return bad_entry(err, file, i, "length", "not what shape and dtype give");
    if (e->offset != r->next) return bad_entry(err, file, i, "offset", "not the next block");
    if (e->bytes > file->head.file_bytes - e->offset)
        return bad_entry(err, file, i, "length", "beyond the end of the file");
    r->next = align_up(e->offset + e->bytes);
    return TF_OK;
}

static int by_name(const void *a, const void *b) {
    const rankfile_entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static tf_status sort_names(rankfile *file, tf_error *err) {
    uint32_t count = file->head.entries;
    for (uint32_t i = 0; i < count; i++)
        file->by_name[i] = &file->entries[i];
    if (count > 1) qsort(file->by_name, count, sizeof *file->by_name, by_name);
    for (uint32_t i = 1; i < count; i++) {
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0)
            return bad_entry(err, file, (uint32_t)(file->by_name[i] - file->entries), "name",
                             "one that another entry has");
    }
    return TF_OK;
}

tf_status rankfile_parse_index(rankfile *file, const uint8_t *front, tf_error *err) {
    const rankfile_head *head = &file->head;
    const uint8_t *index = front + RANKFILE_ALIGN;
    tf_digest digest = digest_bytes(index, (size_t)head->index_bytes);
    if (!digest_equal(digest, head->index))
        return bad_digest(err, TF_W_RANK_INDEX_DAMAGED, file->path, "the index", digest,
                          head->index);
    /* So many entries cannot fit: refused before memory is taken for them. */
    if (head->entries > head->index_bytes / sizeof(disk_entry))
        return bad_entry(err, file, 0, "count", "more than the index has room for");
    file->entries = arena_array(&file->arena, head->entries, sizeof *file->entries);
    file->by_name = arena_array(&file->arena, head->entries, sizeof *file->by_name);
    if (file->entries == NULL || file->by_name == NULL)
        return tf_fail(err, TF_W_NO_MEMORY, "reading %s", file->path);
    uint64_t data_begin = rankfile_data_begin(head->index_bytes);
    index_reader r = {file, index, index + head->index_bytes, data_begin};
    for (uint32_t i = 0; i < head->entries; i++) {
        tf_status status = read_entry(&r, i, err);
        if (status != TF_OK) return status;
    }
    if (r.at != r.end) return bad_entry(err, file, head->entries, "size", "bytes after the last");
    if (r.next != head->file_bytes)
        return bad_entry(err, file, head->entries, "offset", "not the end of the file");
    if (!all_zero(r.end, (size_t)(front + data_begin - r.end)))
        return tf_fail(err, TF_W_RANK_PADDING_DAMAGED, "reading %s: after the index", file->path);
    return sort_names(file, err);
}

/* ---- expectations --------------------------------------------------------------------------- */

rankfile_head rankfile_want(const tf_plan *plan, uint32_t layer) {
    rankfile_head want = {.layer = layer,
                          .world = plan->world,
                          .rank = plan->rank,
                          .plan = plan->fingerprint,
                          .pack = plan->pack->digest,
                          .config = plan->pack->config.digest};
    memcpy(want.family, plan->pack->config.family, sizeof want.family);
    return want;
}

static tf_status wrong(tf_error *err, tf_word word, const char *path, const char *field,
                       const char *found, const char *expected) {
    tf_fail(err, word, "reading %s: %s", path, field);
    tf_found(err, "%s", found);
    tf_expected(err, "%s", expected);
    return tf_remedy(err, "write the rank files again for this plan");
}

static tf_status compare_u32(tf_error *err, tf_word word, const char *path, const char *field,
                             uint32_t found, uint32_t expected) {
    if (found == expected) return TF_OK;
    char f[16], e[16];
    snprintf(f, sizeof f, "%" PRIu32, found);
    snprintf(e, sizeof e, "%" PRIu32, expected);
    return wrong(err, word, path, field, f, e);
}

static tf_status compare_digest(tf_error *err, tf_word word, const char *path, const char *field,
                                tf_digest found, tf_digest expected) {
    if (digest_equal(found, expected)) return TF_OK;
    char f[DIGEST_HEX], e[DIGEST_HEX];
    return wrong(err, word, path, field, digest_hex(found, f), digest_hex(expected, e));
}

tf_status rankset_compare(const char *path, const rankfile_head *found, const rankfile_head *want,
                          tf_error *err) {
    tf_status status = TF_OK;
    if (strcmp(found->family, want->family) != 0)
        TF_TRY(wrong(err, TF_W_WRONG_FAMILY, path, "family", found->family, want->family));
    TF_TRY(compare_u32(err, TF_W_WRONG_WORLD, path, "world", found->world, want->world));
    TF_TRY(compare_digest(err, TF_W_WRONG_PACK, path, "pack digest", found->pack, want->pack));
    TF_TRY(
        compare_digest(err, TF_W_WRONG_CONFIG, path, "config digest", found->config, want->config));
done:
    return status;
}

static tf_status compare(const char *path, const rankfile_head *found, const rankfile_head *want,
                         tf_error *err) {
    char f[24], e[24];
    tf_status status = TF_OK;
    TF_TRY(rankset_compare(path, found, want, err));
    TF_TRY(compare_u32(err, TF_W_WRONG_RANK, path, "rank", found->rank, want->rank));
    if (found->layer != want->layer)
        TF_TRY(wrong(err, TF_W_WRONG_LAYER, path, "layer", layer_text(found->layer, f),
                     layer_text(want->layer, e)));
    TF_TRY(compare_digest(err, TF_W_STALE_PLAN, path, "plan fingerprint", found->plan, want->plan));
done:
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads the front in two steps, for the header says how long it is. */
static tf_status read_front(rankfile *file, uint64_t file_bytes, uint8_t **front, tf_error *err) {
    uint8_t header[RANKFILE_ALIGN] = {0};
    uint64_t front_bytes = 0;
    tf_status status = TF_OK;
    if (file_bytes >= RANKFILE_ALIGN)
        TF_TRY(io_read_at(file->fd, file->path, header, sizeof header, 0, err));
    TF_TRY(rankfile_parse_header(file->path, header, file_bytes, &file->head, err));
    front_bytes = rankfile_data_begin(file->head.index_bytes);
    *front = mem_take((size_t)front_bytes);
    if (*front == NULL)
        TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "reading %s (%" PRIu64 " bytes)", file->path,
                       front_bytes));
    memcpy(*front, header, sizeof header);
    TF_TRY(io_read_at(file->fd, file->path, *front + RANKFILE_ALIGN,
                      (size_t)front_bytes - RANKFILE_ALIGN, RANKFILE_ALIGN, err));
    TF_TRY(rankfile_parse_index(file, *front, err));
    file->digest = digest_bytes(*front, (size_t)front_bytes);
done:
    return status;
}

tf_status rankfile_open(const char *path, const rankfile_head *want, rankfile **out,
                        tf_error *err) {
    uint64_t file_bytes = 0;
    uint8_t *front = NULL;
    tf_status status = TF_OK;
    *out = NULL;
    rankfile *file = mem_take(sizeof *file);
    if (file == NULL) return tf_fail(err, TF_W_NO_MEMORY, "reading %s", path);
    file->fd = -1;
    arena_init(&file->arena, 0);
    if (snprintf(file->path, sizeof file->path, "%s", path) >= (int)sizeof file->path)
        TF_TRY(tf_fail(err, TF_W_TOO_LARGE, "opening %s: its path", path));
    TF_TRY(io_open(path, &file->fd, &file_bytes, err));
    TF_TRY(read_front(file, file_bytes, &front, err));
    if (want != NULL) TF_TRY(compare(path, &file->head, want, err));
    *out = file;
    file = NULL;
done:
    mem_free(front);
    rankfile_close(file);
    return status;
}

void rankfile_close(rankfile *file) {
    if (file == NULL) return;
    io_close(&file->fd);
    arena_free(&file->arena);
    mem_free(file);
}

const rankfile_entry *rankfile_find(const rankfile *file, const char *name) {
    rankfile_entry key = {.name = name};
    const rankfile_entry *key_at = &key;
    if (file->head.entries == 0) return NULL;
    const rankfile_entry **found =
        bsearch(&key_at, file->by_name, file->head.entries, sizeof *file->by_name, by_name);
    return found == NULL ? NULL : *found;
}

tf_status rankfile_read(const rankfile *file, const rankfile_entry *entry, uint64_t offset,
                        void *to, size_t n, tf_error *err) {
    TF_ASSERT(offset <= entry->bytes && n <= entry->bytes - offset);
    return io_read_at(file->fd, file->path, to, n, entry->offset + offset, err);
}
