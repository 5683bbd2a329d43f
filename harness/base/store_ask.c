#include "engine/base/thread.h"
#include "harness/base/store.h"
#include "harness/base/store_inner.h"

#include <string.h>
#include <sys/stat.h>

enum {
    COLUMNS_MAX = 64,
    WIDTH_MAX = 100 /* of a column; wider values push the line out */
};

/* ---- query ---- */

static int stop_asked(void *context) {
    (void)context;
    return tf_stop_requested();
}

static tf_status bad_sql(const char *sql, const char *found, const char *expected, tf_error *err) {
    tf_fail(err, TF_W_BAD_SQL, "asking the store: %.300s", sql);
    tf_found(err, "%s", found);
    return expected[0] == '\0' ? err->status : tf_expected(err, "%s", expected);
}

static tf_status prepare_query(store *s, const char *sql, sqlite3_stmt **q, tf_error *err) {
    const char *rest = "";
    int code = sqlite3_prepare_v2(s->db, sql, -1, q, &rest);
    if (code == SQLITE_ERROR || code == SQLITE_AUTH)
        return bad_sql(sql, sqlite3_errmsg(s->db), "", err);
    if (code != SQLITE_OK) return store_failed(s, TF_W_BAD_SQL, err, "reading");
    if (*q == NULL) return bad_sql(sql, "nothing", "a statement", err);
    if (rest[strspn(rest, " \t\r\n;")] != '\0')
        return bad_sql(sql, "more than one statement", "one", err);
    if (sqlite3_stmt_readonly(*q) == 0)
        return bad_sql(sql, "a statement that writes", "one that only reads", err);
    if (sqlite3_column_count(*q) > COLUMNS_MAX) return bad_sql(sql, "too many columns", "64", err);
    return TF_OK;
}

static void value_json(sqlite3_stmt *q, int column, tf_text *out) {
    switch (sqlite3_column_type(q, column)) {
    case SQLITE_INTEGER:
        text_i64(out, sqlite3_column_int64(q, column));
        break;
    case SQLITE_FLOAT:
        text_f64(out, sqlite3_column_double(q, column));
        break;
    case SQLITE_NULL:
        text_add(out, "null");
        break;
    default:
        text_json(out, (const char *)sqlite3_column_text(q, column));
        break;
    }
}

static void row_json(sqlite3_stmt *q, bool first, tf_text *out) {
    text_add(out, first ? "\n{" : ",\n{");
    for (int i = 0; i < sqlite3_column_count(q); i++) {
        if (i > 0) text_char(out, ',');
        text_json(out, sqlite3_column_name(q, i));
        text_char(out, ':');
        value_json(q, i, out);
    }
    text_char(out, '}');
}

/* The value on one line; "" for NULL. */
static const char *value_text(sqlite3_stmt *q, int column) {
    const unsigned char *text = sqlite3_column_text(q, column);
    return text == NULL ? "" : (const char *)text;
}

static void cell(tf_text *out, const char *text, size_t width, bool right, bool last) {
    size_t n = strlen(text);
    size_t pad = n < width ? width - n : 0;
    for (size_t i = 0; right && i < pad; i++)
        text_char(out, ' ');
    for (const char *p = text; *p != '\0'; p++)
        text_char(out, *p == '\n' || *p == '\t' || *p == '\r' ? ' ' : *p);
    for (size_t i = 0; !right && !last && i < pad; i++)
        text_char(out, ' ');
    text_add(out, last ? "\n" : "  ");
}

static void row_table(sqlite3_stmt *q, const size_t *widths, tf_text *out) {
    int columns = sqlite3_column_count(q);
    for (int i = 0; i < columns; i++) {
        int type = sqlite3_column_type(q, i);
        bool number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
        cell(out, value_text(q, i), widths[i], number, i + 1 == columns);
    }
}

/* Steps through the whole result once to see how wide each column is. */
static int measure(sqlite3_stmt *q, size_t *widths) {
    int code = SQLITE_DONE;
    for (int i = 0; i < sqlite3_column_count(q); i++)
        widths[i] = strlen(sqlite3_column_name(q, i));
    while ((code = sqlite3_step(q)) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(q); i++) {
            size_t n = strlen(value_text(q, i));
            if (n > widths[i]) widths[i] = n > WIDTH_MAX ? WIDTH_MAX : n;
        }
    sqlite3_reset(q);
    return code;
}

static int print_rows(sqlite3_stmt *q, bool json, tf_text *out) {
    size_t widths[COLUMNS_MAX] = {0};
    int columns = sqlite3_column_count(q);
    int code = SQLITE_DONE;
    if (json) {
        text_char(out, '[');
    } else {
        code = measure(q, widths);
        for (int i = 0; i < columns; i++)
            cell(out, sqlite3_column_name(q, i), widths[i], false, i + 1 == columns);
    }
    if (code != SQLITE_DONE) return code;
    bool first = true;
    while ((code = sqlite3_step(q)) == SQLITE_ROW) {
        if (json)
            row_json(q, first, out);
        else
            row_table(q, widths, out);
        first = false;
    }
    if (json) text_add(out, "\n]\n");
    return code;
}

tf_status store_query(store *s, const char *sql, bool json, tf_text *out, tf_error *err) {
    tf_status status = TF_OK;
    sqlite3_stmt *q = NULL;
    /* No statement may reach another file. */
    sqlite3_limit(s->db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_progress_handler(s->db, 10000, stop_asked, NULL);
    TF_TRY(prepare_query(s, sql, &q, err));
    if (print_rows(q, json, out) != SQLITE_DONE)
        status = store_failed(s, TF_W_BAD_SQL, err, "reading");
done:
    sqlite3_finalize(q);
    sqlite3_progress_handler(s->db, 0, NULL, NULL);
    return status;
}

/* ---- merge ---- */

/* Runs that are new get ids above `:last`; all that points at them follows by their uuid. */
static const char take_over[] =
    "INSERT INTO runs(uuid, began, ended, outcome, command, script, root, tool, compiler, revision,"
    " dirty, cores, host, system, held, failed, skipped, errors)"
    " SELECT uuid, began, ended, outcome, command, script, root, tool, compiler, revision, dirty,"
    " cores, host, system, held, failed, skipped, errors FROM other.runs"
    " WHERE uuid NOT IN (SELECT uuid FROM main.runs) ORDER BY id;"
    "CREATE TEMP TABLE fresh AS SELECT o.id AS theirs, r.id AS ours FROM main.runs r"
    " JOIN other.runs o ON o.uuid = r.uuid WHERE r.id > (SELECT last FROM temp.mark);"
    "INSERT INTO cases(run, name, outcome, word, message, place)"
    " SELECT ours, name, outcome, word, message, place FROM other.cases JOIN fresh ON theirs = run"
    " ORDER BY other.cases.id;"
    "INSERT INTO made(run, kind, name, pack, world, rank, digest, bytes)"
    " SELECT ours, kind, name, pack, world, rank, digest, bytes FROM other.made"
    " JOIN fresh ON theirs = run ORDER BY other.made.id;"
    "INSERT INTO pins(run, name, verdict)"
    " SELECT ours, name, verdict FROM other.pins JOIN fresh ON theirs = run ORDER BY other.pins.id;"
    "CREATE TEMP TABLE lists AS SELECT id, digest, count FROM other.call_lists"
    " WHERE digest NOT IN (SELECT digest FROM main.call_lists);"
    "INSERT INTO call_lists(digest, count) SELECT digest, count FROM lists;"
    "INSERT INTO calls(list, ordinal, layer, kind, name, line)"
    " SELECT mine.id, c.ordinal, c.layer, c.kind, c.name, c.line FROM lists"
    " JOIN main.call_lists mine ON mine.digest = lists.digest"
    " JOIN other.calls c ON c.list = lists.id;";

static tf_status attach(store *s, const char *path, tf_error *err) {
    sqlite3_stmt *q = NULL;
    tf_status status = TF_OK;
    if (sqlite3_prepare_v2(s->db, "ATTACH ?1 AS other", -1, &q, NULL) != SQLITE_OK ||
        sqlite3_bind_text(q, 1, path, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_step(q) != SQLITE_DONE)
        status = store_failed(s, TF_W_CANNOT_OPEN, err, "merging another store into");
    sqlite3_finalize(q);
    return status;
}

static bool same_file(const char *a, const char *b) {
    struct stat x;
    struct stat y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

tf_status store_merge(store *s, const char *path, uint64_t *runs, tf_error *err) {
    tf_status status = TF_OK;
    store *other = NULL;
    int64_t before = 0;
    int64_t after = 0;
    if (same_file(s->path, path)) {
        tf_fail(err, TF_W_USAGE, "merging %s", path);
        tf_found(err, "the same store");
        return tf_expected(err, "another one");
    }
    /* Refuses what is no store of ours before anything is written. */
    TF_TRY(store_open(path, STORE_READ, STORE_WAIT_MS, &other, err));
    store_close(other);
    TF_TRY(attach(s, path, err));
    status = store_transaction(s, err);
    if (status == TF_OK) {
        status = store_number(s, "SELECT count(*) FROM main.runs", &before, err);
        if (status == TF_OK)
            status = store_execute(s,
                                   "CREATE TEMP TABLE mark AS SELECT ifnull(max(id), 0) AS last"
                                   " FROM main.runs",
                                   err);
        if (status == TF_OK) status = store_execute(s, take_over, err);
        if (status == TF_OK)
            status = store_number(s, "SELECT count(*) FROM main.runs", &after, err);
        status = store_commit(s, status, err);
    }
    if (status == TF_OK)
        status = store_execute(s,
                               "DROP TABLE temp.mark; DROP TABLE temp.fresh;"
                               "DROP TABLE temp.lists; DETACH other",
                               err);
    *runs = (uint64_t)(after - before);
done:
    return status;
}

/* ---- gc ---- */

tf_status store_gc(store *s, uint64_t keep, uint64_t *removed, tf_error *err) {
    tf_status status = TF_OK;
    sqlite3_stmt *q = NULL;
    int64_t changes = 0;
    static const char old_runs[] = "DELETE FROM runs WHERE id NOT IN"
                                   " (SELECT id FROM runs ORDER BY id DESC LIMIT ?1)";
    TF_TRY(store_transaction(s, err));
    if (sqlite3_prepare_v2(s->db, old_runs, -1, &q, NULL) != SQLITE_OK ||
        sqlite3_bind_int64(q, 1, (int64_t)keep) != SQLITE_OK || sqlite3_step(q) != SQLITE_DONE)
        status = store_failed(s, TF_W_CANNOT_WRITE, err, "cleaning");
    changes = sqlite3_changes(s->db);
    sqlite3_finalize(q);
    if (status == TF_OK)
        status = store_execute(s,
                               "DELETE FROM call_lists WHERE digest NOT IN"
                               " (SELECT digest FROM made WHERE kind = 'calls')",
                               err);
    TF_TRY(store_commit(s, status, err));
    TF_TRY(store_execute(s, "VACUUM", err));
    *removed = (uint64_t)changes;
done:
    return status;
}
