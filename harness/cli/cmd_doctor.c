/* doctor - what this program is made of, and what it could use and does not find. */
#include "harness/cli/commands.h"
#include "harness/cli/out.h"
#include "harness/cli/session.h"
#include "harness/cli/summary.h"

#include "engine/base/io.h"
#include "engine/base/limits.h"
#include "engine/base/thread.h"

#include <string.h>

typedef struct part {
    const char *name;
    const char *found; /* a version or place; "" when the build did not find it; NULL: a program */
    const char *program; /* looked for on PATH now */
    const char *used_for;
    const char *package; /* Debian's name */
} part;

static const part parts[] = {
    {"SQLite", SUMMARY_SQLITE, NULL, "the store of runs and cases", "libsqlite3-dev"},
    {"Lua", SUMMARY_LUA, NULL, "runs scripts.lua", "liblua5.4-dev"},
    {"xxHash", SUMMARY_XXHASH, NULL, "content digests", "libxxhash-dev"},
    {"OpenSSL", SUMMARY_CRYPTO, NULL, "SHA-256", "libssl-dev"},
    {"cJSON", SUMMARY_CJSON, NULL, "JSON documents", "libcjson-dev"},
    {"YAJL", SUMMARY_YAJL, NULL, "headers of tensors, as a stream", "libyajl-dev"},
};

static const part optional_parts[] = {
    {"git", NULL, "git", "pins capture --base, revisions in pins", "git"},
    {"prove", NULL, "prove", "an independent reader of our TAP", "perl"},
    {"make", NULL, "make", "the test on a foreign project", "make"},
    {"clang-format", NULL, "clang-format-14", "the format check", "clang-format-14"},
    {"ssh-keygen", NULL, "ssh-keygen", "signatures under sign-offs", "openssh-client"},
    {"CUDA", NULL, "nvcc", "kernels on NVIDIA devices", "nvidia-cuda-toolkit"},
    {"mpirun", NULL, "mpirun", "ranks as processes", "openmpi-bin"},
    {"MPI", SUMMARY_MPI, NULL, "ranks as processes", "libopenmpi-dev"},
    {"libcurl", SUMMARY_CURL, NULL, "endpoints", "libcurl4-openssl-dev"},
    {"libmicrohttpd", SUMMARY_MICROHTTPD, NULL, "serving", "libmicrohttpd-dev"},
    {"libclang", SUMMARY_LIBCLANG, NULL, "generated mutants", "libclang-14-dev"},
};

enum {
    PARTS = sizeof parts / sizeof parts[0],
    OPTIONAL_PARTS = sizeof optional_parts / sizeof optional_parts[0]
};

/* Where a part is, or "". */
static const char *look_for(const part *p, char *path, size_t size) {
    if (p->program == NULL) return p->found;
    return session_find_program(p->program, path, size) ? path : "";
}

static void part_json(tf_text *out, const part *p, bool needed) {
    char path[TF_PATH_BYTES_MAX];
    text_add(out, "{\"name\":");
    text_json(out, p->name);
    text_add(out, ",\"found\":");
    text_json(out, look_for(p, path, sizeof path));
    text_add(out, ",\"for\":");
    text_json(out, p->used_for);
    text_add(out, ",\"package\":");
    text_json(out, p->package);
    text_print(out, ",\"needed\":%s}", needed ? "true" : "false");
}

static void doctor_json(const session *s, tf_text *out) {
    text_add(out, "{\"version\":");
    text_json(out, TF_VERSION);
    text_add(out, ",\"compiler\":");
    text_json(out, SUMMARY_COMPILER);
    text_add(out, ",\"build\":");
    text_json(out, SUMMARY_BUILD);
    text_print(out, ",\"cores\":%u,\"project\":", thread_cores());
    text_json(out, s->root);
    text_add(out, ",\"store\":");
    text_json(out, s->db);
    text_add(out, ",\"packs\":");
    text_json(out, s->cache);
    text_add(out, ",\"parts\":[");
    for (size_t i = 0; i < PARTS; i++) {
        part_json(out, &parts[i], true);
        text_char(out, ',');
    }
    for (size_t i = 0; i < OPTIONAL_PARTS; i++) {
        part_json(out, &optional_parts[i], false);
        text_add(out, i + 1 < OPTIONAL_PARTS ? "," : "]}\n");
    }
}

static void doctor_table(const session *s, tf_text *out) {
    char path[TF_PATH_BYTES_MAX];
    text_print(out, "tfverify %s, built by %s (%s)\n", TF_VERSION, SUMMARY_COMPILER, SUMMARY_BUILD);
    text_print(out, "cores    %u\n", thread_cores());
    text_print(out, "project  %s\n", s->root[0] == '\0' ? "none here (no scripts.lua)" : s->root);
    text_print(out, "store    %s\n", s->db[0] == '\0' ? "none (no project, no --db)" : s->db);
    text_print(out, "packs    %s\n", s->cache[0] == '\0' ? "no place to keep them" : s->cache);
    text_add(out, "\nbuilt with\n");
    for (size_t i = 0; i < PARTS; i++)
        text_print(out, "  %-14s  %-10s  %s\n", parts[i].name, parts[i].found, parts[i].used_for);
    size_t missing = 0;
    text_add(out, "\nfound\n");
    for (size_t i = 0; i < OPTIONAL_PARTS; i++) {
        const part *p = &optional_parts[i];
        const char *place = look_for(p, path, sizeof path);
        if (place[0] == '\0')
            missing++;
        else
            text_print(out, "  %-14s  %s\n", p->name, place);
    }
    text_add(out, missing == 0 ? "\nnothing is missing\n" : "\nmissing, and wanted only for\n");
    for (size_t i = 0; i < OPTIONAL_PARTS; i++) {
        const part *p = &optional_parts[i];
        if (look_for(p, path, sizeof path)[0] == '\0')
            text_print(out, "  %-14s  %-40s  apt-get install %s\n", p->name, p->used_for,
                       p->package);
    }
}

static tf_status run_doctor(const session *s, const args *a, tf_error *err) {
    tf_text out = {0};
    if (a->given[OPT_JSON])
        doctor_json(s, &out);
    else
        doctor_table(s, &out);
    return out_text(&out, err);
}

const command doctor_commands[] = {
    {"doctor", "", "versions, places, and what is found or missing and what for",
     "Libraries are those of the build, programs are looked for on PATH now.\n\n"
     "Examples\n"
     "  tfverify doctor\n"
     "  tfverify doctor --json\n",
     OPT(JSON) | OPT(ROOT) | OPT(DB), 0, 0, run_doctor},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};
