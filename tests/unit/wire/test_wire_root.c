// Roots: round trips and damage, what is refused, thresholds, the chain, and who may release what.
// The cryptography is a toy that can be predicted: a signature is right when it equals the hash of
// key and message.
#include "wire_damage.h"
#include "wire_samples.h"

#include "base/hash.h"

static void toy_sha256(void *ctx, const void *bytes, size_t size, const struct wire_sha256 *hoped,
                       struct wire_sha256 *out)
{
    (void)ctx;
    (void)hoped;
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t word = base_hash64_seed(bytes, size, i);
        memcpy(out->bytes + i * 8, &word, 8);
    }
}

static void toy_signature(const uint8_t *key, const uint8_t *message, size_t size,
                          uint8_t out[WIRE_SIGNATURE_BYTES])
{
    uint64_t seed = base_hash64(key, WIRE_PUBLIC_KEY_BYTES);
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t word = base_hash64_seed(message, size, seed + i);
        memcpy(out + i * 8, &word, 8);
    }
}

static enum base_status toy_verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                   const uint8_t *message, size_t size,
                                   const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    uint8_t right[WIRE_SIGNATURE_BYTES];
    (void)ctx;
    toy_signature(key, message, size, right);
    return memcmp(right, signature, sizeof right) == 0 ? BASE_OK : BASE_ERR_SIGNATURE;
}

static const struct wire_verifier toy = {NULL, toy_sha256, toy_verify};

static void key_fill(uint8_t key[WIRE_PUBLIC_KEY_BYTES], int number)
{
    memset(key, number, WIRE_PUBLIC_KEY_BYTES);
}

// Keys 1, 2, 3 are the root's (two of them sign), 4 the online roles', 5 and 6 release.
static struct wire_root plain_root(uint64_t version)
{
    struct wire_root root = {
        .version = version,
        .issued_s = 1000,
        .expires_s = 2000,
        .wide_bucket = 500,
        .lease_max_s = 3600,
        .key_count = 6,
        .roles = {{2, 7}, {1, 8}, {1, 8}, {1, 8}},
        .delegation_count = 2,
        .delegations = {{BASE_STR(""), 2, {1, 0x30}}, {BASE_STR("shop/"), 1, {1, 0x20}}},
    };
    for (int i = 0; i < 6; i++) {
        key_fill(root.keys[i], i + 1);
    }
    return root;
}

// An envelope around the root with signatures by the keys of `signers` (key n is bit n).
static size_t sign(const struct wire_root *root, unsigned signers, uint8_t *out)
{
    uint8_t payload[WIRE_META_BYTES_MAX];
    uint8_t message[128];
    struct wire_sha256 digest;
    size_t size = 0;
    size_t message_size = 0;
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_ROOT, .payload = payload};
    assert_int_equal(wire_root_encode(root, payload, sizeof payload, &envelope.payload_bytes),
                     BASE_OK);
    toy_sha256(NULL, payload, envelope.payload_bytes, NULL, &digest);
    assert_int_equal(wire_envelope_signed_bytes(
                         envelope.type, (struct base_span){digest.bytes, sizeof digest.bytes},
                         message, sizeof message, &message_size),
                     BASE_OK);
    for (int number = 1; number < 16; number++) {
        if ((signers >> number & 1u) != 0) {
            struct wire_signature *signature = &envelope.signatures[envelope.signature_count++];
            struct wire_sha256 key_id;
            uint8_t key[WIRE_PUBLIC_KEY_BYTES];
            key_fill(key, number);
            toy_sha256(NULL, key, sizeof key, NULL, &key_id);
            memcpy(signature->key_id, key_id.bytes, sizeof key_id.bytes);
            toy_signature(key, message, message_size, signature->bytes);
        }
    }
    assert_int_equal(wire_envelope_encode(&envelope, out, WIRE_META_BYTES_MAX, &size), BASE_OK);
    return size;
}

#define SIGNERS2(a, b) (1u << (a) | 1u << (b))

static void random_root(struct base_prng *prng, struct wire_root *root)
{
    *root = plain_root(1 + base_prng_below(prng, 1000));
    root->wide_bucket = (uint16_t)base_prng_below(prng, 10001);
    root->lease_max_s = (uint32_t)base_prng_below(prng, WIRE_ROOT_LEASE_S_MAX + 1);
    root->key_count = 1 + (uint32_t)base_prng_below(prng, WIRE_ROOT_KEYS_MAX);
    for (uint32_t i = 0; i < root->key_count; i++) {
        key_fill(root->keys[i], (int)(i * 3 + 1));
    }
    uint16_t all = (uint16_t)((1u << root->key_count) - 1);
    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        uint16_t keys = (uint16_t)(1u | (base_prng_next(prng) & all));
        uint32_t most = (uint32_t)__builtin_popcount(keys);
        most = most < 8 ? most : 8;
        root->roles[i] = (struct wire_role){(uint8_t)(1 + base_prng_below(prng, most)), keys};
    }
    root->delegation_count = 1;
    root->delegations[0] = (struct wire_delegation){BASE_STR("a/b"), 1, {1, 1}};
}

static void roots_round_trip_and_survive_damage(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (int round = 0; round < 200; round++) {
        struct wire_root root;
        struct wire_root back;
        uint8_t bytes[WIRE_META_BYTES_MAX];
        size_t size = 0;
        random_root(&prng, &root);
        assert_int_equal(wire_root_encode(&root, bytes, sizeof bytes, &size), BASE_OK);
        assert_int_equal(wire_root_parse(bytes, size, &back), BASE_OK);
        assert_true(back.version == root.version);
        assert_int_equal(back.key_count, root.key_count);
        assert_memory_equal(back.keys, root.keys, root.key_count * WIRE_PUBLIC_KEY_BYTES);
        assert_memory_equal(back.roles, root.roles, sizeof root.roles);
        if (round < 4) {
            wire_damage(&prng, bytes, size, wire_check_root);
        }
    }
}

static void spoil(struct wire_root *root, int how)
{
    switch (how) {
    case 0:
        root->version = 0;
        break;
    case 1:
        root->expires_s = root->issued_s;
        break;
    case 2:
        root->wide_bucket = 10001;
        break;
    case 3:
        memcpy(root->keys[1], root->keys[0], WIRE_PUBLIC_KEY_BYTES); // one key twice
        break;
    case 4:
        root->roles[WIRE_ROLE_DIRECTOR].keys = 0x40; // a key that is not there
        break;
    case 5:
        root->roles[WIRE_ROLE_ROOT].threshold = 4; // of three keys
        break;
    case 6:
        root->roles[WIRE_ROLE_TIMESTAMP].threshold = 0;
        break;
    case 7:
        root->delegations[0].wide_threshold = 3; // of two keys
        break;
    case 8:
        root->delegations[1].prefix = BASE_STR(""); // one prefix twice
        break;
    case 9:
        root->delegations[1].prefix = BASE_STR("Shop/");
        break;
    case 10:
        root->delegation_count = 0;
        break;
    case 11:
        root->lease_max_s = WIRE_ROOT_LEASE_S_MAX + 1;
        break;
    default:
        root->key_count = 0;
        break;
    }
}

static void roots_without_sense_are_refused(void **state)
{
    (void)state;
    for (int how = 0; how <= 12; how++) {
        struct wire_root root = plain_root(3);
        uint8_t bytes[WIRE_META_BYTES_MAX];
        size_t size = 0;
        spoil(&root, how);
        if (wire_root_encode(&root, bytes, sizeof bytes, &size) != BASE_ERR_INVALID) {
            fail_msg("spoiled in way %d, and encoded", how);
        }
    }
}

static void thresholds_count_distinct_keys_of_the_role(void **state)
{
    (void)state;
    const struct {
        unsigned signers;
        enum base_status status;
    } rows[] = {
        {SIGNERS2(1, 2), BASE_OK},
        {SIGNERS2(2, 3) | 1u << 9, BASE_OK}, // a stranger's signature does not hurt
        {1u << 1, BASE_ERR_THRESHOLD},
        {SIGNERS2(1, 4), BASE_ERR_THRESHOLD}, // a key of another role does not count
        {SIGNERS2(4, 5), BASE_ERR_SIGNATURE},
        {SIGNERS2(9, 10), BASE_ERR_SIGNATURE},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct wire_root root = plain_root(1);
        struct wire_root out;
        uint8_t bytes[WIRE_META_BYTES_MAX];
        size_t size = sign(&root, rows[i].signers, bytes);
        assert_int_equal(wire_root_open(bytes, size, &toy, &out), rows[i].status);
    }
}

static void every_flipped_bit_of_a_signed_root_is_refused(void **state)
{
    (void)state;
    struct wire_root root = plain_root(1);
    struct wire_root out;
    uint8_t bytes[WIRE_META_BYTES_MAX];
    size_t size = sign(&root, SIGNERS2(1, 2), bytes);
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (wire_root_open(bytes, size, &toy, &out) == BASE_OK) {
            fail_msg("bit %zu flipped, and the root was believed", bit);
        }
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

// The successor has exactly the next number, and both roots' thresholds signed it.
static void a_chain_goes_step_by_step(void **state)
{
    (void)state;
    struct wire_root before = plain_root(4);
    struct wire_root next = plain_root(5);
    struct wire_root out;
    uint8_t bytes[WIRE_META_BYTES_MAX];
    // Key 1 is lost and replaced by key 7: {2, 3, 7} are the new root's.
    key_fill(next.keys[0], 2);
    key_fill(next.keys[1], 3);
    key_fill(next.keys[2], 4);
    key_fill(next.keys[3], 5);
    key_fill(next.keys[4], 6);
    key_fill(next.keys[5], 7);
    next.roles[WIRE_ROLE_ROOT] = (struct wire_role){2, 0x23};
    for (int i = WIRE_ROLE_TIMESTAMP; i < WIRE_ROLE_COUNT; i++) {
        next.roles[i] = (struct wire_role){1, 4};
    }
    next.delegations[0].role.keys = 0x18;
    next.delegations[1].role.keys = 0x10;
    size_t size = sign(&next, SIGNERS2(2, 3), bytes); // in both roots
    assert_int_equal(wire_root_follow(&before, bytes, size, &toy, &out), BASE_OK);
    assert_true(wire_root_same_role(&before, &out, WIRE_ROLE_TIMESTAMP));
    assert_false(wire_root_same_role(&before, &out, WIRE_ROLE_ROOT));
    size = sign(&next, SIGNERS2(3, 7), bytes); // enough for the new one, one of the old one
    assert_int_equal(wire_root_follow(&before, bytes, size, &toy, &out), BASE_ERR_THRESHOLD);
    size = sign(&next, SIGNERS2(1, 2), bytes); // enough for the old one, one of the new one
    assert_int_equal(wire_root_follow(&before, bytes, size, &toy, &out), BASE_ERR_THRESHOLD);
    size = sign(&next, SIGNERS2(1, 2) | 1u << 3, bytes);
    assert_int_equal(wire_root_follow(&before, bytes, size, &toy, &out), BASE_OK);
    for (uint64_t version = 3; version <= 6; version++) {
        next.version = version;
        size = sign(&next, SIGNERS2(2, 3), bytes);
        assert_int_equal(wire_root_follow(&before, bytes, size, &toy, &out),
                         version == 5 ? BASE_OK : BASE_ERR_ROOT);
    }
}

static void the_longest_prefix_decides_alone(void **state)
{
    (void)state;
    struct wire_root root = plain_root(1);
    assert_ptr_equal(wire_root_delegation(&root, BASE_STR("shop/page")), &root.delegations[1]);
    assert_ptr_equal(wire_root_delegation(&root, BASE_STR("shopping")), &root.delegations[0]);
    root.delegations[0].prefix = BASE_STR("ads/");
    assert_null(wire_root_delegation(&root, BASE_STR("shopping")));
}

static void many_devices_need_more_signers(void **state)
{
    (void)state;
    struct wire_root root = plain_root(1);
    const struct {
        uint16_t max_bucket;
        uint8_t stage; // 0 simulate, 1 beta, 2 gray, 3 full
        bool beta_device;
        uint8_t threshold;
    } rows[] = {
        {500, 2, false, 1},  {501, 2, false, 2},   {10000, 3, false, 2}, {10000, 3, true, 2},
        {10000, 1, true, 1}, {10000, 1, false, 2}, // says beta, and this is no beta device
        {10000, 0, true, 2},                       // says simulation, and this is a device
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct wire_release release = {.max_bucket = rows[i].max_bucket,
                                       .stage_kind = rows[i].stage};
        uint8_t threshold =
            wire_root_release_threshold(&root, &root.delegations[0], &release, rows[i].beta_device);
        if (threshold != rows[i].threshold) {
            fail_msg("row %zu: %u signers, not %u", i, threshold, rows[i].threshold);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roots_round_trip_and_survive_damage),
        cmocka_unit_test(roots_without_sense_are_refused),
        cmocka_unit_test(thresholds_count_distinct_keys_of_the_role),
        cmocka_unit_test(every_flipped_bit_of_a_signed_root_is_refused),
        cmocka_unit_test(a_chain_goes_step_by_step),
        cmocka_unit_test(the_longest_prefix_decides_alone),
        cmocka_unit_test(many_devices_need_more_signers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
