// The item-page-view feature on the device core with storage: events are added up as they come, and
// when the page closes the row is put into collective storage, whose group is then committed to
// LMDB (page exit is one of its thresholds). Ours beside ipv_sqlite in bench/pipeline_bench.py.
//
//   ipv_store memory|exit SEED FIRST DEVICES SESSIONS
//     memory   the row is made, nothing is stored
//     exit     durable when the clock stops
//
// Attributes are cut down to those the feature uses before the clock starts, as for the peer. The
// store lies in the folder named by IPV_FOLDER (default /tmp). One thread.
#include "base/clock.h"
#include "ipv_book.h"
#include "ipv_worker_kit.h"
#include "ipv_world.h"
#include "pipeline/feature_store.h"
#include "posix/posix_kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct store {
    char dir[256];
    struct posix_kv *kv;
    struct dev_kv_port port;
    struct dev_collect *collect;
    struct dev_feature_store *features;
    void *collect_memory;
    void *features_memory;
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
    store->port = posix_kv_port(store->kv);
    store->collect_memory = malloc(dev_collect_bytes());
    store->features_memory = malloc(dev_feature_store_bytes());
    ipv_need(store->collect_memory != NULL && store->features_memory != NULL, "no memory");
    ipv_need(dev_collect_init(store->collect_memory, dev_collect_bytes(), &store->port,
                              &store->collect) == BASE_OK &&
                 dev_collect_boot(store->collect, base_clock_mono_us()) == BASE_OK &&
                 dev_feature_store_init(store->features_memory, dev_feature_store_bytes(),
                                        store->collect, &store->features) == BASE_OK &&
                 dev_feature_store_boot(store->features, base_clock_mono_us()) == BASE_OK,
             "the store does not open");
}

static void store_close(struct store *store)
{
    static const char *const names[] = {"pipeline/data.mdb", "pipeline/lock.mdb", "pipeline", ""};
    posix_kv_free(store->kv);
    free(store->collect_memory);
    free(store->features_memory);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[300];
        (void)snprintf(path, sizeof(path), "%s/%s", store->dir, names[i]);
        (void)remove(path);
    }
}

static void store_feature(struct store *store, const struct ipv_feature *feature, const char *json,
                          size_t size)
{
    uint64_t now_us = base_clock_mono_us();
    struct base_str item = {feature->item.bytes, feature->item.size};
    ipv_need(dev_feature_put(store->features, now_us, BASE_STR("ipv"), item, feature->enter_ms,
                             json, size, false) == BASE_OK &&
                 dev_collect_flush(store->collect, now_us) == BASE_OK,
             "the feature was not stored");
}

static void play(struct store *store, const struct ipv_span *span, struct ipv_times *times)
{
    static struct ipv_device device;
    static struct ipv_book book;
    static uint8_t attrs[DEV_EVENT_ATTRS_BYTES];
    static char json[IPV_FEATURE_MAX];
    uint64_t visit_ns[IPV_BOOK_VISITS * 4] = {0};
    for (uint64_t i = 0; i < span->devices; i++) {
        struct dev_event event;
        ipv_device_init(&device, span->seed, span->first + i, span->sessions);
        ipv_book_init(&book);
        while (ipv_device_next(&device, &event)) {
            ipv_cut_down(&device, &event, attrs);
            uint64_t start = ipv_now_ns();
            const struct ipv_feature *feature = ipv_book_event(&book, &event);
            size_t size = feature != NULL ? ipv_feature_json(feature, json, sizeof(json)) : 0;
            if (feature != NULL && store != NULL) {
                store_feature(store, feature, json, size);
            }
            uint64_t took = ipv_now_ns() - start;
            ipv_times_event(times, visit_ns, sizeof(visit_ns) / sizeof(visit_ns[0]), &event, took,
                            size > 0);
            times->feature_bytes += size;
            times->events_of_features += feature != NULL ? feature->events : 0;
        }
    }
}

int main(int argc, char **argv)
{
    static struct store store;
    struct ipv_span span;
    struct ipv_times times = {0};
    bool durable = argc > 1 && strcmp(argv[1], "exit") == 0;
    ipv_need(argc == 6 && (durable || strcmp(argv[1], "memory") == 0) &&
                 ipv_span_parse(&span, argv + 2),
             "usage: ipv_store memory|exit SEED FIRST DEVICES SESSIONS");
    if (durable) {
        store_open(&store);
    }
    play(durable ? &store : NULL, &span, &times);
    if (durable) {
        store_close(&store);
    }
    ipv_times_print(&times);
    (void)fputc('\n', stdout);
    ipv_times_done(&times);
    return fflush(stdout) == 0 ? 0 : 1;
}
