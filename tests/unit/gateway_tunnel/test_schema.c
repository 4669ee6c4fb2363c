// The JSON scanner against an independent parser, and schemas: what may be written, what a record
// may be, and where an error is.
#include "tunnel/schema/json_scan.h"
#include "tunnel/schema/schema.h"
#include "tunnel/uploads.h"

#include "base/prng.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_json(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"null", true},
        {" { } ", true},
        {"[1,-0,0.5e+3,\"\\u00e9\\ud83d\\ude00\"]", true},
        {"\"\xc3\xa9\xf0\x9f\x98\x80\"", true},
        {"", false},
        {"01", false},
        {"1.", false},
        {"-", false},
        {"1e", false},
        {"[1,]", false},
        {"{\"a\":1,}", false},
        {"{\"a\"}", false},
        {"{1:2}", false},
        {"[1 2]", false},
        {"nul", false},
        {"1 2", false},
        {"\"\n\"", false},
        {"\"\\x\"", false},
        {"\"\\ud800\"", false},
        {"\"\\udc00\"", false},
        {"\"\\ud800\\u0041\"", false},
        {"\"\xc0\x80\"", false},
        {"\"\xed\xa0\x80\"", false},
        {"\"\xf4\x90\x80\x80\"", false},
        {"\"\xc3\"", false},
        {"[}", false},
        {"{]", false},
        {"]", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool good = gw_scan_check(base_str_of(cases[i].text)) == BASE_OK;
        if (good != cases[i].good) {
            fail_msg("%s: %d", cases[i].text, good);
        }
    }
    char deep[2 * GW_JSON_DEPTH_MAX + 3] = {0};
    memset(deep, '[', GW_JSON_DEPTH_MAX);
    memset(deep + GW_JSON_DEPTH_MAX, ']', GW_JSON_DEPTH_MAX);
    assert_int_equal(gw_scan_check(base_str_of(deep)), BASE_OK);
    memset(deep, '[', GW_JSON_DEPTH_MAX + 1);
    assert_int_equal(gw_scan_check(base_str_of(deep)), BASE_ERR_TOO_LARGE);
}

// Random edits of JSON texts: the scanner and jansson agree on every one.
static void test_json_agrees(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        "{\"item\":\"i-17\",\"dwell\":1.5e2,\"tags\":[\"a\",null,true],\"n\":{\"x\":-3}}",
        "[[],{},\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u12ab\",0.0,-0,1E-2,[[1]]]",
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
    };
    static const char alphabet[] = "{}[]\",:\\0123456789.-+eEunltrfasu \n\t\x7f\xc3\xa9\xed\xf0";
    uint64_t seed = 4242;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    uint32_t accepted = 0;
    for (uint32_t round = 0; round < 200000; round++) {
        char text[128];
        const char *from = seeds[base_prng_below(&prng, 3)];
        size_t size = strlen(from);
        memcpy(text, from, size);
        uint64_t edits = base_prng_below(&prng, 4);
        for (uint64_t e = 0; e < edits && size > 0 && size < sizeof(text) - 1; e++) {
            size_t at = (size_t)base_prng_below(&prng, size);
            char c = alphabet[base_prng_below(&prng, sizeof(alphabet) - 1)];
            if (base_prng_below(&prng, 3) == 0) {
                memmove(text + at, text + at + 1, --size - at);
            } else if (base_prng_below(&prng, 2) == 0) {
                memmove(text + at + 1, text + at, size++ - at);
                text[at] = c;
            } else {
                text[at] = c;
            }
        }
        json_t *root = json_loadb(text, size,
                                  JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        bool ours = gw_scan_check((struct base_str){text, size}) == BASE_OK;
        // jansson refuses numbers beyond a double; the grammar does not.
        bool huge = root == NULL && ours && memchr(text, 'e', size) != NULL;
        huge = huge || (root == NULL && ours && memchr(text, 'E', size) != NULL);
        if ((root != NULL) != ours && !huge) {
            fail_msg("round %u: %.*s: ours %d", round, (int)size, text, ours);
        }
        accepted += ours;
        json_decref(root);
    }
    assert_true(accepted > 20000 && accepted < 180000);
}

static const char ipv[] =
    "{\"fields\":{\"item\":{\"type\":\"string\",\"max\":8},\"dwell\":{\"type\":\"number\","
    "\"min\":0,\"max\":600},\"clicks\":\"integer\",\"tags?\":{\"type\":\"list\",\"items\":"
    "\"string\","
    "\"max\":2},\"more?\":{\"fields\":{\"a\":\"boolean\"},\"extra\":true},\"x?\":\"any\","
    "\"n?\":\"null\"}}";

static void test_records(void **state)
{
    (void)state;
    static const struct {
        const char *record;
        enum base_status status;
    } cases[] = {
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3}", BASE_OK},
        {"{\"clicks\":-3,\"item\":\"12345678\",\"dwell\":600.0,\"tags\":[],\"x\":[{\"y\":[1]}]}",
         BASE_OK},
        {"{\"clicks\":0,\"item\":\"\",\"dwell\":1,\"more\":{\"a\":true,\"b\":{\"c\":1}},\"n\":"
         "null}",
         BASE_OK},
        {"{\"clicks\":0,\"item\":\"\"}", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3.0}", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":-0.1,\"clicks\":3}", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":600.1,\"clicks\":3}", BASE_ERR_INVALID},
        {"{\"item\":\"123456789\",\"dwell\":0,\"clicks\":3}", BASE_ERR_TOO_LARGE},
        {"{\"item\":7,\"dwell\":0,\"clicks\":3}", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3,\"clicks\":3}", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3,\"other\":1}", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3,\"tags\":[\"a\",\"b\",\"c\"]}",
         BASE_ERR_TOO_LARGE},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3,\"tags\":[1]}", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3,\"tags\":{}}", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3,\"more\":{\"b\":1}}", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3,\"more\":{\"a\":1}}", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3,\"n\":0}", BASE_ERR_INVALID},
        {"[]", BASE_ERR_INVALID},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3", BASE_ERR_INVALID},
        {"", BASE_ERR_INVALID},
    };
    struct gw_schema *schema = NULL;
    struct base_error error = {0};
    if (gw_schema_parse(base_str_of(ipv), &schema, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum base_status status = gw_schema_check(schema, base_str_of(cases[i].record));
        if (status != cases[i].status) {
            fail_msg("%s: %s", cases[i].record, base_status_name(status));
        }
    }
    gw_schema_free(schema);
}

static void test_bad_schemas(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "7",
        "\"text\"",
        "{}",
        "{\"type\":\"string\",\"min\":1}",
        "{\"type\":\"string\",\"max\":-1}",
        "{\"type\":\"integer\",\"fields\":{}}",
        "{\"type\":\"integer\",\"max\":1,\"max\":2}",
        "{\"type\":\"integer\",\"type\":\"integer\"}",
        "{\"type\":\"list\",\"fields\":{}}",
        "{\"type\":\"object\",\"items\":\"any\"}",
        "{\"fields\":{\"a\":\"any\",\"a?\":\"any\"}}",
        "{\"fields\":{\"\":\"any\"}}",
        "{\"fields\":{\"?\":\"any\"}}",
        "{\"fields\":{\"a\\n\":\"any\"}}",
        "{\"fields\":[]}",
        "{\"type\":\"any\",\"other\":1}",
        "{\"type\":\"any\"",
        "\"any\" \"any\"",
        "{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":"
        "{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":"
        "{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":"
        "{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":"
        "{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":"
        "{\"type\":\"list\",\"items\":{\"type\":\"list\"}}}}}}}}}}}}}}}}}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct gw_schema *schema = NULL;
        struct base_error error = {0};
        if (gw_schema_parse(base_str_of(bad[i]), &schema, &error) == BASE_OK) {
            fail_msg("%s is taken", bad[i]);
        }
        assert_non_null(strstr(error.text, "schema: "));
    }
    char many[8192] = "{\"fields\":{";
    for (uint32_t i = 0; i <= GW_SCHEMA_FIELDS_MAX; i++) {
        size_t at = strlen(many);
        (void)snprintf(many + at, sizeof(many) - at, "%s\"f%u\":\"any\"", i > 0 ? "," : "", i);
    }
    (void)strncat(many, "}}", sizeof(many) - strlen(many) - 1);
    struct gw_schema *schema = NULL;
    assert_int_equal(gw_schema_parse(base_str_of(many), &schema, NULL), BASE_ERR_TOO_LARGE);
    assert_int_equal(
        gw_schema_parse((struct base_str){many, GW_SCHEMA_BYTES_MAX + 1}, &schema, NULL),
        BASE_ERR_TOO_LARGE);
}

static void test_uploads_declared(void **state)
{
    (void)state;
    struct gw_uploads *uploads = NULL;
    struct base_error error = {0};
    struct wire_upload_key upload = {BASE_STR("shop/ipv"), BASE_STR("feature"), 1};
    assert_int_equal(gw_uploads_new(&(struct base_hash_key){1, 2}, &uploads), BASE_OK);
    assert_null(gw_uploads_find(uploads, &upload));
    assert_int_equal(
        gw_uploads_declare(uploads, &(struct gw_upload){3, upload, 1, base_str_of(ipv)}, &error),
        BASE_OK);
    struct gw_upload_entry *found = gw_uploads_find(uploads, &upload);
    assert_non_null(found);
    assert_int_equal(found->tenant, 3);
    assert_non_null(found->schema);
    // Another tenant cannot take it; its own may replace it, and another version stands beside.
    assert_int_equal(
        gw_uploads_declare(uploads, &(struct gw_upload){4, upload, 1, BASE_STR("")}, &error),
        BASE_ERR_CONFLICT);
    assert_int_equal(
        gw_uploads_declare(uploads, &(struct gw_upload){3, upload, 2, BASE_STR("")}, &error),
        BASE_OK);
    assert_int_equal(gw_uploads_find(uploads, &upload)->class_id, 2);
    assert_non_null(found->schema); // who holds it may go on
    upload.schema = 2;
    assert_null(gw_uploads_find(uploads, &upload));
    assert_int_equal(gw_uploads_declare(uploads,
                                        &(struct gw_upload){3, upload, 1, BASE_STR("\"nothing\"")},
                                        &error),
                     BASE_ERR_INVALID);
    upload.name = BASE_STR("Not a name");
    assert_int_equal(
        gw_uploads_declare(uploads, &(struct gw_upload){3, upload, 1, BASE_STR("")}, &error),
        BASE_ERR_INVALID);
    gw_uploads_free(uploads);
}

static void test_explained(void **state)
{
    (void)state;
    static const struct {
        const char *record;
        const char *why;
    } cases[] = {
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3}", ""},
        {"{\"clicks\":0,\"item\":\"\"}", "the record lacks \"dwell\""},
        {"{\"item\":\"i\",\"dwell\":0,\"clicks\":3.0}", "clicks is no integer"},
        {"{\"item\":\"i\",\"dwell\":-0.1,\"clicks\":3}", "dwell is -0.1, out of bounds"},
        {"{\"item\":\"123456789\",\"dwell\":0,\"clicks\":3}", "item is longer than 8 bytes"},
        {"{\"item\":7,\"dwell\":0,\"clicks\":3}", "item is no string"},
        {"{\"item\":\"i\",\"item\":\"i\"}", "item is there twice"},
        {"{\"other\":1}", "other is no field of the schema"},
        {"{\"tags\":[\"a\",{}]}", "tags[1] is no string"},
        {"{\"tags\":[\"a\",\"b\",\"c\"]}", "tags has more than 2 items"},
        {"{\"more\":{\"b\":[1,{\"c\":2}],\"a\":3}}", "more.a is no boolean"},
        {"{\"more\":{\"b\":1}}", "more lacks \"a\""},
        {"[1]", "the record is no object"},
        {"{\"item\" 1}", "no JSON from byte 8 on"},
        {"{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "nested deeper than 32"},
    };
    struct gw_schema *schema = NULL;
    struct base_error error = {0};
    assert_int_equal(gw_schema_parse(base_str_of(ipv), &schema, &error), BASE_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[GW_SCHEMA_WHY_MAX + 1] = "?";
        struct base_str record = base_str_of(cases[i].record);
        gw_schema_explain(schema, record, why);
        assert_string_equal(why, cases[i].why);
        assert_int_equal(why[0] == 0, gw_schema_check(schema, record) == BASE_OK);
    }
    char wide[400];
    char why[GW_SCHEMA_WHY_MAX + 1];
    (void)snprintf(wide, sizeof(wide), "{\"%0300d\":1}", 7);
    gw_schema_explain(schema, base_str_of(wide), why);
    assert_string_equal(why, "0000000000000000000000000000000000000000 is no field of the schema");
    gw_schema_free(schema);
}

// What is no type is told by the field's name, with what there is.
static void test_no_type_is_told_by_its_field(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"{\"type\":\"int\"}",
         ": a type is any, null, boolean, integer, number, string, list or object"},
        {"{\"fields\":{\"at\":\"string\",\"price?\":\"int\"}}",
         ": the type of price is any, null, "},
        {"{\"fields\":{\"price\":{\"type\":\"int\"}}}", ": the type of price is any, null, "},
        {"{\"fields\":{\"p\":{\"type\":\"list\",\"items\":{\"type\":\"list\",\"items\":\"int\"}}}}",
         ": the type of p is any, null, "},
        {"{\"fields\":{\"\xc3\xa9\":\"int\"}}", ": a type is any, null, "},
        {"{\"type\":\"list\",\"type\":\"list\"}", ": type twice"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct gw_schema *schema = NULL;
        struct base_error error = {0};
        assert_int_equal(gw_schema_parse(base_str_of(bad[i].text), &schema, &error),
                         BASE_ERR_INVALID);
        if (strstr(error.text, bad[i].says) == NULL) {
            fail_msg("%s: %s", bad[i].text, error.text);
        }
    }
}

int main(void)
{
    json_object_seed(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_agrees),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_bad_schemas),
        cmocka_unit_test(test_uploads_declared),
        cmocka_unit_test(test_explained),
        cmocka_unit_test(test_no_type_is_told_by_its_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
