// Devices between memory and store: loading at start, and the background flush. Control thread.
#ifndef GW_DEVICES_STORE_H
#define GW_DEVICES_STORE_H

#include "base/error.h"

#define GW_FLUSH_BATCH 4096u // devices of one background write

struct gw_core;
struct gw_flush;

BASE_NODISCARD enum base_status gw_flush_new(struct gw_flush **out_flush);
void gw_flush_free(struct gw_flush *flush); // accepts NULL
// What was marked before this second is in the store.
uint32_t gw_flush_done_s(const struct gw_flush *flush);
enum base_status gw_devices_load(struct gw_core *core, struct base_error *error);
// Writes dirty devices to the store and waits. Returns how many.
uint32_t gw_devices_flush(struct gw_core *core);

#endif
