// What MicroPython's own files need to know of Walle's budgets: the counter in the interpreter
// loop. Included by mpconfigport.h, so it may use nothing of MicroPython.
#ifndef DEV_VM_HOOKS_H
#define DEV_VM_HOOKS_H

#include <stdint.h>

struct _mp_code_state_t;

// Budget units until the next look at the clock, the instruction limit and the interrupt flag. One
// unit is one jump or one call. Belongs to the run under way on this thread.
extern _Thread_local uint32_t dev_vm_units_left;

// Called when the counter reaches zero. Returns with the counter set anew, or ends the run by
// jumping out of the interpreter. `code_state` (NULL: not known) says where the script is.
void dev_vm_budget_spent(const struct _mp_code_state_t *code_state);

// Sanitized builds: the program ends when the interpreter is about to work outside its operand
// stack or its exception stack, which no verified bytecode can make it do.
#ifdef DEV_VM_SANITIZED
void dev_vm_bounds_check(const struct _mp_code_state_t *code_state, const void *top,
                         const void *block_top);
#define DEV_VM_BOUNDS_CHECK() dev_vm_bounds_check(code_state, sp, exc_sp)
#else
#define DEV_VM_BOUNDS_CHECK()
#endif

#endif
