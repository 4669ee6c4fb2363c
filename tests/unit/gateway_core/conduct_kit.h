// What the tests of rollouts' conduct share: devices that come and report, a rollout begun, and the
// replay of its log.
#ifndef CONDUCT_KIT_H
#define CONDUCT_KIT_H

#include "core_rig.h"

#include "base/prng.h"
#include "policy/bucket.h"
#include "svc/rollout/rollout_state.h"
#include "svc/view/why.h"
#include "svc/rollout/catalog_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEVICES 200u

static const enum wire_outcome_kind good[] = {WIRE_OUTCOME_DOWNLOADED, WIRE_OUTCOME_ACTIVATED,
                                              WIRE_OUTCOME_RAN};
static const enum wire_outcome_kind bad[] = {WIRE_OUTCOME_DOWNLOADED, WIRE_OUTCOME_ACTIVATED,
                                             WIRE_OUTCOME_FAIL_EXCEPTION, WIRE_OUTCOME_ROLLED_BACK};

static struct rig_device devices[DEVICES];

static inline void make_devices(void)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        rig_device_init(&devices[i], base_mix64(i + 1));
        rig_device_attr(&devices[i], "os", i % 2 == 0 ? "android" : "ios");
    }
}

static inline void open_rig(struct rig *rig,
                            void (*conduct)(struct pol_stage *stage, uint32_t index))
{
    rig_init(rig);
    rig_start(rig);
    make_devices();
    rig->conduct = conduct;
}

static const struct rig_stage gray_full[] = {
    {"gray", POL_STAGE_GRAY, 2000, NULL, NULL, 5, 200000, 0},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 200000, 0},
};

// A gray stage that is compared with a control twice as large.
static inline void compared(struct pol_stage *stage, uint32_t index)
{
    stage->gate.rule = POL_GATE_SEQUENTIAL;
    stage->gate.max_rise_ppm = index == 0 ? 50000 : POL_TEST_NOT_ASKED;
    stage->gate.tolerated_rise_ppm = index == 0 ? 100 : 0;
    stage->gate.alpha_ppm = 50000;
    stage->gate.beta_ppm = 100000;
    stage->gate.max_silence_percent = 200;
    stage->control_buckets = index == 0 ? 4000 : 0;
    stage->observe_s = 300;
    stage->silence_s = 1800;
}

static inline void begin(struct rig *rig, uint64_t id, const struct rig_stage *stages,
                         uint32_t count)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    char version[16];
    snprintf(version, sizeof(version), "1.0.%u", (unsigned)id);
    rig_version(rig, "shop/score", version, &manifest);
    enum base_status status =
        rig_rollout(rig, id, "shop/score", &manifest, NULL, NULL, stages, count, &view, &error);
    if (status != BASE_OK) {
        fail_msg("rollout: %s", error.text);
    }
}

// One check-in; takes what is offered and reports it when `kinds` are given. Returns the offers.
static inline uint32_t come(struct rig *rig, struct rig_device *device, uint64_t id,
                            const enum wire_outcome_kind *kinds, uint32_t count,
                            uint32_t *out_next_s)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct gw_rollout_view view;
    (void)rig_checkin(rig, device, true, &exchange, &offers);
    uint32_t took = offers.count;
    if (out_next_s != NULL) {
        *out_next_s = offers.next_checkin_s;
    }
    if (kinds != NULL && offers.count > 0) {
        static const enum wire_outcome_kind back[] = {WIRE_OUTCOME_ROLLED_BACK};
        struct wire_release release = {0};
        uint64_t task_id = 0;
        bool forth = !rig_offer_stops(&offers, 0, &task_id);
        if (forth) { // of another rollout: the order leads out of this one
            rig_offer_release(&offers, 0, &release);
            forth = release.rollout_id == id;
        }
        (void)rig_device_take(device, &offers);
        rig_view(rig, id, &view);
        assert_int_equal(rig_report(rig, device, &view, forth ? kinds : back, forth ? count : 1),
                         204);
    }
    rig_exchange_done(&exchange);
    return took;
}

static inline uint32_t all_come(struct rig *rig, uint64_t id, const enum wire_outcome_kind *kinds,
                                uint32_t count)
{
    uint32_t took = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        took += come(rig, &devices[i], id, kinds, count, NULL);
    }
    rig_settle(rig);
    return took;
}

// Every decision of the log is found again from its own records; the replay ends where the rollout
// is.
static inline void expect_replay(struct rig *rig, uint64_t id)
{
    static struct gw_rollout_log_view lines[GW_PAGE_MAX];
    const struct gw_rollout *rollout = gw_catalog_find_rollout(rig->core, id);
    struct pol_replay replay;
    uint64_t after = 0;
    struct gw_page page = {.limit = GW_PAGE_MAX, .more = true};
    rig_settle(rig);
    pol_replay_init(&replay, rollout->created_us);
    while (page.more) {
        assert_int_equal(gw_rollout_log(rig->core, id, after, lines, &page), BASE_OK);
        for (uint32_t i = 0; i < page.count; i++) {
            bool differs = false;
            (void)pol_replay_step(&replay, rollout->release->stages, rollout->release->stage_count,
                                  &lines[i].record, &differs);
            if (differs) {
                fail_msg("record %llu: recorded %s %s, replayed %s",
                         (unsigned long long)lines[i].seq, pol_action_name(lines[i].record.action),
                         pol_rollout_state_name(lines[i].record.after.state),
                         pol_rollout_state_name(replay.rollout.state));
            }
            after = lines[i].seq;
        }
    }
    assert_true(replay.records > 1);
    assert_true(pol_rollout_equal(&replay.rollout, &rollout->state));
}

static inline enum base_status ask(struct rig *rig, uint64_t id, enum pol_command command,
                                   const char *by, uint64_t if_revision)
{
    struct base_error error = {0};
    struct gw_rollout_who who = {.by = base_str_of(by), .if_revision = if_revision};
    enum base_status status = gw_rollout_command(rig->core, id, command, &who, &error);
    (void)rig_pump(rig);
    return status;
}

#endif
