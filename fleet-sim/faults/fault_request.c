// What faults ask and keep of a request: which rule hits the exchange, and the copy by which it
// arrives once more later. fault_network.c calls this where a request begins.
// On the thread of the shard.
#include "faults/faults.h"

#include "base/check.h"

#include <string.h>

const struct sim_fault_rule *sim_fault_of_exchange(struct sim_faulty *faulty,
                                                   const struct sim_exchange *exchange,
                                                   uint32_t number, uint64_t *out_draw)
{
    const struct sim_fault_rule *rule =
        sim_fault_of(faulty, SIM_FAULT_LOSS, SIM_FAULT_STALE, number, out_draw);
    // Nothing but TLS keeps an enrolment from coming again, and it does.
    if (rule == NULL && exchange->kind != SIM_EXCHANGE_ENROL) {
        rule = sim_fault_of(faulty, SIM_FAULT_REPLAY, SIM_FAULT_REPLAY, number, out_draw);
    }
    return rule != NULL
               ? rule
               : sim_fault_of(faulty, SIM_FAULT_ONE_WAY, SIM_FAULT_ONE_WAY, number, out_draw);
}

// ---- Copies

struct sim_request_copy *sim_request_copy_new(const struct base_alloc_port *alloc,
                                              const struct sim_exchange *exchange,
                                              const struct dev_request *request)
{
    struct dev_request copy = *request;
    struct base_str credential = exchange->credential;
    struct base_str body = {(const char *)request->body, request->body_bytes};
    struct base_str *const parts[] = {
        &copy.path,         &copy.device,          &copy.profile, &copy.nonce,
        &copy.content_type, &copy.idempotency_key, &credential,   &body};
    const size_t count = sizeof(parts) / sizeof(parts[0]);
    size_t size = sizeof(struct sim_request_copy);
    for (size_t i = 0; i < count; i++) {
        size += parts[i]->size;
    }
    struct sim_request_copy *out = alloc->alloc(alloc->ctx, size);
    if (out == NULL) {
        return NULL;
    }
    uint8_t *at = out->bytes;
    for (size_t i = 0; i < count; i++) {
        if (parts[i]->size > 0) {
            memcpy(at, parts[i]->data, parts[i]->size);
        }
        parts[i]->data = (const char *)at;
        at += parts[i]->size;
    }
    base_assert((size_t)(at - out->bytes) == size - sizeof(*out));
    out->request = copy;
    out->request.body = (const uint8_t *)body.data;
    out->credential = credential;
    if (request->dictionary != NULL) {
        out->dictionary = *request->dictionary;
        out->request.dictionary = &out->dictionary;
    }
    return out;
}
