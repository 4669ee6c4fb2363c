// The table of devices' credentials, and what operators do to it. SHARED: each shard's mutex guards
// its slots; see credentials.h for who calls from where.
//
//   credential row := u8 version, u8 state, u16 tenant, hash[32], u64 enrolled_s, u64 changed_s,
//                     u64 token_id[, u32 resets]
//
// Version 2 is a pending one that was made of the device's key (svc/access/enrol_key.h), version 1
// any other; 3 and 4 are the same of a device that was reset, and hold how often.
#include "svc/access/credentials.h"

#include "svc/access/audit.h"
#include "svc/core_private.h"
#include "svc/access/device_user.h"
#include "svc/access/operators.h"
#include "svc/reply.h"
#include "svc/core_worker.h"

#include "base/check.h"
#include "base/cursor.h"

#include <stdlib.h>
#include <string.h>

#define ROW_VERSION             1
#define ROW_VERSION_KEYED       2
#define ROW_VERSION_RESET       3
#define ROW_VERSION_RESET_KEYED 4
#define SLOTS_FIRST             16u

struct slot {
    uint64_t device_id;
    uint8_t hash[GW_CREDENTIAL_HASH_BYTES];
    uint8_t state_used; // enum gw_credential_state, and SLOT_USED
    uint16_t tenant;
};
_Static_assert(sizeof(struct slot) == 24, "24 bytes a device");

#define SLOT_USED 0x80u

struct shard {
    pthread_mutex_t lock;
    struct slot *slots;
    uint32_t slot_count; // 0: none yet
    uint32_t used;
    uint64_t probes_long;
} __attribute__((aligned(128)));

struct gw_credentials {
    struct shard shards[GW_CREDENTIAL_SHARDS];
    struct base_hash_key key;
    _Atomic uint64_t count;
    _Atomic uint64_t apart; // of them, those that are revoked or in a tenant of their own
};

const char *gw_credential_state_name(enum gw_credential_state state)
{
    static const char *const names[GW_CREDENTIAL_STATE_COUNT] = {
        [GW_CREDENTIAL_NONE] = "none",       [GW_CREDENTIAL_PENDING] = "pending",
        [GW_CREDENTIAL_TOKEN] = "token",     [GW_CREDENTIAL_CERTIFICATE] = "certificate",
        [GW_CREDENTIAL_REVOKED] = "revoked",
    };
    return (unsigned)state < GW_CREDENTIAL_STATE_COUNT ? names[state] : "unknown";
}

static uint8_t version_of(bool keyed, bool reset)
{
    return reset ? (keyed ? ROW_VERSION_RESET_KEYED : ROW_VERSION_RESET)
                 : (keyed ? ROW_VERSION_KEYED : ROW_VERSION);
}

size_t gw_credential_encode(const struct gw_credential *credential,
                            uint8_t out[GW_CREDENTIAL_ROW_MAX])
{
    struct base_writer writer;
    base_writer_init(&writer, out, GW_CREDENTIAL_ROW_MAX);
    bool keyed = credential->keyed && credential->state == GW_CREDENTIAL_PENDING;
    base_writer_u8(&writer, version_of(keyed, credential->resets > 0));
    base_writer_u8(&writer, (uint8_t)credential->state);
    base_writer_u16(&writer, credential->tenant);
    base_writer_bytes(&writer, credential->hash.bytes, WIRE_SHA256_BYTES);
    base_writer_u64(&writer, credential->enrolled_s);
    base_writer_u64(&writer, credential->changed_s);
    base_writer_u64(&writer, credential->token_id);
    if (credential->resets > 0) {
        base_writer_u32(&writer, credential->resets);
    }
    base_check(writer.status == BASE_OK);
    return base_writer_size(&writer);
}

enum base_status gw_credential_decode(const uint8_t *bytes, size_t size, struct gw_credential *out)
{
    struct base_reader reader;
    struct gw_credential credential = {0};
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    unsigned state = base_reader_u8(&reader);
    credential.tenant = base_reader_u16(&reader);
    base_reader_copy(&reader, credential.hash.bytes, WIRE_SHA256_BYTES);
    credential.enrolled_s = base_reader_u64(&reader);
    credential.changed_s = base_reader_u64(&reader);
    credential.token_id = base_reader_u64(&reader);
    credential.keyed = version == ROW_VERSION_KEYED || version == ROW_VERSION_RESET_KEYED;
    bool reset = version == ROW_VERSION_RESET || version == ROW_VERSION_RESET_KEYED;
    credential.resets = reset ? base_reader_u32(&reader) : 0;
    if (base_reader_finish(&reader) != BASE_OK || version == 0 ||
        version > ROW_VERSION_RESET_KEYED || reset != (credential.resets > 0) ||
        (credential.keyed && state != GW_CREDENTIAL_PENDING) ||
        state >= GW_CREDENTIAL_STATE_COUNT) {
        return BASE_ERR_CORRUPT;
    }
    credential.state = (enum gw_credential_state)state;
    *out = credential;
    return BASE_OK;
}

// ---- Table

enum base_status gw_credentials_new(const struct base_hash_key *key,
                                    struct gw_credentials **out_credentials)
{
    struct gw_credentials *credentials = aligned_alloc(128, sizeof(*credentials));
    if (credentials == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(credentials, 0, sizeof(*credentials));
    credentials->key = *key;
    for (uint32_t i = 0; i < GW_CREDENTIAL_SHARDS; i++) {
        pthread_mutex_init(&credentials->shards[i].lock, NULL);
    }
    *out_credentials = credentials;
    return BASE_OK;
}

void gw_credentials_free(struct gw_credentials *credentials)
{
    if (credentials == NULL) {
        return;
    }
    for (uint32_t i = 0; i < GW_CREDENTIAL_SHARDS; i++) {
        free(credentials->shards[i].slots);
        pthread_mutex_destroy(&credentials->shards[i].lock);
    }
    free(credentials);
}

static struct shard *shard_lock(struct gw_credentials *credentials, uint64_t device_id,
                                uint64_t *out_hash)
{
    *out_hash = base_keyed64_u64(&credentials->key, device_id);
    struct shard *shard = &credentials->shards[*out_hash >> 58];
    pthread_mutex_lock(&shard->lock);
    return shard;
}
_Static_assert(GW_CREDENTIAL_SHARDS == 64, "the shard is the hash's top 6 bits");

// The device's slot, or the free one where it would be; NULL: there are no slots.
static struct slot *probe(struct shard *shard, uint64_t hash, uint64_t device_id)
{
    uint32_t slot_count = shard->slot_count;
    uint32_t steps = 0;
    struct slot *slots = shard->slots;
    if (slot_count == 0) {
        return NULL;
    }
    // Any number of slots: the low half of the hash, scaled.
    uint32_t at = (uint32_t)((hash & UINT32_MAX) * slot_count >> 32);
    while (slots[at].state_used != 0 && slots[at].device_id != device_id) {
        at = at + 1 < slot_count ? at + 1 : 0;
        steps++;
    }
    shard->probes_long += steps > BASE_PROBE_LONG;
    return &slots[at];
}

static bool grow(const struct base_hash_key *key, struct shard *shard)
{
    uint32_t old_count = shard->slot_count;
    struct slot *old = shard->slots;
    uint32_t wanted = old_count + old_count / 4 + SLOTS_FIRST;
    struct slot *slots = calloc(wanted, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    shard->slots = slots;
    shard->slot_count = wanted;
    for (uint32_t i = 0; i < old_count; i++) {
        if (old[i].state_used != 0) {
            uint64_t hash = base_keyed64_u64(key, old[i].device_id);
            *probe(shard, hash, old[i].device_id) = old[i];
        }
    }
    free(old);
    return true;
}

// Of a free slot, as of a stranger: no.
static bool is_apart(const struct slot *slot)
{
    return slot->state_used == (SLOT_USED | GW_CREDENTIAL_REVOKED) ||
           slot->tenant != GW_TENANT_DEFAULT;
}

static void fill(struct gw_credentials *credentials, struct slot *slot, uint64_t device_id,
                 const struct gw_credential *credential)
{
    const bool before = is_apart(slot);
    slot->device_id = device_id;
    slot->state_used = (uint8_t)(SLOT_USED | (unsigned)credential->state);
    slot->tenant = credential->tenant;
    memcpy(slot->hash, credential->hash.bytes, sizeof(slot->hash));
    if (is_apart(slot) && !before) {
        atomic_fetch_add_explicit(&credentials->apart, 1, memory_order_relaxed);
    } else if (before && !is_apart(slot)) {
        atomic_fetch_sub_explicit(&credentials->apart, 1, memory_order_relaxed);
    }
}

bool gw_credentials_set(struct gw_credentials *credentials, uint64_t device_id,
                        const struct gw_credential *credential)
{
    uint64_t hash;
    struct shard *shard = shard_lock(credentials, device_id, &hash);
    struct slot *slot = probe(shard, hash, device_id);
    bool ok = true;
    if (slot == NULL || slot->state_used == 0) {
        ok = shard->used < GW_CREDENTIALS_MAX / GW_CREDENTIAL_SHARDS;
        // At most four fifths full.
        if (ok && (uint64_t)(shard->used + 1) * 5 > (uint64_t)shard->slot_count * 4) {
            ok = grow(&credentials->key, shard);
        }
        slot = ok ? probe(shard, hash, device_id) : NULL;
        if (ok) {
            shard->used++;
            atomic_fetch_add_explicit(&credentials->count, 1, memory_order_relaxed);
        }
    }
    if (ok) {
        fill(credentials, slot, device_id, credential);
    }
    pthread_mutex_unlock(&shard->lock);
    return ok;
}

// A copy of the slot; `state_used` 0: a stranger.
static struct slot look_up(struct gw_credentials *credentials, uint64_t device_id)
{
    uint64_t hash;
    struct shard *shard = shard_lock(credentials, device_id, &hash);
    const struct slot *slot = probe(shard, hash, device_id);
    struct slot copy = {0};
    if (slot != NULL) {
        copy = *slot;
    }
    pthread_mutex_unlock(&shard->lock);
    return copy;
}

static enum gw_credential_state state_of(const struct slot *slot)
{
    return (enum gw_credential_state)(slot->state_used & ~SLOT_USED);
}

uint64_t gw_credentials_count(struct gw_credentials *credentials)
{
    return atomic_load_explicit(&credentials->count, memory_order_relaxed);
}

bool gw_credentials_plain(struct gw_credentials *credentials)
{
    return atomic_load_explicit(&credentials->apart, memory_order_relaxed) == 0;
}

uint64_t gw_credentials_bytes(struct gw_credentials *credentials)
{
    uint64_t bytes = sizeof(*credentials);
    for (uint32_t i = 0; i < GW_CREDENTIAL_SHARDS; i++) {
        struct shard *shard = &credentials->shards[i];
        pthread_mutex_lock(&shard->lock);
        bytes += (uint64_t)shard->slot_count * sizeof(struct slot);
        pthread_mutex_unlock(&shard->lock);
    }
    return bytes;
}

uint64_t gw_credentials_probes_long(struct gw_credentials *credentials)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < GW_CREDENTIAL_SHARDS; i++) {
        pthread_mutex_lock(&credentials->shards[i].lock);
        count += credentials->shards[i].probes_long;
        pthread_mutex_unlock(&credentials->shards[i].lock);
    }
    return count;
}

enum gw_credential_state gw_credentials_state(struct gw_credentials *credentials,
                                              uint64_t device_id)
{
    struct slot slot = look_up(credentials, device_id);
    return state_of(&slot);
}

bool gw_credentials_pending_as(struct gw_credentials *credentials, uint64_t device_id,
                               const struct wire_sha256 *hash)
{
    struct slot slot = look_up(credentials, device_id);
    return state_of(&slot) == GW_CREDENTIAL_PENDING &&
           gw_secret_equal(slot.hash, hash->bytes, sizeof(slot.hash));
}

bool gw_credentials_revoked(struct gw_credentials *credentials, uint64_t device_id)
{
    return gw_credentials_state(credentials, device_id) == GW_CREDENTIAL_REVOKED;
}

uint16_t gw_credentials_tenant(struct gw_credentials *credentials, uint64_t device_id)
{
    struct slot slot = look_up(credentials, device_id);
    return slot.tenant; // GW_TENANT_DEFAULT for a stranger
}
_Static_assert(GW_TENANT_DEFAULT == 0, "an empty slot says so");

enum gw_credential_state gw_credentials_whose(struct gw_credentials *credentials,
                                              uint64_t device_id, uint16_t *out_tenant)
{
    struct slot slot = look_up(credentials, device_id);
    *out_tenant = slot.tenant;
    return state_of(&slot);
}

// ---- Admission

// A device has shown its credential for the first time, or its first certificate.
struct note_op {
    struct gw_store_op op;
    struct gw_core *core;
    uint64_t device_id;
    struct gw_credential credential; // of a certificate
    bool skipped;
};

static enum base_status note_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct note_op *note = (struct note_op *)self;
    uint8_t row[GW_CREDENTIAL_ROW_MAX];
    struct gw_key key = gw_key_u64(note->device_id);
    struct base_span value;
    enum base_status status = gw_store_txn_get(txn, GW_TABLE_CREDENTIALS, &key, &value);
    note->skipped = false;
    if (note->credential.state == GW_CREDENTIAL_CERTIFICATE) {
        note->skipped = status != BASE_ERR_NOT_FOUND; // somebody else was first
    } else {
        note->skipped =
            status != BASE_OK ||
            gw_credential_decode(value.data, value.size, &note->credential) != BASE_OK ||
            note->credential.state != GW_CREDENTIAL_PENDING;
        note->credential.state = GW_CREDENTIAL_TOKEN;
    }
    if (note->skipped) {
        return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
    }
    size_t size = gw_credential_encode(&note->credential, row);
    return gw_store_txn_put(txn, GW_TABLE_CREDENTIALS, &key, row, size);
}

static void note_done(struct gw_store_op *self, enum base_status status)
{
    struct note_op *note = (struct note_op *)self;
    // Kept in memory only when it is on disk; otherwise the next request tries again.
    if (status == BASE_OK && !note->skipped) {
        (void)gw_credentials_set(note->core->credentials, note->device_id, &note->credential);
    }
    free(note);
}

static void note(struct gw_core *core, uint64_t device_id, enum gw_credential_state state,
                 uint16_t tenant)
{
    struct note_op *note = calloc(1, sizeof(*note));
    if (note == NULL) {
        return;
    }
    note->core = core;
    note->device_id = device_id;
    note->credential = (struct gw_credential){.state = state,
                                              .tenant = tenant,
                                              .enrolled_s = gw_core_now_s(core),
                                              .changed_s = gw_core_now_s(core)};
    note->op.sort_key = device_id;
    note->op.apply = note_apply;
    note->op.done = note_done;
    if (gw_store_submit(core->store, &note->op) != BASE_OK) {
        free(note);
    }
}

static enum gw_admission admit_certificate(struct gw_core *core, const struct gw_request *request,
                                           uint64_t device_id, const struct slot *slot,
                                           uint16_t *out_tenant)
{
    uint16_t tenant = GW_TENANT_DEFAULT;
    if (request->certificate_device != device_id ||
        (request->certificate_tenant.size > 0 &&
         !gw_tenant_find(core, request->certificate_tenant, &tenant))) {
        return GW_ADMISSION_UNKNOWN;
    }
    if (state_of(slot) == GW_CREDENTIAL_REVOKED) {
        return GW_ADMISSION_REVOKED;
    }
    if (slot->state_used == 0) {
        note(core, device_id, GW_CREDENTIAL_CERTIFICATE, tenant);
    } else if (slot->tenant != tenant) {
        return GW_ADMISSION_UNKNOWN;
    }
    *out_tenant = tenant;
    return GW_ADMITTED;
}

enum gw_admission gw_device_admit(struct gw_core *core, const struct gw_request *request,
                                  uint64_t device_id, uint16_t *out_tenant)
{
    struct gw_credentials *credentials = core->credentials;
    *out_tenant = GW_TENANT_DEFAULT;
    bool shows = request->credential.size > 0 || request->has_certificate;
    if (!shows && !core->set.device_auth_required && gw_credentials_count(credentials) == 0) {
        return GW_ADMITTED;
    }
    struct slot slot = look_up(credentials, device_id);
    if (request->has_certificate) {
        return admit_certificate(core, request, device_id, &slot, out_tenant);
    }
    struct wire_sha256 hash;
    switch (state_of(&slot)) {
    case GW_CREDENTIAL_NONE:
        // One that was forgotten has to enrol again: its tenant is nobody's to claim.
        return shows || core->set.device_auth_required || slot.state_used != 0
                   ? GW_ADMISSION_UNKNOWN
                   : GW_ADMITTED;
    case GW_CREDENTIAL_REVOKED:
        return GW_ADMISSION_REVOKED;
    case GW_CREDENTIAL_PENDING:
    case GW_CREDENTIAL_TOKEN:
        if (!gw_secret_hash(request->credential, GW_SECRET_DEVICE, &hash) ||
            !gw_secret_equal(hash.bytes, slot.hash, sizeof(slot.hash))) {
            return GW_ADMISSION_UNKNOWN;
        }
        if (state_of(&slot) == GW_CREDENTIAL_PENDING) {
            note(core, device_id, GW_CREDENTIAL_PENDING, slot.tenant);
        }
        *out_tenant = slot.tenant;
        if (request->proven != NULL) {
            *request->proven = true;
        }
        return GW_ADMITTED;
    case GW_CREDENTIAL_CERTIFICATE:
    case GW_CREDENTIAL_STATE_COUNT:
        break;
    }
    return GW_ADMISSION_UNKNOWN;
}

void gw_admission_refuse(struct gw_exchange *exchange, enum gw_admission admission)
{
    if (admission == GW_ADMISSION_REVOKED) {
        gw_reply_problem(exchange, 403, "this device was revoked");
    } else {
        gw_reply_problem(exchange, 401, "walle-credential: missing or wrong for this device");
    }
}

// ---- What operators see and do

uint16_t gw_device_tenant(struct gw_core *core, uint64_t device_id)
{
    return gw_credentials_tenant(core->credentials, device_id);
}

enum gw_credential_state gw_device_credential(struct gw_core *core, uint64_t device_id)
{
    return gw_credentials_state(core->credentials, device_id);
}

enum base_status gw_credential_get(struct gw_core *core, uint64_t device_id,
                                   struct gw_credential *out)
{
    struct gw_key key = gw_key_u64(device_id);
    struct gw_store_read *read;
    struct base_span value;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_get(read, GW_TABLE_CREDENTIALS, &key, &value);
    if (status == BASE_OK) {
        status = gw_credential_decode(value.data, value.size, out);
    }
    gw_store_read_end(read);
    return status;
}

struct change_op {
    struct gw_store_op op;
    uint64_t device_id;
    enum gw_credential_state state;
    uint64_t now_s;
    struct gw_credential credential; // result
};

static enum base_status change_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct change_op *change = (struct change_op *)self;
    uint8_t row[GW_CREDENTIAL_ROW_MAX];
    struct gw_key key = gw_key_u64(change->device_id);
    struct base_span value;
    struct gw_credential credential = {0};
    enum base_status status = gw_store_txn_get(txn, GW_TABLE_CREDENTIALS, &key, &value);
    if (status == BASE_OK) {
        status = gw_credential_decode(value.data, value.size, &credential);
    }
    if (status != BASE_OK && status != BASE_ERR_NOT_FOUND) {
        return status;
    }
    credential.state = change->state;
    credential.changed_s = change->now_s;
    memset(&credential.hash, 0, sizeof(credential.hash)); // what it had opens nothing any more
    if (change->state == GW_CREDENTIAL_NONE && credential.resets < UINT32_MAX) {
        credential.resets++;
    }
    change->credential = credential;
    // What enrols under this id next may be another machine, in other hands.
    if (change->state == GW_CREDENTIAL_NONE) {
        BASE_TRY(gw_device_user_forget(txn, change->device_id));
    }
    size_t size = gw_credential_encode(&credential, row);
    return gw_store_txn_put(txn, GW_TABLE_CREDENTIALS, &key, row, size);
}

static enum base_status change(struct gw_core *core, uint64_t device_id,
                               enum gw_credential_state state, struct gw_credential *out)
{
    struct change_op change = {
        .device_id = device_id, .state = state, .now_s = gw_core_now_s(core)};
    change.op.apply = change_apply;
    change.op.sort_key = device_id;
    BASE_TRY(gw_audit_submit_wait(core, &change.op));
    if (!gw_credentials_set(core->credentials, device_id, &change.credential)) {
        return BASE_ERR_NOMEM;
    }
    *out = change.credential;
    return BASE_OK;
}

enum base_status gw_device_revoke(struct gw_core *core, uint64_t device_id,
                                  struct gw_credential *out)
{
    BASE_TRY(change(core, device_id, GW_CREDENTIAL_REVOKED, out));
    atomic_fetch_add_explicit(&core->revocations, 1, memory_order_release);
    pthread_mutex_lock(&core->workers_lock);
    for (uint32_t i = 0; i < core->worker_count; i++) {
        gw_worker_wake(core->workers[i]);
    }
    pthread_mutex_unlock(&core->workers_lock);
    return BASE_OK;
}

enum base_status gw_device_forget(struct gw_core *core, uint64_t device_id,
                                  struct gw_credential *out)
{
    return change(core, device_id, GW_CREDENTIAL_NONE, out);
}

struct load {
    struct gw_core *core;
    enum base_status status;
};

static bool load_credential(void *ctx, struct base_span key, struct base_span value)
{
    struct load *load = ctx;
    uint64_t device_id = 0;
    struct gw_credential credential;
    load->status = gw_credential_decode(value.data, value.size, &credential);
    if (load->status == BASE_OK && !gw_key_read_u64(key.data, key.size, 0, &device_id)) {
        load->status = BASE_ERR_CORRUPT;
    }
    if (load->status == BASE_OK &&
        !gw_credentials_set(load->core->credentials, device_id, &credential)) {
        load->status = BASE_ERR_NOMEM;
    }
    return load->status == BASE_OK;
}

enum base_status gw_credentials_load(struct gw_core *core, struct base_error *error)
{
    struct load load = {.core = core, .status = BASE_OK};
    struct gw_key from = gw_key_u64(0);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status =
        gw_store_read_scan(read, GW_TABLE_CREDENTIALS, &from, load_credential, &load);
    gw_store_read_end(read);
    if (status == BASE_OK) {
        status = load.status;
    }
    // One that cannot be read might be one that was revoked: nothing is guessed.
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "cannot load the credentials: %s",
                                              base_status_text(status));
}
