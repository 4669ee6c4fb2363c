// See ipv_core.h. Called by ipv_worker and ipv_store.
#include "ipv_core.h"

#include "base/clock.h"
#include "ipv_worker_kit.h"

#include <stdlib.h>

enum { MEMORY_COLLECT, MEMORY_RECORDER, MEMORY_FEATURES };

static const struct dev_recorder_options RECORDER = {.ring_bytes = 0};

struct ipv_core *ipv_core_new(void)
{
    struct ipv_core *core = calloc(1, sizeof(*core));
    ipv_need(core != NULL, "no memory");
    core->memory[MEMORY_COLLECT] = malloc(dev_collect_bytes());
    core->memory[MEMORY_RECORDER] =
        aligned_alloc(64, (dev_recorder_bytes(&RECORDER) + 63) / 64 * 64);
    core->memory[MEMORY_FEATURES] = malloc(dev_feature_store_bytes());
    for (int i = 0; i < 3; i++) {
        ipv_need(core->memory[i] != NULL, "no memory");
    }
    return core;
}

void ipv_core_free(struct ipv_core *core)
{
    for (int i = 0; core != NULL && i < 3; i++) {
        free(core->memory[i]);
    }
    free(core);
}

// What task.json of conf/tasks/ipv_events asks for.
static void capture(struct ipv_core *core)
{
    struct dev_capture_need need = {
        .kinds = (1u << DEV_EVENT_KIND_END) - 2,
        .page = BASE_STR(IPV_PAGE),
        .attrs = ipv_feature_attrs,
        .attr_count = IPV_FEATURE_ATTRS,
    };
    dev_capture_begin(&core->capture, dev_recorder_secret(core->recorder));
    ipv_need(dev_capture_add(&core->capture, &need) == BASE_OK, "the capture does not fit");
    dev_recorder_capture(core->recorder, &core->capture);
}

void ipv_core_begin(struct ipv_core *core, const struct dev_kv_port *port, uint64_t entropy)
{
    uint64_t now_us = base_clock_mono_us();
    struct dev_recorder_options options = RECORDER;
    static const struct dev_recorder_sink nobody;
    ipv_book_init(&core->book);
    ipv_need(dev_collect_init(core->memory[MEMORY_COLLECT], dev_collect_bytes(), port,
                              &core->collect) == BASE_OK &&
                 dev_collect_boot(core->collect, now_us) == BASE_OK &&
                 dev_feature_store_init(core->memory[MEMORY_FEATURES], dev_feature_store_bytes(),
                                        core->collect, &core->features) == BASE_OK &&
                 dev_feature_store_boot(core->features, now_us) == BASE_OK,
             "the store does not open");
    options.collect = core->collect;
    options.entropy = entropy;
    ipv_need(dev_recorder_init(core->memory[MEMORY_RECORDER], dev_recorder_bytes(&options),
                               &options, &core->recorder) == BASE_OK &&
                 dev_recorder_boot(core->recorder, now_us, now_us, &nobody) == BASE_OK,
             "the recorder does not start");
    capture(core);
}

static void on_event(void *ctx, const struct dev_event *event)
{
    struct ipv_core *core = ctx;
    const struct ipv_feature *done = ipv_book_event(&core->book, event);
    core->done = done != NULL ? done : core->done;
    core->last = *event;
}

const struct ipv_feature *ipv_core_record(struct ipv_core *core,
                                          const struct dev_recording *recording)
{
    const struct dev_recorder_sink sink = {.ctx = core, .on_event = on_event};
    core->done = NULL;
    core->events++;
    ipv_need(dev_record(core->recorder, recording) == BASE_OK, "an event was not recorded");
    (void)dev_recorder_drain(core->recorder, recording->mono_us, 0, &sink);
    return core->done;
}

void ipv_core_store(struct ipv_core *core, const struct ipv_feature *feature, const char *json,
                    size_t size)
{
    uint64_t now_us = base_clock_mono_us();
    const struct dev_feature_row row = {.feature = BASE_STR("ipv"),
                                        .key = {feature->item.bytes, feature->item.size},
                                        .time_ms = feature->enter_ms,
                                        .value = json,
                                        .value_size = size};
    ipv_need(dev_feature_put(core->features, now_us, &row, false) == BASE_OK &&
                 dev_collect_flush(core->collect, now_us) == BASE_OK,
             "the feature was not stored");
}
