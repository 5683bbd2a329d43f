#include "engine/plan/rankimage.h"

#include "engine/base/check.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t align_up(uint64_t n) {
    return (n + RANKFILE_ALIGN - 1) / RANKFILE_ALIGN * RANKFILE_ALIGN;
}

/* ---- layout --------------------------------------------------------------------------------- */

/* Top first, then layers ascending: CONFIG_NONE + 1 wraps to 0. */
static int plan_order(uint32_t layer, uint32_t other) {
    return (layer + 1 > other + 1) - (layer + 1 < other + 1);
}

static uint32_t run_end(const tf_plan *plan, uint32_t begin) {
    uint32_t end = begin + 1;
    while (end < plan->item_count && plan->items[end].layer == plan->items[begin].layer)
        end++;
    return end;
}

/* How long the file will be; its entries are laid out by the worker that makes it. */
static void measure(const tf_plan *plan, rankimage *image, uint32_t begin, uint32_t end) {
    image->items = plan->items + begin;
    image->head = rankfile_want(plan, image->items[0].layer);
    image->head.entries = end - begin;
    rankfile_name(image->head.layer, image->name);
    uint64_t data_bytes = 0;
    for (uint32_t i = 0; i < image->head.entries; i++) {
        const plan_item *item = &image->items[i];
        image->head.index_bytes += rankfile_entry_bytes(item->image, item->tensor->dims);
        data_bytes += align_up(item->bytes);
    }
    image->head.file_bytes = rankfile_data_begin(image->head.index_bytes) + data_bytes;
}

tf_status rankimage_plan(const tf_plan *plan, rankimage_set *out, tf_error *err) {
    *out = (rankimage_set){.plan = plan};
    arena_init(&out->arena, 0);
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->item_count; i = run_end(plan, i))
        count++;
    out->images = arena_array(&out->arena, count, sizeof *out->images);
    if (out->images == NULL) return tf_fail(err, TF_W_NO_MEMORY, "laying out rank files");
    for (uint32_t i = 0, end = 0; i < plan->item_count; i = end) {
        rankimage *image = &out->images[out->count++];
        end = run_end(plan, i);
        measure(plan, image, i, end);
        out->bytes += image->head.file_bytes;
        TF_ASSERT(out->count == 1 || plan_order(image[-1].head.layer, image->head.layer) < 0);
    }
    return TF_OK;
}

void rankimage_free(rankimage_set *set) {
    arena_free(&set->arena);
    set->images = NULL;
    set->count = 0;
}

const rankimage *rankimage_find(const rankimage_set *set, uint32_t layer) {
    uint32_t begin = 0, end = set->count;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        int order = plan_order(set->images[middle].head.layer, layer);
        if (order == 0) return &set->images[middle];
        if (order < 0) begin = middle + 1;
        if (order > 0) end = middle;
    }
    return NULL;
}

static tf_status lay_out(const rankimage *image, rankscratch *scratch, tf_error *err) {
    uint32_t count = image->head.entries;
    if (scratch->entry_capacity < count) {
        rankfile_entry *grown = mem_grow(scratch->entries, count * sizeof *grown);
        if (grown == NULL)
            return tf_fail(err, TF_W_NO_MEMORY, "laying out %" PRIu32 " items", count);
        scratch->entries = grown;
        scratch->entry_capacity = count;
    }
    uint64_t at = rankfile_data_begin(image->head.index_bytes);
    for (uint32_t i = 0; i < count; i++) {
        const plan_item *item = &image->items[i];
        rankfile_entry *e = &scratch->entries[i];
        *e = (rankfile_entry){.name = item->image,
                              .dtype = item->tensor->dtype,
                              .dims = item->tensor->dims,
                              .offset = at,
                              .bytes = item->bytes};
        memcpy(e->shape, item->shape, e->dims * sizeof e->shape[0]);
        at = align_up(at + item->bytes);
    }
    TF_ASSERT(at == image->head.file_bytes);
    return TF_OK;
}

/* ---- memory --------------------------------------------------------------------------------- */

tf_status rankscratch_take(uint32_t workers, size_t chunk_bytes, rankscratch **out, tf_error *err) {
    TF_ASSERT(chunk_bytes > 0 && chunk_bytes % RANKSCRATCH_PIECE == 0);
    rankscratch *s = mem_take(workers * sizeof *s);
    bool ok = s != NULL;
    for (uint32_t i = 0; ok && i < workers; i++) {
        s[i].chunk_bytes = chunk_bytes;
        s[i].chunk = mem_take_aligned(RANKFILE_ALIGN, chunk_bytes);
        s[i].reader.window = mem_take_aligned(RANKFILE_ALIGN, RANKREAD_WINDOW);
        ok = s[i].chunk != NULL && s[i].reader.window != NULL;
    }
    *out = ok ? s : NULL;
    if (ok) return TF_OK;
    rankscratch_free(s, workers);
    return tf_fail(err, TF_W_NO_MEMORY, "taking buffers for %" PRIu32 " workers", workers);
}

void rankscratch_free(rankscratch *scratch, uint32_t workers) {
    if (scratch == NULL) return;
    for (uint32_t i = 0; i < workers; i++) {
        mem_free(scratch[i].chunk);
        mem_free(scratch[i].reader.window);
        mem_free(scratch[i].entries);
    }
    mem_free(scratch);
}

/* ---- an item's bytes ------------------------------------------------------------------------ */

/* Where the next byte of an item comes from. */
typedef struct source {
    rankread *reader;
    const plan_item *item;
    uint32_t span;
    uint64_t run; /* within the span */
    uint64_t at;  /* within the run */
} source;

/* Runs that touch are one. */
static plan_span current_span(const source *s) {
    plan_span span = s->item->spans[s->span];
    if (span.count == 1 || span.stride == span.length) {
        span.length *= span.count;
        span.stride = 0;
        span.count = 1;
    }
    return span;
}

/* How many of n bytes lie in one run, and where in the shard the first is. */
static size_t source_run(const source *s, size_t n, uint64_t *from) {
    TF_ASSERT(s->span < s->item->span_count);
    const pack_tensor *tensor = s->item->tensor;
    plan_span span = current_span(s);
    uint64_t within = span.offset + s->run * span.stride + s->at;
    uint64_t take = span.length - s->at;
    if (take > n) take = n;
    TF_ASSERT(take > 0 && within <= tensor->bytes && take <= tensor->bytes - within);
    *from = tensor->offset + within;
    return (size_t)take;
}

static void source_advance(source *s, size_t n) {
    plan_span span = current_span(s);
    s->at += n;
    if (s->at == span.length) {
        s->at = 0;
        s->run++;
    }
    if (s->run == span.count) {
        s->run = 0;
        s->span++;
    }
}

static tf_status source_fill(source *s, uint8_t *to, size_t n, tf_error *err) {
    while (n > 0) {
        uint64_t from = 0;
        size_t take = source_run(s, n, &from);
        tf_status status = rankread_at(s->reader, from, to, take, err);
        if (status != TF_OK) return status;
        source_advance(s, take);
        to += take;
        n -= take;
    }
    return TF_OK;
}

/* As source_fill; where the bytes lie together and are few, *data is not `to` but where they are. */
static tf_status source_look(source *s, uint8_t *to, size_t n, const uint8_t **data,
                             tf_error *err) {
    uint64_t from = 0;
    *data = to;
    if (source_run(s, n, &from) < n || n >= RANKREAD_LONG) return source_fill(s, to, n, err);
    tf_status status = rankread_view(s->reader, from, n, data, err);
    source_advance(s, n);
    return status;
}

/* ---- a file's bytes ------------------------------------------------------------------------- */

typedef struct builder {
    const rankimage_sink *sink;
    rankscratch *scratch;
    const tf_pack *pack;
    const pack_shard *shard; /* that the reader is open for */
    uint64_t at;             /* file offset of the chunk's first byte */
    uint64_t uncounted;      /* bytes that a sink which only counts has not been told of */
} builder;

static tf_status put(builder *b, const uint8_t *data, size_t n, uint64_t offset, tf_error *err) {
    TF_ASSERT(n % RANKFILE_ALIGN == 0 && offset % RANKFILE_ALIGN == 0);
    return n == 0 ? TF_OK : b->sink->put(b->sink->context, data, n, offset, err);
}

/* Room in the chunk for byte `offset` of the file and up to *n after it. */
static tf_status make_room(builder *b, uint64_t offset, uint8_t **to, size_t *n, tf_error *err) {
    size_t chunk = b->scratch->chunk_bytes;
    if (offset - b->at == chunk) {
        tf_status status = put(b, b->scratch->chunk, chunk, b->at, err);
        if (status != TF_OK) return status;
        b->at += chunk;
    }
    TF_ASSERT(offset >= b->at && offset - b->at < chunk);
    size_t within = (size_t)(offset - b->at);
    if (*n > chunk - within) *n = chunk - within;
    *to = b->scratch->chunk + within;
    return TF_OK;
}

/* Zeros up to a block's begin; a gap is less than a block and never crosses the chunk's end. */
static void pad(builder *b, uint64_t end) {
    size_t within = (size_t)(end - b->at);
    memset(b->scratch->chunk + within, 0, (size_t)align_up(within) - within);
}

static void read_from(builder *b, const pack_shard *shard) {
    rankscratch *s = b->scratch;
    if (b->shard == shard) return;
    b->shard = shard;
    snprintf(s->path, sizeof s->path, "%s/%s", b->pack->dir, shard->file);
    rankread_open(&s->reader, shard->fd, s->path, shard->size);
}

/* Tells a sink that only counts, now and then. */
static tf_status count(builder *b, uint64_t n, tf_error *err) {
    const uint64_t often = 1u << 20;
    b->uncounted += n;
    if (b->uncounted < often) return TF_OK;
    n = b->uncounted;
    b->uncounted = 0;
    return put(b, NULL, (size_t)n, 0, err);
}

static tf_status add_item(builder *b, const plan_item *item, rankfile_entry *e, tf_error *err) {
    tf_status status = TF_OK;
    digest_state *state = NULL;
    source s = {.reader = &b->scratch->reader, .item = item};
    size_t n = 0;
    read_from(b, &b->pack->shards[item->tensor->shard]);
    e->digest = digest_bytes("", 0);
    for (uint64_t done = 0; done < item->bytes; done += n) {
        uint8_t *to = b->scratch->chunk;
        const uint8_t *data = NULL;
        n = RANKSCRATCH_PIECE;
        if (n > item->bytes - done) n = (size_t)(item->bytes - done);
        if (b->sink->only_counts) {
            TF_TRY(source_look(&s, to, n, &data, err));
        } else {
            TF_TRY(make_room(b, e->offset + done, &to, &n, err));
            TF_TRY(source_fill(&s, to, n, err));
            data = to;
        }
        if (n == item->bytes) {
            e->digest = digest_bytes(data, n);
        } else {
            if (state == NULL) state = digest_begin();
            if (state == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "digesting %s", item->image));
            digest_add(state, data, n);
        }
    }
    TF_ASSERT(s.span == item->span_count && s.run == 0 && s.at == 0);
    if (b->sink->only_counts) {
        TF_TRY(count(b, align_up(e->offset + e->bytes) - e->offset, err));
    } else {
        pad(b, e->offset + e->bytes);
    }
done:
    if (state != NULL) e->digest = digest_end(state);
    return status;
}

/* The front needs memory of its own, for the payloads before it may be gone from the chunk. */
static tf_status add_front(builder *b, rankimage *image, tf_digest *digest, tf_error *err) {
    size_t n = (size_t)rankfile_data_begin(image->head.index_bytes);
    uint8_t *front = mem_take_aligned(RANKFILE_ALIGN, n);
    if (front == NULL) return tf_fail(err, TF_W_NO_MEMORY, "making the index of %s", image->name);
    rankfile_encode(&image->head, b->scratch->entries, front);
    *digest = digest_bytes(front, n);
    tf_status status = put(b, front, n, 0, err);
    mem_free(front);
    return status;
}

/* Items in file order, chunk by chunk; the front last. */
static tf_status make_in_file_order(builder *b, rankimage *image, tf_digest *digest,
                                    tf_error *err) {
    tf_status status = TF_OK;
    b->at = rankfile_data_begin(image->head.index_bytes);
    for (uint32_t i = 0; i < image->head.entries; i++)
        TF_TRY(add_item(b, &image->items[i], &b->scratch->entries[i], err));
    TF_TRY(put(b, b->scratch->chunk, (size_t)(image->head.file_bytes - b->at), b->at, err));
    TF_TRY(add_front(b, image, digest, err));
done:
    return status;
}

static int by_source(const void *a, const void *b) {
    const plan_item *const *x = a, *const *y = b;
    const pack_tensor *s = (*x)->tensor, *t = (*y)->tensor;
    if (s->shard != t->shard) return s->shard < t->shard ? -1 : 1;
    return (s->offset > t->offset) - (s->offset < t->offset);
}

/* Items as they lie in the pack, so that reading runs on: for a file that the chunk holds whole,
 * and for one of which only the digest is wanted. */
static tf_status make_in_source_order(builder *b, rankimage *image, tf_digest *digest,
                                      tf_error *err) {
    tf_status status = TF_OK;
    uint32_t count = image->head.entries;
    size_t file_bytes = (size_t)image->head.file_bytes;
    const plan_item **order = mem_take(count * sizeof *order);
    if (order == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "sorting %" PRIu32 " items", count));
    for (uint32_t i = 0; i < count; i++)
        order[i] = &image->items[i];
    qsort(order, count, sizeof *order, by_source);
    for (uint32_t i = 0; i < count; i++)
        TF_TRY(add_item(b, order[i], &b->scratch->entries[order[i] - image->items], err));
    if (b->sink->only_counts) {
        TF_TRY(put(b, NULL, (size_t)b->uncounted, 0, err));
        TF_TRY(add_front(b, image, digest, err));
    } else {
        rankfile_encode(&image->head, b->scratch->entries, b->scratch->chunk);
        *digest =
            digest_bytes(b->scratch->chunk, (size_t)rankfile_data_begin(image->head.index_bytes));
        TF_TRY(put(b, b->scratch->chunk, file_bytes, 0, err));
    }
done:
    mem_free(order);
    return status;
}

tf_status rankimage_make(rankimage *image, const tf_pack *pack, rankscratch *scratch,
                         const rankimage_sink *sink, tf_digest *digest, tf_error *err) {
    builder b = {.sink = sink, .scratch = scratch, .pack = pack};
    bool fits = image->head.file_bytes <= scratch->chunk_bytes;
    tf_status status = lay_out(image, scratch, err);
    if (status == TF_OK) {
        status = TF_ONLY_SPEED(fits || sink->only_counts)
                     ? make_in_source_order(&b, image, digest, err)
                     : make_in_file_order(&b, image, digest, err);
    }
    if (status != TF_OK) tf_under(err, "making rank file %s", image->name);
    return status;
}

/* ---- progress ------------------------------------------------------------------------------- */

void rankmeter_begin(rankmeter *meter, const rankfile_options *options, uint64_t total) {
    *meter = (rankmeter){.options = options, .total = total};
    pthread_mutex_init(&meter->lock, NULL);
}

void rankmeter_end(rankmeter *meter) {
    pthread_mutex_destroy(&meter->lock);
}

tf_status rankmeter_add(rankmeter *meter, uint64_t n, tf_error *err) {
    const rankfile_options *o = meter->options;
    bool go_on = true;
    pthread_mutex_lock(&meter->lock);
    meter->done += n;
    if (o != NULL && o->progress != NULL)
        go_on = o->progress(o->context, "bytes", meter->done, meter->total);
    pthread_mutex_unlock(&meter->lock);
    if (!go_on) return tf_fail(err, TF_W_INTERRUPTED, "asked to stop");
    return tf_stop_check(err);
}

/* ---- a set's text --------------------------------------------------------------------------- */

tf_status rankset_folder(const char *dir, uint32_t rank, char path[TF_PATH_BYTES_MAX],
                         tf_error *err) {
    int n = snprintf(path, TF_PATH_BYTES_MAX, "%s/rank%" PRIu32, dir, rank);
    /* Room for a file's name and its temporary mark. */
    if (n > 0 && (size_t)n + 64 < TF_PATH_BYTES_MAX) return TF_OK;
    tf_fail(err, TF_W_TOO_LARGE, "naming the folder of rank %" PRIu32 " under %s", rank, dir);
    tf_found(err, "a path of %d bytes", n);
    return tf_expected(err, "fewer than %u", TF_PATH_BYTES_MAX - 64);
}

void rankset_path(const char *folder, const char *name, char path[TF_PATH_BYTES_MAX]) {
    bool fits = io_join(path, TF_PATH_BYTES_MAX, folder, name);
    TF_ASSERT(fits);
}

tf_status rankset_begin(const rankfile_head *head, uint32_t count, rankfile_set *out,
                        tf_error *err) {
    *out = (rankfile_set){.head = *head, .count = count};
    out->rows = mem_take(count * sizeof *out->rows);
    if (out->rows == NULL) return tf_fail(err, TF_W_NO_MEMORY, "listing %" PRIu32 " files", count);
    return TF_OK;
}

tf_status rankset_end(rankfile_set *set, tf_error *err) {
    digest_state *state = digest_begin();
    if (state == NULL) return tf_fail(err, TF_W_NO_MEMORY, "digesting a set of rank files");
    set->bytes = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        const rankfile_row *row = &set->rows[i];
        digest_add(state, row->name, strlen(row->name));
        digest_add_u64(state, row->bytes);
        digest_add(state, row->digest.bytes, sizeof row->digest.bytes);
        set->bytes += row->bytes;
    }
    set->digest = digest_end(state);
    return TF_OK;
}

void rankfile_set_free(rankfile_set *set) {
    mem_free(set->rows);
    set->rows = NULL;
    set->count = 0;
}

void rankfile_set_text(const rankfile_set *set, tf_text *out) {
    const rankfile_head *h = &set->head;
    char hex[DIGEST_HEX];
    text_print(out, "rank-files 1 %s world %" PRIu32 " rank %" PRIu32 "\n", h->family, h->world,
               h->rank);
    text_print(out, "config %s\n", digest_hex(h->config, hex));
    text_print(out, "pack %s\n", digest_hex(h->pack, hex));
    text_print(out, "plan %s\n", digest_hex(h->plan, hex));
    for (uint32_t i = 0; i < set->count; i++) {
        const rankfile_row *row = &set->rows[i];
        text_print(out, "file %s bytes=%" PRIu64 " %s\n", row->name, row->bytes,
                   digest_hex(row->digest, hex));
    }
    text_print(out, "total files=%" PRIu32 " bytes=%" PRIu64 "\n", set->count, set->bytes);
    text_print(out, "digest %s\n", digest_hex(set->digest, hex));
}
