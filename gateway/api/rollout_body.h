// The body of POST /api/v1/rollouts and /api/v1/rollouts/check, parsed into what the core takes.
#ifndef GW_ROLLOUT_BODY_H
#define GW_ROLLOUT_BODY_H

#include "base/arena.h"
#include "base/error.h"
#include "svc/rollout/rollouts.h"

#define GW_API_BETA_CONTROL_BUCKETS 1000 // of those outside the audience

struct gw_rollout_body {
    struct gw_rollout_spec spec; // points into the arena
    struct gw_rollout_who who;
    const uint8_t *evidence; // of the simulate stage, for a check; NULL: none
    size_t evidence_bytes;
};

// Bytes to specification: syntax, types, unknown fields, every limit. Whether the pieces agree with
// each other and with the catalog is the core's business. INVALID and TOO_LARGE with the field's
// path in `error`; NOMEM.
BASE_NODISCARD enum base_status gw_rollout_body_parse(const uint8_t *bytes, size_t size,
                                                      struct base_arena *arena,
                                                      struct gw_rollout_body *out,
                                                      struct base_error *error);

#endif
