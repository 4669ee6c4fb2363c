// Past outcomes: what a device's record had no room for any more. A record remembers
// GW_DEVICE_OUTCOMES_MAX rollouts; when it is full, the finished one that was longest ago moves
// here, into a row of its own, and comes back when its device speaks of it again. So a device is
// counted once in every rollout, however many there are.
//
//   row := u8 version(1), outcome as in a record (svc/device/device_record.c)
//   key := device id, rollout id
#ifndef GW_PAST_OUTCOMES_H
#define GW_PAST_OUTCOMES_H

#include "store/store.h"
#include "svc/device/device_record.h"

// Writer thread, inside a group's transaction. FULL, IO.
BASE_NODISCARD enum base_status gw_past_put(struct gw_store_txn *txn, uint64_t device_id,
                                            const struct gw_record_outcome *outcome);
// NOT_FOUND also when the row is damaged; IO.
BASE_NODISCARD enum base_status gw_past_get(struct gw_store_txn *txn, uint64_t device_id,
                                            uint64_t rollout_id, struct gw_record_outcome *out);
BASE_NODISCARD enum base_status gw_past_delete(struct gw_store_txn *txn, uint64_t device_id,
                                               uint64_t rollout_id);
// Calls `visit` for each past outcome of the device, in the order of rollouts, until it returns
// false. It may not write.
typedef bool (*gw_past_visit_fn)(void *ctx, const struct gw_record_outcome *outcome);
BASE_NODISCARD enum base_status gw_past_each(struct gw_store_txn *txn, uint64_t device_id,
                                             gw_past_visit_fn visit, void *ctx);
// A row as a scan of the table shows it. CORRUPT.
BASE_NODISCARD enum base_status gw_past_decode(struct base_span key, struct base_span value,
                                               uint64_t *out_device_id,
                                               struct gw_record_outcome *out);

#endif
