// What a visit's feature saves when the time shoppers stay is not the generator's own: of each
// visit of an item's page it is drawn from a Weibull distribution, which times on Web pages follow
// (Liu, White, Dumais, SIGIR 2010: in 98.5 % of 205,873 pages the shape is below 1, and in 80 % the
// scale below 70 s). What happens meanwhile is the generator's (ipv_world.h), so a visit has as
// many events as fit. Prints one line of JSON: sums over the visits that gave a feature.
//
//   ipv_dwell SEED FIRST DEVICES SESSIONS SCALE_MS SHAPE_PERCENT
//
// Raw bytes are counted twice: of lines with all an app's logging library adds, which the generator
// was made to fit, and of lean lines, which have nothing but what the feature is made of.
// bench/pipeline_ipv.py drives it; one thread.
#include "ipv_core.h"
#include "ipv_worker_kit.h"
#include "ipv_world.h"
#include "mem/mem_kv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define VISITS_TOLD_APART 64 // whose sums are kept; no more are open at once
#define SEED_OF_STAYS     97

struct stays {
    struct base_prng prng;
    double scale_us, shape;
    uint64_t end_us[IPV_OPEN_MAX]; // by place in the pile of pages
};

struct visit {
    uint64_t events, raw_bytes, lean_bytes;
};

struct sums {
    uint64_t visits, events, raw_bytes, lean_bytes, feature_bytes;
    uint64_t larger;      // visits whose feature is larger than their raw lines
    uint64_t lean_larger; // and than their lean ones
    uint64_t dwell_ms;
};

// A page that was opened gets its end; one whose end has come does nothing more.
static void stay(struct stays *stays, struct ipv_device *device, const struct dev_event *event)
{
    if (device->open == 0) {
        return;
    }
    uint32_t top = device->open - 1;
    struct ipv_page *page = &device->pages[top];
    if (!page->is_detail) {
        return;
    }
    if (event->kind == DEV_EVENT_ENTER && event->instance == page->instance) {
        double draw = 1 - base_prng_unit(&stays->prng); // not 0
        double us = stays->scale_us * pow(-log(draw), 1 / stays->shape);
        stays->end_us[top] = device->mono_us + (uint64_t)us;
    }
    page->left = device->mono_us < stays->end_us[top] ? UINT32_MAX : 0;
}

static void visit_add(struct visit *visit, const struct ipv_device *device,
                      const struct dev_event *event)
{
    static char line[IPV_RAW_LINE_MAX];
    static uint8_t attrs[DEV_EVENT_ATTRS_BYTES];
    struct dev_event lean = *event;
    if (event->kind == DEV_EVENT_ENTER) {
        *visit = (struct visit){0};
    }
    ipv_cut_down(device, &lean, attrs);
    visit->events++;
    visit->raw_bytes += ipv_raw_json(device->id, event, line, sizeof(line));
    visit->lean_bytes += ipv_raw_json(device->id, &lean, line, sizeof(line));
}

static void sums_add(struct sums *sums, const struct visit *visit,
                     const struct ipv_feature *feature)
{
    static char json[IPV_FEATURE_MAX];
    size_t size = ipv_feature_json(feature, json, sizeof(json));
    ipv_need(size > 0, "a feature is too long");
    sums->visits++;
    sums->events += visit->events;
    sums->raw_bytes += visit->raw_bytes;
    sums->lean_bytes += visit->lean_bytes;
    sums->feature_bytes += size;
    sums->larger += size > visit->raw_bytes;
    sums->lean_larger += size > visit->lean_bytes;
    sums->dwell_ms += (feature->last_us - feature->enter_us) / 1000;
}

static void device_play(struct ipv_core *core, struct ipv_device *device, struct stays *stays,
                        struct sums *sums)
{
    static struct visit visits[VISITS_TOLD_APART];
    struct dev_event event;
    while (ipv_device_next(device, &event)) {
        struct visit *visit = &visits[event.visit % VISITS_TOLD_APART];
        struct dev_recording recording = ipv_recording(device, &event);
        visit_add(visit, device, &event);
        const struct ipv_feature *feature = ipv_core_record(core, &recording);
        if (feature != NULL) {
            sums_add(sums, visit, feature);
        }
        stay(stays, device, &event);
    }
}

static bool stays_parse(struct stays *stays, uint64_t seed, char **arguments)
{
    uint64_t scale_ms = 0;
    uint64_t percent = 0;
    if (base_str_u64(base_str_of(arguments[0]), &scale_ms) != BASE_OK ||
        base_str_u64(base_str_of(arguments[1]), &percent) != BASE_OK || scale_ms == 0 ||
        scale_ms > 3600000 || percent < 20 || percent > 1000) {
        return false;
    }
    *stays = (struct stays){.scale_us = (double)scale_ms * 1e3, .shape = (double)percent / 100};
    base_prng_seed(&stays->prng, seed ^ SEED_OF_STAYS);
    return true;
}

int main(int argc, char **argv)
{
    static struct ipv_device device;
    struct ipv_span span;
    struct stays stays;
    struct sums sums = {0};
    ipv_need(argc == 7 && ipv_span_parse(&span, argv + 1) &&
                 stays_parse(&stays, span.seed, argv + 5),
             "usage: ipv_dwell SEED FIRST DEVICES SESSIONS SCALE_MS SHAPE_PERCENT");
    struct ipv_core *core = ipv_core_new();
    for (uint64_t i = 0; i < span.devices; i++) {
        struct mem_kv kv;
        mem_kv_init(&kv);
        struct dev_kv_port port = mem_kv_port(&kv);
        ipv_device_init(&device, span.seed, span.first + i, span.sessions);
        ipv_core_begin(core, &port, device.id);
        device_play(core, &device, &stays, &sums);
        mem_kv_done(&kv);
    }
    ipv_core_free(core);
    (void)printf("{\"visits\":%" PRIu64 ",\"events\":%" PRIu64 ",\"raw_bytes\":%" PRIu64
                 ",\"lean_bytes\":%" PRIu64 ",\"feature_bytes\":%" PRIu64 ",\"larger\":%" PRIu64
                 ",\"lean_larger\":%" PRIu64 ",\"dwell_ms\":%" PRIu64 "}\n",
                 sums.visits, sums.events, sums.raw_bytes, sums.lean_bytes, sums.feature_bytes,
                 sums.larger, sums.lean_larger, sums.dwell_ms);
    return fflush(stdout) == 0 ? 0 : 1;
}
