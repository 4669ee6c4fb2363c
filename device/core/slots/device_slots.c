// The versions of a task on the device: the active one, and the last good one kept beside it so
// that going back needs no download. Also the collection of blobs that no version needs any more.
//
// Called by the offer, pull and run code and at boot. Changes records in memory only; dev_flush
// makes them durable before anything is done on their strength.
#include "core/slots/device_slots.h"

#include "core/slots/device_content.h"

#include "base/check.h"

#include <string.h>

static const struct dev_version no_version = {.rollout = 0};

enum base_status dev_slot_event(struct dev_task *task, enum dev_update_event event)
{
    enum dev_update_state next = DEV_UPDATE_EMPTY;
    BASE_TRY(dev_update_next((enum dev_update_state)task->slots.state, event, &next));
    task->slots.state = (uint8_t)next;
    return BASE_OK;
}

void dev_slot_ran(struct dev_task *task)
{
    task->slots.floor =
        task->slots.active_floor > task->slots.floor ? task->slots.active_floor : task->slots.floor;
}

// Of a shadow only that it is here and how it compares is worth a word: it was never in charge.
static void say(struct dev_runtime *runtime, const struct dev_task *task,
                enum wire_outcome_kind kind, const struct wire_sha256 *version, uint64_t rollout_id)
{
    if (task->shadow && kind != WIRE_OUTCOME_DOWNLOADED) {
        return;
    }
    struct wire_outcome outcome = {
        .kind = kind,
        .task_id = task->id,
        .version_id = wire_version_id(version),
        .rollout_id = rollout_id,
    };
    dev_outcome(runtime, &outcome);
}

// The active version begins: it has not run, and nothing is held against it.
static void active_begin(struct dev_runtime *runtime, struct dev_task *task)
{
    task->content.unproven &= (uint8_t)~DEV_UNPROVEN_ACTIVE;
    task->content.damaged &= (uint8_t)~DEV_UNPROVEN_ACTIVE;
    task->content.repairs = 0;
    task->content.damage_mark = 0;
    task->content.repair_due_us = 0;
    dev_tell_of(runtime, DEV_PART_EVENT_BEGUN, task);
}

static void active_set(struct dev_runtime *runtime, struct dev_task *task,
                       const struct dev_version *version)
{
    task->slots.active = *version;
    task->slots.active_floor = 0;
    task->slots.placebo = false;
    active_begin(runtime, task);
}

static void kept_clear(struct dev_task *task)
{
    task->slots.kept = no_version;
    task->content.unproven &= (uint8_t)~DEV_UNPROVEN_KEPT;
    task->content.damaged &= (uint8_t)~DEV_UNPROVEN_KEPT;
}

// What a manifest says about when its version runs.
static void schedule_learn(struct dev_task *task, const struct wire_manifest *manifest)
{
    struct wire_declaration declaration;
    task->slots.every_s = manifest->every_s;
    task->slots.triggered =
        dev_manifest_declares(manifest, &declaration) && declaration.trigger_count > 0;
}

// The kept version becomes the active one. It has proved itself: no trial, and its first success is
// no news.
static void kept_take(struct dev_runtime *runtime, struct dev_task *task)
{
    struct dev_version version = task->slots.kept;
    bool unproven = (task->content.unproven & DEV_UNPROVEN_KEPT) != 0;
    bool damaged = (task->content.damaged & DEV_UNPROVEN_KEPT) != 0;
    kept_clear(task);
    active_set(runtime, task, &version);
    task->content.unproven |= (uint8_t)(unproven ? DEV_UNPROVEN_ACTIVE : 0);
    task->content.damaged |= (uint8_t)(damaged ? DEV_UNPROVEN_ACTIVE : 0);
    dev_tell_of(runtime, DEV_PART_EVENT_PROVEN, task);
    struct dev_manifest manifest;
    if (dev_manifest_open(runtime, &version.manifest, &manifest) == BASE_OK) {
        schedule_learn(task, &manifest.parsed);
        dev_manifest_close(runtime, &manifest);
    }
    dev_garbage_made(runtime);
}

void dev_slot_abandon(struct dev_runtime *runtime, struct dev_task *task)
{
    if (dev_slot_event(task, DEV_UPDATE_ON_ABANDON) == BASE_OK) {
        dev_tell_of(runtime, DEV_PART_EVENT_UNWANTED, task);
        dev_garbage_made(runtime);
    }
}

// A pull of what has just become active has nothing left to do.
static void pull_settle(struct dev_runtime *runtime, struct dev_task *task)
{
    if (dev_update_is_pulling((enum dev_update_state)task->slots.state) &&
        wire_sha256_equal(&task->offer.accepted, &task->slots.active.manifest) &&
        dev_slot_event(task, DEV_UPDATE_ON_ABANDON) == BASE_OK) {
        dev_tell_of(runtime, DEV_PART_EVENT_UNWANTED, task);
    }
}

bool dev_slot_leads_back(const struct dev_task *task)
{
    return !wire_sha256_is_zero(&task->slots.active.manifest) &&
           task->offer.accepted_by.counter < task->slots.active.by.counter;
}

void dev_slot_adopt(struct dev_task *task)
{
    base_assert(wire_sha256_equal(&task->slots.active.manifest, &task->offer.accepted));
    task->slots.active.by = task->offer.accepted_by;
    task->slots.active.rollout = task->offer.accepted_by.rollout_id;
}

void dev_slot_name_floor(struct dev_task *task, uint64_t floor)
{
    task->slots.active_floor = floor;
}

void dev_slot_recall(struct dev_task *task, uint64_t floor)
{
    task->slots.floor = floor;
}

// What every activation ends with.
static void activated(struct dev_runtime *runtime, struct dev_task *task,
                      const struct wire_manifest *manifest)
{
    schedule_learn(task, manifest);
    runtime->stats.activations += task->shadow ? 0 : 1;
    dev_garbage_made(runtime);
}

void dev_slot_activate(struct dev_runtime *runtime, struct dev_task *task,
                       const struct wire_manifest *manifest)
{
    bool trial =
        dev_update_on_trial((enum dev_update_state)task->slots.state) && !task->slots.placebo;
    bool settled = !task->shadow && !trial;
    struct dev_version before = task->slots.active;
    const struct dev_version next = {
        .manifest = task->offer.accepted,
        .exclusive = task->incoming.exclusive,
        .by = task->offer.accepted_by,
        .rollout = task->offer.accepted_by.rollout_id,
    };
    bool back = dev_slot_leads_back(task);
    if (dev_slot_event(task, DEV_UPDATE_ON_ACTIVATE) != BASE_OK) {
        return;
    }
    base_assert(!wire_sha256_is_zero(&next.manifest));
    if (settled) { // what is on trial is not good enough to keep
        task->content.unproven =
            (task->content.unproven & DEV_UNPROVEN_ACTIVE) != 0 ? DEV_UNPROVEN_KEPT : 0;
        task->content.damaged =
            (task->content.damaged & DEV_UNPROVEN_ACTIVE) != 0 ? DEV_UNPROVEN_KEPT : 0;
        task->slots.kept = before;
    }
    if (wire_sha256_equal(&task->slots.kept.manifest, &next.manifest)) {
        kept_clear(task);
    }
    if (back) { // out of one rollout and into another, which may be open
        say(runtime, task, WIRE_OUTCOME_ROLLED_BACK, &before.manifest, before.rollout);
        runtime->stats.rollbacks++;
    }
    active_set(runtime, task, &next);
    say(runtime, task, WIRE_OUTCOME_DOWNLOADED, &next.manifest, next.rollout);
    say(runtime, task, WIRE_OUTCOME_ACTIVATED, &next.manifest, next.rollout);
    task->slots.active_floor = task->offer.accepted_floor;
    dev_tell_of(runtime, DEV_PART_EVENT_ACTIVATED, task);
    activated(runtime, task, manifest);
}

void dev_slot_again(struct dev_runtime *runtime, struct dev_task *task,
                    const struct wire_manifest *manifest)
{
    if (dev_slot_event(task, DEV_UPDATE_ON_AGAIN) != BASE_OK) {
        return;
    }
    base_assert(task->offer.again.rollout_id != 0);
    task->slots.again = task->offer.again;
    task->slots.placebo = true;
    task->content.renewed++;
    active_begin(runtime, task);
    say(runtime, task, WIRE_OUTCOME_ACTIVATED, &task->slots.active.manifest,
        task->slots.again.rollout_id);
    runtime->stats.again++;
    activated(runtime, task, manifest);
}

void dev_slot_stand(struct dev_runtime *runtime, struct dev_task *task)
{
    if (!task->slots.placebo) {
        return;
    }
    if (dev_slot_event(task, DEV_UPDATE_ON_STAND) == BASE_OK) {
        dev_tell_of(runtime, DEV_PART_EVENT_STOOD, task);
    }
    task->slots.placebo = false;
}

bool dev_slot_failed(struct dev_runtime *runtime, struct dev_task *task)
{
    if (!task->slots.placebo) {
        dev_slot_give_up(runtime, task);
        return false;
    }
    dev_slot_stand(runtime, task);
    runtime->dirty = true;
    return true;
}

uint64_t dev_told_rollout(const struct dev_task *task)
{
    return task->slots.placebo ? task->slots.again.rollout_id : task->slots.active.rollout;
}

void dev_slot_block(struct dev_runtime *runtime, struct dev_task *task, uint64_t version_id)
{
    if (task->slots.blocked != 0 && task->slots.blocked != version_id) {
        uint64_t mark = wire_profile_version_mark(task->id, task->slots.blocked);
        (void)dev_refusals_before(&runtime->refusals, mark);
        (void)dev_refusals_stand(&runtime->refusals, mark, DEV_REFUSAL_STANDS);
    }
    if (version_id != 0) {
        (void)dev_refusals_lift(&runtime->refusals,
                                wire_profile_version_mark(task->id, version_id));
    }
    task->slots.blocked = version_id;
    runtime->dirty = true;
}

bool dev_slot_blocks(const struct dev_runtime *runtime, const struct dev_task *task,
                     uint64_t version_id)
{
    return task->slots.blocked == version_id ||
           dev_refusals_stands(&runtime->refusals, wire_profile_version_mark(task->id, version_id));
}

void dev_slot_unblock(struct dev_runtime *runtime, struct dev_task *task, uint64_t version_id)
{
    (void)dev_refusals_lift(&runtime->refusals, wire_profile_version_mark(task->id, version_id));
    task->slots.blocked = task->slots.blocked == version_id ? 0 : task->slots.blocked;
    runtime->dirty = true;
}

void dev_slot_forgive(struct dev_task *shadow)
{
    base_assert(shadow->shadow);
    shadow->slots.blocked = 0;
}

void dev_slot_give_up(struct dev_runtime *runtime, struct dev_task *task)
{
    uint64_t failed = wire_version_id(&task->slots.active.manifest);
    if (dev_slot_fall_back(runtime, task)) {
        dev_slot_block(runtime, task, failed);
    }
}

bool dev_slot_fall_back(struct dev_runtime *runtime, struct dev_task *task)
{
    struct wire_sha256 failed = task->slots.active.manifest;
    uint64_t rollout_id = task->slots.active.rollout;
    bool kept = !wire_sha256_is_zero(&task->slots.kept.manifest);
    if (dev_slot_event(task, kept ? DEV_UPDATE_ON_FALL_BACK : DEV_UPDATE_ON_FALL_EMPTY) !=
        BASE_OK) {
        return false;
    }
    kept_take(runtime, task);
    pull_settle(runtime, task);
    say(runtime, task, WIRE_OUTCOME_ROLLED_BACK, &failed, rollout_id);
    runtime->stats.rollbacks++;
    return true;
}

void dev_slot_revert(struct dev_runtime *runtime, struct dev_task *task)
{
    struct wire_sha256 left = task->slots.active.manifest;
    uint64_t rollout_id = task->slots.active.rollout;
    base_assert(!wire_sha256_is_zero(&task->slots.kept.manifest));
    if (dev_slot_event(task, DEV_UPDATE_ON_REVERT) != BASE_OK) {
        return;
    }
    dev_tell_of(runtime, DEV_PART_EVENT_UNWANTED, task);
    kept_take(runtime, task);
    say(runtime, task, WIRE_OUTCOME_ROLLED_BACK, &left, rollout_id);
    runtime->stats.rollbacks++;
}

void dev_slot_remove(struct dev_runtime *runtime, struct dev_task *task)
{
    struct wire_sha256 left = task->slots.active.manifest;
    uint64_t rollout_id = task->slots.active.rollout;
    if (dev_slot_event(task, DEV_UPDATE_ON_REMOVE) != BASE_OK) {
        return;
    }
    dev_tell_of(runtime, DEV_PART_EVENT_UNWANTED, task);
    kept_clear(task);
    active_set(runtime, task, &no_version);
    task->slots.every_s = 0;
    task->slots.triggered = false;
    runtime->stats.withdrawals++;
    say(runtime, task, WIRE_OUTCOME_REMOVED, &left, rollout_id);
    dev_garbage_made(runtime);
}

void dev_task_drop(struct dev_runtime *runtime, struct dev_task *task)
{
    uint32_t index = (uint32_t)(task - runtime->tasks);
    dev_tell_of(runtime, DEV_PART_EVENT_DROPPED, task);
    base_check(index < runtime->task_count);
    runtime->task_count--;
    memmove(task, task + 1, (runtime->task_count - index) * sizeof(*task));
}

void dev_slot_forget_kept(struct dev_runtime *runtime, struct dev_task *task)
{
    kept_clear(task);
    dev_garbage_made(runtime);
}

void dev_slot_empty(struct dev_runtime *runtime, struct dev_task *task)
{
    if (dev_slot_event(task, DEV_UPDATE_ON_FALL_EMPTY) == BASE_OK) {
        kept_clear(task);
        active_set(runtime, task, &no_version);
        runtime->stats.withdrawals++;
        dev_garbage_made(runtime);
    }
}

void dev_slot_fail_shadow(struct dev_runtime *runtime, struct dev_task *shadow)
{
    base_assert(shadow->shadow);
    shadow->slots.blocked = wire_version_id(&shadow->slots.active.manifest);
    dev_slot_empty(runtime, shadow);
}

void dev_slot_withdraw(struct dev_runtime *runtime, struct dev_task *task, enum base_status why)
{
    struct wire_sha256 left = task->slots.active.manifest;
    uint64_t rollout_id = task->slots.active.rollout;
    bool kept = !wire_sha256_is_zero(&task->slots.kept.manifest);
    if (dev_slot_event(task, kept ? DEV_UPDATE_ON_FALL_BACK : DEV_UPDATE_ON_FALL_EMPTY) !=
        BASE_OK) {
        return;
    }
    kept_take(runtime, task);
    pull_settle(runtime, task);
    runtime->stats.withdrawals++;
    base_log_debug(runtime->ports->log, "device", "version withdrawn: %s (%s)",
                   base_status_text(why), base_status_name(why));
    struct wire_outcome outcome = {
        .kind = kept ? WIRE_OUTCOME_ROLLED_BACK : WIRE_OUTCOME_REMOVED,
        .task_id = task->id,
        .version_id = wire_version_id(&left),
        .rollout_id = rollout_id,
        .fingerprint = (uint64_t)(-(int64_t)why),
        .detail = base_str_of(base_status_text(why)),
    };
    dev_outcome(runtime, &outcome);
    runtime->stats.rollbacks += kept ? 1 : 0;
}
