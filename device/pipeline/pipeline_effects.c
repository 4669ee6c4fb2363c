// What a run gave: features into the store, uploads to the tunnel, each checked against what the
// task declared. Called by pipeline.c at the end of a run, on the pipeline's thread, within the one
// group of collect that also forgets the start: after a kill the run either gave all of it or is
// run again. What is refused is counted and does not hold up the rest.
#include "pipeline/pipeline_private.h"

#include "base/check.h"
#include "wire/leaves/leaves_check.h"

#define LEDGER_KEY       "leaves"
#define LEDGER_KEY_BYTES 6

static const struct dev_kv_key ledger_key = {DEV_SPACE_STATE, LEDGER_KEY, LEDGER_KEY_BYTES};

// ---- What may leave

void dev_pipeline_ledger_load(struct dev_pipeline *pipeline)
{
    uint8_t bytes[WIRE_LEAVES_LEDGER_BYTES];
    size_t size = 0;
    pipeline->ledger = (struct wire_leaves_ledger){.day = 0};
    if (dev_collect_get(pipeline->options.collect, ledger_key, bytes, sizeof(bytes), &size) ==
        BASE_OK) {
        struct base_reader reader;
        base_reader_init(&reader, bytes, size);
        wire_leaves_ledger_read(&reader, &pipeline->ledger);
    }
}

// In the group that stores the record.
static void ledger_store(struct dev_pipeline *pipeline)
{
    uint8_t bytes[WIRE_LEAVES_LEDGER_BYTES];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    wire_leaves_ledger_write(&writer, &pipeline->ledger);
    base_assert(writer.status == BASE_OK);
    const struct base_span value = {bytes, base_writer_size(&writer)};
    enum base_status status =
        dev_collect_put(pipeline->options.collect, pipeline->now_us, ledger_key, value, false);
    if (status != BASE_OK) { // a kill now would give the task a few more of today
        base_log_debug(pipeline->options.ports.log, "pipeline", "counts of today: %s",
                       base_status_text(status));
    }
}

static struct base_str declaration_of(const struct dev_pipeline *pipeline,
                                      const struct pipeline_task *task)
{
    return (struct base_str){(const char *)pipeline->declarations + task->declaration_at,
                             task->declaration_bytes};
}

// May it leave, by what the version declares, and is it one of so many a day? The task's process
// may have asked the same; what it said of it does not count.
static bool may_leave(struct dev_pipeline *pipeline, const struct pipeline_task *task,
                      const struct wire_upload *declared, const struct wire_upload_record *record)
{
    struct base_str declaration = declaration_of(pipeline, task);
    const struct wire_leaves_record held = {record->format, record->bytes, record->size};
    struct base_error error = {0};
    base_assert(declared != NULL && (record->size == 0 || record->bytes != NULL));
    enum base_status status = wire_leaves_upload_check(declaration, declared->name, &held, &error);
    if (status == BASE_OK && pipeline->options.leaves_required &&
        !wire_leaves_declared(declaration)) {
        status =
            base_error_set(&error, BASE_ERR_DENIED, "the version does not declare what leaves");
    }
    uint32_t per_day =
        status == BASE_OK ? wire_leaves_upload_per_day(declaration, declared->name) : 0;
    if (per_day > 0) {
        uint64_t key = wire_leaves_ledger_key((struct base_str){task->name, task->name_size},
                                              BASE_STR("upload"), declared->name);
        if (wire_leaves_ledger_take(&pipeline->ledger, key, pipeline->wall_ms, per_day)) {
            ledger_store(pipeline);
        } else {
            status = base_error_set(&error, BASE_ERR_DENIED, "upload '%.*s': %u have left today",
                                    (int)declared->name.size, declared->name.data, per_day);
        }
    }
    if (status != BASE_OK) {
        pipeline->stats.privacy_refusals++;
        base_log_debug(pipeline->options.ports.log, "pipeline", "task %.*s: may not leave: %s",
                       (int)task->name_size, task->name, error.text);
    }
    return status == BASE_OK;
}

// `record` has all but what the declaration says.
static void upload(struct dev_pipeline *pipeline, const struct pipeline_task *task,
                   const struct wire_upload *declared, struct wire_upload_record record)
{
    const struct wire_upload_port *uploads = &pipeline->options.ports.uploads;
    bool taken = declared != NULL && uploads->offer != NULL &&
                 record.size <= WIRE_RECORD_BYTES_MAX &&
                 may_leave(pipeline, task, declared, &record);
    if (taken) {
        record.class_id = declared->class_id;
        record.key.task = (struct base_str){task->name, task->name_size};
        record.key.name = declared->name;
        record.key.schema = declared->schema_version;
        record.schema = declared->schema;
        taken = uploads->offer(uploads->ctx, pipeline->now_us, &record) == BASE_OK;
    }
    if (declared == NULL && wire_leaves_declared(declaration_of(pipeline, task))) {
        pipeline->stats.privacy_refusals++; // the name itself could say something
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
    const struct dev_effect *save = NULL;
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
        } else if (effect->kind == DEV_EFFECT_SAVE) {
            save = effect; // behind the others: its commit may hold the start's end
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
    }
    if (save != NULL) {
        dev_pipeline_store_save(pipeline, task, start, save);
    }
    if (start != NULL) {
        pipeline->stats.starts_lost += end == NULL ? 1 : 0;
    }
}
