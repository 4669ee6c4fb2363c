// Kills: on the list, in the timestamp, in the logs of rollouts, cut off and finished, taken back.
#include "director_kit.h"

#include "svc/trust/director_private.h"

#include "svc/view/kill_list.h"
#include "svc/rollout/kill_rollouts.h"
#include "svc/access/operators.h"

// The first half of a kill's end.
static enum base_status unkill(const struct wire_sha256 *manifest)
{
    struct base_error error = {0};
    return gw_trust_unkill(
        rig.core, &(struct gw_kill_order){manifest, BASE_STR("ana"), BASE_STR("x")}, &error);
}

static void test_kills_last(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct wire_timestamp timestamp;
    struct base_error error = {0};
    struct gw_rollout_view view;
    bool created = false;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    assert_int_equal(
        gw_trust_kill(rig.core,
                      &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("leaks")},
                      &created, &error),
        BASE_OK);
    assert_true(created);
    rig_settle(&rig);
    rig_view(&rig, 1, &view);
    assert_true(view.state == POL_ROLLOUT_ROLLING_BACK || view.state == POL_ROLLOUT_ROLLED_BACK);
    restart();
    fetch_timestamp(&timestamp);
    assert_true(wire_timestamp_kills(&timestamp, &manifest));
    assert_int_equal(
        gw_trust_kill(rig.core,
                      &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("leaks")},
                      &created, &error),
        BASE_OK);
    assert_false(created);
}

// The list changed, and the gateway died before it signed that: no number stands for two lists.
static void test_a_kill_takes_its_number_with_it(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct wire_timestamp before;
    struct wire_timestamp after;
    struct base_error error = {0};
    bool created = false;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    rig_command(&rig, 1, POL_COMMAND_ABORT, NULL);
    rig_settle(&rig); // from now on the list of kills alone changes
    restart();
    fetch_timestamp(&before);
    assert_int_equal(
        gw_trust_list(rig.core, &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("x")},
                      &created, &error),
        BASE_OK);
    assert_true(created);
    restart();
    fetch_timestamp(&after);
    assert_true(after.version > before.version);
    assert_int_equal(after.kill_count, 1);
    assert_int_equal(unkill(&manifest), BASE_OK);
    before = after;
    restart();
    fetch_timestamp(&after);
    assert_true(after.version > before.version);
    assert_int_equal(after.kill_count, 0);
}

// A kill that is cut off behind its first half is finished at the next start.
static void test_half_a_kill_is_finished(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    bool created = false;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    assert_int_equal(
        gw_trust_list(rig.core, &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("x")},
                      &created, &error),
        BASE_OK);
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
    restart();
    rig_settle(&rig);
    rig_view(&rig, 1, &view);
    assert_true(view.state == POL_ROLLOUT_ROLLING_BACK || view.state == POL_ROLLOUT_ROLLED_BACK);
}

// How many lines of the rollout's log say that its version was killed, or is no more; each by who
// did it, and why.
static uint32_t lines_of(uint64_t id, enum pol_action action)
{
    static struct gw_rollout_log_view lines[64];
    uint32_t kills = 0;
    struct gw_page page = {.limit = TEST_COUNT(lines)};
    assert_int_equal(gw_rollout_log(rig.core, id, 0, lines, &page), BASE_OK);
    assert_false(page.more);
    for (uint32_t i = 0; i < page.count; i++) {
        if (lines[i].kind == GW_LOG_KILL && lines[i].record.action == action) {
            assert_string_equal(lines[i].by, "ana");
            assert_string_equal(lines[i].comment, "x");
            kills++;
        }
    }
    return kills;
}

static uint32_t kill_lines(uint64_t id)
{
    return lines_of(id, POL_ACTION_KILL);
}

// The list is stored, and the gateway dies before the logs say it: they do after the next start,
// once, also when it was killed before; not those of rollouts that were back already.
static void test_a_kill_that_was_cut_off_is_in_the_logs(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct base_error error = {0};
    bool created = false;
    rig_baseline(&rig, TASK, 1, NULL, NULL, &manifest);
    start_rollout(2, &manifest);
    rig_command(&rig, 2, POL_COMMAND_ABORT, NULL);
    rig_settle(&rig);
    start_rollout(3, &manifest);
    for (uint32_t kills = 1; kills <= 2; kills++) {
        assert_int_equal(
            gw_trust_list(rig.core,
                          &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("x")},
                          &created, &error),
            BASE_OK);
        assert_int_equal(kill_lines(1), kills - 1);
        for (int i = 0; i < 2; i++) { // nothing more at the start after it
            restart();
            rig_settle(&rig);
            assert_int_equal(kill_lines(1), kills);
            assert_int_equal(kill_lines(2), 0);
            assert_int_equal(kill_lines(3), 1); // it went back with the first
            rig_advance_s(&rig, 1);
        }
        assert_int_equal(unkill(&manifest), BASE_OK);
    }
}

// So is the end of a kill: of what is a baseline again by it, once, unless it is killed again.
static void test_an_end_that_was_cut_off_is_in_the_logs(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct base_error error = {0};
    bool created = false;
    const struct gw_rollout_who ana = {.by = BASE_STR("ana"), .comment = BASE_STR("x")};
    rig_baseline(&rig, TASK, 1, NULL, NULL, &manifest);
    start_rollout(2, &manifest);
    for (uint32_t ends = 1; ends <= 3; ends++) {
        assert_int_equal(
            gw_trust_kill(rig.core,
                          &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("x")},
                          &created, &error),
            BASE_OK);
        rig_settle(&rig);
        rig_advance_s(&rig, 1);
        assert_int_equal(unkill(&manifest), BASE_OK);
        assert_int_equal(lines_of(1, POL_ACTION_HOLD), ends - 1);
        if (ends == 3) { // not cut off
            gw_kill_note_end(rig.core, &manifest, &ana);
        }
        for (int i = 0; i < 2; i++) { // nothing more at the start after it
            restart();
            rig_settle(&rig);
            assert_int_equal(lines_of(1, POL_ACTION_HOLD), ends);
            assert_int_equal(lines_of(2, POL_ACTION_HOLD), 0); // it went back with the first
            rig_advance_s(&rig, 1);
        }
    }
    assert_int_equal(
        gw_trust_kill(rig.core, &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("x")},
                      &created, &error),
        BASE_OK);
    assert_int_equal(unkill(&manifest), BASE_OK);
    assert_int_equal(
        gw_trust_kill(rig.core, &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("x")},
                      &created, &error),
        BASE_OK);
    restart();
    assert_int_equal(unkill(&manifest), BASE_OK);
    gw_kill_note_end(rig.core, &manifest, &ana);
    restart();
    assert_int_equal(lines_of(1, POL_ACTION_HOLD), 4);
}

// What nobody approved takes no place on devices, and none that a kill would need.
static void test_made_up_kills_take_no_place(void **state)
{
    (void)state;
    struct wire_sha256 manifests[2];
    struct wire_timestamp timestamp;
    uint8_t bytes[WIRE_META_BYTES_MAX];
    size_t size[2];
    rig_version(&rig, TASK, "1.0.0", &manifests[0]);
    rig_version(&rig, TASK, "2.0.0", &manifests[1]);
    start_rollout(1, &manifests[0]);
    start_rollout(2, &manifests[1]);
    kill_one(&manifests[0]);
    rig_settle(&rig);
    assert_int_equal(fetch("/v1/meta/timestamp", bytes, sizeof(bytes), &size[0]), 200);
    for (uint32_t i = 0; i < 4 * WIRE_TIMESTAMP_KILLS_MAX; i++) {
        const struct wire_sha256 made_up = {{(uint8_t)i, (uint8_t)(i >> 8), 0xee}};
        kill_one(&made_up);
    }
    rig_settle(&rig);
    assert_int_equal(fetch("/v1/meta/timestamp", bytes, sizeof(bytes), &size[1]), 200);
    assert_int_equal(size[0], size[1]);
    print_message("with one of %u: %zu bytes\n", rig.core->director->kill_count, size[1]);
    kill_one(&manifests[1]);
    restart();
    fetch_timestamp(&timestamp);
    assert_int_equal(timestamp.kill_count, 2);
    assert_true(wire_timestamp_kills(&timestamp, &manifests[0]));
    assert_true(wire_timestamp_kills(&timestamp, &manifests[1]));
    assert_true(gw_director_kills(rig.core, &(struct wire_sha256){{7, 0, 0xee}}));
    assert_int_equal(rig.core->director->kill_count, 4 * WIRE_TIMESTAMP_KILLS_MAX + 2);
}

// Off the list it may be released again; the timestamp's number goes up, over restarts as well.
static void test_a_kill_is_taken_back(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct wire_timestamp before;
    struct wire_timestamp after;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    kill_one(&manifest);
    rig_settle(&rig);
    fetch_timestamp(&before);
    uint64_t stored = rig.core->director->timestamp_version;
    assert_int_equal(unkill(&manifest), BASE_OK);
    assert_int_equal(unkill(&manifest), BASE_ERR_NOT_FOUND);
    rig_settle(&rig);
    fetch_timestamp(&after);
    assert_true(after.version > before.version && before.version == stored);
    assert_int_equal(after.kill_count, 0);
    restart();
    fetch_timestamp(&after);
    assert_int_equal(after.kill_count, 0);
    assert_false(gw_director_kills(rig.core, &manifest));
    start_rollout(2, &manifest);
}

// Whichever call killed it; and a second kill of the rollout is a kill.
static void test_a_killed_rollouts_version_is_taken_back(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    for (int i = 0; i < 2; i++) {
        rig_command(&rig, 1, POL_COMMAND_KILL, NULL);
        assert_true(gw_director_kills(rig.core, &manifest));
        assert_int_equal(unkill(&manifest), BASE_OK);
        restart();
        assert_false(gw_director_kills(rig.core, &manifest));
    }
    start_rollout(2, &manifest);
}

// Whose kill it is, a restart finds from the rollouts.
static void test_a_kill_stays_its_tenants(void **state)
{
    (void)state;
    struct gw_tenant tenant;
    struct wire_sha256 manifest;
    struct gw_kill_view view;
    struct base_error error = {0};
    bool created = false;
    assert_int_equal(gw_tenant_create(rig.core, BASE_STR("other"), &tenant, &created, &error),
                     BASE_OK);
    rig.tenant = tenant.id;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    kill_one(&manifest);
    const struct gw_kill *kill = gw_director_kill(rig.core->director, &manifest);
    assert_int_equal(kill->tenant, tenant.id);
    restart();
    kill = gw_director_kill(rig.core->director, &manifest);
    assert_int_equal(kill->tenant, tenant.id);
    gw_kill_get(rig.core, &manifest, &view);
    assert_int_equal(view.tenant, tenant.id);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_kills_last),
        CASE(test_a_kill_takes_its_number_with_it),
        CASE(test_half_a_kill_is_finished),
        CASE(test_a_kill_that_was_cut_off_is_in_the_logs),
        CASE(test_an_end_that_was_cut_off_is_in_the_logs),
        CASE(test_made_up_kills_take_no_place),
        CASE(test_a_kill_is_taken_back),
        CASE(test_a_killed_rollouts_version_is_taken_back),
        CASE(test_a_kill_stays_its_tenants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
