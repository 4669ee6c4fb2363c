// Two parties must agree before a device with a root follows a release: the release role signed the
// statement, an approval, and the director orders exactly that version (counter, hash and length),
// forwards or back, in an answer to this device's own question. The snapshot says besides that it
// belongs to what is released now. So a stolen gateway can withhold and repeat, a stolen release
// key cannot reach a device, and neither can mix old with new.
//
// Called for the envelopes and marks of a check-in's answer, on the runtime's thread.
#include "core/trust/trust_store.h"

#include "core/trust/device_lease.h"

#include "base/check.h"
#include "base/hash.h"
#include "wire/trust/answer.h"

#include <string.h>

void dev_trust_ask(struct dev_runtime *runtime, bool metadata, char text[WIRE_ASK_TEXT_MAX + 1])
{
    struct dev_trust *trust = runtime->trust;
    uint8_t lease = dev_lease_any(runtime) ? WIRE_ASK_FLAG_LEASE : 0;
    uint8_t brings = metadata ? WIRE_ASK_FLAG_METADATA : 0;
    struct wire_ask ask = {.flags = WIRE_ASK_FLAG_TREE | lease | brings,
                           .order = trust->order,
                           .root_version = trust->root_version,
                           .timestamp_version = trust->timestamp_version};
    base_assert(trust->work != NULL);
    for (size_t at = 0; at < WIRE_NONCE_BYTES; at += sizeof(uint64_t)) {
        uint64_t word = dev_random(runtime);
        memcpy(trust->nonce + at, &word, sizeof(word));
    }
    memcpy(ask.nonce, trust->nonce, WIRE_NONCE_BYTES);
    trust->asked = true;
    trust->directed = false;
    trust->misdirected = false;
    trust->overdue = false;
    trust->brought = false;
    trust->work->holds = false;
    trust->work->asked_us = dev_now_us(runtime);
    trust->work->asked_s = dev_clocks(runtime).own_s;
    (void)wire_ask_text(&ask, text);
}

struct director_times {
    uint64_t root_s;   // of the root in force
    uint64_t latest_s; // ... and when it runs out
};

static enum base_status director_verify(struct dev_runtime *runtime,
                                        const struct wire_envelope *envelope,
                                        struct director_times *out)
{
    struct wire_verifier verifier = dev_crypto_verifier(&runtime->ports->crypto);
    struct dev_trust_root root;
    BASE_TRY(dev_trust_root_open(runtime, &root));
    const struct wire_role *role = &root.parsed->roles[WIRE_ROLE_DIRECTOR];
    enum base_status status =
        wire_root_verify(root.parsed, role, role->threshold, envelope, &verifier);
    if (status == BASE_OK && dev_wall_s(runtime) >= root.parsed->expires_s) {
        status = BASE_ERR_EXPIRED;
    }
    out->root_s = root.parsed->issued_s;
    out->latest_s = root.parsed->expires_s;
    dev_trust_root_close(runtime, &root);
    return status;
}

// Of an envelope that was verified.
static enum base_status director_open(const struct wire_envelope *envelope,
                                      struct wire_director *out)
{
    struct wire_answer answer = {
        .director = {envelope->payload, envelope->payload_bytes},
    };
    if (envelope->type == WIRE_ENVELOPE_TYPE_ANSWER) {
        BASE_TRY(wire_answer_parse(envelope->payload, envelope->payload_bytes, &answer));
    }
    return wire_director_parse(answer.director.data, answer.director.size, out);
}

// Is the director's answer for this device, to the question that went out last, and the next order?
static enum base_status is_fresh(const struct dev_runtime *runtime)
{
    const struct dev_trust *trust = runtime->trust;
    const struct wire_director *director = &trust->work->director;
    if (director->device_id != runtime->settings.device_id) {
        return BASE_ERR_TARGET;
    }
    bool mine = memcmp(director->nonce, trust->nonce, WIRE_NONCE_BYTES) == 0;
    return mine && director->order == trust->order + 1 ? BASE_OK : BASE_ERR_FRESHNESS;
}

static enum base_status director_check(struct dev_runtime *runtime, const uint8_t *bytes,
                                       size_t size, struct director_times *out)
{
    struct dev_trust *trust = runtime->trust;
    struct wire_envelope envelope;
    BASE_TRY(wire_envelope_parse(bytes, size, &envelope));
    BASE_TRY(director_verify(runtime, &envelope, out));
    BASE_TRY(director_open(&envelope, &trust->work->director));
    BASE_TRY(is_fresh(runtime));
    return trust->asked ? BASE_OK : BASE_ERR_FRESHNESS;
}

void dev_trust_director(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_trust *trust = runtime->trust;
    struct director_times times = {0};
    if (trust->work == NULL) {
        return; // not asked for, and nothing to verify it with
    }
    trust->directed = false;
    trust->work->holds = false;
    enum base_status status = director_check(runtime, bytes, size, &times);
    trust->asked = false; // a nonce is good for one answer
    trust->misdirected = status != BASE_OK;
    trust->overdue = status == BASE_ERR_EXPIRED;
    if (status != BASE_OK) {
        dev_trust_refused(runtime, "director's answer", status);
        if (status == BASE_ERR_SIGNATURE || status == BASE_ERR_THRESHOLD) {
            trust->wanted = true; // its keys may have changed
        }
        return;
    }
    const struct wire_director *director = &trust->work->director;
    trust->directed = true;
    struct dev_time_now now = dev_clocks(runtime);
    if (director->issued_s < times.latest_s &&
        dev_time_online(&runtime->time, director->issued_s, times.root_s, &now)) {
        dev_tell_that(runtime, DEV_PART_EVENT_TIME_BACK);
    }
    trust->work->holds = true;
    trust->work->answered_s = dev_time_latest(&runtime->time, &now);
    if (director->timestamp_version > trust->timestamp_version) {
        trust->wanted = true;
    }
    dev_trust_age(runtime);
    dev_tell_that(runtime, DEV_PART_EVENT_DIRECTED);
}

// The question and its answer were under way no longer than one exchange may be, nor than the lease
// that the answer gives. By both clocks: one of them stops while the device sleeps.
static bool in_time(struct dev_runtime *runtime)
{
    const struct dev_trust_work *work = runtime->trust->work;
    struct dev_time_now now = dev_clocks(runtime);
    uint64_t most_us = runtime->settings.request_timeout_us;
    uint64_t lease_us = work->director.lease_s * UINT64_C(1000000);
    most_us = lease_us > 0 && lease_us < most_us ? lease_us : most_us;
    return now.mono_us - work->asked_us < most_us &&
           now.own_s - work->asked_s <= most_us / 1000000; // neither if it was set back
}

bool dev_trust_resume(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    trust->directed = trust->work != NULL && trust->work->holds && in_time(runtime) &&
                      is_fresh(runtime) == BASE_OK;
    return trust->directed;
}

void dev_trust_rest(struct dev_runtime *runtime)
{
    runtime->trust->directed = false;
}

uint64_t dev_trust_answered_s(const struct dev_runtime *runtime)
{
    base_assert(dev_trust_is_rooted(runtime));
    return runtime->trust->work->answered_s;
}

void dev_trust_followed(struct dev_runtime *runtime)
{
    struct dev_trust *trust = runtime->trust;
    if (trust->work != NULL && trust->directed && trust->order != trust->work->director.order) {
        trust->order = trust->work->director.order;
        runtime->dirty = true;
    }
}

enum base_status dev_trust_names_stop(const struct dev_runtime *runtime, uint64_t task_id)
{
    const struct dev_trust *trust = runtime->trust;
    if (trust->misdirected) {
        return BASE_ERR_BUSY;
    }
    for (uint32_t i = 0; trust->directed && i < trust->work->director.count; i++) {
        const struct wire_director_entry *entry = &trust->work->director.entries[i];
        if (entry->task_id == task_id && entry->counter == 0) {
            return BASE_OK;
        }
    }
    return BASE_ERR_DIRECTOR;
}

// ---- Releases

static bool is_beta_device(const struct dev_runtime *runtime)
{
    struct wire_attrs attrs;
    if (wire_attrs_parse(runtime->attrs, runtime->attrs_bytes, &attrs) != BASE_OK) {
        return false;
    }
    for (uint32_t i = 0; i < attrs.count; i++) {
        const struct wire_attr *attr = &attrs.items[i];
        if (base_str_equal(attr->name, BASE_STR("channel"))) {
            return attr->type == WIRE_ATTR_STRING && base_str_equal(attr->text, BASE_STR("beta"));
        }
    }
    return false;
}

enum base_status dev_trust_signatures(struct dev_runtime *runtime,
                                      const struct wire_envelope *envelope,
                                      const struct wire_release *release)
{
    struct wire_verifier verifier = dev_crypto_verifier(&runtime->ports->crypto);
    struct dev_trust_root root;
    BASE_TRY(dev_trust_root_open(runtime, &root));
    enum base_status status = BASE_ERR_SIGNATURE;
    const struct wire_delegation *delegation =
        wire_root_delegation(root.parsed, release->task_name);
    if (delegation != NULL) {
        bool beta = release->stage_kind == WIRE_STAGE_BETA && is_beta_device(runtime);
        uint8_t threshold = wire_root_release_threshold(root.parsed, delegation, release, beta);
        status = wire_root_verify(root.parsed, &delegation->role, threshold, envelope, &verifier);
    }
    dev_trust_root_close(runtime, &root);
    return status;
}

static bool director_marks(const struct wire_director *director, const struct wire_again *mark)
{
    for (uint32_t i = 0; i < director->again_count; i++) {
        const struct wire_again *named = &director->again[i];
        if (named->task_id == mark->task_id) {
            return named->rollout_id == mark->rollout_id && named->attempt == mark->attempt;
        }
    }
    return false;
}

static bool director_names(const struct wire_director *director, const struct wire_release *release)
{
    uint64_t task_id = wire_release_task_id(release);
    for (uint32_t i = 0; i < director->count; i++) {
        const struct wire_director_entry *entry = &director->entries[i];
        if (entry->task_id == task_id) {
            return entry->counter == release->release_counter &&
                   entry->manifest_bytes == release->manifest_bytes &&
                   wire_sha256_equal(&entry->manifest, &release->manifest);
        }
    }
    return false;
}

// What the metadata is asked about.
struct subject {
    struct base_str task_name;
    const struct wire_sha256 *manifest;
    uint64_t counter; // it is to be listed under; 0: what runs already need not be
};

// Metadata of the subject's scenario comes first. A cycle brings one snapshot, that of the first
// offer which waits; one that is not taken does not keep the device from another, which goes before
// it.
static void bring(struct dev_runtime *runtime, const struct subject *subject)
{
    struct dev_trust *trust = runtime->trust;
    struct base_str scenario = wire_scenario_of(subject->task_name);
    bool untaken = trust->untaken == base_hash64(trust->scenario, trust->scenario_size);
    trust->wanted = true;
    if (trust->scenario_size == 0 || untaken) {
        base_check(scenario.size <= WIRE_SCENARIO_MAX);
        trust->scenario_size = (uint8_t)scenario.size;
        memcpy(trust->scenario, scenario.data, scenario.size);
    }
}

static enum base_status snapshot_has(struct dev_runtime *runtime,
                                     const struct wire_timestamp *timestamp,
                                     const struct subject *subject)
{
    struct dev_trust_snapshot snapshot;
    struct base_str scenario = wire_scenario_of(subject->task_name);
    enum base_status status = dev_trust_snapshot_open(runtime, timestamp, scenario, &snapshot);
    if (status == BASE_ERR_MIXED) {
        return status;
    }
    if (status != BASE_OK) { // it is to be brought, or brought again
        bring(runtime, subject);
        return BASE_ERR_BUSY;
    }
    struct wire_snapshot_entry entry = {
        .task_id = wire_task_id(subject->task_name),
        .counter = subject->counter,
        .manifest = *subject->manifest,
    };
    uint64_t highest = 0;
    bool listed = subject->counter == 0 || wire_snapshot_lists(&snapshot.parsed, &entry, &highest);
    if (dev_wall_s(runtime) >= snapshot.parsed.expires_s) {
        status = BASE_ERR_FROZEN;
    } else if (!listed) {
        status = BASE_ERR_MIXED;
    }
    dev_trust_snapshot_close(runtime, &snapshot);
    return status;
}

// Timestamp, kill list and snapshot.
static enum base_status metadata_agrees(struct dev_runtime *runtime, const struct subject *subject)
{
    struct dev_trust *trust = runtime->trust;
    struct wire_timestamp timestamp;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    if (trust->timestamp_version == 0 ||
        trust->work->director.timestamp_version > trust->timestamp_version ||
        dev_wall_s(runtime) >= trust->timestamp_expires_s) {
        bring(runtime, subject);
        return trust->late ? BASE_ERR_FROZEN : BASE_ERR_BUSY;
    }
    BASE_TRY(dev_trust_timestamp_open(runtime, &timestamp, &bytes, &size));
    enum base_status status = BASE_ERR_KILLED;
    if (!wire_timestamp_kills(&timestamp, subject->manifest)) {
        status = snapshot_has(runtime, &timestamp, subject);
    }
    dev_trust_timestamp_close(runtime, bytes, size);
    return status;
}

// `named`: by a director's answer that holds.
static enum base_status ordered(struct dev_runtime *runtime, bool named,
                                const struct subject *subject)
{
    const struct dev_trust *trust = runtime->trust;
    if (trust->misdirected) {
        // Refused and reported already; but for its time, of which the release's gates are to know.
        return trust->overdue ? BASE_ERR_EXPIRED : BASE_ERR_BUSY;
    }
    return named ? metadata_agrees(runtime, subject) : BASE_ERR_DIRECTOR;
}

enum base_status dev_trust_release(struct dev_runtime *runtime, const struct wire_release *release)
{
    const struct dev_trust *trust = runtime->trust;
    bool named = trust->directed && director_names(&trust->work->director, release);
    const struct subject subject = {release->task_name, &release->manifest,
                                    release->release_counter};
    return ordered(runtime, named, &subject);
}

enum base_status dev_trust_again(struct dev_runtime *runtime, const struct dev_task *task,
                                 const struct wire_again *mark)
{
    const struct dev_trust *trust = runtime->trust;
    bool named = trust->directed && director_marks(&trust->work->director, mark);
    const struct subject subject = {dev_task_name(task), &task->slots.active.manifest, 0};
    return ordered(runtime, named, &subject);
}
