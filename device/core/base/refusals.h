// What this device refused: statements, each reported once and not offered again for as long as the
// reason stands; and versions that failed here before the one that failed last (dev_slots.blocked).
//
// The memory is the device's, for it alone knows why it refused and what would change that; the
// gateway keeps nothing of it. The device names the refusals that stand in its profile, by their
// marks (wire/profile.h), and adds them to the digest: so a
// gateway sees when the list changed, and a check-in that brings nothing costs what it always did.
// The marks are in the stored record; when there is no room for another the oldest is forgotten,
// and may be offered and reported once more.
//
// A refusal stands
//   - for good: the device's bucket, signatures against pinned keys, what cannot be read, a version
//     that failed here;
//   - until its tasks change: no room, another task with the id, a floor, nothing to run beside;
//   - not at all: time, and what a root's metadata says. That changes by itself.
// All are forgotten when the program or its settings changed, for then anything may be otherwise;
// what was reported stays reported.
#ifndef DEV_REFUSALS_H
#define DEV_REFUSALS_H

#include "base/cursor.h"

#include <stdbool.h>
#include <stdint.h>

#define DEV_REFUSED_PER_TASK 4  // refused statements remembered, for each task it may hold ...
#define DEV_REFUSED_MAX      32 // ... and at most

enum dev_refusal { DEV_REFUSAL_PASSES, DEV_REFUSAL_UNTIL_TASKS, DEV_REFUSAL_STANDS };

struct dev_refusals {
    uint64_t *marks; // newest first; in the caller's memory
    uint32_t capacity;
    uint32_t count;
    uint32_t standing;    // a bit for each mark: it is named in the profile
    uint32_t until_tasks; // of these: until the tasks change
    uint64_t settings;    // a hash of what the device was when these were refused
    uint64_t tasks;       // ... and of what it held
};

// How many marks there is room for, on a device that holds so many tasks.
uint32_t dev_refusals_room(uint32_t tasks_max);
// `memory` is for dev_refusals_room of them, and stays the caller's.
void dev_refusals_init(struct dev_refusals *refusals, void *memory, uint32_t tasks_max);
void dev_refusals_clear(struct dev_refusals *refusals);

bool dev_refusals_knows(const struct dev_refusals *refusals, uint64_t mark);
// True when `mark` was refused before; notes it otherwise.
bool dev_refusals_before(struct dev_refusals *refusals, uint64_t mark);
// A mark that was noted stands from now on, as `refusal` says. True: that is news.
bool dev_refusals_stand(struct dev_refusals *refusals, uint64_t mark, enum dev_refusal refusal);
bool dev_refusals_stands(const struct dev_refusals *refusals, uint64_t mark);
// It may be tried again. True: it stood.
bool dev_refusals_lift(struct dev_refusals *refusals, uint64_t mark);
// What the device is and what it holds. True: something that stood does no more.
bool dev_refusals_settings(struct dev_refusals *refusals, uint64_t hash);
bool dev_refusals_tasks(struct dev_refusals *refusals, uint64_t hash);
// The marks that stand, as a profile has them (8 * DEV_REFUSED_MAX bytes at most); how many, and
// what they add to the digest.
uint32_t dev_refusals_list(const struct dev_refusals *refusals, struct base_writer *writer,
                           uint64_t *out_digest);

// In the stored record: u8 count, u32 standing, u32 until_tasks, u64 settings, u64 tasks, marks.
#define DEV_REFUSALS_BYTES_MAX (1 + 4 + 4 + 8 + 8 + 8 * DEV_REFUSED_MAX)
void dev_refusals_write(const struct dev_refusals *refusals, struct base_writer *writer);
void dev_refusals_read(struct dev_refusals *refusals, struct base_reader *reader);
// Records of before have this many marks, 0 for none, and of none is known whether it stands.
#define DEV_REFUSED_BEFORE 4
void dev_refusals_read_before(struct dev_refusals *refusals, struct base_reader *reader);

#endif
