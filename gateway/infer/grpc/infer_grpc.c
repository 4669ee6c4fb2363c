// gRPC in front of the service: a method's message is read on the worker that owns the stream, and
// what is only asked is answered there. Calls of models go their way by infer_exchange.c,
// operators' changes by infer_change.c. An error has no body: its status goes with the headers
// ("Trailers-Only").
#include "infer/grpc/infer_grpc.h"

#include "base/check.h"
#include "base/version.h"
#include "infer/codec/oip_proto.h"
#include "infer/codec/oip_tensor.h"
#include "infer/codec/pb_out.h"
#include "infer/codec/grpc_frame.h"
#include "infer/grpc/grpc_reply.h"
#include "infer/grpc/infer_stream.h"
#include "infer/infer_change.h"
#include "infer/infer_exchange.h"
#include "svc/access/head_check.h"
#include "svc/reply.h"
#include "svc/route.h"
#include "svc/two_way.h"

// ---- Replies

static void refuse(struct gw_exchange *exchange, enum gw_grpc_status status, const char *text)
{
    gw_grpc_fill_error(exchange, status, text);
    gw_exchange_finish(exchange);
}

static void refuse_failed(struct gw_exchange *exchange, const struct base_error *error)
{
    if (error->status == BASE_ERR_UNSUPPORTED) {
        gw_grpc_fill_compressed(exchange);
        gw_exchange_finish(exchange);
    } else {
        refuse(exchange, gw_grpc_status_of(error->status), error->text);
    }
}

static void fill_frame(struct gw_exchange *exchange, struct base_str frame)
{
    gw_reply_body(exchange, 200, BASE_STR("application/grpc"), frame.data, frame.size);
    gw_reply_trailer(&exchange->reply, BASE_STR("grpc-status"), BASE_STR("0"));
}

static void fill_message(struct gw_exchange *exchange, struct gw_pb_out *out)
{
    struct base_str frame;
    if (gw_pb_out_frame(out, &frame) != BASE_OK) {
        gw_grpc_fill_error(exchange, GW_GRPC_UNAVAILABLE, "out of memory");
        return;
    }
    fill_frame(exchange, frame);
}

static void reply_message(struct gw_exchange *exchange, struct gw_pb_out *out)
{
    fill_message(exchange, out);
    gw_exchange_finish(exchange);
}

// ---- What is asked

struct asked {
    struct gw_infer_service *service;
    struct gw_worker *worker;
    struct gw_exchange *exchange;
    const struct gw_head *head;
    struct base_str message;
    struct gw_oip_query query; // of all but ModelInfer
};

// A message of one boolean.
static void reply_flag(struct gw_exchange *exchange, bool flag)
{
    struct gw_pb_out out;
    gw_pb_out_init(&out, exchange->arena, 0);
    gw_pb_varint(&out, 1, flag);
    reply_message(exchange, &out);
}

static void server_live(const struct asked *asked)
{
    reply_flag(asked->exchange, true);
}

static void server_ready(const struct asked *asked)
{
    reply_flag(asked->exchange, gw_infer_ready(asked->service));
}

static void model_ready(const struct asked *asked)
{
    reply_flag(asked->exchange,
               gw_infer_model_ready(asked->service, asked->query.first, asked->query.second));
}

static void server_metadata(const struct asked *asked)
{
    struct gw_pb_out out;
    gw_pb_out_init(&out, asked->exchange->arena, 0);
    gw_pb_text(&out, 1, BASE_STR("walle"));
    gw_pb_text(&out, 2, BASE_STR(BASE_PRODUCT_VERSION));
    gw_pb_text(&out, 3, BASE_STR("classification"));
    gw_pb_text(&out, 3, BASE_STR("model_repository"));
    reply_message(asked->exchange, &out);
}

static void put_ports(struct gw_pb_out *out, uint32_t field, const struct eng_port_info *ports,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t mark = gw_pb_begin(out, field);
        gw_pb_text(out, 1, base_str_of(ports[i].name));
        gw_pb_text(out, 2, gw_oip_dtype_name(ports[i].desc.dtype));
        gw_pb_packed(out, 3, ports[i].desc.dims, ports[i].desc.rank);
        gw_pb_end(out, mark);
    }
}

static void model_metadata(const struct asked *asked)
{
    struct base_arena *arena = asked->exchange->arena;
    struct gw_infer_call named = {.model = asked->query.first, .version = asked->query.second};
    struct gw_infer_metadata metadata = {0};
    struct base_error error = {0};
    struct gw_pb_out out;
    if (gw_infer_metadata(asked->service, &named, arena, &metadata, &error) != BASE_OK) {
        refuse_failed(asked->exchange, &error);
        return;
    }
    gw_pb_out_init(&out, arena, 0);
    gw_pb_text(&out, 1, metadata.name);
    for (size_t i = 0; i < metadata.version_count; i++) {
        gw_pb_text(&out, 2, metadata.versions[i]);
    }
    gw_pb_text(&out, 3, BASE_STR("onnx"));
    put_ports(&out, 4, metadata.inputs, metadata.input_count);
    put_ports(&out, 5, metadata.outputs, metadata.output_count);
    reply_message(asked->exchange, &out);
}

static void repository_index(const struct asked *asked)
{
    struct base_arena *arena = asked->exchange->arena;
    const struct gw_infer_call all = {.priority = 0};
    struct gw_infer_row *rows = NULL;
    size_t count = 0;
    struct gw_pb_out out;
    if (gw_infer_rows(asked->service, &all, arena, &rows, &count) != BASE_OK) {
        refuse(asked->exchange, GW_GRPC_UNAVAILABLE, "out of memory");
        return;
    }
    gw_pb_out_init(&out, arena, 0);
    for (size_t i = 0; i < count; i++) {
        if (asked->query.flag && !rows[i].ready) {
            continue;
        }
        size_t mark = gw_pb_begin(&out, 1);
        gw_pb_text(&out, 1, rows[i].name);
        gw_pb_text(&out, 2, rows[i].version);
        gw_pb_text(&out, 3, rows[i].ready ? BASE_STR("READY") : BASE_STR("UNAVAILABLE"));
        gw_pb_text(&out, 4, rows[i].reason);
        gw_pb_end(&out, mark);
    }
    reply_message(asked->exchange, &out);
}

static void put_duration(struct gw_pb_out *out, uint32_t field, uint64_t count, uint64_t us)
{
    size_t mark = gw_pb_begin(out, field);
    gw_pb_varint(out, 1, count);
    gw_pb_varint(out, 2, us * 1000);
    gw_pb_end(out, mark);
}

static void put_statistics(struct gw_pb_out *out, const struct gw_infer_row *row)
{
    const struct gw_infer_figures *figures = &row->figures;
    size_t mark = gw_pb_begin(out, 1);
    gw_pb_text(out, 1, row->name);
    gw_pb_text(out, 2, row->version);
    gw_pb_varint(out, 4, figures->rows);
    gw_pb_varint(out, 5, figures->batches);
    size_t stats = gw_pb_begin(out, 6);
    put_duration(out, 1, figures->calls, figures->queue_us + figures->run_us);
    put_duration(out, 2, figures->failed, 0);
    put_duration(out, 3, figures->calls, figures->queue_us);
    put_duration(out, 5, figures->batches, figures->run_us);
    put_duration(out, 7, figures->cache_hits, 0);
    put_duration(out, 8, figures->cache_misses, 0);
    gw_pb_end(out, stats);
    gw_pb_end(out, mark);
}

// Of one model, or of all when none is named.
static void model_statistics(const struct asked *asked)
{
    struct base_arena *arena = asked->exchange->arena;
    const struct gw_infer_call named = {.model = asked->query.first,
                                        .version = asked->query.second};
    struct gw_infer_metadata metadata = {0};
    struct base_error error = {0};
    struct gw_infer_row *rows = NULL;
    size_t count = 0;
    struct gw_pb_out out;
    if (named.model.size > 0 &&
        gw_infer_metadata(asked->service, &named, arena, &metadata, &error) != BASE_OK) {
        refuse_failed(asked->exchange, &error);
        return;
    }
    if (gw_infer_rows(asked->service, &named, arena, &rows, &count) != BASE_OK) {
        refuse(asked->exchange, GW_GRPC_UNAVAILABLE, "out of memory");
        return;
    }
    gw_pb_out_init(&out, arena, 0);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].ready &&
            (named.version.size == 0 || base_str_equal(named.version, rows[i].version))) {
            put_statistics(&out, &rows[i]);
        }
    }
    reply_message(asked->exchange, &out);
}

// ---- Calls of models

static enum base_status read_call(struct gw_infer_exchange *self, struct base_error *error)
{
    return gw_oip_proto_read(&self->arena, self->asked, &self->call, error);
}

static enum base_status write_result(struct gw_infer_exchange *self)
{
    return gw_oip_proto_write(&self->written, &self->call, &self->ticket.result, &self->answer);
}

static void reply_call(struct gw_infer_exchange *self)
{
    struct gw_exchange *exchange = self->exchange;
    const struct gw_infer_ticket *ticket = &self->ticket;
    if (ticket->status == BASE_OK) {
        fill_frame(exchange, self->answer);
        return;
    }
    gw_grpc_fill_error(exchange, gw_grpc_status_of(ticket->status), ticket->error.text);
    if (ticket->status == BASE_ERR_LIMIT) {
        gw_grpc_fill_pushback(exchange, ticket->retry_after_s);
    }
}

// How long the call may take by its header. False: it is no time.
static bool read_timeout(const struct gw_request *request, uint64_t *out_us)
{
    bool is_time = gw_grpc_read_timeout(request, out_us);
    *out_us = *out_us < GW_INFER_TIMEOUT_US_MAX ? *out_us : GW_INFER_TIMEOUT_US_MAX;
    return is_time;
}

// What typed contents take once they are read counts beside the message. False: there is no room.
static bool count_room(const struct asked *asked)
{
    struct gw_exchange *exchange = asked->exchange;
    size_t room = gw_oip_proto_typed_room(asked->message);
    return room <= GW_INFER_STREAM_FREE_BYTES || exchange->open == NULL ||
           exchange->open->hold(exchange, GW_OPEN_INPUT, asked->message.size + room) == BASE_OK;
}

static void model_infer(const struct asked *asked)
{
    static const struct gw_infer_protocol protocol = {read_call, write_result, reply_call};
    struct gw_exchange *exchange = asked->exchange;
    uint64_t timeout_us;
    uint32_t retry_after_s = 0;
    struct base_error error = {0};
    struct gw_infer_exchange *call =
        gw_infer_exchange_new(asked->service, asked->worker, exchange, asked->head, &protocol);
    if (call == NULL) {
        refuse(exchange, GW_GRPC_UNAVAILABLE, "out of memory");
        return;
    }
    if (gw_infer_exchange_charge(call, asked->head, exchange->request.body_bytes, &retry_after_s,
                                 &error) != BASE_OK) {
        gw_grpc_fill_error(exchange, GW_GRPC_RESOURCE_EXHAUSTED, error.text);
        if (retry_after_s > 0) {
            gw_grpc_fill_pushback(exchange, retry_after_s);
        }
        gw_exchange_finish(exchange);
        return;
    }
    if (!read_timeout(&exchange->request, &timeout_us)) {
        refuse(exchange, GW_GRPC_INVALID_ARGUMENT, GW_GRPC_TIMEOUT_WRONG);
        return;
    }
    if (!count_room(asked)) {
        refuse(exchange, GW_GRPC_RESOURCE_EXHAUSTED, "too much of messages is held");
        return;
    }
    call->asked = asked->message;
    call->asked_raw = gw_oip_proto_raw_bytes(asked->message);
    gw_infer_exchange_begin(call, timeout_us);
}

// ---- Loading

static int change_code(enum base_status status)
{
    // A name of another model is no reason to try again, as a model that is not loaded is.
    return status == BASE_ERR_CONFLICT ? GW_GRPC_FAILED_PRECONDITION
                                       : (int)gw_grpc_status_of(status);
}

static void reply_change(struct gw_exchange *exchange, enum base_status status, const char *text)
{
    struct gw_pb_out out;
    if (status != BASE_OK) {
        gw_grpc_fill_error(exchange, (enum gw_grpc_status)change_code(status), text);
        return;
    }
    gw_pb_out_init(&out, exchange->arena, 0);
    fill_message(exchange, &out);
}

static void change(const struct asked *asked, bool load)
{
    static const struct gw_infer_change_protocol protocol = {change_code, reply_change};
    const struct gw_infer_change_wish wish = {
        .service = asked->service, .model = asked->query.second, .load = load};
    gw_infer_change(asked->worker, asked->exchange, &wish, &protocol);
}

static void model_load(const struct asked *asked)
{
    change(asked, true);
}

static void model_unload(const struct asked *asked)
{
    change(asked, false);
}

// ---- Methods

static const struct {
    struct base_str name;
    void (*answer)(const struct asked *asked);
} methods[] = {
    {{"ModelInfer", 10}, model_infer},           {{"ServerLive", 10}, server_live},
    {{"ServerReady", 11}, server_ready},         {{"ServerMetadata", 14}, server_metadata},
    {{"ModelReady", 10}, model_ready},           {{"ModelMetadata", 13}, model_metadata},
    {{"RepositoryIndex", 15}, repository_index}, {{"ModelStatistics", 15}, model_statistics},
    {{"RepositoryModelLoad", 19}, model_load},   {{"RepositoryModelUnload", 21}, model_unload},
};

static void answer(struct asked *asked)
{
    struct gw_exchange *exchange = asked->exchange;
    const struct gw_request *request = &exchange->request;
    struct base_str name = gw_route_rest(exchange);
    struct base_error error = {0};
    struct base_str body = {(const char *)request->body, request->body_bytes};
    size_t i = 0;
    while (i < sizeof(methods) / sizeof(methods[0]) && !base_str_equal(methods[i].name, name)) {
        i++;
    }
    if (i == sizeof(methods) / sizeof(methods[0])) {
        refuse(exchange, GW_GRPC_UNIMPLEMENTED, "no such method");
    } else if (gw_grpc_message(body, &asked->message, &error) != BASE_OK ||
               (methods[i].answer != model_infer &&
                gw_oip_proto_query(asked->message, &asked->query, &error) != BASE_OK)) {
        refuse_failed(exchange, &error);
    } else {
        methods[i].answer(asked);
    }
}

enum gw_early gw_infer_grpc_early(void *self, struct gw_exchange *exchange, struct base_str piece,
                                  size_t *out_wanted)
{
    const struct gw_request *request = &exchange->request;
    struct gw_infer_call call = {.priority = GW_INFER_PRIORITY_USUAL};
    struct base_error error = {0};
    uint32_t retry_after_s = 0;
    uint64_t timeout_us;
    if (!base_str_equal(gw_route_rest(exchange), BASE_STR("ModelInfer")) ||
        !gw_grpc_is(request->content_type) || !read_timeout(request, &timeout_us)) {
        return GW_EARLY_GO_ON;
    }
    *out_wanted = 2 * piece.size; // so all looks together are not much more than the last one
    if (piece.size < GW_PB_FRAME_BYTES) {
        return GW_EARLY_MORE;
    }
    enum base_status status = gw_oip_proto_early(
        (struct base_str){piece.data + GW_PB_FRAME_BYTES, piece.size - GW_PB_FRAME_BYTES}, &call);
    if (status == BASE_ERR_TRUNCATED && piece.size <= GW_INFER_READ_HERE_MAX) {
        return GW_EARLY_MORE;
    }
    if (call.timeout_us == 0 || call.timeout_us > timeout_us) {
        call.timeout_us = timeout_us;
    }
    if (status != BASE_OK || piece.data[0] != 0 || !gw_infer_crowded(self, &call) ||
        gw_infer_foresee(self, &call, &retry_after_s, &error) == BASE_OK) {
        return GW_EARLY_GO_ON;
    }
    gw_grpc_fill_error(exchange, gw_grpc_status_of(error.status), error.text);
    gw_grpc_fill_pushback(exchange, retry_after_s);
    return GW_EARLY_REFUSED;
}

void gw_infer_grpc_handle(void *self, struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct asked asked = {.service = self, .worker = worker, .exchange = exchange};
    struct gw_head head = {0};
    if (!gw_grpc_is(exchange->request.content_type)) {
        gw_reply_problem(exchange, 415, "content-type: application/grpc is wanted here");
        gw_exchange_finish(exchange);
    } else if (!gw_infer_admit(worker, exchange, &head)) {
        gw_exchange_finish(exchange);
    } else if (gw_route_has(exchange, GW_ROUTE_OPEN)) {
        gw_infer_stream_begin(self, worker, exchange);
    } else {
        asked.head = &head;
        answer(&asked);
    }
}
