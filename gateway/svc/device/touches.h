// Touches: devices that a worker saw and has not told the table of devices about. They are
// gathered, so that a shard's lock is taken once for many. Worker's thread.
#ifndef GW_TOUCHES_H
#define GW_TOUCHES_H

#include "svc/device/checkin.h"

struct gw_touches;

// NOMEM.
BASE_NODISCARD enum base_status gw_touches_new(struct gw_touches **out_touches);
// What was not flushed is lost. Accepts NULL.
void gw_touches_free(struct gw_touches *touches);

// Is the table to be told of it? Not when the device has no record and none begins; its cohort's
// attributes have their number then.
bool gw_worker_may_touch(struct gw_worker *worker, const struct gw_checkin *checkin,
                         uint32_t now_s);
// The table is told of it with other touches, if it may be.
void gw_worker_touch(struct gw_worker *worker, const struct gw_checkin *checkin, uint32_t now_s);
// ... now: who asks the table about a device flushes first.
void gw_worker_flush_touches(struct gw_worker *worker);

#endif
