// One connection of the load generator: speaks just enough HTTP/2 to send prepared requests as fast
// as the peer takes them and to see their replies end. Frames are written and read by hand: a full
// client library would cost more than the server under test.
#ifndef BENCH_LOAD_CONN_H
#define BENCH_LOAD_CONN_H

#include "base/hist.h"
#include "load_plan.h"

#include <openssl/ssl.h>

#define LOAD_OUTPUT_BYTES (256 * 1024)
#define LOAD_SLOTS_MAX    4096u

struct load_totals {
    uint64_t started;
    uint64_t done;
    uint64_t status_204;
    uint64_t status_200;
    uint64_t status_other;
    uint64_t resets;
    uint64_t body_bytes;
    uint64_t hints;   // DATA frames that hold "event: hint"
    uint64_t streams; // hint streams that said hello
    uint32_t failed;  // connections lost
    bool counting;    // warm-up is over
    struct base_hist latency_us;
};

struct load_conn {
    const struct load_plan *plan;
    const struct load_requests *requests;
    struct load_totals *totals;
    uint64_t *next_request; // shared by all connections
    int fd;
    SSL *ssl;
    bool connected;
    bool failed;
    bool goaway;
    bool reported; // to the totals, as failed
    uint32_t open;
    uint32_t next_stream;
    uint32_t slot_mask;
    uint64_t *started_us; // by stream id
    uint8_t head[9];      // frame header being read
    uint32_t head_bytes;
    uint32_t left; // payload bytes of the frame still to come
    uint8_t status_byte;
    bool want_status;
    uint32_t window_debt;
    uint8_t payload[64]; // start of a payload, as far as it matters
    uint32_t payload_bytes;
    uint8_t *out;
    size_t out_at;
    size_t out_bytes;
};

// Starts connecting. IO, NOMEM.
BASE_NODISCARD enum base_status load_conn_open(struct load_conn *conn, SSL_CTX *tls);
void load_conn_close(struct load_conn *conn);
// Starts one request that was meant for `intended_us`; false when no slot or no room is free.
bool load_conn_start(struct load_conn *conn, uint64_t intended_us);
// Reads, then fills free slots while `may_start`, then writes. Sets `failed` when the connection is
// gone. `buffer` is scratch space.
void load_conn_step(struct load_conn *conn, uint8_t *buffer, size_t buffer_bytes, bool may_start,
                    uint64_t now_us);
bool load_conn_wants_write(const struct load_conn *conn);

#endif
