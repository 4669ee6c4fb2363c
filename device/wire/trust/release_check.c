// Which signature of a release is missing or out of place, in words. Called by the gateway before
// it takes a release (svc/trust/director_trust.c) and by `walle` (cli/rollout/served_root.c), for
// people who have to mend it; devices ask wire_root_verify, which says yes or no. Pure but for the
// caller's cryptography; any thread. Keys that signed without being of the role are told before
// those that are missing, since one often explains the other.
#include "wire/trust/release_check.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

#define KEY_ID_SHOWN 8 // bytes
#define WHY_MAX      120

struct check {
    const struct wire_root *root;
    const struct wire_verifier *verifier;
    const struct wire_delegation *delegation;
    struct wire_envelope envelope;
    char why[WHY_MAX];
};

static void key_id_of(const struct check *check, uint32_t key, struct wire_sha256 *out)
{
    base_assert(key < check->root->key_count);
    check->verifier->sha256(check->verifier->ctx, check->root->keys[key], WIRE_PUBLIC_KEY_BYTES,
                            NULL, out);
}

// The root's key with this id; key_count: it has none.
static uint32_t find_key(const struct check *check, const uint8_t *key_id)
{
    struct wire_sha256 own;
    uint32_t i = 0;
    for (; i < check->root->key_count; i++) {
        key_id_of(check, i, &own);
        if (memcmp(own.bytes, key_id, sizeof(own.bytes)) == 0) {
            break;
        }
    }
    return i;
}

static bool key_counts(const struct check *check, uint32_t key)
{
    base_assert(key < check->root->key_count);
    struct wire_role one = {.threshold = 1, .keys = (uint16_t)(1u << key)};
    return (check->delegation->role.keys & one.keys) != 0 &&
           wire_root_verify(check->root, &one, 1, &check->envelope, check->verifier) == BASE_OK;
}

static const char *role_of(const struct wire_root *root, uint32_t key)
{
    base_assert(key < root->key_count);
    static const char *const names[WIRE_ROLE_COUNT] = {
        [WIRE_ROLE_ROOT] = "root",
        [WIRE_ROLE_TIMESTAMP] = "timestamp",
        [WIRE_ROLE_SNAPSHOT] = "snapshot",
        [WIRE_ROLE_DIRECTOR] = "director",
    };
    for (int i = 0; i < WIRE_ROLE_COUNT; i++) {
        if ((root->roles[i].keys >> key & 1u) != 0) {
            return names[i];
        }
    }
    return "another release";
}

// A key that signed, but not as one of the role.
static bool say_stray(struct check *check)
{
    base_assert(check->why[0] == 0); // nothing was said yet
    for (uint32_t i = 0; i < check->envelope.signature_count; i++) {
        const uint8_t *key_id = check->envelope.signatures[i].key_id;
        char shown[2 * KEY_ID_SHOWN + 1];
        uint32_t key = find_key(check, key_id);
        if (key == check->root->key_count) {
            base_hex_encode(key_id, KEY_ID_SHOWN, shown);
            (void)snprintf(check->why, sizeof(check->why),
                           "the key with the SHA-256 %.16s is not of its release role", shown);
            return true;
        }
        base_hex_encode(check->root->keys[key], KEY_ID_SHOWN, shown); // as people know it
        if ((check->delegation->role.keys >> key & 1u) == 0) {
            (void)snprintf(check->why, sizeof(check->why),
                           "key %.16s is of its %s role, not the release role", shown,
                           role_of(check->root, key));
            return true;
        }
        if (!key_counts(check, key)) {
            (void)snprintf(check->why, sizeof(check->why),
                           "key %.16s of the release role did not sign these bytes", shown);
            return true;
        }
    }
    return false;
}

static void say_missing(struct check *check)
{
    for (uint32_t i = 0; i < check->root->key_count; i++) {
        if ((check->delegation->role.keys >> i & 1u) != 0 && !key_counts(check, i)) {
            char shown[2 * KEY_ID_SHOWN + 1];
            base_hex_encode(check->root->keys[i], KEY_ID_SHOWN, shown);
            (void)snprintf(check->why, sizeof(check->why), "key %.16s of the release role did not",
                           shown);
            return;
        }
    }
}

enum base_status wire_release_check(const struct wire_root *root, struct base_span envelope,
                                    const struct wire_verifier *verifier, const char *what,
                                    struct base_error *error)
{
    struct check check = {.root = root, .verifier = verifier};
    struct wire_release release;
    uint32_t signers = 0;
    if (wire_envelope_parse(envelope.data, envelope.size, &check.envelope) != BASE_OK ||
        check.envelope.type != WIRE_ENVELOPE_TYPE_RELEASE ||
        wire_release_parse(check.envelope.payload, check.envelope.payload_bytes, &release) !=
            BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: not a release statement", what);
    }
    check.delegation = wire_root_delegation(root, release.task_name);
    if (check.delegation == NULL) {
        return base_error_set(
            error, BASE_ERR_SIGNATURE, "keys: root %llu lets nobody release task %.*s",
            (unsigned long long)root->version, (int)release.task_name.size, release.task_name.data);
    }
    uint8_t needed = wire_root_release_threshold(root, check.delegation, &release,
                                                 release.stage_kind == WIRE_STAGE_BETA);
    base_assert(needed > 0); // nobody's signature is not enough
    for (uint32_t i = 0; i < root->key_count; i++) {
        signers += key_counts(&check, i);
    }
    if (signers >= needed) {
        return BASE_OK;
    }
    if (!say_stray(&check)) {
        say_missing(&check);
    }
    return base_error_set(error, signers > 0 ? BASE_ERR_THRESHOLD : BASE_ERR_SIGNATURE,
                          "keys: %s is signed by %u of the %u release keys that root %llu asks "
                          "for; %s",
                          what, signers, needed, (unsigned long long)root->version, check.why);
}
