/* base/check - assertions for our own mistakes.
 *
 * TF_ASSERT     a promise of our own code; always on, aborts with the place.
 * TF_NEVER      believed false; aborts in debug builds, is handled in release.
 * TF_ONLY_SPEED a condition that only chooses a faster way to the same result, so that a mutant
 *               there is equivalent. */
#ifndef TF_ENGINE_BASE_CHECK_H
#define TF_ENGINE_BASE_CHECK_H

#include <stdbool.h>

_Noreturn void tf_assert_failed(const char *expression, const char *file, int line);

#define TF_ASSERT(x)     ((x) ? (void)0 : tf_assert_failed(#x, __FILE__, __LINE__))
#define TF_ONLY_SPEED(x) (x)
#ifdef TF_DEBUG
#define TF_NEVER(x) ((x) ? (tf_assert_failed("never: " #x, __FILE__, __LINE__), true) : false)
#else
#define TF_NEVER(x) (x)
#endif

#endif
