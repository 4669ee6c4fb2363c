// The public keys in the setting rollout.evidence_keys, 64 hex digits each, separated by commas.
// Called by gateway_main.c on the main thread, at start; see evidence_keys.h. The error names the
// number of the key that cannot be read; at most GW_EVIDENCE_KEYS_MAX are taken.
#include "http/secret/evidence_keys.h"

#include "base/text/str_cut.h"

#include <string.h>

enum base_status gw_evidence_keys_parse(struct base_str text, struct gw_evidence_keys *out,
                                        struct base_error *error)
{
    memset(out, 0, sizeof(*out));
    while (text.size > 0) {
        const char *comma = memchr(text.data, ',', text.size);
        size_t size = comma != NULL ? (size_t)(comma - text.data) : text.size;
        struct base_str one = base_str_trim((struct base_str){text.data, size});
        if (out->count == GW_EVIDENCE_KEYS_MAX) {
            return base_error_set(error, BASE_ERR_LIMIT, "rollout.evidence_keys: more than %u",
                                  GW_EVIDENCE_KEYS_MAX);
        }
        if (base_hex_decode(one, out->keys[out->count], WIRE_PUBLIC_KEY_BYTES) != BASE_OK) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "rollout.evidence_keys: key %u is not 64 hex digits",
                                  out->count + 1);
        }
        out->count++;
        size += comma != NULL ? 1 : 0;
        text = (struct base_str){text.data + size, text.size - size};
    }
    return BASE_OK;
}
