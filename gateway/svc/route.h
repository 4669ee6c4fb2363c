// The one table of paths: what each takes, who asks there, and who answers. The transport asks it
// once, when it knows a request's path, and keeps the row in the exchange; the core goes by it from
// the headers to the answer. What the operator API has below /api/v1/ is a table of its own
// (api/api_routes.h), since its paths have names in the middle. Immutable; any thread.
#ifndef GW_ROUTE_H
#define GW_ROUTE_H

#include "svc/exchange.h"

struct gw_head;
struct gw_worker;

enum gw_route_match {
    GW_ROUTE_IS,     // this path
    GW_ROUTE_BEGINS, // all that begin so
    GW_ROUTE_TENANT, // the same behind a first segment, which names a tenant
    GW_ROUTE_MATCH_COUNT
};

// Methods, a bit of each.
#define GW_ROUTE_GET  (1u << GW_METHOD_GET | 1u << GW_METHOD_HEAD)
#define GW_ROUTE_POST (1u << GW_METHOD_POST)
#define GW_ROUTE_ANY                                                                               \
    ((1u << GW_METHOD_COUNT) - 1) // the handler looks at it, and at what the headers decided

enum gw_route_who {
    GW_FOR_ANYBODY,
    GW_FOR_DEVICES,    // a credential or a certificate, where the settings ask for one
    GW_FOR_ONE_DEVICE, // ... in any case; and the answer is nobody else's, so no cache keeps it
    GW_FOR_ENROLMENT,  // a token for enrolment
    GW_FOR_UPDATERS,   // the secret of hawkBit's device API
    GW_FOR_WATCHERS,   // of figures, as metrics.access says
    GW_FOR_OPERATORS,  // a token; the role is the resource's
    GW_FOR_LOGIN,      // ... or the code of a login
    GW_FOR_CALLERS,    // of models, as infer.access says
    GW_ROUTE_WHO_COUNT
};

// How it is served.
#define GW_ROUTE_HTTP1  1u  // in HTTP/1.1 too
#define GW_ROUTE_DUPLEX 2u  // a POST is answered at its headers, and its body stays open
#define GW_ROUTE_EARLY  4u  // may come before the TLS handshake is complete
#define GW_ROUTE_INFER  8u  // there is such a path where the inference service is
#define GW_ROUTE_OPEN   16u // a POST is handed over at its headers; it may stay open (svc/two_way.h)
#define GW_ROUTE_OIP    (GW_ROUTE_HTTP1 | GW_ROUTE_INFER) // its errors are {"error":TEXT}

struct gw_route {
    struct base_str path;
    enum gw_route_match match;
    unsigned methods;
    unsigned flags;
    enum gw_route_who who;
    enum gw_body_size body; // how large one may be, unless `head` says otherwise
    int noted_as;           // its failures (enum gw_fault_what); 0: they are not noted
    void (*handle)(struct gw_worker *worker, struct gw_exchange *exchange);
    // Looks at the headers when a body is to come: false when it can change nothing. NULL: there is
    // nothing to look at.
    bool (*head)(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out);
};

// Whose path it is; NULL: none of the gateway's, so it is for the upstream.
const struct gw_route *gw_route_find(const struct gw_worker *worker, struct base_str path);
// All of them, for tests.
const struct gw_route *gw_routes(size_t *out_count);

static inline bool gw_route_takes(const struct gw_route *route, enum gw_method method)
{
    return (route->methods >> method & 1u) != 0;
}

// Is the request served so? A method that its path does not take is not.
static inline bool gw_route_has(const struct gw_exchange *exchange, unsigned flags)
{
    const struct gw_route *route = exchange->route;
    return route != NULL && (route->flags & flags) == flags &&
           gw_route_takes(route, exchange->request.method);
}

// The request's path behind that of its route.
static inline struct base_str gw_route_rest(const struct gw_exchange *exchange)
{
    struct base_str path = exchange->request.path;
    size_t used = exchange->route->path.size;
    return (struct base_str){path.data + used, path.size - used};
}

#endif
