// Warm images: each run of a content starts from a copy of what is the same in each run, the first
// too. Scripts cannot tell, and neither can who reads the results.
#include "vm_kit.h"

#include "vm/mpy/mpy_check.h"
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
    assert_int_equal(result->stack_peak_bytes, first->stack_peak_bytes);
    assert_int_equal(result->looked, first->looked);
    if (!base_str_equal(result->output, first->output)) {
        fail_msg("first: %.*s\nnow: %.*s", (int)first->output.size, first->output.data,
                 (int)result->output.size, result->output.data);
    }
    if (!base_str_equal(result->result, first->result)) {
        fail_msg("first: %.*s\nnow: %.*s", (int)first->result.size, first->result.data,
                 (int)result->result.size, result->result.data);
    }
    assert_int_equal(result->effect_count, first->effect_count);
}

// In a VM that is made for one run nothing is kept, and the run comes to the same.
static void same_once(struct vm_kit *kit, const struct seen *first)
{
    struct dev_vm *fresh = NULL;
    assert_int_equal(dev_vm_new(kit->heap_kib, &fresh), BASE_OK);
    kit->job.once = true;
    assert_int_equal(dev_vm_run(fresh, &kit->job, &kit->result), BASE_OK);
    kit->job.once = false;
    assert_false(fresh->warm);
    for (int i = 0; i < DEV_VM_IMAGES_MAX; i++) {
        assert_null(fresh->images[i]);
    }
    // Imports that an image stands for went deeper than what comes after it.
    assert_true(kit->result.stack_peak_bytes >= first->result.stack_peak_bytes);
    kit->result.stack_peak_bytes = first->result.stack_peak_bytes;
    seen_same(first, &kit->result);
    dev_vm_free(fresh);
}

// Runs the kit's job several times, and once in a VM of its own, which keeps an image or does not.
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
    assert_true(kit->vm->warm);
    struct dev_vm *fresh = NULL;
    assert_int_equal(dev_vm_new(kit->heap_kib, &fresh), BASE_OK);
    assert_int_equal(dev_vm_run(fresh, &kit->job, &kit->result), BASE_OK);
    seen_same(&first, &kit->result);
    dev_vm_free(fresh);
    same_once(kit, &first);
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

// The first run of a content begins from its image already.
static void test_the_first_is_warm(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit.job.input = BASE_STR("[1]");
    kit_add(&kit, "main", "import walle, helper\nwalle.log('once')\nwalle.result(walle.input)\n");
    helper_add(&kit);
    kit_run(&kit);
    assert_true(kit.vm->warm);
    kit_text_is(kit.result.output, "once\n");
    kit_text_is(kit.result.result, "[1]");
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

// --- two jobs of one content, run in turn

// What one job finds outside its content.
struct given {
    struct dev_event events[3];
    uint32_t event_count;
    const char *row; // the stored feature
    struct dev_vm_model model;
    const char *input;
    uint64_t device_id;
};

static const struct given givens[2] = {
    {.events = {{.seq = 1, .kind = DEV_EVENT_CLICK, .page = {"home", 4}},
                {.seq = 2, .kind = DEV_EVENT_CLICK, .page = {"list", 4}},
                {.seq = 3, .kind = DEV_EVENT_CLICK, .page = {"home", 4}}},
     .event_count = 3,
     .row = "[1,2]",
     .model = {.name = {"a.onnx", 6}},
     .input = "[1]",
     .device_id = 1},
    {.events = {{.seq = 7, .kind = DEV_EVENT_CLICK, .page = {"list", 4}}},
     .event_count = 1,
     .row = "\"other\"",
     .model = {.name = {"b.onnx", 6}},
     .input = "{\"two\":2}",
     .device_id = 2},
};

static enum base_status row_query(void *ctx, const struct dev_vm_query *query, dev_vm_row_fn visit,
                                  void *visit_ctx)
{
    const struct given *given = ctx;
    (void)visit(visit_ctx, query->key, given->device_id * 1000, (const uint8_t *)given->row,
                strlen(given->row));
    return BASE_OK;
}

static void job_give(struct vm_kit *kit, unsigned which)
{
    static struct dev_vm_data_port ports[2];
    static struct given kept[2];
    struct given *given = &kept[which];
    *given = givens[which];
    ports[which] = (struct dev_vm_data_port){given, row_query};
    kit->job.events = given->events;
    kit->job.event_count = given->event_count;
    kit->job.data = &ports[which];
    kit->job.models = &given->model;
    kit->job.model_count = 1;
    kit->job.input = base_str_of(given->input);
    kit->job.device_id = given->device_id;
}

// The kit's modules with both jobs in turn, each time as in a VM in which nothing was run before.
static void same_in_turn(struct vm_kit *kit)
{
    static const char *const orders[] = {"aaabaab", "abab", "bbabba", "abba"};
    static struct seen alone[2];
    for (unsigned which = 0; which < 2; which++) {
        struct dev_vm *fresh = NULL;
        assert_int_equal(dev_vm_new(kit->heap_kib, &fresh), BASE_OK);
        job_give(kit, which);
        assert_int_equal(dev_vm_run(fresh, &kit->job, &kit->result), BASE_OK);
        kit_ended(kit, DEV_VM_FINISHED);
        seen_take(&alone[which], &kit->result);
        dev_vm_free(fresh);
    }
    assert_false(base_str_equal(alone[0].result.result, alone[1].result.result));
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct dev_vm *vm = NULL;
        assert_int_equal(dev_vm_new(kit->heap_kib, &vm), BASE_OK);
        for (size_t at = 0; orders[i][at] != '\0'; at++) {
            unsigned which = (unsigned)(orders[i][at] - 'a');
            job_give(kit, which);
            assert_int_equal(dev_vm_run(vm, &kit->job, &kit->result), BASE_OK);
            seen_same(&alone[which], &kit->result);
            assert_true(vm->warm);
        }
        dev_vm_free(vm);
    }
}

// Each way to look outside, or to be seen there, as the first; and another behind it, which must
// not be taken for the first.
static void test_in_turn(void **state)
{
    static const char *const sources[] = {
        // Events, features, models.
        "events = walle.data.events()\nn = len(events)\nwalle.result([n, walle.input])\n",
        "pages = [event.page for event in walle.data.events()]\nwalle.result(pages)\n",
        "rows = walle.data.query('f', 'k')\nwalle.result([list(row) for row in rows])\n",
        "rows = walle.data.query('f', 'k')\nx = walle.input\nwalle.result([len(rows), rows[0][1], "
        "x])\n",
        "try:\n    walle.nn.load('a.onnx')\nexcept OSError as error:\n    said = str(error)\n"
        "walle.result(said)\n",
        "try:\n    walle.nn.load('b.onnx')\nexcept OSError as error:\n    said = str(error)\n"
        "n = len(walle.data.events())\nwalle.result([said, n])\n",
        // Input and device.
        "given = walle.input\nn = len(walle.data.events())\nwalle.result([given, n])\n",
        "me = walle.device['id']\nwalle.result([me, walle.input])\n",
        // A result before a look, which stands where no other comes, or is replaced.
        "walle.result('early')\nif len(walle.data.events()) == 1:\n    walle.result('late')\n",
        "walle.result('early')\nif walle.input != [1]:\n    walle.result('late')\n",
        "walle.result('early')\ntry:\n    walle.nn.load('a.onnx')\nexcept OSError as error:\n"
        "    if 'no model' in str(error):\n        walle.result('late')\n",
        // Output and effects before a look.
        "print('early')\nwalle.result(walle.input)\n",
        "walle.data.upload('up', 1)\nwalle.result(walle.input)\n",
        "walle.data.store('f', 'k', 1)\nn = len(walle.data.events())\nwalle.result(n)\n",
        // A collection before a look: what was used before it counts to each run's peak.
        "import gc\nx = [bytearray(100) for _ in range(200)]\nx = None\ngc.collect()\n"
        "walle.result(walle.input)\n",
        "import gc\nx = [bytearray(100) for _ in range(200)]\nx = None\ngc.collect()\n"
        "n = len(walle.data.events())\nwalle.result(n)\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        char source[512];
        struct vm_kit kit;
        kit_init(&kit, 64);
        (void)snprintf(source, sizeof(source), "import walle\n%s", sources[i]);
        kit_add(&kit, "main", source);
        same_in_turn(&kit);
        kit_done(&kit);
    }
}

// --- what is no image's

// Runs it several times, each as warm as the first.
static void warm_is(struct vm_kit *kit, bool warm, const char *want)
{
    for (int i = 0; i < RUNS; i++) {
        kit_run(kit);
        kit_ended(kit, DEV_VM_FINISHED);
        kit_text_is(kit->result.result, want);
        assert_int_equal(kit->vm->warm, warm);
    }
}

// Imports before the first look, as many as an image notes and one more. Each is judged each time.
static void test_many_imports(void **state)
{
    (void)state;
    for (uint32_t imports = DEV_VM_IMAGE_CHECKS; imports <= DEV_VM_IMAGE_CHECKS + 1; imports++) {
        struct dev_vm_module modules[DEV_VM_IMAGE_CHECKS + 2];
        char names[DEV_VM_IMAGE_CHECKS + 1][8];
        char source[1024] = "import walle\n";
        char want[16];
        struct counted counted = {0};
        const struct dev_vm_check_port port = {&counted, counted_check};
        struct vm_kit kit;
        kit_init(&kit, 0);
        for (uint32_t i = 0; i < imports; i++) {
            size_t used = strlen(source);
            (void)snprintf(names[i], sizeof(names[i]), "m%u", i);
            (void)snprintf(source + used, sizeof(source) - used, "import m%u\n", i);
        }
        size_t used = strlen(source);
        (void)snprintf(source + used, sizeof(source) - used,
                       "walle.device\nwalle.result(m0.X + m%u.X)\n", imports - 1);
        kit_add(&kit, "main", source);
        kit_add(&kit, "part", "X = len(__name__)\n");
        modules[0] = kit.modules[0];
        for (uint32_t i = 0; i < imports; i++) {
            modules[1 + i] = kit.modules[1];
            modules[1 + i].name = base_str_of(names[i]);
        }
        kit.job.modules = modules;
        kit.job.module_count = 1 + imports;
        kit.job.checks = &port;
        (void)snprintf(want, sizeof(want), "%zu", strlen(names[0]) + strlen(names[imports - 1]));
        warm_is(&kit, imports <= DEV_VM_IMAGE_CHECKS, want);
        assert_int_equal(counted.count, (1 + imports) * RUNS);
        kit.job.module_count = 2; // the kit's own
        kit_done(&kit);
    }
}

// A script that works long before its first look does so in each run: what is slow is seen to be.
static void test_long_work(void **state)
{
    (void)state;
    static const unsigned rounds[] = {100, DEV_VM_IMAGE_UNITS};
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        char source[128];
        struct vm_kit kit;
        kit_init(&kit, 0);
        (void)snprintf(source, sizeof(source),
                       "import walle\nfor i in range(%u): pass\nwalle.device\nwalle.result(i)\n",
                       rounds[i]);
        kit_add(&kit, "main", source);
        (void)snprintf(source, sizeof(source), "%u", rounds[i] - 1);
        warm_is(&kit, i == 0, source);
        kit_done(&kit);
    }
}

// A configuration, a module and a used heap on either side of what an image may have.
static void test_sizes(void **state)
{
    static const size_t sizes[] = {DEV_VM_IMAGE_BYTES * 3 / 4, DEV_VM_IMAGE_BYTES + 1};
    char *text = malloc(DEV_VM_IMAGE_BYTES + 64);
    (void)state;
    assert_non_null(text);
    for (unsigned i = 0; i < 2; i++) {
        struct vm_kit kit;
        char want[16];
        (void)snprintf(want, sizeof(want), "%zu", sizes[i]);

        kit_init(&kit, 2048);
        kit_add(&kit, "main",
                "import walle\nwalle.device\nwalle.result(len(walle.config['text']))\n");
        int head = snprintf(text, 64, "{\"text\":\"");
        memset(text + head, 'x', sizes[i]);
        memcpy(text + head + sizes[i], "\"}", 2);
        kit.job.config = (struct base_str){text, (size_t)head + sizes[i] + 2};
        warm_is(&kit, i == 0, want);
        kit_done(&kit);

        kit_init(&kit, 2048);
        head = snprintf(text, 64, "TEXT = '");
        memset(text + head, 'y', sizes[i]);
        memcpy(text + head + sizes[i], "'\n", 3);
        kit_add(&kit, "main",
                "import walle\nwalle.device\nimport big\n"
                "walle.result(len(big.TEXT))\n");
        kit_add(&kit, "big", text);
        warm_is(&kit, i == 0, want);
        kit_done(&kit);

        kit_init(&kit, 2048);
        (void)snprintf(text, 128,
                       "import walle\nx = bytearray(%zu)\nwalle.device\n"
                       "x[-1] += 1\nwalle.result(len(x) * x[-1])\n",
                       sizes[i]);
        kit_add(&kit, "main", text);
        warm_is(&kit, i == 0, want);
        kit_done(&kit);
    }
    free(text);
}

// The same modules from another one of them are other content.
static void test_entry_changes(void **state)
{
    static const char *const entries[] = {"main", "side"};
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit_add(&kit, "main", "import walle\nx = 'from main'\nwalle.device\nwalle.result(x)\n");
    kit_add(&kit, "side", "import walle\nx = 'from side'\nwalle.device\nwalle.result(x)\n");
    for (unsigned i = 0; i < 4 * RUNS; i++) {
        unsigned which = i / 3 % 2;
        kit.job.entry = base_str_of(entries[which]);
        kit_run(&kit);
        kit_text_is(kit.result.result, which == 0 ? "\"from main\"" : "\"from side\"");
    }
    assert_true(kit.vm->warm);
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_stays),   cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_places),          cmocka_unit_test(test_each_run_its_own),
        cmocka_unit_test(test_content_changes), cmocka_unit_test(test_many_contents),
        cmocka_unit_test(test_checks),          cmocka_unit_test(test_limits),
        cmocka_unit_test(test_stopped_before),  cmocka_unit_test(test_the_first_is_warm),
        cmocka_unit_test(test_moved),           cmocka_unit_test(test_collected),
        cmocka_unit_test(test_long_work),       cmocka_unit_test(test_in_turn),
        cmocka_unit_test(test_many_imports),    cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_entry_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
