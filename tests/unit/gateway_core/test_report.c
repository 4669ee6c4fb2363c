// Reports: counted once whatever is repeated, late or lost, and never lost once acknowledged, also
// over kill -9.
#include "core_rig.h"

#include "base/prng.h"
#include "svc/device/device_record.h"
#include "svc/rollout/device_views.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ROLLOUT 0x77

static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1000000, 0, 0};

static const enum wire_outcome_kind steps[] = {WIRE_OUTCOME_DOWNLOADED, WIRE_OUTCOME_ACTIVATED,
                                               WIRE_OUTCOME_RAN};

static void start_rollout(struct rig *rig, struct gw_rollout_view *view)
{
    struct wire_sha256 v1;
    struct base_error error = {0};
    rig_version(rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(rig, ROLLOUT, "t", &v1, NULL, NULL, &full, 1, view, &error),
                     BASE_OK);
    rig_command(rig, ROLLOUT, POL_COMMAND_START, view);
}

static void test_repeats_change_nothing(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct rig_device device;
    rig_init(&rig);
    rig_start(&rig);
    start_rollout(&rig, &view);
    rig_device_init(&device, 5);
    for (int i = 0; i < 3; i++) {
        device.seq = 1; // the answer was lost: the same report again
        assert_int_equal(rig_report(&rig, &device, &view, steps, 3), 204);
        rig_view(&rig, ROLLOUT, &view);
        assert_int_equal(view.counts.offered, 1);
        assert_int_equal(view.counts.downloaded, 1);
        assert_int_equal(view.counts.activated, 1);
        assert_int_equal(view.counts.succeeded, 1);
    }
    // Overlapping: seq 2..4, of which only 4 is news.
    static const enum wire_outcome_kind tail[] = {WIRE_OUTCOME_FAIL_CRASH, WIRE_OUTCOME_FAIL_CRASH,
                                                  WIRE_OUTCOME_RAN};
    device.seq = 2;
    assert_int_equal(rig_report(&rig, &device, &view, tail, 3), 204);
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.failed, 0);
    // A gap: taken, and noted.
    device.seq = 10;
    assert_int_equal(rig_report(&rig, &device, &view, tail, 1), 204);
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.failed, 1);
    assert_int_equal(view.counts.succeeded, 0); // it failed after all
    assert_int_equal(rig.core->reports.gaps, 1);
    // The device lost its state and begins anew; a straggler of the old epoch is acknowledged and
    // ignored.
    device.epoch = 78;
    device.seq = 1;
    static const enum wire_outcome_kind back[] = {WIRE_OUTCOME_ROLLED_BACK};
    assert_int_equal(rig_report(&rig, &device, &view, back, 1), 204);
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.rolled_back, 1);
    device.epoch = 77;
    device.seq = 11;
    static const enum wire_outcome_kind active[] = {WIRE_OUTCOME_ACTIVATED};
    assert_int_equal(rig_report(&rig, &device, &view, active, 1), 204);
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.rolled_back, 1);
    rig_expect_counts_from_disk(&rig);

    struct gw_device_view seen;
    assert_int_equal(gw_device_get(rig.core, 5, &seen), BASE_OK);
    assert_int_equal(seen.epoch, 78);
    assert_int_equal(seen.report_seq, 1);
    assert_int_equal(seen.outcome_count, 1);
    assert_int_equal(seen.outcomes[0].fingerprint, 4711);
    rig_stop(&rig);
    rig_start(&rig);
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.failed, 1);
    assert_int_equal(view.counts.rolled_back, 1);
    assert_int_equal(view.counts.offered, 1);
    rig_done(&rig);
}

// Content that was damaged on a device says nothing of the version: it is kept with the device, and
// counts for and against no rollout, before the first run and behind it.
static void test_damaged_content_blames_no_version(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct rig_device devices[2];
    struct gw_device_view seen;
    static const enum wire_outcome_kind damaged[] = {WIRE_OUTCOME_FAIL_INTEGRITY};
    rig_init(&rig);
    rig_start(&rig);
    start_rollout(&rig, &view);
    for (uint32_t i = 0; i < 2; i++) {
        rig_device_init(&devices[i], 5 + i);
        assert_int_equal(rig_report(&rig, &devices[i], &view, steps, i == 0 ? 2 : 3), 204);
        assert_int_equal(rig_report(&rig, &devices[i], &view, damaged, 1), 204);
    }
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.activated, 2);
    assert_int_equal(view.counts.succeeded, 1);
    assert_int_equal(view.counts.failed, 0);
    assert_int_equal(rig_report(&rig, &devices[0], &view, &steps[2], 1), 204); // mended, and ran
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.succeeded, 2);
    assert_int_equal(view.counts.failed, 0);
    assert_int_equal(gw_device_get(rig.core, 6, &seen), BASE_OK);
    assert_int_equal(seen.outcomes[0].last_kind, WIRE_OUTCOME_FAIL_INTEGRITY);
    assert_int_equal(seen.outcomes[0].figures.heap_peak_bytes, 8192); // of the run before it
    rig_expect_counts_from_disk(&rig);
    rig_done(&rig);
}

static void expect_refused(struct rig *rig, struct base_str device, const uint8_t *body,
                           size_t size)
{
    struct rig_exchange exchange;
    rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/report");
    exchange.exchange.request.device = device;
    exchange.exchange.request.body = body;
    exchange.exchange.request.body_bytes = size;
    rig_run(rig, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 400);
    rig_exchange_done(&exchange);
}

static void test_bad_reports(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct rig_device device;
    rig_init(&rig);
    rig_start(&rig);
    start_rollout(&rig, &view);
    static const uint8_t bodies[][8] = {{0}, {1, 2, 3}, {9, 9, 9, 9, 9, 9, 9, 9}};
    for (size_t i = 0; i < 3; i++) {
        expect_refused(&rig, (struct base_str){NULL, 0}, bodies[i], i == 0 ? 0 : sizeof(bodies[i]));
    }
    // Unknown rollouts are acknowledged and counted apart.
    rig_device_init(&device, 6);
    struct gw_rollout_view other = view;
    other.id = 0x999;
    assert_int_equal(rig_report(&rig, &device, &other, steps, 3), 204);
    assert_int_equal(rig.core->reports.unknown, 3);
    // The header must name the device of the body.
    struct wire_report report = {.device_id = 6, .epoch = 1, .first_seq = 1, .count = 1};
    report.outcomes[0] = (struct wire_outcome){.kind = WIRE_OUTCOME_RAN, .rollout_id = ROLLOUT};
    uint8_t body[128];
    size_t size;
    assert_int_equal(wire_report_encode(&report, body, sizeof(body), &size), BASE_OK);
    expect_refused(&rig, BASE_STR("0000000000000007"), body, size);
    // Nobody's id.
    report.device_id = 0;
    assert_int_equal(wire_report_encode(&report, body, sizeof(body), &size), BASE_OK);
    expect_refused(&rig, (struct base_str){NULL, 0}, body, size);
    rig_done(&rig);
}

static void test_full_store_is_507(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    rig_init(&rig);
    rig.map_bytes_max = 1u << 20;
    rig_start(&rig);
    start_rollout(&rig, &view);
    int status = 204;
    uint32_t stored = 0;
    for (uint64_t i = 1; i < 40000 && status == 204; i++) {
        struct rig_device device;
        rig_device_init(&device, base_mix64(i));
        status = rig_report(&rig, &device, &view, steps, 3);
        stored += status == 204;
    }
    assert_int_equal(status, 507);
    assert_true(stored > 100);
    rig_expect_counts_from_disk(&rig);
    rig_stop(&rig);
    rig.map_bytes_max = 0;
    rig_start(&rig);
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.succeeded, stored);
    assert_int_equal(gw_store_check(rig.core->store, NULL, NULL), 0);
    rig_done(&rig);
}

static void test_old_outcomes_move_out_of_the_record(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct rig_device device;
    rig_init(&rig);
    rig_start(&rig);
    rig_device_init(&device, 9);
    for (uint32_t i = 0; i < GW_DEVICE_OUTCOMES_MAX + 4; i++) {
        char name[32];
        struct gw_rollout_view view;
        snprintf(name, sizeof(name), "task-%u", i);
        rig_baseline(&rig, name, 100 + i, NULL, NULL, &v1);
        rig_view(&rig, 100 + i, &view);
        assert_int_equal(rig_report(&rig, &device, &view, steps, 3), 204);
        rig_advance_s(&rig, 2);
    }
    struct gw_device_view seen;
    assert_int_equal(gw_device_get(rig.core, 9, &seen), BASE_OK);
    assert_int_equal(seen.outcome_count, GW_DEVICE_OUTCOMES_MAX);
    for (int restart = 0; restart < 2; restart++) {
        for (uint32_t i = 0; i < GW_DEVICE_OUTCOMES_MAX + 4; i++) {
            struct gw_rollout_view view;
            rig_view(&rig, 100 + i, &view);
            assert_int_equal(view.counts.succeeded, 1);
            assert_int_equal(view.counts.offered, 1);
        }
        rig_stop(&rig);
        rig_start(&rig);
    }
    rig_done(&rig);
}

// ---- More rollouts than a record remembers

#define MANY (GW_DEVICE_OUTCOMES_MAX + 4)

static void make_many(struct rig *rig)
{
    struct wire_sha256 v1;
    for (uint32_t i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof(name), "task-%u", i);
        rig_baseline(rig, name, 100 + i, NULL, NULL, &v1);
    }
}

static void report_all(struct rig *rig, struct rig_device *device,
                       const enum wire_outcome_kind *kinds, uint32_t count)
{
    for (uint32_t i = 0; i < MANY; i++) {
        struct gw_rollout_view view;
        rig_view(rig, 100 + i, &view);
        assert_int_equal(rig_report(rig, device, &view, kinds, count), 204);
        rig_advance_s(rig, 2);
    }
}

static void expect_all(struct rig *rig, uint64_t succeeded, uint64_t failed)
{
    for (uint32_t i = 0; i < MANY; i++) {
        struct gw_rollout_view view;
        rig_view(rig, 100 + i, &view);
        assert_int_equal(view.counts.offered, 1);
        assert_int_equal(view.counts.succeeded, succeeded);
        assert_int_equal(view.counts.failed, failed);
    }
}

// One device that speaks of more ended rollouts than its record holds, again and again.
static void test_ended_rollouts_are_counted_once(void **state)
{
    (void)state;
    static const enum wire_outcome_kind bad[] = {WIRE_OUTCOME_FAIL_CRASH};
    struct rig rig;
    struct rig_device device;
    rig_init(&rig);
    rig_start(&rig);
    rig_device_init(&device, 9);
    make_many(&rig);
    for (int round = 0; round < 6; round++) {
        report_all(&rig, &device, steps, 3);
        expect_all(&rig, 1, 0);
    }
    rig_stop(&rig);
    rig_start(&rig);
    expect_all(&rig, 1, 0);
    report_all(&rig, &device, bad, 1); // what it did before is remembered: it is one device
    expect_all(&rig, 0, 1);
    rig_stop(&rig);
    rig_start(&rig);
    expect_all(&rig, 0, 1);
    assert_int_equal(gw_store_check(rig.core->store, NULL, NULL), 0);
    rig_done(&rig);
}

// What a device went back from goes out of the count of those that have it, however long ago the
// device spoke of it, and a restart changes nothing of what is shown.
static void test_who_left_the_record_is_known_to_go_back(void **state)
{
    (void)state;
    static const enum wire_outcome_kind back[] = {WIRE_OUTCOME_ROLLED_BACK};
    struct rig rig;
    struct gw_rollout_view before;
    struct gw_rollout_view view;
    struct rig_device device;
    rig_init(&rig);
    rig_start(&rig);
    rig_device_init(&device, 9);
    make_many(&rig);
    report_all(&rig, &device, steps, 2);
    rig_view(&rig, 100, &before);
    assert_int_equal(before.counts.on_version, 1);
    rig_stop(&rig);
    rig_start(&rig);
    rig_view(&rig, 100, &view);
    assert_memory_equal(&view.counts, &before.counts, sizeof(view.counts));
    assert_int_equal(rig_report(&rig, &device, &view, back, 1), 204);
    for (int restart = 0; restart < 2; restart++) {
        rig_view(&rig, 100, &view);
        assert_int_equal(view.counts.on_version, 0);
        assert_int_equal(view.counts.rolled_back, 1);
        assert_int_equal(view.counts.offered, 1);
        rig_stop(&rig);
        rig_start(&rig);
    }
    rig_done(&rig);
}

// ---- kill -9

#define KILLS        20
#define KILL_DEVICES 64u

struct ack {
    uint32_t device;
    uint64_t seq;
};

// The child: reports of many devices in flight at once; each acknowledgement goes up the pipe the
// moment it is there.
static void child_main(const char *dir, const uint64_t *next_seq, int out)
{
    struct rig rig;
    struct gw_rollout_view view;
    static struct rig_exchange exchanges[KILL_DEVICES];
    static uint8_t bodies[KILL_DEVICES][256];
    uint64_t seqs[KILL_DEVICES];
    memset(&rig, 0, sizeof(rig));
    snprintf(rig.dir, sizeof(rig.dir), "%s", dir);
    rig.mono_us = 1;
    rig.wall_us = UINT64_C(1700000000000000);
    rig.commit_delay_us = 200;
    rig_start(&rig);
    rig_view(&rig, ROLLOUT, &view);
    memcpy(seqs, next_seq, sizeof(seqs));
    for (uint32_t i = 0; i < KILL_DEVICES; i++) {
        exchanges[i].finished = true;
        exchanges[i].exchange.reply.status = 0;
    }
    for (;;) {
        for (uint32_t i = 0; i < KILL_DEVICES; i++) {
            if (!exchanges[i].finished) {
                continue;
            }
            if (exchanges[i].exchange.reply.status == 204) {
                struct ack ack = {i, seqs[i]++};
                if (write(out, &ack, sizeof(ack)) != (ssize_t)sizeof(ack)) {
                    _exit(2);
                }
            }
            if (exchanges[i].exchange.arena != NULL) {
                rig_exchange_done(&exchanges[i]);
            }
            struct wire_report report = {
                .device_id = 1000 + i, .epoch = 3, .first_seq = seqs[i], .count = 1};
            report.outcomes[0] = (struct wire_outcome){.kind = steps[(seqs[i] - 1) % 3],
                                                       .task_id = wire_task_id(BASE_STR("t")),
                                                       .version_id = view.version_id,
                                                       .rollout_id = ROLLOUT};
            size_t size;
            if (wire_report_encode(&report, bodies[i], sizeof(bodies[i]), &size) != BASE_OK) {
                _exit(3);
            }
            rig_exchange_init(&exchanges[i], GW_METHOD_POST, "/v1/report");
            exchanges[i].exchange.request.body = bodies[i];
            exchanges[i].exchange.request.body_bytes = size;
            gw_core_handle(rig.worker.worker, &exchanges[i].exchange);
        }
        (void)rig_pump(&rig);
    }
}

// What the store says after a kill: at least everything acknowledged, at most one report a device
// more (made durable, its acknowledgement lost), and counters that follow from the records.
static void expect_store(const char *dir, uint64_t *next_seq)
{
    struct rig rig;
    struct gw_rollout_view view;
    memset(&rig, 0, sizeof(rig));
    snprintf(rig.dir, sizeof(rig.dir), "%s", dir);
    rig.mono_us = 1;
    rig.wall_us = UINT64_C(1700000000000000);
    rig_start(&rig);
    assert_int_equal(gw_store_check(rig.core->store, NULL, NULL), 0);
    uint64_t downloaded = 0;
    uint64_t activated = 0;
    uint64_t succeeded = 0;
    for (uint32_t i = 0; i < KILL_DEVICES; i++) {
        struct gw_device_view device = {0};
        enum base_status status = gw_device_get(rig.core, 1000 + i, &device);
        assert_true(status == BASE_OK || (status == BASE_ERR_NOT_FOUND && next_seq[i] == 1));
        uint64_t stored = status == BASE_OK ? device.report_seq : 0;
        assert_in_range(stored, next_seq[i] - 1, next_seq[i]);
        next_seq[i] = stored + 1;
        downloaded += stored >= 1;
        activated += stored >= 2;
        succeeded += stored >= 3;
    }
    rig_view(&rig, ROLLOUT, &view);
    assert_int_equal(view.counts.offered, downloaded);
    assert_int_equal(view.counts.downloaded, downloaded);
    assert_int_equal(view.counts.activated, activated);
    assert_int_equal(view.counts.succeeded, succeeded);
    rig_expect_counts_from_disk(&rig);
    rig_stop(&rig);
}

static uint64_t run_and_kill(const char *dir, uint64_t *next_seq, uint64_t after_acks)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        child_main(dir, next_seq, ends[1]);
        _exit(1);
    }
    close(ends[1]);
    struct ack ack;
    uint64_t acks = 0;
    // The kill comes after a number of acknowledgements, in the middle of whatever goes on then.
    while (read(ends[0], &ack, sizeof(ack)) == (ssize_t)sizeof(ack)) {
        assert_true(ack.device < KILL_DEVICES);
        assert_int_equal(ack.seq, next_seq[ack.device]);
        next_seq[ack.device] = ack.seq + 1;
        if (++acks == after_acks) {
            assert_int_equal(kill(pid, SIGKILL), 0);
        }
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ends[0]);
    return acks;
}

static void test_kill_loses_nothing_acknowledged(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct base_prng prng;
    uint64_t next_seq[KILL_DEVICES];
    uint64_t acks = 0;
    uint64_t seed = base_entropy_u64();
    print_message("seed %llu\n", (unsigned long long)seed);
    base_prng_seed(&prng, seed);
    for (uint32_t i = 0; i < KILL_DEVICES; i++) {
        next_seq[i] = 1;
    }
    rig_init(&rig);
    rig_start(&rig);
    start_rollout(&rig, &view);
    rig_stop(&rig);
    for (int i = 0; i < KILLS; i++) {
        acks += run_and_kill(rig.dir, next_seq, 1 + base_prng_below(&prng, 400));
        expect_store(rig.dir, next_seq);
    }
    assert_true(acks >= KILLS);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeats_change_nothing),
        cmocka_unit_test(test_damaged_content_blames_no_version),
        cmocka_unit_test(test_bad_reports),
        cmocka_unit_test(test_full_store_is_507),
        cmocka_unit_test(test_old_outcomes_move_out_of_the_record),
        cmocka_unit_test(test_ended_rollouts_are_counted_once),
        cmocka_unit_test(test_who_left_the_record_is_known_to_go_back),
        cmocka_unit_test(test_kill_loses_nothing_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
