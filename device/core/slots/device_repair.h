// Damaged content: told, kept from running, and brought again (by the pull).
#ifndef DEV_DEVICE_REPAIR_H
#define DEV_DEVICE_REPAIR_H

#include "core/base/runtime.h"

#define DEV_REPAIRS_MAX     3 // of a version without a good run, then it is refused
#define DEV_REPAIR_RETRY_US (600 * 1000000ull)   // when damaged content could not be brought
#define DEV_CHECK_EVERY_US  (86400 * 1000000ull) // all content is hashed again this often

// Whose content the pull brings: that of the accepted version, or what is damaged of the others.
enum dev_pull_copy {
    DEV_COPY_ACCEPTED,
    DEV_COPY_ACTIVE,
    DEV_COPY_KEPT,
};

// Of device_repair.c alone.
struct dev_check {
    uint64_t due_us; // all content is unproven from then on
};

// A file of a version (`copy`) of `task` is not what it should be: reported once. The active
// version does not run until its content is whole again.
void dev_damage_found(struct dev_runtime *runtime, struct dev_task *task, enum dev_pull_copy copy,
                      struct base_str file);
// Likewise of signed metadata, which nothing is followed without.
void dev_meta_damaged(struct dev_runtime *runtime, const char *what);
// Is any of a version's content to be proven, or brought again? The pull asks; *out_due_us: when.
bool dev_repair_wanted(const struct dev_task *task, enum dev_pull_copy copy, uint64_t *out_due_us);
const struct wire_sha256 *dev_copy_version(const struct dev_task *task, enum dev_pull_copy copy);
// The version's content was proven, or brought; or it could not be brought.
void dev_repair_done(struct dev_runtime *runtime, struct dev_task *task, enum dev_pull_copy copy);
void dev_repair_failed(struct dev_runtime *runtime, struct dev_task *task, enum dev_pull_copy copy);
// The version's content is to be proven before it is used further.
void dev_repair_doubt(struct dev_task *task, enum dev_pull_copy copy);
// A run of the active version was good: repairs before it do not count against it any more.
void dev_repair_ran(struct dev_task *task);
// At boot, and once a day: the content of all versions is to be proven.
extern const struct dev_part dev_check_part;

#endif
