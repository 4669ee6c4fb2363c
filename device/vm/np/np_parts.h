// walle.np: the modules within it.
#ifndef DEV_NP_PARTS_H
#define DEV_NP_PARTS_H

#include "py/objmodule.h"

extern const mp_obj_module_t dev_np_module_fft;    // np_fft.c
extern const mp_obj_module_t dev_np_module_linalg; // np_linalg.c
extern const mp_obj_module_t dev_np_module_random; // np_random.c

#endif
