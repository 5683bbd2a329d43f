#include "engine/plan/rankimage.h"

#include "engine/base/check.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t align_up(uint64_t n) {
    return (n + RANKFILE_ALIGN - 1) / RANKFILE_ALIGN * RANKFILE_ALIGN;
}

/* ---- layout --------------------------------------------------------------------------------- */

static uint32_t run_end(const tf_plan *plan, uint32_t begin) {
    uint32_t end = begin + 1;
    while (end < plan->item_count && plan->items[end].layer == plan->items[begin].layer)
        end++;
    return end;
}

static bool lay_out(rankimage_set *set, rankimage *image, uint32_t begin, uint32_t end) {
    const tf_plan *plan = set->plan;
    image->items = plan->items + begin;
    image->head = rankfile_want(plan, image->items[0].layer);
    image->head.entries = end - begin;
    image->entries = arena_array(&set->arena, end - begin, sizeof *image->entries);
    if (image->entries == NULL) return false;
    TF_ASSERT(rankimage_find(set, image->head.layer) == NULL);
    rankfile_name(image->head.layer, image->name);
    for (uint32_t i = 0; i < image->head.entries; i++) {
        const plan_item *item = &image->items[i];
        rankfile_entry *e = &image->entries[i];
        *e = (rankfile_entry){.name = item->image,
                              .dtype = item->tensor->dtype,
                              .dims = item->tensor->dims,
                              .bytes = item->bytes};
        memcpy(e->shape, item->shape, e->dims * sizeof e->shape[0]);
    }
    image->head.index_bytes = rankfile_index_bytes(image->entries, image->head.entries);
    uint64_t at = rankfile_data_begin(image->head.index_bytes);
    for (uint32_t i = 0; i < image->head.entries; i++) {
        image->entries[i].offset = at;
        at = align_up(at + image->entries[i].bytes);
    }
    image->head.file_bytes = at;
    return true;
}

tf_status rankimage_plan(const tf_plan *plan, rankimage_set *out, tf_error *err) {
    *out = (rankimage_set){.plan = plan};
    arena_init(&out->arena, 0);
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->item_count; i = run_end(plan, i))
        count++;
    out->images = arena_array(&out->arena, count, sizeof *out->images);
    bool ok = out->images != NULL;
    for (uint32_t i = 0, end = 0; ok && i < plan->item_count; i = end) {
        end = run_end(plan, i);
        ok = lay_out(out, &out->images[out->count], i, end);
        if (ok) out->bytes += out->images[out->count++].head.file_bytes;
    }
    if (!ok) return tf_fail(err, TF_W_NO_MEMORY, "laying out rank files");
    return TF_OK;
}

void rankimage_free(rankimage_set *set) {
    arena_free(&set->arena);
    set->images = NULL;
    set->count = 0;
}

const rankimage *rankimage_find(const rankimage_set *set, uint32_t layer) {
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->images[i].head.layer == layer) return &set->images[i];
    }
    return NULL;
}

/* ---- memory --------------------------------------------------------------------------------- */

tf_status rankscratch_take(uint32_t workers, size_t chunk_bytes, rankscratch **out, tf_error *err) {
    TF_ASSERT(chunk_bytes > 0 && chunk_bytes % RANKSCRATCH_PIECE == 0);
    rankscratch *s = mem_take(workers * sizeof *s);
    bool ok = s != NULL;
    for (uint32_t i = 0; ok && i < workers; i++) {
        s[i].chunk_bytes = chunk_bytes;
        s[i].chunk = mem_take_aligned(RANKFILE_ALIGN, chunk_bytes);
        s[i].reader.memory = mem_take_aligned(RANKFILE_ALIGN, RANKREAD_BYTES);
        ok = s[i].chunk != NULL && s[i].reader.memory != NULL;
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
        mem_free(scratch[i].reader.memory);
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

static tf_status source_fill(source *s, uint8_t *to, size_t n, tf_error *err) {
    const pack_tensor *tensor = s->item->tensor;
    while (n > 0) {
        TF_ASSERT(s->span < s->item->span_count);
        plan_span span = current_span(s);
        uint64_t from = span.offset + s->run * span.stride + s->at;
        uint64_t take = span.length - s->at;
        if (take > n) take = n;
        TF_ASSERT(take > 0 && from <= tensor->bytes && take <= tensor->bytes - from);
        tf_status status = rankread_at(s->reader, tensor->offset + from, to, (size_t)take, err);
        if (status != TF_OK) return status;
        to += take;
        n -= (size_t)take;
        s->at += take;
        if (s->at == span.length) {
            s->at = 0;
            s->run++;
        }
        if (s->run == span.count) {
            s->run = 0;
            s->span++;
        }
    }
    return TF_OK;
}

/* ---- a file's bytes ------------------------------------------------------------------------- */

typedef struct builder {
    rankimage_put put;
    void *context;
    rankscratch *scratch;
    const tf_pack *pack;
    const pack_shard *shard; /* that the reader is open for */
    size_t used;             /* of scratch->chunk */
    uint64_t at;             /* file offset of the chunk's first byte */
} builder;

static tf_status flush(builder *b, tf_error *err) {
    if (b->used == 0) return TF_OK;
    TF_ASSERT(b->used % RANKFILE_ALIGN == 0);
    tf_status status = b->put(b->context, b->scratch->chunk, b->used, b->at, err);
    b->at += b->used;
    b->used = 0;
    return status;
}

/* Zeros up to a block's begin; a gap is less than a block and never crosses the chunk's end. */
static void pad(builder *b) {
    size_t to = (size_t)align_up(b->used);
    memset(b->scratch->chunk + b->used, 0, to - b->used);
    b->used = to;
}

static void read_from(builder *b, const pack_shard *shard) {
    rankscratch *s = b->scratch;
    if (b->shard == shard) return;
    b->shard = shard;
    snprintf(s->path, sizeof s->path, "%s/%s", b->pack->dir, shard->file);
    rankread_open(&s->reader, shard->fd, s->path, shard->size);
}

static tf_status add_item(builder *b, const plan_item *item, tf_digest *digest, tf_error *err) {
    tf_status status = TF_OK;
    digest_state *state = NULL;
    source s = {.reader = &b->scratch->reader, .item = item};
    read_from(b, &b->pack->shards[item->tensor->shard]);
    *digest = digest_bytes("", 0);
    for (uint64_t left = item->bytes; left > 0;) {
        if (b->used == b->scratch->chunk_bytes) TF_TRY(flush(b, err));
        uint8_t *to = b->scratch->chunk + b->used;
        size_t n = b->scratch->chunk_bytes - b->used;
        if (n > RANKSCRATCH_PIECE) n = RANKSCRATCH_PIECE;
        if (n > left) n = (size_t)left;
        TF_TRY(source_fill(&s, to, n, err));
        if (n == item->bytes) {
            *digest = digest_bytes(to, n);
        } else {
            if (state == NULL) state = digest_begin();
            if (state == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "digesting %s", item->image));
            digest_add(state, to, n);
        }
        b->used += n;
        left -= n;
    }
    TF_ASSERT(s.span == item->span_count && s.run == 0 && s.at == 0);
done:
    if (state != NULL) *digest = digest_end(state);
    return status;
}

/* The front needs memory of its own, for the payloads before it are gone from the chunk. */
static tf_status put_front(builder *b, rankimage *image, tf_digest *digest, tf_error *err) {
    size_t n = (size_t)rankfile_data_begin(image->head.index_bytes);
    uint8_t *front = mem_take_aligned(RANKFILE_ALIGN, n);
    if (front == NULL) return tf_fail(err, TF_W_NO_MEMORY, "making the index of %s", image->name);
    rankfile_encode(&image->head, image->entries, front);
    *digest = digest_bytes(front, n);
    tf_status status = b->put(b->context, front, n, 0, err);
    mem_free(front);
    return status;
}

tf_status rankimage_make(rankimage *image, const tf_pack *pack, rankscratch *scratch,
                         rankimage_put put, void *context, tf_digest *digest, tf_error *err) {
    tf_status status = TF_OK;
    uint64_t data_begin = rankfile_data_begin(image->head.index_bytes);
    builder b = {.put = put, .context = context, .scratch = scratch, .pack = pack};
    /* A file that fits is put at once: room is left for its front. */
    bool fits = image->head.file_bytes <= scratch->chunk_bytes;
    if (fits) b.used = (size_t)data_begin;
    if (!fits) b.at = data_begin;
    for (uint32_t i = 0; i < image->head.entries; i++) {
        TF_ASSERT(b.at + b.used == image->entries[i].offset);
        TF_TRY(add_item(&b, &image->items[i], &image->entries[i].digest, err));
        pad(&b);
    }
    TF_ASSERT(b.at + b.used == image->head.file_bytes);
    if (fits) {
        rankfile_encode(&image->head, image->entries, scratch->chunk);
        *digest = digest_bytes(scratch->chunk, (size_t)data_begin);
    }
    TF_TRY(flush(&b, err));
    if (!fits) TF_TRY(put_front(&b, image, digest, err));
done:
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
