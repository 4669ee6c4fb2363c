// A device with memory of its own, as sessions see it. Backends that work on the host's memory have
// none: where a session's device is NULL, tensors lie in plain memory and nothing is copied.
//
// Lifetime: the session's that opened it (the model's weights have one of their own). One thread at
// a time. What is begun is done in order; `sync` waits for it.
#ifndef ENG_BACKEND_RUN_DEVICE_H
#define ENG_BACKEND_RUN_DEVICE_H

#include "backend/backend.h"

struct eng_recording; // the backend's

// Addresses called `at`, `to` or `from` of the device must not be read by the host.
// Errors: NOMEM, or IO with a text.
struct eng_memory {
    enum base_status (*allocate)(struct eng_device *device, size_t bytes, void **out,
                                 struct base_error *error); // at multiples of 64
    void (*release)(struct eng_device *device, void *at);   // accepts NULL
    // Of the host, where copies to and from the device are fast.
    enum base_status (*allocate_host)(struct eng_device *device, size_t bytes, void **out,
                                      struct base_error *error);
    void (*release_host)(struct eng_device *device, void *at); // accepts NULL
    // `from` must stay as it is, and `to` is not written yet, until `sync`.
    enum base_status (*upload)(struct eng_device *device, void *to, const void *from, size_t bytes,
                               struct base_error *error);
    enum base_status (*download)(struct eng_device *device, void *to, const void *from,
                                 size_t bytes, struct base_error *error);
    // INVALID: a step met contents out of range; *out_command is the number of its command.
    enum base_status (*sync)(struct eng_device *device, const struct eng_program *program,
                             uint32_t *out_command, struct base_error *error);
    // What is begun between both is noted instead of done; `replay` begins all of it at once, with
    // the addresses it was noted with. `recorded` follows every `record` that succeeded, also where
    // something failed in between.
    enum base_status (*record)(struct eng_device *device, struct base_error *error);
    enum base_status (*recorded)(struct eng_device *device, struct eng_recording **out_recording,
                                 struct base_error *error);
    enum base_status (*replay)(struct eng_device *device, struct eng_recording *recording,
                               struct base_error *error);
    void (*forget)(struct eng_device *device, struct eng_recording *recording); // accepts NULL
};

struct eng_device {
    const char *name; // "cuda"
    const struct eng_memory *memory;
    eng_prepare_fn prepare;
    void (*close)(struct eng_device *device);
};

static inline void eng_device_close(struct eng_device *device) // accepts NULL
{
    if (device != NULL) {
        device->close(device);
    }
}

#endif
