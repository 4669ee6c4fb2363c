// A worker that its caller runs, on the stub core: a device's client is answered over TLS, the tap
// sees it, and deadlines pass with the caller's clock alone.
#include "http/hand/hand_worker.h"

#include "h2/h2_client.h"
#include "stub_tunnel.h"
#include "svc/core.h"
#include "test_kit.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define TURNS   200 // of both loops: far more than anything here takes
#define STARTED UINT64_C(5000000)
#define WALL    UINT64_C(1700000000000000)

struct rig {
    char dir[64];
    uint64_t now_us;
    struct gw_core *core;
    struct gw_hand *hand;
    struct event_base *base;
    struct h2_tls *tls;
    struct h2_client *client;
    int fd; // the worker's end
    int asked;
    int answered;
    int status;
    size_t body_bytes;
    int ended;
    enum base_status end_status;
};

static uint64_t mono_us(void *ctx)
{
    return ((struct rig *)ctx)->now_us;
}

static uint64_t wall_us(void *ctx)
{
    return WALL + ((struct rig *)ctx)->now_us;
}

static void on_asked(void *ctx, const struct gw_exchange *exchange,
                     const struct gw_http_place *place)
{
    struct rig *rig = ctx;
    rig->asked++;
    assert_int_equal(place->fd, rig->fd);
    assert_int_equal(place->stream, 1);
    assert_true(exchange->request.secure && !exchange->request.loopback);
}

static void on_answered(void *ctx, const struct gw_exchange *exchange,
                        const struct gw_http_place *place)
{
    struct rig *rig = ctx;
    rig->answered++;
    assert_int_equal(place->stream, 1);
    assert_int_equal(exchange->reply.status, 200);
}

static void on_head(void *ctx, void *user, const struct h2_head *head)
{
    (void)user;
    ((struct rig *)ctx)->status = head->status;
}

static void on_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    (void)user, (void)bytes;
    ((struct rig *)ctx)->body_bytes += size;
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    (void)user;
    ((struct rig *)ctx)->ended++;
    ((struct rig *)ctx)->end_status = status;
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    const struct gw_core_options core = {0};
    struct base_error error = {.text = ""};
    assert_non_null(rig);
    (void)snprintf(rig->dir, sizeof(rig->dir), "/tmp/walle-hand-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    rig->now_us = STARTED;
    assert_int_equal(gw_core_new(&core, &rig->core, &error), BASE_OK);
    const struct gw_hand_options options = {
        .core = rig->core,
        .clock = {rig, mono_us, wall_us},
        .dir = rig->dir,
        .tap = {rig, on_asked, on_answered},
    };
    if (gw_hand_new(&options, &rig->hand, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(gw_hand_due_us(rig->hand), UINT64_MAX);
    rig->base = event_base_new();
    assert_non_null(rig->base);
    assert_int_equal(h2_tls_new(NULL, &rig->tls), BASE_OK);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    h2_client_free(rig->client);
    h2_tls_free(rig->tls);
    event_base_free(rig->base);
    gw_hand_free(rig->hand);
    assert_int_equal(stub_tunnel_counts.open, 0);
    gw_core_free(rig->core);
    assert_int_equal(rmdir(rig->dir), 0); // no key and no certificate is left there
    free(rig);
    return 0;
}

// A connection; the other end of it.
static int connect_hand(struct rig *rig)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    rig->fd = ends[1];
    assert_int_equal(gw_hand_take(rig->hand, ends[1], 7), BASE_OK);
    return ends[0];
}

static void ask(struct rig *rig, const char *path)
{
    const struct h2_options options = {.host = BASE_STR("gateway.walle.example"),
                                       .port = 443,
                                       .tls = rig->tls,
                                       .connected = true,
                                       .fd = connect_hand(rig)};
    const struct h2_events events = {.head = on_head, .body = on_body, .end = on_end, .ctx = rig};
    const struct h2_request request = {.method = BASE_STR("GET"), .path = base_str_of(path)};
    int32_t stream = 0;
    assert_int_equal(h2_client_new(rig->base, &options, &events, &rig->client), BASE_OK);
    assert_int_equal(h2_client_request(rig->client, &request, NULL, &stream), BASE_OK);
}

static void turn(struct rig *rig, int times)
{
    for (int i = 0; i < times; i++) {
        assert_true(event_base_loop(rig->base, EVLOOP_NONBLOCK) >= 0);
        gw_hand_run(rig->hand);
    }
}

static void a_request_is_answered_and_seen(void **state)
{
    struct rig *rig = *state;
    ask(rig, "/v1/blob/50000");
    turn(rig, TURNS);
    assert_int_equal(rig->ended, 1);
    assert_int_equal(rig->end_status, BASE_OK);
    assert_int_equal(rig->status, 200);
    assert_int_equal(rig->body_bytes, 50000);
    assert_int_equal(rig->asked, 1);
    assert_int_equal(rig->answered, 1);
    assert_true(gw_hand_due_us(rig->hand) > rig->now_us); // deadlines of the open connection
}

static void a_deadline_passes_with_the_callers_clock_alone(void **state)
{
    struct rig *rig = *state;
    struct gw_http_config config;
    uint8_t byte;
    int fd = connect_hand(rig); // and says nothing
    gw_http_config_defaults(&config);
    turn(rig, TURNS);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    rig->now_us += config.limits.handshake_ms * 1000 / 2;
    turn(rig, TURNS);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    rig->now_us += config.limits.handshake_ms * 1000;
    assert_true(gw_hand_due_us(rig->hand) <= rig->now_us);
    turn(rig, 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    assert_int_equal(gw_hand_due_us(rig->hand), UINT64_MAX);
    assert_int_equal(close(fd), 0);
}

static void hanging_up_ends_what_is_under_way(void **state)
{
    struct rig *rig = *state;
    ask(rig, "/v1/blob/50000000");
    for (int i = 0; i < TURNS && rig->body_bytes == 0; i++) {
        turn(rig, 1);
    }
    assert_int_equal(rig->status, 200);
    gw_hand_hang_up(rig->hand);
    turn(rig, TURNS);
    assert_int_equal(rig->ended, 1);
    assert_int_not_equal(rig->end_status, BASE_OK);
    assert_true(rig->body_bytes < 50000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_answered_and_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_deadline_passes_with_the_callers_clock_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(hanging_up_ends_what_is_under_way, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
