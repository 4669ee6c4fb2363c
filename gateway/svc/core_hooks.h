// What is set into the core from outside before the first worker is made: the operator API,
// hawkBit's device API, the tunnel, and the inference service.
#ifndef GW_CORE_HOOKS_H
#define GW_CORE_HOOKS_H

#include "svc/control.h"
#include "svc/infer_seam.h"
#include "svc/tunnel_seam.h"

struct gw_core_hooks {
    gw_api_fn api;
    gw_api_head_fn api_head;
    void (*console)(struct gw_exchange *exchange); // NULL: no page
    gw_ddi_fn ddi;                                 // NULL: its paths belong to the upstream
    gw_ddi_head_fn ddi_head;
    struct gw_tunnel_seam tunnel; // self NULL: none
    struct gw_infer_seam infer;   // the same
};

#endif
