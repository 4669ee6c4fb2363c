// The simulate stage beside policy/desired.h: what its responder offers is what the function says
// for a record of one rollout that is open for everybody, whatever a device says it has, refuses
// and may not go below, beside how many other tasks.
#include "test_kit.h"

#include "base/str.h"
#include "policy/desired.h"
#include "ports/sim_local.h"
#include "wire/profile.h"

#define STATES    100000u
#define TASKS_MAX 6u
#define VERSIONS  4u // one of them is the simulated one; 0: none

static struct base_prng prng;
static int answered;

static uint32_t below(uint32_t bound)
{
    return (uint32_t)base_prng_below(&prng, bound);
}

static void on_head(void *ctx, struct sim_exchange *exchange, const struct dev_response_head *head)
{
    (void)ctx, (void)exchange;
    answered = (int)head->status;
}

static void on_body(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes, size_t size)
{
    (void)ctx, (void)exchange, (void)bytes, (void)size;
}

static void on_end(void *ctx, struct sim_exchange *exchange, enum base_status status)
{
    (void)ctx, (void)exchange, (void)status;
}

static void open_local(struct sim_store *store, struct sim_local *local)
{
    static struct wire_manifest manifest = {.runtime_abi = WIRE_RUNTIME_ABI, .file_count = 1};
    static const uint8_t script[] = "script";
    static uint8_t bytes[4096];
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    const struct sim_transport_events events = {.head = on_head, .body = on_body, .end = on_end};
    const struct sim_local_root none = {NULL, 0};
    const struct sim_blob *blob;
    struct dev_hash_state state;
    struct wire_sha256 name;
    size_t size = 0;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, script, sizeof(script));
    crypto->hash_end(crypto->ctx, &state, &name);
    manifest.task_name = BASE_STR("shop/score");
    manifest.version = BASE_STR("1.0.0");
    manifest.entry = BASE_STR("run");
    manifest.files[0] =
        (struct wire_manifest_file){WIRE_FILE_SCRIPT, BASE_STR("run.mpy"), sizeof(script), name};
    assert_int_equal(wire_manifest_encode(&manifest, bytes, sizeof(bytes), &size), BASE_OK);
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &name);
    assert_int_equal(sim_store_add(store, &name, bytes, size, &blob), BASE_OK);
    assert_int_equal(sim_local_init(local, store, &name, &none, &events), BASE_OK);
}

static uint64_t any_version(const struct sim_local *local)
{
    uint32_t dice = below(VERSIONS);
    return dice == 0 ? 0 : dice == 1 ? local->version_id : dice;
}

// A device of some tasks, ascending; *out_pair is what it says of the simulated one.
static struct base_str draw_profile(const struct sim_local *local, char *text,
                                    struct wire_profile_pair *out_pair)
{
    static struct wire_profile_pair pairs[TASKS_MAX];
    static uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
    struct wire_profile profile = {.flags = WIRE_PROFILE_FLAG_PAIRS};
    size_t size = 0;
    bool has = below(5) > 0;
    uint32_t count = below(TASKS_MAX);
    *out_pair = (struct wire_profile_pair){0};
    for (uint32_t i = 0; i < count; i++) { // others, on both sides
        pairs[i] = (struct wire_profile_pair){.task_id = i < 3 ? 1 + i : UINT64_MAX - TASKS_MAX + i,
                                              .version_id = any_version(local)};
    }
    if (has) {
        uint32_t at = count < 3 ? count : 3;
        memmove(&pairs[at + 1], &pairs[at], (count - at) * sizeof(pairs[0]));
        out_pair->task_id = local->task_id;
        out_pair->version_id = any_version(local);
        out_pair->blocked_version_id = below(2) == 0 ? any_version(local) : 0;
        out_pair->floor = below(3);
        pairs[at] = *out_pair;
        count++;
    }
    profile.task_count = count;
    profile.flags = count > 0 ? WIRE_PROFILE_FLAG_PAIRS : 0;
    assert_int_equal(
        wire_profile_encode(&profile, count > 0 ? pairs : NULL, bytes, sizeof(bytes), &size),
        BASE_OK);
    return (struct base_str){text, base_b64_encode(bytes, size, text)};
}

static void responder_agrees_with_the_function(void **state)
{
    (void)state;
    static char text[BASE_B64_ENCODED(WIRE_PROFILE_BYTES_MAX) + 4];
    static struct sim_local local;
    const char *more = getenv("WALLE_STATES");
    uint64_t states = more != NULL ? strtoull(more, NULL, 10) : STATES;
    uint64_t offered = 0;
    struct test_alloc alloc;
    struct sim_store *store;
    test_seed(&prng);
    test_alloc_init(&alloc, SIZE_MAX);
    assert_int_equal(sim_store_new(&alloc.port, dev_crypto_openssl(), &store), BASE_OK);
    open_local(store, &local);
    struct sim_transport transport = sim_local_transport(&local);
    for (uint64_t i = 0; i < states; i++) {
        struct wire_profile_pair pair;
        struct sim_exchange exchange = {0};
        struct dev_request request = {.method = DEV_METHOD_POST,
                                      .path = BASE_STR("/v1/checkin"),
                                      .profile = draw_profile(&local, text, &pair)};
        const struct pol_claim all = {
            local.version_id, 1, 0, POL_CLAIM_OPEN, true, true, true, false, false};
        const struct pol_desired_device device = {pair.version_id, pair.blocked_version_id,
                                                  pair.floor, pair.approved};
        struct pol_desired desired = pol_desired(&all, 1, &device);
        bool moves = desired.rule != POL_DESIRED_NONE && desired.version != pair.version_id;
        assert_int_equal(transport.start(transport.ctx, &exchange, &request), BASE_OK);
        assert_int_equal(sim_local_deliver(&local), 1);
        if (answered != (moves ? 200 : 204)) {
            fail_msg("has %llx, refuses %llx, floor %llu: %d, the function says %s",
                     (unsigned long long)pair.version_id,
                     (unsigned long long)pair.blocked_version_id, (unsigned long long)pair.floor,
                     answered, pol_desired_rule_name(desired.rule));
        }
        offered += moves;
    }
    assert_true(offered > states / 4 && offered < states / 4 * 3);
    sim_store_free(store);
    assert_int_equal(alloc.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(responder_agrees_with_the_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
