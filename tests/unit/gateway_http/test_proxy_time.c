// The time a client may keep an upstream waiting: it runs while the client does not read, and
// stands while the worker does not run.
#include "stream_rig.h"

#include "http/proxy.h"

#include <sys/socket.h>
#include <unistd.h>

#define WRITE_MS 1000u

static const char head[] = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";

// An answer under way whose client takes no more, so that the upstream is not read any more.
// Returns the upstream's end.
static int stuck_exchange(struct stream_rig *rig)
{
    static char piece[16384];
    char request[1024];
    int upstream = -1;
    int stuck = 0;
    rig->config.proxy.total_ms = UINT32_MAX;
    rig->config.proxy.reply_ms = UINT32_MAX;
    rig->config.proxy.client_rate_bytes = UINT32_MAX;
    gw_proxy_configure(rig->worker->proxy, &rig->config.proxy);
    stream_rig_request(rig, 1, "/up/much", END_STREAM);
    for (int i = 0; i < 1000 && upstream < 0; i++) {
        stream_rig_turn(rig);
        upstream = accept(rig->upstream, NULL, NULL);
    }
    assert_true(upstream >= 0);
    while (recv(upstream, request, sizeof(request), MSG_DONTWAIT) <= 0) {
        stream_rig_turn(rig);
    }
    assert_int_equal(send(upstream, head, sizeof(head) - 1, MSG_NOSIGNAL), sizeof(head) - 1);
    for (; stuck < 100; stuck++) {
        while (send(upstream, piece, sizeof(piece), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
            stuck = 0;
        }
        stream_rig_turn(rig);
    }
    assert_int_equal(stream_rig_body(rig, 1), 65535); // the client's window
    return upstream;
}

static void test_time_stands_with_the_worker(void **state)
{
    struct stream_rig *rig = *state;
    int upstream = stuck_exchange(rig);
    struct gw_http_worker *worker = rig->worker;
    const uint64_t *cut = &worker->stats->rejected_total;
    const uint64_t before = *cut;
    worker->limits.write_ms = WRITE_MS;
    gw_proxy_tick(worker->proxy, UINT32_MAX); // whenever it began: it is as if it did now
    worker->now_ms += WRITE_MS;
    gw_proxy_tick(worker->proxy, 0);
    assert_int_equal(*cut, before);
    worker->now_ms += 100 * WRITE_MS;
    gw_proxy_tick(worker->proxy, 100 * WRITE_MS);
    assert_int_equal(*cut, before); // nobody could have done anything meanwhile
    worker->now_ms += 1;
    gw_proxy_tick(worker->proxy, 0);
    assert_int_equal(*cut, before + 1);
    gw_http_worker_flush(worker);
    stream_rig_turn(rig);
    assert_int_equal(stream_rig_frames(rig, NGHTTP2_RST_STREAM, 1), 1);
    close(upstream);
}

// Of a pause that began while the worker stood, what is left counts from its end on.
static void test_a_pause_that_began_meanwhile(void **state)
{
    struct stream_rig *rig = *state;
    int upstream = stuck_exchange(rig);
    struct gw_http_worker *worker = rig->worker;
    const uint64_t *cut = &worker->stats->rejected_total;
    const uint64_t before = *cut;
    worker->limits.write_ms = WRITE_MS;
    gw_proxy_tick(worker->proxy, UINT32_MAX);
    worker->now_ms += WRITE_MS;
    gw_proxy_tick(worker->proxy, 2 * WRITE_MS);
    worker->now_ms += WRITE_MS;
    gw_proxy_tick(worker->proxy, 0);
    assert_int_equal(*cut, before);
    worker->now_ms += 1;
    gw_proxy_tick(worker->proxy, 0);
    assert_int_equal(*cut, before + 1);
    close(upstream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_time_stands_with_the_worker,
                                        stream_rig_set_up_upstream, stream_rig_tear_down),
        cmocka_unit_test_setup_teardown(test_a_pause_that_began_meanwhile,
                                        stream_rig_set_up_upstream, stream_rig_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
