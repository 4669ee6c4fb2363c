// Metadata that comes with an answer to a check-in: byte by byte what the device would be given if
// it asked for what comes next, only where it is newer than what the device has and where there is
// room, and for as long as the answer waits.
#include "director_kit.h"

#include "svc/core_worker.h"
#include "svc/trust/answer_batch.h"

#define OTHER "other/task"

static uint8_t next[WIRE_NEXT_HEAD_BYTES + 2 * WIRE_META_BYTES_MAX];
static size_t next_size;

static void question(uint8_t flags, uint64_t root_version, uint64_t timestamp_version)
{
    static uint8_t fill;
    struct wire_ask ask = {
        .flags = flags, .root_version = root_version, .timestamp_version = timestamp_version};
    memset(ask.nonce, ++fill, sizeof(ask.nonce));
    (void)wire_ask_text(&ask, rig.nonce);
}

// What a device that never came before is answered.
static void ask_as(uint64_t device_id, struct rig_exchange *exchange, struct wire_offers *offers)
{
    struct rig_device device;
    rig_device_init(&device, device_id);
    assert_int_equal(rig_checkin(&rig, &device, true, exchange, offers), 200);
}

static void expect_brought(const struct wire_offers *offers, const char *path)
{
    assert_int_equal(fetch(path, next, sizeof(next), &next_size), 200);
    assert_int_equal(offers->metadata.size, next_size);
    assert_memory_equal(offers->metadata.data, next, next_size);
    assert_true((offers->flags & WIRE_OFFER_FLAG_METADATA) != 0);
}

static uint64_t timestamp_version(void)
{
    struct wire_timestamp timestamp;
    fetch_timestamp(&timestamp);
    return timestamp.version;
}

static void test_what_is_newer_comes_with_the_answer(void **state)
{
    (void)state;
    static const uint8_t flags[] = {WIRE_ASK_FLAG_METADATA,
                                    WIRE_ASK_FLAG_METADATA | WIRE_ASK_FLAG_TREE};
    struct wire_sha256 manifest;
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    uint64_t version = timestamp_version();
    for (size_t i = 0; i < sizeof(flags); i++) {
        question(flags[i], 1, 0);
        ask_as(DEVICE + i, &exchange, &offers);
        assert_int_equal(offers.count, 2);
        expect_brought(&offers, "/v1/meta/next/2/shop");
        rig_exchange_done(&exchange);
        question(flags[i], 1, version - 1);
        ask_as(DEVICE + i, &exchange, &offers);
        expect_brought(&offers, "/v1/meta/next/2/shop");
        rig_exchange_done(&exchange);
        for (uint64_t newer = 0; newer < 2; newer++) { // nothing is newer here
            question(flags[i], UINT64_MAX, version + newer);
            ask_as(DEVICE + i, &exchange, &offers);
            assert_int_equal(offers.count, 2);
            assert_int_equal(offers.metadata.size, 0);
            rig_exchange_done(&exchange);
        }
        question(flags[i] & WIRE_ASK_FLAG_TREE, 1, 0); // it does not ask for it
        ask_as(DEVICE + i, &exchange, &offers);
        assert_int_equal(offers.metadata.size, 0);
        rig_exchange_done(&exchange);
    }
    rig.nonce[0] = '\0'; // no question, no answer of the director
    ask_as(DEVICE, &exchange, &offers);
    assert_int_equal(offers.count, 1);
    assert_int_equal(offers.metadata.size, 0);
    rig_exchange_done(&exchange);
}

// The snapshot is that of the first release; without one there is none.
static void test_whose_snapshot_it_is(void **state)
{
    (void)state;
    struct wire_sha256 manifest;
    struct rig_exchange exchange;
    struct wire_offers offers;
    struct wire_release release;
    char path[64] = "/v1/meta/next/2/";
    rig_baseline(&rig, TASK, 1, NULL, NULL, &manifest);
    rig_baseline(&rig, OTHER, 2, NULL, NULL, &manifest);
    rig_settle(&rig);
    question(WIRE_ASK_FLAG_METADATA, 1, 0);
    ask_as(DEVICE, &exchange, &offers);
    assert_int_equal(offers.count, 3);
    rig_offer_release(&offers, 1, &release);
    struct base_str scenario = wire_scenario_of(release.task_name);
    (void)strncat(path, scenario.data, scenario.size);
    expect_brought(&offers, path);
    rig_exchange_done(&exchange);

    struct rig_device device; // it runs what is killed now, and is told of nothing else
    rig_device_init(&device, DEVICE + 1);
    rig.nonce[0] = '\0';
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    assert_int_equal(rig_device_take(&device, &offers), 2);
    rig_exchange_done(&exchange);
    kill_one(&manifest);
    rig_settle(&rig);
    question(WIRE_ASK_FLAG_METADATA | WIRE_ASK_FLAG_TREE, 1, 0);
    assert_int_equal(rig_checkin(&rig, &device, true, &exchange, &offers), 200);
    bool released = false;
    for (uint32_t i = 1; i < offers.count; i++) {
        struct wire_envelope envelope;
        assert_int_equal(wire_envelope_parse(offers.items[i].envelope,
                                             offers.items[i].envelope_bytes, &envelope),
                         BASE_OK);
        released = released || envelope.type == WIRE_ENVELOPE_TYPE_RELEASE;
    }
    assert_false(released);
    expect_brought(&offers, "/v1/meta/next/2");
    rig_exchange_done(&exchange);
}

static void no_alarm(void *ctx, uint32_t after_us)
{
    (void)ctx;
    (void)after_us;
}

// An answer that waits for its signature keeps the metadata it was made with.
static void test_an_answer_outlives_what_is_published(void **state)
{
    (void)state;
    static struct rig_exchange waiting;
    static char profile[BASE_B64_ENCODED(WIRE_PROFILE_BYTES_MAX)];
    static uint8_t old[sizeof(next)];
    char id[WIRE_DEVICE_HEX + 1];
    char nonce[WIRE_ASK_TEXT_MAX + 1];
    struct rig_exchange exchange;
    struct wire_sha256 manifest;
    struct wire_offers offers;
    struct rig_device device;
    size_t old_size = 0;
    rig_version(&rig, TASK, "1.0.0", &manifest);
    start_rollout(1, &manifest);
    gw_worker_on_alarm(rig.worker.worker, no_alarm, NULL);
    question(WIRE_ASK_FLAG_METADATA | WIRE_ASK_FLAG_TREE, 1, 0);
    ask_as(DEVICE, &exchange, &offers); // signed at once, so that the next one waits
    rig_exchange_done(&exchange);
    assert_int_equal(fetch("/v1/meta/next/2/shop", old, sizeof(old), &old_size), 200);
    question(WIRE_ASK_FLAG_METADATA | WIRE_ASK_FLAG_TREE, 1, 0);
    memcpy(nonce, rig.nonce, sizeof(nonce));
    rig_device_init(&device, DEVICE + 1);
    rig_exchange_init(&waiting, GW_METHOD_POST, "/v1/checkin");
    wire_device_hex(device.id, id);
    waiting.exchange.request.device = base_str_of(id);
    waiting.exchange.request.nonce = base_str_of(nonce);
    waiting.exchange.request.profile = rig_device_profile(&device, true, profile);
    gw_core_handle(rig.worker.worker, &waiting.exchange);
    assert_false(waiting.finished);
    rig_baseline(&rig, OTHER, 2, NULL, NULL, &manifest);
    rig_settle(&rig);
    assert_false(waiting.finished);
    rig.mono_us += GW_ANSWER_WAIT_US;
    gw_worker_alarm(rig.worker.worker);
    assert_true(waiting.finished);
    const struct gw_reply *reply = &waiting.exchange.reply;
    assert_int_equal(wire_offers_parse(reply->body, reply->body_bytes, &offers), BASE_OK);
    assert_int_equal(offers.metadata.size, old_size);
    assert_memory_equal(offers.metadata.data, old, old_size);
    rig_exchange_done(&waiting);
}

// A root goes before all else; what is over the limit is left out.
static void test_what_comes_of_some_metadata(void **state)
{
    (void)state;
    static uint8_t bytes[WIRE_OFFERS_META_MAX + 1];
    struct gw_blob *roots[] = {gw_blob_of((const uint8_t *)"root 2", 6),
                               gw_blob_of((const uint8_t *)"root 3", 6)};
    struct gw_meta meta = {
        .timestamp_version = 9,
        .roots = roots,
        .root_first = 2,
        .root_count = 2,
        .next_alone = gw_blob_of(bytes, WIRE_OFFERS_META_MAX),
    };
    static const struct wire_offers none;
    struct wire_ask ask = {.flags = WIRE_ASK_FLAG_METADATA, .root_version = 1};
    for (uint64_t have = 8; have < 11; have++) { // however new its timestamp is
        ask.timestamp_version = have;
        ask.root_version = 1;
        struct base_span brought = gw_director_metadata(&meta, &ask, &none);
        assert_int_equal(brought.size, 6);
        assert_memory_equal(brought.data, "root 2", 6);
        ask.root_version = 2;
        assert_memory_equal(gw_director_metadata(&meta, &ask, &none).data, "root 3", 6);
        ask.root_version = 3;
        brought = gw_director_metadata(&meta, &ask, &none);
        assert_int_equal(brought.size, have < 9 ? WIRE_OFFERS_META_MAX : 0);
        ask.root_version = UINT64_MAX;
        brought = gw_director_metadata(&meta, &ask, &none);
        assert_int_equal(brought.size, have < 9 ? WIRE_OFFERS_META_MAX : 0);
    }
    ask.timestamp_version = 8;
    ask.flags = WIRE_ASK_FLAG_TREE;
    assert_int_equal(gw_director_metadata(&meta, &ask, &none).size, 0);
    ask.flags = WIRE_ASK_FLAG_METADATA;
    gw_blob_release(meta.next_alone);
    meta.next_alone = gw_blob_of(bytes, WIRE_OFFERS_META_MAX + 1);
    assert_int_equal(gw_director_metadata(&meta, &ask, &none).size, 0);
    gw_blob_release(meta.next_alone);
    gw_blob_release(roots[0]);
    gw_blob_release(roots[1]);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_what_is_newer_comes_with_the_answer),
        CASE(test_whose_snapshot_it_is),
        CASE(test_an_answer_outlives_what_is_published),
        CASE(test_what_comes_of_some_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
