// What fuzz targets of a whole connection share: bytes of a client go over a socket pair into a
// worker of the gateway's transport with the stub core.
#ifndef CONNECTION_FUZZ_H
#define CONNECTION_FUZZ_H

#include <stddef.h>
#include <stdint.h>

// Sends the client's preface and SETTINGS, then `data`, then hangs up. Checks that the connection,
// its streams and what the core had of them are gone, and that nothing is counted any more.
void connection_fuzz_run(const uint8_t *data, size_t size);

#endif
