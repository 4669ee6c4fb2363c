// The library of CUDA kernels, found with the dynamic loader when it is first asked for.
//
// Process-wide and never unloaded; from any thread.
#ifndef ENG_CUDA_LIBRARY_H
#define ENG_CUDA_LIBRARY_H

#include "backend/cuda/cuda_port.h"

#define ENG_CUDA_LIBRARY  "libwalle-engine-cuda.so"
#define ENG_CUDA_VARIABLE "WALLE_ENGINE_CUDA" // names another file

// NOT_FOUND: it is not there. UNSUPPORTED: it is of another version. The text says which file.
BASE_NODISCARD enum base_status eng_cuda_library(const struct eng_cuda_port **out_port,
                                                 struct base_error *error);

#endif
