// Exclusive files: exclusive manifests, the tree over them, proofs and lists. The tree is compared
// with its recursive definition in RFC 6962 (2.1), written here anew over OpenSSL's SHA-256.
#include "wire_damage.h"
#include "wire_samples.h"

#include <openssl/sha.h>

#define COUNT_MAX 300u

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    (void)ctx;
    assert_non_null(SHA256(bytes, size, out->bytes));
}

static const struct wire_hasher hasher = {.sha256 = hash};

// ---- The definition

static struct wire_sha256 oracle_root(const struct wire_sha256 *leaves, uint32_t count)
{
    if (count == 1) {
        return leaves[0];
    }
    uint32_t split = 1;
    while (split * 2 < count) {
        split *= 2;
    }
    uint8_t bytes[65] = {1};
    struct wire_sha256 left = oracle_root(leaves, split);
    struct wire_sha256 right = oracle_root(leaves + split, count - split);
    struct wire_sha256 out;
    memcpy(bytes + 1, left.bytes, 32);
    memcpy(bytes + 33, right.bytes, 32);
    hash(NULL, bytes, sizeof(bytes), &out);
    return out;
}

// Appends the path, lowest first.
static uint32_t oracle_path(const struct wire_sha256 *leaves, uint32_t count, uint32_t index,
                            struct wire_sha256 *out)
{
    if (count == 1) {
        return 0;
    }
    uint32_t split = 1;
    while (split * 2 < count) {
        split *= 2;
    }
    bool left = index < split;
    uint32_t used = left ? oracle_path(leaves, split, index, out)
                         : oracle_path(leaves + split, count - split, index - split, out);
    out[used] = left ? oracle_root(leaves + split, count - split) : oracle_root(leaves, split);
    return used + 1;
}

static void tree_is_the_definition(void **state)
{
    (void)state;
    static struct wire_sha256 nodes[2 * COUNT_MAX + 20];
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t count = 1; count <= COUNT_MAX; count += count < 70 ? 1 : 23) {
        size_t size = wire_tree_nodes(count);
        assert_true(size <= TEST_COUNT(nodes));
        for (uint32_t i = 0; i < count; i++) {
            nodes[i] = wire_sample_sha(&prng);
        }
        wire_tree_build(&hasher, nodes, count);
        struct wire_sha256 root = oracle_root(nodes, count);
        assert_memory_equal(root.bytes, nodes[size - 1].bytes, 32);
        for (uint32_t index = 0; index < count; index++) {
            struct wire_sha256 path[WIRE_TREE_PATH_MAX];
            struct wire_sha256 wanted[WIRE_TREE_PATH_MAX];
            uint32_t used = wire_tree_path(nodes, count, index, path);
            assert_int_equal(used, oracle_path(nodes, count, index, wanted));
            assert_memory_equal(path, wanted, used * sizeof(path[0]));
            assert_int_equal(wire_tree_verify(&hasher, &nodes[index],
                                              &(struct wire_tree_way){count, index, path, used},
                                              &root),
                             BASE_OK);
        }
    }
}

static void nothing_else_verifies(void **state)
{
    (void)state;
    static struct wire_sha256 nodes[2 * COUNT_MAX + 20];
    struct wire_sha256 path[WIRE_TREE_PATH_MAX];
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t count = 2; count < 40; count++) {
        for (uint32_t i = 0; i < count; i++) {
            nodes[i] = wire_sample_sha(&prng);
        }
        wire_tree_build(&hasher, nodes, count);
        const struct wire_sha256 *root = &nodes[wire_tree_nodes(count) - 1];
        uint32_t index = (uint32_t)base_prng_below(&prng, count);
        uint32_t used = wire_tree_path(nodes, count, index, path);
        for (uint32_t other = 0; other < count; other++) {
            enum base_status leaf = wire_tree_verify(
                &hasher, &nodes[other], &(struct wire_tree_way){count, index, path, used}, root);
            assert_int_equal(leaf, other == index ? BASE_OK : BASE_ERR_HASH);
            if (other != index) { // the right leaf in another's place
                assert_int_not_equal(
                    wire_tree_verify(&hasher, &nodes[index],
                                     &(struct wire_tree_way){count, other, path, used}, root),
                    BASE_OK);
            }
        }
        for (uint32_t i = 0; i < used; i++) {
            path[i].bytes[i] ^= 4;
            assert_int_equal(wire_tree_verify(&hasher, &nodes[index],
                                              &(struct wire_tree_way){count, index, path, used},
                                              root),
                             BASE_ERR_HASH);
            path[i].bytes[i] ^= 4;
        }
        assert_int_equal(wire_tree_verify(&hasher, &nodes[index],
                                          &(struct wire_tree_way){count, index, path, used - 1},
                                          root),
                         BASE_ERR_INVALID);
        assert_int_equal(wire_tree_verify(&hasher, &nodes[index],
                                          &(struct wire_tree_way){count, count, path, used}, root),
                         BASE_ERR_INVALID);
    }
    assert_int_equal(
        wire_tree_verify(&hasher, &nodes[0], &(struct wire_tree_way){0, 0, path, 0}, &nodes[0]),
        BASE_ERR_INVALID);
    assert_int_equal(wire_tree_path(NULL, WIRE_TREE_LEAVES_MAX, 0, NULL), WIRE_TREE_PATH_MAX);
}

// ---- Exclusive manifests

static struct wire_exclusive_files plain(void)
{
    struct wire_exclusive_files exclusive = {.file_count = 2};
    exclusive.files[0] = (struct wire_manifest_file){
        .kind = WIRE_FILE_SCRIPT, .name = BASE_STR("a/me.mpy"), .bytes = 7};
    exclusive.files[1] =
        (struct wire_manifest_file){.kind = WIRE_FILE_MODEL, .name = BASE_STR("me.onnx")};
    return exclusive;
}

static void exclusive_manifests_have_rules(void **state)
{
    (void)state;
    uint8_t bytes[WIRE_EXCLUSIVE_BYTES_MAX];
    size_t size = 0;
    struct wire_exclusive_files exclusive = plain();
    assert_int_equal(wire_exclusive_encode(&exclusive, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, 5 + (1 + 9 + 1 + 32) + (1 + 8 + 1 + 32));
    struct wire_exclusive_files back;
    assert_int_equal(wire_exclusive_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.file_count, 2);
    assert_true(base_str_equal(back.files[1].name, BASE_STR("me.onnx")));
    exclusive.files[1].name = BASE_STR("a/me.mpy"); // doubled
    assert_int_equal(wire_exclusive_encode(&exclusive, bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID);
    exclusive.files[1].name = BASE_STR("a/me"); // order
    assert_int_equal(wire_exclusive_encode(&exclusive, bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID);
    exclusive.files[1].name = BASE_STR("b/../c");
    assert_int_equal(wire_exclusive_encode(&exclusive, bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID);
    exclusive.file_count = 0;
    assert_int_equal(wire_exclusive_encode(&exclusive, bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID);
    exclusive.file_count = WIRE_EXCLUSIVE_FILES_MAX + 1;
    assert_int_equal(wire_exclusive_encode(&exclusive, bytes, sizeof bytes, &size),
                     BASE_ERR_TOO_LARGE);
    static const uint8_t many[] = {'W', 'L', 'X', '1', WIRE_EXCLUSIVE_FILES_MAX + 1};
    assert_int_equal(wire_exclusive_parse(many, sizeof many, &back), BASE_ERR_TOO_LARGE);
    static const uint8_t other[] = {'W', 'L', 'M', '2', 1};
    assert_int_equal(wire_exclusive_parse(other, sizeof other, &back), BASE_ERR_UNSUPPORTED);
}

static void the_largest_exclusive_manifest_fits(void **state)
{
    (void)state;
    static uint8_t bytes[WIRE_EXCLUSIVE_BYTES_MAX];
    static char names[WIRE_EXCLUSIVE_FILES_MAX][WIRE_FILE_NAME_MAX];
    struct wire_exclusive_files exclusive = {.file_count = WIRE_EXCLUSIVE_FILES_MAX};
    size_t size = 0;
    for (uint32_t i = 0; i < WIRE_EXCLUSIVE_FILES_MAX; i++) {
        memset(names[i], 'x', sizeof names[i]);
        names[i][0] = (char)('a' + i);
        exclusive.files[i] = (struct wire_manifest_file){
            .kind = WIRE_FILE_DATA, .name = {names[i], sizeof names[i]}, .bytes = 1u << 30};
    }
    assert_int_equal(wire_exclusive_encode(&exclusive, bytes, sizeof bytes, &size), BASE_OK);
}

static void names_clash_with_the_manifest(void **state)
{
    (void)state;
    static struct wire_manifest manifest;
    struct wire_exclusive_files exclusive = plain();
    manifest.file_count = 1;
    manifest.files[0].name = BASE_STR("me.mpy");
    assert_null(wire_exclusive_clash(&exclusive, &manifest));
    manifest.files[0].name = BASE_STR("me.onnx");
    assert_ptr_equal(wire_exclusive_clash(&exclusive, &manifest), &exclusive.files[1]);
}

static void subjects(void **state)
{
    (void)state;
    static const struct {
        enum wire_subject_kind kind;
        const char *subject;
        bool ok;
    } rows[] = {
        {WIRE_SUBJECT_DEVICE, "00000000000004d2", true},
        {WIRE_SUBJECT_DEVICE, "00000000000004D2", false},
        {WIRE_SUBJECT_DEVICE, "4d2", false},
        {WIRE_SUBJECT_DEVICE, "ana", false},
        {WIRE_SUBJECT_USER, "ana", true},
        {WIRE_SUBJECT_USER, "00000000000004d2", true},
        {WIRE_SUBJECT_USER, "Ana.B_c+d-e@example.org", true},
        {WIRE_SUBJECT_USER, "", false},
        {WIRE_SUBJECT_USER, "..", false},
        {WIRE_SUBJECT_USER, "-ana", false},
        {WIRE_SUBJECT_USER, "a/b", false},
        {WIRE_SUBJECT_USER, "a b", false},
        {WIRE_SUBJECT_USER, "\xc3\xa4", false},
        {(enum wire_subject_kind)3, "ana", false},
        {(enum wire_subject_kind)0, "ana", false},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        if (wire_subject_ok(rows[i].kind, base_str_of(rows[i].subject)) != rows[i].ok) {
            fail_msg("kind %d '%s'", (int)rows[i].kind, rows[i].subject);
        }
    }
    char longest[WIRE_SUBJECT_MAX + 1];
    memset(longest, 'u', sizeof longest);
    assert_true(wire_user_ok((struct base_str){longest, WIRE_SUBJECT_MAX}));
    assert_false(wire_user_ok((struct base_str){longest, WIRE_SUBJECT_MAX + 1}));
}

// ---- Lists and proofs

struct tree {
    uint32_t count;
    char subjects[COUNT_MAX][WIRE_SUBJECT_MAX];
    struct wire_entry entries[COUNT_MAX];
    struct wire_sha256 nodes[2 * COUNT_MAX + 20];
};

static void make_tree(struct base_prng *prng, struct tree *tree, uint32_t count)
{
    tree->count = count;
    for (uint32_t i = 0; i < count; i++) {
        bool device = i < count / 2;
        int size = snprintf(tree->subjects[i], WIRE_SUBJECT_MAX, device ? "%016x" : "user%04u", i);
        tree->entries[i] = (struct wire_entry){
            .kind = device ? WIRE_SUBJECT_DEVICE : WIRE_SUBJECT_USER,
            .subject = {tree->subjects[i], (size_t)size},
            .exclusive = wire_sample_sha(prng),
            .bytes = 1 + (uint32_t)base_prng_below(prng, WIRE_EXCLUSIVE_BYTES_MAX),
        };
        wire_entry_leaf(&hasher, &tree->entries[i], &tree->nodes[i]);
    }
    wire_tree_build(&hasher, tree->nodes, count);
}

static struct wire_proof make_proof(const struct tree *tree, uint32_t index)
{
    struct wire_proof proof = {
        .entry = tree->entries[index], .leaf_count = tree->count, .index = index};
    proof.path_count = wire_tree_path(tree->nodes, tree->count, index, proof.path);
    return proof;
}

static void proofs_round_trip_and_survive_damage(void **state)
{
    (void)state;
    static struct tree tree;
    struct base_prng prng;
    uint8_t bytes[WIRE_PROOF_BYTES_MAX];
    test_seed(&prng);
    for (uint32_t count = 1; count <= COUNT_MAX; count += 13) {
        make_tree(&prng, &tree, count);
        const struct wire_sha256 *root = &tree.nodes[wire_tree_nodes(count) - 1];
        uint32_t index = (uint32_t)base_prng_below(&prng, count);
        struct wire_proof proof = make_proof(&tree, index);
        struct wire_proof back;
        size_t size = 0;
        assert_int_equal(wire_proof_encode(&proof, bytes, sizeof bytes, &size), BASE_OK);
        assert_int_equal(wire_proof_parse(bytes, size, &back), BASE_OK);
        assert_int_equal(wire_proof_verify(&back, &hasher, root), BASE_OK);
        wire_damage(&prng, bytes, size, wire_check_proof);
        // One bit anywhere but in the numbers, which only say where the path turns: no leaf that is
        // not in the tree verifies.
        for (size_t bit = 8; bit < size * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (wire_proof_parse(bytes, size, &back) == BASE_OK &&
                wire_proof_verify(&back, &hasher, root) == BASE_OK) {
                assert_int_equal(wire_entry_order(&back.entry, &proof.entry), 0);
                assert_memory_equal(back.entry.exclusive.bytes, proof.entry.exclusive.bytes, 32);
                assert_int_equal(back.entry.bytes, proof.entry.bytes);
                assert_memory_equal(back.path, proof.path, proof.path_count * sizeof(back.path[0]));
            }
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

static size_t make_list(const struct tree *tree, uint8_t *bytes, size_t capacity)
{
    struct base_writer writer;
    base_writer_init(&writer, bytes, capacity);
    wire_entry_list_head(&writer, tree->count);
    for (uint32_t i = 0; i < tree->count; i++) {
        wire_entry_write(&writer, &tree->entries[i]);
    }
    assert_int_equal(writer.status, BASE_OK);
    return base_writer_size(&writer);
}

static void lists_round_trip_and_are_in_order(void **state)
{
    (void)state;
    static struct tree tree;
    static uint8_t bytes[64 * 1024];
    struct base_prng prng;
    test_seed(&prng);
    make_tree(&prng, &tree, COUNT_MAX);
    assert_int_equal(wire_check_entry_list(bytes, make_list(&tree, bytes, sizeof bytes)), BASE_OK);
    make_tree(&prng, &tree, 9);
    wire_damage(&prng, bytes, make_list(&tree, bytes, sizeof bytes), wire_check_entry_list);
    tree.entries[3].subject = tree.entries[2].subject; // doubled
    assert_int_equal(wire_check_entry_list(bytes, make_list(&tree, bytes, sizeof bytes)),
                     BASE_ERR_INVALID);
    make_tree(&prng, &tree, 9);
    tree.entries[8] = tree.entries[0]; // a device behind users
    assert_int_equal(wire_check_entry_list(bytes, make_list(&tree, bytes, sizeof bytes)),
                     BASE_ERR_INVALID);
    tree.count = 0;
    assert_int_equal(wire_check_entry_list(bytes, make_list(&tree, bytes, sizeof bytes)),
                     BASE_ERR_INVALID);
    static const uint8_t many[] = {'W', 'L', 'X', 'L', 0xa1, 0x8d, 0x06}; // 100,001
    assert_int_equal(wire_check_entry_list(many, sizeof many), BASE_ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_is_the_definition),
        cmocka_unit_test(nothing_else_verifies),
        cmocka_unit_test(exclusive_manifests_have_rules),
        cmocka_unit_test(the_largest_exclusive_manifest_fits),
        cmocka_unit_test(names_clash_with_the_manifest),
        cmocka_unit_test(subjects),
        cmocka_unit_test(proofs_round_trip_and_survive_damage),
        cmocka_unit_test(lists_round_trip_and_are_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
