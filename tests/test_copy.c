/* Rows that are moved (engine/cpu/copy): embeddings in every stored form, streams that lie apart, taps. */
#include "engine/canon/flush.h"
#include "engine/pack/dtype.h"
#include "tests/support/launch.h"
#include "tests/support/linears.h"

#include <string.h>

#define S    4u
#define WIDE 21u

/* ---- embeddings ---- */

enum {
    OWN = 3,    /* rows of the rank's part */
    FIRST = 50, /* id of the first one */
    APART = 30  /* a table's rows lie apart */
};

static void embed(check_case *t, void *table, tf_dtype dtype, const int32_t *ids, float *y) {
    device *d = launch_device(t, NULL, 2);
    if (d == NULL) return;
    args_embed a = {.ids = launch_1((int32_t *)(uintptr_t)ids, DTYPE_I32, 5),
                    .w = launch_2(table, dtype, OWN, WIDE),
                    .first = FIRST,
                    .y = launch_2(y, DTYPE_F32, 5, WIDE)};
    a.w.stride[0] = APART;
    launch_run(t, d, CALL_EMBED, 5, &a);
    d->ops->close(d);
}

/* Copied, never computed: minus zero and subnormals come out as they are stored; rows of
 * other ranks' ids are left as they were. */
static void embeddings_are_exact_in_every_form(check_case *t) {
    static const tf_dtype forms[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    static const int32_t ids[5] = {51, 49, 50, 53, 52};
    check_random r = check_seed(t);
    uint16_t narrow[OWN * APART];
    float wide[OWN * APART];
    for (size_t form = 0; form < COUNT(forms); form++) {
        tf_dtype dtype = forms[form];
        float y[5][WIDE];
        for (size_t i = 0; i < COUNT(narrow); i++) {
            narrow[i] = (uint16_t)check_next(&r);
            if ((narrow[i] & 0x7c00) == 0x7c00) narrow[i] = (uint16_t)(narrow[i] & 0x8000u);
            wide[i] = linear_float(&r, true);
        }
        memset(y, 0x5a, sizeof y);
        embed(t, dtype == DTYPE_F32 ? (void *)wide : narrow, dtype, ids, y[0]);
        for (uint32_t i = 0; i < 5; i++) {
            int32_t row = ids[i] - FIRST;
            for (uint32_t k = 0; k < WIDE; k++) {
                uint32_t want = 0x5a5a5a5au;
                if (row >= 0 && row < OWN) {
                    size_t at = (size_t)row * APART + k;
                    want = f32_bits(dtype == DTYPE_F32   ? wide[at]
                                    : dtype == DTYPE_F16 ? f32_from_f16(narrow[at])
                                                         : f32_from_bf16(narrow[at]));
                }
                CHECKF(t, f32_bits(y[i][k]) == want, "%s row %u: element %u is %08x, not %08x",
                       dtype_name(dtype), i, k, f32_bits(y[i][k]), want);
            }
        }
    }
}

/* ---- streams ---- */

static port_tensor apart(float *streams, uint32_t rows) {
    port_tensor t = launch_3(streams, DTYPE_F32, rows, S, WIDE);
    t.stride[0] = (size_t)S * (WIDE + 2) + 7;
    t.stride[1] = WIDE + 2;
    return t;
}

static void streams_that_lie_apart_are_filled_and_averaged(check_case *t) {
    enum {
        ROWS = 3,
        ALL = ROWS * (S * (WIDE + 2) + 7)
    };
    check_random r = check_seed(t);
    float x[ROWS][WIDE];
    float pre[ROWS][S];
    float streams[ALL];
    float y[ROWS][WIDE];
    uint32_t filled = 0;
    device *d = launch_device(t, NULL, 1);
    if (d == NULL) return;
    launch_fill(&r, x[0], ROWS * WIDE, true);
    memset(streams, 0x5a, sizeof streams);
    args_copies c = {.x = launch_2(x, DTYPE_F32, ROWS, WIDE),
                     .streams = apart(streams, ROWS),
                     .pre = launch_2(pre, DTYPE_F32, ROWS, S)};
    launch_run(t, d, CALL_COPIES, ROWS, &c);
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t s = 0; s < S; s++) {
            const float *got = port_f32(&c.streams, i) + s * c.streams.stride[1];
            CHECK(t, memcmp(got, x[i], sizeof x[i]) == 0);
            CHECK(t, pre[i][s] == (s == 0 ? 1.0f : 0.0f));
        }
    }
    for (uint32_t i = 0; i < ALL; i++)
        filled += f32_bits(streams[i]) != 0x5a5a5a5au;
    CHECK_U64(t, filled, ROWS * S * WIDE);
    /* Ascending, and of streams that differ. */
    launch_fill(&r, streams, ALL, true);
    args_tap tap = {.streams = c.streams, .y = launch_2(y, DTYPE_F32, ROWS, WIDE)};
    launch_run(t, d, CALL_TAP, ROWS, &tap);
    uint64_t mode = flush_begin();
    for (uint32_t i = 0; i < ROWS; i++) {
        float want[WIDE];
        for (uint32_t k = 0; k < WIDE; k++) {
            const float *in = port_f32(&c.streams, i) + k;
            want[k] = in[0];
            for (uint32_t s = 1; s < S; s++)
                want[k] = want[k] + in[s * c.streams.stride[1]];
            want[k] = want[k] / 4.0f;
        }
        linear_same(t, y[i], want, WIDE, "tap");
    }
    flush_restore(mode);
    d->ops->close(d);
}

static const check_entry cases[] = {
    {"copy/embeddings-are-exact-in-every-form", embeddings_are_exact_in_every_form},
    {"copy/streams-that-lie-apart-are-filled-and-averaged",
     streams_that_lie_apart_are_filled_and_averaged},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
