// Brings metadata on a device with a root: the root chain step by step until there is no next one,
// then the timestamp, then the snapshot whose want began the cycle. The end of the chain, timestamp
// and snapshot come in one answer, or with the check-in's that began the cycle; a gateway that does
// not know that question is asked for each.
// What comes is judged in trust_store.c; a step that fails leaves everything as it was, and a cycle
// that brought something new is told to control, for offers may have been waiting for it.
//
// Called by the tick and by the transport. One request at a time, beside the other lanes.
#include "core/trust/device_trust.h"

#include "core/trust/trust_store.h"

#include "base/check.h"
#include "base/hash.h"
#include "wire/trust/offer.h"

#include <stdio.h>
#include <string.h>

#define PATH_MAX_BYTES (64 + WIRE_SCENARIO_MAX)

bool dev_trust_is_rooted(const struct dev_runtime *runtime)
{
    return runtime->trust->work != NULL;
}

struct dev_trust_view dev_trust_view(const struct dev_runtime *runtime)
{
    const struct dev_trust *trust = runtime->trust;
    return (struct dev_trust_view){trust->root_version, trust->timestamp_version,
                                   trust->timestamp_expires_s};
}

bool dev_trust_is_busy(const struct dev_runtime *runtime)
{
    return runtime->trust->wanted || runtime->trust->phase != DEV_TRUST_IDLE;
}

const struct wire_director *dev_trust_answer(const struct dev_runtime *runtime)
{
    base_assert(dev_trust_is_rooted(runtime));
    return &runtime->trust->work->director;
}

bool dev_trust_is_late(enum base_status status)
{
    return status == BASE_ERR_EXPIRED || status == BASE_ERR_FROZEN;
}

void dev_trust_refused(struct dev_runtime *runtime, const char *what, enum base_status status)
{
    struct {
        uint64_t code;
        uint64_t what;
    } mark = {(uint64_t)(-(int64_t)status), base_hash64(what, strlen(what))};
    char detail[WIRE_REPORT_DETAIL_MAX];
    if (status == BASE_ERR_CORRUPT) { // what it would be judged by was damaged, and that was told
        return;
    }
    runtime->stats.refused_metadata++;
    runtime->stats.refused_metadata_why = (int16_t)status;
    base_log_debug(runtime->ports->log, "device", "%s refused: %s (%s)", what,
                   base_status_text(status), base_status_name(status));
    if (dev_refusals_before(&runtime->refusals, base_hash64(&mark, sizeof(mark)))) {
        return;
    }
    int size = snprintf(detail, sizeof(detail), "%s: %s", what, base_status_text(status));
    struct wire_outcome outcome = {
        .kind = dev_trust_is_late(status) ? WIRE_OUTCOME_FAIL_CLOCK : WIRE_OUTCOME_FAIL_VERIFY,
        .fingerprint = mark.code,
        .detail = {detail, (size_t)size},
    };
    dev_outcome(runtime, &outcome);
}

bool dev_trust_looks(struct dev_runtime *runtime, uint64_t mark)
{
    struct dev_trust *trust = runtime->trust;
    uint64_t now_us = dev_now_us(runtime);
    bool due = trust->wanted || now_us >= trust->look_not_before_us;
    if (!due || dev_refusals_knows(&runtime->refusals, mark)) {
        return false;
    }
    if (!trust->wanted) {
        trust->look_not_before_us = now_us + DEV_TRUST_LOOK_US;
    }
    trust->wanted = true;
    trust->changed = true; // whatever comes: the statement is to be offered again
    return true;
}

static void cycle_end(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    trust->phase = DEV_TRUST_IDLE;
    trust->wanted = false;
    trust->steps = 0;
    trust->crossed = 0;
    trust->scenario_size = 0;
    if (trust->changed) {
        trust->changed = false;
        dev_tell_that(runtime, DEV_PART_EVENT_METADATA);
    }
}

// Lets go of what is under way.
static void stop(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    const struct dev_http_port *http = &runtime->ports->http;
    if (trust->exchange != 0) {
        http->cancel(http->ctx, trust->exchange);
        trust->exchange = 0;
    }
    trust->brought = false;
}

// The network failed: the same step again, later.
static void retry_later(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    stop(runtime);
    runtime->stats.bad_requests++;
    uint32_t wait_ms = dev_backoff_next(&trust->backoff, dev_random(runtime), 0);
    trust->not_before_us = dev_now_us(runtime) + wait_ms * 1000ull;
}

// What came is not to be believed: the cycle ends, the next check-in may begin another.
static void give_up(struct dev_runtime *runtime, const char *what, enum base_status status)
{
    struct dev_trust *trust = runtime->trust;
    stop(runtime);
    dev_trust_refused(runtime, what, status);
    // A release waits for what is too late: its gates are to hear of that now, not in five minutes.
    trust->changed = dev_trust_is_late(status) && !trust->late && trust->scenario_size > 0;
    trust->late = trust->late || dev_trust_is_late(status);
    cycle_end(runtime);
}

// What came crossed what was published: a newer snapshot between two requests, or a worker of the
// gateway that is behind the one that answered before. So the timestamp is asked for again: at
// once, then after pauses of about two seconds, a few times.
static void crossed(struct dev_runtime *runtime, const char *what, enum base_status status)
{
    struct dev_trust *trust = runtime->trust;
    stop(runtime);
    if (++trust->crossed > DEV_CROSSED_MAX) {
        give_up(runtime, what, status);
        return;
    }
    trust->phase = DEV_TRUST_TIMESTAMP;
    if (trust->crossed > 1) {
        dev_backoff_reset(&trust->backoff); // nothing failed: the pauses stay as short
        uint32_t wait_ms = dev_backoff_next(&trust->backoff, dev_random(runtime), 0);
        trust->not_before_us = dev_now_us(runtime) + wait_ms * 1000ull;
    }
}

static void snapshot_crossed(struct dev_runtime *runtime)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    (void)storage->blob_delete(storage->ctx, &runtime->trust->snapshot);
    crossed(runtime, "snapshot", BASE_ERR_HASH);
}

// ---- Requests

static size_t path_of(const struct dev_trust *trust, char out[PATH_MAX_BYTES])
{
    int size = 0;
    if (trust->phase == DEV_TRUST_NEXT) {
        size = snprintf(out, PATH_MAX_BYTES, "/v1/meta/next/%llu%s%.*s",
                        (unsigned long long)trust->root_version + 1,
                        trust->scenario_size > 0 ? "/" : "", (int)trust->scenario_size,
                        trust->scenario);
    } else if (trust->phase == DEV_TRUST_ROOT) {
        size = snprintf(out, PATH_MAX_BYTES, "/v1/meta/root/%llu",
                        (unsigned long long)trust->root_version + (trust->lost ? 0 : 1));
    } else if (trust->phase == DEV_TRUST_TIMESTAMP) {
        size = snprintf(out, PATH_MAX_BYTES, "/v1/meta/timestamp");
    } else {
        size = snprintf(out, PATH_MAX_BYTES, "/v1/meta/snapshot/%.*s", (int)trust->scenario_size,
                        trust->scenario);
    }
    return (size_t)size;
}

static void ask(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_trust *trust = runtime->trust;
    const struct dev_http_port *http = &runtime->ports->http;
    char path[PATH_MAX_BYTES];
    struct dev_request request = {
        .method = DEV_METHOD_GET,
        .path = {path, path_of(trust, path)},
        .device = {runtime->settings.device_hex, WIRE_DEVICE_HEX},
    };
    base_assert(trust->exchange == 0);
    base_assert(trust->phase != DEV_TRUST_IDLE);
    trust->exchange = dev_exchange_new(runtime);
    trust->fill = 0;
    trust->window = 0;
    trust->status = 0;
    trust->deadline_us = now_us + runtime->settings.request_timeout_us;
    if (http->start(http->ctx, trust->exchange, &request) != BASE_OK) {
        trust->exchange = 0;
        retry_later(runtime);
    }
}

// Prepares the snapshot that was missed, when the timestamp names one that is not here.
static bool snapshot_begin(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct wire_timestamp timestamp;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    if (trust->scenario_size == 0 ||
        dev_trust_timestamp_open(runtime, &timestamp, &bytes, &size) != BASE_OK) {
        return false;
    }
    struct base_str name = {trust->scenario, trust->scenario_size};
    const struct wire_timestamp_scenario *scenario = wire_timestamp_scenario(&timestamp, name);
    bool missing = false;
    if (scenario != NULL) {
        uint64_t have = 0;
        bool sealed = false;
        trust->snapshot = scenario->digest;
        trust->snapshot_bytes = scenario->bytes;
        enum base_status status =
            storage->blob_stat(storage->ctx, &trust->snapshot, &have, &sealed);
        missing = status != BASE_OK || !sealed;
        if (missing && status == BASE_OK) {
            (void)storage->blob_delete(storage->ctx, &trust->snapshot);
        }
    }
    dev_trust_timestamp_close(runtime, bytes, size);
    if (missing) {
        crypto->hash_begin(crypto->ctx, &trust->hash, &trust->snapshot);
    }
    return missing;
}

static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    struct dev_trust *trust = runtime->trust;
    if (trust->work == NULL || runtime->dirty || trust->brought) {
        return;
    }
    if (trust->exchange != 0 && now_us >= trust->deadline_us) {
        retry_later(runtime); // silence, or too slow
        return;
    }
    if (trust->exchange != 0 || now_us < trust->not_before_us) {
        return;
    }
    if (trust->phase == DEV_TRUST_IDLE && trust->wanted) {
        trust->phase = DEV_TRUST_NEXT;
        trust->steps = 0;
    }
    if (trust->phase == DEV_TRUST_NEXT && trust->lost) {
        trust->phase = DEV_TRUST_ROOT; // the one that is in force, by its number
    }
    if (trust->phase == DEV_TRUST_ENOUGH ||
        (trust->phase == DEV_TRUST_SNAPSHOT && !snapshot_begin(runtime))) {
        cycle_end(runtime);
    }
    if (trust->phase != DEV_TRUST_IDLE) {
        ask(runtime, now_us);
    }
}

static uint64_t due_us_of(const struct dev_runtime *runtime)
{
    const struct dev_trust *trust = runtime->trust;
    if (trust->work == NULL || runtime->dirty || trust->brought) {
        return UINT64_MAX;
    }
    if (trust->exchange != 0) {
        return trust->deadline_us;
    }
    return trust->wanted || trust->phase != DEV_TRUST_IDLE ? trust->not_before_us : UINT64_MAX;
}

void dev_trust_age(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    if (trust->work != NULL && trust->timestamp_version > 0 &&
        dev_wall_s(runtime) >= trust->timestamp_expires_s) {
        trust->wanted = true;
    }
}

// ---- Answers

static enum base_status snapshot_add(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_trust *trust = runtime->trust;
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    const struct dev_storage_port *storage = &runtime->ports->storage;
    base_check(trust->fill <= trust->snapshot_bytes);
    if (size > trust->snapshot_bytes - trust->fill) {
        return BASE_ERR_TOO_LARGE;
    }
    BASE_TRY(storage->blob_append(storage->ctx, &trust->snapshot, trust->fill, bytes, size));
    crypto->hash_update(crypto->ctx, &trust->hash, bytes, size);
    return BASE_OK;
}

static void root_came(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    const uint8_t *bytes = trust->work->buffer;
    enum base_status status = trust->lost ? dev_trust_root_regain(runtime, bytes, trust->fill)
                                          : dev_trust_root_take(runtime, bytes, trust->fill);
    if (status != BASE_OK) {
        if (base_status_is_environment(status) || base_status_is_resource(status)) {
            retry_later(runtime);
        } else {
            give_up(runtime, "root", status);
        }
        return;
    }
    trust->changed = true;
    if (++trust->steps >= DEV_ROOT_STEPS_MAX) {
        cycle_end(runtime); // the next cycle goes on from here
        trust->wanted = true;
    }
}

static void timestamp_came(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_trust *trust = runtime->trust;
    bool is_new = false;
    enum base_status status = dev_trust_timestamp_take(runtime, bytes, size, &is_new);
    if (status != BASE_OK) {
        if (base_status_is_environment(status) || base_status_is_resource(status)) {
            retry_later(runtime);
        } else if (status == BASE_ERR_ROLLBACK) {
            crossed(runtime, "timestamp", status);
        } else {
            give_up(runtime, "timestamp", status);
        }
        return;
    }
    trust->late = false;
    trust->changed = trust->changed || is_new;
    trust->phase = DEV_TRUST_SNAPSHOT;
}

// How far the answer goes that is under way, or that part of it that is kept in memory, as far as
// can be told by now.
static size_t buffered_bytes(const struct dev_trust *trust)
{
    const uint8_t *bytes = trust->work->buffer;
    if (trust->phase != DEV_TRUST_NEXT) {
        return WIRE_META_BYTES_MAX;
    }
    if (trust->fill == 0) {
        return 1;
    }
    if (bytes[0] != WIRE_NEXT_MARK) {
        return WIRE_META_BYTES_MAX; // a root
    }
    return trust->fill < WIRE_NEXT_HEAD_BYTES
               ? WIRE_NEXT_HEAD_BYTES
               : WIRE_NEXT_HEAD_BYTES + wire_next_timestamp_bytes(bytes);
}

static bool timestamp_is_whole(const struct dev_trust *trust)
{
    return trust->phase == DEV_TRUST_NEXT && trust->fill >= WIRE_NEXT_HEAD_BYTES &&
           trust->work->buffer[0] == WIRE_NEXT_MARK && trust->fill == buffered_bytes(trust);
}

// The timestamp of an answer that brings the snapshot behind it.
static void next_timestamp_came(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    timestamp_came(runtime, trust->work->buffer + WIRE_NEXT_HEAD_BYTES,
                   trust->fill - WIRE_NEXT_HEAD_BYTES);
    if (trust->phase == DEV_TRUST_SNAPSHOT) {
        trust->fill = 0;
        trust->phase = snapshot_begin(runtime) ? DEV_TRUST_SNAPSHOT : DEV_TRUST_ENOUGH;
    }
}

// *inout_size: what is left behind what was kept.
static enum base_status buffer_add(struct dev_trust *trust, const uint8_t **inout_bytes,
                                   size_t *inout_size)
{
    while (*inout_size > 0 && !timestamp_is_whole(trust)) {
        size_t end = buffered_bytes(trust);
        if (end > sizeof(trust->work->buffer) || trust->fill == end) {
            return BASE_ERR_TOO_LARGE;
        }
        size_t size = end - trust->fill < *inout_size ? end - trust->fill : *inout_size;
        memmove(trust->work->buffer + trust->fill, *inout_bytes, size); // where they were, perhaps
        trust->fill += size;
        *inout_bytes += size;
        *inout_size -= size;
    }
    return BASE_OK;
}

static enum base_status body_add(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_trust *trust = runtime->trust;
    if (trust->phase != DEV_TRUST_SNAPSHOT && trust->phase != DEV_TRUST_ENOUGH) {
        BASE_TRY(buffer_add(trust, &bytes, &size));
        if (timestamp_is_whole(trust)) {
            next_timestamp_came(runtime);
        }
    }
    bool refused = trust->exchange == 0 && !trust->brought;
    if (refused || size == 0) {
        return BASE_OK; // or there is nothing behind it yet
    }
    if (trust->phase == DEV_TRUST_SNAPSHOT) {
        BASE_TRY(snapshot_add(runtime, bytes, size));
        trust->fill += size;
    } else if (trust->phase == DEV_TRUST_ENOUGH) {
        stop(runtime); // a snapshot that is here
        cycle_end(runtime);
    }
    return BASE_OK;
}

static void body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_trust *trust = runtime->trust;
    base_assert(trust->work != NULL);
    if (trust->status != 200 || size == 0) {
        return;
    }
    enum base_status status = body_add(runtime, bytes, size);
    if (status == BASE_ERR_TOO_LARGE && trust->phase == DEV_TRUST_SNAPSHOT) {
        snapshot_crossed(runtime);
        return;
    }
    if (status == BASE_ERR_TOO_LARGE) {
        give_up(runtime, "metadata", status);
        return;
    }
    if (status != BASE_OK) {
        retry_later(runtime);
        return;
    }
    trust->window += size;
    if (trust->window >= DEV_RATE_WINDOW_BYTES) {
        trust->window = 0;
        trust->deadline_us = dev_now_us(runtime) + runtime->settings.request_timeout_us;
    }
}

static void snapshot_came(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    struct wire_sha256 digest;
    crypto->hash_end(crypto->ctx, &trust->hash, &digest);
    if (trust->fill != trust->snapshot_bytes || !wire_sha256_equal(&digest, &trust->snapshot)) {
        snapshot_crossed(runtime);
        return;
    }
    enum base_status status = dev_trust_snapshot_take(runtime);
    if (base_status_is_environment(status) || base_status_is_resource(status)) {
        retry_later(runtime);
        return;
    }
    if (status != BASE_OK) {
        const struct dev_storage_port *storage = &runtime->ports->storage;
        (void)storage->blob_delete(storage->ctx, &trust->snapshot);
        trust->untaken = base_hash64(trust->scenario, trust->scenario_size);
        give_up(runtime, "snapshot", status);
        return;
    }
    trust->changed = true;
    cycle_end(runtime);
}

static void next_ended(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    if (trust->lost) {
        trust->phase = DEV_TRUST_ROOT;
    } else if (trust->fill > 0 && trust->work->buffer[0] != WIRE_NEXT_MARK) {
        root_came(runtime);
    } else {
        give_up(runtime, "timestamp", BASE_ERR_TRUNCATED); // it is taken as soon as it is whole
    }
}

static void answer_ended(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    switch ((enum dev_trust_phase)trust->phase) {
    case DEV_TRUST_NEXT:
        next_ended(runtime);
        break;
    case DEV_TRUST_ROOT:
        root_came(runtime);
        break;
    case DEV_TRUST_TIMESTAMP:
        timestamp_came(runtime, trust->work->buffer, trust->fill);
        break;
    case DEV_TRUST_SNAPSHOT:
        snapshot_came(runtime);
        break;
    case DEV_TRUST_ENOUGH:
    case DEV_TRUST_IDLE:
        cycle_end(runtime);
        break;
    }
}

static void end(struct dev_runtime *runtime, enum base_status status)
{
    struct dev_trust *trust = runtime->trust;
    int http = status == BASE_OK ? trust->status : 0;
    trust->exchange = 0;
    if (trust->phase == DEV_TRUST_ENOUGH) {
        cycle_end(runtime);
    } else if (trust->phase == DEV_TRUST_ROOT && http == 404 && trust->lost) {
        dev_trust_root_born(runtime); // nobody has it any more
        runtime->dirty = true;
    } else if (trust->phase == DEV_TRUST_ROOT && http == 404) {
        trust->phase = DEV_TRUST_TIMESTAMP; // there is no newer one
    } else if (trust->phase == DEV_TRUST_NEXT && http == 404) {
        trust->phase = DEV_TRUST_ROOT;
    } else if (http != 200) {
        retry_later(runtime);
        return;
    } else {
        answer_ended(runtime);
    }
    if (trust->not_before_us <= dev_now_us(runtime)) {
        dev_backoff_reset(&trust->backoff);
    }
}

// ---- With the answer to a check-in

_Static_assert(WIRE_OFFERS_META_MAX <= WIRE_NEXT_HEAD_BYTES + WIRE_META_BYTES_MAX, "it fits");

// Would a cycle ask for all that comes next, if it were to ask now?
static bool may_come_next(const struct dev_runtime *runtime)
{
    const struct dev_trust *trust = runtime->trust;
    return trust->work != NULL && !trust->lost && trust->exchange == 0 &&
           (trust->phase == DEV_TRUST_IDLE || trust->phase == DEV_TRUST_NEXT) &&
           dev_now_us(runtime) >= trust->not_before_us;
}

void dev_trust_metadata_begin(struct dev_runtime *runtime)
{
    runtime->trust->brought = may_come_next(runtime);
    if (runtime->trust->brought) {
        runtime->trust->fill = 0;
    }
}

void dev_trust_metadata_add(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_trust *trust = runtime->trust;
    if (!trust->brought) {
        return;
    }
    base_check(trust->fill <= sizeof(trust->work->buffer));
    if (size > sizeof(trust->work->buffer) - trust->fill) {
        trust->brought = false;
        return;
    }
    memcpy(trust->work->buffer + trust->fill, bytes, size);
    trust->fill += size;
}

void dev_trust_metadata_drop(struct dev_runtime *runtime)
{
    runtime->trust->brought = false;
}

// All of it is in the buffer: it is judged as if it had come in an answer to NEXT.
static void brought_take(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    size_t size = trust->fill;
    trust->steps = trust->phase == DEV_TRUST_IDLE ? 0 : trust->steps;
    trust->phase = DEV_TRUST_NEXT;
    trust->status = 200;
    trust->window = 0;
    trust->fill = 0;
    body(runtime, trust->work->buffer, size);
    if (!trust->brought) {
        return; // refused
    }
    trust->brought = false;
    if (trust->phase == DEV_TRUST_SNAPSHOT && trust->fill == 0) {
        return; // it is missing, and did not come: it is asked for
    }
    answer_ended(runtime);
}

void dev_trust_metadata_end(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    bool whole = trust->brought && trust->fill > 0;
    trust->brought = false;
    // A root is news also to who misses nothing.
    if (whole && may_come_next(runtime) &&
        (trust->wanted || trust->work->buffer[0] != WIRE_NEXT_MARK)) {
        trust->brought = true;
        brought_take(runtime);
    }
}

// ---- Doors

static void init(struct dev_runtime *runtime, uint64_t first_us)
{
    struct dev_trust *trust = runtime->trust;
    (void)first_us; // it asks only when a check-in found that something is missing
    trust->phase = DEV_TRUST_IDLE;
    trust->exchange = 0;
    trust->wanted = false;
    trust->asked = false;
    trust->directed = false;
    trust->brought = false;
    trust->not_before_us = 0;
    trust->look_not_before_us = 0;
    trust->scenario_size = 0;
    dev_backoff_init(&trust->backoff, runtime->settings.backoff_base_ms,
                     runtime->settings.backoff_cap_ms);
    dev_backoff_init(&trust->mending, runtime->settings.backoff_base_ms,
                     runtime->settings.backoff_cap_ms);
    trust->damaged_us = 0;
}

// A nonce is good for one check-in.
static void answered(struct dev_runtime *runtime)
{
    runtime->trust->asked = false;
    runtime->trust->directed = false;
    dev_trust_age(runtime);
}

static bool came(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    if (event->exchange == 0 || event->exchange != runtime->trust->exchange) {
        return false;
    }
    if (event->kind == DEV_PART_EVENT_HEAD) {
        runtime->trust->status = event->head->status;
    } else if (event->kind == DEV_PART_EVENT_BODY) {
        body(runtime, event->body.data, event->body.size);
    } else {
        end(runtime, event->status);
    }
    return true;
}

static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    switch (event->kind) {
    case DEV_PART_EVENT_ANEW:
        dev_trust_clear(runtime->trust);
        return false;
    case DEV_PART_EVENT_RESTORED:
        dev_trust_restore(runtime);
        return false;
    case DEV_PART_EVENT_STOPPED:
        stop(runtime);
        return false;
    case DEV_PART_EVENT_ANSWERED:
        answered(runtime);
        return false;
    case DEV_PART_EVENT_NEEDED:
        dev_trust_blobs(runtime, event->need);
        return false;
    default:
        return came(runtime, event);
    }
}

const struct dev_part dev_trust_part = {
    .name = "trust",
    .init = init,
    .step = step,
    .due_us = due_us_of,
    .on_event = on_event,
    .hears = DEV_PART_HEARS(ANEW) | DEV_PART_HEARS(RESTORED) | DEV_PART_HEARS(STOPPED) |
             DEV_PART_HEARS(ANSWERED) | DEV_PART_HEARS(NEEDED) | DEV_PART_HEARS_EXCHANGE};
