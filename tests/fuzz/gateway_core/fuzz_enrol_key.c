// Fuzz target of what a device brings to its enrolment (walle-enroll-key): what has the form of a
// key is the one text of its 32 bytes, and makes credentials and ids; nothing else makes one, and
// no text of any length is read past its end.
#include "svc/access/enrol_key.h"

#include "base/check.h"
#include "base/str.h"
#include "fuzz_target.h"

#include <string.h>

#define PREFIX_BYTES (sizeof(GW_SECRET_ENROL_KEY) - 1)
#define DEVICE       UINT64_C(7)

static const char authorization[] = "Bearer wet_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
_Static_assert(sizeof(authorization) - 1 == GW_AUTHORIZATION_SIZE, "the token's form");

static void encode_again(struct base_str key)
{
    uint8_t bytes[GW_SECRET_BYTES];
    char text[GW_SECRET_TEXT_BYTES + 1] = GW_SECRET_ENROL_KEY;
    size_t size = 0;
    base_check(key.size == GW_SECRET_TEXT_BYTES);
    struct base_str rest = {key.data + PREFIX_BYTES, key.size - PREFIX_BYTES};
    base_check(base_b64_decode(rest, bytes, sizeof(bytes), &size) == BASE_OK);
    base_check(base_b64_encode(bytes, size, text + PREFIX_BYTES) == rest.size);
    base_check(memcmp(text, key.data, key.size) == 0);
}

// After each reset another credential, which has the form of one.
static void make_credentials(struct base_str key)
{
    struct gw_enrol_who who = {key, {authorization, GW_AUTHORIZATION_SIZE}, DEVICE, 0};
    struct wire_sha256 hash;
    char first[GW_SECRET_TEXT_BYTES + 1];
    char second[GW_SECRET_TEXT_BYTES + 1];
    base_check(gw_enrol_key_credential(&who, first) == BASE_OK);
    who.resets = 1;
    base_check(gw_enrol_key_credential(&who, second) == BASE_OK);
    base_check(gw_secret_hash(base_str_of(first), GW_SECRET_DEVICE, &hash));
    base_check(gw_secret_hash(base_str_of(second), GW_SECRET_DEVICE, &hash));
    base_check(strcmp(first, second) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_str key = {(const char *)data, size};
    struct gw_enrol_who who = {key, {authorization, GW_AUTHORIZATION_SIZE}, DEVICE, 0};
    char text[GW_SECRET_TEXT_BYTES + 1];
    base_check(gw_enrol_key_id(key, 0) != 0);
    base_check(gw_enrol_key_id(key, 0) != gw_enrol_key_id(key, GW_ENROL_KEY_DRAWS - 1));
    if (gw_enrol_key_ok(key)) {
        encode_again(key);
        make_credentials(key);
    } else if (size != GW_SECRET_TEXT_BYTES) {
        base_check(gw_enrol_key_credential(&who, text) == BASE_ERR_INVALID);
    }
    return 0;
}
