// walle.cloud: calls of models in the cloud.
#ifndef DEV_VM_CLOUD_H
#define DEV_VM_CLOUD_H

#include "vm/vm.h"

#include "py/obj.h"
#include "py/objmodule.h"

extern const mp_obj_module_t dev_vm_module_cloud;

// --- vm_decide.c
// decide(confidence, rule, model=None, battery=None, metered=False, spent=0)
extern const mp_obj_fun_builtin_var_t dev_vm_decide_obj;

#endif
