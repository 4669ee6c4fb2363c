// Exclusive files for the device rig: every version added after personal_rig_init has a tree of
// three leaves, and the gateway that the rig plays answers for them.
#ifndef PERSONAL_RIG_H
#define PERSONAL_RIG_H

#include "device_rig.h"
#include "wire/trust/personal.h"

#define PERSONAL_LEAVES 3
#define PERSONAL_FILES  2 // of each leaf

// Leaves: another device, the rig's own device, the user ana.
enum personal_leaf { PERSONAL_OTHER, PERSONAL_OWN, PERSONAL_ANA };

struct personal_subject {
    uint8_t bytes[512]; // personal manifest
    size_t size;
    struct wire_sha256 digest;
    uint8_t files[PERSONAL_FILES][300];
    size_t sizes[PERSONAL_FILES];
    struct wire_sha256 digests[PERSONAL_FILES];
    struct wire_entry entry;
};

struct personal_version {
    bool made;
    struct personal_subject subjects[PERSONAL_LEAVES];
    struct wire_sha256 nodes[6];
    struct wire_sha256 root;
};

struct personal_rig {
    struct personal_version versions[RIG_VERSIONS_MAX];
    enum wire_exclusive exclusive; // of versions added from now on
    enum personal_leaf leaf;       // what the gateway says is this device's
    const char *clash;             // a file's name of all subjects instead of "own.bin"
    int proof_status;              // answers all questions with this status
    int bent_proofs;               // so many have a flipped bit
    int long_proofs;               // so many go on past every limit
    int lost_files;                // so many requests for content get a 404
    uint32_t proofs;               // asked for
    uint32_t contents;             // asked for
    bool asked_for_more;           // of content that no leaf of this device lists
};

void personal_rig_init(struct personal_rig *personal, struct rig *rig);

#endif
