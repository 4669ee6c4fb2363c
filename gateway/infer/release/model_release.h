// Models' versions that operators push into the store, and their release in stages: the book of
// both, its paths over HTTP, and its figures.
//
// A version that was pushed is loaded beside those of the disk (infer_shelf.h) and answers whoever
// names it. A release makes it answer who names none: shadows, then a growing share of the callers,
// each stage judged (release_gate.h) until it passes, fails and goes back, or a person decides. At
// the end the candidate serves.
//
// What is kept lies in a row of the store for each model (release_row.h), written before it holds:
// a release goes on where it was after a restart, and its open stage is measured anew.
//
// Threads: gw_release_open and _close on the main thread. A thread of its own looks at open
// releases. Operators' changes come on the background thread.
#ifndef GW_MODEL_RELEASE_H
#define GW_MODEL_RELEASE_H

#include "infer/infer_shelf.h"
#include "svc/infer_seam.h"

struct gw_releases;

#define GW_RELEASE_TICK_US   250000u              // between two looks at open releases
#define GW_RELEASE_BYTES_MAX (UINT64_C(16) << 30) // of all versions in the store
#define GW_RELEASE_BODY_MAX  ((size_t)64 << 10)   // of a request that is no file

// Before the first call: the shelf of the service, which is loaded from the store, and the thread.
// What was released goes on. CORRUPT: a row; NOMEM, IO.
BASE_NODISCARD enum base_status gw_release_open(struct gw_core *core,
                                                struct gw_infer_service *service,
                                                struct gw_releases **out, struct base_error *error);
// After the last exchange and before the service goes. Accepts NULL.
void gw_release_close(struct gw_releases *releases);

// Worker's thread: is the request one of the paths here? Then it is answered, now or later.
bool gw_release_handle(struct gw_infer_service *service, struct gw_worker *worker,
                       struct gw_exchange *exchange);
// Lines of /metrics.
void gw_release_metrics(struct gw_infer_service *service, void (*add)(void *ctx, const char *text),
                        void *ctx);

#endif
