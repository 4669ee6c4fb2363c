// The director's state. The control thread's, but for what is atomic.
#ifndef GW_DIRECTOR_PRIVATE_H
#define GW_DIRECTOR_PRIVATE_H

#include "svc/trust/director.h"

#include <stdatomic.h>

struct gw_director_scenario {
    char name[WIRE_SCENARIO_MAX + 1];
    uint64_t version;
    uint64_t issued_s;
    struct wire_sha256 entries; // hash of what it lists
};

struct gw_director {
    const struct gw_signer_port *signer; // NULL: devices are not served by roles
    uint32_t timestamp_life_s;
    uint32_t lease_s;
    uint32_t root_count;
    uint64_t root_first;
    struct gw_meta_bytes *roots;
    uint64_t root_expires_s; // of the newest; 0: none
    bool keys_match;         // the newest root names this gateway's online keys
    uint64_t timestamp_version;
    uint64_t timestamp_issued_s;
    uint32_t scenario_count;
    struct gw_director_scenario scenarios[WIRE_TIMESTAMP_SCENARIOS_MAX];
    uint32_t kill_count;
    struct gw_kill kills[GW_KILLS_MAX]; // ascending
    bool kills_changed;
    struct gw_meta *meta; // newest; NULL: none yet
    _Atomic uint64_t answers;
    _Atomic uint64_t root_version_seen; // for /metrics
    _Atomic uint64_t root_expires_seen;
    _Atomic uint64_t keys_unnamed_seen; // GW_ONLINE_COUNT at most
    _Atomic uint64_t timestamp_seen;
    _Atomic uint64_t kills_seen;
    _Atomic uint64_t kills_told;    // in the timestamp
    _Atomic uint64_t kills_untold;  // ... and not, though devices can have them
    _Atomic uint64_t kills_yielded; // that gave way to others
};

// ---- Shared inside: one signature over a payload, as an envelope
BASE_NODISCARD enum base_status gw_director_sign(const struct gw_signer_port *signer,
                                                 enum gw_online_role role, uint8_t type,
                                                 const uint8_t *payload, size_t payload_bytes,
                                                 uint8_t *out, size_t capacity, size_t *out_size);
// Rows of the store.
BASE_NODISCARD enum base_status gw_director_store_state(struct gw_core *core);
BASE_NODISCARD enum base_status gw_director_store_root(struct gw_core *core, uint64_t version,
                                                       const uint8_t *bytes, size_t size);

#endif
