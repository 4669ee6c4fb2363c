// Exchanges that stay open both ways while the core has them: a call of gRPC whose messages come
// one after the other, and are answered so. The request's route is GW_ROUTE_OPEN: it is handed over
// when its headers are complete. The core answers at once, as any request, or begins: the reply's
// headers go out, the body comes in pieces, the core says when it has more to send, and
// gw_exchange_finish ends the answer with the reply's trailers.
//
// All of it on the worker that owns the stream. Between `begin` and finish the transport calls what
// the core gave it; never after `abandoned` is set, of which `gone` tells.
#ifndef GW_TWO_WAY_H
#define GW_TWO_WAY_H

#include "base/status.h"
#include "svc/exchange.h"

// What a stream waits for its peer with.
struct gw_open_look {
    size_t unread_bytes; // output that the peer may take
    size_t part_bytes;   // came of something that is not whole yet; 0: nothing is awaited
};

// The core's side.
struct gw_open_calls {
    // A piece of the request's body. Its window is given back by `consume` alone.
    void (*input)(struct gw_exchange *self, const uint8_t *bytes, size_t size);
    void (*input_ended)(struct gw_exchange *self);
    // Fills at most `room` bytes, and says how many. 0: none now, until `resume`.
    size_t (*output)(struct gw_exchange *self, uint8_t *out, size_t room);
    // About every second: ends what is over its time, and says what is waited for.
    void (*look)(struct gw_exchange *self, struct gw_open_look *out);
    // The gateway is about to end: nothing new is begun.
    void (*drain)(struct gw_exchange *self);
};

enum gw_open_hold {
    GW_OPEN_INPUT,  // messages that came, beyond a stream's window
    GW_OPEN_ANSWER, // answers that wait for their reader
    GW_OPEN_HOLD_COUNT
};

// The transport's side; set in the exchange where there is such a thing.
struct gw_open_port {
    void (*begin)(struct gw_exchange *exchange, const struct gw_open_calls *calls);
    void (*resume)(struct gw_exchange *exchange); // there is output
    void (*consume)(struct gw_exchange *exchange, size_t size);
    void (*moved)(struct gw_exchange *exchange); // what `look` tells began, or got on
    // So many bytes are held now, in all. LIMIT: this caller has what one may have; BUSY: all have;
    // NOMEM: then what was held before counts on.
    enum base_status (*hold)(struct gw_exchange *exchange, enum gw_open_hold what, uint64_t bytes);
    uint64_t (*message_max)(const struct gw_exchange *exchange); // bytes of one message
};

#endif
