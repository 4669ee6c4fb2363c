// What comes of a pull's requests: head, body and end of a response. Called by the transport
// through dev_on_head, dev_on_body and dev_on_end (runtime.c), on the runtime's thread; the steps
// that make the requests are in device_pull.c. Only here is it decided whether an answer fits what
// was asked: the whole blob, the rest of it, a delta, or the list of exclusive files. What does not
// fit is refused before a byte is stored, and no byte beyond the signed size ever is.
#include "core/pull/pull_parts.h"

#include "base/check.h"

// A whole answer although the rest was asked for: start from the first byte.
static void start_over(struct dev_runtime *runtime)
{
    if (runtime->pull->have > 0) {
        dev_pull_drop(runtime);
        dev_pull_hash(runtime);
    }
}

void dev_pull_head(struct dev_runtime *runtime, const struct dev_response_head *head)
{
    struct dev_pull *pull = runtime->pull;
    base_assert(pull->phase == DEV_PULL_BODY);
    pull->status = head->status;
    pull->retry_after_s = head->retry_after_s;
    bool good = head->status == 200 || head->status == 206;
    if (pull->whole) {
        dev_whole_head(runtime, head);
        return;
    }
    if (pull->kind == DEV_PULL_PROOF) {
        pull->refused = head->status != 200 || head->encoding != DEV_ENCODING_IDENTITY;
        return;
    }
    if (good && dev_delta_asked(pull, head->encoding)) {
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
    if (!pull->refused && pull->any_size && head->content_bytes <= pull->expected) {
        pull->expected = head->content_bytes;
    } else if (!pull->refused && head->content_bytes != UINT64_MAX &&
               head->content_bytes != pull->expected - pull->have) {
        pull->refused = true; // not the blob that was signed
    }
}

// `size` bytes came, and `have` of what is being brought are here: the blob, or its delta. An
// exchange goes on while its rate is no drip; the pull goes on, at once, while anything came that
// was never here before, however often the link is cut.
static void progress(struct dev_runtime *runtime, uint64_t have, size_t size)
{
    struct dev_pull *pull = runtime->pull;
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
        progress(runtime, runtime->pull->delta.have, size);
    } else if (status == BASE_ERR_TOO_LARGE) {
        dev_pull_cancel(runtime);
        dev_pull_whole(runtime);
    } else {
        dev_pull_storage_failed(runtime, status);
    }
}

bool dev_pull_add(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_pull *pull = runtime->pull;
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    const struct dev_storage_port *storage = &runtime->ports->storage;
    base_check(size <= pull->expected - pull->have);
    enum base_status status =
        storage->blob_append(storage->ctx, &pull->blob, pull->have, bytes, size);
    if (status != BASE_OK) {
        dev_pull_storage_failed(runtime, status);
        return false;
    }
    crypto->hash_update(crypto->ctx, &pull->hash, bytes, size);
    pull->have += size;
    pull->hashed = pull->have;
    progress(runtime, pull->have, size);
    return true;
}

void dev_pull_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_pull *pull = runtime->pull;
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
    if (pull->whole) {
        dev_whole_body(runtime, bytes, size);
        return;
    }
    base_check(pull->have <= pull->expected);
    if (size > pull->expected - pull->have) { // more than was signed
        dev_pull_drop(runtime);
        dev_pull_retry(runtime, "more content than announced");
        return;
    }
    (void)dev_pull_add(runtime, bytes, size); // what fails is tried again later
}

// The response to a request for a delta is over. False: it was the content itself, or an error that
// has nothing to do with the delta.
static bool delta_end(struct dev_runtime *runtime, enum base_status status)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct dev_pull *pull = runtime->pull;
    bool wrong_part = pull->status == 416 || pull->status == 206 || pull->status == 200;
    if (pull->refused && wrong_part) {
        dev_pull_whole(runtime); // the gateway has another delta now, or none
        return true;
    }
    if (!pull->delta.body) {
        return false;
    }
    if (status != BASE_OK) {
        dev_pull_retry(runtime, "connection lost");
        return true;
    }
    status = storage->blob_seal(storage->ctx, &pull->delta.name);
    if (status != BASE_OK) {
        dev_pull_storage_failed(runtime, status);
        return true;
    }
    dev_pull_hash(runtime);
    pull->phase = DEV_PULL_DECODE;
    return true;
}

// Which exclusive files there are for this device is answered, or not.
static void proof_end(struct dev_runtime *runtime, enum base_status status)
{
    struct dev_pull *pull = runtime->pull;
    // 401: a device that nobody made known has none either.
    bool none = pull->status == 404 || pull->status == 401;
    if (none && pull->required) {
        dev_pull_refuse(runtime, WIRE_OUTCOME_NOT_APPLICABLE, BASE_ERR_NOT_FOUND,
                        "no exclusive files for this device");
    } else if (none) {
        dev_proof_none(runtime);
        pull->phase = DEV_PULL_PICK;
    } else if (pull->status != 200 || status != BASE_OK) {
        dev_pull_retry(runtime, pull->refused ? "exclusive files refused" : "connection lost");
    } else {
        status = pull->refused ? BASE_ERR_TOO_LARGE : dev_proof_take(runtime);
        if (status != BASE_OK) {
            dev_pull_worthless(runtime, status, "exclusive files are not the signed ones");
            return;
        }
        pull->attempts = 0;
        pull->phase = DEV_PULL_PICK;
    }
}

void dev_pull_end(struct dev_runtime *runtime, enum base_status status)
{
    struct dev_pull *pull = runtime->pull;
    pull->exchange = 0;
    base_assert(pull->phase == DEV_PULL_BODY);
    if (pull->kind == DEV_PULL_PROOF) {
        proof_end(runtime, status);
        return;
    }
    if (pull->delta.asked && delta_end(runtime, status)) {
        return;
    }
    if (pull->whole && dev_whole_end(runtime)) {
        return;
    }
    if (pull->any_size && pull->status == 200 && !pull->refused && status == BASE_OK) {
        pull->expected = pull->have; // its hash decides
    }
    if (pull->status == 404 && pull->kind == DEV_PULL_EXCLUSIVE && !dev_pull_repairing(runtime)) {
        dev_proof_forget(runtime); // no longer this device's: ask anew whose it is
        pull->file = 0;
    }
    if (pull->status == 416 || (pull->refused && pull->status == 206)) {
        dev_pull_drop(runtime); // what is here is not a part of what is there
        dev_pull_retry(runtime, "range not satisfiable");
    } else if (pull->refused) {
        dev_pull_retry(runtime, pull->status == 404 ? "content not found" : "content refused");
    } else if (pull->status != 0 && pull->have == pull->expected) {
        dev_pull_sealed(runtime);
    } else {
        dev_pull_retry(runtime, status == BASE_OK ? "content ends too early" : "connection lost");
    }
}
