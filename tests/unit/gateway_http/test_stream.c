// A stream's life on a real worker and a socket pair, without threads: what it holds is given back
// on every way out, and a reply is made exactly once.
#include "http/stream.h"

#include "http/conn.h"
#include "http/worker.h"
#include "stub_core.h"
#include "stub_ingest.h"
#include "test_kit.h"

#include <sys/socket.h>
#include <unistd.h>

#define FRAME_HEAD  9u
#define END_STREAM  1u
#define END_HEADERS 4u

struct rig {
    struct gw_core *core;
    struct gw_ingest *ingest;
    struct gw_peer_table *peers;
    struct gw_http_config config;
    struct gw_http_worker *worker;
    int client;
    uint8_t seen[1 << 20]; // what the server has sent
    size_t seen_bytes;
};

static void on_stopped(void *ctx, struct gw_http_worker *worker)
{
    (void)ctx;
    (void)worker;
}

static void turn(struct rig *rig)
{
    for (int i = 0; i < 4; i++) {
        assert_true(event_base_loop(rig->worker->base, EVLOOP_NONBLOCK) >= 0);
        ssize_t size =
            read(rig->client, rig->seen + rig->seen_bytes, sizeof(rig->seen) - rig->seen_bytes);
        rig->seen_bytes += size > 0 ? (size_t)size : 0;
    }
}

static void add_connection(struct rig *rig)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    static const struct gw_peer_address peer = {{1}};
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    gw_http_worker_now(rig->worker);
    assert_int_equal(gw_peer_table_take(rig->peers, &peer, 8, 8), BASE_OK);
    assert_int_equal(gw_conn_new(rig->worker, ends[0], false, &peer, true), BASE_OK);
    rig->client = ends[1];
    assert_int_equal(write(rig->client, preface, sizeof(preface)), sizeof(preface));
    turn(rig);
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    struct gw_core_options core_options = {0};
    struct base_error error;
    assert_non_null(rig);
    gw_http_config_defaults(&rig->config);
    rig->config.limits.connections = 8;
    rig->config.limits.body_bytes = 5000;
    rig->config.limits.body_bytes_total = 1 << 20;
    assert_int_equal(gw_core_new(&core_options, &rig->core, &error), BASE_OK);
    assert_int_equal(gw_peer_table_new(8, &rig->peers), BASE_OK);
    const struct gw_ingest_options ingest_options = {0};
    assert_int_equal(gw_ingest_new(&ingest_options, &rig->ingest, &error), BASE_OK);
    const struct gw_http_worker_options options = {.core = rig->core,
                                                   .ingest = rig->ingest,
                                                   .peers = rig->peers,
                                                   .config = &rig->config,
                                                   .stopped = on_stopped};
    assert_int_equal(gw_http_worker_new(&options, &rig->worker, &error), BASE_OK);
    add_connection(rig);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    close(rig->client);
    turn(rig);
    assert_null(rig->worker->conns);
    assert_int_equal(rig->worker->unfinished, 0);
    assert_int_equal(rig->worker->body_bytes, 0);
    assert_int_equal(rig->worker->stats->streams_open, 0);
    assert_int_equal(gw_worker_hint_count(rig->worker->core), 0);
    assert_int_equal(stub_ingest_counts.open, 0);
    gw_http_worker_free(rig->worker);
    gw_ingest_free(rig->ingest);
    gw_peer_table_free(rig->peers);
    gw_core_free(rig->core);
    free(rig);
    return 0;
}

static void send_frame(struct rig *rig, uint8_t type, uint8_t flags, uint32_t stream,
                       const void *payload, size_t size)
{
    uint8_t head[FRAME_HEAD] = {0, (uint8_t)(size >> 8), (uint8_t)size, type, flags, 0, 0,
                                0, (uint8_t)stream};
    assert_int_equal(write(rig->client, head, sizeof(head)), sizeof(head));
    if (size > 0) {
        assert_int_equal(write(rig->client, payload, size), size);
    }
    turn(rig);
}

static void send_request(struct rig *rig, uint32_t stream, const char *path, uint8_t flags)
{
    // :method POST, :scheme http, :authority x, then :path as a literal.
    uint8_t block[128] = {0x83, 0x86, 0x41, 1, 'x', 0x44};
    size_t size = strlen(path);
    block[6] = (uint8_t)size;
    memcpy(block + 7, path, size);
    send_frame(rig, NGHTTP2_HEADERS, flags | END_HEADERS, stream, block, size + 7);
}

// How many frames of that type the server has sent on the stream.
static uint32_t frames(const struct rig *rig, uint8_t type, uint32_t stream)
{
    uint32_t count = 0;
    for (size_t at = 0; at + FRAME_HEAD <= rig->seen_bytes;) {
        const uint8_t *head = rig->seen + at;
        count += head[3] == type && head[8] == stream;
        at += FRAME_HEAD + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
    }
    return count;
}

static void test_states_follow_each_other_as_drawn(void **state)
{
    (void)state;
    static const char *const allowed[] = {
        "headers>body",   "headers>handling", "headers>replying", "headers>closed",
        "body>handling",  "body>replying",    "body>closed",      "handling>replying",
        "handling>hints", "handling>closed",  "handling>tunnel",  "replying>closed",
        "hints>closed",   "tunnel>closed",
    };
    for (int from = 0; from < GW_STREAM_STATE_COUNT; from++) {
        for (int to = 0; to < GW_STREAM_STATE_COUNT; to++) {
            char pair[32];
            (void)snprintf(pair, sizeof(pair), "%s>%s",
                           gw_stream_state_name((enum gw_stream_state)from),
                           gw_stream_state_name((enum gw_stream_state)to));
            bool expected = false;
            for (size_t i = 0; i < TEST_COUNT(allowed); i++) {
                expected = expected || strcmp(pair, allowed[i]) == 0;
            }
            if (gw_stream_may_follow((enum gw_stream_state)from, (enum gw_stream_state)to) !=
                expected) {
                fail_msg("%s: expected %d", pair, expected);
            }
        }
    }
}

static void test_one_reply_and_everything_back(void **state)
{
    struct rig *rig = *state;
    send_request(rig, 1, "/v1/checkin", END_STREAM);
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 1), 1);
    assert_int_equal(rig->worker->work_pool_count, 1);
    assert_int_equal(rig->worker->stream_pool_count, 1);
    send_request(rig, 3, "/x", 0);
    send_frame(rig, NGHTTP2_DATA, 0, 3, "abcd", 4);
    assert_int_equal(rig->worker->body_bytes, 4);
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 3), 0);
    send_frame(rig, NGHTTP2_DATA, END_STREAM, 3, "ef", 2);
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 3), 1);
    assert_int_equal(frames(rig, NGHTTP2_DATA, 3), 1);
    assert_int_equal(rig->worker->body_bytes, 0);
    assert_int_equal(rig->worker->work_pool_count, 1);
}

static void test_a_hint_stream_keeps_no_request(void **state)
{
    struct rig *rig = *state;
    send_request(rig, 1, "/v1/push", END_STREAM);
    assert_int_equal(rig->worker->work_pool_count, 1);
    assert_int_equal(rig->worker->stream_pool_count, 0);
    assert_int_equal(gw_worker_hint_count(rig->worker->core), 1);
    assert_int_equal(frames(rig, NGHTTP2_DATA, 1), 1);
    send_request(rig, 3, "/test/hint", END_STREAM);
    assert_int_equal(frames(rig, NGHTTP2_DATA, 1), 2);
    send_frame(rig, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    assert_int_equal(gw_worker_hint_count(rig->worker->core), 0);
}

static void test_a_stream_that_goes_while_the_core_works(void **state)
{
    struct rig *rig = *state;
    send_request(rig, 1, "/test/held", END_STREAM);
    assert_int_equal(rig->worker->unfinished, 1);
    send_frame(rig, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    assert_int_equal(rig->worker->stats->streams_open, 0);
    assert_int_equal(rig->worker->work_pool_count, 0); // the core still has it
    assert_true(stub_core_let_go(rig->worker->core));
    assert_int_equal(rig->worker->work_pool_count, 1);
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 1), 0);
}

static void test_a_connection_that_goes_while_the_core_works(void **state)
{
    struct rig *rig = *state;
    send_request(rig, 1, "/test/held", END_STREAM);
    send_request(rig, 3, "/v1/push", END_STREAM);
    send_request(rig, 5, "/x", 0);
    send_frame(rig, NGHTTP2_DATA, 0, 5, "abcd", 4);
    close(rig->client);
    turn(rig);
    assert_null(rig->worker->conns);
    assert_int_equal(rig->worker->unfinished, 1);
    assert_int_equal(rig->worker->body_bytes, 0);
    assert_true(stub_core_let_go(rig->worker->core));
    rig->seen_bytes = 0;
    add_connection(rig);
    send_request(rig, 1, "/v1/checkin", END_STREAM);
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 1), 1);
}

static void test_a_late_answer_goes_out(void **state)
{
    struct rig *rig = *state;
    send_request(rig, 1, "/test/held", END_STREAM);
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 1), 0);
    assert_true(stub_core_let_go(rig->worker->core));
    gw_http_worker_flush(rig->worker);
    turn(rig);
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 1), 1);
}

static void test_a_body_over_its_limit_is_refused_once(void **state)
{
    struct rig *rig = *state;
    static const uint8_t piece[3000];
    send_request(rig, 1, "/x", 0);
    for (int i = 0; i < 4; i++) {
        send_frame(rig, NGHTTP2_DATA, i == 3 ? END_STREAM : 0, 1, piece, sizeof(piece));
    }
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 1), 1);
    assert_int_equal(frames(rig, NGHTTP2_RST_STREAM, 1), 1);
    assert_int_equal(rig->worker->body_bytes, 0);
    assert_int_equal(rig->worker->stats->rejected_total, 1);
    assert_int_equal(frames(rig, NGHTTP2_GOAWAY, 0), 0);
}

// ---- Tunnel streams

static void open_tunnel(struct rig *rig, uint32_t stream, uint8_t flags)
{
    // POST, http, authority x, :path /v1/tunnel, walle-device, priority u=1.
    static const uint8_t block[] = "\x83\x86\x41\1x\x44\x0a/v1/tunnel"
                                   "\x00\x0cwalle-device\x10"
                                   "00000000000004d2"
                                   "\x00\x08priority\3u=1";
    send_frame(rig, NGHTTP2_HEADERS, flags | END_HEADERS, stream, block, sizeof(block) - 1);
}

// Body bytes the server has sent on the stream.
static size_t body_bytes(const struct rig *rig, uint32_t stream)
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

static uint8_t last_flags(const struct rig *rig, uint8_t type, uint32_t stream)
{
    uint8_t flags = 0;
    for (size_t at = 0; at + FRAME_HEAD <= rig->seen_bytes;) {
        const uint8_t *head = rig->seen + at;
        flags = head[3] == type && head[8] == stream ? head[4] : flags;
        at += FRAME_HEAD + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
    }
    return flags;
}

static void test_a_tunnel_stream_carries_both_ways(void **state)
{
    struct rig *rig = *state;
    open_tunnel(rig, 1, 0);
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 1), 1); // before the body has begun
    assert_int_equal(stub_ingest_counts.open, 1);
    assert_int_equal(stub_ingest_counts.device, 1234);
    assert_int_equal(stub_ingest_counts.tenant, 5);
    assert_int_equal(rig->worker->work_pool_count, 1); // nothing of the request is kept
    uint64_t flushes = stub_ingest_counts.flushes;
    send_frame(rig, NGHTTP2_DATA, 0, 1, "abcd", 4);
    assert_true(stub_ingest_counts.flushes > flushes);
    send_frame(rig, NGHTTP2_DATA, 0, 1, "ef", 2);
    assert_int_equal(body_bytes(rig, 1), 6);
    assert_int_equal(last_flags(rig, NGHTTP2_DATA, 1), 0);
    send_request(rig, 3, "/v1/checkin", END_STREAM); // beside others
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 3), 1);
    send_frame(rig, NGHTTP2_DATA, END_STREAM, 1, NULL, 0);
    assert_int_equal(last_flags(rig, NGHTTP2_DATA, 1), END_STREAM);
    assert_int_equal(stub_ingest_counts.open, 0);
    assert_int_equal(rig->worker->stats->streams_open, 0);
}

static void test_a_tunnel_that_is_refused(void **state)
{
    struct rig *rig = *state;
    send_request(rig, 1, "/v1/tunnel", 0); // no walle-device
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 1), 1);
    send_frame(rig, NGHTTP2_DATA, 0, 1, "abcd", 4);
    assert_int_equal(stub_ingest_counts.open, 0);
    assert_int_equal(rig->worker->stats->streams_open, 0);
    open_tunnel(rig, 3, END_STREAM); // nothing to come: it ends at once
    assert_int_equal(frames(rig, NGHTTP2_HEADERS, 3), 1);
    assert_int_equal(last_flags(rig, NGHTTP2_DATA, 3), END_STREAM);
    assert_int_equal(rig->worker->stats->streams_open, 0);
}

static void test_a_tunnel_ends_by_either_side(void **state)
{
    struct rig *rig = *state;
    open_tunnel(rig, 1, 0);
    send_frame(rig, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    assert_int_equal(stub_ingest_counts.open, 0);
    open_tunnel(rig, 3, 0);
    send_frame(rig, NGHTTP2_DATA, 0, 3, "\xf0", 1); // breaks the protocol
    assert_int_equal(frames(rig, NGHTTP2_RST_STREAM, 3), 1);
    assert_int_equal(stub_ingest_counts.open, 0);
    open_tunnel(rig, 5, 0);
    send_frame(rig, NGHTTP2_DATA, 0, 5, "\xf1", 1); // the session ends it
    assert_int_equal(last_flags(rig, NGHTTP2_DATA, 5), END_STREAM);
    assert_int_equal(stub_ingest_counts.open, 0);
    open_tunnel(rig, 7, 0);
    send_request(rig, 9, "/test/revoke", END_STREAM);
    assert_int_equal(last_flags(rig, NGHTTP2_DATA, 7), END_STREAM);
    assert_int_equal(rig->worker->stats->streams_open, 0);
    assert_int_equal(frames(rig, NGHTTP2_GOAWAY, 0), 0);
}

static void test_a_tunnel_that_does_not_read_is_ended(void **state)
{
    struct rig *rig = *state;
    uint64_t refused = stub_ingest_counts.refused;
    open_tunnel(rig, 1, 0);
    send_frame(rig, NGHTTP2_DATA, 0, 1, "\xf2", 1);
    assert_int_equal(stub_ingest_counts.refused, refused + 1);
    assert_int_equal(frames(rig, NGHTTP2_RST_STREAM, 1), 1);
    assert_int_equal(stub_ingest_counts.open, 0);
}

static void test_a_long_tunnel_gets_its_windows_back(void **state)
{
    struct rig *rig = *state;
    static uint8_t piece[8192] = {STUB_INGEST_SWALLOW};
    open_tunnel(rig, 1, 0);
    uint64_t before = stub_ingest_counts.bytes;
    for (int i = 0; i < 1000; i++) {
        send_frame(rig, NGHTTP2_DATA, 0, 1, piece, sizeof(piece));
    }
    assert_int_equal(stub_ingest_counts.bytes - before, 1000 * sizeof(piece));
    assert_true(frames(rig, NGHTTP2_WINDOW_UPDATE, 1) >= 8192 * 1000 / (384 * 1024));
    assert_true(frames(rig, NGHTTP2_WINDOW_UPDATE, 0) >= 8);
    assert_int_equal(rig->worker->body_bytes, 0);
    send_frame(rig, NGHTTP2_DATA, END_STREAM, 1, NULL, 0);
}

static void test_a_drain_tells_tunnels_and_ends_them(void **state)
{
    struct rig *rig = *state;
    open_tunnel(rig, 1, 0);
    send_request(rig, 3, "/v1/push", END_STREAM);
    assert_int_equal(gw_http_worker_stop(rig->worker, 60000), BASE_OK);
    turn(rig);
    assert_int_equal(body_bytes(rig, 1), 5); // told, and still there
    assert_int_equal(stub_ingest_counts.open, 1);
    assert_int_equal(gw_worker_hint_count(rig->worker->core), 0);
    rig->worker->drain_from_ms -= 5000; // its time is over
    assert_int_equal(event_base_loop(rig->worker->base, EVLOOP_ONCE), 0);
    turn(rig);
    assert_int_equal(last_flags(rig, NGHTTP2_DATA, 1), END_STREAM);
    assert_int_equal(stub_ingest_counts.open, 0);
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_follow_each_other_as_drawn),
        RIG_TEST(test_one_reply_and_everything_back),
        RIG_TEST(test_a_hint_stream_keeps_no_request),
        RIG_TEST(test_a_stream_that_goes_while_the_core_works),
        RIG_TEST(test_a_connection_that_goes_while_the_core_works),
        RIG_TEST(test_a_late_answer_goes_out),
        RIG_TEST(test_a_body_over_its_limit_is_refused_once),
        RIG_TEST(test_a_tunnel_stream_carries_both_ways),
        RIG_TEST(test_a_tunnel_that_is_refused),
        RIG_TEST(test_a_tunnel_ends_by_either_side),
        RIG_TEST(test_a_tunnel_that_does_not_read_is_ended),
        RIG_TEST(test_a_long_tunnel_gets_its_windows_back),
        RIG_TEST(test_a_drain_tells_tunnels_and_ends_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
