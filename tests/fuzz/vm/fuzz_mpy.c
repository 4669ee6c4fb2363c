// Bytecode from a stranger: the verifier, and behind it MicroPython's loader and interpreter. What
// the verifier passes is run, under a small budget: it must not leave its memory, nor its operand
// and exception stacks (vm_bounds.c looks at both before each instruction).
//
// First byte 0: the rest is a file. Otherwise it picks one of a few modules compiled at the start,
// and the rest are changes of it, three bytes each: position (16 bits, wraps at the end) and value;
// a last odd byte cuts the file.
#include "fuzz_target.h"

#include "base/error.h"
#include "vm/mpy/mpy_check.h"
#include "vm/vm_state.h"

#include <stdlib.h>
#include <string.h>

#define RUN_UNITS 3000

static const char *const sources[] = {
    "x = 1\n",
    "import walle\n"
    "def f(a, *b, k=1, **c):\n    def g():\n        nonlocal a\n        a += 1\n        return a\n"
    "    return [g() for i in range(a) if i]\n"
    "class A(Exception):\n    X = ('t', 1.5, b'bytes', 123456789012345678901, (None, ...))\n"
    "    def m(self):\n        yield from self.m()\n"
    "f(3, 4, k=2, z=1)\nf(*[1, 2], **{'k': 5})\n",
    "class C:\n    def __enter__(self):\n        return (1, 2)\n"
    "    def __exit__(self, a, b, c):\n        return True\n"
    "def f(x):\n    try:\n        with x as y:\n            for i in y:\n                if i: "
    "continue\n"
    "                break\n            raise KeyError\n    except (ValueError, TypeError) as e:\n"
    "        raise\n    finally:\n        del x\n"
    "    a, *b = {1: 2}, {3}\n    return sorted(a, key=None)[1:2]\n"
    "try:\n    f(C())\nexcept Exception as e:\n    print(e)\n",
    "def f(n):\n    for i in [1, 2, 3]:\n        try:\n            if n == i: continue\n"
    "            if n > 5: return n\n            try:\n                if n: break\n"
    "            finally:\n                n += 1\n        finally:\n"
    "            while 1:\n                try: return i\n                finally: break\n"
    "    else:\n        return 7\n    return 8\n"
    "print([f(i) for i in range(8)])\n",
    "def g(n):\n    try:\n        r = yield n\n        yield from (r, n)\n"
    "        yield from (j for j in [1, 2] if j)\n    except ValueError:\n        yield 5\n"
    "    finally:\n        print('end')\n"
    "x = g(1)\nnext(x)\nx.send(2)\nprint(list(x))\n"
    "x = g(2)\nnext(x)\nprint(x.throw(ValueError))\nx.close()\n",
    "class A:\n    def m(self, a=1, *, b=2):\n        return super().__init__() or a + b\n"
    "class B(A):\n    z = {k: v for k, v in [(1, 2), (3, 4)]}\n    y = {k for k in 'ab'}\n"
    "    def m(self):\n        return super().m(3, b=4)\n"
    "b = B()\nb.q = [b.m(), (lambda x, y=2: x if y else None)(1)]\nb.q[0:1] = [7, 8]\ndel b.q[0]\n"
    "del b.q\nprint(b.z, 'a' < 'b' < 'c', not b or 1, a := 3)\n",
    "from walle import np, data\n"
    "def f(n, *more):\n    a = np.arange(n).reshape(2, -1)\n    b = a[:, ::-1] * 2.5 + more[0]\n"
    "    a[a > 2] = 1\n    return np.sum(b, axis=1), a.tolist(), sorted(more)[-1]\n"
    "for n in (4, 6):\n    try:\n        x, y, z = f(n, 3, 1)\n        x[9]\n"
    "    except IndexError:\n        print(x.shape, y, z)\n",
};
#define SOURCES (sizeof(sources) / sizeof(sources[0]))

static uint8_t *compiled[SOURCES];
static size_t compiled_sizes[SOURCES];
static struct dev_vm *vm;

static void start(void)
{
    for (size_t i = 0; i < SOURCES; i++) {
        struct base_error error;
        if (dev_vm_compile(base_str_of(sources[i]), BASE_STR("seed.py"), &compiled[i],
                           &compiled_sizes[i], &error) != BASE_OK) {
            __builtin_trap();
        }
    }
    if (dev_vm_new(64, &vm) != BASE_OK) {
        __builtin_trap();
    }
}

// Bytes in a block of exactly their size, so that a read past the end is seen.
static uint8_t *module_make(const uint8_t *data, size_t size, size_t *out_size)
{
    size_t which = data[0] % (SOURCES + 1);
    const uint8_t *from = which == 0 ? data + 1 : compiled[which - 1];
    size_t length = which == 0 ? size - 1 : compiled_sizes[which - 1];
    if (which != 0 && (size - 1) % 3 == 1) {
        length = length * data[size - 1] / 256;
    }
    uint8_t *module = malloc(length + (length == 0));
    if (module == NULL) {
        return NULL;
    }
    memcpy(module, from, length);
    for (size_t at = 1; which != 0 && length > 0 && at + 3 <= size; at += 3) {
        module[(size_t)(data[at] << 8 | data[at + 1]) % length] = data[at + 2];
    }
    *out_size = length;
    return module;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (vm == NULL) {
        start();
    }
    if (size < 2) {
        return 0;
    }
    struct dev_vm_module module = {.name = BASE_STR("main")};
    uint8_t *bytes = module_make(data, size, &module.size);
    if (bytes == NULL) {
        return 0;
    }
    module.mpy = bytes;
    struct dev_vm_job job = {.modules = &module,
                             .module_count = 1,
                             .entry = BASE_STR("main"),
                             .instruction_max = RUN_UNITS,
                             .time_ms = 1000};
    struct dev_vm_result result;
    struct dev_mpy_fault fault;
    bool good = dev_mpy_check(bytes, module.size, &fault) == BASE_OK;
    if (dev_vm_run(vm, &job, &result) != BASE_OK) {
        __builtin_trap();
    }
    if (!good && (result.end != DEV_VM_LOAD || fault.what == NULL || fault.offset > module.size)) {
        __builtin_trap();
    }
    free(bytes);
    return 0;
}
