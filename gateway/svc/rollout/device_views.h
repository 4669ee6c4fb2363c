// What is known of a device, for operators.
//
// Called on the control thread only. A view joins the stored record with what is newer in memory.
#ifndef GW_DEVICE_VIEWS_H
#define GW_DEVICE_VIEWS_H

#include "svc/device/devices.h"
#include "svc/page.h"

BASE_NODISCARD enum base_status gw_device_get(struct gw_core *core, uint64_t device_id,
                                              struct gw_device_view *out);
// What the device said with its last failure in that rollout; empty: nothing is known.
void gw_device_failure(struct gw_core *core, const struct gw_device_outcome *outcome,
                       char out[WIRE_REPORT_DETAIL_MAX + 1]);
// In the order of device ids; `after` is exclusive, begin with has_after false.
BASE_NODISCARD enum base_status gw_device_list(struct gw_core *core, bool has_after, uint64_t after,
                                               struct gw_device_view *out, struct gw_page *page);

#endif
