// What a version says may leave a device: the codec, and the check of records and calls against it.
#include "wire_damage.h"

#include "wire/cloud/tensor_leaves.h"
#include "wire/leaves/leaves_check.h"
#include "wire/leaves/leaves_ledger.h"

#define TEXT(name, most)                                                                           \
    {                                                                                              \
        BASE_STR(name), WIRE_LEAVES_TEXT, most                                                     \
    }
#define LIST(name, most)                                                                           \
    {                                                                                              \
        BASE_STR(name), WIRE_LEAVES_LIST, most                                                     \
    }
#define PLAIN(name, kind)                                                                          \
    {                                                                                              \
        BASE_STR(name), WIRE_LEAVES_##kind, 0                                                      \
    }

static struct wire_leaves sample(void)
{
    return (struct wire_leaves){
        .upload_count = 3,
        .uploads = {{.name = BASE_STR("bare"), .bytes_max = 40, .field_from = 0, .field_count = 1},
                    {.name = BASE_STR("raw"), .bytes_max = 16, .opaque = true, .field_from = 1},
                    {.name = BASE_STR("spent"),
                     .bytes_max = 200,
                     .per_day = 3,
                     .field_from = 1,
                     .field_count = 12}},
        .field_count = 13,
        .fields = {PLAIN("", NUMBER), TEXT("item", 8), PLAIN("cents", INTEGER),
                   PLAIN("mean", NUMBER), PLAIN("vip", BOOLEAN), LIST("tags", 2), TEXT("tags[]", 3),
                   PLAIN("pos.x", NUMBER), PLAIN("pos.y", NUMBER), LIST("rows", 4),
                   PLAIN("rows[].id", INTEGER), TEXT("rows[].who.name", 4), LIST("marks", 2)},
        .model_count = 2,
        .models = {{.name = BASE_STR("ranker"), .bytes_max = 300, .per_day = 9, .input_count = 2},
                   {.name = BASE_STR("words"), .bytes_max = 20, .input_from = 2, .input_count = 1}},
        .input_count = 3,
        .inputs = {{BASE_STR("ids"), BASE_STR("INT64"), 4},
                   {BASE_STR("x"), BASE_STR("FP32"), 64},
                   {BASE_STR("text"), BASE_STR("BYTES"), 2}},
    };
}

static struct wire_declaration declaration_sample(void)
{
    return (struct wire_declaration){
        .upload_count = 4,
        .uploads = {{.name = BASE_STR("bare"), .class_id = 2},
                    {.name = BASE_STR("raw"), .class_id = 2},
                    {.name = BASE_STR("spent"), .class_id = 1},
                    {.name = BASE_STR("other"), .class_id = 1}},
        .result_upload = 2,
    };
}

// The bytes of a declaration with these leaves; NULL: without.
static struct base_str declared(const struct wire_leaves *leaves)
{
    static uint8_t inner[WIRE_LEAVES_BYTES_MAX];
    static uint8_t bytes[WIRE_DECLARATION_BYTES_MAX];
    struct wire_declaration declaration = declaration_sample();
    size_t size = 0;
    if (leaves != NULL) {
        assert_int_equal(wire_leaves_encode(leaves, inner, sizeof(inner), &size), BASE_OK);
        declaration.leaves = (struct base_str){(const char *)inner, size};
    }
    assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof(bytes), &size), BASE_OK);
    return (struct base_str){(const char *)bytes, size};
}

// ---- The codec

static void comes_back_as_it_went(void **state)
{
    (void)state;
    struct wire_leaves leaves = sample();
    uint8_t bytes[1024];
    uint8_t again[1024];
    size_t size = 0;
    size_t again_size = 0;
    struct wire_leaves back;
    leaves.errors = WIRE_LEAVES_WORDS;
    assert_int_equal(wire_leaves_encode(&leaves, bytes, sizeof(bytes), &size), BASE_OK);
    assert_int_equal(wire_leaves_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.errors, WIRE_LEAVES_WORDS);
    assert_int_equal(back.upload_count, 3);
    assert_int_equal(back.uploads[2].per_day, 3);
    assert_int_equal(back.uploads[2].field_from, 1);
    assert_true(back.uploads[1].opaque);
    assert_true(base_str_equal(back.fields[11].path, BASE_STR("rows[].who.name")));
    assert_int_equal(back.models[1].input_from, 2);
    assert_true(back.inputs[1].elements_max == 64);
    assert_int_equal(wire_leaves_encode(&back, again, sizeof(again), &again_size), BASE_OK);
    assert_int_equal(again_size, size);
    assert_memory_equal(again, bytes, size);
    assert_int_equal(wire_leaves_encode(&leaves, bytes, size - 1, &size), BASE_ERR_TOO_LARGE);
}

static void in_a_declaration(void **state)
{
    (void)state;
    struct wire_leaves leaves = sample();
    struct wire_leaves nothing = {.upload_count = 0};
    struct wire_declaration back;
    struct base_str bytes = declared(&leaves);
    assert_int_equal(bytes.data[0], WIRE_DECLARATION_LEAVES);
    assert_int_equal(wire_declaration_parse((const uint8_t *)bytes.data, bytes.size, &back),
                     BASE_OK);
    assert_true(back.leaves.size > 0);
    assert_true(wire_leaves_declared(bytes));
    assert_int_equal(wire_leaves_errors_of(bytes), WIRE_LEAVES_PLACE);
    assert_true(wire_leaves_declared(declared(&nothing))); // that nothing leaves is said, too
    bytes = declared(NULL);
    assert_int_equal(bytes.data[0], WIRE_DECLARATION_VERSION); // as before there were leaves
    assert_false(wire_leaves_declared(bytes));
    assert_int_equal(wire_leaves_errors_of(bytes), WIRE_LEAVES_WORDS);
    assert_int_equal(wire_leaves_errors_of((struct base_str){NULL, 0}), WIRE_LEAVES_WORDS);
    assert_int_equal(wire_leaves_errors_of(BASE_STR("\x01")), WIRE_LEAVES_PLACE); // not readable
}

static void path_of_nothing(struct wire_leaves *l)
{
    l->fields[1].path = BASE_STR("a..b");
}
static void path_into_a_list(struct wire_leaves *l)
{
    l->fields[1].path = BASE_STR("a[0]");
}
static void path_behind_a_list(struct wire_leaves *l)
{
    l->fields[1].path = BASE_STR("a[]b");
}
static void path_with_a_quote(struct wire_leaves *l)
{
    l->fields[1].path = BASE_STR("a\"b");
}
static void path_that_ends_open(struct wire_leaves *l)
{
    l->fields[1].path = BASE_STR("a.");
}
static void path_too_deep(struct wire_leaves *l)
{
    l->fields[1].path = BASE_STR("a.b.c.d.e.f.g.h.i");
}
static void field_twice(struct wire_leaves *l)
{
    l->fields[2].path = BASE_STR("item");
}
static void text_without_end(struct wire_leaves *l)
{
    l->fields[1].max = 0;
}
static void number_with_end(struct wire_leaves *l)
{
    l->fields[2].max = 1;
}
static void no_such_kind(struct wire_leaves *l)
{
    l->fields[1].kind = WIRE_LEAVES_KIND_END;
}
static void no_such_errors(struct wire_leaves *l)
{
    l->errors = WIRE_LEAVES_ERRORS_END;
}
static void upload_twice(struct wire_leaves *l)
{
    l->uploads[1].name = BASE_STR("bare");
}
static void upload_of_nothing(struct wire_leaves *l)
{
    l->uploads[1].opaque = false;
}
static void upload_without_end(struct wire_leaves *l)
{
    l->uploads[1].bytes_max = 0;
}
static void no_such_dtype(struct wire_leaves *l)
{
    l->inputs[0].dtype = BASE_STR("FP31");
}
static void input_twice(struct wire_leaves *l)
{
    l->inputs[1].name = BASE_STR("ids");
}
static void input_without_end(struct wire_leaves *l)
{
    l->inputs[0].elements_max = 0;
}
static void model_without_inputs(struct wire_leaves *l)
{
    l->models[1].input_count = 0;
}
static void model_twice(struct wire_leaves *l)
{
    l->models[1].name = BASE_STR("ranker");
}

static void rules_hold(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        void (*change)(struct wire_leaves *leaves);
    } rules[] = {
        {"a part of a path is empty", path_of_nothing},
        {"an index in a path", path_into_a_list},
        {"a name right behind a list", path_behind_a_list},
        {"a quote in a path", path_with_a_quote},
        {"a path that ends in a dot", path_that_ends_open},
        {"a path of nine parts", path_too_deep},
        {"a field twice", field_twice},
        {"a text without a maximum", text_without_end},
        {"a number with one", number_with_end},
        {"no such kind", no_such_kind},
        {"no such errors", no_such_errors},
        {"an upload twice", upload_twice},
        {"an upload that lets nothing go", upload_of_nothing},
        {"an upload without a maximum", upload_without_end},
        {"no such dtype", no_such_dtype},
        {"an input twice", input_twice},
        {"an input without a maximum", input_without_end},
        {"a model without inputs", model_without_inputs},
        {"a model twice", model_twice},
    };
    uint8_t bytes[1024];
    size_t size = 0;
    for (size_t i = 0; i < TEST_COUNT(rules); i++) {
        struct wire_leaves wrong = sample();
        assert_int_equal(wire_leaves_encode(&wrong, bytes, sizeof(bytes), &size), BASE_OK);
        rules[i].change(&wrong);
        print_message("%s\n", rules[i].what);
        assert_int_equal(wire_leaves_encode(&wrong, bytes, sizeof(bytes), &size), BASE_ERR_INVALID);
    }
}

static enum base_status check_leaves(const uint8_t *bytes, size_t size)
{
    struct wire_leaves leaves;
    return wire_leaves_parse(bytes, size, &leaves);
}

static void damage_is_refused_or_read(void **state)
{
    (void)state;
    struct wire_leaves leaves = sample();
    uint8_t bytes[1024];
    size_t size = 0;
    assert_int_equal(wire_leaves_encode(&leaves, bytes, sizeof(bytes), &size), BASE_OK);
    struct base_prng prng;
    test_seed(&prng);
    wire_damage(&prng, bytes, size, check_leaves);
}

// ---- Records

static enum base_status upload_check(struct base_str declaration, const char *upload,
                                     const char *json, struct base_error *error)
{
    size_t size = strlen(json);
    uint8_t *exact = test_exact((const uint8_t *)json, size);
    const struct wire_leaves_record record = {WIRE_RECORD_JSON, exact, size};
    *error = (struct base_error){.status = BASE_OK};
    enum base_status status =
        wire_leaves_upload_check(declaration, base_str_of(upload), &record, error);
    free(exact);
    return status;
}

static void what_is_declared_may_leave(void **state)
{
    (void)state;
    static const char *const records[] = {
        "{}",
        "{\"item\":\"12345678\"}",
        "{\"cents\":-9223372036854775808,\"mean\":-1.7976931348623157e+308,\"vip\":true}",
        "{\"mean\":3,\"item\":null,\"pos\":null}",
        "{\"tags\":[],\"rows\":[]}",
        "{\"tags\":[\"abc\",\"\"]}",
        "{\"pos\":{\"y\":0.5,\"x\":1}}",
        "{\"rows\":[{\"id\":1,\"who\":{\"name\":\"anna\"}},{\"id\":2},{},{\"id\":3}]}",
        "{\"rows\":[{\"who\":{}},{\"who\":{}},{\"who\":null}],\"pos\":{},\"tags\":[null,null]}",
    };
    struct wire_leaves leaves = sample();
    struct base_str declaration = declared(&leaves);
    struct base_error error;
    for (size_t i = 0; i < TEST_COUNT(records); i++) {
        if (upload_check(declaration, "spent", records[i], &error) != BASE_OK) {
            fail_msg("%s: %s", records[i], error.text);
        }
    }
    assert_int_equal(upload_check(declaration, "bare", "1.5", &error), BASE_OK);
    assert_int_equal(upload_check(declaration, "bare", "{}", &error), BASE_ERR_DENIED);
}

struct refused {
    const char *json;
    const char *said;
};

static void expect_refused(const struct refused *records, size_t count)
{
    struct wire_leaves leaves = sample();
    struct base_str declaration = declared(&leaves);
    struct base_error error;
    for (size_t i = 0; i < count; i++) {
        enum base_status status = upload_check(declaration, "spent", records[i].json, &error);
        if (status != BASE_ERR_DENIED || strstr(error.text, "upload 'spent'") == NULL ||
            strstr(error.text, records[i].said) == NULL) {
            fail_msg("%s: %s: '%s', not '%s'", records[i].json, base_status_name(status),
                     error.text, records[i].said);
        }
    }
}

static void nothing_else_may(void **state)
{
    (void)state;
    static const struct refused records[] = {
        {"{\"item\":\"123456789\"}", "field 'item' has 9 bytes, and 8 may leave"},
        {"{\"user\":1}", "field 'user' is not in"},
        {"{\"item\":{\"user\":1}}", "field 'item.user' is not in"},
        {"{\"item\":[\"a\"]}", "field 'item' is no string"},
        {"{\"item\":1}", "field 'item' is no string"},
        {"{\"cents\":1.5}", "field 'cents' is no integer"},
        {"{\"cents\":\"1\"}", "field 'cents' is no integer"},
        {"{\"vip\":1}", "field 'vip' is no boolean"},
        {"{\"mean\":true}", "field 'mean' is no number"},
        {"{\"cents\":123456789012345678901}", "has 21 digits"},
        {"{\"mean\":0.1234567890123456789012345}", "has 27 digits"},
        {"{\"tags\":[\"a\",\"b\",\"c\"]}", "field 'tags' has 3 items or more, and 2 may"},
        {"{\"tags\":[\"abcd\"]}", "field 'tags[]' has 4 bytes"},
        {"{\"tags\":[[\"a\"]]}", "field 'tags[]' is no string"},
        {"{\"tags\":\"a\"}", "field 'tags' is no list"},
        {"{\"item\":{}}", "field 'item' is no string"}, // an empty object stands for nothing
        {"{\"vip\":{}}", "field 'vip' is no boolean"},
        {"{\"tags\":{}}", "field 'tags' is no list"},
        {"{\"tags\":[{}]}", "field 'tags[]' is no string"},
        {"{\"pos\":{\"x\":{}}}", "field 'pos.x' is no number"},
        {"{\"pos\":{\"z\":1}}", "field 'pos.z' is not in"},
        {"{\"pos\":1}", "field 'pos' is no object"},
        {"{\"pos\":[]}", "field 'pos' is no object"},
        {"{\"pos.x\":1}", "a member's name is not in"},
        {"{\"tags[]\":\"a\"}", "a member's name is not in"},
        {"{\"\":1}", "a member's name is not in"},
        {"{\"it\\u0065m\":\"a\"}", "a member's name is not in"},
        {"{\"rows\":[{\"user\":1}]}", "field 'rows[].user' is not in"},
        {"{\"rows\":[1]}", "field 'rows[]' is no object"},
        {"{\"who\":{}}", "field 'who' is not in"},
        {"{\"who\":[]}", "field 'who' is not in"},
        {"{\"who\":null}", "field 'who' is not in"},
        {"{\"marks\":[null]}", "field 'marks[]' is not in"}, // a list of nothing
        {"{\"marks\":[{}]}", "field 'marks[]' is not in"},
        {"[]", "the value itself is no object"},
        {"\"item\"", "the value itself is no object"},
        {"1", "the value itself is no object"},
        {"{\"cents\": 1}", "not JSON as it is written"},
        {" {}", "not JSON as it is written"},
        {"{}\n", "not JSON as it is written"},
        {"{\"cents\":01}", "not JSON as it is written"},
        {"{\"cents\":1,}", "not JSON as it is written"},
        {"{\"cents\":1", "not JSON as it is written"},
        {"{\"cents\":", "not JSON as it is written"},
        {"{\"cents\"1}", "not JSON as it is written"},
        {"{\"item\":\"a}", "not JSON as it is written"},
        {"{\"item\":\"a\nb\"}", "not JSON as it is written"},
        {"{\"vip\":TRUE}", "not JSON as it is written"},
        {"{}{}", "not JSON as it is written"},
        {"", "not JSON as it is written"},
    };
    expect_refused(records, TEST_COUNT(records));
}

// Nor is how often something is said a way to say more.
static void a_member_is_said_once(void **state)
{
    (void)state;
    static const struct refused records[] = {
        {"{\"item\":\"a\",\"item\":\"b\"}", "field 'item' is there twice"},
        {"{\"pos\":{\"x\":1},\"pos\":{\"x\":2}}", "field 'pos' is there twice"},
        {"{\"pos\":{\"x\":1,\"x\":2}}", "field 'pos.x' is there twice"},
        {"{\"pos\":{},\"pos\":{\"x\":7}}", "field 'pos' is there twice"},
        {"{\"pos\":null,\"pos\":null}", "field 'pos' is there twice"},
        {"{\"pos\":{},\"item\":\"a\",\"pos\":null}", "field 'pos' is there twice"},
        {"{\"rows\":[{\"who\":{}},{\"who\":{},\"who\":null}]}",
         "field 'rows[].who' is there twice"},
        {"{\"rows\":[],\"rows\":[]}", "field 'rows' is there twice"},
        {"{\"rows\":[{\"id\":1,\"id\":2}]}", "field 'rows[].id' is there twice"},
    };
    expect_refused(records, TEST_COUNT(records));
}

// A list's items may come again; what leads to the list may not, whichever field is declared first.
static void what_leads_to_a_list_is_said_once(void **state)
{
    (void)state;
    static const struct refused records[] = {
        {"{\"a\":{\"l\":[\"x\",\"y\"]},\"a\":{}}", "field 'a' is there twice"},
        {"{\"a\":{\"l\":[\"x\"],\"l\":[]}}", "field 'a.l' is there twice"},
    };
    struct wire_leaves leaves = {
        .upload_count = 1,
        .uploads = {{.name = BASE_STR("spent"), .bytes_max = 100, .field_count = 2}},
        .field_count = 2,
        .fields = {TEXT("a.l[]", 1), LIST("a.l", 2)},
    };
    struct base_str declaration = declared(&leaves);
    struct base_error error;
    assert_int_equal(upload_check(declaration, "spent", "{\"a\":{\"l\":[\"x\",\"y\"]}}", &error),
                     BASE_OK);
    for (size_t i = 0; i < TEST_COUNT(records); i++) {
        assert_int_equal(upload_check(declaration, "spent", records[i].json, &error),
                         BASE_ERR_DENIED);
        assert_non_null(strstr(error.text, records[i].said));
    }
}

static void of_whole_uploads(void **state)
{
    (void)state;
    struct wire_leaves leaves = sample();
    struct base_str declaration = declared(&leaves);
    struct base_error error;
    char big[256] = "{\"tags\":[\"";
    memset(big + 10, ' ', 200);
    memcpy(big + 210, "\"]}", 4);
    assert_int_equal(upload_check(declaration, "spent", big, &error), BASE_ERR_DENIED);
    assert_non_null(strstr(error.text, "upload 'spent' has 213 bytes, and 200 may leave"));
    assert_int_equal(upload_check(declaration, "other", "{}", &error), BASE_ERR_DENIED);
    assert_non_null(strstr(error.text, "upload 'other' is not in \"leaves\""));
    assert_int_equal(upload_check(declaration, "secret", "{}", &error), BASE_ERR_NOT_FOUND);
    assert_int_equal(upload_check(declaration, "raw", "{}", &error), BASE_ERR_DENIED);
    assert_non_null(strstr(error.text, "lets no fields go"));
    const struct wire_leaves_record bytes = {WIRE_RECORD_BYTES, (const uint8_t *)"0123456789abcdef",
                                             16};
    struct wire_leaves_record more = bytes;
    more.size = 17;
    struct wire_leaves_record events = bytes;
    events.format = WIRE_RECORD_EVENTS;
    assert_int_equal(wire_leaves_upload_check(declaration, BASE_STR("raw"), &bytes, NULL), BASE_OK);
    assert_int_equal(wire_leaves_upload_check(declaration, BASE_STR("raw"), &more, NULL),
                     BASE_ERR_DENIED);
    assert_int_equal(wire_leaves_upload_check(declaration, BASE_STR("raw"), &events, NULL),
                     BASE_ERR_DENIED);
    assert_int_equal(wire_leaves_upload_check(declaration, BASE_STR("spent"), &bytes, NULL),
                     BASE_ERR_DENIED);
    const struct wire_leaves_record disguised[] = {
        {WIRE_RECORD_BYTES, (const uint8_t *)"{}", 2},
        {WIRE_RECORD_EVENTS, (const uint8_t *)"{}", 2},
    };
    for (size_t i = 0; i < TEST_COUNT(disguised); i++) {
        assert_int_equal(
            wire_leaves_upload_check(declaration, BASE_STR("spent"), &disguised[i], NULL),
            BASE_ERR_DENIED);
    }
    const struct wire_leaves_record right = {WIRE_RECORD_JSON, (const uint8_t *)"{}", 2};
    const struct wire_leaves_record wrong = {WIRE_RECORD_JSON, (const uint8_t *)"{\"a\":1}", 7};
    assert_int_equal(wire_leaves_result_check(declaration, &right, NULL), BASE_OK);
    assert_int_equal(wire_leaves_result_check(declaration, &wrong, NULL), BASE_ERR_DENIED);
    assert_int_equal(wire_leaves_upload_per_day(declaration, BASE_STR("spent")), 3);
    assert_int_equal(wire_leaves_upload_per_day(declaration, BASE_STR("raw")), 0);
}

static void undeclared_is_as_ever(void **state)
{
    (void)state;
    struct base_str declaration = declared(NULL);
    struct base_error error;
    assert_int_equal(upload_check(declaration, "spent", "{\"user\": [1]}", &error), BASE_OK);
    assert_int_equal(upload_check(declaration, "secret", "{}", &error), BASE_ERR_NOT_FOUND);
    const struct wire_leaves_record any = {WIRE_RECORD_JSON, (const uint8_t *)"[]", 2};
    const struct base_str none = {NULL, 0};
    assert_int_equal(wire_leaves_result_check(declaration, &any, NULL), BASE_OK);
    assert_int_equal(wire_leaves_result_check(none, &any, NULL), BASE_OK);
    assert_int_equal(wire_leaves_upload_per_day(declaration, BASE_STR("spent")), 0);
    const struct wire_leaves_call call = {.model = BASE_STR("ranker")};
    assert_int_equal(wire_leaves_call_check(declaration, &call, &error), BASE_ERR_DENIED);
    assert_int_equal(wire_leaves_call_check(none, &call, &error), BASE_ERR_DENIED);
    assert_int_equal(upload_check(BASE_STR("\x02"), "spent", "{}", &error), BASE_ERR_CORRUPT);
    assert_int_equal(wire_leaves_call_check(BASE_STR("\x02"), &call, &error), BASE_ERR_CORRUPT);
}

// ---- Calls

static void calls(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        struct wire_leaves_input inputs[3];
        uint32_t count;
        const char *said; // NULL: it may
    } cases[] = {
        {"ranker", {{BASE_STR("x"), BASE_STR("FP32"), 64, 256}}, 1, NULL},
        {"ranker",
         {{BASE_STR("x"), BASE_STR("FP32"), 64, 256}, {BASE_STR("ids"), BASE_STR("INT64"), 4, 32}},
         2,
         NULL},
        {"ranker", {{{NULL, 0}, {NULL, 0}, 0, 0}}, 0, NULL},
        {"ranker",
         {{BASE_STR("x"), BASE_STR("FP32"), 65, 260}},
         1,
         "input 'x' has 65 elements, and 64 may leave"},
        {"ranker", {{BASE_STR("x"), BASE_STR("FP64"), 4, 32}}, 1, "input 'x' is FP64, and FP32"},
        {"ranker", {{BASE_STR("y"), BASE_STR("FP32"), 4, 16}}, 1, "input 'y' is not in"},
        {"ranker",
         {{BASE_STR("x"), BASE_STR("FP32"), 4, 16}, {BASE_STR("x"), BASE_STR("FP32"), 4, 16}},
         2,
         "input 'x' is there twice"},
        {"ranker",
         {{BASE_STR("x"), BASE_STR("FP32"), 64, 301}},
         1,
         "its inputs have 301 bytes, and 300 may"},
        {"ranker",
         {{BASE_STR("x"), BASE_STR("FP32"), 64, UINT64_MAX},
          {BASE_STR("ids"), BASE_STR("INT64"), 4, 32}},
         2,
         "its inputs have"},
        {"words", {{BASE_STR("text"), BASE_STR("BYTES"), 2, 20}}, 1, NULL},
        {"words", {{BASE_STR("text"), BASE_STR("BYTES"), 2, 21}}, 1, "21 bytes, and 20 may"},
        {"other", {{BASE_STR("x"), BASE_STR("FP32"), 1, 4}}, 1, "go to model 'other'"},
    };
    struct wire_leaves leaves = sample();
    struct base_str declaration = declared(&leaves);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct wire_leaves_call call = {base_str_of(cases[i].model), cases[i].inputs,
                                              cases[i].count};
        struct base_error error = {0};
        enum base_status status = wire_leaves_call_check(declaration, &call, &error);
        bool may = cases[i].said == NULL;
        if (status != (may ? BASE_OK : BASE_ERR_DENIED) ||
            (!may && strstr(error.text, cases[i].said) == NULL)) {
            fail_msg("case %zu: %s: %s", i, base_status_name(status), error.text);
        }
    }
    assert_int_equal(wire_leaves_model_per_day(declaration, BASE_STR("ranker")), 9);
    assert_int_equal(wire_leaves_model_per_day(declaration, BASE_STR("words")), 0);
}

// A shape is held against what may leave as the elements are.
static void shapes_of_calls(void **state)
{
    (void)state;
    static const struct {
        uint8_t dtype; // ONNX's
        uint32_t rank;
        uint64_t dims[4];
        const char *said; // NULL: it may
    } cases[] = {
        {1, 2, {4, 16}, NULL},
        {1, 1, {0}, NULL},
        {1, 0, {0}, NULL},
        {1, 4, {1, 64, 1, 1}, NULL},
        {1, 2, {5, 16}, "input 'x' has 80 elements, and 64 may leave"},
        {1, 3, {0, 0x736563726574, 1}, "input 'x' has 126879297332596 elements"},
        {1, 4, {0, UINT64_MAX, UINT64_MAX, 2}, "input 'x' has 18446744073709551615 elements"},
        {11, 1, {4}, "input 'x' is FP64, and FP32"},
        {99, 1, {4}, "input 'x' is , and FP32"},
    };
    struct wire_leaves leaves = sample();
    struct base_str declaration = declared(&leaves);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct wire_tensor_call call = {.count = 1};
        struct wire_tensor *tensor = &call.tensors[0];
        *tensor = (struct wire_tensor){
            .name = BASE_STR("x"), .dtype = cases[i].dtype, .rank = (uint8_t)cases[i].rank};
        tensor->bytes = wire_tensor_element_bytes(cases[i].dtype);
        for (uint32_t d = 0; d < cases[i].rank; d++) {
            tensor->dims[d] = cases[i].dims[d];
            tensor->bytes *= cases[i].dims[d] < 256 ? (size_t)cases[i].dims[d] : 0;
        }
        struct base_error error = {0};
        enum base_status status =
            wire_tensor_may_leave(declaration, BASE_STR("ranker"), &call, &error);
        bool may = cases[i].said == NULL;
        if (status != (may ? BASE_OK : BASE_ERR_DENIED) ||
            (!may && strstr(error.text, cases[i].said) == NULL)) {
            fail_msg("case %zu: %s: %s", i, base_status_name(status), error.text);
        }
    }
}

// Of a boolean a byte says one bit.
static void booleans_of_calls(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[4];
        const char *said; // NULL: it may
    } cases[] = {
        {{0, 1, 1, 0}, NULL},
        {{2, 0, 0, 0}, "model 'gate': input 'open' is BOOL, and byte 0 is 2: 0 or 1 may leave"},
        {{0, 1, 1, 255}, "byte 3 is 255"},
    };
    struct wire_leaves leaves = sample();
    leaves.models[2] = (struct wire_leaves_model){
        .name = BASE_STR("gate"), .bytes_max = 4, .input_from = 3, .input_count = 1};
    leaves.inputs[3] = (struct wire_leaves_port){BASE_STR("open"), BASE_STR("BOOL"), 4};
    leaves.model_count = 3;
    leaves.input_count = 4;
    struct base_str declaration = declared(&leaves);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        uint8_t *exact = test_exact(cases[i].bytes, 4);
        struct wire_tensor_call call = {.count = 1};
        call.tensors[0] = (struct wire_tensor){.name = BASE_STR("open"),
                                               .dtype = 9,
                                               .rank = 1,
                                               .dims = {4},
                                               .data = exact,
                                               .bytes = 4};
        struct base_error error = {0};
        enum base_status status =
            wire_tensor_may_leave(declaration, BASE_STR("gate"), &call, &error);
        free(exact);
        bool may = cases[i].said == NULL;
        if (status != (may ? BASE_OK : BASE_ERR_DENIED) ||
            (!may && strstr(error.text, cases[i].said) == NULL)) {
            fail_msg("case %zu: %s: %s", i, base_status_name(status), error.text);
        }
    }
}

// ---- So many a day

static void so_many_a_day(void **state)
{
    (void)state;
    const uint64_t day = WIRE_LEAVES_DAY_MS;
    struct wire_leaves_ledger ledger = {.day = 0};
    uint64_t a = wire_leaves_ledger_key(BASE_STR("t"), BASE_STR("upload"), BASE_STR("a"));
    uint64_t b = wire_leaves_ledger_key(BASE_STR("t"), BASE_STR("model"), BASE_STR("a"));
    assert_true(a != b);
    assert_true(wire_leaves_ledger_take(&ledger, a, 10 * day, 2));
    assert_true(wire_leaves_ledger_take(&ledger, a, 10 * day + 5, 2));
    assert_false(wire_leaves_ledger_take(&ledger, a, 11 * day - 1, 2));
    assert_true(wire_leaves_ledger_take(&ledger, b, 11 * day - 1, 1));
    assert_true(wire_leaves_ledger_take(&ledger, a, 10 * day, 0)); // any number
    assert_false(wire_leaves_ledger_take(&ledger, a, 9 * day, 2)); // the clock went back
    uint8_t bytes[WIRE_LEAVES_LEDGER_BYTES];
    struct base_writer writer;
    struct base_reader reader;
    struct wire_leaves_ledger back;
    base_writer_init(&writer, bytes, sizeof(bytes));
    wire_leaves_ledger_write(&writer, &ledger);
    base_reader_init(&reader, bytes, base_writer_size(&writer));
    wire_leaves_ledger_read(&reader, &back);
    assert_int_equal(base_reader_finish(&reader), BASE_OK);
    assert_false(wire_leaves_ledger_take(&back, a, 10 * day, 2)); // it is remembered
    assert_true(wire_leaves_ledger_take(&back, a, 11 * day, 2));  // tomorrow
    for (uint64_t i = 1; i < WIRE_LEAVES_LEDGER_MAX; i++) {
        assert_true(wire_leaves_ledger_take(&back, i, 11 * day, 1));
    }
    assert_false(wire_leaves_ledger_take(&back, 0x777, 11 * day, 1)); // no place to count it
    base_writer_init(&writer, bytes, sizeof(bytes));
    wire_leaves_ledger_write(&writer, &back);
    assert_int_equal(writer.status, BASE_OK);
    assert_int_equal(base_writer_size(&writer), WIRE_LEAVES_LEDGER_BYTES);
    base_reader_init(&reader, bytes, 20);
    wire_leaves_ledger_read(&reader, &back);
    assert_int_equal(back.count, 0); // cut: as if there were none
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_as_it_went),
        cmocka_unit_test(in_a_declaration),
        cmocka_unit_test(rules_hold),
        cmocka_unit_test(damage_is_refused_or_read),
        cmocka_unit_test(what_is_declared_may_leave),
        cmocka_unit_test(nothing_else_may),
        cmocka_unit_test(a_member_is_said_once),
        cmocka_unit_test(what_leads_to_a_list_is_said_once),
        cmocka_unit_test(of_whole_uploads),
        cmocka_unit_test(undeclared_is_as_ever),
        cmocka_unit_test(calls),
        cmocka_unit_test(shapes_of_calls),
        cmocka_unit_test(booleans_of_calls),
        cmocka_unit_test(so_many_a_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
