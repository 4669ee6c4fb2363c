// Parser of one HTTP/1.1 message, a request or a response, sans-I/O: bytes in pieces of any size,
// out come the head and then pieces of body. Bounded: the head has at most GW_H1_HEAD_BYTES_MAX
// bytes and GW_H1_FIELDS_MAX fields. Strict where laxness lets two parties read different messages
// (RFC 9112, 11.2): no folded lines, no bare CR, no blank before a colon, no second framing.
#ifndef GW_HTTP_H1_MESSAGE_H
#define GW_HTTP_H1_MESSAGE_H

#include "base/arena.h"
#include "base/str.h"

#define GW_H1_HEAD_BYTES_MAX (16 * 1024)
#define GW_H1_FIELDS_MAX     64

enum gw_h1_state {
    GW_H1_FIRST_LINE,
    GW_H1_FIELDS,
    GW_H1_BODY_LENGTH,
    GW_H1_BODY_CLOSE, // to the end of the connection
    GW_H1_CHUNK_SIZE,
    GW_H1_CHUNK_DATA,
    GW_H1_CHUNK_END,
    GW_H1_TRAILERS,
    GW_H1_DONE,
    GW_H1_FAILED,
    GW_H1_STATE_COUNT
};

enum gw_h1_event {
    GW_H1_MORE, // every byte was used, more are needed
    GW_H1_HEAD, // first line and fields are complete
    GW_H1_BODY, // body bytes
    GW_H1_END,  // the message is complete
    GW_H1_BAD,  // not such a message
    GW_H1_EVENT_COUNT
};

struct gw_h1_field {
    struct base_str name; // lower case
    struct base_str value;
};

struct gw_h1_message {
    enum gw_h1_state state;
    bool is_request;
    bool to_head;           // the request was HEAD: no body follows
    bool too_large;         // it is bad because its head is over a limit
    int status;             // of a response
    struct base_str method; // of a request
    struct base_str target; // ... not empty, without blanks
    bool old;               // HTTP/1.0: knows no chunks
    bool keep_alive;
    bool closes; // it says so
    bool chunked;
    bool has_length;
    uint64_t left; // of the body, or of the chunk
    struct gw_h1_field *fields;
    uint32_t field_count;
    struct base_arena *arena;
    char *head; // lines as they came
    size_t head_bytes;
    size_t line_at; // start of the line being read
};

// A response; text and fields live in `arena`. NOMEM.
BASE_NODISCARD enum base_status gw_h1_message_init(struct gw_h1_message *message,
                                                   struct base_arena *arena, bool to_head);
// The same for a request.
BASE_NODISCARD enum base_status gw_h1_request_init(struct gw_h1_message *message,
                                                   struct base_arena *arena);
// Uses some of the bytes (*out_used) and says what came of them; call again with the rest. With
// GW_H1_BODY, *out_body points into `bytes`. 1xx responses are skipped.
enum gw_h1_event gw_h1_message_feed(struct gw_h1_message *message, const uint8_t *bytes,
                                    size_t size, size_t *out_used, struct base_str *out_body);
// The connection ended: is the message complete with that?
bool gw_h1_message_closed(struct gw_h1_message *message);

#endif
