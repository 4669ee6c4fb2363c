// Records of devices that never showed who they are: when one may begin, and when it ends.
//
// A device that shows a credential or a certificate has a record from then on. Of any other one
// begins with its first report that is durable, or with a check-in while an open rollout says
// trust_unproven; all other check-ins and hint streams of devices without a record are answered
// from their attributes alone and leave nothing behind. Records of the unproven are budgeted, in
// all and for the address they come from (svc/access/peer_limits.h), and end when the device was
// not heard of for `unproven_expire_s`. What they counted in rollouts stays counted.
#ifndef GW_STRANGERS_H
#define GW_STRANGERS_H

#include "base/keyed_hash.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define GW_UNPROVEN_RECORDS     1000000u // defaults of the settings
#define GW_UNPROVEN_PER_ADDRESS 20000u   // at once; as many again in unproven_expire_s
#define GW_UNPROVEN_EXPIRE_S    2592000u
#define GW_EXPIRE_SLICE         4096u // devices looked at in a tick

struct gw_core;
struct gw_core_options;
struct gw_strangers;

BASE_NODISCARD enum base_status gw_strangers_new(const struct gw_core_options *options,
                                                 const struct base_hash_key *key,
                                                 struct gw_strangers **out);
void gw_strangers_free(struct gw_strangers *strangers); // accepts NULL
// May a record of an unproven device that has none begin? Takes of the budgets. Any thread.
bool gw_strangers_admit(struct gw_core *core, uint64_t peer);
// Looks at the next slice of the devices and ends what has expired. Control thread.
void gw_strangers_step(struct gw_core *core);

struct gw_strangers_stats {
    uint64_t refused; // records that did not begin
    uint64_t expired;
};
void gw_strangers_stats(const struct gw_strangers *strangers, struct gw_strangers_stats *out);

#endif
