// walle.store as a script sees it: values come back as they went, what cannot be kept is refused
// and changes nothing, and only a run that ended well gives a new image.
#include "vm_kit.h"

#include "wire/declaration.h"
#include "wire/store/store_image.h"

#ifdef KIT_APART
#define RUNS 2u // each is also done in a process of its own
#else
#define RUNS 1u
#endif

static struct vm_kit kit;
static uint8_t declaration_bytes[64];
static uint8_t image[WIRE_STORE_IMAGE_MAX];
static size_t image_size;
static enum base_status answer;
static uint32_t asked;

static enum base_status give_image(void *ctx, const struct dev_vm_query *query, dev_vm_row_fn visit,
                                   void *visit_ctx)
{
    (void)ctx;
    assert_int_equal(query->feature.size, 0);
    asked++;
    if (answer == BASE_OK) {
        (void)visit(visit_ctx, (struct base_str){NULL, 0}, 0, image, image_size);
    }
    return answer;
}

static const struct dev_vm_data_port port = {NULL, give_image};

static void declare(uint32_t kib)
{
    const struct wire_declaration declaration = {.result_upload = WIRE_DECLARATION_NO_UPLOAD,
                                                 .store_kib = kib};
    size_t size = 0;
    assert_int_equal(
        wire_declaration_encode(&declaration, declaration_bytes, sizeof(declaration_bytes), &size),
        BASE_OK);
    kit.job.declaration = (struct base_str){(const char *)declaration_bytes, size};
}

static int setup(void **state)
{
    (void)state;
    struct wire_store store;
    kit_init(&kit, 0);
    kit.job.data = &port;
    wire_store_init(&store, image, 77);
    image_size = store.size;
    answer = BASE_OK;
    asked = 0;
    declare(4);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_done(&kit);
    return 0;
}

// Runs and takes over what a device would; true: there was something.
static bool play(const char *source)
{
    kit_run_source(&kit, source);
    for (uint32_t i = 0; i < kit.result.effect_count; i++) {
        const struct dev_vm_effect *effect = &kit.result.effects[i];
        if (effect->kind == DEV_VM_EFFECT_SAVE) {
            assert_int_equal(i + 1, kit.result.effect_count); // it is the last
            memcpy(image, effect->bytes, effect->size);
            image_size = effect->size;
            return true;
        }
    }
    return false;
}

#define HEAD "from walle import store, np\n"

static void what_was_put_is_there_in_the_next_run(void **state)
{
    (void)state;
    assert_true(play(HEAD
                     "store.put('n', 41)\n"
                     "store.put('all', [None, True, False, -1, 2**62, -2**62, 1.5, 'h\\u00e9', "
                     "b'\\x00\\xff', (1, (2,)), {'a': {'b': []}}])\n"
                     "store.put('ba', bytearray(b'xy'))\n"
                     "store.put('grid', np.array([[1.0, 2.0], [3.0, 4.0]])[:, ::-1])\n"
                     "store.put('flags', np.array([True, False]))\n"));
    kit_ended(&kit, DEV_VM_FINISHED);
    struct wire_store store;
    assert_int_equal(wire_store_parse(image, image_size, &store), BASE_OK);
    assert_int_equal(store.keys, 5);
    assert_int_equal(store.tag, 77); // as it was given
    assert_false(play(HEAD "print(store.get('n') + 1, store.get('no'), store.get('no', 7))\n"
                           "print(store.get('all'))\n"
                           "print(store.get('ba'), store.keys(), store.keys('gr'))\n"
                           "g = store.get('grid')\nprint(g.tolist(), g.dtype, g.shape)\n"
                           "print(store.get('flags').tolist())\n"));
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_text_is(kit.result.output,
                "42 None 7\n"
                "[None, True, False, -1, 4611686018427387904, -4611686018427387904, 1.5, 'h\\xe9', "
                "b'\\x00\\xff', (1, (2,)), {'a': {'b': []}}]\n"
                "b'xy' ['all', 'ba', 'flags', 'grid', 'n'] ['grid']\n"
                "[[2.0, 1.0], [4.0, 3.0]] float64 (2, 2)\n"
                "[True, False]\n");
    assert_int_equal(asked, RUNS * 2); // once a run
}

static void deletes_and_clears(void **state)
{
    (void)state;
    assert_true(play(HEAD "for i in range(5):\n    store.put('k%d' % i, i)\n"));
    assert_true(play(HEAD "print(store.delete('k1'), store.delete('k1'))\nstore.put('k3', 'x')\n"));
    kit_text_is(kit.result.output, "True False\n");
    assert_false(play(HEAD "print([(k, store.get(k)) for k in store.keys()])\n"));
    kit_text_is(kit.result.output, "[('k0', 0), ('k2', 2), ('k3', 'x'), ('k4', 4)]\n");
    assert_true(play(HEAD "store.delete('k0')\n")); // a change by itself
    assert_false(play(HEAD "store.delete('k0')\nprint(store.keys())\n"));
    kit_text_is(kit.result.output, "['k2', 'k3', 'k4']\n");
    assert_true(play(HEAD "store.clear()\nprint(store.keys())\n"));
    kit_text_is(kit.result.output, "[]\n");
    assert_false(play(HEAD "store.clear()\n")); // nothing to change
    struct wire_store store;
    assert_int_equal(wire_store_parse(image, image_size, &store), BASE_OK);
    assert_int_equal(store.keys, 0);
    assert_int_equal(store.tag, 77);
}

// A value is a copy: what the script does to it later is not kept.
static void a_value_is_a_copy(void **state)
{
    (void)state;
    assert_true(play(HEAD "a = [1]\nstore.put('a', a)\na.append(2)\nb = store.get('a')\n"
                          "b.append(3)\nprint(store.get('a'))\n"));
    kit_text_is(kit.result.output, "[1]\n");
}

static void a_run_that_fails_gives_none(void **state)
{
    (void)state;
    static const char *const bad[] = {
        HEAD "store.put('n', 1)\nraise ValueError('no')\n",
        HEAD "store.put('n', 1)\nwhile True: pass\n",
        HEAD "store.put('n', 1)\nx = [0]\nwhile True: x = x + x\n",
    };
    kit.job.instruction_max = 1000000;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(play(bad[i]));
        assert_int_not_equal(kit.result.end, DEV_VM_FINISHED);
        assert_int_equal(kit.result.effect_count, 0);
    }
}

static void what_cannot_be_kept_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        const char *type;
        const char *said;
    } cases[] = {
        {"store.put('', 1)", "ValueError", "walle.store: a key is a str of 1 to 64 bytes"},
        {"store.put('k' * 65, 1)", "ValueError", "walle.store: a key is a str of 1 to 64 bytes"},
        {"store.get(b'k')", "ValueError", "walle.store: a key is a str of 1 to 64 bytes"},
        {"store.put(1, 1)", "TypeError", NULL},
        {"store.put('k', object())", "TypeError", "walle.store: cannot keep a object"},
        {"store.put('k', {1, 2})", "TypeError", "walle.store: cannot keep a set"},
        {"store.put('k', [store])", "TypeError", "walle.store: cannot keep a module"},
        {"store.put('k', {1: 2})", "TypeError", "walle.store: keys of a dict must be str"},
        {"store.put('k', 2**63)", "OverflowError", NULL},
        {"store.put('k', 'x' * 4096)", "ValueError", "walle.store: keys and values are over 4 KiB"},
        {"store.put('k', 'x' * 70000)", "ValueError",
         "walle.store: keys and values are over 4 KiB"},
        {"l = []\nl.append(l)\nstore.put('k', l)", "RuntimeError", NULL},
        {"for i in range(257): store.put(str(i), None)", "ValueError",
         "walle.store: more than 256 keys"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char source[512];
        (void)snprintf(source, sizeof(source), HEAD "%s\n", cases[i].call);
        assert_false(play(source));
        if (strcmp(kit.result.type, cases[i].type) != 0 ||
            (cases[i].said != NULL && strcmp(kit.result.message, cases[i].said) != 0)) {
            fail_msg("%s: %s: %s", cases[i].call, kit.result.type, kit.result.message);
        }
    }
    assert_true(play(HEAD "store.put('k', 'old')\n"
                          "try:\n    store.put('k', 'x' * 5000)\nexcept ValueError:\n    pass\n"
                          "print(store.get('k'))\n"));
    kit_text_is(kit.result.output, "old\n");
}

static void only_who_declares_one_has_one(void **state)
{
    (void)state;
    static const char *const calls[] = {"store.get('k')", "store.put('k', 1)", "store.keys()",
                                        "store.delete('k')", "store.clear()"};
    kit.job.declaration = (struct base_str){NULL, 0};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        char source[128];
        (void)snprintf(source, sizeof(source), HEAD "%s\n", calls[i]);
        assert_false(play(source));
        assert_string_equal(kit.result.type, "OSError");
        assert_string_equal(kit.result.message,
                            "walle.store: the task declares no \"store\" in task.json");
    }
    assert_int_equal(asked, 0);
}

// A store that cannot be read is an error, one that is not there, or no store, an empty one.
static void what_the_device_answers(void **state)
{
    (void)state;
    answer = BASE_ERR_IO;
    (void)play(HEAD "store.get('k')\n");
    assert_string_equal(kit.result.type, "OSError");
    answer = BASE_ERR_NOT_FOUND;
    assert_false(play(HEAD "print(store.keys())\n"));
    kit_text_is(kit.result.output, "[]\n");
    answer = BASE_OK;
    memcpy(image, "no image", 8);
    image_size = 8;
    assert_false(play(HEAD "print(store.keys())\n"));
    kit_text_is(kit.result.output, "[]\n");
    kit.job.data = NULL;
    assert_true(play(HEAD "store.put('k', 1)\nprint(store.get('k'))\n"));
    kit_text_is(kit.result.output, "1\n");
}

// Every value that is cut, and every byte that is another, is a value or an error of the script.
static void damaged_values_are_errors(void **state)
{
    (void)state;
    static uint8_t whole[512];
    struct wire_store store;
    assert_true(play(HEAD "store.put('k', [1, 'a', b'b', {'c': 1.5}, (None,), "
                          "np.array([[1, 2]]), np.array([True])])\n"));
    size_t size = image_size;
    assert_true(size <= sizeof(whole));
    memcpy(whole, image, size);
    kit_modules_drop(&kit);
    kit_add(&kit, "main",
            HEAD "try:\n    store.get('k')\nexcept (ValueError, UnicodeError, MemoryError):\n"
                 "    pass\n");
    for (size_t at = WIRE_STORE_HEAD_BYTES + 4; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(image, whole, size);
            image[at] ^= (uint8_t)(1 << bit);
            assert_int_equal(wire_store_parse(image, size, &store), BASE_OK);
            kit_run(&kit);
            kit_ended(&kit, DEV_VM_FINISHED);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_put_is_there_in_the_next_run, setup, teardown),
        cmocka_unit_test_setup_teardown(deletes_and_clears, setup, teardown),
        cmocka_unit_test_setup_teardown(a_value_is_a_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_that_fails_gives_none, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_kept_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(only_who_declares_one_has_one, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_device_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_values_are_errors, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
