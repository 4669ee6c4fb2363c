// The inference service over HTTP, as the Open Inference Protocol (v2) has it, with its extensions
// for binary tensors, model repositories and statistics:
//
//   GET  /v2                                          what this server is
//   GET  /v2/health/live, /v2/health/ready
//   GET  /v2/models/M[/versions/V]                    inputs and outputs
//   GET  /v2/models/M[/versions/V]/ready, .../stats
//   GET  /v2/models/stats                             of all models
//   POST /v2/models/M[/versions/V]/infer
//   POST /v2/repository/index                         (GET as well)
//   POST /v2/repository/models/M/load, .../unload     an operator's token, releaser or better
//
// Errors are {"error": TEXT}: 400 what the model does not take, 404 no such model, 413, 429 with
// retry-after when too many calls wait or a call would wait longer than it can, 503 while a model
// is not loaded or the gateway drains, 504 when its timeout passed.
#ifndef GW_INFER_HTTP_H
#define GW_INFER_HTTP_H

#include "infer/infer_service.h"
#include "svc/infer_seam.h"

// Main thread, before the first worker is made. The service must outlive the workers.
void gw_infer_install(struct gw_core *core, struct gw_infer_service *service,
                      enum gw_metrics_access access);

#endif
