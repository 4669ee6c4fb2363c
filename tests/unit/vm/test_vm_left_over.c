// Memory that arrays are made of is not cleared where no run before left anything in it. What a run
// had in its heap is gone before a script could be given that memory as it is: of the VM's later
// runs, and of VMs whose heap was another's. Masks hold 0 and 1 alone.
#include "vm_kit.h"

#include "vm/vm_state.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#define HEAP_KIB 256
#define SECRET   "corned beef by the name of Kowalski"

// Scripts that leave it in their heap: in a text, or in an array.
static const char *const secrets[] = {
    "s = 'corned beef by the ' + 'name of Kowalski'\nl = [s + str(i) for i in range(200)]\n",
    "from walle import np\n"
    "a = np.array(bytearray(b'corned beef by the name of Kowalski' * 50))\nb = a[::-1][::-1] + 0\n",
};

static bool is_in(const uint8_t *bytes, size_t size)
{
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(bytes, size); // the next run's start poisons it again
#endif
    return memmem(bytes, size, SECRET, strlen(SECRET)) != NULL;
}

static void run(struct vm_kit *kit, const char *source)
{
    kit_run_source(kit, source);
    kit_ended(kit, DEV_VM_FINISHED);
}

static void a_run_with_arrays_leaves_nothing(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, HEAP_KIB);
    run(&kit, secrets[1]);
    assert_false(is_in(kit.vm->heap, kit.vm->heap_bytes));
    assert_int_equal(kit.vm->pool_left, 0);
    run(&kit, secrets[0]); // from then on no run leaves anything
    assert_false(is_in(kit.vm->heap, kit.vm->heap_bytes));
    assert_int_equal(kit.vm->pool_left, 0);
    kit_done(&kit);
}

static void arrays_are_cleared_where_something_was_left(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, HEAP_KIB);
    run(&kit, secrets[0]);
    assert_true(is_in(kit.vm->heap, kit.vm->heap_bytes)); // nobody gets it as it is
    assert_true(kit.vm->pool_left > 0);
    kit.job.instruction_max = 300;
    kit_run_source(&kit, secrets[0]); // stopped in the middle
    kit.job.instruction_max = 0;
    assert_true(kit.vm->pool_left > 0);
    run(&kit, "from walle import np\nimport walle\n"
              "walle.result((np.arange(2000) + 1).sum())\n");
    kit_text_is(kit.result.result, "2001000");
    assert_false(is_in(kit.vm->heap, kit.vm->heap_bytes));
    assert_int_equal(kit.vm->pool_left, 0);
    kit_done(&kit);
}

static void a_heap_that_was_anothers_holds_nothing(void **state)
{
    (void)state;
    struct vm_kit kit;
    for (size_t i = 0; i < 2; i++) {
        kit_init(&kit, HEAP_KIB);
        run(&kit, secrets[i]);
        const uint8_t *heap = kit.vm->heap;
        kit_done(&kit);
        kit_init(&kit, HEAP_KIB);
        assert_ptr_equal(kit.vm->heap, heap); // those that were freed last are used again
        assert_false(is_in(heap, kit.vm->heap_bytes));
        kit_done(&kit);
    }
}

// What counts a mask and what uses it would not agree on other bytes.
static void nobody_writes_other_bytes_into_masks(void **state)
{
    (void)state;
    static const char *const writes[] = {
        "m = memoryview(b)\nm[0] = 7\n",
        "import struct\nstruct.pack_into('B', b, 3, 200)\n",
        "m = memoryview(b[2:])\nm[0] = 2\n",
    };
    struct vm_kit kit;
    char source[200];
    kit_init(&kit, HEAP_KIB);
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
        (void)snprintf(source, sizeof(source),
                       "from walle import np\nb = np.zeros(19, dtype='bool')\n%s", writes[i]);
        kit_run_source(&kit, source);
        kit_ended(&kit, DEV_VM_EXCEPTION);
        kit_text_is(base_str_of(kit.result.type), "TypeError");
    }
    run(&kit, "from walle import np\nimport walle\nb = np.zeros(3, dtype='bool')\nb[1] = 9\n"
              "u = np.zeros(3, dtype='uint8')\nm = memoryview(u)\nm[2] = 200\n"
              "walle.result([list(bytes(b)), list(memoryview(b)), list(u)])\n");
    kit_text_is(kit.result.result, "[[0,1,0],[0,1,0],[0,0,200]]");
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_with_arrays_leaves_nothing),
        cmocka_unit_test(arrays_are_cleared_where_something_was_left),
        cmocka_unit_test(a_heap_that_was_anothers_holds_nothing),
        cmocka_unit_test(nobody_writes_other_bytes_into_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
