// Content shared by the devices of a shard: every immutable blob is kept once, and the set of blobs
// a device has (its image) is a number, because a million devices with the same bundle have the
// same set.
//
// A blob enters the store only after its SHA-256 was computed here, for real, once. It never leaves
// while the store lives, so borrowed bytes stay valid. One thread owns a store.
#ifndef SIM_CONTENT_STORE_H
#define SIM_CONTENT_STORE_H

#include "base/ports.h"
#include "base/status.h"
#include "device/port.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_STORE_BLOBS_MAX  65000 // exclusive ones too; an index has 16 bits
#define SIM_STORE_IMAGES_MAX 262144
#define SIM_IMAGE_BLOBS_MAX  1024
#define SIM_STORE_BYTES_MAX  (1024ull * 1024 * 1024)
#define SIM_IMAGE_EMPTY      0

struct sim_blob {
    struct wire_sha256 name;
    const uint8_t *bytes;
    size_t size;
    uint16_t index;
};

struct sim_store;

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
// Content in the order it came; NULL past the end.
const struct sim_blob *sim_store_at(const struct sim_store *store, uint32_t index);
uint64_t sim_store_bytes(const struct sim_store *store);
uint32_t sim_store_blob_count(const struct sim_store *store);

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
