// A list of a model's weights that are on the device, by their address in the model. Sessions ask
// while they plan, from any thread; a lock lets one copy at a time. A list is enough: it is walked
// once for each constant of a plan.
#include "backend/device_weights.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>

struct copied {
    const void *identity;
    size_t bytes;
    void *at; // of the device
    struct copied *next;
};

struct eng_device_weights {
    struct eng_device *device;
    pthread_mutex_t lock;
    struct copied *first;
    size_t bytes;
};

enum base_status eng_device_weights_new(struct eng_device *device,
                                        struct eng_device_weights **out_weights)
{
    struct eng_device_weights *weights = calloc(1, sizeof *weights);
    if (weights == NULL) {
        return BASE_ERR_NOMEM;
    }
    weights->device = device;
    pthread_mutex_init(&weights->lock, NULL);
    *out_weights = weights;
    return BASE_OK;
}

void eng_device_weights_free(struct eng_device_weights *weights)
{
    if (weights == NULL) {
        return;
    }
    while (weights->first != NULL) {
        struct copied *one = weights->first;
        weights->first = one->next;
        weights->device->memory->release(weights->device, one->at);
        free(one);
    }
    eng_device_close(weights->device);
    pthread_mutex_destroy(&weights->lock);
    free(weights);
}

static enum base_status copy(struct eng_device_weights *weights, const struct eng_tensor *tensor,
                             struct copied *one, struct base_error *error)
{
    struct eng_device *device = weights->device;
    uint32_t command = 0;
    BASE_TRY(device->memory->allocate(device, one->bytes, &one->at, error));
    enum base_status status =
        device->memory->upload(device, one->at, tensor->data, one->bytes, error);
    if (status == BASE_OK) {
        status = device->memory->sync(device, NULL, &command, error);
    }
    if (status != BASE_OK) {
        device->memory->release(device, one->at);
    }
    return status;
}

static enum base_status find_or_copy(struct eng_device_weights *weights,
                                     const struct eng_tensor *tensor, void **out,
                                     struct base_error *error)
{
    const size_t bytes = eng_desc_bytes(&tensor->desc);
    base_assert(weights->device != NULL);
    for (const struct copied *one = weights->first; one != NULL; one = one->next) {
        if (one->identity == tensor->identity && one->bytes == bytes) {
            *out = one->at;
            return BASE_OK;
        }
    }
    struct copied *one = calloc(1, sizeof *one);
    if (one == NULL) {
        return BASE_ERR_NOMEM;
    }
    one->identity = tensor->identity;
    one->bytes = bytes;
    enum base_status status = copy(weights, tensor, one, error);
    if (status != BASE_OK) {
        free(one);
        return status;
    }
    one->next = weights->first;
    weights->first = one;
    weights->bytes += bytes;
    *out = one->at;
    return BASE_OK;
}

enum base_status eng_device_weights_get(struct eng_device_weights *weights,
                                        const struct eng_tensor *tensor, void **out,
                                        struct base_error *error)
{
    base_assert(tensor->identity != NULL && tensor->data != NULL);
    pthread_mutex_lock(&weights->lock);
    enum base_status status = find_or_copy(weights, tensor, out, error);
    pthread_mutex_unlock(&weights->lock);
    return status;
}

size_t eng_device_weights_bytes(struct eng_device_weights *weights)
{
    pthread_mutex_lock(&weights->lock);
    const size_t bytes = weights->bytes;
    pthread_mutex_unlock(&weights->lock);
    return bytes;
}
