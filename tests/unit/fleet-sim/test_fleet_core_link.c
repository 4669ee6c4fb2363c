// A device's link to the gateway's core in virtual time (virtual/core_link.h): who asks first opens
// the connection, what one device sends or is sent at once goes over its link one after the other,
// and a file takes as long as its bytes.
#include "test_kit.h"

#include "ports/sim_delay_network.h"
#include "virtual/core_link.h"
#include "virtual/flight_memory.h"
#include "virtual/virtual_clock.h"

#define NETWORK  "delay_ms=30 up_kbps=1000 down_kbps=8000"
#define WAY_US   30000u
#define TRIPS_US (4u * WAY_US) // of a connection that opens
#define ASKED    3u

struct world {
    struct sim_virtual_clock clock;
    uint32_t window;
    struct sim_people *people;
    struct sim_population population;
    struct sim_flight_memory memory;
    struct sim_core_link link;
    struct sim_own_link own;
    struct sim_exchange asked[ASKED];
    struct sim_flight *flights[ASKED]; // as the core has them
    uint64_t ended_us[ASKED];
};

static void on_head(void *ctx, struct sim_exchange *exchange, const struct dev_response_head *head)
{
    (void)ctx, (void)exchange;
    assert_int_equal(head->status, 200);
}

static void on_body(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes, size_t size)
{
    (void)ctx, (void)exchange, (void)bytes;
    assert_true(size > 0);
}

static void on_end(void *ctx, struct sim_exchange *exchange, enum base_status status)
{
    struct world *world = ctx;
    assert_int_equal(status, BASE_OK);
    world->ended_us[exchange->id] = world->clock.now_us - world->link.start_us;
}

static void world_begin(struct world *world)
{
    struct base_error error = {.text = ""};
    *world = (struct world){.population = {.seed = 3}};
    sim_virtual_clock_init(&world->clock, UINT64_C(1700000000000000));
    assert_int_equal(sim_people_parse("file",
                                      BASE_STR("table network\n1 link\nnetwork link " NETWORK "\n"),
                                      &world->people, &error),
                     BASE_OK);
    world->population.people = world->people;
    sim_flight_memory_init(&world->memory);
    const struct sim_core_link_options options = {
        .clock = sim_virtual_clock_port(&world->clock),
        .delay = sim_delay_network(&world->population),
        .events = {.ctx = world, .head = on_head, .body = on_body, .end = on_end},
        .window = &world->window,
        .flights = &world->memory,
    };
    sim_core_link_init(&world->link, &options);
    for (uint32_t i = 0; i < ASKED; i++) {
        world->asked[i] = (struct sim_exchange){.id = i, .index = 7, .own_link = &world->own};
    }
}

static void world_end(struct world *world)
{
    sim_core_link_done(&world->link);
    sim_flight_memory_done(&world->memory);
    sim_people_free(world->people);
}

// Asks, and returns how long after the start the core has it.
static uint64_t ask(struct world *world, uint32_t number, size_t bytes)
{
    static const uint8_t body[4000];
    assert_true(bytes <= sizeof(body));
    const struct dev_request request = {.method = DEV_METHOD_POST,
                                        .path = BASE_STR("/v1/checkin"),
                                        .body = body,
                                        .body_bytes = bytes};
    struct sim_transport transport = sim_core_link_transport(&world->link);
    struct sim_post *post = &world->link.up[world->window & 1];
    assert_int_equal(transport.start(transport.ctx, &world->asked[number], &request), BASE_OK);
    const struct sim_flight_item *last = &post->sent.items[post->sent.count - 1];
    world->flights[number] = last->flight;
    return last->when.due_us - world->link.start_us;
}

static void answer(struct world *world, uint32_t number, size_t bytes, uint64_t at_us)
{
    static const uint8_t body[40000];
    assert_true(bytes <= sizeof(body));
    world->flights[number]->exchange.reply =
        (struct gw_reply){.status = 200, .kind = GW_REPLY_BYTES, .body = body, .body_bytes = bytes};
    sim_core_link_answer(world->flights[number], world->link.start_us + at_us, number);
}

static void deliver_all(struct world *world)
{
    world->window++;
    sim_core_link_collect(&world->link);
    while (sim_core_link_due_us(&world->link) != UINT64_MAX) {
        sim_virtual_clock_move(&world->clock, sim_core_link_due_us(&world->link));
        sim_core_link_deliver(&world->link);
    }
}

static void requests_leave_one_after_another(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world);
    // 1,000 kbit/s: 1,000 bytes take 8 ms, and the next ones wait for them.
    assert_int_equal(ask(&world, 0, 1000), 8000 + WAY_US + TRIPS_US);
    assert_int_equal(ask(&world, 1, 1000), 16000 + WAY_US);
    sim_virtual_clock_move(&world.clock, world.link.start_us + 100000); // the link has rested
    assert_int_equal(ask(&world, 2, 2000), 100000 + 16000 + WAY_US);
    world_end(&world);
}

static void answers_come_one_after_another(void **state)
{
    (void)state;
    struct world world;
    world_begin(&world);
    for (uint32_t i = 0; i < ASKED; i++) {
        (void)ask(&world, i, 0);
    }
    // 8,000 kbit/s: 10,000 bytes take 10 ms.
    answer(&world, 1, 10000, 200000);
    answer(&world, 0, 10000, 200000);
    answer(&world, 2, 0, 200000);
    deliver_all(&world);
    assert_int_equal(world.ended_us[1], 200000 + 10000 + WAY_US);
    assert_int_equal(world.ended_us[0], 200000 + 20000 + WAY_US);
    assert_int_equal(world.ended_us[2], 200000 + WAY_US); // nothing to carry
    world_end(&world);
}

// Another device's link is its own.
static void links_are_their_devices(void **state)
{
    (void)state;
    struct world world;
    struct sim_own_link other = {.connected = true};
    world_begin(&world);
    world.asked[1].own_link = &other;
    (void)ask(&world, 0, 0);
    assert_int_equal(ask(&world, 1, 1000), 8000 + WAY_US);
    answer(&world, 0, 10000, 200000);
    answer(&world, 1, 10000, 200000);
    deliver_all(&world);
    assert_int_equal(world.ended_us[0], 200000 + 10000 + WAY_US);
    assert_int_equal(world.ended_us[1], 200000 + 10000 + WAY_US);
    world_end(&world);
}

static void a_file_takes_as_long_as_its_bytes(void **state)
{
    (void)state;
    const struct gw_reply file = {.kind = GW_REPLY_BLOB, .blob_bytes = 1000000};
    const struct gw_reply bytes = {.kind = GW_REPLY_BYTES, .body_bytes = 1000, .blob_bytes = 7};
    const struct gw_reply huge = {.kind = GW_REPLY_BLOB, .blob_bytes = UINT64_C(1) << 40};
    struct world world;
    world_begin(&world);
    assert_int_equal(sim_core_link_body_bytes(&file), 1000000);
    assert_int_equal(sim_core_link_body_bytes(&bytes), 1000);
    assert_int_equal(sim_core_link_body_bytes(&huge), UINT32_MAX);
    (void)ask(&world, 0, 0);
    world.flights[0]->exchange.reply = file;
    sim_core_link_answer(world.flights[0], world.link.start_us + 200000, 0);
    // A second at 8,000 kbit/s, and slow start's pauses: 60 ms but for 14.6, then 29.2, then 58.4.
    assert_int_equal(world.flights[0]->when.due_us - world.link.start_us,
                     200000 + 1000000 + WAY_US + 3 * 60000 - 14600 - 29200 - 58400);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_leave_one_after_another),
        cmocka_unit_test(answers_come_one_after_another),
        cmocka_unit_test(links_are_their_devices),
        cmocka_unit_test(a_file_takes_as_long_as_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
