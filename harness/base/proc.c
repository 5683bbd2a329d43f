/* pipe2 and environ are beyond POSIX. */
#define _GNU_SOURCE

#include "harness/base/proc.h"

#include "engine/base/arena.h"
#include "engine/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

void proc_line(const proc_request *request, tf_text *out) {
    if (request->shell != NULL) {
        text_add(out, request->shell);
        return;
    }
    for (size_t i = 0; request->argv[i] != NULL; i++)
        text_print(out, "%s%s", i == 0 ? "" : " ", request->argv[i]);
}

/* ---- starting ---- */

/* Ends of the pipes: ours to read, the child's to write; last, the one that tells exec's errno. */
enum {
    PIPE_OUT,
    PIPE_ERR,
    PIPE_EXEC,
    PIPES
};
typedef struct pipes {
    int ends[PIPES][2]; /* -1: none */
} pipes;

static void close_end(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void close_pipes(pipes *p) {
    for (int i = 0; i < PIPES; i++)
        for (int e = 0; e < 2; e++)
            close_end(&p->ends[i][e]);
}

static int open_pipes(pipes *p, const proc_request *request) {
    memset(p, -1, sizeof *p);
    for (int i = 0; i < PIPES; i++) {
        if (i != PIPE_EXEC && (request->quiet || request->show)) continue;
        if (pipe2(p->ends[i], O_CLOEXEC) != 0) return errno;
    }
    return 0;
}

/* The environment with the request's settings over it; NULL without memory.  mem_free. */
static char **merged_env(const proc_request *request) {
    size_t have = 0;
    size_t more = 0;
    while (environ[have] != NULL)
        have++;
    while (request->env != NULL && request->env[more] != NULL)
        more++;
    char **env = mem_take((have + more + 1) * sizeof *env);
    if (env == NULL) return NULL;
    size_t n = 0;
    for (size_t i = 0; i < have; i++) {
        bool replaced = false;
        for (size_t j = 0; j < more && !replaced; j++) {
            size_t name = strcspn(request->env[j], "=") + 1;
            replaced = strncmp(environ[i], request->env[j], name) == 0;
        }
        if (!replaced) env[n++] = environ[i];
    }
    for (size_t j = 0; j < more; j++) {
        /* exec only reads them; its type is older than const. */
        memcpy(&env[n++], &request->env[j], sizeof *env);
    }
    return env;
}

typedef struct child_plan {
    char *const *argv;
    char **env;
    const proc_request *request;
    pipes *pipes;
    pid_t parent;
} child_plan;

/* Between fork and exec: nothing but calls that are safe after a fork of a threaded process. */
static _Noreturn void be_child(const child_plan *c) {
    const proc_request *r = c->request;
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    /* Ends with us, even when we are killed; and at once when we already were. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool ready = getppid() == c->parent;
    int null = open("/dev/null", O_RDWR);
    ready = ready && null >= 0 && dup2(null, STDIN_FILENO) >= 0;
    int out = r->quiet ? null : c->pipes->ends[PIPE_OUT][1];
    int err = r->quiet ? null : c->pipes->ends[PIPE_ERR][1];
    if (!r->show) ready = ready && dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0;
    if (r->memory_bytes > 0) {
        struct rlimit limit = {r->memory_bytes, r->memory_bytes};
        ready = ready && setrlimit(RLIMIT_AS, &limit) == 0;
    }
    if (r->dir != NULL) ready = ready && chdir(r->dir) == 0;
    if (ready) {
        environ = c->env;
        execvp(c->argv[0], c->argv);
    }
    int number = errno;
    ssize_t told = write(c->pipes->ends[PIPE_EXEC][1], &number, sizeof number);
    _exit(told == (ssize_t)sizeof number ? 127 : 126);
}

static tf_status cannot_run(const proc_request *request, int number, tf_error *err) {
    tf_text line = {0};
    proc_line(request, &line);
    tf_fail_errno(err, TF_W_CANNOT_RUN, number, "running '%.200s'", text_str(&line));
    text_free(&line);
    if (request->dir != NULL) tf_under(err, "in %s", request->dir);
    return TF_IO;
}

static tf_status start(const proc_request *request, pipes *p, pid_t *child, tf_error *err) {
    char sh[] = "sh";
    char dash_c[] = "-c";
    char *shell_argv[4] = {sh, dash_c, NULL, NULL};
    child_plan c = {.request = request, .pipes = p, .parent = getpid()};
    if (request->shell != NULL) {
        memcpy(&shell_argv[2], &request->shell, sizeof shell_argv[2]);
        c.argv = shell_argv;
    } else {
        memcpy(&c.argv, &request->argv, sizeof c.argv);
    }
    c.env = merged_env(request);
    if (c.env == NULL) return tf_fail(err, TF_W_NO_MEMORY, "starting a program");
    int number = open_pipes(p, request);
    if (number == 0) {
        *child = fork();
        if (*child == 0) be_child(&c);
        number = *child < 0 ? errno : 0;
    }
    mem_free(c.env);
    if (number != 0) return cannot_run(request, number, err);
    /* Both sides set the group, so that it exists whoever comes first. */
    setpgid(*child, *child);
    for (int i = 0; i < PIPES; i++)
        close_end(&p->ends[i][1]);
    /* Nothing to read: exec closed the pipe, the program runs. */
    if (read(p->ends[PIPE_EXEC][0], &number, sizeof number) != (ssize_t)sizeof number) return TF_OK;
    waitpid(*child, NULL, 0);
    return cannot_run(request, number, err);
}

/* ---- running ---- */

typedef struct watch {
    const proc_request *request;
    proc_result *result;
    pipes *pipes;
    pid_t child;
    uint64_t begin_ms;
    uint64_t ask_ms; /* when TERM went out; 0: not yet */
    bool killed;
    bool gone; /* the child was waited for */
    uint64_t gone_ms;
    bool stopped; /* Ctrl-C */
} watch;

static void keep(tf_text *text, bool *cut, const char *bytes, size_t n, uint64_t limit) {
    uint64_t room = text->length < limit ? limit - text->length : 0;
    if (n > room) *cut = true;
    text_add_n(text, bytes, n < room ? n : (size_t)room);
}

/* Takes what is there; closes the pipe at its end. */
static void drain(watch *w, int which) {
    char bytes[16384];
    int *fd = &w->pipes->ends[which][0];
    ssize_t n = read(*fd, bytes, sizeof bytes);
    if (n > 0) {
        bool is_out = which == PIPE_OUT;
        uint64_t limit = w->request->output_bytes;
        keep(is_out ? &w->result->out : &w->result->err,
             is_out ? &w->result->out_cut : &w->result->err_cut, bytes, (size_t)n,
             limit == 0 ? PROC_OUTPUT_BYTES : limit);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        close_end(fd);
    }
}

/* Sends TERM to the group, later KILL. */
static void press(watch *w, uint64_t now) {
    if (w->ask_ms == 0) {
        kill(-w->child, SIGTERM);
        w->ask_ms = now;
    } else if (!w->killed && now - w->ask_ms >= PROC_GRACE_MS) {
        kill(-w->child, SIGKILL);
        w->killed = true;
    }
}

static void note_end(watch *w, int status, uint64_t now) {
    proc_result *r = w->result;
    w->gone = true;
    w->gone_ms = now;
    r->wall_ms = now - w->begin_ms;
    if (r->end == PROC_TIMED_OUT) return;
    r->end = WIFSIGNALED(status) ? PROC_SIGNALED : PROC_EXITED;
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    r->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* One step; false when there is nothing more to wait for. */
static bool step(watch *w) {
    struct pollfd fds[2];
    nfds_t count = 0;
    for (int i = PIPE_OUT; i <= PIPE_ERR; i++)
        if (w->pipes->ends[i][0] >= 0)
            fds[count++] = (struct pollfd){.fd = w->pipes->ends[i][0], .events = POLLIN};
    /* Without pipes there is only the child to look after. */
    poll(fds, count, count == 0 ? 5 : 20);
    for (nfds_t i = 0; i < count; i++)
        if (fds[i].revents != 0)
            drain(w, fds[i].fd == w->pipes->ends[PIPE_OUT][0] ? PIPE_OUT : PIPE_ERR);
    uint64_t now = now_ms();
    int status = 0;
    if (!w->gone && waitpid(w->child, &status, WNOHANG) == w->child) note_end(w, status, now);
    bool open = w->pipes->ends[PIPE_OUT][0] >= 0 || w->pipes->ends[PIPE_ERR][0] >= 0;
    if (w->gone) return open && now - w->gone_ms < PROC_GRACE_MS;
    if (tf_stop_requested()) w->stopped = true;
    if (w->request->time_ms > 0 && now - w->begin_ms >= w->request->time_ms)
        w->result->end = PROC_TIMED_OUT;
    if (w->stopped || w->result->end == PROC_TIMED_OUT) press(w, now);
    return true;
}

tf_status proc_run(const proc_request *request, proc_result *result, tf_error *err) {
    tf_status status = TF_OK;
    pipes p;
    memset(&p, -1, sizeof p);
    *result = (proc_result){.end = PROC_EXITED};
    watch w = {.request = request, .result = result, .pipes = &p, .begin_ms = now_ms()};
    TF_TRY(tf_stop_check(err));
    TF_TRY(start(request, &p, &w.child, err));
    while (step(&w)) {
    }
    /* What the child left behind in its group goes with it. */
    kill(-w.child, SIGKILL);
    if (w.stopped) {
        tf_text line = {0};
        proc_line(request, &line);
        status = tf_fail(err, TF_W_INTERRUPTED, "running '%.200s'", text_str(&line));
        text_free(&line);
    } else {
        TF_TRY(text_done(&result->out, err));
        TF_TRY(text_done(&result->err, err));
    }
done:
    close_pipes(&p);
    return status;
}

void proc_free(proc_result *result) {
    text_free(&result->out);
    text_free(&result->err);
}

/* The last line that is not empty, cut to size; "" when there is none. */
static void last_line(const tf_text *text, char *to, size_t size) {
    const char *all = text_str(text);
    size_t end = text->length;
    while (end > 0 && (all[end - 1] == '\n' || all[end - 1] == ' '))
        end--;
    size_t begin = end;
    while (begin > 0 && all[begin - 1] != '\n')
        begin--;
    size_t n = end - begin < size - 1 ? end - begin : size - 1;
    memcpy(to, all + begin, n);
    to[n] = '\0';
}

tf_status proc_check(const proc_request *request, const proc_result *result, tf_error *err) {
    if (result->end == PROC_EXITED && result->code == 0) return TF_OK;
    char said[160];
    last_line(&result->err, said, sizeof said);
    if (said[0] == '\0') last_line(&result->out, said, sizeof said);
    tf_text line = {0};
    proc_line(request, &line);
    tf_fail(err, TF_W_COMMAND_FAILED, "running '%.300s'", text_str(&line));
    text_free(&line);
    const char *mark = said[0] == '\0' ? "" : ": ";
    switch (result->end) {
    case PROC_EXITED:
        tf_found(err, "exit code %d%s%s", result->code, mark, said);
        break;
    case PROC_SIGNALED:
        tf_found(err, "an end by signal %d%s%s", result->signal, mark, said);
        break;
    case PROC_TIMED_OUT:
        tf_found(err, "no end after %llu ms%s%s", (unsigned long long)request->time_ms, mark, said);
        break;
    }
    return tf_expected(err, "exit code 0");
}
