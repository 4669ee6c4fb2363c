// Bytecode from a stranger: the structural check and MicroPython's loader behind it. Nothing is
// executed: that only ever happens to content whose hash was verified.
//
// First byte 0: the rest is a file. Otherwise it picks one of a few modules compiled at the start,
// and the rest are changes of it, three bytes each: position (16 bits, wraps at the end) and value;
// a last odd byte cuts the file.
#include "fuzz_target.h"

#include "base/error.h"
#include "vm/mpy_check.h"
#include "vm/vm_state.h"

#include <stdlib.h>
#include <string.h>

static const char *const sources[] = {
    "x = 1\n",
    "import walle\nfrom a.b import c as d, e\n"
    "def f(a, *b, k=1, **c):\n    def g():\n        nonlocal a\n        a += 1\n        return a\n"
    "    return [g() for i in range(a) if i]\n"
    "class A(Exception):\n    X = ('t', 1.5, b'bytes', 123456789012345678901, (None, ...))\n"
    "    def m(self):\n        yield from self.m()\n",
    "def f(x):\n    try:\n        with x as y:\n            for i in y:\n                if i: "
    "continue\n"
    "                break\n    except (ValueError, TypeError) as e:\n        raise\n    "
    "finally:\n        del x\n"
    "    a, *b = {1: 2}, {3}\n    return f(*a, **b)[1:2]\n",
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
    struct dev_vm_job job = {.modules = &module, .module_count = 1, .entry = BASE_STR("main")};
    struct dev_vm_result result;
    struct dev_mpy_fault fault = {NULL, 0};
    bool good = dev_mpy_check(bytes, module.size, &fault) == BASE_OK;
    if (dev_vm_load(vm, &job, &result) != BASE_OK) {
        __builtin_trap();
    }
    // What the check refuses is not loaded; what it passes loads, but for numbers and want of
    // memory.
    if (!good && (result.end != DEV_VM_LOAD || fault.what == NULL || fault.offset > module.size)) {
        __builtin_trap();
    }
    free(bytes);
    return 0;
}
