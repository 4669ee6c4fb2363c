// A model as the release book keeps it, its row in the store, and its view for operators. Only
// gateway/infer/release includes this.
#ifndef GW_RELEASE_ROW_H
#define GW_RELEASE_ROW_H

#include "base/str.h"
#include "infer/infer_repository.h"
#include "infer/release/release_gate.h"
#include "wire/digest.h"

#define GW_RELEASE_EVENTS_MAX 32u // of a release; then the oldest goes
#define GW_RELEASE_BY_MAX     64u // bytes of who did it

// A version in the store.
struct gw_release_version {
    uint64_t number;
    struct wire_sha256 digest;
    uint64_t bytes;
    uint64_t added_s;
    char by[GW_RELEASE_BY_MAX + 1];
};

struct gw_release_event {
    uint64_t time_s;
    uint32_t stage;
    char what[24];
    char why[BASE_ERROR_TEXT_MAX];
    char by[GW_RELEASE_BY_MAX + 1]; // empty: nobody, it came by itself
};

struct gw_release_model {
    char name[GW_INFER_MODEL_NAME_MAX + 1];
    struct gw_release_version versions[GW_INFER_VERSIONS_MAX]; // the highest first
    uint32_t version_count;
    uint64_t serving; // that a release, or the first push, made so; 0: none did
    uint64_t highest; // of the disk, then: a higher one there serves in its place

    uint64_t candidate; // of the last release; 0: there was none
    uint64_t from;      // the version that it is compared with
    uint64_t salt;
    struct gw_release_plan plan;
    struct pol_rollout rollout;
    struct gw_release_event events[GW_RELEASE_EVENTS_MAX];
    uint32_t event_count;

    // Not stored.
    struct pol_stage stages[GW_RELEASE_STAGES_MAX]; // of the plan
    struct gw_release_look look;                    // of the last tick
    struct gw_infer_trial trial;                    // what it looked at
    bool dirty;                                     // the row could not be written
};

// Its row: to free(); NULL: no memory.
char *gw_release_row(const struct gw_release_model *model);
// CORRUPT: it is none. A stage that was open is measured anew, from `now_us` on.
BASE_NODISCARD enum base_status gw_release_row_read(struct base_str row, uint64_t now_us,
                                                    struct gw_release_model *out);
// A reason of the rules of rollouts, in words of calls, where those would be of devices.
const char *gw_release_reason_text(enum pol_reason reason);
// The release, for people: null where there was none. NULL: no memory.
json_t *gw_release_view(const struct gw_release_model *model);
// {"version", "sha256", "bytes", "time_s", "by"} of each in the store.
json_t *gw_release_versions_view(const struct gw_release_model *model);

#endif
