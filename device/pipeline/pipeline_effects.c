// What a run gave: features into the store, uploads to the tunnel, each checked against what the
// task declared. Called by pipeline.c at the end of a run, on the pipeline's thread, within the one
// group of collect that also forgets the start: after a kill the run either gave all of it or is
// run again. What is refused is counted and does not hold up the rest.
#include "pipeline/pipeline_private.h"

#include "base/check.h"

// `record` has all but what the declaration says.
static void upload(struct dev_pipeline *pipeline, const struct pipeline_task *task,
                   const struct wire_upload *declared, struct wire_upload_record record)
{
    const struct wire_upload_port *uploads = &pipeline->options.ports.uploads;
    bool taken = declared != NULL && uploads->offer != NULL && record.size <= WIRE_RECORD_BYTES_MAX;
    if (taken) {
        record.class_id = declared->class_id;
        record.key.task = (struct base_str){task->name, task->name_size};
        record.key.name = declared->name;
        record.key.schema = declared->schema_version;
        record.schema = declared->schema;
        taken = uploads->offer(uploads->ctx, pipeline->now_us, &record) == BASE_OK;
    }
    pipeline->stats.uploads += taken ? 1 : 0;
    pipeline->stats.uploads_refused += taken ? 0 : 1;
}

static uint32_t size_of(size_t size)
{
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static void feature(struct dev_pipeline *pipeline, uint64_t time_ms,
                    const struct dev_effect *effect)
{
    const struct dev_feature_row row = {.feature = effect->name,
                                        .key = effect->key,
                                        .time_ms = time_ms,
                                        .value = effect->bytes,
                                        .value_size = effect->size};
    enum base_status status =
        dev_feature_put(pipeline->options.features, pipeline->now_us, &row, false);
    if (status == BASE_OK) {
        pipeline->stats.features++;
    } else {
        pipeline->stats.features_refused++;
    }
}

void dev_pipeline_on_end(struct dev_pipeline *pipeline, uint64_t now_us, uint64_t wall_ms,
                         struct dev_pipeline_run run, const struct dev_pipeline_end *end)
{
    struct pipeline_start *start =
        run.token != 0 ? dev_pipeline_start_find(pipeline, run.token) : NULL;
    const struct pipeline_task *task =
        dev_pipeline_task_find(pipeline, start != NULL ? start->task_id : run.task_id);
    uint64_t time_ms = start != NULL ? start->wall_ms : wall_ms;
    bool gives = end != NULL && end->ok && task != NULL && (run.token == 0 || start != NULL);
    struct wire_declaration declaration;
    pipeline->now_us = now_us;
    pipeline->wall_ms = wall_ms;
    if (gives) {
        dev_pipeline_declared(pipeline, task, &declaration);
    }
    for (uint32_t i = 0; gives && i < end->effect_count; i++) {
        const struct dev_effect *effect = &end->effects[i];
        uint64_t at_ms = effect->time_ms != 0 ? effect->time_ms : time_ms;
        if (effect->kind == DEV_EFFECT_FEATURE) {
            feature(pipeline, at_ms, effect);
        } else {
            upload(pipeline, task, wire_declaration_upload(&declaration, effect->name),
                   (struct wire_upload_record){.format = effect->format,
                                               .wall_ms = time_ms,
                                               .bytes = effect->bytes,
                                               .size = size_of(effect->size)});
        }
    }
    if (gives && end->result.size > 0 && declaration.result_upload != WIRE_DECLARATION_NO_UPLOAD) {
        base_assert(declaration.result_upload < declaration.upload_count);
        upload(pipeline, task, &declaration.uploads[declaration.result_upload],
               (struct wire_upload_record){.format = WIRE_RECORD_JSON,
                                           .wall_ms = time_ms,
                                           .bytes = (const uint8_t *)end->result.data,
                                           .size = size_of(end->result.size)});
    }
    if (start != NULL) {
        start->state = START_ENDED;
        pipeline->stats.starts_lost += end == NULL ? 1 : 0;
    }
}
