// How fast a device may send, over all of its streams and whichever workers they are on.
//
// SHARED: entries hang in shards, each with a mutex for finding and leaving them. What was used is
// one atomic number, so a batch costs no lock: the time at which the device would owe nothing any
// more, moved on by a batch's share at each batch. Behind the clock it starts anew from the clock,
// GW_RATE_BURST_US ahead of it the device is told to wait, GW_RATE_DEBT_US further its stream ends.
// An entry outlives the device's last stream until it owes nothing, so that coming back at once
// gains nothing.
#ifndef GW_DEVICE_RATE_H
#define GW_DEVICE_RATE_H

#include "base/keyed_hash.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdint.h>

#define GW_RATE_BURST_US UINT64_C(2000000) // of batches at once
#define GW_RATE_DEBT_US  UINT64_C(8000000) // in spite of THROTTLE

struct gw_device_rate; // of one device
struct gw_device_rates;

BASE_NODISCARD enum base_status gw_device_rates_new(const struct base_hash_key *key,
                                                    struct gw_device_rates **out);
void gw_device_rates_free(struct gw_device_rates *rates); // accepts NULL
// Finds or makes, one user more. NULL: no memory. Any thread.
struct gw_device_rate *gw_device_rate_get(struct gw_device_rates *rates, uint64_t device,
                                          uint64_t now_us);
// One user less. Any thread. Accepts NULL.
void gw_device_rate_release(struct gw_device_rates *rates, struct gw_device_rate *rate);
// One batch more. Returns how far the device is ahead of the rate, in microseconds. Any thread.
uint64_t gw_device_rate_take(struct gw_device_rate *rate, uint32_t batches_per_s, uint64_t now_us);
// Entries there are, those that only wait to be forgotten included. Any thread.
uint64_t gw_device_rates_count(struct gw_device_rates *rates);

#endif
