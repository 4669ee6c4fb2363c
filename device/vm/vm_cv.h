// walle.cv, as the rest of the VM uses it. The module's own files share cv/cv.h.
#ifndef DEV_VM_CV_H
#define DEV_VM_CV_H

#include "py/objmodule.h"

extern const mp_obj_module_t dev_vm_module_cv;

#endif
