// A model of the repository as the service keeps it, and how its versions come in. Behind the
// service's lock. Only gateway/infer/infer_*.c include this, by infer_private.h.
#ifndef GW_INFER_MODEL_H
#define GW_INFER_MODEL_H

#include "infer/infer_repository.h"
#include "infer/split/infer_agree.h"
#include "infer/split/infer_split.h"

struct gw_infer_service;
struct gw_infer_shelf;
struct gw_infer_version;

// A plan of the engine, and what is known of it.
struct gw_infer_session {
    struct gw_infer_session *next;
    struct eng_session *engine;
    uint64_t shape; // of its plan, with the rows
    uint32_t rows;
    size_t bytes;     // what it holds while it is idle
    uint64_t run_us;  // of a run with this plan: the longest lately; 0: none
    bool by_contents; // of any plan it had: runs cost what tensors hold, not what shapes say
    uint64_t used_at; // when it became idle, in the order of gw_infer_idle_put; 0: never used
};

// A version that was to be served and could not be.
struct gw_infer_failed {
    char text[GW_INFER_VERSION_TEXT];
    char reason[BASE_ERROR_TEXT_MAX];
};

// Of a release.
struct gw_infer_candidate {
    char text[GW_INFER_VERSION_TEXT]; // empty: there is none
    struct gw_infer_split split;
    struct gw_infer_agree agree;
    uint64_t calls;                   // of the serving version
    uint32_t number;                  // of the trial: what began before it is not counted
    struct gw_infer_trial *trial;     // NULL: there never was one
    struct gw_infer_callers *callers; // of the trial; NULL as it is
};

struct gw_infer_model {
    char name[GW_INFER_MODEL_NAME_MAX + 1];
    struct gw_infer_settings settings;
    struct gw_infer_version *versions[GW_INFER_VERSIONS_MAX]; // the highest first
    uint32_t version_count;                                   // 0: not loaded
    struct gw_infer_failed failed[GW_INFER_VERSIONS_MAX];     // beside those that are loaded
    uint32_t failed_count;
    struct gw_infer_candidate candidate;
    bool wanted;                      // it was to be loaded
    bool gone;                        // nobody knows its name any more; its place is free
    char reason[BASE_ERROR_TEXT_MAX]; // why it is not
};

// gw_infer_load of a folder found at the start: what can be served is. Of `latest` the highest
// version that loads, of others each that does. What cannot be is in the log and in the index.
void gw_infer_load_first(struct gw_infer_service *service, struct base_str name);

// By its name or an alias; NULL: there is none. With the lock.
struct gw_infer_model *gw_infer_model_find(struct gw_infer_service *service, struct base_str name);
// The one of this very name, made when there is none. With the lock. NULL: too many, or no memory.
struct gw_infer_model *gw_infer_model_place(struct gw_infer_service *service, struct base_str name);
bool gw_infer_model_room(const struct gw_infer_service *service); // for one more. With the lock.
// Reads and plans it; it is in no list yet.
BASE_NODISCARD enum base_status gw_infer_version_make(const struct gw_infer_service *service,
                                                      const struct gw_infer_source *source,
                                                      struct gw_infer_version **out,
                                                      struct base_error *error);
// A session without a plan; the caller's. What the engine says, as of a device that is not there.
BASE_NODISCARD enum base_status gw_infer_session_new(const struct gw_infer_service *service,
                                                     const struct gw_infer_version *version,
                                                     struct gw_infer_session **out,
                                                     struct base_error *error);

#endif
