// Every allocation of a tunnel stream's life fails in turn, once and from then on: on the gateway's
// side with nghttp2's own, whose allocator is ours. Nothing crashes, and when the connection is
// gone everything was given back.
#include "http/stream.h"

#include "failing_heap.h"
#include "stream_rig.h"

#include <unistd.h>

#define ALLOCATIONS_MAX 400

// A stream that is opened, talks, floods a little, is half closed; and one that is reset.
static void one_life(struct stream_rig *rig)
{
    static uint8_t piece[2000] = {'x'};
    stream_rig_connect(rig);
    stream_rig_tunnel(rig, 1, 0);
    for (int i = 0; i < 3; i++) {
        stream_rig_frame(rig, NGHTTP2_DATA, 0, 1, piece, sizeof(piece));
    }
    stream_rig_tunnel(rig, 3, 0);
    stream_rig_frame(rig, NGHTTP2_DATA, 0, 3, "ab", 2);
    stream_rig_frame(rig, NGHTTP2_RST_STREAM, 0, 3, "\0\0\0\x08", 4);
    stream_rig_frame(rig, NGHTTP2_DATA, END_STREAM, 1, NULL, 0);
    close(rig->client);
    stream_rig_turn(rig);
    rig->seen_bytes = 0;
}

static void fail_each(struct stream_rig *rig, bool once)
{
    close(rig->client); // the fixture's
    stream_rig_turn(rig);
    one_life(rig); // pools are warm
    size_t allowed = 0;
    for (bool failed = true; failed; allowed++) {
        assert_true(allowed < ALLOCATIONS_MAX);
        rig->may_fail = true;
        failing_heap_arm(allowed, once);
        one_life(rig);
        failed = failing_heap_has_failed();
        (void)failing_heap_disarm();
        rig->may_fail = false;
        assert_null(rig->worker->conns);
        assert_int_equal(stub_tunnel_counts.open, 0);
        assert_int_equal(rig->worker->stats->streams_open, 0);
        assert_int_equal(rig->worker->body_bytes, 0);
    }
    print_message("%zu allocations failed in turn\n", allowed - 1);
    assert_true(allowed > 5);
    stream_rig_connect(rig); // and all is well
    stream_rig_tunnel(rig, 1, 0);
    stream_rig_frame(rig, NGHTTP2_DATA, 0, 1, "abcd", 4);
    assert_int_equal(stream_rig_body(rig, 1), 4);
}

static void test_each_allocation_fails_once(void **state)
{
    fail_each(*state, true);
}

static void test_from_each_allocation_on_all_fail(void **state)
{
    fail_each(*state, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_allocation_fails_once, stream_rig_set_up,
                                        stream_rig_tear_down),
        cmocka_unit_test_setup_teardown(test_from_each_allocation_on_all_fail, stream_rig_set_up,
                                        stream_rig_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
