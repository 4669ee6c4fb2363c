// Stored content is not believed: whatever is read of it is hashed, all of it once a day, and what
// is not what its name says is dropped, told, and brought again while the version stays where it
// is.
//
// Small content (manifests, scripts, signed metadata) is read into memory, hashed there, and used
// from there, at every use. Large files are hashed by who copies them to use them (the task port),
// and by the check, slice by slice in the pull's lane, at boot and once a day. So the way back is
// whole when it is needed. Called by whoever reads content, and by the pull.
#include "core/slots/device_repair.h"

#include "core/slots/device_slots.h"

#include "base/check.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

const struct wire_sha256 *dev_copy_version(const struct dev_task *task, enum dev_pull_copy copy)
{
    switch (copy) {
    case DEV_COPY_ACTIVE:
        return &task->slots.active.manifest;
    case DEV_COPY_KEPT:
        return &task->slots.kept.manifest;
    case DEV_COPY_ACCEPTED:
        break;
    }
    return &task->offer.accepted;
}

static uint8_t bit_of(enum dev_pull_copy copy)
{
    base_assert(copy != DEV_COPY_ACCEPTED); // that is brought, and proven as it comes
    return copy == DEV_COPY_ACTIVE ? DEV_UNPROVEN_ACTIVE : DEV_UNPROVEN_KEPT;
}

void dev_damage_found(struct dev_runtime *runtime, struct dev_task *task, enum dev_pull_copy copy,
                      struct base_str file)
{
    const struct wire_sha256 *version = dev_copy_version(task, copy);
    uint32_t mark = (uint32_t)base_hash64_seed(file.data, file.size, wire_version_id(version)) | 1u;
    char detail[WIRE_REPORT_DETAIL_MAX];
    task->content.unproven |= bit_of(copy);
    task->content.damaged |= bit_of(copy);
    if (task->content.damage_mark == mark) {
        return;
    }
    task->content.damage_mark = mark;
    task->content.repair_due_us = 0;
    runtime->stats.damaged++;
    runtime->dirty = true;
    (void)snprintf(detail, sizeof(detail), "%.*s: stored content is damaged", (int)file.size,
                   file.data);
    if (runtime->ports->on_damage != NULL) {
        runtime->ports->on_damage(runtime->ports->app, dev_task_name(task), file);
    }
    const struct wire_outcome outcome = {
        .kind = WIRE_OUTCOME_FAIL_INTEGRITY,
        .task_id = task->id,
        .version_id = wire_version_id(version),
        .rollout_id = copy == DEV_COPY_ACTIVE ? dev_told_rollout(task) : task->slots.kept.rollout,
        .fingerprint = base_hash64(file.data, file.size),
        .detail = base_str_of(detail),
    };
    dev_outcome(runtime, &outcome);
}

void dev_meta_damaged(struct dev_runtime *runtime, const char *what)
{
    char detail[WIRE_REPORT_DETAIL_MAX];
    runtime->stats.damaged++;
    if (runtime->ports->on_damage != NULL) {
        runtime->ports->on_damage(runtime->ports->app, BASE_STR(""), base_str_of(what));
    }
    (void)snprintf(detail, sizeof(detail), "%s: stored content is damaged", what);
    const struct wire_outcome outcome = {
        .kind = WIRE_OUTCOME_FAIL_INTEGRITY,
        .fingerprint = base_hash64(what, strlen(what)),
        .detail = base_str_of(detail),
    };
    dev_outcome(runtime, &outcome);
    runtime->dirty = true;
}

// ---- Repair

bool dev_repair_wanted(const struct dev_task *task, enum dev_pull_copy copy, uint64_t *out_due_us)
{
    *out_due_us = task->content.repair_due_us;
    return (task->content.unproven & bit_of(copy)) != 0 &&
           !wire_sha256_is_zero(dev_copy_version(task, copy));
}

// The storage does not keep this version: refuse it from now on.
static void refuse(struct dev_runtime *runtime, struct dev_task *task)
{
    if (task->shadow) {
        dev_slot_fail_shadow(runtime, task);
    } else {
        dev_slot_give_up(runtime, task);
    }
}

void dev_repair_done(struct dev_runtime *runtime, struct dev_task *task, enum dev_pull_copy copy)
{
    bool damaged = (task->content.damaged & bit_of(copy)) != 0;
    task->content.unproven &= (uint8_t)~bit_of(copy);
    task->content.damaged &= (uint8_t)~bit_of(copy);
    if (!damaged) {
        return;
    }
    task->content.damage_mark = 0;
    runtime->stats.mended++;
    base_log_debug(runtime->ports->log, "device", "%.*s: stored content is whole again",
                   (int)task->name_size, task->name);
    if (copy != DEV_COPY_ACTIVE) {
        return;
    }
    task->content.renewed++;
    if (++task->content.repairs > DEV_REPAIRS_MAX) {
        refuse(runtime, task);
    }
}

void dev_repair_failed(struct dev_runtime *runtime, struct dev_task *task, enum dev_pull_copy copy)
{
    bool go_back = copy == DEV_COPY_ACTIVE && !wire_sha256_is_zero(&task->slots.kept.manifest);
    if (!go_back) {
        task->content.repair_due_us = dev_now_us(runtime) + DEV_REPAIR_RETRY_US;
        return;
    }
    // That content is lost here is not the version's fault: let it be offered anew.
    (void)dev_slot_fall_back(runtime, task);
}

void dev_repair_doubt(struct dev_task *task, enum dev_pull_copy copy)
{
    task->content.unproven |= bit_of(copy);
}

void dev_repair_ran(struct dev_task *task)
{
    task->content.repairs = 0;
}

static void check_step(struct dev_runtime *runtime, uint64_t now_us)
{
    if (now_us < runtime->check->due_us) {
        return;
    }
    runtime->check->due_us = now_us + DEV_CHECK_EVERY_US;
    if (runtime->ports->storage.steady) {
        return;
    }
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        if (!wire_sha256_is_zero(&task->slots.active.manifest)) {
            dev_repair_doubt(task, DEV_COPY_ACTIVE);
        }
        if (!wire_sha256_is_zero(&task->slots.kept.manifest)) {
            dev_repair_doubt(task, DEV_COPY_KEPT);
        }
    }
}

// At boot, and once a day.
static bool check_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    if (event->kind == DEV_PART_EVENT_RESTORED) {
        runtime->check->due_us = 0;
    }
    return false;
}

const struct dev_part dev_check_part = {.name = "check",
                                        .step = check_step,
                                        .on_event = check_event,
                                        .hears = DEV_PART_HEARS(RESTORED)};
