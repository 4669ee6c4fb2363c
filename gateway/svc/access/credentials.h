// Devices as principals: who a device is, in which tenant, and whether it may talk to us.
//
// A device is known by a credential (a secret drawn at enrolment, POST /v1/enroll) or by a client
// certificate whose common name is the device's id. Whoever has been made known has to show it from
// then on; strangers are served in the tenant "default", or not at all when
// gw_core_options.device_auth_required is set. A revoked device is refused at its next request, and
// its hint streams end.
//
// SHARED MUTABLE STATE: a slot of 24 bytes for each in a table of its own, four fifths full, in
// shards with a mutex each, so that a check-in needs no disk and, while no device is enrolled, not
// even a look-up. Workers ask; the control thread, and the writer thread for what has just become
// durable, change it.
#ifndef GW_CREDENTIALS_H
#define GW_CREDENTIALS_H

#include "base/error.h"
#include "base/keyed_hash.h"
#include "svc/exchange.h"
#include "svc/access/secret.h"

#define GW_CREDENTIAL_SHARDS     64u
#define GW_CREDENTIAL_HASH_BYTES 13u // of the SHA-256, in memory
#define GW_CREDENTIALS_MAX       (64u * 1024 * 1024)
#define GW_CREDENTIAL_ROW_MAX    64u

struct gw_core;
struct gw_worker;
struct gw_credentials;

enum gw_credential_state {
    GW_CREDENTIAL_NONE,        // not known, or forgotten
    GW_CREDENTIAL_PENDING,     // issued, never shown: may be issued again, the answer may be lost
    GW_CREDENTIAL_TOKEN,       // shown at least once
    GW_CREDENTIAL_CERTIFICATE, // bound by its first certificate
    GW_CREDENTIAL_REVOKED,
    GW_CREDENTIAL_STATE_COUNT
};

const char *gw_credential_state_name(enum gw_credential_state state);

// What is stored of a device.
struct gw_credential {
    enum gw_credential_state state;
    uint16_t tenant;
    struct wire_sha256 hash; // zero for a certificate
    uint64_t enrolled_s;
    uint64_t changed_s;
    uint64_t token_id; // enrolment token; 0: none
    uint32_t resets;   // how often it was reset: none of its credentials comes back
    bool keyed;        // PENDING: made of the device's key, and given again to who has that alone
};

// Bytes written.
size_t gw_credential_encode(const struct gw_credential *credential,
                            uint8_t out[GW_CREDENTIAL_ROW_MAX]);
BASE_NODISCARD enum base_status gw_credential_decode(const uint8_t *bytes, size_t size,
                                                     struct gw_credential *out);

// `key` is copied: strangers choose ids.
BASE_NODISCARD enum base_status gw_credentials_new(const struct base_hash_key *key,
                                                   struct gw_credentials **out_credentials);
void gw_credentials_free(struct gw_credentials *credentials); // accepts NULL
BASE_NODISCARD enum base_status gw_credentials_load(struct gw_core *core, struct base_error *error);
// Remembers what was stored. False: out of memory, or the limit.
bool gw_credentials_set(struct gw_credentials *credentials, uint64_t device_id,
                        const struct gw_credential *credential);
uint64_t gw_credentials_count(struct gw_credentials *credentials);
// Is nobody revoked, and everybody in the default tenant? Then no device need be looked up for
// that.
bool gw_credentials_plain(struct gw_credentials *credentials);
uint64_t gw_credentials_bytes(struct gw_credentials *credentials);
// Look-ups that went past BASE_PROBE_LONG places.
uint64_t gw_credentials_probes_long(struct gw_credentials *credentials);
bool gw_credentials_revoked(struct gw_credentials *credentials, uint64_t device_id);
// Tenant of a device; the default one for strangers.
uint16_t gw_credentials_tenant(struct gw_credentials *credentials, uint64_t device_id);
enum gw_credential_state gw_credentials_state(struct gw_credentials *credentials,
                                              uint64_t device_id);
// Issued with this hash, and never shown?
bool gw_credentials_pending_as(struct gw_credentials *credentials, uint64_t device_id,
                               const struct wire_sha256 *hash);
// Both in one look.
enum gw_credential_state gw_credentials_whose(struct gw_credentials *credentials,
                                              uint64_t device_id, uint16_t *out_tenant);

// ---- On a worker

enum gw_admission { GW_ADMITTED, GW_ADMISSION_UNKNOWN, GW_ADMISSION_REVOKED };

// May this request speak for the device, and in which tenant?
enum gw_admission gw_device_admit(struct gw_core *core, const struct gw_request *request,
                                  uint64_t device_id, uint16_t *out_tenant);
// Of a request that was admitted: did it show who it is? What it shows is checked by then.
static inline bool gw_request_proves(const struct gw_request *request)
{
    return request->credential.size > 0 || request->has_certificate;
}
// Fills the reply for one that may not: 401 or 403.
void gw_admission_refuse(struct gw_exchange *exchange, enum gw_admission admission);
// POST /v1/enroll.
void gw_enroll_handle(struct gw_worker *worker, struct gw_exchange *exchange);

// ---- On any thread

// What is on disk. NOT_FOUND: nothing is stored of it.
BASE_NODISCARD enum base_status gw_credential_get(struct gw_core *core, uint64_t device_id,
                                                  struct gw_credential *out);

// ---- On the control thread

uint16_t gw_device_tenant(struct gw_core *core, uint64_t device_id);
enum gw_credential_state gw_device_credential(struct gw_core *core, uint64_t device_id);

// Refused from now on, streams end. A device never seen may be revoked as well.
BASE_NODISCARD enum base_status gw_device_revoke(struct gw_core *core, uint64_t device_id,
                                                 struct gw_credential *out);
// Forgets how the device was known, so that it may enrol anew; it stays in its tenant until then.
BASE_NODISCARD enum base_status gw_device_forget(struct gw_core *core, uint64_t device_id,
                                                 struct gw_credential *out);

#endif
