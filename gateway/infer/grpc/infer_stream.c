// Calls over one stream, begun by infer_grpc.c on the worker that owns the stream, where all of
// this runs. Each call has an exchange of its own that no transport knows: so a call goes the way
// of all calls, and what is left to do here is to cut the stream into messages, to keep the answers
// in order, and to know when the stream is over.
#include "infer/grpc/infer_stream.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "infer/codec/oip_proto.h"
#include "infer/codec/pb_out.h"
#include "infer/grpc/grpc_reply.h"
#include "infer/infer_exchange.h"
#include "svc/two_way.h"
#include "svc/reply.h"

#include <stdlib.h>
#include <string.h>

#define CALL_CHUNK_BYTES 4096u
#define CALL_ARENA_MAX   ((size_t)64 << 10) // the call itself is in it; tensors are elsewhere
#define MESSAGE_STEP     4096u
#define OUT_OF_MEMORY    "out of memory"

struct infer_stream;

// A call on its way, and its answer until that is read.
struct stream_call {
    struct gw_exchange exchange; // first
    struct base_arena arena;     // the exchange's
    struct infer_stream *stream;
    struct stream_call *next; // asked after it
    uint8_t *message;         // NULL once it is answered
    size_t message_bytes;
    size_t room_bytes; // that its typed contents take beside it
    size_t sent;       // of the answer
    bool done;
};
_Static_assert(offsetof(struct stream_call, exchange) == 0, "call_finish casts");

// In the arena of the stream's exchange.
struct infer_stream {
    struct gw_infer_service *service;
    struct gw_worker *worker;
    struct gw_exchange *exchange;
    uint64_t deadline_us;      // UINT64_MAX: none
    struct stream_call *first; // asked first, of those whose answers are not read
    struct stream_call **last;
    uint32_t call_count;
    size_t message_bytes; // of these, and of what was read of them
    size_t unread_bytes;  // of answers
    size_t counted_bytes; // ... that are counted: over GW_INFER_SMALL_ANSWER

    uint8_t prefix[GW_PB_FRAME_BYTES]; // of the message that comes
    size_t prefix_bytes;
    uint8_t *part; // of it
    size_t part_bytes;
    size_t part_room;
    size_t part_size;           // what it is to have
    struct base_buffer waiting; // input that came while no more is taken

    bool input_ended;
    bool over;                  // nothing more is taken; `status` and `text` say why
    enum gw_grpc_status status; // OK: its caller ended it
    const char *text;           // static
};

static struct infer_stream *of_exchange(const struct gw_exchange *exchange)
{
    return exchange->keeper;
}

static void finish_if_over(struct infer_stream *stream);
static bool take_waiting(struct infer_stream *stream);

static bool is_late(const struct infer_stream *stream)
{
    return stream->deadline_us != UINT64_MAX && base_clock_mono_us() >= stream->deadline_us;
}

// ---- The end

static void drop_input(struct infer_stream *stream)
{
    free(stream->part);
    stream->part = NULL;
    stream->part_bytes = stream->part_room = stream->part_size = stream->prefix_bytes = 0;
    base_buffer_done(&stream->waiting);
}

// Nothing more is taken; what is on its way is answered first. The first reason counts.
static void end(struct infer_stream *stream, enum gw_grpc_status status, const char *text)
{
    if (!stream->over) {
        stream->over = true;
        stream->status = status;
        stream->text = text;
        drop_input(stream);
    }
}

static void cancel_calls(struct infer_stream *stream)
{
    for (struct stream_call *call = stream->first; call != NULL; call = call->next) {
        if (!call->done && call->exchange.gone != NULL) {
            call->exchange.gone(&call->exchange); // `done` comes as a message
        }
    }
}

static void hold(struct infer_stream *stream, enum gw_open_hold what, size_t bytes)
{
    // Less than before, which is never refused.
    (void)stream->exchange->open->hold(stream->exchange, what, bytes);
}

static size_t input_counted(const struct infer_stream *stream, size_t more)
{
    size_t bytes = stream->message_bytes + stream->part_room + more;
    return bytes > GW_INFER_STREAM_FREE_BYTES ? bytes - GW_INFER_STREAM_FREE_BYTES : 0;
}

// The first call leaves.
static void remove_first(struct infer_stream *stream)
{
    struct stream_call *call = stream->first;
    size_t bytes = call->exchange.reply.body_bytes;
    stream->first = call->next;
    if (stream->first == NULL) {
        stream->last = &stream->first;
    }
    stream->call_count--;
    stream->unread_bytes -= bytes;
    if (bytes > GW_INFER_SMALL_ANSWER) {
        stream->counted_bytes -= bytes;
        hold(stream, GW_OPEN_ANSWER, stream->counted_bytes);
    }
    base_arena_done(&call->arena);
    free(call);
}

// Nobody is there any more: what is done goes, and the exchange with the last one.
static void sweep(struct infer_stream *stream)
{
    while (stream->first != NULL && stream->first->done) {
        remove_first(stream);
    }
    finish_if_over(stream);
}

static void finish_if_over(struct infer_stream *stream)
{
    struct gw_exchange *exchange = stream->exchange;
    bool whole = stream->input_ended && stream->waiting.size == 0;
    if (is_late(stream)) { // its calls end by it themselves
        end(stream, GW_GRPC_DEADLINE_EXCEEDED, "the stream's time is over");
    }
    if (whole && stream->prefix_bytes > 0) {
        end(stream, GW_GRPC_INVALID_ARGUMENT, "gRPC: the stream ends within a message");
    }
    if ((!whole && !stream->over) || stream->first != NULL || exchange->gone == NULL) {
        return;
    }
    drop_input(stream);
    exchange->gone = NULL;
    exchange->reply.trailer_count = 0;
    gw_reply_trailer(&exchange->reply, BASE_STR("grpc-status"),
                     gw_grpc_number(exchange->arena, (uint64_t)stream->status));
    if (stream->text != NULL) {
        gw_reply_trailer(&exchange->reply, BASE_STR("grpc-message"),
                         gw_grpc_escape(exchange->arena, base_str_of(stream->text)));
    }
    gw_exchange_finish(exchange);
}

// ---- Answers

static enum base_status read_call(struct gw_infer_exchange *self, struct base_error *error)
{
    return gw_oip_proto_read(&self->arena, self->asked, &self->call, error);
}

static enum base_status write_result(struct gw_infer_exchange *self)
{
    return gw_oip_proto_write_streamed(&self->written, &self->call, &self->ticket.result,
                                       &self->answer);
}

// What is written is the whole reply of such an exchange. Without memory it stays empty.
static void fill_refusal(struct stream_call *call, const char *text)
{
    struct base_str id =
        gw_oip_proto_id((struct base_str){(const char *)call->message, call->message_bytes});
    struct base_str answer = {0};
    if (gw_oip_proto_write_refusal(call->exchange.arena, id, text, &answer) == BASE_OK) {
        gw_reply_body(&call->exchange, 200, BASE_STR("application/grpc"), answer.data, answer.size);
    } else {
        gw_reply_status(&call->exchange, 200);
    }
}

static void reply_call(struct gw_infer_exchange *self)
{
    struct stream_call *call = (struct stream_call *)self->exchange;
    if (self->ticket.status == BASE_OK) {
        gw_reply_body(&call->exchange, 200, BASE_STR("application/grpc"), self->answer.data,
                      self->answer.size);
    } else {
        fill_refusal(call, self->ticket.error.text);
    }
}

// Its answer waits for its reader, and counts if it is large.
static void count_answer(struct infer_stream *stream, struct stream_call *call)
{
    struct gw_exchange *exchange = &call->exchange;
    size_t bytes = exchange->reply.body_bytes;
    if (bytes > GW_INFER_SMALL_ANSWER &&
        stream->exchange->open->hold(stream->exchange, GW_OPEN_ANSWER,
                                     stream->counted_bytes + bytes) != BASE_OK) {
        if (exchange->drop != NULL) {
            exchange->drop(exchange);
        }
        fill_refusal(call, "too many answers wait for their readers");
        bytes = exchange->reply.body_bytes;
    }
    stream->unread_bytes += bytes;
    stream->counted_bytes += bytes > GW_INFER_SMALL_ANSWER ? bytes : 0;
    if (bytes == 0) {
        end(stream, GW_GRPC_UNAVAILABLE, OUT_OF_MEMORY);
    }
}

// gw_exchange.finish of a call.
static void call_finish(struct gw_exchange *exchange)
{
    struct stream_call *call = (struct stream_call *)exchange;
    struct infer_stream *stream = call->stream;
    struct gw_exchange *whole = stream->exchange;
    call->done = true;
    if (!whole->abandoned) {
        count_answer(stream, call);
    }
    stream->message_bytes -= call->message_bytes + call->room_bytes;
    free(call->message);
    call->message = NULL;
    call->message_bytes = call->room_bytes = 0;
    if (whole->abandoned) {
        sweep(stream);
        return;
    }
    hold(stream, GW_OPEN_INPUT, input_counted(stream, 0));
    if (stream->first == call) {
        whole->open->moved(whole);
        whole->open->resume(whole);
    }
    (void)take_waiting(stream); // its message was in the way, whoever reads the answers
}

// What its typed contents take counts like the message, before they are read. False: there is no
// room.
static bool count_room(struct infer_stream *stream, struct stream_call *call)
{
    struct gw_exchange *whole = stream->exchange;
    size_t room = gw_oip_proto_typed_room(
        (struct base_str){(const char *)call->message, call->message_bytes});
    if (room > 0 &&
        whole->open->hold(whole, GW_OPEN_INPUT, input_counted(stream, room)) != BASE_OK) {
        return false;
    }
    call->room_bytes = room;
    stream->message_bytes += room;
    return true;
}

static void call_run(struct infer_stream *stream, struct stream_call *call,
                     const struct gw_head *head)
{
    static const struct gw_infer_protocol protocol = {read_call, write_result, reply_call};
    uint64_t now_us = base_clock_mono_us();
    uint64_t left_us = stream->deadline_us > now_us ? stream->deadline_us - now_us : 0;
    uint32_t retry_after_s = 0;
    struct base_error error = {0};
    if (!count_room(stream, call)) {
        fill_refusal(call, "too much of messages is held");
        gw_exchange_finish(&call->exchange);
        return;
    }
    struct gw_infer_exchange *way =
        gw_infer_exchange_new(stream->service, stream->worker, &call->exchange, head, &protocol);
    if (way == NULL) {
        fill_refusal(call, OUT_OF_MEMORY);
        gw_exchange_finish(&call->exchange);
        return;
    }
    if (gw_infer_exchange_charge(way, head, call->message_bytes, &retry_after_s, &error) !=
        BASE_OK) {
        fill_refusal(call, error.text);
        gw_exchange_finish(&call->exchange);
        return;
    }
    way->asked = (struct base_str){(const char *)call->message, call->message_bytes};
    way->asked_raw = gw_oip_proto_raw_bytes(way->asked);
    gw_infer_exchange_begin(way,
                            left_us < GW_INFER_TIMEOUT_US_MAX ? left_us : GW_INFER_TIMEOUT_US_MAX);
}

// The message is whole: it becomes a call. Whoever may call no more is not answered any more.
static void call_begin(struct infer_stream *stream)
{
    struct gw_head head = {0};
    struct gw_exchange *whole = stream->exchange;
    if (!gw_infer_admit(stream->worker, whole, &head)) {
        end(stream, GW_GRPC_UNAUTHENTICATED, "what the stream showed when it began holds no more");
        return;
    }
    struct stream_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        end(stream, GW_GRPC_UNAVAILABLE, OUT_OF_MEMORY);
        return;
    }
    base_arena_init(&call->arena, base_alloc_heap(), CALL_CHUNK_BYTES, CALL_ARENA_MAX);
    call->exchange.request = whole->request;
    call->exchange.arena = &call->arena;
    call->exchange.finish = call_finish;
    call->stream = stream;
    call->message = stream->part;
    call->message_bytes = stream->part_size;
    stream->message_bytes += call->message_bytes;
    stream->part = NULL;
    stream->part_bytes = stream->part_room = stream->part_size = stream->prefix_bytes = 0;
    *stream->last = call;
    stream->last = &call->next;
    stream->call_count++;
    call_run(stream, call, &head);
}

// ---- Messages

static bool is_full(const struct infer_stream *stream)
{
    return stream->call_count >= GW_INFER_STREAM_CALLS_MAX ||
           stream->unread_bytes >= GW_INFER_STREAM_UNREAD_BYTES ||
           stream->message_bytes >= GW_INFER_STREAM_READ_BYTES;
}

// The prefix of a message is there.
static void message_begin(struct infer_stream *stream)
{
    struct gw_exchange *whole = stream->exchange;
    const uint8_t *prefix = stream->prefix;
    stream->part_size =
        (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
    if (prefix[0] != 0) {
        end(stream, gw_grpc_compressed_status(&whole->request),
            "gRPC: compressed messages are not taken");
    } else if (stream->part_size > whole->open->message_max(whole)) {
        end(stream, GW_GRPC_RESOURCE_EXHAUSTED, "the message is over the limit");
    }
}

// Room for `size` more bytes of the message: it grows as they come, whatever its prefix says.
static bool part_reserve(struct infer_stream *stream, size_t size)
{
    struct gw_exchange *whole = stream->exchange;
    size_t needed = stream->part_bytes + size;
    if (needed <= stream->part_room) {
        return true;
    }
    size_t room = 2 * needed > MESSAGE_STEP ? 2 * needed : MESSAGE_STEP;
    room = room < stream->part_size ? room : stream->part_size;
    if (whole->open->hold(whole, GW_OPEN_INPUT, input_counted(stream, room - stream->part_room)) !=
        BASE_OK) {
        end(stream, GW_GRPC_RESOURCE_EXHAUSTED, "too much of messages is held");
        return false;
    }
    uint8_t *part = realloc(stream->part, room);
    if (part == NULL) {
        end(stream, GW_GRPC_UNAVAILABLE, OUT_OF_MEMORY);
        return false;
    }
    stream->part = part;
    stream->part_room = room;
    return true;
}

static size_t take_prefix(struct infer_stream *stream, const uint8_t *bytes, size_t size)
{
    size_t want = GW_PB_FRAME_BYTES - stream->prefix_bytes;
    size_t used = size < want ? size : want;
    memcpy(stream->prefix + stream->prefix_bytes, bytes, used);
    stream->prefix_bytes += used;
    if (stream->prefix_bytes == GW_PB_FRAME_BYTES) {
        stream->exchange->open->moved(stream->exchange);
        message_begin(stream);
    }
    return used;
}

static size_t take_part(struct infer_stream *stream, const uint8_t *bytes, size_t size)
{
    size_t want = stream->part_size - stream->part_bytes;
    size_t used = size < want ? size : want;
    if (used > 0 && part_reserve(stream, used)) {
        memcpy(stream->part + stream->part_bytes, bytes, used);
        stream->part_bytes += used;
    }
    return used;
}

// Takes what it can; returns how much that is.
static size_t take(struct infer_stream *stream, const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    while (at < size && !stream->over && !is_full(stream)) {
        at += stream->prefix_bytes < GW_PB_FRAME_BYTES ? take_prefix(stream, bytes + at, size - at)
                                                       : take_part(stream, bytes + at, size - at);
        if (!stream->over && stream->prefix_bytes == GW_PB_FRAME_BYTES &&
            stream->part_bytes == stream->part_size) {
            call_begin(stream);
        }
    }
    return stream->over ? size : at; // of what is over nobody wants the rest
}

// ---- What the transport calls

static void on_input(struct gw_exchange *exchange, const uint8_t *bytes, size_t size)
{
    struct infer_stream *stream = of_exchange(exchange);
    size_t used = stream->waiting.size == 0 || stream->over ? take(stream, bytes, size) : 0;
    if (used < size && base_buffer_add(&stream->waiting, bytes + used, size - used) != BASE_OK) {
        end(stream, GW_GRPC_UNAVAILABLE, OUT_OF_MEMORY);
        used = size;
    }
    exchange->open->consume(exchange, used);
    finish_if_over(stream);
}

// What waits is taken if there is room again. False: nothing was.
static bool take_waiting(struct infer_stream *stream)
{
    struct gw_exchange *exchange = stream->exchange;
    struct base_buffer was = stream->waiting;
    if (was.size == 0 || is_full(stream)) {
        return false;
    }
    base_buffer_init(&stream->waiting, base_alloc_heap(), 0);
    size_t used = take(stream, was.data, was.size);
    if (used < was.size &&
        base_buffer_add(&stream->waiting, was.data + used, was.size - used) != BASE_OK) {
        end(stream, GW_GRPC_UNAVAILABLE, OUT_OF_MEMORY);
        used = was.size;
    }
    base_buffer_done(&was);
    exchange->open->moved(exchange);
    exchange->open->consume(exchange, used);
    return true;
}

static void on_input_ended(struct gw_exchange *exchange)
{
    struct infer_stream *stream = of_exchange(exchange);
    stream->input_ended = true;
    finish_if_over(stream);
}

// Answers that are next, as far as there is room.
static size_t give(struct infer_stream *stream, uint8_t *out, size_t room)
{
    size_t size = 0;
    while (size < room && stream->first != NULL && stream->first->done) {
        struct stream_call *call = stream->first;
        const struct gw_reply *reply = &call->exchange.reply;
        size_t left = reply->body_bytes - call->sent;
        size_t piece = left < room - size ? left : room - size;
        if (piece > 0) {
            memcpy(out + size, reply->body + call->sent, piece);
        }
        call->sent += piece;
        size += piece;
        if (piece == left) {
            remove_first(stream);
        }
    }
    return size;
}

static size_t on_output(struct gw_exchange *exchange, uint8_t *out, size_t room)
{
    struct infer_stream *stream = of_exchange(exchange);
    size_t size = 0;
    do {
        size += give(stream, out + size, room - size);
    } while (take_waiting(stream) && size < room);
    finish_if_over(stream);
    return size;
}

static void on_look(struct gw_exchange *exchange, struct gw_open_look *out)
{
    struct infer_stream *stream = of_exchange(exchange);
    for (const struct stream_call *call = stream->first; call != NULL && call->done;
         call = call->next) {
        out->unread_bytes += call->exchange.reply.body_bytes - call->sent;
    }
    out->part_bytes = is_full(stream) ? 0 : stream->prefix_bytes + stream->part_bytes;
    finish_if_over(stream);
}

static void on_drain(struct gw_exchange *exchange)
{
    struct infer_stream *stream = of_exchange(exchange);
    end(stream, GW_GRPC_UNAVAILABLE, "the server is about to end");
    finish_if_over(stream);
}

static void on_gone(struct gw_exchange *exchange)
{
    struct infer_stream *stream = of_exchange(exchange);
    end(stream, GW_GRPC_CANCELLED, NULL);
    cancel_calls(stream);
    sweep(stream);
}

static void refuse(struct gw_exchange *exchange, enum gw_grpc_status status, const char *text)
{
    gw_grpc_fill_error(exchange, status, text);
    gw_exchange_finish(exchange);
}

void gw_infer_stream_begin(struct gw_infer_service *service, struct gw_worker *worker,
                           struct gw_exchange *exchange)
{
    static const struct gw_open_calls calls = {on_input, on_input_ended, on_output, on_look,
                                               on_drain};
    uint64_t timeout_us = UINT64_MAX;
    if (exchange->open == NULL) {
        refuse(exchange, GW_GRPC_UNIMPLEMENTED, "no streams here");
        return;
    }
    if (!gw_grpc_read_timeout(&exchange->request, &timeout_us)) {
        refuse(exchange, GW_GRPC_INVALID_ARGUMENT, GW_GRPC_TIMEOUT_WRONG);
        return;
    }
    struct infer_stream *stream = base_arena_zalloc(exchange->arena, sizeof(*stream));
    if (stream == NULL) {
        refuse(exchange, GW_GRPC_UNAVAILABLE, OUT_OF_MEMORY);
        return;
    }
    stream->service = service;
    stream->worker = worker;
    stream->exchange = exchange;
    stream->deadline_us = timeout_us == UINT64_MAX ? UINT64_MAX : base_clock_mono_us() + timeout_us;
    stream->last = &stream->first;
    base_buffer_init(&stream->waiting, base_alloc_heap(), 0);
    exchange->keeper = stream;
    exchange->gone = on_gone;
    gw_reply_body(exchange, 200, BASE_STR("application/grpc"), NULL, 0);
    gw_reply_header(&exchange->reply, BASE_STR("grpc-accept-encoding"), BASE_STR("identity"));
    exchange->open->begin(exchange, &calls);
}
