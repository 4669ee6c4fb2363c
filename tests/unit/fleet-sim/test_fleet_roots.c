// The simulator's own judgement of roots and release signatures: what joins the chain, and how many
// signers let a release reach whom. A signature here is right when it begins with the key's first
// byte.
#include "test_kit.h"

#include "base/hash.h"
#include "model/root_chain.h"
#include "ports/sim_crypto.h"

static void toy_sha256(void *ctx, const void *bytes, size_t size, const struct wire_sha256 *hoped,
                       struct wire_sha256 *out)
{
    (void)ctx, (void)hoped;
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t word = base_hash64_seed(bytes, size, i);
        memcpy(out->bytes + i * 8, &word, 8);
    }
}

static enum base_status toy_verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                   const uint8_t *message, size_t size,
                                   const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    (void)ctx, (void)message, (void)size;
    return signature[0] == key[0] ? BASE_OK : BASE_ERR_SIGNATURE;
}

static const struct wire_verifier toy = {NULL, toy_sha256, toy_verify};

// Keys 1, 2, 3 are the root's (two sign), 4 the online roles', 5 and 6 release: one for few
// devices, both for many. Under "own/" key 6 alone releases.
static struct wire_root plain_root(uint64_t version)
{
    struct wire_root root = {
        .version = version,
        .issued_s = 1000,
        .expires_s = 2000,
        .wide_bucket = 500,
        .key_count = 6,
        .roles = {{2, 7}, {1, 8}, {1, 8}, {1, 8}},
        .delegation_count = 2,
        .delegations = {{BASE_STR("own/"), 1, {1, 0x20}}, {BASE_STR("shop/"), 2, {1, 0x30}}},
    };
    for (uint8_t i = 0; i < 6; i++) {
        memset(root.keys[i], i + 1, WIRE_PUBLIC_KEY_BYTES);
    }
    return root;
}

// An envelope signed by the keys of `signers` (key n is bit n). Returns its size.
static size_t sign(const struct wire_root *root, unsigned signers, uint8_t *out)
{
    uint8_t payload[WIRE_META_BYTES_MAX];
    size_t size = 0;
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_ROOT, .payload = payload};
    assert_int_equal(wire_root_encode(root, payload, sizeof(payload), &envelope.payload_bytes),
                     BASE_OK);
    for (uint8_t number = 1; number <= 6; number++) {
        if ((signers >> number & 1u) != 0) {
            struct wire_signature *signature = &envelope.signatures[envelope.signature_count++];
            struct wire_sha256 key_id;
            uint8_t key[WIRE_PUBLIC_KEY_BYTES];
            memset(key, number, sizeof(key));
            toy_sha256(NULL, key, sizeof(key), NULL, &key_id);
            memcpy(signature->key_id, key_id.bytes, sizeof(signature->key_id));
            signature->bytes[0] = number;
        }
    }
    assert_int_equal(wire_envelope_encode(&envelope, out, WIRE_META_BYTES_MAX, &size), BASE_OK);
    return size;
}

#define BY(a, b) (1u << (a) | 1u << (b))

static void only_successors_join(void **state)
{
    (void)state;
    static struct sim_root_chain chain;
    static uint8_t bytes[SIM_ROOTS_MAX + 8][WIRE_META_BYTES_MAX];
    struct wire_root root = plain_root(1);
    size_t size = sign(&root, 1u << 1, bytes[0]);
    assert_int_equal(sim_root_chain_begin(&chain, bytes[0], size, &toy), BASE_ERR_THRESHOLD);
    assert_int_equal(sim_root_chain_newest(&chain), 0);
    size = sign(&root, BY(1, 2), bytes[0]);
    assert_int_equal(sim_root_chain_begin(&chain, bytes[0], size, &toy), BASE_OK);
    assert_false(sim_root_chain_add(&chain, bytes[0], size, &toy)); // the same again
    assert_false(sim_root_chain_add(&chain, (const uint8_t *)"import walle", 12, &toy));
    root = plain_root(2);
    size = sign(&root, BY(1, 5), bytes[1]); // one of the root's keys only
    assert_false(sim_root_chain_add(&chain, bytes[1], size, &toy));
    root = plain_root(3); // leaves one out
    size = sign(&root, BY(1, 2), bytes[1]);
    assert_false(sim_root_chain_add(&chain, bytes[1], size, &toy));
    for (uint64_t version = 2; version <= SIM_ROOTS_MAX + 5; version++) {
        root = plain_root(version);
        size = sign(&root, BY(2, 3), bytes[version]);
        assert_true(sim_root_chain_add(&chain, bytes[version], size, &toy));
        assert_int_equal(sim_root_chain_newest(&chain), version);
    }
    assert_int_equal(chain.count, SIM_ROOTS_MAX);
    assert_null(sim_root_chain_find(&chain, 5)); // the oldest are forgotten
    assert_non_null(sim_root_chain_find(&chain, 6));
    assert_int_equal(sim_root_chain_find(&chain, 70 - 1)->version, SIM_ROOTS_MAX + 5);
}

static struct wire_release release_of(const char *task, uint16_t max_bucket, uint8_t stage)
{
    return (struct wire_release){.task_name = base_str_of(task),
                                 .release_counter = 1,
                                 .max_bucket = max_bucket,
                                 .stage_kind = stage};
}

static struct sim_signers signers_of(unsigned mask)
{
    struct sim_signers signers = {.count = 0};
    for (uint8_t number = 1; number <= 6; number++) {
        uint8_t key[WIRE_PUBLIC_KEY_BYTES];
        memset(key, number, sizeof(key));
        if ((mask >> number & 1u) != 0) {
            sim_signers_add(&signers, key);
            sim_signers_add(&signers, key); // counts once
        }
    }
    return signers;
}

static void signers_decide_the_reach(void **state)
{
    (void)state;
    const struct {
        const char *task;
        uint16_t max_bucket;
        uint8_t stage; // 1: beta, 2: gray, 3: full
        unsigned signers;
        enum sim_reach reach;
    } cases[] = {
        {"shop/score", 500, 2, 1u << 5, SIM_REACH_ALL}, // few devices: one is enough
        {"shop/score", 501, 2, 1u << 5, SIM_REACH_NOBODY},
        {"shop/score", 10000, 3, 1u << 6, SIM_REACH_NOBODY},
        {"shop/score", 10000, 3, BY(5, 6), SIM_REACH_ALL},
        {"shop/score", 10000, 1, 1u << 5, SIM_REACH_BETA},
        {"shop/score", 10000, 1, 1u << 4, SIM_REACH_NOBODY}, // an online key releases nothing
        {"own/task", 10000, 3, 1u << 6, SIM_REACH_ALL},
        {"own/task", 100, 3, 1u << 5, SIM_REACH_NOBODY},
        {"other", 100, 3, BY(5, 6), SIM_REACH_NOBODY}, // nobody may
    };
    struct wire_root root = plain_root(1);
    static struct sim_root_chain pinned;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct wire_release release =
            release_of(cases[i].task, cases[i].max_bucket, cases[i].stage);
        struct sim_signers signers = signers_of(cases[i].signers);
        if (sim_root_reach(&root, &release, &signers) != cases[i].reach) {
            fail_msg("case %zu: %d, not %d", i, sim_root_reach(&root, &release, &signers),
                     cases[i].reach);
        }
        assert_int_equal(sim_root_chain_reach(&pinned, &release, &signers), SIM_REACH_ALL);
    }
}

// A device may still hold the root before: what either allows is allowed.
static void any_root_of_the_chain_may_allow(void **state)
{
    (void)state;
    static struct sim_root_chain chain;
    static uint8_t bytes[2][WIRE_META_BYTES_MAX];
    struct wire_root root = plain_root(1);
    size_t size = sign(&root, BY(1, 2), bytes[0]);
    assert_int_equal(sim_root_chain_begin(&chain, bytes[0], size, &toy), BASE_OK);
    struct wire_release release = release_of("own/task", 10000, 3);
    struct sim_signers five = signers_of(1u << 5);
    struct sim_signers six = signers_of(1u << 6);
    assert_int_equal(sim_root_chain_reach(&chain, &release, &five), SIM_REACH_NOBODY);
    root.version = 2;
    root.delegations[0].role.keys = 0x10;
    size = sign(&root, BY(1, 2), bytes[1]);
    assert_true(sim_root_chain_add(&chain, bytes[1], size, &toy));
    assert_int_equal(sim_root_chain_reach(&chain, &release, &five), SIM_REACH_ALL);
    assert_int_equal(sim_root_chain_reach(&chain, &release, &six), SIM_REACH_ALL);
    assert_int_equal(sim_root_reach(sim_root_chain_find(&chain, 2), &release, &six),
                     SIM_REACH_NOBODY);
}

// ---- What is shared between devices

static enum base_status accept(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                               const uint8_t *message, size_t size,
                               const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    (void)ctx, (void)key, (void)message, (void)size, (void)signature;
    return BASE_OK;
}

static void answers_for_one_device_are_not_kept(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct sim_store *store;
    struct sim_crypto crypto;
    struct dev_crypto_port real = *dev_crypto_openssl();
    real.verify = accept;
    test_alloc_init(&alloc, SIZE_MAX);
    assert_int_equal(sim_store_new(&alloc.port, &real, &store), BASE_OK);
    assert_int_equal(sim_crypto_init(&crypto, &alloc.port, &real, store, NULL), BASE_OK);
    struct dev_crypto_port port = sim_crypto_port(&crypto);
    const uint8_t key[WIRE_PUBLIC_KEY_BYTES] = {1};
    const uint8_t signature[WIRE_SIGNATURE_BYTES] = {2};
    for (uint8_t type = WIRE_ENVELOPE_TYPE_RELEASE; type <= WIRE_ENVELOPE_TYPE_DIRECTOR; type++) {
        uint8_t message[200];
        size_t size = 0;
        uint8_t payload[32] = {type};
        assert_int_equal(wire_envelope_signed_bytes(type,
                                                    (struct base_span){payload, sizeof(payload)},
                                                    message, sizeof(message), &size),
                         BASE_OK);
        assert_int_equal(sim_message_type(message, size), type);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(port.verify(port.ctx, key, message, size, signature), BASE_OK);
        }
    }
    assert_int_equal(crypto.memo_count, 4);
    assert_int_equal(crypto.verify_hits, 8);
    assert_int_equal(crypto.verify_real, 4 + 3);
    assert_int_equal(sim_message_type((const uint8_t *)"walle-meta-v1", 14), 0);
    sim_crypto_done(&crypto);
    sim_store_free(store);
    assert_int_equal(alloc.live, 0);
}

static enum base_status odd_only(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                 const uint8_t *message, size_t size,
                                 const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    (void)ctx, (void)key, (void)signature;
    return message[size - 1] % 2 == 1 ? BASE_OK : BASE_ERR_SIGNATURE;
}

// Equal heads are verified once, whatever came between; others never share what came of it.
static void heads_of_trees_are_kept_for_a_while(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct sim_store *store;
    struct sim_crypto crypto;
    struct dev_crypto_port real = *dev_crypto_openssl();
    real.verify = odd_only;
    test_alloc_init(&alloc, SIZE_MAX);
    assert_int_equal(sim_store_new(&alloc.port, &real, &store), BASE_OK);
    assert_int_equal(sim_crypto_init(&crypto, &alloc.port, &real, store, NULL), BASE_OK);
    struct dev_crypto_port port = sim_crypto_port(&crypto);
    const uint8_t key[WIRE_PUBLIC_KEY_BYTES] = {1};
    uint8_t signature[WIRE_SIGNATURE_BYTES] = {2};
    for (uint32_t round = 0; round < 10 * SIM_HEADS_MAX; round++) {
        uint8_t message[200];
        size_t size = 0;
        uint8_t head[40] = {(uint8_t)(round >> 8), (uint8_t)round};
        head[39] = (uint8_t)(round % 2);
        const struct base_span said = {head, sizeof(head)};
        assert_int_equal(wire_envelope_signed_bytes(WIRE_ENVELOPE_TYPE_ANSWER, said, message,
                                                    sizeof(message), &size),
                         BASE_OK);
        enum base_status wanted = round % 2 == 1 ? BASE_OK : BASE_ERR_SIGNATURE;
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(port.verify(port.ctx, key, message, size, signature), wanted);
        }
        assert_int_equal(crypto.verify_real, 2 * round + 1);
        signature[5] ^= 1; // under another signature it is another question
        assert_int_equal(port.verify(port.ctx, key, message, size, signature), wanted);
        signature[5] ^= 1;
        assert_int_equal(crypto.verify_real, 2 * round + 2);
    }
    assert_int_equal(crypto.memo_count, 0);
    sim_crypto_done(&crypto);
    sim_store_free(store);
    assert_int_equal(alloc.live, 0);
}

// The id of a key is hashed by comparison, and what is not that key is not taken for it.
static void keys_of_roots_are_content(void **state)
{
    (void)state;
    struct test_alloc alloc;
    struct sim_store *store;
    struct sim_crypto crypto;
    const struct dev_crypto_port *real = dev_crypto_openssl();
    const struct wire_root root = plain_root(1);
    test_alloc_init(&alloc, SIZE_MAX);
    assert_int_equal(sim_store_new(&alloc.port, real, &store), BASE_OK);
    assert_int_equal(sim_crypto_init(&crypto, &alloc.port, real, store, NULL), BASE_OK);
    sim_crypto_keep_keys(&crypto, &root);
    sim_crypto_keep_keys(&crypto, &root);
    assert_int_equal(sim_store_blob_count(store), root.key_count);
    struct dev_crypto_port port = sim_crypto_port(&crypto);
    const struct wire_verifier shared = dev_crypto_verifier(&port);
    const struct wire_verifier plain = dev_crypto_verifier(real);
    for (uint32_t i = 0; i < root.key_count; i++) {
        struct wire_sha256 id;
        struct wire_sha256 wanted;
        plain.sha256(plain.ctx, root.keys[i], WIRE_PUBLIC_KEY_BYTES, NULL, &wanted);
        shared.sha256(shared.ctx, root.keys[i], WIRE_PUBLIC_KEY_BYTES, &wanted, &id);
        assert_true(wire_sha256_equal(&id, &wanted));
        assert_int_equal(crypto.shared_bytes, (i + 1) * WIRE_PUBLIC_KEY_BYTES);
        assert_int_equal(crypto.real_bytes, i * WIRE_PUBLIC_KEY_BYTES);
        // Another key under that name.
        const uint8_t *other = root.keys[(i + 1) % root.key_count];
        shared.sha256(shared.ctx, other, WIRE_PUBLIC_KEY_BYTES, &wanted, &id);
        assert_false(wire_sha256_equal(&id, &wanted));
    }
    sim_crypto_done(&crypto);
    sim_store_free(store);
    assert_int_equal(alloc.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_successors_join),
        cmocka_unit_test(signers_decide_the_reach),
        cmocka_unit_test(any_root_of_the_chain_may_allow),
        cmocka_unit_test(answers_for_one_device_are_not_kept),
        cmocka_unit_test(heads_of_trees_are_kept_for_a_while),
        cmocka_unit_test(keys_of_roots_are_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
