// A gateway in this process, in virtual time: the core as it ships (gateway/svc, with the operator
// API) over its store, without sockets and threads. It goes on from a copy of the data folder of a
// gateway that is not running, so a run meets the tasks, rollouts and devices that are there, and
// changes nothing of them.
//
// What is modelled: a message takes what `delay` says, each way as long, reports are durable
// `commit_us` after the first that waits, and the core's own work takes no time. Nothing is read
// from the host's clock. One thread. Hint streams and tunnels are not served: who asks for one is
// told that there is none.
#ifndef SIM_CORE_GATEWAY_H
#define SIM_CORE_GATEWAY_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "base/ports.h"
#include "ports/sim_delay.h"
#include "ports/sim_transport.h"

#define SIM_CORE_TICK_US   500000u // as the gateway's default (rollout.tick_ms)
#define SIM_CORE_COMMIT_US 5000u   // from a report to the disk

struct sim_core_gateway;
struct sim_core_gateway_options {
    const char *dir;              // data folder that is copied
    struct base_clock_port clock; // virtual
    uint64_t seed;                // of all that the core draws
    uint32_t devices;             // that may come, strangers all
    struct sim_delay_port delay;
    struct sim_transport_events events;
    const struct base_log *log;
};

// Copies the folder beside the system's temporary files, in memory where there is room for such,
// and opens it. BUSY: a gateway runs there; NOT_FOUND, IO, FULL and what opening a store gives.
BASE_NODISCARD enum base_status sim_core_gateway_new(const struct sim_core_gateway_options *options,
                                                     struct sim_core_gateway **out_gateway,
                                                     struct base_error *error);
void sim_core_gateway_free(struct sim_core_gateway *gateway); // and the copy; accepts NULL
// How devices reach it.
struct sim_transport sim_core_gateway_transport(struct sim_core_gateway *gateway);
// When sim_core_gateway_step has something to do.
uint64_t sim_core_gateway_due_us(const struct sim_core_gateway *gateway);
// Does what is due now.
void sim_core_gateway_step(struct sim_core_gateway *gateway);
// An operator's question, answered before it returns: the status. The body is added to `out`.
int sim_core_gateway_ask(struct sim_core_gateway *gateway, const char *path,
                         struct base_buffer *out);

#endif
