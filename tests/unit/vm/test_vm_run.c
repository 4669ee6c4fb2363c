// Runs of the script VM: how each kind of end comes back, what a script can reach, and that runs
// leave nothing behind.
#include "comma_locale.h"
#include "vm_kit.h"

#define ROOMY_KIB DEV_VM_HEAP_KIB_MAX // a heap in which nothing is collected

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

static void test_finished(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit,
                   "import walle\nprint('hello', 1 + 2)\nwalle.result({'a': [1, 2.5, None]})\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "hello 3\n");
    kit_text_is(kit->result.result, "{\"a\":[1,2.5,null]}");
    assert_string_equal(kit->result.type, "");
    assert_true(kit->result.heap_peak_bytes > 0);
    assert_true(kit->result.heap_peak_bytes < DEV_VM_HEAP_KIB_DEFAULT * 1024);
    assert_false(kit->result.output_cut);
}

static void test_in_an_app_with_a_comma(void **state)
{
    struct vm_kit *kit = *state;
    test_locale_with_a_comma();
    kit_run_source(kit, "import walle\n"
                        "print(2.5, '%.2f' % 0.25, float('1.5'))\n"
                        "walle.result({'a': [0.1, 2.5, 1e300, -3.0]})\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "2.5 0.25 1.5\n");
    kit_text_is(kit->result.result, "{\"a\":[0.1,2.5,1e+300,-3.0]}");
    assert_non_null(setlocale(LC_NUMERIC, "C"));
}

#ifndef KIT_APART // the runner is another program: its constants lie elsewhere
// Two VMs whose heaps lie apart: what follows from where an object lies is the same in both. (Where
// the program's own constants lie differs between programs, not between processes of one.)
static void test_no_script_sees_an_address(void **state)
{
    static const char source[] =
        "class A:\n    pass\nclass B:\n    pass\n"
        "def f():\n    yield 1\n"
        "x, a = [1], A()\n"
        "print([id(x), id(a), id(f), hash(a), hash(f), hash(a.__init__)\n"
        "       if hasattr(a, '__init__') else 0])\n"
        "print(a, f, f(), lambda: 1, object(), hash({}.values()), hash(frozenset()))\n"
        "print({A, B, a, f, x.append}, {A: 1, B: 2, a: 3}.keys())\n"
        "assert id(x) != id(a) and id(A) != id(B) and hash(a) != hash(A())\n"
        "assert hash(()) == 0x2a5d31b7 and hash((1, (2,))) == 2 * hash(()) + 3\n"
        "assert 0 < id(x) < 64 << 20\n";
    struct vm_kit *kit = *state;
    static struct vm_kit other;
    kit_init(&other, 0);
    kit_run_source(kit, source);
    kit_ended(kit, DEV_VM_FINISHED);
    kit_run_source(&other, source);
    kit_ended(&other, DEV_VM_FINISHED);
    assert_int_equal(kit->result.output.size, other.result.output.size);
    assert_memory_equal(kit->result.output.data, other.result.output.data, kit->result.output.size);
    kit_done(&other);
}
#endif

static void test_exception(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "def inner(x):\n"
                        "    return 1 // x\n"
                        "\n"
                        "def outer():\n"
                        "    inner(0)\n"
                        "outer()\n");
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_string_equal(kit->result.type, "ZeroDivisionError");
    assert_string_equal(kit->result.message, "divide by zero");
    assert_string_equal(kit->result.file, "main.py");
    assert_int_equal(kit->result.line, 2);
    kit_text_is(kit->result.output, "");
}

static void test_exception_of_the_script(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "class Odd(ValueError):\n"
                        "    def __str__(self):\n"
                        "        return 'odd ' + str(self.args[0])\n"
                        "raise Odd(7)\n");
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_string_equal(kit->result.type, "Odd");
    assert_int_equal(kit->result.line, 4);
}

static void test_exception_that_cannot_be_shown(void **state)
{
    struct vm_kit *kit = *state;
    kit->job.instruction_max = 100000;
    kit_run_source(kit, "class Endless:\n"
                        "    def __repr__(self):\n"
                        "        while True: pass\n"
                        "class Broken:\n"
                        "    def __repr__(self):\n"
                        "        raise OSError(5)\n"
                        "import walle\n"
                        "raise ValueError(Endless() if walle.input else Broken(), 1)\n");
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_string_equal(kit->result.type, "ValueError");
    kit->job.input = BASE_STR("1");
    kit_run(kit);
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_string_equal(kit->result.type, "ValueError");
    assert_int_equal(kit->result.line, 8);
}

static void test_long_message_is_cut_at_a_character(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "raise ValueError('x' + '\\u00e4' * 200)\n");
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_int_equal(strlen(kit->result.message), DEV_VM_MESSAGE_MAX - 1);
    kit_run_source(kit, "raise ValueError('\\u00e4' * 200)\n");
    assert_int_equal(strlen(kit->result.message), DEV_VM_MESSAGE_MAX - 2);
}

static void test_system_exit_is_an_end(void **state)
{
    struct vm_kit *kit = *state;
    static const char *const clean[] = {"sys.exit()", "sys.exit(0)", "sys.exit(None)",
                                        "raise SystemExit", "sys.exit(False)"};
    static const struct {
        const char *exit;
        const char *message;
    } failed[] = {{"sys.exit(3)", "3"},
                  {"sys.exit('no price')", "no price"},
                  {"raise SystemExit(-1)", "-1"},
                  {"sys.exit(1 << 70)", "1180591620717411303424"}};
    char source[128];
    for (size_t i = 0; i < sizeof(clean) / sizeof(clean[0]); i++) {
        snprintf(source, sizeof(source), "import sys\nprint('a')\n%s\nprint('b')\n", clean[i]);
        kit_run_source(kit, source);
        kit_ended(kit, DEV_VM_FINISHED);
        kit_text_is(kit->result.output, "a\n");
    }
    for (size_t i = 0; i < sizeof(failed) / sizeof(failed[0]); i++) {
        snprintf(source, sizeof(source), "import sys\n\n%s\n", failed[i].exit);
        kit_run_source(kit, source);
        kit_ended(kit, DEV_VM_EXCEPTION);
        assert_string_equal(kit->result.type, "SystemExit");
        assert_int_equal(kit->result.line, 3);
        assert_string_equal(kit->result.message, failed[i].message);
    }
    kit_run_source(kit, "class E(SystemExit):\n    def __init__(self): raise self\nE()\n");
    kit_ended(kit, DEV_VM_FINISHED);
}

// What stands for the native object before it is made is none; a small integer is one like others.
static void test_native_bases(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit,
                   "import math\n"
                   "class N(int): pass\n"
                   "class L(list):\n    def __init__(self): print(len([x for x in self]))\n"
                   "class E(ValueError):\n    def __init__(self): raise self\n"
                   "import io, json\nclass S(io.BytesIO): pass\nclass T(io.StringIO): pass\n"
                   "for use in (lambda: json.load(S(b'[1]')), lambda: json.dump([1, 2], T())):\n"
                   "    try: use()\n    except Exception as e: print(type(e).__name__)\n"
                   "print(S(b'[1]').read())\n"
                   "print(float(N(9)), math.sqrt(N(9)), ~N(9), round(N(9)))\n"
                   "for use in (lambda: len(N(9)), L, E):\n"
                   "    try: use()\n"
                   "    except Exception as e: print(type(e).__name__)\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output,
                "OSError\nOSError\nb'[1]'\n9.0 3.0 -10 9\nTypeError\nAttributeError\nE\n");
}

static void test_endless_loops(void **state)
{
    static const char *const sources[] = {
        "while True: pass\n",
        "while True:\n    try:\n        while True: pass\n    except: pass\n",
        "while True:\n    try:\n        while True: pass\n    finally:\n        while True: pass\n",
        "def f():\n    while True:\n        try:\n            yield 1\n        except: pass\n"
        "for x in f(): pass\n",
        "class A:\n    def __del__(self): pass\n"
        "    def __exit__(self, *a): return True\n    def __enter__(self): pass\n"
        "while True:\n    with A():\n        while True: pass\n",
        "def g():\n    while True: yield 1\nsum(g())\n",
        "max(map(lambda x: x, range(10 ** 18)))\n",
        "sum(range(10 ** 18))\n",
        "10 ** 10 in iter(range(10 ** 18))\n",
        "import re\nre.match('(a|aa)+b', 'a' * 45)\n",
        "all(range(1, 10 ** 18))\n",
        "x = 3\nwhile True: x = x * x % (7 ** 3000)\n",
        "n = 300000\nx = 1 << n\nwhile True: x // 12345678901234567890123\n",
        "n = 200000\nx = 1 << n\nwhile True: str(x)\n",
        "x = '9' * 50000\nwhile True: int(x)\n",
        "x = list(range(2000))\nwhile True: x.sort(key=lambda y: -y); x.sort()\n",
        "import math\nwhile True: math.factorial(2000)\n",
    };
    struct vm_kit *kit = *state;
    kit->job.time_ms = 50;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        print_message("%s\n", sources[i]);
        kit_run_source(kit, sources[i]);
        kit_ended(kit, DEV_VM_BUDGET);
        assert_string_equal(kit->result.type, "BudgetError");
        assert_string_equal(kit->result.message, "time budget of 50 ms used up");
    }
}

static void test_instruction_budget(void **state)
{
    struct vm_kit *kit = *state;
    kit->job.instruction_max = 5000;
    kit_run_source(kit, "import walle\nx = 0\n"
                        "while True:\n"
                        "    x += 1\n"
                        "    walle.result(x)\n");
    kit_ended(kit, DEV_VM_BUDGET);
    assert_string_equal(kit->result.message, "instruction budget of 5000 used up");
    assert_string_equal(kit->result.file, "main.py");
    assert_in_range(kit->result.line, 3, 5);
    assert_in_range(kit->result.instructions, 5000, 5064);
    struct base_str first = kit->result.result;
    char kept[32];
    assert_in_range(first.size, 1, sizeof(kept));
    memcpy(kept, first.data, first.size);
    kit_run(kit); // the same again: units are counted, not time
    kit_ended(kit, DEV_VM_BUDGET);
    assert_memory_equal(kept, kit->result.result.data, kit->result.result.size);
    kit->job.instruction_max = 7;
    kit_run_source(kit, "for x in range(3): pass\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_run_source(kit, "for x in range(30): pass\n");
    kit_ended(kit, DEV_VM_BUDGET);
}

// What the interpreter does by a shorter way than MicroPython's own is the same (patch_speed.py).
// What a collection costs depends on what lies on the C stack: here is none.
static void test_short_ways(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, ROOMY_KIB);
    kit_run_source(
        &kit,
        "top = (1 << 62) - 1\nlow = -(1 << 62)\n"
        "def ops(a, b):\n"
        "    return [a + b, a - b, a & b, a < b, a > b, a <= b, a >= b, a == b, a != b, a is b]\n"
        "assert ops(3, 5) == [8, -2, 1, True, False, True, False, False, True, False]\n"
        "assert ops(-3, -3) == [-6, 0, -3, False, False, True, True, True, False, True]\n"
        "assert str(top + 1) == '4611686018427387904' and str(low - 1) == '-4611686018427387905'\n"
        "assert top + low == -1 and low - low == 0 and top & low == 0\n"
        "x = top\nx += 1\nx -= 1\nassert x == top\n"
        "assert ('a' == 'a', 'a' == 'b', 'a' != 'b', 'a' == 1) == (True, False, True, False)\n"
        "assert 'ab' == 'a' + chr(98) and not 'ac' == 'a' + chr(98)\n"
        "class Key:\n"
        "    def __init__(self, n): self.n = n\n"
        "    def __hash__(self): return self.n % 3\n"
        "    def __eq__(self, other): return isinstance(other, Key) and other.n == self.n\n"
        "for make in (lambda n: 'k%d' % n, lambda n: n, lambda n: (n, str(n)), Key):\n"
        "    d = {}\n"
        "    for n in range(300): d[make(n)] = n\n"
        "    for n in range(0, 300, 3): del d[make(n)]\n"
        "    for n in range(0, 300, 6): d[make(n)] = -n\n"
        "    for n in range(300):\n"
        "        want = -n if n % 6 == 0 else None if n % 3 == 0 else n\n"
        "        assert d.get(make(n)) == want\n"
        "    assert len(d) == 250\n"
        "names = {}\n"
        "for name in dir(str) + dir(list) + dir(dict):\n"
        "    names[name] = names.get(name, 0) + 1\n"
        "assert names['count'] == 2 and names['pop'] == 2 and 'nothing' not in names\n"
        "names['pop2'] = 1\ndel names['pop']\nnames['again'] = names['count']\n"
        "try: names['pop']\nexcept KeyError as e: assert e.args == ('pop',)\n"
        "class Own(dict): pass\n"
        "own = Own()\nown['a'] = 1\nassert own['a'] == 1\ndel own['a']\nassert len(own) == 0\n"
        "from collections import OrderedDict\n"
        "o = OrderedDict()\nfor c in 'zyx': o[c] = c\nassert list(o) == ['z', 'y', 'x'] and o['y'] "
        "== 'y'\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    assert_true(kit.result.heap_peak_bytes < ROOMY_KIB * 1024 / 2);
    kit_done(&kit);
}

// Small numbers changed in place, in a loop, over both ends of what is small.
static void test_short_ways_in_place(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, ROOMY_KIB);
    kit_run_source(&kit, "def down(x, n):\n    for _ in range(n): x -= 1\n    return x\n"
                         "def up(x, n):\n    for _ in range(n): x += 1\n    return x\n"
                         "def low_bit(x, n):\n    t = 0\n    for _ in range(n):\n        y = x\n"
                         "        y &= 1\n        t += y\n        x -= 1\n    return t\n"
                         "assert down(100, 250) == -150 and up(-100, 250) == 150\n"
                         "assert low_bit(10, 20) == 10 and low_bit(-1, 3) == 2\n"
                         "top = (1 << 62) - 1\n"
                         "assert str(up(top - 3, 7)) == '4611686018427387907'\n"
                         "assert str(down(-top + 2, 7)) == '-4611686018427387908'\n"
                         "assert down(up(top, 5), 5) == top and low_bit(top, 2) == 1\n"
                         "x = -6\nx &= 11\nassert x == 10 and -6 & -4 == -8\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_done(&kit);
}

// What a statement costs in each turn of a loop, with what `a` and `b` are.
static uint64_t units_of(struct vm_kit *kit, const char *a, const char *b, const char *statement)
{
    uint64_t units[2];
    for (unsigned i = 0; i < 2; i++) {
        char source[512];
        (void)snprintf(source, sizeof(source),
                       "def f(a, b):\n    for _ in range(%u):\n        %s\nf(%s, %s)\n",
                       100 + 200 * i, statement, a, b);
        kit_run_source(kit, source);
        kit_ended(kit, DEV_VM_FINISHED);
        units[i] = kit->result.instructions;
    }
    assert_int_equal((units[1] - units[0]) % 200, 0);
    return (units[1] - units[0]) / 200;
}

// A short way counts what the long one does, which the other operands go.
static void test_short_ways_cost_the_same(void **state)
{
    static const struct {
        const char *statement;
        const char *short_a, *short_b;
        const char *long_a, *long_b;
    } rows[] = {
        {"a == b", "3", "3", "3", "3.0"},
        {"a == b", "3", "4", "3.0", "4.0"},
        {"a == b", "3", "3", "1 << 70", "1 << 70"},
        {"a == b", "'a'", "'a'", "'ab'", "'a' + chr(98)"},
        {"a == b", "'a'", "'b'", "'ab'", "'a' + chr(99)"},
        {"a == b", "'a'", "'b'", "'a'", "1"},
        {"a < b", "3", "4", "3", "4.0"},
        {"a >= b", "3", "4", "3", "4.0"},
        {"a + b", "3", "4", "3", "4.0"},
        {"a - b", "3", "4", "3", "4.0"},
        {"a & b", "3", "4", "3", "1 << 70"},
        {"a -= b", "3", "4", "3", "4.0"},
        {"a is b", "3", "4", "3.0", "()"},
        {"a[b]", "{'k': 1}", "'k'", "{8: 1}", "8"},
        {"a[b]", "{'k' * 90: 1}", "'k' * 90", "{b'k' * 90: 1}", "b'k' * 90"},
        {"a[b] = 1", "{'k' * 90: 1}", "'k' * 90", "{b'k' * 90: 1}", "b'k' * 90"},
    };
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, ROOMY_KIB);
    uint64_t nothing = units_of(&kit, "0", "0", "pass");
    assert_int_equal(units_of(&kit, "3", "3", "a == b"), nothing + 1);
    assert_int_equal(units_of(&kit, "'a'", "'b'", "a == b"), nothing + 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t shorter = units_of(&kit, rows[i].short_a, rows[i].short_b, rows[i].statement);
        uint64_t longer = units_of(&kit, rows[i].long_a, rows[i].long_b, rows[i].statement);
        if (shorter != longer) {
            fail_msg("%s of %s and %s: %u units, of %s and %s: %u", rows[i].statement,
                     rows[i].short_a, rows[i].short_b, (unsigned)shorter, rows[i].long_a,
                     rows[i].long_b, (unsigned)longer);
        }
    }
    kit_done(&kit);
}

// Tables of names are in the order of tables of the same texts that are no names.
static void test_short_ways_keep_the_order(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, ROOMY_KIB);
    kit_add(&kit, "late",
            "names = ['no0', 'no1', 'no2', 'no3', 'no4', 'no5', 'no6', 'no7', 'no8',\n"
            "  'no9', 'no10', 'no11', 'no12', 'no13', 'no14', 'no15', 'no16', 'no17']\n");
    kit_add(
        &kit, "main",
        "texts = ['no%d' % i for i in range(18)]\n"
        "from late import names\n" // and only now they are names
        "assert texts == names and not any(a is b for a, b in zip(names, texts))\n"
        "from collections import OrderedDict\n"
        "for kind in (dict, OrderedDict):\n"
        "    short, long, state, order = kind(), kind(), 1, []\n"
        "    for step in range(900):\n"
        "        state = (state * 1103515245 + 12345) & 0x7fffffff\n"
        "        at = (state >> 8) % len(names)\n"
        "        name = names[at]\n"
        "        assert (name in short) == (name in order)\n"
        "        if name in order and (state >> 20) % 3 != 0:\n"
        "            del short[name], long[texts[at]]\n"
        "            order.remove(name)\n"
        "        else:\n"
        "            short[name] = long[texts[at]] = step\n"
        "            if name not in order: order.append(name)\n"
        "            assert short[name] == step\n"
        "        assert list(short.items()) == list(long.items()) and len(short) == len(order)\n"
        "        assert kind is dict or list(short) == order\n");
    kit_run(&kit);
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_done(&kit);
}

// A key that changes the table which asks it for its hash, to grow, loses nothing of it.
static void test_short_ways_grow(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, ROOMY_KIB);
    kit_run_source(
        &kit,
        "class Key:\n"
        "    armed = False\n"
        "    asked = 0\n"
        "    def __init__(self, n): self.n = n\n"
        "    def __eq__(self, other): return isinstance(other, Key) and other.n == self.n\n"
        "    def __hash__(self):\n"
        "        Key.asked += 1\n"
        "        if Key.armed:\n"
        "            Key.armed = False\n"
        "            for i in range(40): d['late%d' % i] = i\n"
        "        return self.n\n"
        "names = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten',\n"
        "         'red', 'green', 'blue', 'north', 'east', 'south', 'west', 'spring', 'summer']\n"
        "for n in range(40):\n"
        "    for change in (False, True):\n"
        "        d = {}\n"
        "        for name in names[:5]: d[name] = name\n"
        "        keys = [Key(n), Key(n + 7)]\n"
        "        for key in keys: d[key] = key.n\n"
        "        Key.asked = 0\n"
        "        Key.armed = change\n"
        "        for name in names[5:]: d[name] = name\n"
        "        assert Key.asked >= 2\n"
        "        Key.armed = False\n"
        "        for name in names: assert d[name] == name, (n, change, name)\n"
        "        for key in keys: assert d[Key(key.n)] == key.n, (n, change)\n"
        "        want = len(names) + 2 + (40 if change else 0)\n"
        "        assert len(d) == want and len(list(d)) == want, (n, change, len(d))\n"
        "        if change: assert all(d['late%d' % i] == i for i in range(40))\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_done(&kit);
}

// Nor does what is counted tell where the heap lies: tables remember where they found what, by
// addresses.
static void test_count_is_no_address(void **state)
{
    static const char source[] = "class Key:\n    def __init__(self, n): self.n = n\n"
                                 "    def __hash__(self): return self.n % 3\n"
                                 "    def __eq__(self, other): return other.n == self.n\n"
                                 "d, keys = {}, [Key(n) for n in range(40)]\n"
                                 "for n in range(9):\n    for key in keys: d[key] = n\n";
    struct vm_kit kits[12];
    (void)state;
    for (size_t i = 0; i < sizeof(kits) / sizeof(kits[0]); i++) {
        kit_init(&kits[i], 24); // so small that none has pages of its own
        kit_run_source(&kits[i], source);
        kit_ended(&kits[i], DEV_VM_FINISHED);
        assert_int_equal(kits[i].result.instructions, kits[0].result.instructions);
    }
    for (size_t i = 0; i < sizeof(kits) / sizeof(kits[0]); i++) {
        kit_done(&kits[i]);
    }
}

#ifndef KIT_APART // a collection finds what it finds on the C stack
// A collection that is due after so many bytes comes with the smallest objects, too.
static void test_threshold(void **state)
{
    static const char loop[] = "x = 0.5\nfor i in range(20000): x += 1.5\nassert x == 30000.5\n";
    char source[256];
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 256);
    kit_run_source(&kit, loop);
    kit_ended(&kit, DEV_VM_FINISHED);
    assert_true(kit.result.heap_peak_bytes > 200 * 1024);
    (void)snprintf(source, sizeof(source), "import gc\ngc.threshold(8192)\n%s", loop);
    kit_run_source(&kit, source);
    kit_ended(&kit, DEV_VM_FINISHED);
    assert_in_range(kit.result.heap_peak_bytes, 8192, 64 * 1024);
    kit_done(&kit);
}
#endif

static void test_memory(void **state)
{
    static const char *const sources[] = {
        "x = bytearray(1 << 30)\n",
        "x = 'a' * (1 << 30)\n",
        "x = []\nwhile True: x.append('%d' % len(x))\n",
        "x = 1\nwhile True: x <<= 1000\n",
        "x = {}\nfor i in range(10 ** 9): x[i] = i\n",
        "x = list(range(10 ** 12))\n",
    };
    struct vm_kit *kit = *state;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        kit_run_source(kit, sources[i]);
        kit_ended(kit, DEV_VM_MEMORY);
        assert_string_equal(kit->result.type, "MemoryError");
        assert_string_equal(kit->result.file, "main.py");
        assert_in_range(kit->result.line, 1, 2);
    }
    // A script may catch it and go on with less.
    kit_run_source(kit, "try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    print('less')\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "less\n");
}

static void test_stack(void **state)
{
    static const char *const sources[] = {
        "def f(n):\n    return f(n + 1) if n < 100000 else 0\nf(0)\n",
        "x = ()\nfor i in range(3000): x = (x,)\nhash(x)\n",
        "x = []\ny = []\nfor i in range(2000):\n    x = [x]\n    y = [y]\nx == y\n",
        "x = []\nx.append(x)\nrepr(x)\n",
        "x = iter([1])\nfor i in range(3000): x = zip(x)\nnext(x)\n",
        "def g(n):\n    yield from g(n + 1)\nnext(g(0))\n",
        "import walle\nx = []\nfor i in range(3000): x = [x]\nwalle.result(x)\n",
        "import re\nre.compile('(' * 20000)\n",
        "x = lambda: 1\nfor i in range(3000): x = map(max, x) if i else iter([1])\nmax(x)\n",
        "class A:\n    def __eq__(self, other): return self == other\nA() == A()\n",
        "class A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\nA().a\n",
    };
    struct vm_kit *kit = *state;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        print_message("%s\n", sources[i]);
        kit_run_source(kit, sources[i]);
        kit_ended(kit, DEV_VM_STACK);
        assert_string_equal(kit->result.type, "RuntimeError");
    }
    kit_run_source(kit, "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\nprint(f(56))\n");
    kit_ended(kit, DEV_VM_FINISHED);
}

static void test_load(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "print(1)\n");
    kit->job.entry = BASE_STR("other");
    kit_run(kit);
    kit_ended(kit, DEV_VM_LOAD);
    assert_string_equal(kit->result.file, "other");
    kit->job.entry = BASE_STR("main");
    uint8_t *bytes = kit->owned[0];
    static const struct {
        size_t at;
        uint8_t value;
        const char *message;
    } damages[] = {
        {0, 'X', "not bytecode"},
        {1, 5, "bytecode of another version"},
        {2, 2 << 2, "native code in bytecode"},
        {3, 127, "bytecode for a machine with longer words"},
    };
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        uint8_t kept = bytes[damages[i].at];
        bytes[damages[i].at] = damages[i].value;
        kit_run(kit);
        kit_ended(kit, DEV_VM_LOAD);
        assert_string_equal(kit->result.message, damages[i].message);
        bytes[damages[i].at] = kept;
    }
    size_t size = kit->modules[0].size;
    for (size_t cut = 0; cut < size; cut++) {
        kit->modules[0].size = cut;
        kit_run(kit);
        kit_ended(kit, DEV_VM_LOAD);
    }
    kit->modules[0].size = size;
    kit_run(kit);
    kit_ended(kit, DEV_VM_FINISHED);
}

static void test_import(void **state)
{
    struct vm_kit *kit = *state;
    kit_add(kit, "main",
            "import features\nfrom pkg.scores import score\nimport pkg\n"
            "from features import VIEWS as v\n"
            "print(features.count([1, 2]), score(3), pkg.NAME, v, __name__, features.__name__)\n");
    kit_add(kit, "features", "VIEWS = 5\ndef count(x):\n    return len(x)\n");
    kit_add(kit, "pkg/__init__", "NAME = 'pkg'\n");
    kit_add(kit, "pkg/scores", "from . import base\ndef score(x):\n    return x * base.FACTOR\n");
    kit_add(kit, "pkg/base", "FACTOR = 7\n");
    kit_run(kit);
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "2 21 pkg 5 __main__ features\n");
}

static void test_import_fails(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "\nimport nothing\n");
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_string_equal(kit->result.type, "ImportError");
    assert_string_equal(kit->result.message, "no module named 'nothing'");
    assert_int_equal(kit->result.line, 2);

    kit_modules_drop(kit);
    kit_add(kit, "main",
            "try:\n    import bad\nexcept Exception:\n    pass\nprint('still here')\n");
    kit_add(kit, "bad", "x = 1\n");
    kit->modules[1].size -= 3;
    kit_run(kit);
    kit_ended(kit, DEV_VM_LOAD); // a damaged module ends the run, whatever the script catches
    assert_string_equal(kit->result.file, "bad");
    kit_text_is(kit->result.output, "");

    kit_modules_drop(kit);
    kit_add(kit, "main", "import broken\n");
    kit_add(kit, "broken", "x = 1\n\nraise ValueError('at import')\n");
    kit_run(kit);
    kit_ended(kit, DEV_VM_EXCEPTION);
    assert_string_equal(kit->result.file, "broken.py");
    assert_int_equal(kit->result.line, 3);
}

static void test_nothing_to_reach(void **state)
{
    static const char *const names[] = {"open",     "eval",  "exec", "compile",
                                        "execfile", "input", "help"};
    static const char *const modules[] = {"os",      "socket",      "_thread", "time",
                                          "machine", "micropython", "uctypes", "select",
                                          "asyncio", "__main__x",   "vfs",     "random"};
    struct vm_kit *kit = *state;
    char source[128];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(source, sizeof(source), "import builtins\nprint(hasattr(builtins, '%s'))\n",
                       names[i]);
        kit_run_source(kit, source);
        kit_text_is(kit->result.output, "False\n");
    }
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
        (void)snprintf(source, sizeof(source), "import %s\n", modules[i]);
        kit_run_source(kit, source);
        kit_ended(kit, DEV_VM_EXCEPTION);
        assert_string_equal(kit->result.type, "ImportError");
    }
    kit_run_source(kit, "import io\nprint(hasattr(io, 'open'), hasattr(io, 'FileIO'))\n");
    kit_text_is(kit->result.output, "False False\n");
}

static void test_library(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(
        kit, "import json, math, struct, collections, array, re, binascii, heapq, gc, sys, io\n"
             "print(json.dumps(json.loads('{\"a\": [1, 2.5, \"x\"]}')))\n"
             "print(math.floor(math.pi * 100), 2 ** 100, 0.1 + 0.2)\n"
             "print(struct.unpack('<HI', struct.pack('<HI', 7, 9)))\n"
             "d = collections.OrderedDict(); d['z'] = 1; d['a'] = 2; print(list(d))\n"
             "print(sum(array.array('d', [1.5, 2.5])), re.match('a(b+)', 'abbc').group(1))\n"
             "print(f'{3:04d}', 'x{:>5}'.format('y'), sorted([3, 1, 2], reverse=True))\n"
             "gc.collect(); print(sys.maxsize == 2 ** 63 - 1)\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "{\"a\": [1, 2.5, \"x\"]}\n"
                                    "314 1267650600228229401496703205376 0.3\n"
                                    "(7, 9)\n"
                                    "['z', 'a']\n"
                                    "4.0 bb\n"
                                    "0003 x    y [3, 2, 1]\n"
                                    "True\n");
}

static void test_collector_keeps_what_is_used(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "import walle\n"
                        "walle.config['a'].append(5)\n"
                        "keep = [str(i) * 3 for i in range(200)]\n"
                        "for i in range(20000):\n"
                        "    x = [str(i), {'k': i}]\n"
                        "print(keep[7], len(keep), walle.config)\n");
    kit_ended(kit, DEV_VM_EXCEPTION); // no config given
    assert_string_equal(kit->result.type, "KeyError");
    kit->job.config = BASE_STR("{\"a\": [1]}");
    kit_run(kit);
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "777 200 {'a': [1, 5]}\n");
}

static void test_runs_leave_nothing_behind(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "import builtins, json\nsecret = 'secret'\nbuiltins.secret = 1\n"
                        "import walle\nwalle.result(1)\nprint('x')\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_run_source(kit,
                   "import builtins\nprint('secret' in globals(), hasattr(builtins, 'secret'))\n");
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "False False\n");
    kit_text_is(kit->result.result, "");
}

static void test_many_runs(void **state)
{
    struct vm_kit *kit = *state;
    kit_run_source(kit, "import walle\nx = [str(i) for i in range(50)]\nwalle.result(len(x))\n");
    uint32_t peak = kit->result.heap_peak_bytes;
    uint64_t units = kit->result.instructions;
    for (int i = 0; i < 10000; i++) {
        kit_run(kit);
        kit_ended(kit, DEV_VM_FINISHED);
        assert_int_equal(kit->result.heap_peak_bytes, peak);
        assert_int_equal(kit->result.instructions, units);
    }
}

static void test_bad_jobs(void **state)
{
    struct vm_kit *kit = *state;
    struct dev_vm *vm = NULL;
    assert_int_equal(dev_vm_new(DEV_VM_HEAP_KIB_MAX + 1, &vm), BASE_ERR_TOO_LARGE);
    assert_null(vm);
    kit_run_source(kit, "pass\n");
    struct dev_vm_job good = kit->job;
    kit->job.entry = (struct base_str){NULL, 0};
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_ERR_INVALID);
    kit->job = good;
    kit->modules[0].mpy = NULL;
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_ERR_INVALID);
    kit->modules[0].mpy = kit->owned[0];
    kit->job.module_count = DEV_VM_MODULES_MAX + 1;
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_ERR_INVALID);
    kit->job = good;
    kit_run(kit);
    kit_ended(kit, DEV_VM_FINISHED);
    dev_vm_free(NULL);
}

static void test_smallest_heap(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 1);
    kit_run_source(&kit, "print('fits')\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_run_source(&kit, "x = [0] * 10000\n");
    kit_ended(&kit, DEV_VM_MEMORY);
    kit_done(&kit);
}

#define VM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        VM_TEST(test_finished),
        VM_TEST(test_in_an_app_with_a_comma),
#ifndef KIT_APART
        VM_TEST(test_no_script_sees_an_address),
#endif
        VM_TEST(test_exception),
        VM_TEST(test_exception_of_the_script),
        VM_TEST(test_exception_that_cannot_be_shown),
        VM_TEST(test_long_message_is_cut_at_a_character),
        VM_TEST(test_system_exit_is_an_end),
        VM_TEST(test_native_bases),
        VM_TEST(test_endless_loops),
        VM_TEST(test_instruction_budget),
        VM_TEST(test_short_ways),
        cmocka_unit_test(test_short_ways_in_place),
        cmocka_unit_test(test_short_ways_cost_the_same),
        cmocka_unit_test(test_short_ways_keep_the_order),
        cmocka_unit_test(test_short_ways_grow),
        cmocka_unit_test(test_count_is_no_address),
#ifndef KIT_APART
        cmocka_unit_test(test_threshold),
#endif
        VM_TEST(test_memory),
        VM_TEST(test_stack),
        VM_TEST(test_load),
        VM_TEST(test_import),
        VM_TEST(test_import_fails),
        VM_TEST(test_nothing_to_reach),
        VM_TEST(test_library),
        VM_TEST(test_collector_keeps_what_is_used),
        VM_TEST(test_runs_leave_nothing_behind),
        VM_TEST(test_many_runs),
        VM_TEST(test_bad_jobs),
        cmocka_unit_test(test_smallest_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
