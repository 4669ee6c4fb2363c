// Calls and results of the inference service as JSON: every datatype there and back, the binary
// extension, the parameters, and what is refused, with the reason.
#include "test_kit.h"

#include "base/alloc.h"
#include "base/str.h"
#include "infer/codec/json_in.h"
#include "infer/codec/oip_json.h"

#include <math.h>

struct rig {
    struct base_arena arena;
    struct gw_infer_call call;
    struct base_error error;
};

static enum base_status read_body(struct rig *rig, const void *body, size_t size, size_t json_bytes)
{
    base_arena_init(&rig->arena, base_alloc_heap(), 0, 0);
    rig->call = (struct gw_infer_call){.model = BASE_STR("m")};
    rig->error = (struct base_error){0};
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, body, size);
    assert_int_equal(base_arena_on_done(&rig->arena, free, copy), BASE_OK);
    return gw_oip_json_read(&rig->arena, (struct base_str){(char *)copy, size}, json_bytes,
                            &rig->call, &rig->error);
}

static void read_good(struct rig *rig, const char *body)
{
    enum base_status status = read_body(rig, body, strlen(body), 0);
    if (status != BASE_OK) {
        fail_msg("%s: %s", body, rig->error.text);
    }
}

static void expect_bad(const char *body, size_t size, size_t json_bytes, enum base_status status,
                       const char *says)
{
    struct rig rig;
    enum base_status got = read_body(&rig, body, size, json_bytes);
    if (got != status || strstr(rig.error.text, says) == NULL) {
        fail_msg("%.*s: %s, \"%s\"; wanted %s, \"%s\"", (int)size, body, base_status_name(got),
                 rig.error.text, base_status_name(status), says);
    }
    base_arena_done(&rig.arena);
}

static void expect_text(struct base_str text, const char *wanted)
{
    assert_int_equal(text.size, strlen(wanted));
    assert_memory_equal(text.data, wanted, text.size);
}

// ---- Reading

static void test_usual_request(void **state)
{
    (void)state;
    struct rig rig;
    read_good(&rig, "{\"id\":\"42\",\"new\":{\"a\":[1,{}]},\"parameters\":{\"priority\":0,"
                    "\"timeout\":5000,\"sequence_id\":7},\"inputs\":[{\"name\":\"x\","
                    "\"shape\":[2,3],\"datatype\":\"FP32\",\"data\":[1,2.5,-3e1, 4,\n5,NaN]},"
                    "{\"data\":[[\"a\\u00e9\\ud83d\\ude00\"],[\"b\"]],\"datatype\":\"BYTES\","
                    "\"name\":\"t\",\"shape\":[2,1]}],\"outputs\":[{\"name\":\"y\"},"
                    "{\"name\":\"z\",\"parameters\":{\"classification\":3,\"binary_data\":false}}"
                    "],\"x\":null} \n");
    expect_text(rig.call.model, "m");
    expect_text(rig.call.id, "42");
    assert_int_equal(rig.call.priority, 0);
    assert_int_equal(rig.call.timeout_us, 5000);
    assert_int_equal(rig.call.input_count, 2);
    const struct gw_infer_tensor *x = &rig.call.inputs[0];
    expect_text(x->name, "x");
    assert_int_equal(x->desc.dtype, ENG_F32);
    assert_int_equal(x->desc.rank, 2);
    assert_int_equal(x->desc.dims[1], 3);
    assert_int_equal(x->bytes, 24);
    const float *values = x->data;
    assert_true(values[1] == 2.5f && values[2] == -30.f && values[4] == 5.f && isnan(values[5]));
    const struct eng_string *texts = rig.call.inputs[1].data;
    expect_text((struct base_str){texts[0].at, texts[0].size}, "a\xc3\xa9\xf0\x9f\x98\x80");
    expect_text((struct base_str){texts[1].at, texts[1].size}, "b");
    assert_int_equal(rig.call.wish_count, 2);
    assert_int_equal(rig.call.wishes[1].classes, 3);
    base_arena_done(&rig.arena);
}

static void test_defaults_and_binary_wishes(void **state)
{
    (void)state;
    struct rig rig;
    read_good(&rig, "{\"inputs\":[]}");
    assert_int_equal(rig.call.priority, GW_INFER_PRIORITY_USUAL);
    assert_int_equal(rig.call.timeout_us, 0);
    assert_int_equal(rig.call.wish_count, 0);
    assert_false(rig.call.binary_all);
    base_arena_done(&rig.arena);
    read_good(&rig, "{\"outputs\":[{\"name\":\"a\"},{\"name\":\"b\",\"parameters\":"
                    "{\"binary_data\":false}}],\"inputs\":[],"
                    "\"parameters\":{\"binary_data_output\":true}}");
    assert_true(rig.call.wishes[0].binary);
    assert_false(rig.call.wishes[1].binary);
    base_arena_done(&rig.arena);
}

static void test_integers_whole(void **state)
{
    (void)state;
    struct rig rig;
    read_good(&rig,
              "{\"inputs\":[{\"name\":\"a\",\"shape\":[2],\"datatype\":\"INT64\",\"data\":"
              "[-9223372036854775808,9223372036854775807]},{\"name\":\"b\",\"shape\":[1],"
              "\"datatype\":\"UINT64\",\"data\":[18446744073709551615]},{\"name\":\"c\",\"shape\":"
              "[3],\"datatype\":\"INT8\",\"data\":[-128,127,-1]},{\"name\":\"d\",\"shape\":[],"
              "\"datatype\":\"UINT16\",\"data\":[65535]},{\"name\":\"e\",\"shape\":[2],"
              "\"datatype\":\"BOOL\",\"data\":[true,false]},{\"name\":\"f\",\"shape\":[2],"
              "\"datatype\":\"FP16\",\"data\":[1,65504]},{\"name\":\"g\",\"shape\":[0,3],"
              "\"datatype\":\"FP64\",\"data\":[]}]}");
    const int64_t *a = rig.call.inputs[0].data;
    assert_true(a[0] == INT64_MIN && a[1] == INT64_MAX);
    assert_true(*(const uint64_t *)rig.call.inputs[1].data == UINT64_MAX);
    const int8_t *c = rig.call.inputs[2].data;
    assert_true(c[0] == -128 && c[1] == 127 && c[2] == -1);
    assert_int_equal(rig.call.inputs[3].desc.rank, 0);
    assert_int_equal(*(const uint16_t *)rig.call.inputs[3].data, 65535);
    assert_int_equal(((const uint8_t *)rig.call.inputs[4].data)[0], 1);
    assert_int_equal(((const uint16_t *)rig.call.inputs[5].data)[1], 0x7bff);
    assert_int_equal(rig.call.inputs[6].bytes, 0);
    base_arena_done(&rig.arena);
}

static void test_nested_as_the_shape(void **state)
{
    (void)state;
    static const char *const good[] = {"[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11,12]]]",
                                       "[1,2,3,4,5,6,7,8,9,10,11,12]",
                                       " [ [[1,2] , [3,4],[5,6]] ,[[7,8],[9,10],[11 , 12]] ] "};
    static const char *const bad[] = {
        "[[1,2,3,4,5,6],[7,8,9,10,11,12]]",
        "[[[1,2],[3,4]],[[5,6],[7,8]],[[9,10],[11,12]]]",
        "[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11,12,13]]]",
        "[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11]]]",
        "[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11,12]]",
        "[[[1,2],[3,4],[5,6]]]",
        "[[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11,12]]]]",
        "[1,2,3,4,5,6,7,8,9,10,11]",
        "[1,2,3,4,5,6,7,8,9,10,11,12,13]",
        "[1,2,3,4,5,6,7,8,9,10,11,12,]",
        "12",
    };
    for (size_t i = 0; i < TEST_COUNT(good); i++) {
        char body[256];
        struct rig rig;
        snprintf(body, sizeof(body),
                 "{\"inputs\":[{\"name\":\"x\",\"shape\":[2,3,2],"
                 "\"datatype\":\"INT32\",\"data\":%s}]}",
                 good[i]);
        read_good(&rig, body);
        for (int32_t k = 0; k < 12; k++) {
            assert_int_equal(((const int32_t *)rig.call.inputs[0].data)[k], k + 1);
        }
        base_arena_done(&rig.arena);
    }
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        char body[256];
        int size = snprintf(body, sizeof(body),
                            "{\"inputs\":[{\"name\":\"x\",\"shape\":[2,3,2],"
                            "\"datatype\":\"INT32\",\"data\":%s}]}",
                            bad[i]);
        expect_bad(body, (size_t)size, 0, BASE_ERR_INVALID, "");
    }
}

static void test_binary_inputs(void **state)
{
    (void)state;
    static const char json[] =
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"FP32\",\"parameters\":"
        "{\"binary_data_size\":8}},{\"name\":\"t\",\"shape\":[2],\"datatype\":\"BYTES\","
        "\"parameters\":{\"binary_data_size\":11}}]}";
    static const char tail[] = "\0\0\x80\x3f\0\0\0\x40\3\0\0\0abc\0\0\0\0";
    char body[sizeof(json) + sizeof(tail)];
    size_t json_bytes = sizeof(json) - 1;
    size_t whole = json_bytes + sizeof(tail) - 1;
    memcpy(body, json, json_bytes);
    memcpy(body + json_bytes, tail, sizeof(tail));
    struct rig rig;
    assert_int_equal(read_body(&rig, body, whole, json_bytes), BASE_OK);
    const float *x = rig.call.inputs[0].data;
    assert_int_equal((uintptr_t)x % sizeof(float), 0);
    assert_true(x[0] == 1.f && x[1] == 2.f);
    const struct eng_string *t = rig.call.inputs[1].data;
    expect_text((struct base_str){t[0].at, t[0].size}, "abc");
    assert_int_equal(t[1].size, 0);
    base_arena_done(&rig.arena);
    expect_bad(body, whole - 1, json_bytes, BASE_ERR_TRUNCATED, "not all there");
    expect_bad(body, whole + 1, json_bytes, BASE_ERR_INVALID, "no input names");
    expect_bad(body, json_bytes, 0, BASE_ERR_TRUNCATED, "not all there");
    expect_bad(body, json_bytes, whole, BASE_ERR_TRUNCATED, "should have");
    body[json_bytes + 8] = 9; // a lying length of a text
    expect_bad(body, whole, json_bytes, BASE_ERR_TRUNCATED, "are no 2 texts");
}

#define INPUT(shape, type, data)                                                                   \
    "{\"inputs\":[{\"name\":\"x\",\"shape\":" shape ",\"datatype\":\"" type "\",\"data\":" data    \
    "}]}"

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum base_status status;
        const char *says;
    } cases[] = {
        {"", BASE_ERR_INVALID, "'{' is wanted"},
        {"[]", BASE_ERR_INVALID, "'{' is wanted"},
        {"{}", BASE_ERR_INVALID, "without inputs"},
        {"{\"inputs\":[]", BASE_ERR_INVALID, "',' is wanted"},
        {"{\"inputs\":[]} x", BASE_ERR_INVALID, "follows the message"},
        {"{\"inputs\":[],\"inputs\":[]}", BASE_ERR_INVALID, "\"inputs\" comes twice"},
        {"{\"inputs\":[{}]}", BASE_ERR_INVALID, "without name"},
        {"{\"inputs\":[],\"id\":7}", BASE_ERR_INVALID, "a text is wanted"},
        {"{\"inputs\":[],\"parameters\":{\"priority\":4}}", BASE_ERR_INVALID, "0 to 3"},
        {"{\"inputs\":[],\"parameters\":{\"timeout\":-1}}", BASE_ERR_INVALID,
         "parameter \"timeout\": a whole number from 0 to 600000000 is wanted"},
        {"{\"inputs\":[],\"parameters\":{\"timeout\":1e3}}", BASE_ERR_INVALID, "whole number"},
        {"{\"inputs\":[],\"outputs\":[{}]}", BASE_ERR_INVALID, "an output without name"},
        {"{\"inputs\":[],\"outputs\":[{\"name\":\"a\"},{\"name\":\"a\"}]}", BASE_ERR_INVALID,
         "output \"a\" comes twice"},
        {"{\"inputs\":[],\"a\":\"\\ud800\"}", BASE_ERR_INVALID, "escape"},
        {"{\"inputs\":[],\"a\":\"\xc0\x80\"}", BASE_ERR_INVALID, "malformed"},
        {"{\"inputs\":[],\"a\":\"\x01\"}", BASE_ERR_INVALID, "malformed"},
        {"{\"inputs\":[],\"a\":tru}", BASE_ERR_INVALID, "a value is wanted"},
        {INPUT("[1]", "FP8", "[1]"), BASE_ERR_UNSUPPORTED, "datatype \"FP8\""},
        {INPUT("[-1]", "FP32", "[1]"), BASE_ERR_INVALID, "shape: a whole number"},
        {INPUT("[1,1,1,1,1,1,1,1,1]", "FP32", "[1]"), BASE_ERR_TOO_LARGE, "over 8 dimensions"},
        {INPUT("[1099511627776,1099511627776]", "FP32", "[1]"), BASE_ERR_TOO_LARGE, "over"},
        {INPUT("[1000000]", "FP32", "[1]"), BASE_ERR_TOO_LARGE, "1000000 elements"},
        {INPUT("[1]", "INT8", "[128]"), BASE_ERR_INVALID, "a value of INT8"},
        {INPUT("[1]", "UINT8", "[-1]"), BASE_ERR_INVALID, "a value of UINT8"},
        {INPUT("[1]", "INT32", "[1.0]"), BASE_ERR_INVALID, "a value of INT32"},
        {INPUT("[1]", "UINT64", "[18446744073709551616]"), BASE_ERR_INVALID, "a value of UINT64"},
        {INPUT("[1]", "FP32", "[null]"), BASE_ERR_INVALID, "a value of FP32"},
        {INPUT("[1]", "BOOL", "[1]"), BASE_ERR_INVALID, "true or false"},
        {INPUT("[1]", "BYTES", "[1]"), BASE_ERR_INVALID, "a text is wanted"},
        {INPUT("[0]", "FP32", "[1]"), BASE_ERR_INVALID, "has no elements"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        expect_bad(cases[i].body, strlen(cases[i].body), 0, cases[i].status, cases[i].says);
    }
}

static void test_bombs(void **state)
{
    (void)state;
    static const char head[] = "{\"inputs\":[],\"a\":";
    char body[4096];
    memset(body, '[', sizeof(body));
    memcpy(body, head, sizeof(head) - 1);
    expect_bad(body, sizeof(body), 0, BASE_ERR_TOO_LARGE, "over 64 deep");
}

// ---- Limits: what is at one is taken, what is over it is not

static void test_parameter_limits(void **state)
{
    (void)state;
    static const char timed[] = "{\"inputs\":[],\"parameters\":{\"timeout\":%u}}";
    static const char sized[] = "{\"inputs\":[{\"name\":\"x\",\"shape\":[2],\"datatype\":\"FP32\","
                                "\"parameters\":{\"binary_data_size\":%zu}}]}";
    struct rig rig;
    char body[256];
    snprintf(body, sizeof(body), timed, GW_INFER_TIMEOUT_US_MAX);
    read_good(&rig, body);
    assert_int_equal(rig.call.timeout_us, GW_INFER_TIMEOUT_US_MAX);
    base_arena_done(&rig.arena);
    int size = snprintf(body, sizeof(body), timed, GW_INFER_TIMEOUT_US_MAX + 1);
    expect_bad(body, (size_t)size, 0, BASE_ERR_INVALID, "whole number from 0 to 600000000");
    size = snprintf(body, sizeof(body), sized, GW_INFER_TENSOR_BYTES_MAX);
    expect_bad(body, (size_t)size, 0, BASE_ERR_TRUNCATED, "not all there"); // may be so large
    size = snprintf(body, sizeof(body), sized, GW_INFER_TENSOR_BYTES_MAX + 1);
    expect_bad(body, (size_t)size, 0, BASE_ERR_INVALID, "whole number from 0 to 268435456");
}

// A name between two pieces of JSON, of as many bytes as it may have, and of one more.
static void expect_name(const char *before, const char *behind, size_t most)
{
    struct rig rig;
    char name[GW_INFER_NAME_BYTES_MAX + 2];
    char body[GW_INFER_NAME_BYTES_MAX + 256];
    memset(name, 'n', sizeof(name));
    name[most] = 0;
    snprintf(body, sizeof(body), "%s%s%s", before, name, behind);
    read_good(&rig, body);
    base_arena_done(&rig.arena);
    name[most] = 'n';
    name[most + 1] = 0;
    int size = snprintf(body, sizeof(body), "%s%s%s", before, name, behind);
    expect_bad(body, (size_t)size, 0, BASE_ERR_TOO_LARGE, "a name of over");
}

static void test_name_limits(void **state)
{
    (void)state;
    expect_name("{\"inputs\":[],\"id\":\"", "\"}", GW_INFER_ID_BYTES_MAX);
    expect_name("{\"inputs\":[],\"outputs\":[{\"name\":\"", "\"}]}", GW_INFER_NAME_BYTES_MAX);
    expect_name("{\"inputs\":[{\"name\":\"",
                "\",\"shape\":[1],\"datatype\":\"INT8\",\"data\":[1]}]}", GW_INFER_NAME_BYTES_MAX);
}

// `count` inputs, or outputs that are asked for; the length.
static size_t many(char *body, size_t room, bool outputs, uint32_t count)
{
    size_t used =
        (size_t)snprintf(body, room, outputs ? "{\"inputs\":[],\"outputs\":[" : "{\"inputs\":[");
    for (uint32_t i = 0; i < count; i++) {
        used +=
            (size_t)snprintf(body + used, room - used, "%s{\"name\":\"%u\"%s}", i > 0 ? "," : "", i,
                             outputs ? "" : ",\"shape\":[1],\"datatype\":\"INT8\",\"data\":[1]");
    }
    used += (size_t)snprintf(body + used, room - used, "]}");
    assert_true(used < room);
    return used;
}

static void test_tensor_limits(void **state)
{
    (void)state;
    struct rig rig;
    char body[8192];
    for (int outputs = 0; outputs < 2; outputs++) {
        (void)many(body, sizeof(body), outputs != 0, GW_INFER_TENSORS_MAX);
        read_good(&rig, body);
        size_t count = outputs != 0 ? rig.call.wish_count : rig.call.input_count;
        assert_int_equal(count, GW_INFER_TENSORS_MAX);
        base_arena_done(&rig.arena);
        size_t size = many(body, sizeof(body), outputs != 0, GW_INFER_TENSORS_MAX + 1);
        expect_bad(body, size, 0, BASE_ERR_TOO_LARGE,
                   outputs != 0 ? "over 64 outputs" : "over 64 inputs");
    }
}

// A value in so many others; the length.
static size_t nested(char *body, size_t room, const char *open, const char *close, uint32_t depth)
{
    size_t used = (size_t)snprintf(body, room, "{\"inputs\":[],\"a\":");
    for (uint32_t i = 0; i < depth; i++) {
        used += (size_t)snprintf(body + used, room - used, "%s", open);
    }
    used += (size_t)snprintf(body + used, room - used, "1");
    for (uint32_t i = 0; i < depth; i++) {
        used += (size_t)snprintf(body + used, room - used, "%s", close);
    }
    used += (size_t)snprintf(body + used, room - used, "}");
    assert_true(used < room);
    return used;
}

static void test_depth_limit(void **state)
{
    (void)state;
    static const char *const kinds[][2] = {{"[", "]"}, {"{\"a\":", "}"}};
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        struct rig rig;
        char body[1024];
        (void)nested(body, sizeof(body), kinds[i][0], kinds[i][1], GW_JSON_IN_DEPTH_MAX);
        read_good(&rig, body);
        base_arena_done(&rig.arena);
        size_t size =
            nested(body, sizeof(body), kinds[i][0], kinds[i][1], GW_JSON_IN_DEPTH_MAX + 1);
        expect_bad(body, size, 0, BASE_ERR_TOO_LARGE, "over 64 deep");
    }
}

// ---- Writing

static struct gw_infer_tensor tensor_of(const char *name, enum eng_dtype dtype, int64_t count,
                                        const void *data)
{
    struct gw_infer_tensor tensor = {.name = base_str_of(name), .data = data};
    tensor.desc = (struct eng_desc){.dtype = dtype, .rank = 2, .dims = {1, count}};
    tensor.bytes = eng_desc_bytes(&tensor.desc);
    return tensor;
}

static void test_result(void **state)
{
    (void)state;
    static const float scores[] = {0.1f, 0.7f, NAN, 0.2f};
    static const int64_t ids[] = {INT64_MIN, -1, 7};
    static const uint8_t flags[] = {1, 0};
    static const int8_t small[] = {-128, -1, 127};
    static const struct eng_string texts[] = {{"a\"\n", 3}, {"\xff\xc3\xa9", 3}};
    struct gw_infer_tensor outputs[] = {
        tensor_of("s", ENG_F32, 4, scores), tensor_of("i", ENG_I64, 3, ids),
        tensor_of("b", ENG_BOOL, 2, flags), tensor_of("c", ENG_I8, 3, small),
        tensor_of("t", ENG_STRING, 2, texts)};
    struct gw_infer_result result = {BASE_STR("m"), BASE_STR("3"), BASE_STR("x\\"), outputs, 5};
    struct gw_infer_call call = {0};
    struct base_arena arena;
    struct base_str body;
    size_t json_bytes = 1;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(gw_oip_json_write(&arena, &call, &result, &body, &json_bytes), BASE_OK);
    assert_int_equal(json_bytes, 0);
    expect_text(
        body,
        "{\"model_name\":\"m\",\"model_version\":\"3\",\"id\":\"x\\\\\",\"outputs\":["
        "{\"name\":\"s\",\"datatype\":\"FP32\",\"shape\":[1,4],\"data\":[0.1,0.7,NaN,0.2]},"
        "{\"name\":\"i\",\"datatype\":\"INT64\",\"shape\":[1,3],\"data\":[-9223372036854775808,-1,"
        "7]},{\"name\":\"b\",\"datatype\":\"BOOL\",\"shape\":[1,2],\"data\":[true,false]},"
        "{\"name\":\"c\",\"datatype\":\"INT8\",\"shape\":[1,3],\"data\":[-128,-1,127]},"
        "{\"name\":\"t\",\"datatype\":\"BYTES\",\"shape\":[1,2],\"data\":[\"a\\\"\\u000a\","
        "\"\\ufffd\xc3\xa9\"]}]}");
    struct gw_infer_wish wishes[] = {{.name = BASE_STR("s"), .classes = 2},
                                     {.name = BASE_STR("i"), .binary = true}};
    call = (struct gw_infer_call){.wishes = wishes, .wish_count = 2};
    result = (struct gw_infer_result){BASE_STR("m"), BASE_STR("3"), {NULL, 0}, outputs, 2};
    assert_int_equal(gw_oip_json_write(&arena, &call, &result, &body, &json_bytes), BASE_OK);
    assert_int_equal(body.size - json_bytes, sizeof(ids));
    assert_memory_equal(body.data + json_bytes, ids, sizeof(ids));
    body.size = json_bytes;
    expect_text(body, "{\"model_name\":\"m\",\"model_version\":\"3\",\"outputs\":[{\"name\":\"s\","
                      "\"datatype\":\"BYTES\",\"shape\":[1,2],\"data\":[\"0.7:1\",\"0.2:3\"]},"
                      "{\"name\":\"i\",\"datatype\":\"INT64\",\"shape\":[1,3],\"parameters\":"
                      "{\"binary_data_size\":24}}]}");
    expect_text(gw_oip_json_error(&arena, BASE_STR("no \"m\"")), "{\"error\":\"no \\\"m\\\"\"}");
    base_arena_done(&arena);
}

// ---- Memory

static void test_each_allocation_fails(void **state)
{
    (void)state;
    static const char body[] =
        "{\"inputs\":[{\"name\":\"x\\n\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1,2]},"
        "{\"data\":[\"\\t\"],\"shape\":[1],\"datatype\":\"BYTES\",\"name\":\"t\"}],"
        "\"outputs\":[{\"name\":\"x\",\"parameters\":{\"classification\":1}},{\"name\":\"t\"}]}";
    size_t nth = 0;
    for (;; nth++) {
        struct test_alloc alloc;
        struct base_arena arena;
        struct gw_infer_call call = {0};
        struct base_error error = {0};
        test_alloc_init(&alloc, nth);
        base_arena_init(&arena, &alloc.port, 16, 0); // a chunk for each piece
        enum base_status status =
            gw_oip_json_read(&arena, (struct base_str){body, sizeof(body) - 1}, 0, &call, &error);
        if (status == BASE_OK) {
            struct gw_infer_result result = {.outputs = call.inputs, .output_count = 2};
            struct base_str text;
            size_t json_bytes = 0;
            status = gw_oip_json_write(&arena, &call, &result, &text, &json_bytes);
        }
        base_arena_done(&arena);
        assert_int_equal(alloc.live, 0);
        if (status == BASE_OK) {
            break;
        }
        assert_int_equal(status, BASE_ERR_NOMEM);
    }
    assert_true(nth >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_request),
        cmocka_unit_test(test_defaults_and_binary_wishes),
        cmocka_unit_test(test_integers_whole),
        cmocka_unit_test(test_nested_as_the_shape),
        cmocka_unit_test(test_binary_inputs),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_parameter_limits),
        cmocka_unit_test(test_name_limits),
        cmocka_unit_test(test_tensor_limits),
        cmocka_unit_test(test_depth_limit),
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
