// Load on mosquitto: messages published with QoS 1, one at a time for latency, PEER_WINDOW under
// way for throughput. The broker acknowledges when it has taken a message; its store is written to
// disk now and then. Every connection has a thread of ours and one of the library's.
#include "tunnel_peer.h"

#include <mosquitto.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UPLOAD   "walle/up"
#define RETRIES  200
#define RETRY_US 50000
#define KEEP_S   60

struct link {
    struct mosquitto *client;
    sem_t room; // messages that may be sent
};

static const struct peer_arguments *arguments;

static void must(int status, const char *what)
{
    if (status != MOSQ_ERR_SUCCESS) {
        peer_fail(what, mosquitto_strerror(status));
    }
}

static void on_publish(struct mosquitto *client, void *ctx, int message)
{
    (void)client;
    (void)message;
    struct link *link = ctx;
    peer_acknowledged();
    sem_post(&link->room);
}

static void link_connect(struct link *link)
{
    if (strcmp(arguments->ca, "none") != 0) {
        must(mosquitto_tls_set(link->client, arguments->ca, NULL, NULL, NULL, NULL), "tls");
        must(mosquitto_tls_insecure_set(link->client, true), "tls");
    }
    must(mosquitto_int_option(link->client, MOSQ_OPT_TCP_NODELAY, 1), "nodelay");
    int status = MOSQ_ERR_ERRNO;
    for (int i = 0; i < RETRIES && status != MOSQ_ERR_SUCCESS; i++) {
        status = mosquitto_connect(link->client, arguments->host, (int)peer_number(arguments->port),
                                   KEEP_S);
        if (status != MOSQ_ERR_SUCCESS) {
            usleep(RETRY_US);
        }
    }
    must(status, "connect");
    must(mosquitto_loop_start(link->client), "thread");
}

static void *link_open(uint64_t index)
{
    char name[32];
    struct link *link = calloc(1, sizeof(*link));
    (void)snprintf(name, sizeof(name), "walle-%llu", (unsigned long long)index);
    if (link == NULL || sem_init(&link->room, 0, arguments->flood ? PEER_WINDOW : 0) != 0) {
        peer_fail("client", "memory");
    }
    link->client = mosquitto_new(name, true, link);
    if (link->client == NULL) {
        peer_fail("client", "memory");
    }
    must(mosquitto_max_inflight_messages_set(link->client, PEER_WINDOW), "window");
    mosquitto_publish_callback_set(link->client, on_publish);
    link_connect(link);
    return link;
}

static void publish(struct link *link)
{
    must(mosquitto_publish(link->client, NULL, UPLOAD, (int)arguments->bytes, arguments->payload, 1,
                           false),
         "publish");
}

static void send_one(void *ctx)
{
    struct link *link = ctx;
    publish(link);
    (void)sem_wait(&link->room);
}

static int socket_of(void *ctx)
{
    const struct link *link = ctx;
    return mosquitto_socket(link->client);
}

static void flood(void *ctx)
{
    struct link *link = ctx;
    for (;;) {
        (void)sem_wait(&link->room);
        publish(link);
    }
}

static void on_subscribe(struct mosquitto *client, void *ctx, int message, int count,
                         const int *granted)
{
    (void)client;
    (void)message;
    (void)count;
    (void)granted;
    struct link *link = ctx;
    sem_post(&link->room);
}

// Messages are kept for somebody who is away: without that the broker would only throw them away.
static void keep_messages(void)
{
    static struct link keeper;
    keeper.client = mosquitto_new("walle-keeper", false, &keeper);
    if (keeper.client == NULL || sem_init(&keeper.room, 0, 0) != 0) {
        peer_fail("client", "memory");
    }
    mosquitto_subscribe_callback_set(keeper.client, on_subscribe);
    link_connect(&keeper);
    must(mosquitto_subscribe(keeper.client, NULL, UPLOAD, 1), "subscribe");
    (void)sem_wait(&keeper.room);
    must(mosquitto_disconnect(keeper.client), "disconnect");
    must(mosquitto_loop_stop(keeper.client, false), "thread");
    mosquitto_destroy(keeper.client);
}

int main(int argc, char **argv)
{
    static const struct peer_client client = {
        .connect = link_open, .send = send_one, .flood = flood, .socket = socket_of};
    arguments = peer_read(argc, argv);
    (void)mosquitto_lib_init();
    keep_messages();
    peer_run(&client);
}
