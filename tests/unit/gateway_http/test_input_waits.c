// A peer of HTTP/1.1 that sends ahead of a request under way: what is beyond the room of its door
// stays in the socket, which then wakes nobody up until there is room again.
#include "stream_rig.h"

#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELD  "GET /api/v1/held HTTP/1.1\r\nhost: x\r\n\r\n"
#define AHEAD "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"

// The fixture's connection speaks HTTP/2: another one, with a request that is not answered yet.
static struct gw_conn *held_open(struct stream_rig *rig)
{
    close(rig->client);
    stream_rig_turn(rig);
    assert_null(rig->worker->conns);
    rig->seen_bytes = 0;
    stream_rig_connect_with(rig, HELD, sizeof(HELD) - 1);
    assert_non_null(rig->worker->conns);
    assert_int_equal(rig->seen_bytes, 0);
    return rig->worker->conns;
}

static bool is_read(const struct gw_conn *conn)
{
    return event_pending(&conn->event, EV_READ, NULL) != 0;
}

static uint32_t answers(const struct stream_rig *rig)
{
    static const char head[] = "HTTP/1.1 ";
    uint32_t count = 0;
    for (size_t at = 0; at + sizeof(head) <= rig->seen_bytes; at++) {
        count += memcmp(rig->seen + at, head, sizeof(head) - 1) == 0;
    }
    return count;
}

static void test_more_than_there_is_room_for(void **state)
{
    struct stream_rig *rig = *state;
    struct gw_conn *conn = held_open(rig);
    uint32_t sent = 0;
    assert_true(is_read(conn)); // it may send ahead
    for (int stuck = 0; stuck < 3; stuck++) {
        while (send(rig->client, AHEAD, sizeof(AHEAD) - 1, MSG_NOSIGNAL) ==
               (ssize_t)sizeof(AHEAD) - 1) {
            sent++;
            stuck = 0;
        }
        stream_rig_turn(rig);
    }
    assert_false(is_read(conn));
    assert_int_equal(rig->seen_bytes, 0);
    assert_true(stub_core_let_go(rig->worker->svc));
    gw_http_worker_flush(rig->worker);
    for (int i = 0; i < 100000 && answers(rig) < 100; i++) {
        stream_rig_turn(rig);
    }
    assert_true(answers(rig) >= 100 && sent > 100);
}

static void test_nothing_more_to_come(void **state)
{
    struct stream_rig *rig = *state;
    struct gw_conn *conn = held_open(rig);
    assert_int_equal(shutdown(rig->client, SHUT_WR), 0);
    stream_rig_turn(rig);
    assert_ptr_equal(rig->worker->conns, conn); // its request is still under way
    assert_false(is_read(conn));
    assert_true(stub_core_let_go(rig->worker->svc));
    gw_http_worker_flush(rig->worker);
    stream_rig_turn(rig);
    assert_int_equal(answers(rig), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_more_than_there_is_room_for, stream_rig_set_up,
                                        stream_rig_tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_more_to_come, stream_rig_set_up,
                                        stream_rig_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
