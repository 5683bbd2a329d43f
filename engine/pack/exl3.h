/* pack/exl3 - what headers cannot say of an EXL3 pack: that its markers hold their codebooks' numbers.
 *
 * Idea: X.mul1 and X.mcg name a codebook and hold its multiplier; one that holds another number was
 * written for a codec that we do not have, and would decode to noise of the right shape.
 * Trap: shapes, missing parts and mixed codebooks are seen in headers already, by the plan; this
 * check needs bytes and says nothing about a pack of headers alone. */
#ifndef TF_ENGINE_PACK_EXL3_H
#define TF_ENGINE_PACK_EXL3_H

#include "engine/base/status.h"
#include "engine/pack/pack.h"

#include <stdint.h>

/* Reads every marker; whoever is about to use the pack's bytes asks first.  workers 0: one a core.
 * Fails with exl3-marker, naming the first in name order, or as pack_read does. */
tf_status exl3_check_markers(const tf_pack *pack, uint32_t workers, tf_error *err);

#endif
