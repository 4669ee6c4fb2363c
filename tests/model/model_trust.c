// The checks of section 12 once more. One thread, between two visits.
#include "model_trust.h"

#include "core/base/runtime.h"
#include "core/trust/trust_store.h"
#include "svc/core_private.h"
#include "svc/trust/director_private.h"

#include "base/check.h"

#include <string.h>

// A timestamp, and what keeps its bytes.
struct stamp {
    struct wire_timestamp parsed;
    const uint8_t *bytes;
    size_t size;
    bool own; // the device's, which is to be closed
    bool there;
};

static void own_stamp(struct dev_runtime *runtime, struct stamp *out)
{
    *out = (struct stamp){.own = true};
    out->there =
        dev_trust_timestamp_open(runtime, &out->parsed, &out->bytes, &out->size) == BASE_OK;
}

static void close_stamp(struct dev_runtime *runtime, const struct stamp *stamp)
{
    if (stamp->own && stamp->there) {
        dev_trust_timestamp_close(runtime, stamp->bytes, stamp->size);
    }
}

static bool blob_payload(struct gw_blob *blob, struct wire_envelope *out)
{
    size_t size = 0;
    const uint8_t *bytes = gw_blob_bytes(blob, 0, &size);
    return size == gw_blob_size(blob) && wire_envelope_parse(bytes, size, out) == BASE_OK;
}

static void published_stamp(const struct gw_meta *meta, struct stamp *out)
{
    struct wire_envelope envelope;
    *out = (struct stamp){0};
    out->there =
        meta != NULL && meta->timestamp != NULL && blob_payload(meta->timestamp, &envelope) &&
        wire_timestamp_parse(envelope.payload, envelope.payload_bytes, &out->parsed) == BASE_OK;
}

// Does the one follow the other? No scenario vanishes, none goes back.
static bool goes_on(const struct wire_timestamp *before, const struct wire_timestamp *after)
{
    bool on = after->version > before->version;
    for (uint32_t i = 0; i < before->scenario_count; i++) {
        const struct wire_timestamp_scenario *now =
            wire_timestamp_scenario(after, before->scenarios[i].name);
        on = on && now != NULL && now->version >= before->scenarios[i].version;
    }
    return on;
}

// ---- Snapshots

// Do the counters of the tasks it knows go on in it?
static bool counters_go_on(const struct dev_runtime *runtime, const struct wire_snapshot *snapshot)
{
    bool on = true;
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        struct wire_snapshot_entry entry = {.task_id = wire_task_id(dev_task_name(task))};
        uint64_t highest = 0;
        if (base_str_equal(wire_scenario_of(dev_task_name(task)), snapshot->scenario)) {
            (void)wire_snapshot_lists(snapshot, &entry, &highest);
            on = on && highest >= task->offer.newest.counter && highest >= task->listed;
        }
    }
    return on;
}

static bool lists(const struct wire_snapshot *snapshot, const struct model_device *device,
                  const struct model_order *order)
{
    uint64_t highest = 0;
    const struct wire_snapshot_entry entry = {
        .task_id = wire_task_id(base_str_of(model_task_name(order->task))),
        .counter = order->counter,
        .manifest = device->ground->content[order->task][order->version].manifest,
    };
    return wire_snapshot_lists(snapshot, &entry, &highest);
}

static struct gw_blob *published_snapshot(const struct gw_meta *meta, struct base_str scenario)
{
    for (uint32_t i = 0; i < meta->scenario_count; i++) {
        if (base_str_equal(base_str_of(meta->scenarios[i]), scenario)) {
            return meta->snapshots[i];
        }
    }
    return NULL;
}

// By the snapshot that the timestamp names: the one it has, or else the one it is given.
static enum model_trust by_snapshot(const struct model_device *device, const struct gw_meta *meta,
                                    const struct wire_timestamp *stamp,
                                    const struct model_order *order)
{
    struct dev_runtime *runtime = device->runtime;
    struct base_str scenario = wire_scenario_of(base_str_of(model_task_name(order->task)));
    const struct wire_timestamp_scenario *named = wire_timestamp_scenario(stamp, scenario);
    struct dev_trust_snapshot held;
    struct wire_envelope envelope;
    struct wire_snapshot given;
    if (named == NULL) {
        return MODEL_TRUST_UNKNOWN;
    }
    if (dev_trust_snapshot_open(runtime, stamp, scenario, &held) == BASE_OK) {
        bool listed = lists(&held.parsed, device, order);
        bool late = dev_wall_s(runtime) >= held.parsed.expires_s;
        dev_trust_snapshot_close(runtime, &held);
        return late ? MODEL_TRUST_LATE : listed ? MODEL_TRUST_FOLLOWS : MODEL_TRUST_UNKNOWN;
    }
    struct gw_blob *blob = published_snapshot(meta, scenario);
    if (blob == NULL || !blob_payload(blob, &envelope) ||
        wire_snapshot_parse(envelope.payload, envelope.payload_bytes, &given) != BASE_OK ||
        given.version != named->version || !counters_go_on(runtime, &given)) {
        return MODEL_TRUST_OLDER;
    }
    if (dev_wall_s(runtime) >= given.expires_s) {
        return MODEL_TRUST_LATE;
    }
    return lists(&given, device, order) ? MODEL_TRUST_FOLLOWS : MODEL_TRUST_UNKNOWN;
}

static bool lacks_snapshot(struct dev_runtime *runtime, const struct wire_timestamp *stamp,
                           int task)
{
    struct base_str scenario = wire_scenario_of(base_str_of(model_task_name(task)));
    struct dev_trust_snapshot held;
    if (wire_timestamp_scenario(stamp, scenario) == NULL) {
        return false;
    }
    if (dev_trust_snapshot_open(runtime, stamp, scenario, &held) != BASE_OK) {
        return true;
    }
    dev_trust_snapshot_close(runtime, &held);
    return false;
}

static bool is_same(const struct stamp *own, const struct gw_meta *meta)
{
    size_t size = 0;
    const uint8_t *bytes = gw_blob_bytes(meta->timestamp, 0, &size);
    return size == own->size && memcmp(bytes, own->bytes, size) == 0;
}

// Did enough keys of the root it holds sign? Their numbers are the same in all roots.
static bool is_signed(const struct model_device *device, const struct model_order *order)
{
    struct dev_trust_root root;
    base_check(dev_trust_root_open(device->runtime, &root) == BASE_OK);
    const struct wire_delegation *delegation =
        wire_root_delegation(root.parsed, base_str_of(model_task_name(order->task)));
    bool enough =
        __builtin_popcount(order->signers & delegation->role.keys) >= delegation->role.threshold;
    dev_trust_root_close(device->runtime, &root);
    return enough;
}

// ---- All

enum model_trust model_trust_of(const struct model_device *device, const struct model_order *order)
{
    const struct gw_meta *meta = device->ground->gateway->core->director->meta;
    struct dev_runtime *runtime = device->runtime;
    struct stamp own;
    struct stamp given;
    if (!device->rooted) {
        return MODEL_TRUST_FOLLOWS;
    }
    if (!is_signed(device, order)) {
        return MODEL_TRUST_UNSIGNED;
    }
    own_stamp(runtime, &own);
    published_stamp(meta, &given);
    base_check(given.there);
    // A timestamp whose number is not above its own it asks for only when that ran out, or names a
    // snapshot that it does not have.
    bool needs = !own.there || given.parsed.version > own.parsed.version ||
                 dev_wall_s(runtime) >= own.parsed.expires_s ||
                 lacks_snapshot(runtime, &own.parsed, order->task);
    bool takes = !own.there || is_same(&own, meta) || goes_on(&own.parsed, &given.parsed);
    const struct stamp *by = needs ? &given : &own;
    enum model_trust trust = MODEL_TRUST_OLDER;
    if (takes && dev_wall_s(runtime) >= by->parsed.expires_s) {
        trust = MODEL_TRUST_LATE;
    } else if (!needs || takes) {
        trust = wire_timestamp_kills(&by->parsed,
                                     &device->ground->content[order->task][order->version].manifest)
                    ? MODEL_TRUST_UNKNOWN
                    : by_snapshot(device, meta, &by->parsed, order);
    }
    close_stamp(runtime, &own);
    return trust;
}

uint64_t model_trust_timestamp(const struct model_device *device)
{
    return device->rooted ? device->runtime->trust->timestamp_version : 0;
}

uint64_t model_trust_root(const struct model_device *device)
{
    return device->rooted ? device->runtime->trust->root_version : 0;
}
