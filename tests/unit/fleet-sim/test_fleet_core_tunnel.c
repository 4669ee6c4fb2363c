// Streams to the gateway's side of the tunnel in virtual time (virtual/core_tunnel.h): when heads,
// bytes and ends come, a stream that is full, one that goes away, a gateway that is killed, and
// memory that runs out at any moment.
#include "test_kit.h"

#include "failing_heap.h"
#include "virtual/core_gateway.h"
#include "virtual/core_tunnel.h"
#include "virtual/virtual_clock.h"

#define LEAST_US 20000u
#define BEGIN_US UINT64_C(1700000000000000)

// What the device's end heard, in order.
struct heard {
    char kinds[32]; // h: head, b: body, e: end, w: writable
    uint32_t count;
    uint64_t at_us[32];
    enum base_status end;
    struct sim_virtual_clock *clock;
    struct sim_core_tunnel *tunnel;
    bool leaves; // goes away at the head
};

static void hear(struct heard *heard, char kind)
{
    assert_true(heard->count + 1 < sizeof(heard->kinds));
    heard->at_us[heard->count] = heard->clock->now_us;
    heard->kinds[heard->count++] = kind;
}

static void on_head(void *ctx, struct sim_exchange *exchange, const struct dev_response_head *head)
{
    struct heard *heard = ctx;
    assert_int_equal(head->status, 200);
    hear(heard, 'h');
    if (heard->leaves) {
        sim_core_tunnel_cancel(heard->tunnel, exchange);
    }
}

static void on_body(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes, size_t size)
{
    (void)exchange, (void)bytes;
    assert_true(size > 0);
    hear(ctx, 'b');
}

static void on_end(void *ctx, struct sim_exchange *exchange, enum base_status status)
{
    struct heard *heard = ctx;
    (void)exchange;
    heard->end = status;
    hear(heard, 'e');
}

static void on_writable(void *ctx, struct sim_exchange *exchange)
{
    (void)exchange;
    hear(ctx, 'w');
}

struct world {
    struct sim_virtual_clock clock;
    struct heard heard;
    struct sim_core_tunnel *tunnel;
    struct sim_exchange exchange;
};

static enum base_status world_begin(struct world *world)
{
    struct base_error error = {.status = BASE_OK};
    *world = (struct world){.tunnel = NULL};
    sim_virtual_clock_init(&world->clock, BEGIN_US);
    world->heard.clock = &world->clock;
    const struct sim_core_tunnel_options options = {
        .clock = sim_virtual_clock_port(&world->clock),
        .delay = sim_delay_constant(),
        .events = {.ctx = &world->heard,
                   .head = on_head,
                   .body = on_body,
                   .end = on_end,
                   .writable = on_writable},
    };
    BASE_TRY(sim_core_tunnel_new(&options, &world->tunnel, &error));
    world->heard.tunnel = world->tunnel;
    world->exchange = (struct sim_exchange){.kind = SIM_EXCHANGE_TUNNEL, .index = 7};
    return BASE_OK;
}

static enum base_status open_one(struct world *world)
{
    return sim_core_tunnel_open(world->tunnel, &world->exchange, BASE_STR("00000000000000a7"));
}

// Everything that is due until then, each at its moment.
static void run_until(struct world *world, uint64_t after_us)
{
    uint64_t end_us = world->clock.now_us + after_us;
    while (sim_core_tunnel_due_us(world->tunnel) <= end_us) {
        sim_virtual_clock_move(&world->clock, sim_core_tunnel_due_us(world->tunnel));
        sim_core_tunnel_deliver(world->tunnel);
    }
    sim_virtual_clock_move(&world->clock, end_us);
}

static void assert_heard(const struct world *world, const char *kinds)
{
    if (strcmp(world->heard.kinds, kinds) != 0) {
        fail_msg("heard '%s', not '%s'", world->heard.kinds, kinds);
    }
}

static void a_stream_opens_after_two_ways(void **state)
{
    struct world world;
    (void)state;
    assert_int_equal(world_begin(&world), BASE_OK);
    assert_true(sim_core_tunnel_due_us(world.tunnel) == UINT64_MAX);
    uint64_t asked_us = world.clock.now_us;
    assert_int_equal(open_one(&world), BASE_OK);
    assert_int_equal(sim_core_tunnel_due_us(world.tunnel), asked_us + LEAST_US);
    run_until(&world, 1000000);
    assert_heard(&world, "h");
    assert_int_equal(world.heard.at_us[0], asked_us + 2 * LEAST_US);
    assert_int_equal(sim_core_tunnel_records(world.tunnel), 0);
    sim_core_tunnel_free(world.tunnel); // with the stream open
    sim_core_tunnel_free(NULL);
    assert_int_equal(failing_heap_live(), 0);
}

static void what_is_no_device_is_no_stream(void **state)
{
    struct world world;
    (void)state;
    assert_int_equal(world_begin(&world), BASE_OK);
    assert_int_not_equal(sim_core_tunnel_open(world.tunnel, &world.exchange, BASE_STR("nobody")),
                         BASE_OK);
    assert_true(sim_core_tunnel_due_us(world.tunnel) == UINT64_MAX);
    sim_core_tunnel_free(world.tunnel);
}

// Bytes that are no frames end the stream, and the device is told no sooner than a message takes.
static void nonsense_ends_a_stream(void **state)
{
    struct world world;
    uint8_t bytes[64];
    (void)state;
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(world_begin(&world), BASE_OK);
    assert_int_equal(open_one(&world), BASE_OK);
    run_until(&world, 100000);
    uint64_t sent_us = world.clock.now_us;
    assert_int_equal(sim_core_tunnel_write(world.tunnel, &world.exchange, bytes, sizeof(bytes)),
                     BASE_OK);
    run_until(&world, 100000);
    assert_heard(&world, "he");
    assert_int_not_equal(world.heard.end, BASE_OK);
    assert_int_equal(world.heard.at_us[1], sent_us + 2 * LEAST_US);
    assert_true(sim_core_tunnel_due_us(world.tunnel) == UINT64_MAX);
    sim_core_tunnel_free(world.tunnel);
    assert_int_equal(failing_heap_live(), 0);
}

static void a_full_stream_says_so_and_when_there_is_room(void **state)
{
    struct world world;
    static uint8_t bytes[SIM_STREAM_UP_MAX];
    (void)state;
    assert_int_equal(world_begin(&world), BASE_OK);
    assert_int_equal(open_one(&world), BASE_OK);
    assert_int_equal(sim_core_tunnel_write(world.tunnel, &world.exchange, bytes, sizeof(bytes)),
                     BASE_OK);
    assert_int_equal(sim_core_tunnel_write(world.tunnel, &world.exchange, bytes, 1), BASE_ERR_BUSY);
    assert_heard(&world, "");
    run_until(&world, LEAST_US);
    assert_heard(&world, "w");
    sim_core_tunnel_free(world.tunnel);
    assert_int_equal(failing_heap_live(), 0);
}

static void who_went_away_hears_nothing(void **state)
{
    struct world world;
    (void)state;
    assert_int_equal(world_begin(&world), BASE_OK);
    world.heard.leaves = true;
    for (uint32_t i = 0; i < 5; i++) { // the places of those that went are used again
        assert_int_equal(open_one(&world), BASE_OK);
        assert_int_equal(world.exchange.stream, 0);
        run_until(&world, 1000000);
    }
    assert_heard(&world, "hhhhh");
    assert_true(sim_core_tunnel_due_us(world.tunnel) == UINT64_MAX);
    sim_core_tunnel_free(world.tunnel);
    assert_int_equal(failing_heap_live(), 0);
}

static void a_killed_gateway_ends_its_streams(void **state)
{
    struct world world;
    (void)state;
    assert_int_equal(world_begin(&world), BASE_OK);
    assert_int_equal(open_one(&world), BASE_OK);
    run_until(&world, 100000);
    uint64_t killed_us = world.clock.now_us + 500; // a little after the shard's last moment
    sim_core_tunnel_cut(world.tunnel, killed_us);
    run_until(&world, 100000);
    assert_heard(&world, "he");
    assert_int_equal(world.heard.end, BASE_ERR_IO);
    assert_int_equal(world.heard.at_us[1], killed_us + LEAST_US);
    assert_int_equal(open_one(&world), BASE_OK); // it is not there yet
    run_until(&world, 100000);
    assert_heard(&world, "hee");
    assert_int_equal(world.heard.end, BASE_ERR_IO);
    run_until(&world, SIM_CORE_DOWN_US);
    assert_int_equal(open_one(&world), BASE_OK);
    run_until(&world, 100000);
    assert_heard(&world, "heeh");
    sim_core_tunnel_free(world.tunnel);
    assert_int_equal(failing_heap_live(), 0);
}

// Whichever allocation fails: an error or a stream without an answer, and nothing is left behind.
static void memory_may_run_out(void **state)
{
    uint32_t refused = 0;
    bool failed = true;
    (void)state;
    for (size_t allowed = 0; failed; allowed++) {
        struct world world;
        failing_heap_arm(allowed, false);
        enum base_status status = world_begin(&world);
        if (status == BASE_OK) {
            status = open_one(&world);
            run_until(&world, 100000);
            if (status == BASE_OK && world.heard.end == BASE_OK) {
                sim_core_tunnel_cancel(world.tunnel, &world.exchange);
                run_until(&world, 100000);
            }
        }
        failed = failing_heap_has_failed();
        (void)failing_heap_disarm();
        refused += status != BASE_OK;
        assert_true(failed || (status == BASE_OK && world.heard.count == 1));
        sim_core_tunnel_free(world.tunnel);
        assert_int_equal(failing_heap_live(), 0);
    }
    assert_true(refused > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_opens_after_two_ways),
        cmocka_unit_test(what_is_no_device_is_no_stream),
        cmocka_unit_test(nonsense_ends_a_stream),
        cmocka_unit_test(a_full_stream_says_so_and_when_there_is_room),
        cmocka_unit_test(who_went_away_hears_nothing),
        cmocka_unit_test(a_killed_gateway_ends_its_streams),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
