// walle.nn from scripts: tensors inside of a graph by name, and sessions of fixed shapes: what they
// give, refuse, hold and cost; and a load that takes longer than its run has.
#include "nn_models.h"

#include "base/clock.h"
#include "model/model_store.h"
#include "vm_kit.h"

enum { ADD_RELU, TWO_BY_TWO, CHAIN, NONZERO, CONV_BN, WIDE, TEXT, MODELS };

static struct nn_model files[MODELS];
static const char *const names[MODELS] = {
    "add.onnx", "two.onnx", "chain.onnx", "cut.onnx", "conv.onnx", "wide.onnx", "text.onnx",
};
static struct dev_vm_model listed[MODELS];
static struct dev_model_store *store;
static struct dev_model_port port;

static int setup(void **state)
{
    static struct vm_kit kit;
    nn_add_relu(&files[ADD_RELU], 0);
    nn_two_by_two(&files[TWO_BY_TWO]);
    nn_chain(&files[CHAIN], 1000);
    nn_nonzero(&files[NONZERO]);
    nn_conv_bn(&files[CONV_BN]);
    nn_wide(&files[WIDE], DEV_VM_MODEL_PORTS_MAX);
    nn_identity(&files[TEXT], ENG_STRING);
    for (size_t i = 0; i < MODELS; i++) {
        listed[i] = (struct dev_vm_model){base_str_of(names[i]), files[i].bytes, files[i].size,
                                          files[i].digest};
    }
    assert_int_equal(dev_model_store_new(0, &store), BASE_OK);
    kit_init(&kit, 1024);
    kit.job.models = listed;
    kit.job.model_count = MODELS;
    port = dev_model_store_port(store);
    kit.job.model_port = &port;
    *state = &kit;
    return 0;
}

static struct dev_model_store_stats stats(void)
{
    struct dev_model_store_stats now;
    dev_model_store_stats(store, &now);
    return now;
}

static int teardown(void **state)
{
    assert_int_equal(stats().held, 0); // runs leave nothing held
    assert_int_equal(dev_model_store_validate(store), BASE_OK);
    kit_done(*state);
    dev_model_store_free(store);
    return 0;
}

static void prints(struct vm_kit *kit, const char *source, const char *want)
{
    kit_run_source(kit, source);
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, want);
}

#define REFUSALS                                                                                   \
    "from walle import nn\n"                                                                       \
    "def no(f):\n"                                                                                 \
    "    try:\n        print('gave', f())\n"                                                       \
    "    except Exception as e:\n        print(type(e).__name__, e)\n"

// --- inside of a graph

static void tensors_inside_by_name(void **state)
{
    prints(*state,
           "from walle import nn\n"
           "m = nn.load('add.onnx')\n"
           "r = m.run({'x': [[0, 0, 0], [1, 1, 1]]}, ['s', 'y', 'w', 'x', 's'])\n"
           "print(sorted(r), r['s'].tolist(), r['y'].tolist(), r['w'].tolist(), r['x'].shape)\n"
           "print(m.run({'x': [[5, 5, 5]]}, ('s',))['s'].tolist())\n"
           "print(nn.load('cut.onnx').run({'x': [1, -1, 3]}, ['z', 'r'])['z'].tolist())\n"
           "c = nn.load('chain.onnx').run({'x': [[0, 1], [1, 0]]}, ['h0', 'h1', 'y'])\n"
           "print(c['h0'].tolist(), c['h1'].tolist(), len(c))\n",
           "['s', 'w', 'x', 'y'] [[1.0, -2.0, 3.0], [2.0, -1.0, 4.0]] "
           "[[1.0, 0.0, 3.0], [2.0, 0.0, 4.0]] [1.0, -2.0, 3.0] (2, 3)\n"
           "[[6.0, 3.0, 8.0]]\n"
           "[[0, 2]]\n"
           "[[1.0, 0.0], [0.0, 1.0]] [[0.0, 1.0], [1.0, 0.0]] 3\n");
}

// What the normalization was folded into is there again, and beside it the same model goes on.
static void what_was_folded_away_is_there(void **state)
{
    prints(
        *state,
        "from walle import nn\n"
        "m = nn.load('conv.onnx')\n"
        "x = nn.tensor([i % 5 - 2 for i in range(32)], (1, 2, 4, 4))\n"
        "y = m(x)\n"
        "for _ in range(2):\n"
        "    r = m.run({'x': x}, ['convolved', 'normal', 'y'])\n"
        "    c = [[sum(w * x[0][i][h][v] for i, w in enumerate(k)) for h in range(4) for v in "
        "range(4)] for k in ((1, 2), (-1, .5), (.25, -2))]\n"
        "    n = [(a - s) / (s + 1e-5) ** .5 * s + s for k, s in zip(c, (.5, 1, 2)) for a in k]\n"
        "    c = [a for k in c for a in k]\n"
        "    near = lambda a, b: max(abs(p - q) for p, q in zip(a.reshape(-1), b)) < 1e-4\n"
        "    print(near(r['convolved'], c), near(r['normal'], n), "
        "near(r['y'], [max(a, 0) for a in n]), near(m(x), y.reshape(-1)), r['y'].shape)\n",
        "True True True True (1, 3, 4, 4)\nTrue True True True (1, 3, 4, 4)\n");
}

static void names_that_are_not_there(void **state)
{
    prints(*state,
           REFUSALS "m = nn.load('conv.onnx')\n"
                    "x = nn.tensor(bytes(128), (1, 2, 4, 4))\n"
                    "no(lambda: m.run({'x': x}, ['convolvd']))\n"
                    "no(lambda: m.run({'x': x}, ['y', 'something else']))\n"
                    "no(lambda: m.run({'x': x}, ['y', 3]))\n"
                    "no(lambda: m.run({'x': x}, ['y'] * 65))\n"
                    "no(lambda: m.run({'x': x}, ''))\n"
                    "no(lambda: m.run({'input': x}))\n"
                    "no(lambda: m.run({'X': x}))\n"
                    "no(lambda: nn.load('two.onnx').run({'a': [1], 'c': [1]}))\n"
                    "no(lambda: m.run({'x': [[1]]}, ['convolved']))\n"
                    "print(m.run({'x': x})['y'].shape)\n",
           "ValueError conv.onnx: the graph has no value 'convolvd'; near is 'convolved'\n"
           "ValueError conv.onnx: the graph has no value 'something else'\n"
           "TypeError can't convert 'int' object to str implicitly\n"
           "ValueError walle.nn: too many outputs\n"
           "TypeError object 'str' isn't a tuple or list\n"
           "ValueError walle.nn: the model has no input \"input\"\n"
           "ValueError walle.nn: the model has no input \"X\"; near is \"x\"\n"
           "ValueError walle.nn: the model has no input \"c\"; near is \"a\"\n"
           "ValueError conv.onnx: input 'x' is float[?,2,4,4], not float[1,1]\n"
           "(1, 3, 4, 4)\n");
}

// Shapes change from call to call, in any order; each is right, whatever session it meets.
static void sizes_change_from_call_to_call(void **state)
{
    prints(
        *state,
        "from walle import nn\n"
        "m = nn.load('add.onnx')\n"
        "two = nn.load('two.onnx')\n"
        "for n in (1, 5, 2, 5, 0, 1, 9):\n"
        "    x = [[i, i, i] for i in range(n)]\n"
        "    want = [[i + 1.0, max(i - 2.0, 0.0), i + 3.0] for i in range(n)]\n"
        "    assert m(nn.tensor(x, (n, 3))).tolist() == want, n\n"
        "    r = two.run({'b': nn.tensor([n] * n, dtype='int64'), "
        "'a': nn.tensor(list(range(n)), dtype='int64')}, ['difference', 'sum'])\n"
        "    assert r['sum'].tolist() == [i + n for i in range(n)], n\n"
        "    assert r['difference'].tolist() == [i - n for i in range(n)], n\n"
        "w = nn.load('wide.onnx')\n"
        "names = [p[0] for p in w.inputs]\n"
        "print(len(names), w.run({k: [i] for i, k in enumerate(reversed(names))})['y'].tolist(), "
        "w.run({k: [i] for i, k in enumerate(names)}, names)['x63'].tolist())\n",
        "64 [63.0] [63.0]\n");
}

// --- sessions

static void a_session_runs_many_times(void **state)
{
    const struct dev_model_store_stats before = stats();
    prints(*state,
           "from walle import nn\n"
           "m = nn.load('add.onnx')\n"
           "s = nn.Session(m, inputs={'x': (2, 3)}, outputs=['s', 'y'])\n"
           "print(s, s.inputs, s.outputs, s.memory > 0)\n"
           "for i in range(50):\n"
           "    r = s.run({'x': [[i, i, i], [0, 0, 0]]})\n"
           "    assert r['s'].tolist() == [[i + 1, i - 2, i + 3], [1, -2, 3]], i\n"
           "    assert r['y'].tolist() == [[i + 1, max(i - 2, 0), i + 3], [1, 0, 3]], i\n"
           "    assert s([[i, i, i], [0, 0, 0]])[1].tolist() == r['y'].tolist(), i\n"
           "print(nn.Session(m, {'x': [1, 3]})([[0, 0, 0]]).tolist())\n"
           "t = nn.Session(nn.load('two.onnx'), {'a': 2, 'b': (2,)})\n"
           "print(t.run({'b': [1, 1], 'a': [5, 6]}), [p.tolist() for p in t([1, 2], [3, 4])])\n"
           "print(nn.Session(nn.load('wide.onnx'))(*[[i] for i in range(64)]).tolist())\n",
           "<Session add.onnx> (('x', 'float32', (2, 3)),) (('s', 'float32', (2, 3)), "
           "('y', 'float32', (2, 3))) True\n"
           "[[1.0, 0.0, 3.0]]\n"
           "{'sum': <Tensor int64 [2]>, 'difference': <Tensor int64 [2]>} [[4, 6], [-2, -2]]\n"
           "[0.0]\n");
    assert_int_equal(stats().sessions, before.sessions + 4); // planned once each
    kit_run(*state);
    assert_int_equal(stats().sessions, before.sessions + 4); // and found by the next run
}

// Results go into arrays that the script has; what does not fit is refused before anything runs.
static void results_go_into_arrays(void **state)
{
    prints(
        *state,
        REFUSALS
        "from walle import np\n"
        "s = nn.Session(nn.load('add.onnx'), {'x': (2, 3)}, ['s', 'y'])\n"
        "y = np.zeros((2, 3), 'float32')\n"
        "for i in range(5):\n"
        "    r = s.run({'x': [[i, i, i], [0, 0, 0]]}, {'y': y})\n"
        "    assert r['y'] is y and y.tolist() == [[i + 1, max(i - 2, 0), i + 3], [1, 0, 3]], i\n"
        "    assert r['s'].tolist()[0] == [i + 1, i - 2, i + 3], i\n"
        "part = np.zeros((2, 2, 3), 'float32')\n"
        "s.run({'x': [[1, 1, 1]] * 2}, {'s': part[1]})\n"
        "print(part.tolist())\n"
        "go = lambda out: s.run({'x': [[9, 9, 9]] * 2}, out)\n"
        "no(lambda: go({'y': np.zeros((3, 2), 'float32')}))\n"
        "no(lambda: go({'y': np.zeros((2, 3))}))\n"
        "no(lambda: go({'y': np.zeros((3, 2), 'float32').T}))\n"
        "no(lambda: go({'y': np.array(nn.tensor([[0, 0, 0]] * 2), copy=False)}))\n"
        "no(lambda: go({'y': nn.tensor([[0, 0, 0]] * 2)}))\n"
        "no(lambda: go({'y': y, 'x': y}))\n"
        "no(lambda: go({'y': part[0], 's': part[0]}))\n"
        "no(lambda: go([y]))\n"
        "print(y.tolist()[0], sorted(go(None)))\n",
        "[[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [[2.0, -1.0, 4.0], [2.0, -1.0, 4.0]]]\n"
        "ValueError walle.nn: output \"y\" goes into an array of float[2,3] that lies in one piece "
        "and may change\n"
        "ValueError walle.nn: output \"y\" goes into an array of float[2,3] that lies in one piece "
        "and may change\n"
        "ValueError walle.nn: output \"y\" goes into an array of float[2,3] that lies in one piece "
        "and may change\n"
        "ValueError walle.nn: output \"y\" goes into an array of float[2,3] that lies in one piece "
        "and may change\n"
        "TypeError walle.nn: out is a dict of arrays of walle.np\n"
        "ValueError walle.nn: out names what the session does not give\n"
        "ValueError walle.nn: two outputs go into one array\n"
        "TypeError walle.nn: out is a dict of arrays of walle.np\n"
        "[5.0, 2.0, 7.0] ['s', 'y']\n");
}

static void what_a_session_refuses(void **state)
{
    prints(*state,
           REFUSALS "m = nn.load('add.onnx')\n"
                    "x = nn.tensor([[1, 2, 3]])\n"
                    "no(lambda: nn.Session('add.onnx'))\n"
                    "no(lambda: nn.Session(m))\n"
                    "no(lambda: nn.Session(m, {'y': (1, 3)}))\n"
                    "no(lambda: nn.Session(m, [(1, 3)]))\n"
                    "no(lambda: nn.Session(m, {'x': (1, 4)}))\n"
                    "no(lambda: nn.Session(m, {'x': (1, -3)}))\n"
                    "no(lambda: nn.Session(m, {'x': 'big'}))\n"
                    "no(lambda: nn.Session(m, {'x': [1] * 9}))\n"
                    "no(lambda: nn.Session(m, {'x': (1, 3)}, ['yy']))\n"
                    "no(lambda: nn.Session(m, {'x': (1, 3)}, 'y'))\n"
                    "no(lambda: nn.Session(nn.load('cut.onnx'), {'x': 4}))\n"
                    "no(lambda: nn.Session(nn.load('two.onnx'), {'a': 2, 'b': 3}))\n"
                    "s = nn.Session(m, {'x': (1, 3)})\n"
                    "no(lambda: s.run({'x': [[1, 2, 3]] * 2}))\n"
                    "no(lambda: s.run({'z': x}))\nno(lambda: s.run({}))\nno(lambda: s.run([x]))\n"
                    "no(lambda: s())\nno(lambda: s(x, x))\n"
                    "no(lambda: s(nn.tensor([[1, 2, 3]], dtype='int32')))\n"
                    "no(lambda: s.nothing)\n"
                    "print(s(x).tolist())\n",
           "TypeError walle.nn: a session is made of a model of nn.load\n"
           "ValueError walle.nn: the shape of input \"x\" is open: a session is told it\n"
           "ValueError walle.nn: the model has no input \"y\"; near is \"x\"\n"
           "TypeError walle.nn: a session takes a dict of shapes\n"
           "ValueError add.onnx: input 'x' is float[?,3], not float[1,4]\n"
           "ValueError walle.nn: input \"x\" has a size below 0\n"
           "TypeError object 'str' isn't a tuple or list\n"
           "ValueError walle.nn: input \"x\" of more than 8 dimensions\n"
           "ValueError add.onnx: the graph has no value 'yy'; near is 'y'\n"
           "TypeError object 'str' isn't a tuple or list\n"
           "ValueError cut.onnx: node 'n1' (NonZero, opset 13): what it does hangs on contents, so "
           "there is no plan in one piece\n"
           "ValueError two.onnx: node 'n0' (Add, opset 13): shapes int64[2] and int64[3] do not "
           "broadcast\n"
           "ValueError add.onnx: input 'x' of the session is float[1,3], not float[2,3]\n"
           "ValueError walle.nn: the model has no input \"z\"; near is \"x\"\n"
           "ValueError walle.nn: input \"x\" is not given\n"
           "TypeError walle.nn: run takes a dict of inputs\n"
           "TypeError function takes 1 positional arguments but 0 were given\n"
           "TypeError function takes 1 positional arguments but 2 were given\n"
           "ValueError add.onnx: input 'x' of the session is float[1,3], not int32[1,3]\n"
           "AttributeError 'Session' object has no attribute 'nothing'\n"
           "[[2.0, 0.0, 6.0]]\n");
}

static void sessions_are_resized_and_closed(void **state)
{
    prints(*state,
           REFUSALS "m = nn.load('add.onnx')\n"
                    "s = nn.Session(m, {'x': (1, 3)})\n"
                    "small = s.memory\n"
                    "s.resize({'x': (400, 3)})\n"
                    "print(s.memory > small, s.outputs, s([[0, 0, 0]] * 400)[399].tolist())\n"
                    "no(lambda: s.resize({'x': (1, 5)}))\n"
                    "no(lambda: s([[0, 0, 0]]))\n"
                    "no(lambda: s.resize({'x': (1, 3)}))\n"
                    "no(lambda: s.inputs)\n"
                    "s.close()\n"
                    "kept = [nn.Session(m, {'x': (i, 3)}) for i in range(8)]\n"
                    "no(lambda: nn.Session(m, {'x': (1, 3)}))\n"
                    "kept[3].close()\n"
                    "kept.append(nn.Session(m, {'x': (1, 3)}))\n"
                    "print([k(nn.tensor([0] * 3 * n, (n, 3))).shape for n, k in "
                    "((2, kept[2]), (7, kept[7]), (1, kept[8]))], kept[3])\n",
           "True (('y', 'float32', (400, 3)),) [1.0, 0.0, 3.0]\n"
           "ValueError add.onnx: input 'x' is float[?,3], not float[1,5]\n"
           "ValueError walle.nn: the session is closed\n"
           "ValueError walle.nn: the session is closed\n"
           "ValueError walle.nn: the session is closed\n"
           "ValueError walle.nn: more than 8 open sessions in a run\n"
           "[(2, 3), (7, 3), (1, 3)] <Session add.onnx>\n");
}

// What sessions hold is not there for others of the run: for sessions, trainers and calls.
static void sessions_share_the_memory_of_the_run(void **state)
{
    struct vm_kit *kit = *state;
    kit->job.model_memory_max = 1 << 20;
    prints(kit,
           "from walle import nn\n"
           "m = nn.load('chain.onnx')\n"
           "kept = []\n"
           "try:\n"
           "    while True: kept.append(nn.Session(nn.load('add.onnx'), {'x': (9000, 3)}))\n"
           "except MemoryError as e:\n"
           "    print('full')\n"
           "print(1 <= len(kept) < 8, sum(k.memory for k in kept) <= 1 << 20)\n"
           "x = nn.tensor(bytes(4 * 3 * 20000), (20000, 3))\n"
           "try:\n"
           "    nn.load('add.onnx')(x)\n"
           "except MemoryError:\n"
           "    print('no room for a call')\n"
           "for k in kept: k.close()\n"
           "print(nn.load('add.onnx')(x).shape)\n",
           "full\nTrue True\nno room for a call\n(20000, 3)\n");
    kit->job.model_memory_max = 0;
}

// Opening one, and its runs, are of the run's budget; units are the same whoever ran before.
static void sessions_are_within_the_budget(void **state)
{
    struct vm_kit *kit = *state;
    uint64_t first = 0;
    for (uint32_t i = 0; i < 3; i++) {
        kit_run_source(kit, "from walle import nn\n"
                            "s = nn.Session(nn.load('chain.onnx'), {'x': (8, 8)}, ['h3'])\n"
                            "for i in range(4): s(nn.tensor(bytes(256), (8, 8)))\n"
                            "s.resize({'x': (4, 4)})\n");
        kit_ended(kit, DEV_VM_FINISHED);
        first = i == 0 ? kit->result.instructions : first;
        assert_int_equal(kit->result.instructions, first);
    }
    assert_true(first > 4 * 1000 * 8 * 8 * 8 / DEV_VM_WORK_PER_UNIT);
    kit->job.time_ms = 20;
    kit_run_source(kit, "from walle import nn\n"
                        "s = nn.Session(nn.load('chain.onnx'), {'x': (300, 300)})\n"
                        "x = nn.tensor(bytes(4 * 300 * 300), (300, 300))\n"
                        "try:\n    s(x)\n"
                        "except BaseException:\n    print('caught')\n");
    kit->job.time_ms = 30000;
    kit_ended(kit, DEV_VM_BUDGET);
    kit_text_is(kit->result.output, "");
    kit->job.instruction_max = 60000;
    kit_run(kit);
    kit->job.instruction_max = 0;
    kit_ended(kit, DEV_VM_BUDGET);
    kit_text_is(kit->result.output, "");
    assert_int_equal(kit->result.line, 5);
    kit_run_source(kit, "from walle import nn\n"
                        "s = nn.Session(nn.load('add.onnx'), {'x': (1, 3)})\n"
                        "assert s([[1, 1, 1]]).tolist() == [[2, 0, 4]]\n");
    kit_ended(kit, DEV_VM_FINISHED);
}

#ifndef KIT_APART // a host of another kind, which a process of its own is not

static void hosts_without_sessions_say_so(void **state)
{
    struct vm_kit *kit = *state;
    struct dev_model_port bare = port;
    bare.sessions = NULL;
    kit->job.model_port = &bare;
    kit_run_source(kit, "from walle import nn\nnn.Session(nn.load('add.onnx'), {'x': (1, 3)})\n");
    kit->job.model_port = &port;
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_string_equal(kit->result.type, "OSError");
    assert_string_equal(kit->result.message, "models have no sessions here");
}

// As a file that takes for ever: reads the model when the time of the run is over.
static enum base_status get_slowly(void *ctx, const struct dev_model_file *file,
                                   struct dev_model **out_model, struct base_error *error)
{
    assert_true(file->limits->deadline_us > 0);
    while (base_clock_mono_us() < file->limits->deadline_us) {
    }
    return dev_model_store_get(ctx, file, out_model, error);
}

static void a_deadline_ends_a_load(void **state)
{
    struct vm_kit *kit = *state;
    struct dev_model_port slow = port;
    static struct nn_model file;
    nn_chain(&file, 3); // of which the store has none yet
    struct dev_vm_model model = {BASE_STR("new.onnx"), file.bytes, file.size, file.digest};
    struct dev_model_store_stats before;
    struct dev_model_store_stats after;
    dev_model_store_stats(store, &before);
    slow.get = get_slowly;
    kit->job.model_port = &slow;
    kit->job.models = &model;
    kit->job.model_count = 1;
    kit->job.time_ms = 20;
    kit_run_source(kit, "from walle import nn\n"
                        "try:\n"
                        "    nn.load('new.onnx')\n"
                        "except BaseException:\n"
                        "    print('caught')\n"
                        "finally:\n"
                        "    print('finally')\n");
    kit->job.time_ms = 30000;
    kit->job.model_port = &port;
    kit->job.models = listed;
    kit->job.model_count = MODELS;
    kit_ended(kit, DEV_VM_BUDGET);
    kit_text_is(kit->result.output, "");
    assert_string_equal(kit->result.message, "time budget of 20 ms used up");
    assert_int_equal(kit->result.line, 3);
    dev_model_store_stats(store, &after);
    assert_int_equal(after.models, before.models); // it was begun, and is gone
    assert_int_equal(after.loads, before.loads + 1);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_inside_by_name),
        cmocka_unit_test(what_was_folded_away_is_there),
        cmocka_unit_test(names_that_are_not_there),
        cmocka_unit_test(sizes_change_from_call_to_call),
        cmocka_unit_test(a_session_runs_many_times),
        cmocka_unit_test(results_go_into_arrays),
        cmocka_unit_test(what_a_session_refuses),
        cmocka_unit_test(sessions_are_resized_and_closed),
        cmocka_unit_test(sessions_share_the_memory_of_the_run),
        cmocka_unit_test(sessions_are_within_the_budget),
#ifndef KIT_APART
        cmocka_unit_test(hosts_without_sessions_say_so),
        cmocka_unit_test(a_deadline_ends_a_load),
#endif
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
