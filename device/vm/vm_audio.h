// walle.audio, as the rest of the VM uses it: the module. Its own files share audio/audio.h.
#ifndef DEV_VM_AUDIO_H
#define DEV_VM_AUDIO_H

#include "py/objmodule.h"

extern const mp_obj_module_t dev_vm_module_audio;

#endif
