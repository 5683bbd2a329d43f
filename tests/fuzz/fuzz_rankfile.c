/* Header and index of a rank file.  Their digests are made to hold first, or no input would get
 * past them; what is accepted must encode to the same bytes. */
#include "engine/base/arena.h"
#include "engine/base/digest.h"
#include "engine/plan/rankfile.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT (1u << 20)

static uint64_t get(const uint8_t *from, size_t n) {
    uint64_t v = 0;
    while (n-- > 0)
        v = v << 8 | from[n];
    return v;
}

static void reseal(uint8_t *front, size_t size) {
    uint64_t index_bytes = get(front + 144, 8);
    if (index_bytes <= size - 4096) {
        tf_digest index = digest_bytes(front + 4096, (size_t)index_bytes);
        memcpy(front + 168, index.bytes, 16);
    }
    tf_digest head = digest_bytes(front, 4080);
    memcpy(front + 4080, head.bytes, 16);
}

static void check_same(rankfile *file, const uint8_t *front) {
    size_t n = (size_t)rankfile_data_begin(file->head.index_bytes);
    uint8_t *again = malloc(n);
    if (again == NULL) return;
    rankfile_encode(&file->head, file->entries, again);
    if (memcmp(front, again, n) != 0) abort();
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tf_error err = {0};
    rankfile file = {.path = "fuzz"};
    if (size < 4096 || size > LIMIT) {
        uint8_t header[4096] = {0};
        memcpy(header, data, size < 4096 ? size : 4096);
        (void)rankfile_parse_header("fuzz", header, size, &file.head, &err);
        return 0;
    }
    uint8_t *front = malloc(size);
    if (front == NULL) return 0;
    memcpy(front, data, size);
    reseal(front, size);
    arena_init(&file.arena, 1u << 26);
    /* The input is the front; the payloads may be as long as the header likes. */
    uint64_t file_bytes = get(front + 152, 8);
    if (rankfile_parse_header("fuzz", front, file_bytes, &file.head, &err) == TF_OK &&
        rankfile_data_begin(file.head.index_bytes) <= size &&
        rankfile_parse_index(&file, front, &err) == TF_OK)
        check_same(&file, front);
    arena_free(&file.arena);
    free(front);
    return 0;
}
