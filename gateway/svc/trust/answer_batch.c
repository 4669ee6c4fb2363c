// Answers that wait to be signed together.
//
// device/checkin_answer.c adds those of devices that understand a tree; the core signs them when
// the transport's alarm goes off, or when a tree is full. What an answer needs until then lies in
// its exchange's arena, and the plan whose statements it offers is held, and so is the metadata
// that comes with it. Worker's thread.
#include "svc/trust/answer_batch.h"

#include "base/check.h"
#include "svc/core_private.h"
#include "svc/core_worker.h"
#include "svc/plan/plan.h"
#include "svc/reply.h"
#include "svc/trust/director_answer.h"
#include "svc/trust/director_private.h"
#include "wire/trust/answer.h"

#include <stdlib.h>
#include <string.h>

struct gw_answer_wait {
    struct gw_answer_wait *next;
    struct gw_exchange *exchange; // whose arena this lies in
    struct gw_plan *plan;         // a reference
    struct gw_meta *meta;         // ... when there is metadata in the offers; else NULL
    gw_answered_fn answered;
    // The offers, but for their arrays.
    struct base_span metadata;
    uint32_t next_checkin_s;
    uint32_t payload_bytes;
    uint8_t flags;
    uint8_t count;
    uint8_t again_count;
    uint8_t tail[]; // the director's payload, then the offers' items and marks
};

_Static_assert(WIRE_OFFERS_MAX <= UINT8_MAX && WIRE_AGAIN_MAX <= UINT8_MAX, "counts are bytes");

struct gw_answer_batch {
    struct gw_answer_wait *first; // who waits, in the order in which they came
    struct gw_answer_wait **last; // the link behind them
    uint32_t count;
    bool alarmed;       // the transport will call
    uint64_t signed_us; // monotonic time of the last signature; 0: none yet
    struct wire_sha256 nodes[WIRE_ANSWER_NODES_MAX]; // of the tree that is signed
};

enum base_status gw_answer_batch_new(struct gw_answer_batch **out_batch)
{
    struct gw_answer_batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL) {
        return BASE_ERR_NOMEM;
    }
    batch->last = &batch->first;
    *out_batch = batch;
    return BASE_OK;
}

void gw_answer_batch_free(struct gw_answer_batch *batch)
{
    base_assert(batch == NULL || batch->count == 0); // no exchange is unfinished
    free(batch);
}

static uint64_t now_us(const struct gw_worker *worker)
{
    return worker->core->clock.mono_us(worker->core->clock.ctx);
}

static size_t items_bytes(const struct gw_answer_wait *wait)
{
    return wait->count * sizeof(((struct wire_offers *)0)->items[0]);
}

// As they were added.
static void offers_of(const struct gw_answer_wait *wait, struct wire_offers *out)
{
    const uint8_t *items = wait->tail + wait->payload_bytes;
    out->flags = wait->flags;
    out->next_checkin_s = wait->next_checkin_s;
    out->count = wait->count;
    out->again_count = wait->again_count;
    out->metadata = wait->metadata;
    memcpy(out->items, items, items_bytes(wait));
    memcpy(out->again, items + items_bytes(wait), wait->again_count * sizeof(out->again[0]));
}

// The wait is over, with the answer in front of its offers or (NULL) without one.
static void answered(struct gw_worker *worker, struct gw_answer_wait *wait,
                     const struct wire_offers *offers)
{
    struct gw_exchange *exchange = wait->exchange;
    wait->answered(worker, exchange, offers);
    gw_plan_unref(wait->plan);
    gw_meta_unref(wait->meta);
    gw_exchange_finish(exchange); // and `wait` is gone
}

// The tree over the answers of a moment, under one signature.
struct signed_tree {
    const struct wire_sha256 *nodes;
    uint32_t size;                 // leaves
    struct wire_envelope envelope; // its payload is each answer's own
};

// In front of the offers. False: no memory.
static bool answer_put(const struct signed_tree *tree, const struct gw_answer_wait *wait,
                       uint32_t index, struct wire_offers *offers)
{
    struct wire_sha256 path[WIRE_ANSWER_PATH_MAX];
    uint8_t payload[WIRE_ANSWER_BYTES_MAX];
    uint8_t bytes[WIRE_ANSWER_BYTES_MAX];
    size_t size = 0;
    const struct wire_answer answer = {
        .way = {.leaves = tree->size,
                .index = index,
                .path = path,
                .path_count = wire_tree_path(tree->nodes, tree->size, index, path)},
        .director = {wait->tail, wait->payload_bytes},
    };
    struct wire_envelope envelope = tree->envelope;
    envelope.payload = payload;
    if (wire_answer_encode(&answer, payload, sizeof(payload), &envelope.payload_bytes) != BASE_OK ||
        wire_envelope_encode(&envelope, bytes, sizeof(bytes), &size) != BASE_OK) {
        return false;
    }
    const uint8_t *kept = base_arena_copy(wait->exchange->arena, bytes, size);
    if (kept == NULL) {
        return false;
    }
    gw_director_put_first(offers, kept, size);
    return true;
}

// Of those from `first` on.
static enum base_status tree_sign(struct gw_worker *worker, const struct gw_answer_wait *first,
                                  struct signed_tree *tree)
{
    const struct wire_verifier verifier = gw_director_verifier(worker->core);
    const struct wire_hasher hasher = wire_verifier_hasher(&verifier);
    struct wire_sha256 *nodes = worker->answers->nodes;
    uint8_t head[WIRE_ANSWER_HEAD_BYTES];
    uint32_t size = 0;
    for (; first != NULL; first = first->next) {
        base_check(size < WIRE_ANSWERS_MAX);
        wire_answer_leaf(&hasher, (struct base_span){first->tail, first->payload_bytes},
                         &nodes[size++]);
    }
    wire_tree_build(&hasher, nodes, size);
    wire_answer_head(size, &nodes[wire_tree_nodes(size) - 1], head);
    tree->nodes = nodes;
    tree->size = size;
    BASE_TRY(gw_director_sign_answers(worker->core->director->signer,
                                      (struct base_span){head, sizeof(head)}, &tree->envelope));
    gw_director_counted(worker->core, size);
    return BASE_OK;
}

// They are out of the row by now: who is answered may come again at once.
static void sign_for(struct gw_worker *worker, struct gw_answer_wait *first)
{
    struct signed_tree tree;
    bool good = tree_sign(worker, first, &tree) == BASE_OK;
    for (uint32_t index = 0; first != NULL; index++) {
        struct gw_answer_wait *next = first->next;
        struct wire_offers offers;
        offers_of(first, &offers);
        bool put = good && answer_put(&tree, first, index, &offers);
        answered(worker, first, put ? &offers : NULL);
        first = next;
    }
}

// Takes the first of the row, as many as a tree holds.
static struct gw_answer_wait *row_take(struct gw_answer_batch *batch)
{
    struct gw_answer_wait *first = batch->first;
    struct gw_answer_wait *end = first;
    uint32_t size = batch->count < WIRE_ANSWERS_MAX ? batch->count : WIRE_ANSWERS_MAX;
    for (uint32_t i = 1; i < size; i++) {
        end = end->next;
    }
    batch->first = end->next;
    batch->last = batch->first != NULL ? batch->last : &batch->first;
    batch->count -= size;
    end->next = NULL;
    return first;
}

void gw_answer_batch_sign(struct gw_worker *worker)
{
    while (worker->answers->count > 0) {
        worker->answers->signed_us = now_us(worker);
        sign_for(worker, row_take(worker->answers));
    }
}

static void wait_or_sign(struct gw_worker *worker)
{
    struct gw_answer_batch *batch = worker->answers;
    uint64_t since_us = now_us(worker) - batch->signed_us;
    bool may_wait = worker->alarm_set != NULL && batch->signed_us != 0;
    if (batch->count >= WIRE_ANSWERS_MAX || !may_wait || since_us >= GW_ANSWER_WAIT_US) {
        gw_answer_batch_sign(worker);
    } else if (!batch->alarmed) {
        batch->alarmed = true;
        worker->alarm_set(worker->alarm_ctx, (uint32_t)(GW_ANSWER_WAIT_US - since_us));
    }
}

void gw_answer_batch_add(struct gw_worker *worker, const struct gw_answer_ask *ask)
{
    struct gw_answer_batch *batch = worker->answers;
    struct gw_exchange *exchange = ask->exchange;
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    enum base_status status = gw_director_payload(worker, ask, payload, &size);
    const struct wire_offers *offers = ask->offers;
    size_t items = offers->count * sizeof(offers->items[0]);
    size_t marks = offers->again_count * sizeof(offers->again[0]);
    struct gw_answer_wait *wait = NULL;
    if (status == BASE_OK) {
        wait = base_arena_alloc(exchange->arena, sizeof(*wait) + size + items + marks);
    }
    if (wait == NULL) {
        ask->answered(worker, exchange, NULL);
        gw_exchange_finish(exchange);
        return;
    }
    *wait = (struct gw_answer_wait){
        .exchange = exchange,
        .plan = gw_plan_ref(worker->plan),
        .meta = offers->metadata.size > 0 ? gw_meta_ref(worker->meta) : NULL,
        .answered = ask->answered,
        .metadata = offers->metadata,
        .next_checkin_s = offers->next_checkin_s,
        .payload_bytes = (uint32_t)size,
        .flags = offers->flags,
        .count = (uint8_t)offers->count,
        .again_count = (uint8_t)offers->again_count,
    };
    memcpy(wait->tail, payload, size);
    memcpy(wait->tail + size, offers->items, items);
    memcpy(wait->tail + size + items, offers->again, marks);
    *batch->last = wait;
    batch->last = &wait->next;
    batch->count++;
    wait_or_sign(worker);
}

void gw_worker_on_alarm(struct gw_worker *worker, gw_alarm_fn set, void *ctx)
{
    worker->alarm_set = set;
    worker->alarm_ctx = ctx;
}

void gw_worker_alarm(struct gw_worker *worker)
{
    worker->answers->alarmed = false;
    gw_answer_batch_sign(worker);
}
