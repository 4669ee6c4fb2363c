// Stored content while it is looked at: manifests, and exclusive ones, proven when they are read.
// Files of any kind are opened by dev_content_open (device/device.h).
#ifndef DEV_DEVICE_CONTENT_H
#define DEV_DEVICE_CONTENT_H

#include "core/base/runtime.h"
#include "wire/declaration.h"
#include "wire/manifest.h"
#include "wire/trust/exclusive_files.h"

// A manifest on the stack while its bytes are mapped.
struct dev_manifest {
    struct wire_sha256 name;
    const uint8_t *bytes;
    size_t size;
    struct wire_manifest parsed;
};

// A exclusive manifest likewise; `bytes` NULL: there is none, and no file in it.
struct dev_exclusive {
    struct wire_sha256 name;
    const uint8_t *bytes;
    size_t size;
    struct wire_exclusive_files parsed;
};

BASE_NODISCARD enum base_status dev_manifest_open(struct dev_runtime *runtime,
                                                  const struct wire_sha256 *name,
                                                  struct dev_manifest *out);
void dev_manifest_close(struct dev_runtime *runtime, struct dev_manifest *manifest);
// What it declares; false: nothing. *out is borrowed from it, and defined where true.
bool dev_manifest_declares(const struct wire_manifest *manifest, struct wire_declaration *out);
// The exclusive manifest `name`; a zero one gives none. NOT_FOUND: it is not here, or not whole;
// the input codes: malformed.
BASE_NODISCARD enum base_status dev_exclusive_open(struct dev_runtime *runtime,
                                                   const struct wire_sha256 *name,
                                                   struct dev_exclusive *out);
void dev_exclusive_close(struct dev_runtime *runtime, struct dev_exclusive *exclusive);

#endif
