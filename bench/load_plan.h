// What a load run does, from the command line, and the requests it will send: encoded before the
// clock starts, so that the generator costs little while it measures.
#ifndef BENCH_LOAD_PLAN_H
#define BENCH_LOAD_PLAN_H

#include "base/error.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum load_mode {
    LOAD_REQUESTS, // each stream slot sends the next request when its reply is complete
    LOAD_IDLE,     // one request on each connection, then silence until standard input ends
    LOAD_HINTS,    // a hint stream in every slot; counts the hints that arrive
    LOAD_MODE_COUNT
};

struct load_plan {
    enum load_mode mode;
    struct sockaddr_storage address;
    socklen_t address_size;
    bool tls;
    const char *authority;
    const char *path;
    const char *method;
    const char *profiles_path; // one walle-profile value a line; NULL: none is sent
    uint32_t connections;
    uint32_t streams;  // per connection
    uint64_t requests; // in all; 0: until `seconds` are over
    double seconds;
    double warm_up_s; // not counted
    uint64_t devices; // walle-device runs over first_device .. + devices; 0: no such header
    uint64_t first_device;
    // Lines `DEVICE CREDENTIAL`, in place of `devices`: each request is of the next of them; NULL:
    // none.
    const char *credentials_path;
    // Requests a second in all, begun at even times whether or not replies come (open loop);
    // latency counts from the time meant. 0: closed loop.
    uint64_t rate;
};

// Header blocks (HPACK, table of size 0, so that any may follow any) in one piece of memory.
struct load_requests {
    uint8_t *bytes;
    uint32_t *offsets; // count + 1
    uint32_t count;
};

#define LOAD_REQUESTS_MAX 2000000u

// Encodes one block per device, at most LOAD_REQUESTS_MAX; without devices, and for an idle run,
// just one. INVALID, IO, NOMEM with a text.
BASE_NODISCARD enum base_status load_requests_make(const struct load_plan *plan,
                                                   struct load_requests *out,
                                                   struct base_error *error);
void load_requests_done(struct load_requests *requests);

#endif
