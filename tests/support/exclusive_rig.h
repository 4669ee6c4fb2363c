// Exclusive files for the device rig: every version added after exclusive_rig_init has a tree of
// three leaves, and the gateway that the rig plays answers for them.
#ifndef EXCLUSIVE_RIG_H
#define EXCLUSIVE_RIG_H

#include "device_rig.h"
#include "wire/trust/exclusive_files.h"

#define EXCLUSIVE_LEAVES 3
#define EXCLUSIVE_FILES  2 // of each leaf

// Leaves: another device, the rig's own device, the user ana.
enum exclusive_leaf { EXCLUSIVE_OTHER, EXCLUSIVE_OWN, EXCLUSIVE_ANA };

struct exclusive_subject {
    uint8_t bytes[512]; // exclusive manifest
    size_t size;
    struct wire_sha256 digest;
    uint8_t files[EXCLUSIVE_FILES][300];
    size_t sizes[EXCLUSIVE_FILES];
    struct wire_sha256 digests[EXCLUSIVE_FILES];
    struct wire_entry entry;
};

struct exclusive_version {
    bool made;
    struct exclusive_subject subjects[EXCLUSIVE_LEAVES];
    struct wire_sha256 nodes[6];
    struct wire_sha256 root;
};

struct exclusive_rig {
    struct exclusive_version versions[RIG_VERSIONS_MAX];
    enum wire_exclusive exclusive; // of versions added from now on
    enum exclusive_leaf leaf;      // what the gateway says is this device's
    const char *clash;             // a file's name of all subjects instead of "own.bin"
    int proof_status;              // answers all questions with this status
    int bent_proofs;               // so many have a flipped bit
    int long_proofs;               // so many go on past every limit
    int lost_files;                // so many requests for content get a 404
    uint32_t proofs;               // asked for
    uint32_t contents;             // asked for
    bool asked_for_more;           // of content that no leaf of this device lists
};

void exclusive_rig_init(struct exclusive_rig *exclusive, struct rig *rig);

#endif
