// Budgets: every jump and every call costs a unit; every DEV_VM_UNITS_SLICE units the clock, the
// instruction limit and the interrupt flag are looked at. A run over its budget is ended by a jump
// to the run's own handler, past every `except` and `finally` of the script, so a script cannot
// keep itself alive. The C stack check lives here too, since it is called at every call and at
// every step of the loops that MicroPython runs in C. Runs on the VM's thread.
#include "vm/vm_state.h"
#include "vm/mpy/vm_text.h"

#include "base/ckd.h"
#include "base/clock.h"

#include "py/bc.h"
#include "py/cstack.h"
#include "py/nlr.h"
#include "py/objfun.h"
#include "py/runtime.h"

#include "vm_hooks.h"

#include <stdio.h>
#include <string.h>

#define UNITS_OUTSIDE_RUN UINT32_MAX
// A run found over its budget inside a call gets this many more units, one by one, to reach a jump
// of the script, where its line is known.
#define POSITION_TRIES 64
// A step of the collector is 4,096 blocks of the heap looked at.
#define GC_STEP_UNITS  64
#define GC_STEPS_SLICE 256 // between two looks at the clock while a collection is under way

_Thread_local uint32_t dev_vm_units_left = UNITS_OUTSIDE_RUN;
_Thread_local uint32_t dev_vm_quiet_left = DEV_VM_UNITS_SLICE;
_Thread_local uintptr_t dev_vm_heap_from;
_Thread_local uintptr_t dev_vm_heap_to;
const char dev_vm_origin = 0;

static void slice_grant(struct dev_vm *vm)
{
    uint64_t most = DEV_VM_UNITS_SLICE;
    uint64_t limit = vm->job->instruction_max;
    if (limit != 0 && limit - vm->units_used < most) {
        most = limit - vm->units_used;
    }
    vm->units_granted = (uint32_t)most;
    dev_vm_units_left = (uint32_t)most;
}

void dev_vm_budget_start(struct dev_vm *vm)
{
    uint32_t time_ms = vm->job->time_ms != 0 ? vm->job->time_ms : DEV_VM_TIME_MS_DEFAULT;
    vm->started_us = base_clock_mono_us();
    vm->deadline_us = vm->started_us + (uint64_t)time_ms * 1000;
    vm->units_used = 0;
    vm->position_tries = 0;
    vm->gc_steps = 0;
    atomic_store_explicit(&vm->interrupted, false, memory_order_relaxed);
    slice_grant(vm);
}

void dev_vm_budget_again(struct dev_vm *vm)
{
    vm->position_tries = 0;
    vm->gc_steps = 0;
    dev_vm_budget_resume(vm, 0);
}

void dev_vm_budget_resume(struct dev_vm *vm, uint64_t units)
{
    vm->units_used = units;
    slice_grant(vm);
}

uint32_t dev_vm_budget_suspend(struct dev_vm *vm)
{
    uint32_t left = dev_vm_units_left;
    vm->units_used += vm->units_granted - left;
    vm->units_granted = 0;
    dev_vm_units_left = UNITS_OUTSIDE_RUN;
    return left;
}

void dev_vm_budget_continue(struct dev_vm *vm, uint32_t left)
{
    vm->units_granted = left;
    dev_vm_units_left = left;
}

uint64_t dev_vm_budget_used(const struct dev_vm *vm)
{
    return vm->units_used + vm->units_granted - dev_vm_units_left;
}

// The macros that read a function's head mix signs.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
// Where the script is, as in the traceback of an exception.
static void position_set(struct dev_vm *vm, const struct _mp_code_state_t *code_state)
{
    const byte *ip = code_state->fun_bc->bytecode;
    MP_BC_PRELUDE_SIG_DECODE(ip);
    MP_BC_PRELUDE_SIZE_DECODE(ip);
    const byte *line_info_top = ip + n_info;
    const byte *opcodes = ip + n_info + n_cell;
    for (size_t i = 0; i < 1 + n_pos_args + n_kwonly_args; i++) {
        ip = mp_decode_uint_skip(ip);
    }
    qstr file = code_state->fun_bc->context->constants.qstr_table[0];
    size_t line =
        mp_bytecode_get_source_line(ip, line_info_top, (size_t)(code_state->ip - opcodes));
    dev_text_set(vm->out->file, sizeof(vm->out->file), base_str_of(qstr_str(file)));
    vm->out->line = (uint32_t)line;
}
#pragma GCC diagnostic pop

_Noreturn void dev_vm_stop(struct dev_vm *vm, enum dev_vm_end end)
{
    vm->stopped = end;
    vm->units_used += vm->units_granted - dev_vm_units_left;
    vm->units_granted = 0;
    dev_vm_units_left = 0; // wraps at the next unit: what shows the outcome is not stopped again
    MP_STATE_THREAD(nlr_top) = vm->abort_target;
    nlr_jump(NULL);
}

// Why the run has to end now; false: it has not.
static bool over_budget(const struct dev_vm *vm, char *message, size_t size)
{
    uint64_t limit = vm->job->instruction_max;
    if (limit != 0 && vm->units_used >= limit) {
        (void)snprintf(message, size, "instruction budget of %llu used up",
                       (unsigned long long)limit);
    } else if (atomic_load_explicit(&vm->interrupted, memory_order_relaxed)) {
        (void)snprintf(message, size, "interrupted");
    } else if (base_clock_mono_us() >= vm->deadline_us) {
        (void)snprintf(message, size, "time budget of %llu ms used up",
                       (unsigned long long)((vm->deadline_us - vm->started_us) / 1000));
    } else {
        return false;
    }
    return true;
}

static _Noreturn void budget_end(struct dev_vm *vm, const char *message,
                                 const struct _mp_code_state_t *code_state)
{
    dev_text_set(vm->out->type, sizeof(vm->out->type), BASE_STR("BudgetError"));
    dev_text_set(vm->out->message, sizeof(vm->out->message), base_str_of(message));
    if (code_state != NULL) {
        position_set(vm, code_state);
    }
    dev_vm_stop(vm, DEV_VM_BUDGET);
}

void dev_vm_budget_spent(const struct _mp_code_state_t *code_state)
{
    struct dev_vm *vm = dev_vm_current;
    if (vm == NULL) {
        dev_vm_units_left = UNITS_OUTSIDE_RUN;
        return;
    }
    vm->units_used += vm->units_granted;
    vm->units_granted = 0;
    char message[DEV_VM_MESSAGE_MAX];
    if (!over_budget(vm, message, sizeof(message))) {
        slice_grant(vm);
        return;
    }
    if (code_state == NULL && vm->position_tries < POSITION_TRIES) {
        vm->position_tries++;
        vm->units_granted = 1;
        dev_vm_units_left = 1;
        return;
    }
    budget_end(vm, message, code_state);
}

// The run looks at the clock at its next unit.
static void look_next(struct dev_vm *vm)
{
    vm->units_used += vm->units_granted - dev_vm_units_left;
    vm->units_granted = 1;
    dev_vm_units_left = 1;
}

void dev_vm_work_long(uint64_t units)
{
    struct dev_vm *vm = dev_vm_current;
    if (vm == NULL) {
        dev_vm_units_left = UNITS_OUTSIDE_RUN;
        return;
    }
    if (vm->units_granted == 0) {
        return; // stopped: what shows the outcome is not stopped again
    }
    look_next(vm);
    vm->units_used = base_sat_add_u64(vm->units_used, units);
    // A run that is over may not do much more on its way to a line of the script.
    uint64_t tries = 1 + units / DEV_VM_UNITS_SLICE;
    if (vm->position_tries > 0) {
        uint64_t left = POSITION_TRIES - vm->position_tries;
        vm->position_tries += (uint32_t)(tries < left ? tries : left);
    }
}

void dev_vm_quiet_spent(void)
{
    dev_vm_quiet_left = DEV_VM_UNITS_SLICE;
    struct dev_vm *vm = dev_vm_current;
    if (vm != NULL && vm->units_granted != 0) {
        look_next(vm);
    }
}

void dev_vm_gc_step(void)
{
    dev_vm_quiet(GC_STEP_UNITS);
    struct dev_vm *vm = dev_vm_current;
    if (vm == NULL || vm->units_granted == 0 || ++vm->gc_steps % GC_STEPS_SLICE != 0) {
        return;
    }
    char message[DEV_VM_MESSAGE_MAX];
    if (over_budget(vm, message, sizeof(message))) {
        budget_end(vm, message, NULL); // the heap is half marked: nothing may use it any more
    }
}

bool dev_vm_budget_charge(uint64_t units)
{
    struct dev_vm *vm = dev_vm_current;
    uint32_t tries = vm->position_tries;
    vm->units_used += vm->units_granted - dev_vm_units_left;
    vm->units_used = base_sat_add_u64(vm->units_used, units);
    vm->units_granted = 0;
    dev_vm_units_left = 0;
    dev_vm_budget_spent(NULL);
    return vm->position_tries != tries;
}

_Noreturn void dev_vm_over_budget(void)
{
    mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("budget used up"));
}

uint64_t dev_vm_budget_left(const struct dev_vm *vm)
{
    uint64_t limit = vm->job->instruction_max;
    uint64_t used = dev_vm_budget_used(vm);
    return limit == 0 ? UINT64_MAX : used < limit ? limit - used : 0;
}

// --- what py/cstack.c would define

mp_uint_t mp_cstack_usage(void)
{
    return (mp_uint_t)(MP_STATE_THREAD(stack_top) - (char *)__builtin_frame_address(0));
}

void mp_cstack_check(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (here < dev_vm_stack_low) {
        dev_vm_stack_low = here;
    }
    if (mp_cstack_usage() >= MP_STATE_THREAD(stack_limit)) {
        mp_raise_recursion_depth();
    }
    dev_vm_step();
}
