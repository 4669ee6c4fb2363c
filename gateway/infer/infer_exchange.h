// A call of a model on its way from a stream to the service and back, the same for every protocol:
// what is read and computed has an arena of its own, the stream's end cancels the call, and the
// answer is written on the thread that ran it, into another one: so of a call whose answer waits
// for its reader nothing else is held. A protocol says how its bodies are read and written.
//
// Lifetimes: the exchange's arena holds it; exchange > `written` > arena of the call. What `asked`
// points to lives as long as the exchange.
#ifndef GW_INFER_EXCHANGE_H
#define GW_INFER_EXCHANGE_H

#include "infer/device_ledger.h"
#include "infer/infer_service.h"
#include "svc/access/head_check.h"
#include "svc/infer_seam.h"

// Bodies that weigh more are read on a thread of the service, so that they keep no event loop.
#define GW_INFER_READ_HERE_MAX ((size_t)64 << 10)
// Tensors in binary are borrowed, not read: so many bytes of them weigh as one of text.
#define GW_INFER_RAW_SHARE 16u
// An answer that is no larger lies in the exchange's own memory.
#define GW_INFER_SMALL_ANSWER 4096u

struct gw_infer_exchange;

struct gw_infer_protocol {
    // Any thread: `asked` into `call`, in the arena. What the codec says; the error has the text.
    enum base_status (*read)(struct gw_infer_exchange *self, struct base_error *error);
    // Any thread: the ticket's result into `answer`, which lies in `written`. INVALID: an output
    // has no classes; NOMEM.
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
    struct base_arena arena;   // of what is read and computed, until it is answered
    struct base_arena written; // of the answer, until its reader has it
    struct gw_infer_call call;
    struct gw_device_charge charge; // of the device that calls; not `taken`: none was charged
    const void *own;       // whoever begins may keep something here; in the exchange's arena
    struct base_str asked; // whoever begins sets these three
    size_t asked_json;     // how much of it is JSON, where not all of it is; 0: all
    size_t asked_raw;      // how much of it is tensors in binary, as far as is known
    struct base_str answer;
    size_t answer_json; // likewise
};

#define GW_DEVICE_OVER_TEXT "this device used up its calls or bytes of a minute"

// Did the device show its credential or certificate?
static inline bool gw_head_is_device(const struct gw_head *head)
{
    return head->proof == GW_PROOF_CREDENTIAL || head->proof == GW_PROOF_CERTIFICATE;
}

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
// Charges who calls for a call of so many bytes: the device that showed itself (device_ledger.h;
// without an idempotency key, so each call is one), then the tenant (tenant_quota.h). A call that
// does not run is given back to the device as it ends. LIMIT: one of the two had its calls or bytes
// of a minute; the error says which, and *out_retry_after_s when another try is worth it.
// TOO_LARGE: the tenant's minute has fewer bytes. Then nothing is charged. Worker's thread.
BASE_NODISCARD enum base_status gw_infer_exchange_charge(struct gw_infer_exchange *self,
                                                         const struct gw_head *head, uint64_t bytes,
                                                         uint32_t *out_retry_after_s,
                                                         struct base_error *error);
// Did the service do nothing for a call that failed? One whose deadline passed may have run, and an
// engine may say of a run what the service says of a queue.
bool gw_infer_did_not_run(const struct gw_infer_ticket *ticket);
// Worker's thread: ends in one gw_exchange_finish, perhaps before this returns. The call ends after
// `timeout_us`, or what it says itself.
void gw_infer_exchange_begin(struct gw_infer_exchange *self, uint64_t timeout_us);

#endif
