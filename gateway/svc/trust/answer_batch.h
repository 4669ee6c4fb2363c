// Answers of the director that are signed together: those of a moment are the leaves of a tree
// (wire/trust/answer.h), whose head is signed once. A worker signs for itself, and so often at
// most: who asks while nobody has asked for a while is answered at once, and who comes within
// GW_ANSWER_WAIT_US of the last signature waits for the next. Worker's thread.
#ifndef GW_ANSWER_BATCH_H
#define GW_ANSWER_BATCH_H

#include "svc/exchange.h"
#include "wire/trust/meta.h"
#include "wire/trust/offer.h"

#define GW_ANSWER_WAIT_US 2000u // between two signatures of a worker, and so long an answer waits

struct gw_answer_batch;
struct gw_worker;

// Fills the reply with the answer in front of `offers`; the exchange is finished behind it. BUSY is
// `offers` NULL: nothing could be signed.
typedef void (*gw_answered_fn)(struct gw_worker *worker, struct gw_exchange *exchange,
                               const struct wire_offers *offers);

struct gw_answer_ask {
    struct gw_exchange *exchange;
    uint64_t device_id;
    const struct wire_ask *ask;
    const struct wire_offers *offers; // copied; statements are the plan's, metadata the worker's
    gw_answered_fn answered;
};

BASE_NODISCARD enum base_status gw_answer_batch_new(struct gw_answer_batch **out_batch);
void gw_answer_batch_free(struct gw_answer_batch *batch); // nobody waits; accepts NULL
// Answers now or later: the exchange is the batch's until it is finished.
void gw_answer_batch_add(struct gw_worker *worker, const struct gw_answer_ask *ask);
// Signs for all that wait.
void gw_answer_batch_sign(struct gw_worker *worker);

#endif
