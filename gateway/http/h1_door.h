// HTTP/1.1 on a connection whose peer does not speak HTTP/2: curl, probes, Prometheus, a browser on
// the clear port. What it asks becomes the frames of an HTTP/2 client, which the connection's own
// session reads as anybody's; that session's frames become the answer. So there is one way for a
// request to be looked at, limited and answered, whatever it came in.
//
// One request at a time; those sent ahead wait in the input, each for its turn (turns.h): a peer
// that sends many ahead waits behind everybody else. It is for operators and for calls of models:
// the console, /api/v1, /metrics, /healthz, /readyz and /v2. Everything else is refused (505):
// devices speak HTTP/2.
//
// Part of a connection; its worker's thread. Bounded: input by GW_H1_WAITING_BYTES and one read,
// output by what the session gave since the socket took the last.
#ifndef GW_HTTP_H1_DOOR_H
#define GW_HTTP_H1_DOOR_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_H1_WAITING_BYTES ((size_t)64 * 1024) // of input: then no more is read
// Of a body that was refused because others are before it (429): so much is thrown away, and the
// connection serves the next request, which is likely the same one. With one that is longer, or
// whose length is not said, and with any other refusal, the connection ends.
#define GW_H1_UNWANTED_BYTES_MAX UINT64_C(1048576)

struct gw_conn;
struct gw_h1_door;

// NOMEM.
BASE_NODISCARD enum base_status gw_h1_door_new(struct gw_conn *conn, struct gw_h1_door **out);
void gw_h1_door_free(struct gw_h1_door *door); // accepts NULL

// Takes what the peer sent. NOMEM.
BASE_NODISCARD enum base_status gw_h1_door_input(struct gw_h1_door *door, const uint8_t *bytes,
                                                 size_t size);
// The peer shut its side: what came is answered, then the connection is over; a request that was
// cut is not. Not from inside nghttp2.
void gw_h1_door_end(struct gw_h1_door *door);
// Too much input waits to take more, or there is no more.
bool gw_h1_door_is_full(const struct gw_h1_door *door);
// Hands the connection's session what there is of the request under way; begins none. Not from
// inside nghttp2.
void gw_h1_door_go_on(struct gw_h1_door *door);
// Input waits that begins a request, or goes on with its head: the connection wants a turn.
bool gw_h1_door_waits(const struct gw_h1_door *door);
// The connection's turn: the head of one request is read. Not from inside nghttp2.
void gw_h1_door_turn(struct gw_h1_door *door);

// Takes frames of the connection's session. NOMEM, INVALID.
BASE_NODISCARD enum base_status gw_h1_door_answer(struct gw_h1_door *door, const uint8_t *frames,
                                                  size_t size);
// Moves at most `room` bytes of answers to `out`; returns how many.
size_t gw_h1_door_take(struct gw_h1_door *door, uint8_t *out, size_t room);
bool gw_h1_door_has_output(const struct gw_h1_door *door);
// The last answer was made: when it is out, the connection ends.
bool gw_h1_door_is_over(const struct gw_h1_door *door);
// Is the head of a request coming, and since when? 0: none is.
uint64_t gw_h1_door_head_ms(const struct gw_h1_door *door);

#endif
