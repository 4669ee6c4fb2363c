// Exclusive files of the simulate stage: who stands in for whom, and that nobody is answered with
// what is another's.
#include "test_kit.h"

#include "device/device.h"
#include "ports/sim_exclusive.h"

#define DEVICES 3u
#define USERS   2u

static struct test_alloc alloc;
static struct sim_store *store;
static struct sim_subject devices[DEVICES];
static struct sim_subject users[USERS];
static struct sim_exclusive exclusive;

static void add_blob(struct sim_subject *subject, uint32_t number)
{
    uint8_t content[8] = "content";
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    const struct sim_blob *blob;
    struct dev_hash_state state;
    struct wire_sha256 name;
    content[7] = (uint8_t)number;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, content, sizeof(content));
    crypto->hash_end(crypto->ctx, &state, &name);
    assert_int_equal(sim_store_add(store, &name, content, sizeof(content), &blob), BASE_OK);
    subject->names[subject->name_count++] = name;
}

static int setup(void **state)
{
    (void)state;
    test_alloc_init(&alloc, SIZE_MAX);
    assert_int_equal(sim_store_new(&alloc.port, dev_crypto_openssl(), &store), BASE_OK);
    memset(devices, 0, sizeof(devices));
    memset(users, 0, sizeof(users));
    for (uint32_t i = 0; i < DEVICES + USERS; i++) {
        struct sim_subject *subject = i < DEVICES ? &devices[i] : &users[i - DEVICES];
        subject->device_id = i < DEVICES ? 10 * (i + 1) : 0;
        subject->proof_bytes = 40 + i;
        memset(subject->proof, (int)i, subject->proof_bytes);
        add_blob(subject, 2 * i);
        add_blob(subject, 2 * i + 1);
    }
    exclusive = (struct sim_exclusive){.devices = devices,
                                       .users = users,
                                       .device_count = DEVICES,
                                       .user_count = USERS,
                                       .share_ppm = 250000};
    memset(exclusive.root.bytes, 0xab, sizeof(exclusive.root.bytes));
    wire_sha256_hex(&exclusive.root, exclusive.root_hex);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_store_free(store);
    return 0;
}

static void test_who_stands_in_for_whom(void **state)
{
    (void)state;
    uint64_t id = 0;
    uint32_t bound = 0;
    uint32_t of_first = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_true(sim_exclusive_id(&exclusive, i, &id));
        assert_int_equal(id, devices[i].device_id);
        assert_ptr_equal(sim_exclusive_of(&exclusive, id), &devices[i]);
    }
    assert_false(sim_exclusive_id(&exclusive, DEVICES, &id));
    for (uint64_t i = 1000; i < 21000; i++) {
        const struct sim_subject *subject = sim_exclusive_of(&exclusive, i);
        assert_ptr_equal(subject, sim_exclusive_of(&exclusive, i)); // always the same
        bound += subject != NULL ? 1 : 0;
        of_first += subject == &users[0] ? 1 : 0;
    }
    if (bound < 4700 || bound > 5300 || of_first < 2300 || of_first > 2700) {
        fail_msg("%u of 20000 belong to a user, %u to the first", bound, of_first);
    }
    exclusive.share_ppm = 0;
    assert_null(sim_exclusive_of(&exclusive, 1000));
    exclusive.share_ppm = 1000000;
    assert_non_null(sim_exclusive_of(&exclusive, 1000));
    exclusive.user_count = 0;
    assert_null(sim_exclusive_of(&exclusive, 1000));
}

static struct sim_exchange ask(const char *path, const char *device, uint64_t from)
{
    struct sim_exchange exchange = {.status = 0};
    struct dev_request request = {
        .path = base_str_of(path), .device = base_str_of(device), .range_from = from};
    sim_exclusive_answer(&exclusive, store, &request, &exchange);
    return exchange;
}

static void test_only_ones_own(void **state)
{
    (void)state;
    char path[200];
    char hex[WIRE_SHA256_HEX + 1];
    (void)snprintf(path, sizeof(path), "/v1/exclusive/%s", exclusive.root_hex);
    struct sim_exchange exchange = ask(path, "000000000000000a", 0);
    assert_int_equal(exchange.status, 200);
    assert_ptr_equal(exchange.body, devices[0].proof);
    assert_int_equal(exchange.body_bytes, 40);
    assert_int_equal(ask(path, "00000000000000ff", 0).status,
                     sim_exclusive_of(&exclusive, 0xff) != NULL ? 200 : 404);
    assert_int_equal(ask(path, "no device at all", 0).status, 404);
    assert_int_equal(ask("/v1/exclusive/", "000000000000000a", 0).status, 404);
    path[20] ^= 1; // another tree
    assert_int_equal(ask(path, "000000000000000a", 0).status, 404);
    for (uint32_t owner = 0; owner < DEVICES + USERS; owner++) {
        const struct sim_subject *subject =
            owner < DEVICES ? &devices[owner] : &users[owner - DEVICES];
        wire_sha256_hex(&subject->names[1], hex);
        (void)snprintf(path, sizeof(path), "/v1/exclusive/%s/%s", exclusive.root_hex, hex);
        exchange = ask(path, "0000000000000014", 5);
        assert_int_equal(exchange.status, owner == 1 ? 206 : 404);
        assert_int_equal(exchange.body_bytes, owner == 1 ? 3 : 0);
        assert_int_equal(sim_exclusive_owns(&exclusive, 20, &subject->names[0]), owner == 1);
        assert_int_equal(sim_exclusive_owns(&exclusive, 20, &subject->names[1]), owner == 1);
    }
    wire_sha256_hex(&devices[1].names[1], hex);
    (void)snprintf(path, sizeof(path), "/v1/exclusive/%s/%s", exclusive.root_hex, hex);
    assert_int_equal(ask(path, "0000000000000014", 9).status, 404); // behind the end
    path[sizeof("/v1/exclusive/") - 1 + WIRE_SHA256_HEX] = 'x';
    assert_int_equal(ask(path, "0000000000000014", 0).status, 404);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_stands_in_for_whom, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_ones_own, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
