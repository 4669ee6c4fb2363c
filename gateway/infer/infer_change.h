// Models that an operator loads and unloads, the same for every protocol: who may, the work, and
// the entry in the audit log that says who did what.
#ifndef GW_INFER_CHANGE_H
#define GW_INFER_CHANGE_H

#include "infer/infer_service.h"
#include "svc/infer_seam.h"

// How a protocol answers. Worker's thread.
struct gw_infer_change_protocol {
    // Its number for how it ended: what is shown in the audit log.
    int (*code)(enum base_status status);
    // Fills the reply. OK; DENIED: no right to; NOT_FOUND: no such model; CONFLICT: the name is
    // another model's; INVALID; BUSY; what the engine and the audit log say.
    void (*reply)(struct gw_exchange *exchange, enum base_status status, const char *text);
};

struct gw_infer_change_wish {
    struct gw_infer_service *service;
    struct base_str model; // as long as the exchange
    bool load;             // else unload
};

// Worker's thread: ends in one gw_exchange_finish. A caller who shows no operator's token gets
// HTTP's 401 whatever the protocol.
void gw_infer_change(struct gw_worker *worker, struct gw_exchange *exchange,
                     const struct gw_infer_change_wish *wish,
                     const struct gw_infer_change_protocol *protocol);

#endif
