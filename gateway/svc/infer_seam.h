// The seam to the inference service, which is set into the core from outside: gateway/infer knows
// the core, the core knows only this. Its paths are rows of the table of routes that are there when
// the service is.
#ifndef GW_INFER_SEAM_H
#define GW_INFER_SEAM_H

#include "svc/core.h"

struct gw_head;

// Answers one request (worker's thread); ends in one gw_exchange_finish, now or later.
typedef void (*gw_infer_handle_fn)(void *self, struct gw_worker *worker,
                                   struct gw_exchange *exchange);

struct gw_infer_seam {
    void *self;                    // outlives the workers; NULL: no service, no paths
    enum gw_metrics_access access; // who may ask without a token
    gw_infer_handle_fn handle;     // of the paths below /v2
    gw_infer_handle_fn grpc;       // of the methods of gRPC
    // Is this call refused whatever else its body says? As gw_core_early; worker's thread.
    enum gw_early (*early)(void *self, struct gw_exchange *exchange, struct base_str piece,
                           size_t *out_wanted);
    // Lines of /metrics, with the models' names.
    void (*figures)(void *self, void (*add)(void *ctx, const char *text), void *ctx);
};

// Main thread, before the first worker is made. `seam` is copied.
void gw_core_set_infer(struct gw_core *core, const struct gw_infer_seam *seam);
// May this request ask the service: an operator's token, a device that shows who it is, or whom the
// setting lets in? False: the reply says why not. Worker's thread.
bool gw_infer_admit(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out);
// Any thread: `run` is called on the worker's thread. Not after the worker's last exchange.
void gw_worker_post(struct gw_worker *worker, struct gw_message *message);

#endif
