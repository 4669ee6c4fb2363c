// The versions of a task on the device: one that runs, one kept beside it, one accepted. What
// changes here is told: the pull and the runs hear of it as events (core/base/part.h).
#ifndef DEV_DEVICE_SLOTS_H
#define DEV_DEVICE_SLOTS_H

#include "core/base/runtime.h"
#include "wire/manifest.h"

// Applies `event`; CONFLICT when the machine does not allow it, and nothing changed.
BASE_NODISCARD enum base_status dev_slot_event(struct dev_task *task, enum dev_update_event event);
// The active version ran well: the floor that its statement names is the task's.
void dev_slot_ran(struct dev_task *task);
void dev_slot_activate(struct dev_runtime *runtime, struct dev_task *task,
                       const struct wire_manifest *manifest);
// The version failed here, and is refused from now on, as is what failed before it.
void dev_slot_block(struct dev_runtime *runtime, struct dev_task *task, uint64_t version_id);
bool dev_slot_blocks(const struct dev_runtime *runtime, const struct dev_task *task,
                     uint64_t version_id);
void dev_slot_unblock(struct dev_runtime *runtime, struct dev_task *task, uint64_t version_id);
// Back to the kept version, or to none. False: nothing is active.
bool dev_slot_fall_back(struct dev_runtime *runtime, struct dev_task *task);
// The active version failed here: refuse it from now on and go back to the kept one, or to none.
void dev_slot_give_up(struct dev_runtime *runtime, struct dev_task *task);
// The mark that was offered is followed: the active version, whose content was just proven, goes
// through what dev_slot_activate begins.
void dev_slot_again(struct dev_runtime *runtime, struct dev_task *task,
                    const struct wire_manifest *manifest);
// The active version failed on trial: given up, unless a mark put it there. True: then it stays.
bool dev_slot_failed(struct dev_runtime *runtime, struct dev_task *task);
// The last mark is of no effect any more: the active version is what it was before.
void dev_slot_stand(struct dev_runtime *runtime, struct dev_task *task);
// Does what was accepted lead back from the active version, to an older release?
bool dev_slot_leads_back(const struct dev_task *task);
// The active version is here by the accepted statement from now on, and of its rollout.
void dev_slot_adopt(struct dev_task *task);
// The statement that the active version is here by names this floor.
void dev_slot_name_floor(struct dev_task *task, uint64_t floor);
// The task was here before, and this was its floor.
void dev_slot_recall(struct dev_task *task, uint64_t floor);
// The kept version runs again, as ordered.
void dev_slot_revert(struct dev_runtime *runtime, struct dev_task *task);
// Nothing of the task runs or is kept any more, as ordered.
void dev_slot_remove(struct dev_runtime *runtime, struct dev_task *task);
// The active version may not run any more, for `why`: back to the kept one, or to none. It is not
// blocked.
void dev_slot_withdraw(struct dev_runtime *runtime, struct dev_task *task, enum base_status why);
// The task gives its place back.
void dev_task_drop(struct dev_runtime *runtime, struct dev_task *task);
void dev_slot_forget_kept(struct dev_runtime *runtime, struct dev_task *task);
// Nothing is active any more, and nothing is said about it.
void dev_slot_empty(struct dev_runtime *runtime, struct dev_task *task);
// What was accepted is not to be brought any more.
void dev_slot_abandon(struct dev_runtime *runtime, struct dev_task *task);
// A shadow failed here, and is not tried again; or it is, all the same.
void dev_slot_fail_shadow(struct dev_runtime *runtime, struct dev_task *shadow);
void dev_slot_forgive(struct dev_task *shadow);
// For which rollout the outcomes of the active version are told.
uint64_t dev_told_rollout(const struct dev_task *task);

#endif
