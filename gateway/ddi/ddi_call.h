// One DDI request on its way: worker, control thread (the device's record), worker, and for a
// deployment the background thread (hashes of its files). Private to gateway/ddi.
#ifndef GW_DDI_CALL_H
#define GW_DDI_CALL_H

#include "ddi/ddi.h"
#include "svc/device/foreign.h"

#include <jansson.h>

enum ddi_resource {
    DDI_BASE,
    DDI_CONFIG,
    DDI_DEPLOYMENT,
    DDI_DEPLOYMENT_FEEDBACK,
    DDI_CANCEL,
    DDI_CANCEL_FEEDBACK,
};

// Lives in the exchange's arena.
struct ddi_call {
    struct gw_control_call control; // first: the core hands this back
    enum ddi_resource resource;
    struct base_str tenant;     // as in the path
    struct base_str controller; // as in the path
    uint32_t action;
    bool known; // the device has a record
    struct gw_device_view view;
    struct gw_foreign_want want;
};

static inline struct gw_exchange *ddi_exchange(const struct ddi_call *call)
{
    return call->control.exchange;
}

// Number of the action that brings this release to a device: 31 bits, since clients keep it in an
// int. Another one for the way back from the same rollout.
uint32_t ddi_action(uint64_t rollout_id, enum gw_foreign_kind kind);

// ---- ddi_json.c
// Fills the reply with `root` (taken); 503 without memory.
void ddi_reply_take(struct gw_exchange *exchange, json_t *root);
// "https://HOST/default/controller/v1/ID/" and what the format adds, as a JSON text.
json_t *ddi_href(const struct ddi_call *call, const char *format, ...) BASE_PRINTF(2, 3);
json_t *ddi_poll_json(const struct ddi_call *call, uint32_t cancel_action, uint32_t interval_s);
json_t *ddi_cancel_json(uint32_t action);
// Attributes of configData into `out` (texts in the arena), beside those of the view when the mode
// says so. False: the reply says what is wrong.
bool ddi_read_config(struct ddi_call *call, struct wire_attrs *out);
enum ddi_verdict { DDI_GOING_ON, DDI_DOWNLOADED, DDI_SUCCESS, DDI_FAILURE, DDI_REJECTED };
struct ddi_feedback {
    enum ddi_verdict verdict;
    struct base_str detail; // in the arena
};
bool ddi_read_feedback(struct ddi_call *call, struct ddi_feedback *out);

// ---- ddi_deployment.c
// Answers a deployment; the call's want says which.
void ddi_deployment(struct gw_worker *worker, struct ddi_call *call);

#endif
