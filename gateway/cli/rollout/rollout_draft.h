// The draft of a rollout: what is released, under which id, salt and counter, with every statement
// signed: the body of POST /api/v1/rollouts.
#ifndef ROLLOUT_DRAFT_H
#define ROLLOUT_DRAFT_H

#include "base/error.h"
#include "base/ports.h"
#include "signing/signing.h"
#include "wire/manifest.h"

#include <jansson.h>

#define ROLLOUT_DRAFT_DAYS 90

struct rollout_draft {
    const char *task;
    char version[WIRE_VERSION_TEXT_MAX + 1]; // its number
    struct wire_sha256 manifest;
    uint64_t manifest_bytes;
    uint64_t id;
    uint64_t salt;
    uint64_t floor; // oldest counter of the task that may follow it
    uint64_t release_counter;
    uint64_t issued_s;
    uint64_t expires_s;
    uint64_t priority;
    uint64_t arm_salt; // of the experiment; 0: none
    uint16_t arm_from;
    uint16_t arm_to;
};

struct rollout_ladder {
    json_t *stages; // from ladder_stages; changed
    json_t *target; // from ladder_target
};

// Signs one statement for each stage that is not simulate (put into the stage as "statement").
// *out_body is owned by the caller. INVALID, TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status rollout_draft_body(const struct rollout_draft *draft,
                                                   const struct signing_keys *keys,
                                                   struct rollout_ladder ladder, json_t **out_body,
                                                   struct base_error *error);

#endif
