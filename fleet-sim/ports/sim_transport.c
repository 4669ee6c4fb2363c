// What kind of exchange a path is, for latencies and counters by kind. fleet_ports.c asks when a
// device starts a request, sim_local.c to choose its answer; both on the shard's thread. It is a
// file of its own because the two transports must agree on it. Pure.
#include "ports/sim_transport.h"

enum sim_exchange_kind sim_exchange_kind_of(struct base_str path)
{
    if (base_str_equal(path, BASE_STR("/v1/checkin"))) {
        return SIM_EXCHANGE_CHECKIN;
    }
    if (base_str_starts(path, BASE_STR("/v1/blob/"))) {
        return SIM_EXCHANGE_BLOB;
    }
    if (base_str_equal(path, BASE_STR("/v1/report"))) {
        return SIM_EXCHANGE_REPORT;
    }
    if (base_str_starts(path, BASE_STR("/v1/meta/"))) {
        return SIM_EXCHANGE_META;
    }
    return base_str_equal(path, BASE_STR("/v1/push")) ? SIM_EXCHANGE_HINTS : SIM_EXCHANGE_OTHER;
}
