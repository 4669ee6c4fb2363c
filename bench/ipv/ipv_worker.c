// The worked example's programs in one (bench/pipeline_bench.py and bench/ipv/oracle.py drive it):
//
//   ipv_worker log SEED FIRST DEVICES SESSIONS        the raw log: JSON lines, in partitions
//   ipv_worker features SEED FIRST DEVICES SESSIONS   features the device core computes of it
//
// A partition of the log holds the whole logs of a few devices, in disorder and with some lines
// twice, as logs arrive; an empty line ends it. Lines of `features` are DEVICE, a space, JSON.
// One thread.
#include "ipv_core.h"
#include "ipv_worker_kit.h"
#include "ipv_world.h"
#include "mem/mem_kv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX   (IPV_PARTITION_DEVICES * 100000)
#define TEXT_MAX    ((size_t)512 * 1024 * 1024)
#define ODDS_DOUBLE 200

struct partition {
    struct base_prng prng;
    char *text;
    size_t size;
    size_t *lines; // offsets of the lines, NUL behind each
    size_t count;
};

static void line_add(struct partition *part, uint64_t device, const struct dev_event *event)
{
    ipv_need(part->count + 2 < LINES_MAX && part->size + IPV_RAW_LINE_MAX < TEXT_MAX,
             "a partition is too large: fewer sessions");
    size_t size = ipv_raw_json(device, event, part->text + part->size, TEXT_MAX - part->size);
    ipv_need(size > 0 && size < IPV_RAW_LINE_MAX, "a raw event is too long");
    part->lines[part->count++] = part->size;
    if (base_prng_below(&part->prng, ODDS_DOUBLE) == 0) {
        part->lines[part->count++] = part->size;
    }
    part->size += size + 1;
}

static void partition_write(struct partition *part)
{
    for (size_t i = part->count; i > 1; i--) {
        size_t other = base_prng_below(&part->prng, i);
        size_t line = part->lines[i - 1];
        part->lines[i - 1] = part->lines[other];
        part->lines[other] = line;
    }
    for (size_t i = 0; i < part->count; i++) {
        (void)fputs(part->text + part->lines[i], stdout);
        (void)fputc('\n', stdout);
    }
    (void)fputc('\n', stdout);
    part->count = 0;
    part->size = 0;
}

static void log_write(const struct ipv_span *span)
{
    static struct ipv_device device;
    struct partition part = {.text = malloc(TEXT_MAX), .lines = malloc(LINES_MAX * sizeof(size_t))};
    ipv_need(part.text != NULL && part.lines != NULL, "no memory");
    base_prng_seed(&part.prng, span->seed ^ span->first);
    for (uint64_t i = 0; i < span->devices; i++) {
        struct dev_event event;
        ipv_device_init(&device, span->seed, span->first + i, span->sessions);
        while (ipv_device_next(&device, &event)) {
            line_add(&part, device.id, &event);
        }
        if ((i + 1) % IPV_PARTITION_DEVICES == 0 || i + 1 == span->devices) {
            partition_write(&part);
        }
    }
    free(part.text);
    free(part.lines);
}

static void features_write(const struct ipv_span *span)
{
    static struct ipv_device device;
    static char json[IPV_FEATURE_MAX];
    struct ipv_core *core = ipv_core_new();
    for (uint64_t i = 0; i < span->devices; i++) {
        struct dev_event event;
        struct mem_kv kv;
        ipv_device_init(&device, span->seed, span->first + i, span->sessions);
        mem_kv_init(&kv);
        struct dev_kv_port port = mem_kv_port(&kv);
        ipv_core_begin(core, &port, device.id);
        while (ipv_device_next(&device, &event)) {
            struct dev_recording recording = ipv_recording(&device, &event);
            const struct ipv_feature *feature = ipv_core_record(core, &recording);
            if (feature != NULL) {
                size_t size = ipv_feature_json(feature, json, sizeof(json));
                ipv_need(size > 0, "a feature is too long");
                (void)printf("%016" PRIx64 " %.*s\n", device.id, (int)size, json);
            }
        }
        mem_kv_done(&kv);
        if ((i + 1) % IPV_PARTITION_DEVICES == 0 || i + 1 == span->devices) {
            (void)fputc('\n', stdout);
        }
    }
    ipv_core_free(core);
}

int main(int argc, char **argv)
{
    struct ipv_span span;
    const char *what = argc > 1 ? argv[1] : "";
    ipv_need(argc == 6 && ipv_span_parse(&span, argv + 2), "usage: ipv_worker log|features "
                                                           "SEED FIRST DEVICES SESSIONS");
    if (strcmp(what, "log") == 0) {
        log_write(&span);
    } else if (strcmp(what, "features") == 0) {
        features_write(&span);
    } else {
        ipv_need(false, "no such command");
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
