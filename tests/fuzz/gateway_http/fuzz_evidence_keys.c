// Fuzz target of the setting rollout.evidence_keys: any text either is refused with a reason, or is
// as many keys as it says, which, written out one by one, are read back as the same.
#include "http/secret/evidence_keys.h"

#include "base/check.h"
#include "fuzz_target.h"

#include <string.h>

#define KEY_HEX (2u * WIRE_PUBLIC_KEY_BYTES)

static void read_back(const struct gw_evidence_keys *keys)
{
    static char text[GW_EVIDENCE_KEYS_MAX * (KEY_HEX + 1) + 1];
    struct gw_evidence_keys again;
    size_t size = 0;
    for (uint32_t i = 0; i < keys->count; i++) {
        base_hex_encode(keys->keys[i], WIRE_PUBLIC_KEY_BYTES, text + size);
        size += KEY_HEX;
        text[size++] = ',';
    }
    size -= size > 0 ? 1 : 0; // the last comma
    base_check(gw_evidence_keys_parse((struct base_str){text, size}, &again, NULL) == BASE_OK);
    base_check(again.count == keys->count);
    base_check(memcmp(again.keys, keys->keys, keys->count * sizeof(keys->keys[0])) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_evidence_keys keys;
    struct base_error error = {0};
    struct base_str text = {(const char *)data, size};
    enum base_status status = gw_evidence_keys_parse(text, &keys, &error);
    base_check(keys.count <= GW_EVIDENCE_KEYS_MAX);
    base_check(status == BASE_OK || error.text[0] != '\0');
    if (status == BASE_OK) {
        base_check(keys.count * KEY_HEX <= size);
        read_back(&keys);
    }
    return 0;
}
