// Calls of models that devices make, between their own form and the service's. On the worker's
// thread a call is charged, or answered from what is kept; reading and writing may be on a thread
// of the service, as for other protocols (infer_exchange.c). What is read and written belongs to
// the exchange; the ledger is the service's.
#include "infer/device/device_call.h"

#include "base/check.h"
#include "base/clock.h"
#include "infer/codec/oip_tensor.h"
#include "svc/content/blob_zstd.h"
#include "svc/reply.h"
#include "wire/digest.h"
#include "wire/cloud/tensor_call.h"

#include <stdio.h>
#include <string.h>

_Static_assert(WIRE_TENSOR_PRIORITIES == GW_INFER_PRIORITIES, "a priority is the same in both");
_Static_assert(WIRE_TENSORS_MAX <= GW_INFER_TENSORS_MAX, "what a device may send fits");
_Static_assert(WIRE_TENSOR_DEADLINE_MS * 1000ull <= GW_INFER_TIMEOUT_US_MAX, "likewise");

// Behind gw_infer_exchange.own.
struct device_call {
    struct gw_device_charge charge;
    bool packed;
};

bool gw_device_call_is(const struct gw_request *request)
{
    return base_str_equal(request->content_type, BASE_STR(WIRE_TENSOR_TYPE)) ||
           base_str_equal(request->content_type, BASE_STR(WIRE_TENSOR_TYPE_PACKED));
}

// ---- Replies

static void reply_refusal(struct gw_exchange *exchange, int status, enum wire_cloud_why why,
                          const char *text)
{
    size_t size = strlen(text);
    const char *copy = base_arena_text(exchange->arena, text, size);
    gw_reply_body(exchange, status, BASE_STR("text/plain; charset=utf-8"), copy,
                  copy != NULL ? size : 0);
    gw_reply_header(&exchange->reply, BASE_STR(WIRE_CLOUD_REASON),
                    base_str_of(wire_cloud_word(why)));
}

static void refuse(struct gw_exchange *exchange, int status, enum wire_cloud_why why,
                   const char *text)
{
    reply_refusal(exchange, status, why, text);
    gw_exchange_finish(exchange);
}

static enum wire_cloud_why why_of(enum base_status status, int *out_http)
{
    switch (status) {
    case BASE_ERR_NOT_FOUND:
        *out_http = 404;
        return WIRE_CLOUD_NO_MODEL;
    case BASE_ERR_CONFLICT: // not loaded
        *out_http = 503;
        return WIRE_CLOUD_NO_MODEL;
    case BASE_ERR_TOO_LARGE:
        *out_http = 413;
        return WIRE_CLOUD_TOO_LARGE;
    case BASE_ERR_LIMIT:
        *out_http = 429;
        return WIRE_CLOUD_BUSY;
    case BASE_ERR_BUSY:
    case BASE_ERR_NOMEM:
    case BASE_ERR_CLOSED:
        *out_http = 503;
        return WIRE_CLOUD_BUSY;
    case BASE_ERR_TIMEOUT:
        *out_http = 504;
        return WIRE_CLOUD_LATE;
    default:
        *out_http = base_status_is_input(status) ? 400 : 500;
        return base_status_is_input(status) ? WIRE_CLOUD_REFUSED : WIRE_CLOUD_FAILED;
    }
}

static void reply_answer(struct gw_exchange *exchange, struct base_str answer)
{
    gw_reply_body(exchange, 200, BASE_STR(WIRE_TENSOR_TYPE), answer.data, answer.size);
}

static void reply_call(struct gw_infer_exchange *self)
{
    const struct gw_infer_ticket *ticket = &self->ticket;
    const struct device_call *own = self->own;
    struct gw_device_ledger *ledger = gw_infer_ledger(self->service);
    int http = 500;
    if (ticket->status == BASE_OK) {
        gw_device_ledger_end(ledger, &own->charge);
        reply_answer(self->exchange, self->answer);
        return;
    }
    if (gw_infer_did_not_run(ticket)) {
        gw_device_ledger_refund(ledger, &own->charge);
    } else {
        gw_device_ledger_end(ledger, &own->charge);
    }
    enum wire_cloud_why why = why_of(ticket->status, &http);
    reply_refusal(self->exchange, http, why, ticket->error.text);
    if (ticket->status == BASE_ERR_LIMIT) {
        gw_reply_retry_after(self->exchange, ticket->retry_after_s);
    }
}

// ---- Reading and writing

static enum base_status unpack(struct gw_infer_exchange *self, struct base_str *out,
                               struct base_error *error)
{
    uint8_t *room = base_arena_alloc(&self->arena, WIRE_TENSOR_CALL_MAX);
    size_t size = 0;
    if (room == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    enum base_status status = gw_zstd_unpack((const uint8_t *)self->asked.data, self->asked.size,
                                             room, WIRE_TENSOR_CALL_MAX, &size);
    if (status != BASE_OK) {
        return base_error_set(error, status, "the body is not one zstd frame of at most %u bytes",
                              WIRE_TENSOR_CALL_MAX);
    }
    *out = (struct base_str){(const char *)room, size};
    return BASE_OK;
}

static enum base_status tensor_read(struct gw_infer_exchange *self, const struct wire_tensor *from,
                                    struct gw_infer_tensor *out, struct base_error *error)
{
    size_t count = 0;
    *out = (struct gw_infer_tensor){
        .name = from->name,
        .desc = {.dtype = (enum eng_dtype)from->dtype, .rank = from->rank},
    };
    for (uint32_t d = 0; d < from->rank; d++) {
        out->desc.dims[d] = (int64_t)from->dims[d];
    }
    BASE_TRY(gw_oip_shape(out, WIRE_TENSOR_CALL_MAX, &count, error));
    const struct base_str raw = {(const char *)from->data, from->bytes};
    return gw_oip_raw_read(&self->arena, raw, out, error);
}

static enum base_status read_call(struct gw_infer_exchange *self, struct base_error *error)
{
    const struct device_call *own = self->own;
    struct base_str body = self->asked;
    struct wire_tensor_call call;
    if (own->packed) {
        BASE_TRY(unpack(self, &body, error));
    }
    enum base_status status = wire_tensor_call_parse((const uint8_t *)body.data, body.size, &call);
    if (status != BASE_OK) {
        return base_error_set(error, status, "the body is no call of tensors: %s",
                              base_status_text(status));
    }
    self->call.inputs =
        base_arena_zalloc(&self->arena, (call.count + 1) * sizeof(*self->call.inputs));
    if (self->call.inputs == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < call.count; i++) {
        BASE_TRY(tensor_read(self, &call.tensors[i], &self->call.inputs[i], error));
    }
    self->call.input_count = call.count;
    self->call.priority = call.priority;
    self->call.timeout_us = call.deadline_ms * 1000ull;
    self->call.binary_all = true;
    return BASE_OK;
}

static enum base_status tensor_write(const struct gw_infer_tensor *from, struct wire_tensor *out)
{
    if (wire_tensor_element_bytes((uint8_t)from->desc.dtype) == 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    *out = (struct wire_tensor){
        .name = from->name,
        .dtype = (uint8_t)from->desc.dtype,
        .rank = (uint8_t)from->desc.rank,
        .data = from->data,
        .bytes = from->bytes,
    };
    for (uint32_t d = 0; d < from->desc.rank; d++) {
        out->dims[d] = (uint64_t)from->desc.dims[d];
    }
    return BASE_OK;
}

// The answer, and a copy of it for a repeat.
static enum base_status write_result(struct gw_infer_exchange *self)
{
    const struct gw_infer_result *result = &self->ticket.result;
    const struct device_call *own = self->own;
    struct wire_tensor_answer answer = {.version = result->version};
    size_t bytes = 3 + result->version.size;
    if (result->output_count > WIRE_TENSORS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    for (size_t i = 0; i < result->output_count; i++) {
        BASE_TRY(tensor_write(&result->outputs[i], &answer.tensors[i]));
        bytes += 3 + answer.tensors[i].name.size + 10 * (size_t)WIRE_TENSOR_RANK_MAX;
        bytes += answer.tensors[i].bytes;
        if (bytes > WIRE_TENSOR_ANSWER_MAX) {
            return BASE_ERR_TOO_LARGE;
        }
    }
    answer.count = (uint32_t)result->output_count;
    uint8_t *room = base_arena_alloc(&self->written, bytes);
    if (room == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct base_writer writer;
    base_writer_init(&writer, room, bytes);
    wire_tensor_answer_write(&writer, &answer);
    BASE_TRY(writer.status);
    self->answer = (struct base_str){(const char *)room, base_writer_size(&writer)};
    gw_device_ledger_keep(gw_infer_ledger(self->service), &own->charge, room, self->answer.size);
    return BASE_OK;
}

// ---- A call

// Whose it is: who was proven, or else who it says it is, which is known as no more than that.
static bool who(const struct gw_request *request, const struct gw_head *head,
                struct gw_device_charge *out)
{
    if (gw_head_is_device(head)) {
        out->device = head->id;
        out->tenant = head->tenant;
        out->shown = GW_DEVICE_SHOWN_ITSELF;
        return true;
    }
    out->tenant = gw_infer_tenant(head);
    out->shown = head->proof == GW_PROOF_TOKEN ? GW_DEVICE_SHOWN_TOKEN : GW_DEVICE_SHOWN_NAME;
    return wire_device_parse_own(request->device, &out->device) == BASE_OK;
}

static void reply_kept(struct gw_infer_service *service, struct gw_exchange *exchange,
                       const struct gw_device_charge *charge)
{
    uint8_t *room = base_arena_alloc(exchange->arena, GW_DEVICE_ANSWER_MAX);
    size_t size = room == NULL ? 0
                               : gw_device_ledger_kept(gw_infer_ledger(service), charge, room,
                                                       GW_DEVICE_ANSWER_MAX);
    if (size == 0) {
        refuse(exchange, 503, WIRE_CLOUD_BUSY, "the answer is no longer kept");
        return;
    }
    reply_answer(exchange, (struct base_str){(const char *)room, size});
    gw_exchange_finish(exchange);
}

// A name costs nothing, so who shows no more pays as callers of the other protocols do, before its
// name does. False: the quota was used up, and the reply says so.
static bool charge_tenant(struct gw_infer_service *service, struct gw_exchange *exchange,
                          const struct gw_device_charge *charge)
{
    struct base_error error = {0};
    uint32_t retry_after_s = 0;
    int http = 500;
    if (charge->shown == GW_DEVICE_SHOWN_ITSELF ||
        gw_infer_charge(service, charge->tenant, charge->bytes, &retry_after_s, &error) ==
            BASE_OK) {
        return true;
    }
    enum wire_cloud_why why = why_of(error.status, &http);
    reply_refusal(exchange, http, error.status == BASE_ERR_LIMIT ? WIRE_CLOUD_QUOTA : why,
                  error.text);
    if (retry_after_s > 0) {
        gw_reply_retry_after(exchange, retry_after_s);
    }
    gw_exchange_finish(exchange);
    return false;
}

static void run(struct gw_infer_exchange *self, const struct device_call *own,
                const struct gw_infer_call *named)
{
    const struct gw_request *request = &self->exchange->request;
    self->own = own;
    self->asked = (struct base_str){(const char *)request->body, request->body_bytes};
    self->call.model = named->model;
    self->call.version = named->version;
    gw_infer_exchange_begin(self, GW_INFER_TIMEOUT_US_MAX);
}

// What the ledger says of it, done.
static void let(struct gw_infer_exchange *self, struct device_call *own,
                const struct gw_infer_call *named)
{
    struct gw_exchange *exchange = self->exchange;
    uint32_t retry_after_s = 0;
    switch (gw_device_ledger_charge(gw_infer_ledger(self->service), &own->charge,
                                    base_clock_mono_us(), &retry_after_s)) {
    case GW_DEVICE_OVER:
        reply_refusal(exchange, 429, WIRE_CLOUD_QUOTA, GW_DEVICE_OVER_TEXT);
        gw_reply_retry_after(exchange, retry_after_s);
        gw_exchange_finish(exchange);
        break;
    case GW_DEVICE_UNDER_WAY:
        refuse(exchange, 409, WIRE_CLOUD_BUSY, "the call of this idempotency-key has not ended");
        break;
    case GW_DEVICE_OTHER:
        refuse(exchange, 422, WIRE_CLOUD_REFUSED,
               "idempotency-key: it was of a call of another model, version or body");
        break;
    case GW_DEVICE_KEPT:
        reply_kept(self->service, exchange, &own->charge);
        break;
    default:
        run(self, own, named);
        break;
    }
}

void gw_device_call(struct gw_infer_service *service, struct gw_worker *worker,
                    struct gw_exchange *exchange, const struct gw_head *head,
                    const struct gw_infer_call *named)
{
    static const struct gw_infer_protocol protocol = {read_call, write_result, reply_call};
    const struct gw_request *request = &exchange->request;
    struct device_call *own = base_arena_zalloc(exchange->arena, sizeof(*own));
    struct gw_infer_exchange *self =
        own != NULL ? gw_infer_exchange_new(service, worker, exchange, head, &protocol) : NULL;
    if (self == NULL) {
        refuse(exchange, 503, WIRE_CLOUD_BUSY, "out of memory");
        return;
    }
    if (!who(request, head, &own->charge)) {
        refuse(exchange, 400, WIRE_CLOUD_NOT_ALLOWED, "walle-device: " WIRE_DEVICE_OWN_EXPECTED);
        return;
    }
    if (request->body_bytes > WIRE_TENSOR_CALL_MAX) {
        refuse(exchange, 413, WIRE_CLOUD_TOO_LARGE, "the body of a device's call is over 1 MiB");
        return;
    }
    const struct gw_device_asked asked = {
        .type = request->content_type,
        .model = named->model,
        .version = named->version,
        .body = {(const char *)request->body, request->body_bytes},
    };
    self->ticket.caller = own->charge.device != 0 ? own->charge.device : 1; // a key is of one call
    own->charge.key = request->idempotency_key;
    own->charge.bytes = request->body_bytes;
    own->packed = base_str_equal(request->content_type, BASE_STR(WIRE_TENSOR_TYPE_PACKED));
    if (own->charge.key.size > 0) {
        own->charge.mark = gw_device_ledger_mark(gw_infer_ledger(service), &asked);
    }
    if (charge_tenant(service, exchange, &own->charge)) {
        let(self, own, named);
    }
}

void gw_device_call_metrics(struct gw_infer_service *service,
                            void (*add)(void *ctx, const char *text), void *ctx)
{
    static const char *const names[] = {
        [GW_DEVICE_CHARGED] = "charged",     [GW_DEVICE_REPEATED] = "repeated",
        [GW_DEVICE_KEPT] = "kept",           [GW_DEVICE_OVER] = "over_quota",
        [GW_DEVICE_UNDER_WAY] = "under_way", [GW_DEVICE_OTHER] = "other_call",
    };
    struct gw_device_figures figures;
    char line[128];
    gw_device_ledger_figures(gw_infer_ledger(service), &figures);
    add(ctx, "# HELP walle_infer_device_calls_total Calls of devices, by how they were let in.\n"
             "# TYPE walle_infer_device_calls_total counter\n");
    for (unsigned i = 0; i < GW_DEVICE_LET_COUNT; i++) {
        (void)snprintf(line, sizeof(line), "walle_infer_device_calls_total{let=\"%s\"} %llu\n",
                       names[i], (unsigned long long)figures.let[i]);
        add(ctx, line);
    }
    (void)snprintf(line, sizeof(line), "walle_infer_device_calls_total{let=\"given_back\"} %llu\n",
                   (unsigned long long)figures.given_back);
    add(ctx, line);
}
