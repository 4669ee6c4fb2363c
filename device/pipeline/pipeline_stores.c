// What tasks keep by walle.store: saved at the end of a run, in one commit with the end of the
// start that the run had, so that a start that comes again after a kill finds the store as it found
// it before; dropped when its task is gone. Called by pipeline_effects.c and by the embedding
// program, on the pipeline's thread. A task's process made the image, so it is taken for anything.
#include "pipeline/pipeline_private.h"

#include "base/check.h"
#include "pipeline/storage/task_store.h"

// Keys and values of what is kept, where a run with this image would have found it. NOMEM, the
// port's errors.
static enum base_status used_before(struct dev_pipeline *pipeline, const struct pipeline_task *task,
                                    bool per_version, uint64_t tag, size_t *out)
{
    const struct dev_task_store_of of = {
        .task_id = task->id, .per_version = per_version, .version = tag};
    struct wire_store store;
    size_t size = 0;
    uint8_t *bytes = pipeline_take(pipeline, WIRE_STORE_IMAGE_MAX);
    if (bytes == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = dev_task_store_load(pipeline->options.collect, &of, bytes, &size);
    if (status == BASE_OK) {
        status = wire_store_parse(bytes, size, &store);
    }
    *out = status == BASE_OK ? store.used : 0;
    pipeline_give(pipeline, bytes);
    return status;
}

// FULL: over its quota, and no smaller than it was; an update may have lowered the quota below what
// is there.
static enum base_status image_check(struct dev_pipeline *pipeline, const struct pipeline_task *task,
                                    const struct dev_effect *effect, struct wire_store *out)
{
    struct wire_declaration declaration;
    dev_pipeline_declared(pipeline, task, &declaration);
    if (declaration.store_kib == 0) {
        return BASE_ERR_DENIED;
    }
    // The image is only read; it is changed where the script runs.
    BASE_TRY(wire_store_parse((uint8_t *)(uintptr_t)effect->bytes, effect->size, out));
    if (out->used <= (size_t)declaration.store_kib * 1024) {
        return BASE_OK;
    }
    size_t before = 0;
    BASE_TRY(used_before(pipeline, task, declaration.store_keep == WIRE_STORE_A_VERSION, out->tag,
                         &before));
    return out->used < before ? BASE_OK : BASE_ERR_FULL;
}

static enum base_status save(struct dev_pipeline *pipeline, const struct pipeline_task *task,
                             const struct pipeline_start *start, const struct wire_store *store)
{
    struct dev_collect *collect = pipeline->options.collect;
    dev_collect_begin(collect);
    enum base_status status = dev_task_store_save(collect, pipeline->now_us, task->id, store);
    if (start != NULL) {
        dev_pipeline_start_forget(pipeline, start);
    }
    enum base_status ended = dev_collect_end(collect, pipeline->now_us);
    return status != BASE_OK ? status : ended;
}

void dev_pipeline_store_save(struct dev_pipeline *pipeline, const struct pipeline_task *task,
                             struct pipeline_start *start, const struct dev_effect *effect)
{
    struct wire_store store;
    base_assert(task != NULL && effect->kind == DEV_EFFECT_SAVE);
    enum base_status status = image_check(pipeline, task, effect, &store);
    if (status == BASE_OK) {
        status = save(pipeline, task, start, &store);
    }
    if (status == BASE_OK) {
        pipeline->stores = true;
        pipeline->stats.stores++;
    } else {
        pipeline->stats.stores_refused++;
        base_log_warn(pipeline->options.ports.log, "pipeline", "store of task %.*s: %s",
                      (int)task->name_size, task->name, base_status_text(status));
    }
}

void dev_pipeline_tasks_keep(struct dev_pipeline *pipeline, uint64_t now_us,
                             const uint64_t *task_ids, uint32_t count)
{
    uint32_t left = 0;
    if (!pipeline->stores) {
        return;
    }
    enum base_status status =
        dev_task_store_keep(pipeline->options.collect, now_us, task_ids, count, &left);
    if (status == BASE_OK) {
        pipeline->stores = left > 0;
    } else { // at the next time
        base_log_debug(pipeline->options.ports.log, "pipeline", "stores of tasks that went: %s",
                       base_status_text(status));
    }
}
