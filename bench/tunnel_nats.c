// Load on NATS JetStream (file storage): messages published with acknowledgement, one at a time for
// latency, PEER_WINDOW under way for throughput. A thread a connection.
#include "tunnel_peer.h"
#include "tunnel_sockets.h"

#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STREAM   "walle"
#define SUBJECT  "walle.up"
#define STALL_MS 30000
#define ACK_WAIT 30000
#define RETRIES  200
#define RETRY_US 50000

struct link {
    natsConnection *connection;
    jsCtx *js;
};

static const struct peer_arguments *arguments;

static void must(natsStatus status, const char *what)
{
    if (status != NATS_OK) {
        peer_fail(what, natsStatus_GetText(status));
    }
}

static natsConnection *connect_to_server(void)
{
    natsOptions *options = NULL;
    natsConnection *connection = NULL;
    char url[256];
    (void)snprintf(url, sizeof(url), "nats://%s:%s", arguments->host, arguments->port);
    must(natsOptions_Create(&options), "options");
    must(natsOptions_SetURL(options, url), "url");
    if (strcmp(arguments->ca, "none") != 0) {
        must(natsOptions_SetSecure(options, true), "tls");
        must(natsOptions_SkipServerVerification(options, true), "tls");
    }
    for (int i = 0; i < RETRIES && connection == NULL; i++) {
        if (natsConnection_Connect(&connection, options) != NATS_OK) {
            connection = NULL;
            usleep(RETRY_US);
        }
    }
    natsOptions_Destroy(options);
    if (connection == NULL) {
        peer_fail(url, "no connection");
    }
    return connection;
}

static void on_ack(jsCtx *js, natsMsg *message, jsPubAck *ack, jsPubAckErr *error, void *closure)
{
    (void)js;
    (void)ack;
    (void)closure;
    if (error != NULL) {
        peer_fail("acknowledgement", natsStatus_GetText(error->Err));
    }
    peer_acknowledged();
    natsMsg_Destroy(message);
}

static void *link_open(uint64_t index)
{
    struct link *link = calloc(1, sizeof(*link));
    jsOptions options;
    (void)index;
    must(jsOptions_Init(&options), "options");
    options.Wait = ACK_WAIT;
    options.PublishAsync.MaxPending = PEER_WINDOW;
    options.PublishAsync.StallWait = STALL_MS;
    options.PublishAsync.AckHandler = on_ack;
    if (link == NULL) {
        peer_fail("client", "memory");
    }
    link->connection = connect_to_server();
    must(natsConnection_JetStream(&link->js, link->connection, &options), "jetstream");
    return link;
}

static int socket_of(void *ctx)
{
    const struct link *link = ctx;
    char *address = NULL;
    int port = 0;
    must(natsConnection_GetLocalIPAndPort(link->connection, &address, &port), "address");
    free(address);
    return tunnel_sockets_find((uint16_t)port);
}

static void send_one(void *ctx)
{
    const struct link *link = ctx;
    must(js_Publish(NULL, link->js, SUBJECT, arguments->payload, (int)arguments->bytes, NULL, NULL),
         "publish");
}

static void flood(void *ctx)
{
    const struct link *link = ctx;
    for (;;) {
        must(js_PublishAsync(link->js, SUBJECT, arguments->payload, (int)arguments->bytes, NULL),
             "publish");
    }
}

static void stream_make(void)
{
    jsCtx *js = NULL;
    jsStreamConfig config;
    must(natsConnection_JetStream(&js, connect_to_server(), NULL), "jetstream");
    must(jsStreamConfig_Init(&config), "stream");
    config.Name = STREAM;
    config.Subjects = (const char *[1]){SUBJECT};
    config.SubjectsLen = 1;
    config.Storage = js_FileStorage;
    natsStatus made = js_AddStream(NULL, js, &config, NULL, NULL);
    if (made != NATS_OK && js_GetStreamInfo(NULL, js, STREAM, NULL, NULL) != NATS_OK) {
        must(made, "stream");
    }
}

int main(int argc, char **argv)
{
    static const struct peer_client client = {
        .connect = link_open, .send = send_one, .flood = flood, .socket = socket_of};
    arguments = peer_read(argc, argv);
    stream_make();
    peer_run(&client);
}
