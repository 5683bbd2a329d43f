/* generate and diverge from outside: the golden tokens by every way to run ranks, and what becomes of
 * a run in which a rank is killed, hangs or fails. */
#include "tests/support/check.h"
#include "tests/support/forward.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Away from any project, with a cache in the build folder. */
#define TOOL "cd / && XDG_CACHE_HOME=" TF_BUILD_DIR "/cli " TF_BUILD_DIR "/tfverify"

static char out[1 << 16];

static int tool(check_case *t, const char *arguments) {
    return check_command(t, out, sizeof out, "%s %s", TOOL, arguments);
}

static void says(check_case *t, const char *arguments, int code, const char *want) {
    int got = tool(t, arguments);
    CHECKF(t, got == code, "tfverify %s: exit %d, expected %d:\n%.2000s", arguments, got, code,
           out);
    CHECKF(t, strstr(out, want) != NULL, "tfverify %s: no '%s' in:\n%.2000s", arguments, want, out);
}

static void says_of(check_case *t, int code, const char *want, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void says_of(check_case *t, int code, const char *want, const char *format, ...) {
    char line[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    says(t, line, code, want);
}

/* "0,12,7" */
static const char *list_of(const int32_t *ids, uint32_t count, char *to, size_t size) {
    size_t used = 0;
    to[0] = '\0';
    for (uint32_t i = 0; i < count; i++)
        used += (size_t)snprintf(to + used, size - used, "%s%d", i == 0 ? "" : ",", ids[i]);
    return to;
}

/* The golden prompts into DIR/prompts, in the three forms of a line. */
static const char *write_prompts(check_case *t, const forward_golden *g, char *path, size_t size) {
    static const char *const forms[FORWARD_PROMPTS] = {"%s\n\n", "{\"ids\": [%s]}\n", "# 96\n%s\n"};
    char ids[2048];
    snprintf(path, size, "%s/prompts", check_tmpdir(t));
    FILE *file = fopen(path, "w");
    if (!CHECK(t, file != NULL)) return path;
    for (uint32_t p = 0; p < FORWARD_PROMPTS; p++) {
        char line[2100];
        list_of(g->prompt[p], forward_lengths[p], ids, sizeof ids);
        const char *at = strstr(forms[p], "%s");
        snprintf(line, sizeof line, "%.*s%s%s", (int)(at - forms[p]), forms[p], ids, at + 2);
        fputs(line, file);
    }
    CHECK(t, fclose(file) == 0);
    return path;
}

/* ---- tokens ---- */

static void holds_golden(check_case *t, const forward_golden *g, const char *what) {
    for (uint32_t p = 0; p < FORWARD_PROMPTS; p++) {
        char ids[2048];
        char want[2400];
        list_of(g->greedy[p], FORWARD_TOKENS, ids, sizeof ids);
        snprintf(want, sizeof want, "prompt %u\nids %s\ncount 48\ntoken_sha %.12s %s\n", p + 1, ids,
                 g->token_sha[p], g->token_sha[p]);
        CHECKF(t, strstr(out, want) != NULL, "%s: no '%s' in:\n%s", what, want, out);
    }
}

/* On stdout stand tokens alone, so that every way to run prints the same bytes. */
static void every_way_to_run_prints_the_golden_tokens(check_case *t) {
    static const char *const ways[] = {
        "",
        "--world 3 --slots 3",
        "--world 3 --slots 2 --chunk 7 --threads 2",
        "--weights 2,1,1 --slots 3 --context 200",
        "--threads 1 --slots 3",
    };
    static char first[sizeof out];
    forward_golden g;
    char path[512];
    char line[1024];
    if (!forward_golden_open(t, "tiny-exl3", &g)) return;
    write_prompts(t, &g, path, sizeof path);
    for (size_t i = 0; i < COUNT(ways); i++) {
        snprintf(line, sizeof line, "generate --pack tiny-exl3 --tokens 48 --prompts %s %s 2>&-",
                 path, ways[i]);
        CHECKF(t, tool(t, line) == 0, "%s: %s", ways[i], out);
        if (i == 0) {
            holds_golden(t, &g, ways[i]);
            memcpy(first, out, sizeof out);
        }
        CHECKF(t, strcmp(first, out) == 0, "%s prints:\n%s\nand not:\n%s", ways[i], out, first);
    }
    forward_golden_close(&g);
}

static void one_prompt_alone_gives_its_tokens_of_the_batch(check_case *t) {
    forward_golden g;
    char ids[2048];
    if (!forward_golden_open(t, "tiny-exl3", &g)) return;
    for (uint32_t p = 0; p < FORWARD_PROMPTS; p++) {
        list_of(g.prompt[p], forward_lengths[p], ids, sizeof ids);
        says_of(t, 0, g.token_sha[p], "generate --pack tiny-exl3 --tokens 48 --ids %s", ids);
        CHECK(t, strstr(out, "rows/s") != NULL);
    }
    forward_golden_close(&g);
}

static void json_holds_tokens_and_timing(check_case *t) {
    says(t, "generate --pack tiny-exl3 --world 3 --ids 0,12,7 --tokens 2 --json", 0,
         "{\"pack\":\"tiny-exl3\",\"world\":3,\"profile\":\"f32\",\"prompts\":[{\"ids\":[");
    CHECKF(t, strstr(out, "],\"count\":2,\"token_sha\":\"") != NULL, "%s", out);
    CHECKF(t, strstr(out, "\"timing\":{\"prefill_rows\":3,") != NULL, "%s", out);
    CHECKF(t, strstr(out, "\"memory\":{\"weights\":") != NULL, "%s", out);
}

/* Draws depend on the seed, not on how the ranks are run. */
static void draws_are_the_same_at_every_world(check_case *t) {
    static char first[sizeof out];
    const char *draw = "generate --pack tiny-exl3 --tokens 24 --ids 5,6 --temperature 1.5 --seed 9";
    char line[512];
    snprintf(line, sizeof line, "%s 2>&-", draw);
    CHECK_U64(t, tool(t, line), 0);
    memcpy(first, out, sizeof out);
    snprintf(line, sizeof line, "%s --world 3 2>&-", draw);
    CHECK_U64(t, tool(t, line), 0);
    CHECK_STR(t, out, first);
    snprintf(line, sizeof line, "%s --seed 10 2>&-",
             "generate --pack tiny-exl3 --tokens 24 --ids 5,6 --temperature 1.5");
    CHECK_U64(t, tool(t, line), 0);
    CHECK(t, strcmp(out, first) != 0);
}

/* ---- refusals ---- */

static void what_cannot_run_is_named(check_case *t) {
    static const struct {
        const char *line, *want;
        int code;
    } rows[] = {
        {"generate --pack tiny-exl3", "neither --ids nor --prompts", 2},
        {"generate --ids 1", "no --pack", 2},
        {"generate --pack tiny-exl3 --ids 0,x", "'x'", 2},
        {"generate --pack tiny-exl3 --ids 0,1279,1280 --tokens 1",
         "reading a prompt: --ids: found 1280, id 3 of 3, expected 0 to 1279, the pack's vocabulary",
         2},
        {"generate --pack tiny-exl3 --ids 1 --profile f16", "expected f32 or bf16", 2},
        {"generate --pack tiny-exl3 --ids 1 --isa mmx", "mmx", 2},
        {"generate --pack tiny-exl3 --ids 1 --ranks tcp", "tcp", 2},
        {"generate --pack tiny-exl3 --ids 1 --tokens 0", "0", 2},
        {"generate --pack tiny-exl3 --ids 1,2,3 --tokens 8 --context 4", "context-full", 2},
        {"generate --pack tiny-exl3 --ids 1 --fault 1:load", "RANK:PHASE:ACT", 2},
        {"generate --pack tiny-exl3 --ids 1 --fault one:load:die", "RANK:PHASE:ACT", 2},
        {"generate --pack tiny-exl3 --ids 1 --world 2 --fault 2:load:die", "expected 0 to 1", 2},
        {"generate --pack tiny-exl3 --ids 1 --layer-hashes /no/such/h", "/no/such/h", 3},
        {"generate --pack flash --ids 1", "[header-only-pack]", 2},
        {"generate --pack tiny-exl3 --ids 1 --fault 1:late:die", "open, load, prefill or decode",
         2},
        {"generate --pack tiny-exl3 --ids 1 --world 5", "world-not-admitted", 2},
        {"generate --pack tiny-exl3 --prompts /no/such/file", "/no/such/file", 3},
        {"diverge /no/such/a /no/such/b", "/no/such/a", 3},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        says(t, rows[i].line, rows[i].code, rows[i].want);
}

/* ---- layer hashes ---- */

static void runs_that_part_are_told_where(check_case *t) {
    const char *dir = check_tmpdir(t);
    const char *run = "generate --pack tiny-exl3 --ids 0,12,7 --tokens 3 --layer-hashes";
    says_of(t, 0, "token_sha", "%s %s/one", run, dir);
    says_of(t, 0, "token_sha", "%s %s/three --world 3", run, dir);
    says_of(t, 0, "token_sha", "%s %s/uneven --weights 2,1,1 --threads 1", run, dir);
    says_of(t, 0, "token_sha", "%s %s/rounded --world 3 --profile bf16", run, dir);
    says_of(t, 0, "no difference", "diverge %s/one %s/three", dir, dir);
    says_of(t, 0, "no difference", "diverge %s/uneven %s/three", dir, dir);
    says_of(t, 0, "no difference", "diverge %s/three.r2 %s/three", dir, dir);
    says_of(t, 1, "class: sum", "diverge %s/one %s/rounded", dir, dir);
    says_of(t, 1, "first difference: step 0, prefill, L0, attn.partial, rank 0",
            "diverge %s/three %s/rounded", dir, dir);
    CHECKF(t, strstr(out, "class: local") != NULL && strstr(out, "[hashes-differ]") != NULL, "%s",
           out);
    says_of(t, 0, "token_sha",
            "generate --pack tiny-exl3 --ids 0,12,8 --tokens 3 --world 3 "
            "--layer-hashes %s/other",
            dir);
    says_of(t, 1, "\"class\":\"input\"", "diverge --json %s/three %s/other", dir, dir);
}

/* One value of one rank is changed where it is written: the report points there. */
static void a_changed_hash_is_found(check_case *t) {
    const char *dir = check_tmpdir(t);
    for (int i = 0; i < 2; i++) {
        says_of(t, 0, "token_sha",
                "generate --pack tiny-exl3 --world 3 --ids 4,5 --tokens 3 --layer-hashes %s/%d",
                dir, i);
    }
    check_command(t, out, sizeof out,
                  "sed -i '/\"step\":1,.*\"L2\",\"point\":\"ffn.sum\"/s/\"hash\":\"...../"
                  "\"hash\":\"00000/' %s/1.r2",
                  dir);
    says_of(t, 1, "first difference: step 1, decode, L2, ffn.sum, rank 2", "diverge %s/0 %s/1", dir,
            dir);
    CHECKF(t, strstr(out, "class: exchange") != NULL, "%s", out);
}

/* ---- ranks that end ---- */

static const char *const phases[] = {"open", "load", "prefill", "decode"};

/* Mostly a silence of a second, and the start of processes on a busy machine. */
#define IN_TIME_MS 12000

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void a_thread_that_fails_or_hangs_is_named_in_time(check_case *t) {
    for (size_t p = 0; p < COUNT(phases); p++) {
        char line[512];
        char want[64];
        snprintf(line, sizeof line,
                 "generate --pack tiny-exl3 --world 3 --ids 1,2 --tokens 4 "
                 "--wait 1 --fault %zu:%s:die",
                 p % 3, phases[p]);
        snprintf(want, sizeof want, "rank %zu, %s [planted-fault]", p % 3, phases[p]);
        says(t, line, 3, want);
        snprintf(line, sizeof line,
                 "generate --pack tiny-exl3 --world 3 --ids 1,2 --tokens 4 "
                 "--wait 1 --fault %zu:%s:hang",
                 p % 3, phases[p]);
        snprintf(want, sizeof want, "waiting for rank %zu: found nothing", p % 3);
        uint64_t begin = now_ms();
        int code =
            check_command(t, out, sizeof out, "timeout -s KILL 30 sh -c '%s %s'", TOOL, line);
        CHECKF(t, code == 70 && strstr(out, want) != NULL, "%s: exit %d: %s", line, code, out);
        CHECKF(t, now_ms() - begin < IN_TIME_MS, "%s: %d ms", line, (int)(now_ms() - begin));
        bool met = p >= 2;
        CHECKF(t, (strstr(out, "the last exchanges:") != NULL) == met, "%s: %s", line, out);
    }
}

typedef struct told {
    int code; /* mpirun's */
    uint64_t ms;
    char dir[400];
    char says[3][4096]; /* stderr of a rank */
    char exit[3][16];
} told;
static told to;

static void read_note(const char *what, uint32_t rank, char *text, size_t size) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s%u", to.dir, what, rank);
    FILE *file = fopen(path, "r");
    size_t n = file == NULL ? 0 : fread(text, 1, size - 1, file);
    text[n] = '\0';
    if (file != NULL) fclose(file);
}

static bool have_mpi(check_case *t) {
#ifdef TF_MPI
    if (check_command(t, out, sizeof out, "mpirun --version") == 0) return true;
    check_skip(t, "mpirun is not installed");
#else
    check_skip(t, "MPI is not built in");
#endif
    return false;
}

/* Three processes; a shell around each one keeps its exit code and what it said, and outlives the
 * request to end that mpirun sends as soon as one rank is gone. */
static void start(check_case *t, const char *arguments) {
    uint64_t begin = now_ms();
    snprintf(to.dir, sizeof to.dir, "%s", check_tmpdir(t));
    to.code = check_command(
        t, out, sizeof out,
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 "
        "TSAN_OPTIONS=report_bugs=0 XDG_CACHE_HOME=" TF_BUILD_DIR "/cli; export "
        "OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM ASAN_OPTIONS TSAN_OPTIONS "
        "XDG_CACHE_HOME; cd / && timeout -k 5 60 mpirun --oversubscribe -n 3 sh -c 'trap \"\" TERM; "
        "%s/tfverify generate --pack tiny-exl3 --world 3 --ranks mpi %s "
        "2>%s/says$OMPI_COMM_WORLD_RANK; code=$?; "
        "echo $code >%s/exit$OMPI_COMM_WORLD_RANK; exit $code'",
        TF_BUILD_DIR, arguments, to.dir, to.dir);
    to.ms = now_ms() - begin;
    for (uint32_t r = 0; r < 3; r++) {
        read_note("says", r, to.says[r], sizeof to.says[r]);
        read_note("exit", r, to.exit[r], sizeof to.exit[r]);
    }
}

/* Rank 0 alone prints, and prints what threads print. */
static void processes_print_what_threads_print(check_case *t) {
    static char threads[sizeof out];
    static const char prompt[] = "--ids 0,12,7,1279 --tokens 48 --slots 2";
    char line[512];
    if (!have_mpi(t)) return;
    snprintf(line, sizeof line, "generate --pack tiny-exl3 --world 3 %s 2>&-", prompt);
    CHECK_U64(t, tool(t, line), 0);
    memcpy(threads, out, sizeof out);
    start(t, prompt);
    CHECKF(t, to.code == 0, "mpirun ended with %d: %s", to.code, to.says[0]);
    CHECK_STR(t, out, threads);
    CHECK(t, strstr(to.says[0], "rows/s") != NULL);
    CHECK_STR(t, to.says[1], "");
    CHECK_STR(t, to.says[2], "");
}

/* Every rank in turn ends at every phase; the two that are left name it and end with 70. */
static void survivors_name_it(check_case *t, const char *act, uint32_t turn, const char *word,
                              const char *own_exit) {
    if (!have_mpi(t)) return;
    for (uint32_t p = 0; p < COUNT(phases); p++) {
        char line[256];
        char name[32];
        uint32_t rank = (p + turn) % 3;
        snprintf(line, sizeof line, "--ids 0,12,7 --tokens 4 --wait 1 --fault %u:%s:%s", rank,
                 phases[p], act);
        snprintf(name, sizeof name, "rank %u", rank);
        start(t, line);
        CHECKF(t, to.ms < IN_TIME_MS, "%s: %d ms", line, (int)to.ms);
        CHECK_STR(t, to.exit[rank], own_exit);
        for (uint32_t r = 0; r < 3; r++) {
            if (r == rank) continue;
            bool named = strstr(to.says[r], name) != NULL && strstr(to.says[r], word) != NULL;
            CHECKF(t, named, "%s: rank %u says: %s", line, r, to.says[r]);
            CHECKF(t, strcmp(to.exit[r], "70\n") == 0, "%s: rank %u ends with %s: %s", line, r,
                   to.exit[r], to.says[r]);
        }
    }
}

static void a_killed_process_is_named_in_time(check_case *t) {
    survivors_name_it(t, "kill", 1, "has ended [peer-gone]", "137\n");
}

/* mpirun ends what hangs, its shell too. */
static void a_process_that_hangs_is_named_in_time(check_case *t) {
    survivors_name_it(t, "hang", 2, "[peer-silent]", "");
}

static void a_process_that_fails_gives_its_reason(check_case *t) {
    survivors_name_it(t, "die", 0, "[planted-fault] [peer-stopped]", "3\n");
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"generate/every-way-to-run-prints-the-golden-tokens",
         every_way_to_run_prints_the_golden_tokens},
        {"generate/one-prompt-alone-gives-its-tokens-of-the-batch",
         one_prompt_alone_gives_its_tokens_of_the_batch},
        {"generate/json-holds-tokens-and-timing", json_holds_tokens_and_timing},
        {"generate/draws-are-the-same-at-every-world", draws_are_the_same_at_every_world},
        {"generate/what-cannot-run-is-named", what_cannot_run_is_named},
        {"generate/runs-that-part-are-told-where", runs_that_part_are_told_where},
        {"generate/a-changed-hash-is-found", a_changed_hash_is_found},
        {"generate/a-thread-that-fails-or-hangs-is-named-in-time",
         a_thread_that_fails_or_hangs_is_named_in_time},
        {"generate/processes-print-what-threads-print", processes_print_what_threads_print},
        {"generate/a-killed-process-is-named-in-time", a_killed_process_is_named_in_time},
        {"generate/a-process-that-hangs-is-named-in-time", a_process_that_hangs_is_named_in_time},
        {"generate/a-process-that-fails-gives-its-reason", a_process_that_fails_gives_its_reason},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
