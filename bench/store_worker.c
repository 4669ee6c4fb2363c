// Behaviour events to disk, ours and peers, one process each (bench/pipeline_store.py drives it):
//
//   store_worker ours|sqlite-full|sqlite-normal|lmdb PACE SEED FIRST EVENTS FOLDER
//     ours            recorder, sequences, collective storage, LMDB: a block of events a commit
//     sqlite-full     a row an insert, WAL, synchronous=FULL: each is durable before the next
//     sqlite-normal   the same with synchronous=NORMAL: an insert may be lost with the power
//     lmdb            a put and a commit an event
//   PACE log: time passes as in the log, so that groups are closed by age too; busy: none passes.
//
//   store_worker record busy SEED FIRST EVENTS FOLDER   times of dev_record itself, no disk
//
// The events are those of the worked example's world, with the attributes a live task wants; they
// are made before the clock starts. Calls that flush are counted where they leave this process:
// fsync, fdatasync, and writes to files opened with O_DSYNC. Prints one line of JSON. One thread.
#include "base/clock.h"
#include "ipv_worker_kit.h"
#include "ipv_world.h"
#include "pipeline/record/sequence.h"
#include "posix/store/posix_kv.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

// ---- Counting. These stand before the C library's for every library of this process.

static uint64_t flushes;
static uint64_t writes;
static uint64_t bytes_written;

SHOWN int fsync(int fd)
{
    flushes++;
    return (int)syscall(SYS_fsync, fd);
}

SHOWN int fdatasync(int fd)
{
    flushes++;
    return (int)syscall(SYS_fdatasync, fd);
}

static void count_write(int fd, ssize_t done)
{
    int flags = fcntl(fd, F_GETFL);
    writes++;
    bytes_written += done > 0 ? (uint64_t)done : 0;
    flushes += flags >= 0 && (flags & O_DSYNC) != 0 ? 1 : 0;
}

SHOWN ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t at)
{
    ssize_t done = syscall(SYS_pwrite64, fd, bytes, size, at);
    count_write(fd, done);
    return done;
}

SHOWN ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    return pwrite64(fd, bytes, size, at);
}

SHOWN ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    ssize_t done = syscall(SYS_pwritev, fd, parts, count, at, 0);
    count_write(fd, done);
    return done;
}

SHOWN ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at)
{
    return pwritev(fd, parts, count, at);
}

static uint64_t disk_bytes(void)
{
    char line[128];
    uint64_t bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "write_bytes: ", 13) == 0) {
            struct base_str number = {line + 13, strcspn(line + 13, "\n")};
            ipv_need(base_str_u64(number, &bytes) == BASE_OK, "/proc/self/io");
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return bytes;
}

// ---- The events

struct sample {
    struct dev_event event;
    struct dev_event_attr decoded[IPV_ATTRS_MAX];
    uint64_t now_us; // time since the first, never backwards
    char page[DEV_EVENT_PAGE_MAX], item[DEV_EVENT_ITEM_MAX], name[DEV_EVENT_NAME_MAX];
    uint8_t attrs[DEV_EVENT_ATTRS_BYTES];
};

static struct base_str keep(char *out, struct base_str text)
{
    if (text.size > 0) {
        memcpy(out, text.data, text.size);
    }
    return (struct base_str){out, text.size};
}

static struct sample *make_events(uint64_t seed, uint64_t first, uint64_t count)
{
    static struct ipv_device device;
    struct sample *samples = calloc(count, sizeof(*samples));
    ipv_need(samples != NULL, "no memory");
    uint64_t before = 0;
    uint64_t now = 0;
    ipv_device_init(&device, seed, first, 1000000);
    for (uint64_t i = 0; i < count; i++) {
        struct sample *sample = &samples[i];
        struct dev_event *event = &sample->event;
        ipv_need(ipv_device_next(&device, event), "too few events");
        ipv_cut_down(&device, event, sample->attrs);
        if (event->attrs != sample->attrs && event->attrs_bytes > 0) {
            memcpy(sample->attrs, event->attrs, event->attrs_bytes);
        }
        event->attrs = sample->attrs;
        event->page = keep(sample->page, event->page);
        event->item = keep(sample->item, event->item);
        event->name = keep(sample->name, event->name);
        uint32_t at = 0;
        for (uint32_t a = 0; a < event->attr_count; a++) {
            ipv_need(dev_event_attr_next(event, &at, &sample->decoded[a]), "an attribute");
        }
        now += i > 0 && event->mono_us > before ? event->mono_us - before : 0;
        before = event->mono_us;
        sample->now_us = now;
    }
    return samples;
}

// ---- Ours

struct ours {
    struct posix_kv *kv;
    struct dev_kv_port port;
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    struct dev_sequence *sequence;
    uint64_t now;
    uint64_t due;
    uint64_t gaps;
};

static void on_event(void *ctx, const struct dev_event *event)
{
    struct ours *ours = ctx;
    dev_sequence_on_event(ours->sequence, ours->now, event);
}

static void on_gap(void *ctx, const struct dev_gap *gap)
{
    struct ours *ours = ctx;
    ours->gaps += gap->count;
}

static void on_visit_end(void *ctx, const struct dev_visit *visit, enum dev_visit_end why)
{
    struct ours *ours = ctx;
    (void)visit;
    (void)why;
    dev_sequence_on_visit_end(ours->sequence);
}

static void *block(size_t bytes)
{
    void *memory = malloc(bytes);
    ipv_need(memory != NULL, "no memory");
    return memory;
}

static void ours_open(struct ours *ours, const char *folder, const struct dev_recorder_sink *sink)
{
    const struct posix_kv_options options = {.dir = folder};
    struct base_error error = {0};
    ipv_need(posix_kv_new(&options, &ours->kv, &error) == BASE_OK, error.text);
    ours->port = posix_kv_port(ours->kv);
    size_t bytes = dev_collect_bytes();
    ipv_need(dev_collect_init(block(bytes), bytes, &ours->port, &ours->collect) == BASE_OK,
             "collect");
    const struct dev_recorder_options recorder = {
        .entropy = 1, .boot_id = 1, .collect = ours->collect};
    bytes = dev_recorder_bytes(&recorder);
    ipv_need(dev_recorder_init(block(bytes), bytes, &recorder, &ours->recorder) == BASE_OK,
             "recorder");
    const struct dev_sequence_options sequence = {
        .collect = ours->collect, .recorder = ours->recorder, .store_bytes = 16 * 1024 * 1024};
    bytes = dev_sequence_bytes(&sequence);
    ipv_need(dev_sequence_init(block(bytes), bytes, &sequence, &ours->sequence) == BASE_OK,
             "sequence");
    ipv_need(dev_collect_boot(ours->collect, 0) == BASE_OK &&
                 dev_sequence_boot(ours->sequence, 0) == BASE_OK &&
                 dev_recorder_boot(ours->recorder, 0, 0, sink) == BASE_OK,
             "boot");
}

static void ours_step(struct ours *ours)
{
    uint64_t due = dev_sequence_step(ours->sequence, ours->now);
    uint64_t other = dev_collect_step(ours->collect, ours->now);
    ours->due = due < other ? due : other;
}

static void ours_event(struct ours *ours, const struct sample *sample, bool paced,
                       const struct dev_recorder_sink *sink)
{
    while (paced && ours->due <= sample->now_us) {
        ours->now = ours->due;
        ours_step(ours);
    }
    const struct dev_event *event = &sample->event;
    const struct dev_recording recording = {
        .kind = event->kind,
        .instance = event->instance,
        .name = event->name,
        .page = event->page,
        .item = event->item,
        .wall_ms = event->wall_ms,
        .mono_us = event->mono_us,
        .attrs = sample->decoded,
        .attr_count = event->attr_count,
    };
    ours->now = paced ? sample->now_us : 0;
    ipv_need(dev_record(ours->recorder, &recording) == BASE_OK, "an event was not recorded");
    (void)dev_recorder_drain(ours->recorder, ours->now, 0, sink);
    ours_step(ours);
}

static bool count_event(void *ctx, const struct dev_event *event)
{
    (void)event;
    uint64_t *count = ctx;
    *count += 1;
    return true;
}

static uint64_t run_ours(const struct sample *samples, uint64_t count, bool paced,
                         const char *folder, uint64_t *start)
{
    struct ours ours = {.due = UINT64_MAX};
    const struct dev_recorder_sink sink = {
        .ctx = &ours, .on_event = on_event, .on_gap = on_gap, .on_visit_end = on_visit_end};
    ours_open(&ours, folder, &sink);
    *start = ipv_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        ours_event(&ours, &samples[i], paced, &sink);
    }
    ipv_need(dev_sequence_flush(ours.sequence, ours.now) == BASE_OK &&
                 dev_collect_flush(ours.collect, ours.now) == BASE_OK,
             "flush");
    uint64_t took = ipv_now_ns() - *start;
    uint64_t stored = 0;
    const struct dev_sequence_part all = {.to_seq = UINT64_MAX};
    ipv_need(dev_sequence_each(ours.sequence, 0, &all, count_event, &stored) == BASE_OK,
             "reading back");
    ipv_need(stored == count && ours.gaps == 0, "not every event is there");
    posix_kv_free(ours.kv);
    return took;
}

// What dev_record takes of its caller's time: for events that no live task needs, and for those
// that one does, with their attributes. The drain is not timed.
static void run_record(const struct sample *samples, uint64_t count, const char *folder)
{
    static struct dev_capture capture;
    struct ours ours = {.due = UINT64_MAX};
    const struct dev_recorder_sink sink = {.ctx = &ours};
    double ns[2] = {0, 0};
    ours_open(&ours, folder, &sink);
    for (unsigned kept = 0; kept < 2; kept++) {
        uint64_t spent = 0;
        uint64_t calls = 0;
        const struct dev_capture_need need = {.kinds = 1u << DEV_EVENT_CLICK,
                                              .page = kept ? BASE_STR(IPV_PAGE) : BASE_STR("none"),
                                              .every_attr = true};
        dev_capture_begin(&capture, dev_recorder_secret(ours.recorder));
        ipv_need(dev_capture_add(&capture, &need) == BASE_OK, "capture");
        dev_recorder_capture(ours.recorder, &capture);
        for (uint64_t i = 0; i < count * 50; i += 16) {
            struct dev_recording recording = {.kind = DEV_EVENT_CLICK, .page = BASE_STR(IPV_PAGE)};
            recording.attrs = samples[i % count].decoded;
            recording.attr_count = samples[i % count].event.attr_count;
            uint64_t start = ipv_now_ns();
            for (unsigned turn = 0; turn < 16; turn++) {
                ipv_need(dev_record(ours.recorder, &recording) == BASE_OK, "not recorded");
            }
            spent += ipv_now_ns() - start;
            calls += 16;
            (void)dev_recorder_drain(ours.recorder, 0, 0, &sink);
            ours_step(&ours);
        }
        ns[kept] = (double)spent / (double)calls;
    }
    printf("{\"unneeded_ns\": %.2f, \"kept_ns\": %.2f}\n", ns[0], ns[1]);
    posix_kv_free(ours.kv);
}

// ---- Peers

static uint64_t run_sqlite(const struct sample *samples, uint64_t count, const char *synchronous,
                           const char *folder)
{
    char path[512];
    char text[64];
    sqlite3 *db = NULL;
    sqlite3_stmt *insert = NULL;
    (void)snprintf(path, sizeof(path), "%s/events.sqlite", folder);
    (void)snprintf(text, sizeof(text), "PRAGMA synchronous=%s", synchronous);
    ipv_need(sqlite3_open(path, &db) == SQLITE_OK &&
                 sqlite3_exec(db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL) == SQLITE_OK &&
                 sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK &&
                 sqlite3_exec(db,
                              "CREATE TABLE events(seq INTEGER PRIMARY KEY, visit, instance, kind, "
                              "page, item, name, wall_ms, mono_us, attrs BLOB)",
                              NULL, NULL, NULL) == SQLITE_OK &&
                 sqlite3_prepare_v2(db, "INSERT INTO events VALUES(?,?,?,?,?,?,?,?,?,?)", -1,
                                    &insert, NULL) == SQLITE_OK,
             "SQLite does not open");
    uint64_t start = ipv_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        const struct dev_event *event = &samples[i].event;
        const struct base_str texts[3] = {event->page, event->item, event->name};
        (void)sqlite3_bind_int64(insert, 1, (sqlite3_int64)i + 1);
        (void)sqlite3_bind_int64(insert, 2, event->visit);
        (void)sqlite3_bind_int64(insert, 3, event->instance);
        (void)sqlite3_bind_int64(insert, 4, event->kind);
        for (int t = 0; t < 3; t++) {
            (void)sqlite3_bind_text(insert, 5 + t, texts[t].data, (int)texts[t].size,
                                    SQLITE_STATIC);
        }
        (void)sqlite3_bind_int64(insert, 8, (sqlite3_int64)event->wall_ms);
        (void)sqlite3_bind_int64(insert, 9, (sqlite3_int64)event->mono_us);
        (void)sqlite3_bind_blob(insert, 10, event->attrs, (int)event->attrs_bytes, SQLITE_STATIC);
        ipv_need(sqlite3_step(insert) == SQLITE_DONE && sqlite3_reset(insert) == SQLITE_OK,
                 "an insert failed");
    }
    uint64_t took = ipv_now_ns() - start;
    (void)sqlite3_finalize(insert);
    (void)sqlite3_close(db);
    return took;
}

static size_t row_bytes(const struct dev_event *event, uint8_t *out)
{
    const uint64_t numbers[4] = {event->wall_ms, event->mono_us,
                                 (uint64_t)event->visit << 32 | event->instance,
                                 (uint64_t)event->kind << 32 | event->attr_count};
    const struct base_str parts[5] = {{(const char *)numbers, sizeof(numbers)},
                                      event->page,
                                      event->item,
                                      event->name,
                                      {(const char *)event->attrs, event->attrs_bytes}};
    size_t size = 0;
    for (unsigned i = 0; i < 5; i++) {
        out[size++] = (uint8_t)parts[i].size;
        if (parts[i].size > 0) {
            memcpy(out + size, parts[i].data, parts[i].size);
        }
        size += parts[i].size;
    }
    return size;
}

static uint64_t run_lmdb(const struct sample *samples, uint64_t count, const char *folder)
{
    static uint8_t row[2 * DEV_EVENT_ATTRS_BYTES];
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    MDB_dbi dbi;
    ipv_need(mdb_env_create(&env) == 0 && mdb_env_set_mapsize(env, 1u << 28) == 0 &&
                 mdb_env_open(env, folder, 0, 0600) == 0 &&
                 mdb_txn_begin(env, NULL, 0, &txn) == 0 && mdb_dbi_open(txn, NULL, 0, &dbi) == 0 &&
                 mdb_txn_commit(txn) == 0,
             "LMDB does not open");
    uint64_t start = ipv_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        uint64_t seq = __builtin_bswap64(i + 1);
        MDB_val key = {sizeof(seq), &seq};
        MDB_val value = {row_bytes(&samples[i].event, row), row};
        ipv_need(mdb_txn_begin(env, NULL, 0, &txn) == 0 &&
                     mdb_put(txn, dbi, &key, &value, MDB_APPEND) == 0 && mdb_txn_commit(txn) == 0,
                 "a put failed");
    }
    uint64_t took = ipv_now_ns() - start;
    mdb_env_close(env);
    return took;
}

int main(int argc, char **argv)
{
    uint64_t seed = 0;
    uint64_t first = 0;
    uint64_t count = 0;
    ipv_need(argc == 7 && base_str_u64(base_str_of(argv[3]), &seed) == BASE_OK &&
                 base_str_u64(base_str_of(argv[4]), &first) == BASE_OK &&
                 base_str_u64(base_str_of(argv[5]), &count) == BASE_OK,
             "usage: store_worker MODE log|busy SEED FIRST EVENTS FOLDER");
    struct sample *samples = make_events(seed, first, count);
    const char *folder = argv[6];
    uint64_t start = 0;
    uint64_t took = 0;
    uint64_t disk = disk_bytes();
    flushes = writes = bytes_written = 0;
    if (strcmp(argv[1], "record") == 0) {
        run_record(samples, count, folder);
        free(samples);
        return 0;
    }
    if (strcmp(argv[1], "ours") == 0) {
        took = run_ours(samples, count, strcmp(argv[2], "log") == 0, folder, &start);
    } else if (strcmp(argv[1], "sqlite-full") == 0) {
        took = run_sqlite(samples, count, "FULL", folder);
    } else if (strcmp(argv[1], "sqlite-normal") == 0) {
        took = run_sqlite(samples, count, "NORMAL", folder);
    } else {
        ipv_need(strcmp(argv[1], "lmdb") == 0, "no such mode");
        took = run_lmdb(samples, count, folder);
    }
    double n = (double)count;
    printf(
        "{\"us_per_event\": %.3f, \"flushes_per_event\": %.5f, \"writes_per_event\": %.5f, "
        "\"bytes_per_event\": %.1f, \"disk_bytes_per_event\": %.1f, \"log_s_per_event\": %.3f}\n",
        (double)took / 1000 / n, (double)flushes / n, (double)writes / n, (double)bytes_written / n,
        (double)(disk_bytes() - disk) / n, (double)samples[count - 1].now_us / 1e6 / n);
    free(samples);
    return 0;
}
