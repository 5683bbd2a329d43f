/* support/far - a device, and an exchange, of memory that this process cannot look into.
 *
 * Idea: the cpu device behind addresses that fault when they are read: whatever runs on it would run
 * on a device with memory of its own. */
#ifndef TF_TESTS_SUPPORT_FAR_H
#define TF_TESTS_SUPPORT_FAR_H

#include "engine/port/device.h"
#include "engine/port/exchange.h"

#include <stdbool.h>

/* Takes over the near one; close with its ops->close. */
device *far_device(device *near);
exchange *far_exchange(exchange *near);
bool far_is(const void *p);

#endif
