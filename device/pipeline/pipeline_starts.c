// Starts that wait: stored when a match fires, handed over one at a time, forgotten in the same
// commit that stores what the run gave. Called by pipeline.c, in its step and at the ends of runs,
// on the pipeline's thread.
//
// Order of what reaches the store: the events of a match, then the start with the engine's state;
// when its run ended, what the run gave, then the start's end. A kill in between runs the start
// again, under its token.
#include "pipeline/pipeline_private.h"

#include "base/check.h"

#include <string.h>

//   start := u8 version (1; 2: timed out), u64 task id, u64 seq, varint wall_ms, varint visit,
//   varint seq_count, seq_count x varint
//            (seq - the one before), under the key "start" + u64 seq big-endian + u64 token

#define KEY_PREFIX       "start"
#define KEY_PREFIX_BYTES 5
#define KEY_BYTES        (KEY_PREFIX_BYTES + 16)
#define START_VERSION    1
#define START_TIMED_OUT  2
#define DROPPED_CLASS    2 // of starts whose task sends nothing
#define START_BYTES_MAX  (40 + 10 * DEV_PATTERN_STEPS_MAX)

// In the order of seqs, so that a boot finds the oldest first.
static void key_make(const struct pipeline_start *start, uint8_t key[KEY_BYTES])
{
    memcpy(key, KEY_PREFIX, KEY_PREFIX_BYTES);
    for (unsigned i = 0; i < 8; i++) {
        key[KEY_PREFIX_BYTES + i] = (uint8_t)(start->seq >> (56 - 8 * i));
        key[KEY_PREFIX_BYTES + 8 + i] = (uint8_t)(start->token >> (56 - 8 * i));
    }
}

static uint64_t key_token(const uint8_t *key)
{
    uint64_t token = 0;
    for (unsigned i = 0; i < 8; i++) {
        token = token << 8 | key[KEY_PREFIX_BYTES + 8 + i];
    }
    return token;
}

static size_t encode(const struct pipeline_start *start, uint8_t out[START_BYTES_MAX])
{
    base_assert(start->seq_count <= DEV_PATTERN_STEPS_MAX);
    struct base_writer writer;
    uint64_t before = 0;
    base_writer_init(&writer, out, START_BYTES_MAX);
    base_writer_u8(&writer, start->timed_out ? START_TIMED_OUT : START_VERSION);
    base_writer_u64(&writer, start->task_id);
    base_writer_u64(&writer, start->seq);
    base_writer_varint(&writer, start->wall_ms);
    base_writer_varint(&writer, start->visit);
    base_writer_varint(&writer, start->seq_count);
    for (uint32_t i = 0; i < start->seq_count; i++) {
        base_writer_varint(&writer, start->seqs[i] - before);
        before = start->seqs[i];
    }
    base_check(writer.status == BASE_OK);
    return base_writer_size(&writer);
}

static bool decode(const uint8_t *bytes, size_t size, struct pipeline_start *out)
{
    struct base_reader reader;
    uint64_t before = 0;
    base_reader_init(&reader, bytes, size);
    uint8_t version = base_reader_u8(&reader);
    out->task_id = base_reader_u64(&reader);
    out->seq = base_reader_u64(&reader);
    out->wall_ms = base_reader_varint(&reader);
    out->visit = (uint32_t)base_reader_varint_max(&reader, UINT32_MAX);
    out->seq_count = (uint32_t)base_reader_varint_max(&reader, DEV_PATTERN_STEPS_MAX);
    for (uint32_t i = 0; i < out->seq_count && reader.status == BASE_OK; i++) {
        before += base_reader_varint(&reader);
        out->seqs[i] = before;
    }
    out->timed_out = version == START_TIMED_OUT;
    return base_reader_finish(&reader) == BASE_OK && (version == START_VERSION || out->timed_out);
}

// ---- Coming

static struct pipeline_source source_of(const struct pipeline_engine *engine, uint64_t key)
{
    for (uint32_t i = 0; i < engine->source_count; i++) {
        if (engine->sources[i].key == key) {
            return engine->sources[i];
        }
    }
    return (struct pipeline_source){0};
}

// A match or a time-out is to start its task. NULL: it does not; that is counted.
static struct pipeline_task *start_admit(struct dev_pipeline *pipeline,
                                         const struct pipeline_source *source)
{
    const struct dev_pipeline_ports *ports = &pipeline->options.ports;
    pipeline->stats.matches++;
    if (ports->on_match != NULL) {
        ports->on_match(ports->ctx, source->task_id, source->trigger);
    }
    struct pipeline_task *task = dev_pipeline_task_find(pipeline, source->task_id);
    if (task == NULL) { // gone, and there was no memory to make a new set
        pipeline->stats.starts_lost++;
        return NULL;
    }
    if (pipeline->start_count == DEV_PIPELINE_STARTS_MAX) {
        pipeline->stats.starts_dropped++;
        task->dropped++;
        return NULL;
    }
    return task;
}

// A start of a pattern that asks for its time-out. One that gives way to it is dropped, as a match
// that finds no place is.
static void opened(struct dev_pipeline *pipeline, const struct dev_event *event,
                   const struct dev_trigger_fired *fired, const struct pipeline_source *source)
{
    base_assert(source->within_ms > 0 && fired->seq == event->seq);
    const struct dev_timeout_ask ask = {.within_ms = source->within_ms, .by_item = source->by_item};
    const struct dev_timeout_now now = {pipeline->now_us, pipeline->wall_ms};
    const struct dev_timeout start = dev_timeout_of(event, fired, &ask, now);
    struct dev_timeout dropped;
    if (!dev_timeouts_open(&pipeline->timeouts, &start, &dropped)) {
        return;
    }
    struct pipeline_source of = source_of(pipeline_engine(pipeline), dropped.key);
    struct pipeline_task *task = start_admit(pipeline, &of);
    if (task != NULL) {
        pipeline->stats.starts_dropped++;
        task->dropped++;
    }
}

void dev_pipeline_timeouts_step(struct dev_pipeline *pipeline)
{
    struct dev_timeout over;
    while (pipeline->declared && dev_timeouts_over(&pipeline->timeouts, pipeline->now_us, &over)) {
        struct pipeline_source source = source_of(pipeline_engine(pipeline), over.key);
        uint64_t token = dev_trigger_token(over.key, over.seq);
        pipeline->trigger_dirty = true;
        if (dev_pipeline_start_find(pipeline, token) != NULL) {
            continue; // given again after a restart
        }
        pipeline->stats.timed_out++;
        if (start_admit(pipeline, &source) == NULL) {
            continue;
        }
        base_assert(pipeline->start_count < DEV_PIPELINE_STARTS_MAX);
        pipeline->starts[pipeline->start_count++] = (struct pipeline_start){
            .token = token,
            .task_id = source.task_id,
            .seq = over.seq > pipeline->newest_seq ? over.seq : pipeline->newest_seq,
            .wall_ms = pipeline->wall_ms,
            .visit = over.visit,
            .timed_out = true,
            .seq_count = 1,
            .seqs = {over.seq},
        };
    }
}

void dev_pipeline_fired(struct dev_pipeline *pipeline, const struct dev_event *event,
                        const struct dev_trigger_fired *fired)
{
    struct pipeline_engine *engine = pipeline_engine(pipeline);
    struct pipeline_source source = source_of(engine, fired->key);
    if (source.within_ms > 0) {
        opened(pipeline, event, fired, &source);
        return;
    }
    struct pipeline_start start = {
        .token = fired->token,
        .task_id = source.task_id,
        .seq = fired->seq,
        .wall_ms = event->wall_ms,
        .visit = event->visit,
    };
    dev_timeouts_match(&pipeline->timeouts, event, fired);
    if (dev_pipeline_start_find(pipeline, fired->token) != NULL) {
        pipeline->stats.matches++;
        return; // given again after a restart
    }
    const struct pipeline_task *task = start_admit(pipeline, &source);
    struct wire_declaration declaration;
    if (task == NULL) {
        return;
    }
    dev_pipeline_declared(pipeline, task, &declaration);
    if (declaration.events == WIRE_EVENTS_MATCHED) {
        const struct dev_trigger_past past = {dev_pipeline_past, pipeline};
        struct dev_trigger_embedding made;
        if (dev_trigger_embed(engine->set, fired, event, past, &made) != BASE_OK) {
            made = (struct dev_trigger_embedding){1, {fired->seq}}; // the earlier ones are gone
        }
        start.seq_count = made.count;
        memcpy(start.seqs, made.seqs, made.count * sizeof(made.seqs[0]));
    }
    base_assert(pipeline->start_count < DEV_PIPELINE_STARTS_MAX);
    pipeline->starts[pipeline->start_count++] = start;
}

static uint8_t class_of(const struct wire_declaration *declaration)
{
    uint32_t upload =
        declaration->result_upload != WIRE_DECLARATION_NO_UPLOAD ? declaration->result_upload : 0;
    return upload < declaration->upload_count ? declaration->uploads[upload].class_id
                                              : DROPPED_CLASS;
}

void dev_pipeline_dropped_tell(struct dev_pipeline *pipeline)
{
    const struct dev_pipeline_ports *ports = &pipeline->options.ports;
    for (uint32_t i = 0; i < pipeline->task_count && ports->dropped != NULL; i++) {
        struct pipeline_task *task = &pipeline->tasks[i];
        if (task->dropped == 0) {
            continue;
        }
        struct wire_declaration declaration;
        dev_pipeline_declared(pipeline, task, &declaration);
        const struct dev_pipeline_dropped dropped = {.task = {task->name, task->name_size},
                                                     .class_id = class_of(&declaration),
                                                     .count = task->dropped};
        task->dropped = 0;
        ports->dropped(ports->ctx, pipeline->now_us, &dropped);
    }
}

static bool load_one(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *value,
                     size_t value_size)
{
    struct dev_pipeline *pipeline = ctx;
    if (pipeline->start_count == DEV_PIPELINE_STARTS_MAX) {
        return false;
    }
    struct pipeline_start *start = &pipeline->starts[pipeline->start_count];
    if (key_size == KEY_BYTES && decode(value, value_size, start)) {
        start->token = key_token(key);
        start->state = START_WAITING;
        pipeline->start_count++;
        pipeline->stats.starts_again++;
    }
    return true;
}

void dev_pipeline_starts_load(struct dev_pipeline *pipeline)
{
    pipeline->start_count = 0;
    const struct dev_kv_range starts = {
        .space = DEV_SPACE_STATE, .prefix = KEY_PREFIX, .prefix_size = KEY_PREFIX_BYTES};
    enum base_status status =
        dev_collect_scan(pipeline->options.collect, pipeline->now_us, &starts, load_one, pipeline);
    if (status != BASE_OK) {
        base_log_debug(pipeline->options.ports.log, "pipeline", "starts cannot be read: %s",
                       base_status_text(status));
    }
}

// ---- Into the store and out of it

struct pipeline_start *dev_pipeline_start_find(struct dev_pipeline *pipeline, uint64_t token)
{
    for (uint32_t i = 0; i < pipeline->start_count; i++) {
        if (pipeline->starts[i].token == token) {
            return &pipeline->starts[i];
        }
    }
    return NULL;
}

static bool any_in(const struct dev_pipeline *pipeline, enum pipeline_start_state state)
{
    for (uint32_t i = 0; i < pipeline->start_count; i++) {
        if (pipeline->starts[i].state == state) {
            return true;
        }
    }
    return false;
}

static void start_put(struct dev_pipeline *pipeline, const struct pipeline_start *start)
{
    struct dev_collect *collect = pipeline->options.collect;
    uint8_t key_bytes[KEY_BYTES];
    uint8_t bytes[START_BYTES_MAX];
    const struct dev_kv_key key = {DEV_SPACE_STATE, key_bytes, sizeof(key_bytes)};
    key_make(start, key_bytes);
    // The group's end says whether all of it was taken.
    enum base_status ignored = BASE_OK;
    if (start->state == START_NEW) {
        const struct base_span value = {bytes, encode(start, bytes)};
        ignored = dev_collect_put(collect, pipeline->now_us, key, value, true);
    } else if (start->state == START_ENDED) {
        ignored = dev_collect_delete(collect, pipeline->now_us, key, true);
    }
    (void)ignored;
}

void dev_pipeline_start_forget(struct dev_pipeline *pipeline, const struct pipeline_start *start)
{
    base_assert(start->state == START_ENDED);
    start_put(pipeline, start);
}

// What was put is as good as stored: commits keep their order.
static void starts_settle(struct dev_pipeline *pipeline)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < pipeline->start_count; i++) {
        struct pipeline_start *start = &pipeline->starts[i];
        if (start->state == START_ENDED) {
            continue;
        }
        start->state = start->state == START_NEW ? START_WAITING : start->state;
        pipeline->starts[kept++] = *start;
    }
    pipeline->start_count = kept;
}

void dev_pipeline_starts_store(struct dev_pipeline *pipeline)
{
    struct dev_collect *collect = pipeline->options.collect;
    bool fresh = any_in(pipeline, START_NEW);
    if (!fresh && !any_in(pipeline, START_ENDED)) {
        return;
    }
    if (fresh && dev_sequence_flush(pipeline->sequence, pipeline->now_us) != BASE_OK) {
        return; // its events first; again at the next step
    }
    dev_collect_begin(collect);
    for (uint32_t i = 0; i < pipeline->start_count; i++) {
        start_put(pipeline, &pipeline->starts[i]);
    }
    dev_pipeline_state_save(pipeline);
    if (dev_collect_end(collect, pipeline->now_us) == BASE_OK) {
        starts_settle(pipeline);
    } else {
        pipeline->trigger_dirty = true;
    }
}

// ---- Going

static void input_drop(struct dev_pipeline *pipeline)
{
    pipeline_give(pipeline, pipeline->input);
    pipeline->input = NULL;
}

// False: it is lost; the next may go.
static bool start_hand_over(struct dev_pipeline *pipeline, struct pipeline_start *start)
{
    base_assert(start->state == START_WAITING && pipeline->input == NULL);
    const struct dev_pipeline_ports *ports = &pipeline->options.ports;
    const struct pipeline_task *task = dev_pipeline_task_find(pipeline, start->task_id);
    enum base_status status = BASE_ERR_NOT_FOUND;
    if (task != NULL) {
        pipeline->input = pipeline_take(pipeline, pipeline->options.input_bytes);
        if (pipeline->input == NULL) {
            return true; // at the next step
        }
        struct wire_declaration declaration;
        dev_pipeline_declared(pipeline, task, &declaration);
        struct dev_pipeline_start out = {
            .task_id = start->task_id,
            .token = start->token,
            .events = pipeline->input,
            .events_bytes = dev_pipeline_input_make(pipeline, start, &declaration),
        };
        status = ports->start(ports->ctx, &out);
    }
    if (status == BASE_OK) {
        start->state = START_RUNNING;
        pipeline->free_token = start->token;
        pipeline->stats.starts++;
        return true;
    }
    input_drop(pipeline);
    if (status == BASE_ERR_NOT_FOUND) {
        start->state = START_ENDED;
        pipeline->stats.starts_lost++;
    }
    return status != BASE_ERR_NOT_FOUND;
}

void dev_pipeline_starts_step(struct dev_pipeline *pipeline)
{
    if (!pipeline->declared || any_in(pipeline, START_RUNNING)) {
        return; // before the first declaration nobody knows which tasks there are
    }
    for (uint32_t i = 0; i < pipeline->start_count && pipeline->input == NULL; i++) {
        struct pipeline_start *start = &pipeline->starts[i];
        if (start->state == START_WAITING && start_hand_over(pipeline, start)) {
            return;
        }
    }
}
