// Closing connections of a worker when there is too little memory (overload.h says who). Called by
// the worker's tick, on its thread.
#ifndef GW_HTTP_SHED_H
#define GW_HTTP_SHED_H

#include <stdint.h>

struct gw_conn;
struct gw_http_worker;

#define GW_SHED_TICK_MAX 64u // connections of a worker closed in one tick

// What the connection holds, in memory of the process and of the kernel; roughly.
uint64_t gw_shed_held(const struct gw_conn *conn);
// Closes as many connections as this worker's share of the excess needs.
void gw_shed_tick(struct gw_http_worker *worker);

#endif
