// Tenants share the places of the kill list and of the timestamp: what one kills, or makes up to
// kill, takes none that another needs.
#include "core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "http/secret/online_keys.h"
#include "svc/rollout/kill_places.h"
#include "svc/access/operators.h"
#include "svc/trust/director_private.h"
#include "svc/rollout/kill_commands.h"

#define TOLD WIRE_TIMESTAMP_KILLS_MAX

static struct rig rig;
static struct gw_online_keys *keys;
static uint16_t other; // a second tenant; the first is GW_TENANT_DEFAULT
static uint64_t next_id;

static int setup(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct gw_tenant tenant;
    bool created = false;
    rig_init(&rig);
    assert_int_equal(gw_online_keys_open(rig.dir, &keys, &error), BASE_OK);
    rig.signer = gw_online_keys_port(keys);
    rig_start(&rig);
    assert_int_equal(gw_tenant_create(rig.core, BASE_STR("other"), &tenant, &created, &error),
                     BASE_OK);
    other = tenant.id;
    next_id = 100;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    gw_online_keys_free(keys);
    return 0;
}

static void restart(void)
{
    rig_stop(&rig);
    rig_start(&rig);
    rig_settle(&rig);
}

enum until { DRAFT, APPROVAL, SIMULATED, OFFERED };

static void first_is_approved(struct pol_stage *stage, uint32_t index)
{
    stage->approval = index == 0;
}

// A version of a task of its own, in a rollout that came so far and was killed by its tenant.
// Returns the rollout.
static uint64_t killed(uint16_t tenant, enum until until, struct wire_sha256 *out)
{
    static const struct rig_stage stages[] = {
        {"simulate", POL_STAGE_SIMULATE, 10000, NULL, NULL, 1, 0, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 0, 0},
    };
    struct base_error error = {0};
    struct gw_rollout_view view;
    char task[32];
    uint64_t id = next_id++;
    uint32_t skip = until == SIMULATED ? 0 : 1;
    (void)snprintf(task, sizeof(task), "shop/task%llu", (unsigned long long)id);
    rig.tenant = tenant;
    rig.conduct = until == APPROVAL ? first_is_approved : NULL;
    rig_version(&rig, task, "1.0.0", out);
    assert_int_equal(
        rig_rollout(&rig, id, task, out, NULL, NULL, &stages[skip], 2 - skip, &view, &error),
        BASE_OK);
    rig_advance_s(&rig, 1);
    if (until != DRAFT) {
        rig_command(&rig, id, POL_COMMAND_START, NULL);
    }
    rig_command(&rig, id, POL_COMMAND_KILL, NULL);
    return id;
}

static bool told(const struct wire_sha256 *manifest)
{
    const struct gw_kill *kill = gw_director_kill(rig.core->director, manifest);
    assert_non_null(kill);
    return kill->told == GW_KILL_TOLD;
}

static uint32_t told_count(void)
{
    return rig.core->director->meta->kill_count;
}

// What was never offered is on no device.
static void test_what_was_not_offered_takes_no_place(void **state)
{
    (void)state;
    struct wire_sha256 manifests[4];
    for (int i = 0; i < 4; i++) {
        killed(GW_TENANT_DEFAULT, (enum until)i, &manifests[i]);
    }
    for (int round = 0; round < 2; round++) {
        assert_int_equal(told_count(), 1);
        assert_int_equal(rig.core->director->kill_count, 4);
        for (int i = 0; i < 4; i++) {
            assert_true(told(&manifests[i]) == (i == OFFERED));
            assert_true(gw_director_kills(rig.core, &manifests[i]));
        }
        assert_int_equal(atomic_load(&rig.core->director->kills_untold), 0);
        restart();
    }
}

// Whatever one tenant kills, the other's stays among those that devices are told of.
static void test_a_tenant_takes_no_other_tenants_place(void **state)
{
    (void)state;
    struct wire_sha256 theirs;
    static struct wire_sha256 made[TOLD + 2];
    killed(other, OFFERED, &theirs);
    for (uint32_t i = 0; i < TOLD + 2; i++) {
        killed(GW_TENANT_DEFAULT, OFFERED, &made[i]);
        rig_advance_s(&rig, 1);
    }
    for (int round = 0; round < 2; round++) {
        assert_int_equal(told_count(), TOLD);
        assert_true(told(&theirs));
        for (uint32_t i = 0; i < TOLD + 2; i++) { // of its own, those killed last
            assert_true(told(&made[i]) == (i >= 3));
        }
        assert_int_equal(atomic_load(&rig.core->director->kills_untold), 3);
        restart();
    }
}

// What an order can still name comes before what was killed later.
static void test_order_within_a_tenant(void **state)
{
    (void)state;
    static struct wire_sha256 made[TOLD + 1];
    struct gw_rollout_view view;
    struct base_error error = {0};
    static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 0, 0};
    struct wire_sha256 newer;
    for (uint32_t i = 0; i < TOLD + 1; i++) {
        uint64_t id = killed(GW_TENANT_DEFAULT, OFFERED, &made[i]);
        char task[32];
        rig_settle(&rig);
        rig_view(&rig, id, &view);
        assert_int_equal(view.state, POL_ROLLOUT_ROLLED_BACK);
        if (i > 0) { // a newer release: no snapshot lists the killed one any more
            (void)snprintf(task, sizeof(task), "shop/task%llu", (unsigned long long)id);
            rig_version(&rig, task, "2.0.0", &newer);
            assert_int_equal(
                rig_rollout(&rig, 100000 + i, task, &newer, NULL, NULL, &full, 1, &view, &error),
                BASE_OK);
            rig_command(&rig, 100000 + i, POL_COMMAND_START, NULL);
        }
        rig_advance_s(&rig, 1);
    }
    restart();
    assert_true(told(&made[0])); // the oldest, but listed
    assert_false(told(&made[1]));
    assert_true(told(&made[2]) && told(&made[TOLD]));
}

static struct wire_sha256 made_up(uint32_t i)
{
    return (struct wire_sha256){{(uint8_t)i, (uint8_t)(i >> 8), 0xee}};
}

static enum base_status kill_made_up(uint32_t i, struct base_error *error)
{
    const struct wire_sha256 manifest = made_up(i);
    bool created = false;
    return gw_trust_kill(rig.core,
                         &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("x")},
                         &created, error);
}

// ---- A full list: made-up entries, written to the store as kills are, at once

struct fill_op {
    struct gw_store_op op;
    uint32_t count;
};

static enum base_status apply_fill(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct fill_op *fill = (const struct fill_op *)self;
    for (uint32_t i = 0; i < fill->count; i++) {
        const struct wire_sha256 manifest = made_up(i);
        const struct gw_key key = gw_key_u64_sha(3, &manifest);
        static const uint8_t row[1 + 8 + 1 + 1] = {1, 7};
        BASE_TRY(gw_store_txn_put(txn, GW_TABLE_TRUST, &key, row, sizeof(row)));
    }
    return BASE_OK;
}

static void fill_up(void)
{
    struct fill_op fill = {.op = {.apply = apply_fill},
                           .count = GW_KILLS_MAX - rig.core->director->kill_count};
    assert_int_equal(gw_store_submit_wait(rig.core->store, &fill.op), BASE_OK);
    restart();
    assert_int_equal(rig.core->director->kill_count, GW_KILLS_MAX);
}

// As many as there may be: they are read back, and entries of no tenant give way to nobody.
static void test_a_full_list_is_read_back(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct wire_sha256 manifest;
    fill_up();
    for (uint32_t i = 0; i < GW_KILLS_MAX; i++) {
        manifest = made_up(i);
        assert_true(gw_director_kills(rig.core, &manifest));
    }
    assert_int_equal(told_count(), 0);
    assert_int_equal(kill_made_up(GW_KILLS_MAX, &error), BASE_ERR_LIMIT);
    manifest = made_up(7);
    assert_int_equal(
        gw_trust_unkill(rig.core,
                        &(struct gw_kill_order){&manifest, BASE_STR("ana"), BASE_STR("x")}, &error),
        BASE_OK);
    killed(other, OFFERED, &manifest);
    assert_true(told(&manifest));
    assert_int_equal(rig.core->director->kill_count, GW_KILLS_MAX);
}

// On a full list the tenant with the most gives way, least needed first; one that has as many as
// any is refused.
static void test_the_tenant_with_the_most_gives_way(void **state)
{
    (void)state;
    struct wire_sha256 first;
    struct wire_sha256 draft;
    struct wire_sha256 last;
    struct wire_sha256 base;
    struct wire_sha256 theirs[3];
    struct base_error error = {0};
    struct gw_rollout_view view;
    bool created = false;
    killed(GW_TENANT_DEFAULT, OFFERED, &first);
    killed(GW_TENANT_DEFAULT, DRAFT, &draft);
    killed(GW_TENANT_DEFAULT, OFFERED, &last);
    rig_baseline(&rig, "shop/base", 50, NULL, NULL, &base);
    assert_int_equal(gw_trust_kill(rig.core,
                                   &(struct gw_kill_order){&base, BASE_STR("ana"), BASE_STR("x")},
                                   &created, &error),
                     BASE_OK);
    rig_settle(&rig);
    fill_up();
    killed(other, OFFERED, &theirs[0]); // 4 to 0: the draft goes
    assert_false(gw_director_kills(rig.core, &draft));
    assert_true(gw_director_kills(rig.core, &first) && told(&theirs[0]));
    killed(other, OFFERED, &theirs[1]); // 3 to 1: the oldest
    assert_false(gw_director_kills(rig.core, &first));
    assert_true(gw_director_kills(rig.core, &last) && gw_director_kills(rig.core, &base));
    assert_int_equal(atomic_load(&rig.core->director->kills_yielded), 2);
    restart();
    assert_int_equal(rig.core->director->kill_count, GW_KILLS_MAX);
    assert_false(gw_director_kills(rig.core, &first) || gw_director_kills(rig.core, &draft));
    static const struct rig_stage full = {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 0, 0};
    rig.tenant = other; // 2 to 2: refused, and nothing changed
    rig_version(&rig, "shop/late", "1.0.0", &theirs[2]);
    assert_int_equal(
        rig_rollout(&rig, 60, "shop/late", &theirs[2], NULL, NULL, &full, 1, &view, &error),
        BASE_OK);
    assert_int_equal(gw_rollout_command(rig.core, 60, POL_COMMAND_KILL, NULL, &error),
                     BASE_ERR_LIMIT);
    assert_non_null(strstr(error.text, "2 of them this tenant's"));
    rig_view(&rig, 60, &view);
    assert_int_equal(view.state, POL_ROLLOUT_DRAFT);
    assert_true(gw_director_kills(rig.core, &last) && gw_director_kills(rig.core, &theirs[1]));
    // An operator of all tenants always finds a place as long as a tenant has two.
    assert_int_equal(
        gw_trust_kill(rig.core, &(struct gw_kill_order){&theirs[2], BASE_STR("ana"), BASE_STR("x")},
                      &created, &error),
        BASE_OK);
    assert_true(gw_director_kills(rig.core, &base)); // without it, a baseline again
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_what_was_not_offered_takes_no_place),
        CASE(test_a_tenant_takes_no_other_tenants_place),
        CASE(test_order_within_a_tenant),
        CASE(test_a_full_list_is_read_back),
        CASE(test_the_tenant_with_the_most_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
