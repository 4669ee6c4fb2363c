// Calls of models in the cloud, over the device's one connection to its gateway: for tasks
// (walle.cloud.infer) and for the embedding app alike.
//
// A call is answered or refused, and the caller goes on with what it has. What can be known at once
// is said at once, and nothing is sent: no gateway answers (OFFLINE; after a growing pause one call
// finds out), the model's calls take longer than this one may (SLOW), the gateway said that the
// quota is used up or that it is busy (QUOTA, BUSY, for as long as it said), or that this device
// may not call (NOT_ALLOWED, for a minute). Otherwise calls go by priority, of one priority in the
// order in which they came, DEV_CLOUD_UNDER_WAY at a time. A call whose connection is lost goes
// once more, under the key it had, so the gateway runs and charges it once; each ends within its
// deadline.
//
// Lifetimes: the caller's structure, body and answer room stay where they are from dev_cloud_infer
// to `on_end`, or to dev_cloud_cancel. Threads: the runtime's.
#ifndef DEVICE_CLOUD_H
#define DEVICE_CLOUD_H

#include "device/device.h"
#include "wire/cloud/tensor_call.h"

BASE_C_BEGIN

#define DEV_CLOUD_UNDER_WAY  4  // calls that are sent and not answered
#define DEV_CLOUD_CALLS_MAX  64 // upper bound for dev_config.cloud_calls_max
#define DEV_CLOUD_TRIES      2 // requests for one call, and more while the gateway still runs the first
#define DEV_CLOUD_DETAIL_MAX 160 // bytes of what a gateway says of a refusal
#define DEV_CLOUD_MODELS_MAX 8   // models whose times are remembered; the one unused longest goes

struct dev_cloud_end {
    enum wire_cloud_why why;
    const uint8_t *answer; // ANSWERED: well formed (wire_tensor_answer_parse); in the call's room
    size_t answer_bytes;
    uint32_t took_us;       // from dev_cloud_infer
    uint32_t tries;         // requests
    struct base_str detail; // what the gateway says of a refusal; may be empty
};

struct dev_cloud_call {
    struct base_str model; // wire_tensor_model_ok
    uint32_t priority;     // below WIRE_TENSOR_PRIORITIES; 0 goes first
    uint32_t deadline_ms;  // from dev_cloud_infer on; 1 to WIRE_TENSOR_DEADLINE_MS
    const uint8_t *body;   // wire_tensor_call_write
    size_t body_bytes;     // at most WIRE_TENSOR_CALL_MAX
    bool packed;           // the body is one zstd frame of that
    uint8_t *answer;       // room for the answer; one that does not fit is TOO_LARGE
    size_t answer_capacity;
    void *ctx;
    // Once, never from inside dev_cloud_infer, and not after dev_cloud_cancel; from dev_stop
    // (CLOSED) as well. The call is the caller's again, and another one may be begun.
    void (*on_end)(void *ctx, const struct dev_cloud_end *end);

    // Private.
    struct dev_cloud_call *next;
    uint64_t started_us;
    uint64_t sent_us; // of one that waits: not again before it
    uint64_t key[2];
    uint32_t exchange; // 0: it waits
    uint32_t tries;
    uint32_t retry_after_s;
    int status; // 0: no head
    size_t answer_bytes;
    char reason[24];
    bool overflowed;
};

// ANSWERED: it is under way, and on_end will come. Anything else is why not, known at once: nothing
// was begun and on_end does not come. REFUSED: the call is malformed; BUSY: cloud_calls_max are
// there.
enum wire_cloud_why dev_cloud_infer(struct dev_runtime *runtime, struct dev_cloud_call *call);
// Ends a call of dev_cloud_infer, if it is under way; on_end does not come.
void dev_cloud_cancel(struct dev_runtime *runtime, struct dev_cloud_call *call);

// What is known of the way to the cloud now, for who decides whether to ask at all.
struct dev_cloud_view {
    enum wire_cloud_why why; // ANSWERED: a call would be sent
    uint32_t expected_us;    // how long calls of this model took of late; 0: not known
    uint32_t calls;          // waiting and under way
    uint64_t answered;       // since the boot
    uint64_t refused;        // all others: refused, or without an answer
};
void dev_cloud_look(const struct dev_runtime *runtime, struct base_str model,
                    struct dev_cloud_view *out_view);

BASE_C_END

#endif
