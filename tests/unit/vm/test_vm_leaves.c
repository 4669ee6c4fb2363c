// A script that tries to let go what its version does not let leave hears of it where it does so,
// and is counted; what may leave goes, and a version that declares nothing is as ever.
#include "vm_kit.h"

#include "wire/leaves/leaves.h"

static struct vm_kit kit;
static uint8_t leaves_bytes[512];
static uint8_t declaration_bytes[1024];

static void declare(bool leaves)
{
    const struct wire_leaves said = {
        .upload_count = 2,
        .uploads = {{.name = BASE_STR("raw"), .bytes_max = 4, .opaque = true},
                    {.name = BASE_STR("spent"), .bytes_max = 64, .field_count = 2}},
        .field_count = 2,
        .fields = {{BASE_STR("item"), WIRE_LEAVES_TEXT, 8},
                   {BASE_STR("cents"), WIRE_LEAVES_INTEGER, 0}},
    };
    struct wire_declaration declaration = {
        .upload_count = 3,
        .uploads = {{.name = BASE_STR("raw"), .class_id = 1},
                    {.name = BASE_STR("spent"), .class_id = 1},
                    {.name = BASE_STR("other"), .class_id = 1}},
        .result_upload = 1,
    };
    size_t size = 0;
    if (leaves) {
        assert_int_equal(wire_leaves_encode(&said, leaves_bytes, sizeof(leaves_bytes), &size),
                         BASE_OK);
        declaration.leaves = (struct base_str){(const char *)leaves_bytes, size};
    }
    assert_int_equal(
        wire_declaration_encode(&declaration, declaration_bytes, sizeof(declaration_bytes), &size),
        BASE_OK);
    kit.job.declaration = (struct base_str){(const char *)declaration_bytes, size};
}

static int setup(void **state)
{
    (void)state;
    kit_init(&kit, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_done(&kit);
    return 0;
}

static void what_may_leave_goes(void **state)
{
    (void)state;
    declare(true);
    kit_run_source(&kit, "import walle\n"
                         "walle.data.upload('spent', {'item': 'i-1', 'cents': 2**62})\n"
                         "walle.data.upload('spent', {'cents': None})\n"
                         "walle.data.upload('raw', b'1234')\n"
                         "walle.result({'item': 'i-1'})\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    assert_int_equal(kit.result.refused, 0);
    assert_int_equal(kit.result.effect_count, 3);
    kit_text_is(kit.result.result, "{\"item\":\"i-1\"}");
}

static void the_script_hears_what_may_not(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        const char *said;
    } cases[] = {
        {"walle.data.upload('spent', {'user': 1})", "upload 'spent': field 'user' is not in"},
        {"walle.data.upload('spent', {'item': 'i-1', 'cents': 1.5})",
         "field 'cents' is no integer"},
        {"walle.data.upload('spent', {'item': 123456789})", "field 'item' is no string"},
        {"walle.data.upload('spent', {'item': '123456789'})", "has 9 bytes, and 8 may leave"},
        {"walle.data.upload('spent', {'cents': 1 << 90})", "has 28 digits"},
        {"walle.data.upload('spent', {'cents': [1]})", "field 'cents' is no integer"},
        {"walle.data.upload('spent', 'i-1')", "the value itself"},
        {"walle.data.upload('spent', b'i-1')", "lets no bytes go"},
        {"walle.data.upload('raw', b'12345')", "has 5 bytes, and 4 may leave"},
        {"walle.data.upload('raw', 1)", "lets no fields go"},
        {"walle.data.upload('other', {})", "upload 'other' is not in \"leaves\""},
        {"walle.data.upload('secret', {})", "upload 'secret' is not in \"uploads\""},
        {"walle.result({'user': 1})", "upload 'spent': field 'user' is not in"},
        {"walle.result([1])", "the value itself"},
    };
    declare(true);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char source[512];
        (void)snprintf(source, sizeof(source), "import walle\n%s\n", cases[i].call);
        kit_run_source(&kit, source);
        kit_ended(&kit, DEV_VM_EXCEPTION);
        assert_string_equal(kit.result.type, "ValueError");
        assert_int_equal(kit.result.line, 2);
        assert_int_equal(kit.result.refused, 1);
        if (strstr(kit.result.message, "walle: may not leave: ") != kit.result.message ||
            strstr(kit.result.message, cases[i].said) == NULL) {
            fail_msg("%s: '%s', not '%s'", cases[i].call, kit.result.message, cases[i].said);
        }
    }
}

// It may go on, and nothing of what was refused is noted; the result is the one before.
static void a_refusal_can_be_caught(void **state)
{
    (void)state;
    declare(true);
    kit_run_source(&kit,
                   "import walle\n"
                   "walle.result({'cents': 1})\n"
                   "for value in ({'user': 'x' * 300}, {'cents': 2}, {'user\\u00e9' * 70: 1}):\n"
                   "    try:\n"
                   "        walle.data.upload('spent', value)\n"
                   "    except ValueError:\n"
                   "        pass\n"
                   "try:\n"
                   "    walle.result({'user': 1})\n"
                   "except ValueError as error:\n"
                   "    walle.log(error)\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    assert_int_equal(kit.result.refused, 3);
    assert_int_equal(kit.result.effect_count, 1);
    assert_int_equal(kit.result.effects[0].size, strlen("{\"cents\":2}"));
    kit_text_is(kit.result.result, "{\"cents\":1}");
}

static void undeclared_is_as_ever(void **state)
{
    (void)state;
    declare(false);
    kit_run_source(&kit, "import walle\n"
                         "walle.data.upload('spent', {'user': 1})\n"
                         "walle.data.upload('secret', {'user': 1})\n"
                         "walle.result([1])\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    assert_int_equal(kit.result.refused, 0);
    assert_int_equal(kit.result.effect_count, 2);
    kit.job.declaration = (struct base_str){NULL, 0};
    kit_run_source(&kit, "import walle\nwalle.data.upload('spent', [1])\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    assert_int_equal(kit.result.effect_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_may_leave_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(the_script_hears_what_may_not, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_can_be_caught, setup, teardown),
        cmocka_unit_test_setup_teardown(undeclared_is_as_ever, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
