// What release_http.c asks of the book. Only gateway/infer/release includes this.
#ifndef GW_RELEASE_BOOK_H
#define GW_RELEASE_BOOK_H

#include "infer/release/model_release.h"
#include "infer/release/release_row.h"

// A version's file. Background thread. INVALID: the name, the number, or what the file is; EXISTS;
// CONFLICT; LIMIT: too many versions; FULL: too many bytes, or no room; TIMEOUT: it takes too long
// with zeros; what the engine and the store say.
struct gw_release_push {
    struct base_str model;
    struct base_str version;
    struct base_span file;
    const char *by;
};
BASE_NODISCARD enum base_status gw_release_push(struct gw_releases *releases,
                                                const struct gw_release_push *push,
                                                struct base_error *error);
// NOT_FOUND; CONFLICT: it serves, or is being released.
BASE_NODISCARD enum base_status gw_release_remove(struct gw_releases *releases,
                                                  struct base_str model, struct base_str version,
                                                  struct base_error *error);

struct gw_release_wish {
    struct base_str model;
    uint64_t version;
    struct gw_release_plan plan;
    struct base_str reason;
    const char *by;
};
// NOT_FOUND: no such model or version; CONFLICT: another release is open, or it serves already;
// INVALID: it takes or gives something else than the version that serves.
BASE_NODISCARD enum base_status gw_release_start(struct gw_releases *releases,
                                                 const struct gw_release_wish *wish,
                                                 struct base_error *error);
// What an operator says of an open release. NOT_FOUND: there is none; CONFLICT: not in this state.
BASE_NODISCARD enum base_status gw_release_command(struct gw_releases *releases,
                                                   const struct gw_release_wish *wish,
                                                   enum pol_command command,
                                                   struct base_error *error);

// {"model", "serving", "stored", "release"}; NULL: no memory, or there is no such model. Any
// thread.
json_t *gw_release_model_view(struct gw_releases *releases, struct base_str model);
// The same of all models of the store, with the lock held while `visit` runs.
void gw_release_each(struct gw_releases *releases,
                     void (*visit)(void *ctx, const struct gw_release_model *model), void *ctx);

#endif
