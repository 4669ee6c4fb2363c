// The gateway's part in trust: it keeps the chain of roots, signs snapshots, the timestamp with the
// kill list, and an answer for each device that asks. It signs with online keys only, so what it
// says cannot make a device run anything that the release role did not sign.
//
// The control thread owns `struct gw_director`; what workers need is in `struct gw_meta`, immutable
// and counted, which is handed to them as plans are.
#ifndef GW_DIRECTOR_H
#define GW_DIRECTOR_H

#include "base/error.h"
#include "base/log.h"
#include "svc/content/blob.h"
#include "svc/core.h"
#include "svc/trust/signer.h"
#include "wire/meta.h"
#include "wire/offer.h"
#include "wire/root.h"

#include <stdatomic.h>

#define GW_ROOTS_MAX            1024u
#define GW_TIMESTAMP_LIFE_S     86400u // default
#define GW_SNAPSHOT_LIFE_FACTOR 7u     // snapshots live so many timestamps long
#define GW_LEASE_S              900u   // default
#define GW_KILLS_MAX            4096u // of a gateway; of these devices get WIRE_TIMESTAMP_KILLS_MAX
#define GW_TRUST_REASON_MAX     200u
#define GW_TRUST_BY_MAX         64u

struct gw_core;
struct gw_release;
struct gw_checkin;
struct gw_worker;

struct gw_meta_bytes {
    uint8_t *data; // heap
    size_t size;
};

struct gw_meta {
    _Atomic uint32_t refs;
    uint64_t timestamp_version;
    uint64_t timestamp_expires_s;
    uint32_t lease_s;
    struct gw_blob *timestamp;
    uint32_t root_count;
    uint64_t root_first; // version of roots[0]
    struct gw_blob **roots;
    uint32_t scenario_count;
    struct gw_blob *snapshots[WIRE_TIMESTAMP_SCENARIOS_MAX];
    char scenarios[WIRE_TIMESTAMP_SCENARIOS_MAX][WIRE_SCENARIO_MAX + 1];
    uint32_t kill_count;
    uint64_t kill_ids[WIRE_TIMESTAMP_KILLS_MAX]; // version ids
};

struct gw_meta *gw_meta_ref(struct gw_meta *meta); // accepts NULL
void gw_meta_unref(struct gw_meta *meta);          // accepts NULL

struct gw_director_scenario {
    char name[WIRE_SCENARIO_MAX + 1];
    uint64_t version;
    uint64_t issued_s;
    struct wire_sha256 entries; // hash of what it lists
};

enum gw_kill_told {
    GW_KILL_UNNEEDED, // no device can have it
    GW_KILL_TOLD,     // in the timestamp
    GW_KILL_UNTOLD,   // for want of a place
};

struct gw_kill {
    struct wire_sha256 manifest;
    uint64_t time_us; // of the kill
    uint16_t tenant;  // whose version it is; GW_TENANT_EVERY: of no rollout here
    enum gw_kill_told told;
    char by[GW_TRUST_BY_MAX + 1];
    char reason[GW_TRUST_REASON_MAX + 1];
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

// ---- Control thread

BASE_NODISCARD enum base_status gw_director_load(struct gw_core *core, struct base_error *error);
void gw_director_done(struct gw_core *core);
// Brings the metadata up to date with catalog and clock (which stands still while it is in doubt:
// what must be said then bears the last time that was sure, and nothing lives longer); stores new
// version numbers before anything carries them. True: there is something new. A failure keeps what
// was published.
bool gw_director_build(struct gw_core *core);
// True when timestamp or snapshots have lived half their time.
bool gw_director_is_due(const struct gw_core *core);
bool gw_director_kills(const struct gw_core *core, const struct wire_sha256 *manifest);
// NULL: it is not killed.
const struct gw_kill *gw_director_kill(const struct gw_director *director,
                                       const struct wire_sha256 *manifest);

struct gw_trust_view {
    bool enabled;
    uint8_t keys[GW_ONLINE_COUNT][WIRE_PUBLIC_KEY_BYTES];
    uint64_t root_version; // 0: none
    uint64_t root_expires_s;
    bool keys_match;
    uint64_t timestamp_version;
    uint32_t lease_s;
    uint32_t evidence_key_count;
    uint8_t evidence_keys[GW_EVIDENCE_KEYS_MAX][WIRE_PUBLIC_KEY_BYTES];
    uint32_t kill_count;
    const struct gw_kill *kills; // the director's, until the next change
};
void gw_trust_view(struct gw_core *core, struct gw_trust_view *out);
struct gw_root_put {
    const uint8_t *bytes; // of an envelope
    size_t size;
    bool accept_keys; // also a root under which devices take nothing that this gateway signs
};
// Verifies and keeps a root: the first as it is, every other as successor of the newest. OK also
// when it is there (*out_created false). ROOT, SIGNATURE, THRESHOLD, INVALID, LIMIT, FULL, IO;
// CONFLICT: it does not name this gateway's keys, `error` says which; UNSUPPORTED without online
// keys.
BASE_NODISCARD enum base_status gw_trust_root_put(struct gw_core *core,
                                                  const struct gw_root_put *put,
                                                  uint64_t *out_version, bool *out_created,
                                                  struct base_error *error);
// Would devices take what the statements of a rollout say: did enough of the keys sign each that
// the newest root names for its task? OK also without a root. SIGNATURE, THRESHOLD: `error` says
// which statement lacks how many signatures, and which key is out of place or missing.
BASE_NODISCARD enum base_status gw_director_check(const struct gw_core *core,
                                                  const struct gw_release *release,
                                                  struct base_error *error);
// The newest root, and the hash of its envelope; its texts are borrowed until the next root comes.
// False: none is served.
bool gw_director_root(const struct gw_core *core, struct wire_root *out,
                      struct wire_sha256 *out_digest);
// Only with online keys.
struct wire_verifier gw_director_verifier(const struct gw_core *core);
// The first half of a kill by the version's own tenant: the list. On a full one an entry gives way
// (svc/rollout/kill_places.h). Whatever is cut off behind it is finished at the next start. LIMIT,
// FULL, IO: nothing happened.
BASE_NODISCARD enum base_status gw_trust_list(struct gw_core *core,
                                              const struct wire_sha256 *manifest,
                                              struct base_str by, struct base_str reason,
                                              bool *out_created, struct base_error *error);
// Puts a version on the kill list for an operator of all tenants, and takes its open rollouts back.
// OK also when it is there (*out_created false). LIMIT, FULL, IO.
BASE_NODISCARD enum base_status gw_trust_kill(struct gw_core *core,
                                              const struct wire_sha256 *manifest,
                                              struct base_str by, struct base_str reason,
                                              bool *out_created, struct base_error *error);
// Takes a version off the kill list. It may be released anew, and a rollout that had completed is
// a baseline again, to which devices go back; one that the kill ended stays so. That this is still
// to be said in logs (gw_kill_note_end) is stored with it, by whom and why. NOT_FOUND, FULL, IO.
BASE_NODISCARD enum base_status gw_trust_unkill(struct gw_core *core,
                                                const struct wire_sha256 *manifest,
                                                struct base_str by, struct base_str reason,
                                                struct base_error *error);
// The logs say it.
void gw_trust_unkill_said(struct gw_core *core, const struct wire_sha256 *manifest);
// At start, once rollouts and kills are loaded: a kill, or its end, that the end of the process cut
// off between its commits is finished.
void gw_trust_finish_kills(struct gw_core *core);

// ---- Worker's thread

// Puts the director's answer in front of `offers`; its bytes are `out` (WIRE_STATEMENT_BYTES_MAX).
BASE_NODISCARD enum base_status gw_director_answer(struct gw_worker *worker, uint64_t device_id,
                                                   const struct wire_ask *ask, uint8_t *out,
                                                   struct wire_offers *offers);
// Does the device run something that must stop?
bool gw_director_concerns(const struct gw_meta *meta, const struct gw_checkin *checkin);

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
