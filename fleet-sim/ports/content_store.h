// Content shared by the devices of a shard: every immutable blob is kept once, and the set of blobs
// a device has (its image) is a number, because a million devices with the same bundle have the
// same set.
//
// A blob enters the store only after its SHA-256 was computed here, for real, once. It never leaves
// while the store lives, so borrowed bytes stay valid. One thread owns a store.
//
// A body is content on its way, which nobody has verified yet: the bytes of the device that has
// most of it, shared by all whose own bytes are the same so far. Each of them verifies what it has
// by itself, as a phone does. A body lives as long as a device holds it.
#ifndef SIM_CONTENT_STORE_H
#define SIM_CONTENT_STORE_H

#include "base/ports.h"
#include "base/status.h"
#include "device/port.h"
#include "ports/saved_states.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_STORE_BLOBS_MAX  65000 // exclusive ones too; an index has 16 bits
#define SIM_STORE_IMAGES_MAX 262144
#define SIM_IMAGE_BLOBS_MAX  1024
#define SIM_STORE_BYTES_MAX  (1024ull * 1024 * 1024)
#define SIM_IMAGE_EMPTY      0
#define SIM_IMAGE_MASK       (SIM_STORE_IMAGES_MAX - 1)
#define SIM_BODY_CHAINS      1024 // of content on its way, by its name
#define SIM_ASIDES_MAX       (1u << 30)

struct sim_blob {
    struct wire_sha256 name;
    const uint8_t *bytes;
    size_t size;
    uint16_t index;
};

struct sim_store;
struct sim_body;
struct sim_partial;

// What few disks have besides an image: blobs that are still being pulled.
struct sim_aside {
    struct sim_partial *partials;
    uint32_t image;
    uint32_t next_free; // number + 1, of one that nobody has
};

// NOMEM.
BASE_NODISCARD enum base_status sim_store_new(const struct base_alloc_port *alloc,
                                              const struct dev_crypto_port *crypto,
                                              struct sim_store **out_store);
void sim_store_free(struct sim_store *store);

// NULL when no verified content has this name.
const struct sim_blob *sim_store_find(struct sim_store *store, const struct wire_sha256 *name);
// Hashes `bytes` and keeps a copy under `name`. HASH: they are not what the name says; FULL, NOMEM.
BASE_NODISCARD enum base_status sim_store_add(struct sim_store *store,
                                              const struct wire_sha256 *name, const uint8_t *bytes,
                                              size_t size, const struct sim_blob **out_blob);
// Content on its way under this name: the one that others hold, or a new one without bytes. NULL:
// out of memory. Each call is undone by one of sim_body_unref.
struct sim_body *sim_body_ref(struct sim_store *store, const struct wire_sha256 *name);
void sim_body_unref(struct sim_store *store, struct sim_body *body);
// For who has the first `offset` bytes of it: are the next ones `bytes`? Those beyond what is there
// are added. CONFLICT: they differ, the body is as before; NOMEM.
BASE_NODISCARD enum base_status sim_body_add(struct sim_store *store, struct sim_body *body,
                                             size_t offset, const uint8_t *bytes, size_t size);
// Valid until bytes are added.
const uint8_t *sim_body_bytes(const struct sim_body *body);
// Valid until the last reference is gone, whatever is added meanwhile: memory that the body
// outgrows is kept until then, so only who maps content on its way asks for it like this.
const uint8_t *sim_body_lend(struct sim_body *body);
// As sim_store_add of its first `size` bytes; when these are all, they are kept without a copy.
BASE_NODISCARD enum base_status sim_body_keep(struct sim_store *store, struct sim_body *body,
                                              size_t size, const struct sim_blob **out_blob);

// Content in the order it came; NULL past the end.
const struct sim_blob *sim_store_at(const struct sim_store *store, uint32_t index);
uint64_t sim_store_bytes(const struct sim_store *store);
// What its devices saved; lives as long as the store.
struct sim_states *sim_store_states(const struct sim_store *store);
uint32_t sim_store_blob_count(const struct sim_store *store);
// Takes an aside, empty but for the image. NOMEM.
BASE_NODISCARD enum base_status sim_store_aside_take(struct sim_store *store, uint32_t image,
                                                     uint32_t *out_number);
// Valid until one is taken.
struct sim_aside *sim_store_aside(const struct sim_store *store, uint32_t number);
void sim_store_aside_give(struct sim_store *store, uint32_t number);

// Images: sorted sets of blob indexes. FULL past the limits, NOMEM.
bool sim_image_has(const struct sim_store *store, uint32_t image, uint16_t blob);
BASE_NODISCARD enum base_status sim_image_with(struct sim_store *store, uint32_t image,
                                               uint16_t blob, uint32_t *out_image);
BASE_NODISCARD enum base_status sim_image_without(struct sim_store *store, uint32_t image,
                                                  uint16_t blob, uint32_t *out_image);
// The `at`-th blob of an image, NULL past the end.
const struct sim_blob *sim_image_blob(const struct sim_store *store, uint32_t image, uint32_t at);
// Does the image hold the manifest and every file it names? Remembered per image.
bool sim_image_complete(struct sim_store *store, uint32_t image,
                        const struct wire_sha256 *manifest);

#endif
