// The storage port of a virtual device.
//
// A disk is what survives a kill: the state record, sealed blobs (as an image of the shared store)
// and blobs still being pulled. Bytes that equal content already verified, or what another device
// got of the same content so far, are not copied, only counted; a byte that differs makes the
// device keep its own copy from there on, which then fails verification for real. Devices of the
// sample that does everything for real share nothing.
#ifndef SIM_SIM_STORAGE_H
#define SIM_SIM_STORAGE_H

#include "ports/content_store.h"

struct sim_partial {
    struct sim_partial *next;
    struct wire_sha256 name;
    const struct sim_blob *shared; // the bytes so far equal its first `size`; NULL: they do not
    struct sim_body *body;         // ... or the first `size` of this one, counted; NULL: likewise
    uint8_t *bytes;                // its own, where it shares none
    size_t size;
    size_t capacity;
    bool sealed; // only on devices that share nothing
};

// Per device, of which there are millions; zero is a fresh one. Seldom has one blobs that are still
// being pulled, and with them an aside in the store.
struct sim_disk {
    sim_state_ref state;
    uint32_t number : 30; // of its image, or of its aside
    uint32_t aside : 1;
    uint32_t real : 1; // shares nothing
};
_Static_assert(SIM_IMAGE_MASK < SIM_ASIDES_MAX, "either number has 30 bits");

// Context of the port while a device is awake.
struct sim_storage {
    struct sim_store *store;
    struct sim_disk *disk;
    const struct base_alloc_port *alloc;
    uint64_t bad_seals; // seals of content that is not what its name says
    bool sealed;        // something was sealed since the caller cleared this
    bool saved;         // the state record changed since the caller cleared this
};

// A port over `storage`, which must stay where it is.
struct dev_storage_port sim_storage_port(struct sim_storage *storage);
// What a kill does to bytes not yet sealed: `draw` decides how much of each survives.
void sim_storage_kill(struct sim_storage *storage, uint64_t draw);
// The last bytes of whatever is not sealed yet, at most `size`, become these. False: there was
// none.
bool sim_storage_tear(struct sim_storage *storage, const uint8_t *noise, size_t size);
// Frees what the device holds, and gives back what it shares with others of the store.
void sim_disk_done(struct sim_disk *disk, struct sim_store *store,
                   const struct base_alloc_port *alloc);
uint32_t sim_disk_image(const struct sim_disk *disk, const struct sim_store *store);
void sim_disk_set_image(struct sim_disk *disk, const struct sim_store *store, uint32_t image);
// Memory of its own, without its saved state.
uint64_t sim_disk_bytes(const struct sim_disk *disk, const struct sim_store *store);

#endif
