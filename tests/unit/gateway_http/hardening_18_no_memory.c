// Every allocation of a connection's life fails in turn, once and from then on: requests that are
// answered here, and requests that go to the upstream. The allocators of nghttp2 and libevent are
// ours here, so theirs fail too. Nothing crashes; a request whose allocation failed once is
// answered, reset, or ends with its connection, and waits for no deadline; when the connection is
// gone everything was given back, and the next one works.
#include "http/proxy.h"
#include "http/stream.h"

#include "failing_heap.h"
#include "stream_rig.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define ALLOCATIONS_MAX 1500
#define ALLOCATIONS_MIN 40
#define UPSTREAM_CONNS  16
#define BODY_BYTES      3000
#define CHUNKS          40 // of a large answer: more than the proxy's buffer
#define LARGE_TURNS     6  // until it is there

typedef void (*life_fn)(struct stream_rig *rig);

// ---- The upstream: answers by the first letter behind "/up/"

struct upstream_conn {
    int fd;
    size_t at; // of the large answer; 0: none under way
};

static struct {
    struct upstream_conn conns[UPSTREAM_CONNS];
    uint32_t count;
} upstream;

static char large[CHUNKS * (2000 + 7) + 128];
static size_t large_bytes;

static void make_large(void)
{
    large_bytes = (size_t)snprintf(large, sizeof(large),
                                   "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    for (int i = 0; i < CHUNKS; i++) {
        memcpy(large + large_bytes, "7d0\r\n", 5);
        memset(large + large_bytes + 5, 'x', 2000);
        memcpy(large + large_bytes + 2005, "\r\n", 2);
        large_bytes += 2007;
    }
    memcpy(large + large_bytes, "0\r\n\r\n", 5);
    large_bytes += 5;
}

static void say(int fd, const char *text)
{
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL); // the gateway may have hung up
}

static void go_on(struct upstream_conn *conn)
{
    ssize_t size =
        send(conn->fd, large + conn->at, large_bytes - conn->at, MSG_NOSIGNAL | MSG_DONTWAIT);
    conn->at += size > 0 ? (size_t)size : 0;
    conn->at = conn->at == large_bytes ? 0 : conn->at;
}

// False: the connection is to be closed.
static bool answer(struct upstream_conn *conn, const char *request)
{
    const char *path = strstr(request, "/up/");
    switch (path != NULL ? path[4] : '\0') {
    case 'e':
        say(conn->fd, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-type: a/b\r\n\r\nhello");
        return true;
    case 'c':
        go_on(conn);
        return true;
    case 'p':
        say(conn->fd, "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf");
        return true;
    default:
        return false;
    }
}

// False: the connection is to be closed.
static bool conn_step(struct upstream_conn *conn)
{
    char request[8192];
    ssize_t size = recv(conn->fd, request, sizeof(request) - 1, MSG_DONTWAIT);
    request[size > 0 ? size : 0] = '\0';
    if (size == 0 || (size < 0 && errno != EAGAIN)) {
        return false;
    }
    if (conn->at > 0) {
        go_on(conn);
    }
    return strstr(request, "\r\n\r\n") == NULL || answer(conn, request);
}

static void upstream_step(struct stream_rig *rig)
{
    int fd;
    while ((fd = accept(rig->upstream, NULL, NULL)) >= 0) {
        assert_true(upstream.count < UPSTREAM_CONNS);
        upstream.conns[upstream.count++] = (struct upstream_conn){.fd = fd};
    }
    for (uint32_t i = 0; i < upstream.count;) {
        if (conn_step(&upstream.conns[i])) {
            i++;
        } else {
            close(upstream.conns[i].fd);
            upstream.conns[i] = upstream.conns[--upstream.count];
        }
    }
}

static void turns(struct stream_rig *rig)
{
    for (int i = 0; i < 8; i++) {
        stream_rig_turn(rig);
        upstream_step(rig);
    }
    stream_rig_turn(rig);
}

// ---- Lives

static bool fails_once; // then every request comes to an end

static bool is_over(const struct stream_rig *rig, uint32_t stream)
{
    return rig->worker->conns == NULL || stream_rig_frames(rig, NGHTTP2_RST_STREAM, stream) > 0 ||
           stream_rig_frames(rig, NGHTTP2_GOAWAY, 0) > 0;
}

static void expect_head(const struct stream_rig *rig, uint32_t stream)
{
    if (fails_once && !is_over(rig, stream) &&
        stream_rig_frames(rig, NGHTTP2_HEADERS, stream) == 0) {
        fail_msg("stream %u has no answer", stream);
    }
}

static void expect_whole(const struct stream_rig *rig, uint32_t stream)
{
    unsigned flags = stream_rig_flags(rig, NGHTTP2_HEADERS, stream) |
                     stream_rig_flags(rig, NGHTTP2_DATA, stream);
    if (fails_once && !is_over(rig, stream) && (flags & END_STREAM) == 0) {
        fail_msg("the answer on stream %u has no end", stream);
    }
}

static void leave(struct stream_rig *rig)
{
    close(rig->client);
    turns(rig);
    rig->seen_bytes = 0;
}

static void life_here(struct stream_rig *rig)
{
    static uint8_t piece[BODY_BYTES] = {'x'};
    stream_rig_connect(rig);
    stream_rig_request(rig, 1, "/v1/checkin", END_STREAM);
    expect_whole(rig, 1);
    stream_rig_request(rig, 3, "/v1/report", 0);
    stream_rig_frame(rig, NGHTTP2_DATA, END_STREAM, 3, piece, sizeof(piece));
    expect_whole(rig, 3);
    stream_rig_request(rig, 5, "/v1/push", END_STREAM);
    expect_head(rig, 5);
    stream_rig_frame(rig, NGHTTP2_PING, 0, 0, "12345678", 8);
    stream_rig_request(rig, 7, "/v1/report", 0);
    stream_rig_frame(rig, NGHTTP2_DATA, 0, 7, piece, sizeof(piece));
    stream_rig_frame(rig, NGHTTP2_RST_STREAM, 0, 7, "\0\0\0\x08", 4);
    leave(rig);
}

static void forward(struct stream_rig *rig, uint32_t stream, const char *path, size_t body)
{
    static uint8_t piece[BODY_BYTES] = {'x'};
    stream_rig_request(rig, stream, path, body == 0 ? END_STREAM : 0);
    if (body > 0) {
        stream_rig_frame(rig, NGHTTP2_DATA, END_STREAM, stream, piece, body);
    }
    turns(rig);
    expect_head(rig, stream);
}

static void life_upstream(struct stream_rig *rig)
{
    stream_rig_connect(rig);
    forward(rig, 1, "/up/echo", 0);
    expect_whole(rig, 1);
    forward(rig, 3, "/up/echo", BODY_BYTES); // over the same connection
    expect_whole(rig, 3);
    forward(rig, 5, "/up/chunks", 0);
    stream_rig_frame(rig, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\1\0\0", 4);
    stream_rig_frame(rig, NGHTTP2_WINDOW_UPDATE, 0, 5, "\0\1\0\0", 4);
    for (int i = 0; i < LARGE_TURNS && rig->worker->conns != NULL; i++) {
        turns(rig);
    }
    expect_whole(rig, 5);
    forward(rig, 7, "/up/part", 0);
    stream_rig_frame(rig, NGHTTP2_RST_STREAM, 0, 7, "\0\0\0\x08", 4);
    forward(rig, 9, "/up/drop", BODY_BYTES);
    expect_whole(rig, 9);
    leave(rig);
}

static void fail_each(struct stream_rig *rig, life_fn life, bool once)
{
    // Each life resets a request, and no second goes by between them.
    rig->config.proxy.shares[GW_SHARE_CONNECTION] =
        (struct gw_share_limits){.client = ALLOCATIONS_MAX, .strangers = ALLOCATIONS_MAX};
    if (rig->worker->proxy != NULL) {
        gw_proxy_configure(rig->worker->proxy, &rig->config.proxy);
    }
    close(rig->client); // the fixture's
    turns(rig);
    fails_once = once;
    life(rig); // pools are warm
    size_t allowed = 0;
    for (bool failed = true; failed; allowed++) {
        assert_true(allowed < ALLOCATIONS_MAX);
        // What nghttp2 wants comes from the heap, and may fail, and not from blocks kept before.
        base_block_pool_done(&rig->worker->h2_memory.blocks);
        rig->may_fail = true;
        failing_heap_arm(allowed, once);
        life(rig);
        failed = failing_heap_has_failed();
        (void)failing_heap_disarm();
        rig->may_fail = false;
        turns(rig);
        assert_null(rig->worker->conns);
        assert_int_equal(rig->worker->unfinished, 0);
        assert_int_equal(rig->worker->body_bytes, 0);
        assert_int_equal(rig->worker->stats->streams_open, 0);
    }
    print_message("%zu allocations failed in turn\n", allowed - 1);
    assert_true(allowed > ALLOCATIONS_MIN);
    stream_rig_connect(rig); // and all is well
    stream_rig_request(rig, 1, "/v1/checkin", END_STREAM);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 1);
    if (rig->upstream > 0) {
        forward(rig, 3, "/up/echo", BODY_BYTES);
        assert_int_equal(stream_rig_body(rig, 3), 5);
    }
}

static void test_here_each_fails_once(void **state)
{
    fail_each(*state, life_here, true);
}

static void test_here_from_each_on_all_fail(void **state)
{
    fail_each(*state, life_here, false);
}

static void test_upstream_each_fails_once(void **state)
{
    fail_each(*state, life_upstream, true);
}

static void test_upstream_from_each_on_all_fail(void **state)
{
    fail_each(*state, life_upstream, false);
}

// This program's malloc and its kin fail on demand, those that libevent was linked with do not.
static void *give(size_t size)
{
    return malloc(size);
}

static void *change(void *memory, size_t size)
{
    return realloc(memory, size);
}

static void take(void *memory)
{
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_here_each_fails_once, stream_rig_set_up,
                                        stream_rig_tear_down),
        cmocka_unit_test_setup_teardown(test_here_from_each_on_all_fail, stream_rig_set_up,
                                        stream_rig_tear_down),
        cmocka_unit_test_setup_teardown(test_upstream_each_fails_once, stream_rig_set_up_upstream,
                                        stream_rig_tear_down),
        cmocka_unit_test_setup_teardown(test_upstream_from_each_on_all_fail,
                                        stream_rig_set_up_upstream, stream_rig_tear_down),
    };
    make_large();
    event_set_mem_functions(give, change, take);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
