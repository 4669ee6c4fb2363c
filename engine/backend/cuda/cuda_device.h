// The device "cuda": memory and steps of the library of CUDA kernels.
//
// Lifetime and threads: backend/run_device.h.
#ifndef ENG_CUDA_DEVICE_H
#define ENG_CUDA_DEVICE_H

#include "backend/cuda/cuda_port.h"
#include "backend/run_device.h"

struct eng_cuda_device {
    struct eng_device base; // first: one is cast to the other
    const struct eng_cuda_port *port;
    struct eng_cuda_stream *stream;
    struct eng_cuda_fault *faults;  // of the device
    struct eng_cuda_fault *fetched; // of the host
};

// NOT_FOUND: no library, or no GPU. NOMEM.
BASE_NODISCARD enum base_status eng_cuda_open(struct eng_device **out_device,
                                              struct base_error *error);

// Steps of the CUDA kernels; as eng_prepare_fn. UNSUPPORTED: no kernel for that.
BASE_NODISCARD enum base_status eng_cuda_prepare(const struct eng_prepare *ctx,
                                                 const struct eng_program *program,
                                                 const struct eng_command *command,
                                                 struct eng_step *out_step);
bool eng_cuda_takes(enum eng_atomic op);

#endif
