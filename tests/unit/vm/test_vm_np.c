// walle.np where NumPy is no measure: memory, budgets, what is shared with tensors and models, what
// cannot be written to, and a content's first and later runs. What functions come to is compared
// with NumPy in e2e/test_np_differential.py.
#include "nn_models.h"

#include "model/model_store.h"
#include "vm_kit.h"

#define HEAP_KIB 1024

static struct nn_model model;
static struct dev_vm_model listed;
static struct dev_model_store *store;
static struct dev_model_port port;

static int setup(void **state)
{
    static struct vm_kit kit;
    nn_add_relu(&model, 0);
    listed = (struct dev_vm_model){BASE_STR("add.onnx"), model.bytes, model.size, model.digest};
    assert_int_equal(dev_model_store_new(0, &store), BASE_OK);
    kit_init(&kit, HEAP_KIB);
    kit.job.models = &listed;
    kit.job.model_count = 1;
    port = dev_model_store_port(store);
    kit.job.model_port = &port;
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
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

static void arrays_and_models_share(void **state)
{
    prints(*state,
           "from walle import np, nn\n"
           "m = nn.load('add.onnx')\n"
           "x = np.array([[1, 2, 3], [4, 5, 6]], dtype='float32')\n"
           "y = m(x)\n"
           "print(m([[1, 2, 3], [4, 5, 6]]).tolist() == y.tolist())\n"
           "print(m(x[::-1]).tolist() == [y[1].tolist(), y[0].tolist()])\n"
           "print(m(np.array([[1, 2, 3]])).tolist() == [y[0].tolist()])\n"
           "t = nn.tensor(x)\nx[0, 0] = 99\nprint(t[0][0], x[0, 0])\n"
           "a = np.asarray(y)\nprint(a.tolist() == y.tolist(), a.dtype)\n"
           "for f in (lambda: a.sort(), lambda: a.fill(1), lambda: np.add(a, 1, a)):\n"
           "    try:\n        print('wrote', f())\n"
           "    except ValueError as e:\n        print(e)\n"
           "b = np.array(y)\nb[:] = 0\nprint(b.sum(), a.tolist() == y.tolist())\n"
           "try:\n    np.asarray(nn.tensor([1], dtype='int8'))\n"
           "except TypeError as e:\n    print(e)\n",
           "True\nTrue\nTrue\n1.0 99.0\nTrue float32\n"
           "walle.np: sort array is read-only\n"
           "walle.np: assignment destination is read-only\n"
           "walle.np: output array is read-only\n"
           "0.0 True\nwalle.np: no arrays of int8\n");
}

static void memory_errors_say_what_to_do(void **state)
{
    prints(*state,
           "from walle import np\n"
           "def no(f):\n"
           "    try:\n        print('took', f().shape)\n"
           "    except MemoryError as e:\n        print(e)\n"
           "no(lambda: np.zeros((1000, 1000)))\n"
           "no(lambda: np.zeros((2 ** 40, 2 ** 40)))\n"
           "no(lambda: np.broadcast_to(np.zeros(1), (2 ** 30,)) + 1)\n"
           "no(lambda: np.repeat(np.ones(9), 2 ** 40))\n"
           "no(lambda: np.pad(np.ones(9), 2 ** 35))\n"
           "no(lambda: np.arange(2 ** 39))\n"
           "try:\n    np.broadcast_to(1, (2 ** 32, 2 ** 32))\nexcept ValueError as e:\n"
           "    print(e)\n"
           "print(np.zeros(1000).sum())\n",
           "walle.np: 8000176 bytes for an array; the task's memory is 1024 KiB (heap_kib in "
           "task.json)\n"
           "walle.np: 4294967295 bytes for an array; the task's memory is 1024 KiB (heap_kib in "
           "task.json)\n"
           "walle.np: 4294967295 bytes for an array; the task's memory is 1024 KiB (heap_kib in "
           "task.json)\n"
           "walle.np: 4294967295 bytes for an array; the task's memory is 1024 KiB (heap_kib in "
           "task.json)\n"
           "walle.np: 4294967295 bytes for an array; the task's memory is 1024 KiB (heap_kib in "
           "task.json)\n"
           "walle.np: 4294967295 bytes for an array; the task's memory is 1024 KiB (heap_kib in "
           "task.json)\n"
           "walle.np: the broadcast shape is too large\n0.0\n");
}

static void memory_is_given_back(void **state)
{
    prints(*state,
           "from walle import np\n"
           "s = 0\n"
           "for i in range(300):\n"
           "    a = np.full(20000, i)\n"
           "    b = a[::2][1:]\n"
           "    a = None\n"
           "    c = np.sort(b + 1)\n"
           "    s += int(b[-1]) + int(c[0])\n"
           "print(s)\n",
           "90000\n");
}

// Long work in C: the limit of instructions ends each, whatever it is.
static void budgets_hold_inside(void **state)
{
    static const char *const work[] = {
        "np.broadcast_to(np.ones(1), (2 ** 34,)).sum()",
        "np.broadcast_to(np.ones(1), (2 ** 34,)).max()",
        "np.broadcast_to(np.ones((1, 1)), (2 ** 34, 2)).argmax(axis=1)",
        "np.broadcast_to(np.ones(1), (2 ** 20, 2 ** 14)).std(axis=0)",
        "np.ones((2, 4096)) @ np.broadcast_to(np.ones((4096, 1)), (2 ** 20, 4096, 1))",
        "[np.sort(np.arange(8192)[::-1]) for i in range(2 ** 30)]",
        "[np.argsort(np.arange(8192)[::-1]) for i in range(2 ** 30)]",
        "[np.unique(np.arange(4096)) for i in range(2 ** 30)]",
        "np.tile(np.zeros((0, 3)), (1, 2 ** 30)).shape and [1 for i in range(2 ** 30)]",
        "np.split(np.ones((0, 2 ** 1)), 2 ** 30)",
    };
    struct vm_kit *kit = *state;
    kit->job.instruction_max = 100000;
    for (size_t i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
        char source[512];
        (void)snprintf(source, sizeof(source),
                       "from walle import np\ntry:\n    x = %s\nexcept MemoryError:\n"
                       "    while True:\n        pass\n",
                       work[i]);
        kit_run_source(kit, source);
        if (kit->result.end != DEV_VM_BUDGET) {
            fail_msg("%s ended %s: %s", work[i], dev_vm_end_name(kit->result.end),
                     kit->result.message);
        }
    }
    kit->job.instruction_max = 0;
}

// Who goes through many elements pays as it goes: a run ends at most a step behind its limit, not
// once all is done or charged for.
static void budgets_are_looked_at(void **state)
{
    enum { LIMIT = 4000, STEP = 1500 };
    static const char *const work[] = {
        "np.searchsorted(np.arange(10), np.zeros(300000))",
        "np.logspace(0, 1, 400000)",
        "np.geomspace(1, 2, 400000)",
        "np.random.choice(50, 300000, p=np.full(50, 0.02))",
        "[np.random.shuffle(np.zeros(100000)) for i in range(100)]",
        "[np.random.permutation(100000) for i in range(100)]",
        "[np.meshgrid(np.zeros(300), np.zeros(300)) for i in range(100)]",
        "[np.ones(100000)[np.ones(100000) > 0] for i in range(100)]",
        "[np.nonzero(np.ones(100000)) for i in range(100)]",
    };
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 16 * 1024);
    kit.job.instruction_max = LIMIT;
    for (size_t i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
        char source[256];
        (void)snprintf(source, sizeof(source), "from walle import np\nx = %s\n", work[i]);
        kit_run_source(&kit, source);
        if (kit.result.end != DEV_VM_BUDGET || kit.result.instructions > LIMIT + STEP) {
            fail_msg("%s ended %s: %s, %llu", work[i], dev_vm_end_name(kit.result.end),
                     kit.result.message, (unsigned long long)kit.result.instructions);
        }
    }
    kit_done(&kit);
}

// Arrays are not looked through for pointers, but lists are that begin with what an array begins
// with; and what large arrays lay in is used again long before the heap is full.
static void memory_is_used_again(void **state)
{
    prints(*state,
           "from walle import np\n"
           "kept = [type(np.zeros(1)), [str(i) for i in range(50)], np.arange(5000), np.zeros(3)]\n"
           "kept += [(kept[0], [i, i]) for i in range(50)]\n"
           "views = [np.arange(1000, 3000)[i:i + 2] for i in range(0, 2000, 100)]\n"
           "for i in range(400):\n    x = np.full(20000, i)\n"
           "print(sum(int(t) for t in kept[1]), int(kept[2].sum()), kept[3].tolist(),\n"
           "      sum(sum(k[1]) for k in kept[4:]), sum(int(v.sum()) for v in views),\n"
           "      int(x.sum()))\n",
           "1225 12497500 [0.0, 0.0, 0.0] 2450 78020 7980000\n");
    struct vm_kit large;
    kit_init(&large, 32 * 1024);
    kit_run_source(&large,
                   "from walle import np\nfor i in range(400):\n    x = np.full(20000, i)\n");
    kit_ended(&large, DEV_VM_FINISHED);
    assert_true(large.result.heap_peak_bytes < 4 * 1024 * 1024);
    kit_done(&large);
}

// By bytes of the elements and by merging: every length around where one becomes the other, with
// equals, both zeros and NaN.
static void sorts_agree(void **state)
{
    prints(*state,
           "from walle import np\n"
           "bad = 0\n"
           "for n in (1, 2, 255, 256, 257, 600):\n"
           "    for t in ('bool', 'uint8', 'int32', 'int64', 'uint64', 'float32', 'float64'):\n"
           "        for k in (7, 7919 * 65537):\n"
           "            v = [i * k % 1009 - (500 if t[0] in 'if' else 0) for i in range(n)]\n"
           "            a = np.array([x % 200 if t == 'uint8' else x for x in v]).astype(t)\n"
           "            if t[0] == 'f':\n                a[n // 2:] /= 3\n"
           "            l = a.tolist()\n"
           "            o = sorted(range(n), key=lambda i: (l[i], i))\n"
           "            bad += np.sort(a).tolist() != sorted(l)\n"
           "            bad += np.argsort(a).tolist() != o\n"
           "            bad += np.unique(a).tolist() != sorted(set(l))\n"
           "z = np.zeros(300, dtype='float32')\n"
           "z[1::2] = -z[1::2]\nz[10] = -1\nz[20] = np.nan\nz[30] = np.inf\nz[40] = -np.inf\n"
           "print(bad, np.argsort(z)[:4].tolist(), np.argsort(z)[-3:].tolist(), "
           "np.unique(z).tolist())\n",
           "0 [40, 10, 0, 1] [299, 30, 20] [-inf, -1.0, 0.0, inf, nan]\n");
}

static void refusals(void **state)
{
    prints(
        *state,
        "from walle import np\n"
        "a = np.arange(6).reshape(2, 3)\n"
        "for f in (lambda: a < 'x', lambda: 'x' < a, lambda: bool(a), lambda: len(np.array(1)),\n"
        "          lambda: np.array('text'), lambda: np.array(None), lambda: np.array({}),\n"
        "          lambda: np.zeros((1,) * 9), lambda: a.astype('int8'), lambda: a[0, 0, 0],\n"
        "          lambda: a[1.5], lambda: a[..., ...], lambda: np.add(1), lambda: np.add(1, 2, "
        "x=1),\n"
        "          lambda: np.array([2 ** 70]), lambda: a ** -1, lambda: np.concatenate([])):\n"
        "    try:\n        print('took', f())\n"
        "    except Exception as e:\n        print(type(e).__name__, end=' ')\n"
        "l = []\nl.append(l)\n"
        "try:\n    np.array(l)\nexcept ValueError as e:\n    print(e)\n"
        "try:\n    a.shape = (3, 2)\nexcept AttributeError:\n    print('no')\n"
        "print(a == 'x', a != None, str(a), repr(a.astype('float32')))\n",
        "TypeError TypeError ValueError TypeError TypeError TypeError TypeError ValueError "
        "TypeError IndexError IndexError IndexError TypeError TypeError OverflowError "
        "ValueError ValueError walle.np: more than 8 dimensions\nno\n"
        "False True [[0, 1, 2], [3, 4, 5]] array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "
        "dtype=float32)\n");
}

// What the left operand of a comparison knows nothing of is asked of the right one.
static void comparisons_are_mirrored(void **state)
{
    prints(*state,
           "from walle import np\n"
           "a = np.arange(3)\n"
           "print((1 < a).tolist(), (1 <= a).tolist(), (1.0 > a).tolist(), (1 >= a).tolist())\n"
           "print(([0, 2, 1] < a).tolist(), (True < np.array(2)))\n"
           "class A:\n"
           "    def __gt__(self, other):\n        return ('gt', other)\n"
           "    def __le__(self, other):\n        return ('le', other)\n"
           "print(5 < A(), 'x' >= A())\n"
           "for f in (lambda: 5 <= A(), lambda: 5 < 'x', lambda: None < 5, lambda: [1] < (1,),\n"
           "          lambda: A() < 5, lambda: {} > 2):\n"
           "    try:\n        print('took', f())\n"
           "    except TypeError:\n        print('no', end=' ')\n"
           "print(2 < 2.5, 3 > 2 ** 70, {1} < {1, 2}, (1,) < (2,), 'a' < 'b')\n",
           "[False, False, True] [False, True, True] [True, False, False] [True, True, False]\n"
           "[False, False, True] True\n"
           "('gt', 5) ('le', 'x')\n"
           "no no no no no no True False True True True\n");
}

// A content's first run and those that begin from its image come to the same.
static void runs_repeat(void **state)
{
    struct vm_kit *kit = *state;
    static const char source[] =
        "import walle\nfrom walle import np\n"
        "w = np.linspace(0, 1, 64)\n"
        "x = np.array(walle.input)\n"
        "n = np.arange(64.)\n" // whole: sums come out the same in any order
        "walle.result([float((w * x.sum()).sum()), n[::-1] @ n])\n";
    kit_modules_drop(kit);
    kit_add(kit, "main", source);
    for (int i = 0; i < 4; i++) {
        kit->job.input = i % 2 == 0 ? BASE_STR("[1, 2, 3]") : BASE_STR("[1, 2, 7]");
        kit_run(kit);
        kit_ended(kit, DEV_VM_FINISHED);
        kit_text_is(kit->result.result, i % 2 == 0 ? "[192.0,41664.0]" : "[320.0,41664.0]");
    }
    kit->job.input = (struct base_str){NULL, 0};
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_and_models_share),
        cmocka_unit_test(memory_errors_say_what_to_do),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(budgets_hold_inside),
        cmocka_unit_test(budgets_are_looked_at),
        cmocka_unit_test(memory_is_used_again),
        cmocka_unit_test(sorts_agree),
        cmocka_unit_test(refusals),
        cmocka_unit_test(comparisons_are_mirrored),
        cmocka_unit_test(runs_repeat),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
