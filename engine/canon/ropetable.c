#include "engine/canon/ropetable.h"

#include <math.h>
#include <string.h>

/* ---- e^x and ln x in double: fma, division and scaling by powers of two only ---- */

static double power2(int n) {
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define LN2_HIGH 0x1.62e42fefa3800p-1
#define LN2_LOW  0x1.ef35793c76730p-45

static double exp_of(double x) {
    const double magic = 0x1.8p52;
    double n = (x * 0x1.71547652b82fep0 + magic) - magic;
    double r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x));
    double sum = 1.0;
    for (int k = 20; k >= 1; k--)
        sum = fma(sum, r / k, 1.0);
    return sum * power2((int)n);
}

/* By one step of Newton from a first guess of half the digits, twice. */
static double log_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    double m = x * power2(-e);
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double sum = 0.0;
    for (int k = 41; k >= 1; k -= 2)
        sum = fma(sum, z, 1.0 / k);
    double y = fma((double)e, LN2_HIGH, fma((double)e, LN2_LOW, 2.0 * s * sum));
    return y + (x * exp_of(-y) - 1.0);
}

/* ---- frequencies ---- */

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* Dimension at which a wave turns `turns` times within the original context. */
static double dimension_of(const rope_spec *s, double turns) {
    const double two_pi = 0x1.921fb54442d18p2;
    return s->rope * log_of(s->original / (turns * two_pi)) / (2.0 * log_of(s->theta));
}

void ropetable_frequencies(const rope_spec *s, double *freq) {
    double log_theta = log_of(s->theta);
    double low = s->yarn ? clamp(floor(dimension_of(s, s->beta_fast)), 0.0, s->rope - 1.0) : 0.0;
    double high = s->yarn ? clamp(ceil(dimension_of(s, s->beta_slow)), 0.0, s->rope - 1.0) : 0.0;
    double width = high > low ? high - low : 0.001; /* a step where both meet */
    for (uint32_t i = 0; i < s->rope / 2; i++) {
        double f = i == 0 ? 1.0 : exp_of(-2.0 * i / s->rope * log_theta);
        double ramp = clamp((i - low) / width, 0.0, 1.0);
        freq[i] = s->yarn ? f * (1.0 - ramp) + f / s->factor * ramp : f;
    }
}

/* ---- sin and cos ---- */

/* pi / 2 in three parts; the first two have room for a quarter count of 31 bits. */
#define QUARTER_1 0x1.921fb54000000p0
#define QUARTER_2 0x1.10b4611800000p-30
#define QUARTER_3 0x1.313198a2e0370p-61

static double sin_series(double r) {
    static const double c[] = {-0x1.5555555555555p-3,  0x1.1111111111111p-7,
                               -0x1.a01a01a01a01ap-13, 0x1.71de3a556c734p-19,
                               -0x1.ae64567f544e4p-26, 0x1.6124613a86d09p-33,
                               -0x1.ae7f3e733b81fp-41};
    double z = r * r;
    double p = c[6];
    for (int k = 5; k >= 0; k--)
        p = fma(p, z, c[k]);
    return fma(p * z, r, r);
}

static double cos_series(double r) {
    static const double c[] = {-0.5,
                               0x1.5555555555555p-5,
                               -0x1.6c16c16c16c17p-10,
                               0x1.a01a01a01a01ap-16,
                               -0x1.27e4fb7789f5cp-22,
                               0x1.1eed8eff8d898p-29,
                               -0x1.93974a8c07c9dp-37,
                               0x1.ae7f3e733b81fp-45};
    double z = r * r;
    double p = c[7];
    for (int k = 6; k >= 0; k--)
        p = fma(p, z, c[k]);
    return fma(p, z, 1.0);
}

void ropetable_row(const double *freq, uint32_t pairs, int64_t position, float *cos_sin) {
    const double magic = 0x1.8p52;
    for (uint32_t i = 0; i < pairs; i++) {
        /* The angle's own rounding is put back as `lost`. */
        double p = (double)position;
        double x = p * freq[i];
        double lost = fma(p, freq[i], -x);
        double n = (x * 0x1.45f306dc9c883p-1 + magic) - magic;
        double r = fma(n, -QUARTER_1, x);
        r = fma(n, -QUARTER_2, r);
        r = fma(n, -QUARTER_3, r + lost);
        double s = sin_series(r);
        double c = cos_series(r);
        int64_t quarter = (int64_t)n & 3;
        double cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
        double sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
        cos_sin[2 * i] = (float)cosine;
        cos_sin[2 * i + 1] = (float)sine;
    }
}
