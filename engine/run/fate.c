#include "engine/run/fate.h"

#include <string.h>

typedef struct line {
    char *data;
    size_t length, size;
} line;

static void add(line *l, const char *text) {
    for (; *text != '\0' && l->length + 1 < l->size; text++)
        l->data[l->length++] = *text;
}

static void add_u64(line *l, uint64_t value) {
    char digits[21];
    size_t at = sizeof digits;
    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    add(l, digits + at);
}

static void add_entry(line *l, const exchange_entry *entry) {
    add(l, "  exchange ");
    add_u64(l, entry->sequence);
    add(l, " ");
    add(l, entry->site);
    add(l, " ");
    add_u64(l, entry->bytes);
    add(l, entry->done ? " bytes done\n" : " bytes pending\n");
}

size_t fate_text(const exchange *x, char *out, size_t size) {
    if (size == 0) return 0;
    line l = {out, 0, size};
    add(&l, "rank ");
    add_u64(&l, x->rank);
    add(&l, " of ");
    add_u64(&l, x->world);
    add(&l, ": ");
    add_u64(&l, x->sequence);
    add(&l, " exchanges done, ");
    add_u64(&l, x->bytes_received);
    add(&l, " bytes received\n");
    /* The slot of x->sequence holds the pending exchange, and otherwise the oldest. */
    const exchange_entry *next = &x->log[x->sequence % EXCHANGE_LOG];
    bool pending = next->site[0] != '\0' && next->sequence == x->sequence;
    for (uint64_t i = 0; i < EXCHANGE_LOG; i++) {
        const exchange_entry *entry = &x->log[(x->sequence + pending + i) % EXCHANGE_LOG];
        if (entry->site[0] != '\0') add_entry(&l, entry);
    }
    out[l.length] = '\0';
    return l.length;
}

void fate_tell(exchange *x, const tf_error *err) {
    char reason[EXCHANGE_REASON];
    line l = {reason, 0, sizeof reason};
    const char *word = tf_word_text(err->word);
    /* The word matters most: room for it is kept. */
    l.size -= strlen(word) + 3;
    add(&l, err->what);
    if (err->found[0] != '\0') {
        add(&l, ": found ");
        add(&l, err->found);
    }
    l.size = sizeof reason;
    add(&l, " [");
    add(&l, word);
    add(&l, "]");
    reason[l.length] = '\0';
    x->ops->stop(x, reason);
}
