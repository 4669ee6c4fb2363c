// Marks: control devices of a stage activate the version they have once more, so that they go
// through what the updated ones go through, but for the content.
//
// The content of the active version is proven again from disk, in the pull's lane and at the rank
// of a pull; then it is activated (dev_slot_again), and from there on the code is an update's: the
// run that is due, the trial with its crash limit, what is reported and when. A failure leads
// nowhere, since nothing was put in place of anything. A mark is followed once, and like an offer
// it stands as long as check-ins repeat it. Called at the end of each check-in.
#include "core/offer/device_again.h"

#include "core/offer/device_offer.h"
#include "core/offer/kept_offers.h"
#include "core/slots/device_repair.h"
#include "core/trust/device_lease.h"
#include "core/trust/device_trust.h"

#include "base/check.h"
#include "base/hash.h"

static bool is_of(const struct dev_again *again, const struct wire_again *mark)
{
    return again->rollout_id == mark->rollout_id && again->attempt >= mark->attempt;
}

// Whose mark it is, if it is news, and nothing newer is under way: a pull, or a version that is on
// trial for itself. NULL: not now.
static struct dev_task *task_of(struct dev_runtime *runtime, const struct wire_again *mark)
{
    struct dev_task *task = dev_task_find(runtime, mark->task_id);
    if (task == NULL || task->shadow || is_of(&task->slots.again, mark)) {
        return NULL;
    }
    enum dev_update_state state = (enum dev_update_state)task->slots.state;
    bool busy =
        dev_update_is_pulling(state) || (dev_update_on_trial(state) && !task->slots.placebo);
    return dev_update_has_active(state) && !busy ? task : NULL;
}

static void refuse(struct dev_runtime *runtime, const struct dev_task *task,
                   const struct wire_again *mark, enum base_status status)
{
    if (dev_kept_refused(runtime)) {
        return;
    }
    uint64_t facts[] = {mark->task_id, mark->rollout_id, mark->attempt,
                        (uint64_t)(-(int64_t)status)};
    struct wire_outcome outcome = {
        .task_id = task->id,
        .version_id = wire_version_id(&task->slots.active.manifest),
        .rollout_id = mark->rollout_id,
    };
    dev_offer_refuse(runtime, base_hash64(facts, sizeof(facts)), status, &outcome);
}

static void follow(struct dev_runtime *runtime, const struct wire_again *mark)
{
    struct dev_task *task = task_of(runtime, mark);
    if (task == NULL) {
        return;
    }
    enum base_status status =
        dev_trust_is_rooted(runtime) ? dev_trust_again(runtime, task, mark) : BASE_OK;
    if (status == BASE_ERR_BUSY) { // metadata comes first
        dev_kept_wait_mark(runtime, mark);
        return;
    }
    if (status != BASE_OK) {
        refuse(runtime, task, mark, status);
        return;
    }
    dev_lease_again(runtime, task);
    base_assert(!task->shadow);
    if (!is_of(&task->offer.again, mark)) {
        task->offer.again = (struct dev_again){mark->rollout_id, mark->attempt};
        dev_repair_doubt(task, DEV_COPY_ACTIVE);
        runtime->dirty = true; // as an accepted statement
        dev_trust_followed(runtime);
    }
}

static bool is_named(const struct dev_task *task, const struct wire_again *marks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (marks[i].task_id == task->id) {
            return true;
        }
    }
    return false;
}

void dev_again_take(struct dev_runtime *runtime, const struct wire_again *marks, uint32_t count,
                    bool all)
{
    for (uint32_t i = 0; i < runtime->task_count && all; i++) {
        struct dev_task *task = &runtime->tasks[i];
        if (task->offer.again.rollout_id != 0 && !is_named(task, marks, count)) {
            task->offer.again = (struct dev_again){0};
            runtime->dirty = true;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        follow(runtime, &marks[i]);
    }
}

bool dev_again_news(struct dev_runtime *runtime, const struct wire_again *marks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct dev_task *task = task_of(runtime, &marks[i]);
        if (task != NULL && !is_of(&task->offer.again, &marks[i])) {
            return true;
        }
    }
    return false;
}
