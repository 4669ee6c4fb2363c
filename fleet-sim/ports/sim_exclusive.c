// Who has which exclusive files in the simulate stage. Called by the responder in the same process
// and by the shard; everything happens on the shard's thread. sim_local.c asks for an answer to a
// path under /v1/exclusive/, fleet_device.c asks whether the exclusive files that a run was given
// are the device's own. Whether a device is bound to a user, and to which, is drawn from its id
// alone: nothing is kept for each device.
#include "ports/sim_exclusive.h"

#include "base/hash.h"

#include <string.h>

#define PREFIX     "/v1/exclusive/"
#define BOUND_SEED 1u // does the device belong to a user?
#define USER_SEED  2u // ... and to which?
#define MILLION    1000000u

bool sim_exclusive_id(const struct sim_exclusive *exclusive, uint32_t number, uint64_t *out_id)
{
    if (number >= exclusive->device_count) {
        return false;
    }
    *out_id = exclusive->devices[number].device_id;
    return true;
}

static const struct sim_subject *device_of(const struct sim_exclusive *exclusive, uint64_t id)
{
    uint32_t from = 0;
    uint32_t to = exclusive->device_count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (exclusive->devices[middle].device_id == id) {
            return &exclusive->devices[middle];
        }
        if (exclusive->devices[middle].device_id < id) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return NULL;
}

const struct sim_subject *sim_exclusive_of(const struct sim_exclusive *exclusive,
                                           uint64_t device_id)
{
    const struct sim_subject *own = device_of(exclusive, device_id);
    if (own != NULL || exclusive->user_count == 0) {
        return own;
    }
    uint64_t bound = base_hash64_seed(&device_id, sizeof(device_id), BOUND_SEED);
    uint64_t user = base_hash64_seed(&device_id, sizeof(device_id), USER_SEED);
    return (bound >> 32) * MILLION >> 32 < exclusive->share_ppm
               ? &exclusive->users[user % exclusive->user_count]
               : NULL;
}

static bool subject_has(const struct sim_subject *subject, const struct wire_sha256 *name)
{
    for (uint32_t i = 0; i < subject->name_count; i++) {
        if (wire_sha256_equal(&subject->names[i], name)) {
            return true;
        }
    }
    return false;
}

bool sim_exclusive_owns(const struct sim_exclusive *exclusive, uint64_t device_id,
                        const struct wire_sha256 *name)
{
    const struct sim_subject *subject = sim_exclusive_of(exclusive, device_id);
    return subject != NULL && subject_has(subject, name);
}

// The subject that asks, when the path is about this tree; *out_rest is what follows the root.
static const struct sim_subject *asker(const struct sim_exclusive *exclusive,
                                       const struct dev_request *request, struct base_str *out_rest)
{
    uint8_t id[sizeof(uint64_t)];
    struct base_str path = request->path;
    size_t head = sizeof(PREFIX) - 1 + WIRE_SHA256_HEX;
    if (path.size < head || memcmp(path.data, PREFIX, sizeof(PREFIX) - 1) != 0 ||
        memcmp(path.data + sizeof(PREFIX) - 1, exclusive->root_hex, WIRE_SHA256_HEX) != 0 ||
        base_hex_decode(request->device, id, sizeof(id)) != BASE_OK) {
        return NULL;
    }
    uint64_t device_id = 0;
    for (size_t i = 0; i < sizeof(id); i++) {
        device_id = device_id << 8 | id[i];
    }
    *out_rest = (struct base_str){path.data + head, path.size - head};
    return sim_exclusive_of(exclusive, device_id);
}

void sim_exclusive_answer(const struct sim_exclusive *exclusive, struct sim_store *store,
                          const struct dev_request *request, struct sim_exchange *exchange)
{
    struct base_str rest = {NULL, 0};
    struct wire_sha256 name;
    const struct sim_subject *subject = asker(exclusive, request, &rest);
    exchange->status = 404;
    if (subject == NULL) {
        return;
    }
    if (rest.size == 0) {
        exchange->status = 200;
        exchange->body = subject->proof;
        exchange->body_bytes = subject->proof_bytes;
        return;
    }
    struct base_str hex = {rest.data + 1, rest.size - 1};
    if (rest.data[0] != '/' || wire_sha256_parse(hex, &name) != BASE_OK ||
        !subject_has(subject, &name)) {
        return;
    }
    const struct sim_blob *blob = sim_store_find(store, &name);
    if (blob != NULL && request->range_from <= blob->size) {
        exchange->status = request->range_from > 0 ? 206 : 200;
        exchange->range_from = request->range_from;
        exchange->body = blob->bytes + request->range_from;
        exchange->body_bytes = blob->size - (size_t)request->range_from;
    }
}
