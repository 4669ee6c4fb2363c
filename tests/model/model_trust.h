// What a device with a root believes, and what it may not follow therefore: the other half of what
// a restored copy of a gateway's folder promises (docs/OPERATIONS.md, "An older copy"). Read from
// the device's own timestamp and snapshots and from what the gateway publishes; the rules are
// written out here once more (docs/PROTOCOL.md, section 12). Between two visits.
#ifndef MODEL_TRUST_H
#define MODEL_TRUST_H

#include "model_device.h"

// An approval, as a director's answer names it.
struct model_order {
    int task;
    int version;
    uint64_t counter;
    uint32_t signers; // a mask of keys
};

// Why it does not follow the order now. FOLLOWS: nothing is in the way.
enum model_trust {
    MODEL_TRUST_FOLLOWS,
    MODEL_TRUST_UNSIGNED, // too few keys of the newest root it has signed it
    MODEL_TRUST_OLDER,    // the gateway's timestamp is not above its own, or a snapshot it names is
    MODEL_TRUST_UNKNOWN,  // its snapshot does not list the order, or its timestamp kills it
    MODEL_TRUST_LATE      // by its clock they ran out
};

// Always FOLLOWS without a root.
enum model_trust model_trust_of(const struct model_device *device, const struct model_order *order);
uint64_t model_trust_root(const struct model_device *device); // version; 0: it has none
// Of the timestamp that the device holds; 0: none.
uint64_t model_trust_timestamp(const struct model_device *device);

#endif
