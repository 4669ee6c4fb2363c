// The gateway's part in trust: what it lists and signs, that its version numbers never go back over
// restarts, roots as operators bring them, and the answers to devices that ask.
#include "older_rollout.h"

#include "director_kit.h"

#include "svc/trust/director_private.h"
#include "svc/core_worker.h"

#include "cli/root_edit.h"
#include "svc/rollout/catalog_private.h"

#include <sys/stat.h>

static void test_lists_what_may_be_offered(void **state)
{
    (void)state;
    struct wire_timestamp timestamp;
    struct wire_sha256 first;
    struct wire_sha256 second;
    struct gw_rollout_view view;
    fetch_timestamp(&timestamp);
    assert_int_equal(timestamp.scenario_count, 0);
    rig_baseline(&rig, TASK, 1, NULL, NULL, &first);
    rig_settle(&rig);
    assert_true(listed(1, &first));
    rig_version(&rig, TASK, "2.0.0", &second);
    start_rollout(2, &second);
    assert_true(listed(1, &first));
    assert_true(listed(2, &second));
    rig_command(&rig, 2, POL_COMMAND_ABORT, &view);
    rig_settle(&rig);
    rig_advance_s(&rig, 3600);
    rig_settle(&rig);
    assert_true(listed(1, &first));
    assert_true(listed(2, &second)); // approved last: the highest counter never goes back
    static uint8_t bytes[WIRE_META_BYTES_MAX];
    size_t size = 0;
    assert_int_equal(fetch("/v1/meta/snapshot/other", bytes, sizeof(bytes), &size), 404);
    assert_int_equal(fetch("/v1/meta/root/1", bytes, sizeof(bytes), &size), 404);
    assert_int_equal(fetch("/v1/meta/root/x", bytes, sizeof(bytes), &size), 404);
    assert_int_equal(fetch("/v1/meta/", bytes, sizeof(bytes), &size), 404);
}

// All that comes next in one answer: what the single ones say, byte by byte.
static void test_what_comes_next_in_one_answer(void **state)
{
    (void)state;
    static uint8_t timestamp[WIRE_META_BYTES_MAX];
    static uint8_t snapshot[WIRE_META_BYTES_MAX];
    static uint8_t next[WIRE_NEXT_HEAD_BYTES + 2 * WIRE_META_BYTES_MAX];
    struct wire_sha256 first;
    size_t timestamp_size = 0;
    size_t snapshot_size = 0;
    size_t size = 0;
    rig_baseline(&rig, TASK, 1, NULL, NULL, &first);
    rig_baseline(&rig, "other/task", 2, NULL, NULL, &first);
    rig_settle(&rig);
    assert_int_equal(fetch("/v1/meta/timestamp", timestamp, sizeof(timestamp), &timestamp_size),
                     200);
    for (int i = 0; i < 2; i++) {
        const char *apart = i == 0 ? "/v1/meta/snapshot/shop" : "/v1/meta/snapshot/other";
        const char *at_once =
            i == 0 ? "/v1/meta/next/1/shop" : "/v1/meta/next/18446744073709551615/other";
        assert_int_equal(fetch(apart, snapshot, sizeof(snapshot), &snapshot_size), 200);
        assert_int_equal(fetch(at_once, next, sizeof(next), &size), 200);
        assert_int_equal(next[0], WIRE_NEXT_MARK);
        assert_int_equal(wire_next_timestamp_bytes(next), timestamp_size);
        assert_int_equal(size, WIRE_NEXT_HEAD_BYTES + timestamp_size + snapshot_size);
        assert_memory_equal(next + WIRE_NEXT_HEAD_BYTES, timestamp, timestamp_size);
        assert_memory_equal(next + WIRE_NEXT_HEAD_BYTES + timestamp_size, snapshot, snapshot_size);
    }
    static const char *const alone[] = {"/v1/meta/next/1", "/v1/meta/next/1/",
                                        "/v1/meta/next/1/sho", "/v1/meta/next/1/shop/",
                                        "/v1/meta/next/1/none"};
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        assert_int_equal(fetch(alone[i], next, sizeof(next), &size), 200);
        assert_int_equal(size, WIRE_NEXT_HEAD_BYTES + timestamp_size);
        assert_memory_equal(next + WIRE_NEXT_HEAD_BYTES, timestamp, timestamp_size);
    }
    static const char *const none[] = {
        "/v1/meta/next/",  "/v1/meta/next",         "/v1/meta/next//shop",
        "/v1/meta/next/x", "/v1/meta/next/-1/shop", "/v1/meta/next/18446744073709551616"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(fetch(none[i], next, sizeof(next), &size), 404);
    }
}

// What was not started yet is approved for nobody.
static void test_lists_no_drafts(void **state)
{
    (void)state;
    struct wire_sha256 first;
    struct wire_sha256 second;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_baseline(&rig, TASK, 1, NULL, NULL, &first);
    rig_version(&rig, TASK, "2.0.0", &second);
    assert_int_equal(rig_rollout(&rig, 2, TASK, &second, NULL, NULL, ladder, 2, &view, &error),
                     BASE_OK);
    rig_settle(&rig);
    restart();
    assert_true(listed(1, &first));
    assert_false(listed(2, &second));
    rig_command(&rig, 2, POL_COMMAND_START, NULL);
    rig_settle(&rig);
    assert_true(listed(2, &second));
}

// Devices of before were told of the counter of a signed way back: it stays listed.
static void test_counters_of_before_never_go_back(void **state)
{
    (void)state;
    struct wire_sha256 first;
    struct wire_sha256 second;
    struct gw_rollout_view view;
    rig_baseline(&rig, TASK, 1, NULL, NULL, &first);
    rig_version(&rig, TASK, "2.0.0", &second);
    start_rollout(2, &second);
    assert_true(listed(2, &second) && !listed(3, &second));
    older_rollout(&rig, 2, OLDER_LAST, 0);
    rig_start(&rig);
    rig_settle(&rig);
    assert_true(listed(1, &first) && listed(2, &second) && listed(3, &second));
    rig_command(&rig, 2, POL_COMMAND_ABORT, &view);
    rig_advance_s(&rig, 3600);
    rig_settle(&rig);
    restart();
    rig_settle(&rig);
    assert_true(listed(1, &first) && listed(2, &second) && listed(3, &second));
}

static void test_versions_never_go_back(void **state)
{
    (void)state;
    static uint8_t before[WIRE_META_BYTES_MAX];
    static uint8_t after[WIRE_META_BYTES_MAX];
    size_t before_size = 0;
    size_t after_size = 0;
    struct wire_timestamp timestamp;
    struct wire_snapshot snapshot;
    struct wire_sha256 manifest;
    uint64_t stamp = 0;
    uint64_t version = 0;
    for (uint64_t round = 0; round < 8; round++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%llu.0.0", (unsigned long long)round + 1);
        rig_version(&rig, TASK, text, &manifest);
        start_rollout(round + 1, &manifest);
        fetch_timestamp(&timestamp);
        fetch_snapshot(&snapshot);
        assert_true(timestamp.version > stamp);
        assert_true(snapshot.version > version);
        stamp = timestamp.version;
        version = snapshot.version;
        assert_int_equal(fetch("/v1/meta/timestamp", before, sizeof(before), &before_size), 200);
        restart();
        assert_int_equal(fetch("/v1/meta/timestamp", after, sizeof(after), &after_size), 200);
        assert_int_equal(after_size, before_size); // nothing happened: the same bytes
        assert_memory_equal(after, before, before_size);
        struct gw_rollout_view view;
        rig_command(&rig, round + 1, POL_COMMAND_ABORT, &view);
        rig_settle(&rig);
        rig_advance_s(&rig, 3600);
        rig_settle(&rig);
    }
    // By the clock alone: a new timestamp at half its life, and a new snapshot at half of its.
    fetch_timestamp(&timestamp);
    stamp = timestamp.version;
    rig_advance_s(&rig, GW_TIMESTAMP_LIFE_S / 2 + 1);
    rig_settle(&rig);
    fetch_timestamp(&timestamp);
    assert_true(timestamp.version == stamp + 1);
    assert_true(timestamp.expires_s >= gw_core_now_s(rig.core) + GW_TIMESTAMP_LIFE_S - 1);
    rig_advance_s(&rig, 4 * GW_TIMESTAMP_LIFE_S);
    rig_settle(&rig);
    fetch_snapshot(&snapshot);
    assert_true(snapshot.version > version);
    assert_true(snapshot.expires_s > gw_core_now_s(rig.core));
}

static bool two_directors; // the root names a second key for orders, and asks for both

static size_t make_root(uint64_t version, uint32_t signers, uint8_t *out)
{
    struct root_edit edit = {.version = version, .issued_s = 10, .expires_s = 4000000000u};
    struct base_error error = {0};
    uint8_t key[WIRE_PUBLIC_KEY_BYTES];
    uint8_t payload[1024];
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_ROOT, .payload = payload};
    size_t size = 0;
    struct signing_keys some = owners;
    some.count = signers;
    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        edit.thresholds[i] = 1;
    }
    edit.thresholds[WIRE_ROLE_ROOT] = 2;
    for (uint32_t i = 0; i < owners.count; i++) {
        signing_key_public(owners.keys[i], key);
        assert_int_equal(root_keys_add(&edit.roles[WIRE_ROLE_ROOT], key), BASE_OK);
    }
    for (int i = 0; i < GW_ONLINE_COUNT; i++) {
        assert_int_equal(root_keys_add(&edit.roles[WIRE_ROLE_TIMESTAMP + i], rig.signer->keys[i]),
                         BASE_OK);
    }
    if (two_directors) {
        assert_int_equal(root_keys_add(&edit.roles[WIRE_ROLE_DIRECTOR], key), BASE_OK);
        edit.thresholds[WIRE_ROLE_DIRECTOR] = 2;
    }
    struct root_edit_release *release = root_edit_release_of(&edit, "");
    assert_int_equal(root_keys_add(&release->keys, key), BASE_OK);
    release->narrow = 1;
    release->wide = 1;
    if (root_edit_encode(&edit, payload, sizeof(payload), &envelope.payload_bytes, &error) !=
        BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(signing_envelope(&some, &envelope, out, WIRE_META_BYTES_MAX, &size), BASE_OK);
    return size;
}

static enum base_status offer_root(const struct gw_root_put *put, bool *out_created)
{
    struct base_error error = {0};
    uint64_t version = 0;
    enum base_status status = gw_trust_root_put(rig.core, put, &version, out_created, &error);
    rig_settle(&rig);
    return status;
}

static enum base_status put_root(const uint8_t *bytes, size_t size, bool *out_created)
{
    const struct gw_root_put put = {.bytes = bytes, .size = size};
    return offer_root(&put, out_created);
}

static void test_roots_follow_each_other(void **state)
{
    (void)state;
    static uint8_t root[WIRE_META_BYTES_MAX];
    static uint8_t served[WIRE_META_BYTES_MAX];
    size_t served_size = 0;
    bool created = false;
    struct gw_trust_view view;
    size_t size = make_root(1, 1, root);
    assert_int_equal(put_root(root, size, &created), BASE_ERR_THRESHOLD);
    size = make_root(1, 2, root);
    assert_int_equal(put_root(root, size - 1, &created), BASE_ERR_TRUNCATED);
    assert_int_equal(put_root(root, size, &created), BASE_OK);
    assert_true(created);
    assert_int_equal(put_root(root, size, &created), BASE_OK);
    assert_false(created);
    size = make_root(3, 2, root);
    assert_int_equal(put_root(root, size, &created), BASE_ERR_ROOT);
    size = make_root(2, 2, root);
    assert_int_equal(put_root(root, size, &created), BASE_OK);
    restart();
    assert_int_equal(fetch("/v1/meta/root/2", served, sizeof(served), &served_size), 200);
    assert_int_equal(served_size, size);
    assert_memory_equal(served, root, size);
    assert_int_equal(fetch("/v1/meta/root/1", served, sizeof(served), &served_size), 200);
    assert_int_equal(fetch("/v1/meta/root/3", served, sizeof(served), &served_size), 404);
    for (int i = 0; i < 2; i++) { // a root comes before all else
        assert_int_equal(fetch(i == 0 ? "/v1/meta/next/2/shop" : "/v1/meta/next/2", served,
                               sizeof(served), &served_size),
                         200);
        assert_int_equal(served_size, size);
        assert_memory_equal(served, root, size);
    }
    assert_int_equal(fetch("/v1/meta/next/3", served, sizeof(served), &served_size), 200);
    assert_int_equal(served[0], WIRE_NEXT_MARK);
    assert_int_equal(
        fetch("/v1/meta/root/18446744073709551615", served, sizeof(served), &served_size), 404);
    gw_trust_view(rig.core, &view);
    assert_true(view.root_version == 2);
    assert_true(view.keys_match);
    two_directors = true; // alone this gateway orders nothing then
    size = make_root(3, 2, root);
    two_directors = false;
    assert_int_equal(put_root(root, size, &created), BASE_ERR_CONFLICT);
    gw_trust_view(rig.core, &view);
    assert_true(view.root_version == 2);
    const struct gw_root_put wanted = {.bytes = root, .size = size, .accept_keys = true};
    assert_int_equal(offer_root(&wanted, &created), BASE_OK);
    gw_trust_view(rig.core, &view);
    assert_true(view.root_version == 3);
    assert_false(view.keys_match);
    size = make_root(3, 2, root); // another one of that version
    assert_int_equal(put_root(root, size, &created), BASE_ERR_ROOT);
}

// With a root of two owners, what too few of them signed leads nobody on, and is not made.
// A device is told of so many scenarios. What has no place among them is refused before it is
// offered, by name; a scenario that has one goes on.
static void test_a_scenario_without_a_place_is_refused(void **state)
{
    (void)state;
    static uint8_t root[WIRE_META_BYTES_MAX];
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    char task[32];
    bool created = false;
    const struct gw_rollout_who who = {.by = BASE_STR("ana")};
    rig_version(&rig, "late/one", "1.0.0", &manifest); // made when there was room
    assert_int_equal(
        rig_rollout(&rig, 99, "late/one", &manifest, NULL, NULL, ladder, 2, &view, &error),
        BASE_OK);
    for (uint64_t i = 1; i <= WIRE_TIMESTAMP_SCENARIOS_MAX; i++) {
        (void)snprintf(task, sizeof(task), "s%llu/one", (unsigned long long)i);
        rig_version(&rig, task, "1.0.0", &manifest);
        assert_int_equal(
            rig_rollout(&rig, i, task, &manifest, NULL, NULL, ladder, 2, &view, &error), BASE_OK);
        rig_command(&rig, i, POL_COMMAND_START, &view);
    }
    size_t size = make_root(1, 2, root);
    assert_int_equal(put_root(root, size, &created), BASE_OK);
    assert_int_equal(gw_rollout_command(rig.core, 99, POL_COMMAND_START, &who, &error),
                     BASE_ERR_CONFLICT);
    assert_non_null(strstr(error.text, "told of 32 scenarios"));
    rig_version(&rig, "other/one", "1.0.0", &manifest);
    assert_int_equal(
        rig_rollout(&rig, 100, "other/one", &manifest, NULL, NULL, ladder, 2, &view, &error),
        BASE_ERR_CONFLICT);
    assert_non_null(strstr(error.text, "told of 32 scenarios"));
    rig_version(&rig, "s7/two", "1.0.0", &manifest); // what is wrong here is its signature
    assert_int_not_equal(
        rig_rollout(&rig, 101, "s7/two", &manifest, NULL, NULL, ladder, 2, &view, &error), BASE_OK);
    assert_non_null(strstr(error.text, "stage gray"));
}

// One tenant does not use up the places that all share.
static void test_a_tenant_has_its_share_of_scenarios(void **state)
{
    (void)state;
    static uint8_t root[WIRE_META_BYTES_MAX];
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    char task[32];
    bool created = false;
    for (uint64_t i = 1; i <= WIRE_TIMESTAMP_SCENARIOS_MAX / 2; i++) {
        (void)snprintf(task, sizeof(task), "s%llu/one", (unsigned long long)i);
        rig_version(&rig, task, "1.0.0", &manifest);
        gw_catalog_find_task(rig.core, wire_task_id(base_str_of(task)))->tenant = 7;
        assert_int_equal(
            rig_rollout(&rig, i, task, &manifest, NULL, NULL, ladder, 2, &view, &error), BASE_OK);
        rig_command(&rig, i, POL_COMMAND_START, &view);
    }
    size_t size = make_root(1, 2, root);
    assert_int_equal(put_root(root, size, &created), BASE_OK);
    rig_version(&rig, "more/one", "1.0.0", &manifest);
    struct gw_task *more = gw_catalog_find_task(rig.core, wire_task_id(BASE_STR("more/one")));
    more->tenant = 7;
    assert_int_equal(
        rig_rollout(&rig, 100, "more/one", &manifest, NULL, NULL, ladder, 2, &view, &error),
        BASE_ERR_CONFLICT);
    assert_non_null(strstr(error.text, "the tenant has 16 scenarios"));
    more->tenant = 8; // another's: what is wrong is its signature
    assert_int_not_equal(
        rig_rollout(&rig, 101, "more/one", &manifest, NULL, NULL, ladder, 2, &view, &error),
        BASE_OK);
    assert_non_null(strstr(error.text, "stage gray"));
}

static void test_releases_are_held_against_the_root(void **state)
{
    (void)state;
    static uint8_t root[WIRE_META_BYTES_MAX];
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    bool created = false;
    const struct gw_rollout_who who = {.by = BASE_STR("ana")};
    rig_version(&rig, TASK, "1.0.0", &manifest);
    assert_int_equal(rig_rollout(&rig, 1, TASK, &manifest, NULL, NULL, ladder, 2, &view, &error),
                     BASE_OK);
    size_t size = make_root(1, 2, root);
    assert_int_equal(put_root(root, size, &created), BASE_OK);
    assert_int_not_equal(gw_rollout_command(rig.core, 1, POL_COMMAND_START, &who, &error), BASE_OK);
    assert_non_null(strstr(error.text, "stage gray"));
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_DRAFT);
    assert_int_not_equal(
        rig_rollout(&rig, 2, TASK, &manifest, NULL, NULL, ladder, 2, &view, &error), BASE_OK);
    assert_int_equal(gw_rollout_get(rig.core, 2, &view), BASE_ERR_NOT_FOUND);
}

static void set_nonce(uint8_t flags, uint8_t fill, struct wire_ask *ask)
{
    ask->flags = flags;
    ask->order = fill;
    memset(ask->nonce, fill, sizeof(ask->nonce));
    wire_ask_text(ask, rig.nonce);
}

static void expect_director(const struct wire_offers *offers, const struct wire_ask *ask,
                            struct wire_director *out)
{
    struct wire_envelope envelope;
    assert_true(offers->count >= 1);
    assert_int_equal(
        wire_envelope_parse(offers->items[0].envelope, offers->items[0].envelope_bytes, &envelope),
        BASE_OK);
    assert_int_equal(envelope.type, WIRE_ENVELOPE_TYPE_DIRECTOR);
    expect_signed(&envelope, GW_ONLINE_DIRECTOR);
    assert_int_equal(wire_director_parse(envelope.payload, envelope.payload_bytes, out), BASE_OK);
    assert_true(out->device_id == DEVICE);
    assert_memory_equal(out->nonce, ask->nonce, sizeof(ask->nonce));
    assert_true(out->order == ask->order + 1);
}

static void tried(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->gate = (struct pol_gate){.rule = POL_GATE_LOGRANK,
                                    .alpha_ppm = 50000,
                                    .beta_ppm = 100000,
                                    .max_rise_ppm = 200000,
                                    .min_answered_ppm = 900000,
                                    .max_failure_ppm = 400000,
                                    .min_sample = 20};
    stage->window_s = 100;
    stage->control_buckets = stage->kind == POL_STAGE_GRAY ? 9000 : 0;
}

// What orders a device to activate what it has once more is signed as well.
static void test_marks_are_signed(void **state)
{
    (void)state;
    static const struct rig_stage narrow[] = {
        {"gray", POL_STAGE_GRAY, 1, NULL, NULL, 20, 400000, 0},
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 400000, 0},
    };
    struct wire_sha256 first;
    struct wire_sha256 second;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_director director;
    struct wire_ask ask;
    rig.certified = true;
    rig_baseline(&rig, TASK, 1, NULL, NULL, &first);
    rig_version(&rig, TASK, "2.0.0", &second);
    rig.conduct = tried;
    assert_int_equal(rig_rollout(&rig, 2, TASK, &second, NULL, NULL, narrow, 2, &view, &error),
                     BASE_OK);
    rig_command(&rig, 2, POL_COMMAND_START, NULL);
    rig_settle(&rig);
    rig_device_init(&device, DEVICE);
    device.marks = true;
    device.tasks_max = 8;
    device.interval_s = 300;
    rig_device_task(&device, TASK)->version_id = wire_version_id(&first);
    set_nonce(0, 5, &ask);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    expect_director(&offers, &ask, &director);
    assert_int_equal(offers.again_count, 1);
    assert_int_equal(director.count, 0);
    assert_int_equal(director.again_count, 1);
    assert_true(director.again[0].task_id == wire_task_id(BASE_STR(TASK)));
    assert_true(director.again[0].rollout_id == 2);
    assert_int_equal(director.again[0].attempt, offers.again[0].attempt);
    rig_exchange_done(&exchange);
}

static void test_answers_questions(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_director director;
    struct wire_ask ask;
    struct base_error error = {0};
    bool created = false;
    rig_device_init(&device, DEVICE);
    set_nonce(0, 1, &ask);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 204); // nothing to say
    rig_exchange_done(&exchange);
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    expect_director(&offers, &ask, &director);
    assert_int_equal(offers.count, 2);
    assert_int_equal(director.count, 1);
    assert_true(wire_sha256_equal(&director.entries[0].manifest, &manifest));
    assert_true(director.entries[0].counter == 1);
    rig_exchange_done(&exchange);
    rig.nonce[0] = '\0'; // who asks nothing gets the offer alone
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, 1);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    rig_exchange_done(&exchange);
    (void)snprintf(rig.nonce, sizeof(rig.nonce), "nonsense");
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 400);
    rig_exchange_done(&exchange);

    // It has the version now. On a lease it is told so; without one there is nothing to say.
    set_nonce(0, 2, &ask);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
    set_nonce(WIRE_ASK_FLAG_LEASE, 3, &ask);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    expect_director(&offers, &ask, &director);
    assert_int_equal(director.count, 1);
    assert_int_equal(director.lease_s, GW_LEASE_S);
    rig_exchange_done(&exchange);

    // Killed: the answer names nothing, but a newer timestamp.
    uint64_t stamp = director.timestamp_version;
    assert_int_equal(gw_trust_kill(rig.core,
                                   &(struct gw_kill_order){&manifest, BASE_STR(""), BASE_STR("x")},
                                   &created, &error),
                     BASE_OK);
    rig_settle(&rig);
    set_nonce(0, 4, &ask);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    expect_director(&offers, &ask, &director);
    assert_true(director.timestamp_version > stamp);
    rig_exchange_done(&exchange);
}

// Whom nothing is meant for is settled; what it runs on a lease it is told all the same.
static void test_who_is_settled_has_its_lease_renewed(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_director director;
    struct wire_ask ask;
    rig.certified = true; // of strangers nothing is remembered
    rig_device_init(&device, DEVICE);
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    rig_device_task(&device, TASK)->version_id = wire_version_id(&manifest);
    rig_device_task(&device, "elsewhere/task")->version_id = 7;
    set_nonce(0, 1, &ask);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 204);
        rig_exchange_done(&exchange);
    }
    assert_true(rig.worker.worker->stats.checkins_settled > 1);
    set_nonce(WIRE_ASK_FLAG_LEASE, 2, &ask);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    expect_director(&offers, &ask, &director);
    assert_int_equal(director.count, 1);
    rig_exchange_done(&exchange);
}

// Of what it has under another task's name there is no order, but it is told of the kill.
static void test_a_kill_is_told_without_an_order(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_director director;
    struct wire_ask ask;
    rig_device_init(&device, DEVICE);
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    kill_one(&manifest);
    rig_settle(&rig);
    rig_device_task(&device, "elsewhere/task")->version_id = wire_version_id(&manifest);
    set_nonce(0, 1, &ask);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    expect_director(&offers, &ask, &director);
    assert_int_equal(director.count, 0);
    assert_true(director.timestamp_version == rig.core->director->timestamp_version);
    rig_exchange_done(&exchange);
}

// More tasks than an answer names: what is offered beside it is what it names, the rest comes next.
static void test_what_is_offered_is_signed(void **state)
{
    (void)state;
    const uint32_t tasks = WIRE_DIRECTOR_ENTRIES_MAX + 4;
    struct wire_sha256 manifest;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_director director;
    struct wire_ask ask;
    rig_device_init(&device, DEVICE);
    for (uint32_t i = 0; i < tasks; i++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "shop/task%u", i);
        rig_baseline(&rig, name, i + 1, NULL, NULL, &manifest);
    }
    rig_settle(&rig);
    uint32_t taken = 0;
    for (uint8_t turn = 1; turn <= 2; turn++) {
        set_nonce(0, turn, &ask);
        assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
        expect_director(&offers, &ask, &director);
        assert_int_equal(director.count + 1, offers.count);
        assert_true(((offers.flags & WIRE_OFFER_FLAG_MORE) != 0) == (turn == 1));
        offers.count--; // the answer is the first
        memmove(&offers.items[0], &offers.items[1], offers.count * sizeof(offers.items[0]));
        taken += rig_device_take(&device, &offers);
        rig_exchange_done(&exchange);
    }
    assert_int_equal(taken, tasks);
}

// What says a thing twice, or asks past the last order, is a device's fault, not the gateway's.
static void test_questions_that_make_no_sense(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_ask ask;
    rig_device_init(&device, DEVICE);
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    device.pair_count = 2; // the same task twice
    device.pairs[0] = device.pairs[1] =
        (struct wire_profile_pair){.task_id = wire_task_id(BASE_STR(TASK)), .version_id = 7};
    for (int asks = 0; asks < 2; asks++) {
        rig.nonce[0] = '\0';
        if (asks == 1) {
            set_nonce(0, 1, &ask);
        }
        assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 400);
        rig_exchange_done(&exchange);
    }
    device.pair_count = 1;
    device.tasks_max = 8;
    device.interval_s = 300;
    device.refused_count = 2;
    device.refused[0] = device.refused[1] = 5;
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 400);
    rig_exchange_done(&exchange);
    device.refused[0] = 6; // in any order
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    rig_exchange_done(&exchange);
    memset(ask.nonce, 1, sizeof(ask.nonce));
    ask.order = UINT64_MAX;
    wire_ask_text(&ask, rig.nonce);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 400);
    rig_exchange_done(&exchange);
    ask.order--;
    wire_ask_text(&ask, rig.nonce);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    rig_exchange_done(&exchange);
}

static void test_no_lease_in_a_rollback(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct rig_device device;
    struct rig_exchange exchange;
    struct wire_offers offers;
    uint64_t task_id = 0;
    struct wire_ask ask;
    struct gw_rollout_view view;
    rig_device_init(&device, DEVICE);
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(rig_device_take(&device, &offers), 1);
    rig_exchange_done(&exchange);
    rig_command(&rig, 1, POL_COMMAND_ABORT, &view);
    rig_settle(&rig);
    set_nonce(WIRE_ASK_FLAG_LEASE, 3, &ask);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(offers.count, 2);
    assert_true(rig_offer_stops(&offers, 1, &task_id)); // the order to stop, and nothing else
    rig_exchange_done(&exchange);
}

static void test_keys_are_private(void **state)
{
    (void)state;
    static const char *const names[] = {"timestamp", "snapshot", "director"};
    struct base_error error = {0};
    struct gw_online_keys *again = NULL;
    for (size_t i = 0; i < 3; i++) {
        char path[128];
        struct stat about;
        (void)snprintf(path, sizeof(path), "%s/keys/%s.key", rig.dir, names[i]);
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_mode & 0777, 0600);
    }
    assert_int_equal(gw_online_keys_open(rig.dir, &again, &error), BASE_OK);
    assert_memory_equal(gw_online_keys_port(again)->keys, rig.signer->keys,
                        sizeof(rig.signer->keys));
    gw_online_keys_free(again);
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/keys/director.key", rig.dir);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(gw_online_keys_open(rig.dir, &again, &error), BASE_ERR_INVALID);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_lists_what_may_be_offered),
        CASE(test_what_comes_next_in_one_answer),
        CASE(test_lists_no_drafts),
        CASE(test_counters_of_before_never_go_back),
        CASE(test_versions_never_go_back),
        CASE(test_roots_follow_each_other),
        CASE(test_a_scenario_without_a_place_is_refused),
        CASE(test_a_tenant_has_its_share_of_scenarios),
        CASE(test_releases_are_held_against_the_root),
        CASE(test_answers_questions),
        CASE(test_marks_are_signed),
        CASE(test_who_is_settled_has_its_lease_renewed),
        CASE(test_a_kill_is_told_without_an_order),
        CASE(test_what_is_offered_is_signed),
        CASE(test_questions_that_make_no_sense),
        CASE(test_no_lease_in_a_rollback),
        CASE(test_keys_are_private),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
