// The item-page-view feature on the device core with storage: events are recorded with all that the
// app says, the recorder keeps what the feature reads, events are added up as they come, and when
// the page closes the row is put into collective storage, whose group is then committed to LMDB
// (page exit is one of its thresholds). Ours beside ipv_sqlite in bench/pipeline_bench.py.
//
//   ipv_store memory|exit SEED FIRST DEVICES SESSIONS
//     memory   the row is made, nothing is stored
//     exit     durable when the clock stops
//
// All of recording is on the clock; the peer is spared it. The store lies in the folder named by
// IPV_FOLDER (default /tmp), a new one for each device, as the peer's. One thread.
#include "ipv_core.h"
#include "ipv_worker_kit.h"
#include "ipv_world.h"
#include "mem/mem_kv.h"
#include "posix/store/posix_kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct store {
    char dir[256];
    struct posix_kv *kv;
};

static void store_open(struct store *store)
{
    const char *folder = getenv("IPV_FOLDER");
    struct base_error error = {0};
    (void)snprintf(store->dir, sizeof(store->dir), "%s/ipv_store_%d",
                   folder != NULL ? folder : "/tmp", (int)getpid());
    ipv_need(mkdir(store->dir, 0700) == 0, "cannot make the store's folder");
    struct posix_kv_options options = {.dir = store->dir};
    ipv_need(posix_kv_new(&options, &store->kv, &error) == BASE_OK, error.text);
}

static void store_close(struct store *store)
{
    static const char *const names[] = {"pipeline/data.mdb", "pipeline/lock.mdb", "pipeline", ""};
    posix_kv_free(store->kv);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[300];
        (void)snprintf(path, sizeof(path), "%s/%s", store->dir, names[i]);
        (void)remove(path);
    }
}

static void play_device(struct ipv_core *core, struct ipv_device *device, bool durable,
                        struct ipv_times *times)
{
    static char json[IPV_FEATURE_MAX];
    uint64_t visit_ns[IPV_BOOK_VISITS * 4] = {0};
    struct dev_event event;
    while (ipv_device_next(device, &event)) {
        struct dev_recording recording = ipv_recording(device, &event);
        uint64_t start = ipv_now_ns();
        const struct ipv_feature *feature = ipv_core_record(core, &recording);
        size_t size = feature != NULL ? ipv_feature_json(feature, json, sizeof(json)) : 0;
        if (feature != NULL && durable) {
            ipv_core_store(core, feature, json, size);
        }
        uint64_t took = ipv_now_ns() - start;
        ipv_times_event(times, visit_ns, sizeof(visit_ns) / sizeof(visit_ns[0]), &event, took,
                        size > 0);
        times->feature_bytes += size;
        times->events_of_features += feature != NULL ? feature->events : 0;
    }
}

static void play(const struct ipv_span *span, bool durable, struct ipv_times *times)
{
    static struct ipv_device device;
    struct ipv_core *core = ipv_core_new();
    for (uint64_t i = 0; i < span->devices; i++) {
        struct store store;
        struct mem_kv kv;
        ipv_device_init(&device, span->seed, span->first + i, span->sessions);
        mem_kv_init(&kv);
        if (durable) {
            store_open(&store);
        }
        struct dev_kv_port port = durable ? posix_kv_port(store.kv) : mem_kv_port(&kv);
        ipv_core_begin(core, &port, device.id);
        play_device(core, &device, durable, times);
        if (durable) {
            store_close(&store);
        }
        mem_kv_done(&kv);
    }
    ipv_core_free(core);
}

int main(int argc, char **argv)
{
    struct ipv_span span;
    struct ipv_times times = {0};
    bool durable = argc > 1 && strcmp(argv[1], "exit") == 0;
    ipv_need(argc == 6 && (durable || strcmp(argv[1], "memory") == 0) &&
                 ipv_span_parse(&span, argv + 2),
             "usage: ipv_store memory|exit SEED FIRST DEVICES SESSIONS");
    play(&span, durable, &times);
    ipv_times_print(&times);
    (void)fputc('\n', stdout);
    ipv_times_done(&times);
    return fflush(stdout) == 0 ? 0 : 1;
}
