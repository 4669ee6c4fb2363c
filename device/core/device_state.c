// The stored record of a device: everything that must survive a kill, in one small value that the
// storage port replaces atomically.
//
// Called on the runtime's thread by runtime.c, at boot and by dev_flush, and by state_record.c for
// programs that only look. Pure but for the runtime it fills. Records since "WLD6" are read, "WLDC"
// is written, in at most DEV_STATE_SAVE_MAX bytes. What follows the layout and still cannot be (a
// floor above what raised it, two tasks of one id) makes the whole record CORRUPT.
#include "core/device_state.h"

#include "core/slots/device_repair.h"
#include "core/slots/device_slots.h"
#include "core/trust/device_trust.h"

#include "base/check.h"
#include "base/hash.h"
#include "wire/trust/exclusive_files.h"

#include <string.h>

//   record := "WLDC", u32 epoch, u64 offline_s, u64 online_s (core/base/device_time.h), u8 flags
//   (1:
//             garbage, 2: past follows), refusals (core/base/refusals.h), varint told_interval_s,
//             varint root_version, root[32], varint timestamp_version, varint expires_s,
//             timestamp[32], varint order,
//             varint task_count, task_count x task, [past: core/sweep/device_past.c],
//             u64 first_seq, varint outcome_count, varint bytes, packed outcomes,
//             u64 checksum (base_hash64 of all before)
//   task   := u8 name_size, name, u8 state, u8 flags (1: running, 2: failure reported,
//             4: active, 8: kept, 16: accepted follow, 32: leased, 64: shadow, 128: triggered), u8
//             accepted_stage, u8 crashes, varint lease_until_s, varint listed, varint floor,
//             approvals newest (with its manifest[32] when there is one), accepted, active, kept,
//             u64 blocked, varint last_run_s, varint every_s, varint runs, u8
//             exclusive (1: active, 2: kept, 4: accepted, 8: accepted asked), u8 again (1: a mark
//             was followed, 2: it is of the active version, 4: one is to be followed; 8: the
//             accepted statement names a floor, 16: that of the active version does, 32:
//             cloud counts follow), [1: u64 rollout, u8 attempt], [4: likewise], [8: varint], [16:
//             varint], [32: varints asked, sent, answered, differed, told, 8 x times
//             (wire/cloud/cloud_counts.h)], [shadow: u16
//             slow_percent, u16 memory_percent, varint shadow_us, varint beside_us, tolerances
//             (wire/tolerance.h)], [active[32], u64 rollout], [kept[32], u64 rollout],
//             [accepted[32], varint manifest_bytes], exclusive manifests of active, kept and
//             accepted as told: sha256[32], the last with varint bytes
//   approval := varint counter, [not 0: u64 rollout, u8 kind (1; records of before also have 2 and
//   3:
//               a statement that ordered back, or ended the task)]
//
// "WLDB" knows no cloud counts. "WLDA" took a floor from what did not run yet: its 8 is followed by
// how much of the floor is by the accepted statement, and it has no 16. "WLD9" knows no marks.
// "WLD8" has 4 x u64 refused and no interval. "WLD7" has no order either, and of a task a u8 kind
// before accepted_stage and one varint counter in place of floor and approvals: those of the last
// statement, whose u64 rollout is before manifest_bytes. No floor was known then. "WLD6" has one
// u64 in place of the two, the highest time that anybody signed: it is taken for the gateway's
// word, which does not last.

#define MAGIC          "WLD" // and the version, 10 as A, 12 as C
#define MAGIC_BYTES    4
#define VERSION        12
#define VERSION_CLOUD  12 // the first that knows cloud counts
#define VERSION_RAN    11 // the first whose floors are of what ran
#define VERSION_AGAIN  10 // the first that knows marks
#define VERSION_STAND  9  // the first that knows which refusals stand, and the interval
#define VERSION_FLOOR  8  // the first that knows floors and approvals
#define VERSION_TIMES  7  // the first with two times
#define VERSION_OLDEST 6
#define CHECKSUM_BYTES 8
#define FLAG_GARBAGE   1u
#define FLAG_PAST      2u
#define TASK_RUNNING   1u
#define TASK_FAILURE   2u
#define TASK_ACTIVE    4u
#define TASK_KEPT      8u
#define TASK_ACCEPTED  16u
#define TASK_LEASED    32u
#define TASK_SHADOW    64u
#define TASK_TRIGGERED 128u

#define APPROVAL_KIND 1u

#define EXCLUSIVE_ACTIVE   1u
#define EXCLUSIVE_KEPT     2u
#define EXCLUSIVE_ACCEPTED 4u
#define EXCLUSIVE_ASKED    8u
#define EXCLUSIVE_FLAGS    15u

#define AGAIN_FOLLOWED 1u
#define AGAIN_PLACEBO  2u
#define AGAIN_NEXT     4u
#define FLOOR_ACCEPTED 8u
#define FLOOR_ACTIVE   16u
#define CLOUD_COUNTS   32u

_Static_assert(DEV_STATE_SAVE_MAX <= DEV_STATE_BYTES_MAX, "the record fits the storage port");

static uint8_t exclusive_flags(const struct dev_task *task)
{
    unsigned flags = 0;
    flags |= wire_sha256_is_zero(&task->slots.active.exclusive) ? 0 : EXCLUSIVE_ACTIVE;
    flags |= wire_sha256_is_zero(&task->slots.kept.exclusive) ? 0 : EXCLUSIVE_KEPT;
    flags |= wire_sha256_is_zero(&task->incoming.exclusive) ? 0 : EXCLUSIVE_ACCEPTED;
    flags |= task->incoming.asked ? EXCLUSIVE_ASKED : 0;
    return (uint8_t)flags;
}

static uint8_t task_flags(const struct dev_task *task)
{
    unsigned flags = 0;
    flags |= task->runs.running ? TASK_RUNNING : 0;
    flags |= task->incoming.failure_reported ? TASK_FAILURE : 0;
    flags |= wire_sha256_is_zero(&task->slots.active.manifest) ? 0 : TASK_ACTIVE;
    flags |= wire_sha256_is_zero(&task->slots.kept.manifest) ? 0 : TASK_KEPT;
    flags |= wire_sha256_is_zero(&task->offer.accepted) ? 0 : TASK_ACCEPTED;
    flags |= task->lease.held ? TASK_LEASED : 0;
    flags |= task->shadow ? TASK_SHADOW : 0;
    flags |= task->slots.triggered ? TASK_TRIGGERED : 0;
    return (uint8_t)flags;
}

static void exclusive_write(struct base_writer *writer, const struct dev_task *task)
{
    uint8_t flags = exclusive_flags(task);
    if ((flags & EXCLUSIVE_ACTIVE) != 0) {
        base_writer_bytes(writer, task->slots.active.exclusive.bytes, WIRE_SHA256_BYTES);
    }
    if ((flags & EXCLUSIVE_KEPT) != 0) {
        base_writer_bytes(writer, task->slots.kept.exclusive.bytes, WIRE_SHA256_BYTES);
    }
    if ((flags & EXCLUSIVE_ACCEPTED) != 0) {
        base_writer_bytes(writer, task->incoming.exclusive.bytes, WIRE_SHA256_BYTES);
        base_writer_varint(writer, task->incoming.exclusive_bytes);
    }
}

static void approval_write(struct base_writer *writer, const struct dev_approval *approval)
{
    base_writer_varint(writer, approval->counter);
    if (approval->counter > 0) {
        base_writer_u64(writer, approval->rollout_id);
        base_writer_u8(writer, APPROVAL_KIND);
    }
}

static void approvals_write(struct base_writer *writer, const struct dev_task *task)
{
    base_writer_varint(writer, task->slots.floor);
    approval_write(writer, &task->offer.newest);
    if (task->offer.newest.counter > 0) {
        base_writer_bytes(writer, task->offer.newest_manifest.bytes, WIRE_SHA256_BYTES);
    }
    approval_write(writer, &task->offer.accepted_by);
    approval_write(writer, &task->slots.active.by);
    approval_write(writer, &task->slots.kept.by);
}

static bool has_clouds(const struct dev_task *task)
{
    return !task->shadow && task->runs.clouds.counts.asked != 0;
}

static uint8_t again_flags(const struct dev_task *task)
{
    unsigned flags = 0;
    flags |= task->slots.again.rollout_id != 0 ? AGAIN_FOLLOWED : 0;
    flags |= task->slots.placebo ? AGAIN_PLACEBO : 0;
    flags |= task->offer.again.rollout_id != 0 ? AGAIN_NEXT : 0;
    flags |= task->offer.accepted_floor != 0 ? FLOOR_ACCEPTED : 0;
    flags |= task->slots.active_floor != 0 ? FLOOR_ACTIVE : 0;
    flags |= has_clouds(task) ? CLOUD_COUNTS : 0;
    return (uint8_t)flags;
}

static void again_write(struct base_writer *writer, const struct dev_again *again)
{
    if (again->rollout_id != 0) {
        base_writer_u64(writer, again->rollout_id);
        base_writer_u8(writer, again->attempt);
    }
}

// The numbers of a version's decisions, in the order in which they are stored.
static uint16_t *cloud_number(struct dev_clouds *clouds, uint32_t index)
{
    struct wire_cloud_counts *counts = &clouds->counts;
    uint16_t *const numbers[] = {&counts->asked, &counts->sent, &counts->answered,
                                 &counts->differed, &clouds->told};
    const uint32_t count = sizeof(numbers) / sizeof(numbers[0]);
    return index < count                      ? numbers[index]
           : index < count + WIRE_CLOUD_TIMES ? &counts->times[index - count]
                                              : NULL;
}

static void cloud_write(struct base_writer *writer, const struct dev_task *task)
{
    struct dev_clouds clouds = task->runs.clouds;
    const uint16_t *number;
    for (uint32_t i = 0; (number = cloud_number(&clouds, i)) != NULL; i++) {
        base_writer_varint(writer, *number);
    }
}

static void task_write(struct base_writer *writer, const struct dev_task *task)
{
    uint8_t flags = task_flags(task);
    base_check(task->name_size <= WIRE_TASK_NAME_MAX);
    base_writer_u8(writer, task->name_size);
    base_writer_bytes(writer, task->name, task->name_size);
    base_writer_u8(writer, task->slots.state);
    base_writer_u8(writer, flags);
    base_writer_u8(writer, task->lease.stage);
    base_writer_u8(writer, task->runs.crashes);
    base_writer_varint(writer, task->lease.until_s);
    base_writer_varint(writer, task->listed);
    approvals_write(writer, task);
    base_writer_u64(writer, task->slots.blocked);
    base_writer_varint(writer, task->runs.last_s);
    base_writer_varint(writer, task->slots.every_s);
    base_writer_varint(writer, task->runs.count);
    base_writer_u8(writer, exclusive_flags(task));
    base_writer_u8(writer, again_flags(task));
    again_write(writer, &task->slots.again);
    again_write(writer, &task->offer.again);
    if (task->offer.accepted_floor != 0) {
        base_writer_varint(writer, task->offer.accepted_floor);
    }
    if (task->slots.active_floor != 0) {
        base_writer_varint(writer, task->slots.active_floor);
    }
    if (has_clouds(task)) {
        cloud_write(writer, task);
    }
    if (task->shadow) {
        base_writer_u16(writer, task->runs.slow_percent);
        base_writer_u16(writer, task->runs.memory_percent);
        base_writer_varint(writer, task->runs.shadow_us);
        base_writer_varint(writer, task->runs.beside_us);
        wire_tolerances_write(writer, &task->runs.tolerances);
    }
    if ((flags & TASK_ACTIVE) != 0) {
        base_writer_bytes(writer, task->slots.active.manifest.bytes, WIRE_SHA256_BYTES);
        base_writer_u64(writer, task->slots.active.rollout);
    }
    if ((flags & TASK_KEPT) != 0) {
        base_writer_bytes(writer, task->slots.kept.manifest.bytes, WIRE_SHA256_BYTES);
        base_writer_u64(writer, task->slots.kept.rollout);
    }
    if ((flags & TASK_ACCEPTED) != 0) {
        base_writer_bytes(writer, task->offer.accepted.bytes, WIRE_SHA256_BYTES);
        base_writer_varint(writer, task->offer.accepted_bytes);
    }
    exclusive_write(writer, task);
}

enum base_status dev_state_encode(const struct dev_runtime *runtime, uint8_t *out, size_t capacity,
                                  size_t *out_size)
{
    struct base_writer writer;
    base_check(runtime->task_count <= runtime->settings.tasks_max);
    base_writer_init(&writer, out, capacity);
    base_writer_bytes(&writer, MAGIC, MAGIC_BYTES - 1);
    base_writer_u8(&writer, 'A' + VERSION - 10);
    base_writer_u32(&writer, runtime->epoch);
    struct dev_time_now now = dev_clocks(runtime);
    base_writer_u64(&writer, dev_time_offline_now(&runtime->time, &now));
    base_writer_u64(&writer, dev_time_said(&runtime->time, &now));
    base_writer_u8(&writer, (uint8_t)((runtime->garbage ? FLAG_GARBAGE : 0) |
                                      (dev_past_count(runtime) > 0 ? FLAG_PAST : 0)));
    dev_refusals_write(&runtime->refusals, &writer);
    base_writer_varint(&writer, runtime->told_interval_s);
    dev_trust_write(runtime, &writer);
    base_writer_varint(&writer, runtime->task_count);
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        task_write(&writer, &runtime->tasks[i]);
    }
    if (dev_past_count(runtime) > 0) {
        dev_past_write(runtime, &writer);
    }
    base_writer_u64(&writer, runtime->outcomes.first_seq);
    base_writer_varint(&writer, runtime->outcomes.count);
    base_writer_varint(&writer, runtime->outcomes.size);
    base_writer_bytes(&writer, runtime->outcomes.bytes, runtime->outcomes.size);
    uint64_t checksum = base_hash64(out, base_writer_size(&writer));
    base_writer_u64(&writer, checksum);
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

static void exclusive_read(struct base_reader *reader, struct dev_task *task, uint8_t flags)
{
    if ((flags & EXCLUSIVE_ACTIVE) != 0) {
        base_reader_copy(reader, task->slots.active.exclusive.bytes, WIRE_SHA256_BYTES);
    }
    if ((flags & EXCLUSIVE_KEPT) != 0) {
        base_reader_copy(reader, task->slots.kept.exclusive.bytes, WIRE_SHA256_BYTES);
    }
    if ((flags & EXCLUSIVE_ACCEPTED) != 0) {
        base_reader_copy(reader, task->incoming.exclusive.bytes, WIRE_SHA256_BYTES);
        task->incoming.exclusive_bytes =
            (uint32_t)base_reader_varint_max(reader, WIRE_EXCLUSIVE_BYTES_MAX);
    }
    task->incoming.asked = (flags & EXCLUSIVE_ASKED) != 0;
    if ((flags & ~EXCLUSIVE_FLAGS) != 0 || flags != exclusive_flags(task)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

static void again_read(struct base_reader *reader, struct dev_again *again, bool there)
{
    if (there) {
        again->rollout_id = base_reader_u64(reader);
        again->attempt = base_reader_u8(reader);
    }
}

// What an older record took for the floor, but for the accepted statement, is one that waits.
static void lift_read(struct base_reader *reader, struct dev_task *task)
{
    uint64_t lift = base_reader_varint(reader);
    if (lift == 0 || lift > task->slots.floor) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    task->offer.accepted_floor = task->slots.floor;
    task->slots.floor -= lift;
}

static void floors_read(struct base_reader *reader, struct dev_task *task, uint8_t flags,
                        uint8_t version)
{
    if (version < VERSION_RAN && (flags & FLOOR_ACCEPTED) != 0) {
        lift_read(reader, task);
    } else if (version >= VERSION_RAN) {
        task->offer.accepted_floor = (flags & FLOOR_ACCEPTED) != 0 ? base_reader_varint(reader) : 0;
        task->slots.active_floor = (flags & FLOOR_ACTIVE) != 0 ? base_reader_varint(reader) : 0;
    }
}

static void cloud_read(struct base_reader *reader, struct dev_task *task)
{
    uint16_t *number;
    for (uint32_t i = 0; (number = cloud_number(&task->runs.clouds, i)) != NULL; i++) {
        *number = (uint16_t)base_reader_varint_max(reader, UINT16_MAX);
    }
    if (task->shadow || !wire_cloud_counts_ok(&task->runs.clouds.counts)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

static void marks_read(struct base_reader *reader, struct dev_task *task, uint8_t version)
{
    uint8_t flags = base_reader_u8(reader);
    again_read(reader, &task->slots.again, (flags & AGAIN_FOLLOWED) != 0);
    again_read(reader, &task->offer.again, (flags & AGAIN_NEXT) != 0);
    floors_read(reader, task, flags, version);
    if (version >= VERSION_CLOUD && (flags & CLOUD_COUNTS) != 0) {
        cloud_read(reader, task);
    }
    task->slots.placebo = (flags & AGAIN_PLACEBO) != 0;
    if ((flags & AGAIN_NEXT) != 0) {
        dev_repair_doubt(task, DEV_COPY_ACTIVE);
    }
    if (flags != again_flags(task)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

// Returns its kind.
static uint8_t approval_read(struct base_reader *reader, struct dev_approval *approval)
{
    approval->counter = base_reader_varint(reader);
    if (approval->counter == 0) {
        return APPROVAL_KIND;
    }
    approval->rollout_id = base_reader_u64(reader);
    return base_reader_u8(reader);
}

// Returns the kind of the accepted one.
static uint8_t approvals_read(struct base_reader *reader, struct dev_task *task)
{
    task->slots.floor = base_reader_varint(reader);
    (void)approval_read(reader, &task->offer.newest);
    if (task->offer.newest.counter > 0) {
        base_reader_copy(reader, task->offer.newest_manifest.bytes, WIRE_SHA256_BYTES);
    }
    uint8_t kind = approval_read(reader, &task->offer.accepted_by);
    (void)approval_read(reader, &task->slots.active.by);
    (void)approval_read(reader, &task->slots.kept.by);
    return kind;
}

// An older record knows the last statement, which was the newest one.
static void approvals_guess(struct dev_task *task, uint8_t kind)
{
    bool running = wire_sha256_equal(&task->slots.active.manifest, &task->offer.accepted);
    task->offer.newest = task->offer.accepted_by;
    task->offer.newest_manifest = task->offer.accepted;
    if (running && kind == APPROVAL_KIND) {
        task->slots.active.by = task->offer.accepted_by;
    }
}

// Returns the kind of its accepted statement.
static uint8_t task_read(struct base_reader *reader, struct dev_task *task, uint8_t version)
{
    bool approved = version >= VERSION_FLOOR;
    memset(task, 0, sizeof(*task));
    task->name_size = base_reader_u8(reader);
    if (task->name_size > WIRE_TASK_NAME_MAX) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return APPROVAL_KIND;
    }
    base_reader_copy(reader, task->name, task->name_size);
    task->slots.state = base_reader_u8(reader);
    uint8_t flags = base_reader_u8(reader);
    uint8_t kind = approved ? APPROVAL_KIND : base_reader_u8(reader);
    task->lease.stage = base_reader_u8(reader);
    task->runs.crashes = base_reader_u8(reader);
    task->lease.until_s = base_reader_varint(reader);
    task->listed = base_reader_varint(reader);
    if (approved) {
        kind = approvals_read(reader, task);
    } else {
        task->offer.accepted_by.counter = base_reader_varint(reader);
    }
    task->slots.blocked = base_reader_u64(reader);
    task->runs.last_s = base_reader_varint(reader);
    task->slots.every_s = (uint32_t)base_reader_varint_max(reader, UINT32_MAX);
    task->runs.count = (uint32_t)base_reader_varint_max(reader, UINT32_MAX);
    uint8_t exclusive = base_reader_u8(reader);
    task->shadow = (flags & TASK_SHADOW) != 0;
    if (version >= VERSION_AGAIN) {
        marks_read(reader, task, version);
    }
    task->slots.triggered = (flags & TASK_TRIGGERED) != 0;
    if (task->shadow) {
        task->runs.slow_percent = base_reader_u16(reader);
        task->runs.memory_percent = base_reader_u16(reader);
        task->runs.shadow_us = base_reader_varint(reader);
        task->runs.beside_us = base_reader_varint(reader);
        wire_tolerances_read(reader, &task->runs.tolerances);
    }
    task->runs.running = (flags & TASK_RUNNING) != 0;
    task->incoming.failure_reported = (flags & TASK_FAILURE) != 0;
    task->lease.held = (flags & TASK_LEASED) != 0;
    if ((flags & TASK_ACTIVE) != 0) {
        base_reader_copy(reader, task->slots.active.manifest.bytes, WIRE_SHA256_BYTES);
        task->slots.active.rollout = base_reader_u64(reader);
    }
    if ((flags & TASK_KEPT) != 0) {
        base_reader_copy(reader, task->slots.kept.manifest.bytes, WIRE_SHA256_BYTES);
        task->slots.kept.rollout = base_reader_u64(reader);
    }
    if ((flags & TASK_ACCEPTED) != 0) {
        base_reader_copy(reader, task->offer.accepted.bytes, WIRE_SHA256_BYTES);
        task->offer.accepted_by.rollout_id =
            approved ? task->offer.accepted_by.rollout_id : base_reader_u64(reader);
        task->offer.accepted_bytes =
            (uint32_t)base_reader_varint_max(reader, WIRE_MANIFEST_BYTES_MAX);
    }
    if (!approved) {
        approvals_guess(task, kind);
    }
    exclusive_read(reader, task, exclusive);
    task->id = wire_task_id((struct base_str){task->name, task->name_size});
    task->id = task->shadow ? wire_shadow_task_id(task->id) : task->id;
    task->runs.due_us = UINT64_MAX;
    if (flags != task_flags(task) || !dev_task_valid(task)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    return kind;
}

// Nothing is followed that is not the newest or older, and no floor is above what raised it.
static bool approvals_valid(const struct dev_task *task)
{
    uint64_t newest = task->offer.newest.counter;
    bool named = task->offer.accepted_floor <= task->offer.accepted_by.counter &&
                 task->slots.active_floor <= task->slots.active.by.counter;
    return named && task->slots.floor <= newest && task->offer.accepted_by.counter <= newest &&
           task->slots.active.by.counter <= newest && task->slots.kept.by.counter <= newest;
}

static bool exclusive_valid(const struct dev_task *task, bool active, bool kept)
{
    bool accepted = !wire_sha256_is_zero(&task->incoming.exclusive);
    if ((!active && !wire_sha256_is_zero(&task->slots.active.exclusive)) ||
        (!kept && !wire_sha256_is_zero(&task->slots.kept.exclusive))) {
        return false;
    }
    if (task->incoming.asked && !dev_update_is_pulling((enum dev_update_state)task->slots.state)) {
        return false;
    }
    return accepted ? task->incoming.asked && task->incoming.exclusive_bytes > 0
                    : task->incoming.exclusive_bytes == 0;
}

bool dev_task_valid(const struct dev_task *task)
{
    bool active = !wire_sha256_is_zero(&task->slots.active.manifest);
    bool kept = !wire_sha256_is_zero(&task->slots.kept.manifest);
    enum dev_update_state state = (enum dev_update_state)task->slots.state;
    if (task->slots.state >= DEV_UPDATE_STATE_COUNT || task->name_size > WIRE_TASK_NAME_MAX ||
        !wire_task_name_ok((struct base_str){task->name, task->name_size})) {
        return false;
    }
    if (active != dev_update_has_active(state) || (kept && !active)) {
        return false;
    }
    bool next = task->offer.again.rollout_id != 0;
    if (task->shadow && (kept || task->lease.held || next || task->slots.again.rollout_id != 0)) {
        return false;
    }
    if ((next && !active) ||
        (task->slots.placebo && (!active || task->slots.again.rollout_id == 0))) {
        return false;
    }
    if ((task->runs.running || task->runs.crashes > 0) && !dev_update_on_trial(state)) {
        return false;
    }
    if (dev_update_is_pulling(state) &&
        (wire_sha256_is_zero(&task->offer.accepted) ||
         wire_sha256_equal(&task->offer.accepted, &task->slots.active.manifest))) {
        return false;
    }
    if (!exclusive_valid(task, active, kept) || !approvals_valid(task)) {
        return false;
    }
    return !kept || !wire_sha256_equal(&task->slots.kept.manifest, &task->slots.active.manifest);
}

// A pull that is not gone on with was not asked about either.
static void bringing_forget(struct dev_task *task)
{
    const struct wire_sha256 none = {{0}};
    task->incoming.asked = false;
    task->incoming.exclusive = none;
    task->incoming.exclusive_bytes = 0;
}

static void outcomes_read(struct base_reader *reader, struct dev_runtime *runtime)
{
    uint64_t first_seq = base_reader_u64(reader);
    uint32_t count = (uint32_t)base_reader_varint_max(reader, WIRE_REPORT_MAX);
    uint32_t size = (uint32_t)base_reader_varint_max(reader, DEV_STATE_BYTES_MAX);
    const uint8_t *bytes = base_reader_bytes(reader, size);
    if (reader->status != BASE_OK || first_seq == 0 ||
        dev_outcomes_restore(&runtime->outcomes, bytes, size, count, first_seq) != BASE_OK) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

static void body_read(struct base_reader *reader, struct dev_runtime *runtime, uint8_t version)
{
    runtime->epoch = base_reader_u32(reader);
    runtime->time.offline_s = version < VERSION_TIMES ? 0 : base_reader_u64(reader);
    runtime->time.online_s = base_reader_u64(reader);
    uint8_t flags = base_reader_u8(reader);
    runtime->garbage = (flags & FLAG_GARBAGE) != 0;
    if ((flags & ~(FLAG_GARBAGE | FLAG_PAST)) != 0) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    if (version < VERSION_STAND) {
        dev_refusals_read_before(&runtime->refusals, reader);
    } else {
        dev_refusals_read(&runtime->refusals, reader);
        runtime->told_interval_s = (uint32_t)base_reader_varint_max(reader, UINT32_MAX);
    }
    dev_trust_read(runtime, reader, version >= VERSION_FLOOR);
    uint32_t count = (uint32_t)base_reader_varint_max(reader, runtime->settings.tasks_max);
    for (uint32_t i = 0; i < count && reader->status == BASE_OK; i++) {
        uint8_t kind = task_read(reader, &runtime->tasks[i], version);
        if (kind != APPROVAL_KIND &&
            dev_slot_event(&runtime->tasks[i], DEV_UPDATE_ON_ABANDON) == BASE_OK) {
            bringing_forget(&runtime->tasks[i]); // it is ordered anew, by an approval
            runtime->garbage = true;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (runtime->tasks[j].id == runtime->tasks[i].id) {
                base_reader_fail(reader, BASE_ERR_INVALID);
            }
        }
        runtime->task_count = i + 1;
    }
    if ((flags & FLAG_PAST) != 0) {
        dev_past_read(runtime, reader);
    }
    outcomes_read(reader, runtime);
}

// 0: none that there is.
static uint8_t version_of(uint8_t letter)
{
    if (letter >= '0' && letter <= '9') {
        return (uint8_t)(letter - '0');
    }
    return letter >= 'A' && letter <= 'A' + VERSION - 10 ? (uint8_t)(letter - 'A' + 10) : 0;
}

enum base_status dev_state_decode(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    if (size < MAGIC_BYTES + CHECKSUM_BYTES) {
        return BASE_ERR_CORRUPT;
    }
    uint8_t version = version_of(bytes[MAGIC_BYTES - 1]);
    if (memcmp(bytes, MAGIC, MAGIC_BYTES - 1) != 0 || version < VERSION_OLDEST ||
        version > VERSION) {
        return BASE_ERR_CORRUPT;
    }
    struct base_reader tail;
    base_reader_init(&tail, bytes + size - CHECKSUM_BYTES, CHECKSUM_BYTES);
    if (base_reader_u64(&tail) != base_hash64(bytes, size - CHECKSUM_BYTES)) {
        return BASE_ERR_CORRUPT;
    }
    struct base_reader reader;
    base_reader_init(&reader, bytes + MAGIC_BYTES, size - MAGIC_BYTES - CHECKSUM_BYTES);
    runtime->task_count = 0;
    dev_past_clear(runtime);
    body_read(&reader, runtime, version);
    return base_reader_finish(&reader) == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}
