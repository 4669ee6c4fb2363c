// The network and the gateway as they fail: a decorator of a shard's transport. The devices' ports
// call it in the transport's place, and the transport gives it the answers; the loop of a shard
// lets it give on what is due. Shard's thread.
//
// An exchange that is hit is held: by a structure of its own, from its start to its end or until
// the device gives it up. What is held may have reached the gateway (`inner`) or not. Answers that
// are held back wait in a heap, in the order of their time and, within one moment, of their start.
// Hint streams, tunnels and requests of apps are left alone: they have no answer to be held.
#include "faults/faults.h"

#include "base/buffer.h"
#include "base/check.h"
#include "base/hash.h"

#include <string.h>

#define ANSWER_US   20000u // until who stands in the gateway's place has answered
#define HEAP_FIRST  64u
#define KEPT_MAX    4u // answers of a device
#define KEPT_EVERY  4u // an answer that is kept already is taken anew, on average
#define PORTAL_HTML "<html><body>Welcome. Please accept the terms of this network.</body></html>"

enum mode {
    MODE_SILENT,  // nobody answers
    MODE_MADE,    // an answer that the gateway did not give
    MODE_HELD,    // the gateway's, which comes later or otherwise
    MODE_SWALLOW, // the gateway's, which is lost
    MODE_TWIN,    // a request that arrived twice: nobody waits for the second answer
    MODE_LATER,   // the same, before it is sent for the second time
};

struct sim_held {
    struct sim_held *next; // of all
    struct sim_held *prev;
    struct sim_faults *faults;
    struct sim_exchange *exchange; // NULL: the device gave it up
    enum mode mode;
    const struct sim_fault_rule *rule;
    uint64_t draw;
    uint64_t due_us;
    uint64_t serial;
    uint64_t path; // hash
    uint32_t most; // bytes of an answer that arrives; 0: any
    struct sim_request_copy *again;
    bool inner;   // the transport has it
    bool waits;   // in the heap
    bool telling; // the device hears it just now
    bool has_head;
    enum base_status status;
    struct dev_response_head head;
    struct base_buffer body;
    struct sim_exchange twin;
};

// An answer that a device had, to be given again in place of another.
struct sim_kept_answer {
    struct sim_kept_answer *next;
    uint64_t path;
    struct dev_response_head head;
    size_t size;
    uint8_t bytes[];
};

// ---- What is held

static struct sim_held *held_new(struct sim_faults *faults, struct sim_exchange *exchange,
                                 enum mode mode)
{
    struct sim_held *held = sim_faults_zeroed(faults, sizeof(*held));
    if (held == NULL) {
        return NULL;
    }
    held->faults = faults;
    held->exchange = exchange;
    held->mode = mode;
    held->serial = faults->serial++;
    base_buffer_init(&held->body, faults->alloc, SIZE_MAX);
    held->next = faults->all;
    if (held->next != NULL) {
        held->next->prev = held;
    }
    faults->all = held;
    exchange->held = held;
    return held;
}

static void held_free(struct sim_held *held)
{
    struct sim_faults *faults = held->faults;
    const struct base_alloc_port *alloc = faults->alloc;
    base_assert(!held->waits);
    if (held->prev != NULL) {
        held->prev->next = held->next;
    } else {
        faults->all = held->next;
    }
    if (held->next != NULL) {
        held->next->prev = held->prev;
    }
    base_buffer_done(&held->body);
    alloc->release(alloc->ctx, held->again);
    alloc->release(alloc->ctx, held);
}

static bool is_before(const struct sim_held *a, const struct sim_held *b)
{
    return a->due_us < b->due_us || (a->due_us == b->due_us && a->serial < b->serial);
}

static bool heap_grow(struct sim_faults *faults, const struct base_alloc_port *alloc)
{
    if (faults->heap_count < faults->heap_capacity) {
        return true;
    }
    uint32_t capacity = faults->heap_capacity > 0 ? faults->heap_capacity * 2 : HEAP_FIRST;
    struct sim_held **heap = alloc->alloc(alloc->ctx, sizeof(heap[0]) * capacity);
    if (heap == NULL) {
        return false;
    }
    if (faults->heap_count > 0) {
        memcpy(heap, faults->heap, sizeof(heap[0]) * faults->heap_count);
    }
    alloc->release(alloc->ctx, faults->heap);
    faults->heap = heap;
    faults->heap_capacity = capacity;
    return true;
}

// Without memory it is due never: the device gives it up in time.
static void heap_add(struct sim_held *held, uint64_t due_us)
{
    struct sim_faults *faults = held->faults;
    if (!heap_grow(faults, held->faults->alloc)) {
        return;
    }
    held->due_us = due_us;
    held->waits = true;
    uint32_t at = faults->heap_count++;
    while (at > 0 && is_before(held, faults->heap[(at - 1) / 2])) {
        faults->heap[at] = faults->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    faults->heap[at] = held;
}

static struct sim_held *heap_take(struct sim_faults *faults)
{
    struct sim_held *first = faults->heap[0];
    struct sim_held *last = faults->heap[--faults->heap_count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < faults->heap_count; child = 2 * at + 1) {
        bool right = child + 1 < faults->heap_count &&
                     is_before(faults->heap[child + 1], faults->heap[child]);
        child += right ? 1 : 0;
        if (!is_before(faults->heap[child], last)) {
            break;
        }
        faults->heap[at] = faults->heap[child];
        at = child;
    }
    if (faults->heap_count > 0) {
        faults->heap[at] = last;
    }
    first->waits = false;
    return first;
}

void sim_faults_forget(struct sim_faults *faults)
{
    const struct base_alloc_port *alloc = faults->alloc;
    while (faults->all != NULL) {
        faults->all->waits = false;
        held_free(faults->all);
    }
    alloc->release(alloc->ctx, faults->heap);
    faults->heap = NULL;
    faults->heap_count = 0;
    for (uint32_t i = 0; faults->answers != NULL && i < faults->devices; i++) {
        while (faults->answers[i] != NULL) {
            struct sim_kept_answer *next = faults->answers[i]->next;
            alloc->release(alloc->ctx, faults->answers[i]);
            faults->answers[i] = next;
        }
    }
    alloc->release(alloc->ctx, faults->answers);
    faults->answers = NULL;
}

// ---- Answers of before

static struct sim_kept_answer **kept_find(const struct sim_held *held)
{
    struct sim_kept_answer **at = &held->faults->answers[held->exchange->device];
    while (*at != NULL && (*at)->path != held->path) {
        at = &(*at)->next;
    }
    return at;
}

static void kept_take(const struct sim_held *held)
{
    const struct base_alloc_port *alloc = held->faults->alloc;
    struct sim_kept_answer **at = kept_find(held);
    struct sim_kept_answer *old = *at;
    if (held->head.status != 200 || (old != NULL && held->draw % KEPT_EVERY != 0)) {
        return;
    }
    struct sim_kept_answer *kept = alloc->alloc(alloc->ctx, sizeof(*kept) + held->body.size + 1);
    if (kept == NULL) {
        return;
    }
    *kept = (struct sim_kept_answer){old != NULL ? old->next : NULL, held->path, held->head,
                                     held->body.size};
    memcpy(kept->bytes, held->body.size > 0 ? held->body.data : kept->bytes, held->body.size);
    *at = kept;
    alloc->release(alloc->ctx, old);
    uint32_t count = 0;
    struct sim_kept_answer **last = &held->faults->answers[held->exchange->device];
    for (; *last != NULL; last = &(*last)->next) {
        count++;
    }
    struct sim_kept_answer **first = &held->faults->answers[held->exchange->device];
    if (count > KEPT_MAX && *first != kept) {
        struct sim_kept_answer *next = (*first)->next;
        alloc->release(alloc->ctx, *first);
        *first = next;
    }
}

// Is an answer of before told in place of this one? Not where there is none.
static bool be_stale(struct sim_held *held)
{
    if (held->rule == NULL || held->rule->kind != SIM_FAULT_STALE) {
        return false;
    }
    const struct sim_kept_answer *kept = *kept_find(held);
    if (kept != NULL) {
        held->head = kept->head;
        base_buffer_clear(&held->body);
        held->status = base_buffer_add(&held->body, kept->bytes, kept->size);
    }
    return kept != NULL;
}

// ---- What becomes of an answer

static void head_made(struct sim_held *held, int status, uint32_t retry_after_s)
{
    held->has_head = true;
    held->head = (struct dev_response_head){
        .status = status, .content_bytes = held->body.size, .retry_after_s = retry_after_s};
}

// A proxy that cuts says so by its length, a connection that ends does not.
static bool truncate_body(struct sim_held *held)
{
    size_t kept = held->body.size / 2;
    if (held->body.size == 0) {
        return false;
    }
    held->body.size = kept;
    if ((held->draw & 1u) != 0) {
        held->head.content_bytes = kept;
    } else {
        held->status = BASE_ERR_IO;
    }
    return true;
}

// What devices are given is signed, so that a flipped bit shows. A credential is not: TLS alone
// guards it, under which no flipped bit arrives.
static bool corrupt_body(struct sim_held *held)
{
    bool enrols = held->exchange != NULL && held->exchange->kind == SIM_EXCHANGE_ENROL;
    if (held->body.size == 0 || enrols) {
        return false;
    }
    held->body.data[held->draw % held->body.size] ^= (uint8_t)(1u << (held->draw >> 29 & 7u));
    return true;
}

// Is the answer another one now?
static bool spoil(struct sim_held *held)
{
    if (held->rule == NULL) {
        return false;
    }
    bool cut = held->rule->kind == SIM_FAULT_TRUNCATE && truncate_body(held);
    return cut || (held->rule->kind == SIM_FAULT_CORRUPT && corrupt_body(held));
}

static void met(const struct sim_faults *faults, const struct sim_exchange *exchange,
                enum sim_fault_kind kind)
{
    struct sim_faulty *faulty = faults->faulty_of(exchange);
    base_assert(faulty != NULL);
    sim_fault_met(faulty, kind);
}

// The device hears it. It may give the exchange up while it does.
static void tell(struct sim_held *held)
{
    const struct sim_transport_events *events = &held->faults->events;
    held->telling = true;
    if (held->exchange != NULL && held->has_head) {
        events->head(events->ctx, held->exchange, &held->head);
    }
    if (held->exchange != NULL && held->has_head && held->body.size > 0) {
        events->body(events->ctx, held->exchange, held->body.data, held->body.size);
    }
    struct sim_exchange *exchange = held->exchange;
    if (exchange != NULL) {
        exchange->held = NULL;
        events->end(events->ctx, exchange, held->status);
    }
    if (exchange != NULL && held->has_head && held->rule != NULL &&
        held->rule->kind == SIM_FAULT_AGAIN) {
        const struct sim_answer answer = {&held->head, held->body.data, held->body.size,
                                          held->status};
        held->faults->again(exchange, &answer);
        met(held->faults, exchange, SIM_FAULT_AGAIN);
    }
    held_free(held);
}

static uint64_t wait_us(const struct sim_held *held)
{
    if (held->rule->kind == SIM_FAULT_DELAY) {
        return held->draw % (held->rule->amount * UINT64_C(1000) + 1);
    }
    return held->rule->kind == SIM_FAULT_SLOW ? held->rule->amount * UINT64_C(1000) : 0;
}

// The head of an answer is small and comes; its body does not fit through, and nobody says so.
static void lose_body(struct sim_held *held)
{
    const struct sim_transport_events *events = &held->faults->events;
    met(held->faults, held->exchange, SIM_FAULT_MTU);
    held->mode = MODE_SILENT;
    held->telling = true;
    if (held->has_head) {
        events->head(events->ctx, held->exchange, &held->head);
    }
    held->telling = false;
    if (held->exchange == NULL) { // given up while it heard it
        held_free(held);
    }
}

// ---- Events of the transport

// The gateway was heard, or the connection to it ended. A twin's device may be gone.
static void connection_is(const struct sim_faults *faults, const struct sim_exchange *exchange,
                          bool there)
{
    if (exchange->held == NULL || exchange->held->mode != MODE_TWIN) {
        faults->faulty_of(exchange)->connected = there;
    }
}

static void on_head(void *ctx, struct sim_exchange *exchange, const struct dev_response_head *head)
{
    struct sim_faults *faults = ctx;
    struct sim_held *held = exchange->held;
    connection_is(faults, exchange, true);
    if (held == NULL) {
        faults->events.head(faults->events.ctx, exchange, head);
    } else {
        held->head = *head;
        held->has_head = true;
    }
}

static void on_body(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes, size_t size)
{
    struct sim_faults *faults = ctx;
    struct sim_held *held = exchange->held;
    if (held == NULL) {
        faults->events.body(faults->events.ctx, exchange, bytes, size);
    } else if (held->mode == MODE_HELD && base_buffer_add(&held->body, bytes, size) != BASE_OK) {
        held->status = BASE_ERR_NOMEM;
    }
}

static void on_end(void *ctx, struct sim_exchange *exchange, enum base_status status)
{
    struct sim_faults *faults = ctx;
    struct sim_held *held = exchange->held;
    if (status != BASE_OK) {
        connection_is(faults, exchange, false);
    }
    if (held == NULL) {
        faults->events.end(faults->events.ctx, exchange, status);
        return;
    }
    held->inner = false;
    if (held->mode == MODE_TWIN) {
        held_free(held);
    } else if (held->mode == MODE_HELD && held->most != 0 && held->body.size > held->most) {
        lose_body(held);
    } else if (held->mode == MODE_HELD) {
        held->status = held->status != BASE_OK ? held->status : status;
        bool spoilt = be_stale(held);
        if (faults->answers != NULL && !spoilt) {
            kept_take(held);
        }
        spoilt = spoilt || spoil(held);
        uint64_t after_us = held->rule != NULL ? wait_us(held) : 0;
        if (spoilt || after_us > 0) {
            met(faults, exchange, held->rule->kind);
        }
        if (after_us > 0) {
            heap_add(held, sim_faults_now_us(faults) + after_us);
        } else {
            tell(held);
        }
    }
}

static void on_writable(void *ctx, struct sim_exchange *exchange)
{
    struct sim_faults *faults = ctx;
    faults->events.writable(faults->events.ctx, exchange);
}

struct sim_transport_events sim_faults_events(struct sim_faults *faults,
                                              const struct sim_transport_events *events)
{
    faults->events = *events;
    if (faults->plan->rule_count == 0) {
        return *events;
    }
    return (struct sim_transport_events){
        .ctx = faults, .head = on_head, .body = on_body, .end = on_end, .writable = on_writable};
}

// ---- Requests

// A window of the world in which a rule holds for everybody that it means.
static bool in_window(const struct sim_faulty *faulty, enum sim_fault_kind kind)
{
    const struct sim_faults *faults = faulty->faults;
    const struct sim_fault_plan *plan = faults->plan;
    bool in = false;
    for (uint32_t i = 0; i < plan->rule_count && sim_faults_on(faults); i++) {
        const struct sim_fault_rule *rule = &plan->rules[i];
        if (rule->kind == kind && (faulty->mask >> i & 1u) != 0) {
            uint64_t window =
                (sim_faults_now_us(faults) - faults->start_us) / (rule->amount * UINT64_C(1000000));
            in = in || sim_fault_hits(rule, sim_fault_draw(faults->seed, rule, 0, window));
        }
    }
    return in;
}

// An answer that somebody else gives, or a connection's end.
static enum base_status answer_made(struct sim_faults *faults, struct sim_exchange *exchange,
                                    const struct sim_fault_rule *rule, int status)
{
    struct sim_held *held = held_new(faults, exchange, MODE_MADE);
    if (held == NULL) {
        return BASE_ERR_NOMEM;
    }
    bool portal = rule != NULL && rule->kind == SIM_FAULT_PORTAL;
    if (portal && base_buffer_add(&held->body, PORTAL_HTML, sizeof(PORTAL_HTML) - 1) != BASE_OK) {
        held_free(held);
        exchange->held = NULL;
        return BASE_ERR_NOMEM;
    }
    if (status != 0) {
        bool wait = rule != NULL && rule->kind == SIM_FAULT_BUSY;
        head_made(held, status, wait ? rule->amount : 0);
    }
    held->status = status != 0 ? BASE_OK : BASE_ERR_IO;
    heap_add(held, sim_faults_now_us(faults) + ANSWER_US);
    return BASE_OK;
}

// The request goes on, and what comes back is held.
static enum base_status pass_held(struct sim_held *held, const struct dev_request *request)
{
    const struct sim_transport *inner = &held->faults->inner;
    enum base_status status = inner->start(inner->ctx, held->exchange, request);
    held->inner = status == BASE_OK;
    if (status != BASE_OK) {
        held->exchange->held = NULL;
        held_free(held);
    }
    return status;
}

static enum base_status hold(struct sim_faults *faults, struct sim_exchange *exchange,
                             const struct dev_request *request, const struct sim_held *as)
{
    struct sim_held *held = held_new(faults, exchange, as->mode);
    if (held == NULL) {
        return BASE_ERR_NOMEM;
    }
    held->rule = as->rule;
    held->draw = as->draw;
    held->path = base_hash64(request->path.data, request->path.size);
    held->most = faults->faulty_of(exchange)->mtu_bytes;
    return as->mode == MODE_SILENT ? BASE_OK : pass_held(held, request);
}

// The same request once more; its answer finds nobody. False: it was not sent.
static bool send_twin(struct sim_faults *faults, const struct sim_exchange *exchange,
                      const struct dev_request *request)
{
    struct sim_exchange at = *exchange;
    struct sim_held *held = held_new(faults, &at, MODE_TWIN);
    if (held == NULL) {
        return false;
    }
    held->twin = *exchange;
    held->twin.held = held;
    held->twin.flight = NULL;
    held->exchange = &held->twin;
    return pass_held(held, request) == BASE_OK;
}

// The request is kept, to arrive once more later. Without memory it does not.
static void keep_for_later(struct sim_faults *faults, const struct sim_exchange *exchange,
                           const struct dev_request *request, const struct sim_held *as)
{
    struct sim_exchange at = *exchange;
    struct sim_held *held = held_new(faults, &at, MODE_LATER);
    if (held == NULL) {
        return;
    }
    held->again = sim_request_copy_new(faults->alloc, exchange, request);
    if (held->again == NULL) {
        held_free(held);
        return;
    }
    held->twin = *exchange;
    held->twin.held = held;
    held->twin.flight = NULL;
    held->twin.credential = held->again->credential;
    held->exchange = &held->twin;
    heap_add(held,
             sim_faults_now_us(faults) + 1 + as->draw % (as->rule->amount * UINT64_C(1000000)));
}

// It arrives once more, from a device that may be gone by now.
static void send_again(struct sim_held *held)
{
    struct sim_faults *faults = held->faults;
    const uint64_t index = held->twin.index;
    if (!sim_faults_on(faults)) {
        held_free(held);
        return;
    }
    held->mode = MODE_TWIN;
    held->twin.started_us = sim_faults_now_us(faults);
    if (pass_held(held, &held->again->request) == BASE_OK) {
        sim_fault_happened(faults, index, SIM_FAULT_REPLAY);
    }
}

static void cancel(void *ctx, struct sim_exchange *exchange)
{
    struct sim_faults *faults = ctx;
    struct sim_held *held = exchange->held;
    if (held == NULL) {
        faults->inner.cancel(faults->inner.ctx, exchange);
        return;
    }
    if (held->inner) {
        faults->inner.cancel(faults->inner.ctx, exchange);
        held->inner = false;
    }
    exchange->held = NULL;
    held->exchange = NULL;
    if (!held->waits && !held->telling) {
        held_free(held);
    }
}

static bool may_fail(const struct sim_exchange *exchange)
{
    return exchange->kind != SIM_EXCHANGE_HINTS && exchange->kind != SIM_EXCHANGE_TUNNEL &&
           exchange->kind != SIM_EXCHANGE_BUSINESS;
}

// Whatever else the device has under way ends: its address is another now. False: there was none.
static bool hand_over(struct sim_faulty *faulty, const struct sim_exchange *but)
{
    struct sim_faults *faults = faulty->faults;
    bool ended = false;
    for (uint32_t i = 0; i < faulty->own_count; i++) {
        struct sim_exchange *exchange = &faulty->own[i];
        if (exchange != but && exchange->open && may_fail(exchange)) {
            cancel(faults, exchange);
            (void)answer_made(faults, exchange, NULL, 0);
            ended = true;
        }
    }
    return ended;
}

// The request goes on. Where not every answer fits through, what comes back is looked at.
static enum base_status pass(struct sim_faulty *faulty, struct sim_exchange *exchange,
                             const struct dev_request *request)
{
    struct sim_faults *faults = faulty->faults;
    const struct sim_held how = {.mode = MODE_HELD};
    return faulty->mtu_bytes != 0 ? hold(faults, exchange, request, &how)
                                  : faults->inner.start(faults->inner.ctx, exchange, request);
}

// Counts what happens with the start of the exchange: on_end and tell count what happens to its
// answer.
static enum base_status met_if(struct sim_faulty *faulty, const struct sim_fault_rule *rule,
                               enum base_status status)
{
    if (status == BASE_OK) {
        sim_fault_met(faulty, rule->kind);
    }
    return status;
}

static enum base_status deed(struct sim_faulty *faulty, struct sim_exchange *exchange,
                             const struct dev_request *request, const struct sim_held *as)
{
    struct sim_faults *faults = faulty->faults;
    struct sim_held how = *as;
    how.mode = MODE_HELD;
    switch (as->rule->kind) {
    case SIM_FAULT_LOSS:
        how.mode = (as->draw & 1u) != 0 ? MODE_SILENT : MODE_SWALLOW;
        return met_if(faulty, as->rule, hold(faults, exchange, request, &how));
    case SIM_FAULT_RESET:
        faulty->connected = false;
        return met_if(faulty, as->rule, answer_made(faults, exchange, as->rule, 0));
    case SIM_FAULT_PORTAL:
        return met_if(faulty, as->rule, answer_made(faults, exchange, as->rule, 200));
    case SIM_FAULT_UNAVAILABLE:
        return met_if(faulty, as->rule, answer_made(faults, exchange, as->rule, 503));
    case SIM_FAULT_BUSY:
        return met_if(faulty, as->rule, answer_made(faults, exchange, as->rule, 429));
    case SIM_FAULT_HALF_OPEN:
        faulty->silent_us = sim_faults_now_us(faults) + as->rule->amount * UINT64_C(1000000);
        how.mode = MODE_SILENT;
        return met_if(faulty, as->rule, hold(faults, exchange, request, &how));
    case SIM_FAULT_ONE_WAY:
        faulty->unheard_us = sim_faults_now_us(faults) + as->rule->amount * UINT64_C(1000000);
        how.mode = MODE_SWALLOW;
        return met_if(faulty, as->rule, hold(faults, exchange, request, &how));
    case SIM_FAULT_HANDOVER:
        if (hand_over(faulty, exchange)) {
            sim_fault_met(faulty, SIM_FAULT_HANDOVER);
        }
        faulty->connected = false;
        return pass(faulty, exchange, request);
    case SIM_FAULT_DUPLICATE:
        if (send_twin(faults, exchange, request)) {
            sim_fault_met(faulty, SIM_FAULT_DUPLICATE);
        }
        return pass(faulty, exchange, request);
    case SIM_FAULT_REPLAY:
        keep_for_later(faults, exchange, request, as);
        return pass(faulty, exchange, request);
    default:
        return hold(faults, exchange, request, &how);
    }
}

static bool too_large(const struct sim_faulty *faulty, const struct dev_request *request)
{
    return faulty->mtu_bytes != 0 &&
           request->body_bytes + request->profile.size > faulty->mtu_bytes;
}

static enum base_status start(void *ctx, struct sim_exchange *exchange,
                              const struct dev_request *request)
{
    struct sim_faults *faults = ctx;
    struct sim_faulty *faulty = faults->faulty_of(exchange);
    struct sim_held how = {.mode = MODE_HELD};
    exchange->held = NULL;
    if (faulty->mask == 0 || !may_fail(exchange) || !sim_faults_on(faults)) {
        return faults->inner.start(faults->inner.ctx, exchange, request);
    }
    if (exchange->kind != SIM_EXCHANGE_ENROL && sim_faults_saves(faulty)) {
        return BASE_ERR_BUSY; // who enrols has just been opened by its user
    }
    uint32_t number = ++faulty->exchanges;
    how.rule = sim_fault_of_exchange(faulty, exchange, number, &how.draw);
    if (sim_fault_nameless(faulty)) {
        return answer_made(faults, exchange, NULL, 0);
    }
    if (in_window(faulty, SIM_FAULT_OUTAGE)) {
        faulty->connected = false;
        sim_fault_met(faulty, SIM_FAULT_OUTAGE);
        return answer_made(faults, exchange, NULL, 0);
    }
    if (in_window(faulty, SIM_FAULT_DOWN)) {
        sim_fault_met(faulty, SIM_FAULT_DOWN);
        return answer_made(faults, exchange, NULL, 503);
    }
    bool silent = sim_faults_now_us(faults) < faulty->silent_us;
    if (silent || too_large(faulty, request)) {
        how.mode = MODE_SILENT;
        enum base_status status = hold(faults, exchange, request, &how);
        if (!silent && status == BASE_OK) {
            sim_fault_met(faulty, SIM_FAULT_MTU);
        }
        return status;
    }
    if (sim_faults_now_us(faults) < faulty->unheard_us) {
        how.mode = MODE_SWALLOW;
        return hold(faults, exchange, request, &how);
    }
    if (how.rule != NULL) {
        return deed(faulty, exchange, request, &how);
    }
    if (faults->answers != NULL) { // it may be told again
        return hold(faults, exchange, request, &how);
    }
    return pass(faulty, exchange, request);
}

static enum base_status tunnel_open(void *ctx, struct sim_exchange *exchange,
                                    struct base_str device, uint8_t class_id)
{
    const struct sim_transport *inner = &((struct sim_faults *)ctx)->inner;
    exchange->held = NULL;
    return inner->open(inner->ctx, exchange, device, class_id);
}

static enum base_status tunnel_write(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes,
                                     size_t size)
{
    const struct sim_transport *inner = &((struct sim_faults *)ctx)->inner;
    return inner->write(inner->ctx, exchange, bytes, size);
}

struct sim_transport sim_faults_transport(struct sim_faults *faults)
{
    const struct sim_transport *inner = &faults->inner;
    return (struct sim_transport){.ctx = faults,
                                  .start = start,
                                  .cancel = cancel,
                                  .open = inner->open != NULL ? tunnel_open : NULL,
                                  .write = inner->write != NULL ? tunnel_write : NULL};
}

// ---- Time

void sim_faults_turn(struct sim_faults *faults, uint64_t now_us)
{
    while (faults->heap_count > 0 && faults->heap[0]->due_us <= now_us) {
        struct sim_held *held = heap_take(faults);
        if (held->mode == MODE_LATER) {
            send_again(held);
        } else {
            tell(held);
        }
    }
}

uint64_t sim_faults_due_us(const struct sim_faults *faults)
{
    uint64_t due_us = faults->heap_count > 0 ? faults->heap[0]->due_us : UINT64_MAX;
    uint64_t storm_us = sim_faults_storm_us(faults);
    return storm_us < due_us ? storm_us : due_us;
}
