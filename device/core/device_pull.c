// Pulling: brings the manifest of an accepted version and then, one by one, the files that are
// missing. What is there of a blob is hashed again and only the rest is requested. Nothing is
// sealed whose SHA-256 was not computed over every byte here.
//
// One blob at a time, one task at a time. Called by the tick (step) and by the transport (head,
// body, end). The state of a pull is not stored: a partial blob and the accepted statement are all
// that is needed to go on after a kill.
#include "core/runtime.h"

#include "base/check.h"

#include <string.h>

#define SHARED_PREFIX    BASE_STR("/v1/blob/")
#define EXCLUSIVE_PREFIX BASE_STR("/v1/exclusive/")
#define PATH_MAX_BYTES   (sizeof("/v1/exclusive/") + 2 * (WIRE_SHA256_HEX + 1))

static struct dev_task *task_of(struct dev_runtime *runtime)
{
    return &runtime->tasks[runtime->pull.task];
}

static void exchange_cancel(struct dev_runtime *runtime)
{
    const struct dev_http_port *http = &runtime->ports->http;
    if (runtime->pull.exchange != 0) {
        http->cancel(http->ctx, runtime->pull.exchange);
        runtime->pull.exchange = 0;
    }
}

static void pull_idle(struct dev_pull *pull)
{
    pull->phase = DEV_PULL_IDLE;
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
    exchange_cancel(runtime);
    dev_delta_close(runtime);
    pull_idle(&runtime->pull);
}

void dev_pull_forget(struct dev_runtime *runtime, const struct dev_task *task)
{
    if (runtime->pull.phase != DEV_PULL_IDLE && task_of(runtime) == task) {
        dev_pull_stop(runtime);
    }
}

// The pull is over without success. It starts anew when the gateway offers the version again, and
// is reported only once.
static void give_up(struct dev_runtime *runtime, enum wire_outcome_kind kind, enum base_status code,
                    const char *why)
{
    struct dev_task *task = task_of(runtime);
    dev_pull_stop(runtime);
    if (dev_slot_event(task, DEV_UPDATE_ON_ABANDON) != BASE_OK) {
        return;
    }
    runtime->dirty = true;
    if (task->failure_reported) {
        return;
    }
    task->failure_reported = true;
    struct wire_outcome outcome = {
        .kind = kind,
        .task_id = task->id,
        .version_id = wire_version_id(&task->accepted),
        .rollout_id = task->accepted_by.rollout_id,
        .fingerprint = (uint64_t)(-(int64_t)code), // of the check that failed
        .detail = base_str_of(why),
    };
    base_log_debug(runtime->ports->log, "device", "version given up: %s (%s)", why,
                   base_status_name(code));
    dev_outcome(runtime, &outcome);
}

// This version can never run here: refuse it from now on.
static void not_for_us(struct dev_runtime *runtime, enum wire_outcome_kind kind,
                       enum base_status code, const char *why)
{
    task_of(runtime)->blocked = wire_version_id(&task_of(runtime)->accepted);
    dev_garbage_made(runtime);
    give_up(runtime, kind, code, why);
}

// Tries again later, or gives up after too many attempts without progress.
static void retry_later(struct dev_runtime *runtime, const char *why)
{
    struct dev_pull *pull = &runtime->pull;
    exchange_cancel(runtime);
    dev_delta_close(runtime);
    runtime->stats.bad_requests++;
    pull->source++;
    if (++pull->attempts >= DEV_PULL_ATTEMPTS_MAX) {
        give_up(runtime, WIRE_OUTCOME_FAIL_DOWNLOAD, BASE_OK, why);
        return;
    }
    uint32_t wait_ms = dev_backoff_next(&pull->backoff, dev_random(runtime), pull->retry_after_s);
    pull->retry_after_s = 0;
    pull->not_before_us = dev_now_us(runtime) + wait_ms * 1000ull;
    pull->phase = DEV_PULL_PICK;
}

static void storage_failed(struct dev_runtime *runtime, enum base_status status)
{
    retry_later(runtime, status == BASE_ERR_FULL ? "storage full" : "storage failed");
}

// What is stored of the blob is worthless.
static void blob_drop(struct dev_runtime *runtime)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    (void)storage->blob_delete(storage->ctx, &runtime->pull.blob);
    runtime->pull.have = 0;
    runtime->pull.hashed = 0;
}

static void hash_restart(struct dev_runtime *runtime)
{
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    crypto->hash_begin(crypto->ctx, &runtime->pull.hash, &runtime->pull.blob);
    runtime->pull.hashed = 0;
}

// Sets the next blob to bring; false when it is complete already. A blob that cannot be inspected
// counts as missing: the attempt to write it will tell.
static bool blob_missing(struct dev_runtime *runtime, const struct wire_sha256 *name,
                         uint64_t bytes, enum dev_pull_kind kind)
{
    struct dev_pull *pull = &runtime->pull;
    const struct dev_storage_port *storage = &runtime->ports->storage;
    uint64_t have = 0;
    bool sealed = false;
    enum base_status status = storage->blob_stat(storage->ctx, name, &have, &sealed);
    if (status == BASE_OK && sealed && have == bytes) {
        return false;
    }
    bool same = wire_sha256_equal(&pull->blob, name);
    pull->blob = *name;
    pull->expected = bytes;
    pull->have = status == BASE_OK ? have : 0;
    pull->reached = same && pull->reached > pull->have ? pull->reached : pull->have;
    pull->kind = (uint8_t)kind;
    memset(&pull->delta.dictionary, 0, sizeof(pull->delta.dictionary));
    if (pull->have > bytes || sealed) {
        blob_drop(runtime);
    }
    hash_restart(runtime);
    pull->phase = DEV_PULL_REHASH;
    return true;
}

static void files_pick(struct dev_runtime *runtime, const struct wire_manifest *manifest,
                       const struct wire_personal *personal)
{
    struct dev_pull *pull = &runtime->pull;
    struct dev_task *task = task_of(runtime);
    for (; pull->file < manifest->file_count; pull->file++) {
        const struct wire_manifest_file *file = &manifest->files[pull->file];
        if (blob_missing(runtime, &file->digest, file->bytes, DEV_PULL_SHARED)) {
            dev_delta_choose(runtime, file);
            return;
        }
    }
    for (; pull->file - manifest->file_count < personal->file_count; pull->file++) {
        const struct wire_manifest_file *file = &personal->files[pull->file - manifest->file_count];
        if (blob_missing(runtime, &file->digest, file->bytes, DEV_PULL_PERSONAL)) {
            return;
        }
    }
    runtime->stats.pulls++;
    pull_idle(pull);
    dev_slot_activate(runtime, task, manifest);
}

// True: there is something to bring before it is known which files are this device's.
static bool personal_pick(struct dev_runtime *runtime, const struct wire_manifest *manifest)
{
    struct dev_task *task = task_of(runtime);
    if (manifest->exclusive == WIRE_EXCLUSIVE_NONE) {
        return false;
    }
    runtime->pull.root = manifest->exclusive_root;
    if (!task->accepted_asked) {
        dev_proof_ask(runtime, manifest);
        return true;
    }
    return !wire_sha256_is_zero(&task->accepted_personal) &&
           blob_missing(runtime, &task->accepted_personal, task->accepted_personal_bytes,
                        DEV_PULL_PERSONAL);
}

static void content_pick(struct dev_runtime *runtime, const struct wire_manifest *manifest)
{
    struct dev_personal personal;
    if (personal_pick(runtime, manifest)) {
        return;
    }
    enum base_status status =
        dev_personal_open(runtime, &task_of(runtime)->accepted_personal, &personal);
    if (base_status_is_input(status) ||
        (status == BASE_OK && wire_personal_clash(&personal.parsed, manifest) != NULL)) {
        not_for_us(runtime, WIRE_OUTCOME_FAIL_VERIFY, status != BASE_OK ? status : BASE_ERR_INVALID,
                   "exclusive files are malformed");
    } else if (status != BASE_OK) {
        storage_failed(runtime, status);
        return;
    } else {
        files_pick(runtime, manifest, &personal.parsed);
    }
    if (status == BASE_OK) {
        dev_personal_close(runtime, &personal);
    }
}

static void pick(struct dev_runtime *runtime)
{
    struct dev_task *task = task_of(runtime);
    struct dev_manifest manifest;
    if (blob_missing(runtime, &task->accepted, task->accepted_bytes, DEV_PULL_SHARED)) {
        return;
    }
    enum base_status status = dev_manifest_open(runtime, &task->accepted, &manifest);
    if (base_status_is_input(status)) {
        not_for_us(runtime, WIRE_OUTCOME_FAIL_VERIFY, status, "manifest is malformed");
        return;
    }
    if (status != BASE_OK) {
        storage_failed(runtime, status);
        return;
    }
    if (!base_str_equal(manifest.parsed.task_name, dev_task_name(task))) {
        not_for_us(runtime, WIRE_OUTCOME_FAIL_VERIFY, BASE_ERR_TARGET,
                   "manifest is of another task");
    } else if (manifest.parsed.runtime_abi != WIRE_RUNTIME_ABI) {
        not_for_us(runtime, WIRE_OUTCOME_NOT_APPLICABLE, BASE_ERR_UNSUPPORTED,
                   "runtime is too old or too new");
    } else {
        content_pick(runtime, &manifest.parsed);
    }
    dev_manifest_close(runtime, &manifest);
}

// What came of the blob so far is worthless, and so is the delta: bring it whole, at once.
static void without_delta(struct dev_runtime *runtime)
{
    blob_drop(runtime);
    dev_delta_give_up(runtime);
    runtime->pull.phase = DEV_PULL_PICK;
}

// What came is not what was signed: once more, from another place, but not for ever.
static void worthless(struct dev_runtime *runtime, enum base_status code, const char *why)
{
    if (++runtime->pull.corrupt >= DEV_PULL_CORRUPT_MAX + runtime->settings.mirrors) {
        give_up(runtime, WIRE_OUTCOME_FAIL_VERIFY, code, why);
    } else {
        retry_later(runtime, why);
    }
}

// Every byte is here: only the right hash makes a blob.
static void blob_finish(struct dev_runtime *runtime)
{
    struct dev_pull *pull = &runtime->pull;
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct wire_sha256 digest;
    crypto->hash_end(crypto->ctx, &pull->hash, &digest);
    if (!wire_sha256_equal(&digest, &pull->blob)) {
        if (dev_delta_in_use(pull)) {
            without_delta(runtime);
            return;
        }
        blob_drop(runtime);
        worthless(runtime, BASE_ERR_HASH, "content does not match its hash");
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
        storage_failed(runtime, status);
        return;
    }
    if (dev_delta_in_use(pull)) {
        runtime->stats.deltas++;
        dev_delta_drop(runtime);
    }
    pull->phase = DEV_PULL_PICK;
}

// Hashes a slice of what is there, so that a large partial blob does not hold up the loop.
static void rehash(struct dev_runtime *runtime)
{
    struct dev_pull *pull = &runtime->pull;
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
            blob_drop(runtime);
            hash_restart(runtime);
        } else {
            uint64_t left = pull->have - pull->hashed;
            size_t slice = left < DEV_HASH_SLICE_BYTES ? (size_t)left : DEV_HASH_SLICE_BYTES;
            crypto->hash_update(crypto->ctx, &pull->hash, bytes + pull->hashed, slice);
            storage->blob_unmap(storage->ctx, &pull->blob, bytes, size);
            pull->hashed += slice;
        }
    }
    if (pull->hashed == pull->have) {
        runtime->stats.resumed_bytes += pull->have;
        pull->phase = DEV_PULL_ASK;
    }
}

// Makes a slice of the blob, so that a large one does not hold up the loop.
static void decode(struct dev_runtime *runtime)
{
    struct dev_pull *pull = &runtime->pull;
    bool end = false;
    if (pull->delta.decoder == NULL && pull->have > 0) {
        blob_drop(runtime); // decoding was cut off
        hash_restart(runtime);
    }
    enum base_status status = dev_delta_decode(runtime, &end);
    if (status == BASE_ERR_FULL || status == BASE_ERR_IO || status == BASE_ERR_NOMEM) {
        storage_failed(runtime, status);
    } else if (status != BASE_OK) {
        base_log_debug(runtime->ports->log, "device", "delta of no use: %s",
                       base_status_text(status));
        without_delta(runtime);
    } else if (end) {
        blob_finish(runtime);
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
    } else {
        size = path_add(path, 0, EXCLUSIVE_PREFIX, &pull->root);
        if (pull->kind == DEV_PULL_PERSONAL) {
            size = path_add(path, size, BASE_STR("/"), &pull->blob);
        }
    }
    return (struct base_str){path, size};
}

static void ask(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_pull *pull = &runtime->pull;
    const struct dev_http_port *http = &runtime->ports->http;
    if (pull->have == pull->expected) {
        blob_finish(runtime);
        return;
    }
    char path[PATH_MAX_BYTES];
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
        retry_later(runtime, "no connection");
    }
}

static void task_choose(struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        if (dev_update_is_pulling((enum dev_update_state)runtime->tasks[i].state)) {
            pull_idle(&runtime->pull);
            runtime->pull.task = i;
            runtime->pull.phase = DEV_PULL_PICK;
            runtime->pull.not_before_us = 0;
            return;
        }
    }
}

void dev_pull_step(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_pull *pull = &runtime->pull;
    if (pull->phase == DEV_PULL_IDLE) {
        task_choose(runtime);
    }
    if (pull->phase == DEV_PULL_BODY && now_us >= pull->deadline_us) {
        retry_later(runtime, "download stalled");
    }
    // A step ends when it must wait, when a slice was hashed, or when something is to be stored.
    while (!runtime->dirty && now_us >= pull->not_before_us) {
        enum dev_pull_phase phase = (enum dev_pull_phase)pull->phase;
        if (phase == DEV_PULL_PICK) {
            pick(runtime);
        } else if (phase == DEV_PULL_REHASH) {
            rehash(runtime);
            if (pull->phase == DEV_PULL_REHASH) {
                return;
            }
        } else if (phase == DEV_PULL_DECODE) {
            decode(runtime);
            if (pull->phase == DEV_PULL_DECODE) {
                return;
            }
        } else if (phase == DEV_PULL_ASK) {
            ask(runtime, now_us);
        } else {
            return;
        }
    }
}

uint64_t dev_pull_due_us(const struct dev_runtime *runtime)
{
    const struct dev_pull *pull = &runtime->pull;
    if (runtime->dirty) {
        return UINT64_MAX;
    }
    if (pull->phase == DEV_PULL_BODY) {
        return pull->deadline_us;
    }
    if (pull->phase != DEV_PULL_IDLE) {
        return pull->not_before_us;
    }
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        if (dev_update_is_pulling((enum dev_update_state)runtime->tasks[i].state)) {
            return 0;
        }
    }
    return UINT64_MAX;
}

// A whole answer although the rest was asked for: start from the first byte.
static void start_over(struct dev_runtime *runtime)
{
    if (runtime->pull.have > 0) {
        blob_drop(runtime);
        hash_restart(runtime);
    }
}

void dev_pull_head(struct dev_runtime *runtime, const struct dev_response_head *head)
{
    struct dev_pull *pull = &runtime->pull;
    pull->status = head->status;
    pull->retry_after_s = head->retry_after_s;
    bool good = head->status == 200 || head->status == 206;
    if (pull->kind == DEV_PULL_PROOF) {
        pull->refused = head->status != 200 || head->encoding != DEV_ENCODING_IDENTITY;
        return;
    }
    if (good && head->encoding == DEV_ENCODING_DCZ && pull->delta.asked) {
        pull->refused = !dev_delta_head(runtime, head);
        return;
    }
    if (good && head->encoding != DEV_ENCODING_IDENTITY) {
        pull->refused = true;
    } else if (head->status == 200) {
        dev_delta_drop(runtime); // it came whole
        start_over(runtime);
    } else if (head->status == 206) {
        pull->refused = pull->have == 0 || head->range_from != pull->have;
    } else {
        pull->refused = true;
    }
    if (!pull->refused && head->content_bytes != UINT64_MAX &&
        head->content_bytes != pull->expected - pull->have) {
        pull->refused = true; // not the blob that was signed
    }
}

// `size` bytes came, and `have` of what is being brought are here: the blob, or its delta. An
// exchange goes on while its rate is no drip; the pull goes on, at once, while anything came that
// was never here before, however often the link is cut.
static void progress(struct dev_runtime *runtime, uint64_t have, size_t size)
{
    struct dev_pull *pull = &runtime->pull;
    bool all = have == pull->expected;
    runtime->stats.pulled_bytes += size;
    pull->window += (uint32_t)(size < DEV_RATE_WINDOW_BYTES ? size : DEV_RATE_WINDOW_BYTES);
    if (pull->window >= DEV_RATE_WINDOW_BYTES || all) {
        pull->window = 0;
        pull->deadline_us = dev_now_us(runtime) + runtime->settings.request_timeout_us;
    }
    if (have > pull->reached) {
        uint64_t gained = pull->gained + (have - pull->reached);
        pull->gained = (uint16_t)(gained < DEV_PULL_GAIN_BYTES ? gained : DEV_PULL_GAIN_BYTES);
        pull->reached = have;
    }
    if (pull->gained == DEV_PULL_GAIN_BYTES || all) {
        pull->gained = 0;
        pull->attempts = 0;
        dev_backoff_reset(&pull->backoff);
    }
}

static void delta_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    enum base_status status = dev_delta_body(runtime, bytes, size);
    if (status == BASE_OK) {
        progress(runtime, runtime->pull.delta.have, size);
    } else if (status == BASE_ERR_TOO_LARGE) {
        exchange_cancel(runtime);
        without_delta(runtime);
    } else {
        storage_failed(runtime, status);
    }
}

void dev_pull_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_pull *pull = &runtime->pull;
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    const struct dev_storage_port *storage = &runtime->ports->storage;
    if (pull->phase != DEV_PULL_BODY || pull->refused || size == 0) {
        return;
    }
    if (pull->kind == DEV_PULL_PROOF) {
        dev_proof_body(runtime, bytes, size);
        return;
    }
    if (pull->delta.body) {
        delta_body(runtime, bytes, size);
        return;
    }
    if (size > pull->expected - pull->have) { // more than was signed
        blob_drop(runtime);
        retry_later(runtime, "more content than announced");
        return;
    }
    enum base_status status =
        storage->blob_append(storage->ctx, &pull->blob, pull->have, bytes, size);
    if (status != BASE_OK) {
        storage_failed(runtime, status);
        return;
    }
    crypto->hash_update(crypto->ctx, &pull->hash, bytes, size);
    pull->have += size;
    pull->hashed = pull->have;
    progress(runtime, pull->have, size);
}

// The response to a request for a delta is over. False: it was the content itself, or an error that
// has nothing to do with the delta.
static bool delta_end(struct dev_runtime *runtime, enum base_status status)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct dev_pull *pull = &runtime->pull;
    bool wrong_part = pull->status == 416 || pull->status == 206 || pull->status == 200;
    if (pull->refused && wrong_part) {
        without_delta(runtime); // the gateway has another delta now, or none
        return true;
    }
    if (!pull->delta.body) {
        return false;
    }
    if (status != BASE_OK) {
        retry_later(runtime, "connection lost");
        return true;
    }
    status = storage->blob_seal(storage->ctx, &pull->delta.name);
    if (status != BASE_OK) {
        storage_failed(runtime, status);
        return true;
    }
    hash_restart(runtime);
    pull->phase = DEV_PULL_DECODE;
    return true;
}

// Which exclusive files there are for this device is answered, or not.
static void proof_end(struct dev_runtime *runtime, enum base_status status)
{
    struct dev_pull *pull = &runtime->pull;
    // 401: a device that nobody made known has none either.
    bool none = pull->status == 404 || pull->status == 401;
    if (none && pull->required) {
        not_for_us(runtime, WIRE_OUTCOME_NOT_APPLICABLE, BASE_ERR_NOT_FOUND,
                   "no exclusive files for this device");
    } else if (none) {
        dev_proof_none(runtime);
        pull->phase = DEV_PULL_PICK;
    } else if (pull->status != 200 || status != BASE_OK) {
        retry_later(runtime, pull->refused ? "exclusive files refused" : "connection lost");
    } else {
        status = pull->refused ? BASE_ERR_TOO_LARGE : dev_proof_take(runtime);
        if (status != BASE_OK) {
            worthless(runtime, status, "exclusive files are not the signed ones");
            return;
        }
        pull->attempts = 0;
        pull->phase = DEV_PULL_PICK;
    }
}

void dev_pull_end(struct dev_runtime *runtime, enum base_status status)
{
    struct dev_pull *pull = &runtime->pull;
    pull->exchange = 0;
    base_assert(pull->phase == DEV_PULL_BODY);
    if (pull->kind == DEV_PULL_PROOF) {
        proof_end(runtime, status);
        return;
    }
    if (pull->delta.asked && delta_end(runtime, status)) {
        return;
    }
    if (pull->status == 404 && pull->kind == DEV_PULL_PERSONAL) {
        dev_proof_forget(runtime); // no longer this device's: ask anew whose it is
        pull->file = 0;
    }
    if (pull->status == 416 || (pull->refused && pull->status == 206)) {
        blob_drop(runtime); // what is here is not a part of what is there
        retry_later(runtime, "range not satisfiable");
    } else if (pull->refused) {
        retry_later(runtime, pull->status == 404 ? "content not found" : "content refused");
    } else if (pull->status != 0 && pull->have == pull->expected) {
        blob_finish(runtime);
    } else {
        retry_later(runtime, status == BASE_OK ? "content ends too early" : "connection lost");
    }
}
