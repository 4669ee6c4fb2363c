// The HTTP/2 client against a real server on loopback: answers, bodies, the waiting queue, cancel,
// GOAWAY, resets, TLS with verification and resumption, and freeing from inside a callback.
#include "h2/h2_client.h"
#include "h2_test_server.h"

#include "base/os/block_pool.h"

#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EXCHANGES_MAX 512
#define BIG_BYTES     (3 * 1024 * 1024 + 17)

struct exchange {
    struct fixture *fixture;
    int heads;
    int ends;
    struct h2_head head;
    char offer[64];
    size_t body_bytes;
    uint64_t body_sum;
    enum base_status status;
    int32_t stream;
};

struct fixture {
    struct event_base *base;
    struct h2t_server *server;
    struct h2_tls *tls;
    struct h2_client *client;
    struct exchange exchanges[EXCHANGES_MAX];
    int ended;
    int wanted; // leave the loop when this many have ended
    int opened;
    int gone;
    enum base_status gone_status;
    bool free_in_end;
    struct base_block_pool *blocks;
    bool resumed;
    char device[64]; // as the server had it last
    char profile[128];
    uint8_t *big;
};

static void on_head(void *ctx, void *user, const struct h2_head *head)
{
    (void)ctx;
    struct exchange *exchange = user;
    exchange->heads++;
    exchange->head = *head;
    if (head->offer.size > 0 && head->offer.size < sizeof(exchange->offer)) {
        memcpy(exchange->offer, head->offer.data, head->offer.size);
    }
}

static void on_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    (void)ctx;
    struct exchange *exchange = user;
    exchange->body_bytes += size;
    for (size_t i = 0; i < size; i++) {
        exchange->body_sum = exchange->body_sum * 31 + bytes[i];
    }
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    struct fixture *fixture = ctx;
    struct exchange *exchange = user;
    exchange->ends++;
    exchange->status = status;
    fixture->ended++;
    if (fixture->free_in_end && fixture->client != NULL) {
        struct h2_client *client = fixture->client;
        fixture->client = NULL;
        h2_client_free(client);
    }
    if (fixture->ended == fixture->wanted) {
        event_base_loopbreak(fixture->base);
    }
}

static void on_state(void *ctx, struct h2_client *client, enum base_status status)
{
    (void)client;
    struct fixture *fixture = ctx;
    if (status == BASE_OK) {
        fixture->opened++;
    } else {
        fixture->gone++;
        fixture->gone_status = status;
        event_base_loopbreak(fixture->base);
    }
}

static void handle(void *ctx, const struct h2t_request *request, struct h2t_reply *reply)
{
    struct fixture *fixture = ctx;
    fixture->resumed = request->resumed;
    (void)snprintf(fixture->device, sizeof(fixture->device), "%.*s", (int)request->device.size,
                   request->device.data);
    (void)snprintf(fixture->profile, sizeof(fixture->profile), "%.*s", (int)request->profile.size,
                   request->profile.data);
    if (base_str_equal(request->path, BASE_STR("/echo"))) {
        char *copy = (char *)fixture->big;
        memcpy(copy, request->body, request->body_bytes);
        reply->body = fixture->big;
        reply->body_bytes = request->body_bytes;
        reply->header_names[0] = "walle-offer";
        reply->header_values[0] = "b2ZmZXI";
        reply->header_count = 1;
    } else if (base_str_equal(request->path, BASE_STR("/big"))) {
        size_t from = request->has_range ? (size_t)request->range_from : 0;
        reply->status = request->has_range ? 206 : 200;
        reply->body = fixture->big + from;
        reply->body_bytes = BIG_BYTES - from;
        reply->header_names[0] = "content-range";
        reply->header_values[0] = "bytes 100000-3145744/3145745";
        reply->header_count = request->has_range ? 1 : 0;
    } else if (base_str_equal(request->path, BASE_STR("/busy"))) {
        reply->status = 503;
        reply->header_names[0] = "retry-after";
        reply->header_values[0] = "17";
        reply->header_count = 1;
    } else if (base_str_equal(request->path, BASE_STR("/hold"))) {
        reply->act = H2T_HOLD;
    } else if (base_str_equal(request->path, BASE_STR("/goaway"))) {
        reply->act = H2T_GOAWAY;
    } else if (base_str_equal(request->path, BASE_STR("/reset"))) {
        reply->act = H2T_RESET;
        reply->body = fixture->big;
        reply->body_bytes = 1000;
        reply->declared_bytes = 5000;
    } else if (base_str_equal(request->path, BASE_STR("/close"))) {
        reply->act = H2T_CLOSE;
    } else {
        reply->status = 204;
        reply->declared_bytes = UINT64_MAX;
    }
}

static void client_start(struct fixture *fixture, const char *host)
{
    struct h2_events events = {
        .head = on_head, .body = on_body, .end = on_end, .state = on_state, .ctx = fixture};
    struct h2_options options = {
        .host = base_str_of(host),
        .port = h2t_server_port(fixture->server),
        .tls = fixture->tls,
        .source_address = BASE_STR("127.0.0.1"),
        .blocks = fixture->blocks,
    };
    assert_int_equal(h2_client_new(fixture->base, &options, &events, &fixture->client), BASE_OK);
}

static void fixture_start(struct fixture *fixture, bool tls, uint32_t max_streams)
{
    memset(fixture, 0, sizeof(*fixture));
    fixture->base = event_base_new();
    fixture->big = malloc(BIG_BYTES);
    assert_non_null(fixture->big);
    for (size_t i = 0; i < BIG_BYTES; i++) {
        fixture->big[i] = (uint8_t)(i * 7 + i / 251);
    }
    struct h2t_options options = {
        .tls = tls, .max_streams = max_streams, .ctx = fixture, .handle = handle};
    fixture->server = h2t_server_new(fixture->base, &options);
    if (tls) {
        assert_int_equal(h2_tls_new(h2t_server_ca_path(fixture->server), &fixture->tls), BASE_OK);
    }
    client_start(fixture, "127.0.0.1");
}

static void fixture_stop(struct fixture *fixture)
{
    h2_client_free(fixture->client);
    h2t_server_free(fixture->server);
    h2_tls_free(fixture->tls);
    event_base_free(fixture->base);
    free(fixture->big);
}

static void request_body(struct fixture *fixture, int index, const char *path,
                         const struct h2_header *headers, uint32_t count, const void *body,
                         size_t body_bytes)
{
    struct exchange *exchange = &fixture->exchanges[index];
    exchange->fixture = fixture;
    struct h2_request request = {
        .method = body_bytes > 0 ? BASE_STR("POST") : BASE_STR("GET"),
        .path = base_str_of(path),
        .headers = headers,
        .header_count = count,
        .body = body,
        .body_bytes = body_bytes,
    };
    assert_int_equal(h2_client_request(fixture->client, &request, exchange, &exchange->stream),
                     BASE_OK);
    assert_int_equal(exchange->ends, 0);
}

static void request(struct fixture *fixture, int index, const char *path)
{
    request_body(fixture, index, path, NULL, 0, NULL, 0);
}

static void run(struct fixture *fixture, int wanted)
{
    fixture->wanted = wanted;
    while (fixture->ended < wanted) {
        assert_int_equal(event_base_loop(fixture->base, EVLOOP_ONCE), 0);
    }
}

static void answers(struct fixture *fixture)
{
    static const char text[] = "the body of a request";
    request(fixture, 0, "/empty");
    request_body(fixture, 1, "/echo", NULL, 0, text, sizeof(text));
    request(fixture, 2, "/busy");
    run(fixture, 3);
    assert_int_equal(fixture->exchanges[0].head.status, 204);
    assert_int_equal(fixture->exchanges[0].status, BASE_OK);
    assert_int_equal(fixture->exchanges[1].head.status, 200);
    assert_int_equal(fixture->exchanges[1].body_bytes, sizeof(text));
    assert_int_equal(fixture->exchanges[1].head.content_bytes, sizeof(text));
    assert_string_equal(fixture->exchanges[1].offer, "b2ZmZXI");
    assert_int_equal(fixture->exchanges[2].head.status, 503);
    assert_int_equal(fixture->exchanges[2].head.retry_after_s, 17);
    assert_int_equal(fixture->opened, 1);
}

static void big_bodies(struct fixture *fixture)
{
    struct h2_header range = {BASE_STR("range"), BASE_STR("bytes=100000-")};
    request(fixture, 10, "/big");
    request_body(fixture, 11, "/big", &range, 1, NULL, 0);
    run(fixture, fixture->ended + 2);
    assert_int_equal(fixture->exchanges[10].body_bytes, BIG_BYTES);
    assert_int_equal(fixture->exchanges[11].body_bytes, BIG_BYTES - 100000);
    assert_int_equal(fixture->exchanges[11].head.status, 206);
    assert_int_equal(fixture->exchanges[11].head.range_from, 100000);
    uint64_t sum = 0;
    for (size_t i = 0; i < BIG_BYTES; i++) {
        sum = sum * 31 + fixture->big[i];
    }
    assert_true(sum == fixture->exchanges[10].body_sum);
    uint64_t read = 0;
    uint64_t written = 0;
    h2_client_traffic(fixture->client, &read, &written);
    assert_true(read > 2 * BIG_BYTES - 100000);
    assert_true(written > 0);
}

static void test_clear(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false, 0);
    answers(&fixture);
    big_bodies(&fixture);
    fixture_stop(&fixture);
}

static void test_big_request_body(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false, 0);
    static uint8_t body[H2T_BODY_MAX];
    memset(body, 'x', sizeof(body));
    for (int i = 0; i < 40; i++) { // together far more than one write takes
        request_body(&fixture, i, "/echo", NULL, 0, body, sizeof(body));
    }
    run(&fixture, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(fixture.exchanges[i].status, BASE_OK);
        assert_int_equal(fixture.exchanges[i].body_bytes, sizeof(body));
    }
    fixture_stop(&fixture);
}

static void test_tls_and_resumption(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, true, 0);
    answers(&fixture);
    big_bodies(&fixture);
    assert_false(fixture.resumed);
    h2_client_free(fixture.client);
    client_start(&fixture, "127.0.0.1");
    request(&fixture, 20, "/empty");
    run(&fixture, fixture.ended + 1);
    assert_int_equal(fixture.exchanges[20].status, BASE_OK);
    assert_true(fixture.resumed);
    fixture_stop(&fixture);
}

static void test_tls_wrong_ca(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, true, 0);
    h2_client_free(fixture.client);
    struct h2t_options options = {.tls = true, .ctx = &fixture, .handle = handle};
    struct h2t_server *other = h2t_server_new(fixture.base, &options);
    h2_tls_free(fixture.tls);
    assert_int_equal(h2_tls_new(h2t_server_ca_path(other), &fixture.tls), BASE_OK);
    client_start(&fixture, "127.0.0.1");
    request(&fixture, 0, "/empty");
    run(&fixture, 1);
    assert_int_equal(fixture.exchanges[0].status, BASE_ERR_IO);
    assert_int_equal(fixture.gone, 1);
    assert_int_equal(fixture.opened, 0);
    h2t_server_free(other);
    fixture_stop(&fixture);
    struct h2_tls *none = NULL;
    assert_int_equal(h2_tls_new("/nonexistent.pem", &none), BASE_ERR_INVALID);
}

static void test_tls_wrong_name(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, true, 0);
    h2_client_free(fixture.client);
    struct h2_events events = {
        .head = on_head, .body = on_body, .end = on_end, .state = on_state, .ctx = &fixture};
    struct h2_options options = {
        .host = BASE_STR("127.0.0.2"), .port = h2t_server_port(fixture.server), .tls = fixture.tls};
    fixture.client = NULL;
    // The listener is on 127.0.0.1 only, or the certificate does not match: never a connection.
    enum base_status status = h2_client_new(fixture.base, &options, &events, &fixture.client);
    if (status == BASE_OK) {
        request(&fixture, 0, "/empty");
        run(&fixture, 1);
        assert_int_equal(fixture.exchanges[0].status, BASE_ERR_IO);
    }
    fixture_stop(&fixture);
}

static void test_waiting_behind_stream_limit(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false, 4);
    request(&fixture, 0, "/empty"); // brings the peer's settings
    run(&fixture, 1);
    for (int i = 1; i <= 200; i++) {
        request(&fixture, i, "/echo");
    }
    assert_int_equal(h2_client_waiting(fixture.client), 200);
    run(&fixture, 201);
    for (int i = 1; i <= 200; i++) {
        assert_int_equal(fixture.exchanges[i].status, BASE_OK);
    }
    assert_true(h2t_server_streams_max_seen(fixture.server) <= 4);
    assert_int_equal(h2_client_waiting(fixture.client), 0);
    assert_int_equal(h2_client_open_streams(fixture.client), 0);
    fixture_stop(&fixture);
}

static void test_cancel_open_and_waiting(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false, 2);
    request(&fixture, 0, "/empty");
    run(&fixture, 1);
    for (int i = 1; i <= 4; i++) {
        request(&fixture, i, "/hold"); // two open, two waiting
    }
    request(&fixture, 5, "/empty");
    while (h2_client_open_streams(fixture.client) < 2) {
        event_base_loop(fixture.base, EVLOOP_ONCE);
    }
    for (int i = 1; i <= 4; i++) {
        h2_client_cancel(fixture.client, fixture.exchanges[i].stream);
    }
    run(&fixture, 2);
    assert_int_equal(fixture.exchanges[5].status, BASE_OK);
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(fixture.exchanges[i].ends, 0);
    }
    h2_client_cancel(fixture.client, 99999); // unknown: ignored
    fixture_stop(&fixture);
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(fixture.exchanges[i].ends, 0);
    }
}

static void test_goaway_finishes_and_refuses(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false, 0);
    request(&fixture, 0, "/goaway");
    while (fixture.gone == 0) {
        event_base_loop(fixture.base, EVLOOP_ONCE);
    }
    assert_int_equal(fixture.exchanges[0].status, BASE_OK);
    assert_int_equal(fixture.gone_status, BASE_ERR_CLOSED);
    assert_false(h2_client_usable(fixture.client));
    struct h2_request again = {.method = BASE_STR("GET"), .path = BASE_STR("/")};
    int32_t stream = 0;
    assert_int_equal(h2_client_request(fixture.client, &again, NULL, &stream), BASE_ERR_CLOSED);
    fixture_stop(&fixture);
}

static void test_reset_and_close_are_no_success(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false, 0);
    request(&fixture, 0, "/reset");
    run(&fixture, 1);
    assert_int_equal(fixture.exchanges[0].status, BASE_ERR_IO);
    assert_int_equal(fixture.exchanges[0].body_bytes, 1000);
    request(&fixture, 1, "/hold");
    request(&fixture, 2, "/close");
    run(&fixture, 3);
    assert_true(fixture.exchanges[1].status != BASE_OK);
    assert_true(fixture.exchanges[2].status != BASE_OK);
    assert_int_equal(fixture.exchanges[1].ends, 1);
    assert_int_equal(fixture.exchanges[2].ends, 1);
    assert_int_equal(fixture.gone, 1);
    fixture_stop(&fixture);
}

static void test_free_from_callback(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false, 0);
    fixture.free_in_end = true;
    for (int i = 0; i < 50; i++) {
        request(&fixture, i, i % 2 == 0 ? "/big" : "/empty");
    }
    run(&fixture, 50);
    int ok = 0;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(fixture.exchanges[i].ends, 1);
        ok += fixture.exchanges[i].status == BASE_OK ? 1 : 0;
    }
    assert_int_equal(ok, 1);
    fixture_stop(&fixture);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false, 0);
    h2_client_free(fixture.client);
    fixture.client = NULL;
    uint16_t port = h2t_server_port(fixture.server);
    h2t_server_free(fixture.server);
    fixture.server = NULL;
    struct h2_events events = {
        .head = on_head, .body = on_body, .end = on_end, .state = on_state, .ctx = &fixture};
    struct h2_options options = {.host = BASE_STR("127.0.0.1"), .port = port};
    if (h2_client_new(fixture.base, &options, &events, &fixture.client) == BASE_OK) {
        request(&fixture, 0, "/empty");
        run(&fixture, 1);
        assert_int_equal(fixture.exchanges[0].status, BASE_ERR_IO);
    }
    options.host = (struct base_str){0};
    struct h2_client *none = NULL;
    assert_int_equal(h2_client_new(fixture.base, &options, &events, &none), BASE_ERR_INVALID);
    fixture_stop(&fixture);
}

static void test_many_headers_are_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false, 0);
    struct h2_header headers[17];
    for (int i = 0; i < 17; i++) {
        headers[i] = (struct h2_header){BASE_STR("x"), BASE_STR("y")};
    }
    struct h2_request many = {
        .method = BASE_STR("GET"), .path = BASE_STR("/"), .headers = headers, .header_count = 17};
    int32_t stream = 0;
    assert_int_equal(h2_client_request(fixture.client, &many, NULL, &stream), BASE_ERR_INVALID);
    fixture_stop(&fixture);
}

#define PROFILE_TEXT                                                                               \
    "ZnJvbSBoZXJlIG9uIGl0IGlzIGFsd2F5cyB0aGUgc2FtZSBmb3Igb25lIGRldmljZSBhbmQgYW5vdGhlcg"

// A request with these fields; returns the bytes it took. The server had them as they are.
static uint64_t fields_cost(struct fixture *fixture, int number, const char *device)
{
    const struct h2_header headers[] = {{BASE_STR("walle-device"), base_str_of(device)},
                                        {BASE_STR("walle-profile"), BASE_STR(PROFILE_TEXT)}};
    uint64_t read = 0;
    uint64_t before = 0;
    uint64_t after = 0;
    h2_client_traffic(fixture->client, &read, &before);
    request_body(fixture, number, "/empty", headers, 2, NULL, 0);
    run(fixture, fixture->ended + 1);
    h2_client_traffic(fixture->client, &read, &after);
    assert_string_equal(fixture->device, device);
    assert_string_equal(fixture->profile, PROFILE_TEXT);
    return after - before;
}

static void test_fields_that_stay_are_short(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false, 0);
    request(&fixture, 0, "/empty"); // the preface, and what is said to begin with
    run(&fixture, 1);
    uint64_t whole = 0;
    for (int i = 1; i < 40; i++) { // the table has them from the 32nd request on
        uint64_t cost = fields_cost(&fixture, i, "00000000000004d2");
        whole = i == 2 ? cost : whole;
        assert_true(i < 34 || cost + 90 < whole);
    }
    // Another device: its name beside the table, and so for good; the profile is in it.
    uint64_t other = fields_cost(&fixture, 40, "00000000000004d3");
    uint64_t first_again = fields_cost(&fixture, 41, "00000000000004d2");
    assert_true(other + 70 < whole);
    assert_int_equal(other, first_again);
    fixture_stop(&fixture);
}

// What streams gave back is there for the next ones, of another connection too.
static void test_blocks_of_a_pool(void **state)
{
    (void)state;
    struct base_block_pool blocks = {0};
    struct fixture fixture;
    fixture_start(&fixture, false, 0);
    h2_client_free(fixture.client);
    fixture.blocks = &blocks;
    client_start(&fixture, "127.0.0.1");
    answers(&fixture);
    size_t kept = blocks.kept_bytes;
    assert_true(kept > 0);
    request(&fixture, 20, "/empty");
    assert_true(blocks.kept_bytes < kept);
    run(&fixture, fixture.ended + 1);
    assert_int_equal(fixture.exchanges[20].status, BASE_OK);
    h2_client_free(fixture.client);
    client_start(&fixture, "127.0.0.1");
    big_bodies(&fixture);
    fixture_stop(&fixture);
    assert_true(blocks.kept_bytes > kept);
    base_block_pool_done(&blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_big_request_body),
        cmocka_unit_test(test_tls_and_resumption),
        cmocka_unit_test(test_tls_wrong_ca),
        cmocka_unit_test(test_tls_wrong_name),
        cmocka_unit_test(test_waiting_behind_stream_limit),
        cmocka_unit_test(test_cancel_open_and_waiting),
        cmocka_unit_test(test_goaway_finishes_and_refuses),
        cmocka_unit_test(test_reset_and_close_are_no_success),
        cmocka_unit_test(test_free_from_callback),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_many_headers_are_refused),
        cmocka_unit_test(test_fields_that_stay_are_short),
        cmocka_unit_test(test_blocks_of_a_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
