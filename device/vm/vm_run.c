// The script VM's handle and one run from start to end: an empty interpreter on the VM's heap, the
// entry module loaded as __main__, executed, and its end turned into a result; or an interpreter as
// an image has it (vm_image.c), and the rest. Called by the device
// core's task runner and by the fleet simulator, on any thread; a run stays on the thread it began
// on, whose thread-local MicroPython state it owns meanwhile.
#include "vm/vm.h"

#include "vm/vm_state.h"
#include "base/os/guarded_memory.h"
#include "vm/mpy/vm_text.h"

#include "base/check.h"
#include "base/clock.h"

#include "py/bc.h"
#include "py/builtin.h"
#include "py/cstack.h"
#include "py/gc.h"
#include "py/objfun.h"
#include "py/persistentcode.h"
#include "py/runtime.h"
#include "shared/runtime/gchelper.h"

#include <stdlib.h>
#include <string.h>

#undef memset // what is cleared here is no work of the script's (mpconfigport.h)

// As deep as loading goes; the sanitizer's frames are large.
#ifdef __SANITIZE_ADDRESS__
#define STACK_CLEARED 65536
#define STACK_UNSEEN  32768
#else
#define STACK_CLEARED 4096
#define STACK_UNSEEN  2048 // below the lowest frame that checks the stack
#endif
#define STACK_WHOLE (DEV_VM_STACK_KIB * 1024 + STACK_UNSEEN)

#ifdef DEV_VM_POISON
#include <sanitizer/asan_interface.h>
#endif

_Thread_local struct dev_vm *dev_vm_current;
_Thread_local uintptr_t dev_vm_stack_low = UINTPTR_MAX;

// The entry module's frame, for the collector.
MP_REGISTER_ROOT_POINTER(void *dev_vm_main);

enum base_status dev_vm_new(uint32_t heap_kib, struct dev_vm **out_vm)
{
    if (heap_kib == 0) {
        heap_kib = DEV_VM_HEAP_KIB_DEFAULT;
    }
    if (heap_kib > DEV_VM_HEAP_KIB_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    if (heap_kib < DEV_VM_HEAP_KIB_MIN) {
        heap_kib = DEV_VM_HEAP_KIB_MIN;
    }
    struct dev_vm *vm = malloc(sizeof(*vm));
    // Its pages cost nothing until a run uses them. Aligned, as a script can tell how much fits,
    // and as tables remember places by the low bits of addresses, which tells in what is counted.
    uint8_t *heap = base_guarded_new((size_t)heap_kib * 1024);
    if (vm == NULL || heap == NULL) {
        base_guarded_free(heap, (size_t)heap_kib * 1024);
        free(vm);
        return BASE_ERR_NOMEM;
    }
    memset(vm, 0, offsetof(struct dev_vm, output));
    atomic_init(&vm->interrupted, false);
    vm->heap = heap;
    vm->heap_bytes = (size_t)heap_kib * 1024;
    *out_vm = vm;
    return BASE_OK;
}

// What earlier runs left is of nobody's any more.
static void pool_wipe(struct dev_vm *vm)
{
    base_assert(vm->pool_left <= vm->heap_bytes);
    if (vm->pool_left > 0) {
#ifdef DEV_VM_POISON
        __asan_unpoison_memory_region(vm->pool, vm->pool_left);
#endif
        memset(vm->pool, 0, vm->pool_left);
    }
    vm->pool_left = 0;
}

// After a run. Scripts take memory that is not cleared only where no run before left anything in it
// (dev_vm_pool_is_clear), so that none ever sees what is another's, whatever the loops write.
static void pool_leave(struct dev_vm *vm)
{
    size_t whole = (size_t)(vm->heap + vm->heap_bytes - vm->pool);
    size_t left = vm->heap_used > vm->pool_left ? vm->heap_used : vm->pool_left;
    bool is_known = vm->out->end != DEV_VM_FAULT && left < whole;
    vm->pool_left = is_known ? left : whole;
    if (vm->pool_clears) {
        pool_wipe(vm);
    }
}

bool dev_vm_pool_is_clear(void)
{
    dev_vm_current->pool_clears = true;
    return dev_vm_current->pool_left == 0;
}

void dev_vm_free(struct dev_vm *vm)
{
    if (vm == NULL) {
        return;
    }
    base_check(dev_vm_current != vm);
    pool_wipe(vm); // the next one's heap may be this one
    dev_vm_images_free(vm);
    base_guarded_free(vm->heap, vm->heap_bytes);
    free(vm);
}

void dev_vm_interrupt(struct dev_vm *vm)
{
    atomic_store_explicit(&vm->interrupted, true, memory_order_relaxed);
}

void dev_vm_fault(const void *address)
{
    struct dev_vm *vm = dev_vm_current;
    if (vm == NULL || vm->abort_target == NULL || vm->away ||
        !base_guarded_hit(vm->heap, vm->heap_bytes, (uintptr_t)address)) {
        return;
    }
    dev_text_set(vm->out->type, sizeof(vm->out->type), BASE_STR("FaultError"));
    dev_text_set(vm->out->message, sizeof(vm->out->message),
                 BASE_STR("the VM left the script's heap"));
    dev_vm_stop(vm, DEV_VM_FAULT);
}

const char *dev_vm_end_name(enum dev_vm_end end)
{
    static const char *const names[DEV_VM_END_COUNT] = {
        [DEV_VM_FINISHED] = "finished",   [DEV_VM_LOAD] = "load",
        [DEV_VM_EXCEPTION] = "exception", [DEV_VM_BUDGET] = "budget",
        [DEV_VM_MEMORY] = "memory",       [DEV_VM_STACK] = "stack",
        [DEV_VM_FAULT] = "fault",
    };
    return (unsigned)end < DEV_VM_END_COUNT ? names[end] : "unknown";
}

enum wire_outcome_kind dev_vm_end_outcome(enum dev_vm_end end)
{
    switch (end) {
    case DEV_VM_FINISHED:
        return WIRE_OUTCOME_RAN;
    case DEV_VM_LOAD:
        return WIRE_OUTCOME_FAIL_LOAD;
    case DEV_VM_BUDGET:
        return WIRE_OUTCOME_FAIL_TIMEOUT;
    case DEV_VM_MEMORY:
        return WIRE_OUTCOME_FAIL_MEMORY;
    case DEV_VM_FAULT:
        return WIRE_OUTCOME_FAIL_CRASH;
    case DEV_VM_EXCEPTION:
    case DEV_VM_STACK:
    case DEV_VM_END_COUNT:
        break;
    }
    return WIRE_OUTCOME_FAIL_EXCEPTION;
}

static bool job_valid(const struct dev_vm_job *job)
{
    if (job->module_count > DEV_VM_MODULES_MAX || (job->module_count > 0 && job->modules == NULL)) {
        return false;
    }
    if (job->entry.size == 0 || job->entry.data == NULL || job->entry.size >= DEV_VM_FILE_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < job->module_count; i++) {
        const struct dev_vm_module *module = &job->modules[i];
        if (module->name.size == 0 || module->name.size >= DEV_VM_FILE_MAX ||
            module->name.data == NULL || module->mpy == NULL) {
            return false;
        }
    }
    if (job->event_count > DEV_VM_EVENTS_MAX || (job->event_count > 0 && job->events == NULL)) {
        return false;
    }
    if (job->model_count > DEV_VM_MODELS_MAX || (job->model_count > 0 && job->models == NULL)) {
        return false;
    }
    for (uint32_t i = 0; i < job->model_count; i++) {
        const struct dev_vm_model *model = &job->models[i];
        if (model->name.size == 0 || model->name.size > DEV_VM_MODEL_NAME_MAX ||
            model->name.data == NULL || (model->bytes == NULL && model->size > 0)) {
            return false;
        }
    }
    return job->attrs == NULL || job->attrs->count <= WIRE_ATTRS_MAX;
}

// An empty interpreter on an empty heap, or both as the image has them. Of an empty heap only the
// allocator's table is cleared.
static void interpreter_start(struct dev_vm *vm, void *stack_top)
{
    if (vm->warm) {
        dev_vm_image_restore(vm);
        MP_STATE_THREAD(nlr_top) = NULL;
    } else {
        memset(&mp_state_ctx, 0, sizeof(mp_state_ctx));
        gc_init(vm->heap, vm->heap + vm->heap_bytes);
    }
    mp_cstack_init_with_top(stack_top, (size_t)DEV_VM_STACK_KIB * 1024);
    dev_vm_heap_from = (uintptr_t)MP_STATE_MEM(area).gc_pool_start;
    dev_vm_heap_to = (uintptr_t)MP_STATE_MEM(area).gc_pool_end;
    vm->pool = MP_STATE_MEM(area).gc_pool_start;
}

size_t dev_vm_heap_bytes(void)
{
    const mp_state_mem_area_t *area = &MP_STATE_MEM(area);
    size_t whole = (size_t)(area->gc_pool_end - area->gc_pool_start);
    size_t used = (area->gc_last_used_block + 1) * MICROPY_BYTES_PER_GC_BLOCK;
    return used < whole ? used : whole;
}

static void heap_peak_note(struct dev_vm *vm)
{
    size_t used = dev_vm_heap_bytes();
    if (used > vm->heap_peak_bytes) {
        vm->heap_peak_bytes = (uint32_t)used;
    }
}

static __attribute__((noinline, no_sanitize("address"))) void stack_clear_some(void)
{
    uint8_t left[STACK_CLEARED];
    for (size_t at = 0; at < sizeof(left); at += sizeof(left) / 2) {
        memset(left + at, 0, sizeof(left) / 2);
    }
    __asm__ volatile("" : : "r"(left) : "memory");
}

static __attribute__((noinline, no_sanitize("address"))) void stack_clear_whole(void)
{
    uint8_t left[STACK_WHOLE];
    for (size_t at = 0; at < sizeof(left); at += sizeof(left) / 2) {
        memset(left + at, 0, sizeof(left) / 2);
    }
    __asm__ volatile("" : : "r"(left) : "memory");
}

// The collector takes what lies on the C stack for a use, also what calls before the run have left
// there: it shall find the same in each run. As deep as a script was since the last time.
static __attribute__((noinline, no_sanitize("address"))) void stack_clear(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (dev_vm_stack_low < here && here - dev_vm_stack_low > STACK_CLEARED - STACK_UNSEEN) {
        stack_clear_whole();
    } else {
        stack_clear_some();
    }
    dev_vm_stack_low = UINTPTR_MAX;
}

// The macros that read a function's head mix signs.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
// A frame for the entry module's function. It lies in the heap, so that an image can hold it.
static mp_code_state_t *frame_new(mp_obj_fun_bc_t *function)
{
    const byte *ip = function->bytecode;
    MP_BC_PRELUDE_SIG_DECODE(ip);
    size_t bytes = n_state * sizeof(mp_obj_t) + n_exc_stack * sizeof(mp_exc_stack_t);
    mp_code_state_t *frame = m_new_obj_var(mp_code_state_t, state, byte, bytes);
    frame->fun_bc = function;
    frame->n_state = (uint16_t)n_state;
    mp_setup_code_state(frame, 0, 0, NULL);
    frame->old_globals = mp_globals_get();
    return frame;
}
#pragma GCC diagnostic pop

// Executes the entry module's function, from its beginning or from where its frame is. Raises what
// the script raises. A call of its own: what lies below it was cleared.
static __attribute__((noinline)) void main_execute(mp_code_state_t *frame)
{
    stack_clear();
    dev_vm_stack_low = (uintptr_t)__builtin_frame_address(0); // a run without calls is here
    mp_vm_return_kind_t how = mp_execute_bytecode(frame, MP_OBJ_NULL);
    mp_globals_set(frame->old_globals);
    if (how == MP_VM_RETURN_EXCEPTION) {
        nlr_jump(MP_OBJ_TO_PTR(frame->state[0]));
    }
}

// The frame in which the entry module's function is to be executed; NULL: nothing is left to do.
static mp_code_state_t *main_begin(struct dev_vm *vm, mp_obj_t function)
{
    if (mp_obj_get_type(function) != &mp_type_fun_bc) { // a generator, which nobody goes through
        mp_call_function_0(function);
        return NULL;
    }
    mp_cstack_check();
    mp_code_state_t *frame = frame_new(MP_OBJ_TO_PTR(function));
    MP_STATE_VM(dev_vm_main) = frame;
    vm->main = frame;
    vm->main_first = frame->ip;
    return frame;
}

// Loads the entry module. What loading leaves on the stack and in registers is gone when it
// returns: the collector would keep for this run what it does not for one that begins warm.
static __attribute__((noinline)) mp_code_state_t *entry_load(struct dev_vm *vm,
                                                             const struct dev_vm_module *module)
{
    vm->loading = true;
    mp_init();
    mp_module_context_t *context = m_new_obj(mp_module_context_t);
    context->module.base.type = &mp_type_module;
    context->module.globals = mp_globals_get();
    mp_compiled_module_t compiled = {.context = context};
    mp_reader_t reader;
    mp_reader_new_mem(&reader, dev_vm_image_bytes(vm, module), module->size, MP_READER_IS_ROM);
    mp_raw_code_load(&reader, &compiled);
    mp_obj_t main = mp_make_function_from_proto_fun(compiled.rc, context, NULL);
    vm->loading = false;
    if (vm->load_only) {
        return NULL;
    }
    dev_vm_config_prepare(vm);
    return main_begin(vm, main);
}

// In a frame of its own, below `stack_top`: what it holds in registers and on the stack is what the
// collector scans.
static __attribute__((noinline)) void run_script(struct dev_vm *vm,
                                                 const struct dev_vm_module *module)
{
    nlr_buf_t nlr;
    vm->abort_target = &nlr;
    if (nlr_push(&nlr) == 0) {
        mp_code_state_t *frame = vm->warm ? vm->main : entry_load(vm, module);
        stack_clear();
        vm->restartable = frame != NULL;
        if (frame != NULL) {
            main_execute(frame);
        }
        nlr_pop();
        vm->restartable = false;
        vm->out->end = DEV_VM_FINISHED;
        return;
    }
    vm->restartable = false; // what shows the outcome is the same run
    if (nlr.ret_val == NULL) {
        vm->out->end = vm->stopped;
    } else {
        dev_vm_outcome_exception(vm, nlr.ret_val);
        if (vm->loading && vm->out->end == DEV_VM_EXCEPTION) {
            vm->out->end = DEV_VM_LOAD;
        }
    }
}

static void entry_missing(struct dev_vm *vm)
{
    struct dev_vm_result *out = vm->out;
    memset(out, 0, sizeof(*out));
    vm->again = false;
    vm->output_size = 0;
    vm->result_size = 0;
    vm->effect_count = 0;
    vm->heap_peak_bytes = 0;
    out->end = DEV_VM_LOAD;
    dev_text_set(out->type, sizeof(out->type), BASE_STR("LoadError"));
    dev_text_set(out->message, sizeof(out->message),
                 BASE_STR("the entry module is not among the modules"));
    dev_text_set(out->file, sizeof(out->file), vm->job->entry);
}

// How deep the script went: from where the interpreter's stack begins to the lowest of its frames
// that looked (mp_cstack_check), within what it may use.
static uint32_t stack_peak(void)
{
    uintptr_t top = (uintptr_t)MP_STATE_THREAD(stack_top);
    size_t used = dev_vm_stack_low < top ? top - dev_vm_stack_low : 0;
    size_t most = (size_t)DEV_VM_STACK_KIB * 1024;
    return (uint32_t)(used < most ? used : most);
}

// The run from its start, or from its content's image: to its end, or to where it has to begin anew
// (vm->again).
static void job_play(struct dev_vm *vm, const struct dev_vm_module *module, void *stack_top)
{
    memset(vm->out, 0, sizeof(*vm->out));
    vm->again = false;
    vm->stopped = DEV_VM_FINISHED;
    vm->heap_peak_bytes = 0;
    vm->output_size = 0;
    vm->result_size = 0;
    vm->effect_count = 0;
    vm->effect_size = 0;
    vm->store_quota = 0;
    vm->store_changed = false;
    vm->cloud_why = WIRE_CLOUD_COUNT;
    vm->cloud_decided = false;
    vm->cloud_compared = false;
    dev_vm_image_pick(vm);
    if (!vm->judged && !dev_vm_image_verified(vm) &&
        !(dev_vm_module_check(vm, module) && dev_vm_image_check(vm))) {
        return;
    }
    vm->judged = vm->judged && !vm->warm;
    dev_vm_current = vm;
    interpreter_start(vm, stack_top);
    run_script(vm, module);
    vm->abort_target = NULL;
    heap_peak_note(vm);
    vm->out->stack_peak_bytes = stack_peak();
    vm->heap_used = vm->heap_peak_bytes;
    if (vm->out->end == DEV_VM_FAULT) { // nothing that was in reach is used again
        dev_vm_images_free(vm);
        vm->image = NULL;
    }
    dev_vm_image_remember(vm);
    dev_vm_models_finish(vm);
    pool_leave(vm);
    dev_vm_current = NULL;
}

void dev_vm_model_begins(struct dev_vm *vm)
{
    if (vm->model_first_us == 0) {
        vm->model_first_us = base_clock_mono_us();
        vm->model_last_us = vm->model_first_us;
    }
}

void dev_vm_model_ends(struct dev_vm *vm)
{
    base_assert(vm->model_first_us != 0);
    vm->model_last_us = base_clock_mono_us();
}

// The three add up to the duration: what is left of it is behind the last call.
static void phases_finish(const struct dev_vm *vm, struct dev_vm_result *out)
{
    bool calls = vm->model_first_us != 0;
    out->prepare_us = calls ? vm->model_first_us - vm->started_us : out->duration_us;
    out->model_us = calls ? vm->model_last_us - vm->model_first_us : 0;
}

static __attribute__((noinline)) enum base_status job_run(struct dev_vm *vm,
                                                          const struct dev_vm_job *job,
                                                          bool load_only,
                                                          struct dev_vm_result *out_result)
{
    if (vm == NULL || job == NULL || out_result == NULL || !job_valid(job)) {
        return BASE_ERR_INVALID;
    }
    if (dev_vm_current != NULL) {
        return BASE_ERR_CONFLICT;
    }
    vm->job = job;
    vm->out = out_result;
    vm->load_only = load_only;
    vm->judged = false;
    vm->model_first_us = 0;
    dev_vm_budget_start(vm);

    const struct dev_vm_module *module = dev_vm_module_find(job, job->entry);
    if (module == NULL) {
        entry_missing(vm);
    } else {
        job_play(vm, module, __builtin_frame_address(0));
    }
    while (vm->again) {
        dev_vm_budget_again(vm);
        job_play(vm, module, __builtin_frame_address(0));
    }
    dev_text_clean(vm->output, vm->output_size);
    out_result->instructions = dev_vm_budget_used(vm);
    out_result->duration_us = base_clock_mono_us() - vm->started_us;
    phases_finish(vm, out_result);
    out_result->heap_peak_bytes = vm->heap_peak_bytes;
    out_result->output = (struct base_str){vm->output, vm->output_size};
    out_result->result = (struct base_str){vm->result, vm->result_size};
    dev_vm_effects_finish(vm);
    vm->job = NULL;
    vm->out = NULL;
    return BASE_OK;
}

enum base_status dev_vm_run(struct dev_vm *vm, const struct dev_vm_job *job,
                            struct dev_vm_result *out_result)
{
    stack_clear();
    return job_run(vm, job, false, out_result);
}

enum base_status dev_vm_load(struct dev_vm *vm, const struct dev_vm_job *job,
                             struct dev_vm_result *out_result)
{
    return job_run(vm, job, true, out_result);
}

// MicroPython calls this when the heap is full.
void gc_collect(void)
{
    dev_vm_outside(dev_vm_current); // it finds what it finds on the C stack
    heap_peak_note(dev_vm_current);
    gc_collect_start();
    gc_helper_collect_regs_and_stack();
    gc_collect_end();
}

// MicroPython calls this when something is raised outside every handler; run_script always has one.
_Noreturn void nlr_jump_fail(void *value)
{
    (void)value;
    base_check_failed(__FILE__, __LINE__, "exception outside a run");
}
