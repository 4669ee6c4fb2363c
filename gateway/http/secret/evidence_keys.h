// The setting rollout.evidence_keys: who may sign evidence of simulations where no root is served.
#ifndef GW_HTTP_EVIDENCE_KEYS_H
#define GW_HTTP_EVIDENCE_KEYS_H

#include "base/error.h"
#include "svc/core.h"

struct gw_evidence_keys {
    uint32_t count;
    uint8_t keys[GW_EVIDENCE_KEYS_MAX][WIRE_PUBLIC_KEY_BYTES];
};

// `text`: public keys, each 64 hex digits, with commas; empty: none. INVALID, LIMIT (more than
// GW_EVIDENCE_KEYS_MAX), with the number of the key in `error`.
BASE_NODISCARD enum base_status gw_evidence_keys_parse(struct base_str text,
                                                       struct gw_evidence_keys *out,
                                                       struct base_error *error);

#endif
