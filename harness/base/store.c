#include "harness/base/store.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"
#include "harness/base/store_inner.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* "TFVS" in an SQLite header's application field. */
#define STORE_APPLICATION 0x54465653

/* Step i brings version i to i + 1; a step that was released is never changed. */
static const char *const steps[STORE_VERSION] = {
    "CREATE TABLE runs("
    " id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, began TEXT NOT NULL, ended TEXT,"
    " outcome TEXT, command TEXT, script TEXT, root TEXT, tool TEXT, compiler TEXT, revision TEXT,"
    " dirty INTEGER, cores INTEGER, host TEXT, system TEXT,"
    " held INTEGER, failed INTEGER, skipped INTEGER, errors INTEGER);"
    "CREATE TABLE cases("
    " id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " name TEXT NOT NULL, outcome TEXT NOT NULL, word TEXT, message TEXT, place TEXT);"
    "CREATE TABLE made("
    " id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " kind TEXT NOT NULL, name TEXT NOT NULL, pack TEXT, world INTEGER, rank INTEGER,"
    " digest TEXT NOT NULL, bytes INTEGER);"
    "CREATE TABLE pins("
    " id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " name TEXT NOT NULL, verdict TEXT NOT NULL);"
    "CREATE TABLE call_lists("
    " id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, count INTEGER NOT NULL);"
    "CREATE TABLE calls("
    " list INTEGER NOT NULL REFERENCES call_lists(id) ON DELETE CASCADE, ordinal INTEGER NOT NULL,"
    " layer INTEGER, kind TEXT, name TEXT, line TEXT NOT NULL, PRIMARY KEY(list, ordinal))"
    " WITHOUT ROWID;",
    "CREATE INDEX cases_of_run ON cases(run);"
    "CREATE INDEX cases_by_name ON cases(name);"
    "CREATE INDEX made_of_run ON made(run);"
    "CREATE INDEX made_by_digest ON made(digest);"
    "CREATE INDEX pins_of_run ON pins(run);",
};

static const char *const texts[SQL_COUNT] = {
    [SQL_BEGIN_RUN] =
        "INSERT INTO runs(uuid, began, command, script, root, tool, compiler, revision, dirty,"
        " cores, host, system) VALUES(lower(hex(randomblob(16))),"
        " strftime('%Y-%m-%dT%H:%M:%fZ','now'), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    [SQL_END_RUN] = "UPDATE runs SET ended = strftime('%Y-%m-%dT%H:%M:%fZ','now'), outcome = ?2,"
                    " held = ?3, failed = ?4, skipped = ?5, errors = ?6 WHERE id = ?1",
    [SQL_CASE] = "INSERT INTO cases(run, name, outcome, word, message, place)"
                 " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [SQL_MADE] = "INSERT INTO made(run, kind, name, pack, world, rank, digest, bytes)"
                 " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [SQL_PIN] = "INSERT INTO pins(run, name, verdict) VALUES(?1, ?2, ?3)",
    [SQL_FIND_LIST] = "SELECT id FROM call_lists WHERE digest = ?1",
    [SQL_ADD_LIST] = "INSERT INTO call_lists(digest, count) VALUES(?1, ?2)",
    [SQL_ADD_CALL] = "INSERT INTO calls(list, ordinal, layer, kind, name, line)"
                     " VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
};

/* ---- failures ---- */

typedef struct known_failure {
    int code; /* SQLite's primary one */
    tf_word word;
    const char *remedy;
} known_failure;

static const known_failure known_failures[] = {
    {SQLITE_BUSY, TF_W_STORE_LOCKED, "wait for the other run to end, or name another store (--db)"},
    {SQLITE_LOCKED, TF_W_STORE_LOCKED,
     "wait for the other run to end, or name another store (--db)"},
    {SQLITE_CORRUPT, TF_W_STORE_DAMAGED, "move the file away; the next run makes a new store"},
    {SQLITE_NOTADB, TF_W_STORE_DAMAGED, "move the file away; the next run makes a new store"},
    {SQLITE_FULL, TF_W_NO_SPACE, "free space, or name a store on another disk (--db)"},
    {SQLITE_READONLY, TF_W_CANNOT_WRITE, "make it writable, or name another store (--db)"},
    {SQLITE_CANTOPEN, TF_W_CANNOT_OPEN, "a run makes the store; --db names another one"},
    {SQLITE_PERM, TF_W_CANNOT_OPEN, ""},
    {SQLITE_AUTH, TF_W_BAD_SQL, ""},
    {SQLITE_IOERR, TF_W_CANNOT_WRITE, ""},
    {SQLITE_NOMEM, TF_W_NO_MEMORY, ""},
    {SQLITE_INTERRUPT, TF_W_INTERRUPTED, ""},
};

tf_status store_failed(store *s, tf_word other, tf_error *err, const char *act) {
    int code = s->db == NULL ? SQLITE_NOMEM : sqlite3_errcode(s->db);
    const char *said = s->db == NULL ? "out of memory" : sqlite3_errmsg(s->db);
    known_failure kind = {code, other, ""};
    for (size_t i = 0; i < sizeof known_failures / sizeof known_failures[0]; i++)
        if (known_failures[i].code == (code & 0xff)) kind = known_failures[i];
    tf_fail(err, kind.word, "%s store %s", act, s->path);
    tf_found(err, "%s", said);
    return kind.remedy[0] == '\0' ? err->status : tf_remedy(err, "%s", kind.remedy);
}

tf_status store_execute(store *s, const char *sql, tf_error *err) {
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK) return TF_OK;
    return store_failed(s, TF_W_STORE_DAMAGED, err, "working on");
}

tf_status store_number(store *s, const char *sql, int64_t *value, tf_error *err) {
    sqlite3_stmt *statement = NULL;
    tf_status status = TF_OK;
    if (sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        status = store_failed(s, TF_W_STORE_DAMAGED, err, "reading");
    else
        *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

tf_status store_transaction(store *s, tf_error *err) {
    return store_execute(s, "BEGIN IMMEDIATE", err);
}

tf_status store_commit(store *s, tf_status status, tf_error *err) {
    if (status == TF_OK) status = store_execute(s, "COMMIT", err);
    if (status != TF_OK) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* ---- opening ---- */

static tf_status migrate(store *s, int64_t from, int version, tf_error *err) {
    tf_status status = TF_OK;
    char mark[80];
    TF_TRY(store_transaction(s, err));
    /* Another process may have been first. */
    status = store_number(s, "PRAGMA user_version", &from, err);
    for (int64_t i = from; status == TF_OK && i < version; i++)
        status = store_execute(s, steps[i], err);
    snprintf(mark, sizeof mark, "PRAGMA user_version = %d; PRAGMA application_id = %d", version,
             STORE_APPLICATION);
    if (status == TF_OK && from < version) status = store_execute(s, mark, err);
    status = store_commit(s, status, err);
done:
    return status;
}

/* Whose file is it, and of which version? */
static tf_status check_owner(store *s, int64_t *version, tf_error *err) {
    tf_status status = TF_OK;
    int64_t application = 0;
    int64_t tables = 0;
    TF_TRY(store_number(s, "PRAGMA user_version", version, err));
    TF_TRY(store_number(s, "PRAGMA application_id", &application, err));
    TF_TRY(store_number(s, "SELECT count(*) FROM sqlite_schema", &tables, err));
    if (application != STORE_APPLICATION && (tables > 0 || *version != 0)) {
        tf_fail(err, TF_W_STORE_FOREIGN, "opening store %s", s->path);
        tf_found(err, "a database of another program");
        return tf_remedy(err, "name another store (--db)");
    }
    if (*version > STORE_VERSION || *version < 0) {
        tf_fail(err, TF_W_STORE_NEWER, "opening store %s", s->path);
        tf_found(err, "version %lld", (long long)*version);
        tf_expected(err, "at most %d", STORE_VERSION);
        return tf_remedy(err, "use the newer tfverify, or name another store (--db)");
    }
done:
    return status;
}

static tf_status make_folder(const char *path, tf_error *err) {
    char folder[1024];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) return TF_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return io_make_dirs(folder, err);
}

static tf_status open_file(store *s, const char *path, store_mode mode, uint32_t wait_ms,
                           tf_error *err) {
    tf_status status = TF_OK;
    int flags = SQLITE_OPEN_READONLY;
    if (snprintf(s->path, sizeof s->path, "%s", path) >= (int)sizeof s->path) {
        tf_fail(err, TF_W_USAGE, "opening store %.200s", path);
        return tf_expected(err, "a path of fewer than %zu bytes", sizeof s->path);
    }
    if (mode == STORE_WRITE) {
        flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
        TF_TRY(make_folder(path, err));
    }
    /* A NUL-terminated plain name: no URI, whatever the file is called. */
    if (sqlite3_open_v2(path, &s->db, flags, NULL) != SQLITE_OK)
        return store_failed(s, TF_W_CANNOT_OPEN, err, "opening");
    sqlite3_busy_timeout(s->db, (int)wait_ms);
done:
    return status;
}

static tf_status open_at(const char *path, store_mode mode, uint32_t wait_ms, int version,
                         store **out, tf_error *err) {
    tf_status status = TF_OK;
    int64_t found = 0;
    store *s = mem_take(sizeof *s);
    *out = NULL;
    if (s == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening store %s", path);
    TF_TRY(open_file(s, path, mode, wait_ms, err));
    TF_TRY(check_owner(s, &found, err));
    if (mode == STORE_WRITE) {
        TF_TRY(store_execute(s,
                             "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                             "PRAGMA foreign_keys = ON; PRAGMA cache_size = -65536",
                             err));
        if (found < version) TF_TRY(migrate(s, found, version, err));
    }
    *out = s;
    s = NULL;
done:
    store_close(s);
    return status;
}

tf_status store_open(const char *path, store_mode mode, uint32_t wait_ms, store **out,
                     tf_error *err) {
    return open_at(path, mode, wait_ms, STORE_VERSION, out, err);
}

tf_status store_make_old(const char *path, int version, tf_error *err) {
    store *s = NULL;
    TF_ASSERT(version >= 1 && version <= STORE_VERSION);
    tf_status status = open_at(path, STORE_WRITE, STORE_WAIT_MS, version, &s, err);
    store_close(s);
    return status;
}

void store_close(store *s) {
    if (s == NULL) return;
    for (int i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(s->ready[i]);
    sqlite3_close(s->db);
    mem_free(s);
}

/* ---- recording ---- */

static tf_status prepared(store *s, store_sql which, sqlite3_stmt **out, tf_error *err) {
    if (s->ready[which] == NULL &&
        sqlite3_prepare_v3(s->db, texts[which], -1, SQLITE_PREPARE_PERSISTENT, &s->ready[which],
                           NULL) != SQLITE_OK)
        return store_failed(s, TF_W_STORE_DAMAGED, err, "writing");
    *out = s->ready[which];
    return TF_OK;
}

/* Texts live until the step: nothing is copied. */
static void bind(sqlite3_stmt *statement, int index, const char *text) {
    sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
}

static void bind_number(sqlite3_stmt *statement, int index, uint64_t number) {
    sqlite3_bind_int64(statement, index, (int64_t)number);
}

static tf_status finish(store *s, sqlite3_stmt *statement, tf_error *err) {
    int code = sqlite3_step(statement);
    tf_status status = TF_OK;
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        status = store_failed(s, TF_W_CANNOT_WRITE, err, "writing");
    sqlite3_reset(statement);
    return status;
}

tf_status store_begin(store *s, const store_environment *environment, int64_t *run, tf_error *err) {
    const store_environment *e = environment;
    tf_status status = TF_OK;
    sqlite3_stmt *q = NULL;
    struct utsname machine;
    char system[200] = "";
    bool known = uname(&machine) == 0;
    TF_ASSERT(s->run == 0);
    if (known)
        snprintf(system, sizeof system, "%.60s %.60s %.60s", machine.sysname, machine.release,
                 machine.machine);
    TF_TRY(prepared(s, SQL_BEGIN_RUN, &q, err));
    bind(q, 1, e->command);
    bind(q, 2, e->script);
    bind(q, 3, e->root);
    bind(q, 4, e->tool);
    bind(q, 5, e->compiler);
    bind(q, 6, e->revision);
    bind_number(q, 7, e->dirty);
    bind_number(q, 8, e->cores);
    bind(q, 9, known ? machine.nodename : NULL);
    bind(q, 10, system);
    TF_TRY(finish(s, q, err));
    s->run = sqlite3_last_insert_rowid(s->db);
    if (run != NULL) *run = s->run;
done:
    return status;
}

tf_status store_case(store *s, const char *name, const char *outcome, const char *word,
                     const char *message, const char *place, tf_error *err) {
    tf_status status = TF_OK;
    sqlite3_stmt *q = NULL;
    TF_ASSERT(s->run != 0);
    TF_TRY(prepared(s, SQL_CASE, &q, err));
    bind_number(q, 1, (uint64_t)s->run);
    bind(q, 2, name);
    bind(q, 3, outcome);
    bind(q, 4, word);
    bind(q, 5, message);
    bind(q, 6, place);
    TF_TRY(finish(s, q, err));
done:
    return status;
}

tf_status store_add_made(store *s, const store_made *made, tf_error *err) {
    tf_status status = TF_OK;
    sqlite3_stmt *q = NULL;
    TF_ASSERT(s->run != 0);
    TF_TRY(prepared(s, SQL_MADE, &q, err));
    bind_number(q, 1, (uint64_t)s->run);
    bind(q, 2, made->kind);
    bind(q, 3, made->name);
    bind(q, 4, made->pack);
    bind_number(q, 5, made->world);
    bind_number(q, 6, made->rank);
    bind(q, 7, made->digest);
    bind_number(q, 8, made->bytes);
    TF_TRY(finish(s, q, err));
done:
    return status;
}

tf_status store_pin(store *s, const char *name, const char *verdict, tf_error *err) {
    tf_status status = TF_OK;
    sqlite3_stmt *q = NULL;
    TF_ASSERT(s->run != 0);
    TF_TRY(prepared(s, SQL_PIN, &q, err));
    bind_number(q, 1, (uint64_t)s->run);
    bind(q, 2, name);
    bind(q, 3, verdict);
    TF_TRY(finish(s, q, err));
done:
    return status;
}

tf_status store_has_calls(store *s, const char *digest, bool *known, tf_error *err) {
    tf_status status = TF_OK;
    sqlite3_stmt *q = NULL;
    int code = SQLITE_DONE;
    TF_TRY(prepared(s, SQL_FIND_LIST, &q, err));
    bind(q, 1, digest);
    code = sqlite3_step(q);
    *known = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        status = store_failed(s, TF_W_STORE_DAMAGED, err, "reading");
    sqlite3_reset(q);
done:
    return status;
}

static tf_status add_rows(store *s, int64_t list, size_t count, store_next_call next, void *context,
                          tf_error *err) {
    tf_status status = TF_OK;
    sqlite3_stmt *q = NULL;
    TF_TRY(prepared(s, SQL_ADD_CALL, &q, err));
    for (size_t i = 0; i < count; i++) {
        store_call row = {0};
        if (i % 4096 == 0) TF_TRY(tf_stop_check(err));
        next(context, i, &row);
        bind_number(q, 1, (uint64_t)list);
        bind_number(q, 2, row.ordinal);
        bind_number(q, 3, row.layer);
        bind(q, 4, row.kind);
        bind(q, 5, row.name);
        sqlite3_bind_text64(q, 6, row.line, row.line_bytes, SQLITE_STATIC, SQLITE_UTF8);
        TF_TRY(finish(s, q, err));
    }
done:
    return status;
}

tf_status store_add_calls(store *s, const char *digest, size_t count, store_next_call next,
                          void *context, tf_error *err) {
    tf_status status = TF_OK;
    sqlite3_stmt *q = NULL;
    bool known = false;
    TF_TRY(store_transaction(s, err));
    status = store_has_calls(s, digest, &known, err);
    if (status == TF_OK && !known) {
        status = prepared(s, SQL_ADD_LIST, &q, err);
        if (status == TF_OK) {
            bind(q, 1, digest);
            bind_number(q, 2, count);
            status = finish(s, q, err);
        }
        int64_t list = sqlite3_last_insert_rowid(s->db);
        if (status == TF_OK) status = add_rows(s, list, count, next, context, err);
    }
    status = store_commit(s, status, err);
done:
    return status;
}

tf_status store_end(store *s, const char *outcome, const store_counts *counts, tf_error *err) {
    tf_status status = TF_OK;
    sqlite3_stmt *q = NULL;
    TF_ASSERT(s->run != 0);
    TF_TRY(prepared(s, SQL_END_RUN, &q, err));
    bind_number(q, 1, (uint64_t)s->run);
    bind(q, 2, outcome);
    bind_number(q, 3, counts->held);
    bind_number(q, 4, counts->failed);
    bind_number(q, 5, counts->skipped);
    bind_number(q, 6, counts->errors);
    TF_TRY(finish(s, q, err));
    s->run = 0;
done:
    return status;
}
