// walle.nn from scripts: tensors of every type and shape, models by place and by name, and every
// end a run can come to while a model works.
#include "nn_models.h"

#include "model/model_store.h"
#include "vm_kit.h"

enum { ADD_RELU, TWO_BY_TWO, CHAIN, NONZERO, SPREAD, UNKNOWN, TEXT, DAMAGED, WIDE, MODELS };

static struct nn_model files[MODELS];
static const char *const names[MODELS] = {
    "add.onnx",     "two.onnx",  "chain.onnx",       "cut.onnx",  "spread.onnx",
    "unknown.onnx", "text.onnx", "sub/damaged.onnx", "wide.onnx",
};
static struct dev_vm_model listed[MODELS];
static struct dev_model_store *store;
static struct dev_model_port port;

#define CHAIN_LENGTH  1000
#define SPREAD_LENGTH 1000000

static int setup(void **state)
{
    static struct vm_kit kit;
    nn_add_relu(&files[ADD_RELU], 0);
    nn_two_by_two(&files[TWO_BY_TWO]);
    nn_chain(&files[CHAIN], CHAIN_LENGTH);
    nn_nonzero(&files[NONZERO]);
    nn_spread(&files[SPREAD], SPREAD_LENGTH);
    nn_unknown(&files[UNKNOWN]);
    nn_identity(&files[TEXT], ENG_STRING);
    nn_wide(&files[WIDE], DEV_VM_MODEL_PORTS_MAX + 1);
    files[DAMAGED] = files[ADD_RELU];
    files[DAMAGED].size -= 20;
    nn_model_digest(&files[DAMAGED]);
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

static int teardown(void **state)
{
    struct dev_model_store_stats stats;
    dev_model_store_stats(store, &stats);
    assert_int_equal(stats.held, 0); // runs leave nothing held
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

// --- tensors

static void tensors_of_numbers(void **state)
{
    prints(
        *state,
        "from walle import nn\n"
        "t = nn.tensor([[1, 2.5, True], (4, 5, 6)])\n"
        "print(t, t.shape, t.dtype, t.size, len(t))\n"
        "print(t.tolist(), t[1], t[1].tolist(), t[0][1], t[-1][-1], list(t[0]))\n"
        "print([r.tolist() for r in t], t[0:1].tolist(), t[5:].shape)\n"
        "s = nn.tensor(7)\n"
        "print(s, s.shape, s.tolist(), s.size, s.item(), t[0][1:2].item())\n"
        "print(nn.tensor([]), nn.tensor([[], []]).shape, nn.tensor([[]]).tolist())\n"
        "print(nn.tensor([1, 2, 3, 4, 5, 6], (2, 3)).tolist(), "
        "nn.tensor([1, 2, 3, 4], shape=[2, -1], dtype='int8').tolist())\n"
        "print(t.reshape((3, 2)).tolist(), t.reshape(6).shape, t.reshape(3, -1).shape, "
        "t.reshape(-1).argmax(), t.argmax())\n"
        "print(nn.tensor([3, float('nan'), 9]).argmax(), nn.tensor([5, 5], dtype='int64').argmax(),"
        " nn.tensor([0, 2**64-1, 1], dtype='uint64').argmax())\n"
        "print(isinstance(t, nn.Tensor), nn.tensor(t) is t, nn.tensor(t, dtype='int32').dtype)\n",
        "<Tensor float32 [2,3]> (2, 3) float32 6 2\n"
        "[[1.0, 2.5, 1.0], [4.0, 5.0, 6.0]] <Tensor float32 [3]> [4.0, 5.0, 6.0] 2.5 6.0 "
        "[1.0, 2.5, 1.0]\n"
        "[[1.0, 2.5, 1.0], [4.0, 5.0, 6.0]] [[1.0, 2.5, 1.0]] (0, 3)\n"
        "<Tensor float32 []> () 7.0 1 7.0 2.5\n"
        "<Tensor float32 [0]> (2, 0) [[]]\n"
        "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] [[1, 2], [3, 4]]\n"
        "[[1.0, 2.5], [1.0, 4.0], [5.0, 6.0]] (6,) (3, 2) 5 5\n"
        "1 0 1\n"
        "True True int32\n");
}

static void tensors_of_bytes(void **state)
{
    prints(*state,
           "from walle import nn, data\n"
           "from array import array\n"
           "import struct\n"
           "b = struct.pack('<3f', 1.5, -2, 3)\n"
           "t = nn.tensor(b)\n"
           "print(t.tolist(), t.tobytes() == b, bytes(t) == b, len(memoryview(t)))\n"
           "print(nn.tensor(bytearray(b'\\1\\0\\xff\\xff'), dtype='int16').tolist(), "
           "nn.tensor(b'\\0\\2\\1', dtype='bool').tolist(), "
           "nn.tensor(memoryview(b)[4:], (1, 2)).tolist())\n"
           "for code in 'bBhHiIlLqQfd':\n"
           "    a = array(code, [1, 2, 100])\n"
           "    assert nn.tensor(a).tolist() == [1.0, 2.0, 100.0], code\n"
           "    assert nn.tensor(a, dtype='int64').tolist() == [1, 2, 100] or code in 'fd', code\n"
           "    if code != 'B': assert nn.tensor(memoryview(a)).size == 3, code\n"
           "u = nn.tensor([[1, 2], [3, 4]], dtype='uint16')\n"
           "print(u[1].tobytes(), nn.tensor(u[1], dtype='float64').tolist(), "
           "nn.tensor(nn.tensor([1.9, -1.9]), dtype='int8').tolist())\n"
           "data.upload('part', u[1])\n"
           "data.upload('all', u)\n",
           "[1.5, -2.0, 3.0] True True 12\n"
           "[1, -1] [False, True, True] [[-2.0, 3.0]]\n"
           "b'\\x03\\x00\\x04\\x00' [3.0, 4.0] [1, -1]\n");
    const struct dev_vm_result *result = &((struct vm_kit *)*state)->result;
    assert_int_equal(result->effect_count, 2);
    assert_int_equal(result->effects[0].format, WIRE_RECORD_BYTES);
    assert_int_equal(result->effects[0].size, 4);
    assert_memory_equal(result->effects[0].bytes, "\3\0\4\0", 4);
    assert_int_equal(result->effects[1].size, 8);
}

static void tensors_refuse(void **state)
{
    prints(*state,
           "from walle import nn\n"
           "def no(*a, **k):\n"
           "    try:\n        print('took', nn.tensor(*a, **k))\n"
           "    except Exception as e:\n        print(type(e).__name__, e)\n"
           "no('abc')\nno(None)\nno([1, 'a'])\nno([[1], 2])\nno([1, [2]])\nno([[1, 2], [3]])\n"
           "no([1.5], dtype='int8')\nno([128], dtype='int8')\nno([-1], dtype='uint64')\n"
           "no([2 ** 70], dtype='int64')\nno([1], dtype='float')\nno([1], dtype=3)\n"
           "no([1, 2], (3,))\nno([1, 2], (-1, -1))\nno([1, 2], (2 ** 40, 2 ** 40))\n"
           "no([1, 2], (-2, -1))\nno(b'abc')\nno([[[[[[[[[1]]]]]]]]])\nno([1] * 4, [1] * 9)\n"
           "no([], (0, -1))\nno(nn.tensor([300.5]), dtype='uint8')\nno(nn.tensor([float('nan')]), "
           "dtype='int8')\nno({1: 2})\nno([float])\n"
           "t = nn.tensor([1, 2])\n"
           "for f in (lambda: t[2], lambda: t['a'], lambda: t[0][0], lambda: len(nn.tensor(1)), "
           "lambda: list(nn.tensor(1)), lambda: nn.tensor([]).argmax(), lambda: t.item(), "
           "lambda: t.reshape(3), lambda: t[::2], lambda: t.nothing):\n"
           "    try:\n        print('gave', f())\n"
           "    except Exception as e:\n        print(type(e).__name__)\n"
           "try:\n    t[0] = 5\nexcept TypeError:\n    print('no store')\n"
           "try:\n    memoryview(t)[0] = 5\nexcept TypeError:\n    print('read only')\n"
           "try:\n    t.shape = (1, 2)\nexcept AttributeError:\n    print('no attribute')\n",
           "TypeError walle.nn: a tensor is made of numbers or bytes, not of str\n"
           "TypeError walle.nn: a tensor is made of numbers or bytes, not of NoneType\n"
           "TypeError walle.nn: float32 of a str\n"
           "ValueError walle.nn: lists of different lengths\n"
           "TypeError walle.nn: float32 of a list\n"
           "ValueError walle.nn: lists of different lengths\n"
           "TypeError walle.nn: int8 of a float\n"
           "OverflowError walle.nn: out of the range of int8\n"
           "OverflowError walle.nn: out of the range of uint64\n"
           "OverflowError walle.nn: out of the range of int64\n"
           "ValueError walle.nn: no type \"float\"\n"
           "TypeError can't convert 'int' object to str implicitly\n"
           "ValueError walle.nn: 2 elements do not have this shape\n"
           "ValueError walle.nn: 2 elements do not have this shape\n"
           "ValueError walle.nn: 2 elements do not have this shape\n"
           "ValueError walle.nn: 2 elements do not have this shape\n"
           "ValueError walle.nn: 3 bytes are no whole number of float32\n"
           "ValueError walle.nn: more than 8 dimensions\n"
           "ValueError walle.nn: more than 8 dimensions\n"
           "ValueError walle.nn: 0 elements do not have this shape\n"
           "OverflowError walle.nn: out of the range of uint8\n"
           "ValueError can't convert NaN to int\n"
           "TypeError walle.nn: a tensor is made of numbers or bytes, not of dict\n"
           "TypeError walle.nn: float32 of a type\n"
           "IndexError\nTypeError\nTypeError\nTypeError\nTypeError\nValueError\nValueError\n"
           "ValueError\nNotImplementedError\nAttributeError\n"
           "no store\nread only\nno attribute\n");
}

// --- models

static void a_model_by_place_and_by_name(void **state)
{
    prints(
        *state,
        "from walle import nn\n"
        "m = nn.load('add.onnx')\n"
        "print(m, m.inputs, m.outputs)\n"
        "x = nn.tensor([[0, 0, 0], [1, 5, -9]])\n"
        "print(m(x).tolist(), m([[1, 1, 1]]).tolist(), m(((1, 1, 1.5),)).shape)\n"
        "print(m.run({'x': x})['y'].tolist(), m.run({'x': [[0, 2, 0]]}, ['y']))\n"
        "two = nn.load('two.onnx')\n"
        "print([p[:2] for p in two.inputs], [p[0] for p in two.outputs])\n"
        "s, d = two([5, 2 ** 60], nn.tensor([3, -1], dtype='int64'))\n"
        "print(s.tolist(), d.tolist(), s.dtype)\n"
        "print(two.run({'b': [1], 'a': [2]}, ('difference',))['difference'].tolist(), "
        "sorted(two.run({'b': [1], 'a': [2]})), two.run({'b': [1], 'a': [2]}, []))\n"
        "print(nn.load('add.onnx')(x).tolist() == m(x).tolist(), [m(x)[0][2] for i in range(3)])\n"
        "print(nn.load('cut.onnx')([1, 0, 3]).tolist(), nn.load('cut.onnx')([0]).shape)\n",
        "<Model add.onnx> (('x', 'float32', (None, 3)),) (('y', 'float32', (None, 3)),)\n"
        "[[1.0, 0.0, 3.0], [2.0, 3.0, 0.0]] [[2.0, 0.0, 4.0]] (1, 3)\n"
        "[[1.0, 0.0, 3.0], [2.0, 3.0, 0.0]] {'y': <Tensor float32 [1,3]>}\n"
        "[('a', 'int64'), ('b', 'int64')] ['sum', 'difference']\n"
        "[8, 1152921504606846975] [2, 1152921504606846977] int64\n"
        "[1] ['difference', 'sum'] {}\n"
        "True [3.0, 3.0, 3.0]\n"
        "[[0, 4]] (1, 0)\n");
}

static void every_type_goes_through(void **state)
{
    static const struct {
        enum eng_dtype dtype;
        const char *values; // as they go in and as they come out
    } cases[] = {
        {ENG_F32, "[1.5, -0.0, float('inf'), 2.0 ** 100]"},
        {ENG_F64, "[0.1, 1e300, -2.5]"},
        {ENG_F16, "[0.5, -65504.0, 0.0999755859375]"},
        {ENG_BF16, "[1.0, -0.5, 3.140625]"},
        {ENG_I8, "[-128, 0, 127]"},
        {ENG_I16, "[-32768, 32767]"},
        {ENG_I32, "[-2147483648, 2147483647]"},
        {ENG_I64, "[-9223372036854775808, 9223372036854775807]"},
        {ENG_U8, "[0, 255]"},
        {ENG_U16, "[65535, 1]"},
        {ENG_U32, "[4294967295]"},
        {ENG_U64, "[18446744073709551615, 0]"},
        {ENG_BOOL, "[True, False]"},
    };
    struct vm_kit *kit = *state;
    static struct nn_model file;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char source[512];
        nn_identity(&file, cases[i].dtype);
        struct dev_vm_model model = {BASE_STR("m.onnx"), file.bytes, file.size, file.digest};
        kit->job.models = &model;
        kit->job.model_count = 1;
        (void)snprintf(source, sizeof(source),
                       "from walle import nn\n"
                       "v = %s\nm = nn.load('m.onnx')\n"
                       "t = m(v)\nassert t.tolist() == v, t.tolist()\n"
                       "assert t.dtype == m.inputs[0][1] == m.outputs[0][1], t.dtype\n"
                       "assert m(nn.tensor(v, dtype=t.dtype)).tobytes() == t.tobytes()\n"
                       "assert nn.tensor(t.tobytes(), dtype=t.dtype).tolist() == v\n"
                       "assert type(t[0]) == type(v[0]) and m([]).size == 0\n",
                       cases[i].values);
        kit_run_source(kit, source);
        kit_ended(kit, DEV_VM_FINISHED);
    }
    kit->job.models = listed;
    kit->job.model_count = MODELS;
}

static void errors_say_what_and_where(void **state)
{
    prints(*state,
           "from walle import nn\n"
           "def no(f):\n"
           "    try:\n        print('gave', f())\n"
           "    except Exception as e:\n        print(type(e).__name__, e)\n"
           "m = nn.load('add.onnx')\n"
           "two = nn.load('two.onnx')\n"
           "x = nn.tensor([[1, 2, 3]])\n"
           "no(lambda: nn.load('nothing.onnx'))\n"
           "no(lambda: nn.load(7))\n"
           "no(lambda: nn.load('unknown.onnx'))\n"
           "no(lambda: m())\nno(lambda: m(x, x))\nno(lambda: m(x=x))\n"
           "no(lambda: m([1, 2, 3]))\n"
           "no(lambda: m(nn.tensor([[1, 2, 3]], dtype='int32')))\n"
           "no(lambda: m('abc'))\n"
           "no(lambda: m.run({'z': x}))\nno(lambda: m.run({}))\nno(lambda: m.run([x]))\n"
           "no(lambda: two.run({'a': [1]}))\nno(lambda: m.run({'x': x}, ['z']))\n"
           "no(lambda: m.run({'x': x}, 3))\nno(lambda: m.run({3: x}))\n"
           "no(lambda: two([1, 2], [1, 2, 3]))\n"
           "no(lambda: nn.load('text.onnx')(['a']))\n"
           "no(lambda: m.nothing)\n"
           "print(m(x).tolist())\n",
           "OSError no model \"nothing.onnx\" in this version\n"
           "TypeError can't convert 'int' object to str implicitly\n"
           "ValueError unknown.onnx: node 'n0' (Frobnicate, opset 13): this operator is not "
           "supported\n"
           "TypeError function takes 1 positional arguments but 0 were given\n"
           "TypeError function takes 1 positional arguments but 2 were given\n"
           "TypeError function doesn't take keyword arguments\n"
           "ValueError add.onnx: input 'x' is float[?,3], not float[3]\n"
           "ValueError add.onnx: input 'x' is float[?,3], not int32[1,3]\n"
           "TypeError walle.nn: a tensor is made of numbers or bytes, not of str\n"
           "ValueError walle.nn: the model has no input \"z\"; near is \"x\"\n"
           "ValueError walle.nn: input \"x\" is not given\n"
           "TypeError walle.nn: run takes a dict of inputs\n"
           "ValueError walle.nn: input \"b\" is not given\n"
           "ValueError add.onnx: the graph has no value 'z'; near is 'w', then 'x'\n"
           "TypeError object 'int' isn't a tuple or list\n"
           "TypeError can't convert 'int' object to str implicitly\n"
           "ValueError two.onnx: node 'n0' (Add, opset 13): shapes int64[2] and int64[3] do not "
           "broadcast\n"
           "ValueError walle.nn: input \"x\" is of string, which no number is\n"
           "AttributeError 'Model' object has no attribute 'nothing'\n"
           "[[2.0, 0.0, 6.0]]\n");
}

// Also when the script tries again: the first refusal leaves the model held.
static void too_many_ports_are_refused(void **state)
{
    prints(*state,
           "from walle import nn\n"
           "for _ in range(2):\n"
           "    try:\n"
           "        print(len(nn.load('wide.onnx').inputs))\n"
           "    except ValueError as e:\n"
           "        print(e)\n",
           "wide.onnx: more than 64 inputs or outputs\n"
           "wide.onnx: more than 64 inputs or outputs\n");
}

static void a_damaged_model_ends_the_script_alone(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "from walle import nn\n\nnn.load('sub/damaged.onnx')\n");
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_string_equal(kit->result.type, "ValueError");
    assert_int_equal(kit->result.line, 3);
    assert_non_null(strstr(kit->result.message, "sub/damaged.onnx: "));
    kit->job.model_port = NULL;
    kit_run_source(kit, "from walle import nn\nnn.load('add.onnx')\n");
    kit->job.model_port = &port;
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_string_equal(kit->result.type, "OSError");
}

static void jobs_with_bad_models_are_refused(void **state)
{
    struct vm_kit *kit = *state;
    struct dev_vm_model model = listed[0];
    kit_run_source(kit, "pass");
    kit->job.models = &model;
    kit->job.model_count = 1;
    model.name.size = 0;
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_ERR_INVALID);
    model = listed[0];
    model.bytes = NULL;
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_ERR_INVALID);
    kit->job.models = NULL;
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_ERR_INVALID);
    kit->job.models = listed;
    kit->job.model_count = DEV_VM_MODELS_MAX + 1;
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_ERR_INVALID);
    kit->job.model_count = MODELS;
}

// --- ends

// A model that works for longer than the run may.
#define LONG_CALL                                                                                  \
    "from walle import nn\n"                                                                       \
    "m = nn.load('chain.onnx')\n"                                                                  \
    "x = nn.tensor(bytes(4 * 300 * 300), (300, 300))\n"                                            \
    "try:\n"                                                                                       \
    "    m(x)\n"                                                                                   \
    "except BaseException:\n"                                                                      \
    "    print('caught')\n"                                                                        \
    "finally:\n"                                                                                   \
    "    print('finally')\n"
#define LONG_CALL_LINE  5
#define LONG_CALL_UNITS ((uint64_t)CHAIN_LENGTH * 300 * 300 * 300 / DEV_VM_WORK_PER_UNIT)

static void a_deadline_ends_a_long_model(void **state)
{
    struct vm_kit *kit = *state;
    kit->job.time_ms = 20;
    kit_run_source(kit, LONG_CALL);
    kit->job.time_ms = 30000;
    kit_ended(kit, DEV_VM_BUDGET);
    kit_text_is(kit->result.output, "");
    assert_string_equal(kit->result.message, "time budget of 20 ms used up");
    assert_int_equal(kit->result.line, LONG_CALL_LINE);
    assert_true(kit->result.instructions < LONG_CALL_UNITS);
}

static void the_instruction_limit_bounds_models(void **state)
{
    struct vm_kit *kit = *state;
    static const char *const isas[] = {"", "generic", "ref"};
    for (size_t i = 0; i < TEST_COUNT(isas); i++) {
        assert_int_equal(setenv("WALLE_ENGINE_ISA", isas[i], 1), 0);
        kit->job.instruction_max = 60000; // two products of 300 x 300 x 300 and some
        kit_run_source(kit, LONG_CALL);
        kit_ended(kit, DEV_VM_BUDGET);
        kit_text_is(kit->result.output, "");
        assert_string_equal(kit->result.message, "instruction budget of 60000 used up");
        assert_int_equal(kit->result.line, LONG_CALL_LINE);
        assert_in_range(kit->result.instructions, 60000, 60064);
        kit->job.instruction_max = 0;
    }
    assert_int_equal(unsetenv("WALLE_ENGINE_ISA"), 0);
}

// The same units for the same calls, whoever ran before: sessions and models that wait cost nothing
// less.
static void units_repeat_themselves(void **state)
{
    struct vm_kit *kit = *state;
    uint64_t first = 0;
    for (uint32_t i = 0; i < 4; i++) {
        kit_run_source(kit, "from walle import nn\n"
                            "m = nn.load('add.onnx')\n"
                            "c = nn.load('cut.onnx')\n"
                            "for n in (1, 700, 3): m([[1, 2, 3]] * n)\n"
                            "c([1, 0, 2] * 5000)\nc([0, 0])\n");
        kit_ended(kit, DEV_VM_FINISHED);
        first = i == 0 ? kit->result.instructions : first;
        assert_int_equal(kit->result.instructions, first);
    }
    kit_run_source(kit, "from walle import nn\n"
                        "nn.load('cut.onnx')([0, 0, 7])\n"
                        "nn.load('add.onnx')([[1, 1, 1]] * 4)\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_run_source(kit, "from walle import nn\n"
                        "m = nn.load('add.onnx')\n"
                        "c = nn.load('cut.onnx')\n"
                        "for n in (1, 700, 3): m([[1, 2, 3]] * n)\n"
                        "c([1, 0, 2] * 5000)\nc([0, 0])\n");
    assert_int_equal(kit->result.instructions, first);
    // The limit is exact: one unit less does not do.
    kit->job.instruction_max = first + 1;
    kit_run(kit);
    kit_ended(kit, DEV_VM_FINISHED);
    kit->job.instruction_max = first - 100;
    kit_run(kit);
    kit->job.instruction_max = 0;
    kit_ended(kit, DEV_VM_BUDGET);
}

static void memory_has_limits(void **state)
{
    struct vm_kit *kit = *state;
    prints(kit,
           "from walle import nn\n"
           "m = nn.load('spread.onnx')\n"
           "try:\n    m([1])\n"
           "except MemoryError as e:\n    print(e)\n"
           "print(nn.load('add.onnx')([[0, 0, 0]]).tolist())\n",
           "spread.onnx: output 0 of 4000000 bytes does not fit the heap\n[[1.0, 0.0, 3.0]]\n");
    kit->job.model_memory_max = 1 << 16;
    kit_run_source(kit, "from walle import nn\nm = nn.load('spread.onnx')\n"
                        "try:\n    m([1])\n"
                        "except MemoryError as e:\n    print('memory')\n"
                        "m([1])\n");
    kit->job.model_memory_max = 0;
    kit_ended(kit, DEV_VM_MEMORY);
    assert_int_equal(kit->result.line, 7);
    kit_text_is(kit->result.output, "memory\n");
    kit_run_source(kit,
                   "from walle import nn\nx = []\nwhile True: x.append(nn.tensor([1] * 90))\n");
    kit_ended(kit, DEV_VM_MEMORY);
}

static void tensors_live_as_long_as_their_parts(void **state)
{
    prints(
        *state,
        "from walle import nn\nimport gc\n"
        "m = nn.load('add.onnx')\n"
        "kept = []\n"
        "for i in range(200):\n"
        "    t = m([[i, i, i], [i + 1, i + 1, i + 1]])\n"
        "    kept.append((i, t[1], t[0][2], t[1:].reshape(3), nn.tensor([t[1][0]] * 300)[7:9]))\n"
        "    junk = [nn.tensor([j] * 50) for j in range(20)]\n"
        "    if i % 50 == 0: gc.collect()\n"
        "for i, row, last, flat, part in kept:\n"
        "    want = [i + 2, max(i - 1, 0), i + 4]\n"
        "    assert row.tolist() == want and flat.tolist() == want, (i, row.tolist())\n"
        "    assert last == i + 3 and part.tolist() == [i + 2, i + 2], i\n"
        "print('good')\n",
        "good\n");
}

static void models_are_called_from_anywhere(void **state)
{
    struct vm_kit *kit = *state;
    prints(
        kit,
        "from walle import nn\n"
        "m = nn.load('add.onnx')\n"
        "print([t.tolist()[0] for t in map(m, ([[1, 1, 1]], [[2, 2, 2]]))])\n"
        "print(sorted([3, 1, 2], key=lambda v: -m([[v, 0, 0]])[0][0]))\n"
        "def g():\n    x = [[0, 0, 0]]\n    while True:\n        x = m(x)\n        yield x[0][0]\n"
        "i = g()\nprint(next(i), next(i), next(i))\n"
        "def deep(n): return deep(n - 1) if n else m([[1, 1, 1]]).tolist()\n"
        "print(deep(40))\n"
        "try:\n    m(x for x in [1])\nexcept TypeError:\n    print('no generator')\n"
        "class A:\n    def __float__(self): return m([[1, 1, 1]])[0][0]\n"
        "try:\n    m([[A(), 1, 1]])\nexcept TypeError:\n    print('no object')\n",
        "[[2.0, 0.0, 4.0], [3.0, 0.0, 5.0]]\n[3, 2, 1]\n1.0 2.0 3.0\n[[2.0, 0.0, 4.0]]\n"
        "no generator\nno object\n");
    kit_run_source(kit, "from walle import nn\nm = nn.load('add.onnx')\n"
                        "def f(n): return f(n + 1) + m([[n, 0, 0]])[0][0]\nf(0)\n");
    kit_ended(kit, DEV_VM_STACK);
}

// What one run gave to a model is not to be seen by the next, whose session is the same.
static void runs_cannot_see_each_other(void **state)
{
    struct vm_kit *kit = *state;
    struct dev_model_store_stats before;
    struct dev_model_store_stats after;
    kit_run_source(kit, "from walle import nn\nnn.load('two.onnx')([7] * 64, [9] * 64)\n");
    kit_ended(kit, DEV_VM_FINISHED);
    dev_model_store_stats(store, &before);
    prints(kit,
           "from walle import nn\n"
           "m = nn.load('two.onnx')\n"
           "for names in ({}, {'a': [1] * 64}, {'b': [1] * 64}):\n"
           "    try:\n        print(m.run(names))\n"
           "    except ValueError as e:\n        print('refused')\n"
           "print(set(m([1] * 64, [0] * 64)[0].tolist()))\n",
           "refused\nrefused\nrefused\n{1}\n");
    dev_model_store_stats(store, &after);
    assert_int_equal(after.sessions, before.sessions);
}

static uint64_t finish_us(const struct dev_vm_result *result)
{
    assert_true(result->prepare_us <= result->duration_us);
    assert_true(result->model_us <= result->duration_us - result->prepare_us);
    return result->duration_us - result->prepare_us - result->model_us;
}

// Until the first call, from there to the end of the last one, and what is left; a run's phases are
// its own.
static void the_phases_of_a_run(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "from walle import nn\nm = nn.load('chain.onnx')\n");
    assert_int_equal(kit->result.prepare_us, kit->result.duration_us);
    assert_int_equal(kit->result.model_us, 0);
    kit_run_source(kit, "from walle import nn\nm = nn.load('chain.onnx')\n"
                        "m(nn.tensor(bytes(4 * 40 * 40), (40, 40)))\n"
                        "for i in range(100000):\n    pass\n");
    assert_int_equal(kit->result.end, DEV_VM_FINISHED);
    assert_true(kit->result.prepare_us > 0);
    assert_true(kit->result.model_us > 1000);   // a thousand products of 40 by 40
    assert_true(finish_us(&kit->result) > 200); // the loop
    kit_run_source(kit, "for i in range(100000):\n    pass\n");
    assert_int_equal(kit->result.prepare_us, kit->result.duration_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_numbers),
        cmocka_unit_test(the_phases_of_a_run),
        cmocka_unit_test(tensors_of_bytes),
        cmocka_unit_test(tensors_refuse),
        cmocka_unit_test(a_model_by_place_and_by_name),
        cmocka_unit_test(every_type_goes_through),
        cmocka_unit_test(errors_say_what_and_where),
        cmocka_unit_test(too_many_ports_are_refused),
        cmocka_unit_test(a_damaged_model_ends_the_script_alone),
        cmocka_unit_test(jobs_with_bad_models_are_refused),
        cmocka_unit_test(a_deadline_ends_a_long_model),
        cmocka_unit_test(the_instruction_limit_bounds_models),
        cmocka_unit_test(units_repeat_themselves),
        cmocka_unit_test(memory_has_limits),
        cmocka_unit_test(tensors_live_as_long_as_their_parts),
        cmocka_unit_test(models_are_called_from_anywhere),
        cmocka_unit_test(runs_cannot_see_each_other),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
