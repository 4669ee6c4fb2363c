// The online roles for a device on the rig: roots, timestamp, one snapshot and the director's
// answers, made anew for each request from what the test set, with knobs that make them lie.
#ifndef ROLE_RIG_H
#define ROLE_RIG_H

#include "device_rig.h"

#include "wire/trust/meta.h"
#include "wire/trust/root.h"

#define ROLE_ROOTS_MAX   300
#define ROLE_ENTRIES_MAX 8
#define ROLE_SCENARIO    "demo"

enum role_key { ROLE_KEY_A, ROLE_KEY_B, ROLE_KEY_ONLINE, ROLE_KEY_ONLINE2, ROLE_KEY_COUNT };

struct role_bytes {
    uint8_t bytes[1024];
    size_t size;
};

struct role_rig {
    struct rig rig; // its keys 0 and 1 sign releases
    EVP_PKEY *keys[ROLE_KEY_COUNT];
    uint8_t publics[ROLE_KEY_COUNT][WIRE_PUBLIC_KEY_BYTES];
    struct role_bytes roots[ROLE_ROOTS_MAX]; // root N is roots[N - 1]
    uint32_t root_count;
    enum role_key online;            // speaks for timestamp, snapshot and director
    struct wire_timestamp timestamp; // version and times; scenarios are filled in
    uint64_t snapshot_version;
    struct wire_snapshot_entry entries[ROLE_ENTRIES_MAX];
    uint32_t entry_count;
    uint32_t lease_s;
    int64_t ahead_s;           // gateway's and root signers' clock, before the device's
    uint64_t directed_version; // of the timestamp, as the director tells; 0: the true one
    bool apart;                // it knows no question for what comes next
    bool brings;               // what comes next comes with answers to check-ins that ask for it
    int next_status;           // ... answers it so; 0: with 200
    // Lies.
    bool unnamed;           // the director's answer names nothing
    bool unmarked;          // ... has none of the marks
    uint64_t order_off;     // the director's order is so much further than asked
    bool no_scenario;       // the timestamp lists none
    bool other_bytes;       // the snapshot has a flipped bit
    int older_timestamps;   // so many requests for one get one that was published before
    int longer_snapshots;   // so many times a snapshot has more bytes than its timestamp says
    int publish_between;    // so many times a newer snapshot appears before it is fetched
    uint64_t said_version;  // of the snapshot itself; 0: as the timestamp says
    enum role_key meta_by;  // who signs timestamp and snapshot; ROLE_KEY_A (0): `online`
    uint32_t meta_failures; // so many requests for metadata end in CLOSED
    // What is made of an answer with what comes next, or of what is brought; NULL: it goes as it
    // is.
    size_t (*next_lie)(struct role_rig *roles, uint8_t *bytes, size_t size, size_t capacity);
    bool next_in_bytes; // it comes byte by byte
    bool next_hangs;    // it does not end
    bool next_cut;      // it ends in CLOSED
    // Seen.
    uint32_t meta_requests;
    uint32_t asked_for_lease;
    uint32_t brought; // so many answers to check-ins came with metadata
};

// One root of keys A and B (both sign), release keys 0 and 1 (one for few, two for many devices,
// more than 5 %), leases up to `lease_max_s`, and a timestamp. The device is not booted.
void role_rig_init(struct role_rig *roles, uint32_t lease_max_s);
void role_rig_done(struct role_rig *roles);
// Adds the next root; `online` becomes the key of the online roles.
void role_root_add(struct role_rig *roles, enum role_key online, uint32_t lease_max_s);
// Offers a version (two keys sign), lists it in the snapshot, and publishes that.
void role_release(struct role_rig *roles, const struct rig_statement *statement);
// A newer timestamp, and a newer snapshot with `snapshot`.
void role_publish(struct role_rig *roles, bool snapshot);

#endif
