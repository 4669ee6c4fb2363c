// Images of many contents in one VM: which of them are kept, and how much they are together. What
// an image is, and that nobody sees it, has test_vm_image.c.
#include "vm_kit.h"

#include "vm/vm_state.h"

static size_t images_of(const struct dev_vm *vm, struct dev_vm_image *out[DEV_VM_IMAGES_MAX])
{
    size_t count = 0;
    memcpy(out, vm->images, sizeof(vm->images));
    for (unsigned i = 0; i < DEV_VM_IMAGES_MAX; i++) {
        count += vm->images[i] != NULL ? 1 : 0;
    }
    return count;
}

// Contents of small heaps, each with so many bytes in it.
static void small_ones(struct vm_kit *kit, unsigned count, unsigned bytes)
{
    for (unsigned i = 0; i < count; i++) {
        char source[160];
        char want[32];
        (void)snprintf(source, sizeof(source),
                       "import walle\nmine = %u\nroom = bytearray(%u)\nwalle.device\n"
                       "walle.result(mine + len(room))\n",
                       i, bytes);
        (void)snprintf(want, sizeof(want), "%u", i + bytes);
        kit_modules_drop(kit);
        kit_add(kit, "main", source);
        kit_run(kit);
        kit_text_is(kit->result.result, want);
        assert_true(kit->vm->warm);
    }
}

// Small contents are all kept, however many take turns; where they are larger the oldest go, and
// what is kept stays within its bounds.
static void test_kept_contents(void **state)
{
    static struct dev_vm_image *first[DEV_VM_IMAGES_MAX];
    static struct dev_vm_image *now[DEV_VM_IMAGES_MAX];
    struct vm_kit kit;
    (void)state;
    kit_init(&kit, 0);
    small_ones(&kit, 40, 16);
    assert_int_equal(images_of(kit.vm, first), 40);
    small_ones(&kit, 40, 16);
    assert_int_equal(images_of(kit.vm, now), 40);
    assert_memory_equal(first, now, sizeof(now));
    small_ones(&kit, 2 * DEV_VM_IMAGES_MAX, 40000);
    size_t count = images_of(kit.vm, now);
    assert_in_range(count, 2, DEV_VM_IMAGES_ALL / 40000);
    for (unsigned i = 0; i < DEV_VM_IMAGES_MAX; i++) {
        assert_true(first[i] == NULL || now[i] != first[i]);
    }
    small_ones(&kit, 40, 16); // and back again
    kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
