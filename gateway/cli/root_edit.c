// Roots in an editable form, and back to bytes. Called by cli_root.c for the commands `root ...`;
// one thread, no gateway. In bytes the roles share one list of keys, by masks; here each role has
// its own, so a change of one touches no other. Keys and delegations are sorted on the way back:
// the same root has the same bytes, whoever edited it in which order.
#include "cli/root_edit.h"

#include "cli/base/cli_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_FILE_MAX 256
#define KEY_HEX      (2 * WIRE_PUBLIC_KEY_BYTES)

const char *root_role_name(enum wire_root_role role)
{
    static const char *const names[WIRE_ROLE_COUNT] = {"root", "timestamp", "snapshot", "director"};

    return (unsigned)role < WIRE_ROLE_COUNT ? names[role] : "unknown";
}

bool root_keys_have(const struct root_keys *keys, const uint8_t key[WIRE_PUBLIC_KEY_BYTES])
{
    for (uint32_t i = 0; i < keys->count; i++) {
        if (memcmp(keys->keys[i], key, WIRE_PUBLIC_KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

enum base_status root_keys_add(struct root_keys *keys, const uint8_t key[WIRE_PUBLIC_KEY_BYTES])
{
    if (root_keys_have(keys, key)) {
        return BASE_OK;
    }
    if (keys->count == WIRE_ROOT_KEYS_MAX) {
        return BASE_ERR_LIMIT;
    }
    memcpy(keys->keys[keys->count++], key, WIRE_PUBLIC_KEY_BYTES);
    return BASE_OK;
}

static bool key_parse(struct base_str text, uint8_t key[WIRE_PUBLIC_KEY_BYTES])
{
    while (text.size > 0 && (text.data[text.size - 1] == '\n' || text.data[text.size - 1] == ' ')) {
        text.size--;
    }
    return text.size == KEY_HEX && base_hex_decode(text, key, WIRE_PUBLIC_KEY_BYTES) == BASE_OK;
}

static enum base_status key_load(const char *path, uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                                 struct base_error *error)
{
    uint8_t *bytes = NULL;
    size_t size = 0;

    if (key_parse(base_str_of(path), key)) {
        return BASE_OK;
    }
    BASE_TRY(cli_file_read(path, KEY_FILE_MAX, &bytes, &size, error));
    bool ok = key_parse((struct base_str){(const char *)bytes, size}, key);
    free(bytes);
    return ok ? BASE_OK
              : base_error_set(error, BASE_ERR_INVALID, "%s: no public key of %d hex digits in it",
                               path, KEY_HEX);
}

enum base_status root_keys_load(const char *paths, struct root_keys *out, struct base_error *error)
{
    out->count = 0;
    for (const char *at = paths; *at != '\0';) {
        char path[1024];
        uint8_t key[WIRE_PUBLIC_KEY_BYTES];
        size_t size = strcspn(at, "\n");
        if (size >= sizeof(path)) {
            return base_error_set(error, BASE_ERR_LIMIT, "path too long");
        }
        memcpy(path, at, size);
        path[size] = '\0';
        at += size + (at[size] == '\n' ? 1 : 0);
        BASE_TRY(key_load(path, key, error));
        if (root_keys_add(out, key) != BASE_OK) {
            return base_error_set(error, BASE_ERR_LIMIT, "more than %d keys", WIRE_ROOT_KEYS_MAX);
        }
    }
    return BASE_OK;
}

static void keys_of(const struct wire_root *root, const struct wire_role *role,
                    struct root_keys *out)
{
    out->count = 0;
    for (uint32_t i = 0; i < root->key_count; i++) {
        if ((role->keys >> i & 1u) != 0) {
            memcpy(out->keys[out->count++], root->keys[i], WIRE_PUBLIC_KEY_BYTES);
        }
    }
}

void root_edit_of(const struct wire_root *root, struct root_edit *out)
{
    memset(out, 0, sizeof(*out));
    out->version = root->version;
    out->issued_s = root->issued_s;
    out->expires_s = root->expires_s;
    out->wide_bucket = root->wide_bucket;
    out->lease_max_s = root->lease_max_s;
    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        keys_of(root, &root->roles[i], &out->roles[i]);
        out->thresholds[i] = root->roles[i].threshold;
    }
    out->release_count = root->delegation_count;
    for (uint32_t i = 0; i < root->delegation_count; i++) {
        const struct wire_delegation *delegation = &root->delegations[i];
        struct root_edit_release *release = &out->releases[i];
        memcpy(release->prefix, delegation->prefix.data, delegation->prefix.size);
        keys_of(root, &delegation->role, &release->keys);
        release->narrow = delegation->role.threshold;
        release->wide = delegation->wide_threshold;
    }
}

struct root_edit_release *root_edit_release_of(struct root_edit *edit, const char *prefix)
{
    size_t size = strlen(prefix);

    for (uint32_t i = 0; i < edit->release_count; i++) {
        if (strcmp(edit->releases[i].prefix, prefix) == 0) {
            return &edit->releases[i];
        }
    }
    if (edit->release_count == WIRE_ROOT_DELEGATIONS_MAX || size > WIRE_TASK_NAME_MAX) {
        return NULL;
    }
    struct root_edit_release *release = &edit->releases[edit->release_count++];
    memset(release, 0, sizeof(*release));
    memcpy(release->prefix, prefix, size);
    return release;
}

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, WIRE_PUBLIC_KEY_BYTES);
}

static int compare_releases(const void *a, const void *b)
{
    const struct root_edit_release *x = a;
    const struct root_edit_release *y = b;

    return strcmp(x->prefix, y->prefix);
}

static uint16_t mask_of(const struct root_keys *all, const struct root_keys *keys)
{
    unsigned mask = 0;

    for (uint32_t i = 0; i < keys->count; i++) {
        for (uint32_t k = 0; k < all->count; k++) {
            if (memcmp(all->keys[k], keys->keys[i], WIRE_PUBLIC_KEY_BYTES) == 0) {
                mask |= 1u << k;
            }
        }
    }
    return (uint16_t)mask;
}

static enum base_status keys_join(struct root_keys *all, const struct root_keys *keys)
{
    for (uint32_t i = 0; i < keys->count; i++) {
        BASE_TRY(root_keys_add(all, keys->keys[i]));
    }
    return BASE_OK;
}

static enum base_status all_keys(const struct root_edit *edit, struct root_keys *all)
{
    all->count = 0;
    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        BASE_TRY(keys_join(all, &edit->roles[i]));
    }
    for (uint32_t i = 0; i < edit->release_count; i++) {
        BASE_TRY(keys_join(all, &edit->releases[i].keys));
    }
    qsort(all->keys, all->count, WIRE_PUBLIC_KEY_BYTES, compare_keys);
    return BASE_OK;
}

static enum base_status thresholds_check(const struct root_edit *edit, struct base_error *error)
{
    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        if (edit->thresholds[i] == 0 || edit->thresholds[i] > edit->roles[i].count) {
            return base_error_set(error, BASE_ERR_INVALID, "role %s: %u of %u keys cannot be",
                                  root_role_name((enum wire_root_role)i), edit->thresholds[i],
                                  edit->roles[i].count);
        }
    }
    for (uint32_t i = 0; i < edit->release_count; i++) {
        const struct root_edit_release *release = &edit->releases[i];
        if (release->narrow == 0 || release->narrow > release->wide ||
            release->wide > release->keys.count) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "release keys of '%s': %u for few and %u for many devices of %u "
                                  "keys cannot be",
                                  release->prefix, release->narrow, release->wide,
                                  release->keys.count);
        }
    }
    return BASE_OK;
}

enum base_status root_edit_encode(const struct root_edit *edit, uint8_t *out, size_t capacity,
                                  size_t *out_size, struct base_error *error)
{
    struct root_edit sorted = *edit;
    struct root_keys all;
    struct wire_root root = {
        .version = edit->version,
        .issued_s = edit->issued_s,
        .expires_s = edit->expires_s,
        .wide_bucket = edit->wide_bucket,
        .lease_max_s = edit->lease_max_s,
        .delegation_count = edit->release_count,
    };

    BASE_TRY(thresholds_check(edit, error));
    if (all_keys(edit, &all) != BASE_OK) {
        return base_error_set(error, BASE_ERR_LIMIT, "more than %d keys in all",
                              WIRE_ROOT_KEYS_MAX);
    }
    root.key_count = all.count;
    memcpy(root.keys, all.keys, sizeof(root.keys));
    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        root.roles[i] = (struct wire_role){edit->thresholds[i], mask_of(&all, &edit->roles[i])};
    }
    qsort(sorted.releases, sorted.release_count, sizeof(sorted.releases[0]), compare_releases);
    for (uint32_t i = 0; i < sorted.release_count; i++) {
        const struct root_edit_release *release = &sorted.releases[i];
        root.delegations[i].prefix = base_str_of(release->prefix);
        root.delegations[i].wide_threshold = release->wide;
        root.delegations[i].role =
            (struct wire_role){release->narrow, mask_of(&all, &release->keys)};
    }
    enum base_status status = wire_root_encode(&root, out, capacity, out_size);
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "the root makes no sense: %s",
                                              base_status_text(status));
}
