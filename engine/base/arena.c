#include "engine/base/arena.h"

#include "engine/base/check.h"
#include "engine/base/fault.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64u * 1024u)
#define ALIGNMENT   16u

struct arena_block {
    arena_block *next;
    size_t capacity;
    size_t used;
    max_align_t data[];
};

static atomic_uint_fast64_t taken;

uint64_t mem_count(void) {
    return atomic_load_explicit(&taken, memory_order_relaxed);
}

static void count_taken(void) {
    atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
}

void *mem_take(size_t bytes) {
    count_taken();
    if (fault_hits(FAULT_ALLOC)) return NULL;
    return calloc(1, bytes == 0 ? 1 : bytes);
}

void *mem_grow(void *old, size_t bytes) {
    count_taken();
    if (fault_hits(FAULT_ALLOC)) return NULL;
    return realloc(old, bytes == 0 ? 1 : bytes);
}

void *mem_take_aligned(size_t alignment, size_t bytes) {
    count_taken();
    if (fault_hits(FAULT_ALLOC) || bytes > SIZE_MAX - alignment) return NULL;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void mem_free(void *p) {
    free(p);
}

void arena_init(tf_arena *arena, uint64_t limit_bytes) {
    *arena = (tf_arena){.limit_bytes = limit_bytes};
}

void arena_free(tf_arena *arena) {
    for (arena_block *b = arena->head; b != NULL;) {
        arena_block *next = b->next;
        mem_free(b);
        b = next;
    }
    *arena = (tf_arena){.limit_bytes = arena->limit_bytes};
}

void arena_seal(tf_arena *arena) {
    arena->sealed = true;
}

void *arena_take(tf_arena *arena, size_t bytes) {
    TF_ASSERT(!arena->sealed);
    if (bytes > SIZE_MAX - ALIGNMENT) return NULL;
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (arena->limit_bytes != 0 && rounded > arena->limit_bytes - arena->used_bytes) return NULL;
    arena_block *block = arena->head;
    if (block == NULL || rounded > block->capacity - block->used) {
        size_t capacity = rounded > BLOCK_BYTES / 4 ? rounded : BLOCK_BYTES;
        if (capacity > SIZE_MAX - sizeof *block) return NULL;
        arena_block *fresh = mem_take(sizeof *block + capacity);
        if (fresh == NULL) return NULL;
        fresh->capacity = capacity;
        /* A large block goes behind the head, so that the head's rest is still used. */
        if (block != NULL && capacity == rounded) {
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            arena->head = fresh;
        }
        block = fresh;
    }
    void *p = (char *)block->data + block->used;
    block->used += rounded;
    arena->used_bytes += rounded;
    return p;
}

void *arena_array(tf_arena *arena, size_t count, size_t size) {
    if (size != 0 && count > SIZE_MAX / size) return NULL;
    return arena_take(arena, count * size);
}

char *arena_copy(tf_arena *arena, const char *text, size_t n) {
    if (n == SIZE_MAX) return NULL;
    char *copy = arena_take(arena, n + 1);
    if (copy != NULL) memcpy(copy, text, n);
    return copy;
}

char *arena_print(tf_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) return NULL;
    char *out = arena_take(arena, (size_t)n + 1);
    if (out == NULL) return NULL;
    va_start(args, format);
    vsnprintf(out, (size_t)n + 1, format, args);
    va_end(args);
    return out;
}
