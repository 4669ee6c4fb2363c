// walle.file, walle.files, walle.blob and walle.blobs: bytes that a run is given by name.
#ifndef DEV_VM_GIVEN_H
#define DEV_VM_GIVEN_H

#include "py/obj.h"

extern const mp_obj_fun_builtin_fixed_t dev_vm_file_obj;
extern const mp_obj_fun_builtin_fixed_t dev_vm_files_obj;
extern const mp_obj_fun_builtin_fixed_t dev_vm_blob_obj;
extern const mp_obj_fun_builtin_fixed_t dev_vm_blobs_obj;

#endif
