// Who counts: devices that showed who they are, in every count that a gate looks at, and the same
// after a restart; strangers beside them move nothing. The real core and store, without sockets.
#include "conduct_kit.h"

#include "svc/access/credentials.h"
#include "svc/device/device_record.h"
#include "svc/plan/stage_codec.h"
#include "svc/device/touches.h"
#include "svc/rollout/device_views.h"
#include "older_rollout.h"

#define PROVEN    100u // of the devices, the first ones
#define STRANGERS (DEVICES - PROVEN)

static char secret[GW_SECRET_TEXT_BYTES + 1];

// The first devices are known, each by the same secret.
static void make_known(struct rig *rig)
{
    struct gw_credential credential = {.state = GW_CREDENTIAL_TOKEN};
    if (secret[0] == '\0') {
        assert_int_equal(gw_secret_make(&rig->core->random, GW_SECRET_DEVICE, secret), BASE_OK);
    }
    assert_true(gw_secret_hash(base_str_of(secret), GW_SECRET_DEVICE, &credential.hash));
    for (uint32_t i = 0; i < PROVEN; i++) {
        assert_true(gw_credentials_set(rig->core->credentials, devices[i].id, &credential));
    }
}

static void open_proven(struct rig *rig, void (*conduct)(struct pol_stage *stage, uint32_t index))
{
    secret[0] = '\0';
    open_rig(rig, conduct);
    rig->only_proven = true;
    make_known(rig);
}

static void restart(struct rig *rig)
{
    rig_settle(rig);
    rig_stop(rig);
    rig_start(rig);
    make_known(rig);
}

// Device `i` comes, as whoever it is. True when it was offered the release.
static bool one_comes(struct rig *rig, uint32_t i, uint64_t id, const enum wire_outcome_kind *kinds,
                      uint32_t count)
{
    rig->credential = i < PROVEN ? secret : NULL;
    bool offered = come(rig, &devices[i], id, kinds, count, NULL);
    rig->credential = NULL;
    return offered;
}

// Everything that was said and seen is where gates look: in the table, walked over, and on disk.
static void look_again(struct rig *rig)
{
    gw_worker_flush_touches(rig->worker.worker);
    for (int i = 0; i < 3; i++) {
        (void)gw_core_tick(rig->core);
        rig_settle(rig);
    }
}

static uint32_t some_come(struct rig *rig, uint32_t from, uint32_t to, uint64_t id,
                          const enum wire_outcome_kind *kinds, uint32_t count)
{
    uint32_t offered = 0;
    for (uint32_t i = from; i < to; i++) {
        offered += one_comes(rig, i, id, kinds, count);
    }
    look_again(rig);
    return offered;
}

static const struct rig_stage strict[] = {
    {"all", POL_STAGE_FULL, 10000, NULL, NULL, PROVEN, 50000, 0},
};

static void expect(struct rig *rig, uint64_t id, enum pol_rollout_state state, uint64_t succeeded,
                   uint64_t unproven, uint64_t unproven_failed)
{
    struct gw_rollout_view view;
    rig_view(rig, id, &view);
    assert_int_equal(view.state, state);
    assert_int_equal(view.counts.succeeded, succeeded);
    assert_int_equal(view.counts.failed, 0);
    assert_int_equal(view.counts.timed_out, 0);
    assert_int_equal(view.counts.unproven, unproven);
    assert_int_equal(view.counts.unproven_failed, unproven_failed);
    assert_int_equal(view.fingerprint_count, 0);
    assert_true(view.slice_count == 0 || succeeded > 0);
    rig_expect_counts_from_disk(rig);
}

static void strangers_move_nothing_and_are_counted_apart(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_proven(&rig, NULL);
    begin(&rig, 0x31, strict, 1);
    rig_command(&rig, 0x31, POL_COMMAND_START, NULL);
    assert_int_equal(some_come(&rig, PROVEN, DEVICES, 0x31, bad, 4), STRANGERS);
    expect(&rig, 0x31, POL_ROLLOUT_RUNNING, 0, STRANGERS, STRANGERS);
    rig_view(&rig, 0x31, &view);
    assert_int_equal(view.verdict, POL_VERDICT_NO_DATA);
    assert_int_equal(view.reason, POL_REASON_NO_PROVEN);
    restart(&rig);
    expect(&rig, 0x31, POL_ROLLOUT_RUNNING, 0, STRANGERS, STRANGERS);
    // One less than the sample; strangers do not fill it.
    assert_int_equal(some_come(&rig, 1, PROVEN, 0x31, good, 3), PROVEN - 1);
    expect(&rig, 0x31, POL_ROLLOUT_RUNNING, PROVEN - 1, STRANGERS, STRANGERS);
    restart(&rig);
    expect(&rig, 0x31, POL_ROLLOUT_RUNNING, PROVEN - 1, STRANGERS, STRANGERS);
    assert_int_equal(some_come(&rig, 0, 1, 0x31, good, 3), 1);
    expect(&rig, 0x31, POL_ROLLOUT_COMPLETED, PROVEN, STRANGERS, STRANGERS);
    expect_replay(&rig, 0x31);
    rig_done(&rig);
}

// Offered and never heard of again is a failure of a device that counts alone; and strangers take
// none of the offers of the others.
static void two_in_flight(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->pace.in_flight_max = 2;
    stage->execution_timeout_s = 60;
}

static void strangers_take_no_offers_and_run_out_of_no_time(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_proven(&rig, two_in_flight);
    begin(&rig, 0x32, strict, 1);
    rig_command(&rig, 0x32, POL_COMMAND_START, NULL);
    rig_settle(&rig);
    assert_int_equal(some_come(&rig, PROVEN, DEVICES, 0x32, NULL, 0), 2);
    assert_int_equal(some_come(&rig, 0, 3, 0x32, NULL, 0), 2);
    rig_advance_s(&rig, 120);
    rig_settle(&rig);
    rig_view(&rig, 0x32, &view);
    assert_int_equal(view.counts.offered, 2);
    assert_int_equal(view.counts.timed_out, 2); // of those who count
    assert_int_equal(view.counts.unproven, 0);  // an offer alone leaves no record of a stranger
    rig_done(&rig);
}

// ---- Silence and control

static void with_control(struct pol_stage *stage, uint32_t index)
{
    stage->gate.rule = POL_GATE_SEQUENTIAL;
    stage->gate.max_rise_ppm = 50000;
    stage->gate.alpha_ppm = 50000;
    stage->gate.beta_ppm = 100000;
    stage->gate.max_silence_percent = 200;
    stage->control_buckets = index == 0 ? 8000 : 0;
    stage->observe_s = 300;
    stage->silence_s = 1800;
}

static const struct rig_stage long_gray[] = {
    {"gray", POL_STAGE_GRAY, 2000, NULL, NULL, 1000, 200000, 0},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 200000, 0},
};

static void control_and_the_silent_are_proven(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_proven(&rig, with_control);
    begin(&rig, 0x33, long_gray, 2);
    rig_command(&rig, 0x33, POL_COMMAND_START, &view);
    uint32_t updated = 0;
    for (uint32_t i = 0; i < PROVEN; i++) {
        updated += pol_bucket(devices[i].id, view.salt) < 2000;
    }
    (void)some_come(&rig, 0, DEVICES, 0x33, good, 3);
    rig_advance_s(&rig, 400);
    (void)some_come(&rig, 0, DEVICES, 0x33, NULL, 0);
    rig_view(&rig, 0x33, &view);
    assert_int_equal(view.stages[0].counts.eligible, updated);
    assert_int_equal(view.stages[0].counts.control, PROVEN - updated);
    assert_int_equal(view.stages[0].counts.control_completed, PROVEN - updated);
    // Everybody who is not proven falls silent; so does one who is, and one who was revoked.
    struct gw_credential revoked;
    uint32_t out = 0;
    while (pol_bucket(devices[out].id, view.salt) >= 2000) {
        out++;
    }
    assert_int_equal(gw_device_revoke(rig.core, devices[out].id, &revoked), BASE_OK);
    uint32_t quiet = out + 1;
    while (pol_bucket(devices[quiet].id, view.salt) >= 2000) {
        quiet++;
    }
    rig_advance_s(&rig, 2000);
    for (uint32_t i = 0; i < PROVEN; i++) {
        if (i != out && i != quiet) {
            (void)one_comes(&rig, i, 0x33, NULL, 0);
        }
    }
    look_again(&rig);
    rig_view(&rig, 0x33, &view);
    assert_int_equal(view.stages[0].counts.silent, 1);
    assert_int_equal(view.stages[0].counts.control_silent, 0);
    rig_expect_counts_from_disk(&rig);
    expect_replay(&rig, 0x33);
    rig_done(&rig);
}

// ---- Proving oneself later

static void what_was_said_before_the_proof_goes(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct gw_device_view seen;
    open_proven(&rig, NULL);
    begin(&rig, 0x34, strict, 1);
    rig_command(&rig, 0x34, POL_COMMAND_START, &view);
    // The credential of device 0 is issued, and somebody who knows its id was quicker.
    struct gw_credential unknown = {.state = GW_CREDENTIAL_NONE};
    assert_true(gw_credentials_set(rig.core->credentials, devices[PROVEN].id, &unknown));
    struct rig_device stranger = devices[PROVEN + 1];
    assert_int_equal(rig_report(&rig, &stranger, &view, bad, 4), 204);
    rig_settle(&rig);
    expect(&rig, 0x34, POL_ROLLOUT_RUNNING, 0, 1, 1);
    // It enrols: the numbers of its reports are its own, and nobody's word but its own stands.
    struct gw_credential credential = {.state = GW_CREDENTIAL_TOKEN};
    assert_true(gw_secret_hash(base_str_of(secret), GW_SECRET_DEVICE, &credential.hash));
    assert_true(gw_credentials_set(rig.core->credentials, stranger.id, &credential));
    stranger.seq = 1;
    rig.credential = secret;
    assert_int_equal(rig_report(&rig, &stranger, &view, good, 3), 204);
    rig.credential = NULL;
    rig_settle(&rig);
    expect(&rig, 0x34, POL_ROLLOUT_RUNNING, 1, 0, 0);
    assert_int_equal(gw_device_get(rig.core, stranger.id, &seen), BASE_OK);
    assert_true(seen.proven);
    // A gateway that lost its credentials still takes no stranger's word for it.
    rig_stop(&rig);
    rig_start(&rig);
    stranger.epoch++;
    assert_int_equal(rig_report(&rig, &stranger, &view, bad, 4), 401);
    rig_settle(&rig);
    expect(&rig, 0x34, POL_ROLLOUT_RUNNING, 1, 0, 0);
    rig_done(&rig);
}

// ---- More rollouts than a record remembers

static void archived_strangers_stay_apart(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_proven(&rig, NULL);
    uint32_t rollouts = GW_DEVICE_OUTCOMES_MAX + 2;
    for (uint32_t i = 0; i < rollouts; i++) {
        begin(&rig, 0x100 + i, strict, 1);
        rig_command(&rig, 0x100 + i, POL_COMMAND_START, &view);
        (void)some_come(&rig, 0, 1, 0x100 + i, good, 3);
        (void)some_come(&rig, PROVEN, PROVEN + 1, 0x100 + i, bad, 4);
        rig_command(&rig, 0x100 + i, POL_COMMAND_PROMOTE, NULL);
        rig_settle(&rig);
    }
    restart(&rig);
    for (uint32_t i = 0; i < rollouts; i++) {
        rig_view(&rig, 0x100 + i, &view);
        assert_int_equal(view.counts.succeeded, 1);
        assert_int_equal(view.counts.failed, 0);
        assert_int_equal(view.counts.unproven_failed, 1);
    }
    rig_done(&rig);
}

// ---- What is stored from before there was a difference

static void old_rows_are_read_and_trust_nobody(void **state)
{
    (void)state;
    struct rig rig;
    const struct gw_release *release = NULL;
    uint8_t bytes[8192];
    open_proven(&rig, NULL);
    rig.only_proven = false;
    begin(&rig, 0x36, strict, 1);
    const struct gw_release *now = gw_catalog_find_rollout(rig.core, 0x36)->release;
    assert_true(now->trust_unproven);
    // Version 6 has neither a byte nor the interval behind the arm (1 + 8 + 8 + 8 + 4 + 2 + 8 + 2 +
    // 2), nothing of verdicts and of the cloud in front of a statement, and a block, here empty,
    // behind the task's name.
    size_t named = WIRE_SHA256_BYTES + 1 + strlen(now->task);
    size_t rest = now->spec_bytes - 48 - named;
    size_t size = 43 + named + 1 + rest;
    assert_true(now->spec_bytes < sizeof(bytes) && now->spec[43] == 1);
    assert_int_equal(now->checkin_interval_s, 300);
    memcpy(bytes, now->spec, 43);
    memcpy(bytes + 43, now->spec + 48, named);
    bytes[43 + named] = 0;
    memcpy(bytes + 43 + named + 1, now->spec + 48 + named, rest);
    uint8_t *statement = (uint8_t *)memmem(bytes, size, "WLS1", 4) - 2; // behind its size
    size_t before = (size_t)(statement - bytes);
    const size_t newer = NEWER_VERDICTS + NEWER_CLOUD;
    memmove(statement - newer, statement, size - before);
    size -= newer;
    bytes[0] = 6;
    assert_int_equal(gw_release_new(bytes, size, &release, NULL), BASE_OK);
    assert_false(release->trust_unproven);
    assert_int_equal(release->checkin_interval_s, 0);
    assert_memory_equal(release->manifest.bytes, now->manifest.bytes, WIRE_SHA256_BYTES);
    gw_release_unref(release);
    bytes[0] = 5;
    assert_int_not_equal(gw_release_new(bytes, size, &release, NULL), BASE_OK);
    // Counts of a line of the log.
    struct pol_counts counts = {.failed = 7, .unproven = 9};
    struct base_writer writer;
    struct base_reader reader;
    base_writer_init(&writer, bytes, sizeof(bytes));
    gw_pol_counts_write(&writer, &counts);
    memset(&counts, 0, sizeof(counts));
    base_reader_init(&reader, bytes, GW_COUNTS_BYTES - 8 * GW_COUNTS_WITHOUT_PROOFS);
    gw_pol_counts_read(&reader, GW_COUNTS_WITHOUT_PROOFS, &counts);
    assert_int_equal(base_reader_finish(&reader), BASE_OK);
    assert_int_equal(counts.failed, 7);
    assert_int_equal(counts.unproven, 0);
    // As records of before did, its second byte says of two only whether there is an epoch.
    struct gw_device_record record = {.has_epoch = true, .epoch = 5, .proven = true};
    uint8_t row[GW_DEVICE_RECORD_BYTES_MAX];
    size = gw_device_record_encode(&record, row);
    assert_int_equal(row[1] & 3, 3);
    row[1] &= 0xfd;
    assert_int_equal(gw_device_record_decode(row, size, &record), BASE_OK);
    assert_true(record.has_epoch && !record.proven);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_move_nothing_and_are_counted_apart),
        cmocka_unit_test(strangers_take_no_offers_and_run_out_of_no_time),
        cmocka_unit_test(control_and_the_silent_are_proven),
        cmocka_unit_test(what_was_said_before_the_proof_goes),
        cmocka_unit_test(archived_strangers_stay_apart),
        cmocka_unit_test(old_rows_are_read_and_trust_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
