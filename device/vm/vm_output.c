// Output of a script: print() and walle.log() land in a bounded buffer of the VM. Called by
// MicroPython's printing, on the VM's thread.
#include "vm/vm_state.h"

#include "py/mphal.h"

#include <string.h>

void dev_vm_output_add(struct dev_vm *vm, const char *text, size_t size)
{
    if (vm->out->output_cut) {
        return;
    }
    size_t room = DEV_VM_OUTPUT_MAX - vm->output_size;
    if (size > room) {
        vm->out->output_cut = true;
        size = room;
        while (size > 0 && ((uint8_t)text[size] & 0xC0) == 0x80) {
            size--; // not in the middle of a character
        }
    }
    memcpy(vm->output + vm->output_size, text, size);
    vm->output_size += size;
}

void mp_hal_stdout_tx_strn_cooked(const char *text, size_t size)
{
    dev_vm_output_add(dev_vm_current, text, size);
}
