// Every loop that MicroPython runs in C and whose length a script chooses counts budget units: with
// a small instruction limit each of these scripts ends by its budget. Nothing is timed: a row whose
// loop counts nothing does not come back, and the test's own limit ends it.
#include "vm_kit.h"

#define UNITS     20000
#define UNITS_MAX (200 * 1000 * 1000) // what one last step of bytes may add

static const char *const counted[] = {
    // struct
    "import struct\nwhile True:\n    try: struct.calcsize('4611686018427387905q')\n"
    "    except OverflowError: pass\n",
    "import struct\nx = bytes(100000)\nwhile True: struct.unpack('100000b', x)\n",
    // repeats of nothing
    "while True: [] * ((1 << 62) - 1)\n",
    "while True: '' * ((1 << 62) - 1)\n",
    // sort: of what is sorted, of equals, of what compares badly
    "x = list(range(100000))\nx.sort()\nx.sort()\n",
    "x = [0] * 100000\nx.sort()\nx.sort()\n",
    "class E:\n    def __lt__(s, o): return True\n[E() for i in range(900)].sort()\n"
    "x = [E() for i in range(900)]\nwhile True: x.sort()\n",
    "x = [1.5] * 100000\nx.sort(reverse=True)\n",
    // heaps
    "import heapq\nx = list(range(100000, 0, -1))\nheapq.heapify(x)\nwhile x: heapq.heappop(x)\n",
    "import heapq\nx = [0] * 1000000\nheapq.heapify(x)\n",
    // regular expressions
    "import re\nre.match('(a|aa)+b', 'a' * 45)\n",
    "import re\nre.match('a?' * 30 + 'a' * 30, 'a' * 29)\n",
    "import re\nwhile True: re.search('b', 'a' * 400)\n",
    "import re\nre.sub('a', 'b', 'a' * 100000)\n",
    // long integers
    "x = 7 ** 20000\nx * x * x * x\n",
    "x = (K << 400000) - 1\nx // ((K << 200000) - 1)\n",
    "x = (K << 400000) - 1\nx % ((K << 200000) - 1)\n",
    "x = 7 ** 900\nwhile True: pow(x, x, x + 2)\n",
    "pow(1, K << 4000000)\n",
    "1 ** (K << 4000000)\n",
    "str(K << 200000)\n",
    "'%d' % (K << 200000)\n",
    "hex(K << 400000)\n",
    "int('9' * 40000)\n",
    "int('f' * 40000, 16)\n",
    "x = K << 4000000\nwhile True: x = x >> 1 << 1\n",
    "x = K << 4000000\nwhile True: x = -x ^ x & ~x | x\n",
    "x = K << 4000000\nwhile True: float(x) if 0 else hash(x)\n",
    "x = K << 4000000\nwhile True: x.to_bytes(600000, 'little')\n",
    "x = bytes(500000)\nwhile True: int.from_bytes(x, 'big')\n",
    "import math\nmath.factorial(20000)\n",
    // JSON
    "import json\nx = '[' + '1,' * 100000 + '1]'\njson.loads(x)\n",
    "import json\nx = '\"' + 'x' * 400000 + '\"'\njson.loads(x)\n",
    "import json\nx = ' ' * 400000 + '1'\njson.loads(x)\n",
    "import json\nx = [0] * 50000\njson.dumps(x)\n",
    "import json\nx = '1' * 40000\njson.loads(x)\n",
    "import json\nx = '\\x01' * 400000\nwhile True: json.dumps(x)\n",
    // text
    "x = 'a' * 400000\nx.find('a' * 200000 + 'b')\n",
    "x = 'a' * 400000\nx.count('a' * 200000 + 'b')\n",
    "x = 'a' * 400000\nx.split('a' * 200000 + 'b')\n",
    "x = 'a' * 400000\nx.rsplit('a' * 200000 + 'b', 1)\n",
    "x = 'a' * 400000\nx.replace('a' * 200000 + 'b', '')\n",
    "x = 'a' * 400000\n('a' * 200000 + 'b') in x\n",
    "x = 'a' * 400000\nx.partition('a' * 200000 + 'b')\n",
    "x = 'a' * 1000000\nx.count('b')\n",
    "x = 'a' * 1000000\nx.count('a')\n",
    "x = 'a' * 400000\nx.replace('a', 'b')\n",
    "x = 'a b' * 400000\nx.split()\n",
    "x = ' ' * 400000\nx.strip()\n",
    "x = 'ab' * 400000\nx.strip('xyzwvutsrqponmlkjihgfedcab')\n",
    "x = 'ab' * 600000\nwhile True: x.upper()\n",
    "x = 'ab' * 600000\nwhile True: x.isalpha()\n",
    "x = '\\u00e4' * 600000\nx[-600000]\nx[599999]\nwhile True: x[300000]\n",
    "x = '\\u00e4' * 600000\nwhile True: len(x)\n",
    "x = '\\u00e4' * 600000\nwhile True: x.find('b')\n",
    "x = 'a' * 600000\nwhile True: hash(x + 'b')\n",
    "x = b'a' * 600000\nwhile True: hash(bytes(x))\n",
    "x = 'a' * 600000\nwhile True: x == x + ''\n",
    "x = 'a' * 600000\ny = 'a' * 600000\nwhile True: x < y\n",
    "x = 'a\\n' * 400000\nx.splitlines()\n",
    "x = [''] * 400000\nwhile True: ''.join(x)\n",
    "x = 'x' * 300000\nwhile True: x + x\n",
    "x = b'x' * 300000\nwhile True: repr(x)\n",
    "x = 'x' * 300000\nwhile True: repr(x)\n",
    "while True: '%300000d' % 1\n",
    "while True: '{:300000}'.format('')\n",
    "while True: 'x'.center(400000)\n",
    "x = 'x' * 300000\nwhile True: x.encode()\n",
    "x = b'x' * 300000\nwhile True: x.decode()\n",
    // lists, tuples, dicts, sets
    "x = list(range(100000))\ny = list(range(100000))\nwhile True: x == y\n",
    "x = list(range(100000))\nwhile True: x.index(99999)\n",
    "x = list(range(100000))\nwhile True: x.count(-1)\n",
    "x = list(range(100000))\nwhile True: -1 in x\n",
    "x = list(range(100000))\nwhile True: x.reverse()\n",
    "x = list(range(100000))\nwhile True: x.insert(0, x.pop())\n",
    "x = list(range(100000))\nwhile True: x.pop(0); x.append(1)\n",
    "x = list(range(100000))\nwhile True: x[:]\n",
    "x = list(range(100000))\nwhile True: x[::2]\n",
    "x = tuple(range(100000))\nwhile True: x + x\n",
    "x = tuple(range(100000))\nwhile True: hash(x)\n",
    "x = {}\nfor i in range(0, 100000 * 65536, 65536): x[i] = i\n",
    "n = 19997\nx = {i * n for i in range(n)}\nwhile True: x | {-1}\n",
    "x = {}\nfor i in range(50000): x[i] = i\nfor i in range(49999): del x[i]\n"
    "while True: next(iter(x))\n",
    "x = set(range(50000))\nfor i in range(49999): x.discard(i)\nwhile True: next(iter(x))\n",
    "class H:\n    def __hash__(s): return 7\nx = {}\nwhile True: x[H()] = 1\n",
    "from collections import OrderedDict\nx = OrderedDict()\n"
    "for i in range(100000): x[i] = i\n",
    "x = dict.fromkeys(range(40000))\ny = dict.fromkeys(range(40000))\nwhile True: x == y\n",
    "x = set(range(40000))\ny = set(range(40000))\nwhile True: x & y; x ^ y; x <= y\n",
    "x = dict.fromkeys(range(40000))\nwhile True: x.copy()\n",
    // iteration
    "sum(range(1 << 60))\n",
    "max(range(1 << 60))\n",
    "min(x for x in range(1 << 60))\n",
    "-1 in iter(range(1 << 60))\n",
    "all(range(1, 1 << 60))\n",
    "any(0 for i in range(1 << 60))\n",
    "list(filter(None, (0 for i in range(1 << 60))))\n",
    "for i in zip(range(1 << 60), map(abs, range(1 << 60))): pass\n",
    "from collections import deque\nd = deque((), 5)\nd.extend(range(1 << 60))\n",
    "from collections import deque\nd = deque([1], 5)\nd.extend(d)\n",
    "a, *b = range(1 << 60)\n",
    "def f(*a): pass\nf(*range(1 << 60))\n",
    "b''.join(bytes(1) for i in range(1 << 60))\n",
    "class D:\n    def keys(s): return ('k' for i in range(1 << 60))\n"
    "    def __getitem__(s, k): return 1\ndef f(**k): pass\nf(**D())\n",
    // bytes, arrays, buffers
    "from array import array\nx = array('q', range(40000))\nwhile True: x + x\n",
    "x = bytearray(400000)\nwhile True: x[1:] = x[:-1]\n",
    "x = memoryview(bytearray(400000))\nwhile True: x == x\n",
    "x = bytearray(400000)\nwhile True: b'x' in x\n",
    "x = bytearray(400000)\nwhile True: bytes(x)\n",
    "x = bytes(300000)\nwhile True: x.hex()\n",
    "import binascii\nx = bytes(300000)\nwhile True: binascii.b2a_base64(x)\n",
    "import binascii\nx = b'QUJD' * 50000\nwhile True: binascii.a2b_base64(x)\n",
    "import binascii\nx = b'41' * 100000\nwhile True: binascii.unhexlify(x)\n",
    "import io\nx = io.StringIO('a' * 300000)\nwhile True:\n    x.seek(0)\n    x.readline()\n",
    "import io\nx = io.BytesIO(bytes(300000))\nwhile True:\n    x.seek(0)\n    x.read()\n",
    "import io\nx = io.StringIO('\\u00e4' * 100000)\nwhile True:\n    x.seek(0)\n    "
    "x.read(90000)\n",
    // classes
    "class A: pass\nB = A\nfor i in range(40):\n"
    "    C = type('C', (B,), {})\n    D = type('D', (B,), {})\n    B = type('B', (C, D), {})\n"
    "isinstance(B(), int)\n",
    "def f(**k): pass\nd = {'k%d' % i: i for i in range(3000)}\nwhile True: f(**d)\n",
    "from collections import namedtuple\nN = namedtuple('N', ['f%d' % i for i in range(3000)])\n"
    "d = {'f%d' % i: i for i in range(3000)}\nwhile True: N(**d)\n",
    "globals().update({'k%d' % i: i for i in range(5000)})\nwhile True: dir()\n",
};

static void test_counted(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 16 * 1024);
    kit.job.instruction_max = UNITS;
    kit.job.time_ms = 600 * 1000;
    int failed = 0;
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
        char source[1024]; // K keeps the compiler from working out long integers itself
        (void)snprintf(source, sizeof(source), "K = 1\n%s", counted[i]);
        kit_run_source(&kit, source);
        bool good = kit.result.end == DEV_VM_BUDGET &&
                    strcmp(kit.result.message, "instruction budget of 20000 used up") == 0 &&
                    kit.result.instructions >= UNITS && kit.result.instructions < UNITS_MAX;
        if (!good) {
            print_message("%s: ended %s after %llu: %s\n", counted[i],
                          dev_vm_end_name(kit.result.end),
                          (unsigned long long)kit.result.instructions, kit.result.message);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
    kit_done(&kit);
}

// The allocator's and the collector's work is not counted, because it is not the same everywhere,
// but the clock is looked at.
static void test_looked_at(void **state)
{
    static const char *const quiet[] = {
        "import gc\nx = [(i,) for i in range(50000)]\nwhile True: gc.collect()\n",
        // A chain of wide nodes, each below the one before it: the collector's stack overflows at
        // every node, and each overflow was one more pass over the whole heap.
        "import gc\nn = None\nfor i in range(3000):\n    n = [[j] for j in range(70)] + [n]\n"
        "while True: gc.collect()\n",
        "x = [bytes(20) for i in range(100000)]\nx = x[::2]\nwhile True: bytes(200)\n",
        "while True:\n    try: bytearray(60000000)\n    except MemoryError: pass\n",
        "i = 0\nwhile True:\n    i += 1\n    getattr(0, 'name%d' % i, 0)\n",
    };
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 16 * 1024);
    kit.job.time_ms = 300;
    for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
        kit_run_source(&kit, quiet[i]);
        kit_ended(&kit, DEV_VM_BUDGET);
        assert_string_equal(kit.result.message, "time budget of 300 ms used up");
    }
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted),
        cmocka_unit_test(test_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
