// A service behind the gateway, for runs that have none of their own: answers every request on a
// port of this machine with a few bytes. A thread of its own.
#ifndef SIM_SIM_UPSTREAM_H
#define SIM_SIM_UPSTREAM_H

#include "base/error.h"

#include <stdint.h>

struct sim_upstream;

// Listens on 127.0.0.1:PORT. IO: the port is taken; NOMEM.
BASE_NODISCARD enum base_status sim_upstream_new(uint16_t port, struct sim_upstream **out_upstream,
                                                 struct base_error *error);
// Ends the thread. Accepts NULL.
void sim_upstream_free(struct sim_upstream *upstream);

#endif
