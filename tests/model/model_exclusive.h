// What versions hold for single devices: some versions of the world have
// exclusive files for every second device, as an option or for those devices
// alone. Made once, as operators make it.
#ifndef MODEL_EXCLUSIVE_H
#define MODEL_EXCLUSIVE_H

#include "wire/manifest.h"
#include "wire/trust/exclusive_files.h"

#define MODEL_EXCLUSIVE_LEAVES_MAX   64u
#define MODEL_EXCLUSIVE_TEXT_MAX     64u
#define MODEL_EXCLUSIVE_MANIFEST_MAX 128u

struct model_exclusive_leaf {
    uint64_t device_id;
    char subject[WIRE_DEVICE_HEX + 1];
    char text[MODEL_EXCLUSIVE_TEXT_MAX]; // its one file
    size_t text_size;
    uint8_t manifest[MODEL_EXCLUSIVE_MANIFEST_MAX];
    size_t manifest_size;
    struct wire_entry entry;
};

struct model_exclusive {
    struct wire_sha256 list; // of all leaves, as it is registered
    uint8_t *pack;           // heap; all that is put for it, the list first
    size_t pack_size;
    uint32_t count;
    struct model_exclusive_leaf leaves[]; // ascending by subject
};

// What the version asks for.
enum wire_exclusive model_exclusive_of(int version);
// Has the device with this number a leaf?
bool model_exclusive_has(uint32_t number);
// Of the first `devices` devices of a world. Heap; `manifest` is told of the
// tree.
struct model_exclusive *model_exclusive_new(uint64_t seed, uint32_t devices,
                                            struct wire_manifest *manifest);
void model_exclusive_free(struct model_exclusive *exclusive); // accepts NULL
// NULL: the device has no leaf.
const struct model_exclusive_leaf *model_exclusive_leaf(const struct model_exclusive *exclusive,
                                                        uint64_t device_id);

#endif
