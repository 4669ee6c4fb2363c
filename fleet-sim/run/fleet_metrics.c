// The little server of a run's live metrics: libevent's HTTP/1.1 on the coordinator's loop, one
// page and nothing else. fleet_run.c makes it for --metrics before the shards start and frees it
// before the loop. Requests are served between the coordinator's looks, on its thread, from what it
// summed under the mailboxes' locks: no shard is touched.
#include "run/fleet_metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define IDLE_S            5
#define HEADERS_BYTES_MAX 8192
#define BODY_BYTES_MAX    1024 // nobody has a reason to send one

struct sim_metrics {
    struct evhttp *http;
    struct sim_metrics_source source;
    uint16_t port;
};

static void free_page(const void *data, size_t size, void *page)
{
    (void)data, (void)size;
    free(page);
}

// The page, in memory that belongs to the body. False: out of memory.
static bool write_page(const struct sim_metrics *metrics, struct evbuffer *body)
{
    char *page = NULL;
    size_t size = 0;
    struct sim_metrics_now now = {0};
    FILE *file = open_memstream(&page, &size);
    if (file == NULL) {
        return false;
    }
    metrics->source.read(metrics->source.ctx, &now);
    enum base_status status = sim_metrics_write(&now, file);
    bool whole = fclose(file) == 0 && status == BASE_OK;
    if (!whole || evbuffer_add_reference(body, page, size, free_page, page) != 0) {
        free(page);
        return false;
    }
    return true;
}

static void on_metrics(struct evhttp_request *request, void *ctx)
{
    struct evbuffer *body = evbuffer_new();
    if (body == NULL || !write_page(ctx, body)) {
        evhttp_send_error(request, HTTP_INTERNAL, NULL);
    } else {
        (void)evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type",
                                SIM_METRICS_TYPE);
        evhttp_send_reply(request, HTTP_OK, "OK", body);
    }
    if (body != NULL) {
        evbuffer_free(body);
    }
}

static void on_other(struct evhttp_request *request, void *ctx)
{
    (void)ctx;
    evhttp_send_error(request, HTTP_NOTFOUND, NULL);
}

static uint16_t port_of(evutil_socket_t socket)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof(at);
    memset(&at, 0, sizeof(at));
    if (getsockname(socket, (struct sockaddr *)&at, &size) != 0) {
        return 0;
    }
    return at.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)(void *)&at)->sin6_port)
                                    : ntohs(((struct sockaddr_in *)(void *)&at)->sin_port);
}

static enum base_status listen_at(struct sim_metrics *metrics,
                                  const struct sim_metrics_options *options,
                                  struct base_error *error)
{
    evhttp_set_allowed_methods(metrics->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
    evhttp_set_max_headers_size(metrics->http, HEADERS_BYTES_MAX);
    evhttp_set_max_body_size(metrics->http, BODY_BYTES_MAX);
    evhttp_set_timeout(metrics->http, IDLE_S);
    evhttp_set_gencb(metrics->http, on_other, NULL);
    if (evhttp_set_cb(metrics->http, "/metrics", on_metrics, metrics) != 0) {
        return base_error_set(error, BASE_ERR_NOMEM, "--metrics: out of memory");
    }
    struct evhttp_bound_socket *bound =
        evhttp_bind_socket_with_handle(metrics->http, options->address, options->port);
    if (bound == NULL) {
        return base_error_set(error, BASE_ERR_IO, "--metrics %s:%u: cannot listen there: %s",
                              options->address, options->port, strerror(errno));
    }
    metrics->port = port_of(evhttp_bound_socket_get_fd(bound));
    return BASE_OK;
}

enum base_status sim_metrics_new(const struct sim_metrics_options *options,
                                 struct sim_metrics **out_metrics, struct base_error *error)
{
    struct sim_metrics *metrics = calloc(1, sizeof(*metrics));
    if (metrics == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "--metrics: out of memory");
    }
    metrics->source = options->source;
    metrics->http = evhttp_new(options->base);
    enum base_status status =
        metrics->http != NULL ? listen_at(metrics, options, error)
                              : base_error_set(error, BASE_ERR_NOMEM, "--metrics: out of memory");
    if (status != BASE_OK) {
        sim_metrics_free(metrics);
        return status;
    }
    *out_metrics = metrics;
    return BASE_OK;
}

void sim_metrics_free(struct sim_metrics *metrics)
{
    if (metrics == NULL) {
        return;
    }
    if (metrics->http != NULL) {
        evhttp_free(metrics->http);
    }
    free(metrics);
}

uint16_t sim_metrics_port(const struct sim_metrics *metrics)
{
    return metrics->port;
}
