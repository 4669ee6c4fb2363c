// What the HTTP/2 client asks of the kernel for uploads: a BBR begun anew after a pause, and
// acknowledgements at once. The calls, the clock and what is under way are the test's own.
#include "h2/h2_client.h"
#include "h2_test_server.h"

#include "base/clock.h"

#include <errno.h>
#include <event2/event.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cmocka.h>

#define PAUSE_US 1000000
#define ANEW     "bbr reno bbr "

static struct {
    char algorithms[256]; // that sockets were given, in order
    int acknowledged;     // times that this was asked for at once
    int under_way;        // bytes
    bool no_bbr;
    uint64_t later_us;
} kernel;

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int __wrap_ioctl(int fd, unsigned long request, ...);
uint64_t __real_base_clock_mono_us(void);
uint64_t __wrap_base_clock_mono_us(void);

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    if (level != IPPROTO_TCP || (option != TCP_CONGESTION && option != TCP_QUICKACK)) {
        return __real_setsockopt(fd, level, option, value, size);
    }
    if (option == TCP_QUICKACK) {
        kernel.acknowledged++;
        return 0;
    }
    size_t used = strlen(kernel.algorithms);
    (void)snprintf(kernel.algorithms + used, sizeof(kernel.algorithms) - used, "%.*s ", (int)size,
                   (const char *)value);
    if (kernel.no_bbr && memcmp(value, "bbr", 3) == 0) {
        errno = ENOENT;
        return -1;
    }
    return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list more;
    (void)fd;
    assert_int_equal(request, SIOCOUTQ);
    va_start(more, request);
    *va_arg(more, int *) = kernel.under_way;
    va_end(more);
    return 0;
}

uint64_t __wrap_base_clock_mono_us(void)
{
    return __real_base_clock_mono_us() + kernel.later_us;
}

struct fixture {
    struct event_base *base;
    struct h2t_server *server;
    struct h2_client *client;
    int ended;
};

static void handle(void *ctx, const struct h2t_request *request, struct h2t_reply *reply)
{
    (void)ctx;
    (void)request;
    reply->status = 204;
    reply->declared_bytes = UINT64_MAX;
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    struct fixture *fixture = ctx;
    (void)user;
    assert_int_equal(status, BASE_OK);
    fixture->ended++;
}

static void fixture_start(struct fixture *fixture, bool small)
{
    memset(&kernel, 0, sizeof(kernel));
    *fixture = (struct fixture){.base = event_base_new()};
    const struct h2t_options options = {.handle = handle};
    fixture->server = h2t_server_new(fixture->base, &options);
    const struct h2_events events = {.end = on_end, .ctx = fixture};
    const struct h2_options client = {
        .host = BASE_STR("127.0.0.1"), .port = h2t_server_port(fixture->server), .small = small};
    assert_int_equal(h2_client_new(fixture->base, &client, &events, &fixture->client), BASE_OK);
}

static void fixture_stop(struct fixture *fixture)
{
    h2_client_free(fixture->client);
    h2t_server_free(fixture->server);
    event_base_free(fixture->base);
}

// A request and its answer; the kernel's notes are of these alone.
static void exchange(struct fixture *fixture, size_t body_bytes)
{
    static const uint8_t body[30000];
    const struct h2_request request = {
        .method = BASE_STR("POST"), .path = BASE_STR("/"), .body = body, .body_bytes = body_bytes};
    int32_t stream = 0;
    int wanted = fixture->ended + 1;
    kernel.algorithms[0] = '\0';
    kernel.acknowledged = 0;
    assert_int_equal(h2_client_request(fixture->client, &request, NULL, &stream), BASE_OK);
    while (fixture->ended < wanted) {
        assert_int_equal(event_base_loop(fixture->base, EVLOOP_ONCE), 0);
    }
}

static void test_upload_begins_anew(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false);
    exchange(&fixture, sizeof("small"));
    assert_string_equal(kernel.algorithms, ANEW);
    for (int i = 0; i < 3; i++) {
        kernel.later_us += PAUSE_US;
        exchange(&fixture, 30000);
        assert_string_equal(kernel.algorithms, ANEW);
        assert_true(kernel.acknowledged > 0);
    }
    fixture_stop(&fixture);
}

static void test_what_is_no_upload_after_a_pause(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false);
    exchange(&fixture, 0);
    assert_string_equal(kernel.algorithms, "");
    assert_int_equal(kernel.acknowledged, 0);
    kernel.under_way = 1; // of what went before
    exchange(&fixture, 30000);
    assert_string_equal(kernel.algorithms, "");
    fixture_stop(&fixture);
}

static void test_small_connections_are_spared(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, true);
    exchange(&fixture, 30000);
    assert_string_equal(kernel.algorithms, "");
    assert_int_equal(kernel.acknowledged, 0);
    fixture_stop(&fixture);
}

// It would be worse off with Reno than with what it had.
static void test_kernel_without_bbr_keeps_its_own(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_start(&fixture, false);
    kernel.no_bbr = true;
    exchange(&fixture, 30000);
    assert_string_equal(kernel.algorithms, "bbr ");
    fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upload_begins_anew),
        cmocka_unit_test(test_what_is_no_upload_after_a_pause),
        cmocka_unit_test(test_small_connections_are_spared),
        cmocka_unit_test(test_kernel_without_bbr_keeps_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
