// Marks: a control device activates the version it has once more. It goes through what an update
// goes through, once for each rollout, and whatever comes of it, it loses nothing.
#include "role_rig.h"

#include "core/base/runtime.h"
#include "core/run/run_parts.h"
#include "core/trust/trust_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK       "demo/score"
#define OTHER      "demo/other"
#define EVERY_S    60
#define CONTROL    0x20u // the rollout that marks
#define SECOND_US  1000000ull
#define STAGE_GRAY 2
#define STAGE_FULL 3

static struct role_rig roles;
static struct rig *rig = &roles.rig;

static void versions_add(void)
{
    rig_version_add(rig, TASK, 2, 3000, WIRE_RUNTIME_ABI, EVERY_S);
    rig_version_add(rig, TASK, 2, 2000, WIRE_RUNTIME_ABI, EVERY_S);
    rig_version_add(rig, OTHER, 1, 100, WIRE_RUNTIME_ABI, 0);
}

static int setup(void **state)
{
    (void)state;
    memset(&roles, 0, sizeof(roles));
    rig_init(rig);
    versions_add();
    rig_boot(rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_false(rig->ran_unverified);
    rig_done(rig);
    return 0;
}

static int setup_roles(void **state)
{
    (void)state;
    role_rig_init(&roles, 600);
    versions_add();
    rig_boot(rig);
    return 0;
}

static int teardown_roles(void **state)
{
    (void)state;
    role_rig_done(&roles);
    return 0;
}

static struct rig_statement statement_of(uint32_t version, uint64_t counter)
{
    return (struct rig_statement){.task = version == 2 ? OTHER : TASK,
                                  .version = version,
                                  .counter = counter,
                                  .rollout_id = 0x10 + counter,
                                  .stage = STAGE_FULL,
                                  .signers = 3};
}

static void offer(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = statement_of(version, counter);
    rig_offer(rig, &statement);
}

// Rollout 0x10 + counter; then nothing is offered.
static void install(uint32_t version, uint64_t counter)
{
    offer(version, counter);
    rig_checkin(rig);
    rig_offer_none(rig);
    assert_int_equal(rig_active(rig, version == 2 ? OTHER : TASK), (int)version);
}

static struct dev_task *task(void)
{
    struct dev_task *found = dev_task_find(rig->runtime, wire_task_id(base_str_of(TASK)));
    assert_non_null(found);
    return found;
}

// Of the control's rollout, of the version.
static uint32_t told(enum wire_outcome_kind kind, uint32_t version)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->ledger_count; i++) {
        const struct wire_outcome *outcome = &rig->ledger[i].outcome;
        count += outcome->kind == kind && outcome->rollout_id == CONTROL &&
                         outcome->version_id == wire_version_id(&rig->versions[version].manifest)
                     ? 1
                     : 0;
    }
    return count;
}

static uint32_t told_at_all(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->ledger_count; i++) {
        count += rig->ledger[i].outcome.rollout_id == CONTROL ? 1 : 0;
    }
    return count;
}

static void restart(void)
{
    rig_kill(rig);
    rig_boot(rig);
}

// ---- Once

static void test_once_for_each_rollout(void **state)
{
    (void)state;
    install(0, 1);
    uint32_t requests = rig->blob_requests;
    uint32_t runs = rig->versions[0].runs;
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 1);
    assert_int_equal(told(WIRE_OUTCOME_RAN, 0), 1);
    assert_int_equal(told_at_all(), 2); // nothing was downloaded
    assert_int_equal(rig->versions[0].runs, runs + 1);
    assert_int_equal(rig->blob_requests, requests);
    assert_int_equal(task()->slots.state, DEV_UPDATE_SETTLED);
    rig_checkin(rig); // the same again
    restart();        // and after a restart
    rig_checkin(rig);
    assert_int_equal(told_at_all(), 2);
    assert_int_equal(rig->versions[0].runs, runs + 1);
    rig_mark(rig, TASK, CONTROL, 1); // another attempt
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 2);
    assert_int_equal(told(WIRE_OUTCOME_RAN, 0), 2);
    rig_mark(rig, TASK, CONTROL, 0); // an older one
    rig_checkin(rig);
    assert_int_equal(told_at_all(), 4);
    rig_mark(rig, TASK, CONTROL + 1, 0); // another rollout
    rig_checkin(rig);
    assert_int_equal(told_at_all(), 4);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_RAN)->outcome.rollout_id, CONTROL + 1);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_DOWNLOADED), 1);
}

static void test_the_profile_says_so(void **state)
{
    (void)state;
    uint8_t bytes[512];
    size_t size = 0;
    struct wire_profile profile;
    rig_checkin(rig);
    assert_int_equal(base_b64_decode(base_str_of(rig->profile), bytes, sizeof(bytes), &size), 0);
    assert_int_equal(wire_profile_parse(bytes, size, &profile), BASE_OK);
    assert_true((profile.flags & WIRE_PROFILE_FLAG_AGAIN) != 0);
}

// Nothing is there to be activated: not known, removed, or a shadow's id.
static void test_nothing_to_activate(void **state)
{
    (void)state;
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    install(0, 1); // its answer marks too, and comes before the version
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 0);
    rig->mark_count = 0;
    rig_offer_stop(rig, TASK);
    rig_checkin(rig);
    rig_offer_none(rig);
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    assert_int_equal(told_at_all(), 0);
    assert_int_equal(rig_active(rig, TASK), -1);
}

// What a version said of itself later goes to the rollout whose control it is, as an update's does.
static void test_later_outcomes(void **state)
{
    (void)state;
    install(0, 1);
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    rig->run_on = true;
    rig_run(rig, 3 * EVERY_S * SECOND_US);
    assert_int_equal(told(WIRE_OUTCOME_RAN, 0), 1); // later successes are no news
    rig->versions[0].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    restart();
    rig_run(rig, 3 * EVERY_S * SECOND_US);
    assert_int_equal(told(WIRE_OUTCOME_FAIL_EXCEPTION, 0), 1); // once
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_EXCEPTION), 1);
    assert_int_equal(rig_active(rig, TASK), 0);
}

// ---- Alike

// What a device does from a check-in until it is idle.
struct trail {
    uint64_t saves;
    uint64_t calls; // storage, requests, runs
    uint32_t requests;
    uint32_t runs;
    uint64_t us;
};

static struct trail trail_of_checkin(void)
{
    const struct mem_port *port = &rig->port;
    struct trail from = {port->storage.saves, port->calls, port->http.started, port->task.started,
                         port->clock.mono_us};
    rig_checkin(rig);
    return (struct trail){port->storage.saves - from.saves, port->calls - from.calls,
                          port->http.started - from.requests, port->task.started - from.runs,
                          port->clock.mono_us - from.us};
}

static void expect_alike(const struct trail *update, const struct trail *control)
{
    assert_int_equal(control->saves, update->saves);
    assert_int_equal(control->calls, update->calls);
    assert_int_equal(control->requests, update->requests);
    assert_int_equal(control->runs, update->runs);
    assert_true(control->us == update->us);
}

// An update whose content is here already, and a mark: the same steps.
static void test_an_update_and_a_mark_are_alike(void **state)
{
    (void)state;
    struct trail trails[2];
    for (int control = 0; control < 2; control++) {
        (void)teardown(NULL);
        (void)setup(NULL);
        install(0, 1);
        install(1, 2); // and 0 is kept
        if (control) {
            rig_mark(rig, TASK, CONTROL, 0);
        } else {
            offer(0, 3);
        }
        trails[control] = trail_of_checkin();
        assert_int_equal(rig_last(rig, WIRE_OUTCOME_RAN)->outcome.rollout_id,
                         control ? CONTROL : 0x13);
        print_message("%s: %llu saves, %llu calls, %u requests, %u runs, %llu us\n",
                      control ? "mark" : "update", (unsigned long long)trails[control].saves,
                      (unsigned long long)trails[control].calls, trails[control].requests,
                      trails[control].runs, (unsigned long long)trails[control].us);
    }
    expect_alike(&trails[0], &trails[1]);
}

// ---- It fails

static void expect_untouched(int active, int kept)
{
    assert_int_equal(rig_active(rig, TASK), active);
    assert_int_equal(rig_kept(rig, TASK), kept);
    assert_true(task()->slots.blocked == 0);
    assert_int_equal(task()->slots.state, DEV_UPDATE_SETTLED);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_ROLLED_BACK), 0);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_REMOVED), 0);
}

static void test_a_failure_leads_nowhere(void **state)
{
    (void)state;
    install(0, 1);
    install(1, 2);
    rig->versions[1].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 1), 1);
    assert_int_equal(told(WIRE_OUTCOME_FAIL_EXCEPTION, 1), 1);
    assert_int_equal(told_at_all(), 2);
    expect_untouched(1, 0);
    uint32_t runs = rig->versions[1].runs;
    rig->run_on = true;
    rig_run(rig, EVERY_S * SECOND_US / 2); // not at once again, but when it is due
    assert_int_equal(rig->versions[1].runs, runs);
    rig->versions[1].ends = WIRE_OUTCOME_RAN;
    rig_run(rig, EVERY_S * SECOND_US);
    assert_int_equal(rig->versions[1].runs, runs + 1);
    rig->versions[1].ends = WIRE_OUTCOME_FAIL_TIMEOUT; // its own again: told of its own rollout
    rig_run(rig, EVERY_S * SECOND_US);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_FAIL_TIMEOUT)->outcome.rollout_id, 0x12);
    assert_int_equal(told_at_all(), 2);
    rig_mark(rig, TASK, CONTROL, 1); // and another attempt is made
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 1), 2);
    assert_int_equal(told(WIRE_OUTCOME_FAIL_TIMEOUT, 1), 1);
    expect_untouched(1, 0);
}

// It takes the process down as often as an update may, each time told; then it is let be.
static void test_a_crash_leads_nowhere(void **state)
{
    (void)state;
    install(0, 1);
    install(1, 2);
    rig->hold_runs = true;
    rig_mark(rig, TASK, CONTROL, 0);
    for (uint32_t crash = 1; crash <= rig->config.crash_limit; crash++) {
        rig_checkin(rig);
        assert_true(rig->runtime->run->run != 0);
        restart();
        rig_checkin(rig);
        assert_int_equal(told(WIRE_OUTCOME_FAIL_CRASH, 1), crash);
    }
    assert_int_equal(rig->runtime->run->run, 0); // not at once again
    expect_untouched(1, 0);
    rig->hold_runs = false;
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 1), 1);
    rig->run_on = true;
    uint32_t runs = rig->versions[1].runs;
    rig_run(rig, 2 * EVERY_S * SECOND_US);
    assert_true(rig->versions[1].runs > runs);
    expect_untouched(1, 0);
}

// ---- Other orders

static void test_an_update_in_the_same_answer_wins(void **state)
{
    (void)state;
    install(0, 1);
    rig->stall_bodies = 1;
    rig_mark(rig, TASK, CONTROL, 0);
    offer(1, 2);
    dev_checkin_now(rig->runtime);
    rig_run(rig, SECOND_US); // the pull is under way
    assert_int_equal(rig_active(rig, TASK), 0);
    dev_checkin_now(rig->runtime);
    rig_run(rig, SECOND_US);
    assert_int_equal(told_at_all(), 0);
    rig->mark_count = 0;
    rig_run(rig, 600 * SECOND_US);
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(told_at_all(), 0);
}

// It comes while the version is on trial for the control: that version is a good one, and is kept.
static void test_an_update_during_the_trial(void **state)
{
    (void)state;
    install(0, 1);
    rig->hold_runs = true;
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    assert_int_equal(task()->slots.state, DEV_UPDATE_TRIAL);
    rig->mark_count = 0;
    offer(1, 2);
    rig_checkin(rig);
    rig->versions[1].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig_kept(rig, TASK), 0);
    rig->hold_runs = false;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0); // and is what the device goes back to
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ROLLED_BACK)->outcome.rollout_id, 0x12);
    assert_true(task()->slots.blocked == wire_version_id(&rig->versions[1].manifest));
}

// A version that is on trial for itself is judged first.
static void test_a_trial_of_its_own_comes_first(void **state)
{
    (void)state;
    install(0, 1);
    rig->hold_runs = true;
    install(1, 2);
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    assert_int_equal(told_at_all(), 0);
    rig->versions[1].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    rig->hold_runs = false;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0); // given up, as ever
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_ROLLED_BACK), 1);
}

// The other task's run is under way, so that the content waits to be proven.
static void hold_the_lane(void)
{
    install(0, 1);
    rig->hold_runs = true;
    install(2, 1);
    assert_true(rig->runtime->run->run != 0);
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    assert_true(task()->offer.again.rollout_id == CONTROL);
    assert_int_equal(told_at_all(), 0);
    rig->mark_count = 0;
}

static void release_the_lane(void)
{
    rig->hold_runs = false;
    rig_checkin(rig);
    rig_checkin(rig);
}

static void test_it_waits_for_a_run(void **state)
{
    (void)state;
    hold_the_lane();
    rig->hold_runs = false;
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 1);
    assert_int_equal(told(WIRE_OUTCOME_RAN, 0), 1);
}

// It is stored, as an accepted statement is: a restart goes on without a check-in.
static void test_it_waits_through_a_restart(void **state)
{
    (void)state;
    hold_the_lane();
    rig_kill(rig);
    rig->checkin_status = 503;
    rig->hold_runs = false;
    rig_boot(rig);
    rig_run(rig, 60 * SECOND_US);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 1);
    assert_int_equal(told(WIRE_OUTCOME_RAN, 0), 1);
}

static void test_stop_wins(void **state)
{
    (void)state;
    hold_the_lane();
    rig_offer_stop(rig, TASK);
    rig_checkin(rig);
    release_the_lane();
    assert_int_equal(rig_active(rig, TASK), -1);
    assert_int_equal(told_at_all(), 0);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_REMOVED)->outcome.rollout_id, 0x11);
}

static void test_an_update_accepted_meanwhile_wins(void **state)
{
    (void)state;
    hold_the_lane();
    offer(1, 2);
    rig_checkin(rig);
    release_the_lane();
    assert_int_equal(rig_active(rig, TASK), 1);
    assert_int_equal(rig_kept(rig, TASK), 0);
    assert_int_equal(told_at_all(), 0);
}

// A mark stands as long as check-ins repeat it.
static void test_a_mark_is_withdrawn(void **state)
{
    (void)state;
    hold_the_lane();
    rig->offer_flags = WIRE_OFFER_FLAG_MORE; // not all was said
    rig_checkin(rig);
    assert_true(task()->offer.again.rollout_id == CONTROL);
    rig->offer_flags = 0;
    rig_checkin(rig);
    release_the_lane();
    assert_int_equal(told_at_all(), 0);
    rig_mark(rig, TASK, CONTROL, 0); // and may come again
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_RAN, 0), 1);
}

// A new rollout of the version that runs ends what the mark began.
static void test_a_new_statement_of_the_version(void **state)
{
    (void)state;
    install(0, 1);
    rig->hold_runs = true;
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    rig->mark_count = 0;
    offer(0, 3);
    rig->versions[0].ends = WIRE_OUTCOME_FAIL_EXCEPTION;
    rig_checkin(rig);
    rig->hold_runs = false;
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), 0);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_ACTIVATED)->outcome.rollout_id, 0x13);
    assert_int_equal(rig_last(rig, WIRE_OUTCOME_FAIL_EXCEPTION)->outcome.rollout_id, 0x13);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_ROLLED_BACK), 0);
}

// ---- Content

static void test_damaged_content_comes_again(void **state)
{
    (void)state;
    install(0, 1);
    struct mem_blob *blob = mem_blob_find(&rig->port, &rig->versions[0].files[1].digest);
    assert_non_null(blob);
    blob->bytes[7] ^= 1;
    uint32_t requests = rig->blob_requests;
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    assert_int_equal(rig->blob_requests, requests + 1);
    assert_int_equal(rig_count(rig, WIRE_OUTCOME_FAIL_INTEGRITY), 1);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 1);
    assert_int_equal(told(WIRE_OUTCOME_RAN, 0), 1);
}

// What a version declares is read with every activation.
static void test_declarations_are_read_again(void **state)
{
    (void)state;
    install(0, 1);
    uint64_t before = dev_active_mark(rig->runtime);
    rig_checkin(rig);
    assert_true(dev_active_mark(rig->runtime) == before);
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    assert_true(dev_active_mark(rig->runtime) != before);
    dev_left_out(rig->runtime, wire_task_id(base_str_of(TASK)), "no room");
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_FAIL_LOAD, 0), 1);
}

// ---- On the way of somebody else's answer

static void test_in_a_header_it_makes_the_device_ask(void **state)
{
    (void)state;
    install(0, 1);
    struct wire_offers offers = {.again_count = 1};
    offers.again[0] = (struct wire_again){wire_task_id(base_str_of(TASK)), CONTROL, 0};
    uint8_t bytes[64];
    char text[100];
    size_t size = 0;
    assert_int_equal(wire_offers_encode(&offers, bytes, sizeof(bytes), &size), BASE_OK);
    struct base_str header = {text, base_b64_encode(bytes, size, text)};
    for (int round = 0; round < 2; round++) {
        rig->checkins = 0;
        assert_int_equal(dev_on_offer_header(rig->runtime, header), BASE_OK);
        assert_true(task()->offer.again.rollout_id == 0);
        rig_run(rig, SECOND_US);
        assert_int_equal(rig->checkins, round == 0 ? 1 : 0);
        rig_mark(rig, TASK, CONTROL, 0); // now the gateway says so itself
        rig_checkin(rig);
        assert_int_equal(told(WIRE_OUTCOME_RAN, 0), 1);
    }
}

// ---- Devices with a root

static void install_by_roles(uint32_t version, uint64_t counter, uint8_t stage)
{
    struct rig_statement statement = statement_of(version, counter);
    statement.stage = stage;
    role_release(&roles, &statement);
    rig_checkin(rig);
    assert_int_equal(rig_active(rig, TASK), (int)version);
}

static void test_the_director_signs_marks(void **state)
{
    (void)state;
    install_by_roles(0, 1, STAGE_FULL);
    uint64_t order = rig->runtime->trust->order;
    roles.unmarked = true;
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 0);
    assert_int_equal(told(WIRE_OUTCOME_FAIL_VERIFY, 0), 1); // once
    assert_true(rig_last(rig, WIRE_OUTCOME_FAIL_VERIFY)->outcome.fingerprint ==
                (uint64_t)(-(int64_t)BASE_ERR_DIRECTOR));
    assert_true(rig->runtime->trust->order == order);
    roles.unmarked = false;
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 1);
    assert_int_equal(told(WIRE_OUTCOME_RAN, 0), 1);
    assert_true(rig->runtime->trust->order == order + 1);
    rig_checkin(rig); // the same is no news
    assert_true(rig->runtime->trust->order == order + 1);
    restart();
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 1);
}

// Another answer than the one to its question.
static void test_an_answer_repeated(void **state)
{
    (void)state;
    install_by_roles(0, 1, STAGE_FULL);
    rig_offer_none(rig);
    static const uint64_t off[] = {UINT64_MAX, 1};
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        roles.order_off = off[i];
        rig_mark(rig, TASK, CONTROL, (uint8_t)i);
        rig_checkin(rig);
        assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 0);
    }
    roles.order_off = 0;
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 1);
}

// As an offer: what was published meanwhile is fetched first, and what was killed is not activated.
static void test_metadata_comes_first(void **state)
{
    (void)state;
    install_by_roles(0, 1, STAGE_FULL);
    rig_offer_none(rig);
    role_publish(&roles, true);
    uint32_t requests = roles.meta_requests;
    roles.meta_failures = 1;
    rig_mark(rig, TASK, CONTROL, 0);
    dev_checkin_now(rig->runtime);
    rig->checkins = 0;
    rig_run(rig, 600 * SECOND_US);
    assert_int_equal(roles.meta_requests, requests + 2); // one failed
    assert_int_equal(rig->checkins, 1);                  // the mark waited for it
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 1);
    roles.timestamp.kills[0] = rig->versions[0].manifest;
    roles.timestamp.kill_count = 1;
    role_publish(&roles, false);
    rig_mark(rig, TASK, CONTROL, 1);
    rig_checkin(rig);
    assert_int_equal(told(WIRE_OUTCOME_ACTIVATED, 0), 1);
    assert_int_equal(rig_active(rig, TASK), -1);
}

// Likewise with a root: a rollout publishes metadata, and both fetch it before they follow.
static void test_an_update_and_a_mark_are_alike_with_a_root(void **state)
{
    (void)state;
    struct trail trails[2];
    uint32_t meta[2];
    for (int control = 0; control < 2; control++) {
        (void)teardown_roles(NULL);
        (void)setup_roles(NULL);
        install_by_roles(0, 1, STAGE_FULL);
        install_by_roles(1, 2, STAGE_FULL);
        meta[control] = roles.meta_requests;
        struct rig_statement next = statement_of(0, 3);
        role_release(&roles, &next);
        if (control) {
            rig_offer_none(rig); // others are offered it
            rig_mark(rig, TASK, CONTROL, 0);
        }
        trails[control] = trail_of_checkin();
        meta[control] = roles.meta_requests - meta[control];
        assert_int_equal(rig_last(rig, WIRE_OUTCOME_RAN)->outcome.rollout_id,
                         control ? CONTROL : 0x13);
    }
    assert_int_equal(meta[0], 1); // the next root, which there is not, the timestamp, the snapshot
    assert_int_equal(meta[1], meta[0]);
    expect_alike(&trails[0], &trails[1]);
}

static void test_a_mark_renews_a_lease(void **state)
{
    (void)state;
    install_by_roles(0, 1, STAGE_GRAY);
    rig_offer_none(rig);
    assert_true(task()->lease.held);
    uint64_t until_s = task()->lease.until_s;
    mem_clock_advance(&rig->port, 100 * SECOND_US);
    rig_mark(rig, TASK, CONTROL, 0);
    rig_checkin(rig);
    assert_true(task()->lease.until_s >= until_s + 100);
    assert_int_equal(told(WIRE_OUTCOME_RAN, 0), 1);
}

int main(void)
{
#define CASE(name)  cmocka_unit_test_setup_teardown(name, setup, teardown)
#define ROLES(name) cmocka_unit_test_setup_teardown(name, setup_roles, teardown_roles)
    const struct CMUnitTest tests[] = {
        CASE(test_once_for_each_rollout),
        CASE(test_the_profile_says_so),
        CASE(test_nothing_to_activate),
        CASE(test_later_outcomes),
        CASE(test_an_update_and_a_mark_are_alike),
        CASE(test_a_failure_leads_nowhere),
        CASE(test_a_crash_leads_nowhere),
        CASE(test_an_update_in_the_same_answer_wins),
        CASE(test_an_update_during_the_trial),
        CASE(test_a_trial_of_its_own_comes_first),
        CASE(test_it_waits_for_a_run),
        CASE(test_it_waits_through_a_restart),
        CASE(test_stop_wins),
        CASE(test_an_update_accepted_meanwhile_wins),
        CASE(test_a_mark_is_withdrawn),
        CASE(test_a_new_statement_of_the_version),
        CASE(test_damaged_content_comes_again),
        CASE(test_declarations_are_read_again),
        CASE(test_in_a_header_it_makes_the_device_ask),
        ROLES(test_the_director_signs_marks),
        ROLES(test_an_answer_repeated),
        ROLES(test_metadata_comes_first),
        ROLES(test_an_update_and_a_mark_are_alike_with_a_root),
        ROLES(test_a_mark_renews_a_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
