// Ordinary business of virtual devices: their apps ask their service for something now and then,
// through the gateway's proxy, and what the runtime has to say rides on it. Shard's thread.
#ifndef SIM_FLEET_BUSINESS_H
#define SIM_FLEET_BUSINESS_H

#include "run/fleet.h"

// How long a runtime waits for a ride before it goes by itself, for dev_config; 0: nobody rides.
uint32_t sim_business_wait_s(const struct sim_options *options);
// Makes the request that is due, if one is.
void sim_business_turn(struct sim_shard *shard, struct sim_awake *awake, uint64_t now_us);
// When the next one is, on the shard's clock; SIM_WHEEL_NONE: there is none.
uint32_t sim_business_next_ms(const struct sim_shard *shard, uint32_t device);
// The head of an answer, and the end of an exchange.
void sim_business_head(struct sim_exchange *exchange, int status, uint64_t now_us);
void sim_business_end(struct sim_exchange *exchange);

#endif
