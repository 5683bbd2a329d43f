/* base/store_inner - what the sources of the store share, and nobody else includes.
 *
 * Idea: every SQLite failure becomes a word in one place.
 * Trap: a statement that failed must be reset before the next use, or it keeps its lock. */
#ifndef TF_HARNESS_BASE_STORE_INNER_H
#define TF_HARNESS_BASE_STORE_INNER_H

#include "harness/base/store.h"

#include <sqlite3.h>

/* Prepared once, at first use. */
typedef enum {
    SQL_BEGIN_RUN,
    SQL_END_RUN,
    SQL_CASE,
    SQL_MADE,
    SQL_PIN,
    SQL_FIND_LIST,
    SQL_ADD_LIST,
    SQL_ADD_CALL,
    SQL_COUNT
} store_sql;

struct store {
    sqlite3 *db;
    char path[1024];
    int64_t run; /* the one that is open; 0: none */
    sqlite3_stmt *ready[SQL_COUNT];
};

/* The failure SQLite has at hand; other: the word when it is none of the known kinds. */
tf_status store_failed(store *s, tf_word other, tf_error *err, const char *act);
/* One or more statements without results. */
tf_status store_execute(store *s, const char *sql, tf_error *err);
/* The first column of the first row. */
tf_status store_number(store *s, const char *sql, int64_t *value, tf_error *err);
/* BEGIN IMMEDIATE; store_commit ends it, or rolls back when status is a failure. */
tf_status store_transaction(store *s, tf_error *err);
tf_status store_commit(store *s, tf_status status, tf_error *err);

#endif
