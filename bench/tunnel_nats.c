// Load on NATS JetStream (file storage): messages published with acknowledgement, one at a time for
// latency, PEER_WINDOW under way for throughput. A thread a connection.
#include "tunnel_peer.h"

#include <nats/nats.h>
#include <stdatomic.h>

#define STREAM   "walle"
#define SUBJECT  "walle.up"
#define STALL_MS 30000
#define ACK_WAIT 30000
#define RETRIES  200
#define RETRY_US 50000

static struct peer_arguments arguments;
static struct tunnel_report report;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint_fast64_t acknowledged;
static atomic_bool stopping;

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
    (void)snprintf(url, sizeof(url), "nats://%s:%s", arguments.host, arguments.port);
    must(natsOptions_Create(&options), "options");
    must(natsOptions_SetURL(options, url), "url");
    if (strcmp(arguments.ca, "none") != 0) {
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
    atomic_fetch_add(&acknowledged, 1);
    natsMsg_Destroy(message);
}

static void *run_latency(void *ctx)
{
    uint64_t index = (uint64_t)(uintptr_t)ctx;
    struct base_prng prng;
    natsConnection *connection = connect_to_server();
    jsCtx *js = NULL;
    jsOptions options;
    base_prng_seed(&prng, index + 1);
    must(jsOptions_Init(&options), "options");
    options.Wait = ACK_WAIT;
    must(natsConnection_JetStream(&js, connection, &options), "jetstream");
    for (uint64_t i = 0; i < PEER_WARM + arguments.count && !atomic_load(&stopping); i++) {
        uint64_t began_us = base_clock_mono_us();
        must(js_Publish(NULL, js, SUBJECT, arguments.payload, (int)arguments.bytes, NULL, NULL),
             "publish");
        uint64_t took_us = base_clock_mono_us() - began_us;
        if (i >= PEER_WARM) {
            pthread_mutex_lock(&lock);
            tunnel_report_add(&report, took_us);
            pthread_mutex_unlock(&lock);
        }
        peer_pause(&arguments, &prng);
    }
    return NULL;
}

static void *run_flood(void *ctx)
{
    (void)ctx;
    natsConnection *connection = connect_to_server();
    jsCtx *js = NULL;
    jsOptions options;
    must(jsOptions_Init(&options), "options");
    options.PublishAsync.MaxPending = PEER_WINDOW;
    options.PublishAsync.StallWait = STALL_MS;
    options.PublishAsync.AckHandler = on_ack;
    must(natsConnection_JetStream(&js, connection, &options), "jetstream");
    while (!atomic_load(&stopping)) {
        must(js_PublishAsync(js, SUBJECT, arguments.payload, (int)arguments.bytes, NULL),
             "publish");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    peer_read(&arguments, argc, argv);
    natsConnection *connection = connect_to_server();
    jsCtx *js = NULL;
    jsStreamConfig config;
    must(natsConnection_JetStream(&js, connection, NULL), "jetstream");
    must(jsStreamConfig_Init(&config), "stream");
    config.Name = STREAM;
    config.Subjects = (const char *[1]){SUBJECT};
    config.SubjectsLen = 1;
    config.Storage = js_FileStorage;
    natsStatus made = js_AddStream(NULL, js, &config, NULL, NULL);
    if (made != NATS_OK && js_GetStreamInfo(NULL, js, STREAM, NULL, NULL) != NATS_OK) {
        must(made, "stream");
    }
    pthread_t threads[64];
    uint64_t count = arguments.connections < 64 ? arguments.connections : 64;
    for (uint64_t i = 0; i < count; i++) {
        (void)pthread_create(&threads[i], NULL, arguments.flood ? run_flood : run_latency,
                             (void *)(uintptr_t)i);
    }
    if (arguments.flood) {
        sleep(1);
    }
    tunnel_report_begin(&report, arguments.pid);
    uint64_t before = atomic_load(&acknowledged);
    if (arguments.flood) {
        sleep((unsigned)arguments.seconds);
        report.done = atomic_load(&acknowledged) - before;
    } else {
        for (uint64_t i = 0; i < count; i++) {
            (void)pthread_join(threads[i], NULL);
        }
    }
    tunnel_report_print(&report, arguments.bytes);
    (void)fflush(stdout);
    _exit(EXIT_SUCCESS); // threads of the flood are under way
}
