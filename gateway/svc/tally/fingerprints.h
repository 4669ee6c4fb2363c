// Causes of failures of a rollout as the tally remembers them: by fingerprint, with how many
// devices failed so, and in words. Not thread-safe: the tally's mutex guards it.
#ifndef GW_FINGERPRINTS_H
#define GW_FINGERPRINTS_H

#include "svc/tally/tally.h"

#define GW_FINGERPRINTS_MAX 32u // of a rollout; further ones are counted as failures only
// Texts of a rollout that no device failed for good with: of attempts that may be repeated, of
// content that is healed. Further ones are not kept.
#define GW_CAUSES_ASIDE_MAX 256u

struct gw_fingerprint;

struct gw_fingerprints {
    uint32_t count;
    uint32_t aside;               // texts that are kept beside
    struct gw_fingerprint *items; // NULL: none yet
};

void gw_fingerprints_done(struct gw_fingerprints *fingerprints);
// A device failed.
void gw_fingerprints_note(struct gw_fingerprints *fingerprints,
                          const struct gw_tally_change *change);
// The text of one, which gets a place when there is one left.
void gw_fingerprints_name(struct gw_fingerprints *fingerprints, uint64_t fingerprint, uint8_t kind,
                          struct base_str detail);
// It has a text, or no further one is remembered.
bool gw_fingerprints_know(const struct gw_fingerprints *fingerprints, uint64_t fingerprint);
// Those that most devices failed with, the first of them first.
void gw_fingerprints_view(const struct gw_fingerprints *fingerprints, struct gw_tally_view *view);

#endif
