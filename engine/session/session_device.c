// The session's device: opened when the session is made, by the name its options or the environment
// give, with the model's weights on it, which its sessions share. Called by session.c on the
// caller's thread. A session without one works in the host's memory.
#include "session/session_device.h"

#include "backend/run_device.h"
#include "backend/cuda/cuda_device.h"
#include "backend/device_weights.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_VARIABLE "WALLE_ENGINE_DEVICE"

// The model's weights on the device; whoever comes first makes them.
static enum base_status share_weights(struct eng_model *model, struct base_error *error)
{
    struct eng_device *device = NULL;
    if (__atomic_load_n(&model->device_weights, __ATOMIC_ACQUIRE) != NULL) {
        return BASE_OK;
    }
    struct eng_device_weights *fresh = NULL, *none = NULL;
    BASE_TRY(eng_cuda_open(&device, error));
    if (eng_device_weights_new(device, &fresh) != BASE_OK) {
        eng_device_close(device);
        return BASE_ERR_NOMEM;
    }
    if (!__atomic_compare_exchange_n(&model->device_weights, &none, fresh, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        eng_device_weights_free(fresh); // another session was faster
    }
    return BASE_OK;
}

enum base_status eng_session_device_open(struct eng_session *session, struct base_error *error)
{
    base_assert(session->device == NULL);
    const char *name = session->options.device;
    if (name == NULL || name[0] == '\0') {
        name = getenv(DEVICE_VARIABLE);
    }
    if (name == NULL || name[0] == '\0' || strcmp(name, "cpu") == 0) {
        return BASE_OK;
    }
    if (strcmp(name, "cuda") != 0) {
        return base_error_set(error, BASE_ERR_INVALID, "device '%s': there are cpu and cuda", name);
    }
    BASE_TRY(eng_cuda_open(&session->device, error));
    return share_weights(session->model, error);
}
