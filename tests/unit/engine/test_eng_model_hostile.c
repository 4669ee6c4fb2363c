// Models made to hurt: each must end in an error that says what is wrong, soon and in little
// memory; none may crash, hang or leak.
#include "test_kit.h"

#include "base/clock.h"
#include "model_rig.h"

#include <sys/stat.h>
#include <unistd.h>

static const int64_t shape23[] = {2, 3};

// What a refused model may have taken from its arena: structure in proportion to the file.
#define ARENA_BYTES_MAX ((size_t)1 << 20)

static void refuse_in(struct base_buffer model, const char *folder, enum base_status expected,
                      const char *part)
{
    struct rig rig;
    uint64_t start_us = base_clock_mono_us();
    enum base_status status = rig_read(&rig, model, folder);
    uint64_t us = base_clock_mono_us() - start_us;
    print_message("%llu us: %s\n", (unsigned long long)us, rig.error.text);
    assert_int_equal(status, expected);
    assert_int_equal(rig.error.status, expected);
    if (strstr(rig.error.text, part) == NULL) {
        fail_msg("'%s' does not say '%s'", rig.error.text, part);
    }
    assert_in_range(rig.model.arena.used_bytes, 0, ARENA_BYTES_MAX);
    rig_done(&rig);
}

static void refuse(struct base_buffer model, enum base_status expected, const char *part)
{
    refuse_in(model, NULL, expected, part);
}

// A graph x -> y around what a case adds.
static struct base_buffer graph_of(struct base_buffer node)
{
    struct base_buffer graph = ob_new();
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, shape23));
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, shape23));
    return graph;
}

static struct base_buffer model_of(struct base_buffer node)
{
    return ob_model(8, 13, graph_of(node));
}

static struct base_buffer with_weights(struct base_buffer tensor)
{
    struct base_buffer graph = graph_of(ob_node("Add", "add", "x,w", "y"));
    ob_take(&graph, OB_GRAPH_INITIALIZER, tensor);
    return ob_model(8, 13, graph);
}

static void cycles_are_found(void **state)
{
    (void)state;
    refuse(model_of(ob_node("Add", "self", "x,y", "y")), BASE_ERR_INVALID, "node 'self'");

    struct base_buffer graph = graph_of(ob_node("Add", "tail", "c,x", "y"));
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Add", "one", "x,c", "a"));
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Relu", "two", "a", "b"));
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Relu", "three", "b", "c"));
    struct rig rig;
    assert_int_equal(rig_read(&rig, ob_model(8, 13, graph), NULL), BASE_ERR_INVALID);
    // The tail waits for the cycle but is not on it.
    assert_null(strstr(rig.error.text, "'tail'"));
    assert_non_null(strstr(rig.error.text, "cycle"));
    rig_done(&rig);

    // Through a subgraph that captures what its own node computes.
    struct base_buffer inner = ob_new();
    ob_take(&inner, OB_GRAPH_NODE, ob_node("Relu", "", "y", "r"));
    ob_take(&inner, OB_GRAPH_OUTPUT, ob_value("r", ENG_F32, 2, shape23));
    struct base_buffer node = ob_node("If", "loop", "x", "y");
    ob_attr_graph(&node, "then_branch", inner);
    refuse(model_of(node), BASE_ERR_INVALID, "node 'loop'");
}

static void names_are_unique_and_known(void **state)
{
    (void)state;
    refuse(model_of(ob_node("Relu", "n", "x", "x")), BASE_ERR_INVALID, "'x'");
    struct base_buffer graph = graph_of(ob_node("Relu", "a", "x", "y"));
    ob_take(&graph, OB_GRAPH_NODE, ob_node("Relu", "b", "x", "y"));
    refuse(ob_model(8, 13, graph), BASE_ERR_INVALID, "node 'b'");
    refuse(model_of(ob_node("Relu", "n", "nowhere", "y")), BASE_ERR_INVALID, "'nowhere'");
    refuse(model_of(ob_node("Relu", "n", "x", "z")), BASE_ERR_INVALID, "output 'y'");
    graph = graph_of(ob_node("Relu", "n", "x", "y"));
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 0, NULL));
    refuse(ob_model(8, 13, graph), BASE_ERR_INVALID, "two inputs");
    graph = graph_of(ob_node("Add", "n", "x,w", "y"));
    for (uint32_t i = 0; i < 2; i++) {
        ob_take(&graph, OB_GRAPH_INITIALIZER, ob_raw_tensor("w", ENG_F32, 0, NULL, "abcd", 4));
    }
    refuse(ob_model(8, 13, graph), BASE_ERR_INVALID, "two initializers");

    char longest[ENG_NAME_BYTES_MAX + 2];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    refuse(model_of(ob_node("Relu", longest, "x", "y")), BASE_ERR_TOO_LARGE, "name");
    struct base_buffer node = ob_node("Relu", "n", "x", "y");
    ob_bytes(&node, OB_NODE_INPUT, "a\0b", 3);
    refuse(model_of(node), BASE_ERR_INVALID, "NUL");
}

static void impossible_tensors_are_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t dims[3];
        uint32_t rank;
        enum base_status status;
    } cases[] = {
        {{(int64_t)1 << 40}, 1, BASE_ERR_INVALID}, // allowed as such, but the elements are missing
        {{((int64_t)1 << 40) + 1}, 1, BASE_ERR_OVERFLOW},
        {{INT64_MAX, INT64_MAX, 2}, 3, BASE_ERR_OVERFLOW},
        {{(int64_t)1 << 32, (int64_t)1 << 32}, 2, BASE_ERR_OVERFLOW},
        {{-1, 4}, 2, BASE_ERR_INVALID},
        {{0, INT64_MAX, INT64_MAX}, 3, BASE_ERR_OVERFLOW},
        {{3}, 1, BASE_ERR_INVALID},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        refuse(
            with_weights(ob_raw_tensor("w", ENG_F32, cases[i].rank, cases[i].dims, "12345678", 8)),
            cases[i].status, "'w'");
        refuse(with_weights(ob_tensor("w", ENG_I64, cases[i].rank, cases[i].dims)), cases[i].status,
               "'w'");
        refuse(with_weights(ob_tensor("w", ENG_STRING, cases[i].rank, cases[i].dims)),
               cases[i].status, "'w'");
    }
    const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    refuse(with_weights(ob_tensor("w", ENG_F32, 9, nine)), BASE_ERR_UNSUPPORTED, "dimensions");
    refuse(with_weights(ob_tensor("w", (enum eng_dtype)99, 0, NULL)), BASE_ERR_UNSUPPORTED, "type");
    refuse(with_weights(ob_tensor("w", ENG_UNDEFINED, 0, NULL)), BASE_ERR_UNSUPPORTED, "type");
    refuse(with_weights(ob_raw_tensor("w", ENG_STRING, 0, NULL, "x", 1)), BASE_ERR_INVALID, "raw");
    struct base_buffer many = ob_tensor("w", ENG_I64, 0, NULL);
    ob_number(&many, OB_TENSOR_INT64S, 1);
    ob_number(&many, OB_TENSOR_INT64S, 2);
    refuse(with_weights(many), BASE_ERR_INVALID, "number of elements");
    struct base_buffer odd = ob_tensor("w", ENG_F32, 1, (const int64_t[]){2});
    ob_bytes(&odd, OB_TENSOR_FLOATS, "1234567", 7);
    refuse(with_weights(odd), BASE_ERR_TRUNCATED, "elements");
}

static struct base_buffer external(const char *location, const char *offset, const char *length)
{
    struct base_buffer tensor = ob_tensor("w", ENG_F32, 1, (const int64_t[]){4});
    const char *const entries[3][2] = {
        {"location", location}, {"offset", offset}, {"length", length}};
    for (uint32_t i = 0; i < 3; i++) {
        if (entries[i][1] != NULL) {
            struct base_buffer entry = ob_new();
            ob_text(&entry, 1, entries[i][0]);
            ob_text(&entry, 2, entries[i][1]);
            ob_take(&tensor, OB_TENSOR_EXTERNAL, entry);
        }
    }
    ob_number(&tensor, OB_TENSOR_LOCATION, 1);
    return with_weights(tensor);
}

static void external_data_stays_in_its_folder(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_eng_hostile_XXXXXX";
    assert_non_null(mkdtemp(folder));
    char inside[160], file_path[160], link_path[160], pipe_path[160], secret[160];
    (void)snprintf(inside, sizeof(inside), "%s/model", folder);
    (void)snprintf(file_path, sizeof(file_path), "%s/model/w.bin", folder);
    (void)snprintf(link_path, sizeof(link_path), "%s/model/link.bin", folder);
    (void)snprintf(pipe_path, sizeof(pipe_path), "%s/model/pipe.bin", folder);
    (void)snprintf(secret, sizeof(secret), "%s/secret.bin", folder);
    assert_int_equal(mkdir(inside, 0700), 0);
    const char *const files[] = {file_path, secret};
    for (size_t i = 0; i < 2; i++) {
        FILE *file = fopen(files[i], "wb");
        assert_non_null(file);
        assert_int_equal(fwrite("0123456789abcdef", 1, 16, file), 16);
        assert_int_equal(fclose(file), 0);
    }
    assert_int_equal(symlink(secret, link_path), 0);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);

    static const struct {
        const char *location, *offset, *length;
        enum base_status status;
        const char *part;
    } cases[] = {
        {"../secret.bin", NULL, NULL, BASE_ERR_INVALID, "below"},
        {"./../secret.bin", NULL, NULL, BASE_ERR_INVALID, "below"},
        {"a/../../secret.bin", NULL, NULL, BASE_ERR_INVALID, "below"},
        {"..", NULL, NULL, BASE_ERR_INVALID, "below"},
        {"/etc/passwd", NULL, NULL, BASE_ERR_INVALID, "below"},
        {"", NULL, NULL, BASE_ERR_INVALID, "location"},
        {NULL, NULL, NULL, BASE_ERR_INVALID, "location"},
        {"link.bin", NULL, NULL, BASE_ERR_IO, "symbolic link"},
        {"pipe.bin", NULL, NULL, BASE_ERR_IO, "regular"},
        {".", NULL, NULL, BASE_ERR_IO, "regular"},
        {"missing.bin", NULL, NULL, BASE_ERR_IO, "missing.bin"},
        {"w.bin/x", NULL, NULL, BASE_ERR_IO, "w.bin/x"},
        {"w.bin", "1", NULL, BASE_ERR_TRUNCATED, "ends before"},
        {"w.bin", "18446744073709551615", NULL, BASE_ERR_TRUNCATED, "ends before"},
        {"w.bin", "18446744073709551616", NULL, BASE_ERR_OVERFLOW, "field 13"},
        {"w.bin", "-4", NULL, BASE_ERR_INVALID, "field 13"},
        {"w.bin", "0", "15", BASE_ERR_INVALID, "length"},
        {"w.bin", "0", "18446744073709551615", BASE_ERR_INVALID, "length"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        refuse_in(external(cases[i].location, cases[i].offset, cases[i].length), inside,
                  cases[i].status, cases[i].part);
    }
    refuse(external("w.bin", NULL, NULL), BASE_ERR_INVALID, "no folder");
    // Overlapping pieces of one file are read only: nothing is wrong with them.
    struct rig rig;
    assert_int_equal(rig_read(&rig, external("w.bin", "0", "16"), inside), BASE_OK);
    rig_done(&rig);

    const char *const paths[] = {file_path, link_path, pipe_path, secret};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(unlink(paths[i]), 0);
    }
    assert_int_equal(rmdir(inside), 0);
    assert_int_equal(rmdir(folder), 0);
}

static struct base_buffer nested_graphs(uint32_t depth)
{
    struct base_buffer graph = graph_of(ob_node("Relu", "leaf", "x", "y"));
    for (uint32_t i = 0; i < depth; i++) {
        struct base_buffer node = ob_node("If", "level", "x", "y");
        ob_attr_graph(&node, "then_branch", graph);
        graph = graph_of(node);
    }
    return ob_model(8, 13, graph);
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    struct rig rig;
    assert_int_equal(rig_read(&rig, nested_graphs(ENG_GRAPH_DEPTH_MAX), NULL), BASE_OK);
    rig_done(&rig);
    refuse(nested_graphs(ENG_GRAPH_DEPTH_MAX + 1), BASE_ERR_TOO_LARGE, "nested too deep");
    refuse(nested_graphs(2000), BASE_ERR_TOO_LARGE, "nested too deep");

    // A type that is a sequence of sequences of sequences...
    struct base_buffer type = ob_new();
    for (uint32_t i = 0; i < 2000; i++) {
        struct base_buffer sequence = ob_new();
        ob_take(&sequence, 1, type);
        type = ob_new();
        ob_take(&type, 4, sequence);
    }
    struct base_buffer value = ob_new();
    ob_text(&value, 1, "x");
    ob_take(&value, 2, type);
    struct base_buffer graph = ob_new();
    ob_take(&graph, OB_GRAPH_INPUT, value);
    refuse(ob_model(8, 13, graph), BASE_ERR_TOO_LARGE, "nested too deep");
}

static void versions_are_checked(void **state)
{
    (void)state;
    static const int64_t irs[] = {0, 1, 2, 11, 1000, -1};
    for (size_t i = 0; i < TEST_COUNT(irs); i++) {
        refuse(ob_model(irs[i], 13, graph_of(ob_node("Relu", "n", "x", "y"))), BASE_ERR_UNSUPPORTED,
               "IR version");
    }
    static const int64_t opsets[] = {0, -5, 23, INT64_MAX};
    for (size_t i = 0; i < TEST_COUNT(opsets); i++) {
        refuse(ob_model(8, opsets[i], graph_of(ob_node("Relu", "n", "x", "y"))),
               BASE_ERR_UNSUPPORTED, "opset");
    }
    struct base_buffer node = ob_node("Relu", "n", "x", "y");
    ob_text(&node, OB_NODE_DOMAIN, "com.example");
    refuse(model_of(node), BASE_ERR_INVALID, "domain 'com.example'");
}

static void other_features_are_named(void **state)
{
    (void)state;
    struct base_buffer graph = graph_of(ob_node("Relu", "n", "x", "y"));
    ob_take(&graph, OB_GRAPH_SPARSE, ob_new());
    refuse(ob_model(8, 13, graph), BASE_ERR_UNSUPPORTED, "sparse");

    struct base_buffer model = model_of(ob_node("UnknownMine", "n", "x", "y"));
    struct base_buffer function = ob_new();
    ob_text(&function, 1, "UnknownMine");
    ob_take(&model, OB_MODEL_FUNCTION, function);
    refuse(model, BASE_ERR_UNSUPPORTED, "functions defined in the model");

    struct base_buffer node = ob_node("Relu", "n", "x", "y");
    struct base_buffer attr = ob_new();
    ob_text(&attr, OB_ATTR_NAME, "g");
    ob_number(&attr, OB_ATTR_TYPE, 5);
    ob_take(&node, OB_NODE_ATTR, attr);
    refuse(model_of(node), BASE_ERR_INVALID, "has no graph");

    node = ob_node("Relu", "n", "x", "y");
    ob_attr_int(&node, "twice", 1);
    ob_attr_int(&node, "twice", 2);
    refuse(model_of(node), BASE_ERR_INVALID, "occurs twice");
}

static void broken_wire_formats_are_refused(void **state)
{
    (void)state;
    refuse(ob_new(), BASE_ERR_INVALID, "no graph");
    struct base_buffer two = model_of(ob_node("Relu", "n", "x", "y"));
    ob_take(&two, OB_MODEL_GRAPH, graph_of(ob_node("Relu", "n", "x", "y")));
    refuse(two, BASE_ERR_INVALID, "twice");
    static const struct {
        const char *bytes;
        size_t size;
        enum base_status status;
    } cases[] = {
        {"\x3b", 1, BASE_ERR_INVALID},                                            // a group
        {"\x3a\x05", 2, BASE_ERR_TRUNCATED},                                      // 5 bytes missing
        {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, BASE_ERR_TRUNCATED}, // 2^64 - 1 bytes
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, BASE_ERR_INVALID},
        {"\x00\x00", 2, BASE_ERR_INVALID}, // field number 0
        {"\x38\x01", 2, BASE_ERR_INVALID}, // the graph as a number
        {"\x3d\1\2\3\4", 5, BASE_ERR_INVALID},
        {"\x3a\x02\x08\x01", 4, BASE_ERR_INVALID}, // a node as a number
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct base_buffer bytes = ob_new();
        ob_add(&bytes, cases[i].bytes, cases[i].size);
        refuse(bytes, cases[i].status, "");
    }
}

// Two bytes of file for each empty node; the limit is on their number.
static void masses_of_empty_nodes_are_bounded(void **state)
{
    (void)state;
    struct base_buffer graph = ob_new();
    for (uint32_t i = 0; i < ENG_SCAN_NODES_MAX + 1; i++) {
        ob_add(&graph, "\x0a", 2);
    }
    refuse(ob_model(8, 13, graph), BASE_ERR_TOO_LARGE, "too many nodes");
}

static struct base_buffer good_model(void)
{
    struct base_buffer inner = ob_new();
    ob_take(&inner, OB_GRAPH_NODE, ob_node("Relu", "inside", "late", "r"));
    ob_take(&inner, OB_GRAPH_OUTPUT, ob_value("r", ENG_F32, 2, shape23));
    struct base_buffer node = ob_node("If", "choice", "x", "y");
    ob_attr_graph(&node, "then_branch", inner);
    struct base_buffer graph = graph_of(node);
    struct base_buffer conv = ob_node("Conv", "conv", "x,w", "late");
    ob_attr_int(&conv, "group", 1);
    ob_attr_float(&conv, "alpha", 1.5F);
    ob_take(&graph, OB_GRAPH_NODE, conv);
    ob_take(&graph, OB_GRAPH_INITIALIZER,
            ob_raw_tensor("w", ENG_F32, 2, shape23, "123456789012345678901234", 24));
    struct base_buffer constant = ob_node("Constant", "c", "", "unused");
    ob_attr_tensor(&constant, "value",
                   ob_raw_tensor("", ENG_I64, 1, (const int64_t[]){1}, "12345678", 8));
    ob_take(&graph, OB_GRAPH_NODE, constant);
    return ob_model(8, 13, graph);
}

static void every_prefix_ends_somehow(void **state)
{
    (void)state;
    struct base_buffer whole = good_model();
    for (size_t size = 0; size <= whole.size; size++) {
        struct base_buffer part = whole;
        part.size = size;
        struct rig rig;
        enum base_status status = rig_read_at(&rig, &part, NULL, 0);
        assert_true((status == BASE_OK) == (size == whole.size));
        rig_done(&rig);
    }
    base_buffer_done(&whole);
}

static void random_damage_ends_somehow(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    struct base_buffer whole = good_model();
    uint32_t read = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        struct base_buffer damaged = ob_new();
        ob_add(&damaged, whole.data, whole.size);
        for (uint64_t hits = 1 + base_prng_below(&prng, 3); hits > 0; hits--) {
            damaged.data[base_prng_below(&prng, damaged.size)] = (uint8_t)base_prng_next(&prng);
        }
        struct rig rig;
        read += rig_read(&rig, damaged, NULL) == BASE_OK ? 1 : 0;
        rig_done(&rig);
    }
    print_message("%u of 20000 damaged models still are models\n", read);
    base_buffer_done(&whole);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct base_buffer bytes = good_model();
    enum base_status status = BASE_ERR_NOMEM;
    size_t allowed = 0;
    for (; status != BASE_OK; allowed++) {
        assert_true(allowed < 10000);
        struct test_alloc alloc;
        test_alloc_init(&alloc, allowed);
        struct eng_model model = {0};
        struct base_error error = {0};
        base_arena_init(&model.arena, &alloc.port, 64, 0);
        const struct eng_read_options options = {
            .bytes = bytes.data, .size = bytes.size, .find_op = rig_find, .alloc = &alloc.port};
        status = eng_onnx_read(&model, &options, &error);
        // protobuf-c does not tell want of memory from bad input.
        assert_true(status == BASE_OK || status == BASE_ERR_NOMEM || status == BASE_ERR_INVALID);
        base_arena_done(&model.arena);
        assert_int_equal(alloc.live, 0);
    }
    print_message("%zu allocations\n", allowed);
    assert_true(allowed > 10);
    base_buffer_done(&bytes);
}

struct patience {
    uint32_t left; // looks that go well
    uint32_t looks;
};

static enum base_status patient(const void *ctx, struct base_error *error)
{
    struct patience *patience = (struct patience *)(uintptr_t)ctx;
    patience->looks++;
    return patience->looks <= patience->left
               ? BASE_OK
               : base_error_set(error, BASE_ERR_TIMEOUT, "no patience");
}

// Wherever the caller ends a load it ends there: with what the caller said, and nothing kept.
static void every_look_may_end_the_load(void **state)
{
    (void)state;
    struct base_buffer bytes = good_model();
    enum base_status status = BASE_ERR_TIMEOUT;
    uint32_t left = 0;
    for (; status != BASE_OK; left++) {
        assert_true(left < 10000);
        struct test_alloc alloc;
        test_alloc_init(&alloc, SIZE_MAX);
        struct eng_model model = {0};
        struct base_error error = {0};
        struct patience patience = {.left = left};
        const struct eng_look look = {&patience, patient};
        base_arena_init(&model.arena, &alloc.port, 64, 0);
        const struct eng_read_options options = {.bytes = bytes.data,
                                                 .size = bytes.size,
                                                 .find_op = rig_find,
                                                 .alloc = &alloc.port,
                                                 .look = &look};
        status = eng_onnx_read(&model, &options, &error);
        if (status != BASE_OK) {
            assert_int_equal(status, BASE_ERR_TIMEOUT);
            assert_string_equal(error.text, "no patience");
            assert_int_equal(patience.looks, left + 1); // and nobody goes on
        }
        base_arena_done(&model.arena);
        assert_int_equal(alloc.live, 0);
    }
    print_message("%u looks\n", left);
    assert_true(left > 20); // nodes, tensors, and what protobuf-c makes of them
    base_buffer_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cycles_are_found),
        cmocka_unit_test(names_are_unique_and_known),
        cmocka_unit_test(impossible_tensors_are_refused),
        cmocka_unit_test(external_data_stays_in_its_folder),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(versions_are_checked),
        cmocka_unit_test(other_features_are_named),
        cmocka_unit_test(broken_wire_formats_are_refused),
        cmocka_unit_test(masses_of_empty_nodes_are_bounded),
        cmocka_unit_test(every_prefix_ends_somehow),
        cmocka_unit_test(random_damage_ends_somehow),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_look_may_end_the_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
