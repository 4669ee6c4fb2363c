// The module `walle` as a script sees it: config, input, device, log and result; and how deep a run
// went.
#include "vm_kit.h"

#include "vm/mpy/vm_text.h"

static int setup(void **state)
{
    static struct vm_kit kit;
    kit_init(&kit, 0);
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_done(*state);
    return 0;
}

static void test_defaults(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "import walle\nprint(walle.config, walle.input, walle.device)\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "{} None {'id': '0123456789abcdef'}\n");
    kit_text_is(kit->result.result, "");
}

static void test_round_trip(void **state)
{
    static const char json[] =
        "{\"a\":[1,-2.5,\"x\\u00e4\\n\",true,false,null,{\"b\":[]}],\"big\":123456789012345678901}";
    struct vm_kit *kit = *state;
    kit->job.config = BASE_STR(json);
    kit->job.input = BASE_STR(json);
    kit_run_source(kit, "import walle\nfrom walle import config, input\n"
                        "assert walle.config == walle.input and walle.config is config\n"
                        "walle.result(walle.config['a'])\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.result, "[1,-2.5,\"x\xc3\xa4\\n\",true,false,null,{\"b\":[]}]");
    kit_run_source(kit, "import walle\nwalle.result(walle.input['big'])\n");
    kit_text_is(kit->result.result, "123456789012345678901");
}

static void test_device(void **state)
{
    struct vm_kit *kit = *state;
    struct wire_attrs attrs = {.count = 3};
    attrs.items[0] = (struct wire_attr){
        .name = BASE_STR("os"), .type = WIRE_ATTR_STRING, .text = BASE_STR("android")};
    attrs.items[1] =
        (struct wire_attr){.name = BASE_STR("ram_mb"), .type = WIRE_ATTR_INTEGER, .integer = -3};
    attrs.items[2] =
        (struct wire_attr){.name = BASE_STR("rooted"), .type = WIRE_ATTR_BOOLEAN, .integer = 1};
    kit->job.attrs = &attrs;
    kit_run_source(kit, "import walle\nd = walle.device\nd['os'] += '!'\n"
                        "walle.result([d['os'], walle.device['ram_mb'], d['rooted'], d['id']])\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.result, "[\"android!\",-3,true,\"0123456789abcdef\"]");
    kit->job.attrs = NULL;
}

static void test_bad_json(void **state)
{
    static const struct {
        struct base_str config;
        const char *type;
    } cases[] = {
        {BASE_STR("{\"a\": nope}"), "ValueError"},
        {BASE_STR("[1]"), "ValueError"},
        {BASE_STR("\xff\xfe"), "UnicodeError"},
    };
    struct vm_kit *kit = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kit->job.config = cases[i].config;
        kit_run_source(kit, "import walle\n\nwalle.config\n");
        kit_ended(kit, DEV_VM_EXCEPTION);
        assert_string_equal(kit->result.type, cases[i].type);
        assert_int_equal(kit->result.line, 3);
        kit_run_source(kit, "import walle\n"); // made only when asked for
        kit_ended(kit, DEV_VM_FINISHED);
    }
}

static void test_last_result_wins(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "import walle\nwalle.result(1)\nwalle.result({'b': (2, 3.0)})\n"
                        "try:\n    walle.result(object())\nexcept TypeError as e:\n    print(e)\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.result, "{\"b\":[2,3.0]}");
    kit_text_is(kit->result.output, "walle.result: not JSON: object\n");
}

static void test_result_is_strict_json(void **state)
{
    static const struct {
        const char *value;
        const char *type;
    } cases[] = {
        {"b'x'", "TypeError"},         {"{1: 2}", "TypeError"},
        {"{'a': {2}}", "TypeError"},   {"float('nan')", "ValueError"},
        {"1e999", "ValueError"},       {"[lambda: 1]", "TypeError"},
        {"1j", "TypeError"},           {"range(3)", "TypeError"},
        {"'x' * 16383", "ValueError"}, {"[0] * 9000", "ValueError"},
        {"Exception", "TypeError"},
    };
    struct vm_kit *kit = *state;
    char source[128];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(source, sizeof(source), "import walle\nwalle.result(%s)\n", cases[i].value);
        kit_run_source(kit, source);
        kit_ended(kit, DEV_VM_EXCEPTION);
        assert_string_equal(kit->result.type, cases[i].type);
        kit_text_is(kit->result.result, "");
    }
    kit_run_source(kit, "import walle\nwalle.result('x' * 16382)\n"); // two quotes: just fits
    kit_ended(kit, DEV_VM_FINISHED);
    assert_int_equal(kit->result.result.size, DEV_VM_RESULT_MAX);
    kit_run_source(kit,
                   "import walle\nwalle.result([1e300, 1e-7, -0.0, True, '\\x00\"\\\\', {}])\n");
    kit_text_is(kit->result.result, "[1e+300,1e-07,-0.0,true,\"\\u0000\\\"\\\\\",{}]");
}

// Pieces of a text, and what stands between them.
// As json.dumps writes it, wherever in a text the character is that has to be written otherwise.
static void test_result_texts(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(
        kit, "import walle, json\nx = []\n"
             "for c in '\"\\\\\\n\\r\\t\\x00\\x01\\x1f !#[]\\x7f\\xe9\\u20ac\\U0001f600':\n"
             "    for n in (0, 6, 7, 8, 16):\n"
             "        x += ['a' * i + c + 'b' * (n - i) for i in range(0, n + 1, 3)]\n"
             "x += [0, -1, 9, 10, -10, (1 << 62) - 1, -(1 << 62), 1 << 62, 10 ** 30, -10 ** 30]\n"
             "walle.log(json.dumps(x, separators=(',', ':')))\nwalle.result(x)\n");
    kit_ended(kit, DEV_VM_FINISHED);
    struct base_str output = kit->result.output;
    assert_true(output.size > 1000);
    output.size--; // the new line
    assert_true(base_str_equal(kit->result.result, output));
}

// The configuration is read when a script asks, and that is counted where it asks, although it is
// made before when it is small.
static void test_config_counted(void **state)
{
    struct vm_kit *kit = *state;
    static const char *const sources[] = {"import walle\nx = 1\nx = 2\n",
                                          "import walle\nx = walle.config\nx = 2\n",
                                          "import walle\nx = walle.config\nx = walle.config\n"};
    static const char small[] = "{\"a\":[1,2,3,4,5,6,7,8,9],\"b\":\"x\"}";
    uint64_t units[2][3];
    for (unsigned c = 0; c < 2; c++) {
        kit->job.config = c == 0 ? BASE_STR(small) : BASE_STR("{a}");
        for (unsigned i = 0; i < 3; i++) {
            kit_run_source(kit, sources[i]);
            kit_ended(kit, c == 1 && i > 0 ? DEV_VM_EXCEPTION : DEV_VM_FINISHED);
            units[c][i] = kit->result.instructions;
        }
    }
    assert_int_equal(units[0][0], units[1][0]);
    assert_true(units[0][1] > units[0][0]);
    assert_int_equal(units[0][2], units[0][1]);
    kit->job.config = (struct base_str){NULL, 0};
}

static void test_text_of_a_result_is_escaped(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "import walle, json\n"
                        "x = ['', 'plain', '\"', '\"a\\\\b', 'a\\nb\\r\\tc\\n', '\\x01\\x1f\\x7f', "
                        "'\\u20ac\\nm\\u00e4\"']\n"
                        "walle.result(x)\nprint(json.loads(json.dumps(x)) == x)\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.result, "[\"\",\"plain\",\"\\\"\",\"\\\"a\\\\b\",\"a\\nb\\r\\tc\\n\","
                                    "\"\\u0001\\u001f\x7f\",\"\u20ac\\nm\u00e4\\\"\"]");
    kit_text_is(kit->result.output, "True\n");
}

// A byte that is no character is found wherever it stands.
static void test_text_is_looked_at_whole(void **state)
{
    (void)state;
    uint8_t text[21];
    for (size_t size = 1; size <= sizeof(text); size++) {
        for (size_t at = 0; at < size; at++) {
            memset(text, 'x', sizeof(text));
            assert_true(dev_text_valid(text, size));
            text[at] = 0x80;
            assert_false(dev_text_valid(text, size));
            text[at] = 0xc3; // the first of two
            assert_false(dev_text_valid(text, size));
            if (at + 1 < size) {
                text[at + 1] = 0xa4;
                assert_true(dev_text_valid(text, size));
            }
        }
    }
}

static void test_log_and_print_share_the_output(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit,
                   "import walle\nwalle.log('a', 1, [2.0])\nprint('b', end='')\nwalle.log()\n");
    kit_text_is(kit->result.output, "a 1 [2.0]\nb\n");
}

static void test_output_is_bounded(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "for i in range(10000): print('0123456789')\n");
    kit_ended(kit, DEV_VM_FINISHED);
    assert_int_equal(kit->result.output.size, DEV_VM_OUTPUT_MAX);
    assert_int_equal(kit->result.output_cut, 10000 * 11 - DEV_VM_OUTPUT_MAX);
    assert_memory_equal(kit->result.output.data, "0123456789\n0123", 15);
    kit_run_source(kit, "print('x' + '\\u20ac' * 10000)\n");
    assert_int_equal(kit->result.output.size, DEV_VM_OUTPUT_MAX); // 1 + 3 * 5461
    assert_int_equal(kit->result.output_cut, 1 + 3 * 10000 + 1 - DEV_VM_OUTPUT_MAX);
    kit_run_source(kit, "print('\\u20ac' * 10000)\n");
    assert_int_equal(kit->result.output.size, DEV_VM_OUTPUT_MAX - 1);
    assert_int_equal(kit->result.output_cut, 3 * 10000 + 1 - (DEV_VM_OUTPUT_MAX - 1));
    kit_run_source(kit, "print('x' * 16384, end='')\nprint(end='')\n"); // just full
    assert_int_equal(kit->result.output_cut, 0);
    kit_run_source(kit, "print(1)\n");
    assert_int_equal(kit->result.output_cut, 0);
}

static void test_text_that_leaves_is_utf8(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "import walle\nx = chr(0xd800)\nprint('a' + x + 'b')\n"
                        "try:\n    walle.result(x)\nexcept UnicodeError as e:\n    print(e)\n"
                        "raise ValueError('x' + x + 'y')\n");
    kit_ended(kit, DEV_VM_EXCEPTION);
    kit_text_is(kit->result.output, "a???b\nwalle.result: text is not UTF-8\n");
    assert_string_equal(kit->result.message, "x???y");
}

// A text for people that is cut says so, between characters.
static void test_cut_text_is_marked(void **state)
{
    (void)state;
    char field[9];
    dev_text_show(field, sizeof(field), BASE_STR("12345678"));
    assert_string_equal(field, "12345678");
    dev_text_show(field, sizeof(field), BASE_STR("123456789"));
    assert_string_equal(field, "12345...");
    dev_text_show(field, sizeof(field), BASE_STR("\u20ac\u20ac\u20ac"));
    assert_string_equal(field, "\u20ac...");
    dev_text_show(field, sizeof(field), BASE_STR(""));
    assert_string_equal(field, "");
}

static void test_module_is_read_only(void **state)
{
    static const char *const statements[] = {"walle.config = 1", "walle.log = print",
                                             "del walle.device", "walle.other = 1",
                                             "walle.nothing"};
    struct vm_kit *kit = *state;
    char source[128];
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        (void)snprintf(source, sizeof(source), "import walle\n%s\n", statements[i]);
        kit_run_source(kit, source);
        kit_ended(kit, DEV_VM_EXCEPTION);
        assert_string_equal(kit->result.type, "AttributeError");
    }
}

// Each call goes deeper by as much; what was before is not counted, nor what other runs did.
static void test_stack_peak(void **state)
{
    static const char *const sources[] = {
        "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nf(4)\n",
        "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nf(14)\n",
        "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nf(24)\n",
        "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nf(4)\n",
    };
    struct vm_kit *kit = *state;
    uint32_t peaks[4] = {0};
    for (size_t i = 0; i < 4; i++) {
        kit_run_source(kit, sources[i]);
        kit_ended(kit, DEV_VM_FINISHED);
        peaks[i] = kit->result.stack_peak_bytes;
    }
    kit_run_source(kit, "x = len([1])\n");
    assert_in_range(kit->result.stack_peak_bytes, 1, peaks[0] - 1);
    assert_true(peaks[1] > peaks[0]);
    assert_int_equal(peaks[2] - peaks[1], peaks[1] - peaks[0]);
    assert_int_equal(peaks[3], peaks[0]);
    kit_run_source(kit, "def f(n):\n    return f(n + 1)\nf(0)\n");
    kit_ended(kit, DEV_VM_STACK);
    assert_in_range(kit->result.stack_peak_bytes, DEV_VM_STACK_KIB * 1000, DEV_VM_STACK_KIB * 1024);
}

#define VM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        VM_TEST(test_defaults),
        VM_TEST(test_round_trip),
        VM_TEST(test_device),
        VM_TEST(test_bad_json),
        VM_TEST(test_last_result_wins),
        VM_TEST(test_result_is_strict_json),
        VM_TEST(test_result_texts),
        VM_TEST(test_config_counted),
        VM_TEST(test_text_of_a_result_is_escaped),
        VM_TEST(test_text_is_looked_at_whole),
        VM_TEST(test_log_and_print_share_the_output),
        VM_TEST(test_output_is_bounded),
        VM_TEST(test_text_that_leaves_is_utf8),
        VM_TEST(test_cut_text_is_marked),
        VM_TEST(test_module_is_read_only),
        VM_TEST(test_stack_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
