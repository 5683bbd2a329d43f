#include "engine/pack/recipe.h"

#include "engine/base/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GOLDEN_GAMMA 0x9E3779B97F4A7C15ull
#define MARKER_MUL1  0x83DCD12Du

/* Doubles between a rule and its rounding; small enough to stay in the first cache. */
enum {
    BLOCK = 512
};

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

uint64_t recipe_key(uint64_t seed, const char *label) {
    uint64_t hash = 0xCBF29CE484222325ull; /* FNV-1a */
    for (const char *c = label; *c != '\0'; c++) {
        hash = (hash ^ (uint8_t)*c) * 0x100000001B3ull;
    }
    return mix(hash ^ (seed * GOLDEN_GAMMA));
}

uint64_t recipe_bits(uint64_t key, uint64_t index) {
    return mix(key + (index + 1) * GOLDEN_GAMMA);
}

double recipe_unit(uint64_t bits) {
    return (double)(bits >> 11) * 0x1p-53;
}

double recipe_normal(uint64_t bits) {
    int64_t sum =
        (int64_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (double)(sum - 131070) / 37837.0;
}

/* GOLDEN, "Gains". */
static double gain_of(inventory_linear linear) {
    switch (linear) {
    case LINEAR_WQ_A:
    case LINEAR_WKV:
    case LINEAR_COMPRESSOR_WKV:
    case LINEAR_INDEXER_WK:
    case LINEAR_INDEXER_WQ_B:
    case LINEAR_ENGRAM_WKV:
    case LINEAR_MAIN_PROJ:
        return 1.0;
    case LINEAR_WO_A:
        return 1.3;
    case LINEAR_WQ_B:
    case LINEAR_WO_B:
    case LINEAR_EXPERT_W1:
    case LINEAR_EXPERT_W2:
    case LINEAR_EXPERT_W3:
    case LINEAR_SHARED_W1:
    case LINEAR_SHARED_W2:
    case LINEAR_SHARED_W3:
        return 1.6;
    case LINEAR_COMPRESSOR_WGATE:
        return 2.0;
    case LINEAR_HEAD:
        return 3.2;
    case LINEAR_COUNT:
        break;
    }
    TF_ASSERT(false);
    return 0;
}

/* scale * normal + offset is the rule of most tensors. */
static double scale_of(const inventory_tensor *t) {
    double k = sqrt((double)t->fan_in);
    switch (t->role) {
    case ROLE_PLAIN:
    case ROLE_SVH:
        return gain_of(t->linear) / k;
    case ROLE_HC_FN:
        return 0.7 / k;
    case ROLE_CHOOSER:
        return 1.5 / k;
    case ROLE_CONFIDENCE:
        return 1.0 / k;
    case ROLE_MARKOV_HEAD:
        return 0.3 / k;
    case ROLE_NORM:
    case ROLE_GATE_BIAS:
        return 0.15;
    case ROLE_HC_BASE:
        return 0.3;
    case ROLE_HC_SCALE:
    case ROLE_ENGRAM_WEIGHT:
        return 0.2;
    case ROLE_SINK:
    case ROLE_EMBED:
    case ROLE_SUH:
    case ROLE_TRELLIS:
    case ROLE_MARKER:
    case ROLE_ENGRAM_TABLE:
    case ROLE_ENGRAM_SCALE:
        break;
    }
    return 1.0;
}

/* Element `index` of a hyper-connection's base: pre, post, then comb row-major with a strong
 * diagonal. */
static double base_offset(uint64_t index) {
    static const double pre[4] = {0.2, -0.4, -0.8, -0.6};
    if (index < 4) return pre[index];
    return index >= 8 && (index - 8) % 5 == 0 ? 1.2 : 0.0;
}

static void make_normals(const inventory_tensor *t, uint64_t key, uint64_t begin, size_t n,
                         double *to) {
    double scale = scale_of(t);
    for (size_t i = 0; i < n; i++) {
        to[i] = recipe_normal(recipe_bits(key, begin + i)) * scale;
    }
    if (t->role == ROLE_NORM || t->role == ROLE_HC_SCALE || t->role == ROLE_ENGRAM_WEIGHT) {
        for (size_t i = 0; i < n; i++) {
            to[i] = 1.0 + to[i];
        }
    } else if (t->role == ROLE_SINK) {
        for (size_t i = 0; i < n; i++) {
            to[i] -= 0.5;
        }
    } else if (t->role == ROLE_HC_BASE) {
        for (size_t i = 0; i < n; i++) {
            to[i] += base_offset(begin + i);
        }
    }
}

static void make_signs(const inventory_tensor *t, uint64_t key, uint64_t begin, size_t n,
                       double *to) {
    double scale = scale_of(t);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = recipe_bits(key, begin + i);
        double sign = bits >> 63 != 0 ? -1.0 : 1.0;
        to[i] = sign * (0.85 + 0.3 * recipe_unit(bits)) * scale;
    }
}

/* For each pair {a, b} in order: row b += boost * (stored bf16 of the embedding's row a). */
static void add_pairs(const builtin_model *model, const inventory_tensor *t, uint64_t begin,
                      size_t n, double *to) {
    char embed[TF_NAME_BYTES_MAX];
    int stem = (int)(strlen(t->name) - strlen("head.weight"));
    snprintf(embed, sizeof embed, "%.*sembed.weight", stem, t->name);
    uint64_t key = recipe_key(model->seed, embed);
    uint64_t width = t->shape[1];
    for (size_t p = 0; p < model->markov_pairs->count; p++) {
        const uint16_t *pair = model->markov_pairs->at[p];
        uint64_t row = pair[1] * width;
        uint64_t from = row > begin ? row : begin;
        uint64_t to_end = row + width < begin + n ? row + width : begin + n;
        for (uint64_t i = from; i < to_end; i++) {
            double value = recipe_normal(recipe_bits(key, pair[0] * width + (i - row)));
            to[i - begin] +=
                model->markov_boost * (double)f32_from_bf16(bf16_from_f32((float)value));
        }
    }
}

static void store(tf_dtype dtype, const double *from, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i++) {
        if (dtype == DTYPE_F32) {
            uint32_t bits = f32_bits((float)from[i]);
            memcpy(out + i * 4, &bits, 4);
            continue;
        }
        uint16_t bits = dtype == DTYPE_F16 ? f16_from_f64(from[i]) : bf16_from_f32((float)from[i]);
        memcpy(out + i * 2, &bits, 2);
    }
}

static void make_integers(inventory_role role, uint64_t key, uint64_t begin, uint64_t n,
                          uint8_t *out) {
    switch (role) {
    case ROLE_TRELLIS:
        for (uint64_t i = 0; i < n; i++) {
            uint16_t low = (uint16_t)recipe_bits(key, begin + i);
            memcpy(out + i * 2, &low, 2);
        }
        return;
    case ROLE_ENGRAM_TABLE:
        for (uint64_t i = 0; i < n; i++) {
            uint64_t bits = recipe_bits(key, begin + i);
            out[i] = (uint8_t)((bits & 0x87) | (4 + (bits >> 8) % 5) << 3);
        }
        return;
    case ROLE_ENGRAM_SCALE:
        for (uint64_t i = 0; i < n; i++) {
            out[i] = (uint8_t)(125 + recipe_bits(key, begin + i) % 4);
        }
        return;
    default:
        TF_ASSERT(role == ROLE_MARKER);
        const uint32_t marker = MARKER_MUL1;
        memcpy(out, &marker, 4);
    }
}

void recipe_values(const builtin_model *model, const inventory_tensor *tensor, uint64_t begin,
                   uint64_t count, void *out) {
    uint64_t key = recipe_key(model->seed, tensor->name);
    uint8_t *at = out;
    tf_dtype dtype = tensor->dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F16 && dtype != DTYPE_BF16) {
        make_integers(tensor->role, key, begin, count, at);
        return;
    }
    double block[BLOCK];
    for (uint64_t done = 0; done < count; done += BLOCK) {
        size_t n = count - done < BLOCK ? (size_t)(count - done) : BLOCK;
        if (tensor->role == ROLE_SUH || tensor->role == ROLE_SVH) {
            make_signs(tensor, key, begin + done, n, block);
        } else {
            make_normals(tensor, key, begin + done, n, block);
        }
        if (tensor->role == ROLE_MARKOV_HEAD && model->markov_pairs != NULL) {
            add_pairs(model, tensor, begin + done, n, block);
        }
        store(dtype, block, n, at + done * dtype_bytes(dtype));
    }
}
