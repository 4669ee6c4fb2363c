// Exclusive files of the simulate stage: which virtual devices have some, and the answers to those
// who ask (GET /v1/exclusive/...).
//
// Virtual devices stand in for the subjects of the version. The first ones of the fleet have the
// ids of the devices it has files for; of the others a share, drawn from their ids, belongs to one
// of its users each. As at a gateway a device gets its own leaf, or else its user's, and who has
// neither gets 404, as a real device does that nobody bound. One shard owns one of these.
#ifndef SIM_SIM_EXCLUSIVE_H
#define SIM_SIM_EXCLUSIVE_H

#include "ports/content_store.h"
#include "ports/sim_transport.h"
#include "wire/trust/exclusive_files.h"

#define SIM_SUBJECTS_MAX 500 // of each kind that devices stand in for; of more, evenly chosen ones

struct sim_subject {
    uint64_t device_id; // of kind DEVICE
    uint8_t proof[WIRE_PROOF_BYTES_MAX];
    uint32_t proof_bytes;
    uint32_t name_count;
    struct wire_sha256
        names[1 + WIRE_EXCLUSIVE_FILES_MAX]; // its exclusive manifest, then its files
};

struct sim_exclusive {
    struct sim_subject *devices; // ascending by id
    struct sim_subject *users;
    uint32_t device_count;
    uint32_t user_count;
    uint32_t share_ppm; // of the devices without an id of a subject
    struct wire_sha256 root;
    char root_hex[WIRE_SHA256_HEX + 1];
};

// The id that device `number` of the fleet takes. False: its own.
bool sim_exclusive_id(const struct sim_exclusive *exclusive, uint32_t number, uint64_t *out_id);
// What the device has; NULL: nothing.
const struct sim_subject *sim_exclusive_of(const struct sim_exclusive *exclusive,
                                           uint64_t device_id);
// May the device have content of this name beside the shared one?
bool sim_exclusive_owns(const struct sim_exclusive *exclusive, uint64_t device_id,
                        const struct wire_sha256 *name);
// Fills status, range and body of the exchange.
void sim_exclusive_answer(const struct sim_exclusive *exclusive, struct sim_store *store,
                          const struct dev_request *request, struct sim_exchange *exchange);

#endif
