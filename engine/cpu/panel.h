/* cpu/panel - weights as the products want them: panels of 16 outputs, K ascending.
 *
 * Idea: an instruction's lanes are outputs; a panel holds for each pair of k the two weights of its
 * 16 outputs side by side, as AMX wants them, so that every level reads one stream.
 *     plain    [ceil(N/16)][ceil(K/2)][16][2] of bf16, f16 or f32; absent outputs and k are +0
 *     exl3     [N/16][K/16][8 * bits2] i16: the tiles of 16 columns one after another
 * Trap: a short last panel has lanes that are computed and never stored. */
#ifndef TF_ENGINE_CPU_PANEL_H
#define TF_ENGINE_CPU_PANEL_H

#include "engine/port/device.h"

#define PANEL 16u

uint64_t panel_bytes(const device_source *source);
/* memory [panel_bytes]; exl3 keeps suh and svh as f32 behind the tiles. */
void panel_load(const device_source *source, void *memory, port_linear *out);

#endif
