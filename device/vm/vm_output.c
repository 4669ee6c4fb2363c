// Output of a script: print() and walle.log() land in a bounded buffer of the VM
// (DEV_VM_OUTPUT_MAX). Called by MicroPython's printing, on the VM's thread. What is printed when
// it is full is counted, and so is all behind it, so that what is kept is a beginning without
// holes; it is cut between characters. The compiler library has a stub of the same name instead.
#include "vm/vm_state.h"
#include "vm/mpy/vm_text.h"

#include "base/text/str_cut.h"
#include "py/mphal.h"

#include <string.h>

void dev_vm_output_add(struct dev_vm *vm, const char *text, size_t size)
{
    dev_vm_outside(vm);
    size_t room = vm->out->output_cut > 0 ? 0 : DEV_VM_OUTPUT_MAX - vm->output_size;
    size_t fits = base_str_fit((struct base_str){text, size}, room);
    vm->out->output_cut += size - fits; // and what comes behind it, too
    memcpy(vm->output + vm->output_size, text, fits);
    vm->output_size += fits;
}

void mp_hal_stdout_tx_strn_cooked(const char *text, size_t size)
{
    dev_vm_output_add(dev_vm_current, text, size);
}
