// What the headers of a request decide alone, before any of its body is kept: whether the body can
// change the answer, how large it may be, and who is asking as far as that is proven. Worker's
// thread.
#ifndef GW_HEAD_CHECK_H
#define GW_HEAD_CHECK_H

#include "svc/exchange.h"

#define GW_PROVEN_TEXT_MAX 112u

struct gw_worker;

enum gw_proof {
    GW_PROOF_NONE,
    GW_PROOF_CREDENTIAL,
    GW_PROOF_CERTIFICATE,
    GW_PROOF_TOKEN, // an operator's
    GW_PROOF_COUNT
};

// A body that says to be no longer is read whole before anything is decided.
#define GW_EARLY_BODY_MIN (16u * 1024)

struct gw_head {
    enum gw_body_size size;
    bool looks; // the beginning of a large body may decide: gw_core_early
    enum gw_proof proof;
    uint64_t id;     // of the device, or of the token
    uint16_t tenant; // of the device, or in which a caller's token acts
};

// Is the body wanted? False: nothing in it changes the answer, and the exchange is to be handed to
// gw_core_handle now, without one. Then `exchange->refused` may be set: the reply is filled.
bool gw_core_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out);
// Of a request whose head looks: `piece` is what came of the body so far. REFUSED: the rest is not
// wanted, and the exchange is never handed over. MORE: there is no use in asking again before
// *out_wanted bytes are there.
enum gw_early gw_core_early(struct gw_worker *worker, struct gw_exchange *exchange,
                            struct base_str piece, size_t *out_wanted);
// A request for the upstream: what it proves. One that shows a credential or a certificate proves
// something or is refused: false, and the reply is filled (401, 403).
bool gw_core_prove(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out);
// "device=ID; tenant=NAME; by=credential": what was proven, for the upstream; empty when nothing
// was. In `out`.
struct base_str gw_core_proven_text(struct gw_worker *worker, const struct gw_head *head,
                                    char out[GW_PROVEN_TEXT_MAX]);

// ---- The checks of routes, for route.c: false when the answer needs no body

bool gw_report_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out);
bool gw_api_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out);
bool gw_ddi_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out);
bool gw_infer_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out);

#endif
