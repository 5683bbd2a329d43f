/* run/exec - executes a call list, and nothing else.
 *
 * Idea: a list is bound once - every argument to an address - and then walked in order: a launch of
 * the device, or an exchange.  There is no second path: what a pin holds is what runs.
 * Trap: all memory is taken when lists are bound; a walk takes none.  Binding a list that needs more
 * than any before it moves the step's memory, and lists bound earlier are bound again on their next
 * walk. */
#ifndef TF_ENGINE_RUN_EXEC_H
#define TF_ENGINE_RUN_EXEC_H

#include "engine/emit/emit.h"
#include "engine/port/device.h"
#include "engine/port/exchange.h"
#include "engine/run/weights.h"

typedef struct exec exec;
typedef struct exec_list exec_list;

/* Called after each call of a walk; must not change what it sees. */
typedef void (*exec_seen)(void *context, const call *c, const port_launch *l);

typedef struct exec_options {
    const tf_plan *plan; /* all borrowed */
    device *device;
    exchange *exchange;
    weights *weights;
    uint32_t slots;           /* requests side by side */
    uint64_t context;         /* positions a request can hold */
    const int32_t *token_map; /* [vocab]; NULL where the model has none */
} exec_options;

/* Lays out the state of all slots from the lists of decode and draft; takes it zeroed. */
tf_status exec_open(const exec_options *options, exec **out, tf_error *err);
void exec_close(exec *x);
void exec_observe(exec *x, exec_seen seen, void *context);

/* Loads the weights it names, where they are not loaded yet.  Takes over the list, also on failure. */
tf_status exec_bind(exec *x, tf_calls *calls, exec_list **out, tf_error *err);
void exec_drop(exec_list *list);
const tf_calls *exec_calls(const exec_list *list);

/* Memory of in. and out. roles: the device's; taken when a list that names them is bound, NULL
 * before.  Valid until the next exec_bind. */
void *exec_named(exec *x, const char *role);
tf_status exec_run(exec *x, exec_list *list, tf_error *err);

/* A hash of what all ranks must have decided alike; sent along with every exchange. */
void exec_decided(exec *x, const void *bytes, size_t n);

/* State of one slot, in one piece. */
uint64_t exec_state_bytes(const exec *x);
void *exec_state(exec *x, uint32_t slot);

typedef struct exec_memory {
    uint64_t step;  /* x. and L.: the most that a bound list asks for */
    uint64_t state; /* all slots */
    uint64_t named; /* in. and out. */
    uint64_t stage; /* of exchanges */
} exec_memory;
exec_memory exec_memory_of(const exec *x);

#endif
