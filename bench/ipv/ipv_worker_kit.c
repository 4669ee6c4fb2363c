// See ipv_worker_kit.h. Programs of the benchmark alone; one thread.
#include "ipv_worker_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void ipv_need(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "ipv: %s\n", what);
        exit(1);
    }
}

bool ipv_span_parse(struct ipv_span *span, char **arguments)
{
    uint64_t sessions = 0;
    if (base_str_u64(base_str_of(arguments[0]), &span->seed) != BASE_OK ||
        base_str_u64(base_str_of(arguments[1]), &span->first) != BASE_OK ||
        base_str_u64(base_str_of(arguments[2]), &span->devices) != BASE_OK ||
        base_str_u64(base_str_of(arguments[3]), &sessions) != BASE_OK || sessions > UINT32_MAX) {
        return false;
    }
    span->sessions = (uint32_t)sessions;
    return true;
}

uint64_t ipv_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void ipv_samples_add(struct ipv_samples *samples, uint64_t ns)
{
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity == 0 ? 4096 : samples->capacity * 2;
        samples->ns = realloc(samples->ns, samples->capacity * sizeof(*samples->ns));
        ipv_need(samples->ns != NULL, "no memory");
    }
    samples->ns[samples->count++] = ns;
}

void ipv_times_event(struct ipv_times *times, uint64_t *visit_ns, size_t visits,
                     const struct dev_event *event, uint64_t took, bool done)
{
    uint64_t *sum = &visit_ns[event->visit % visits];
    *sum = event->kind == DEV_EVENT_ENTER ? took : *sum + took;
    times->events++;
    ipv_samples_add(&times->event, took);
    if (done) {
        ipv_samples_add(&times->visit, *sum);
        ipv_samples_add(&times->exit, took);
    }
}

static int order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void samples_print(const char *name, struct ipv_samples *samples)
{
    if (samples->count > 0) {
        qsort(samples->ns, samples->count, sizeof(*samples->ns), order);
        (void)printf(",\"%s_us\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}", name,
                     (double)samples->ns[samples->count / 2] / 1e3,
                     (double)samples->ns[samples->count * 99 / 100] / 1e3,
                     (double)samples->ns[samples->count - 1] / 1e3);
    }
}

void ipv_times_print(struct ipv_times *times)
{
    double visits = times->visit.count > 0 ? (double)times->visit.count : 1.0;
    (void)printf("{\"visits\":%zu,\"events\":%" PRIu64 ",\"events_per_visit\":%.2f"
                 ",\"feature_bytes\":%.1f",
                 times->visit.count, times->events, (double)times->events_of_features / visits,
                 (double)times->feature_bytes / visits);
    samples_print("visit", &times->visit);
    samples_print("exit", &times->exit);
    samples_print("event", &times->event);
    (void)printf("}");
}

void ipv_times_done(struct ipv_times *times)
{
    free(times->visit.ns);
    free(times->exit.ns);
    free(times->event.ns);
    *times = (struct ipv_times){0};
}

static bool is_used(struct base_str name)
{
    for (size_t i = 0; i < IPV_FEATURE_ATTRS; i++) {
        if (base_str_equal(name, ipv_feature_attrs[i])) {
            return true;
        }
    }
    return false;
}

void ipv_cut_down(const struct ipv_device *device, struct dev_event *event, uint8_t *buffer)
{
    struct dev_event_attr attrs[IPV_ATTRS_MAX];
    uint32_t count = 0;
    size_t size = 0;
    for (uint32_t i = 0; i < device->attr_count; i++) {
        if (is_used(device->attrs[i].name)) {
            attrs[count++] = device->attrs[i];
        }
    }
    ipv_need(dev_event_attrs_encode(attrs, count, buffer, DEV_EVENT_ATTRS_BYTES, &size) == BASE_OK,
             "attributes");
    event->attrs = buffer;
    event->attrs_bytes = (uint32_t)size;
    event->attr_count = count;
}

struct dev_recording ipv_recording(const struct ipv_device *device, const struct dev_event *event)
{
    return (struct dev_recording){
        .kind = event->kind,
        .instance = event->instance,
        .name = event->name,
        .page = event->page,
        .item = event->item,
        .wall_ms = event->wall_ms,
        .mono_us = event->mono_us,
        .attrs = device->attrs,
        .attr_count = device->attr_count,
    };
}
