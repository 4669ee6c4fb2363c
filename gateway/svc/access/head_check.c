// Decides at the headers what can be decided there; route.c asks, by route. A refusal that
// needs a note in the audit log is finished by the same code as one that comes with its body. On
// the worker's thread.
#include "svc/access/head_check.h"

#include "svc/core_private.h"
#include "svc/access/credentials.h"
#include "svc/access/operators.h"
#include "svc/reply.h"
#include "svc/core_worker.h"

#include "wire/report.h"

#include <stdio.h>
#include <string.h>

_Static_assert(GW_BODY_SMALL_BYTES == WIRE_REPORT_BYTES_MAX, "the largest small body is a report");

static void note_device(const struct gw_request *request, uint64_t device_id, uint16_t tenant,
                        struct gw_head *out)
{
    if (request->has_certificate) {
        out->proof = GW_PROOF_CERTIFICATE;
    } else if (request->credential.size > 0) {
        out->proof = GW_PROOF_CREDENTIAL;
    } else {
        return; // served, but nothing is proven
    }
    out->id = device_id;
    out->tenant = tenant;
}

static bool refuse(struct gw_exchange *exchange)
{
    exchange->refused = true;
    return false;
}

// A report says within whose it is; what comes with walle-device is looked at now.
bool gw_report_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    const struct gw_request *request = &exchange->request;
    uint64_t device_id = 0;
    uint16_t tenant = 0;
    if (request->device.size == 0) {
        return true;
    }
    if (wire_device_parse_own(request->device, &device_id) != BASE_OK) {
        gw_count(&worker->stats.reports_bad, 1);
        gw_reply_problem(exchange, 400, "walle-device: " WIRE_DEVICE_OWN_EXPECTED);
        return refuse(exchange);
    }
    enum gw_admission admission = gw_device_admit(worker->core, request, device_id, &tenant);
    if (admission != GW_ADMITTED) {
        gw_count(&worker->stats.reports_bad, 1);
        gw_admission_refuse(exchange, admission);
        return refuse(exchange);
    }
    note_device(request, device_id, tenant, out);
    return true;
}

bool gw_api_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    struct gw_core *core = worker->core;
    struct gw_actor actor = {0};
    if (core->hooks.api_head == NULL) {
        return true;
    }
    if (!gw_access_check(core, exchange, &actor)) {
        return refuse(exchange);
    }
    out->proof = GW_PROOF_TOKEN;
    out->id = actor.token_id;
    return core->hooks.api_head(exchange, &actor, &out->size);
}

bool gw_ddi_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    (void)out;
    return worker->core->hooks.ddi_head(worker, exchange);
}

bool gw_core_prove(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    struct gw_request *request = &exchange->request;
    bool shows = request->credential.size > 0 || request->has_certificate;
    uint64_t device_id = request->certificate_device;
    *out = (struct gw_head){0};
    if (!shows) {
        return true;
    }
    bool named = request->device.size > 0;
    if ((named && wire_device_parse_own(request->device, &device_id) != BASE_OK) ||
        (!named && !request->has_certificate)) {
        gw_admission_refuse(exchange, GW_ADMISSION_UNKNOWN);
        return refuse(exchange);
    }
    uint16_t tenant = 0;
    enum gw_admission admission = gw_device_admit(worker->core, request, device_id, &tenant);
    if (admission != GW_ADMITTED) {
        gw_admission_refuse(exchange, admission);
        return refuse(exchange);
    }
    note_device(request, device_id, tenant, out);
    return true;
}

bool gw_infer_admit(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    struct gw_core *core = worker->core;
    const struct gw_request *request = &exchange->request;
    struct gw_actor actor = {0};
    if (request->credential.size > 0 || request->has_certificate) {
        enum gw_body_size size = out->size;
        bool proven = gw_core_prove(worker, exchange, out);
        out->size = size;
        return proven;
    }
    if (gw_access_without_token(core->hooks.infer.access, request)) {
        return true;
    }
    if (!gw_access_check(core, exchange, &actor)) {
        return false;
    }
    out->proof = GW_PROOF_TOKEN;
    out->id = actor.token_id;
    out->tenant = actor.tenant;
    return true;
}

bool gw_infer_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    if (!gw_infer_admit(worker, exchange, out)) {
        return refuse(exchange);
    }
    out->looks = exchange->request.method == GW_METHOD_POST;
    return true;
}

enum gw_early gw_core_early(struct gw_worker *worker, struct gw_exchange *exchange,
                            struct base_str piece, size_t *out_wanted)
{
    const struct gw_infer_seam *infer = &worker->core->hooks.infer;
    return infer->early != NULL ? infer->early(infer->self, exchange, piece, out_wanted)
                                : GW_EARLY_GO_ON;
}

struct base_str gw_core_proven_text(struct gw_worker *worker, const struct gw_head *head,
                                    char out[GW_PROVEN_TEXT_MAX])
{
    char tenant[GW_TENANT_NAME_MAX + 1];
    if (head->proof != GW_PROOF_CREDENTIAL && head->proof != GW_PROOF_CERTIFICATE) {
        return (struct base_str){out, 0};
    }
    gw_tenant_name(worker->core, head->tenant, tenant);
    int size = snprintf(out, GW_PROVEN_TEXT_MAX, "device=%016llx; tenant=%s; by=%s",
                        (unsigned long long)head->id, tenant,
                        head->proof == GW_PROOF_CERTIFICATE ? "certificate" : "credential");
    return (struct base_str){out, (size_t)size};
}
