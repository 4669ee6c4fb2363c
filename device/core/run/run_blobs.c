// What the app hands to runs by name: sets are taken from it when a run starts, and given back once
// (run_blobs.h). Called by device_run.c and device_shadow.c, within a tick or the end of a run, on
// the runtime's thread.
#include "core/run/run_blobs.h"

#include "base/check.h"

static void give_back(const struct dev_runtime *runtime, const struct dev_blob_set *set)
{
    const struct dev_blob_port *port = &runtime->ports->blobs;
    if (set != NULL) {
        port->release(port->ctx, set);
    }
}

const struct dev_blob_set *dev_run_blobs_take(struct dev_runtime *runtime, struct dev_run *run,
                                              const struct dev_task *task)
{
    const struct dev_blob_port *port = &runtime->ports->blobs;
    const struct dev_kept_blobs *kept = &runtime->kept_result->blobs;
    base_assert(run->blobs == NULL);
    if (port->hold == NULL) {
        return NULL;
    }
    if (task->shadow && kept->shadow_id == task->id) {
        return kept->set; // still kept: a start that fails comes again
    }
    run->blobs = port->hold(port->ctx, dev_task_name(task));
    return run->blobs;
}

void dev_run_blobs_drop(struct dev_runtime *runtime, struct dev_run *run)
{
    give_back(runtime, run->blobs);
    run->blobs = NULL;
}

// Does the shadow whose set is kept still need it?
static bool is_needed(struct dev_runtime *runtime)
{
    uint64_t id = runtime->kept_result->blobs.shadow_id;
    const struct dev_task *shadow = id != 0 ? dev_task_find(runtime, id) : NULL;
    return shadow != NULL && shadow->shadow &&
           (shadow->runs.due_us != UINT64_MAX || dev_run_of(runtime, shadow) != NULL);
}

bool dev_run_blobs_keep(struct dev_runtime *runtime, struct dev_run *run,
                        const struct dev_task *shadow)
{
    struct dev_kept_blobs *kept = &runtime->kept_result->blobs;
    if (run->blobs == NULL && kept->shadow_id != shadow->id) {
        return true;
    }
    if (dev_run_of(runtime, shadow) != NULL ||
        (kept->shadow_id != shadow->id && is_needed(runtime))) {
        return false;
    }
    give_back(runtime, kept->set);
    *kept = (struct dev_kept_blobs){.set = run->blobs, .shadow_id = shadow->id};
    run->blobs = NULL;
    return true;
}

void dev_run_blobs_forget(struct dev_runtime *runtime, const struct dev_task *shadow)
{
    struct dev_kept_blobs *kept = &runtime->kept_result->blobs;
    if (shadow != NULL && kept->shadow_id != shadow->id) {
        return;
    }
    give_back(runtime, kept->set);
    *kept = (struct dev_kept_blobs){.shadow_id = 0};
}
