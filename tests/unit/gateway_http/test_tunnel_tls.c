// Tunnel streams over real TLS sockets, between the gateway's transport (a server with its own
// threads, on the stub tunnel) and the device's HTTP/2 client: resumption, early data, what is held
// back until the handshake is complete, and somebody who plays a first flight back.
#include "http/server.h"

#include "h2/h2_client.h"
#include "stub_core.h"
#include "stub_tunnel.h"
#include "test_kit.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES_MAX 65536
#define TURNS_MAX 600000 // of a loop that waits 100 us at least: the end of a hang

struct peer {
    struct event_base *base;
    struct h2_client *client;
    int32_t stream;
    int status;
    uint8_t got[BYTES_MAX];
    size_t got_bytes;
    int ended;
    int opened;
    int gone;
    int writable;
    enum base_status end_status;
};

struct rig {
    struct gw_core *core;
    struct gw_tunnel *tunnel;
    struct gw_server *server;
    struct gw_http_config config;
    char dir[64];
    uint16_t port;
    struct h2_tls *tls;
    struct event_base *base;
};

static void on_head(void *ctx, void *user, const struct h2_head *head)
{
    (void)user;
    struct peer *peer = ctx;
    peer->status = head->status;
}

static void on_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    (void)user;
    struct peer *peer = ctx;
    assert_true(size <= sizeof(peer->got) - peer->got_bytes);
    memcpy(peer->got + peer->got_bytes, bytes, size);
    peer->got_bytes += size;
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    (void)user;
    struct peer *peer = ctx;
    peer->ended++;
    peer->end_status = status;
}

static void on_state(void *ctx, struct h2_client *client, enum base_status status)
{
    (void)client;
    struct peer *peer = ctx;
    peer->opened += status == BASE_OK ? 1 : 0;
    peer->gone += status != BASE_OK ? 1 : 0;
}

static void on_writable(void *ctx, void *user)
{
    (void)user;
    struct peer *peer = ctx;
    peer->writable++;
}

// One turn of the client's loop; the server runs by itself.
static void turn(struct rig *rig)
{
    assert_true(event_base_loop(rig->base, EVLOOP_NONBLOCK) >= 0);
    usleep(100);
}

#define WAIT_FOR(rig, condition)                                                                   \
    do {                                                                                           \
        int turns_ = 0;                                                                            \
        while (!(condition) && turns_++ < TURNS_MAX) {                                             \
            turn(rig);                                                                             \
        }                                                                                          \
        if (!(condition)) {                                                                        \
            fail_msg("waited in vain for %s", #condition);                                         \
        }                                                                                          \
    } while (0)

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

static void start_server(struct rig *rig)
{
    struct base_error error = {0};
    const struct gw_server_options options = {
        .dir = rig->dir, .config = &rig->config, .core = rig->core, .tunnel = rig->tunnel};
    if (gw_server_new(&options, &rig->server, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    const char *colon = strrchr(gw_server_tls_address(rig->server), ':');
    uint64_t port = 0;
    assert_int_equal(base_str_u64(base_str_of(colon + 1), &port), BASE_OK);
    rig->port = (uint16_t)port;
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    struct gw_core_options core_options = {0};
    struct gw_tunnel_options tunnel_options = {0};
    struct base_error error = {0};
    assert_non_null(rig);
    memcpy(rig->dir, "/tmp/walle-tunnel-XXXXXX", 25);
    assert_non_null(mkdtemp(rig->dir));
    gw_http_config_defaults(&rig->config);
    memcpy(rig->config.listen_tls, "127.0.0.1:0", 12);
    memcpy(rig->config.listen_h2c, "none", 5);
    rig->config.workers = 1;
    rig->config.limits.connections = 64;
    assert_int_equal(gw_core_new(&core_options, &rig->core, &error), BASE_OK);
    assert_int_equal(gw_tunnel_new(&tunnel_options, &rig->tunnel, &error), BASE_OK);
    start_server(rig);
    assert_int_equal(h2_tls_new(NULL, &rig->tls), BASE_OK);
    rig->base = event_base_new();
    assert_non_null(rig->base);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    gw_server_free(rig->server);
    assert_int_equal(stub_tunnel_counts.open, 0);
    gw_tunnel_free(rig->tunnel);
    gw_core_free(rig->core);
    h2_tls_free(rig->tls);
    event_base_free(rig->base);
    (void)nftw(rig->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(rig);
    return 0;
}

static void connect_peer(struct rig *rig, struct peer *peer, uint16_t port)
{
    const struct h2_events events = {.head = on_head,
                                     .body = on_body,
                                     .end = on_end,
                                     .state = on_state,
                                     .writable = on_writable,
                                     .ctx = peer};
    const struct h2_options options = {
        .host = BASE_STR("127.0.0.1"), .port = port, .tls = rig->tls};
    memset(peer, 0, sizeof(*peer));
    assert_int_equal(h2_client_new(rig->base, &options, &events, &peer->client), BASE_OK);
}

static void request(struct peer *peer, const char *path, bool tunnel)
{
    const struct h2_header headers[] = {
        {BASE_STR("walle-device"), BASE_STR("00000000000004d2")},
        {BASE_STR("priority"), BASE_STR("u=1")},
    };
    const struct h2_request out = {
        .method = BASE_STR("POST"),
        .path = base_str_of(path),
        .headers = headers,
        .header_count = 2,
        .open_body = tunnel,
        .early = tunnel,
    };
    assert_int_equal(h2_client_request(peer->client, &out, peer, &peer->stream), BASE_OK);
}

// A frame of a type and `size` bytes of payload.
static size_t frame(uint8_t *out, uint8_t type, size_t size)
{
    memset(out, 'x', WIRE_TUNNEL_HEAD + size);
    out[0] = type;
    out[1] = (uint8_t)size;
    out[2] = (uint8_t)(size >> 8);
    out[3] = 0;
    return WIRE_TUNNEL_HEAD + size;
}

static void write_frame(struct peer *peer, uint8_t type, size_t size, bool early)
{
    uint8_t bytes[4096];
    size_t whole = frame(bytes, type, size);
    assert_int_equal(h2_client_write(peer->client, peer->stream, bytes, whole, early), BASE_OK);
}

static void facts(const struct peer *peer, bool *resumed, bool *early)
{
    h2_client_handshake(peer->client, resumed, early);
}

// A first connection, so that there is a ticket.
static void get_ticket(struct rig *rig)
{
    struct peer first;
    connect_peer(rig, &first, rig->port);
    request(&first, "/v1/tunnel", true);
    write_frame(&first, WIRE_TUNNEL_HELLO, 100, true);
    WAIT_FOR(rig, first.got_bytes == 104);
    h2_client_free(first.client);
    WAIT_FOR(rig, stub_tunnel_counts.open == 0);
}

static void test_resumed_and_early(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    bool resumed;
    bool early;
    connect_peer(rig, &peer, rig->port);
    request(&peer, "/v1/tunnel", true);
    write_frame(&peer, WIRE_TUNNEL_HELLO, 100, true);
    WAIT_FOR(rig, peer.got_bytes == 104);
    assert_int_equal(peer.status, 200);
    facts(&peer, &resumed, &early);
    assert_false(resumed);
    assert_false(early);
    h2_client_free(peer.client);
    for (int i = 0; i < 3; i++) {
        connect_peer(rig, &peer, rig->port);
        request(&peer, "/v1/tunnel", true);
        write_frame(&peer, WIRE_TUNNEL_HELLO, 100, true);
        write_frame(&peer, WIRE_TUNNEL_BATCH, 1000, false);
        WAIT_FOR(rig, peer.got_bytes == 104 + 1004);
        facts(&peer, &resumed, &early);
        assert_true(resumed);
        assert_true(early);
        assert_int_equal(peer.got[0], WIRE_TUNNEL_HELLO);
        assert_int_equal(peer.got[104], WIRE_TUNNEL_BATCH);
        h2_client_finish(peer.client, peer.stream);
        WAIT_FOR(rig, peer.ended == 1);
        assert_int_equal(peer.end_status, BASE_OK);
        h2_client_free(peer.client);
    }
}

// Early data that is more than the peer takes, or not all of it safe.
static void test_what_is_not_safe_waits(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    bool resumed;
    bool early;
    get_ticket(rig);
    connect_peer(rig, &peer, rig->port);
    request(&peer, "/v1/checkin", false); // not safe: all of it waits
    int32_t plain = peer.stream;
    request(&peer, "/v1/tunnel", true);
    write_frame(&peer, WIRE_TUNNEL_HELLO, 100, true);
    WAIT_FOR(rig, peer.got_bytes == 104 && peer.ended == 1);
    facts(&peer, &resumed, &early);
    assert_true(resumed);
    assert_false(early);
    assert_true(plain != peer.stream);
    h2_client_free(peer.client);
    connect_peer(rig, &peer, rig->port);
    request(&peer, "/v1/tunnel", true);
    for (int i = 0; i < 8; i++) { // 16 KiB early, of which 8 may come so
        write_frame(&peer, WIRE_TUNNEL_HELLO, 2000, true);
    }
    WAIT_FOR(rig, peer.got_bytes == 8 * 2004);
    facts(&peer, &resumed, &early);
    assert_true(early);
    h2_client_free(peer.client);
}

// A client that does not keep to the rule: what it says early besides HELLO is held back, other
// requests are told to come later.
static void test_the_server_keeps_to_the_rule(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    bool resumed;
    bool early;
    get_ticket(rig);
    connect_peer(rig, &peer, rig->port);
    request(&peer, "/v1/tunnel", true);
    write_frame(&peer, WIRE_TUNNEL_HELLO, 50, true);
    write_frame(&peer, WIRE_TUNNEL_HELLO, 60, true);
    write_frame(&peer, WIRE_TUNNEL_BATCH, 70, true);
    write_frame(&peer, WIRE_TUNNEL_HELLO, 80, true);
    WAIT_FOR(rig, peer.got_bytes == 50 + 60 + 70 + 80 + 16);
    facts(&peer, &resumed, &early);
    assert_true(early);
    assert_int_equal(peer.got[54 + 64], WIRE_TUNNEL_BATCH); // in order
    h2_client_free(peer.client);
    connect_peer(rig, &peer, rig->port);
    const struct h2_request bad = {
        .method = BASE_STR("POST"), .path = BASE_STR("/v1/checkin"), .early = true};
    assert_int_equal(h2_client_request(peer.client, &bad, &peer, &peer.stream), BASE_OK);
    WAIT_FOR(rig, peer.ended == 1);
    facts(&peer, &resumed, &early);
    assert_true(early);
    assert_int_equal(peer.status, 425);
    h2_client_free(peer.client);
}

// ---- Playing back: a proxy in between keeps the first flight

struct proxy {
    int listener;
    int client;
    int server;
    uint16_t port;
    uint8_t flight[16384]; // what the client said first
    size_t flight_bytes;
};

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void proxy_open(struct proxy *proxy)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    *proxy = (struct proxy){.client = -1, .server = -1};
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(proxy->listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(proxy->listener, 4), 0);
    assert_int_equal(getsockname(proxy->listener, (struct sockaddr *)&at, &size), 0);
    proxy->port = ntohs(at.sin_port);
}

static void proxy_turn(struct rig *rig, struct proxy *proxy)
{
    uint8_t bytes[16384];
    turn(rig);
    if (proxy->client < 0) {
        proxy->client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
        proxy->server = proxy->client >= 0 ? connect_to(rig->port) : -1;
        return;
    }
    ssize_t size = recv(proxy->client, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (size > 0) {
        if (proxy->flight_bytes == 0) { // ClientHello and early data come in one piece
            memcpy(proxy->flight, bytes, (size_t)size);
            proxy->flight_bytes = (size_t)size;
        }
        assert_int_equal(send(proxy->server, bytes, (size_t)size, MSG_NOSIGNAL), size);
    }
    size = recv(proxy->server, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (size > 0) {
        assert_int_equal(send(proxy->client, bytes, (size_t)size, MSG_NOSIGNAL), size);
    }
}

static void test_a_first_flight_played_back_does_nothing(void **state)
{
    struct rig *rig = *state;
    struct proxy proxy;
    struct peer peer;
    bool resumed;
    bool early;
    proxy_open(&proxy);
    for (int round = 0; round < 2; round++) { // the first brings the ticket
        proxy.client = -1;
        proxy.flight_bytes = 0;
        connect_peer(rig, &peer, proxy.port);
        request(&peer, "/v1/tunnel", true);
        write_frame(&peer, WIRE_TUNNEL_HELLO, 100, true);
        for (int i = 0; i < TURNS_MAX && peer.got_bytes < 104; i++) {
            proxy_turn(rig, &proxy);
        }
        assert_int_equal(peer.got_bytes, 104);
        for (int i = 0; i < 50; i++) {
            proxy_turn(rig, &proxy); // the ticket
        }
        facts(&peer, &resumed, &early);
        h2_client_free(peer.client);
        close(proxy.client);
        close(proxy.server);
    }
    assert_true(early);
    WAIT_FOR(rig, stub_tunnel_counts.open == 0);
    uint64_t bytes_before = stub_tunnel_counts.bytes;
    for (int i = 0; i < 5; i++) {
        int fd = connect_to(rig->port);
        assert_int_equal(send(fd, proxy.flight, proxy.flight_bytes, MSG_NOSIGNAL),
                         proxy.flight_bytes);
        uint8_t answer[16384]; // its handshake, so the server has seen all of the flight's first
        assert_true(recv(fd, answer, sizeof(answer), 0) > 0);
        for (int j = 0; j < 100; j++) {
            turn(rig);
        }
        close(fd);
    }
    assert_int_equal(stub_tunnel_counts.bytes, bytes_before);
    get_ticket(rig); // and the server is well
    close(proxy.listener);
}

// A connection that is cut off is the one that comes back: its ticket must be good.
static void test_resumed_after_a_cut(void **state)
{
    struct rig *rig = *state;
    struct proxy proxy;
    struct peer peer;
    proxy_open(&proxy);
    for (int round = 0; round < 3; round++) {
        bool resumed;
        bool early;
        proxy.client = -1;
        connect_peer(rig, &peer, proxy.port);
        request(&peer, "/v1/tunnel", true);
        write_frame(&peer, WIRE_TUNNEL_HELLO, 100, true);
        for (int i = 0; i < TURNS_MAX && peer.got_bytes < 104; i++) {
            proxy_turn(rig, &proxy);
        }
        assert_int_equal(peer.got_bytes, 104);
        for (int i = 0; i < 50; i++) {
            proxy_turn(rig, &proxy); // the ticket
        }
        facts(&peer, &resumed, &early);
        assert_int_equal(resumed, round > 0);
        assert_int_equal(early, round > 0);
        const struct linger at_once = {.l_onoff = 1};
        assert_int_equal(setsockopt(proxy.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)),
                         0);
        close(proxy.client); // a reset
        close(proxy.server);
        WAIT_FOR(rig, peer.gone == 1);
        h2_client_free(peer.client);
    }
    close(proxy.listener);
    WAIT_FOR(rig, stub_tunnel_counts.open == 0);
}

static void test_switched_off(void **state)
{
    struct rig *rig = *state;
    struct base_error error;
    struct peer peer;
    bool resumed;
    bool early;
    get_ticket(rig); // it says that early data is welcome
    rig->config.tls_early_data_bytes = 0;
    assert_int_equal(gw_server_reload(rig->server, &rig->config, &error), BASE_OK);
    for (int i = 0; i < 200; i++) {
        turn(rig); // the worker gets the message
    }
    for (int i = 0; i < 2; i++) {
        connect_peer(rig, &peer, rig->port);
        request(&peer, "/v1/tunnel", true);
        write_frame(&peer, WIRE_TUNNEL_HELLO, 100, true);
        write_frame(&peer, WIRE_TUNNEL_BATCH, 500, false);
        WAIT_FOR(rig, peer.got_bytes == 104 + 504); // it was refused, and sent again
        facts(&peer, &resumed, &early);
        assert_true(resumed);
        assert_false(early);
        h2_client_free(peer.client);
    }
}

// A process that follows another on the same folder: its tickets are good, early data is not yet.
static void test_after_a_restart(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    bool resumed;
    bool early;
    get_ticket(rig);
    gw_server_free(rig->server);
    (void)snprintf(rig->config.listen_tls, sizeof(rig->config.listen_tls), "127.0.0.1:%u",
                   rig->port); // the same, so that the client knows it again
    start_server(rig);
    connect_peer(rig, &peer, rig->port);
    request(&peer, "/v1/tunnel", true);
    write_frame(&peer, WIRE_TUNNEL_HELLO, 100, true);
    WAIT_FOR(rig, peer.got_bytes == 104);
    facts(&peer, &resumed, &early);
    assert_true(resumed);
    assert_false(early);
    h2_client_free(peer.client);
}

// ---- Streams

static void test_much_at_once(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    static uint8_t piece[8192] = {STUB_TUNNEL_SWALLOW};
    size_t sent = 0;
    uint64_t before = stub_tunnel_counts.bytes;
    connect_peer(rig, &peer, rig->port);
    request(&peer, "/v1/tunnel", true);
    while (sent < 500 * sizeof(piece)) {
        memset(piece, STUB_TUNNEL_SWALLOW, sizeof(piece)); // pieces are cut anywhere
        enum base_status status =
            h2_client_write(peer.client, peer.stream, piece, sizeof(piece), false);
        if (status == BASE_OK) {
            sent += sizeof(piece);
            continue;
        }
        assert_int_equal(status, BASE_ERR_BUSY);
        int told = peer.writable;
        WAIT_FOR(rig, peer.writable > told);
    }
    WAIT_FOR(rig, stub_tunnel_counts.bytes - before == sent);
    assert_true(peer.writable > 10);
    h2_client_cancel(peer.client, peer.stream);
    WAIT_FOR(rig, stub_tunnel_counts.open == 0);
    assert_int_equal(h2_client_write(peer.client, peer.stream, piece, 1, false), BASE_ERR_CLOSED);
    h2_client_free(peer.client);
}

// ---- One connection for everything

struct shared {
    struct peer peer; // the connection's; its figures are those of the tunnel stream
    int32_t push;
    int32_t pull;
    uint64_t pulled;
    size_t hinted;
};

static void shared_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    struct shared *shared = ctx;
    if (user == &shared->pull) {
        shared->pulled += size;
    } else if (user == &shared->push) {
        shared->hinted += size;
    } else {
        on_body(&shared->peer, user, bytes, size);
    }
}

static void shared_end(void *ctx, void *user, enum base_status status)
{
    struct shared *shared = ctx;
    assert_true(user != &shared->pull || status == BASE_ERR_CLOSED); // by the client's end
}

static void shared_get(struct shared *shared, const char *path, int32_t *stream)
{
    const struct h2_request out = {.method = BASE_STR("GET"), .path = base_str_of(path)};
    assert_int_equal(h2_client_request(shared->peer.client, &out, stream, stream), BASE_OK);
}

// A download that does not end holds up neither what the tunnel says nor what it hears.
static void test_beside_a_hint_stream_and_a_pull(void **state)
{
    struct rig *rig = *state;
    struct shared shared = {0};
    const struct h2_events events = {.body = shared_body, .end = shared_end, .ctx = &shared};
    const struct h2_options options = {
        .host = BASE_STR("127.0.0.1"), .port = rig->port, .tls = rig->tls};
    assert_int_equal(h2_client_new(rig->base, &options, &events, &shared.peer.client), BASE_OK);
    shared_get(&shared, "/v1/push", &shared.push);
    request(&shared.peer, "/v1/tunnel", true);
    WAIT_FOR(rig, shared.hinted > 0 && stub_tunnel_counts.open == 1);
    shared_get(&shared, "/v1/blob/9000000000000000", &shared.pull);
    WAIT_FOR(rig, shared.pulled > 0);
    for (int round = 0; round < 50; round++) {
        uint64_t before = shared.pulled;
        shared.peer.got_bytes = 0;
        write_frame(&shared.peer, WIRE_TUNNEL_BATCH, 3000, false);
        WAIT_FOR(rig, shared.peer.got_bytes == 3004);
        WAIT_FOR(rig, shared.pulled > before); // nor do they hold it up
    }
    h2_client_free(shared.peer.client);
    WAIT_FOR(rig, stub_tunnel_counts.open == 0);
}

struct ranked {
    int places[2];
    int ended;
};

static void ranked_end(void *ctx, void *user, enum base_status status)
{
    struct ranked *ranked = ctx;
    assert_int_equal(status, BASE_OK);
    *(int *)user = ++ranked->ended;
}

static void race(struct rig *rig, int heavy)
{
    static uint8_t piece[120000];
    struct ranked ranked = {0};
    const struct h2_events events = {.end = ranked_end, .ctx = &ranked};
    const struct h2_options options = {
        .host = BASE_STR("127.0.0.1"), .port = rig->port, .tls = rig->tls};
    const struct h2_header header = {BASE_STR("walle-device"), BASE_STR("00000000000004d2")};
    struct h2_request out = {.method = BASE_STR("POST"),
                             .path = BASE_STR("/v1/tunnel"),
                             .headers = &header,
                             .header_count = 1,
                             .open_body = true};
    struct h2_client *client;
    int32_t streams[2];
    memset(piece, STUB_TUNNEL_SWALLOW, sizeof(piece));
    assert_int_equal(h2_client_new(rig->base, &options, &events, &client), BASE_OK);
    for (int i = 0; i < 2; i++) {
        out.weight = i == heavy ? 256 : 4;
        assert_int_equal(h2_client_request(client, &out, &ranked.places[i], &streams[i]), BASE_OK);
    }
    WAIT_FOR(rig, stub_tunnel_counts.open == 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(h2_client_write(client, streams[i], piece, sizeof(piece), false), BASE_OK);
        h2_client_finish(client, streams[i]);
    }
    WAIT_FOR(rig, ranked.ended == 2);
    assert_int_equal(ranked.places[heavy], 1);
    h2_client_free(client);
}

// Two bodies that wait at the same moment: the heavier is through first, whichever it is.
static void test_the_urgent_overtakes(void **state)
{
    race(*state, 0);
    race(*state, 1);
}

// A client whose connection goes without a word, in the middle of frames, and one that does not
// read: neither keeps anything.
static void test_clients_that_go(void **state)
{
    struct rig *rig = *state;
    struct peer peers[8];
    for (size_t i = 0; i < TEST_COUNT(peers); i++) {
        connect_peer(rig, &peers[i], rig->port);
        request(&peers[i], "/v1/tunnel", true);
        write_frame(&peers[i], WIRE_TUNNEL_BATCH, 2000, false);
    }
    WAIT_FOR(rig, stub_tunnel_counts.open == TEST_COUNT(peers));
    for (size_t i = 0; i < TEST_COUNT(peers); i++) {
        if (i % 2 == 0) {
            h2_client_cancel(peers[i].client, peers[i].stream);
            turn(rig);
        }
        h2_client_free(peers[i].client);
    }
    WAIT_FOR(rig, stub_tunnel_counts.open == 0);
}

static void test_ends(void **state)
{
    struct rig *rig = *state;
    struct peer peer;
    uint8_t too_large[1] = {0};
    connect_peer(rig, &peer, rig->port);
    request(&peer, "/v1/tunnel", true);
    assert_int_equal(
        h2_client_write(peer.client, peer.stream, too_large, H2_CLIENT_BODY_MAX + 1, false),
        BASE_ERR_TOO_LARGE);
    write_frame(&peer, STUB_TUNNEL_END, 10, false); // the server ends it
    WAIT_FOR(rig, peer.ended == 1);
    assert_int_equal(peer.end_status, BASE_OK);
    request(&peer, "/v1/tunnel", true);
    write_frame(&peer, STUB_TUNNEL_BAD, 10, false); // the server resets it
    WAIT_FOR(rig, peer.ended == 2);
    assert_int_equal(peer.end_status, BASE_ERR_IO);
    peer.status = 0;
    request(&peer, "/v1/tunnel", true);
    WAIT_FOR(rig, peer.status == 200);
    gw_server_stop(rig->server, 60000); // told, then ended; then the connection goes
    WAIT_FOR(rig, peer.gone == 1);
    assert_int_equal(peer.ended, 3);
    assert_int_equal(peer.end_status, BASE_OK);
    assert_int_equal(peer.got_bytes, 5);
    h2_client_free(peer.client);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_resumed_and_early),
        RIG_TEST(test_what_is_not_safe_waits),
        RIG_TEST(test_the_server_keeps_to_the_rule),
        RIG_TEST(test_a_first_flight_played_back_does_nothing),
        RIG_TEST(test_resumed_after_a_cut),
        RIG_TEST(test_switched_off),
        RIG_TEST(test_after_a_restart),
        RIG_TEST(test_much_at_once),
        RIG_TEST(test_beside_a_hint_stream_and_a_pull),
        RIG_TEST(test_the_urgent_overtakes),
        RIG_TEST(test_clients_that_go),
        RIG_TEST(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
