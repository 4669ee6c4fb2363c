// The memory of refused statements. Called on the runtime's thread by the offer code
// (device_offer.c, device_slots.c, device_trust.c), by device_control.c when a check-in is made, by
// runtime.c at boot, and by device_state.c, whose record holds the marks; pure. Marks lie newest
// first, and whether one stands is a bit at the same place, so that DEV_REFUSED_MAX is at most 32;
// a new one moves all by one and the oldest goes.
#include "core/base/refusals.h"

#include "base/check.h"

#include "wire/profile.h"

#include <string.h>

_Static_assert(DEV_REFUSED_MAX <= 32, "a bit for each mark");
_Static_assert(DEV_REFUSED_MAX <= WIRE_PROFILE_REFUSED_MAX, "all fit a profile");

#define NOT_FOUND UINT32_MAX

uint32_t dev_refusals_room(uint32_t tasks_max)
{
    uint32_t room = tasks_max * DEV_REFUSED_PER_TASK;
    return room < DEV_REFUSED_MAX ? room : DEV_REFUSED_MAX;
}

void dev_refusals_init(struct dev_refusals *refusals, void *memory, uint32_t tasks_max)
{
    *refusals = (struct dev_refusals){.marks = memory, .capacity = dev_refusals_room(tasks_max)};
}

void dev_refusals_clear(struct dev_refusals *refusals)
{
    *refusals = (struct dev_refusals){.marks = refusals->marks, .capacity = refusals->capacity};
}

static uint32_t bits_below(uint32_t count)
{
    return count < 32 ? (UINT32_C(1) << count) - 1 : UINT32_MAX;
}

static uint32_t find(const struct dev_refusals *refusals, uint64_t mark)
{
    for (uint32_t i = 0; i < refusals->count; i++) {
        if (refusals->marks[i] == mark) {
            return i;
        }
    }
    return NOT_FOUND;
}

bool dev_refusals_knows(const struct dev_refusals *refusals, uint64_t mark)
{
    return find(refusals, mark) != NOT_FOUND;
}

bool dev_refusals_before(struct dev_refusals *refusals, uint64_t mark)
{
    if (dev_refusals_knows(refusals, mark)) {
        return true;
    }
    base_check(refusals->capacity > 0);
    refusals->count += refusals->count < refusals->capacity ? 1 : 0;
    base_check(refusals->count <= refusals->capacity);
    memmove(&refusals->marks[1], &refusals->marks[0],
            (refusals->count - 1) * sizeof(refusals->marks[0]));
    refusals->marks[0] = mark;
    refusals->standing = refusals->standing << 1 & bits_below(refusals->count);
    refusals->until_tasks = refusals->until_tasks << 1 & bits_below(refusals->count);
    return false;
}

bool dev_refusals_stand(struct dev_refusals *refusals, uint64_t mark, enum dev_refusal refusal)
{
    uint32_t index = find(refusals, mark);
    if (index == NOT_FOUND || refusal == DEV_REFUSAL_PASSES) {
        return false;
    }
    uint32_t bit = UINT32_C(1) << index;
    bool news = (refusals->standing & bit) == 0;
    refusals->standing |= bit;
    refusals->until_tasks &= ~bit;
    refusals->until_tasks |= refusal == DEV_REFUSAL_UNTIL_TASKS ? bit : 0;
    return news;
}

bool dev_refusals_stands(const struct dev_refusals *refusals, uint64_t mark)
{
    uint32_t index = find(refusals, mark);
    return index != NOT_FOUND && (refusals->standing >> index & 1) != 0;
}

bool dev_refusals_lift(struct dev_refusals *refusals, uint64_t mark)
{
    uint32_t index = find(refusals, mark);
    if (index == NOT_FOUND || (refusals->standing >> index & 1) == 0) {
        return false;
    }
    refusals->standing &= ~(UINT32_C(1) << index);
    refusals->until_tasks &= ~(UINT32_C(1) << index);
    return true;
}

bool dev_refusals_settings(struct dev_refusals *refusals, uint64_t hash)
{
    bool stood = refusals->settings != hash && refusals->standing != 0;
    if (refusals->settings != hash) {
        refusals->settings = hash;
        refusals->standing = 0;
        refusals->until_tasks = 0;
    }
    return stood;
}

bool dev_refusals_tasks(struct dev_refusals *refusals, uint64_t hash)
{
    bool stood = refusals->tasks != hash && refusals->until_tasks != 0;
    if (refusals->tasks != hash) {
        refusals->tasks = hash;
        refusals->standing &= ~refusals->until_tasks;
        refusals->until_tasks = 0;
    }
    return stood;
}

uint32_t dev_refusals_list(const struct dev_refusals *refusals, struct base_writer *writer,
                           uint64_t *out_digest)
{
    uint32_t count = 0;
    uint64_t digest = 0;
    for (uint32_t i = 0; i < refusals->count; i++) {
        if ((refusals->standing >> i & 1) != 0) {
            base_writer_u64(writer, refusals->marks[i]);
            digest += wire_profile_refused_term(refusals->marks[i]);
            count++;
        }
    }
    *out_digest = digest;
    return count;
}

// ---- The record

void dev_refusals_write(const struct dev_refusals *refusals, struct base_writer *writer)
{
    base_writer_u8(writer, (uint8_t)refusals->count);
    base_writer_u32(writer, refusals->standing);
    base_writer_u32(writer, refusals->until_tasks);
    base_writer_u64(writer, refusals->settings);
    base_writer_u64(writer, refusals->tasks);
    for (uint32_t i = 0; i < refusals->count; i++) {
        base_writer_u64(writer, refusals->marks[i]);
    }
}

static void take(struct dev_refusals *refusals, uint64_t mark)
{
    if (refusals->count < refusals->capacity) {
        refusals->marks[refusals->count++] = mark;
    }
}

void dev_refusals_read(struct dev_refusals *refusals, struct base_reader *reader)
{
    dev_refusals_clear(refusals);
    uint32_t count = base_reader_u8(reader);
    uint32_t standing = base_reader_u32(reader);
    uint32_t until_tasks = base_reader_u32(reader);
    refusals->settings = base_reader_u64(reader);
    refusals->tasks = base_reader_u64(reader);
    if (count > DEV_REFUSED_MAX || (standing & ~bits_below(count)) != 0 ||
        (until_tasks & ~standing) != 0) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    for (uint32_t i = 0; i < count; i++) { // a device that holds fewer now keeps the newest
        take(refusals, base_reader_u64(reader));
    }
    refusals->standing = standing & bits_below(refusals->count);
    refusals->until_tasks = until_tasks & refusals->standing;
}

void dev_refusals_read_before(struct dev_refusals *refusals, struct base_reader *reader)
{
    dev_refusals_clear(refusals);
    for (uint32_t i = 0; i < DEV_REFUSED_BEFORE; i++) {
        uint64_t mark = base_reader_u64(reader);
        if (mark != 0) {
            take(refusals, mark);
        }
    }
}
