// Calls of models that devices make (wire/cloud/tensor_call.h): POST /v2/models/M/infer with that
// content type. They are charged to the device (device_ledger.h), and run as all other calls are.
//
// An answer that refuses has the header walle-reason with a word of WIRE_CLOUD_MAP, and a text.
#ifndef GW_DEVICE_CALL_H
#define GW_DEVICE_CALL_H

#include "infer/device_ledger.h"
#include "infer/infer_exchange.h"
#include "svc/access/head_check.h"

// Is it in this form?
bool gw_device_call_is(const struct gw_request *request);
// Worker's thread; ends in one gw_exchange_finish. `head` says who was proven to ask.
void gw_device_call(struct gw_infer_service *service, struct gw_worker *worker,
                    struct gw_exchange *exchange, const struct gw_head *head,
                    const struct gw_infer_call *named);
// Lines of /metrics.
void gw_device_call_metrics(struct gw_infer_service *service,
                            void (*add)(void *ctx, const char *text), void *ctx);

#endif
