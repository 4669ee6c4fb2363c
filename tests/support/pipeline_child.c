// The process that tests/e2e/test_pipeline_kill.py kills: a recorder with two threads that record,
// sequences, and features, on the LMDB store in DIR. What it does it says on stdout, each line
// written before what it stands for can be durable, acknowledgements after they are:
//
//   G first count why       a gap declared at the start
//   B seq thread number     an event found in the store at the start, from seq FROM on
//   F value                 the feature found at the start
//   E seq thread number t   an event was drained at time t
//   A seq t                 a step at time t is over, events up to seq are durable
//   H value                 a feature of a high class is durable
//
//   pipeline_child DIR FROM PAUSE_US
// Time runs TIME_FASTER times as fast as on the clock, so that what is due after seconds is due
// while somebody waits.
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "pipeline/storage/feature_store.h"
#include "pipeline/record/sequence.h"
#include "posix/store/posix_kv.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIME_FASTER 20u
#define THREADS     2
#define LINES       65536

struct child {
    struct posix_kv *kv;
    struct dev_kv_port port;
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    struct dev_sequence *sequence;
    struct dev_feature_store *features;
    uint64_t now;
    uint64_t pause_us;
    uint64_t last_seq; // drained
    char lines[LINES];
    size_t size;
};

static uint64_t now_us(void)
{
    return base_clock_mono_us() * TIME_FASTER;
}

static void check(enum base_status status, const char *what)
{
    if (status != BASE_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, base_status_text(status));
        exit(1);
    }
}

static void say_all(struct child *child)
{
    size_t done = 0;
    while (done < child->size) {
        ssize_t step = write(STDOUT_FILENO, child->lines + done, child->size - done);
        if (step <= 0) {
            exit(0); // nobody listens any more
        }
        done += (size_t)step;
    }
    child->size = 0;
}

static void say(struct child *child, const char *format, uint64_t a, uint64_t b, uint64_t c,
                uint64_t d)
{
    if (child->size + 128 > LINES) {
        say_all(child);
    }
    unsigned long long n[4] = {a, b, c, d};
    int size = snprintf(child->lines + child->size, 128, "%s %llu %llu %llu %llu\n", format, n[0],
                        n[1], n[2], n[3]);
    child->size += (size_t)size;
}

static uint64_t number_of(const struct dev_event *event)
{
    struct dev_event_attr attr = {0};
    check(dev_event_attr(event, BASE_STR("n"), &attr), "an event without its number");
    return (uint64_t)attr.integer;
}

static void on_event(void *ctx, const struct dev_event *event)
{
    struct child *child = ctx;
    say(child, "E", event->seq, event->instance, number_of(event), child->now);
    say_all(child); // at once: a long drain fills the buffer of changes, which is then committed
    child->last_seq = event->seq;
    dev_sequence_on_event(child->sequence, child->now, event);
}

static void on_gap(void *ctx, const struct dev_gap *gap)
{
    struct child *child = ctx;
    say(child, "G", gap->first, gap->count, gap->why, 0);
    dev_sequence_on_gap(child->sequence, gap);
}

static void on_visit_end(void *ctx, const struct dev_visit *visit, enum dev_visit_end why)
{
    struct child *child = ctx;
    (void)visit;
    if (why != DEV_VISIT_KILLED) {
        dev_sequence_on_visit_end(child->sequence);
    }
}

static bool stored_event(void *ctx, const struct dev_event *event)
{
    say(ctx, "B", event->seq, event->instance, number_of(event), 0);
    return true;
}

struct talker {
    struct child *child;
    uint32_t number;
};

// Visits of a few pages, with pauses; which kind comes is a matter of the count alone.
static void *talk(void *ctx)
{
    const struct talker *talker = ctx;
    static const struct base_str pages[] = {BASE_STR("home"), BASE_STR("list"), BASE_STR("item")};
    char text[64];
    memset(text, 'x', sizeof(text));
    for (uint64_t i = 0;; i++) {
        const struct dev_event_attr attrs[] = {
            {.name = BASE_STR("n"), .type = DEV_ATTR_INTEGER, .integer = (int64_t)i},
            {.name = BASE_STR("t"), .type = DEV_ATTR_STRING, .text = {text, i % 64}}};
        bool rare = i % 97 == 0;
        const struct dev_recording recording = {
            .kind = rare ? DEV_EVENT_EXIT
                         : (enum dev_event_kind)(i % 40 == 1 ? DEV_EVENT_ENTER : DEV_EVENT_SCROLL),
            .instance = talker->number,
            .page = pages[i / 100 % 3],
            .wall_ms = base_clock_wall_us() / 1000,
            .mono_us = now_us(),
            .attrs = attrs,
            .attr_count = 2,
        };
        (void)dev_record(talker->child->recorder, &recording);
        if (i % 4 == 0) {
            (void)usleep((useconds_t)talker->child->pause_us);
        }
    }
    return NULL;
}

static void *memory(size_t bytes)
{
    void *block = malloc(bytes);
    check(block != NULL ? BASE_OK : BASE_ERR_NOMEM, "memory");
    return block;
}

static void start(struct child *child, const char *dir)
{
    const struct posix_kv_options options = {.dir = dir};
    struct base_error error;
    check(posix_kv_new(&options, &child->kv, &error), "the store");
    child->port = posix_kv_port(child->kv);
    size_t bytes = dev_collect_bytes();
    check(dev_collect_init(memory(bytes), bytes, &child->port, &child->collect), "collect");
    const struct dev_recorder_options recorder = {
        .entropy = 11, .boot_id = 1, .collect = child->collect};
    bytes = dev_recorder_bytes(&recorder);
    check(dev_recorder_init(memory(bytes), bytes, &recorder, &child->recorder), "recorder");
    const struct dev_sequence_options sequence = {.collect = child->collect,
                                                  .recorder = child->recorder};
    bytes = dev_sequence_bytes(&sequence);
    check(dev_sequence_init(memory(bytes), bytes, &sequence, &child->sequence), "sequence");
    bytes = dev_feature_store_bytes();
    check(dev_feature_store_init(memory(bytes), bytes, child->collect, &child->features),
          "features");
}

static bool newest(void *ctx, const struct dev_feature_row *row)
{
    memcpy(ctx, row->value, sizeof(uint64_t));
    return false;
}

static uint64_t boot(struct child *child, uint64_t from, const struct dev_recorder_sink *sink)
{
    const struct dev_feature_query query = {
        .feature = BASE_STR("high"), .to_ms = UINT64_MAX, .newest = 1};
    uint64_t value = 0;
    child->now = now_us();
    check(dev_collect_boot(child->collect, child->now), "boot of collect");
    check(dev_sequence_boot(child->sequence, child->now), "boot of sequences");
    check(dev_feature_store_boot(child->features, child->now), "boot of features");
    check(dev_recorder_boot(child->recorder, child->now, child->now, sink), "boot of the recorder");
    const struct dev_sequence_part part = {.from_seq = from, .to_seq = UINT64_MAX};
    check(dev_sequence_each(child->sequence, child->now, &part, stored_event, child),
          "stored events");
    check(dev_feature_find(child->features, child->now, &query, newest, &value), "the feature");
    (void)dev_collect_step(child->collect, child->now);
    say(child, "F", value, 0, 0, 0);
    say_all(child);
    return value;
}

// One turn of the runtime's thread.
static void turn(struct child *child, const struct dev_recorder_sink *sink, uint64_t *high)
{
    child->now = now_us();
    (void)dev_recorder_drain(child->recorder, child->now, 0, sink);
    if (child->last_seq % 7 == 3) {
        uint64_t value = *high + 1;
        const struct dev_feature_row row = {BASE_STR("high"), BASE_STR(""), value, &value,
                                            sizeof(value)};
        check(dev_feature_put(child->features, child->now, &row, true), "putting the feature");
        *high = value;
    }
    (void)dev_sequence_step(child->sequence, child->now);
    (void)dev_collect_step(child->collect, child->now);
    struct dev_sequence_stats stats;
    dev_sequence_stats(child->sequence, &stats);
    bool durable = dev_collect_durable(child->collect) == dev_collect_changes(child->collect);
    if (durable) {
        say(child, "H", *high, 0, 0, 0);
    }
    say(child, "A", durable && stats.waiting == 0 ? child->last_seq : 0, child->now, 0, 0);
    say_all(child);
}

int main(int argc, char **argv)
{
    static struct child child;
    uint64_t from = 0;
    if (argc != 4 || base_str_u64(base_str_of(argv[2]), &from) != BASE_OK ||
        base_str_u64(base_str_of(argv[3]), &child.pause_us) != BASE_OK) {
        (void)fprintf(stderr, "usage: pipeline_child DIR FROM PAUSE_US\n");
        return 2;
    }
    const struct dev_recorder_sink sink = {
        .ctx = &child, .on_event = on_event, .on_gap = on_gap, .on_visit_end = on_visit_end};
    start(&child, argv[1]);
    uint64_t high = boot(&child, from, &sink);
    struct talker talkers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        talkers[i] = (struct talker){&child, i};
        check(pthread_create(&thread, NULL, talk, &talkers[i]) == 0 ? BASE_OK : BASE_ERR_NOMEM,
              "a thread");
    }
    for (;;) {
        turn(&child, &sink, &high);
        (void)usleep(500);
    }
}
