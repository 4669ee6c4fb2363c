// Changing a device's record inside a write transaction, and collecting what that means for the
// tally once it is on disk. Writer thread.
#ifndef GW_RECORD_EDIT_H
#define GW_RECORD_EDIT_H

#include "svc/core_private.h"
#include "svc/device/device_record.h"

struct gw_record_edit {
    struct gw_core *core;
    struct gw_store_txn *txn;
    uint64_t device_id;
    uint32_t now_s; // of what is heard
    struct gw_device_record record;
    bool dirty;           // has to be put
    const uint8_t *attrs; // of the pool: lives as long as the core
    size_t attrs_size;
    struct gw_tally_change *changes; // the caller's
    uint32_t change_count;
    uint32_t change_capacity;
};

// Changes that merging what memory has may cause.
#define GW_RECORD_MERGE_CHANGES (2u * GW_DEVICE_MARKS_MAX)
// Reads the record, or begins one, and merges what memory has that the disk has not (attributes,
// last seen, offers). `snapshot` NULL: look the device up in the table.
BASE_NODISCARD enum base_status gw_record_edit_begin(struct gw_record_edit *edit,
                                                     const struct gw_device_snapshot *snapshot);
// What the device table has to know of an outcome.
struct gw_device_mark gw_record_mark(const struct gw_record_outcome *outcome,
                                     const struct gw_tally_rollout *rollout);
// The device's outcome in a rollout, brought back when it had left the record. NULL: there is none,
// or the record is full of open rollouts.
struct gw_record_outcome *gw_record_edit_find(struct gw_record_edit *edit, uint64_t rollout_id);
// The device's outcome in a rollout, made when it is not there: entered at `offered_s` in `stage`
// with `bits`. NULL: the record is full of open rollouts.
struct gw_record_outcome *gw_record_edit_outcome(struct gw_record_edit *edit, uint64_t rollout_id,
                                                 uint8_t stage, uint32_t offered_s, uint16_t bits);
// Sets the bits of an outcome and notes the change.
void gw_record_edit_set(struct gw_record_edit *edit, struct gw_record_outcome *outcome,
                        uint16_t bits, const struct wire_outcome *said);
// A device that was control and has the release after all begins anew, in another stage, and so
// does one that is control of a later stage; one that has shown who it is since it entered does as
// well. `bits`: what it begins with.
void gw_record_edit_enter(struct gw_record_edit *edit, struct gw_record_outcome *outcome,
                          uint8_t stage, uint32_t offered_s, uint16_t bits);
// The device has shown who it is. The first time, what is known of its reports' numbers goes:
// strangers may have sent them.
void gw_record_edit_prove(struct gw_record_edit *edit);
// Moves what every outcome counts, past ones too, into the outcomes table: the record is about to
// go.
BASE_NODISCARD enum base_status gw_record_edit_archive(struct gw_record_edit *edit);
// Puts the record when it is dirty.
BASE_NODISCARD enum base_status gw_record_edit_end(struct gw_record_edit *edit);

// Stored form of counts that outlived their outcomes.
#define GW_ARCHIVE_BYTES 96u
void gw_archive_encode(const struct gw_rollout_counts *counts, uint8_t out[GW_ARCHIVE_BYTES]);
BASE_NODISCARD enum base_status gw_archive_decode(const uint8_t *bytes, size_t size,
                                                  struct gw_rollout_counts *out);

#endif
