// Judging offers: which statement a device follows. This is where a stolen gateway ends.
//
// Order of the checks: frame, signatures over the raw bytes, only then the payload; expiry by the
// time the device believes (device_time.h); release counter; the device's own bucket against
// the signed stage; on a device with a root also the other roles (trust_judge.c). A refusal keeps
// the state as it is and is reported once under its own code. Called for each envelope of a
// check-in's answer or of an offer header.
#include "core/runtime.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/prng.h"
#include "policy/bucket.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SIGNED_BYTES_MAX (WIRE_STATEMENT_BYTES_MAX + 16)
#define LATE_FORMAT                                                                                \
    "%s: signed %" PRIu64 " until %" PRIu64 ", own clock %" PRIu64 ", gateway %" PRIu64            \
    ", taken for %" PRIu64

static bool key_has_id(struct dev_runtime *runtime, const uint8_t *key, const uint8_t *key_id)
{
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    struct dev_hash_state state;
    struct wire_sha256 hoped;
    struct wire_sha256 digest;
    memcpy(hoped.bytes, key_id, WIRE_SHA256_BYTES);
    crypto->hash_begin(crypto->ctx, &state, &hoped);
    crypto->hash_update(crypto->ctx, &state, key, WIRE_PUBLIC_KEY_BYTES);
    crypto->hash_end(crypto->ctx, &state, &digest);
    return wire_sha256_equal(&hoped, &digest);
}

// Did trusted key `index` sign? The envelope names each key id at most once, and trusted keys are
// distinct, so no key counts twice.
static bool key_signed(struct dev_runtime *runtime, uint32_t index,
                       const struct wire_envelope *envelope, const uint8_t *message, size_t size)
{
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    const uint8_t *key = runtime->settings.trusted_keys[index];
    for (uint32_t i = 0; i < envelope->signature_count; i++) {
        const struct wire_signature *signature = &envelope->signatures[i];
        if (key_has_id(runtime, key, signature->key_id)) {
            return crypto->verify(crypto->ctx, key, message, size, signature->bytes) == BASE_OK;
        }
    }
    return false;
}

static enum base_status verify(struct dev_runtime *runtime, const struct wire_envelope *envelope)
{
    uint8_t message[SIGNED_BYTES_MAX];
    size_t size = 0;
    uint32_t signers = 0;
    BASE_TRY(wire_envelope_signed_bytes(envelope->type, envelope->payload, envelope->payload_bytes,
                                        message, sizeof(message), &size));
    for (uint32_t i = 0; i < runtime->settings.trusted_key_count; i++) {
        signers += key_signed(runtime, i, envelope, message, size) ? 1 : 0;
    }
    return signers >= runtime->settings.signature_threshold ? BASE_OK : BASE_ERR_SIGNATURE;
}

static bool is_same_statement(const struct dev_task *task, const struct wire_release *release)
{
    return task->counter == release->release_counter &&
           task->accepted_rollout == release->rollout_id && task->accepted_kind == release->kind &&
           wire_sha256_equal(&task->accepted, &release->manifest);
}

// May a verified release be followed? `task` is NULL when the device does not know it.
static enum base_status admit(const struct dev_runtime *runtime, const struct dev_task *task,
                              const struct wire_release *release)
{
    if (dev_wall_s(runtime) >= release->expires_s) {
        return BASE_ERR_EXPIRED;
    }
    if (task != NULL && !base_str_equal(dev_task_name(task), release->task_name)) {
        return BASE_ERR_CONFLICT; // two names with one id
    }
    if (task != NULL && release->release_counter <= task->counter &&
        !is_same_statement(task, release)) {
        return BASE_ERR_ROLLBACK;
    }
    if (pol_bucket(runtime->settings.device_id, release->salt) >= release->max_bucket) {
        return BASE_ERR_STAGE;
    }
    const struct pol_arm arm = {release->arm_salt, release->arm_from, release->arm_to};
    if (!pol_arm_has(&arm, runtime->settings.device_id)) {
        return BASE_ERR_STAGE;
    }
    if (wire_release_is_shadow(release)) {
        BASE_TRY(dev_shadow_admit(runtime, release));
    }
    if (release->kind != WIRE_RELEASE_REMOVE &&
        (release->manifest_bytes == 0 || release->manifest_bytes > WIRE_MANIFEST_BYTES_MAX ||
         wire_sha256_is_zero(&release->manifest))) {
        return BASE_ERR_INVALID;
    }
    if (task == NULL && runtime->task_count >= runtime->settings.tasks_max) {
        return BASE_ERR_LIMIT;
    }
    return BASE_OK;
}

bool dev_refused_before(struct dev_runtime *runtime, uint64_t mark)
{
    for (uint32_t i = 0; i < DEV_REFUSED_MAX; i++) {
        if (runtime->refused[i] == mark) {
            return true;
        }
    }
    memmove(&runtime->refused[1], &runtime->refused[0],
            (DEV_REFUSED_MAX - 1) * sizeof(runtime->refused[0]));
    runtime->refused[0] = mark;
    return false;
}

static enum wire_outcome_kind kind_of(enum base_status status)
{
    if (dev_trust_is_late(status)) {
        return WIRE_OUTCOME_FAIL_CLOCK;
    }
    bool distrust = base_status_is_trust(status) && status != BASE_ERR_STAGE;
    return distrust ? WIRE_OUTCOME_FAIL_VERIFY : WIRE_OUTCOME_NOT_APPLICABLE;
}

// Whose clock is wrong is for people to see, so it says all that was known.
static size_t detail_of(const struct dev_runtime *runtime, const struct wire_release *release,
                        enum base_status status, char out[WIRE_REPORT_DETAIL_MAX])
{
    struct dev_time_now now = dev_clocks(runtime);
    int size = 0;
    if (dev_trust_is_late(status)) {
        size = snprintf(out, WIRE_REPORT_DETAIL_MAX, LATE_FORMAT, base_status_text(status),
                        release->issued_s, release->expires_s, now.own_s,
                        dev_time_said(&runtime->time, &now),
                        dev_time_bracket(&runtime->time, &now).used_s);
    } else {
        size = snprintf(out, WIRE_REPORT_DETAIL_MAX, "%s", base_status_text(status));
    }
    return (size_t)size < WIRE_REPORT_DETAIL_MAX ? (size_t)size : WIRE_REPORT_DETAIL_MAX - 1;
}

// `release` may come from bytes that did not verify: it is good for naming what was refused, and
// for nothing else.
static void refuse(struct dev_runtime *runtime, uint64_t mark, const struct wire_release *release,
                   enum base_status status)
{
    runtime->stats.refused_offers++;
    base_log_debug(runtime->ports->log, "device", "offer refused: %s (%s)",
                   base_status_text(status), base_status_name(status));
    // What was refused for something else before may be too late now.
    mark = dev_trust_is_late(status) ? base_mix64(mark) : mark;
    if (dev_refused_before(runtime, mark) || release == NULL) {
        return;
    }
    char detail[WIRE_REPORT_DETAIL_MAX];
    struct wire_outcome outcome = {
        .kind = kind_of(status),
        .task_id = wire_release_task_id(release),
        .version_id = wire_version_id(&release->manifest),
        .rollout_id = release->rollout_id,
        .fingerprint = (uint64_t)(-(int64_t)status), // the code of the check
        .detail = {detail, detail_of(runtime, release, status, detail)},
    };
    dev_outcome(runtime, &outcome);
}

static struct dev_task *task_add(struct dev_runtime *runtime, const struct wire_release *release)
{
    base_check(runtime->task_count < runtime->settings.tasks_max);
    struct dev_task *task = &runtime->tasks[runtime->task_count++];
    memset(task, 0, sizeof(*task));
    task->offered = true;
    task->id = wire_release_task_id(release);
    task->shadow = wire_release_is_shadow(release);
    task->name_size = (uint8_t)release->task_name.size;
    memcpy(task->name, release->task_name.data, release->task_name.size);
    task->run_due_us = UINT64_MAX;
    return task;
}

static void abandon(struct dev_runtime *runtime, struct dev_task *task)
{
    if (dev_slot_event(task, DEV_UPDATE_ON_ABANDON) == BASE_OK) {
        dev_pull_forget(runtime, task);
        dev_garbage_made(runtime);
    }
}

// The version is active already. A new rollout of it still wants to see it activated and run.
static void renew(struct dev_runtime *runtime, struct dev_task *task,
                  const struct wire_release *release)
{
    struct wire_outcome outcome = {
        .kind = WIRE_OUTCOME_ACTIVATED,
        .task_id = task->id,
        .version_id = wire_version_id(&task->active),
        .rollout_id = release->rollout_id,
    };
    task->active_rollout = release->rollout_id;
    task->reference = false;
    task->runs = 0;
    task->run_due_us = 0;
    dev_outcome(runtime, &outcome);
}

static void follow_install(struct dev_runtime *runtime, struct dev_task *task,
                           const struct wire_release *release, bool is_new, bool retry)
{
    if (wire_sha256_equal(&task->active, &release->manifest)) {
        abandon(runtime, task);
        if (is_new && release->kind == WIRE_RELEASE_INSTALL) {
            renew(runtime, task, release);
        }
        return;
    }
    bool pulling = dev_update_is_pulling((enum dev_update_state)task->state);
    bool failed_here = task->blocked == wire_version_id(&release->manifest);
    if (!is_new && (pulling || (failed_here && !retry))) {
        return; // being pulled already, or it failed here: the answer stays the same
    }
    if (failed_here && retry) {
        task->blocked = 0;
    }
    dev_pull_forget(runtime, task);
    if (dev_slot_event(task, DEV_UPDATE_ON_ACCEPT) == BASE_OK) {
        runtime->dirty = true;
    }
}

static void follow(struct dev_runtime *runtime, struct dev_task *task,
                   const struct wire_release *release, bool retry)
{
    bool is_new = !is_same_statement(task, release);
    if (is_new) {
        // The pull of an older statement's version ends here, so that `accepted` may change.
        abandon(runtime, task);
        task->counter = release->release_counter;
        task->accepted = release->manifest;
        task->accepted_bytes = (uint32_t)release->manifest_bytes;
        task->accepted_rollout = release->rollout_id;
        task->accepted_kind = (uint8_t)release->kind;
        task->failure_reported = false;
        runtime->dirty = true;
    }
    dev_lease_grant(runtime, task, release);
    if (task->shadow) {
        dev_shadow_follow(runtime, task, release, is_new, retry);
        return;
    }
    switch (release->kind) {
    case WIRE_RELEASE_INSTALL:
        follow_install(runtime, task, release, is_new, retry);
        break;
    case WIRE_RELEASE_REVERT:
        if (!wire_sha256_is_zero(&task->kept) &&
            wire_sha256_equal(&task->kept, &release->manifest)) {
            dev_slot_revert(runtime, task, release->rollout_id);
        } else {
            follow_install(runtime, task, release, is_new, retry);
        }
        break;
    case WIRE_RELEASE_REMOVE:
        if (dev_update_has_active((enum dev_update_state)task->state)) {
            dev_slot_remove(runtime, task, release->rollout_id);
        }
        break;
    }
}

// What a verified release tells of the time.
static void time_learn(struct dev_runtime *runtime, const struct dev_task *task,
                       const struct wire_release *release)
{
    struct dev_time_now now = dev_clocks(runtime);
    if (release->issued_s > release->expires_s) {
        return;
    }
    if (runtime->trust.work == NULL && (task == NULL || release->release_counter > task->counter)) {
        dev_time_newer(&runtime->time, release->issued_s, release->expires_s, &now);
    }
    dev_time_offline(&runtime->time, release->issued_s, &now);
}

void dev_offer_take(struct dev_runtime *runtime, const uint8_t *bytes, size_t size, uint8_t flags)
{
    struct wire_envelope envelope;
    struct wire_release release;
    uint64_t mark = base_hash64(bytes, size);
    enum base_status status = wire_envelope_parse(bytes, size, &envelope);
    if (status == BASE_OK && envelope.type != WIRE_ENVELOPE_TYPE_RELEASE) {
        status = BASE_ERR_UNSUPPORTED;
    }
    if (status != BASE_OK) {
        refuse(runtime, mark, NULL, status);
        return;
    }
    bool roles = runtime->trust.work != NULL;
    enum base_status verified = roles ? BASE_OK : verify(runtime, &envelope);
    status = wire_release_parse(envelope.payload, envelope.payload_bytes, &release);
    if (roles && status == BASE_OK) { // which keys count depends on the task and the stage
        verified = dev_trust_signatures(runtime, &envelope, &release);
    }
    if (status != BASE_OK) {
        refuse(runtime, mark, NULL, verified != BASE_OK ? verified : status);
        return;
    }
    if (verified == BASE_ERR_CORRUPT) {
        return; // the root was damaged here, and comes first: then the device asks again
    }
    if (verified != BASE_OK) {
        refuse(runtime, mark, &release, verified);
        return;
    }
    struct dev_task *task = dev_task_find(runtime, wire_release_task_id(&release));
    if (task != NULL) {
        task->offered = true;
    }
    time_learn(runtime, task, &release);
    status = admit(runtime, task, &release);
    if (status == BASE_OK && roles) {
        status = dev_trust_release(runtime, &release);
        if (status == BASE_ERR_BUSY) {
            return; // metadata comes first, then the device asks again
        }
    }
    if (status == BASE_ERR_EXPIRED && task != NULL && is_same_statement(task, &release)) {
        return; // it was followed in time
    }
    if (status != BASE_OK) {
        refuse(runtime, mark, &release, status);
        return;
    }
    if (task == NULL && release.kind == WIRE_RELEASE_REMOVE) {
        return; // never had it
    }
    follow(runtime, task != NULL ? task : task_add(runtime, &release), &release,
           (flags & WIRE_OFFER_FLAG_RETRY) != 0);
}

void dev_offers_none(struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        runtime->tasks[i].offered = false;
    }
}

void dev_offers_withdrawn(struct dev_runtime *runtime, uint8_t flags)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        task->over = task->over ||
                     (task->shadow && !task->offered && (flags & WIRE_OFFER_FLAG_SHADOWS) != 0);
        if (!task->offered && task->accepted_kind == WIRE_RELEASE_INSTALL &&
            dev_update_is_pulling((enum dev_update_state)task->state)) {
            abandon(runtime, task);
        }
    }
}
