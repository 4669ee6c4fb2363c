// What a task keeps on a device by walle.store: keys and values in one run of bytes, which is
// written whole. So a store is as it was before a run or as the run left it, and nothing between.
//
//   image := u8 version (1), u64 tag, entries, to the end
//   entry := u8 size, key, varint size, value          (keys ascending by bytes, each once)
//
// The tag says which version's store it is where versions do not share one; else it is 0. Values
// are bytes here; the script VM says what is in them (vm/vm_store.h). Made by a task's
// process, so whoever takes one over parses it first. No allocation; the caller's memory.
#ifndef WIRE_STORE_IMAGE_H
#define WIRE_STORE_IMAGE_H

#include "base/span.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_STORE_VERSION       1
#define WIRE_STORE_HEAD_BYTES    9
#define WIRE_STORE_QUOTA_KIB_MAX 64  // of keys and values of a task
#define WIRE_STORE_KEYS_MAX      256 // of a task
#define WIRE_STORE_KEY_MAX       64  // bytes of a key, at least one
#define WIRE_STORE_ENTRY_BYTES   4   // of sizes, at most
// Bytes of an image.
#define WIRE_STORE_IMAGE_MAX                                                                       \
    (WIRE_STORE_HEAD_BYTES + WIRE_STORE_QUOTA_KIB_MAX * 1024 +                                     \
     WIRE_STORE_KEYS_MAX * WIRE_STORE_ENTRY_BYTES)

struct wire_store {
    uint8_t *bytes; // the caller's, WIRE_STORE_IMAGE_MAX where it is changed; borrowed
    size_t size;
    uint64_t tag;
    uint32_t keys;
    size_t used; // bytes of keys and values
};

struct wire_store_entry { // borrowed from the image, until it changes
    struct base_str key;
    struct base_span value;
};

// An empty store in `bytes`, of at least WIRE_STORE_HEAD_BYTES.
void wire_store_init(struct wire_store *store, uint8_t *bytes, uint64_t tag);
// The store that is in `bytes`, which are not copied. INVALID, TRUNCATED, UNSUPPORTED, TOO_LARGE
// (more keys or bytes than any task may have); *out is defined on success only.
BASE_NODISCARD enum base_status wire_store_parse(uint8_t *bytes, size_t size,
                                                 struct wire_store *out);
// Changes the tag of an image; what is too short for one is left as it is.
void wire_store_tag(uint8_t *bytes, size_t size, uint64_t tag);
// The entry at *at, which begins with 0 and is moved on; false: there is none.
bool wire_store_next(const struct wire_store *store, size_t *at, struct wire_store_entry *out);
// NOT_FOUND.
BASE_NODISCARD enum base_status wire_store_find(const struct wire_store *store, struct base_str key,
                                                struct base_span *out_value);
// Puts or replaces. `value` lies outside the image. INVALID (the key's size), LIMIT (one key too
// many), FULL (keys and values would be over `quota_bytes`); then nothing has changed.
BASE_NODISCARD enum base_status wire_store_put(struct wire_store *store, struct base_str key,
                                               struct base_span value, size_t quota_bytes);
// False: there was none.
bool wire_store_remove(struct wire_store *store, struct base_str key);

#endif
