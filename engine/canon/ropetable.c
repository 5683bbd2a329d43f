#include "engine/canon/ropetable.h"

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

void ropetable_row(const double *freq, uint32_t pairs, int64_t position, float *cos_sin) {
    for (uint32_t i = 0; i < pairs; i++)
        ropetable_angle(freq[i], (double)position, &cos_sin[2 * i], &cos_sin[2 * i + 1]);
}
