// Pulling: brings the manifest of an accepted version and then, one by one, the files that are
// missing. What is there of a blob is hashed again and only the rest is requested. Nothing is
// sealed whose SHA-256 was not computed over every byte here.
//
// The same lane proves what is stored of the other versions, and brings what is damaged of them
// (device_repair.c): those stay where they are meanwhile, and pulls go first.
//
// One blob at a time, one task at a time. The state of a pull is not stored: a partial blob and the
// accepted statement are all that is needed to go on after a kill. Called by pull_lane.c, which
// decides what is brought next; what the transport brings is taken in pull_answer.c.
#include "core/pull/device_pull.h"

#include "core/pull/pull_parts.h"
#include "core/slots/device_content.h"
#include "core/slots/device_slots.h"

#include "base/check.h"
#include "wire/leaves/leaves_check.h"

#include <stdio.h>
#include <string.h>

#define SHARED_PREFIX    BASE_STR("/v1/blob/")
#define EXCLUSIVE_PREFIX BASE_STR("/v1/exclusive/")
#define WHOLE            BASE_STR("/files") // all of the version, behind its manifest
#define PATH_MAX_BYTES   (sizeof("/v1/exclusive/") + 2 * (WIRE_SHA256_HEX + 1))
#define MANIFEST         BASE_STR("manifest")
#define EXCLUSIVE_FILES  BASE_STR("exclusive files")
#define ANY_SIZE         UINT64_MAX // of content whose size is not known any more

static struct dev_task *task_of(struct dev_runtime *runtime)
{
    base_check(runtime->pull->task < runtime->task_count);
    return &runtime->tasks[runtime->pull->task];
}

void dev_pull_cancel(struct dev_runtime *runtime)
{
    const struct dev_http_port *http = &runtime->ports->http;
    if (runtime->pull->exchange != 0) {
        http->cancel(http->ctx, runtime->pull->exchange);
        runtime->pull->exchange = 0;
    }
}

bool dev_pull_repairing(const struct dev_runtime *runtime)
{
    return runtime->pull->copy != DEV_COPY_ACCEPTED;
}

// What is brought. Of an accepted version the sizes were told.
struct target {
    const struct wire_sha256 *version;
    const struct wire_sha256 *exclusive;
    uint64_t version_bytes;
    uint64_t exclusive_bytes;
};

static struct target target_of(struct dev_runtime *runtime)
{
    const struct dev_task *task = task_of(runtime);
    switch ((enum dev_pull_copy)runtime->pull->copy) {
    case DEV_COPY_ACTIVE:
        return (struct target){&task->slots.active.manifest, &task->slots.active.exclusive,
                               ANY_SIZE, ANY_SIZE};
    case DEV_COPY_KEPT:
        return (struct target){&task->slots.kept.manifest, &task->slots.kept.exclusive, ANY_SIZE,
                               ANY_SIZE};
    case DEV_COPY_ACCEPTED:
        break;
    }
    return (struct target){&task->offer.accepted, &task->incoming.exclusive,
                           task->offer.accepted_bytes, task->incoming.exclusive_bytes};
}

static void damage_tell(struct dev_runtime *runtime, struct base_str file)
{
    if (dev_pull_repairing(runtime)) {
        dev_damage_found(runtime, task_of(runtime), (enum dev_pull_copy)runtime->pull->copy, file);
    }
}

void dev_pull_idle(struct dev_pull *pull)
{
    pull->phase = DEV_PULL_IDLE;
    pull->copy = DEV_COPY_ACCEPTED;
    pull->proving = false;
    pull->fresh = false;
    pull->reserved = false;
    pull->whole = false;
    pull->single = false;
    pull->attempts = 0;
    pull->corrupt = 0;
    pull->source = 0;
    pull->file = 0;
    pull->reached = 0;
    pull->gained = 0;
    dev_backoff_reset(&pull->backoff);
}

void dev_pull_stop(struct dev_runtime *runtime)
{
    dev_pull_cancel(runtime);
    dev_delta_close(runtime);
    dev_pull_idle(runtime->pull);
}

// The pull is over without success. It starts anew when the gateway offers the version again, and
// is reported only once.
static void give_up(struct dev_runtime *runtime, enum wire_outcome_kind kind, enum base_status code,
                    const char *why)
{
    struct dev_task *task = task_of(runtime);
    enum dev_pull_copy copy = (enum dev_pull_copy)runtime->pull->copy;
    dev_pull_stop(runtime);
    if (copy != DEV_COPY_ACCEPTED) {
        dev_repair_failed(runtime, task, copy);
        return;
    }
    dev_pull_space_give(runtime, task);
    if (dev_slot_event(task, DEV_UPDATE_ON_ABANDON) != BASE_OK) {
        return;
    }
    dev_proof_clear(task);
    runtime->dirty = true;
    runtime->garbage = true; // a boot collects it, or the next check-in that does not offer it
    task->incoming.leftover = true;
    if (task->incoming.failure_reported) {
        return;
    }
    task->incoming.failure_reported = true;
    struct wire_outcome outcome = {
        .kind = kind,
        .task_id = task->id,
        .version_id = wire_version_id(&task->offer.accepted),
        .rollout_id = task->offer.accepted_by.rollout_id,
        .fingerprint = (uint64_t)(-(int64_t)code), // of the check that failed
        .detail = base_str_of(why),
    };
    base_log_debug(runtime->ports->log, "device", "version given up: %s (%s)", why,
                   base_status_name(code));
    dev_outcome(runtime, &outcome);
}

// This version can never run here: refuse it from now on.
void dev_pull_refuse(struct dev_runtime *runtime, enum wire_outcome_kind kind,
                     enum base_status code, const char *why)
{
    if (!dev_pull_repairing(runtime)) {
        dev_slot_block(runtime, task_of(runtime),
                       wire_version_id(&task_of(runtime)->offer.accepted));
        dev_garbage_made(runtime);
    }
    give_up(runtime, kind, code, why);
}

// Tries again later, or gives up after too many attempts without progress.
void dev_pull_retry(struct dev_runtime *runtime, const char *why)
{
    struct dev_pull *pull = runtime->pull;
    dev_pull_cancel(runtime);
    dev_delta_close(runtime);
    runtime->stats.bad_requests++;
    pull->single = pull->single || (pull->whole && pull->status != 0);
    pull->source++;
    if (++pull->attempts >= DEV_PULL_ATTEMPTS_MAX) {
        give_up(runtime, WIRE_OUTCOME_FAIL_DOWNLOAD, BASE_OK, why);
        return;
    }
    if (dev_delta_in_use(pull) && pull->delta.have == 0 &&
        pull->attempts == DEV_DELTA_ATTEMPTS_MAX) {
        dev_delta_give_up(runtime); // nobody makes it in time
    }
    uint32_t wait_ms = dev_backoff_next(&pull->backoff, dev_random(runtime), pull->retry_after_s);
    pull->retry_after_s = 0;
    pull->not_before_us = dev_now_us(runtime) + wait_ms * 1000ull;
    pull->phase = DEV_PULL_PICK;
}

// There is no room for it: nothing of it stays, so that the disk is as it was.
static void too_large(struct dev_runtime *runtime, const struct dev_pull_space *space)
{
    char why[WIRE_REPORT_DETAIL_MAX];
    bool known = space->free < space->needed;
    int size = snprintf(why, sizeof(why), "storage full: %llu bytes are needed",
                        (unsigned long long)space->needed);
    if (known) {
        (void)snprintf(why + size, sizeof(why) - (size_t)size, ", %llu are free",
                       (unsigned long long)space->free);
    }
    dev_garbage_made(runtime);
    give_up(runtime, WIRE_OUTCOME_FAIL_DOWNLOAD, BASE_ERR_FULL, why);
}

void dev_pull_storage_failed(struct dev_runtime *runtime, enum base_status status)
{
    bool last = runtime->pull->attempts + 1 >= DEV_PULL_ATTEMPTS_MAX;
    if (status == BASE_ERR_FULL && last && !dev_pull_repairing(runtime)) {
        dev_garbage_made(runtime); // nothing of it stays
    }
    dev_pull_retry(runtime, status == BASE_ERR_FULL ? "storage full" : "storage failed");
}

// What came is not what was signed: once more, from another place, but not for ever.
void dev_pull_worthless(struct dev_runtime *runtime, enum base_status code, const char *why)
{
    if (++runtime->pull->corrupt >= DEV_PULL_CORRUPT_MAX + runtime->settings.mirrors) {
        give_up(runtime, WIRE_OUTCOME_FAIL_VERIFY, code, why);
    } else {
        dev_pull_retry(runtime, why);
    }
}

// What is stored of the blob is worthless.
void dev_pull_drop(struct dev_runtime *runtime)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    (void)storage->blob_delete(storage->ctx, &runtime->pull->blob);
    runtime->pull->have = 0;
    runtime->pull->hashed = 0;
}

void dev_pull_hash(struct dev_runtime *runtime)
{
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    crypto->hash_begin(crypto->ctx, &runtime->pull->hash, &runtime->pull->blob);
    runtime->pull->hashed = 0;
}

// Sets the next blob to bring; false when it is complete already. A blob that cannot be inspected
// counts as missing: the attempt to write it will tell.
static bool blob_missing(struct dev_runtime *runtime, const struct wire_sha256 *name,
                         uint64_t bytes, enum dev_pull_kind kind)
{
    struct dev_pull *pull = runtime->pull;
    const struct dev_storage_port *storage = &runtime->ports->storage;
    uint64_t have = 0;
    bool sealed = false;
    enum base_status status = storage->blob_stat(storage->ctx, name, &have, &sealed);
    if (status == BASE_OK && sealed && (have == bytes || bytes == ANY_SIZE)) {
        return false;
    }
    bool same = wire_sha256_equal(&pull->blob, name);
    pull->blob = *name;
    pull->fresh = false;
    pull->any_size = bytes == ANY_SIZE;
    pull->expected = bytes;
    if (pull->any_size) { // only manifests: started anew, for their whole length is asked for
        pull->expected =
            kind == DEV_PULL_EXCLUSIVE ? WIRE_EXCLUSIVE_BYTES_MAX : WIRE_MANIFEST_BYTES_MAX;
        (void)storage->blob_delete(storage->ctx, name);
        have = 0;
    }
    pull->have = status == BASE_OK ? have : 0;
    pull->reached = same && pull->reached > pull->have ? pull->reached : pull->have;
    pull->kind = (uint8_t)kind;
    memset(&pull->delta.dictionary, 0, sizeof(pull->delta.dictionary));
    if (pull->have > pull->expected || sealed) {
        dev_pull_drop(runtime);
    }
    dev_pull_hash(runtime);
    pull->phase = DEV_PULL_REHASH;
    return true;
}

// Is there anything to do with a file before the next one? Of a repair the sealed ones are proven,
// but for what it sealed itself.
static bool file_pick(struct dev_runtime *runtime, const struct wire_manifest_file *file,
                      enum dev_pull_kind kind)
{
    struct dev_pull *pull = runtime->pull;
    if (blob_missing(runtime, &file->digest, file->bytes, kind)) {
        if (pull->have == 0) {
            damage_tell(runtime, file->name);
        }
        return true;
    }
    bool fresh = pull->fresh && wire_sha256_equal(&pull->blob, &file->digest);
    if (!dev_pull_repairing(runtime) || fresh) {
        return false;
    }
    pull->blob = file->digest;
    pull->kind = (uint8_t)kind;
    pull->expected = file->bytes;
    pull->have = file->bytes;
    pull->proving = true;
    dev_pull_hash(runtime);
    pull->phase = DEV_PULL_REHASH;
    return true;
}

static void files_pick(struct dev_runtime *runtime, const struct wire_manifest *manifest,
                       const struct wire_exclusive_files *exclusive)
{
    struct dev_pull *pull = runtime->pull;
    struct dev_task *task = task_of(runtime);
    enum dev_pull_copy copy = (enum dev_pull_copy)pull->copy;
    for (; pull->file < manifest->file_count; pull->file++) {
        const struct wire_manifest_file *file = &manifest->files[pull->file];
        if (file_pick(runtime, file, DEV_PULL_SHARED)) {
            if (!pull->proving) {
                dev_delta_choose(runtime, file);
            }
            return;
        }
    }
    for (; pull->file - manifest->file_count < exclusive->file_count; pull->file++) {
        if (file_pick(runtime, &exclusive->files[pull->file - manifest->file_count],
                      DEV_PULL_EXCLUSIVE)) {
            return;
        }
    }
    dev_pull_idle(pull);
    if (copy == DEV_COPY_ACCEPTED) {
        runtime->stats.pulls++;
        dev_slot_activate(runtime, task, manifest);
        dev_proof_clear(task);
    } else {
        dev_repair_done(runtime, task, copy);
        if (copy == DEV_COPY_ACTIVE && task->offer.again.rollout_id != 0) {
            dev_slot_again(runtime, task, manifest);
        }
    }
}

// True: there is something to bring before it is known which files are this device's.
static bool exclusive_pick(struct dev_runtime *runtime, const struct wire_manifest *manifest)
{
    struct target target = target_of(runtime);
    if (manifest->exclusive == WIRE_EXCLUSIVE_NONE) {
        return false;
    }
    runtime->pull->root = manifest->exclusive_root;
    if (!dev_pull_repairing(runtime) && !task_of(runtime)->incoming.asked) {
        dev_proof_ask(runtime, manifest);
        return true;
    }
    bool missing =
        !wire_sha256_is_zero(target.exclusive) &&
        blob_missing(runtime, target.exclusive, target.exclusive_bytes, DEV_PULL_EXCLUSIVE);
    if (missing) {
        damage_tell(runtime, EXCLUSIVE_FILES);
    }
    return missing;
}

// Sealed, and not what its name says: it comes again, at once unless it has just come.
static void damaged(struct dev_runtime *runtime, const struct wire_sha256 *name,
                    struct base_str what)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    bool fresh = runtime->pull->fresh && wire_sha256_equal(&runtime->pull->blob, name);
    damage_tell(runtime, what);
    enum base_status status = storage->blob_delete(storage->ctx, name);
    if (status != BASE_OK) {
        dev_pull_storage_failed(runtime, status);
    } else if (fresh) {
        dev_pull_worthless(runtime, BASE_ERR_CORRUPT, "stored content is damaged");
    }
}

// False: the pull is over, or tries again.
static bool space_ready(struct dev_runtime *runtime, const struct wire_manifest *manifest,
                        const struct wire_exclusive_files *exclusive)
{
    struct dev_pull_space space;
    if (runtime->pull->reserved || dev_pull_repairing(runtime)) {
        return true;
    }
    enum base_status status = dev_pull_space_take(runtime, manifest, exclusive, &space);
    runtime->pull->reserved = status == BASE_OK;
    if (status == BASE_ERR_FULL) {
        too_large(runtime, &space);
    } else if (status != BASE_OK) {
        dev_pull_storage_failed(runtime, status);
    }
    return status == BASE_OK;
}

static void content_pick(struct dev_runtime *runtime, const struct wire_manifest *manifest)
{
    struct dev_exclusive exclusive;
    if (exclusive_pick(runtime, manifest)) {
        return;
    }
    const struct wire_sha256 *name = target_of(runtime).exclusive;
    enum base_status status = dev_exclusive_open(runtime, name, &exclusive);
    if (status == BASE_ERR_CORRUPT) {
        damaged(runtime, name, EXCLUSIVE_FILES);
        return;
    }
    if (base_status_is_input(status) ||
        (status == BASE_OK && wire_exclusive_clash(&exclusive.parsed, manifest) != NULL)) {
        dev_pull_refuse(runtime, WIRE_OUTCOME_FAIL_VERIFY,
                        status != BASE_OK ? status : BASE_ERR_INVALID,
                        "exclusive files are malformed");
    } else if (status != BASE_OK) {
        dev_pull_storage_failed(runtime, status);
        return;
    } else if (space_ready(runtime, manifest, &exclusive.parsed)) {
        files_pick(runtime, manifest, &exclusive.parsed);
    }
    if (status == BASE_OK) {
        dev_exclusive_close(runtime, &exclusive);
    }
}

void dev_pull_pick(struct dev_runtime *runtime)
{
    struct dev_task *task = task_of(runtime);
    struct target target = target_of(runtime);
    struct dev_manifest manifest;
    if (blob_missing(runtime, target.version, target.version_bytes, DEV_PULL_SHARED)) {
        damage_tell(runtime, MANIFEST);
        return;
    }
    enum base_status status = dev_manifest_open(runtime, target.version, &manifest);
    if (status == BASE_ERR_CORRUPT) {
        damaged(runtime, target.version, MANIFEST);
        return;
    }
    if (base_status_is_input(status)) {
        dev_pull_refuse(runtime, WIRE_OUTCOME_FAIL_VERIFY, status, "manifest is malformed");
        return;
    }
    if (status != BASE_OK) {
        dev_pull_storage_failed(runtime, status);
        return;
    }
    if (dev_pull_repairing(runtime)) {
        content_pick(runtime, &manifest.parsed);
    } else if (!base_str_equal(manifest.parsed.task_name, dev_task_name(task))) {
        dev_pull_refuse(runtime, WIRE_OUTCOME_FAIL_VERIFY, BASE_ERR_TARGET,
                        "manifest is of another task");
    } else if (manifest.parsed.runtime_abi != WIRE_RUNTIME_ABI) {
        dev_pull_refuse(runtime, WIRE_OUTCOME_NOT_APPLICABLE, BASE_ERR_UNSUPPORTED,
                        "runtime is too old or too new");
    } else if (runtime->settings.leaves_required &&
               !wire_leaves_declared(manifest.parsed.declaration)) {
        dev_pull_refuse(runtime, WIRE_OUTCOME_NOT_APPLICABLE, BASE_ERR_DENIED,
                        "it does not say what may leave the device, and this one requires that");
    } else {
        content_pick(runtime, &manifest.parsed);
    }
    dev_manifest_close(runtime, &manifest);
}

// What came of the blob so far is worthless, and so is the delta: bring it whole, at once.
void dev_pull_whole(struct dev_runtime *runtime)
{
    dev_pull_drop(runtime);
    dev_delta_give_up(runtime);
    runtime->pull->phase = DEV_PULL_PICK;
}

// Every byte is here: only the right hash makes a blob.
void dev_pull_sealed(struct dev_runtime *runtime)
{
    struct dev_pull *pull = runtime->pull;
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct wire_sha256 digest;
    base_assert(pull->hashed == pull->have); // every byte of it
    crypto->hash_end(crypto->ctx, &pull->hash, &digest);
    if (!wire_sha256_equal(&digest, &pull->blob)) {
        if (dev_delta_in_use(pull)) {
            dev_pull_whole(runtime);
            return;
        }
        dev_pull_drop(runtime);
        dev_pull_worthless(runtime, BASE_ERR_HASH, "content does not match its hash");
        return;
    }
    enum base_status status = BASE_OK;
    if (pull->expected == 0) {
        status = storage->blob_append(storage->ctx, &pull->blob, 0, pull->blob.bytes, 0);
    }
    if (status == BASE_OK) {
        status = storage->blob_seal(storage->ctx, &pull->blob);
    }
    if (status != BASE_OK) {
        dev_pull_storage_failed(runtime, status);
        return;
    }
    if (dev_delta_in_use(pull)) {
        runtime->stats.deltas++;
        dev_delta_drop(runtime);
    }
    pull->fresh = true;
    pull->phase = DEV_PULL_PICK;
}

// All of a sealed file was hashed again. A damaged one is missing when it is next looked at.
static void proving_end(struct dev_runtime *runtime)
{
    struct dev_pull *pull = runtime->pull;
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    struct wire_sha256 digest;
    crypto->hash_end(crypto->ctx, &pull->hash, &digest);
    const struct dev_storage_port *storage = &runtime->ports->storage;
    enum base_status status = BASE_OK;
    pull->proving = false;
    pull->phase = DEV_PULL_PICK;
    if (wire_sha256_equal(&digest, &pull->blob)) {
        pull->file++;
    } else {
        status = storage->blob_delete(storage->ctx, &pull->blob);
    }
    if (status != BASE_OK) {
        dev_pull_storage_failed(runtime, status);
    }
}

// Hashes a slice of what is there, so that a large partial blob does not hold up the loop.
void dev_pull_rehash(struct dev_runtime *runtime)
{
    struct dev_pull *pull = runtime->pull;
    const struct dev_storage_port *storage = &runtime->ports->storage;
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    if (pull->hashed < pull->have) {
        const uint8_t *bytes = NULL;
        size_t size = 0;
        enum base_status status = storage->blob_map(storage->ctx, &pull->blob, &bytes, &size);
        if (status != BASE_OK || size < pull->have) {
            if (status == BASE_OK) {
                storage->blob_unmap(storage->ctx, &pull->blob, bytes, size);
            }
            dev_pull_drop(runtime);
            dev_pull_hash(runtime);
        } else {
            uint64_t left = pull->have - pull->hashed;
            size_t slice = left < DEV_HASH_SLICE_BYTES ? (size_t)left : DEV_HASH_SLICE_BYTES;
            crypto->hash_update(crypto->ctx, &pull->hash, bytes + pull->hashed, slice);
            storage->blob_unmap(storage->ctx, &pull->blob, bytes, size);
            pull->hashed += slice;
        }
    }
    if (pull->proving && pull->hashed == pull->have) {
        proving_end(runtime);
    } else if (pull->hashed == pull->have) {
        runtime->stats.resumed_bytes += pull->have;
        pull->phase = DEV_PULL_ASK;
    }
}

// Makes a slice of the blob, so that a large one does not hold up the loop.
void dev_pull_decode(struct dev_runtime *runtime)
{
    struct dev_pull *pull = runtime->pull;
    bool end = false;
    if (pull->delta.decoder == NULL && pull->have > 0) {
        dev_pull_drop(runtime); // decoding was cut off
        dev_pull_hash(runtime);
    }
    enum base_status status = dev_delta_decode(runtime, &end);
    if (status == BASE_ERR_FULL || status == BASE_ERR_IO || status == BASE_ERR_NOMEM) {
        dev_pull_storage_failed(runtime, status);
    } else if (status != BASE_OK) {
        base_log_debug(runtime->ports->log, "device", "delta of no use: %s",
                       base_status_text(status));
        dev_pull_whole(runtime);
    } else if (end) {
        dev_pull_sealed(runtime);
    }
}

static size_t path_add(char *path, size_t size, struct base_str prefix,
                       const struct wire_sha256 *name)
{
    memcpy(path + size, prefix.data, prefix.size);
    wire_sha256_hex(name, path + size + prefix.size);
    return size + prefix.size + WIRE_SHA256_HEX;
}

static struct base_str path_make(const struct dev_pull *pull, char path[PATH_MAX_BYTES])
{
    size_t size = 0;
    if (pull->kind == DEV_PULL_SHARED) {
        size = path_add(path, 0, SHARED_PREFIX, &pull->blob);
        if (pull->whole) {
            memcpy(path + size, WHOLE.data, WHOLE.size);
            size += WHOLE.size;
        }
    } else {
        size = path_add(path, 0, EXCLUSIVE_PREFIX, &pull->root);
        if (pull->kind == DEV_PULL_EXCLUSIVE) {
            size = path_add(path, size, BASE_STR("/"), &pull->blob);
        }
    }
    return (struct base_str){path, size};
}

void dev_pull_ask(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_pull *pull = runtime->pull;
    const struct dev_http_port *http = &runtime->ports->http;
    base_assert(pull->exchange == 0);
    base_assert(pull->have <= pull->expected);
    if (pull->have == pull->expected) {
        dev_pull_sealed(runtime);
        return;
    }
    char path[PATH_MAX_BYTES];
    pull->whole = dev_whole_asks(runtime);
    pull->next = 0;
    struct dev_request request = {
        .method = DEV_METHOD_GET,
        .path = path_make(pull, path),
        .device = {runtime->settings.device_hex, WIRE_DEVICE_HEX},
        .range_from = pull->have,
        .source = pull->source,
    };
    pull->delta.asked = dev_delta_in_use(pull);
    pull->delta.body = false;
    if (pull->delta.asked) {
        request.dictionary = &pull->delta.dictionary;
        request.delta_codings = pull->delta.codings;
        request.range_from = pull->delta.have;
    }
    pull->exchange = dev_exchange_new(runtime);
    pull->status = 0;
    pull->retry_after_s = 0;
    pull->refused = false;
    pull->window = 0;
    pull->deadline_us = now_us + runtime->settings.request_timeout_us;
    pull->phase = DEV_PULL_BODY;
    if (http->start(http->ctx, pull->exchange, &request) != BASE_OK) {
        pull->exchange = 0;
        dev_pull_retry(runtime, "no connection");
    }
}
