// The hardware layer MicroPython expects of a port: on Walle there is none, only output (see
// vm_output.c).
#ifndef DEV_VM_MPHALPORT_H
#define DEV_VM_MPHALPORT_H

#include <stddef.h>

#define mp_hal_pin_obj_t

#endif
