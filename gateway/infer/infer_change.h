// Models that an operator loads, unloads, pushes and releases, the same for every protocol: who
// may, the work, and the entry in the audit log that says who did what.
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
    struct base_str model; // as long as the exchange, as all of this
    bool load;             // else unload
    // Background thread: what is done in place of loading or unloading, by the actor of this name;
    // NULL: one of these two.
    enum base_status (*work)(const struct gw_infer_change_wish *wish, const char *by,
                             struct base_error *error);
    const char *verb;       // of the log; NULL: load or unload
    struct base_str reason; // of the audit log's entry; empty: none was given
    void *more;             // for `work`
};

// Worker's thread: ends in one gw_exchange_finish. A caller who shows no operator's token gets
// HTTP's 401 whatever the protocol.
void gw_infer_change(struct gw_worker *worker, struct gw_exchange *exchange,
                     const struct gw_infer_change_wish *wish,
                     const struct gw_infer_change_protocol *protocol);

#endif
