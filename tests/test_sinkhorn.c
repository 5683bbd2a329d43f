/* cpu/mhc against the publisher's mixes: golden unit vectors of twenty iterations. */
#include "tests/support/golden.h"
#include "tests/support/launch.h"

#include <math.h>
#include <string.h>

#define UNIT TF_SOURCE_DIR "/tests/golden/unit/unit.safetensors"
#define ROWS 16u
#define MIX  24u
#define K    16u /* four streams of four */

typedef struct vectors {
    double mixes[ROWS][MIX], base[MIX], scale[3];
    double pre[ROWS][4], post[ROWS][4], comb[ROWS][16];
} vectors;

static bool read_one(golden_file *unit, const char *name, void *to, size_t bytes) {
    golden_tensor got;
    if (!golden_find(unit, name, &got) || got.data == NULL || got.end - got.begin != bytes)
        return false;
    memcpy(to, got.data, bytes);
    return true;
}

static bool read_vectors(check_case *t, vectors *v) {
    golden_file unit = {0};
    bool held = golden_open(UNIT, &unit) &&
                read_one(&unit, "sinkhorn.mixes", v->mixes, sizeof v->mixes) &&
                read_one(&unit, "sinkhorn.base", v->base, sizeof v->base) &&
                read_one(&unit, "sinkhorn.scale", v->scale, sizeof v->scale) &&
                read_one(&unit, "sinkhorn.pre", v->pre, sizeof v->pre) &&
                read_one(&unit, "sinkhorn.post", v->post, sizeof v->post) &&
                read_one(&unit, "sinkhorn.comb", v->comb, sizeof v->comb);
    golden_close(&unit);
    return CHECK(t, held);
}

static void near(check_case *t, const float *got, const double *want, uint32_t count,
                 const char *what) {
    for (uint32_t i = 0; i < count; i++)
        CHECKF(t, fabs((double)got[i] - want[i]) < 1e-6, "%s: element %u is %.9g, want %.9g", what,
               i, (double)got[i], want[i]);
}

/* Row i of the streams is 4 in place i alone: its root mean square is 1, and its products are four
 * times column i of fn. */
static void mixes_are_the_publishers(check_case *t) {
    vectors v;
    float streams[ROWS][K] = {{0}};
    float fn[MIX][K];
    float base[MIX];
    float scale[3];
    float pre[ROWS][4];
    float post[ROWS][4];
    float comb[ROWS][16];
    if (!read_vectors(t, &v)) return;
    for (uint32_t i = 0; i < ROWS; i++) {
        streams[i][i] = 4.0f;
        for (uint32_t n = 0; n < MIX; n++)
            fn[n][i] = (float)v.mixes[i][n] / 4.0f;
    }
    for (uint32_t n = 0; n < MIX; n++)
        base[n] = (float)v.base[n];
    for (uint32_t n = 0; n < 3; n++)
        scale[n] = (float)v.scale[n];
    device *d = launch_device(t, NULL, 1);
    port_linear linear;
    if (d != NULL && launch_linear(t, d, fn[0], K, MIX, &linear)) {
        args_mix a = {.streams = launch_3(streams, DTYPE_F32, ROWS, 4, 4),
                      .fn = {&linear, 1, 0},
                      .base = launch_1(base, DTYPE_F32, MIX),
                      .scale = launch_1(scale, DTYPE_F32, 3),
                      .rms_eps = 1e-20,
                      .hc_eps = 1e-6,
                      .iterations = 20,
                      .pre = launch_2(pre, DTYPE_F32, ROWS, 4),
                      .post = launch_2(post, DTYPE_F32, ROWS, 4),
                      .comb = launch_3(comb, DTYPE_F32, ROWS, 4, 4)};
        launch_run(t, d, CALL_MIX, ROWS, &a);
        near(t, pre[0], v.pre[0], ROWS * 4, "pre");
        near(t, post[0], v.post[0], ROWS * 4, "post");
        near(t, comb[0], v.comb[0], ROWS * 16, "comb");
    }
    if (d != NULL) d->ops->close(d);
}

static const check_entry cases[] = {
    {"sinkhorn/mixes-are-the-publishers", mixes_are_the_publishers},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
