// Probation leases and the kill list: what makes a device stop by itself.
//
// In beta and gray stages a version runs only while the device holds a lease, a promise with an end
// that every check-in renews as long as the rollout is healthy. No renewal, for whatever reason,
// and the device goes back to the version it kept, without a download and without being reached.
// The time is the device's clock, but never behind what the gateway said last and what passed
// since, so a clock set back does not prolong a lease, and a reboot does not forget it. Called by
// the tick and by the judges.
#include "core/trust/device_lease.h"

#include "core/slots/device_slots.h"
#include "core/trust/trust_store.h"

#include "base/check.h"

#include <string.h>

// A lease that is over as soon as it is given, or a gateway that gives such, is no reason to ask
// faster than this.
#define LEASE_RENEW_MIN_US UINT64_C(1000000)

static uint64_t now_s(const struct dev_runtime *runtime)
{
    struct dev_time_now now = dev_clocks(runtime);
    return dev_time_latest(&runtime->time, &now);
}

// Longest lease the root allows; 0: stages need none here.
static uint32_t lease_max_s(struct dev_runtime *runtime)
{
    struct dev_trust_root root;
    uint32_t most = 0;
    if (dev_trust_is_rooted(runtime) && dev_trust_root_open(runtime, &root) == BASE_OK) {
        most = root.parsed->lease_max_s;
        dev_trust_root_close(runtime, &root);
    }
    return most;
}

static void extend(struct dev_runtime *runtime, struct dev_task *task, uint32_t most_s)
{
    uint32_t lease_s = dev_trust_answer(runtime)->lease_s;
    base_assert(task->lease.held);
    lease_s = lease_s < most_s ? lease_s : most_s;
    uint64_t at_s = now_s(runtime);
    uint64_t from_s = dev_trust_answered_s(runtime); // the answer may have been kept since
    uint64_t until_s = (at_s < from_s ? at_s : from_s) + lease_s;
    if (until_s != task->lease.until_s) {
        task->lease.until_s = until_s;
        runtime->dirty = true;
    }
}

static uint64_t due_us_of(const struct dev_runtime *runtime)
{
    uint64_t due_us = UINT64_MAX;
    if (!dev_lease_any(runtime)) {
        return due_us;
    }
    uint64_t at_s = now_s(runtime);
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        const struct dev_task *task = &runtime->tasks[i];
        if (task->lease.held) {
            uint64_t left_s = task->lease.until_s > at_s ? task->lease.until_s - at_s : 0;
            uint64_t at_us = dev_now_us(runtime) + left_s * 1000000;
            due_us = at_us < due_us ? at_us : due_us;
        }
    }
    return due_us;
}

// At half of what is left: after a failure the next try comes sooner and sooner.
uint64_t dev_lease_renew_us(const struct dev_runtime *runtime)
{
    uint64_t due_us = due_us_of(runtime);
    uint64_t now_us = dev_now_us(runtime);
    if (due_us == UINT64_MAX) {
        return due_us;
    }
    uint64_t half_us = due_us > now_us ? (due_us - now_us) / 2 : 0;
    return now_us + (half_us > LEASE_RENEW_MIN_US ? half_us : LEASE_RENEW_MIN_US);
}

void dev_lease_grant(struct dev_runtime *runtime, struct dev_task *task,
                     const struct wire_release *release)
{
    uint32_t most_s = lease_max_s(runtime);
    bool leased = most_s > 0 && (release->stage_kind == WIRE_STAGE_BETA ||
                                 release->stage_kind == WIRE_STAGE_GRAY);
    if (task->lease.held != leased || task->lease.stage != release->stage_kind) {
        task->lease.held = leased;
        task->lease.stage = release->stage_kind;
        runtime->dirty = true;
    }
    if (leased) {
        extend(runtime, task, most_s);
    } else if (task->lease.until_s != 0) {
        task->lease.until_s = 0;
        runtime->dirty = true;
    }
}

void dev_lease_drop(struct dev_task *task)
{
    task->lease.held = false;
    task->lease.until_s = 0;
}

void dev_lease_again(struct dev_runtime *runtime, struct dev_task *task)
{
    if (task->lease.held &&
        wire_sha256_equal(&task->slots.active.manifest, &task->offer.accepted)) {
        extend(runtime, task, lease_max_s(runtime));
    }
}

static void renew(struct dev_runtime *runtime)
{
    const struct wire_director *director = dev_trust_answer(runtime);
    uint32_t most_s = dev_lease_any(runtime) ? lease_max_s(runtime) : 0;
    for (uint32_t i = 0; i < director->count && director->lease_s > 0 && most_s > 0; i++) {
        const struct wire_director_entry *entry = &director->entries[i];
        struct dev_task *task = dev_task_find(runtime, entry->task_id);
        if (task != NULL && task->lease.held && task->offer.accepted_by.counter == entry->counter &&
            wire_sha256_equal(&task->offer.accepted, &entry->manifest)) {
            extend(runtime, task, most_s);
            dev_trust_followed(runtime);
        }
    }
}

bool dev_lease_any(const struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        if (runtime->tasks[i].lease.held) {
            return true;
        }
    }
    return false;
}

static void shorten(struct dev_runtime *runtime)
{
    uint64_t most_s = now_s(runtime) + (dev_lease_any(runtime) ? lease_max_s(runtime) : 0);
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        if (task->lease.held && task->lease.until_s > most_s) {
            task->lease.until_s = most_s;
            runtime->dirty = true;
        }
    }
}

static void lose(struct dev_runtime *runtime, struct dev_task *task)
{
    base_assert(task->lease.held);
    runtime->stats.leases_lost++;
    dev_lease_drop(task);
    runtime->dirty = true;
    dev_slot_abandon(runtime, task);
    if (wire_sha256_equal(&task->slots.active.manifest, &task->offer.accepted)) {
        dev_tell_of(runtime, DEV_PART_EVENT_HALT, task);
        dev_slot_withdraw(runtime, task, BASE_ERR_LEASE);
    }
}

static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    (void)now_us; // leases end by the time that anybody told
    if (!dev_lease_any(runtime)) {
        return;
    }
    uint64_t at_s = now_s(runtime);
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        if (task->lease.held && at_s >= task->lease.until_s) {
            lose(runtime, task);
        }
    }
}

// ---- Kills

static void kill_task(struct dev_runtime *runtime, struct dev_task *task,
                      const struct wire_timestamp *timestamp)
{
    if (wire_timestamp_kills(timestamp, &task->slots.kept.manifest)) {
        dev_slot_forget_kept(runtime, task);
    }
    if (wire_timestamp_kills(timestamp, &task->offer.accepted)) {
        dev_slot_abandon(runtime, task);
    }
    if (wire_timestamp_kills(timestamp, &task->slots.active.manifest)) {
        runtime->stats.kills++;
        dev_lease_drop(task);
        dev_tell_of(runtime, DEV_PART_EVENT_HALT, task);
        dev_slot_withdraw(runtime, task, BASE_ERR_KILLED);
    }
}

static void kills_obey(struct dev_runtime *runtime)
{
    struct wire_timestamp timestamp;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    if (dev_trust_timestamp_open(runtime, &timestamp, &bytes, &size) != BASE_OK) {
        return;
    }
    for (uint32_t i = 0; i < runtime->task_count && timestamp.kill_count > 0; i++) {
        kill_task(runtime, &runtime->tasks[i], &timestamp);
    }
    dev_trust_timestamp_close(runtime, bytes, size);
}

static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    if (event->kind == DEV_PART_EVENT_TIMESTAMP) {
        kills_obey(runtime);
    } else if (event->kind == DEV_PART_EVENT_DIRECTED) {
        renew(runtime);
    } else if (event->kind == DEV_PART_EVENT_TIME_BACK) {
        shorten(runtime);
    }
    return false;
}

const struct dev_part dev_lease_part = {
    .name = "lease",
    .step = step,
    .due_us = due_us_of,
    .on_event = on_event,
    .hears = DEV_PART_HEARS(TIMESTAMP) | DEV_PART_HEARS(DIRECTED) | DEV_PART_HEARS(TIME_BACK)};
