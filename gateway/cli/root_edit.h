// A root in a form that can be changed: each role has its own list of keys. Used by the commands
// `root ...`; one thread.
#ifndef ROOT_EDIT_H
#define ROOT_EDIT_H

#include "base/error.h"
#include "wire/trust/root.h"

struct root_keys {
    uint8_t keys[WIRE_ROOT_KEYS_MAX][WIRE_PUBLIC_KEY_BYTES];
    uint32_t count;
};

struct root_edit_release {
    char prefix[WIRE_TASK_NAME_MAX + 1];
    struct root_keys keys;
    uint8_t narrow;
    uint8_t wide;
};

struct root_edit {
    uint64_t version;
    uint64_t issued_s;
    uint64_t expires_s;
    uint16_t wide_bucket;
    uint32_t lease_max_s;
    struct root_keys roles[WIRE_ROLE_COUNT];
    uint8_t thresholds[WIRE_ROLE_COUNT];
    struct root_edit_release releases[WIRE_ROOT_DELEGATIONS_MAX];
    uint32_t release_count;
};

void root_edit_of(const struct wire_root *root, struct root_edit *out);
// The payload. INVALID with what is wrong, TOO_LARGE.
BASE_NODISCARD enum base_status root_edit_encode(const struct root_edit *edit, uint8_t *out,
                                                 size_t capacity, size_t *out_size,
                                                 struct base_error *error);
// LIMIT; a key that is there already is not added again.
BASE_NODISCARD enum base_status root_keys_add(struct root_keys *keys,
                                              const uint8_t key[WIRE_PUBLIC_KEY_BYTES]);
bool root_keys_have(const struct root_keys *keys, const uint8_t key[WIRE_PUBLIC_KEY_BYTES]);
// Reads public keys: files with 64 hex digits (or the digits themselves), one a line of `paths`.
BASE_NODISCARD enum base_status root_keys_load(const char *paths, struct root_keys *out,
                                               struct base_error *error);
// The delegation for a prefix, made when it is new; NULL: there are too many.
struct root_edit_release *root_edit_release_of(struct root_edit *edit, const char *prefix);
const char *root_role_name(enum wire_root_role role);

#endif
