/* Every stored format against its definition in terms of ldexp, over all bit patterns; every
 * rounding at, just below and just above each midpoint between neighbours. */
#include "engine/pack/dtype.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

/* The definition: exponent 0 has no hidden one. */
static double by_definition(uint32_t bits, int exponent_bits, int mantissa_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t mantissa = bits & ((1u << mantissa_bits) - 1u);
    int exponent = (int)(bits >> mantissa_bits & ((1u << exponent_bits) - 1u));
    double sign = (bits >> (exponent_bits + mantissa_bits) & 1u) != 0 ? -1.0 : 1.0;
    if (exponent == 0) return sign * ldexp((double)mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp((double)(mantissa | 1u << mantissa_bits), exponent - bias - mantissa_bits);
}

static bool same(float got, double want) {
    float narrowed = (float)want;
    return memcmp(&got, &narrowed, sizeof got) == 0;
}

static void f16_widens_exactly(check_case *t) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float got = f32_from_f16((uint16_t)bits);
        if ((bits & 0x7c00) == 0x7c00) {
            bool nan = (bits & 0x3ff) != 0;
            if (!CHECKF(t, nan ? isnan(got) : isinf(got), "f16 %04x", bits)) return;
            if (!CHECKF(t, (signbit(got) != 0) == (bits >> 15 != 0), "sign of %04x", bits)) return;
            continue;
        }
        if (!CHECKF(t, same(got, by_definition(bits, 5, 10)), "f16 %04x is %a", bits, (double)got))
            return;
    }
}

static void bf16_widens_exactly(check_case *t) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        if ((bits & 0x7f80) == 0x7f80) continue;
        float got = f32_from_bf16((uint16_t)bits);
        if (!CHECKF(t, same(got, by_definition(bits, 8, 7)), "bf16 %04x is %a", bits, (double)got))
            return;
    }
    CHECK(t, isinf(f32_from_bf16(0x7f80)) && isnan(f32_from_bf16(0xff81)));
}

/* One after the other, as rows of a table are read. */
static void widen_reads_every_form(check_case *t) {
    static const float values[] = {1.5f, -2.0f, 0.0f, 0.0078125f};
    uint16_t bf16[COUNT(values)], f16[COUNT(values)];
    for (size_t i = 0; i < COUNT(values); i++) {
        bf16[i] = bf16_from_f32(values[i]);
        f16[i] = f16_from_f32(values[i]);
    }
    const struct {
        tf_dtype dtype;
        const void *from;
    } forms[] = {{DTYPE_F32, values}, {DTYPE_BF16, bf16}, {DTYPE_F16, f16}};
    for (size_t f = 0; f < COUNT(forms); f++) {
        float to[COUNT(values) + 1] = {[COUNT(values)] = 7.0f};
        dtype_widen(forms[f].dtype, forms[f].from, COUNT(values), to);
        CHECKF(t, memcmp(to, values, sizeof values) == 0 && to[COUNT(values)] == 7.0f, "%s",
               dtype_name(forms[f].dtype));
    }
}

static void f8_widens_exactly(check_case *t) {
    for (uint32_t bits = 0; bits < 0x100; bits++) {
        float e4m3 = f32_from_e4m3((uint8_t)bits);
        bool held =
            (bits & 0x7f) == 0x7f ? isnan(e4m3) != 0 : same(e4m3, by_definition(bits, 4, 3));
        CHECKF(t, held, "e4m3 %02x is %a", bits, (double)e4m3);
        float e8m0 = f32_from_e8m0((uint8_t)bits);
        held = bits == 0xff ? isnan(e8m0) != 0 : same(e8m0, ldexp(1.0, (int)bits - 127));
        CHECKF(t, held, "e8m0 %02x is %a", bits, (double)e8m0);
    }
    CHECK(t, f32_from_e4m3(0x7e) == 448.0f); /* no infinity at the top */
}

/* Rounds `value` and its neighbours; the midpoint of low and low + 1 goes to the even one. */
static bool f16_midpoint_holds(check_case *t, uint16_t low) {
    double below = (double)f32_from_f16(low);
    double above = low == 0x7bff ? 65536.0 : (double)f32_from_f16((uint16_t)(low + 1));
    double middle = (below + above) / 2; /* exact in double */
    uint16_t even = (low & 1) == 0 ? low : (uint16_t)(low + 1);
    uint16_t next = (uint16_t)(low + 1);
    return CHECKF(t, f16_from_f64(below) == low, "%04x back", low) &&
           CHECKF(t, f16_from_f64(middle) == even, "middle above %04x", low) &&
           CHECKF(t, f16_from_f64(nextafter(middle, 0)) == low, "below middle of %04x", low) &&
           CHECKF(t, f16_from_f64(nextafter(middle, (double)INFINITY)) == next,
                  "above middle of %04x", low) &&
           CHECKF(t, f16_from_f64(-middle) == (even | 0x8000), "minus middle of %04x", low) &&
           CHECKF(t, f16_from_f32((float)middle) == even, "float middle of %04x", low);
}

static void f16_rounds_once_to_nearest_even(check_case *t) {
    for (uint16_t low = 0; low < 0x7c00; low++) {
        if (!f16_midpoint_holds(t, low)) return;
    }
    /* By way of float32 this one lands on the midpoint and then on even, below. */
    double twice = 1.0 + 0x1p-11 + 0x1p-40;
    CHECK_U64(t, f16_from_f64(twice), 0x3c01);
    CHECK_U64(t, f16_from_f32((float)twice), 0x3c00);
}

static void f16_narrowing_keeps_specials(check_case *t) {
    CHECK_U64(t, f16_from_f64((double)INFINITY), 0x7c00);
    CHECK_U64(t, f16_from_f64(-1e300), 0xfc00);
    CHECK_U64(t, f16_from_f64(-0.0), 0x8000);
    CHECK_U64(t, f16_from_f64(1e-300), 0);
    CHECK_U64(t, f16_from_f64((double)NAN) & 0x7e00, 0x7e00);
    CHECK_U64(t, f16_from_f64(-65520.0), 0xfc00);
}

static bool bf16_midpoint_holds(check_case *t, uint16_t low) {
    uint32_t middle = (uint32_t)low << 16 | 0x8000u;
    uint16_t even = (low & 1) == 0 ? low : (uint16_t)(low + 1);
    return CHECKF(t, bf16_from_f32(f32_from_bf16(low)) == low, "%04x back", low) &&
           CHECKF(t, bf16_from_f32(f32_from_bits(middle)) == even, "middle above %04x", low) &&
           CHECKF(t, bf16_from_f32(f32_from_bits(middle - 1)) == low, "below %04x", low) &&
           CHECKF(t, bf16_from_f32(f32_from_bits(middle + 1)) == (uint16_t)(low + 1), "above %04x",
                  low);
}

static void bf16_rounds_to_nearest_even(check_case *t) {
    for (uint32_t low = 0; low < 0x10000; low++) {
        if ((low & 0x7f80) == 0x7f80) continue;
        if (!bf16_midpoint_holds(t, (uint16_t)low)) return;
    }
    CHECK_U64(t, bf16_from_f32(f32_from_bits(0x7f800001)), 0x7fc0); /* a NaN never turns infinite */
    CHECK_U64(t, bf16_from_f32(f32_from_bits(0xff800001)), 0xffc0);
    CHECK_U64(t, bf16_from_f32(INFINITY), 0x7f80);
}

static void names_and_sizes_are_the_formats(check_case *t) {
    static const struct {
        const char *name;
        uint32_t bytes;
    } want[] = {{"BF16", 2}, {"F16", 2}, {"F32", 4}, {"F64", 8}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
                {"I16", 2},  {"I32", 4}, {"I64", 8}, {"U8", 1},  {"I8", 1},      {"BOOL", 1}};
    CHECK_U64(t, COUNT(want), DTYPE_COUNT);
    for (size_t i = 0; i < COUNT(want); i++) {
        tf_dtype got = DTYPE_COUNT;
        CHECK(t, dtype_parse(want[i].name, strlen(want[i].name), &got));
        CHECK_STR(t, dtype_name(got), want[i].name);
        CHECK_U64(t, dtype_bytes(got), want[i].bytes);
    }
    tf_dtype got;
    CHECK(t, !dtype_parse("F3", 2, &got) && !dtype_parse("F322", 4, &got) &&
                 !dtype_parse("", 0, &got));
    CHECK_U64(t, dtype_bytes(DTYPE_COUNT), 0);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"dtype/f16-widens-exactly", f16_widens_exactly},
        {"dtype/bf16-widens-exactly", bf16_widens_exactly},
        {"dtype/widen-reads-every-form", widen_reads_every_form},
        {"dtype/f8-widens-exactly", f8_widens_exactly},
        {"dtype/f16-rounds-once-to-nearest-even", f16_rounds_once_to_nearest_even},
        {"dtype/f16-narrowing-keeps-specials", f16_narrowing_keeps_specials},
        {"dtype/bf16-rounds-to-nearest-even", bf16_rounds_to_nearest_even},
        {"dtype/names-and-sizes-are-the-formats", names_and_sizes_are_the_formats},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
