// Fuzzing builds only: the interpreter's stacks at run time against what the function's head
// declares. Address sanitizers cannot see a slot too many, because both stacks lie in one object.
// Called before each instruction, on the VM's thread.
#include "vm/vm_state.h"

#include "base/check.h"

#include "py/bc.h"
#include "py/objfun.h"

#ifdef DEV_VM_BOUNDS
void dev_vm_bounds_check(const struct _mp_code_state_t *code_state, const void *top,
                         const void *block_top)
{
    const uint8_t *ip = code_state->fun_bc->bytecode;
    uint8_t byte = *ip++;
    size_t n_exc_stack = (byte >> 2) & 1;
    for (unsigned n = 0; (byte & 0x80) != 0; n++) {
        byte = *ip++;
        n_exc_stack |= (size_t)(byte & 2) << n;
    }
    size_t n_state = code_state->n_state;
    const mp_obj_t *sp = top;
    const mp_obj_t *state = code_state->state;
    const mp_exc_stack_t *block = block_top;
    const mp_exc_stack_t *blocks = (const mp_exc_stack_t *)(state + n_state);
    base_check(sp + 1 >= state);
    base_check(sp - state < (ptrdiff_t)n_state);
    base_check(block + 1 >= blocks && block - blocks < (ptrdiff_t)n_exc_stack);
}
#endif
