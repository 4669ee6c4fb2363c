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
#include "svc/signer.h"
#include "wire/trust/meta.h"
#include "wire/trust/offer.h"
#include "wire/trust/root.h"

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
struct wire_profile;
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
    // The timestamp with each of the snapshots, and without one: what is asked for at once.
    struct gw_blob *next[WIRE_TIMESTAMP_SCENARIOS_MAX];
    struct gw_blob *next_alone;
    uint32_t kill_count;
    uint64_t kill_ids[WIRE_TIMESTAMP_KILLS_MAX]; // version ids
};

struct gw_meta *gw_meta_ref(struct gw_meta *meta); // accepts NULL
void gw_meta_unref(struct gw_meta *meta);          // accepts NULL

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

struct gw_director; // director_private.h

// ---- Control thread

BASE_NODISCARD enum base_status gw_director_load(struct gw_core *core, struct base_error *error);
struct gw_core_options;
struct gw_listing;
struct gw_told_kills {
    uint32_t count;
    struct wire_sha256 items[WIRE_TIMESTAMP_KILLS_MAX]; // ascending
};
// What the director asks of the rollouts, which it does not know.
struct gw_director_sources {
    // What may be ordered of every task now: fills the listing (director_private.h), to
    // gw_listing_done.
    enum base_status (*list)(struct gw_core *core, struct gw_listing *out);
    // Which kills get a place in the timestamp.
    enum base_status (*tell)(struct gw_core *core, struct gw_told_kills *out);
    // What the director publishes changed: called after a root came.
    void (*changed)(struct gw_core *core);
};
BASE_NODISCARD enum base_status gw_director_new(const struct gw_core_options *options,
                                                const struct gw_director_sources *sources,
                                                struct gw_director **out_director);
void gw_director_free(struct gw_director *director); // accepts NULL
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
// The logs say it.
void gw_trust_unkill_said(struct gw_core *core, const struct wire_sha256 *manifest);
// ---- Worker's thread

struct gw_answer_ask; // svc/trust/answer_batch.h
// Puts the director's answer in front of `offers`, signed for itself; its bytes are `out`
// (WIRE_STATEMENT_BYTES_MAX). Of `ask` device, question and offers count, which these are.
BASE_NODISCARD enum base_status gw_director_answer(struct gw_worker *worker,
                                                   const struct gw_answer_ask *ask, uint8_t *out,
                                                   struct wire_offers *offers);
// Does the device run something that must stop?
bool gw_director_concerns(const struct gw_meta *meta, const struct wire_profile *profile);
// What comes next for a device that asks for metadata with the answer: a newer root than it has,
// or a newer timestamp with the snapshot of the first release of `offers`. Empty: nothing is newer,
// or it is over WIRE_OFFERS_META_MAX. The bytes are the worker's metadata's.
struct base_span gw_director_metadata(const struct gw_meta *meta, const struct wire_ask *ask,
                                      const struct wire_offers *offers);
// Anybody's: the metadata by name and version.
void gw_meta_handle(struct gw_worker *worker, struct gw_exchange *exchange);

#endif
