/* base/arena - bump memory with phases.
 *
 * Idea: a plan, a call list, a pack each own one arena; freeing is one act.  Sealed, it hands out
 * nothing more, which turns "nothing is allocated here" into a checked promise.
 * Trap: growth moves nothing, but arrays taken from it never shrink: size them first. */
#ifndef TF_ENGINE_BASE_ARENA_H
#define TF_ENGINE_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct arena_block arena_block;

typedef struct tf_arena {
    arena_block *head;
    uint64_t used_bytes;  /* handed out */
    uint64_t limit_bytes; /* 0: none */
    bool sealed;
} tf_arena;

void arena_init(tf_arena *arena, uint64_t limit_bytes);
/* Frees everything and leaves an empty arena. Accepts a zeroed one. */
void arena_free(tf_arena *arena);
/* No more memory after this; asking is an assertion failure. */
void arena_seal(tf_arena *arena);

/* Zeroed memory aligned to 16; NULL when the system or the limit says no.  bytes 0 gives a valid
 * pointer.  Arena owns. */
void *arena_take(tf_arena *arena, size_t bytes);
/* count * size with the overflow checked. */
void *arena_array(tf_arena *arena, size_t count, size_t size);
/* Copies a string (n bytes and a NUL). */
char *arena_copy(tf_arena *arena, const char *text, size_t n);
char *arena_print(tf_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The places heap memory outside an arena comes from; mem_take zeroes.  Caller owns. */
void *mem_take(size_t bytes);
void *mem_grow(void *old, size_t bytes);
/* Not zeroed, aligned to a power of two; for the buffers of direct writes.  Caller owns. */
void *mem_take_aligned(size_t alignment, size_t bytes);
void mem_free(void *p);
/* How often memory was asked for so far, by this process: what takes none leaves it as it was. */
uint64_t mem_count(void);

#endif
