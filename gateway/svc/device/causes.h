// Causes: what the fingerprints of failures stand for, kept with the rollout they came up in, so
// that a restart loses no text. One row for each fingerprint of a rollout, written with the first
// report that says it. A device has one that it failed for good with, and the tally remembers a
// few; of what devices say besides, a rollout keeps GW_CAUSES_ASIDE_MAX texts.
//
//   cause := u8 version, u8 kind, u8 size, detail;  key: rollout id, fingerprint
//   version: 1, a device failed for good with it; 2, no device did
#ifndef GW_CAUSES_H
#define GW_CAUSES_H

#include "svc/core_private.h"
#include "wire/report.h"

struct gw_cause {
    uint8_t kind; // enum wire_outcome_kind
    char detail[WIRE_REPORT_DETAIL_MAX + 1];
};

// Writer thread, inside a group's transaction: keeps the text of a failure unless it is known, or
// the rollout has as many as are kept. `failed`: the device has failed for good with it just now.
BASE_NODISCARD enum base_status gw_cause_keep(struct gw_core *core, struct gw_store_txn *txn,
                                              uint64_t rollout_id, const struct wire_outcome *said,
                                              bool failed);
// At start, before the devices: names all causes of failures in the tally.
BASE_NODISCARD enum base_status gw_causes_load(struct gw_core *core, struct base_error *error);
// NOT_FOUND, IO.
BASE_NODISCARD enum base_status gw_cause_get(struct gw_core *core, uint64_t rollout_id,
                                             uint64_t fingerprint, struct gw_cause *out);

#endif
