/* run/weights - a rank's weights: from its rank files into the device's own layout, each once.
 *
 * Idea: opening reads headers and indexes alone and refuses what is not this plan's; bytes are read
 * when a list is bound that names them, and every list after it finds them here.
 * Trap: of a linear held whole a call may want a run of rows; that run is a weight of its own. */
#ifndef TF_ENGINE_RUN_WEIGHTS_H
#define TF_ENGINE_RUN_WEIGHTS_H

#include "engine/plan/rankfile.h"
#include "engine/port/device.h"

typedef struct weights weights;

/* dir holds rank<r>/ (rankfile_write_set).  Opens and checks every file's header and index against
 * the plan; reads no payload.  Borrows plan and device. */
tf_status weights_open(const tf_plan *plan, const char *dir, device *d, weights **out,
                       tf_error *err);
void weights_close(weights *w);
/* Payload bytes read so far, and of all. */
uint64_t weights_bytes_read(const weights *w);
uint64_t weights_bytes(const weights *w);
/* Asked after each payload; false stops with interrupted.  May be NULL. */
void weights_progress(weights *w, bool (*progress)(void *, uint64_t done, uint64_t total),
                      void *context);

/* Loaded on first use; the weights own what `out` points to.  `keep`: as stored, else widened to f32. */
tf_status weights_tensor(weights *w, const char *image, bool keep, port_tensor *out, tf_error *err);
/* arg: a weight, or a plain tensor [N, K] that is used as one. */
tf_status weights_linear(weights *w, const call_arg *arg, port_weight *out, tf_error *err);

#endif
