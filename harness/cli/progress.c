#include "harness/cli/progress.h"

#include "engine/base/thread.h"
#include "harness/cli/out.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t now_ms(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* 1234567 bytes as "1.2 MB"; other units as they are. */
static void amount(char *to, size_t size, const char *unit, double value) {
    static const char *const prefixes[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    if (strcmp(unit, "bytes") != 0) {
        snprintf(to, size, "%.0f %s", value, unit);
        return;
    }
    size_t i = 0;
    for (; value >= 1000.0 && i + 1 < sizeof prefixes / sizeof prefixes[0]; i++)
        value /= 1000.0;
    snprintf(to, size, i == 0 || value >= 100.0 ? "%.0f %s" : "%.1f %s", value, prefixes[i]);
}

void progress_line(char *line, size_t size, const char *what, const char *unit, uint64_t done,
                   uint64_t total, uint64_t elapsed_ms) {
    char so_far[32];
    char whole[32];
    amount(so_far, sizeof so_far, unit, (double)done);
    amount(whole, sizeof whole, unit, (double)total);
    unsigned percent = total == 0 ? 100 : (unsigned)((double)done * 100.0 / (double)total);
    /* A rate from a moment is a guess. */
    if (elapsed_ms < 200 || done == 0) {
        snprintf(line, size, "%s: %s of %s, %u %%", what, so_far, whole, percent);
        return;
    }
    double rate = (double)done * 1000.0 / (double)elapsed_ms;
    double left = total > done ? (double)(total - done) / rate : 0.0;
    char speed[32];
    amount(speed, sizeof speed, unit, rate);
    if (left < 90.0)
        snprintf(line, size, "%s: %s of %s, %u %%, %s/s, %.0f s left", what, so_far, whole, percent,
                 speed, left);
    else
        snprintf(line, size, "%s: %s of %s, %u %%, %s/s, %.0f min left", what, so_far, whole,
                 percent, speed, left / 60.0);
}

bool progress_tick(void *context, const char *unit, uint64_t done, uint64_t total) {
    progress *p = context;
    if (out_stderr_is_terminal()) {
        uint64_t now = now_ms();
        if (p->begin_ms == 0) p->begin_ms = now;
        if (now - p->latest_ms >= 100 || done == total) {
            char line[80];
            progress_line(line, sizeof line, p->what, unit, done, total, now - p->begin_ms);
            out_status_line(line);
            p->latest_ms = now;
            p->drawn = true;
        }
    }
    return !tf_stop_requested();
}

void progress_end(progress *p) {
    if (p->drawn) out_status_line("");
    p->drawn = false;
}
