// What a device believes, and where it lies: root, timestamp and snapshots are sealed blobs named
// by their hash; the record names the root and the timestamp in force, and is replaced atomically.
// So a kill at any instant leaves the old or the new belief, whole.
//
// Called by device_trust.c when something came, and by the judges to look things up.
#include "core/trust/trust_store.h"

#include "core/slots/device_content.h"
#include "core/slots/device_repair.h"

#include "base/check.h"

#include <string.h>

static void verifier_sha256(void *ctx, const void *bytes, size_t size,
                            const struct wire_sha256 *hoped, struct wire_sha256 *out)
{
    const struct dev_crypto_port *crypto = ctx;
    struct dev_hash_state state;
    crypto->hash_begin(crypto->ctx, &state, hoped);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, out);
}

static enum base_status verifier_verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                        const uint8_t *message, size_t size,
                                        const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    const struct dev_crypto_port *crypto = ctx;
    return crypto->verify(crypto->ctx, key, message, size, signature);
}

struct wire_verifier dev_crypto_verifier(const struct dev_crypto_port *crypto)
{
    return (struct wire_verifier){
        .ctx = (void *)(uintptr_t)crypto, .sha256 = verifier_sha256, .verify = verifier_verify};
}

static struct wire_sha256 sha256_of(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct wire_sha256 digest;
    verifier_sha256((void *)(uintptr_t)&runtime->ports->crypto, bytes, size, NULL, &digest);
    return digest;
}

// ---- Blobs

// Damage may be of one time, and is mended at once. A storage that reads wrong again and again is
// asked later and later: a device with such a one is no storm.
static void mend_later(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    uint64_t now_us = dev_now_us(runtime);
    uint64_t calm_us = runtime->settings.backoff_cap_ms * UINT64_C(2000);
    bool again = trust->damaged_us != 0 && now_us - trust->damaged_us <= calm_us;
    base_assert(trust->damaged_us <= now_us);
    if (again) {
        uint64_t wait_ms = dev_backoff_next(&trust->mending, dev_random(runtime), 0);
        uint64_t due_us = now_us + wait_ms * 1000;
        trust->not_before_us = due_us > trust->not_before_us ? due_us : trust->not_before_us;
    } else {
        dev_backoff_reset(&trust->mending);
    }
    trust->damaged_us = now_us;
}

// None is larger than a snapshot. What is damaged is dropped, so that it is brought again.
// NOT_FOUND, CORRUPT.
static enum base_status blob_open(struct dev_runtime *runtime, const struct wire_sha256 *name,
                                  const char *what, const uint8_t **out_bytes, size_t *out_size)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    enum base_status status =
        dev_content_open(runtime, name, WIRE_SNAPSHOT_BYTES_MAX, out_bytes, out_size);
    if (status == BASE_ERR_CORRUPT) {
        (void)storage->blob_delete(storage->ctx, name);
        dev_meta_damaged(runtime, what);
        mend_later(runtime);
    }
    return status;
}

static bool blob_missing(struct dev_runtime *runtime, const struct wire_sha256 *name)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    uint64_t have = 0;
    bool sealed = false;
    return storage->blob_stat(storage->ctx, name, &have, &sealed) != BASE_OK || !sealed;
}

// Makes bytes durable under their hash.
static enum base_status blob_keep(struct dev_runtime *runtime, const struct wire_sha256 *name,
                                  const uint8_t *bytes, size_t size)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    uint64_t have = 0;
    bool sealed = false;
    if (storage->blob_stat(storage->ctx, name, &have, &sealed) == BASE_OK) {
        if (sealed) {
            return BASE_OK;
        }
        BASE_TRY(storage->blob_delete(storage->ctx, name));
    }
    BASE_TRY(storage->blob_append(storage->ctx, name, 0, bytes, size));
    return storage->blob_seal(storage->ctx, name);
}

// ---- Roots

static void timestamp_forget(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    trust->timestamp_version = 0;
    trust->timestamp_expires_s = 0;
    memset(&trust->timestamp, 0, sizeof(trust->timestamp));
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        runtime->tasks[i].listed = 0;
    }
}

// Another root, or the same one anew: what the director said under the last one is void.
static void answer_void(struct dev_runtime *runtime)
{
    base_assert(dev_trust_is_rooted(runtime));
    runtime->trust->work->holds = false;
}

static void begin_at(struct dev_runtime *runtime, uint64_t born)
{
    answer_void(runtime);
    runtime->trust->root_version = born;
    memset(&runtime->trust->root, 0, sizeof(runtime->trust->root));
    runtime->trust->lost = false;
}

// The chain is walked from the root of the settings.
void dev_trust_root_born(struct dev_runtime *runtime)
{
    begin_at(runtime, runtime->settings.born_root->version);
}

enum base_status dev_trust_root_regain(struct dev_runtime *runtime, const uint8_t *bytes,
                                       size_t size)
{
    struct dev_trust *trust = runtime->trust;
    struct dev_trust_root root;
    struct wire_sha256 name = sha256_of(runtime, bytes, size);
    if (!wire_sha256_equal(&name, &trust->root)) {
        return BASE_ERR_HASH;
    }
    BASE_TRY(blob_keep(runtime, &name, bytes, size));
    trust->lost = false;
    answer_void(runtime);
    BASE_TRY(dev_trust_root_open(runtime, &root));
    runtime->time.root_s = root.parsed->issued_s;
    dev_trust_root_close(runtime, &root);
    return BASE_OK;
}

void dev_trust_restore(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    struct wire_timestamp timestamp;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    if (trust->work == NULL) {
        return;
    }
    trust->lost = false;
    uint64_t born = runtime->settings.born_root->version;
    if (wire_sha256_is_zero(&trust->root) || trust->root_version <= born) {
        begin_at(runtime, born); // or an app that brings a newer root
    }
    if (trust->timestamp_version > 0 &&
        dev_trust_timestamp_open(runtime, &timestamp, &bytes, &size) == BASE_OK) {
        dev_trust_timestamp_close(runtime, bytes, size);
    }
    struct dev_trust_root root;
    if (dev_trust_root_open(runtime, &root) == BASE_OK) {
        runtime->time.root_s = root.parsed->issued_s;
        dev_trust_root_close(runtime, &root);
    }
}

enum base_status dev_trust_root_open(struct dev_runtime *runtime, struct dev_trust_root *out)
{
    struct dev_trust *trust = runtime->trust;
    struct wire_envelope envelope;
    out->mapped = !wire_sha256_is_zero(&trust->root);
    out->parsed = out->mapped ? &out->stored : runtime->settings.born_root;
    if (!out->mapped) {
        return BASE_OK;
    }
    if (blob_open(runtime, &trust->root, "root", &out->bytes, &out->size) != BASE_OK) {
        trust->lost = true;
        trust->wanted = true;
        return BASE_ERR_CORRUPT;
    }
    enum base_status status = wire_envelope_parse(out->bytes, out->size, &envelope);
    if (status == BASE_OK) {
        status = wire_root_parse(envelope.payload, envelope.payload_bytes, &out->stored);
    }
    if (status != BASE_OK) {
        dev_trust_root_close(runtime, out);
        return BASE_ERR_CORRUPT;
    }
    return BASE_OK;
}

void dev_trust_root_close(struct dev_runtime *runtime, struct dev_trust_root *root)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    if (root->mapped) {
        storage->blob_unmap(storage->ctx, &runtime->trust->root, root->bytes, root->size);
        root->mapped = false;
    }
}

// Keys of an online role changed: what the old ones said about time and versions is void, however
// far ahead they put it. This is how a fleet recovers from a stolen online key.
static void online_keys_changed(struct dev_runtime *runtime, const struct wire_root *root)
{
    timestamp_forget(runtime);
    dev_time_root(&runtime->time, root->issued_s);
}

enum base_status dev_trust_root_take(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_trust *trust = runtime->trust;
    struct wire_verifier verifier = dev_crypto_verifier(&runtime->ports->crypto);
    struct dev_trust_root before;
    struct wire_root root;
    BASE_TRY(dev_trust_root_open(runtime, &before));
    enum base_status status = wire_root_follow(before.parsed, bytes, size, &verifier, &root);
    bool online_same = true;
    if (status == BASE_OK) {
        online_same = wire_root_same_role(before.parsed, &root, WIRE_ROLE_TIMESTAMP) &&
                      wire_root_same_role(before.parsed, &root, WIRE_ROLE_SNAPSHOT) &&
                      wire_root_same_role(before.parsed, &root, WIRE_ROLE_DIRECTOR);
    }
    dev_trust_root_close(runtime, &before);
    BASE_TRY(status);
    struct wire_sha256 name = sha256_of(runtime, bytes, size);
    BASE_TRY(blob_keep(runtime, &name, bytes, size));
    trust->root = name;
    base_assert(root.version > trust->root_version);
    trust->root_version = root.version;
    answer_void(runtime);
    if (!online_same) {
        online_keys_changed(runtime, &root);
    }
    dev_garbage_made(runtime); // the root before; sets dirty
    return BASE_OK;
}

// ---- Timestamp

enum base_status dev_trust_timestamp_open(struct dev_runtime *runtime, struct wire_timestamp *out,
                                          const uint8_t **out_bytes, size_t *out_size)
{
    struct wire_envelope envelope;
    if (runtime->trust->timestamp_version == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    if (blob_open(runtime, &runtime->trust->timestamp, "timestamp", out_bytes, out_size) !=
        BASE_OK) {
        runtime->trust->wanted = true;
        return BASE_ERR_BUSY;
    }
    enum base_status status = wire_envelope_parse(*out_bytes, *out_size, &envelope);
    if (status == BASE_OK) {
        status = wire_timestamp_parse(envelope.payload, envelope.payload_bytes, out);
    }
    if (status != BASE_OK) {
        dev_trust_timestamp_close(runtime, *out_bytes, *out_size);
        return BASE_ERR_CORRUPT;
    }
    return BASE_OK;
}

void dev_trust_timestamp_close(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    storage->blob_unmap(storage->ctx, &runtime->trust->timestamp, bytes, size);
}

// Signature of a role of the root in force, and the root is in date.
static enum base_status role_signed(struct dev_runtime *runtime, enum wire_root_role role,
                                    const struct wire_envelope *envelope)
{
    struct wire_verifier verifier = dev_crypto_verifier(&runtime->ports->crypto);
    struct dev_trust_root root;
    BASE_TRY(dev_trust_root_open(runtime, &root));
    const struct wire_role *keys = &root.parsed->roles[role];
    enum base_status status =
        wire_root_verify(root.parsed, keys, keys->threshold, envelope, &verifier);
    if (status == BASE_OK && dev_wall_s(runtime) >= root.parsed->expires_s) {
        status = BASE_ERR_EXPIRED;
    }
    dev_trust_root_close(runtime, &root);
    return status;
}

// No scenario vanishes, none goes back.
static bool goes_on(const struct wire_timestamp *before, const struct wire_timestamp *after)
{
    for (uint32_t i = 0; i < before->scenario_count; i++) {
        const struct wire_timestamp_scenario *now =
            wire_timestamp_scenario(after, before->scenarios[i].name);
        if (now == NULL || now->version < before->scenarios[i].version) {
            return false;
        }
    }
    return true;
}

static enum base_status timestamp_follows(struct dev_runtime *runtime,
                                          const struct wire_timestamp *after,
                                          const struct wire_sha256 *name)
{
    struct dev_trust *trust = runtime->trust;
    struct wire_timestamp before;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    if (after->version < trust->timestamp_version ||
        (after->version == trust->timestamp_version &&
         !wire_sha256_equal(name, &trust->timestamp))) {
        return BASE_ERR_ROLLBACK;
    }
    if (dev_trust_timestamp_open(runtime, &before, &bytes, &size) == BASE_OK) {
        bool on = goes_on(&before, after);
        dev_trust_timestamp_close(runtime, bytes, size);
        if (!on) {
            return BASE_ERR_ROLLBACK;
        }
    }
    return dev_wall_s(runtime) >= after->expires_s ? BASE_ERR_FROZEN : BASE_OK;
}

enum base_status dev_trust_timestamp_take(struct dev_runtime *runtime, const uint8_t *bytes,
                                          size_t size, bool *out_new)
{
    struct dev_trust *trust = runtime->trust;
    struct wire_envelope envelope;
    struct wire_timestamp timestamp;
    BASE_TRY(wire_envelope_parse(bytes, size, &envelope));
    if (envelope.type != WIRE_ENVELOPE_TYPE_TIMESTAMP) {
        return BASE_ERR_UNSUPPORTED;
    }
    BASE_TRY(role_signed(runtime, WIRE_ROLE_TIMESTAMP, &envelope));
    BASE_TRY(wire_timestamp_parse(envelope.payload, envelope.payload_bytes, &timestamp));
    struct wire_sha256 name = sha256_of(runtime, bytes, size);
    BASE_TRY(timestamp_follows(runtime, &timestamp, &name));
    bool lost = blob_missing(runtime, &name);
    *out_new = lost || timestamp.version != trust->timestamp_version;
    if (!*out_new) {
        return BASE_OK;
    }
    BASE_TRY(blob_keep(runtime, &name, bytes, size));
    base_assert(timestamp.version >= trust->timestamp_version);
    trust->timestamp = name;
    trust->timestamp_version = timestamp.version;
    trust->timestamp_expires_s = timestamp.expires_s;
    dev_garbage_made(runtime);
    dev_tell_that(runtime, DEV_PART_EVENT_TIMESTAMP);
    return BASE_OK;
}

// ---- Snapshots

static enum base_status snapshot_parse(const uint8_t *bytes, size_t size,
                                       struct wire_envelope *envelope, struct wire_snapshot *out)
{
    BASE_TRY(wire_envelope_parse(bytes, size, envelope));
    if (envelope->type != WIRE_ENVELOPE_TYPE_SNAPSHOT) {
        return BASE_ERR_UNSUPPORTED;
    }
    return wire_snapshot_parse(envelope->payload, envelope->payload_bytes, out);
}

// The tasks this device knows are all there, with counters that do not go back.
static enum base_status snapshot_tasks(struct dev_runtime *runtime,
                                       const struct wire_snapshot *snapshot, bool note)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        struct wire_snapshot_entry entry = {.task_id = wire_task_id(dev_task_name(task))};
        uint64_t highest = 0;
        if (!base_str_equal(wire_scenario_of(dev_task_name(task)), snapshot->scenario)) {
            continue;
        }
        (void)wire_snapshot_lists(snapshot, &entry, &highest);
        // What was accepted was listed.
        uint64_t newest = task->offer.newest.counter;
        uint64_t least = task->listed > newest ? task->listed : newest;
        if (highest < least) {
            return BASE_ERR_ROLLBACK;
        }
        if (note) {
            task->listed = highest;
        }
    }
    return BASE_OK;
}

static enum base_status snapshot_check(struct dev_runtime *runtime, const uint8_t *bytes,
                                       size_t size)
{
    struct dev_trust *trust = runtime->trust;
    struct wire_envelope envelope;
    struct wire_snapshot snapshot;
    struct wire_timestamp timestamp;
    const uint8_t *stamp = NULL;
    size_t stamp_bytes = 0;
    BASE_TRY(snapshot_parse(bytes, size, &envelope, &snapshot));
    BASE_TRY(role_signed(runtime, WIRE_ROLE_SNAPSHOT, &envelope));
    BASE_TRY(dev_trust_timestamp_open(runtime, &timestamp, &stamp, &stamp_bytes));
    struct base_str wanted = {trust->scenario, trust->scenario_size};
    const struct wire_timestamp_scenario *named = wire_timestamp_scenario(&timestamp, wanted);
    bool same = named != NULL && base_str_equal(snapshot.scenario, wanted) &&
                snapshot.version == named->version;
    dev_trust_timestamp_close(runtime, stamp, stamp_bytes);
    if (!same) {
        return BASE_ERR_MIXED;
    }
    if (dev_wall_s(runtime) >= snapshot.expires_s) {
        return BASE_ERR_FROZEN;
    }
    BASE_TRY(snapshot_tasks(runtime, &snapshot, false));
    return snapshot_tasks(runtime, &snapshot, true);
}

enum base_status dev_trust_snapshot_take(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    const struct dev_storage_port *storage = &runtime->ports->storage;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    BASE_TRY(storage->blob_map(storage->ctx, &trust->snapshot, &bytes, &size));
    enum base_status status =
        size == trust->snapshot_bytes ? snapshot_check(runtime, bytes, size) : BASE_ERR_HASH;
    storage->blob_unmap(storage->ctx, &trust->snapshot, bytes, size);
    BASE_TRY(status);
    BASE_TRY(storage->blob_seal(storage->ctx, &trust->snapshot));
    dev_garbage_made(runtime);
    return BASE_OK;
}

enum base_status dev_trust_snapshot_open(struct dev_runtime *runtime,
                                         const struct wire_timestamp *timestamp,
                                         struct base_str scenario, struct dev_trust_snapshot *out)
{
    const struct wire_timestamp_scenario *named = wire_timestamp_scenario(timestamp, scenario);
    struct wire_envelope envelope;
    if (named == NULL) {
        return BASE_ERR_MIXED;
    }
    out->name = named->digest;
    BASE_TRY(blob_open(runtime, &out->name, "snapshot", &out->bytes, &out->size));
    enum base_status status = snapshot_parse(out->bytes, out->size, &envelope, &out->parsed);
    if (status != BASE_OK) {
        dev_trust_snapshot_close(runtime, out);
    }
    return status;
}

void dev_trust_snapshot_close(struct dev_runtime *runtime, struct dev_trust_snapshot *snapshot)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    storage->blob_unmap(storage->ctx, &snapshot->name, snapshot->bytes, snapshot->size);
}

void dev_trust_blobs(struct dev_runtime *runtime, const struct dev_need *need)
{
    struct dev_trust *trust = runtime->trust;
    struct wire_timestamp timestamp;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    if (trust->work == NULL) {
        return;
    }
    need->blob(need->ctx, &trust->root);
    need->blob(need->ctx, &trust->timestamp);
    if (trust->phase == DEV_TRUST_SNAPSHOT) {
        need->blob(need->ctx, &trust->snapshot);
    }
    if (dev_trust_timestamp_open(runtime, &timestamp, &bytes, &size) == BASE_OK) {
        for (uint32_t i = 0; i < timestamp.scenario_count; i++) {
            need->blob(need->ctx, &timestamp.scenarios[i].digest);
        }
        dev_trust_timestamp_close(runtime, bytes, size);
    }
}

// ---- What is stored

void dev_trust_clear(struct dev_trust *trust)
{
    trust->root_version = 0;
    trust->timestamp_version = 0;
    trust->timestamp_expires_s = 0;
    trust->order = 0;
    memset(&trust->root, 0, sizeof(trust->root));
    memset(&trust->timestamp, 0, sizeof(trust->timestamp));
}

void dev_trust_write(const struct dev_runtime *runtime, struct base_writer *writer)
{
    const struct dev_trust *trust = runtime->trust;
    base_writer_varint(writer, trust->root_version);
    base_writer_bytes(writer, trust->root.bytes, WIRE_SHA256_BYTES);
    base_writer_varint(writer, trust->timestamp_version);
    base_writer_varint(writer, trust->timestamp_expires_s);
    base_writer_bytes(writer, trust->timestamp.bytes, WIRE_SHA256_BYTES);
    base_writer_varint(writer, trust->order);
}

void dev_trust_read(struct dev_runtime *runtime, struct base_reader *reader, bool ordered)
{
    struct dev_trust *trust = runtime->trust;
    trust->root_version = base_reader_varint(reader);
    base_reader_copy(reader, trust->root.bytes, WIRE_SHA256_BYTES);
    trust->timestamp_version = base_reader_varint(reader);
    trust->timestamp_expires_s = base_reader_varint(reader);
    base_reader_copy(reader, trust->timestamp.bytes, WIRE_SHA256_BYTES);
    trust->order = ordered ? base_reader_varint(reader) : 0;
}
