// A release as the gateway keeps it: everything about a rollout that never changes after it was
// created, in one immutable, counted block: targets, stages, statements.
//
// It is made in one way only: from its stored bytes (gw_release_encode turns an operator's
// specification into those bytes), so what was created and what is loaded after a restart pass the
// same checks. Shared between threads by reference count; nothing in it is written after _new. What
// changes of a rollout is elsewhere: its counters and the segments that are kept off it
// (svc/plan/kept_off.h) in the tally.
#ifndef GW_RELEASE_H
#define GW_RELEASE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "svc/plan/outcome_bits.h"
#include "svc/plan/release_spec.h"
#include "wire/trust/statement.h"

#include <stdatomic.h>

#define GW_STATEMENT_BYTES_MAX WIRE_STATEMENT_BYTES_MAX

struct gw_statement {
    const uint8_t *bytes; // an envelope
    size_t size;
    uint64_t expires_s; // of an INSTALL; 0: it is no such
    uint64_t manifest_bytes;
};

// What a device's word is worth to a rollout: it counts, or it only is shown.
enum gw_standing { GW_STANDING_COUNTED, GW_STANDING_UNPROVEN, GW_STANDING_COUNT };

// Who has a release, and the memory of what it points to.
struct gw_release_hold {
    _Atomic uint32_t refs;
    struct base_arena arena;
};

struct gw_release {
    struct gw_release_hold *hold;
    uint64_t id;
    uint64_t task_id;
    uint64_t version_id;
    uint64_t salt;
    uint64_t release_counter;
    uint64_t floor;      // oldest counter of the task that may follow it, as its statements say
    uint64_t approved_s; // when the first of its statements was signed
    // Of a way back that was signed with it, when that was needed; 0: none. Devices may know of it.
    uint64_t back_counter;
    uint32_t execution_timeout_s;
    uint16_t priority;
    struct pol_arm arm;
    bool trust_unproven; // devices count that never showed who they are
    // The gateway's interval when the rollout was made: what silence is counted in; 0: not known.
    uint32_t checkin_interval_s;
    struct wire_sha256 manifest;
    char task[WIRE_TASK_NAME_MAX + 1];
    struct pol_target target;
    uint32_t stage_count;
    struct pol_stage stages[POL_STAGES_MAX];
    char stage_names[POL_STAGES_MAX][GW_STAGE_NAME_MAX + 1];
    struct gw_statement statements[POL_STAGES_MAX];
    const uint8_t *spec; // the stored bytes, in the hold's arena, as is all that is pointed to
    size_t spec_bytes;
};

// Appends the stored form of `spec`; what a stage leaves to GW_STAGE_DEFAULT_S becomes a multiple
// of `checkin_interval_s`, which is stored too. Checks sizes and names only; the rest is checked by
// gw_release_new. INVALID, TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status gw_release_encode(const struct gw_rollout_spec *spec,
                                                  uint32_t checkin_interval_s,
                                                  struct base_buffer *out,
                                                  struct base_error *error);
// Copies `bytes`, parses and checks everything: targets, stages, that the statements parse and
// agree with the rollout. INVALID (what and where in `error`), NOMEM.
BASE_NODISCARD enum base_status gw_release_new(const uint8_t *bytes, size_t size,
                                               const struct gw_release **out_release,
                                               struct base_error *error);
// With nothing in it, for who fills it in before anybody else sees it: gw_release_new, and what
// plays releases that no operator specified. NULL: no memory.
struct gw_release *gw_release_blank(void);
const struct gw_release *gw_release_ref(const struct gw_release *release);
void gw_release_unref(const struct gw_release *release); // accepts NULL

// In which stage a device counts that enters while `newest` is open: the last one up to it that is
// a shadow stage, or that is none.
uint8_t gw_release_stage(const struct gw_release *release, uint32_t newest, bool shadow);
#define GW_STAGE_NONE POL_STAGES_MAX
// The latest stage up to `newest` whose audience and share have the device, in the release's own
// target and arm or not; of a shadow `newest` alone, for it ends with its stage. GW_STAGE_NONE: no
// stage lets it in. `attrs` NULL: they are not known, and not asked about.
uint32_t gw_release_lets_in(const struct gw_release *release, uint32_t newest, bool shadow,
                            uint64_t device_id, const struct pol_attrs *attrs);
// Is it in the control cohort of the trial of a stage?
bool gw_release_draws(const struct gw_release *release, uint32_t stage, uint64_t device_id,
                      const struct pol_attrs *attrs);
// Would a gateway whose newest open stage is `newest` offer it to the device, but for what other
// releases say?
bool gw_release_is_for(const struct gw_release *release, uint32_t newest, bool shadow,
                       uint64_t device_id, const struct pol_attrs *attrs);
bool gw_release_has_shadow(const struct gw_release *release); // a shadow stage

// How a device with these bits (enum gw_outcome_bit) stands.
static inline enum gw_standing gw_release_standing(const struct gw_release *release, unsigned bits)
{
    return release->trust_unproven || (bits & GW_OUTCOME_PROVEN) != 0 ? GW_STANDING_COUNTED
                                                                      : GW_STANDING_UNPROVEN;
}

#endif
