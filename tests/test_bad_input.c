/* Everything wrong that a user can hand in: each is named, refused with the right exit code, and
 * leaves nothing half-written.  Packs are the tiny one with a single thing changed. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOOL TF_BUILD_DIR "/tfverify"

static char out[1 << 16];
static char made[64]; /* folder of the unspoilt packs, for the whole program */

/* Runs the tool outside of any project, with its cache where this test may write. */
static int tool(check_case *t, const char *arguments) {
    return check_command(t, out, sizeof out, "cd / && XDG_CACHE_HOME=%s/cache %s %s", made, TOOL,
                         arguments);
}

/* The tool refuses: exit code, and each of up to three texts in what it says. */
static void refuses(check_case *t, int code, const char *const want[3], const char *arguments) {
    int got = tool(t, arguments);
    CHECKF(t, got == code, "tfverify %s: exit %d, expected %d:\n%.1500s", arguments, got, code,
           out);
    for (size_t i = 0; i < 3 && want[i] != NULL; i++)
        CHECKF(t, strstr(out, want[i]) != NULL, "tfverify %s: no '%s' in:\n%.1500s", arguments,
               want[i], out);
}

#define WANT(...) ((const char *const[3]){__VA_ARGS__})

/* A copy of the tiny pack to spoil; "" when it cannot be made. */
static const char *tiny(check_case *t) {
    char arguments[256];
    const char *dir = check_tmpdir(t);
    snprintf(arguments, sizeof arguments, "pack synth tiny-bf16 %s/tiny", made);
    if (check_command(t, out, sizeof out, "test -d %s/tiny", made) != 0) tool(t, arguments);
    int code = check_command(t, out, sizeof out, "cp %s/tiny/* %s/", made, dir);
    CHECKF(t, code == 0, "no tiny pack: %s", out);
    return dir;
}

/* ---- a safetensors file in memory ---- */

typedef struct shard {
    char path[256];
    char *header; /* NUL-terminated */
    char *data;
    size_t data_bytes;
} shard;

static bool shard_read(check_case *t, const char *dir, shard *s) {
    *s = (shard){0};
    snprintf(s->path, sizeof s->path, "%s/model.safetensors", dir);
    FILE *file = fopen(s->path, "rb");
    unsigned char length[8];
    if (!CHECKF(t, file != NULL && fread(length, 1, 8, file) == 8, "cannot read %s", s->path))
        return false;
    size_t n = (size_t)length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16;
    fseek(file, 0, SEEK_END);
    s->data_bytes = (size_t)ftell(file) - 8 - n;
    /* Room for what a case adds. */
    s->header = calloc(n + 4096, 1);
    s->data = calloc(s->data_bytes + 4096, 1);
    fseek(file, 8, SEEK_SET);
    bool whole = s->header != NULL && s->data != NULL && fread(s->header, 1, n, file) == n &&
                 fread(s->data, 1, s->data_bytes, file) == s->data_bytes;
    fclose(file);
    return CHECKF(t, whole, "cannot read %s whole", s->path);
}

static void shard_write(check_case *t, shard *s) {
    size_t n = strlen(s->header);
    unsigned char length[8] = {(unsigned char)n, (unsigned char)(n >> 8), (unsigned char)(n >> 16)};
    FILE *file = fopen(s->path, "wb");
    bool whole = file != NULL && fwrite(length, 1, 8, file) == 8 &&
                 fwrite(s->header, 1, n, file) == n &&
                 fwrite(s->data, 1, s->data_bytes, file) == s->data_bytes;
    if (file != NULL) whole = fclose(file) == 0 && whole;
    CHECKF(t, whole, "cannot write %s", s->path);
    free(s->header);
    free(s->data);
}

/* The entry of a tensor: from its quote to behind its brace; false when there is none. */
static bool shard_entry(const shard *s, const char *name, char **begin, char **end) {
    char quoted[128];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    *begin = strstr(s->header, quoted);
    if (*begin == NULL) return false;
    *end = strchr(*begin, '}') + 1;
    return true;
}

/* Replaces bytes [begin, end) of the header. */
static void splice(shard *s, char *begin, const char *end, const char *with) {
    size_t rest = strlen(end) + 1;
    size_t n = strlen(with);
    char *tail = malloc(rest);
    if (tail == NULL) return;
    memcpy(tail, end, rest);
    memcpy(begin, with, n);
    memcpy(begin + n, tail, rest);
    free(tail);
    (void)s;
}

/* ---- admission ---- */

/* A world that is not admitted is refused before anything is opened: here there is nothing. */
static void admission_is_asked_before_the_pack(check_case *t) {
    static const char *const commands[] = {
        "plan",
        "emit --rank 0 --phase decode",
        "emit --rank 0 --phase prefill",
        "emit --rank 0 --phase draft",
        "emit --rank 0 --phase prefetch",
        "needs",
        "rank write /nowhere/out",
        "rank digest --rank 0",
        "rank verify /nowhere/out --rank 0",
    };
    for (size_t i = 0; i < COUNT(commands); i++) {
        int code = check_command(
            t, out, sizeof out, TF_BUILD_DIR "/tfverify %s --pack /nowhere --world 5", commands[i]);
        CHECK_U64(t, code, 2);
        CHECKF(t, strstr(out, "[world-not-admitted]") != NULL, "%s: %s", commands[i], out);
    }
}

/* ---- packs ---- */

static void an_empty_directory_is_no_pack(check_case *t) {
    char arguments[256];
    const char *dir = check_tmpdir(t);
    snprintf(arguments, sizeof arguments, "plan --pack %s", dir);
    refuses(t, 3, WANT(dir, "config.json"), arguments);
    snprintf(arguments, sizeof arguments, "plan --pack %s/none", dir);
    refuses(t, 2, WANT("/none", "[no-pack]"), arguments);
    refuses(t, 2, WANT("tfverify pack synth bench-bf16 DIR", "[no-pack]"),
            "plan --pack bench-bf16");
    refuses(t, 2, WANT("no --pack", "tiny-exl3"), "plan --world 2");
}

static void a_missing_shard_is_named(check_case *t) {
    char arguments[256];
    const char *dir = tiny(t);
    snprintf(arguments, sizeof arguments, "plan --pack %s", dir);
    check_command(t, out, sizeof out, "rm %s/model.safetensors", dir);
    refuses(t, 3, WANT("safetensors"), arguments);
    /* An index that promises a second file. */
    dir = tiny(t);
    check_command(t, out, sizeof out,
                  "cd %s && mv model.safetensors model-00001-of-00002.safetensors && printf "
                  "'{\"weight_map\":{\"embed.weight\":\"model-00001-of-00002.safetensors\","
                  "\"head.weight\":\"model-00002-of-00002.safetensors\"}}' "
                  ">model.safetensors.index.json",
                  dir);
    snprintf(arguments, sizeof arguments, "plan --pack %s", dir);
    refuses(t, 3, WANT("model-00002-of-00002.safetensors"), arguments);
}

static void a_config_of_another_model_is_refused(check_case *t) {
    char arguments[256];
    const char *dir = tiny(t);
    snprintf(arguments, sizeof arguments, "plan --pack %s", dir);
    check_command(t, out, sizeof out,
                  "printf '{\"model_type\":\"other\",\"hidden_size\":64}' >%s/config.json", dir);
    refuses(t, 3, WANT("config.json"), arguments);
    /* Of the same family, but of another size. */
    dir = tiny(t);
    snprintf(arguments, sizeof arguments, "plan --pack %s", dir);
    check_command(t, out, sizeof out,
                  "sed -i 's/\"hidden_size\": *[0-9]*/\"hidden_size\": 1024/' %s/config.json", dir);
    refuses(t, 3, WANT("1024"), arguments);
    check_command(t, out, sizeof out, "printf '{\"text_config\":' >%s/config.json", dir);
    refuses(t, 3, WANT("config.json", "[bad-json]"), arguments);
}

static void a_removed_tensor_is_missed_by_name(check_case *t) {
    char arguments[256];
    const char *dir = tiny(t);
    shard s;
    if (!shard_read(t, dir, &s)) return;
    /* The one whose bytes end the file, so that no hole is left. */
    char last[32];
    snprintf(last, sizeof last, ",%zu]", s.data_bytes);
    char *end = strstr(s.header, last);
    char *begin = end;
    if (!CHECKF(t, end != NULL, "no tensor ends the file")) return;
    while (begin[-1] != '{')
        begin--;
    unsigned long long from =
        strtoull(strrchr(begin, '[') == NULL ? "" : strstr(begin, "offsets\":[") + 10, NULL, 10);
    begin -= 2;
    while (begin[-1] != '"')
        begin--;
    while (begin[-1] != ',' && begin[-1] != '{')
        begin--;
    char name[128] = "";
    sscanf(begin, " \"%127[^\"]", name);
    end = strchr(end, '}') + 1;
    if (*end == ',')
        end++;
    else
        begin -= begin[-1] == ',';
    splice(&s, begin, end, "");
    s.data_bytes = (size_t)from;
    shard_write(t, &s);
    snprintf(arguments, sizeof arguments, "plan --pack %s", dir);
    refuses(t, 3, WANT(name, "[missing-tensor]"), arguments);
}

static void an_added_tensor_is_refused_by_name(check_case *t) {
    char arguments[256];
    const char *dir = tiny(t);
    shard s;
    if (!shard_read(t, dir, &s)) return;
    char entry[200];
    snprintf(
        entry, sizeof entry,
        "{\"layers.0.attn.extra.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%zu,%zu]},",
        s.data_bytes, s.data_bytes + 4);
    splice(&s, s.header, s.header + 1, entry);
    s.data_bytes += 4;
    shard_write(t, &s);
    snprintf(arguments, sizeof arguments, "plan --pack %s", dir);
    refuses(t, 3, WANT("layers.0.attn.extra.weight", "[unexpected-tensor]"), arguments);
}

static void a_renamed_tensor_is_refused_by_name(check_case *t) {
    char arguments[256];
    const char *dir = tiny(t);
    shard s;
    char *begin;
    char *end;
    if (!shard_read(t, dir, &s)) return;
    if (CHECK(t, shard_entry(&s, "layers.0.attn.wq_a.weight", &begin, &end)))
        memcpy(strstr(begin, "wq_a"), "wq_x", 4);
    shard_write(t, &s);
    snprintf(arguments, sizeof arguments, "plan --pack %s", dir);
    refuses(t, 3, WANT("layers.0.attn.wq_"), arguments);
    CHECKF(t, strstr(out, "[missing-tensor]") != NULL || strstr(out, "[unexpected-tensor]") != NULL,
           "%s", out);
}

static void a_tensor_of_another_shape_is_refused_by_name(check_case *t) {
    char arguments[256];
    const char *dir = tiny(t);
    shard s;
    char *begin;
    char *end;
    unsigned rows = 0;
    unsigned columns = 0;
    if (!shard_read(t, dir, &s)) return;
    if (CHECK(t, shard_entry(&s, "embed.weight", &begin, &end))) {
        char *shape = strchr(begin, '[');
        CHECK(t, sscanf(shape, "[%u,%u]", &rows, &columns) == 2);
        char turned[32];
        snprintf(turned, sizeof turned, "[%u,%u]", columns, rows);
        splice(&s, shape, strchr(shape, ']') + 1, turned);
    }
    shard_write(t, &s);
    snprintf(arguments, sizeof arguments, "plan --pack %s", dir);
    refuses(t, 3, WANT("embed.weight", "[wrong-shape]"), arguments);
}

static void a_cut_file_is_refused(check_case *t) {
    char arguments[256];
    const char *dir = tiny(t);
    snprintf(arguments, sizeof arguments, "plan --pack %s", dir);
    check_command(t, out, sizeof out, "truncate -s -1 %s/model.safetensors", dir);
    refuses(t, 3, WANT("model.safetensors"), arguments);
    check_command(t, out, sizeof out, "truncate -s 100 %s/model.safetensors", dir);
    refuses(t, 3, WANT("model.safetensors"), arguments);
    check_command(t, out, sizeof out, "truncate -s 0 %s/model.safetensors", dir);
    refuses(t, 3, WANT("model.safetensors"), arguments);
}

/* ---- splits ---- */

static void worlds_and_ranks_that_cannot_be_are_refused(check_case *t) {
    static const char *const commands[] = {"plan", "emit --phase decode", "needs"};
    for (size_t i = 0; i < COUNT(commands); i++) {
        char arguments[128];
        static const struct {
            const char *split;
            const char *found, *word;
        } wrong[] = {{"--world 0 --rank 0", "0", "[world-not-admitted]"},
                     {"--world 5 --rank 0", "5", "[world-not-admitted]"},
                     {"--world 300 --rank 0", "300", "[world-not-admitted]"},
                     {"--world 3 --rank 3", "3", "[bad-rank]"},
                     {"--weights 0,0,0 --rank 0", "weights", "[bad-weights]"},
                     {"--weights 1,1 --world 3 --rank 0", "2 weights", "[bad-weights]"}};
        for (size_t j = 0; j < COUNT(wrong); j++) {
            bool ranks = strcmp(commands[i], "needs") != 0;
            if (!ranks && strcmp(wrong[j].word, "[bad-rank]") == 0) continue;
            snprintf(arguments, sizeof arguments, "%s --pack tiny-bf16 %.*s", commands[i],
                     ranks ? 100 : (int)(strstr(wrong[j].split, " --rank") - wrong[j].split),
                     wrong[j].split);
            refuses(t, 2, WANT(wrong[j].found, wrong[j].word), arguments);
        }
    }
    refuses(t, 2, WANT("no --rank", "from 0 to 2"), "emit --pack tiny-bf16 --world 3");
    refuses(t, 2, WANT("'sideways'", "decode, prefill"), "emit --pack tiny-bf16 --phase sideways");
    refuses(t, 2, WANT("[world-not-admitted]"), "plan --pack tiny-bf16 --world 0");
}

/* ---- disks ---- */

/* Runs a script with a tmpfs of these options at DIR; false (and SKIP) where none can be mounted. */
static bool on_tmpfs(check_case *t, const char *options, const char *script, int *code) {
    const char *dir = check_tmpdir(t);
    static const char *const ways[] = {"unshare -m", "unshare -rm"};
    for (size_t i = 0; i < COUNT(ways); i++) {
        if (check_command(t, out, sizeof out, "%s mount -t tmpfs none %s", ways[i], dir) != 0)
            continue;
        *code = check_command(t, out, sizeof out,
                              "%s sh -c 'mount -t tmpfs -o %s none %s && cd %s && PATH=%s:$PATH && "
                              "XDG_CACHE_HOME=%s/cache && export XDG_CACHE_HOME && %s'",
                              ways[i], options, dir, dir, TF_BUILD_DIR, made, script);
        return true;
    }
    check_skip(t, "no tmpfs can be mounted here, neither as root nor in a user namespace");
    return false;
}

static void a_full_disk_leaves_nothing(check_case *t) {
    int code;
    if (!on_tmpfs(t, "size=2m",
                  "tfverify rank write --pack tiny-bf16 out; echo code $?; find . -type f", &code))
        return;
    CHECKF(t, strstr(out, "[no-space]") != NULL && strstr(out, "code 3") != NULL, "%s", out);
    CHECKF(t, strstr(out, "./") == NULL, "files are left:\n%s", out);
    on_tmpfs(t, "size=2m", "tfverify pack synth tiny-bf16 p; echo code $?; find . -type f", &code);
    CHECKF(t, strstr(out, "[no-space]") != NULL && strstr(out, "code 3") != NULL, "%s", out);
    CHECKF(t, strstr(out, "./") == NULL, "files are left:\n%s", out);
}

static void a_read_only_disk_is_named(check_case *t) {
    int code;
    if (!on_tmpfs(t, "ro", "tfverify rank write --pack tiny-bf16 out; echo code $?", &code)) return;
    CHECKF(t,
           strstr(out, "out") != NULL && strstr(out, "Read-only") != NULL &&
               strstr(out, "code 3") != NULL,
           "%s", out);
}

/* ---- Ctrl-C ---- */

/* Stops the tool when a half-written file is seen, not after a while. */
static void ctrl_c_in_a_write_leaves_whole_files(check_case *t) {
    const char *dir = check_tmpdir(t);
    int code = check_command(
        t, out, sizeof out,
        "cd %s && export XDG_CACHE_HOME=%s/cache && %s pack synth tiny-exl3 large --layers 60 || exit 9; "
        "%s rank write --pack large --workers 1 out >said 2>&1 & child=$!; "
        "for i in $(seq 2000); do ls out/rank0/*.tmp-* >/dev/null 2>&1 && break; sleep 0.005; done; "
        "kill -INT $child; wait $child; echo code $?; cat said; find out -name '*.tmp-*'",
        dir, made, TOOL, TOOL);
    CHECK_U64(t, code, 0);
    CHECKF(t, strstr(out, "code 4") != NULL && strstr(out, "[interrupted]") != NULL, "%s", out);
    CHECKF(t, strstr(out, ".tmp-") == NULL, "a temporary file is left:\n%s", out);
    code = check_command(t, out, sizeof out,
                         "cd %s && %s rank write --pack large --resume out && %s rank verify out",
                         dir, TOOL, TOOL);
    CHECKF(t, code == 0, "the set cannot be finished:\n%s", out);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"bad-input/admission-is-asked-before-the-pack", admission_is_asked_before_the_pack},
        {"bad-input/an-empty-directory-is-no-pack", an_empty_directory_is_no_pack},
        {"bad-input/a-missing-shard-is-named", a_missing_shard_is_named},
        {"bad-input/a-config-of-another-model-is-refused", a_config_of_another_model_is_refused},
        {"bad-input/a-removed-tensor-is-missed-by-name", a_removed_tensor_is_missed_by_name},
        {"bad-input/an-added-tensor-is-refused-by-name", an_added_tensor_is_refused_by_name},
        {"bad-input/a-renamed-tensor-is-refused-by-name", a_renamed_tensor_is_refused_by_name},
        {"bad-input/a-tensor-of-another-shape-is-refused-by-name",
         a_tensor_of_another_shape_is_refused_by_name},
        {"bad-input/a-cut-file-is-refused", a_cut_file_is_refused},
        {"bad-input/worlds-and-ranks-that-cannot-be-are-refused",
         worlds_and_ranks_that_cannot_be_are_refused},
        {"bad-input/a-full-disk-leaves-nothing", a_full_disk_leaves_nothing},
        {"bad-input/a-read-only-disk-is-named", a_read_only_disk_is_named},
        {"bad-input/ctrl-c-in-a-write-leaves-whole-files", ctrl_c_in_a_write_leaves_whole_files},
    };
    snprintf(made, sizeof made, "/tmp/tfverify-packs-XXXXXX");
    if (mkdtemp(made) == NULL) {
        printf("Bail out! no temporary directory can be made in /tmp\n");
        return 1;
    }
    int code = check_main(argc, argv, cases, COUNT(cases));
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", made);
    return system(command) == 0 ? code : 1;
}
