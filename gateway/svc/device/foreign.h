// Devices that do not run our device runtime: somebody else speaks for them (gateway/ddi).
//
// They have no profile; what they run follows from what was reported for them. The decision is the
// one every device gets: a profile is made from the record and goes through the check-in's own
// code.
#ifndef GW_FOREIGN_H
#define GW_FOREIGN_H

#include "svc/core.h"
#include "svc/device/devices.h"
#include "wire/trust/statement.h"

enum gw_foreign_kind {
    GW_FOREIGN_NOTHING,
    GW_FOREIGN_INSTALL,
    GW_FOREIGN_BACK, // to what was approved before what it runs
};

struct gw_foreign_want {
    enum gw_foreign_kind kind;
    uint64_t rollout_id; // of BACK the one that is left
    uint64_t task_id;
    uint64_t version_id; // likewise
    uint64_t to_rollout; // whose version it is to run
    uint64_t to_version;
    struct wire_sha256 manifest; // of that
};

// Worker's thread: says that the device is here, with these attributes (NULL: those of `view`), and
// decides what it should do next: one thing at a time. INVALID: attributes; NOMEM.
BASE_NODISCARD enum base_status gw_foreign_checkin(struct gw_worker *worker,
                                                   struct base_arena *arena,
                                                   const struct gw_device_view *view,
                                                   struct wire_attrs *attrs,
                                                   struct gw_foreign_want *out);
// Worker's thread: makes outcomes of the device durable, then finishes the exchange: 200 and no
// body, or the problem. `view` is the device's at the time the outcomes were put together.
void gw_foreign_report(struct gw_worker *worker, struct gw_exchange *exchange,
                       const struct gw_device_view *view, const struct wire_outcome *outcomes,
                       uint32_t count);

// Is the version of this outcome what the device runs, as far as it said? And: was it offered, with
// nothing heard since?
bool gw_foreign_runs(const struct gw_device_outcome *outcome);
bool gw_foreign_pending(const struct gw_device_outcome *outcome);

#endif
