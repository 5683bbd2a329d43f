/* support/lists - packs, plans and call lists for tests, opened once a program. */
#ifndef TF_TESTS_SUPPORT_LISTS_H
#define TF_TESTS_SUPPORT_LISTS_H

#include "engine/emit/emit.h"
#include "engine/pack/pack.h"
#include "engine/plan/plan.h"
#include "tests/support/shares.h"

/* A built-in pack, in the build's cache; stays open.  NULL, and the case failed, when it cannot. */
const tf_pack *lists_pack(check_case *t, const char *name);
/* Free with plan_free; NULL after a failure. */
tf_plan *lists_plan(check_case *t, const char *pack, uint32_t world, uint32_t rank);
/* Free with calls_free; NULL after a failure. */
tf_calls *lists_calls(check_case *t, const tf_plan *plan, call_phase phase, uint32_t rows,
                      uint64_t start);
/* The usual list of row `index` of SHARES; made on first use, kept to the end. */
const tf_calls *lists_shared(check_case *t, size_t index, call_phase phase);
/* Does a call write this argument? */
bool lists_writes(call_kind kind, const char *arg);
bool lists_reads(call_kind kind, const char *arg);

#endif
