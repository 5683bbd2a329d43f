#include "engine/base/nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    NEAR_MAX = 48
};

/* Edit distance with swaps of neighbours, as typing errs. */
static size_t distance(const char *a, const char *b) {
    size_t n = strlen(a);
    size_t m = strlen(b);
    if (n > NEAR_MAX || m > NEAR_MAX) return SIZE_MAX;
    size_t rows[3][NEAR_MAX + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3];
        const size_t *up = rows[(i + 2) % 3];
        const size_t *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best) best = up[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && up2[j - 2] + 1 < best) best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *tf_nearest(const char *given, const char *const *names, size_t count) {
    const char *best = NULL;
    size_t least = strlen(given) / 3 + 2;
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(given, names[i]);
        bool begins = strlen(given) >= 2 && strncmp(given, names[i], strlen(given)) == 0;
        if (begins) d = 0;
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}
