// The socket below the codec: connecting, reading, writing, time-outs.
#ifndef H2_SOCKET_H
#define H2_SOCKET_H

#include "h2_client.h"

#define H2_SCRATCH_BYTES   65536 // per thread, shared by all its connections
#define H2_READS_PER_TURN  8     // then other connections get their turn
#define H2_CONNECT_MS      10000
#define H2_RTO_MIN_US      50000
#define H2_UNSENT_BYTES    (64 * 1024) // in the kernel, not yet on the wire
#define H2_PAUSE_US        5000        // since a write that has arrived: the next begins an upload
#define H2_USER_TIMEOUT_MS 60000       // unacknowledged data this old ends the connection

BASE_NODISCARD enum base_status h2_socket_open(struct h2_client *client,
                                               const struct h2_options *options);
void h2_socket_close(struct h2_client *client);
// Sends what the codec has at the end of this turn of the loop.
void h2_socket_flush_later(struct h2_client *client);

#endif
