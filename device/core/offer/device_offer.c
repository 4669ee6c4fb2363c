// Judging offers: which statement a device follows. This is where a stolen gateway ends.
//
// A statement is an approval: this version may run, this widely. Which approved version runs is
// ordered, forwards or back: by the director's answer on a device with a root, else by what the
// gateway answers a check-in with. No order goes below the task's floor.
//
// Called for each envelope of a check-in's answer (device_control.c) or of an offer header
// (offer_header.c), on the runtime's thread.
#include "core/offer/device_offer.h"

#include "core/offer/kept_offers.h"
#include "core/pull/device_pull.h"
#include "core/run/device_run.h"
#include "core/run/device_shadow.h"
#include "core/slots/device_slots.h"
#include "core/sweep/device_past.h"
#include "core/trust/device_lease.h"
#include "core/trust/device_trust.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/prng.h"
#include "policy/bucket.h"
#include "wire/trust/offer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Order of the checks: frame, signatures over the raw bytes, only then the payload; expiry by the
// time the device believes (device_time.h) of what is news; floor, and that one counter has one
// content; the device's own bucket against the signed stage; on a device with a root also the other
// roles (trust_judge.c). A refusal keeps the state as it is and is reported once under its own
// code.

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
    BASE_TRY(wire_envelope_signed_bytes(
        envelope->type, (struct base_span){envelope->payload, envelope->payload_bytes}, message,
        sizeof(message), &size));
    for (uint32_t i = 0; i < runtime->settings.trusted_key_count; i++) {
        signers += key_signed(runtime, i, envelope, message, size) ? 1 : 0;
    }
    return signers >= runtime->settings.signature_threshold ? BASE_OK : BASE_ERR_SIGNATURE;
}

// Does `release` say what was followed under this counter, for this content?
static bool says_the_same(const struct dev_approval *approval, const struct wire_sha256 *manifest,
                          const struct wire_release *release)
{
    return approval->counter == release->release_counter &&
           approval->rollout_id == release->rollout_id &&
           wire_sha256_equal(manifest, &release->manifest);
}

static bool is_same_statement(const struct dev_task *task, const struct wire_release *release)
{
    return says_the_same(&task->offer.accepted_by, &task->offer.accepted, release);
}

// One counter has one content: does the release give another one to a counter that is known here?
static bool contradicts(const struct dev_task *task, const struct wire_release *release)
{
    const struct {
        const struct dev_approval *by;
        const struct wire_sha256 *manifest;
    } known[] = {
        {&task->offer.newest, &task->offer.newest_manifest},
        {&task->offer.accepted_by, &task->offer.accepted},
        {&task->slots.active.by, &task->slots.active.manifest},
        {&task->slots.kept.by, &task->slots.kept.manifest},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].by->counter == release->release_counter &&
            !says_the_same(known[i].by, known[i].manifest, release)) {
            return true;
        }
    }
    return false;
}

static bool is_news(const struct dev_task *task, const struct wire_release *release)
{
    return task == NULL || release->release_counter > task->offer.newest.counter;
}

// Fills in what is remembered of a task that holds no place, or does again. False: nothing.
static bool recall(const struct dev_runtime *runtime, struct dev_task *task)
{
    struct dev_past past;
    if (!dev_past_recall(runtime, task->id, &past)) {
        return false;
    }
    dev_slot_recall(task, past.floor);
    task->offer.newest = past.newest;
    task->offer.newest_manifest = past.newest_manifest;
    return true;
}

// What the device knows of the release's task, in `memory` of one that holds no place; NULL:
// nothing.
static const struct dev_task *known_of(struct dev_runtime *runtime,
                                       const struct wire_release *release, struct dev_task *memory)
{
    struct dev_task *task = dev_task_find(runtime, wire_release_task_id(release));
    if (task != NULL) {
        return task;
    }
    memset(memory, 0, sizeof(*memory));
    memory->id = wire_release_task_id(release);
    memory->name_size = (uint8_t)release->task_name.size;
    memcpy(memory->name, release->task_name.data, release->task_name.size);
    return recall(runtime, memory) ? memory : NULL;
}

// May a verified release be followed? `task` is NULL when the device does not know it; `held`: it
// has a place.
static enum base_status admit(const struct dev_runtime *runtime, const struct dev_task *task,
                              bool held, const struct wire_release *release)
{
    if (task != NULL && !base_str_equal(dev_task_name(task), release->task_name)) {
        return BASE_ERR_CONFLICT; // two names with one id
    }
    // What is older than something followed was good in its time: the way back does not run out.
    if (is_news(task, release) && dev_wall_s(runtime) >= release->expires_s) {
        return BASE_ERR_EXPIRED;
    }
    if (task != NULL &&
        (release->release_counter < task->slots.floor || contradicts(task, release))) {
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
    if (!held && runtime->task_count >= runtime->settings.tasks_max) {
        return BASE_ERR_LIMIT;
    }
    return BASE_OK;
}

// Is it older than what ran well here? A fault of whoever offers it, and none of the version's.
static bool is_below_floor(struct dev_runtime *runtime, const struct wire_release *release)
{
    struct dev_task memory;
    const struct dev_task *task = known_of(runtime, release, &memory);
    return task != NULL && release->release_counter < task->slots.floor;
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

// How long what was not admitted is not to be offered again.
static enum dev_refusal refusal_of(enum base_status status)
{
    switch (status) {
    case BASE_ERR_EXPIRED:
        return DEV_REFUSAL_PASSES;
    case BASE_ERR_CONFLICT:
    case BASE_ERR_ROLLBACK:
    case BASE_ERR_NOT_FOUND:
    case BASE_ERR_EXISTS:
    case BASE_ERR_LIMIT:
        return DEV_REFUSAL_UNTIL_TASKS;
    default: // its bucket, or what the statement says
        return DEV_REFUSAL_STANDS;
    }
}

// `release` may come from bytes that did not verify: it is good for naming what was refused, and
// for nothing else.
static void refuse(struct dev_runtime *runtime, uint64_t mark, const struct wire_release *release,
                   enum base_status status, enum dev_refusal refusal)
{
    if (dev_kept_refused(runtime)) {
        return;
    }
    runtime->stats.refused_offers++;
    runtime->stats.refused_offer_why = (int16_t)status;
    base_log_debug(runtime->ports->log, "device", "offer refused: %s (%s)",
                   base_status_text(status), base_status_name(status));
    // What was refused for something else before may be too late now.
    mark = dev_trust_is_late(status) ? base_mix64(mark) : mark;
    bool before = dev_refusals_before(&runtime->refusals, mark);
    bool news = dev_refusals_stand(&runtime->refusals, mark, refusal);
    runtime->dirty = runtime->dirty || news;
    if (before || release == NULL) {
        return;
    }
    char detail[WIRE_REPORT_DETAIL_MAX];
    bool older = status == BASE_ERR_ROLLBACK && is_below_floor(runtime, release);
    struct wire_outcome outcome = {
        .kind = older ? WIRE_OUTCOME_NOT_APPLICABLE : kind_of(status),
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
    task->offer.made = true;
    task->id = wire_release_task_id(release);
    task->shadow = wire_release_is_shadow(release);
    task->name_size = (uint8_t)release->task_name.size;
    memcpy(task->name, release->task_name.data, release->task_name.size);
    dev_tell_of(runtime, DEV_PART_EVENT_SCHEDULE, task);
    if (recall(runtime, task)) {
        dev_past_forget(runtime, task->id);
    }
    return task;
}

// The version is active already, and its rollout is another one now: that wants to see it activated
// and run.
static void enter(struct dev_runtime *runtime, struct dev_task *task)
{
    struct wire_outcome outcome = {
        .kind = WIRE_OUTCOME_ACTIVATED,
        .task_id = task->id,
        .version_id = wire_version_id(&task->slots.active.manifest),
        .rollout_id = task->offer.accepted_by.rollout_id,
    };
    dev_run_entered(task);
    dev_outcome(runtime, &outcome);
}

// By another statement. An older one takes it out of the rollout it came with.
static void renew(struct dev_runtime *runtime, struct dev_task *task)
{
    if (dev_slot_leads_back(task)) {
        struct wire_outcome outcome = {
            .kind = WIRE_OUTCOME_ROLLED_BACK,
            .task_id = task->id,
            .version_id = wire_version_id(&task->slots.active.manifest),
            .rollout_id = task->slots.active.rollout,
        };
        dev_outcome(runtime, &outcome);
    }
    dev_slot_stand(runtime, task);
    dev_slot_adopt(task);
    enter(runtime, task);
}

static void follow_install(struct dev_runtime *runtime, struct dev_task *task,
                           const struct wire_release *release, bool is_new, bool retry)
{
    if (wire_sha256_equal(&task->slots.active.manifest, &release->manifest)) {
        dev_slot_abandon(runtime, task);
        if (is_new &&
            !says_the_same(&task->slots.active.by, &task->slots.active.manifest, release)) {
            renew(runtime, task);
        }
        return;
    }
    if (is_new && dev_slot_leads_back(task) &&
        wire_sha256_equal(&task->slots.kept.manifest, &release->manifest)) {
        // It proved itself here: no download and no trial.
        dev_slot_revert(runtime, task);
        bool moves = task->slots.active.rollout != task->offer.accepted_by.rollout_id;
        dev_slot_adopt(task);
        if (moves) {
            enter(runtime, task);
        }
        return;
    }
    bool pulling = dev_update_is_pulling((enum dev_update_state)task->slots.state);
    uint64_t version_id = wire_version_id(&release->manifest);
    bool failed_here = dev_slot_blocks(runtime, task, version_id);
    if (!is_new && (pulling || (failed_here && !retry))) {
        return; // being pulled already, or it failed here: the answer stays the same
    }
    if (failed_here && retry) {
        dev_slot_unblock(runtime, task, version_id);
    }
    dev_tell_of(runtime, DEV_PART_EVENT_UNWANTED, task);
    if (dev_slot_event(task, DEV_UPDATE_ON_ACCEPT) == BASE_OK) {
        runtime->dirty = true;
    }
}

static void accept(struct dev_runtime *runtime, struct dev_task *task,
                   const struct wire_release *release)
{
    base_assert(release->release_counter >= task->slots.floor);
    // The pull of another statement's version ends here, so that `accepted` may change.
    dev_slot_abandon(runtime, task);
    task->offer.again = (struct dev_again){0};
    bool news = is_news(task, release);
    task->offer.accepted = release->manifest;
    task->offer.accepted_bytes = (uint32_t)release->manifest_bytes;
    task->offer.accepted_by = (struct dev_approval){release->release_counter, release->rollout_id};
    if (news) {
        task->offer.newest = task->offer.accepted_by;
        task->offer.newest_manifest = task->offer.accepted;
    }
    dev_pull_accepted(task);
    runtime->dirty = true;
}

// The floor that a followed statement names stands beside it until the version ran well: it may
// turn out not to be for this device, or to be bad.
static void note_floor(struct dev_runtime *runtime, struct dev_task *task,
                       const struct wire_release *release, bool is_new)
{
    if (is_new || release->floor > task->offer.accepted_floor) {
        runtime->dirty = runtime->dirty || task->offer.accepted_floor != release->floor;
        task->offer.accepted_floor = release->floor;
    }
    if (says_the_same(&task->slots.active.by, &task->slots.active.manifest, release) &&
        release->floor > task->slots.active_floor) {
        dev_slot_name_floor(task, release->floor);
        runtime->dirty = true;
    }
}

// False: it changed nothing.
static bool follow(struct dev_runtime *runtime, struct dev_task *task,
                   const struct wire_release *release, bool retry)
{
    bool is_new = !is_same_statement(task, release);
    bool failed_here = dev_slot_blocks(runtime, task, wire_version_id(&release->manifest));
    if (is_new && failed_here && !retry && !is_news(task, release)) {
        return false; // an older approval is no reason to try again what failed here
    }
    uint8_t state = task->slots.state;
    if (is_new) {
        accept(runtime, task, release);
    }
    dev_lease_grant(runtime, task, release);
    if (task->shadow) {
        task->offer.over = false;
        dev_shadow_follow(runtime, task, release, is_new, retry);
    } else {
        follow_install(runtime, task, release, is_new, retry);
    }
    note_floor(runtime, task, release, is_new);
    return is_new || task->slots.state != state;
}

// What a verified release tells of the time.
static void time_learn(struct dev_runtime *runtime, const struct dev_task *task,
                       const struct wire_release *release)
{
    struct dev_time_now now = dev_clocks(runtime);
    if (release->issued_s > release->expires_s) {
        return;
    }
    if (!dev_trust_is_rooted(runtime) && is_news(task, release)) {
        dev_time_newer(&runtime->time, release->issued_s, release->expires_s, &now);
    }
    dev_time_offline(&runtime->time, release->issued_s, &now);
}

// ---- STOP

void dev_offer_refuse(struct dev_runtime *runtime, uint64_t mark, enum base_status status,
                      struct wire_outcome *outcome)
{
    runtime->stats.refused_offers++;
    runtime->stats.refused_offer_why = (int16_t)status;
    base_log_debug(runtime->ports->log, "device", "order refused: %s (%s)",
                   base_status_text(status), base_status_name(status));
    if (dev_refusals_before(&runtime->refusals, mark)) {
        return;
    }
    outcome->kind = kind_of(status);
    outcome->fingerprint = (uint64_t)(-(int64_t)status);
    outcome->detail = base_str_of(base_status_text(status));
    dev_outcome(runtime, outcome);
}

// Nothing is accepted any more.
static void forget_accepted(struct dev_runtime *runtime, struct dev_task *task)
{
    task->offer.accepted_by = (struct dev_approval){0};
    task->offer.accepted_floor = 0;
    memset(&task->offer.accepted, 0, sizeof(task->offer.accepted));
    task->offer.accepted_bytes = 0;
    dev_pull_accepted(task);
    runtime->dirty = true;
    dev_tell_that(runtime, DEV_PART_EVENT_ENDED);
}

static void follow_stop(struct dev_runtime *runtime, struct dev_task *task)
{
    enum dev_update_state state = (enum dev_update_state)task->slots.state;
    if (!dev_update_has_active(state) && !dev_update_is_pulling(state)) {
        return; // nothing of it runs or comes
    }
    if (task->shadow) {
        task->offer.over = true;
    } else if (dev_update_has_active(state)) {
        dev_slot_remove(runtime, task);
    } else {
        dev_slot_abandon(runtime, task);
    }
    if (!task->shadow && !dev_update_has_active((enum dev_update_state)task->slots.state)) {
        forget_accepted(runtime, task);
    }
    dev_lease_drop(task);
    runtime->dirty = true;
    dev_trust_followed(runtime);
}

// Something that only the answer to a check-in may order: so the device asks, once.
static void ask_instead(struct dev_runtime *runtime, uint64_t mark)
{
    if (!dev_refusals_before(&runtime->refusals, mark)) {
        dev_tell_that(runtime, DEV_PART_EVENT_CHECKIN_SOON);
    }
}

static void stop_take(struct dev_runtime *runtime, const struct wire_envelope *envelope,
                      uint64_t mark, bool asked)
{
    uint64_t task_id = 0;
    if (wire_stop_parse(envelope->payload, envelope->payload_bytes, &task_id) != BASE_OK) {
        refuse(runtime, mark, NULL, BASE_ERR_INVALID, DEV_REFUSAL_STANDS);
        return;
    }
    enum base_status status = BASE_OK;
    if (dev_trust_is_rooted(runtime)) {
        status = dev_trust_names_stop(runtime, task_id);
    }
    struct dev_task *task = dev_task_find(runtime, task_id);
    if (status == BASE_ERR_BUSY || (status == BASE_OK && task == NULL)) {
        return; // reported already; or it was never here
    }
    if (status != BASE_OK) {
        dev_offer_refuse(runtime, mark, status, &(struct wire_outcome){.task_id = task_id});
    } else if (!asked) {
        ask_instead(runtime, mark);
    } else {
        follow_stop(runtime, task);
    }
}

// ---- Releases

// Frame, signatures and payload. False: refused.
static bool release_verified(struct dev_runtime *runtime, const struct wire_envelope *envelope,
                             uint64_t mark, struct wire_release *out)
{
    bool roles = dev_trust_is_rooted(runtime);
    enum base_status verified = roles ? BASE_OK : verify(runtime, envelope);
    enum base_status status = wire_release_parse(envelope->payload, envelope->payload_bytes, out);
    if (roles && status == BASE_OK) { // which keys count depends on the task and the stage
        verified = dev_trust_signatures(runtime, envelope, out);
    }
    if (status != BASE_OK) {
        if (status == BASE_ERR_UNSUPPORTED) {
            base_log_debug(runtime->ports->log, "device", "release of kind %u: not known here",
                           (unsigned)wire_release_kind(envelope->payload, envelope->payload_bytes));
        }
        refuse(runtime, mark, NULL, verified != BASE_OK ? verified : status, DEV_REFUSAL_STANDS);
        return false;
    }
    if (verified == BASE_ERR_CORRUPT) {
        return false; // the root was damaged here, and comes first: then the device asks again
    }
    if (roles && (verified == BASE_ERR_SIGNATURE || verified == BASE_ERR_THRESHOLD) &&
        dev_trust_looks(runtime, mark)) {
        return false;
    }
    if (verified != BASE_OK) {
        // Other keys may come with the next root; pinned ones are the settings'.
        refuse(runtime, mark, out, verified, roles ? DEV_REFUSAL_PASSES : DEV_REFUSAL_STANDS);
    }
    return verified == BASE_OK;
}

// True: it waits for metadata.
static bool release_take(struct dev_runtime *runtime, const struct wire_release *release,
                         uint64_t mark, uint8_t flags, bool asked)
{
    struct dev_task *task = dev_task_find(runtime, wire_release_task_id(release));
    if (task != NULL) {
        task->offer.made = true;
    }
    struct dev_task memory;
    const struct dev_task *known = known_of(runtime, release, &memory);
    time_learn(runtime, known, release);
    enum base_status status = admit(runtime, known, task != NULL, release);
    enum dev_refusal refusal = refusal_of(status);
    if (status == BASE_OK && dev_trust_is_rooted(runtime)) {
        status = dev_trust_release(runtime, release);
        refusal = DEV_REFUSAL_PASSES;
        if (status == BASE_ERR_BUSY) {
            return true;
        }
    }
    bool followed = task != NULL && is_same_statement(task, release);
    if (status == BASE_ERR_EXPIRED && followed) {
        return false; // it was followed in time
    }
    if (status != BASE_OK) {
        refuse(runtime, mark, release, status, refusal);
        return false;
    }
    if (!asked && !followed && !is_news(known, release)) {
        ask_instead(runtime, mark);
        return false;
    }
    task = task != NULL ? task : task_add(runtime, release);
    if (follow(runtime, task, release, (flags & WIRE_OFFER_FLAG_RETRY) != 0)) {
        dev_trust_followed(runtime);
    }
    return false;
}

void dev_offer_take(struct dev_runtime *runtime, const uint8_t *bytes, size_t size, uint8_t flags,
                    bool asked)
{
    struct wire_envelope envelope;
    struct wire_release release;
    uint64_t mark = wire_profile_mark(bytes, size);
    enum base_status status = wire_envelope_parse(bytes, size, &envelope);
    if (status == BASE_OK && envelope.type == WIRE_ENVELOPE_TYPE_STOP) {
        stop_take(runtime, &envelope, mark, asked);
        return;
    }
    if (status == BASE_OK && envelope.type != WIRE_ENVELOPE_TYPE_RELEASE) {
        status = BASE_ERR_UNSUPPORTED;
    }
    if (status != BASE_OK) {
        refuse(runtime, mark, NULL, status, DEV_REFUSAL_STANDS);
    } else if (!release_verified(runtime, &envelope, mark, &release)) {
        (void)dev_kept_refused(runtime);
    } else if (release_take(runtime, &release, mark, flags, asked)) {
        dev_kept_wait(runtime, bytes, size, flags);
    }
}

void dev_offers_none(struct dev_runtime *runtime)
{
    dev_kept_drop(runtime);
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        runtime->tasks[i].offer.made = false;
        runtime->tasks[i].offer.moved = false;
    }
}

void dev_offers_withdrawn(struct dev_runtime *runtime, uint8_t flags)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        task->offer.over = task->offer.over || (task->shadow && !task->offer.made &&
                                                (flags & WIRE_OFFER_FLAG_SHADOWS) != 0);
        if (!task->offer.made && dev_update_is_pulling((enum dev_update_state)task->slots.state)) {
            dev_slot_abandon(runtime, task);
        }
        if (!task->offer.made && task->offer.moved) { // the answer is about what was there before
            dev_tell_at(runtime, DEV_PART_EVENT_CHECKIN, dev_now_us(runtime));
        }
    }
}

static void init(struct dev_runtime *runtime, uint64_t first_us)
{
    (void)first_us;
    dev_kept_init(runtime);
}

// What was ordered of a version is done when another one begins, or it once more.
static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    if (event->kind == DEV_PART_EVENT_BEGUN) {
        event->task->offer.again = (struct dev_again){0};
    } else if (event->kind == DEV_PART_EVENT_ACTIVATED) {
        event->task->offer.moved = true;
        dev_kept_moved(runtime);
    } else if (event->kind == DEV_PART_EVENT_HALT) {
        dev_kept_moved(runtime);
    }
    return false;
}

const struct dev_part dev_offer_part = {.name = "offer",
                                        .init = init,
                                        .on_event = on_event,
                                        .hears = DEV_PART_HEARS(BEGUN) | DEV_PART_HEARS(ACTIVATED) |
                                                 DEV_PART_HEARS(HALT)};
