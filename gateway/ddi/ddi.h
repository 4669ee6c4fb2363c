// hawkBit's device API (Direct Device Integration, DDI), so that update clients made for hawkBit
// (SWUpdate, RAUC, Zephyr) take releases from this gateway.
//
//   GET  /TENANT/controller/v1/ID                               poll: what is there to do
//   PUT  /TENANT/controller/v1/ID/configData                    attributes
//   GET  /TENANT/controller/v1/ID/deploymentBase/ACTION         a version's files
//   POST /TENANT/controller/v1/ID/deploymentBase/ACTION/feedback
//   GET  /TENANT/controller/v1/ID/cancelAction/ACTION           an offer that was withdrawn
//   POST /TENANT/controller/v1/ID/cancelAction/ACTION/feedback
//
// A client says who it is with "authorization: GatewayToken TEXT". It verifies what it installs by
// its own signature; releases, stages and verdicts are those of every other device. TENANT is
// "default" in any case. A client is one device, its id a hash of TENANT and ID; its attribute
// controller_id is ID. Files come from /v1/blob/, with ranges.
//
// Texts of attributes become integers or booleans where they look like it ("4096", "true").
#ifndef GW_DDI_H
#define GW_DDI_H

#include "svc/control.h"

#define GW_DDI_CONTROLLER_ID_MAX 64u // as long as a text attribute

// Before the first worker is made; the core's options must have a ddi_token.
void gw_ddi_install(struct gw_core *core);
// Answers one request (worker's thread); ends in one gw_exchange_finish, now or later.
void gw_ddi_handle(struct gw_worker *worker, struct gw_exchange *exchange);

#endif
