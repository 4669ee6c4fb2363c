// Calls of models in the cloud and their answers: round trips, every cut, every flipped bit, and
// each limit at it and one beyond.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/cloud/tensor_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F32 1
#define I64 7

static const uint8_t numbers[64] = {1, 2, 3, 4, 5, 6, 7, 8};

static struct wire_tensor_call sample(void)
{
    return (struct wire_tensor_call){
        .priority = 2,
        .deadline_ms = 300,
        .count = 3,
        .tensors = {{.name = BASE_STR("x"),
                     .dtype = F32,
                     .rank = 2,
                     .dims = {2, 3},
                     .data = numbers,
                     .bytes = 24},
                    {.name = BASE_STR("scalar"), .dtype = I64, .data = numbers, .bytes = 8},
                    {.name = BASE_STR("none"), .dtype = F32, .rank = 1, .dims = {0}}},
    };
}

static size_t write_call(const struct wire_tensor_call *call, uint8_t *out, size_t capacity)
{
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    wire_tensor_call_write(&writer, call);
    return writer.status == BASE_OK ? base_writer_size(&writer) : 0;
}

static void same_tensor(const struct wire_tensor *left, const struct wire_tensor *right)
{
    assert_true(base_str_equal(left->name, right->name));
    assert_int_equal(left->dtype, right->dtype);
    assert_int_equal(left->rank, right->rank);
    assert_memory_equal(left->dims, right->dims, left->rank * sizeof(left->dims[0]));
    assert_int_equal(left->bytes, right->bytes);
    if (left->bytes > 0) {
        assert_memory_equal(left->data, right->data, left->bytes);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    uint8_t bytes[256];
    const struct wire_tensor_call call = sample();
    struct wire_tensor_call got;
    size_t size = write_call(&call, bytes, sizeof(bytes));
    assert_true(size > 0);
    assert_int_equal(wire_tensor_call_parse(bytes, size, &got), BASE_OK);
    assert_int_equal(got.priority, 2);
    assert_int_equal(got.deadline_ms, 300);
    assert_int_equal(got.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        same_tensor(&got.tensors[i], &call.tensors[i]);
    }
    for (size_t room = 0; room < size; room++) {
        assert_int_equal(write_call(&call, bytes, room), 0);
    }
}

static void test_answer(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct wire_tensor_answer answer = {.version = BASE_STR("17"), .count = 1};
    struct wire_tensor_answer got;
    struct base_writer writer;
    answer.tensors[0] = sample().tensors[0];
    base_writer_init(&writer, bytes, sizeof(bytes));
    wire_tensor_answer_write(&writer, &answer);
    assert_int_equal(writer.status, BASE_OK);
    size_t size = base_writer_size(&writer);
    assert_int_equal(wire_tensor_answer_parse(bytes, size, &got), BASE_OK);
    assert_true(base_str_equal(got.version, answer.version));
    assert_int_equal(got.count, 1);
    same_tensor(&got.tensors[0], &answer.tensors[0]);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_not_equal(wire_tensor_answer_parse(bytes, cut, &got), BASE_OK);
    }
    bytes[size] = 0;
    assert_int_equal(wire_tensor_answer_parse(bytes, size + 1, &got), BASE_ERR_INVALID);
}

// What is parsed lies within the bytes, whatever they are; exact heap blocks let a sanitizer see.
static void test_damage(void **state)
{
    (void)state;
    uint8_t whole[256];
    const struct wire_tensor_call call = sample();
    struct wire_tensor_call got;
    size_t size = write_call(&call, whole, sizeof(whole));
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *bytes = malloc(cut + 1);
        memcpy(bytes, whole, cut);
        assert_int_not_equal(wire_tensor_call_parse(bytes, cut, &got), BASE_OK);
        free(bytes);
    }
    for (size_t bit = 0; bit < size * 8; bit++) {
        uint8_t *bytes = malloc(size);
        memcpy(bytes, whole, size);
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8);
        if (wire_tensor_call_parse(bytes, size, &got) == BASE_OK) {
            for (uint32_t i = 0; i < got.count; i++) {
                assert_true(got.tensors[i].data >= bytes);
                assert_true(got.tensors[i].data + got.tensors[i].bytes <= bytes + size);
            }
        }
        free(bytes);
    }
}

static void refused(struct wire_tensor_call call)
{
    uint8_t bytes[512];
    assert_int_equal(write_call(&call, bytes, sizeof(bytes)), 0);
}

static void test_limits(void **state)
{
    (void)state;
    struct wire_tensor_call call = sample();
    call.priority = WIRE_TENSOR_PRIORITIES;
    refused(call);
    call = sample();
    call.deadline_ms = 0;
    refused(call);
    call.deadline_ms = WIRE_TENSOR_DEADLINE_MS + 1;
    refused(call);
    call = sample();
    call.count = WIRE_TENSORS_MAX + 1;
    refused(call);
    call = sample();
    call.tensors[0].bytes = 23; // not what its shape says
    refused(call);
    call = sample();
    call.tensors[0].dtype = 8; // text
    refused(call);
    call = sample();
    call.tensors[0].rank = WIRE_TENSOR_RANK_MAX + 1;
    refused(call);
    call = sample();
    call.tensors[0].name.size = 0;
    refused(call);
    for (unsigned dtype = 0; dtype < 256; dtype++) {
        bool number = (dtype >= 1 && dtype <= 13 && dtype != 8) || dtype == 16;
        assert_int_equal(wire_tensor_element_bytes((uint8_t)dtype) > 0, number);
    }
}

// Two tensors of one name, and shapes whose product is over the limit or wraps.
static void test_what_a_reader_refuses(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct wire_tensor_call call = sample();
    struct wire_tensor_call got;
    call.tensors[1].name = BASE_STR("x");
    size_t size = write_call(&call, bytes, sizeof(bytes));
    assert_int_equal(wire_tensor_call_parse(bytes, size, &got), BASE_ERR_INVALID);
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_u8(&writer, WIRE_TENSOR_VERSION);
    base_writer_u8(&writer, 0);
    base_writer_u32(&writer, 1);
    base_writer_u8(&writer, 1);
    base_writer_u8(&writer, 1);
    base_writer_bytes(&writer, "x", 1);
    base_writer_u8(&writer, F32);
    base_writer_u8(&writer, 8);
    for (int i = 0; i < 8; i++) {
        base_writer_varint(&writer, WIRE_TENSOR_CALL_MAX);
    }
    assert_int_equal(wire_tensor_call_parse(bytes, base_writer_size(&writer), &got),
                     BASE_ERR_TOO_LARGE);
}

static void test_names(void **state)
{
    (void)state;
    char longest[WIRE_TENSOR_MODEL_MAX + 1];
    memset(longest, 'm', sizeof(longest));
    assert_true(wire_tensor_model_ok((struct base_str){longest, WIRE_TENSOR_MODEL_MAX}));
    assert_false(wire_tensor_model_ok((struct base_str){longest, WIRE_TENSOR_MODEL_MAX + 1}));
    assert_true(wire_tensor_model_ok(BASE_STR("A-z_0.9")));
    static const char *const bad[] = {"", ".m", "a/b", "a b", "m?", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(wire_tensor_model_ok(base_str_of(bad[i])));
    }
    for (unsigned i = 0; i < WIRE_CLOUD_COUNT; i++) {
        enum wire_cloud_why why = WIRE_CLOUD_COUNT;
        assert_true(wire_cloud_of_word(base_str_of(wire_cloud_word((enum wire_cloud_why)i)), &why));
        assert_int_equal(why, i);
    }
    enum wire_cloud_why none = WIRE_CLOUD_COUNT;
    assert_false(wire_cloud_of_word(BASE_STR("nonsense"), &none));
    assert_int_equal(none, WIRE_CLOUD_COUNT);
    assert_string_equal(wire_cloud_word(WIRE_CLOUD_COUNT), "failed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_answer),
        cmocka_unit_test(test_damage),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_what_a_reader_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
