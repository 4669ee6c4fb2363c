// Calls and results of the inference service as protobuf, beside the classes that protoc-c makes
// of the protocol's description: what those pack is read as it was, every type in typed and in raw
// contents, and what is written they unpack. And what is refused, with the reason.
#include "test_kit.h"

#include "base/alloc.h"
#include "base/str.h"
#include "inference.pb-c.h"
#include "infer/codec/oip_proto.h"
#include "infer/codec/oip_tensor.h"
#include "infer/codec/pb_out.h"

#include <inttypes.h>

typedef Inference__ModelInferRequest Request;
typedef Inference__ModelInferRequest__InferInputTensor Input;
typedef Inference__InferTensorContents Contents;

#define ELEMENTS 6

static const uint64_t seed = 20261129;

static enum base_status read_bytes(struct base_arena *arena, const uint8_t *bytes, size_t size,
                                   struct gw_infer_call *call, struct base_error *error)
{
    struct base_str message = {(const char *)bytes, size};
    base_arena_init(arena, base_alloc_heap(), 0, 0);
    return gw_oip_proto_read(arena, message, call, error);
}

// ---- One input of each type

struct elements {
    struct base_prng prng;
    protobuf_c_boolean bools[ELEMENTS];
    int32_t ints[ELEMENTS];
    int64_t longs[ELEMENTS];
    uint32_t uints[ELEMENTS];
    uint64_t ulongs[ELEMENTS];
    float floats[ELEMENTS];
    double doubles[ELEMENTS];
    ProtobufCBinaryData texts[ELEMENTS];
    uint8_t dense[ELEMENTS * sizeof(struct eng_string)]; // as the engine has them
};

// Fills typed contents of the type and the same elements dense.
static void draw(struct elements *e, enum eng_dtype dtype, Contents *contents)
{
    size_t size = eng_dtype_bytes(dtype);
    int bits = 8 * (int)size;
    for (size_t i = 0; i < ELEMENTS; i++) {
        uint64_t any = base_prng_next(&e->prng);
        e->bools[i] = (any & 1) != 0;
        e->longs[i] = (int64_t)any;
        e->ulongs[i] = any;
        if (bits < 64) {
            e->ints[i] = (int32_t)((int64_t)(any << (64 - bits)) >> (64 - bits));
            e->uints[i] = (uint32_t)(any & (UINT64_MAX >> (64 - bits)));
        }
        e->floats[i] = (float)(int32_t)any / 256;
        e->doubles[i] = (double)(int64_t)any / 3;
        e->texts[i] = (ProtobufCBinaryData){any % 4, (uint8_t *)&e->ulongs[i]};
    }
#define TYPED(kind, field, values)                                                                 \
    case kind:                                                                                     \
        contents->n_##field = ELEMENTS;                                                            \
        contents->field = (values);                                                                \
        for (size_t i = 0; i < ELEMENTS; i++) {                                                    \
            memcpy(e->dense + i * size, &(values)[i], size);                                       \
        }                                                                                          \
        break;
    switch (dtype) {
        TYPED(ENG_I8, int_contents, e->ints)
        TYPED(ENG_I16, int_contents, e->ints)
        TYPED(ENG_I32, int_contents, e->ints)
        TYPED(ENG_I64, int64_contents, e->longs)
        TYPED(ENG_U8, uint_contents, e->uints)
        TYPED(ENG_U16, uint_contents, e->uints)
        TYPED(ENG_U32, uint_contents, e->uints)
        TYPED(ENG_U64, uint64_contents, e->ulongs)
        TYPED(ENG_F32, fp32_contents, e->floats)
        TYPED(ENG_F64, fp64_contents, e->doubles)
    case ENG_BOOL:
        contents->n_bool_contents = ELEMENTS;
        contents->bool_contents = e->bools;
        for (size_t i = 0; i < ELEMENTS; i++) {
            e->dense[i] = (uint8_t)e->bools[i];
        }
        break;
    default:
        contents->n_bytes_contents = ELEMENTS;
        contents->bytes_contents = e->texts;
    }
}

static void expect_elements(const struct elements *e, const struct gw_infer_tensor *tensor)
{
    assert_int_equal((uintptr_t)tensor->data % eng_dtype_bytes(tensor->desc.dtype), 0);
    if (tensor->desc.dtype != ENG_STRING) {
        assert_int_equal(tensor->bytes, ELEMENTS * eng_dtype_bytes(tensor->desc.dtype));
        assert_memory_equal(tensor->data, e->dense, tensor->bytes);
        return;
    }
    const struct eng_string *texts = tensor->data;
    for (size_t i = 0; i < ELEMENTS; i++) {
        assert_int_equal(texts[i].size, e->texts[i].len);
        assert_memory_equal(texts[i].at, e->texts[i].data, texts[i].size);
    }
}

static uint8_t *pack(const Request *request, size_t *out_size)
{
    uint8_t *bytes = malloc(inference__model_infer_request__get_packed_size(request) + 1);
    assert_non_null(bytes);
    *out_size = inference__model_infer_request__pack(request, bytes);
    return bytes;
}

static void expect_read(const Request *request, const struct elements *e)
{
    struct base_arena arena;
    struct gw_infer_call call = {0};
    struct base_error error = {0};
    size_t size = 0;
    uint8_t *bytes = pack(request, &size);
    if (read_bytes(&arena, bytes, size, &call, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(call.input_count, 1);
    assert_int_equal(call.inputs[0].desc.rank, 2);
    expect_elements(e, &call.inputs[0]);
    base_arena_done(&arena);
    free(bytes);
}

static void test_every_type(void **state)
{
    (void)state;
    static const enum eng_dtype types[] = {ENG_BOOL, ENG_I8,  ENG_I16, ENG_I32,
                                           ENG_I64,  ENG_U8,  ENG_U16, ENG_U32,
                                           ENG_U64,  ENG_F32, ENG_F64, ENG_STRING};
    int64_t shape[] = {2, ELEMENTS / 2};
    struct elements e;
    base_prng_seed(&e.prng, seed);
    for (size_t i = 0; i < 50 * TEST_COUNT(types); i++) {
        enum eng_dtype dtype = types[i % TEST_COUNT(types)];
        char datatype[8] = "";
        char name[8] = "";
        Contents contents = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
        Input input = INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT;
        Input *inputs[] = {&input};
        Request request = INFERENCE__MODEL_INFER_REQUEST__INIT;
        struct base_str type = gw_oip_dtype_name(dtype);
        snprintf(datatype, sizeof(datatype), "%.*s", (int)type.size, type.data);
        snprintf(name, sizeof(name), "%.*s", (int)(1 + i % 7), "abcdefg"); // moves the alignment
        draw(&e, dtype, &contents);
        input.name = name;
        input.datatype = datatype;
        input.n_shape = 2;
        input.shape = shape;
        input.contents = &contents;
        request.n_inputs = 1;
        request.inputs = inputs;
        expect_read(&request, &e);
        if (dtype != ENG_STRING) { // the same raw
            ProtobufCBinaryData raw = {ELEMENTS * eng_dtype_bytes(dtype), e.dense};
            input.contents = NULL;
            request.n_raw_input_contents = 1;
            request.raw_input_contents = &raw;
            expect_read(&request, &e);
        }
    }
}

static void set_number(Inference__InferParameter *parameter, bool is_signed, int64_t value)
{
    inference__infer_parameter__init(parameter);
    parameter->parameter_choice_case =
        is_signed ? INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM
                  : INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM;
    parameter->int64_param = value;
}

static void test_names_and_parameters(void **state)
{
    (void)state;
    typedef Inference__ModelInferRequest__ParametersEntry Entry;
    typedef Inference__ModelInferRequest__InferRequestedOutputTensor Output;
    typedef Inference__ModelInferRequest__InferRequestedOutputTensor__ParametersEntry OutputEntry;
    Request request = INFERENCE__MODEL_INFER_REQUEST__INIT;
    Output output = INFERENCE__MODEL_INFER_REQUEST__INFER_REQUESTED_OUTPUT_TENSOR__INIT;
    Output *outputs[] = {&output};
    OutputEntry of_output =
        INFERENCE__MODEL_INFER_REQUEST__INFER_REQUESTED_OUTPUT_TENSOR__PARAMETERS_ENTRY__INIT;
    OutputEntry *of_outputs[] = {&of_output};
    Entry entries[3];
    Entry *list[3];
    Inference__InferParameter values[4];
    static const char *const names[] = {"priority", "timeout", "else"};
    for (size_t i = 0; i < 3; i++) {
        inference__model_infer_request__parameters_entry__init(&entries[i]);
        set_number(&values[i], i % 2 == 0, i == 0 ? 2 : 1500000);
        entries[i].key = (char *)(uintptr_t)names[i];
        entries[i].value = &values[i];
        list[i] = &entries[i];
    }
    set_number(&values[3], true, 5);
    of_output.key = (char *)(uintptr_t) "classification";
    of_output.value = &values[3];
    output.name = (char *)(uintptr_t) "scores";
    output.n_parameters = 1;
    output.parameters = of_outputs;
    request.model_name = (char *)(uintptr_t) "resnet";
    request.model_version = (char *)(uintptr_t) "7";
    request.id = (char *)(uintptr_t) "\xc3\xa9";
    request.n_parameters = 3;
    request.parameters = list;
    request.n_outputs = 1;
    request.outputs = outputs;
    size_t size = 0;
    uint8_t *bytes = pack(&request, &size);
    struct base_arena arena;
    struct gw_infer_call call = {0};
    struct base_error error = {0};
    assert_int_equal(read_bytes(&arena, bytes, size, &call, &error), BASE_OK);
    assert_true(base_str_equal(call.model, BASE_STR("resnet")));
    assert_true(base_str_equal(call.version, BASE_STR("7")));
    assert_true(base_str_equal(call.id, BASE_STR("\xc3\xa9")));
    assert_int_equal(call.priority, 2);
    assert_int_equal(call.timeout_us, 1500000);
    assert_int_equal(call.wish_count, 1);
    assert_true(base_str_equal(call.wishes[0].name, BASE_STR("scores")));
    assert_int_equal(call.wishes[0].classes, 5);
    base_arena_done(&arena);
    free(bytes);
}

// ---- Answers

static void test_result(void **state)
{
    (void)state;
    static const float scores[] = {0.5f, -1.f, 3.f};
    static const struct eng_string texts[] = {{"ab", 2}, {"", 0}};
    struct gw_infer_tensor outputs[2] = {{.name = BASE_STR("s"), .data = scores},
                                         {.name = BASE_STR("t"), .data = texts}};
    outputs[0].desc = (struct eng_desc){ENG_F32, 2, {1, 3}};
    outputs[1].desc = (struct eng_desc){ENG_STRING, 1, {2}};
    outputs[0].bytes = sizeof(scores);
    outputs[1].bytes = sizeof(texts);
    struct gw_infer_result result = {BASE_STR("m"), BASE_STR("1"), BASE_STR("id"), outputs, 2};
    struct gw_infer_call call = {0};
    struct base_arena arena;
    struct base_str frame;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    assert_int_equal(gw_oip_proto_write(&arena, &call, &result, &frame), BASE_OK);
    const uint8_t *bytes = (const uint8_t *)frame.data;
    assert_int_equal(bytes[0], 0);
    assert_int_equal((size_t)bytes[3] << 8 | bytes[4], frame.size - GW_PB_FRAME_BYTES);
    Inference__ModelInferResponse *back = inference__model_infer_response__unpack(
        NULL, frame.size - GW_PB_FRAME_BYTES, bytes + GW_PB_FRAME_BYTES);
    assert_non_null(back);
    assert_string_equal(back->model_name, "m");
    assert_string_equal(back->id, "id");
    assert_int_equal(back->n_outputs, 2);
    assert_string_equal(back->outputs[0]->datatype, "FP32");
    assert_int_equal(back->outputs[0]->n_shape, 2);
    assert_int_equal(back->outputs[0]->shape[1], 3);
    assert_string_equal(back->outputs[1]->datatype, "BYTES");
    assert_int_equal(back->n_raw_output_contents, 2);
    assert_int_equal(back->raw_output_contents[0].len, sizeof(scores));
    assert_memory_equal(back->raw_output_contents[0].data, scores, sizeof(scores));
    assert_int_equal(back->raw_output_contents[1].len, 10);
    assert_memory_equal(back->raw_output_contents[1].data, "\2\0\0\0ab\0\0\0\0", 10);
    inference__model_infer_response__free_unpacked(back, NULL);
    base_arena_done(&arena);
}

// Messages within messages, larger than was expected and than one byte of length.
static void test_writer_grows(void **state)
{
    (void)state;
    struct base_arena arena;
    struct gw_pb_out out;
    struct base_str frame;
    char name[301];
    memset(name, 'n', sizeof(name));
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    gw_pb_out_init(&out, &arena, 0);
    for (int i = 0; i < 40; i++) {
        size_t mark = gw_pb_begin(&out, 1);
        gw_pb_text(&out, 1, (struct base_str){name, (size_t)i * 7});
        gw_pb_text(&out, 2, BASE_STR("1"));
        gw_pb_end(&out, mark);
    }
    assert_int_equal(gw_pb_out_frame(&out, &frame), BASE_OK);
    Inference__RepositoryIndexResponse *back = inference__repository_index_response__unpack(
        NULL, frame.size - GW_PB_FRAME_BYTES, (const uint8_t *)frame.data + GW_PB_FRAME_BYTES);
    assert_non_null(back);
    assert_int_equal(back->n_models, 40);
    for (size_t i = 0; i < 40; i++) {
        assert_int_equal(strlen(back->models[i]->name), i * 7);
        assert_string_equal(back->models[i]->version, "1");
    }
    inference__repository_index_response__free_unpacked(back, NULL);
    base_arena_done(&arena);
}

static void test_query(void **state)
{
    (void)state;
    struct gw_oip_query query;
    struct base_error error = {0};
    assert_int_equal(gw_oip_proto_query(BASE_STR("\n\1m\22\0017\x1a\2xx"), &query, &error),
                     BASE_OK);
    assert_true(base_str_equal(query.first, BASE_STR("m")));
    assert_true(base_str_equal(query.second, BASE_STR("7")));
    assert_int_equal(gw_oip_proto_query(BASE_STR("\x10\1"), &query, &error), BASE_OK);
    assert_true(query.flag);
    assert_int_equal(gw_oip_proto_query(BASE_STR("\n\2m"), &query, &error), BASE_ERR_TRUNCATED);
    assert_int_equal(gw_oip_proto_query(BASE_STR("\n\1\xff"), &query, &error), BASE_ERR_INVALID);
}

// ---- What is refused

#define X_FP32  "\n\1x\x12\4FP32"               // name, datatype
#define TWO     "\x1a\1\2"                      // shape [2]
#define RAW(n)  "\x3a" n                        // raw_input_contents
#define FLOATS8 "\x32\10\0\0\x80\x3f\0\0\0\x40" // fp32_contents, packed

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        struct base_str message;
        enum base_status status;
        const char *says;
    } cases[] = {
        {BASE_STR("\x2a\x05\n\1x"), BASE_ERR_TRUNCATED, "malformed"},
        {BASE_STR("\x2b"), BASE_ERR_INVALID, "malformed"}, // a group
        {BASE_STR("\x2a\3\n\1x"), BASE_ERR_INVALID, "without name or datatype"},
        {BASE_STR("\x2a\12\n\1x\x12\5FP321"), BASE_ERR_UNSUPPORTED, "\"FP321\" is not known"},
        {BASE_STR("\x2a\14" X_FP32 TWO), BASE_ERR_TOO_LARGE, "2 elements, and data for 0"},
        {BASE_STR("\x2a\14" X_FP32 TWO RAW("\4\0\0\x80\x3f")), BASE_ERR_INVALID,
         "4 bytes of data, the shape wants 8"},
        {BASE_STR("\x2a\14" X_FP32 TWO RAW("\0") RAW("\0")), BASE_ERR_INVALID,
         "2 raw_input_contents for 1 inputs"},
        {BASE_STR("\x2a\x18" X_FP32 TWO "\x2a\12" FLOATS8 RAW("\0")), BASE_ERR_INVALID,
         "contents beside raw_input_contents"},
        {BASE_STR("\x2a\x10" X_FP32 TWO "\x2a\2\x08\1"), BASE_ERR_INVALID, "another type"},
        {BASE_STR("\x2a\x17" X_FP32 TWO "\x2a\x09\x32\7\0\0\x80\x3f\0\0\0"), BASE_ERR_INVALID,
         "end within an element"},
        {BASE_STR("\x2a\x18" X_FP32 "\x1a\1\1\x2a\12" FLOATS8), BASE_ERR_INVALID,
         "more elements than the shape has"},
        {BASE_STR("\x2a\x15" X_FP32 "\x1a\12\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"),
         BASE_ERR_INVALID, "a dimension is negative"},
        {BASE_STR("\x2a\x1b" X_FP32 "\x1a\x10\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff"
                  "\xff\xff\x7f"),
         BASE_ERR_TOO_LARGE, "over"},
        {BASE_STR("\x2a\14" X_FP32 "\x1a\1\0\x2a\14" X_FP32 "\x1a\1\0"), BASE_ERR_INVALID,
         "input \"x\" comes twice"},
        {BASE_STR("\x2a\x10\n\1x\x12\4INT8\x1a\1\1\x2a\4\x12\2\x80\1"), BASE_ERR_INVALID,
         "malformed"},
        {BASE_STR("\x2a\x12\n\1x\x12\4INT8\x1a\1\1\x2a\4\x12\2\x80\1"), BASE_ERR_INVALID,
         "does not fit"},
        {BASE_STR("\x2a\14\n\1x\x12\4BF16" TWO), BASE_ERR_INVALID, "raw_input_contents"},
        {BASE_STR("\n\1\xff"), BASE_ERR_INVALID, "no UTF-8"},
        {BASE_STR("\"\x0e\n\10priority\x12\2\x10\4"), BASE_ERR_INVALID, "0 to 3"},
        {BASE_STR("\"\x0d\n\7timeout\x12\2\x08\1"), BASE_ERR_INVALID, "whole number"},
        {BASE_STR("\x32\0"), BASE_ERR_INVALID, "an output without name"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct base_arena arena;
        struct gw_infer_call call = {0};
        struct base_error error = {0};
        uint8_t *exact = test_exact(cases[i].message.data, cases[i].message.size);
        enum base_status got = read_bytes(&arena, exact, cases[i].message.size, &call, &error);
        if (got != cases[i].status || strstr(error.text, cases[i].says) == NULL) {
            fail_msg("case %zu: %s, \"%s\"; wanted %s, \"%s\"", i, base_status_name(got),
                     error.text, base_status_name(cases[i].status), cases[i].says);
        }
        base_arena_done(&arena);
        free(exact);
    }
}

// ---- Limits: what is at one is taken, what is over it is not

static enum base_status pack_and_read(const Request *request, struct base_error *error)
{
    struct base_arena arena;
    struct gw_infer_call call = {0};
    size_t size = 0;
    uint8_t *bytes = pack(request, &size);
    enum base_status status = read_bytes(&arena, bytes, size, &call, error);
    base_arena_done(&arena);
    free(bytes);
    return status;
}

static void test_parameter_limits(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t most;
    } cases[] = {{"timeout", GW_INFER_TIMEOUT_US_MAX}, {"priority", GW_INFER_PRIORITIES - 1}};
    for (size_t i = 0; i < 2 * TEST_COUNT(cases); i++) {
        for (int over = 0; over < 2; over++) {
            Inference__ModelInferRequest__ParametersEntry entry =
                INFERENCE__MODEL_INFER_REQUEST__PARAMETERS_ENTRY__INIT;
            Inference__ModelInferRequest__ParametersEntry *list[] = {&entry};
            Inference__InferParameter value;
            Request request = INFERENCE__MODEL_INFER_REQUEST__INIT;
            struct base_error error = {0};
            set_number(&value, i % 2 == 0, cases[i / 2].most + over);
            entry.key = (char *)(uintptr_t)cases[i / 2].name;
            entry.value = &value;
            request.n_parameters = 1;
            request.parameters = list;
            assert_int_equal(pack_and_read(&request, &error), over ? BASE_ERR_INVALID : BASE_OK);
            assert_true(!over || strstr(error.text, cases[i / 2].name) != NULL);
        }
    }
}

static void test_name_limits(void **state)
{
    (void)state;
    char text[GW_INFER_NAME_BYTES_MAX + 2];
    memset(text, 'n', sizeof(text));
    for (size_t i = 0; i < 3; i++) {
        Request request = INFERENCE__MODEL_INFER_REQUEST__INIT;
        size_t most = i == 0 ? GW_INFER_ID_BYTES_MAX : GW_INFER_NAME_BYTES_MAX;
        struct base_error error = {0};
        *(i == 0 ? &request.id : i == 1 ? &request.model_name : &request.model_version) = text;
        text[most] = 0;
        assert_int_equal(pack_and_read(&request, &error), BASE_OK);
        text[most] = 'n';
        text[most + 1] = 0;
        assert_int_equal(pack_and_read(&request, &error), BASE_ERR_TOO_LARGE);
        memset(text, 'n', sizeof(text));
    }
}

static void test_tensor_limits(void **state)
{
    (void)state;
    typedef Inference__ModelInferRequest__InferRequestedOutputTensor Output;
    Input inputs[GW_INFER_TENSORS_MAX + 1];
    Input *input_list[GW_INFER_TENSORS_MAX + 1];
    Output outputs[GW_INFER_TENSORS_MAX + 1];
    Output *output_list[GW_INFER_TENSORS_MAX + 1];
    char names[GW_INFER_TENSORS_MAX + 1][4];
    int64_t none = 0;
    Request request = INFERENCE__MODEL_INFER_REQUEST__INIT;
    struct base_error error = {0};
    for (uint32_t i = 0; i < TEST_COUNT(inputs); i++) {
        inference__model_infer_request__infer_input_tensor__init(&inputs[i]);
        inference__model_infer_request__infer_requested_output_tensor__init(&outputs[i]);
        snprintf(names[i], sizeof(names[i]), "%u", i);
        inputs[i].name = names[i];
        inputs[i].datatype = (char *)(uintptr_t) "FP32";
        inputs[i].n_shape = 1;
        inputs[i].shape = &none;
        outputs[i].name = names[i];
        input_list[i] = &inputs[i];
        output_list[i] = &outputs[i];
    }
    request.inputs = input_list;
    request.outputs = output_list;
    request.n_inputs = GW_INFER_TENSORS_MAX;
    request.n_outputs = GW_INFER_TENSORS_MAX;
    assert_int_equal(pack_and_read(&request, &error), BASE_OK);
    request.n_inputs++;
    assert_int_equal(pack_and_read(&request, &error), BASE_ERR_TOO_LARGE);
    assert_string_equal(error.text, "over 64 inputs");
    request.n_inputs = 0;
    request.n_outputs++;
    assert_int_equal(pack_and_read(&request, &error), BASE_ERR_TOO_LARGE);
    assert_string_equal(error.text, "over 64 outputs");
}

static void test_each_allocation_fails(void **state)
{
    (void)state;
    static const struct base_str message =
        BASE_STR("\x2a\x18" X_FP32 TWO "\x2a\12" FLOATS8 "\x2a\x10\n\1y\x12\4INT8\x1a\1\1\x2a\2"
                 "\x10\1");
    size_t nth = 0;
    for (;; nth++) {
        struct test_alloc alloc;
        struct base_arena arena;
        struct gw_infer_call call = {0};
        struct base_error error = {0};
        struct base_str frame;
        test_alloc_init(&alloc, nth);
        base_arena_init(&arena, &alloc.port, 16, 0);
        enum base_status status = gw_oip_proto_read(&arena, message, &call, &error);
        if (status == BASE_OK) {
            struct gw_infer_result result = {.outputs = call.inputs, .output_count = 2};
            status = gw_oip_proto_write(&arena, &call, &result, &frame);
        }
        base_arena_done(&arena);
        assert_int_equal(alloc.live, 0);
        if (status == BASE_OK) {
            break;
        }
        assert_int_equal(status, BASE_ERR_NOMEM);
    }
    assert_true(nth >= 4);
}

int main(void)
{
    printf("seed %" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_names_and_parameters),
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_writer_grows),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_parameter_limits),
        cmocka_unit_test(test_name_limits),
        cmocka_unit_test(test_tensor_limits),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
