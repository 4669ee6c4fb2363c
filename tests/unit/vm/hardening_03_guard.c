// What stands behind the verifier: a VM whose bytecode nobody looked at goes past its heap, and
// that ends this one run; its neighbours, its later runs and the process go on. Faults that are no
// VM's, or that come while the host is at work, are not taken for one.
//
// The planted fault is a local that the function does not have: the interpreter looks for it as far
// from the frame as the instruction says.
#include "vm_kit.h"

#include "posix/run/posix_guard.h"
#include "base/os/guarded_memory.h"
#include "vm/mpy/mpy_check.h"
#include "vm/vm_state.h"

#include "py/bc0.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEAP_KIB  64
#define FILE_MAX  64
#define SLOTS     ((uint64_t)HEAP_KIB * 1024 / sizeof(void *)) // as many as the heap could hold
#define BELOW     SLOTS
#define ABOVE     (((uint64_t)1 << 61) - SLOTS) // eight times that wraps to a place above
#define TURNS     50
#define HANDED_ON 7

// A file whose module has this code.
static size_t file_of(uint8_t *file, const uint8_t *code, size_t code_size)
{
    static const uint8_t head[] = {'M', 6,   0,   31, 2,      0,   4 << 1, 'm',
                                   '.', 'p', 'y', 0,  1 << 1, 'f', 0};
    static const uint8_t body[] = {0x38, 1 << 1, 1}; // 8 slots; a name, which is "f"
    size_t coded = (sizeof(body) + code_size) << 3;
    assert_true(sizeof(head) + 2 + sizeof(body) + code_size <= FILE_MAX);
    memcpy(file, head, sizeof(head));
    uint8_t *at = file + sizeof(head);
    *at++ = (uint8_t)(coded >> 7 | 0x80);
    *at++ = (uint8_t)(coded & 0x7F);
    memcpy(at, body, sizeof(body));
    memcpy(at + sizeof(body), code, code_size);
    return (size_t)(at - file) + sizeof(body) + code_size;
}

// One whose module does `op` with local `number`, and returns.
static size_t file_make(uint8_t *file, uint8_t op, uint64_t number)
{
    uint8_t code[FILE_MAX / 2] = {MP_BC_LOAD_CONST_NONE, op};
    size_t size = 2;
    for (int shift = 63; shift >= 0; shift -= 7) {
        if (shift == 0 || number >> shift != 0) {
            code[size++] = (uint8_t)((shift == 0 ? 0 : 0x80) | (number >> shift & 0x7F));
        }
    }
    code[size++] = MP_BC_LOAD_CONST_NONE;
    code[size++] = MP_BC_RETURN_VALUE;
    return file_of(file, code, size);
}

static enum base_status pass(void *ctx, const struct dev_vm_module *module,
                             struct dev_mpy_fault *out_fault)
{
    (void)ctx;
    (void)module;
    (void)out_fault;
    return BASE_OK;
}
static const struct dev_vm_check_port nobody_looks = {.check = pass};

static enum base_status refuse(void *ctx, const struct dev_vm_module *module,
                               struct dev_mpy_fault *out_fault)
{
    (void)ctx;
    (void)module;
    *out_fault = (struct dev_mpy_fault){.what = "refused"};
    return BASE_ERR_INVALID;
}
static const struct dev_vm_check_port nobody_passes = {.check = refuse};

static void run_file(struct vm_kit *kit, uint8_t op, uint64_t number)
{
    uint8_t file[FILE_MAX];
    kit_modules_drop(kit);
    kit->modules[0] = (struct dev_vm_module){BASE_STR("main"), file, file_make(file, op, number)};
    kit->job.module_count = 1;
    kit_run(kit);
    kit->job.module_count = 0;
}

// In a process of its own: how it ended.
static int apart(void (*act)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        act();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

#define BYTES ((size_t)3 * 1024) // no whole page

static void touch(ptrdiff_t at)
{
    (void)signal(SIGSEGV, SIG_DFL);
    uint8_t *memory = base_guarded_new(BYTES);
    if (memory == NULL || (uintptr_t)memory % 1024 != 0) {
        _exit(2);
    }
    memset(memory, 1, BYTES);
    ((volatile uint8_t *)memory)[at] = 1;
    base_guarded_free(memory, BYTES);
}

static void touch_last(void)
{
    touch(BYTES - 1);
}

static void touch_behind(void)
{
    touch(BYTES);
}

static void touch_far_behind(void)
{
    touch(BYTES + BASE_GUARD_BYTES - 1);
}

static void touch_before(void)
{
    touch(-(ptrdiff_t)sysconf(_SC_PAGESIZE));
}

static void test_memory_ends_at_its_guards(void **state)
{
    (void)state;
    void (*const acts[])(void) = {touch_behind, touch_far_behind, touch_before};
    assert_int_equal(apart(touch_last), 0);
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        int status = apart(acts[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSEGV);
    }
    base_guarded_free(NULL, BYTES);
    uint8_t *memory = base_guarded_new(BYTES);
    assert_non_null(memory);
    uintptr_t at = (uintptr_t)memory;
    assert_false(base_guarded_hit(memory, BYTES, at));
    assert_false(base_guarded_hit(memory, BYTES, at + BYTES - 1));
    assert_true(base_guarded_hit(memory, BYTES, at + BYTES));
    assert_true(base_guarded_hit(memory, BYTES, at + BYTES + BASE_GUARD_BYTES - 1));
    assert_false(base_guarded_hit(memory, BYTES, at + BYTES + BASE_GUARD_BYTES));
    assert_false(base_guarded_hit(memory, BYTES, 0));
    base_guarded_free(memory, BYTES);
}

// ---- What is handed on; in processes in which nobody has put up the handlers yet

static void own_handler(int number)
{
    (void)number;
    _exit(HANDED_ON);
}

static enum base_status query_into_guard(void *ctx, const struct dev_vm_query *query,
                                         dev_vm_row_fn visit, void *visit_ctx)
{
    struct vm_kit *kit = ctx;
    (void)query;
    (void)visit;
    (void)visit_ctx;
    ((volatile uint8_t *)kit->vm->heap)[kit->vm->heap_bytes] = 1;
    return BASE_OK;
}

static void fault_of_the_host(void)
{
    struct vm_kit kit;
    (void)signal(SIGSEGV, own_handler);
    if (posix_guard_raise() != BASE_OK) {
        _exit(2);
    }
    kit_init(&kit, HEAP_KIB);
    const struct dev_vm_data_port port = {.ctx = &kit, .query = query_into_guard};
    kit.job.data = &port;
    kit_run_source(&kit, "from walle import data\ndata.query('f', 'k')\n");
}

static void fault_of_nobody(void)
{
    (void)signal(SIGSEGV, own_handler);
    if (posix_guard_raise() != BASE_OK || posix_guard_raise() != BASE_OK) {
        _exit(2);
    }
    volatile uint8_t *nowhere = (volatile uint8_t *)(uintptr_t)8;
    *nowhere = 1;
}

static void fault_without_others(void)
{
    (void)signal(SIGSEGV, SIG_DFL);
    if (posix_guard_raise() != BASE_OK) {
        _exit(2);
    }
    volatile uint8_t *nowhere = (volatile uint8_t *)(uintptr_t)8;
    *nowhere = 1;
}

static void test_other_faults_are_handed_on(void **state)
{
    (void)state;
    void (*const acts[])(void) = {fault_of_the_host, fault_of_nobody};
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        int status = apart(acts[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), HANDED_ON);
    }
    int status = apart(fault_without_others);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

// ---- A VM's fault

static void later_runs_go_on(void)
{
    static const struct {
        uint8_t op;
        uint64_t number;
    } faults[] = {
        {MP_BC_LOAD_FAST_N, BELOW},
        {MP_BC_LOAD_FAST_N, ABOVE},
        {MP_BC_STORE_FAST_N, BELOW},
        {MP_BC_STORE_FAST_N, ABOVE},
    };
    struct vm_kit kit;
    kit_init(&kit, HEAP_KIB);
    for (size_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
            kit.job.checks = &nobody_looks;
            run_file(&kit, faults[i].op, faults[i].number);
            kit_ended(&kit, DEV_VM_FAULT);
            assert_string_equal(kit.result.type, "FaultError");
            assert_string_equal(kit.result.message, "the VM left the script's heap");
            assert_int_equal(dev_vm_end_outcome(kit.result.end), WIRE_OUTCOME_FAIL_CRASH);
            kit.job.checks = NULL; // the verifier refuses the very same
            run_file(&kit, faults[i].op, faults[i].number);
            kit_ended(&kit, DEV_VM_LOAD);
            kit_run_source(&kit, "print(sum(range(100)), [x for x in 'abc'])\n");
            kit_ended(&kit, DEV_VM_FINISHED);
            kit_text_is(kit.result.output, "4950 ['a', 'b', 'c']\n");
        }
    }
    kit_done(&kit);
}

static void *neighbour(void *unused)
{
    struct vm_kit kit;
    kit_init(&kit, HEAP_KIB);
    for (size_t turn = 0; turn < TURNS; turn++) {
        kit_run_source(&kit, "a = list(range(500))\nprint(sum(a[i] * i for i in a))\n");
        kit_ended(&kit, DEV_VM_FINISHED);
        kit_text_is(kit.result.output, "41541750\n");
    }
    kit_done(&kit);
    return unused;
}

static void neighbours_go_on(void)
{
    struct vm_kit kit;
    pthread_t thread;
    kit_init(&kit, HEAP_KIB);
    kit.job.checks = &nobody_looks;
    assert_int_equal(pthread_create(&thread, NULL, neighbour, NULL), 0);
    for (size_t turn = 0; turn < TURNS; turn++) {
        run_file(&kit, MP_BC_STORE_FAST_N, turn % 2 == 0 ? ABOVE : BELOW);
        kit_ended(&kit, DEV_VM_FAULT);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    kit_done(&kit);
}

// One test: cmocka puts up its own handlers before each, and ours go up once.
static void test_a_vm_that_leaves_its_heap_fails_alone(void **state)
{
    (void)state;
    assert_int_equal(posix_guard_raise(), BASE_OK);
    later_runs_go_on();
    neighbours_go_on();
}

// ---- What begins with an image

#define WARM_RUNS 4

static void runs_end(struct vm_kit *kit, const struct dev_vm_module *module, enum dev_vm_end end)
{
    for (unsigned i = 0; i < WARM_RUNS; i++) {
        kit->modules[0] = *module;
        kit->job.module_count = 1;
        kit_run(kit);
        kit->job.module_count = 0;
        kit_ended(kit, end);
    }
}

// A run that begins with an image is not verified again; only the verifier's own word counts there.
static void test_an_image_is_as_good_as_who_judged_it(void **state)
{
    static const uint8_t damaged[] = {MP_BC_LOAD_CONST_NONE,
                                      MP_BC_POP_JUMP_IF_TRUE,
                                      0x41,
                                      MP_BC_BUILD_TUPLE,
                                      0, // a jump into this, never taken
                                      MP_BC_RETURN_VALUE};
    static const uint8_t sound[] = {MP_BC_LOAD_CONST_NONE, MP_BC_RETURN_VALUE};
    (void)state;
    struct vm_kit kit;
    uint8_t file[FILE_MAX];
    struct dev_vm_module module = {BASE_STR("main"), file, file_of(file, damaged, sizeof(damaged))};
    kit_init(&kit, HEAP_KIB);
    kit.job.checks = &nobody_looks;
    runs_end(&kit, &module, DEV_VM_FINISHED);
    kit.job.checks = NULL;
    runs_end(&kit, &module, DEV_VM_LOAD);
    assert_string_equal(kit.result.message, "bytecode: jump into an instruction, in f");
    module.size = file_of(file, sound, sizeof(sound));
    runs_end(&kit, &module, DEV_VM_FINISHED);
    kit.job.checks = &nobody_passes;
    runs_end(&kit, &module, DEV_VM_LOAD);
    kit.job.checks = NULL;
    runs_end(&kit, &module, DEV_VM_FINISHED);
    kit_done(&kit);
}

// The last ones are kept for who asks for as much, and all that lies around them with them.
static void freed_memory_is_given_again(void **state)
{
    (void)state;
    uint8_t *memory[6];
    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned i = 0; i < 6; i++) {
            memory[i] = base_guarded_new(BYTES + turn * 1024);
            assert_non_null(memory[i]);
            memset(memory[i], (int)i, BYTES + turn * 1024);
            for (unsigned j = 0; j < i; j++) {
                assert_ptr_not_equal(memory[i], memory[j]);
            }
        }
        for (unsigned i = 0; i < 6; i++) {
            assert_int_equal(memory[i][BYTES - 1], i);
            base_guarded_free(memory[i], BYTES + turn * 1024);
        }
    }
    assert_ptr_equal(base_guarded_new(BYTES + 2048), memory[5]);
    uint8_t *other = base_guarded_new(BYTES);
    for (unsigned i = 0; i < 6; i++) {
        assert_ptr_not_equal(other, memory[i]);
    }
    base_guarded_free(other, BYTES);
    base_guarded_free(memory[5], BYTES + 2048);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freed_memory_is_given_again),
        cmocka_unit_test(test_memory_ends_at_its_guards),
        cmocka_unit_test(test_other_faults_are_handed_on),
        cmocka_unit_test(test_an_image_is_as_good_as_who_judged_it),
        cmocka_unit_test(test_a_vm_that_leaves_its_heap_fails_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
