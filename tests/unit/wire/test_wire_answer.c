// Answers that share a signature: every leaf of every size of tree leads to what was signed, and
// nothing that was bent does. The tree itself is compared with its definition in
// test_wire_exclusive.c.
#include "wire_damage.h"
#include "wire_samples.h"

#include <openssl/sha.h>

#define LEAF_BYTES 96u

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    (void)ctx;
    assert_non_null(SHA256(bytes, size, out->bytes));
}

static const struct wire_hasher hasher = {.sha256 = hash};

// A tree over answers to devices 1, 2, ...
struct grove {
    uint32_t size;
    size_t bytes[WIRE_ANSWERS_MAX];
    uint8_t leaves[WIRE_ANSWERS_MAX][LEAF_BYTES];
    struct wire_sha256 nodes[WIRE_ANSWER_NODES_MAX];
    uint8_t head[WIRE_ANSWER_HEAD_BYTES];
    struct wire_sha256 path[WIRE_ANSWER_PATH_MAX]; // of the answer that was made last
};

static struct base_span leaf_of(const struct grove *grove, uint32_t index)
{
    return (struct base_span){grove->leaves[index], grove->bytes[index]};
}

static void grow(struct grove *grove, uint32_t size)
{
    grove->size = size;
    for (uint32_t i = 0; i < size; i++) {
        const struct wire_director director = {.device_id = i + 1, .order = 7, .issued_s = 9};
        assert_int_equal(
            wire_director_encode(&director, grove->leaves[i], LEAF_BYTES, &grove->bytes[i]),
            BASE_OK);
        wire_answer_leaf(&hasher, leaf_of(grove, i), &grove->nodes[i]);
    }
    assert_true(wire_tree_nodes(size) <= WIRE_ANSWER_NODES_MAX);
    wire_tree_build(&hasher, grove->nodes, size);
    wire_answer_head(size, &grove->nodes[wire_tree_nodes(size) - 1], grove->head);
}

static struct wire_answer answer_of(struct grove *grove, uint32_t index)
{
    return (struct wire_answer){
        .way = {.leaves = grove->size,
                .index = index,
                .path = grove->path,
                .path_count = wire_tree_path(grove->nodes, grove->size, index, grove->path)},
        .director = leaf_of(grove, index),
    };
}

static bool holds(const struct grove *grove, const uint8_t *payload, size_t size)
{
    struct wire_answer answer;
    uint8_t head[WIRE_ANSWER_HEAD_BYTES];
    return wire_answer_parse(payload, size, &answer) == BASE_OK &&
           wire_answer_fold(&answer, &hasher, head) == BASE_OK &&
           memcmp(head, grove->head, sizeof(head)) == 0;
}

static void every_leaf_leads_to_what_was_signed(void **state)
{
    (void)state;
    static struct grove grove;
    for (uint32_t size = 1; size <= WIRE_ANSWERS_MAX; size += size < 34 ? 1 : 37) {
        grow(&grove, size);
        for (uint32_t index = 0; index < size; index++) {
            uint8_t payload[WIRE_ANSWER_BYTES_MAX];
            size_t bytes = 0;
            struct wire_answer back;
            const struct wire_answer answer = answer_of(&grove, index);
            assert_int_equal(wire_answer_encode(&answer, payload, sizeof(payload), &bytes),
                             BASE_OK);
            assert_true(holds(&grove, payload, bytes));
            assert_int_equal(wire_answer_parse(payload, bytes, &back), BASE_OK);
            assert_int_equal(back.way.index, index);
            assert_int_equal(back.way.leaves, size);
            assert_int_equal(back.director.size, grove.bytes[index]);
            assert_memory_equal(back.director.data, grove.leaves[index], back.director.size);
        }
    }
    grow(&grove, WIRE_ANSWERS_MAX);
    assert_int_equal(answer_of(&grove, 0).way.path_count, WIRE_ANSWER_PATH_MAX);
}

static void nothing_that_was_bent_does(void **state)
{
    (void)state;
    static struct grove grove;
    static const uint32_t sizes[] = {1, 2, 3, 5, 8, 200};
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t s = 0; s < TEST_COUNT(sizes); s++) {
        grow(&grove, sizes[s]);
        uint32_t index = (uint32_t)base_prng_below(&prng, sizes[s]);
        const struct wire_answer answer = answer_of(&grove, index);
        uint8_t payload[WIRE_ANSWER_BYTES_MAX];
        size_t size = 0;
        assert_int_equal(wire_answer_encode(&answer, payload, sizeof(payload), &size), BASE_OK);
        for (size_t bit = 0; bit < size * 8; bit++) {
            payload[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_false(holds(&grove, payload, size));
            payload[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t cut = 0; cut < size; cut++) {
            assert_false(holds(&grove, payload, cut));
        }
        assert_true(holds(&grove, payload, size));
        wire_damage(&prng, payload, size, wire_check_answer);
    }
}

// A leaf's mark is not a node's: two hashes side by side are no answer.
static void a_node_is_no_leaf(void **state)
{
    (void)state;
    static struct grove grove;
    grow(&grove, 4);
    uint8_t both[2 * WIRE_SHA256_BYTES];
    memcpy(both, grove.nodes[0].bytes, WIRE_SHA256_BYTES);
    memcpy(both + WIRE_SHA256_BYTES, grove.nodes[1].bytes, WIRE_SHA256_BYTES);
    struct wire_sha256 leaf;
    wire_answer_leaf(&hasher, (struct base_span){both, sizeof(both)}, &leaf);
    assert_false(wire_sha256_equal(&leaf, &grove.nodes[4]));
}

static void limits_are_kept(void **state)
{
    (void)state;
    static struct grove grove;
    static uint8_t large[WIRE_STATEMENT_BYTES_MAX + 1];
    uint8_t out[WIRE_ANSWER_BYTES_MAX + 8];
    size_t size = 0;
    grow(&grove, 5);
    struct wire_answer answer = answer_of(&grove, 2);
    answer.director = (struct base_span){large, sizeof(large)};
    assert_int_equal(wire_answer_encode(&answer, out, sizeof(out), &size), BASE_ERR_TOO_LARGE);
    answer.director = (struct base_span){large, 0};
    assert_int_equal(wire_answer_encode(&answer, out, sizeof(out), &size), BASE_ERR_INVALID);
    answer = answer_of(&grove, 2);
    answer.way.path_count--;
    assert_int_equal(wire_answer_encode(&answer, out, sizeof(out), &size), BASE_ERR_INVALID);
    answer = answer_of(&grove, 2);
    answer.way.index = 5;
    assert_int_equal(wire_answer_encode(&answer, out, sizeof(out), &size), BASE_ERR_INVALID);
    answer = answer_of(&grove, 2);
    answer.way.leaves = WIRE_ANSWERS_MAX + 1;
    assert_int_equal(wire_answer_encode(&answer, out, sizeof(out), &size), BASE_ERR_INVALID);
    answer = answer_of(&grove, 2);
    assert_int_equal(wire_answer_encode(&answer, out, 40, &size), BASE_ERR_TOO_LARGE);
    // What is said, and does not exist.
    struct wire_answer back;
    const uint8_t none[] = {0, 0, 1};
    const uint8_t behind[] = {1, 1, 1};
    const uint8_t many[] = {0x81, 0x02, 0, 1}; // 257
    const uint8_t bare[] = {1, 0};
    assert_int_equal(wire_answer_parse(none, sizeof(none), &back), BASE_ERR_INVALID);
    assert_int_equal(wire_answer_parse(behind, sizeof(behind), &back), BASE_ERR_INVALID);
    assert_int_equal(wire_answer_parse(many, sizeof(many), &back), BASE_ERR_INVALID);
    assert_int_equal(wire_answer_parse(bare, sizeof(bare), &back), BASE_ERR_INVALID);
    // The longest answer on the longest path fits its envelope.
    grow(&grove, WIRE_ANSWERS_MAX);
    answer = answer_of(&grove, WIRE_ANSWERS_MAX - 1);
    answer.director = (struct base_span){large, WIRE_STATEMENT_BYTES_MAX - 104};
    struct wire_envelope envelope = {
        .type = WIRE_ENVELOPE_TYPE_ANSWER, .payload = out, .signature_count = 1};
    uint8_t sealed[WIRE_ANSWER_BYTES_MAX];
    assert_int_equal(wire_answer_encode(&answer, out, sizeof(out), &envelope.payload_bytes),
                     BASE_OK);
    assert_int_equal(wire_envelope_encode(&envelope, sealed, sizeof(sealed), &size), BASE_OK);
    assert_true(wire_envelope_is_director(sealed, size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_leaf_leads_to_what_was_signed),
        cmocka_unit_test(nothing_that_was_bent_does),
        cmocka_unit_test(a_node_is_no_leaf),
        cmocka_unit_test(limits_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
