// Sizes a script asks for: what does not fit is an exception the script can catch, never a smaller
// block than asked for. Each row is an expression; under the sanitizers a wrong size is a crash.
#include "vm_kit.h"

struct row {
    const char *before; // statements
    const char *expression;
    const char *ends; // the exception's type, or what str() of the value begins with
};

#define MEM   "MemoryError"
#define OVER  "OverflowError"
#define VALUE "ValueError"

static const struct row rows[] = {
    // Multiplications that wrapped to a small block.
    {"from collections import deque", "deque((), 1 << 61)", MEM},
    {"from collections import deque", "deque((), (1 << 61) - 1)", MEM},
    {"from collections import deque", "deque([1, 2], (1 << 62) - 1)", MEM},
    // A modulus without digits.
    {"", "pow(3, 5, 0)", VALUE},
    {"", "pow(3, 1 << 70, (1 << 70) - (1 << 70))", VALUE},
    {"", "pow(3, 5, 7)", "5"},
    {"", "[0] * ((1 << 61) + 1)", MEM},
    {"", "[0, 1] * (1 << 60)", MEM},
    {"", "[0] * ((1 << 62) - 1)", MEM},
    {"", "[] * ((1 << 62) - 1)", "[]"},
    {"", "(0,) * ((1 << 61) + 1)", MEM},
    {"", "(0, 1, 2, 3) * ((1 << 60) + 1)", MEM},
    {"", "() * ((1 << 62) - 1)", "()"},
    {"", "b'x' * ((1 << 62) - 1)", MEM},
    {"", "b'0123456789abcdef' * ((1 << 60) + 1)", MEM},
    {"", "'0123456789abcdef' * ((1 << 60) + 1)", MEM},
    {"", "'ab' * ((1 << 62) - 1)", MEM},
    {"", "'' * ((1 << 62) - 1)", ""},
    {"", "bytearray(b'0123456789abcdef') * ((1 << 60) + 1)", "TypeError"},
    {"", "bytearray((1 << 62) - 1)", MEM},
    {"", "bytes((1 << 62) - 1)", MEM},
    {"", "bytearray(-1)", MEM},
    {"", "bytes(-1)", VALUE},
    {"from array import array", "array('q', [1, 2]) * ((1 << 60) + 1)", "TypeError"},
    {"",
     "dict.fromkeys(type('L', (), {'__len__': lambda s: 1 << 61, '__iter__': lambda s: "
     "iter(())})())",
     MEM},
    // A size is said as it is, not what 32 bits leave of it.
    {"", "bytearray(1 << 40)", MEM " memory allocation failed, allocating 1099511627776 bytes"},
    {"", "[0] * (1 << 61)", MEM " memory allocation failed, size too large"},
    {"", "bytearray(0)", "bytearray(b'')"},
    // Additions that wrapped.
    {"import io\nb = io.BytesIO()\nb.seek((1 << 62) - 1)", "b.write(b'abc')", MEM},
    {"import io\nb = io.BytesIO(b'abc')\nb.seek((1 << 62) - 1)", "b.write(b'abc')", MEM},
    {"import io\nb = io.StringIO()\nb.seek((1 << 32) - 1)", "b.write('abc')", MEM},
    {"import io\nb = io.StringIO()\nb.seek((1 << 33) - 40)", "b.write('abc')", MEM},
    {"import io\nb = io.StringIO()", "[b.seek((1 << 62) - 1, 1) for i in range(8)]", "OSError"},
    {"import io", "io.StringIO((1 << 62) - 1)", MEM},
    {"import io", "io.BytesIO(-1)", MEM},
    {"import io", "io.StringIO('abc').read((1 << 62) - 1)", MEM},
    {"import io", "io.StringIO('abc').read(-5)", MEM},
    {"import io", "io.BytesIO(b'abc').read((1 << 62) - 1)", MEM},
    {"import io", "io.StringIO('abc').readline((1 << 62) - 1)", MEM},
    {"import io", "io.BytesIO(b'abc').readinto(bytearray(2), (1 << 62) - 1)", "2"},
    {"import io", "io.BytesIO().write(b'abc', -1, (1 << 62))", "0"},
    {"", "'x'.center((1 << 62) - 1)", MEM},
    {"", "'x'.center(1 << 40)", MEM},
    {"", "'a,b'.rsplit(',', (1 << 61) - 1)", MEM},
    {"", "'a,b'.rsplit(',', (1 << 62) - 1)", MEM},
    {"", "(5).to_bytes((1 << 62) - 1, 'little')", MEM},
    {"", "(K << 70).to_bytes(1 << 60, 'big')", MEM},
    {"", "K << (K << 60)", MEM},
    {"", "K << ((K << 62) - 1)", MEM},
    {"", "3 ** (K << 60)", MEM},
    {"", "int('9' * 50, 10) << (1 << 61)", MEM},
    // Of constants too: the compiler does not work these out.
    {"", "3 ** (1 << 60)", MEM},
    {"", "1 << (1 << 60)", MEM},
    {"", "(3 ** 200 - 1) ** --(1 << 62)", MEM},
    {"", "2 ** 256 % 1000007, 1 << 256 >> 250, 2 ** 257 >> 250", "770169 64 128"},
    // Formats.
    {"", "'%*d' % ((1 << 62) - 1, 5)", "5"},
    {"", "'%*d' % (1 << 30, 5)", MEM},
    {"", "'%99999999999d' % 5", MEM},
    {"", "'%.99999999999d' % 5", MEM},
    {"", "'%.99999999999s' % 'abc'", "abc"},
    {"", "'{:99999999999}'.format(5)", MEM},
    {"", "'{:>4294967300}'.format('x')", MEM},
    {"", "'{99999999999}'.format(5)", "IndexError"},
    {"", "'{4294967295}'.format(5)", "IndexError"},
    {"", "'{4294967296}'.format(5)", "IndexError"},
    {"", "'{:.99999999999f}'.format(1.5)", ""},
    {"", "'%.2147483647f' % 1.5", ""},
    // struct.
    {"import struct", "struct.calcsize('4611686018427387905q')", OVER},
    {"import struct", "struct.calcsize('99999999999999999999999999q')", OVER},
    {"import struct", "struct.calcsize('4611686018427387903s' * 5)", OVER},
    {"import struct", "struct.pack('4611686018427387903s4611686018427387903s', b'', b'')", OVER},
    {"import struct", "struct.pack('60000000s', b'')", MEM},
    {"import struct", "struct.unpack('0s' * 100, b'')[99]", "b''"},
    {"import struct", "struct.unpack('4611686018427387904s' * 4, b'abc')", OVER},
    {"import struct", "struct.unpack_from('b', b'abc', (1 << 62) - 1)", VALUE},
    {"import struct", "struct.unpack_from('b', b'abc', -(1 << 62))", VALUE},
    {"import struct", "struct.pack_into('60000000x', bytearray(3), 1)", VALUE},
    {"import struct", "struct.pack_into('b', bytearray(3), (1 << 62) - 1, 1)", VALUE},
    {"import struct", "(struct.calcsize('bq'), struct.calcsize('3b2q'), struct.calcsize('>b2q'))",
     "(16, 24, 17)"},
    {"import struct", "struct.unpack('<2hx', struct.pack('<2hx', 1, -2))", "(1, -2)"},
    // Slices, lists, dicts, sets.
    {"a = bytearray(8)", "a[(1 << 62) - 1:]", "bytearray(b'')"},
    {"a = list(range(5))", "a[-(1 << 62):(1 << 62) - 1:(1 << 62) - 1]", "[0]"},
    {"a = list(range(5))\na[(1 << 62) - 1:] = [7]", "a", "[0, 1, 2, 3, 4, 7]"},
    {"a = list(range(5))\na.insert((1 << 62) - 1, 9)\na.insert(-(1 << 61), 8)", "a",
     "[8, 0, 1, 2, 3, 4, 9]"},
    {"a = memoryview(bytearray(8))", "bytes(a[(1 << 62) - 1:])", "b''"},
    {"", "list(range(1 << 62))", MEM},
    {"", "set(range(1 << 62))", MEM},
    {"", "{i: i for i in range(1 << 62)}", MEM},
    {"", "bytearray(range(1 << 62))", MEM},
    {"", "'-'.join(['x' * 9000] * 9000)", MEM},
    {"", "('a' * 9000).replace('a', 'b' * 90000)", MEM},
    {"import binascii", "binascii.hexlify(bytes(200000))", MEM},
    {"import re", "re.compile('a' * 9000000)", MEM},
    {"import re", "re.match('[a-', 'a')", VALUE},
    {"import re", "re.match('[' + 'a' * 300 + ']', 'a')", VALUE},
    {"import re", "re.compile('()' * 40000).split('abc')", VALUE},
    {"import json", "json.loads('[' * 100000)", MEM},
    {"import json", "json.dumps('\\x01' * 100000)", MEM},
    // A __len__ that lies, or that changes what was measured before it.
    {"class L:\n    def __init__(s, n): s.n = n\n    def __len__(s): return s.n\n"
     "    def __iter__(s): return iter(range(200))\ndef f(*a, **k): return len(a)",
     "(f(*L(1)), f(*L(0)), f(*L(1 << 61)), f(*(1, 2, 3, 4, 5, 6), *L(-5)), len(bytearray(L(1))), "
     "len(bytes(L(1))), len(list(L(-9))))",
     "(200, 200, 200, 206, 200, 200, 200)"},
    {"a = [1]\nclass L:\n    def __len__(s):\n        a.extend(range(500))\n        return 0\n"
     "    def __iter__(s): return iter(())\ndef f(*a): return len(a)",
     "f(*a, *L())", "501"},
    {"from array import array\nclass L:\n    def __len__(s): return 1\n"
     "    def __iter__(s): return iter(range(300))",
     "len(array('q', L()))", "300"},
    // Elements that are addresses: any object out of eight bytes.
    {"import struct", "struct.unpack('O', b'AAAAAAAA')", VALUE},
    {"import struct", "struct.unpack('S', b'AAAAAAAA')", VALUE},
    {"import struct", "struct.unpack('<O', b'AAAAAAAA')", VALUE},
    {"import struct", "struct.pack('P', 1)", VALUE},
    {"from array import array", "array('O', b'AAAAAAAA')[0]", VALUE},
    {"from array import array", "array('S', b'AAAAAAAA')[0]", VALUE},
    {"from array import array", "array('P', [1])", VALUE},
    // Our own modules.
    {"from walle import nn", "nn.tensor([1], shape=(1 << 32, 1 << 32))", VALUE},
    {"from walle import nn", "nn.tensor([1], shape=((1 << 62) - 1, 4))", VALUE},
    {"from walle import nn", "nn.tensor(b'', shape=(0, (1 << 62) - 1), dtype='float64')", ""},
    {"from walle import nn", "nn.tensor(list(range(8))).reshape((1 << 61, 1 << 61, 2))", VALUE},
    {"from walle import data", "data.histogram('price', 0, 1, (1 << 62) - 1)", VALUE},
    {"from walle import data", "data.last('price', (1 << 62) - 1)", VALUE},
    {"from walle import data", "data.distinct('price', (1 << 62) - 1)", VALUE},
};

static void test_sizes(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    kit.job.time_ms = 20000;
    int failed = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char source[2048];
        (void)snprintf(source, sizeof(source),
                       "K = 1\n%s\ntry:\n    print(%s)\nexcept Exception as e:\n"
                       "    print(type(e).__name__, e)\n",
                       rows[i].before, rows[i].expression);
        kit_run_source(&kit, source);
        bool good = kit.result.end == DEV_VM_FINISHED &&
                    base_str_starts(kit.result.output, base_str_of(rows[i].ends));
        if (!good) {
            print_message("%s: %s: ended %s %s: %.*s\n", rows[i].before, rows[i].expression,
                          dev_vm_end_name(kit.result.end), kit.result.message,
                          (int)kit.result.output.size, kit.result.output.data);
        }
        failed += good ? 0 : 1;
    }
    kit_done(&kit);
    assert_int_equal(failed, 0);
}

// What was forged with the deque: nothing of the process may be reached by what follows it.
static void test_the_known_forgeries(void **state)
{
    static const char *const sources[] = {
        "from collections import deque\nd = deque((), 1 << 61)\nfor i in range(99): d.append(i)\n",
        "a = [0] * ((1 << 61) + 1)\nfor i in range(99): a[i] = 0x41414141\n",
        "a = b'0123456789abcdef' * ((1 << 60) + 1)\nprint(a[999])\n",
        "import io\nb = io.BytesIO()\nb.seek((1 << 62) - 1)\nb.write(b'x' * "
        "100)\nprint(b.read())\n",
    };
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 0);
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        kit_run_source(&kit, sources[i]);
        kit_ended(&kit, DEV_VM_MEMORY);
    }
    kit_run_source(&kit, "print('well')\n");
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_text_is(kit.result.output, "well\n");
    kit_done(&kit);
}

// A table that could not grow is as large as it was: what is put into it then fails as well, and
// what was in it is there.
static void test_growth_without_memory(void **state)
{
    static const char source[] =
        "import array\n"
        "from collections import OrderedDict\n"
        "def full():\n"
        "    h = None\n"
        "    for size in (4096, 512, 64, 1):\n"
        "        try:\n"
        "            while True: h = [bytearray(size), h]\n"
        "        except MemoryError: pass\n"
        "    try:\n"
        "        while True: h = [h]\n"
        "    except MemoryError: return h\n"
        "def grow(put):\n"
        "    failed = 0\n"
        "    h = full()\n"
        "    for k in range(100, 200):\n"
        "        try: put(k)\n"
        "        except MemoryError: failed += 1\n"
        "    while h:\n"
        "        rest = h[-1]\n"
        "        h.clear()\n"
        "        h = rest\n"
        "    return failed\n"
        "def is_sound(t, failed):\n"
        "    want = list(range(5)) + list(range(100, 200 - failed))\n"
        "    return sorted(t) == want and len(t) == len(want)\n"
        "o = OrderedDict()\n"
        "d = {}\n"
        "s = set()\n"
        "a = array.array('q')\n"
        "l = []\n"
        "b = bytearray()\n"
        "total = 0\n"
        "for t, put in ((o, lambda k: o.__setitem__(k, k)),\n"
        "               (d, lambda k: d.__setitem__(k, k)),\n"
        "               (s, s.add), (a, a.append), (l, l.append),\n"
        "               (b, b.append)):\n"
        "    for k in range(5): put(k)\n"
        "    failed = grow(put)\n"
        "    total += failed\n"
        "    if not is_sound(t, failed): print(type(t), failed, sorted(t))\n"
        "print(total > 200, all(k in s for k in s))\n";
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, 64);
    kit.job.time_ms = 20000;
    kit_run_source(&kit, source);
    kit_ended(&kit, DEV_VM_FINISHED);
    kit_text_is(kit.result.output, "True True\n");
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_known_forgeries),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_growth_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
