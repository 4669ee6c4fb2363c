// A device's pipeline over a store in memory, and the runtime around it as a test plays it.
#ifndef PIPELINE_RIG_H
#define PIPELINE_RIG_H

#include "test_kit.h"

#include "base/alloc.h"
#include "mem/mem_kv.h"
#include "tunnel/tunnel.h"
#include "pipeline/pipeline.h"
#include "pipeline/record/sequence.h"
#include "pipeline/trigger/timeouts.h"
#include "wire/event_block.h"

#define MS            UINT64_C(1000)
#define S             (1000 * MS)
#define TASK          "shop/page-view"
#define OTHER         "shop/likes"
#define SEEN_MAX      512
#define COLLECT_SMALL (24 * 1024)

struct seen_start {
    uint64_t token;
    uint64_t task_id;
    uint32_t events;
    uint64_t first_seq;
    uint64_t last_seq;
    int64_t price_sum;
    bool timed_out;
};

struct rig {
    struct mem_kv kv;
    struct dev_kv_port port;
    void *memory[4];
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    struct dev_feature_store *features;
    struct dev_pipeline *pipeline;
    uint64_t now_us;
    uint64_t wall_ms;
    // The runtime, played by the test.
    enum base_status start_status;
    struct seen_start running; // token 0: none
    struct seen_start starts[SEEN_MAX];
    uint32_t start_count;
    bool leaves_required;
    uint32_t uploads;
    char upload[64];
    uint8_t upload_class;
    uint64_t upload_ms;
    uint64_t dropped;
    uint8_t dropped_class;
    uint32_t matches; // that were told
    uint64_t matched_task;
    uint32_t matched_trigger;
    // What the app said.
    uint64_t recorded;
};

static struct rig rig;

// ---- The runtime's side

static void input_read(const struct dev_pipeline_start *start, struct seen_start *out)
{
    static struct wire_event_block block;
    struct base_reader reader;
    base_reader_init(&reader, start->events, start->events_bytes);
    while (base_reader_left(&reader) > 0) {
        uint64_t size = base_reader_varint(&reader);
        if (size == 0) {
            out->timed_out = base_reader_varint(&reader) == 0 || out->timed_out;
            continue;
        }
        const uint8_t *bytes = base_reader_bytes(&reader, (size_t)size);
        struct wire_event event;
        assert_non_null(bytes);
        assert_int_equal(wire_event_block_parse(bytes, (size_t)size, &block), BASE_OK);
        while (wire_event_block_next(&block, &event)) {
            struct dev_event view = {.attrs = event.attrs,
                                     .attrs_bytes = event.attrs_bytes,
                                     .attr_count = event.attr_count};
            struct dev_event_attr price;
            assert_true(out->events == 0 || event.seq > out->last_seq);
            out->first_seq = out->events == 0 ? event.seq : out->first_seq;
            out->last_seq = event.seq;
            out->events++;
            if (dev_event_attr(&view, BASE_STR("price"), &price) == BASE_OK) {
                out->price_sum += price.integer;
            }
        }
    }
}

static enum base_status start_task(void *ctx, const struct dev_pipeline_start *start)
{
    (void)ctx;
    if (rig.start_status != BASE_OK) {
        return rig.start_status;
    }
    assert_true(rig.running.token == 0);
    struct seen_start seen = {.token = start->token, .task_id = start->task_id};
    input_read(start, &seen);
    rig.running = seen;
    assert_true(rig.start_count < SEEN_MAX);
    rig.starts[rig.start_count++] = seen;
    return BASE_OK;
}

static enum base_status upload(void *ctx, uint64_t now_us, const struct wire_upload_record *upload)
{
    (void)ctx;
    (void)now_us;
    assert_true(upload->size < sizeof(rig.upload));
    memcpy(rig.upload, upload->bytes, upload->size);
    rig.upload[upload->size] = '\0';
    rig.upload_class = upload->class_id;
    rig.upload_ms = upload->wall_ms;
    rig.uploads++;
    return BASE_OK;
}

static void dropped(void *ctx, uint64_t now_us, const struct dev_pipeline_dropped *dropped)
{
    (void)ctx;
    (void)now_us;
    rig.dropped += dropped->count;
    rig.dropped_class = dropped->class_id;
}

static void on_match(void *ctx, uint64_t task_id, uint32_t trigger)
{
    (void)ctx;
    rig.matches++;
    rig.matched_task = task_id;
    rig.matched_trigger = trigger;
}

// The run under way ends with these.
static void run_ends(bool ok, const char *result, const struct dev_effect *effects, uint32_t count)
{
    struct dev_pipeline_end end = {
        .ok = ok, .result = base_str_of(result), .effects = effects, .effect_count = count};
    uint64_t token = rig.running.token;
    assert_true(token != 0);
    rig.running.token = 0;
    dev_pipeline_on_end(rig.pipeline, rig.now_us, rig.wall_ms, (struct dev_pipeline_run){token, 0},
                        &end);
    dev_pipeline_on_free(rig.pipeline, token);
}

// ---- Life

static void *block(uint32_t index, size_t size)
{
    assert_true(size > 0);
    rig.memory[index] = aligned_alloc(16, (size + 15) / 16 * 16);
    assert_non_null(rig.memory[index]);
    memset(rig.memory[index], 0xa5, size);
    return rig.memory[index];
}

static enum base_status boot(void)
{
    dev_pipeline_done(rig.pipeline);
    rig.pipeline = NULL;
    for (uint32_t i = 0; i < 4; i++) {
        free(rig.memory[i]);
    }
    rig.port = mem_kv_port(&rig.kv);
    size_t size = dev_collect_bytes();
    assert_int_equal(dev_collect_init(block(0, size), size, &rig.port, &rig.collect), BASE_OK);
    struct dev_recorder_options recorder = {.entropy = 11, .boot_id = 3, .collect = rig.collect};
    size = dev_recorder_bytes(&recorder);
    assert_int_equal(dev_recorder_init(block(1, size), size, &recorder, &rig.recorder), BASE_OK);
    size = dev_feature_store_bytes();
    assert_int_equal(dev_feature_store_init(block(2, size), size, rig.collect, &rig.features),
                     BASE_OK);
    struct dev_pipeline_options options = {.collect = rig.collect,
                                           .features = rig.features,
                                           .recorder = rig.recorder,
                                           .memory = base_alloc_heap(),
                                           .leaves_required = rig.leaves_required,
                                           .ports = {.start = start_task,
                                                     .uploads = {NULL, upload},
                                                     .on_match = on_match,
                                                     .dropped = dropped}};
    size = dev_pipeline_bytes(&options);
    assert_int_equal(dev_pipeline_init(block(3, size), size, &options, &rig.pipeline), BASE_OK);
    rig.running.token = 0;
    return dev_pipeline_boot(rig.pipeline, rig.now_us, rig.wall_ms);
}

static int setup(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof(rig));
    mem_kv_init(&rig.kv);
    rig.now_us = 5 * S;
    rig.wall_ms = 1700000000000;
    assert_int_equal(boot(), BASE_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dev_pipeline_done(rig.pipeline);
    for (uint32_t i = 0; i < 4; i++) {
        free(rig.memory[i]);
    }
    mem_kv_done(&rig.kv);
    return 0;
}

struct declared {
    const char *name;
    const char *trigger;
    enum wire_declared_events events;
    uint32_t events_max;
    uint32_t events_s;
};

static void declare(const struct declared *from, uint32_t count)
{
    static uint8_t bytes[4][1024];
    struct dev_pipeline_task tasks[4];
    for (uint32_t i = 0; i < count; i++) {
        struct wire_declaration declaration = {
            .trigger_count = 1,
            .triggers = {base_str_of(from[i].trigger)},
            .events = from[i].events,
            .events_max = from[i].events_max,
            .events_s = from[i].events_s,
            .attribute_count = 1,
            .attributes = {BASE_STR("price")},
            .upload_count = 1,
            .uploads = {{.name = BASE_STR("views"), .class_id = 1, .schema_version = 1}},
            .result_upload = 0,
        };
        size_t size = 0;
        assert_int_equal(wire_declaration_encode(&declaration, bytes[i], sizeof(bytes[i]), &size),
                         BASE_OK);
        tasks[i] = (struct dev_pipeline_task){.task_id = wire_task_id(base_str_of(from[i].name)),
                                              .name = base_str_of(from[i].name),
                                              .declaration = {(const char *)bytes[i], size}};
    }
    assert_int_equal(dev_pipeline_declare(rig.pipeline, rig.now_us, tasks, count), BASE_OK);
}

static void record(enum dev_event_kind kind, const char *page, int64_t price)
{
    struct dev_event_attr attrs[] = {
        {.name = BASE_STR("price"), .type = DEV_ATTR_INTEGER, .integer = price},
        {.name = BASE_STR("secret"), .type = DEV_ATTR_STRING, .text = BASE_STR("nobody asked")}};
    struct dev_recording recording = {.kind = kind,
                                      .page = base_str_of(page),
                                      .wall_ms = rig.wall_ms,
                                      .mono_us = rig.now_us,
                                      .attrs = attrs,
                                      .attr_count = 2};
    assert_int_equal(dev_record(rig.recorder, &recording), BASE_OK);
    rig.recorded++;
}

static void step(void)
{
    rig.now_us += 10 * MS;
    rig.wall_ms += 10;
    (void)dev_pipeline_step(rig.pipeline, rig.now_us, rig.wall_ms);
    if (!rig.kv.killed) {
        assert_true(dev_pipeline_validate(rig.pipeline));
    }
}

static struct dev_pipeline_stats stats(void)
{
    struct dev_pipeline_stats out;
    dev_pipeline_stats(rig.pipeline, &out);
    return out;
}

#endif
