// A model's weights on a device, copied once and shared by its sessions.
//
// Lifetime: the model's; made by the first session on a device. Locks itself.
#ifndef ENG_BACKEND_DEVICE_WEIGHTS_H
#define ENG_BACKEND_DEVICE_WEIGHTS_H

#include "backend/run_device.h"

struct eng_device_weights;

// Takes over the device, whose stream is for these copies alone. NOMEM: it is the caller's still.
BASE_NODISCARD enum base_status eng_device_weights_new(struct eng_device *device,
                                                       struct eng_device_weights **out_weights);
void eng_device_weights_free(struct eng_device_weights *weights); // accepts NULL
// Where the weights at `identity` (eng_tensor.identity) lie on the device; copied by the first
// caller. NOMEM, IO.
BASE_NODISCARD enum base_status eng_device_weights_get(struct eng_device_weights *weights,
                                                       const struct eng_tensor *tensor, void **out,
                                                       struct base_error *error);
size_t eng_device_weights_bytes(struct eng_device_weights *weights);

#endif
