// What an answer of the director is made of: shared by the one that is signed alone
// (director_answer.c) and those that are signed together (answer_batch.c). Worker's thread.
#ifndef GW_DIRECTOR_ANSWER_H
#define GW_DIRECTOR_ANSWER_H

#include "base/span.h"
#include "svc/signer.h"
#include "svc/trust/answer_batch.h"

struct gw_core;

// One signature over the head of a tree of answers (wire/trust/answer.h); each gets its own
// payload.
BASE_NODISCARD enum base_status gw_director_sign_answers(const struct gw_signer_port *signer,
                                                         struct base_span head,
                                                         struct wire_envelope *out);
// What the director says to one device: WIRE_STATEMENT_BYTES_MAX at most. TOO_LARGE: more offers
// than it can name.
BASE_NODISCARD enum base_status gw_director_payload(const struct gw_worker *worker,
                                                    const struct gw_answer_ask *ask,
                                                    uint8_t out[WIRE_STATEMENT_BYTES_MAX],
                                                    size_t *out_size);
// The answer goes before what it names; `bytes` are borrowed.
void gw_director_put_first(struct wire_offers *offers, const uint8_t *bytes, size_t size);
// So many answers under one signature were made; 0: it failed.
void gw_director_counted(struct gw_core *core, uint32_t answers);

#endif
