/* canon/ropetable - cosines and sines of the rotary embedding (MODEL 3, RoPE).
 *
 * Idea: frequencies and angles are worked out in double with series of our own, then rounded once to
 * float32: the table is data, the same on every machine.
 * Trap: the platform's sin and pow differ in the last bit of a double; rounded, that shows once in
 * some hundred million values, which is often enough. */
#ifndef TF_ENGINE_CANON_ROPETABLE_H
#define TF_ENGINE_CANON_ROPETABLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rope_spec {
    uint32_t rope; /* dims that rotate: pairs of two */
    double theta;
    bool yarn; /* the fields below count */
    double factor, beta_fast, beta_slow, original;
} rope_spec;

#define ROPE_PAIRS_MAX 256u

/* freq [rope / 2]: radians a position. */
void ropetable_frequencies(const rope_spec *spec, double *freq);
/* cos_sin [pairs][2] f32 of a position, 0 <= position < 2^31. */
void ropetable_row(const double *freq, uint32_t pairs, int64_t position, float *cos_sin);

#endif
