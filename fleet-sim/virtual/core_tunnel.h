// A shard's tunnels in virtual time: the gateway's side of the tunnel as it ships (gateway/tunnel),
// one for each shard, over a sink that counts. Marks are of a device, and a device is of one shard,
// so nothing is shared between shards and the run stays the same with any number of threads.
//
// What is modelled: each piece of a stream takes what the delay port says, never overtakes the one
// before it, and a batch is durable SIM_CORE_COMMIT_US after the first that waits. The shard steps
// it between its own turns; one thread at a time.
#ifndef SIM_CORE_TUNNEL_H
#define SIM_CORE_TUNNEL_H

#include "base/error.h"
#include "base/log.h"
#include "base/ports.h"
#include "ports/sim_delay.h"
#include "ports/sim_transport.h"

#define SIM_STREAM_UP_MAX (64u * 1024) // bytes on their way up; beyond it a stream is busy

struct sim_core_tunnel;
struct sim_core_tunnel_options {
    struct base_clock_port clock; // the shard's
    struct sim_delay_port delay;
    struct sim_transport_events events;
    const struct base_log *log; // must outlive it; NULL is silence
};

// NOMEM, and what the gateway's side gives.
BASE_NODISCARD enum base_status sim_core_tunnel_new(const struct sim_core_tunnel_options *options,
                                                    struct sim_core_tunnel **out,
                                                    struct base_error *error);
void sim_core_tunnel_free(struct sim_core_tunnel *tunnel); // nobody is told; accepts NULL
// The transport's open, write and cancel, of exchanges of the kind TUNNEL (ports/sim_transport.h).
BASE_NODISCARD enum base_status sim_core_tunnel_open(struct sim_core_tunnel *tunnel,
                                                     struct sim_exchange *exchange,
                                                     struct base_str device);
BASE_NODISCARD enum base_status sim_core_tunnel_write(struct sim_core_tunnel *tunnel,
                                                      struct sim_exchange *exchange,
                                                      const uint8_t *bytes, size_t size);
void sim_core_tunnel_cancel(struct sim_core_tunnel *tunnel, struct sim_exchange *exchange);
// All that is due by now, on both sides.
void sim_core_tunnel_deliver(struct sim_core_tunnel *tunnel);
// When the next is; UINT64_MAX: nothing is on its way.
uint64_t sim_core_tunnel_due_us(const struct sim_core_tunnel *tunnel);
// The gateway was killed at this moment: streams end, and what was not durable is gone.
void sim_core_tunnel_cut(struct sim_core_tunnel *tunnel, uint64_t at_us);
// Records in the sink: each was durable once.
uint64_t sim_core_tunnel_records(const struct sim_core_tunnel *tunnel);

#endif
