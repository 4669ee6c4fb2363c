// Offers to a device that says how many tasks it holds and what it refuses: no more than fit, the
// best of them, and nothing twice that was refused.
#include "core_rig.h"

#include "svc/device/checkin.h"
#include "svc/plan/offer_room.h"
#include "svc/view/why.h"

#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TASKS 60u
#define ROOM  8u

static struct rig rig;
static struct rig_device device;
static char names[TASKS][16];

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_start(&rig);
    rig.certified = true;
    rig_device_init(&device, 77);
    rig_device_attr(&device, "os", "android");
    device.tasks_max = ROOM;
    device.interval_s = 300;
    for (uint32_t i = 0; i < TASKS; i++) {
        snprintf(names[i], sizeof(names[i]), "t-%02u", i);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

// A release of task `i` for everybody, completed.
static void release(uint32_t i, uint64_t id, const char *version, uint16_t priority,
                    uint64_t issued_s)
{
    static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0};
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig.priority = priority;
    rig.issued_s = issued_s;
    rig_version(&rig, names[i], version, &manifest);
    assert_int_equal(
        rig_rollout(&rig, id, names[i], &manifest, NULL, NULL, &full, 1, &view, &error), BASE_OK);
    rig_command(&rig, id, POL_COMMAND_START, NULL);
    rig_command(&rig, id, POL_COMMAND_PROMOTE, &view);
}

// One check-in with pairs.
static uint32_t check_in(struct rig_exchange *exchange, struct wire_offers *offers)
{
    (void)rig_checkin(&rig, &device, true, exchange, offers);
    return offers->count;
}

static uint32_t take_all(void)
{
    struct rig_exchange exchange;
    struct wire_offers offers;
    uint32_t count = check_in(&exchange, &offers);
    assert_int_equal(rig_device_take(&device, &offers), count);
    rig_exchange_done(&exchange);
    return count;
}

static void why(uint32_t i, struct gw_why_view *out)
{
    struct base_error error = {0};
    assert_int_equal(gw_device_why(rig.core, device.id, base_str_of(names[i]), out, &error),
                     BASE_OK);
}

static bool has(uint32_t i)
{
    uint64_t task_id = wire_task_id(base_str_of(names[i]));
    for (uint32_t k = 0; k < device.pair_count; k++) {
        if (device.pairs[k].task_id == task_id && device.pairs[k].version_id != 0) {
            return true;
        }
    }
    return false;
}

// Sixty tasks, eight places: the eight of the highest priority, of equals those approved first.
static void test_the_best_that_fit(void **state)
{
    (void)state;
    static struct gw_why_view view;
    for (uint32_t i = 0; i < TASKS; i++) { // three of priority 9; the others come back to front
        release(i, 100 + i, "1", i % 20 == 7 ? 9 : 5, 1000 - i);
    }
    assert_int_equal(take_all(), ROOM);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < TASKS; i++) {
        bool wanted = i % 20 == 7 || i >= TASKS - 5;
        assert_int_equal(has(i), wanted);
        taken += has(i);
    }
    assert_int_equal(taken, ROOM);
    assert_int_equal(take_all(), 0);
    struct gw_worker_stats *stats = &rig.worker.worker->stats;
    assert_int_equal(stats->offers_without_room, 2 * (TASKS - ROOM));
    uint64_t settled = stats->checkins_settled;
    assert_int_equal(take_all(), 0); // known from the last time
    assert_int_equal(stats->checkins_settled, settled + 1);
    assert_int_equal(stats->offers_without_room, 2 * (TASKS - ROOM));
    why(0, &view);
    assert_string_equal(view.why, "it holds 8 tasks at most, and others come first: those it has, "
                                  "then by priority and approval");
    assert_int_equal(view.should_version_id, 0);
    device.tasks_max = ROOM + 1; // one more place
    device.pairs[0].floor = 0;
    device.refused_count = 1; // what it refused before stands no more, or another does
    device.refused[0] = 1;
    assert_int_equal(take_all(), 1);
    assert_true(has(TASKS - 6));
}

// Ten releases later, some for tasks that the device holds: those are offered, and before anything.
static void test_what_it_holds_goes_on(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TASKS; i++) {
        release(i, 100 + i, "1", 0, 1 + i);
    }
    assert_int_equal(take_all(), ROOM);
    for (uint32_t i = 0; i < 10; i++) { // of 0 to 5, and four of highest priority for nobody's
        uint32_t task = i < 6 ? i : 40 + i;
        release(task, 200 + i, "2", i < 6 ? 0 : 900, 2000);
    }
    struct rig_exchange exchange;
    struct wire_offers offers;
    assert_int_equal(check_in(&exchange, &offers), 6);
    for (uint32_t i = 0; i < offers.count; i++) {
        struct wire_release one;
        rig_offer_release(&offers, i, &one);
        assert_in_range(one.rollout_id, 200, 205);
    }
    (void)rig_device_take(&device, &offers);
    rig_exchange_done(&exchange);
    assert_int_equal(take_all(), 0);
    assert_int_equal(device.pair_count, ROOM);
}

// A statement that is refused is not offered again; another one of the same release is.
static void test_what_is_refused_is_not_offered(void **state)
{
    (void)state;
    static const struct rig_stage stages[] = {
        {"gray", POL_STAGE_GRAY, 9999, NULL, NULL, 1, 1000000, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0},
    };
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_version(&rig, names[0], "1", &manifest);
    assert_int_equal(
        rig_rollout(&rig, 7, names[0], &manifest, NULL, NULL, stages, 2, &view, &error), BASE_OK);
    rig_command(&rig, 7, POL_COMMAND_START, &view);
    assert_int_equal(check_in(&exchange, &offers), 1);
    device.refused[device.refused_count++] =
        wire_profile_mark(offers.items[0].envelope, offers.items[0].envelope_bytes);
    rig_exchange_done(&exchange);
    static const enum wire_outcome_kind kinds[] = {WIRE_OUTCOME_NOT_APPLICABLE};
    assert_int_equal(rig_report(&rig, &device, &view, kinds, 1), 204);
    assert_int_equal(rig_report(&rig, &device, &view, kinds, 1), 204); // told twice, counted once
    assert_int_equal(check_in(&exchange, &offers), 0);
    assert_int_equal(exchange.exchange.reply.status, 204);
    rig_exchange_done(&exchange);
    struct gw_worker_stats *stats = &rig.worker.worker->stats;
    assert_int_equal(stats->offers_refused, 1);
    assert_int_equal(check_in(&exchange, &offers), 0); // settled: not even looked at
    rig_exchange_done(&exchange);
    assert_int_equal(stats->offers_refused, 1);
    rig_settle(&rig);
    rig_view(&rig, 7, &view);
    assert_int_equal(view.counts.not_applicable, 1);
    rig_command(&rig, 7, POL_COMMAND_PROMOTE, NULL);
    assert_int_equal(take_all(), 1); // of the wider stage: another statement
    assert_true(has(0));
}

// A device of before says nothing of room, and gets what it got.
static void test_an_older_device(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        release(i, 100 + i, "1", 0, 1 + i);
    }
    device.tasks_max = 0;
    device.interval_s = 0;
    assert_int_equal(take_all(), 12);
}

// The list is what sorting all of them gives, whatever the order they come in.
static void test_the_order_is_that_of_sorting(void **state)
{
    (void)state;
    static struct gw_release releases[40];
    static struct gw_offer_room room;
    struct base_prng prng;
    base_prng_seed(&prng, 11);
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t count = 1 + (uint32_t)base_prng_below(&prng, 40);
        uint32_t most = 1 + (uint32_t)base_prng_below(&prng, 20);
        gw_offer_room_init(&room, most + 3, 3);
        for (uint32_t i = 0; i < count; i++) {
            releases[i].task_id = base_prng_next(&prng);
            releases[i].priority = (uint16_t)base_prng_below(&prng, 3);
            releases[i].approved_s = base_prng_below(&prng, 4);
            struct gw_want want = {.release = &releases[i]};
            gw_offer_room_add(&room, NULL, &want);
        }
        assert_int_equal(room.count, count < most ? count : most);
        assert_int_equal(room.left_out, count - room.count);
        for (uint32_t i = 0; i < room.count; i++) {
            uint32_t before = 0;
            for (uint32_t k = 0; k < count; k++) {
                before += gw_offer_before(&releases[k], room.items[i].want.release);
            }
            assert_int_equal(before, i);
        }
    }
    gw_offer_room_init(&room, 4, 5); // it holds more than it may now
    struct gw_want want = {.release = &releases[0]};
    gw_offer_room_add(&room, NULL, &want);
    assert_int_equal(room.count, 0);
}

#define TRIALS 24u

static void conduct_trial(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->gate.rule = POL_GATE_LOGRANK;
    stage->gate.alpha_ppm = 50000;
    stage->gate.beta_ppm = 100000;
    stage->gate.max_rise_ppm = 200000;
    stage->window_s = 100;
    stage->control_buckets = stage->kind == POL_STAGE_GRAY ? 9900 : 0;
}

// A device that is control of more trials than an answer has places for marks is told of the
// rest later.
static void test_marks_wait_for_room(void **state)
{
    (void)state;
    static const struct rig_stage narrow[] = {
        {"gray", POL_STAGE_GRAY, 100, NULL, NULL, 20, 400000, 3600 * UINT64_C(1000000)},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 400000, 0},
    };
    struct rig_exchange exchange;
    struct wire_offers offers;
    for (uint32_t i = 0; i < TRIALS; i++) {
        struct wire_sha256 manifest;
        struct gw_rollout_view view;
        struct base_error error = {0};
        rig.conduct = NULL;
        rig_baseline(&rig, names[i], 0x100 + i, NULL, NULL, &manifest);
        rig_device_task(&device, names[i])->version_id = wire_version_id(&manifest);
        rig_version(&rig, names[i], "2.0.0", &manifest);
        rig.conduct = conduct_trial;
        assert_int_equal(
            rig_rollout(&rig, 0x200 + i, names[i], &manifest, NULL, NULL, narrow, 2, &view, &error),
            BASE_OK);
        rig_command(&rig, 0x200 + i, POL_COMMAND_START, NULL);
    }
    rig_settle(&rig);
    device.marks = true;
    device.tasks_max = 64;
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(offers.again_count, WIRE_AGAIN_MAX);
    assert_true((offers.flags & WIRE_OFFER_FLAG_MORE) != 0);
    rig_exchange_done(&exchange);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_the_best_that_fit),
        CASE(test_what_it_holds_goes_on),
        CASE(test_what_is_refused_is_not_offered),
        CASE(test_an_older_device),
        CASE(test_the_order_is_that_of_sorting),
        CASE(test_marks_wait_for_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
