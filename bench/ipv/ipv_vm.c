// The item-page-view feature as a task: conf/tasks/ipv_events in the script VM, once per visit, as
// a device runs it when its trigger fires.
//
//   ipv_vm features SEED FIRST DEVICES SESSIONS FOLDER    what `ipv_worker features` prints
//   ipv_vm encodings SEED FIRST DEVICES SESSIONS FOLDER   32 float32 a visit
//   ipv_vm time SEED FIRST DEVICES SESSIONS FOLDER        times
//
// FOLDER holds the task's sources. One VM, used again and again; one thread.
#include "base/error.h"
#include "ipv_feature.h"
#include "ipv_worker_kit.h"
#include "ipv_world.h"
#include "vm/vm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_VISITS 8
#define EVENTS_MAX  256
#define ATTRS_BYTES 512 // of those the feature reads
#define HEAP_KIB    192
#define SOURCE_MAX  (64 * 1024)

static const char *const MODULES[] = {"ipv_events", "visit", "encoding"};
#define MODULE_COUNT (sizeof(MODULES) / sizeof(MODULES[0]))

// The events of a visit, as the recorder's sequence would give them, and what they point to.
struct open_visit {
    uint32_t visit; // 0: free
    uint32_t count;
    struct dev_event events[EVENTS_MAX];
    uint8_t attrs[EVENTS_MAX][ATTRS_BYTES];
    char item[IPV_ITEM_BYTES + 1];
};

struct runner {
    struct dev_vm *vm;
    struct dev_vm_module modules[MODULE_COUNT];
    struct open_visit visits[OPEN_VISITS];
};

static struct dev_vm_module module_load(const char *folder, const char *name)
{
    static char source[SOURCE_MAX];
    char path[512];
    uint8_t *mpy = NULL;
    size_t size = 0;
    struct base_error error = {0};
    (void)snprintf(path, sizeof(path), "%s/%s.py", folder, name);
    FILE *file = fopen(path, "rb");
    ipv_need(file != NULL, "cannot open the task's source");
    size_t read = fread(source, 1, sizeof(source), file);
    (void)fclose(file);
    ipv_need(dev_vm_compile((struct base_str){source, read}, base_str_of(name), &mpy, &size,
                            &error) == BASE_OK,
             error.text);
    return (struct dev_vm_module){base_str_of(name), mpy, size};
}

// The visit's place: for ENTER a free one, or that of the oldest.
static struct open_visit *visit_of(struct runner *runner, const struct dev_event *event)
{
    struct open_visit *oldest = &runner->visits[0];
    for (uint32_t i = 0; i < OPEN_VISITS; i++) {
        struct open_visit *visit = &runner->visits[i];
        if (visit->visit == event->visit) {
            return visit;
        }
        oldest = visit->visit < oldest->visit ? visit : oldest;
    }
    if (event->kind != DEV_EVENT_ENTER) {
        return NULL;
    }
    oldest->visit = event->visit;
    oldest->count = 0;
    return oldest;
}

static void visit_add(struct open_visit *visit, const struct dev_event *event)
{
    ipv_need(visit->count < EVENTS_MAX && event->attrs_bytes <= ATTRS_BYTES, "a visit is too long");
    uint32_t at = visit->count++;
    struct dev_event *copy = &visit->events[at];
    *copy = *event;
    memcpy(visit->attrs[at], event->attrs, event->attrs_bytes);
    memcpy(visit->item, event->item.data, event->item.size);
    copy->attrs = visit->attrs[at];
    copy->item.data = visit->item; // of all events of a visit
}

static struct dev_vm_result run(struct runner *runner, struct open_visit *visit)
{
    struct dev_vm_result result;
    struct dev_vm_job job = {
        .modules = runner->modules,
        .module_count = MODULE_COUNT,
        .entry = BASE_STR("ipv_events"),
        .events = visit->events,
        .event_count = visit->count,
        .time_ms = 10000,
    };
    enum base_status status = dev_vm_run(runner->vm, &job, &result);
    if (status != BASE_OK || result.end != DEV_VM_FINISHED) {
        (void)fprintf(stderr, "%s: %s (%s:%u)\n", result.type, result.message, result.file,
                      result.line);
        ipv_need(false, "the task did not finish");
    }
    visit->visit = 0;
    return result;
}

enum shown { NOTHING, FEATURES, ENCODINGS };

static void show(enum shown shown, uint64_t device, const struct dev_vm_result *result)
{
    if (shown == FEATURES) {
        (void)printf("%016" PRIx64 " %.*s\n", device, (int)result->result.size,
                     result->result.data);
    } else if (shown == ENCODINGS) {
        ipv_need(result->effect_count == 1 && result->effects[0].size == IPV_ENCODED_SIZE &&
                     fwrite(result->effects[0].bytes, IPV_ENCODED_SIZE, 1, stdout) == 1,
                 "no encoding");
    }
}

static void play(struct runner *runner, const struct ipv_span *span, enum shown shown,
                 struct ipv_times *times)
{
    static struct ipv_device device;
    static uint8_t attrs[DEV_EVENT_ATTRS_BYTES];
    for (uint64_t i = 0; i < span->devices; i++) {
        struct dev_event event;
        ipv_device_init(&device, span->seed, span->first + i, span->sessions);
        memset(runner->visits, 0, sizeof(runner->visits));
        while (ipv_device_next(&device, &event)) {
            struct open_visit *visit = event.visit != 0 ? visit_of(runner, &event) : NULL;
            if (visit == NULL || !base_str_equal(event.page, BASE_STR(IPV_PAGE))) {
                continue;
            }
            ipv_cut_down(&device, &event, attrs);
            visit_add(visit, &event);
            if (event.kind != DEV_EVENT_EXIT) {
                continue;
            }
            uint32_t events = visit->count;
            uint64_t start = ipv_now_ns();
            struct dev_vm_result result = run(runner, visit);
            ipv_samples_add(&times->visit, ipv_now_ns() - start);
            times->events_of_features += events;
            times->feature_bytes += result.result.size;
            show(shown, device.id, &result);
        }
        if (shown == FEATURES && ((i + 1) % IPV_PARTITION_DEVICES == 0 || i + 1 == span->devices)) {
            (void)fputc('\n', stdout);
        }
    }
}

int main(int argc, char **argv)
{
    static struct runner runner;
    struct ipv_span span;
    struct ipv_times times = {0};
    const char *what = argc > 1 ? argv[1] : "";
    enum shown shown = strcmp(what, "features") == 0    ? FEATURES
                       : strcmp(what, "encodings") == 0 ? ENCODINGS
                                                        : NOTHING;
    ipv_need(argc == 7 && (shown != NOTHING || strcmp(what, "time") == 0) &&
                 ipv_span_parse(&span, argv + 2),
             "usage: ipv_vm features|encodings|time SEED FIRST DEVICES SESSIONS FOLDER");
    ipv_need(dev_vm_new(HEAP_KIB, &runner.vm) == BASE_OK, "no memory");
    for (size_t i = 0; i < MODULE_COUNT; i++) {
        runner.modules[i] = module_load(argv[6], MODULES[i]);
    }
    play(&runner, &span, shown, &times);
    if (shown == NOTHING) {
        ipv_times_print(&times);
        (void)fputc('\n', stdout);
    }
    for (size_t i = 0; i < MODULE_COUNT; i++) {
        free((void *)(uintptr_t)runner.modules[i].mpy);
    }
    dev_vm_free(runner.vm);
    ipv_times_done(&times);
    return fflush(stdout) == 0 ? 0 : 1;
}
