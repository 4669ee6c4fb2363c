// The way of a call, whichever protocol it came in. It begins and ends on the worker that owns the
// stream; rest/infer_http.c and grpc/infer_grpc.c begin it there. A small body is read at once, a
// large one by the service's threads. The answer is written on the thread that ended the call, and
// comes back to the worker as a message.
#include "infer/infer_exchange.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "infer/infer_trace.h"
#include "infer/split/infer_split.h"
#include "svc/reply.h"

#define ARENA_CHUNK_BYTES   ((size_t)16 << 10)
#define WRITTEN_CHUNK_BYTES ((size_t)1 << 10) // an answer is one piece, mostly larger

_Static_assert(offsetof(struct gw_infer_exchange, message) == 0, "call_done casts");

static struct gw_infer_exchange *of_ticket(struct gw_infer_ticket *ticket)
{
    return (struct gw_infer_exchange *)(void *)((char *)ticket -
                                                offsetof(struct gw_infer_exchange, ticket));
}

static void arena_done(void *ctx)
{
    base_arena_done(ctx);
}

// The answer goes; what is said instead lies elsewhere.
static void drop_answer(struct gw_exchange *exchange)
{
    struct gw_infer_exchange *self = exchange->keeper;
    base_arena_done(&self->written);
}

// A small answer moves to the exchange's own memory, which holds no chunk for it.
static void move_small(struct gw_infer_exchange *self)
{
    struct gw_reply *reply = &self->exchange->reply;
    if (reply->body_bytes > GW_INFER_SMALL_ANSWER) {
        return;
    }
    const void *copy =
        base_arena_copy(self->exchange->arena,
                        reply->body != NULL ? reply->body : (const uint8_t *)"", reply->body_bytes);
    if (copy != NULL) {
        reply->body = copy;
        base_arena_done(&self->written);
    }
}

// The room that was reserved for an answer may be far more than it took: then it is copied, so that
// what waits for its reader is about what is counted of it.
static void trim(struct gw_infer_exchange *self)
{
    struct base_arena exact;
    if (self->answer.size <= GW_INFER_SMALL_ANSWER ||
        self->written.used_bytes / 2 <= self->answer.size) {
        return;
    }
    base_arena_init(&exact, base_alloc_heap(), WRITTEN_CHUNK_BYTES, GW_INFER_ARENA_MAX);
    const char *copy = base_arena_copy(&exact, self->answer.data, self->answer.size);
    if (copy != NULL) { // else it stays as it is
        base_arena_done(&self->written);
        self->written = exact;
        self->answer.data = copy;
    }
}

bool gw_infer_did_not_run(const struct gw_infer_ticket *ticket)
{
    enum base_status status = ticket->status;
    return ticket->run_us == 0 && (status == BASE_ERR_NOT_FOUND || status == BASE_ERR_CONFLICT ||
                                   status == BASE_ERR_LIMIT || status == BASE_ERR_BUSY);
}

static void settle(struct gw_infer_exchange *self)
{
    if (self->charge.taken && gw_infer_did_not_run(&self->ticket)) {
        gw_device_ledger_refund(gw_infer_ledger(self->service), &self->charge);
    }
}

// On the worker's thread.
static void call_done(struct gw_message *message)
{
    struct gw_infer_exchange *self = (struct gw_infer_exchange *)message;
    self->exchange->gone = NULL;
    self->protocol->reply(self);
    settle(self);
    gw_infer_trace(self);
    self->exchange->keeper = self;
    self->exchange->drop = drop_answer;
    move_small(self);
    base_arena_done(&self->arena); // what was read and computed: its answer says it all
    gw_exchange_finish(self->exchange);
}

// On any thread: writing a large answer keeps no event loop.
static void ticket_done(struct gw_infer_ticket *ticket)
{
    struct gw_infer_exchange *self = of_ticket(ticket);
    enum base_status status = ticket->status == BASE_OK ? self->protocol->write(self) : BASE_OK;
    if (status != BASE_OK) {
        ticket->status =
            base_error_set(&ticket->error, status,
                           status == BASE_ERR_INVALID ? "classification: an output has no classes"
                                                      : "no room for the answer");
    }
    trim(self);
    if (ticket->here) {
        self->ended = true; // on the worker's thread: gw_infer_exchange_begin goes on with it
    } else {
        gw_worker_post(self->worker, &self->message);
    }
}

static enum base_status ticket_read(struct gw_infer_ticket *ticket)
{
    struct gw_infer_exchange *self = of_ticket(ticket);
    return self->protocol->read(self, &ticket->error);
}

static void stream_gone(struct gw_exchange *exchange)
{
    struct gw_infer_exchange *self = exchange->keeper;
    gw_infer_cancel(self->service, &self->ticket);
}

// What a release's share goes by: what the caller chose to be known by, else what it shows.
static uint64_t caller_of(const struct gw_request *request)
{
    struct base_str text = request->idempotency_key.size > 0 ? request->idempotency_key
                           : request->credential.size > 0    ? request->credential
                                                             : request->authorization;
    return gw_infer_caller(text);
}

// What its calls count for in a release: nothing that it may choose freely.
static uint64_t who_of(const struct gw_request *request, const struct gw_head *head)
{
    bool token = head->proof == GW_PROOF_TOKEN;
    const uint64_t words[2] = {head->proof == GW_PROOF_NONE ? 0 : 1 + (uint64_t)token,
                               head->proof == GW_PROOF_NONE ? request->peer : head->id};
    return gw_infer_caller((struct base_str){(const char *)words, sizeof(words)});
}

struct gw_infer_exchange *gw_infer_exchange_new(struct gw_infer_service *service,
                                                struct gw_worker *worker,
                                                struct gw_exchange *exchange,
                                                const struct gw_head *head,
                                                const struct gw_infer_protocol *protocol)
{
    struct gw_infer_exchange *self = base_arena_zalloc(exchange->arena, sizeof(*self));
    if (self == NULL) {
        return NULL;
    }
    base_arena_init(&self->arena, base_alloc_heap(), ARENA_CHUNK_BYTES, GW_INFER_ARENA_MAX);
    base_arena_init(&self->written, base_alloc_heap(), WRITTEN_CHUNK_BYTES, GW_INFER_ARENA_MAX);
    if (base_arena_on_done(exchange->arena, arena_done, &self->arena) != BASE_OK ||
        base_arena_on_done(exchange->arena, arena_done, &self->written) != BASE_OK) {
        return NULL;
    }
    self->message.run = call_done;
    self->service = service;
    self->protocol = protocol;
    self->worker = worker;
    self->exchange = exchange;
    self->ticket.caller = caller_of(&exchange->request);
    self->ticket.peer = exchange->request.peer;
    self->ticket.who = who_of(&exchange->request, head);
    self->ticket.call = &self->call;
    self->ticket.arena = &self->arena;
    self->ticket.done = ticket_done;
    return self;
}

enum base_status gw_infer_exchange_charge(struct gw_infer_exchange *self,
                                          const struct gw_head *head, uint64_t bytes,
                                          uint32_t *out_retry_after_s, struct base_error *error)
{
    struct gw_device_ledger *ledger = gw_infer_ledger(self->service);
    struct gw_device_charge *charge = &self->charge;
    if (gw_head_is_device(head)) {
        *charge = (struct gw_device_charge){.device = head->id,
                                            .tenant = head->tenant,
                                            .shown = GW_DEVICE_SHOWN_ITSELF,
                                            .bytes = bytes};
        if (gw_device_ledger_charge(ledger, charge, base_clock_mono_us(), out_retry_after_s) ==
            GW_DEVICE_OVER) {
            return base_error_set(error, BASE_ERR_LIMIT, GW_DEVICE_OVER_TEXT);
        }
    }
    enum base_status status =
        gw_infer_charge(self->service, gw_infer_tenant(head), bytes, out_retry_after_s, error);
    if (status != BASE_OK && charge->taken) {
        gw_device_ledger_refund(ledger, charge);
        charge->taken = false;
    }
    return status;
}

void gw_infer_exchange_begin(struct gw_infer_exchange *self, uint64_t timeout_us)
{
    struct gw_infer_ticket *ticket = &self->ticket;
    base_check(timeout_us <= GW_INFER_TIMEOUT_US_MAX);
    ticket->deadline_us = base_clock_mono_us() + timeout_us;
    base_check(self->asked_raw <= self->asked.size);
    size_t weight = self->asked.size - self->asked_raw + self->asked_raw / GW_INFER_RAW_SHARE;
    if (weight > GW_INFER_READ_HERE_MAX) {
        ticket->read = ticket_read;
    } else {
        ticket->status = ticket_read(ticket);
    }
    if (ticket->status != BASE_OK) {
        if (base_status_is_input(ticket->status)) {
            gw_infer_misread(self->service, &self->call);
        }
        call_done(&self->message);
        return;
    }
    self->exchange->keeper = self;
    self->exchange->gone = stream_gone;
    gw_infer_submit(self->service, ticket);
    if (self->ended) {
        call_done(&self->message);
    }
}
