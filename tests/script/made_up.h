/* script/made_up - an engine made up for the tests of the script host.
 *
 * Idea: every function of engine/tf.h that the Lua rooms call is defined here, so the real engine is
 * not linked: what those tests prove is the host alone.
 * Trap: an object closed before what borrows from it aborts. */
#ifndef TF_TESTS_SCRIPT_MADE_UP_H
#define TF_TESTS_SCRIPT_MADE_UP_H

/* What lives now. */
extern int made_up_packs, made_up_plans, made_up_calls;
/* Heads of the model: a change of the engine under test. */
extern unsigned made_up_heads;

#endif
