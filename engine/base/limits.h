/* base/limits - every limit on outside input, and why. */
#ifndef TF_ENGINE_BASE_LIMITS_H
#define TF_ENGINE_BASE_LIMITS_H

/* Ranks: the partition rule is exact far beyond; 256 bounds arrays and messages. */
#define TF_WORLD_MAX 256u
/* A safetensors header: the format's own limit. */
#define TF_HEADER_BYTES_MAX 100000000ull
/* config.json, index and other documents: the largest real index is under 40 MB. */
#define TF_JSON_BYTES_MAX 100000000ull
/* Nesting of a JSON document: real ones use 5. */
#define TF_JSON_DEPTH_MAX 32
/* Tensors of a pack: the real release has about 200,000. */
#define TF_TENSORS_MAX 4000000u
/* Shards of a pack. */
#define TF_SHARDS_MAX 10000u
/* Layers with drafts: the real model has 43; synth --layers may ask for more. */
#define TF_LAYERS_MAX 2048u
#define TF_DIMS_MAX   8u
/* Dims that rotary positions turn: the real model has 64. */
#define TF_ROPE_DIM_MAX   512u
#define TF_NAME_BYTES_MAX 512u
#define TF_PATH_BYTES_MAX 1024u

#endif
