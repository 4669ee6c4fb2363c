// The little server of a run's live metrics: HTTP/1.1 on the coordinator's loop, one page and
// nothing else. fleet_run.c makes it for --metrics before the shards start and frees it before the
// loop. Requests are served between the coordinator's looks, on its thread, from what it summed
// under the mailboxes' locks: no shard is touched.
//
// Whoever connects has one request and so much time for all of it, however it comes; so slow
// clients hold a few places and a run's descriptors are its own. A connection ends with its answer.
#include "run/fleet_metrics.h"

#include "base/check.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIME_S           5 // from the connection to its end
#define PAUSE_S          1 // without a descriptor for one more
#define HEADER_BYTES_MAX 8192

struct client {
    struct sim_metrics *metrics; // NULL: the place is free
    struct bufferevent *stream;
    struct event *late;
    bool answered;
    bool head_alone; // HEAD was asked
};

struct sim_metrics {
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *again; // listen after a pause
    struct sim_metrics_source source;
    struct client clients[SIM_METRICS_CLIENTS_MAX];
    uint16_t port;
};

// ---- A client

static void client_done(struct client *client)
{
    if (client->stream != NULL) {
        bufferevent_free(client->stream); // closes
    }
    if (client->late != NULL) {
        event_free(client->late);
    }
    *client = (struct client){.metrics = NULL};
}

static void on_late(evutil_socket_t socket, short what, void *ctx)
{
    (void)socket, (void)what;
    client_done(ctx);
}

static void on_event(struct bufferevent *stream, short what, void *ctx)
{
    (void)stream, (void)what;
    client_done(ctx); // it closed, or the connection broke
}

// All is on its way: the client closes when it has it, or its time is over.
static void on_written(struct bufferevent *stream, void *ctx)
{
    const struct client *client = ctx;
    if (client->answered) {
        (void)shutdown(bufferevent_getfd(stream), SHUT_WR);
    }
}

static void answer(struct client *client, const char *status, const char *type,
                   struct base_str page)
{
    struct evbuffer *out = bufferevent_get_output(client->stream);
    base_assert(!client->answered);
    (void)evbuffer_add_printf(out,
                              "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                              "Connection: close\r\n\r\n",
                              status, type, page.size);
    (void)evbuffer_add(out, page.data, client->head_alone ? 0 : page.size);
    client->answered = true;
}

static void refuse(struct client *client, const char *status)
{
    answer(client, status, "text/plain", base_str_of(status));
}

static void answer_page(struct client *client)
{
    const struct sim_metrics_source *source = &client->metrics->source;
    char *page = NULL;
    size_t size = 0;
    struct sim_metrics_now now = {0};
    FILE *file = open_memstream(&page, &size);
    if (file == NULL) {
        refuse(client, "500 Internal Server Error");
        return;
    }
    source->read(source->ctx, &now);
    enum base_status status = sim_metrics_write(&now, file);
    if (fclose(file) != 0 || status != BASE_OK) {
        refuse(client, "500 Internal Server Error");
    } else {
        answer(client, "200 OK", SIM_METRICS_TYPE, (struct base_str){page, size});
    }
    free(page);
}

// The word that `line` begins with, taken from it with the blank behind it.
static struct base_str take_word(struct base_str *line)
{
    const char *blank = memchr(line->data, ' ', line->size);
    struct base_str word = {line->data, blank != NULL ? (size_t)(blank - line->data) : line->size};
    size_t used = word.size + (blank != NULL ? 1 : 0);
    line->data += used;
    line->size -= used;
    return word;
}

// `line` is the first of a request, which is whole.
static void answer_request(struct client *client, struct base_str line)
{
    struct base_str method = take_word(&line);
    struct base_str target = take_word(&line);
    const char *query = memchr(target.data, '?', target.size);
    target.size = query != NULL ? (size_t)(query - target.data) : target.size;
    client->head_alone = base_str_equal(method, BASE_STR("HEAD"));
    if (!base_str_starts(line, BASE_STR("HTTP/1."))) {
        refuse(client, "400 Bad Request");
    } else if (!client->head_alone && !base_str_equal(method, BASE_STR("GET"))) {
        refuse(client, "405 Method Not Allowed");
    } else if (!base_str_equal(target, BASE_STR("/metrics"))) {
        refuse(client, "404 Not Found");
    } else {
        answer_page(client);
    }
}

static void on_bytes(struct bufferevent *stream, void *ctx)
{
    struct client *client = ctx;
    struct evbuffer *in = bufferevent_get_input(stream);
    size_t size = evbuffer_get_length(in);
    struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
    if (client->answered) {
        (void)evbuffer_drain(in, size);
    } else if (end.pos >= 0 && (size_t)end.pos <= HEADER_BYTES_MAX) {
        const char *bytes = (const char *)evbuffer_pullup(in, end.pos + 4);
        const char *line = bytes != NULL ? memchr(bytes, '\r', (size_t)end.pos + 4) : NULL;
        if (line == NULL) {
            refuse(client, "500 Internal Server Error");
            return;
        }
        answer_request(client, (struct base_str){bytes, (size_t)(line - bytes)});
        (void)evbuffer_drain(in, size);
    } else if (size > HEADER_BYTES_MAX) {
        refuse(client, "431 Request Header Fields Too Large");
        (void)evbuffer_drain(in, size);
    }
}

// ---- The listener

static struct client *free_place(struct sim_metrics *metrics)
{
    for (uint32_t i = 0; i < SIM_METRICS_CLIENTS_MAX; i++) {
        if (metrics->clients[i].metrics == NULL) {
            return &metrics->clients[i];
        }
    }
    return NULL;
}

static void on_client(struct evconnlistener *listener, evutil_socket_t socket,
                      struct sockaddr *address, int size, void *ctx)
{
    (void)listener, (void)address, (void)size;
    static const struct timeval time = {TIME_S, 0};
    struct sim_metrics *metrics = ctx;
    struct client *client = free_place(metrics);
    if (client == NULL) {
        (void)close(socket);
        return;
    }
    client->metrics = metrics;
    client->stream = bufferevent_socket_new(metrics->base, socket, BEV_OPT_CLOSE_ON_FREE);
    if (client->stream == NULL) {
        (void)close(socket);
        client_done(client);
        return;
    }
    client->late = evtimer_new(metrics->base, on_late, client);
    bufferevent_setcb(client->stream, on_bytes, on_written, on_event, client);
    bufferevent_setwatermark(client->stream, EV_READ, 0, HEADER_BYTES_MAX + 4);
    if (client->late == NULL || evtimer_add(client->late, &time) != 0 ||
        bufferevent_enable(client->stream, EV_READ | EV_WRITE) != 0) {
        client_done(client);
    }
}

// There is no descriptor for who waits: they wait, and the loop does not spin over it.
static void on_no_room(struct evconnlistener *listener, void *ctx)
{
    static const struct timeval pause = {PAUSE_S, 0};
    struct sim_metrics *metrics = ctx;
    if (evtimer_add(metrics->again, &pause) == 0) {
        (void)evconnlistener_disable(listener);
    }
}

static void on_again(evutil_socket_t socket, short what, void *ctx)
{
    (void)socket, (void)what;
    struct sim_metrics *metrics = ctx;
    (void)evconnlistener_enable(metrics->listener);
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

// False: it is no address.
static bool address_of(const struct sim_metrics_options *options, struct sockaddr_storage *out,
                       socklen_t *out_size)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, options->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(options->port);
        *out_size = sizeof(*v4);
        return true;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(options->port);
    *out_size = sizeof(*v6);
    return inet_pton(AF_INET6, options->address, &v6->sin6_addr) == 1;
}

static enum base_status listen_at(struct sim_metrics *metrics,
                                  const struct sim_metrics_options *options,
                                  struct base_error *error)
{
    struct sockaddr_storage at;
    socklen_t size = 0;
    metrics->again = evtimer_new(options->base, on_again, metrics);
    if (metrics->again == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "--metrics: out of memory");
    }
    errno = EINVAL;
    if (address_of(options, &at, &size)) {
        metrics->listener = evconnlistener_new_bind(options->base, on_client, metrics,
                                                    LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC |
                                                        LEV_OPT_REUSEABLE,
                                                    -1, (const struct sockaddr *)&at, (int)size);
    }
    if (metrics->listener == NULL) {
        return base_error_set(error, BASE_ERR_IO, "--metrics %s:%u: cannot listen there: %s",
                              options->address, options->port, strerror(errno));
    }
    evconnlistener_set_error_cb(metrics->listener, on_no_room);
    metrics->port = port_of(evconnlistener_get_fd(metrics->listener));
    return BASE_OK;
}

enum base_status sim_metrics_new(const struct sim_metrics_options *options,
                                 struct sim_metrics **out_metrics, struct base_error *error)
{
    struct sim_metrics *metrics = calloc(1, sizeof(*metrics));
    if (metrics == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "--metrics: out of memory");
    }
    metrics->base = options->base;
    metrics->source = options->source;
    enum base_status status = listen_at(metrics, options, error);
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
    for (uint32_t i = 0; i < SIM_METRICS_CLIENTS_MAX; i++) {
        client_done(&metrics->clients[i]);
    }
    if (metrics->listener != NULL) {
        evconnlistener_free(metrics->listener);
    }
    if (metrics->again != NULL) {
        event_free(metrics->again);
    }
    free(metrics);
}

uint16_t sim_metrics_port(const struct sim_metrics *metrics)
{
    return metrics->port;
}
