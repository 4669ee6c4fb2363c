// Memory that arrays are made of is not cleared where no run before left anything in it. What a run
// had in its heap is gone before a script could be given that memory as it is: of the VM's later
// runs, and of VMs whose heap was another's. In masks whatever is not 0 is true.
#include "vm_kit.h"

#include "vm/vm_state.h"

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

static void whatever_is_not_zero_is_true(void **state)
{
    (void)state;
    struct vm_kit kit;
    kit_init(&kit, HEAP_KIB);
    run(&kit, "from walle import np\nimport walle\n"
              "b = np.zeros(19, dtype='bool')\nm = memoryview(b)\n"
              "m[0] = 7\nm[9] = 200\nm[18] = 1\n"
              "a = np.arange(19)\n"
              "c = a.copy()\nc[b] = 50\n"
              "walle.result([list(a[b]), list(np.nonzero(b)[0]), len(a[b]), list(np.where(c == "
              "50)[0])])\n");
    kit_text_is(kit.result.result, "[[0,9,18],[0,9,18],3,[0,9,18]]");
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_with_arrays_leaves_nothing),
        cmocka_unit_test(arrays_are_cleared_where_something_was_left),
        cmocka_unit_test(a_heap_that_was_anothers_holds_nothing),
        cmocka_unit_test(whatever_is_not_zero_is_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
