// What live tasks declare, and the trigger set made of it: certified in scratch, compiled aside,
// carried over, swapped between two events. Called by the embedding program through
// dev_pipeline_declare when the set of active versions changes, and by pipeline.c at boot and when
// state is stored; on the pipeline's thread.
//
// A set that does not fit costs a task its place, never the pipeline: the task whose pattern is at
// fault is left out, else the last one that has triggers, and the rest compiled again.
#include "pipeline/pipeline_private.h"

#include "base/carve.h"
#include "base/check.h"
#include "base/hash.h"
#include "wire/leaves/leaves_check.h"

#include <string.h>

#define STATE_KEY       "trigger"
#define STATE_KEY_BYTES 7
#define STATE_BYTES_MAX 4096 // beside pending starts
#define STATE_TIMEOUTS  0x54 // pending starts follow; the engine's own state begins with its version
#define CATCH_UP_SEQS   8192 // events given to the engine again at most

static const struct dev_kv_key state_key = {DEV_SPACE_STATE, STATE_KEY, STATE_KEY_BYTES};

// What a set is made of, on the way.
struct making {
    struct dev_trigger_source sources[PIPELINE_SOURCES_MAX];
    uint64_t task_ids[PIPELINE_SOURCES_MAX];
    uint32_t triggers[PIPELINE_SOURCES_MAX];           // of their tasks
    struct dev_timeout_ask asks[PIPELINE_SOURCES_MAX]; // of openings
    uint32_t count;
    char *texts; // of openings; of the memory port
    size_t texts_room;
};

struct pipeline_task *dev_pipeline_task_find(struct dev_pipeline *pipeline, uint64_t task_id)
{
    for (uint32_t i = 0; i < pipeline->task_count; i++) {
        if (pipeline->tasks[i].id == task_id) {
            return &pipeline->tasks[i];
        }
    }
    return NULL;
}

void dev_pipeline_declared(const struct dev_pipeline *pipeline, const struct pipeline_task *task,
                           struct wire_declaration *out)
{
    memset(out, 0, sizeof(*out));
    out->result_upload = WIRE_DECLARATION_NO_UPLOAD;
    if (task->declaration_bytes > 0) {
        enum base_status status = wire_declaration_parse(
            pipeline->declarations + task->declaration_at, task->declaration_bytes, out);
        base_check(status == BASE_OK); // it was parsed when it was taken
    }
}

static void refuse(struct dev_pipeline *pipeline, uint64_t task_id, struct base_str name,
                   const char *why)
{
    const struct dev_pipeline_ports *ports = &pipeline->options.ports;
    pipeline->stats.tasks_refused++;
    base_log_debug(ports->log, "pipeline", "task %.*s is left out: %s", (int)name.size, name.data,
                   why);
    if (ports->left_out != NULL) {
        ports->left_out(ports->ctx, task_id, why);
    }
}

// ---- Taking declarations

static void task_take(struct dev_pipeline *pipeline, const struct dev_pipeline_task *from)
{
    struct wire_declaration declaration;
    struct base_str bytes = from->declaration;
    if (pipeline->task_count == DEV_PIPELINE_TASKS_MAX || from->name.size > WIRE_TASK_NAME_MAX) {
        refuse(pipeline, from->task_id, from->name, "too many tasks");
        return;
    }
    if (bytes.size > DEV_PIPELINE_DECLARATION_BYTES - pipeline->declarations_used) {
        refuse(pipeline, from->task_id, from->name, "the declarations of all tasks are too large");
        return;
    }
    if (bytes.size > 0 &&
        (wire_declaration_parse((const uint8_t *)bytes.data, bytes.size, &declaration) != BASE_OK ||
         (declaration.leaves.size > 0 && !wire_leaves_declared(bytes)))) {
        refuse(pipeline, from->task_id, from->name, "its declaration is damaged");
        return;
    }
    base_assert(pipeline->declarations_used <= DEV_PIPELINE_DECLARATION_BYTES);
    struct pipeline_task *task = &pipeline->tasks[pipeline->task_count++];
    *task = (struct pipeline_task){
        .id = from->task_id,
        .declaration_at = pipeline->declarations_used,
        .declaration_bytes = (uint32_t)bytes.size,
        .name_size = (uint8_t)from->name.size,
    };
    memcpy(task->name, from->name.data, from->name.size);
    if (bytes.size > 0) {
        memcpy(pipeline->declarations + task->declaration_at, bytes.data, bytes.size);
        pipeline->declarations_used += (uint32_t)bytes.size;
    }
}

static void task_leave_out(struct dev_pipeline *pipeline, uint32_t index, const char *why)
{
    base_assert(index < pipeline->task_count);
    struct pipeline_task *task = &pipeline->tasks[index];
    refuse(pipeline, task->id, (struct base_str){task->name, task->name_size}, why);
    pipeline->task_count--;
    memmove(task, task + 1, (pipeline->task_count - index) * sizeof(*task));
}

// ---- Compiling

// The same trigger of the same task has the same key in every version, so cooldowns and caps go on.
static uint64_t source_key(uint64_t task_id, uint32_t trigger)
{
    return base_hash64_seed(&trigger, sizeof(trigger), task_id);
}

static void triggers_gather(const struct dev_pipeline *pipeline, struct making *making)
{
    making->count = 0;
    for (uint32_t i = 0; i < pipeline->task_count; i++) {
        struct wire_declaration declaration;
        dev_pipeline_declared(pipeline, &pipeline->tasks[i], &declaration);
        for (uint32_t k = 0; k < declaration.trigger_count; k++) {
            base_assert(making->count < PIPELINE_TRIGGERS_MAX);
            making->sources[making->count] = (struct dev_trigger_source){
                .key = source_key(pipeline->tasks[i].id, k), .pattern = declaration.triggers[k]};
            making->asks[making->count] = (struct dev_timeout_ask){0};
            making->triggers[making->count] = k;
            making->task_ids[making->count++] = pipeline->tasks[i].id;
        }
    }
}

// Behind all triggers, so that a match is told before the start that the same event is.
static void openings_gather(struct making *making)
{
    char *at = making->texts;
    uint32_t triggers = making->count;
    for (uint32_t i = 0; i < triggers; i++) {
        const struct dev_trigger_source *source = &making->sources[i];
        size_t left = making->texts_room - (size_t)(at - making->texts);
        struct dev_timeout_ask ask;
        if (dev_timeout_ask(source->pattern, at, left, &ask) != BASE_OK) {
            continue; // it does not ask, or is no pattern, which compiling says
        }
        base_assert(making->count < PIPELINE_SOURCES_MAX && ask.opening.size <= left);
        making->sources[making->count] = (struct dev_trigger_source){
            .key = dev_timeout_key(source->key), .pattern = ask.opening};
        making->asks[making->count] = ask;
        making->triggers[making->count] = making->triggers[i];
        making->task_ids[making->count++] = making->task_ids[i];
        at += ask.opening.size;
    }
}

static void sources_gather(const struct dev_pipeline *pipeline, struct making *making)
{
    triggers_gather(pipeline, making);
    openings_gather(making);
}

// Certified in scratch, then compiled into memory of its own.
static enum base_status compile_in(struct dev_pipeline *pipeline, const struct making *making,
                                   struct dev_trigger_scratch scratch, struct pipeline_engine *out,
                                   struct dev_trigger_fault *fault)
{
    base_assert(out->memory == NULL && making->count <= PIPELINE_SOURCES_MAX);
    const struct dev_trigger_sources sources = {making->sources, making->count};
    struct dev_trigger_options options = {.secret =
                                              dev_recorder_secret(pipeline->options.recorder)};
    struct dev_trigger_certificate certificate;
    BASE_TRY(dev_trigger_certify(&sources, &options, scratch, &certificate, fault));
    size_t set_bytes = base_aligned(certificate.set_bytes, 16);
    size_t state_bytes = base_aligned(certificate.state_bytes, 16);
    size_t bytes = set_bytes + state_bytes + making->count * sizeof(out->sources[0]);
    if (bytes > pipeline->options.trigger_bytes) {
        return base_error_set(&fault->error, BASE_ERR_LIMIT, "its triggers need too much memory");
    }
    out->memory = pipeline_take(pipeline, bytes);
    if (out->memory == NULL) {
        return BASE_ERR_NOMEM;
    }
    uint8_t *state = (uint8_t *)out->memory + set_bytes;
    BASE_TRY(dev_trigger_compile(scratch.memory, out->memory, set_bytes, &out->set));
    BASE_TRY(dev_trigger_init(out->set, state, state_bytes, &out->engine));
    out->bytes = bytes;
    out->source_count = making->count;
    out->sources = (struct pipeline_source *)(void *)(state + state_bytes);
    for (uint32_t i = 0; i < making->count; i++) {
        out->sources[i] =
            (struct pipeline_source){.task_id = making->task_ids[i],
                                     .key = making->sources[i].key,
                                     .trigger = making->triggers[i],
                                     .within_ms = making->asks[i].within_ms & INT32_MAX,
                                     .by_item = making->asks[i].by_item};
    }
    return BASE_OK;
}

static enum base_status compile(struct dev_pipeline *pipeline, const struct making *making,
                                struct pipeline_engine *out, struct dev_trigger_fault *fault)
{
    base_assert(making->count > 0 && out->memory == NULL);
    const struct dev_trigger_sources sources = {making->sources, making->count};
    struct dev_trigger_scratch scratch = {0};
    BASE_TRY(dev_trigger_scratch_bytes(&sources, &scratch.bytes, fault));
    if (scratch.bytes > DEV_PIPELINE_SCRATCH_BYTES) {
        return base_error_set(&fault->error, BASE_ERR_LIMIT,
                              "%u patterns are too many for this device", making->count);
    }
    scratch.memory = pipeline_take(pipeline, scratch.bytes);
    if (scratch.memory == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = compile_in(pipeline, making, scratch, out, fault);
    pipeline_give(pipeline, scratch.memory);
    return status;
}

// Leaves out the task whose source is at fault, or else the last one that has triggers.
static void fault_resolve(struct dev_pipeline *pipeline, const struct making *making,
                          const struct dev_trigger_fault *fault)
{
    base_assert(making->count > 0);
    uint32_t source = fault->source < making->count ? fault->source : making->count - 1;
    uint64_t task_id = making->task_ids[source];
    for (uint32_t i = 0; i < pipeline->task_count; i++) {
        if (pipeline->tasks[i].id == task_id) {
            task_leave_out(pipeline, i, fault->error.text);
            return;
        }
    }
}

static uint64_t set_mark(const struct making *making)
{
    uint64_t mark = making->count;
    for (uint32_t i = 0; i < making->count; i++) {
        const struct dev_trigger_source *source = &making->sources[i];
        mark = base_hash64_seed(source->pattern.data, source->pattern.size, mark ^ source->key);
    }
    return mark;
}

static void engine_drop(struct dev_pipeline *pipeline, struct pipeline_engine *engine)
{
    pipeline_give(pipeline, engine->memory);
    engine->memory = NULL;
    engine->set = NULL;
    engine->engine = NULL;
    engine->source_count = 0;
    engine->bytes = 0;
}

// NOMEM; anything else that is wrong costs a task its place.
static enum base_status engine_make_in(struct dev_pipeline *pipeline, struct making *making,
                                       struct pipeline_engine *out, uint64_t *out_mark)
{
    *out_mark = 0;
    for (sources_gather(pipeline, making); making->count > 0; sources_gather(pipeline, making)) {
        struct dev_trigger_fault fault = {.source = UINT32_MAX};
        enum base_status status = compile(pipeline, making, out, &fault);
        if (status == BASE_OK) {
            *out_mark = set_mark(making);
            return BASE_OK;
        }
        engine_drop(pipeline, out);
        if (status == BASE_ERR_NOMEM) {
            return status;
        }
        fault_resolve(pipeline, making, &fault);
    }
    return BASE_OK;
}

static enum base_status engine_make(struct dev_pipeline *pipeline, struct pipeline_engine *out,
                                    uint64_t *out_mark)
{
    struct making making;
    making.texts_room = DEV_TIMEOUT_TEXTS(pipeline->declarations_used, PIPELINE_TRIGGERS_MAX);
    making.texts = pipeline_take(pipeline, making.texts_room);
    if (making.texts == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = engine_make_in(pipeline, &making, out, out_mark);
    pipeline_give(pipeline, making.texts);
    return status;
}

// ---- What is recorded

static void need_add(const struct dev_pipeline *pipeline, struct dev_capture *capture,
                     const struct dev_capture_need *need)
{
    if (dev_capture_add(capture, need) != BASE_OK) {
        base_log_debug(pipeline->options.ports.log, "pipeline", "a need cannot be recorded");
    }
}

static void pattern_needs(const struct dev_pipeline *pipeline, struct dev_capture *capture,
                          struct base_str text)
{
    struct dev_pattern pattern;
    if (dev_pattern_parse(text, &pattern, NULL) != BASE_OK) {
        return; // its task was left out
    }
    for (uint32_t i = 0; i < pattern.literal_count; i++) {
        const struct dev_pattern_literal *literal = &pattern.literals[i];
        base_assert(literal->test_first + literal->test_count <= pattern.test_count);
        struct base_str attrs[DEV_PATTERN_TESTS_MAX];
        for (uint32_t k = 0; k < literal->test_count; k++) {
            attrs[k] = pattern.tests[literal->test_first + k].attr;
        }
        struct dev_capture_need need = {
            .kinds = literal->kind != 0 ? 1u << literal->kind : (1u << DEV_EVENT_KIND_END) - 2,
            .page = literal->page,
            .name = literal->name,
            .attrs = attrs,
            .attr_count = literal->test_count,
        };
        need_add(pipeline, capture, &need);
    }
    bool adjacent = pattern.tail > 0; // `?` and steps side by side ask for every event
    for (uint32_t i = 0; i < pattern.step_count; i++) {
        adjacent |= pattern.gaps[i].ones > 0 || pattern.gaps[i].spread > 0 ||
                    (i > 0 && !pattern.gaps[i].star);
    }
    if (adjacent) {
        struct dev_capture_need all = {.kinds = (1u << DEV_EVENT_KIND_END) - 2};
        need_add(pipeline, capture, &all);
    }
}

// A task that takes a visit or a span of time wants all of its events.
static void task_needs(const struct dev_pipeline *pipeline, struct dev_capture *capture,
                       const struct wire_declaration *declaration)
{
    bool every = declaration->attribute_count == 1 &&
                 base_str_equal(declaration->attributes[0], BASE_STR("*"));
    struct dev_capture_need need = {
        .kinds = (1u << DEV_EVENT_KIND_END) - 2,
        .attrs = every ? NULL : declaration->attributes,
        .attr_count = every ? 0 : declaration->attribute_count,
        .every_attr = every,
    };
    for (uint32_t i = 0; i < declaration->trigger_count; i++) {
        pattern_needs(pipeline, capture, declaration->triggers[i]);
    }
    if (declaration->events != WIRE_EVENTS_NONE) {
        need_add(pipeline, capture, &need);
    }
}

static enum base_status capture_make(struct dev_pipeline *pipeline)
{
    struct dev_capture *capture = pipeline_take(pipeline, sizeof(*capture));
    if (capture == NULL) {
        return BASE_ERR_NOMEM;
    }
    dev_capture_begin(capture, dev_recorder_secret(pipeline->options.recorder));
    for (uint32_t i = 0; i < pipeline->task_count; i++) {
        struct wire_declaration declaration;
        dev_pipeline_declared(pipeline, &pipeline->tasks[i], &declaration);
        task_needs(pipeline, capture, &declaration);
    }
    dev_recorder_capture(pipeline->options.recorder, capture);
    pipeline_give(pipeline, capture);
    return BASE_OK;
}

// ---- The stored state

// The record: u64 mark of the patterns; perhaps u8 STATE_TIMEOUTS and pending starts (timeouts.h);
// then what the engine encodes.
static void state_load(struct dev_pipeline *pipeline, struct dev_trigger_engine *engine)
{
    uint8_t bytes[DEV_TIMEOUTS_BYTES_MAX + STATE_BYTES_MAX];
    struct base_reader reader;
    size_t size = 0;
    if (dev_collect_get(pipeline->options.collect, state_key, bytes, sizeof(bytes), &size) !=
        BASE_OK) {
        return;
    }
    base_assert(size <= sizeof(bytes)); // as the storage port promises
    base_reader_init(&reader, bytes, size);
    uint64_t mark = base_reader_u64(&reader);
    if (base_reader_left(&reader) > 0 && *reader.at == STATE_TIMEOUTS) {
        const struct dev_timeout_now now = {pipeline->now_us, pipeline->wall_ms};
        (void)base_reader_u8(&reader);
        dev_timeouts_read(&pipeline->timeouts, now, &reader);
    }
    size_t left = base_reader_left(&reader);
    if (reader.status != BASE_OK || left == 0) {
        return; // there were no patterns
    }
    if (dev_trigger_decode(engine, bytes + (size - left), left) != BASE_OK) {
        base_log_debug(pipeline->options.ports.log, "pipeline",
                       "stored trigger state is damaged: dropped");
        return;
    }
    // A pattern that is new must not see events of before it came.
    pipeline->catch_up = mark == pipeline->set_mark;
}

void dev_pipeline_state_save(struct dev_pipeline *pipeline)
{
    struct pipeline_engine *current = pipeline_engine(pipeline);
    uint8_t bytes[DEV_TIMEOUTS_BYTES_MAX + STATE_BYTES_MAX];
    struct base_writer writer;
    size_t size = 0;
    if (!pipeline->trigger_dirty || !pipeline->declared) {
        return;
    }
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_u64(&writer, pipeline->set_mark);
    if (pipeline->timeouts.count > 0) {
        base_writer_u8(&writer, STATE_TIMEOUTS);
        dev_timeouts_write(&pipeline->timeouts, &writer);
        base_check(writer.status == BASE_OK);
    }
    if (current->engine != NULL &&
        dev_trigger_encode(current->engine, writer.at, sizeof(bytes) - base_writer_size(&writer),
                           &size) != BASE_OK) {
        size = 0; // more than is worth keeping: partial matches begin anew after a kill
    }
    const struct base_span state = {bytes, base_writer_size(&writer) + size};
    pipeline->trigger_dirty = dev_collect_put(pipeline->options.collect, pipeline->now_us,
                                              state_key, state, false) != BASE_OK;
}

static bool catch_up_one(void *ctx, const struct dev_event *event)
{
    dev_pipeline_trigger(ctx, event);
    return true;
}

void dev_pipeline_catch_up(struct dev_pipeline *pipeline)
{
    struct dev_recorder_stats stats;
    dev_recorder_stats(pipeline->options.recorder, &stats);
    uint64_t from = stats.next_seq > CATCH_UP_SEQS ? stats.next_seq - CATCH_UP_SEQS : 0;
    const struct dev_sequence_part part = {.from_seq = from, .to_seq = UINT64_MAX};
    enum base_status status =
        dev_sequence_each(pipeline->sequence, pipeline->now_us, &part, catch_up_one, pipeline);
    if (status != BASE_OK) {
        base_log_debug(pipeline->options.ports.log, "pipeline", "stored events cannot be read: %s",
                       base_status_text(status));
    }
}

static bool is_asked(void *ctx, uint64_t key)
{
    const struct pipeline_engine *engine = ctx;
    for (uint32_t i = 0; i < engine->source_count; i++) {
        if (engine->sources[i].key == key && engine->sources[i].within_ms > 0) {
            return true;
        }
    }
    return false;
}

static void tasks_take(struct dev_pipeline *pipeline, const struct dev_pipeline_task *tasks,
                       uint32_t count)
{
    pipeline->task_count = 0;
    pipeline->declarations_used = 0;
    for (uint32_t i = 0; i < 2 * count; i++) { // who declares nothing takes nobody's place
        const struct dev_pipeline_task *task = &tasks[i % count];
        if ((task->declaration.size > 0) == (i < count)) {
            task_take(pipeline, task);
        }
    }
}

enum base_status dev_pipeline_declare(struct dev_pipeline *pipeline, uint64_t now_us,
                                      const struct dev_pipeline_task *tasks, uint32_t count)
{
    struct pipeline_engine *old = pipeline_engine(pipeline);
    struct pipeline_engine *fresh = &pipeline->engines[1 - pipeline->current];
    uint64_t mark = 0;
    base_assert(fresh->memory == NULL && fresh->engine == NULL);
    pipeline->now_us = now_us;
    tasks_take(pipeline, tasks, count);
    BASE_TRY(engine_make(pipeline, fresh, &mark));
    enum base_status status = capture_make(pipeline);
    if (status != BASE_OK) {
        engine_drop(pipeline, fresh);
        return status;
    }
    pipeline->set_mark = mark;
    if (fresh->engine != NULL && old->engine != NULL) {
        dev_trigger_carry(old->engine, fresh->engine);
    } else if (fresh->engine != NULL) {
        state_load(pipeline, fresh->engine); // the first set since boot
    }
    engine_drop(pipeline, old);
    pipeline->current = 1 - pipeline->current;
    dev_timeouts_keep(&pipeline->timeouts, is_asked, fresh);
    pipeline->trigger_dirty = true;
    pipeline->declared = true;
    pipeline->stats.tasks = pipeline->task_count;
    pipeline->stats.patterns = fresh->source_count;
    pipeline->stats.trigger_bytes = fresh->bytes;
    return BASE_OK;
}
