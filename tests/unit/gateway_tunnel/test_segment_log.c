// The segment log: what is acknowledged is there after a restart and after kill -9, a torn tail is
// cut, positions stay, old segments go, readers follow, a full disk refuses and heals.
#include "tunnel/segment/segment_log.h"
#include "tunnel/segment/segment_record.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "base/prng.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct item {
    struct gw_sink_batch batch; // first
    struct tally *tally;
    uint8_t bytes[];
};

struct tally {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t done;
    uint32_t failed;
    int ack_fd; // each durable number goes here; -1: nowhere
};

static char dir[64];
static struct tally tally;

static int setup(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/walle-segments-XXXXXX");
    assert_non_null(mkdtemp(dir));
    memset(&tally, 0, sizeof(tally));
    pthread_mutex_init(&tally.lock, NULL);
    pthread_cond_init(&tally.changed, NULL);
    tally.ack_fd = -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

static void item_done(struct gw_sink_batch *self, enum base_status status)
{
    struct item *item = (struct item *)self;
    struct tally *to = item->tally;
    if (to->ack_fd >= 0 && status == BASE_OK) {
        uint64_t number = self->batch.number;
        if (write(to->ack_fd, &number, sizeof(number)) != (ssize_t)sizeof(number)) {
            _exit(9);
        }
    }
    pthread_mutex_lock(&to->lock);
    to->done++;
    to->failed += status != BASE_OK;
    pthread_cond_signal(&to->changed);
    pthread_mutex_unlock(&to->lock);
    free(item);
}

static struct item *make_item(uint64_t number, uint32_t size)
{
    struct item *item = calloc(1, sizeof(*item) + size);
    assert_non_null(item);
    for (uint32_t i = 0; i < size; i++) {
        item->bytes[i] = (uint8_t)base_mix64(number * 4096 + i);
    }
    item->tally = &tally;
    item->batch.device = number % 17;
    item->batch.tenant = 3;
    item->batch.received_ms = 1000 + number;
    item->batch.done = item_done;
    item->batch.batch = (struct wire_tunnel_batch){.class_id = (uint8_t)(number % 4),
                                                   .epoch = 5,
                                                   .number = number,
                                                   .first_seq = number * 2,
                                                   .count = 2,
                                                   .hash = base_mix64(number),
                                                   .raw_bytes = size,
                                                   .sent_bytes = size,
                                                   .part_bytes = size,
                                                   .bytes = item->bytes};
    return item;
}

static struct gw_segment_log *open_log(uint64_t segment_bytes)
{
    struct gw_segment_log *log = NULL;
    struct base_error error = {0};
    const struct gw_segment_options options = {
        .dir = dir, .segment_bytes = segment_bytes, .clock = *base_clock_real()};
    if (gw_segment_log_open(&options, &log, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return log;
}

static enum base_status submit(struct gw_segment_log *log, uint64_t number, uint32_t size)
{
    struct item *item = make_item(number, size);
    const struct gw_sink_port port = gw_segment_log_port(log);
    enum base_status status = port.submit(port.ctx, &item->batch);
    if (status != BASE_OK) {
        free(item);
    }
    return status;
}

static void wait_done(uint32_t count)
{
    pthread_mutex_lock(&tally.lock);
    while (tally.done < count) {
        pthread_cond_wait(&tally.changed, &tally.lock);
    }
    pthread_mutex_unlock(&tally.lock);
}

// Reads all; returns how many, checks content and order from `first` on.
static uint64_t read_all(struct gw_segment_log *log, uint64_t first)
{
    struct gw_segment_reader *reader;
    assert_int_equal(gw_segment_reader_open(log, &reader), BASE_OK);
    uint64_t number = first;
    uint64_t expected = 0;
    for (;;) {
        struct gw_sink_batch batch;
        uint64_t position;
        uint64_t next;
        enum base_status status = gw_segment_reader_next(reader, &batch, &position, &next);
        if (status == BASE_ERR_NOT_FOUND) {
            break;
        }
        assert_int_equal(status, BASE_OK);
        assert_true(position >= expected);
        expected = next;
        assert_int_equal(batch.batch.number, number);
        assert_int_equal(batch.device, number % 17);
        assert_int_equal(batch.batch.hash, base_mix64(number));
        for (uint32_t i = 0; i < batch.batch.sent_bytes; i++) {
            assert_int_equal(batch.batch.bytes[i], (uint8_t)base_mix64(number * 4096 + i));
        }
        number++;
    }
    gw_segment_reader_close(reader);
    return number - first;
}

// No byte of a record's head is what lay in memory before it.
static void test_whole_head(void **state)
{
    (void)state;
    uint8_t heads[2][GW_SEGMENT_RECORD_HEAD];
    struct item *item = make_item(7, 100);
    memset(heads[0], 0x00, sizeof(heads[0]));
    memset(heads[1], 0xff, sizeof(heads[1]));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(gw_segment_record_encode(&item->batch, heads[i]),
                         GW_SEGMENT_RECORD_HEAD + 100);
    }
    assert_memory_equal(heads[0], heads[1], sizeof(heads[0]));
    free(item);
}

// Logs of before have what lay in memory in the last word of a record's head. It is read as it is.
static void test_head_of_before(void **state)
{
    (void)state;
    enum { SIZE = 100, CHECKED_FROM = 12 };
    uint8_t bytes[GW_SEGMENT_RECORD_HEAD + SIZE];
    struct item *item = make_item(7, SIZE);
    assert_int_equal(gw_segment_record_encode(&item->batch, bytes), sizeof(bytes));
    memcpy(bytes + GW_SEGMENT_RECORD_HEAD, item->bytes, SIZE);
    memset(bytes + GW_SEGMENT_RECORD_HEAD - 4, 0xa5, 4);
    struct gw_sink_batch read;
    assert_int_equal(gw_segment_record_parse(bytes, sizeof(bytes), &read), BASE_ERR_CORRUPT);
    uint64_t check = base_hash64(bytes + CHECKED_FROM, GW_SEGMENT_RECORD_HEAD - CHECKED_FROM);
    struct base_writer writer;
    base_writer_init(&writer, bytes + 4, 8);
    base_writer_u64(&writer, base_hash64_seed(item->bytes, SIZE, check));
    assert_int_equal(gw_segment_record_parse(bytes, sizeof(bytes), &read), BASE_OK);
    assert_int_equal(read.batch.number, 7);
    assert_int_equal(read.batch.sent_bytes, SIZE);
    assert_memory_equal(read.batch.bytes, item->bytes, SIZE);
    free(item);
}

// A name that no log writes is somebody else's file, though it reads as a number.
static void test_other_names(void **state)
{
    (void)state;
    struct gw_segment_log *log = open_log(0);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(submit(log, i, 50), BASE_OK);
    }
    wait_done(20);
    gw_segment_log_close(log);
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/segment-00000000000000AB", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    log = open_log(0);
    assert_int_equal(read_all(log, 0), 20);
    gw_segment_log_close(log);
}

static void test_write_restart_read(void **state)
{
    (void)state;
    struct gw_segment_log *log = open_log(0);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(submit(log, i, (uint32_t)(1 + i * 37)), BASE_OK);
    }
    wait_done(100);
    assert_int_equal(tally.failed, 0);
    assert_int_equal(read_all(log, 0), 100);
    struct gw_segment_stats before;
    gw_segment_log_stats(log, &before);
    gw_segment_log_close(log);
    log = open_log(0);
    struct gw_segment_stats after;
    gw_segment_log_stats(log, &after);
    assert_int_equal(before.end, after.end);
    assert_int_equal(after.cut_bytes, 0);
    assert_int_equal(read_all(log, 0), 100);
    assert_int_equal(submit(log, 100, 10), BASE_OK);
    wait_done(101);
    assert_int_equal(read_all(log, 0), 101);
    gw_segment_log_close(log);
}

static void test_segments_roll_and_go(void **state)
{
    (void)state;
    struct gw_segment_log *log = open_log(GW_SEGMENT_BYTES_MIN);
    for (uint64_t i = 0; i < 400; i++) {
        assert_int_equal(submit(log, i, 1000), BASE_OK);
        wait_done((uint32_t)i + 1);
    }
    struct gw_segment_stats stats;
    gw_segment_log_stats(log, &stats);
    assert_true(stats.segments >= 6);
    assert_int_equal(read_all(log, 0), 400);
    // Nothing goes that is not below the mark given.
    assert_int_equal(gw_segment_log_retain(log, 1, 0), 0);
    uint32_t removed = gw_segment_log_retain(log, 2 * GW_SEGMENT_BYTES_MIN, stats.end);
    assert_true(removed >= 3);
    struct gw_segment_stats later;
    gw_segment_log_stats(log, &later);
    assert_int_equal(later.segments, stats.segments - removed);
    assert_true(later.first > stats.first);
    struct gw_segment_reader *reader;
    assert_int_equal(gw_segment_reader_open(log, &reader), BASE_OK);
    assert_int_equal(gw_segment_reader_seek(reader, stats.first), BASE_ERR_NOT_FOUND);
    struct gw_sink_batch batch;
    uint64_t position;
    uint64_t next;
    assert_int_equal(gw_segment_reader_next(reader, &batch, &position, &next), BASE_OK);
    assert_true(batch.batch.number > 0);
    assert_int_equal(read_all(log, batch.batch.number), 400 - batch.batch.number);
    gw_segment_reader_close(reader);
    gw_segment_log_close(log);
    log = open_log(GW_SEGMENT_BYTES_MIN);
    gw_segment_log_stats(log, &stats);
    assert_int_equal(stats.first, later.first);
    assert_int_equal(stats.end, later.end);
    gw_segment_log_close(log);
}

// A reader at the end sees what comes later.
static void test_reader_follows(void **state)
{
    (void)state;
    struct gw_segment_log *log = open_log(GW_SEGMENT_BYTES_MIN);
    struct gw_segment_reader *reader;
    assert_int_equal(gw_segment_reader_open(log, &reader), BASE_OK);
    struct gw_sink_batch batch;
    uint64_t position;
    uint64_t next = 0;
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(gw_segment_reader_next(reader, &batch, &position, &next),
                         BASE_ERR_NOT_FOUND);
        assert_int_equal(submit(log, i, 3000), BASE_OK);
        wait_done(i + 1);
        assert_int_equal(gw_segment_reader_next(reader, &batch, &position, &next), BASE_OK);
        assert_int_equal(batch.batch.number, i);
        // The position names it for good.
        struct gw_segment_reader *second;
        assert_int_equal(gw_segment_reader_open(log, &second), BASE_OK);
        assert_int_equal(gw_segment_reader_seek(second, position), BASE_OK);
        uint64_t at;
        assert_int_equal(gw_segment_reader_next(second, &batch, &at, &next), BASE_OK);
        assert_int_equal(batch.batch.number, i);
        assert_int_equal(at, position);
        gw_segment_reader_close(second);
    }
    gw_segment_reader_close(reader);
    gw_segment_log_close(log);
}

static void newest_path(char *out, size_t capacity)
{
    char command[160];
    (void)snprintf(command, sizeof(command), "ls %s/segment-* | tail -1", dir);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(out, (int)capacity, pipe));
    out[strcspn(out, "\n")] = '\0';
    (void)pclose(pipe);
}

// Any damage behind the last whole record: cut, and what was before is there.
static void test_torn_tail(void **state)
{
    (void)state;
    uint64_t seed = 20261121;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    for (uint32_t round = 0; round < 60; round++) {
        struct gw_segment_log *log = open_log(0);
        tally.done = 0;
        for (uint64_t i = 0; i < 5; i++) {
            assert_int_equal(submit(log, i, 200), BASE_OK);
        }
        wait_done(5);
        gw_segment_log_close(log);
        char path[160];
        newest_path(path, sizeof(path));
        struct stat stat_before;
        assert_int_equal(stat(path, &stat_before), 0);
        off_t record = 200 + GW_SEGMENT_RECORD_HEAD;
        uint64_t whole = 5;
        if (round % 3 == 0) { // cut anywhere
            off_t size = (off_t)base_prng_below(&prng, (uint64_t)stat_before.st_size + 1);
            assert_int_equal(truncate(path, size), 0);
            whole = size < GW_SEGMENT_HEAD ? 0 : (uint64_t)((size - GW_SEGMENT_HEAD) / record);
        } else {
            int fd = open(path, O_RDWR);
            uint8_t byte;
            off_t at = GW_SEGMENT_HEAD + (off_t)base_prng_below(&prng, (uint64_t)(5 * record));
            if (round % 3 == 1) { // a flipped bit
                assert_int_equal(pread(fd, &byte, 1, at), 1);
                byte ^= (uint8_t)(1u << base_prng_below(&prng, 8));
                assert_int_equal(pwrite(fd, &byte, 1, at), 1);
                whole = (uint64_t)((at - GW_SEGMENT_HEAD) / record);
            } else { // garbage behind
                uint8_t garbage[300];
                for (size_t i = 0; i < sizeof(garbage); i++) {
                    garbage[i] = (uint8_t)base_prng_next(&prng);
                }
                assert_int_equal(
                    pwrite(fd, garbage, 1 + base_prng_below(&prng, 300), stat_before.st_size) > 0,
                    1);
            }
            close(fd);
        }
        log = open_log(0);
        assert_int_equal(read_all(log, 0), whole);
        gw_segment_log_close(log);
        assert_int_equal(teardown(NULL) + mkdir(dir, 0700), 0);
    }
}

static off_t newest_size(void)
{
    char path[160];
    struct stat info;
    newest_path(path, sizeof(path));
    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

// The file of a segment that begins at `base`.
static void segment_path(uint64_t base, char out[160])
{
    (void)snprintf(out, 160, "%s/segment-%016llx", dir, (unsigned long long)base);
}

static void put_file(uint64_t base, const void *bytes, size_t size)
{
    char path[160];
    segment_path(base, path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

// The log does not open, and says which file is in the way and what to do with it.
static void expect_in_the_way(uint64_t base)
{
    struct gw_segment_log *log = NULL;
    struct base_error error = {0};
    const struct gw_segment_options options = {
        .dir = dir, .segment_bytes = GW_SEGMENT_BYTES_MIN, .clock = *base_clock_real()};
    enum base_status status = gw_segment_log_open(&options, &log, &error);
    gw_segment_log_close(log);
    char path[160];
    segment_path(base, path);
    print_message("%s\n", error.text);
    assert_int_equal(status, BASE_ERR_CORRUPT);
    assert_non_null(strstr(error.text, strrchr(path, '/') + 1));
    assert_non_null(strstr(error.text, "move it"));
    assert_int_equal(unlink(path), 0);
}

// `count` records in at least two segments. Returns where the log ends.
static uint64_t filled_log(uint32_t count)
{
    struct gw_segment_log *log = open_log(GW_SEGMENT_BYTES_MIN);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(submit(log, i, 1000), BASE_OK);
        wait_done(i + 1);
    }
    struct gw_segment_stats stats;
    gw_segment_log_stats(log, &stats);
    assert_true(stats.segments >= 2);
    gw_segment_log_close(log);
    return stats.end;
}

// A file that has a segment's name and is none: whether it stands in front of the log, inside one
// of its segments, or behind its end, no record is hidden by it.
static void test_file_in_the_way(void **state)
{
    (void)state;
    const uint64_t end = filled_log(100);
    const off_t newest = newest_size();
    static const char words[] = "not the head of a segment, but more bytes than one has: 64";
    const uint64_t bases[] = {1, 47, 48, 5000, end - 1, end + 1, end + 5000, UINT64_MAX};
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        put_file(bases[i], "", 0);
        expect_in_the_way(bases[i]);
        put_file(bases[i], words, 20); // as long as a torn head
        expect_in_the_way(bases[i]);
    }
    struct gw_segment_head head = {.base = 5000};
    uint8_t bytes[GW_SEGMENT_HEAD];
    gw_segment_head_encode(&head, bytes);
    put_file(head.base, bytes, sizeof(bytes)); // another log's
    expect_in_the_way(head.base);
    head.base = end - 1000;
    gw_segment_head_encode(&head, bytes);
    put_file(head.base, bytes, sizeof(bytes));
    expect_in_the_way(head.base);
    assert_int_equal(newest_size(), newest);
    struct gw_segment_log *log = open_log(GW_SEGMENT_BYTES_MIN);
    assert_int_equal(read_all(log, 0), 100);
    gw_segment_log_close(log);
}

// Two files without a head at the end: a crash leaves one, so which of them it was is not guessed.
static void test_two_files_without_a_head(void **state)
{
    (void)state;
    const uint64_t end = filled_log(100);
    const uint64_t bases[][2] = {{end, end + 5000}, {end + 1, end + 2}};
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        struct gw_segment_log *log = NULL;
        struct base_error error = {0};
        const struct gw_segment_options options = {
            .dir = dir, .segment_bytes = GW_SEGMENT_BYTES_MIN, .clock = *base_clock_real()};
        char paths[2][160];
        for (size_t k = 0; k < 2; k++) {
            put_file(bases[i][k], "", 0);
            segment_path(bases[i][k], paths[k]);
        }
        assert_int_equal(gw_segment_log_open(&options, &log, &error), BASE_ERR_CORRUPT);
        print_message("%s\n", error.text);
        for (size_t k = 0; k < 2; k++) {
            assert_non_null(strstr(error.text, strrchr(paths[k], '/') + 1));
            assert_int_equal(unlink(paths[k]), 0);
        }
    }
    struct gw_segment_log *log = open_log(GW_SEGMENT_BYTES_MIN);
    assert_int_equal(read_all(log, 0), 100);
    gw_segment_log_close(log);
}

// No log was there, and none is begun beside a file that would be in its way later.
static void test_only_a_file_in_the_way(void **state)
{
    (void)state;
    put_file(5000, "", 0);
    expect_in_the_way(5000);
    put_file(0, "", 0); // a crash can leave this one
    struct gw_segment_log *log = open_log(0);
    assert_int_equal(read_all(log, 0), 0);
    gw_segment_log_close(log);
}

// What a crash can leave while the next segment is made: its file without a head, behind a segment
// that still has zeros ahead.
static void test_torn_next_segment(void **state)
{
    (void)state;
    const uint64_t end = filled_log(100);
    char path[160];
    newest_path(path, sizeof(path));
    for (size_t size = 0; size <= GW_SEGMENT_HEAD; size += GW_SEGMENT_HEAD / 3) {
        static const uint8_t zeros[GW_SEGMENT_HEAD];
        assert_int_equal(truncate(path, (off_t)GW_SEGMENT_BYTES_MIN), 0);
        put_file(end, zeros, size);
        struct gw_segment_log *log = open_log(GW_SEGMENT_BYTES_MIN);
        struct gw_segment_stats stats;
        gw_segment_log_stats(log, &stats);
        assert_int_equal(stats.end, end + GW_SEGMENT_HEAD);
        assert_int_equal(read_all(log, 0), 100);
        gw_segment_log_close(log);
        char torn[160];
        segment_path(end, torn);
        assert_int_equal(unlink(torn), 0);
    }
}

// A segment that lost its end hides nothing of those behind it.
static void test_short_segment(void **state)
{
    (void)state;
    (void)filled_log(100);
    char path[160];
    segment_path(0, path);
    assert_int_equal(truncate(path, 5000), 0);
    struct gw_segment_log *log = open_log(GW_SEGMENT_BYTES_MIN);
    struct gw_segment_reader *reader;
    assert_int_equal(gw_segment_reader_open(log, &reader), BASE_OK);
    uint32_t whole = 0;
    uint32_t damaged = 0;
    struct gw_sink_batch last = {0};
    for (;;) {
        struct gw_sink_batch batch;
        uint64_t position;
        uint64_t next;
        enum base_status status = gw_segment_reader_next(reader, &batch, &position, &next);
        if (status == BASE_ERR_NOT_FOUND) {
            break;
        }
        damaged += status == BASE_ERR_CORRUPT;
        whole += status == BASE_OK;
        if (status == BASE_OK) {
            last = batch;
        } else {
            assert_int_equal(gw_segment_reader_seek(reader, next), BASE_OK);
        }
    }
    assert_int_equal(damaged, 1);
    assert_true(whole > 4 && whole < 100);
    assert_int_equal(last.batch.number, 99);
    gw_segment_reader_close(reader);
    gw_segment_log_close(log);
}

// Zeros lie ahead of a log that rests. What a crash leaves of them (here: of an older segment too,
// and with a record torn so that its head is missing) is no damage and no record.
static void test_zeros_ahead(void **state)
{
    (void)state;
    struct gw_segment_log *log = open_log(GW_SEGMENT_BYTES_MIN);
    struct gw_segment_stats stats;
    uint32_t sent = 0;
    do {
        assert_int_equal(submit(log, sent++, 1000), BASE_OK);
        wait_done(sent);
        gw_segment_log_stats(log, &stats);
    } while (stats.segments < 2);
    for (int i = 0; i < 60000 && newest_size() < (off_t)GW_SEGMENT_BYTES_MIN; i++) {
        usleep(1000);
    }
    assert_int_equal(newest_size(), GW_SEGMENT_BYTES_MIN);
    gw_segment_log_close(log);
    const off_t tidy = newest_size();
    assert_true(tidy < (off_t)GW_SEGMENT_BYTES_MIN);

    char path[160];
    char oldest[160];
    newest_path(path, sizeof(path));
    (void)snprintf(oldest, sizeof(oldest), "%s/segment-%016x", dir, 0);
    assert_int_equal(truncate(oldest, GW_SEGMENT_BYTES_MIN + 5000), 0);
    assert_int_equal(truncate(path, GW_SEGMENT_BYTES_MIN), 0);
    log = open_log(GW_SEGMENT_BYTES_MIN);
    gw_segment_log_stats(log, &stats);
    assert_int_equal(stats.cut_bytes, 0);
    assert_int_equal(read_all(log, 0), sent);
    gw_segment_log_close(log);

    assert_int_equal(truncate(path, GW_SEGMENT_BYTES_MIN), 0);
    int fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, "torn", 4, tidy + 700), 4);
    close(fd);
    log = open_log(GW_SEGMENT_BYTES_MIN);
    gw_segment_log_stats(log, &stats);
    assert_int_equal(stats.cut_bytes, (off_t)GW_SEGMENT_BYTES_MIN - tidy);
    assert_int_equal(read_all(log, 0), sent);
    assert_int_equal(submit(log, sent, 300), BASE_OK);
    wait_done(sent + 1);
    assert_int_equal(read_all(log, 0), sent + 1);
    gw_segment_log_close(log);
}

// The file size limit stands in for a full disk.
static void test_full_disk_heals(void **state)
{
    (void)state;
    struct gw_segment_log *log = open_log(0);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(submit(log, i, 1000), BASE_OK);
    }
    wait_done(10);
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit limit = {15000, old.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    uint32_t sent = 10;
    uint64_t number = 10;
    while (tally.failed == 0) {
        if (submit(log, number, 1000) == BASE_OK) {
            wait_done(++sent);
            number += tally.failed == 0;
        }
    }
    assert_true(number < 20);
    assert_int_equal(submit(log, 99, 1000), BASE_ERR_FULL);
    assert_int_equal(read_all(log, 0), number);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    enum base_status status;
    while ((status = submit(log, number, 1000)) != BASE_OK) { // until it tries again
        assert_int_equal(status, BASE_ERR_FULL);
    }
    wait_done(++sent);
    assert_int_equal(read_all(log, 0), number + 1);
    struct gw_segment_stats stats;
    gw_segment_log_stats(log, &stats);
    assert_true(stats.failures >= 1 && !stats.shut);
    gw_segment_log_close(log);
    log = open_log(0);
    assert_int_equal(read_all(log, 0), number + 1);
    gw_segment_log_close(log);
}

// kill -9 at random moments: what was acknowledged is there, and nothing is out of order.
static void test_kill(void **state)
{
    (void)state;
    uint64_t seed = 7;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    uint64_t acknowledged = 0; // numbers below
    for (uint32_t round = 0; round < 100; round++) {
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(pipes[0]);
            tally.ack_fd = pipes[1];
            struct gw_segment_log *log = open_log(GW_SEGMENT_BYTES_MIN);
            for (uint64_t number = read_all(log, 0);;) {
                number += submit(log, number, (uint32_t)(1 + number % 4000)) == BASE_OK;
            }
        }
        close(pipes[1]);
        uint64_t number;
        uint64_t enough = base_prng_below(&prng, 60);
        bool killed = false;
        while (read(pipes[0], &number, sizeof(number)) == (ssize_t)sizeof(number)) {
            assert_int_equal(number, acknowledged);
            acknowledged++;
            if (!killed && enough-- == 0) {
                assert_int_equal(kill(child, SIGKILL), 0);
                killed = true;
            }
        }
        close(pipes[0]);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        struct gw_segment_log *log = open_log(GW_SEGMENT_BYTES_MIN);
        uint64_t there = read_all(log, 0);
        gw_segment_log_close(log);
        assert_true(there >= acknowledged);
        acknowledged = there; // the child goes on from what it finds
        if (acknowledged > 2000) {
            assert_int_equal(teardown(NULL) + mkdir(dir, 0700), 0);
            acknowledged = 0;
        }
    }
}

static void test_one_process(void **state)
{
    (void)state;
    struct gw_segment_log *log = open_log(0);
    struct gw_segment_log *second = NULL;
    struct base_error error = {0};
    const struct gw_segment_options options = {.dir = dir, .clock = *base_clock_real()};
    assert_int_equal(gw_segment_log_open(&options, &second, &error), BASE_ERR_BUSY);
    assert_non_null(strstr(error.text, dir));
    gw_segment_log_close(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_head),
        cmocka_unit_test(test_head_of_before),
        cmocka_unit_test_setup_teardown(test_other_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_restart_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_segments_roll_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reader_follows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_torn_tail, setup, teardown),
        cmocka_unit_test_setup_teardown(test_zeros_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_in_the_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_files_without_a_head, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_a_file_in_the_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_torn_next_segment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_segment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk_heals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_process, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
