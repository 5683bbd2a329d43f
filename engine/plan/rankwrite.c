/* plan/rankwrite - a set of rank files on disk, or its digest without one.
 *
 * Idea: files are written side by side under temporary names and published in batches (sync all,
 * rename each), because a sync a file would cost more than its bytes; set.txt comes last.
 * Trap: a file kept by a resumed write must be what the source gives now, not only what the same
 * plan gave once (rankfile.h). */
#include "engine/base/check.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"
#include "engine/plan/admission.h"
#include "engine/plan/rankfile.h"
#include "engine/plan/rankimage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A batch is lost when the process is killed, so it stays small against a whole set. */
#define BATCH_FILES 1024u
#define BATCH_BYTES ((uint64_t)4 << 30)

typedef struct writing {
    const tf_plan *plan;
    char folder[TF_PATH_BYTES_MAX];
    rankimage_set images;
    rankfile_set set;
    bool *kept;         /* [images.count] */
    io_writer *writers; /* [images.count] */
    rankscratch *scratch;
    uint32_t workers;
    rankmeter meter;
    int lock;
    pthread_mutex_t pending_lock; /* guards what is written but not published */
    io_writer *pending[BATCH_FILES];
    uint32_t pending_count;
    uint64_t pending_bytes;
} writing;

/* ---- beginning and end ---------------------------------------------------------------------- */

static tf_status begin(writing *w, const tf_plan *plan, const rankfile_options *options,
                       size_t chunk_bytes, tf_error *err) {
    *w = (writing){.plan = plan, .lock = -1};
    pthread_mutex_init(&w->pending_lock, NULL);
    rankmeter_begin(&w->meter, options, 0);
    tf_status status = TF_OK;
    rankfile_head head = rankfile_want(plan, CONFIG_NONE);
    TF_TRY(admission_ask(TF_OP_RANK_FILES, plan->world, false, err));
    if (plan->pack->header_only) {
        tf_fail(err, TF_W_HEADER_ONLY_PACK, "making rank files of pack %s", plan->pack->dir);
        TF_TRY(tf_remedy(err, "use a pack with its weights for work on bytes"));
    }
    TF_TRY(rankimage_plan(plan, &w->images, err));
    TF_TRY(rankset_begin(&head, w->images.count, &w->set, err));
    for (uint32_t i = 0; i < w->images.count; i++) {
        memcpy(w->set.rows[i].name, w->images.images[i].name, RANKFILE_NAME_SIZE);
        w->set.rows[i].bytes = w->images.images[i].head.file_bytes;
    }
    w->meter.total = w->images.bytes;
    w->kept = arena_array(&w->images.arena, w->images.count, sizeof *w->kept);
    w->writers = arena_array(&w->images.arena, w->images.count, sizeof *w->writers);
    if (w->kept == NULL || w->writers == NULL)
        TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "preparing %" PRIu32 " files", w->images.count));
    w->workers = options == NULL ? 0 : options->workers;
    /* A writer waits for the disk about half its time: two to a core. */
    if (w->workers == 0 && chunk_bytes == RANKSCRATCH_WRITE) w->workers = 2 * thread_cores();
    w->workers = thread_workers(w->workers, w->images.count);
    TF_TRY(rankscratch_take(w->workers, chunk_bytes, &w->scratch, err));
done:
    return status;
}

static void end(writing *w) {
    for (uint32_t i = 0; w->writers != NULL && i < w->images.count; i++)
        io_discard(&w->writers[i]);
    io_close(&w->lock);
    rankscratch_free(w->scratch, w->workers);
    rankfile_set_free(&w->set);
    rankimage_free(&w->images);
    rankmeter_end(&w->meter);
    pthread_mutex_destroy(&w->pending_lock);
}

static void hand_over(writing *w, rankfile_set *out) {
    if (out == NULL) return;
    *out = w->set;
    w->set = (rankfile_set){0};
}

/* ---- digest only ---------------------------------------------------------------------------- */

static tf_status count_bytes(void *context, const uint8_t *data, size_t n, uint64_t offset,
                             tf_error *err) {
    (void)data;
    (void)offset;
    return rankmeter_add(context, n, err);
}

static tf_status digest_one(void *context, size_t index, uint32_t worker, tf_error *err) {
    writing *w = context;
    rankimage_sink sink = {.put = count_bytes, .context = &w->meter, .only_counts = true};
    return rankimage_make(&w->images.images[index], w->plan->pack, &w->scratch[worker], &sink,
                          &w->set.rows[index].digest, err);
}

tf_status rankfile_digest_set(const tf_plan *plan, const rankfile_options *options,
                              rankfile_set *out, tf_error *err) {
    writing w;
    tf_status status = TF_OK;
    TF_TRY(begin(&w, plan, options, RANKSCRATCH_PIECE, err));
    TF_TRY(thread_run(w.workers, w.images.count, digest_one, &w, err));
    TF_TRY(rankset_end(&w.set, err));
    hand_over(&w, out);
done:
    end(&w);
    return status;
}

/* ---- the folder ----------------------------------------------------------------------------- */

static tf_status lock_folder(writing *w, tf_error *err) {
    bool taken = false;
    tf_status status = io_lock_dir(w->folder, &w->lock, &taken, err);
    if (status != TF_OK || taken) return status;
    tf_fail(err, TF_W_RANK_FOLDER_BUSY, "writing rank files into %s", w->folder);
    tf_found(err, "another process that is writing there");
    return tf_remedy(err, "wait until it ends, or choose another folder");
}

/* Refuses files of another set before anything changes, then removes what killed writers left. */
static tf_status sweep_folder(writing *w, tf_error *err) {
    char **names = NULL;
    size_t count = 0;
    tf_status status = TF_OK;
    TF_TRY(io_list(w->folder, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        uint32_t layer = 0;
        if (!rankfile_parse_name(names[i], &layer) || rankimage_find(&w->images, layer) != NULL)
            continue;
        tf_fail(err, TF_W_RANK_FILE_UNEXPECTED, "writing rank files into %s", w->folder);
        tf_found(err, "%s, which this plan has not", names[i]);
        TF_TRY(tf_remedy(err, "choose another folder, or remove the old files"));
    }
    /* Only the holder of the lock may say that a temporary file has no writer. */
    for (size_t i = 0; w->lock >= 0 && i < count; i++) {
        char path[TF_PATH_BYTES_MAX];
        if (!io_is_temporary(names[i]) || !io_join(path, sizeof path, w->folder, names[i]))
            continue;
        TF_TRY(io_remove_file(path, err));
    }
done:
    io_free_names(names, count);
    return status;
}

/* Asks the nearest folder that exists. */
static tf_status check_space(const writing *w, tf_error *err) {
    char path[TF_PATH_BYTES_MAX];
    uint64_t needed = 0, available = 0;
    for (uint32_t i = 0; i < w->images.count; i++) {
        if (!w->kept[i]) needed += w->images.images[i].head.file_bytes;
    }
    memcpy(path, w->folder, sizeof path);
    while (!io_is_dir(path)) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path) {
            snprintf(path, sizeof path, "%s", slash == NULL ? "." : "/");
            break;
        }
        *slash = '\0';
    }
    tf_status status = io_free_bytes(path, &available, err);
    if (status != TF_OK || needed <= available) return status;
    tf_fail(err, TF_W_NO_SPACE, "writing rank files into %s", w->folder);
    tf_found(err, "%" PRIu64 " bytes available", available);
    tf_expected(err, "%" PRIu64 " bytes needed", needed);
    return tf_remedy(err, "free space there or choose another folder");
}

/* ---- resume --------------------------------------------------------------------------------- */

static tf_status only_stop(void *context, const uint8_t *data, size_t n, uint64_t offset,
                           tf_error *err) {
    (void)data;
    (void)n;
    (void)offset;
    return rankmeter_add(context, 0, err);
}

/* Is the file on disk, whole, what the source gives now?  What is wrong with it does not matter:
 * it is written again. */
static bool is_whole(const char *path, const rankimage *image, tf_digest digest,
                     rankscratch *scratch, rankmeter *meter) {
    tf_error reason = {0};
    rankfile *file = NULL;
    bool whole = rankfile_open(path, &image->head, &file, &reason) == TF_OK &&
                 digest_equal(file->digest, digest);
    if (whole) rankscratch_read_from(scratch, file);
    for (uint32_t i = 0; whole && i < file->head.entries; i++)
        whole = rankfile_check(file, i, scratch, meter, &reason) == TF_OK;
    rankfile_close(file);
    return whole;
}

static tf_status keep_one(void *context, size_t index, uint32_t worker, tf_error *err) {
    writing *w = context;
    rankimage *image = &w->images.images[index];
    rankfile_row *row = &w->set.rows[index];
    char path[TF_PATH_BYTES_MAX];
    rankset_path(w->folder, image->name, path);
    if (!io_exists(path)) return TF_OK;
    rankmeter quiet;
    rankmeter_begin(&quiet, NULL, 0);
    rankimage_sink sink = {.put = only_stop, .context = &w->meter, .only_counts = true};
    tf_status status =
        rankimage_make(image, w->plan->pack, &w->scratch[worker], &sink, &row->digest, err);
    w->kept[index] =
        status == TF_OK && is_whole(path, image, row->digest, &w->scratch[worker], &quiet);
    rankmeter_end(&quiet);
    if (w->kept[index]) status = rankmeter_add(&w->meter, image->head.file_bytes, err);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

static tf_status publish(writing *w, io_writer *const *list, uint32_t count, tf_error *err) {
    bool direct = false;
    tf_status status = TF_OK;
    for (uint32_t i = 0; i < count; i++)
        direct = direct || list[i]->direct;
    if (direct) TF_TRY(io_sync_file_system(w->folder, err));
    for (uint32_t i = 0; i < count; i++)
        TF_TRY(io_rename(list[i], err));
done:
    return status;
}

/* Moves the batch out under the lock when it is full; publishes it outside, while others write. */
static tf_status add_to_batch(writing *w, uint32_t index, tf_error *err) {
    io_writer *list[BATCH_FILES];
    uint32_t count = 0;
    pthread_mutex_lock(&w->pending_lock);
    w->pending[w->pending_count++] = &w->writers[index];
    w->pending_bytes += w->images.images[index].head.file_bytes;
    if (w->pending_count == BATCH_FILES || w->pending_bytes >= BATCH_BYTES) {
        count = w->pending_count;
        memcpy(list, w->pending, sizeof list);
        w->pending_count = 0;
        w->pending_bytes = 0;
    }
    pthread_mutex_unlock(&w->pending_lock);
    return publish(w, list, count, err);
}

typedef struct target {
    io_writer *writer;
    rankmeter *meter;
} target;

static tf_status put_to_file(void *context, const uint8_t *data, size_t n, uint64_t offset,
                             tf_error *err) {
    target *t = context;
    tf_status status = io_write_at(t->writer, data, n, offset, err);
    if (status == TF_OK) status = rankmeter_add(t->meter, n, err);
    return status;
}

static tf_status write_one(void *context, size_t index, uint32_t worker, tf_error *err) {
    writing *w = context;
    rankimage *image = &w->images.images[index];
    char path[TF_PATH_BYTES_MAX];
    tf_status status = TF_OK;
    if (w->kept[index]) return TF_OK;
    target t = {&w->writers[index], &w->meter};
    rankimage_sink sink = {.put = put_to_file, .context = &t};
    rankset_path(w->folder, image->name, path);
    TF_TRY(io_create_direct(t.writer, path, image->head.file_bytes, err));
    TF_TRY(rankimage_make(image, w->plan->pack, &w->scratch[worker], &sink,
                          &w->set.rows[index].digest, err));
    TF_TRY(io_finish(t.writer, err));
    TF_TRY(add_to_batch(w, (uint32_t)index, err));
done:
    if (status != TF_OK) io_discard(t.writer);
    return status;
}

static tf_status write_files(writing *w, tf_error *err) {
    tf_status status = thread_run(w->workers, w->images.count, write_one, w, err);
    if (status == TF_OK) return publish(w, w->pending, w->pending_count, err);
    /* What is finished helps the next, resumed write; the interruption stays the message. */
    tf_error late = {0};
    if (status == TF_INTERRUPTED && publish(w, w->pending, w->pending_count, &late) == TF_OK) {
        (void)io_sync_dir(w->folder, &late);
        tf_remedy(err, "run it again with resume to go on");
    }
    return status;
}

static tf_status write_set_text(writing *w, tf_error *err) {
    char path[TF_PATH_BYTES_MAX];
    tf_text text = {0};
    tf_status status = TF_OK;
    rankset_path(w->folder, RANKFILE_SET_TEXT, path);
    TF_TRY(rankset_end(&w->set, err));
    rankfile_set_text(&w->set, &text);
    TF_TRY(text_done(&text, err));
    TF_TRY(io_write_file(path, text.data, text.length, err));
done:
    text_free(&text);
    return status;
}

static tf_status prepare_folder(writing *w, bool resume, tf_error *err) {
    char path[TF_PATH_BYTES_MAX];
    tf_status status = TF_OK;
    /* Before the folder is made, so that a refusal leaves nothing. */
    if (!io_is_dir(w->folder)) TF_TRY(check_space(w, err));
    TF_TRY(io_make_dirs(w->folder, err));
    TF_TRY(lock_folder(w, err));
    TF_TRY(sweep_folder(w, err));
    if (resume) TF_TRY(thread_run(w->workers, w->images.count, keep_one, w, err));
    TF_TRY(check_space(w, err));
    /* From here to its end the folder is unfinished. */
    rankset_path(w->folder, RANKFILE_SET_TEXT, path);
    TF_TRY(io_remove_file(path, err));
    for (uint32_t i = 0; i < w->images.count; i++)
        w->set.kept += w->kept[i];
done:
    return status;
}

tf_status rankfile_write_set(const tf_plan *plan, const char *dir, const rankfile_options *options,
                             rankfile_set *out, tf_error *err) {
    writing w;
    tf_status status = TF_OK;
    TF_TRY(begin(&w, plan, options, RANKSCRATCH_WRITE, err));
    TF_TRY(rankset_folder(dir, plan->rank, w.folder, err));
    TF_TRY(prepare_folder(&w, options != NULL && options->resume, err));
    TF_TRY(write_files(&w, err));
    TF_TRY(io_sync_dir(w.folder, err));
    TF_TRY(write_set_text(&w, err));
    hand_over(&w, out);
done:
    end(&w);
    return status;
}
