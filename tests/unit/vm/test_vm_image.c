// Warm images: from its third run on a VM starts the same content from a copy of what is the same
// in each run. Scripts cannot tell, and neither can who reads the results.
#include "vm_kit.h"

#include "vm/mpy_check.h"
#include "vm/vm_state.h"

#include <pthread.h>

#define RUNS 5

// A run's result, for comparison with those that come after it.
struct seen {
    struct dev_vm_result result;
    char output[DEV_VM_OUTPUT_MAX];
    char text[DEV_VM_RESULT_MAX];
};

static void seen_take(struct seen *seen, const struct dev_vm_result *result)
{
    seen->result = *result;
    memcpy(seen->output, result->output.data, result->output.size);
    memcpy(seen->text, result->result.data, result->result.size);
    seen->result.output.data = seen->output;
    seen->result.result.data = seen->text;
}

static void seen_same(const struct seen *seen, const struct dev_vm_result *result)
{
    const struct dev_vm_result *first = &seen->result;
    assert_int_equal(result->end, first->end);
    assert_string_equal(result->type, first->type);
    assert_string_equal(result->message, first->message);
    assert_string_equal(result->file, first->file);
    assert_string_equal(result->stack, first->stack);
    assert_int_equal(result->line, first->line);
    assert_int_equal(result->instructions, first->instructions);
    assert_int_equal(result->heap_peak_bytes, first->heap_peak_bytes);
    assert_int_equal(result->looked, first->looked);
    if (!base_str_equal(result->output, first->output)) {
        fail_msg("first: %.*s\nnow: %.*s", (int)first->output.size, first->output.data,
                 (int)result->output.size, result->output.data);
    }
    assert_true(base_str_equal(result->result, first->result));
    assert_int_equal(result->effect_count, first->effect_count);
}

// Runs the kit's job so often that the last runs are warm, and once in a VM of its own.
static void same_each_time(struct vm_kit *kit)
{
    static struct seen first;
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_OK);
        if (i == 0) {
            seen_take(&first, &kit->result);
        }
        seen_same(&first, &kit->result);
    }
    bool well = first.result.end == DEV_VM_FINISHED || first.result.end == DEV_VM_EXCEPTION;
    assert_int_equal(kit->vm->warm, well);
    struct dev_vm *fresh = NULL;
    assert_int_equal(dev_vm_new(kit->heap_kib, &fresh), BASE_OK);
    assert_int_equal(dev_vm_run(fresh, &kit->job, &kit->result), BASE_OK);
    seen_same(&first, &kit->result);
    dev_vm_free(fresh);
    // The last result's texts went with the fresh VM.
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_OK);
}

static const char HELPER[] = "import math\n"
                             "import deep\n"
                             "SEEN = []\n"
                             "TABLE = {'a': 1, 'b': [1, 2, 3]}\n"
                             "class Counter:\n"
                             "    made = 0\n"
                             "    def __init__(self, start):\n"
                             "        Counter.made += 1\n"
                             "        self.value = start\n"
                             "    def add(self, n):\n"
                             "        SEEN.append(n)\n"
                             "        TABLE['b'].append(n)\n"
                             "        self.value += n + deep.ADD\n"
                             "        return self.value\n";

static void helper_add(struct vm_kit *kit)
{
    kit_add(kit, "helper", HELPER);
    kit_add(kit, "deep", "ADD = len('deep') * 2\n");
}

static void test_nothing_stays(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit.job.config = BASE_STR("{\"limit\": 7, \"names\": [\"a\", \"b\"]}");
    kit.job.input = BASE_STR("[1, 2, 3]");
    kit_add(&kit, "main",
            "import walle, helper, builtins\n"
            "counter = helper.Counter(100)\n"
            "notes = []\n"
            "def note(x):\n"
            "    notes.append(x)\n"
            "    builtins.mark = x\n"
            "assert not hasattr(builtins, 'mark')\n"
            "for n in walle.input:\n"
            "    note(counter.add(n))\n"
            "walle.config['names'].append('c')\n"
            "walle.config['more'] = 1\n"
            "walle.result([notes, helper.SEEN, helper.TABLE['b'], helper.Counter.made,\n"
            "              walle.config['names'], len(walle.config)])\n");
    helper_add(&kit);
    same_each_time(&kit);
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_text_is(kit.result.result, "[[109,119,130],[1,2,3],[1,2,3,1,2,3],1,[\"a\",\"b\",\"c\"],3]");
    kit_done(&kit);
}

// What scripts are shown of addresses is the same too, and with it the order of sets.
static void test_addresses(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit_add(&kit, "main",
            "import walle, helper\n"
            "class Thing: pass\n"
            "early = [Thing() for _ in range(5)]\n"
            "order = {thing: i for i, thing in enumerate(early)}\n"
            "device = walle.device\n"
            "late = {Thing() for _ in range(5)}\n"
            "walle.log(early, late, [id(x) for x in (device, helper, early[0], Thing())])\n"
            "walle.log([hash(x) for x in late], list(order.values()), 'x' * 3, hash('xyz'))\n"
            "import gc\n"
            "walle.log(gc.mem_free(), gc.mem_alloc())\n");
    helper_add(&kit);
    same_each_time(&kit);
    kit_ended(&kit, DEV_VM_FINISHED);
    assert_true(kit.result.output.size > 100);
    kit_done(&kit);
}

// The look outside may be anywhere: in a module that is imported, in a loop, in a handler, in a
// display that is half made.
static void test_places(void **state)
{
    static const char *const sources[] = {
        "import walle, outside\nwalle.result(outside.GOT)\n",
        "import walle\nout = []\nfor i in range(3):\n    out.append((i, walle.input))\n"
        "walle.result(out)\n",
        "import walle\nout = []\nfor i in range(9):\n    if i == 5: out.append(walle.input)\n"
        "    out.append(i)\nwalle.result(out)\n",
        "import walle\ntry:\n    try:\n        1 // 0\n    except ZeroDivisionError as e:\n"
        "        x = [str(e), walle.input]\n        raise\n    finally:\n        y = 2\n"
        "except ZeroDivisionError:\n    walle.result([x, y])\n",
        "import walle\nx = [1, (2, {'k': walle.input}), 3, [4, walle.input]]\nwalle.result(x)\n",
        "from walle import input as given\nimport walle\nwalle.result(given)\n",
        "import walle\ndef f(n):\n    yield n\n    yield walle.input\n    yield n\n"
        "g = f(3)\nfirst = next(g)\nwalle.result([first] + list(g))\n",
        "import walle\nwalle.log('first')\nprint('second')\nwalle.result(walle.input)\n",
        "import walle\nclass A:\n    x = walle.input\n    y = [x] * 2\nwalle.result(A.y)\n",
        "import walle\nwalle.result(None)\n",
        "import walle\nwalle.data.upload('up', 1)\nwalle.result(len(walle.data.events()))\n",
        "x = 1\n",
        "pass\n",
        "import walle\nraise ValueError(walle.input)\n",
        "import walle\nraise ValueError('early')\n",
        "import walle\ndef f():\n    return 1 // len(walle.input)\nf()\nf(1)\n",
        "import walle, gc\nx = [[] for _ in range(50)]\ngc.collect()\nwalle.result(len(x))\n",
        "import walle, gc\ngc.collect()\nwalle.result([gc.mem_free(), id(object()), id([])])\n",
        "import walle, gc\nx = [[] for _ in range(50)]\nx = None\ngc.collect()\n"
        "walle.result([gc.mem_free(), id(object()), [hash(object()) for _ in range(3)]])\n",
        "import walle\nimport missing\n",
        "import walle\ntry:\n    import missing\nexcept ImportError:\n    pass\n"
        "walle.result(walle.input)\n",
        "import walle\nx = bytearray(walle.input[0] << 40)\n",
        "import walle\nwalle.result(str(walle.nn))\n",
        "import walle\ndef f(n): return f(n + 1)\nwalle.input\nf(0)\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        struct vm_kit kit;
        kit_init(&kit, 64);
        kit.job.input = BASE_STR("[5, \"x\"]");
        kit_add(&kit, "main", sources[i]);
        kit_add(&kit, "outside", "import walle\nBEFORE = [1, 2]\nGOT = [BEFORE, walle.input]\n");
        same_each_time(&kit);
        kit_done(&kit);
    }
}

// What the run is given is what it sees, whatever the one before it was given.
static void test_each_run_its_own(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit_add(&kit, "main",
            "import walle, helper\nc = helper.Counter(walle.input)\n"
            "walle.result([c.value, walle.device['id'], helper.Counter.made])\n");
    helper_add(&kit);
    for (unsigned i = 0; i < RUNS; i++) {
        char input[16];
        char want[64];
        (void)snprintf(input, sizeof(input), "%u", i * 11);
        kit.job.input = base_str_of(input);
        kit.job.device_id = i + 1;
        kit_run(&kit);
        (void)snprintf(want, sizeof(want), "[%u,\"%016x\",1]", i * 11, i + 1);
        kit_text_is(kit.result.result, want);
    }
    kit_done(&kit);
}

// Content is told apart by its bytes, not by where they lie.
static void test_content_changes(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit_add(&kit, "main",
            "import walle, part\nwalle.result([part.VALUE, walle.config.get('n'), walle.input])\n");
    kit_add(&kit, "part", "VALUE = 'one'\n");
    uint8_t *other = NULL;
    size_t size = 0;
    struct base_error error;
    assert_int_equal(
        dev_vm_compile(BASE_STR("VALUE = 'two'\n"), BASE_STR("part.py"), &other, &size, &error),
        BASE_OK);
    assert_int_equal(size, kit.modules[1].size);
    uint8_t *one = malloc(size);
    assert_non_null(one);
    memcpy(one, kit.owned[1], size);
    static const char *const configs[] = {"{\"n\":1}", "{\"n\":2}"};
    for (unsigned i = 0; i < 8 * RUNS; i++) {
        bool two = i / 3 % 2 == 1;
        memcpy(kit.owned[1], two ? other : one, size); // in place
        kit.job.config = base_str_of(configs[i / 7 % 2]);
        kit_run(&kit);
        char want[64];
        (void)snprintf(want, sizeof(want), "[\"%s\",%u,null]", two ? "two" : "one", 1 + i / 7 % 2);
        kit_text_is(kit.result.result, want);
    }
    // Gone, and given another name.
    kit.modules[1].name = BASE_STR("port");
    kit_run(&kit);
    kit_ended(&kit, DEV_VM_EXCEPTION);
    assert_string_equal(kit.result.type, "ImportError");
    free(one);
    free(other);
    kit_done(&kit);
}

// More contents than a VM has images for.
static void test_many_contents(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    for (unsigned round = 0; round < RUNS; round++) {
        for (unsigned i = 0; i < 7; i++) {
            char source[128];
            char want[32];
            (void)snprintf(source, sizeof(source),
                           "import walle\nmine = %u\nwalle.device\nwalle.result(mine)\n", i);
            (void)snprintf(want, sizeof(want), "%u", i);
            kit_modules_drop(&kit);
            kit_add(&kit, "main", source);
            for (unsigned again = 0; again < 1 + round; again++) {
                kit_run(&kit);
                kit_text_is(kit.result.result, want);
            }
        }
    }
    kit_done(&kit);
}

struct counted {
    unsigned count;
    unsigned refused_from; // 0: never
};

static enum base_status counted_check(void *ctx, const struct dev_vm_module *module,
                                      struct dev_mpy_fault *out_fault)
{
    struct counted *counted = ctx;
    counted->count++;
    if (counted->refused_from != 0 && counted->count >= counted->refused_from) {
        return dev_mpy_check(module->mpy, 3, out_fault); // cut
    }
    return dev_mpy_check(module->mpy, module->size, out_fault);
}

// Who judges bytecode is asked in each run, for each module, and is heard.
static void test_checks(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    struct counted counted = {0};
    const struct dev_vm_check_port port = {&counted, counted_check};
    kit.job.checks = &port;
    kit_add(&kit, "main",
            "import walle, helper\nwalle.device\nimport late\nwalle.result(late.X)\n");
    helper_add(&kit);
    kit_add(&kit, "late", "X = 4\n");
    for (unsigned i = 1; i <= RUNS; i++) {
        kit_run(&kit);
        kit_text_is(kit.result.result, "4");
        assert_int_equal(counted.count, 4 * i);
    }
    static const char *const files[] = {"main", "helper", "deep", "late"};
    for (unsigned i = 0; i < 4; i++) {
        counted = (struct counted){.refused_from = i + 1};
        kit_run(&kit);
        kit_ended(&kit, DEV_VM_LOAD);
        assert_string_equal(kit.result.file, files[i]);
        counted = (struct counted){0};
        kit_run(&kit);
        kit_text_is(kit.result.result, "4");
    }
    kit_done(&kit);
}

// An instruction limit stops a run where it would have stopped without an image, before it, at it
// and behind it.
static void test_limits(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit_add(&kit, "main",
            "import walle\nx = 0\nfor i in range(300):\n    x += 1\nwalle.device\n"
            "for i in range(300):\n    x += 1\nwalle.result(x)\n");
    for (uint64_t limit = 1; limit < 700; limit += 13) {
        struct seen first;
        for (int i = 0; i < RUNS; i++) {
            kit.job.instruction_max = 0;
            kit_run(&kit);
            kit.job.instruction_max = limit;
            kit_run(&kit);
            if (i == 0) {
                seen_take(&first, &kit.result);
            }
            seen_same(&first, &kit.result);
        }
        struct dev_vm *fresh = NULL;
        assert_int_equal(dev_vm_new(0, &fresh), BASE_OK);
        assert_int_equal(dev_vm_run(fresh, &kit.job, &kit.result), BASE_OK);
        seen_same(&first, &kit.result);
        dev_vm_free(fresh);
    }
    kit_done(&kit);
}

// A run that is stopped before it comes to where its image is to be made leaves nothing behind.
static void test_stopped_before(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit_add(&kit, "main",
            "import walle\nfor i in range(100): pass\nwalle.device\nwalle.result('all')\n");
    kit_run(&kit);
    for (int i = 0; i < 5; i++) {
        kit.job.instruction_max = 20;
        kit_run(&kit);
        kit_ended(&kit, DEV_VM_BUDGET);
        kit.job.instruction_max = 0;
        if (i % 2 == 1) {
            kit_run(&kit);
            kit_text_is(kit.result.result, "\"all\"");
        }
    }
    kit_done(&kit);
}

static void *other_thread(void *argument)
{
    struct vm_kit *kit = argument;
    for (int i = 0; i < RUNS; i++) {
        if (dev_vm_run(kit->vm, &kit->job, &kit->result) != BASE_OK ||
            !base_str_equal(kit->result.result, BASE_STR("[109]"))) {
            return NULL;
        }
    }
    return kit;
}

// A VM may go to another thread, where the interpreter's state lies elsewhere.
static void test_moved(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit_add(&kit, "main",
            "import walle, helper\nc = helper.Counter(100)\nwalle.device\n"
            "walle.result([c.add(1)])\n");
    helper_add(&kit);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *well = NULL;
        assert_int_equal(pthread_create(&thread, NULL, other_thread, &kit), 0);
        assert_int_equal(pthread_join(thread, &well), 0);
        assert_non_null(well);
        assert_non_null(other_thread(&kit));
    }
    kit_done(&kit);
}

// The collector finds what the image brought, and what was let go is used again.
static void test_collected(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 32);
    kit_add(&kit, "main",
            "import walle, helper\n"
            "kept = [[i] * 3 for i in range(40)]\nc = helper.Counter(5)\n"
            "walle.device\n"
            "for i in range(3000):\n    x = [i] * 10\n"
            "assert kept == [[i] * 3 for i in range(40)]\n"
            "walle.result([c.add(1), len(helper.TABLE['b'])])\n");
    helper_add(&kit);
    for (int i = 0; i < RUNS; i++) {
        kit_run(&kit);
        kit_ended(&kit, DEV_VM_FINISHED);
        kit_text_is(kit.result.result, "[14,4]");
    }
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_stays),   cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_places),          cmocka_unit_test(test_each_run_its_own),
        cmocka_unit_test(test_content_changes), cmocka_unit_test(test_many_contents),
        cmocka_unit_test(test_checks),          cmocka_unit_test(test_limits),
        cmocka_unit_test(test_stopped_before),  cmocka_unit_test(test_moved),
        cmocka_unit_test(test_collected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
