/* cpu/isa - which instructions this machine and this build have.
 *
 * Idea: asked once when a device is opened; a person may ask for less, to compare. */
#ifndef TF_ENGINE_CPU_ISA_H
#define TF_ENGINE_CPU_ISA_H

#include "engine/cpu/cpu.h"

/* name NULL: the best.  Fails with isa-missing for one that is unknown or that this machine lacks. */
tf_status isa_choose(const char *name, cpu_isa *out, tf_error *err);

#endif
