// The options that a device's and the gateway's tunnel sockets have (device/port/h2/h2_socket.c,
// gateway/http/listener.c, send_guard.c, conn.c), set on those of the peers in the tunnel's
// benchmark: what is measured beside them is not the kernel's settings. Values are those of the
// product's headers and of conf/gateway.conf.
#ifndef BENCH_TUNNEL_SOCKETS_H
#define BENCH_TUNNEL_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#ifndef TCP_RTO_MIN_US
#define TCP_RTO_MIN_US 45 // Linux 6.16
#endif

// A socket of a peer's client. On a phone's kernel the option of the least time before data is sent
// again is not there.
void tunnel_sockets_client(int fd, bool phone);
// Before it sends, so many microseconds after it last did: after a pause the congestion control is
// begun anew, and what it hears is always acknowledged at once.
void tunnel_sockets_upload(int fd, uint64_t silent_us);
// On a listening socket of a peer's server, whose connections take it over. False: not set.
bool tunnel_sockets_server(int fd);
// The socket of this process that is bound to that port; -1: there is none.
int tunnel_sockets_find(uint16_t local_port);

#endif
