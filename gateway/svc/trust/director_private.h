// The director's state. The control thread's, but for what is atomic.
#ifndef GW_DIRECTOR_PRIVATE_H
#define GW_DIRECTOR_PRIVATE_H

#include "base/span.h"
#include "store/store.h"
#include "svc/trust/director.h"

#include <stdatomic.h>

struct gw_director_scenario {
    char name[WIRE_SCENARIO_MAX + 1];
    uint64_t version;
    uint64_t issued_s;
    struct wire_sha256 entries; // hash of what it lists
};

struct gw_director {
    struct gw_director_sources sources;
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
    _Atomic uint64_t answer_signatures; // one may be over many
    _Atomic uint64_t root_version_seen; // for /metrics
    _Atomic uint64_t root_expires_seen;
    _Atomic uint64_t keys_unnamed_seen; // GW_ONLINE_COUNT at most
    _Atomic uint64_t timestamp_seen;
    _Atomic uint64_t kills_seen;
    _Atomic uint64_t kills_told;    // in the timestamp
    _Atomic uint64_t kills_untold;  // ... and not, though devices can have them
    _Atomic uint64_t kills_yielded; // that gave way to others
};

// ---- Shared inside: one signature over a payload of the role's type, as an envelope, which
// borrows the payload
BASE_NODISCARD enum base_status gw_director_sign(const struct gw_signer_port *signer,
                                                 enum gw_online_role role, struct base_span payload,
                                                 struct wire_envelope *out);
// Rows of the store.
BASE_NODISCARD enum base_status gw_director_store_state(struct gw_core *core);
BASE_NODISCARD enum base_status gw_director_store_root(struct gw_core *core, uint64_t version,
                                                       const uint8_t *bytes, size_t size);

// ---- What is released: the entries of each scenario

struct gw_listed {
    uint32_t scenario; // index in the director
    struct wire_snapshot_entry entry;
};

struct gw_listing {
    struct gw_listed *items;
    uint32_t count;
};

// Index of a scenario, made when it is new; UINT32_MAX: no room for another.
uint32_t gw_director_scenario(struct gw_director *director, struct base_str name);

// ---- Rows

// Rows of one transaction.
#define GW_TRUST_ROWS_MAX 3u
struct gw_trust_row {
    struct gw_key key;
    const uint8_t *bytes; // NULL: the row goes
    size_t size;
};

// Kinds of rows: the first number of their keys.
#define GW_TRUST_ROW_ROOT     1
#define GW_TRUST_ROW_STATE    2
#define GW_TRUST_ROW_KILL     3
#define GW_TRUST_ROW_KILL_END 4
#define GW_TRUST_ROW_VERSION  1
#define GW_TRUST_STATE_BYTES_MAX                                                                   \
    (64 + WIRE_TIMESTAMP_SCENARIOS_MAX * (1 + WIRE_SCENARIO_MAX + 16 + 32))

// Puts rows of GW_TABLE_TRUST in one transaction, and waits.
BASE_NODISCARD enum base_status gw_trust_rows_put(struct gw_core *core,
                                                  const struct gw_trust_row *rows, uint32_t count);
BASE_NODISCARD enum base_status gw_director_state_encode(const struct gw_director *director,
                                                         uint64_t timestamp_version,
                                                         uint8_t out[GW_TRUST_STATE_BYTES_MAX],
                                                         size_t *out_size);

// ---- The kill list (kills.c)

bool gw_kills_is_key(struct base_span key);
// A row of the list into memory; rows come in the order of their keys. CORRUPT.
BASE_NODISCARD enum base_status gw_kills_read(struct gw_director *director, struct base_span key,
                                              struct base_span value);
// The entry of a version; NULL: there is none.
struct gw_kill *gw_kills_entry(struct gw_director *director, const struct wire_sha256 *manifest);
// Puts an entry on the list, on disk and in memory; on a full one `yields` goes for it.
BASE_NODISCARD enum base_status gw_kills_add(struct gw_core *core, const struct gw_kill *kill,
                                             const struct gw_kill *yields,
                                             struct base_error *error);
// Takes an entry off; the end is noted until gw_trust_unkill_said.
BASE_NODISCARD enum base_status gw_kills_end(struct gw_core *core, const struct gw_kill *end,
                                             struct base_error *error);
// An end that the logs do not say yet. False: there is none.
bool gw_kills_next_end(struct gw_core *core, struct gw_kill *out);

#endif
