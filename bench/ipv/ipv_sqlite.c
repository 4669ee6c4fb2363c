// The item-page-view feature as apps commonly make it: every event a row of an SQLite table, the
// visit's rows read back when its page closes. The peer of ipv_worker in bench/pipeline_bench.py.
//
//   ipv_sqlite MODE SEED FIRST DEVICES SESSIONS
//     memory   no file, no durability
//     exit     WAL, synchronous=FULL, one transaction a visit: committed when the page closes
//     event    WAL, synchronous=FULL, every insert commits
//     normal   as exit with synchronous=NORMAL: a commit may be lost with the power
//   ipv_sqlite features SEED FIRST DEVICES SESSIONS      what `ipv_worker features` prints
//
// It is given the best of it: prepared statements, an index on (visit, seq), attributes cut down
// to those the feature uses before the clock starts, rows added up by the same C code as ours.
// Files go to the folder named by IPV_FOLDER (default /tmp). One thread.
#include "ipv_book.h"
#include "ipv_worker_kit.h"
#include "ipv_world.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum mode { MODE_MEMORY, MODE_EXIT, MODE_EVENT, MODE_NORMAL, MODE_FEATURES, MODE_COUNT };
static const char *const MODE_NAMES[MODE_COUNT] = {"memory", "exit", "event", "normal", "features"};

enum statement { INSERT_EVENT, SELECT_VISIT, DELETE_VISIT, INSERT_FEATURE, BEGIN, COMMIT, COUNT };
static const char *const TEXTS[COUNT] = {
    "INSERT INTO events VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)",
    "SELECT seq, kind, item, wall_ms, mono_us, attrs, attr_count FROM events WHERE visit = ?1 "
    "ORDER BY seq",
    "DELETE FROM events WHERE visit = ?1",
    "INSERT INTO features VALUES(?1,?2)",
    "BEGIN",
    "COMMIT",
};

struct peer {
    enum mode mode;
    char path[256];
    sqlite3 *db;
    sqlite3_stmt *statements[COUNT];
    struct ipv_feature feature;
    bool begun;
};

static void must(struct peer *peer, int rc)
{
    if (rc != SQLITE_OK && rc != SQLITE_DONE && rc != SQLITE_ROW) {
        ipv_need(false, sqlite3_errmsg(peer->db));
    }
}

static void run(struct peer *peer, enum statement statement)
{
    must(peer, sqlite3_step(peer->statements[statement]));
    must(peer, sqlite3_reset(peer->statements[statement]));
}

static void open_db(struct peer *peer)
{
    static const char schema[] =
        "CREATE TABLE events(seq INTEGER PRIMARY KEY, visit INTEGER, kind INTEGER, page TEXT, "
        "instance INTEGER, item TEXT, wall_ms INTEGER, mono_us INTEGER, attrs BLOB, attr_count "
        "INTEGER);"
        "CREATE INDEX by_visit ON events(visit, seq);"
        "CREATE TABLE features(enter_seq INTEGER PRIMARY KEY, json TEXT);";
    const char *folder = getenv("IPV_FOLDER");
    bool file = peer->mode != MODE_MEMORY && peer->mode != MODE_FEATURES;
    (void)snprintf(peer->path, sizeof(peer->path), "%s/ipv_sqlite_%d.db",
                   folder != NULL ? folder : "/tmp", (int)getpid());
    must(peer, sqlite3_open(file ? peer->path : ":memory:", &peer->db));
    must(peer, sqlite3_exec(peer->db,
                            !file ? "PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF"
                            : peer->mode == MODE_NORMAL
                                ? "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL"
                                : "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL",
                            NULL, NULL, NULL));
    must(peer, sqlite3_exec(peer->db, schema, NULL, NULL, NULL));
    for (int i = 0; i < COUNT; i++) {
        must(peer, sqlite3_prepare_v2(peer->db, TEXTS[i], -1, &peer->statements[i], NULL));
    }
}

static void close_db(struct peer *peer)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    for (int i = 0; i < COUNT; i++) {
        (void)sqlite3_finalize(peer->statements[i]);
    }
    (void)sqlite3_close(peer->db);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        char path[300];
        (void)snprintf(path, sizeof(path), "%s%s", peer->path, endings[i]);
        (void)unlink(path);
    }
}

static void insert_event(struct peer *peer, const struct dev_event *event)
{
    sqlite3_stmt *insert = peer->statements[INSERT_EVENT];
    (void)sqlite3_bind_int64(insert, 1, (sqlite3_int64)event->seq);
    (void)sqlite3_bind_int64(insert, 2, event->visit);
    (void)sqlite3_bind_int(insert, 3, (int)event->kind);
    (void)sqlite3_bind_text(insert, 4, event->page.data, (int)event->page.size, SQLITE_STATIC);
    (void)sqlite3_bind_int64(insert, 5, event->instance);
    (void)sqlite3_bind_text(insert, 6, event->item.data, (int)event->item.size, SQLITE_STATIC);
    (void)sqlite3_bind_int64(insert, 7, (sqlite3_int64)event->wall_ms);
    (void)sqlite3_bind_int64(insert, 8, (sqlite3_int64)event->mono_us);
    (void)sqlite3_bind_blob(insert, 9, event->attrs, (int)event->attrs_bytes, SQLITE_STATIC);
    (void)sqlite3_bind_int64(insert, 10, event->attr_count);
    run(peer, INSERT_EVENT);
}

static struct dev_event row_event(sqlite3_stmt *row)
{
    return (struct dev_event){
        .seq = (uint64_t)sqlite3_column_int64(row, 0),
        .kind = (enum dev_event_kind)sqlite3_column_int(row, 1),
        .item = {(const char *)sqlite3_column_text(row, 2), (size_t)sqlite3_column_bytes(row, 2)},
        .wall_ms = (uint64_t)sqlite3_column_int64(row, 3),
        .mono_us = (uint64_t)sqlite3_column_int64(row, 4),
        .attrs = sqlite3_column_blob(row, 5),
        .attrs_bytes = (uint32_t)sqlite3_column_bytes(row, 5),
        .attr_count = (uint32_t)sqlite3_column_int64(row, 6),
    };
}

// The feature of the visit's rows; the size of its JSON, 0: the visit was never entered.
static size_t query(struct peer *peer, uint32_t visit, char *json, size_t capacity)
{
    sqlite3_stmt *select = peer->statements[SELECT_VISIT];
    bool entered = false;
    (void)sqlite3_bind_int64(select, 1, visit);
    while (sqlite3_step(select) == SQLITE_ROW) {
        struct dev_event event = row_event(select);
        if (!entered) {
            entered = true;
            ipv_feature_begin(&peer->feature, &event);
        } else {
            ipv_feature_add(&peer->feature, &event);
        }
    }
    must(peer, sqlite3_reset(select));
    return entered ? ipv_feature_json(&peer->feature, json, capacity) : 0;
}

static size_t finish(struct peer *peer, const struct dev_event *exit, char *json, size_t capacity)
{
    size_t size = query(peer, exit->visit, json, capacity);
    sqlite3_stmt *insert = peer->statements[INSERT_FEATURE];
    sqlite3_stmt *delete = peer->statements[DELETE_VISIT];
    (void)sqlite3_bind_int64(insert, 1, (sqlite3_int64)peer->feature.enter_seq);
    (void)sqlite3_bind_text(insert, 2, json, (int)size, SQLITE_STATIC);
    run(peer, INSERT_FEATURE);
    (void)sqlite3_bind_int64(delete, 1, exit->visit);
    run(peer, DELETE_VISIT);
    return size;
}

static size_t take(struct peer *peer, const struct dev_event *event, char *json, size_t capacity)
{
    size_t size = 0;
    if (event->visit == 0 || !base_str_equal(event->page, BASE_STR(IPV_PAGE))) {
        return 0;
    }
    bool groups = peer->mode != MODE_EVENT;
    if (groups && !peer->begun) {
        run(peer, BEGIN);
        peer->begun = true;
    }
    insert_event(peer, event);
    if (event->kind == DEV_EVENT_EXIT) {
        if (!groups) { // the feature and the deletion belong together
            run(peer, BEGIN);
            peer->begun = true;
        }
        size = finish(peer, event, json, capacity);
        run(peer, COMMIT);
        peer->begun = false;
    }
    return size;
}

static void play(struct peer *peer, const struct ipv_span *span, struct ipv_times *times)
{
    static struct ipv_device device;
    static uint8_t attrs[DEV_EVENT_ATTRS_BYTES];
    static char json[IPV_FEATURE_MAX];
    uint64_t visit_ns[IPV_BOOK_VISITS * 4] = {0};
    for (uint64_t i = 0; i < span->devices; i++) {
        struct dev_event event;
        ipv_device_init(&device, span->seed, span->first + i, span->sessions);
        open_db(peer);
        while (ipv_device_next(&device, &event)) {
            ipv_cut_down(&device, &event, attrs);
            uint64_t start = ipv_now_ns();
            size_t size = take(peer, &event, json, sizeof(json));
            uint64_t took = ipv_now_ns() - start;
            if (peer->mode == MODE_FEATURES && size > 0) {
                (void)printf("%016" PRIx64 " %.*s\n", device.id, (int)size, json);
            }
            ipv_times_event(times, visit_ns, sizeof(visit_ns) / sizeof(visit_ns[0]), &event, took,
                            size > 0);
            times->feature_bytes += size;
            times->events_of_features += size > 0 ? peer->feature.events : 0;
        }
        if (peer->begun) {
            run(peer, COMMIT);
            peer->begun = false;
        }
        close_db(peer);
        if (peer->mode == MODE_FEATURES &&
            ((i + 1) % IPV_PARTITION_DEVICES == 0 || i + 1 == span->devices)) {
            (void)fputc('\n', stdout);
        }
    }
}

int main(int argc, char **argv)
{
    static struct peer peer;
    struct ipv_span span;
    struct ipv_times times = {0};
    peer.mode = MODE_COUNT;
    for (int i = 0; argc == 6 && i < MODE_COUNT; i++) {
        peer.mode = strcmp(argv[1], MODE_NAMES[i]) == 0 ? (enum mode)i : peer.mode;
    }
    ipv_need(peer.mode != MODE_COUNT && ipv_span_parse(&span, argv + 2),
             "usage: ipv_sqlite memory|exit|event|normal|features SEED FIRST DEVICES SESSIONS");
    play(&peer, &span, &times);
    if (peer.mode != MODE_FEATURES) {
        ipv_times_print(&times);
        (void)fputc('\n', stdout);
    }
    ipv_times_done(&times);
    return fflush(stdout) == 0 ? 0 : 1;
}
