// The limits of port/vm_scopes.h: counts of a scope against what the head of a function can say.
// Called by MicroPython's compiler, on its thread; pure. The head has 7 bits for how many variables
// become cells and a byte for each one's place, 9 for arguments by place, 7 for those by name and
// for default values, and the instruction that makes a closure a byte for how many it gets. The
// compiler itself only asserts some of it.
#include "vm_scopes.h"

#include "vm/mpy/mpy_check.h"

#include "base/check.h"

_Static_assert(DEV_VM_CELLS_MAX == 127 && DEV_VM_CELL_PLACE_MAX == 255 &&
                   DEV_VM_CAPTURED_MAX == 255 && DEV_VM_PLACED_MAX == 511 &&
                   DEV_VM_NAMED_MAX == 127 && DEV_VM_DEFAULTS_MAX == 127 &&
                   DEV_MPY_BLOCKS_MAX == 127 && DEV_MPY_STATE_MAX == 4095,
               "the texts below say so");

static const char *arguments_excess(const scope_t *scope)
{
    if (scope->num_pos_args > DEV_VM_PLACED_MAX) {
        return "a function with over 511 arguments and variables from around it";
    }
    if (scope->num_kwonly_args > DEV_VM_NAMED_MAX) {
        return "a function with over 127 keyword-only arguments";
    }
    return scope->num_def_pos_args > DEV_VM_DEFAULTS_MAX
               ? "a function with over 127 arguments that have default values"
               : NULL;
}

const char *dev_vm_scope_excess(const scope_t *scope)
{
    base_assert(scope->id_info_len <= scope->id_info_alloc);
    size_t cells = 0;
    size_t captured = 0;
    size_t last = 0;
    for (size_t i = 0; i < scope->id_info_len; i++) {
        const id_info_t *id = &scope->id_info[i];
        cells += id->kind == ID_INFO_KIND_CELL ? 1 : 0;
        captured += id->kind == ID_INFO_KIND_FREE ? 1 : 0;
        last = id->kind == ID_INFO_KIND_CELL && id->local_num > last ? id->local_num : last;
    }
    if (cells > DEV_VM_CELLS_MAX) {
        return "a function with over 127 variables that functions in it use";
    }
    if (last > DEV_VM_CELL_PLACE_MAX) {
        return "a function with over 256 variables and functions in it that use some";
    }
    return captured > DEV_VM_CAPTURED_MAX
               ? "a function that uses over 255 variables of those around it"
               : arguments_excess(scope);
}

const char *dev_vm_scope_too_deep(const scope_t *scope)
{
    if (scope->exc_stack_size > DEV_MPY_BLOCKS_MAX) {
        return "over 127 try and with blocks in one another";
    }
    return scope->num_locals + scope->stack_size > DEV_MPY_STATE_MAX
               ? "a function with over 4095 variables and values at a time"
               : NULL;
}
