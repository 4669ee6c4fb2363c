// The connection and its streams as the files of the HTTP/2 client see them. What socket, codec,
// bodies and TLS offer each other is in the headers that bear their names.
#ifndef H2_INTERNAL_H
#define H2_INTERNAL_H

#include "base/fifo.h"
#include "h2/h2_client.h"
#include "h2/h2_fields.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#define H2_HEADERS_MAX    16          // per request, besides the pseudo headers
#define H2_STREAMS_MAX    65536       // accepted and not ended, per connection
#define H2_BODY_BYTES_MAX (64u << 20) // of a request
#define H2_POOL_MAX       1024        // stream records kept for reuse, per connection
#define H2_RIDE_BYTES_MAX 64          // longest walle-ride that is passed on
#define H2_REASON_MAX     24          // longest walle-reason that is passed on
#define H2_AUTHORITY_MAX  280

struct h2_stream {
    struct h2_stream *next; // in the connection's list, or in its pool
    struct h2_stream *prev;
    void *user;
    struct base_fifo body; // what is left to send
    size_t early_left;     // of that, may go as early data
    uint64_t content_bytes;
    uint64_t range_from;
    uint32_t retry_after_s;
    int32_t id;
    int status;
    uint16_t weight;  // of its body; 0: the usual one
    uint8_t encoding; // enum h2_encoding
    bool sent;        // the peer knows the stream
    bool head_done;   // `head` was called
    bool complete;    // END_STREAM seen
    bool cancelled;   // no callbacks any more
    bool has_body;    // open or not
    bool open_body;   // more may be written
    bool finished;    // an open body that ends behind what is left to send
    bool deferred;    // nghttp2 waits to be told that there is more to send
    bool owed;        // a `writable`
    bool early;       // the request may go as early data
};

enum h2_phase {
    H2_PHASE_CONNECTING,
    H2_PHASE_TLS,
    H2_PHASE_OPEN,
    H2_PHASE_GONE,
};

struct h2_client {
    struct event_base *base;
    struct h2_events events;
    nghttp2_session *session;
    SSL *ssl; // NULL: clear text
    struct h2_tls *tls;
    struct h2_stream *streams; // accepted and not ended
    struct h2_stream *pool;
    struct h2_fields fields; // of requests
    struct event read_event;
    struct event write_event; // pending only while the socket does not take more
    struct event flush_event; // activated by hand: one flush per loop turn
    struct event timer_event; // while connecting
    uint8_t *backlog;         // bytes the socket did not take; NULL mostly
    size_t backlog_bytes;
    size_t backlog_sent;
    size_t early_sent; // of the backlog, as early data
    const char *why;   // static text of what ended the connection; NULL: its status says it all
    char *offer;       // value of walle-offer of the header block under way
    size_t offer_bytes;
    char ride[H2_RIDE_BYTES_MAX]; // likewise of walle-ride
    size_t ride_bytes;
    char reason[H2_REASON_MAX]; // likewise of walle-reason
    size_t reason_bytes;
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t wrote_us;
    enum h2_phase phase;
    int socket;
    uint32_t accepted; // streams in the list
    uint32_t opened;   // of these, known to the peer
    uint32_t pooled;
    uint32_t bodies; // streams with one
    uint32_t depth;  // > 0 while callbacks may be running
    bool unbelieved; // the handshake ended for the peer's certificate
    bool gathering;  // early data: only what may go so is given to the codec
    bool owing;      // a stream is owed a `writable`
    bool resumed;    // the TLS session was
    bool was_early;  // early data was accepted
    bool draining;   // GOAWAY seen, or out of stream numbers
    bool doomed;     // freed from a callback: memory goes when the stack is unwound
    bool small;
    bool flush_pending;
    size_t authority_bytes;
    char authority[H2_AUTHORITY_MAX];
};

// h2_client.c: called by the codec and the socket.
struct h2_stream *h2_stream_find(struct h2_client *client, int32_t id);
void h2_stream_end(struct h2_client *client, struct h2_stream *stream, enum base_status status);
// Closes the socket, ends every exchange with `status`, then tells `state`. Once.
void h2_client_fail(struct h2_client *client, enum base_status status);
void h2_client_enter(struct h2_client *client);
// False when the client was freed meanwhile: it is no more.
bool h2_client_leave(struct h2_client *client);

#endif
