// The collection of blobs that nothing needs any more: no version of a task, and no part. A batch
// of names at a time is asked about; what no one knows the needs of keeps everything.
//
// Called by the tick, when all is stored and nothing runs, and after check-ins.
#include "core/sweep/device_collect.h"

#include "core/run/device_run.h"
#include "core/slots/device_content.h"
#include "core/sweep/device_past.h"

#include "base/check.h"

#define COLLECT_BATCH 32 // names looked at together

struct batch {
    struct wire_sha256 names[COLLECT_BATCH];
    bool needed[COLLECT_BATCH];
    uint32_t count;
    uint32_t skip; // names before this one were looked at
    uint32_t seen;
    bool failed; // something could not be deleted
    bool unsure; // a version's needs are not known: nothing may be deleted
};

static void batch_visit(void *ctx, const struct wire_sha256 *name)
{
    struct batch *batch = ctx;
    if (batch->seen++ >= batch->skip && batch->count < COLLECT_BATCH) {
        batch->needed[batch->count] = false;
        batch->names[batch->count++] = *name;
    }
}

static void batch_need(struct batch *batch, const struct wire_sha256 *name)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        batch->needed[i] = batch->needed[i] || wire_sha256_equal(&batch->names[i], name);
    }
}

static void batch_need_told(void *ctx, const struct wire_sha256 *name)
{
    batch_need(ctx, name);
}

static void batch_need_exclusive(struct dev_runtime *runtime, struct batch *batch,
                                 const struct wire_sha256 *name, bool pulled)
{
    struct dev_exclusive exclusive;
    batch_need(batch, name);
    enum base_status status = dev_exclusive_open(runtime, name, &exclusive);
    if (status != BASE_OK) {
        batch->unsure = batch->unsure || !pulled || status != BASE_ERR_NOT_FOUND;
        return;
    }
    for (uint32_t i = 0; i < exclusive.parsed.file_count; i++) {
        batch_need(batch, &exclusive.parsed.files[i].digest);
    }
    dev_exclusive_close(runtime, &exclusive);
}

// A version that a task has, or is to have.
struct version {
    const struct wire_sha256 *manifest; // zero: none
    const struct wire_sha256 *exclusive;
    bool pulled;  // it is being brought
    bool unasked; // nobody was asked yet which exclusive files it gets
};

static void batch_need_version(struct dev_runtime *runtime, struct batch *batch,
                               const struct version *version)
{
    struct dev_manifest manifest;
    bool pulled = version->pulled;
    if (wire_sha256_is_zero(version->manifest)) {
        return;
    }
    batch_need(batch, version->manifest);
    batch_need_exclusive(runtime, batch, version->exclusive, pulled);
    enum base_status status = dev_manifest_open(runtime, version->manifest, &manifest);
    if (status != BASE_OK) {
        // Not there yet: then it has no files here either. Otherwise nobody knows what it needs.
        batch->unsure = batch->unsure || !pulled || status != BASE_ERR_NOT_FOUND;
        return;
    }
    for (uint32_t i = 0; i < manifest.parsed.file_count; i++) {
        batch_need(batch, &manifest.parsed.files[i].digest);
    }
    // Which exclusive files it gets is not known yet; some may be here, of its shadow.
    batch->unsure =
        batch->unsure || (version->unasked && manifest.parsed.exclusive != WIRE_EXCLUSIVE_NONE);
    dev_manifest_close(runtime, &manifest);
}

// Marks the names some version needs and deletes the others. Returns how many stay.
static uint32_t batch_sweep(struct dev_runtime *runtime, struct batch *batch)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    uint32_t stay = 0;
    const struct dev_need need = {.blob = batch_need_told, .ctx = batch};
    (void)dev_tell(runtime, &(struct dev_part_event){.kind = DEV_PART_EVENT_NEEDED, .need = &need});
    for (uint32_t i = 0; i < runtime->task_count; i++) {
        struct dev_task *task = &runtime->tasks[i];
        const struct version active = {&task->slots.active.manifest, &task->slots.active.exclusive,
                                       false, false};
        const struct version kept = {&task->slots.kept.manifest, &task->slots.kept.exclusive, false,
                                     false};
        const struct version accepted = {&task->offer.accepted, &task->incoming.exclusive, true,
                                         !task->incoming.asked};
        batch_need_version(runtime, batch, &active);
        batch_need_version(runtime, batch, &kept);
        if (dev_update_is_pulling((enum dev_update_state)task->slots.state)) {
            batch_need_version(runtime, batch, &accepted);
        }
    }
    base_check(batch->count <= COLLECT_BATCH);
    for (uint32_t i = 0; i < batch->count; i++) {
        batch->needed[i] = batch->needed[i] || batch->unsure;
        bool deleted =
            !batch->needed[i] && storage->blob_delete(storage->ctx, &batch->names[i]) == BASE_OK;
        batch->failed = batch->failed || (!batch->needed[i] && !deleted);
        stay += deleted ? 0 : 1;
    }
    return stay;
}

// One attempt. What cannot be deleted now is tried again after the next change or boot.
static void collect(struct dev_runtime *runtime)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct batch batch = {.skip = 0};
    base_assert(!runtime->dirty); // nothing is deleted that the stored record names
    runtime->sweep->collect_due = false;
    if (storage->blob_each == NULL) {
        runtime->garbage = false;
        return;
    }
    do {
        batch.count = 0;
        batch.seen = 0;
        if (storage->blob_each(storage->ctx, batch_visit, &batch) != BASE_OK) {
            return;
        }
        batch.skip += batch_sweep(runtime, &batch);
    } while (batch.count == COLLECT_BATCH);
    runtime->garbage =
        batch.failed || batch.unsure; // stored with the next record; until then a boot tries again
}

static void step(struct dev_runtime *runtime, uint64_t now_us)
{
    (void)now_us;
    if (runtime->sweep->collect_due && !runtime->dirty && !dev_run_is_busy(runtime)) {
        collect(runtime);
    }
}

static bool on_event(struct dev_runtime *runtime, const struct dev_part_event *event)
{
    if (event->kind == DEV_PART_EVENT_RESTORED) {
        runtime->sweep->collect_due = runtime->garbage;
    } else if (event->kind == DEV_PART_EVENT_GARBAGE) {
        runtime->sweep->collect_due = true;
    }
    return false;
}

const struct dev_part dev_collect_part = {.name = "collect",
                                          .step = step,
                                          .on_event = on_event,
                                          .hears =
                                              DEV_PART_HEARS(RESTORED) | DEV_PART_HEARS(GARBAGE)};
