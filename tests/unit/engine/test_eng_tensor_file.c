// Tensor files: what NumPy and the onnx package write (bytes noted here), round trips, and damage.
#include "test_kit.h"

#include "base/alloc.h"
#include "model/tensor_file.h"

#include <unistd.h>

// numpy.save of numpy.array([[1, 2, 3], [4, 5, 6]], dtype='<i2')
static const char npy_i2[] = "\x93NUMPY\x01\x00v\x00"
                             "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }"
                             "                             "
                             "                             \n"
                             "\1\0\2\0\3\0\4\0\5\0\6\0";

struct files {
    char folder[64];
    char path[96];
    struct base_arena arena;
};

static int set_up(void **state)
{
    static struct files files;
    (void)snprintf(files.folder, sizeof(files.folder), "/tmp/test_eng_files_XXXXXX");
    assert_non_null(mkdtemp(files.folder));
    base_arena_init(&files.arena, base_alloc_heap(), 0, 0);
    *state = &files;
    return 0;
}

static int tear_down(void **state)
{
    struct files *files = *state;
    base_arena_done(&files->arena);
    return rmdir(files->folder);
}

static void numpy_bytes_are_read(void **state)
{
    struct files *files = *state;
    struct eng_tensor_list list;
    assert_int_equal(sizeof(npy_i2) - 1, 128 + 12);
    const struct eng_tensor_bytes bytes = {npy_i2, sizeof(npy_i2) - 1, ENG_FORMAT_NPY,
                                           ENG_VALUE_UNKNOWN};
    assert_int_equal(eng_tensor_bytes_read(&bytes, &files->arena, &list, NULL), BASE_OK);
    assert_int_equal(list.kind, ENG_VALUE_TENSOR);
    assert_int_equal(list.count, 1);
    const struct eng_array *array = &list.arrays[0];
    assert_int_equal(array->desc.dtype, ENG_I16);
    assert_int_equal(array->desc.rank, 2);
    assert_int_equal(array->desc.dims[0], 2);
    assert_int_equal(array->desc.dims[1], 3);
    for (int16_t i = 0; i < 6; i++) {
        assert_int_equal(((const int16_t *)array->data)[i], i + 1);
    }
}

static void npy_headers_are_parsed_strictly(void **state)
{
    struct files *files = *state;
    static const struct {
        const char *header;
        enum base_status status;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", BASE_OK},
        {"{\"shape\": (), \"fortran_order\": False, \"descr\": \"<f4\"}", BASE_OK},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", BASE_OK},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", BASE_ERR_UNSUPPORTED},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", BASE_ERR_UNSUPPORTED},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", BASE_ERR_UNSUPPORTED},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
         BASE_ERR_UNSUPPORTED},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", BASE_ERR_TRUNCATED},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", BASE_ERR_INVALID},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1", BASE_ERR_INVALID},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 1}", BASE_ERR_INVALID},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999999,)}",
         BASE_ERR_OVERFLOW},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296)}",
         BASE_ERR_OVERFLOW},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
         BASE_ERR_UNSUPPORTED},
        {"{'descr': '<f4', 'fortran_order': False}", BASE_ERR_INVALID},
        {"", BASE_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        uint8_t bytes[256] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
        size_t size = strlen(cases[i].header);
        bytes[8] = (uint8_t)size;
        memcpy(bytes + 10, cases[i].header, size);
        uint8_t *exact = test_exact(bytes, 10 + size + 4);
        struct eng_tensor_list list;
        struct base_error error = {0};
        const struct eng_tensor_bytes file = {exact, 10 + size + 4, ENG_FORMAT_NPY,
                                              ENG_VALUE_UNKNOWN};
        enum base_status status = eng_tensor_bytes_read(&file, &files->arena, &list, &error);
        if (status != cases[i].status) {
            fail_msg("case %zu: %d, not %d (%s)", i, status, cases[i].status, error.text);
        }
        free(exact);
    }
}

static const int64_t numbers[3] = {-1, 0, (int64_t)1 << 40};
static const uint16_t halves[2] = {0x3c00, 0x7bff};

static struct eng_tensor_list two_arrays(struct eng_array arrays[2], const char *names[2])
{
    arrays[0] =
        (struct eng_array){{.dtype = ENG_I64, .rank = 1, .dims = {3}}, (void *)(uintptr_t)numbers};
    arrays[1] = (struct eng_array){{.dtype = ENG_F16, .rank = 3, .dims = {1, 2, 1}},
                                   (void *)(uintptr_t)halves};
    names[0] = "first";
    names[1] = "";
    return (struct eng_tensor_list){ENG_VALUE_SEQUENCE, ENG_VALUE_UNKNOWN, 2, arrays, names};
}

static void check_same(const struct eng_tensor_list *list, const struct eng_tensor_list *expected)
{
    assert_int_equal(list->count, expected->count);
    for (uint32_t i = 0; i < list->count; i++) {
        assert_true(eng_desc_equal(&list->arrays[i].desc, &expected->arrays[i].desc));
        assert_memory_equal(list->arrays[i].data, expected->arrays[i].data,
                            eng_desc_bytes(&list->arrays[i].desc));
    }
}

static void archives_go_there_and_back(void **state)
{
    struct files *files = *state;
    struct eng_array arrays[2];
    const char *names[2];
    struct eng_tensor_list list = two_arrays(arrays, names), back;
    (void)snprintf(files->path, sizeof(files->path), "%s/a.npz", files->folder);
    assert_int_equal(eng_tensor_file_write(files->path, &list, NULL), BASE_OK);
    assert_int_equal(
        eng_tensor_file_read(files->path, ENG_VALUE_UNKNOWN, &files->arena, &back, NULL), BASE_OK);
    check_same(&back, &list);
    assert_string_equal(back.names[0], "first");
    assert_string_equal(back.names[1], "arr_1");
    assert_int_equal(unlink(files->path), 0);
}

static void messages_go_there_and_back(void **state)
{
    struct files *files = *state;
    struct eng_array arrays[2];
    const char *names[2];
    struct eng_tensor_list list = two_arrays(arrays, names), back;
    static const struct {
        enum eng_value_type kind, inner;
        uint32_t count;
    } cases[] = {
        {ENG_VALUE_TENSOR, ENG_VALUE_UNKNOWN, 1},   {ENG_VALUE_SEQUENCE, ENG_VALUE_UNKNOWN, 2},
        {ENG_VALUE_SEQUENCE, ENG_VALUE_UNKNOWN, 0}, {ENG_VALUE_OPTIONAL, ENG_VALUE_UNKNOWN, 0},
        {ENG_VALUE_OPTIONAL, ENG_VALUE_TENSOR, 1},  {ENG_VALUE_OPTIONAL, ENG_VALUE_SEQUENCE, 2},
    };
    (void)snprintf(files->path, sizeof(files->path), "%s/a.pb", files->folder);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        list.kind = cases[i].kind;
        list.inner = cases[i].inner;
        list.count = cases[i].count;
        assert_int_equal(eng_tensor_file_write(files->path, &list, NULL), BASE_OK);
        assert_int_equal(eng_tensor_file_read(files->path, list.kind, &files->arena, &back, NULL),
                         BASE_OK);
        assert_int_equal(back.kind, list.kind);
        assert_int_equal(back.inner, list.inner);
        check_same(&back, &list);
    }
    assert_int_equal(unlink(files->path), 0);
}

static void strings_go_there_and_back(void **state)
{
    struct files *files = *state;
    struct eng_string texts[2] = {{"a\0b", 3}, {"", 0}};
    struct eng_array array = {{.dtype = ENG_STRING, .rank = 1, .dims = {2}}, texts};
    struct eng_tensor_list list = {ENG_VALUE_TENSOR, ENG_VALUE_UNKNOWN, 1, &array, NULL}, back;
    (void)snprintf(files->path, sizeof(files->path), "%s/s.pb", files->folder);
    assert_int_equal(eng_tensor_file_write(files->path, &list, NULL), BASE_OK);
    assert_int_equal(
        eng_tensor_file_read(files->path, ENG_VALUE_TENSOR, &files->arena, &back, NULL), BASE_OK);
    const struct eng_string *read = back.arrays[0].data;
    assert_int_equal(read[0].size, 3);
    assert_memory_equal(read[0].at, "a\0b", 3);
    assert_int_equal(read[1].size, 0);
    assert_int_equal(unlink(files->path), 0);
    (void)snprintf(files->path, sizeof(files->path), "%s/s.npy", files->folder);
    assert_int_equal(eng_tensor_file_write(files->path, &list, NULL), BASE_ERR_UNSUPPORTED);
}

static uint8_t *read_whole(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t *bytes = malloc(4096);
    assert_non_null(bytes);
    *out_size = fread(bytes, 1, 4096, file);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

// Every prefix and many damaged copies of an archive and of messages: an error or a result.
static void damage_ends_somehow(void **state)
{
    struct files *files = *state;
    struct base_prng prng;
    test_seed(&prng);
    struct eng_array arrays[2];
    const char *names[2];
    struct eng_tensor_list list = two_arrays(arrays, names), back;
    static const struct {
        const char *name;
        enum eng_tensor_format format;
        enum eng_value_type kind;
    } cases[] = {
        {"d.npz", ENG_FORMAT_NPZ, ENG_VALUE_SEQUENCE},
        {"d.pb", ENG_FORMAT_PB, ENG_VALUE_SEQUENCE},
        {"e.pb", ENG_FORMAT_PB, ENG_VALUE_OPTIONAL},
    };
    uint32_t readable = 0;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        list.kind = cases[i].kind;
        list.inner = ENG_VALUE_SEQUENCE;
        (void)snprintf(files->path, sizeof(files->path), "%s/%s", files->folder, cases[i].name);
        assert_int_equal(eng_tensor_file_write(files->path, &list, NULL), BASE_OK);
        size_t size;
        uint8_t *whole = read_whole(files->path, &size);
        for (size_t round = 0; round < size + 3000; round++) {
            size_t part = round < size ? round : size;
            uint8_t *exact = test_exact(whole, part);
            if (round >= size) {
                exact[base_prng_below(&prng, part)] = (uint8_t)base_prng_next(&prng);
            }
            struct base_arena arena;
            base_arena_init(&arena, base_alloc_heap(), 0, (size_t)1 << 20);
            const struct eng_tensor_bytes bytes = {exact, part, cases[i].format, cases[i].kind};
            enum base_status status = eng_tensor_bytes_read(&bytes, &arena, &back, NULL);
            readable += status == BASE_OK ? 1 : 0;
            base_arena_done(&arena);
            free(exact);
        }
        free(whole);
        assert_int_equal(unlink(files->path), 0);
    }
    print_message("%u damaged files still hold tensors\n", readable);
}

static void errors_name_the_file(void **state)
{
    struct files *files = *state;
    struct eng_tensor_list list;
    struct base_error error;
    assert_int_equal(
        eng_tensor_file_read("/nowhere/x.npy", ENG_VALUE_UNKNOWN, &files->arena, &list, &error),
        BASE_ERR_IO);
    assert_string_equal(error.text, "/nowhere/x.npy: No such file or directory");
    list = (struct eng_tensor_list){.kind = ENG_VALUE_TENSOR};
    assert_int_equal(eng_tensor_file_write("/nowhere/x.npy", &list, &error), BASE_ERR_INVALID);
    assert_int_equal(eng_tensor_file_write("/nowhere/x.pb", &list, &error), BASE_ERR_INVALID);
    list.kind = ENG_VALUE_OPTIONAL;
    assert_int_equal(eng_tensor_file_write("/nowhere/x.pb", &list, &error), BASE_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numpy_bytes_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(npy_headers_are_parsed_strictly, set_up, tear_down),
        cmocka_unit_test_setup_teardown(archives_go_there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages_go_there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(strings_go_there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_ends_somehow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errors_name_the_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
