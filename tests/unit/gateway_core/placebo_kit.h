// What the tests of trials share: a fleet on an old version, a rollout of a new one whose stage has
// the rule LOGRANK, devices that come and report, and what the gateway judges.
#ifndef PLACEBO_KIT_H
#define PLACEBO_KIT_H

#include "core_rig.h"

#include "base/prng.h"
#include "policy/bucket.h"
#include "svc/rollout/rollout_state.h"
#include "svc/rollout/catalog_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEVICES   400u
#define ID        0x21u
#define SHARE     2000u
#define BAND      4000u
#define BLOCK_S   30u // a tenth of the check-in interval
#define WINDOW_S  100u
#define TASK      "shop/score"
#define BASE_ID   0x11u
#define SECOND_US UINT64_C(1000000)

static struct rig_device devices[DEVICES];
static struct wire_sha256 old_version;
static struct wire_sha256 new_version;
static struct pol_pace pace;

static inline void conduct(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->gate.rule = POL_GATE_LOGRANK;
    stage->gate.alpha_ppm = 50000;
    stage->gate.beta_ppm = 100000;
    stage->gate.max_rise_ppm = 200000;
    stage->gate.min_answered_ppm = 900000;
    stage->window_s = WINDOW_S;
    stage->control_buckets = stage->kind == POL_STAGE_GRAY ? BAND : 0;
    stage->pace = pace;
}

static const struct rig_stage gray_full[] = {
    {"gray", POL_STAGE_GRAY, SHARE, NULL, NULL, 20, 400000, 3600 * SECOND_US},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 400000, 0},
};

static inline void has_old(struct rig_device *device)
{
    rig_device_task(device, TASK)->version_id = wire_version_id(&old_version);
}

static inline void make_devices(void)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_init(&devices[i], base_mix64(i + 1));
        rig_device_attr(&devices[i], "model", i % 4 == 0 ? "SM-1" : "SM-2");
        devices[i].marks = true;
        devices[i].tasks_max = 32;
        devices[i].interval_s = 300;
    }
}

static inline void begin_conducted(struct rig *rig, const struct rig_stage *stages, uint32_t count,
                                   void (*conducted)(struct pol_stage *stage, uint32_t index))
{
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig->conduct = conducted;
    rig_version(rig, TASK, "2.0.0", &new_version);
    enum base_status status =
        rig_rollout(rig, ID, TASK, &new_version, NULL, NULL, stages, count, &view, &error);
    if (status != BASE_OK) {
        fail_msg("rollout: %s", error.text);
    }
    rig_command(rig, ID, POL_COMMAND_START, NULL);
    rig_settle(rig);
}

static inline void begin_stages(struct rig *rig, const struct rig_stage *stages, uint32_t count)
{
    begin_conducted(rig, stages, count, conduct);
}

// A fleet on the old version.
static inline void open_fleet(struct rig *rig)
{
    rig_init(rig);
    rig_start(rig);
    make_devices();
    rig_baseline(rig, TASK, BASE_ID, NULL, NULL, &old_version);
    for (uint32_t i = 0; i < DEVICES; i++) {
        has_old(&devices[i]);
    }
}

// The same, and a rollout of the new one with a trial.
static inline void open_trial(struct rig *rig)
{
    open_fleet(rig);
    begin_stages(rig, gray_full, 2);
}

enum drawn { NOTHING, UPDATED, CONTROL };

static inline uint16_t bucket_of(const struct rig_device *device)
{
    return pol_bucket(device->id, base_mix64(ID));
}

static inline enum drawn place_of(const struct rig_device *device)
{
    uint16_t bucket = bucket_of(device);
    return bucket < SHARE ? UPDATED : bucket < SHARE + BAND ? CONTROL : NOTHING;
}

static inline enum drawn come(struct rig *rig, struct rig_device *device)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    enum drawn drawn = NOTHING;
    (void)rig_checkin(rig, device, true, &exchange, &offers);
    assert_true(offers.count + offers.again_count <= 1);
    if (offers.again_count == 1) {
        assert_int_equal(offers.again[0].task_id, wire_task_id(BASE_STR(TASK)));
        assert_int_equal(offers.again[0].rollout_id, ID);
        drawn = CONTROL;
    } else if (offers.count == 1) {
        (void)rig_device_take(device, &offers);
        drawn = UPDATED;
    }
    rig_exchange_done(&exchange);
    return drawn;
}

// In the rollout's name: about what it got, or about what it has again.
static inline void tell_of(struct rig *rig, struct rig_device *device, bool control,
                           enum wire_outcome_kind kind)
{
    struct wire_report report = {
        .device_id = device->id, .epoch = device->epoch, .first_seq = device->seq, .count = 2};
    for (uint32_t i = 0; i < 2; i++) {
        report.outcomes[i] = (struct wire_outcome){
            .kind = i == 0 ? WIRE_OUTCOME_ACTIVATED : kind,
            .task_id = wire_task_id(BASE_STR(TASK)),
            .version_id = wire_version_id(control ? &old_version : &new_version),
            .rollout_id = ID,
            .fingerprint = wire_outcome_is_failure(kind) ? 4711 : 0,
            .detail =
                wire_outcome_is_failure(kind) ? BASE_STR("fell over") : (struct base_str){NULL, 0},
        };
    }
    assert_int_equal(rig_send_report(rig, &report), 204);
    device->seq += 2;
}

static inline void tell(struct rig *rig, struct rig_device *device, enum wire_outcome_kind kind)
{
    tell_of(rig, device, place_of(device) == CONTROL, kind);
}

static inline void trial_now(struct rig *rig, struct pol_trial *out)
{
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    rig_settle(rig);
    const struct gw_rollout *rollout = gw_catalog_find_rollout(rig->core, ID);
    gw_rollout_seen(rig->core, rollout, &seen, &counts);
    assert_true(pol_trial_valid(&counts.trial));
    *out = counts.trial;
}

static inline void expect_same(const struct pol_trial *a, const struct pol_trial *b)
{
    assert_memory_equal(a, b, sizeof(*a));
}

static inline uint32_t count_of(enum drawn place)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        count += place_of(&devices[i]) == place;
    }
    return count;
}

static struct gw_rollout_log_view lines[GW_PAGE_MAX];

// Why the log says that it went back.
static inline enum pol_reason reason_back(struct rig *rig)
{
    struct gw_page page = {.limit = GW_PAGE_MAX};
    assert_int_equal(gw_rollout_log(rig->core, ID, 0, lines, &page), BASE_OK);
    for (uint32_t i = 0; i < page.count; i++) {
        if (lines[i].record.action == POL_ACTION_ROLL_BACK) {
            return lines[i].record.reason;
        }
    }
    return POL_REASON_NONE;
}

static inline void expect_replay(struct rig *rig)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(rig->core, ID);
    struct pol_replay replay;
    struct gw_page page = {.limit = GW_PAGE_MAX};
    rig_settle(rig);
    pol_replay_init(&replay, rollout->created_us);
    assert_int_equal(gw_rollout_log(rig->core, ID, 0, lines, &page), BASE_OK);
    assert_false(page.more);
    for (uint32_t i = 0; i < page.count; i++) {
        bool differs = false;
        (void)pol_replay_step(&replay, rollout->release->stages, rollout->release->stage_count,
                              &lines[i].record, &differs);
        if (differs) {
            fail_msg("record %llu: recorded %s (%s), replayed %s", (unsigned long long)lines[i].seq,
                     pol_action_name(lines[i].record.action),
                     pol_reason_name(lines[i].record.reason),
                     pol_rollout_state_name(replay.rollout.state));
        }
    }
    assert_true(pol_rollout_equal(&replay.rollout, &rollout->state));
}

#endif
