// Answers kept for idempotency keys: the same request with the same key gets the first answer
// again instead of a second change.
//
// A key belongs to the token that sent it. Kept for GW_ANSWER_KEEP_S; of GW_ANSWERS_MAX a tenant
// may have its share (gw_tenant_share), and a request with a key beyond it is refused: none is
// forgotten before its time, least of all by what another tenant sends. Stored in the transaction
// that completes the audit entry of the request. Control thread only.
#ifndef GW_ANSWERS_H
#define GW_ANSWERS_H

#include "base/arena.h"
#include "base/error.h"
#include "store/store.h"

#define GW_ANSWERS_MAX         16384u // of all tenants, by shares
#define GW_ANSWER_KEEP_S       86400u
#define GW_ANSWER_BODY_MAX     (64u * 1024)
#define GW_ANSWER_ETAG_MAX     32u
#define GW_IDEMPOTENCY_KEY_MAX 128u

struct gw_core;
struct gw_answers;

struct gw_answer {
    struct wire_sha256 key;     // of token and key
    struct wire_sha256 request; // of method, path, query and body
    uint64_t created_s;         // set when it is stored
    uint16_t tenant;            // whose it is
    int status;
    struct base_str etag;
    struct base_str body; // JSON
};

BASE_NODISCARD enum base_status gw_answers_new(struct gw_answers **out_answers);
void gw_answers_free(struct gw_answers *answers); // accepts NULL
BASE_NODISCARD enum base_status gw_answers_load(struct gw_core *core, struct base_error *error);

// The answer kept for `key`, its texts copied into `arena`. NOT_FOUND, NOMEM, IO.
BASE_NODISCARD enum base_status gw_answers_find(struct gw_core *core, const struct wire_sha256 *key,
                                                struct base_arena *arena, struct gw_answer *out);
// Is there a place for one more of the tenant? 0: there is; else in how many seconds one is free.
uint32_t gw_answers_full_s(const struct gw_core *core, uint16_t tenant);
// Within a transaction: puts the answer and drops some that are old. Memory follows with _kept.
BASE_NODISCARD enum base_status gw_answers_put(struct gw_core *core, struct gw_store_txn *txn,
                                               const struct gw_answer *answer);
void gw_answers_kept(struct gw_core *core, const struct gw_answer *answer);

BASE_NODISCARD enum base_status gw_answer_decode(const uint8_t *bytes, size_t size,
                                                 struct gw_answer *out); // texts borrowed
BASE_NODISCARD enum base_status gw_answer_encode(const struct gw_answer *answer, uint8_t *out,
                                                 size_t capacity, size_t *out_size);

#endif
