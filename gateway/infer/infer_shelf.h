// Versions of models that are kept elsewhere than in the repository's folder, and what a release
// asks of the service: a candidate beside the version that serves, a share of the callers, shadows,
// and what was seen of both.
//
// A version of the shelf is loaded beside those of the disk and answers whoever names it. By
// default a call is answered by the version that serves: the one that the shelf says, else the
// highest of the disk, else the highest of the shelf.
//
// Threads: any, but for gw_infer_shelf_set; what loads takes its time. The port's functions are
// called with the service's load lock held, so who implements them may not hold a lock of its own
// while it calls a function below that loads.
#ifndef GW_INFER_SHELF_H
#define GW_INFER_SHELF_H

#include "base/span.h"
#include "infer/infer_service.h"
#include "infer/infer_settings.h"
#include "infer/split/infer_agree.h"
#include "infer/split/infer_split.h"

#define GW_INFER_SHELF_BYTES_MAX ((size_t)1 << 30) // of one version
#define GW_INFER_WARM_US_MAX     30000000u         // of the run before a version takes calls
// Of a shadow's inputs and outputs, which are copied; a call with more has no shadow.
#define GW_INFER_SHADOW_BYTES_MAX ((size_t)1 << 20)
#define GW_INFER_SHADOWS_MAX      16u       // at once
#define GW_INFER_SHADOW_US_MAX    10000000u // a shadow that takes longer has failed

struct gw_infer_shelf {
    void *self;
    // Its versions of the model, the highest first; how many.
    uint32_t (*list)(void *self, struct base_str model, uint64_t out[GW_INFER_VERSIONS_MAX]);
    // The file of one: on the heap, the caller's. NOT_FOUND, IO, CORRUPT, NOMEM.
    enum base_status (*load)(void *self, struct base_str model, uint64_t version,
                             struct base_span *out_file, struct base_error *error);
    // Which is to serve; 0: it does not say. `highest` is that of the disk, 0: none.
    uint64_t (*serving)(void *self, struct base_str model, uint64_t highest);
};

// Main thread, before the first call; copied. What it points to outlives the service.
void gw_infer_shelf_set(struct gw_infer_service *service, const struct gw_infer_shelf *shelf);
void *gw_infer_shelf_self(struct gw_infer_service *service); // NULL: there is none

// ---- Versions that come and go

// A version made of a model's file (on the heap; taken, whatever comes of it) with the settings of
// the model's folder. It is planned and has run once, with zeros, where the model says how large
// its inputs are; nobody can call it. INVALID: a name, or what the model is; TIMEOUT: the run took
// longer than GW_INFER_WARM_US_MAX; what the engine says.
BASE_NODISCARD enum base_status
gw_infer_prepare(struct gw_infer_service *service, const struct gw_infer_call *named,
                 struct base_span file, struct gw_infer_version **out, struct base_error *error);
void gw_infer_prepared_free(struct gw_infer_version *version); // accepts NULL
// May a version of this number be added? EXISTS: it is there; CONFLICT: the name is another model's
// alias; INVALID: the name is reserved; LIMIT: too many versions, or models.
BASE_NODISCARD enum base_status gw_infer_may_add(struct gw_infer_service *service,
                                                 const struct gw_infer_call *named,
                                                 struct base_error *error);
// Puts it behind the others (taken, whatever comes of it): it answers whoever names it, and
// everybody when there is no other. As gw_infer_may_add.
BASE_NODISCARD enum base_status gw_infer_add(struct gw_infer_service *service,
                                             struct gw_infer_version *version,
                                             struct base_error *error);
// Lets go of a version of the shelf. NOT_FOUND; CONFLICT: it serves.
BASE_NODISCARD enum base_status gw_infer_remove(struct gw_infer_service *service,
                                                const struct gw_infer_call *named,
                                                struct base_error *error);
// The model's last version went out of the shelf: where it is not loaded and has no folder, its
// name is nobody's from now on, and its place another's.
void gw_infer_name_gone(struct gw_infer_service *service, struct base_str name);
// From now on it answers who names none. NOT_FOUND.
BASE_NODISCARD enum base_status gw_infer_serve(struct gw_infer_service *service,
                                               const struct gw_infer_call *named,
                                               struct base_error *error);
// Loads the model again with what the shelf has, as at a start.
void gw_infer_load_shelved(struct gw_infer_service *service, struct base_str model);
// Which serves, and the highest of the disk (0: none). NOT_FOUND; CONFLICT: it is not loaded, or
// the name is an alias.
BASE_NODISCARD enum base_status gw_infer_serving(struct gw_infer_service *service,
                                                 struct base_str model, uint64_t *out_serving,
                                                 uint64_t *out_highest, struct base_error *error);
// Does the version take and give what the one that serves does? Names, types, ranks and fixed
// dimensions are the same; what is open may stand for a fixed one, and of an output also the other
// way. INVALID with what differs.
BASE_NODISCARD enum base_status gw_infer_alike(struct gw_infer_service *service,
                                               const struct gw_infer_call *named,
                                               struct base_error *error);

// ---- A candidate

struct gw_infer_trial_wish {
    struct base_str candidate; // empty: no trial
    struct gw_infer_split split;
    struct gw_infer_agree agree;
    uint32_t per_caller; // so many calls of one caller count, in each arm; 0: all
};
// From now on, with nothing seen yet. NOT_FOUND: no such model; NOMEM.
BASE_NODISCARD enum base_status gw_infer_trial_set(struct gw_infer_service *service,
                                                   struct base_str model,
                                                   const struct gw_infer_trial_wish *wish);
// What was seen since; a copy. False: there is no trial.
bool gw_infer_trial_read(struct gw_infer_service *service, struct base_str model,
                         struct gw_infer_trial *out);

#endif
