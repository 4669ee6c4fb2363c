// Check-ins: the expected digest against a computation per device from first principles, the slow
// path, settling, the offer header, and bad input.
#include "core_rig.h"

#include "svc/device/checkin.h"
#include "svc/rollout/catalog_private.h"
#include "svc/core_worker.h"

#include "base/prng.h"
#include "policy/bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TASKS   24
#define DEVICES 400

static const char *const os_names[] = {"android", "ios", "linux"};
static const char *const regions[] = {"eu", "us", "cn", "br"};

// The rollout that the device follows: of those begun and not going back, the one of the highest
// priority, then the oldest, that targets it and has it in its arm.
static const struct gw_rollout *followed(const struct gw_task *task, uint64_t device_id,
                                         const struct pol_attrs *attrs)
{
    const struct gw_rollout *best = NULL;
    for (uint32_t i = 0; i < task->open_count; i++) {
        const struct gw_rollout *one = task->open[i];
        bool begun =
            one->state.state == POL_ROLLOUT_RUNNING || one->state.state == POL_ROLLOUT_PAUSED;
        const struct pol_arm *arm = &one->release->arm;
        uint16_t bucket = pol_bucket(device_id, arm->salt);
        bool in_arm = arm->to == 0 || (bucket >= arm->from && bucket < arm->to);
        if (begun && in_arm && pol_target_match(&one->release->target, attrs).matched &&
            (best == NULL || one->release->priority > best->release->priority ||
             (one->release->priority == best->release->priority &&
              one->created_us < best->created_us))) {
            best = one;
        }
    }
    return best;
}

// What the device should have, task by task, straight from the rollouts and the policy.
// A paused rollout counts for devices that were let in before, not for new ones.
static uint64_t brute_digest(const struct rig *rig, const struct rig_device *device,
                             bool with_paused)
{
    uint8_t block[WIRE_ATTRS_BYTES_MAX];
    struct wire_attrs attrs = device->attrs;
    struct base_writer writer;
    struct gw_attrs_view view;
    base_writer_init(&writer, block, sizeof(block));
    wire_attrs_write(&writer, &attrs);
    assert_int_equal(gw_attrs_view(block, base_writer_size(&writer), &view), BASE_OK);
    uint64_t digest = 0;
    for (uint32_t i = 0; i < rig->core->catalog->task_count; i++) {
        const struct gw_task *task = rig->core->catalog->tasks[i];
        uint64_t version = 0;
        for (uint32_t k = task->base_count; k > 0; k--) { // approved later wins
            const struct gw_release *base = task->bases[k - 1]->release;
            bool in = false;
            for (uint32_t s = 0; s < base->stage_count; s++) {
                const struct pol_stage *stage = &base->stages[s];
                in = in || (pol_target_match(&stage->audience, &view.attrs).matched &&
                            pol_bucket(device->id, base->salt) < stage->max_bucket);
            }
            if (in && pol_target_match(&base->target, &view.attrs).matched) {
                version = base->version_id;
            }
        }
        const struct gw_rollout *open = followed(task, device->id, &view.attrs);
        bool may = open != NULL && (with_paused || open->state.state != POL_ROLLOUT_PAUSED);
        if (may) {
            const struct gw_release *release = open->release;
            struct pol_rollout running = open->state;
            running.state = POL_ROLLOUT_RUNNING;
            uint32_t mask = 0;
            for (uint32_t k = 0; k < release->stage_count; k++) {
                if (pol_target_match(&release->stages[k].audience, &view.attrs).matched) {
                    mask |= 1u << k;
                }
            }
            if (pol_rollout_admits(
                    &running, release->stages, release->stage_count,
                    (struct pol_candidate){.targeted = true,
                                           .audience_mask = mask,
                                           .bucket = pol_bucket(device->id, release->salt)})
                    .matched) {
                version = release->version_id;
            }
        }
        if (version != 0) {
            digest += wire_profile_term(task->task_id, version, 0);
        }
    }
    return digest;
}

static void make_device(struct rig_device *device, uint32_t i)
{
    rig_device_init(device, base_mix64(1000 + i));
    rig_device_attr(device, "os", os_names[i % 3]);
    rig_device_attr(device, "region", regions[(i / 3) % 4]);
    rig_device_attr(device, "channel", i % 10 == 0 ? "beta" : "stable");
}

static const struct rig_stage mixed[] = {
    {"beta", POL_STAGE_BETA, 10000, "channel", "beta", 1, 1000000, 0},
    {"gray-1", POL_STAGE_GRAY, 100, NULL, NULL, 1, 1000000, 0},
    {"gray-30", POL_STAGE_GRAY, 3000, NULL, NULL, 1, 1000000, 0},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0},
};

// Task i: some with a baseline, some with an open rollout in each stage, some paused or back.
static void make_task(struct rig *rig, uint32_t i, struct base_prng *prng)
{
    char name[32];
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    snprintf(name, sizeof(name), "team/task-%u", i);
    bool targeted = base_prng_below(prng, 2) == 0;
    const char *attr = targeted ? "os" : NULL;
    const char *value = os_names[base_prng_below(prng, 3)];
    if (base_prng_below(prng, 4) != 0) {
        rig_baseline(rig, name, 0x1000 + i, attr, value, &manifest);
    }
    if (base_prng_below(prng, 3) == 0) {
        return;
    }
    rig_version(rig, name, "2.0.0", &manifest);
    uint64_t id = 0x2000 + i;
    assert_int_equal(rig_rollout(rig, id, name, &manifest,
                                 base_prng_below(prng, 2) == 0 ? "region" : NULL,
                                 regions[base_prng_below(prng, 4)], mixed, 4, &view, &error),
                     BASE_OK);
    uint64_t steps = base_prng_below(prng, 5);
    for (uint64_t k = 0; k < steps; k++) {
        rig_command(rig, id, k == 0 ? POL_COMMAND_START : POL_COMMAND_PROMOTE, NULL);
    }
    uint64_t end = base_prng_below(prng, 4);
    if (steps > 0 && end == 0) {
        rig_command(rig, id, POL_COMMAND_PAUSE, NULL);
    } else if (steps > 0 && end == 1) {
        rig_command(rig, id, POL_COMMAND_ABORT, NULL);
    }
}

static void test_expected_digest_equals_brute_force(void **state)
{
    (void)state;
    uint64_t seed = 20261121;
    struct base_prng prng;
    print_message("seed %llu\n", (unsigned long long)seed);
    base_prng_seed(&prng, seed);
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    for (uint32_t i = 0; i < TASKS; i++) {
        make_task(&rig, i, &prng);
    }
    (void)rig_pump(&rig);
    assert_true(gw_plan_validate(rig.worker.worker->plan));
    uint32_t distinct = 0;
    uint64_t last = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct rig_device device;
        struct gw_checkin checkin;
        const char *problem = NULL;
        char hex[WIRE_DEVICE_HEX + 1];
        char text[WIRE_PROFILE_TEXT_MAX + 4];
        make_device(&device, i);
        wire_device_hex(device.id, hex);
        struct gw_request request = {.device = base_str_of(hex),
                                     .profile = rig_device_profile(&device, true, text)};
        assert_int_equal(gw_checkin_read(rig.worker.worker, &request, &checkin, &problem), BASE_OK);
        uint64_t brute = brute_digest(&rig, &device, true);
        assert_true(gw_cohort_expected(checkin.cohort, device.id) == brute);
        distinct += brute != last;
        last = brute;
    }
    assert_true(distinct > 12);
    rig_done(&rig);
}

// Every device takes what it is offered until it is offered nothing: then it has what it should,
// and its digest alone says so.
static void test_devices_converge(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    for (uint32_t i = 0; i < TASKS; i++) {
        make_task(&rig, i, &prng);
    }
    for (uint32_t i = 0; i < 60; i++) {
        struct rig_device device;
        make_device(&device, i);
        for (int round = 0; round < 4; round++) {
            struct rig_exchange exchange;
            struct wire_offers offers;
            int status = rig_checkin(&rig, &device, true, &exchange, &offers);
            uint32_t took = rig_device_take(&device, &offers);
            rig_exchange_done(&exchange);
            if (status == 204) {
                assert_int_equal(took, 0);
                break;
            }
            assert_true(round < 3);
        }
        assert_true(rig_device_digest(&device) == brute_digest(&rig, &device, false));
        struct rig_exchange exchange;
        struct wire_offers offers;
        assert_int_equal(rig_checkin(&rig, &device, false, &exchange, &offers), 204);
        rig_exchange_done(&exchange);
    }
    struct gw_worker_stats *stats = &rig.worker.worker->stats;
    assert_true(stats->checkins_settled > 0);
    assert_int_equal(stats->checkins_bad, 0);
    rig_done(&rig);
}

// A device that was never seen gets its answer at its first check-in, and so does one whose
// attributes changed.
static void expect_right_at_once(struct rig *rig)
{
    struct rig_device late;
    struct rig_exchange exchange;
    struct wire_offers offers;
    make_device(&late, 77);
    late.attrs.items[1].text = BASE_STR("eu");
    assert_int_equal(rig_checkin(rig, &late, true, &exchange, &offers), 200);
    assert_true(offers.count > 0);
    rig_exchange_done(&exchange);
    late.attrs.items[1].text = BASE_STR("us");
    assert_int_equal(rig_checkin(rig, &late, true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
}

// With more rollouts open to a share than are hashed inline the device table answers; what was
// settled is asked again as soon as something that concerns the device changes.
static void test_many_shares_are_settled(void **state)
{
    (void)state;
    static const struct rig_stage stages[] = {
        {"half", POL_STAGE_GRAY, 5000, NULL, NULL, 1, 1000000, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0},
    };
    enum { ROLLOUTS = 20, FLEET = 12 };
    struct rig rig;
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct rig_device devices[FLEET];
    rig_init(&rig);
    rig_start(&rig);
    assert_true(ROLLOUTS > GW_PARTIALS_INLINE);
    for (uint32_t i = 0; i < ROLLOUTS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "t%u", i);
        rig_version(&rig, name, "1.0.0", &manifest);
        assert_int_equal(
            rig_rollout(&rig, 100 + i, name, &manifest, "region", "eu", stages, 2, &view, &error),
            BASE_OK);
        rig_command(&rig, 100 + i, POL_COMMAND_START, NULL);
    }
    for (uint32_t i = 0; i < FLEET; i++) {
        make_device(&devices[i], i);
        devices[i].attrs.items[1].text = BASE_STR("eu");
    }
    uint64_t settled = 0;
    for (uint32_t step = 0; step < 5; step++) {
        if (step == 2) {
            rig_command(&rig, 107, POL_COMMAND_PROMOTE, NULL);
        } else if (step == 3) {
            rig_command(&rig, 103, POL_COMMAND_ABORT, NULL);
        } else if (step == 4) {
            rig_command(&rig, 105, POL_COMMAND_PAUSE, NULL);
        }
        uint32_t offered = 0;
        for (uint32_t i = 0; i < FLEET; i++) {
            for (int round = 0; round < 6; round++) {
                struct rig_exchange exchange;
                struct wire_offers offers;
                int status = rig_checkin(&rig, &devices[i], true, &exchange, &offers);
                offered += rig_device_take(&devices[i], &offers);
                rig_exchange_done(&exchange);
                if (status == 204) {
                    break;
                }
            }
            assert_true(rig_device_digest(&devices[i]) == brute_digest(&rig, &devices[i], true));
        }
        print_message("step %u: %u offers\n", step, offered);
        assert_int_equal(offered > 0, step == 0 || step == 2 || step == 3);
        if (step == 1) {
            settled = rig.worker.worker->stats.checkins_settled;
            assert_true(settled >= FLEET);
        }
    }
    expect_right_at_once(&rig);
    rig_done(&rig);
}

static void test_pairs_are_asked_for(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_init(&rig);
    rig.certified = true; // of strangers nothing is remembered
    rig_start(&rig);
    rig_baseline(&rig, "t", 1, NULL, NULL, &v1);
    rig_device_init(&device, 42);
    rig_device_task(&device, "other")->version_id = 99;
    assert_int_equal(rig_checkin(&rig, &device, false, &exchange, &offers), 200);
    assert_int_equal(offers.flags, WIRE_OFFER_FLAG_ASK_PAIRS);
    assert_int_equal(offers.count, 0);
    rig_exchange_done(&exchange);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    rig_exchange_done(&exchange);
    // It has a task the gateway knows nothing of: once with pairs, and from then on by the digest.
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 204);
    assert_int_equal(exchange.exchange.reply.header_count, 0);
    rig_exchange_done(&exchange);
    assert_int_equal(rig_checkin(&rig, &device, false, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
    rig_done(&rig);
}

static void test_blocked_version_is_not_offered_again(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct wire_sha256 v2;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(&rig);
    rig_start(&rig);
    rig_baseline(&rig, "t", 1, NULL, NULL, &v1);
    rig_version(&rig, "t", "2.0.0", &v2);
    assert_int_equal(rig_rollout(&rig, 2, "t", &v2, NULL, NULL, mixed + 3, 1, &view, &error),
                     BASE_OK);
    rig_command(&rig, 2, POL_COMMAND_START, NULL);
    rig_device_init(&device, 42);
    struct wire_profile_pair *pair = rig_device_task(&device, "t");
    pair->version_id = wire_version_id(&v1);
    pair->blocked_version_id = wire_version_id(&v2);
    pair->floor = view.floor;
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
    pair->version_id = 0; // it lost v1 too: v1 comes back, v2 does not
    pair->floor = 0;
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    assert_true(pair->version_id == wire_version_id(&v1));
    rig_exchange_done(&exchange);
    rig_done(&rig);
}

// Three versions came and went while the device was away: it is offered the last one, once.
static void test_who_was_away_gets_the_latest(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 versions[4];
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_release release;
    rig_init(&rig);
    rig_start(&rig);
    rig_baseline(&rig, "t", 1, NULL, NULL, &versions[0]);
    rig_device_init(&device, 42);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    rig_exchange_done(&exchange);
    for (uint64_t i = 1; i < 4; i++) {
        rig_baseline(&rig, "t", 1 + i, NULL, NULL, &versions[i]);
    }
    rig_advance_s(&rig, 30 * 24 * 3600);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, 1);
    rig_offer_release(&offers, 0, &release);
    assert_true(wire_sha256_equal(&release.manifest, &versions[3]));
    assert_int_equal(rig_device_take(&device, &offers), 1);
    rig_exchange_done(&exchange);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
    rig_done(&rig);
}

static void test_offer_header(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct rig_device device;
    char hex[WIRE_DEVICE_HEX + 1];
    char text[WIRE_PROFILE_TEXT_MAX + 4];
    struct base_arena arena;
    struct rig_exchange exchange;
    rig_init(&rig);
    rig_start(&rig);
    rig_exchange_init(&exchange, GW_METHOD_GET, "/");
    arena = exchange.arena;
    rig_baseline(&rig, "t", 1, NULL, NULL, &v1);
    rig_device_init(&device, 42);
    wire_device_hex(device.id, hex);
    struct gw_request request = {.device = base_str_of(hex),
                                 .profile = rig_device_profile(&device, true, text)};
    struct base_str value = gw_worker_offer_header(rig.worker.worker, &arena, &request);
    uint8_t bytes[WIRE_OFFERS_HEADER_MAX];
    size_t size;
    struct wire_offers offers;
    assert_int_equal(base_b64_decode(value, bytes, sizeof(bytes), &size), BASE_OK);
    assert_int_equal(wire_offers_parse(bytes, size, &offers), BASE_OK);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    request.profile = rig_device_profile(&device, true, text);
    value = gw_worker_offer_header(rig.worker.worker, &arena, &request);
    assert_int_equal(value.size, 0);
    request = (struct gw_request){.device = BASE_STR("zz"), .profile = BASE_STR("??")};
    value = gw_worker_offer_header(rig.worker.worker, &arena, &request);
    assert_int_equal(value.size, 0);
    base_arena_done(&arena);
    rig_done(&rig);
}

static void test_many_offers_do_not_all_fit(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_device device;
    struct wire_sha256 v1;
    rig_init(&rig);
    rig_start(&rig);
    for (uint32_t i = 0; i < WIRE_OFFERS_MAX + 8; i++) {
        char name[32];
        snprintf(name, sizeof(name), "task-%u", i);
        rig_baseline(&rig, name, 1 + i, NULL, NULL, &v1);
    }
    rig_device_init(&device, 42);
    struct rig_exchange exchange;
    struct wire_offers offers;
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, WIRE_OFFERS_MAX);
    assert_int_equal(offers.flags, WIRE_OFFER_FLAG_MORE);
    rig_exchange_done(&exchange);
    rig_done(&rig);
}

static void test_bad_input_is_400(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        const char *profile;
    } cases[] = {
        {"", ""},
        {"00000000000000zz", "AQAA"},
        {"0000000000000001", ""},
        {"0000000000000001", "AQAA"},
        {"0000000000000001", "!!!"},
        {"0000000000000001", "_wAAAAAAAAAAAAAB"},
    };
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig_exchange exchange;
        rig_exchange_init(&exchange, GW_METHOD_POST, "/v1/checkin");
        exchange.exchange.request.device = base_str_of(cases[i].device);
        exchange.exchange.request.profile = base_str_of(cases[i].profile);
        rig_run(&rig, &exchange);
        assert_int_equal(exchange.exchange.reply.status, 400);
        assert_true(base_str_equal(rig_header(&exchange, "content-type"),
                                   BASE_STR("application/problem+json")));
        rig_exchange_done(&exchange);
    }
    rig_done(&rig);
}

static void test_routes(void **state)
{
    (void)state;
    static const struct {
        enum gw_method method;
        const char *path;
        bool loopback;
        int status;
        const char *allow;
    } cases[] = {
        {GW_METHOD_GET, "/v1/checkin", true, 405, "POST"},
        {GW_METHOD_PUT, "/v1/blob/00", true, 405, "GET, HEAD"},
        {GW_METHOD_GET, "/v1/blob/00", true, 400, NULL},
        {GW_METHOD_GET, "/nothing", true, 404, NULL},
        {GW_METHOD_GET, "/healthz", true, 200, NULL},
        {GW_METHOD_GET, "/readyz", true, 200, NULL},
        {GW_METHOD_GET, "/metrics", true, 200, NULL},
        {GW_METHOD_GET, "/metrics", false, 401, NULL},
        {GW_METHOD_GET, "/healthz", false, 200, NULL},
        {GW_METHOD_GET, "/api/v1/tasks", false, 401, NULL},
        {GW_METHOD_GET, "/api/v1/tasks", true, 401, NULL}, // this machine is nobody, either
    };
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig_exchange exchange;
        rig_exchange_init(&exchange, cases[i].method, cases[i].path);
        exchange.exchange.request.loopback = cases[i].loopback;
        rig_run(&rig, &exchange);
        assert_int_equal(exchange.exchange.reply.status, cases[i].status);
        if (cases[i].allow != NULL) {
            assert_true(
                base_str_equal(rig_header(&exchange, "allow"), base_str_of(cases[i].allow)));
        }
        rig_exchange_done(&exchange);
    }
    gw_core_set_ready(rig.core, false);
    struct rig_exchange exchange;
    rig_exchange_init(&exchange, GW_METHOD_GET, "/readyz");
    rig_run(&rig, &exchange);
    assert_int_equal(exchange.exchange.reply.status, 503);
    rig_exchange_done(&exchange);
    rig_done(&rig);
}

// A proxied request rides when it says so in this version's words and says who asks with what it
// has; any other is the app's alone.
static void test_who_rides(void **state)
{
    (void)state;
    static const struct {
        const char *ride;
        const char *device;
        const char *profile;
        bool rides;
    } cases[] = {
        {"1 00000000000000a1", "00000000000000aa", "AQ", true},
        {"2 00000000000000a1", "00000000000000aa", "AQ", false},
        {"1", "00000000000000aa", "AQ", false},
        {"", "00000000000000aa", "AQ", false},
        {"1 00000000000000a1", "", "AQ", false},
        {"1 00000000000000a1", "00000000000000aa", "", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct gw_request request = {.ride = base_str_of(cases[i].ride),
                                           .device = base_str_of(cases[i].device),
                                           .profile = base_str_of(cases[i].profile)};
        assert_int_equal(gw_request_rides(&request), cases[i].rides);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expected_digest_equals_brute_force),
        cmocka_unit_test(test_devices_converge),
        cmocka_unit_test(test_many_shares_are_settled),
        cmocka_unit_test(test_pairs_are_asked_for),
        cmocka_unit_test(test_blocked_version_is_not_offered_again),
        cmocka_unit_test(test_who_was_away_gets_the_latest),
        cmocka_unit_test(test_offer_header),
        cmocka_unit_test(test_who_rides),
        cmocka_unit_test(test_many_offers_do_not_all_fit),
        cmocka_unit_test(test_bad_input_is_400),
        cmocka_unit_test(test_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
