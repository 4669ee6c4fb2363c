// A call of a model on its way from a stream to the service and back, the same for every protocol:
// what is read and answered has an arena of its own, the stream's end cancels the call, and the
// answer is written on the thread that ran it. A protocol says how its bodies are read and written.
//
// Lifetimes: the exchange's arena holds it; exchange > arena of the call. What `asked` points to
// lives as long as the exchange.
#ifndef GW_INFER_EXCHANGE_H
#define GW_INFER_EXCHANGE_H

#include "infer/infer_service.h"
#include "svc/access/head_check.h"
#include "svc/infer_seam.h"

// Bodies that weigh more are read on a thread of the service, so that they keep no event loop.
#define GW_INFER_READ_HERE_MAX ((size_t)64 << 10)
// Tensors in binary are borrowed, not read: so many bytes of them weigh as one of text.
#define GW_INFER_RAW_SHARE 16u
// Of an answer that is no larger, nothing else stays until its reader has it.
#define GW_INFER_SMALL_ANSWER 4096u

struct gw_infer_exchange;

struct gw_infer_protocol {
    // Any thread: `asked` into `call`, in the arena. What the codec says; the error has the text.
    enum base_status (*read)(struct gw_infer_exchange *self, struct base_error *error);
    // Any thread: the ticket's result into `answer`. INVALID: an output has no classes; NOMEM.
    enum base_status (*write)(struct gw_infer_exchange *self);
    // Worker's thread: fills the reply with `answer`, or with what the ticket's status and error
    // say.
    void (*reply)(struct gw_infer_exchange *self);
};

struct gw_infer_exchange {
    struct gw_message message;     // first; private, as the next
    bool ended;                    // by the submit itself; the worker's thread alone looks at it
    struct gw_infer_ticket ticket; // status, error and retry_after_s are for `reply`
    struct gw_infer_service *service;
    const struct gw_infer_protocol *protocol;
    struct gw_worker *worker;
    struct gw_exchange *exchange;
    struct base_arena arena; // of what is read and answered
    struct gw_infer_call call;
    const void *own;       // whoever begins may keep something here; in the exchange's arena
    struct base_str asked; // whoever begins sets these three
    size_t asked_json;     // how much of it is JSON, where not all of it is; 0: all
    size_t asked_raw;      // how much of it is tensors in binary, as far as is known
    struct base_str answer;
    size_t answer_json; // likewise
};

// Whose quota a call is of.
static inline uint16_t gw_infer_tenant(const struct gw_head *head)
{
    return head->proof == GW_PROOF_NONE ? GW_TENANT_QUOTA_NONE : head->tenant;
}

// In the exchange's arena; `head` is what was proven of the caller. NULL: no memory.
struct gw_infer_exchange *gw_infer_exchange_new(struct gw_infer_service *service,
                                                struct gw_worker *worker,
                                                struct gw_exchange *exchange,
                                                const struct gw_head *head,
                                                const struct gw_infer_protocol *protocol);
// Worker's thread: ends in one gw_exchange_finish, perhaps before this returns. The call ends after
// `timeout_us`, or what it says itself.
void gw_infer_exchange_begin(struct gw_infer_exchange *self, uint64_t timeout_us);

#endif
