// A stream's life on a real worker and a socket pair, without threads: what it holds is given back
// on every way out, and a reply is made exactly once.
#include "http/stream.h"

#include "http/worker_life.h"
#include "stream_rig.h"

#include <sys/socket.h>
#include <unistd.h>

static void test_states_follow_each_other_as_drawn(void **state)
{
    (void)state;
    static const char *const names[GW_STREAM_STATE_COUNT] = {
        [GW_STREAM_HEADERS] = "headers",   [GW_STREAM_BODY] = "body",
        [GW_STREAM_HANDLING] = "handling", [GW_STREAM_REPLYING] = "replying",
        [GW_STREAM_HINTS] = "hints",       [GW_STREAM_TUNNEL] = "tunnel",
        [GW_STREAM_OPEN] = "open",         [GW_STREAM_CLOSED] = "closed",
    };
    static const char *const allowed[] = {
        "headers>body",   "headers>handling", "headers>replying", "headers>closed",
        "body>handling",  "body>replying",    "body>closed",      "handling>replying",
        "handling>hints", "handling>closed",  "handling>tunnel",  "replying>closed",
        "hints>closed",   "tunnel>closed",    "handling>open",    "open>replying",
        "open>closed",
    };
    for (int from = 0; from < GW_STREAM_STATE_COUNT; from++) {
        for (int to = 0; to < GW_STREAM_STATE_COUNT; to++) {
            char pair[32];
            (void)snprintf(pair, sizeof(pair), "%s>%s", names[from], names[to]);
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
    struct stream_rig *rig = *state;
    stream_rig_request(rig, 1, "/v1/checkin", END_STREAM);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 1);
    assert_int_equal(rig->worker->work_pool_count, 1);
    assert_int_equal(rig->worker->stream_pool_count, 1);
    stream_rig_request(rig, 3, "/x", 0);
    stream_rig_frame(rig, NGHTTP2_DATA, 0, 3, "abcd", 4);
    assert_int_equal(rig->worker->body_bytes, 4);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 3), 0);
    stream_rig_frame(rig, NGHTTP2_DATA, END_STREAM, 3, "ef", 2);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 3), 1);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_DATA, 3), 1);
    assert_int_equal(rig->worker->body_bytes, 0);
    assert_int_equal(rig->worker->work_pool_count, 1);
}

struct answer_head {
    char text[512];     // "name: value;" of each field
    char kept_out[512]; // "name;" of each that says it belongs into no table (RFC 7541, 7.1.3)
    size_t bytes;       // of its block
};

// The head of the answer on a stream, as a client's header table makes it out.
static void read_head(const struct stream_rig *rig, nghttp2_hd_inflater *inflater, uint8_t stream,
                      struct answer_head *out)
{
    *out = (struct answer_head){0};
    for (size_t at = 0; at + FRAME_HEAD <= rig->seen_bytes;) {
        const uint8_t *head = rig->seen + at;
        size_t size = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        const uint8_t *block = head + FRAME_HEAD;
        size_t left = head[3] == NGHTTP2_HEADERS && head[8] == stream ? size : 0;
        out->bytes += left;
        for (int flags = 0; left > 0 || (flags & NGHTTP2_HD_INFLATE_EMIT) != 0;) {
            nghttp2_nv field;
            ssize_t used = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, left, 1);
            assert_true(used >= 0);
            block += used;
            left -= (size_t)used;
            if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
                size_t end = strlen(out->text);
                (void)snprintf(out->text + end, sizeof(out->text) - end, "%.*s: %.*s;",
                               (int)field.namelen, field.name, (int)field.valuelen, field.value);
                end = strlen(out->kept_out);
                bool out_of_all = (field.flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0;
                (void)snprintf(out->kept_out + end, sizeof(out->kept_out) - end, "%.*s",
                               out_of_all ? (int)field.namelen : 0, field.name);
                (void)snprintf(out->kept_out + strlen(out->kept_out),
                               sizeof(out->kept_out) - strlen(out->kept_out), "%s",
                               out_of_all ? ";" : "");
            }
        }
        at += FRAME_HEAD + size;
    }
    (void)nghttp2_hd_inflate_end_headers(inflater);
}

// A connection that carries many answers says what stays in a byte each; one with a few has no
// table for it.
static void test_answers_of_a_busy_connection_are_short(void **state)
{
    struct stream_rig *rig = *state;
    nghttp2_hd_inflater *inflater = NULL;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    size_t first = 0;
    size_t shortest = SIZE_MAX;
    for (uint8_t id = 1; id < 161; id += 2) {
        struct answer_head head;
        stream_rig_request(rig, id, "/x", END_STREAM);
        read_head(rig, inflater, id, &head);
        if (strncmp(head.text, ":status: 200;content-type: text/plain;date: ", 44) != 0 ||
            strstr(head.text, " GMT;content-length: 100;") == NULL) {
            fail_msg("stream %d: %s", id, head.text);
        }
        first = id == 1 ? head.bytes : first;
        shortest = head.bytes < shortest ? head.bytes : shortest;
        size_t table = nghttp2_hd_inflate_get_dynamic_table_size(inflater);
        assert_true(id > 64 || table == 0);
        assert_true(table <= GW_CONN_ANSWER_TABLE_BYTES);
    }
    assert_true(first > 30);
    assert_true(shortest < 10);
    nghttp2_hd_inflate_del(inflater);
}

#define STATIC_ENTRIES 61 // of the table that all know; a connection's own come behind it

static void expect_table(nghttp2_hd_inflater *inflater, const char *names)
{
    char got[256] = "";
    size_t count = nghttp2_hd_inflate_get_num_table_entries(inflater);
    for (size_t i = count; i > STATIC_ENTRIES; i--) { // the oldest is the last
        const nghttp2_nv *entry = nghttp2_hd_inflate_get_table_entry(inflater, i);
        size_t end = strlen(got);
        (void)snprintf(got + end, sizeof(got) - end, "%.*s;", (int)entry->namelen, entry->name);
    }
    assert_string_equal(got, names);
}

// What a busy connection's table gets: what stays the same, and a date that is said again in its
// second. What differs from answer to answer, or may be a secret, is marked as for no table.
static void test_what_a_busy_connections_table_gets(void **state)
{
    struct stream_rig *rig = *state;
    struct answer_head head;
    nghttp2_hd_inflater *inflater = NULL;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    stream_rig_request(rig, 63, "/test/fields", END_STREAM);
    read_head(rig, inflater, 63, &head);
    assert_string_equal(head.kept_out, "content-type;etag;vary;cache-control;x-own;retry-after;"
                                       "date;content-length;");
    expect_table(inflater, "");
    static const char stay[] = "content-type;vary;cache-control;";
    for (uint8_t id = 67; id < 75; id += 2) {
        rig->worker->conns->dated_s = 0; // another second has begun
        stream_rig_request(rig, id, "/test/fields", END_STREAM);
        read_head(rig, inflater, id, &head);
        assert_string_equal(head.kept_out, "etag;x-own;retry-after;date;content-length;");
        expect_table(inflater, stay);
    }
    rig->worker->conns->dated_s = rig->worker->date_s;
    for (uint8_t id = 77; id < 87; id += 2) { // once, unless a second ends just now
        stream_rig_request(rig, id, "/test/fields", END_STREAM);
        read_head(rig, inflater, id, &head);
        if (strstr(head.kept_out, "date;") == NULL) {
            break;
        }
    }
    assert_string_equal(head.kept_out, "etag;x-own;retry-after;content-length;");
    expect_table(inflater, "content-type;vary;cache-control;date;");
    nghttp2_hd_inflate_del(inflater);
}

// Streams that stay open say no length, and what they say counts as in other answers.
static void test_what_long_streams_give_the_table(void **state)
{
    struct stream_rig *rig = *state;
    struct answer_head head;
    nghttp2_hd_inflater *inflater = NULL;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    stream_rig_request(rig, 1, "/v1/push", END_STREAM);
    read_head(rig, inflater, 1, &head);
    assert_string_equal(head.kept_out, "content-type;date;");
    stream_rig_tunnel(rig, 3, 0);
    read_head(rig, inflater, 3, &head);
    assert_string_equal(head.kept_out, "date;");
    expect_table(inflater, "");
    rig->worker->conns->dated_s = 0;
    stream_rig_tunnel(rig, 101, 0);
    read_head(rig, inflater, 101, &head);
    assert_string_equal(head.kept_out, "date;");
    expect_table(inflater, "");
    rig->worker->conns->dated_s = 0;
    stream_rig_request(rig, 103, "/v1/push", END_STREAM);
    read_head(rig, inflater, 103, &head);
    assert_string_equal(head.kept_out, "date;");
    expect_table(inflater, "content-type;");
    nghttp2_hd_inflate_del(inflater);
}

// Answers the one request that the gateway has sent on.
static int answer_as_upstream(struct stream_rig *rig, const char *text)
{
    char request[4096];
    int fd = accept(rig->upstream, NULL, NULL);
    for (int i = 0; i < 1000 && fd < 0; i++) {
        stream_rig_turn(rig);
        fd = accept(rig->upstream, NULL, NULL);
    }
    assert_true(fd >= 0);
    for (int i = 0; i < 4; i++) {
        stream_rig_turn(rig);
    }
    assert_true(recv(fd, request, sizeof(request), MSG_DONTWAIT) > 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    return fd;
}

// What an upstream says gets into no table, however busy the connection is and whatever it is.
static void test_an_upstreams_answer_is_in_no_table(void **state)
{
    struct stream_rig *rig = *state;
    struct answer_head head;
    nghttp2_hd_inflater *inflater = NULL;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    stream_rig_request(rig, 101, "/up/x", END_STREAM);
    int fd = answer_as_upstream(rig, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-type: a/b\r\n"
                                     "vary: accept\r\nset-cookie: s=1\r\nx-own: y\r\n\r\nhello");
    for (int i = 0; i < 1000 && stream_rig_frames(rig, NGHTTP2_HEADERS, 101) == 0; i++) {
        stream_rig_turn(rig);
    }
    read_head(rig, inflater, 101, &head);
    assert_string_equal(head.kept_out, "content-length;content-type;vary;set-cookie;x-own;");
    expect_table(inflater, "");
    close(fd);
    nghttp2_hd_inflate_del(inflater);
}

static void test_a_hint_stream_keeps_no_request(void **state)
{
    struct stream_rig *rig = *state;
    stream_rig_request(rig, 1, "/v1/push", END_STREAM);
    assert_int_equal(rig->worker->work_pool_count, 1);
    assert_int_equal(rig->worker->stream_pool_count, 0);
    assert_int_equal(gw_worker_hint_count(rig->worker->svc), 1);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_DATA, 1), 1);
    stream_rig_request(rig, 3, "/test/hint", END_STREAM);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_DATA, 1), 2);
    stream_rig_frame(rig, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    assert_int_equal(gw_worker_hint_count(rig->worker->svc), 0);
}

static void test_a_stream_that_goes_while_the_core_works(void **state)
{
    struct stream_rig *rig = *state;
    stream_rig_request(rig, 1, "/test/held", END_STREAM);
    assert_int_equal(rig->worker->unfinished, 1);
    stream_rig_frame(rig, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    assert_int_equal(rig->worker->stats->streams_open, 0);
    assert_int_equal(rig->worker->work_pool_count, 0); // the core still has it
    assert_true(stub_core_let_go(rig->worker->svc));
    assert_int_equal(rig->worker->work_pool_count, 1);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 0);
}

static void test_a_connection_that_goes_while_the_core_works(void **state)
{
    struct stream_rig *rig = *state;
    stream_rig_request(rig, 1, "/test/held", END_STREAM);
    stream_rig_request(rig, 3, "/v1/push", END_STREAM);
    stream_rig_request(rig, 5, "/x", 0);
    stream_rig_frame(rig, NGHTTP2_DATA, 0, 5, "abcd", 4);
    close(rig->client);
    stream_rig_turn(rig);
    assert_null(rig->worker->conns);
    assert_int_equal(rig->worker->unfinished, 1);
    assert_int_equal(rig->worker->body_bytes, 0);
    assert_true(stub_core_let_go(rig->worker->svc));
    rig->seen_bytes = 0;
    stream_rig_connect(rig);
    stream_rig_request(rig, 1, "/v1/checkin", END_STREAM);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 1);
}

static void test_a_late_answer_goes_out(void **state)
{
    struct stream_rig *rig = *state;
    stream_rig_request(rig, 1, "/test/held", END_STREAM);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 0);
    assert_true(stub_core_let_go(rig->worker->svc));
    gw_http_worker_flush(rig->worker);
    stream_rig_turn(rig);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 1);
}

static void test_a_body_over_its_limit_is_refused_once(void **state)
{
    struct stream_rig *rig = *state;
    static const uint8_t piece[3000];
    stream_rig_request(rig, 1, "/x", 0);
    for (int i = 0; i < 4; i++) {
        stream_rig_frame(rig, NGHTTP2_DATA, i == 3 ? END_STREAM : 0, 1, piece, sizeof(piece));
    }
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 1);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_RST_STREAM, 1), 0); // it came to its end
    assert_int_equal(rig->worker->stats->streams_open, 0);
    assert_int_equal(rig->worker->body_bytes, 0);
    assert_int_equal(rig->worker->stats->rejected_total, 1);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_GOAWAY, 0), 0);
}

// ---- Tunnel streams

static void test_a_tunnel_stream_carries_both_ways(void **state)
{
    struct stream_rig *rig = *state;
    stream_rig_tunnel(rig, 1, 0);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 1); // before the body has begun
    assert_int_equal(stub_tunnel_counts.open, 1);
    assert_int_equal(stub_tunnel_counts.device, 1234);
    assert_int_equal(stub_tunnel_counts.tenant, 5);
    assert_int_equal(rig->worker->work_pool_count, 1); // nothing of the request is kept
    uint64_t flushes = stub_tunnel_counts.flushes;
    stream_rig_frame(rig, NGHTTP2_DATA, 0, 1, "abcd", 4);
    assert_true(stub_tunnel_counts.flushes > flushes);
    stream_rig_frame(rig, NGHTTP2_DATA, 0, 1, "ef", 2);
    assert_int_equal(stream_rig_body(rig, 1), 6);
    assert_int_equal(stream_rig_flags(rig, NGHTTP2_DATA, 1), 0);
    stream_rig_request(rig, 3, "/v1/checkin", END_STREAM); // beside others
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 3), 1);
    stream_rig_frame(rig, NGHTTP2_DATA, END_STREAM, 1, NULL, 0);
    assert_int_equal(stream_rig_flags(rig, NGHTTP2_DATA, 1), END_STREAM);
    assert_int_equal(stub_tunnel_counts.open, 0);
    assert_int_equal(rig->worker->stats->streams_open, 0);
}

static void test_a_tunnel_that_is_refused(void **state)
{
    struct stream_rig *rig = *state;
    stream_rig_request(rig, 1, "/v1/tunnel", 0); // no walle-device
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 1);
    stream_rig_frame(rig, NGHTTP2_DATA, END_STREAM, 1, "abcd", 4);
    assert_int_equal(stub_tunnel_counts.open, 0);
    assert_int_equal(rig->worker->stats->streams_open, 0);
    stream_rig_tunnel(rig, 3, END_STREAM); // nothing to come: it ends at once
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 3), 1);
    assert_int_equal(stream_rig_flags(rig, NGHTTP2_DATA, 3), END_STREAM);
    assert_int_equal(rig->worker->stats->streams_open, 0);
}

static void test_a_tunnel_ends_by_either_side(void **state)
{
    struct stream_rig *rig = *state;
    stream_rig_tunnel(rig, 1, 0);
    stream_rig_frame(rig, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    assert_int_equal(stub_tunnel_counts.open, 0);
    stream_rig_tunnel(rig, 3, 0);
    stream_rig_frame(rig, NGHTTP2_DATA, 0, 3, "\xf0", 1); // breaks the protocol
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_RST_STREAM, 3), 1);
    assert_int_equal(stub_tunnel_counts.open, 0);
    stream_rig_tunnel(rig, 5, 0);
    stream_rig_frame(rig, NGHTTP2_DATA, 0, 5, "\xf1", 1); // the session ends it
    assert_int_equal(stream_rig_flags(rig, NGHTTP2_DATA, 5), END_STREAM);
    assert_int_equal(stub_tunnel_counts.open, 0);
    stream_rig_tunnel(rig, 7, 0);
    stream_rig_request(rig, 9, "/test/revoke", END_STREAM);
    assert_int_equal(stream_rig_flags(rig, NGHTTP2_DATA, 7), END_STREAM);
    assert_int_equal(rig->worker->stats->streams_open, 0);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_GOAWAY, 0), 0);
}

static void test_a_tunnel_that_does_not_read_is_ended(void **state)
{
    struct stream_rig *rig = *state;
    uint64_t refused = stub_tunnel_counts.refused;
    stream_rig_tunnel(rig, 1, 0);
    stream_rig_frame(rig, NGHTTP2_DATA, 0, 1, "\xf2", 1);
    assert_int_equal(stub_tunnel_counts.refused, refused + 1);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_RST_STREAM, 1), 1);
    assert_int_equal(stub_tunnel_counts.open, 0);
}

static void test_a_long_tunnel_gets_its_windows_back(void **state)
{
    struct stream_rig *rig = *state;
    static uint8_t piece[8192] = {STUB_TUNNEL_SWALLOW};
    stream_rig_tunnel(rig, 1, 0);
    uint64_t before = stub_tunnel_counts.bytes;
    for (int i = 0; i < 1000; i++) {
        stream_rig_frame(rig, NGHTTP2_DATA, 0, 1, piece, sizeof(piece));
    }
    assert_int_equal(stub_tunnel_counts.bytes - before, 1000 * sizeof(piece));
    assert_true(stream_rig_frames(rig, NGHTTP2_WINDOW_UPDATE, 1) >= 8192 * 1000 / (384 * 1024));
    assert_true(stream_rig_frames(rig, NGHTTP2_WINDOW_UPDATE, 0) >= 8);
    assert_int_equal(rig->worker->body_bytes, 0);
    stream_rig_frame(rig, NGHTTP2_DATA, END_STREAM, 1, NULL, 0);
}

static void test_a_drain_tells_tunnels_and_ends_them(void **state)
{
    struct stream_rig *rig = *state;
    stream_rig_tunnel(rig, 1, 0);
    stream_rig_request(rig, 3, "/v1/push", END_STREAM);
    assert_int_equal(gw_http_worker_stop(rig->worker, 60000), BASE_OK);
    stream_rig_turn(rig);
    assert_int_equal(stream_rig_body(rig, 1), 5); // told, and still there
    assert_int_equal(stub_tunnel_counts.open, 1);
    assert_int_equal(gw_worker_hint_count(rig->worker->svc), 0);
    rig->worker->drain_from_ms -= 5000; // its time is over
    assert_int_equal(event_base_loop(rig->worker->base, EVLOOP_ONCE), 0);
    stream_rig_turn(rig);
    assert_int_equal(stream_rig_flags(rig, NGHTTP2_DATA, 1), END_STREAM);
    assert_int_equal(stub_tunnel_counts.open, 0);
}

// Fields behind the body end the stream, not the body.
static void test_trailers_end_the_stream(void **state)
{
    struct stream_rig *rig = *state;
    struct answer_head head;
    nghttp2_hd_inflater *inflater = NULL;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    stream_rig_request(rig, 1, "/test/trailers", END_STREAM);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 2);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_DATA, 1), 1);
    assert_int_equal(stream_rig_body(rig, 1), 4);
    assert_int_equal(stream_rig_flags(rig, NGHTTP2_DATA, 1), 0);
    assert_int_equal(stream_rig_flags(rig, NGHTTP2_HEADERS, 1), END_STREAM | END_HEADERS);
    read_head(rig, inflater, 1, &head);
    assert_non_null(strstr(head.text, "content-length: 4;behind: one;farther: two;"));
    assert_int_equal(rig->worker->work_pool_count, 1);
    stream_rig_request(rig, 3, "/x", END_STREAM); // the next of this work has none
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 3), 1);
    nghttp2_hd_inflate_del(inflater);
}

// Who showed itself when a stream began is no stranger while it is open (overload.h).
static void test_a_stream_that_stays_open_proves_its_connection(void **state)
{
    struct stream_rig *rig = *state;
    assert_false(rig->worker->conns->proven);
    stream_rig_request(rig, 1, "/test/open", 0);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, 1), 1);
    assert_int_equal(rig->worker->unfinished, 1); // it is open
    assert_true(rig->worker->conns->proven);
    stream_rig_frame(rig, NGHTTP2_DATA, END_STREAM, 1, "", 0);
    assert_int_equal(rig->worker->unfinished, 0);
    assert_true(rig->worker->conns->proven);
}

#define RIG_TEST(name)                                                                             \
    cmocka_unit_test_setup_teardown(name, stream_rig_set_up, stream_rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_follow_each_other_as_drawn),
        RIG_TEST(test_one_reply_and_everything_back),
        RIG_TEST(test_answers_of_a_busy_connection_are_short),
        RIG_TEST(test_what_a_busy_connections_table_gets),
        RIG_TEST(test_what_long_streams_give_the_table),
        cmocka_unit_test_setup_teardown(test_an_upstreams_answer_is_in_no_table,
                                        stream_rig_set_up_upstream, stream_rig_tear_down),
        RIG_TEST(test_trailers_end_the_stream),
        RIG_TEST(test_a_hint_stream_keeps_no_request),
        RIG_TEST(test_a_stream_that_stays_open_proves_its_connection),
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
