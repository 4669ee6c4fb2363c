// The rig of stream_rig.h: frames in and out by hand, as a client of HTTP/2 would send them.
#include "stream_rig.h"

#include "http/worker_life.h"

#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_stopped(void *ctx, struct gw_http_worker *worker)
{
    (void)ctx;
    (void)worker;
}

void stream_rig_turn(struct stream_rig *rig)
{
    for (int i = 0; i < 4; i++) {
        assert_true(event_base_loop(rig->worker->base, EVLOOP_NONBLOCK) >= 0);
        ssize_t size =
            read(rig->client, rig->seen + rig->seen_bytes, sizeof(rig->seen) - rig->seen_bytes);
        rig->seen_bytes += size > 0 ? (size_t)size : 0;
    }
}

static void say(struct stream_rig *rig, const void *bytes, size_t size)
{
    ssize_t sent = send(rig->client, bytes, size, MSG_NOSIGNAL);
    assert_true(sent == (ssize_t)size || rig->may_fail);
}

void stream_rig_connect_with(struct stream_rig *rig, const void *bytes, size_t size)
{
    static const struct gw_conn_origin origin = {.peer = {{1}}, .loopback = true};
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    gw_http_worker_now(rig->worker);
    assert_int_equal(gw_peer_table_take(rig->peers, &origin.peer, 8, 8), BASE_OK);
    enum base_status status = gw_conn_new(rig->worker, ends[0], false, &origin);
    assert_true(status == BASE_OK || rig->may_fail);
    rig->client = ends[1];
    say(rig, bytes, size);
    stream_rig_turn(rig);
}

void stream_rig_connect(struct stream_rig *rig)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    stream_rig_connect_with(rig, preface, sizeof(preface));
}

// Listens on a free port of this machine, and names it to the gateway.
static void listen_for(struct stream_rig *rig)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(here);
    rig->upstream = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(rig->upstream >= 0);
    assert_int_equal(bind(rig->upstream, (struct sockaddr *)&here, size), 0);
    assert_int_equal(listen(rig->upstream, 16), 0);
    assert_int_equal(getsockname(rig->upstream, (struct sockaddr *)&here, &size), 0);
    (void)snprintf(rig->config.upstream, sizeof(rig->config.upstream), "http://127.0.0.1:%u",
                   ntohs(here.sin_port));
}

static int set_up(void **state, bool upstream)
{
    struct stream_rig *rig = calloc(1, sizeof(*rig));
    struct gw_core_options core_options = {0};
    struct base_error error;
    assert_non_null(rig);
    gw_http_config_defaults(&rig->config);
    if (upstream) {
        listen_for(rig);
    }
    rig->config.limits.connections = 8;
    rig->config.limits.body_bytes = 5000;
    rig->config.limits.body_bytes_total = 1 << 20;
    assert_int_equal(gw_core_new(&core_options, &rig->core, &error), BASE_OK);
    assert_int_equal(gw_peer_table_new(8, &rig->peers), BASE_OK);
    assert_int_equal(gw_peer_rates_new(4, &rig->rates), BASE_OK);
    const struct gw_tunnel_options tunnel_options = {0};
    assert_int_equal(gw_tunnel_new(&tunnel_options, &rig->tunnel, &error), BASE_OK);
    const struct gw_http_worker_options options = {.core = rig->core,
                                                   .tunnel = rig->tunnel,
                                                   .peers = rig->peers,
                                                   .rates = rig->rates,
                                                   .config = &rig->config,
                                                   .stopped = on_stopped};
    assert_int_equal(gw_http_worker_new(&options, &rig->worker, &error), BASE_OK);
    stream_rig_connect(rig);
    *state = rig;
    return 0;
}

int stream_rig_set_up(void **state)
{
    return set_up(state, false);
}

int stream_rig_set_up_upstream(void **state)
{
    return set_up(state, true);
}

int stream_rig_tear_down(void **state)
{
    struct stream_rig *rig = *state;
    close(rig->client);
    stream_rig_turn(rig);
    assert_null(rig->worker->conns);
    assert_int_equal(rig->worker->unfinished, 0);
    assert_int_equal(rig->worker->body_bytes, 0);
    assert_int_equal(rig->worker->stats->streams_open, 0);
    assert_int_equal(gw_worker_hint_count(rig->worker->svc), 0);
    assert_int_equal(stub_tunnel_counts.open, 0);
    gw_http_worker_free(rig->worker);
    gw_tunnel_free(rig->tunnel);
    gw_peer_table_free(rig->peers);
    gw_peer_rates_free(rig->rates);
    gw_core_free(rig->core);
    if (rig->upstream > 0) {
        close(rig->upstream);
    }
    free(rig);
    return 0;
}

void stream_rig_frame(struct stream_rig *rig, uint8_t type, uint8_t flags, uint32_t stream,
                      const void *payload, size_t size)
{
    uint8_t head[FRAME_HEAD] = {0, (uint8_t)(size >> 8), (uint8_t)size, type, flags, 0, 0,
                                0, (uint8_t)stream};
    say(rig, head, sizeof(head));
    if (size > 0) {
        say(rig, payload, size);
    }
    stream_rig_turn(rig);
}

void stream_rig_request(struct stream_rig *rig, uint32_t stream, const char *path, uint8_t flags)
{
    // :method POST, :scheme http, :authority x, then :path as a literal.
    uint8_t block[128] = {0x83, 0x86, 0x41, 1, 'x', 0x44};
    size_t size = strlen(path);
    block[6] = (uint8_t)size;
    memcpy(block + 7, path, size);
    stream_rig_frame(rig, NGHTTP2_HEADERS, flags | END_HEADERS, stream, block, size + 7);
}

// How many frames of that type the server has sent on the stream.
uint32_t stream_rig_frames(const struct stream_rig *rig, uint8_t type, uint32_t stream)
{
    uint32_t count = 0;
    for (size_t at = 0; at + FRAME_HEAD <= rig->seen_bytes;) {
        const uint8_t *head = rig->seen + at;
        count += head[3] == type && head[8] == stream;
        at += FRAME_HEAD + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
    }
    return count;
}

void stream_rig_tunnel(struct stream_rig *rig, uint32_t stream, uint8_t flags)
{
    // POST, http, authority x, :path /v1/tunnel, walle-device, priority u=1.
    static const uint8_t block[] = "\x83\x86\x41\1x\x44\x0a/v1/tunnel"
                                   "\x00\x0cwalle-device\x10"
                                   "00000000000004d2"
                                   "\x00\x08priority\3u=1";
    stream_rig_frame(rig, NGHTTP2_HEADERS, flags | END_HEADERS, stream, block, sizeof(block) - 1);
}

// Body bytes the server has sent on the stream.
size_t stream_rig_body(const struct stream_rig *rig, uint32_t stream)
{
    size_t sum = 0;
    for (size_t at = 0; at + FRAME_HEAD <= rig->seen_bytes;) {
        const uint8_t *head = rig->seen + at;
        size_t size = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        sum += head[3] == NGHTTP2_DATA && head[8] == stream ? size : 0;
        at += FRAME_HEAD + size;
    }
    return sum;
}

uint8_t stream_rig_flags(const struct stream_rig *rig, uint8_t type, uint32_t stream)
{
    uint8_t flags = 0;
    for (size_t at = 0; at + FRAME_HEAD <= rig->seen_bytes;) {
        const uint8_t *head = rig->seen + at;
        flags = head[3] == type && head[8] == stream ? head[4] : flags;
        at += FRAME_HEAD + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
    }
    return flags;
}
