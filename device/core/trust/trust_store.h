// Roots, timestamps and snapshots that a device believes: where they lie and how they are taken
// (trust_store.c). For the files of device/core that judge by them.
#ifndef DEV_TRUST_STORE_H
#define DEV_TRUST_STORE_H

#include "core/trust/trust_parts.h"
#include "wire/trust/root.h"

// The root in force: that of the settings, or one that was stored, while its bytes are mapped.
struct dev_trust_root {
    const struct wire_root *parsed;
    struct wire_root stored;
    const uint8_t *bytes;
    size_t size;
    bool mapped;
};
struct dev_trust_snapshot {
    struct wire_snapshot parsed;
    const uint8_t *bytes;
    size_t size;
    struct wire_sha256 name;
};
// After the record was read: is the root there, is the one of the settings newer?
void dev_trust_restore(struct dev_runtime *runtime);
// The root of the settings is in force.
void dev_trust_root_born(struct dev_runtime *runtime);
// The root that was lost came again. HASH: this is another one.
BASE_NODISCARD enum base_status dev_trust_root_regain(struct dev_runtime *runtime,
                                                      const uint8_t *bytes, size_t size);
// CORRUPT: it was damaged, and is to be brought again.
BASE_NODISCARD enum base_status dev_trust_root_open(struct dev_runtime *runtime,
                                                    struct dev_trust_root *out);
void dev_trust_root_close(struct dev_runtime *runtime, struct dev_trust_root *root);
// Verifies and believes: the next root, a timestamp, the snapshot under way. A refusal leaves all
// as it is. *out_new: it was not known before.
BASE_NODISCARD enum base_status dev_trust_root_take(struct dev_runtime *runtime,
                                                    const uint8_t *bytes, size_t size);
BASE_NODISCARD enum base_status dev_trust_timestamp_take(struct dev_runtime *runtime,
                                                         const uint8_t *bytes, size_t size,
                                                         bool *out_new);
BASE_NODISCARD enum base_status dev_trust_snapshot_take(struct dev_runtime *runtime);
// The timestamp in force. NOT_FOUND: none; BUSY: it was damaged, and is to be brought again. Names
// are borrowed until _timestamp_close.
BASE_NODISCARD enum base_status dev_trust_timestamp_open(struct dev_runtime *runtime,
                                                         struct wire_timestamp *out,
                                                         const uint8_t **out_bytes,
                                                         size_t *out_size);
void dev_trust_timestamp_close(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);
// The snapshot of a scenario of `timestamp`. NOT_FOUND: to be brought; MIXED: there is none.
BASE_NODISCARD enum base_status dev_trust_snapshot_open(struct dev_runtime *runtime,
                                                        const struct wire_timestamp *timestamp,
                                                        struct base_str scenario,
                                                        struct dev_trust_snapshot *out);
void dev_trust_snapshot_close(struct dev_runtime *runtime, struct dev_trust_snapshot *snapshot);
// Names every blob that trust rests on.
void dev_trust_blobs(struct dev_runtime *runtime, const struct dev_need *need);
void dev_trust_clear(struct dev_trust *trust); // what is stored of it

#endif
