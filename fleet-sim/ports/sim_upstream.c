// The upstream of a run: libevent's HTTP/1.1 server on a loop of its own. Its thread ends when the
// other end of a pair of sockets is closed. fleet_run.c starts it for --upstream before the shards
// and ends it after them. It binds to 127.0.0.1 and answers all requests alike with 200 and a few
// bytes: what is measured is the gateway's proxy, not a service.
#include "ports/sim_upstream.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE_S 60 // the gateway keeps unused connections for half of that

struct sim_upstream {
    struct event_base *base;
    struct evhttp *http;
    struct event *end; // readable when `ends[1]` is closed
    int ends[2];
    pthread_t thread;
    bool runs;
};

static void on_request(struct evhttp_request *request, void *ctx)
{
    struct evbuffer *body = evbuffer_new();
    (void)ctx;
    if (body != NULL) {
        (void)evbuffer_add(body, "ok\n", 3);
    }
    evhttp_send_reply(request, 200, "OK", body);
    if (body != NULL) {
        evbuffer_free(body);
    }
}

static void on_end(evutil_socket_t fd, short what, void *ctx)
{
    struct sim_upstream *upstream = ctx;
    (void)fd;
    (void)what;
    (void)event_base_loopbreak(upstream->base);
}

static void *serve(void *ctx)
{
    struct sim_upstream *upstream = ctx;
    (void)event_base_dispatch(upstream->base);
    return NULL;
}

static enum base_status start(struct sim_upstream *upstream, uint16_t port,
                              struct base_error *error)
{
    upstream->base = event_base_new();
    upstream->http = upstream->base != NULL ? evhttp_new(upstream->base) : NULL;
    if (upstream->http == NULL || socketpair(AF_UNIX, SOCK_STREAM, 0, upstream->ends) != 0) {
        return base_error_set(error, BASE_ERR_NOMEM, "--upstream: out of memory or descriptors");
    }
    evhttp_set_gencb(upstream->http, on_request, NULL);
    evhttp_set_timeout(upstream->http, IDLE_S);
    if (evhttp_bind_socket(upstream->http, "127.0.0.1", port) != 0) {
        return base_error_set(error, BASE_ERR_IO, "--upstream %u: cannot listen there: %s", port,
                              strerror(errno));
    }
    upstream->end = event_new(upstream->base, upstream->ends[0], EV_READ, on_end, upstream);
    if (upstream->end == NULL || event_add(upstream->end, NULL) != 0 ||
        pthread_create(&upstream->thread, NULL, serve, upstream) != 0) {
        return base_error_set(error, BASE_ERR_NOMEM, "--upstream: cannot start a thread");
    }
    upstream->runs = true;
    return BASE_OK;
}

enum base_status sim_upstream_new(uint16_t port, struct sim_upstream **out_upstream,
                                  struct base_error *error)
{
    struct sim_upstream *upstream = calloc(1, sizeof(*upstream));
    if (upstream == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "--upstream: out of memory");
    }
    upstream->ends[0] = upstream->ends[1] = -1;
    enum base_status status = start(upstream, port, error);
    if (status != BASE_OK) {
        sim_upstream_free(upstream);
        return status;
    }
    *out_upstream = upstream;
    return BASE_OK;
}

void sim_upstream_free(struct sim_upstream *upstream)
{
    if (upstream == NULL) {
        return;
    }
    if (upstream->ends[1] >= 0) {
        (void)close(upstream->ends[1]);
    }
    if (upstream->runs) {
        (void)pthread_join(upstream->thread, NULL);
    }
    if (upstream->end != NULL) {
        event_free(upstream->end);
    }
    if (upstream->ends[0] >= 0) {
        (void)close(upstream->ends[0]);
    }
    if (upstream->http != NULL) {
        evhttp_free(upstream->http);
    }
    if (upstream->base != NULL) {
        event_base_free(upstream->base);
    }
    free(upstream);
}
