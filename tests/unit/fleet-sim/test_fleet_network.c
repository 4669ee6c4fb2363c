// Delays by class of network: as long as the class says on the mean, never below the least, the
// same for the same message; what is lost is sent again, in bursts; who is offline waits; large
// ones start slowly.
#include "test_kit.h"

#include "ports/sim_delay_network.h"

#include <math.h>

#define MESSAGES 200000u

static struct sim_people *people_of(const char *network)
{
    char text[400];
    struct base_error error = {.text = ""};
    struct sim_people *people = NULL;
    (void)snprintf(text, sizeof(text), "table network\n1 link\nnetwork link %s\n", network);
    if (sim_people_parse("file", base_str_of(text), &people, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return people;
}

static uint64_t ask(const struct sim_delay_port *port, uint64_t device, uint64_t at_us,
                    uint32_t count)
{
    const struct sim_message message = {
        .device = device, .at_us = at_us, .bytes = 1000, .count = count, .up = true};
    return sim_delay_us(port, &message);
}

// Mean and shares of one message of each device.
static double mean_us(const char *network, uint64_t *out_least, double *out_over)
{
    struct sim_people *people = people_of(network);
    const struct sim_population population = {.seed = 3, .people = people};
    const struct sim_delay_port port = sim_delay_network(&population);
    double sum = 0;
    uint32_t over = 0;
    *out_least = UINT64_MAX;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint64_t us = ask(&port, i, 1000, 0);
        assert_true(us == ask(&port, i, 1000, 0));
        assert_true(us >= port.least_us);
        *out_least = us < *out_least ? us : *out_least;
        over += us >= SIM_DELAY_AGAIN_US;
        sum += (double)us;
    }
    sim_people_free(people);
    *out_over = (double)over / MESSAGES;
    return sum / MESSAGES;
}

static void close_to(const char *what, double got, double expected, double by)
{
    if (!(fabs(got - expected) <= by)) {
        fail_msg("%s: %f, not %f", what, got, expected);
    }
}

static void delays_are_those_of_the_class(void **state)
{
    (void)state;
    uint64_t least = 0;
    double over = 0;
    close_to("delay", mean_us("delay_ms=40", &least, &over), 40000, 0.1);
    close_to("jitter", mean_us("delay_ms=20 jitter_ms=30", &least, &over), 50000, 500);
    assert_true(least >= 20000 && least < 20100);
    close_to("bytes", mean_us("delay_ms=10 up_kbps=100 down_kbps=1", &least, &over), 90000, 0.1);
    close_to("least", mean_us("delay_ms=1", &least, &over), SIM_DELAY_LEAST_US, 0.1);
    // A tenth is lost once, of these a tenth once more.
    double expected = 20000 + 0.1 * 200000 + 0.01 * 400000 + 0.001 * 800000 + 0.0001 * 1600000;
    close_to("loss", mean_us("delay_ms=20 loss=10%", &least, &over), expected, 700);
    close_to("lost", over, 0.1, 0.003);
    (void)mean_us("delay_ms=20 bad=20% bad_loss=50%", &least, &over);
    close_to("bursts", over, 0.1, 0.003);
}

// Within a burst half of a device's messages are lost, and none outside.
static void loss_comes_in_bursts(void **state)
{
    (void)state;
    struct sim_people *people = people_of("delay_ms=20 bad=20% bad_loss=50%");
    const struct sim_population population = {.seed = 3, .people = people};
    const struct sim_delay_port port = sim_delay_network(&population);
    uint32_t bad = 0;
    for (uint32_t burst = 0; burst < 500; burst++) {
        uint32_t lost = 0;
        for (uint32_t i = 0; i < 40; i++) {
            uint64_t at_us = burst * (uint64_t)SIM_DELAY_BURST_US + i * 50000ull;
            lost += ask(&port, 7, at_us, burst * 40 + i) > 20000;
        }
        assert_true(lost == 0 || (lost > 5 && lost < 35));
        bad += lost > 0;
    }
    close_to("bad bursts", bad / 500.0, 0.2, 0.06);
    sim_people_free(people);
}

static void who_is_offline_waits(void **state)
{
    (void)state;
    struct sim_people *people = people_of("delay_ms=20 offline=30%");
    const struct sim_population population = {.seed = 3, .people = people};
    const struct sim_delay_port port = sim_delay_network(&population);
    uint32_t waited = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        uint64_t at_us = (uint64_t)(i % 100) * SIM_DELAY_OFFLINE_US + 1000000;
        uint64_t us = ask(&port, i / 100, at_us, i);
        if (us > 20000) { // until a later stretch, in which it is online
            uint64_t online_us = at_us + us - 20000;
            assert_int_equal(online_us % SIM_DELAY_OFFLINE_US, 0);
            assert_int_equal(ask(&port, i / 100, online_us, i), 20000);
            waited++;
        }
    }
    close_to("offline", waited / 10000.0, 0.3, 0.03);
    sim_people_free(people);
}

// A window of 14,600 bytes is acknowledged after a round trip, then twice as much, until the link
// is full (RFC 5681, RFC 6928). Two round trips open a connection.
static void large_messages_start_slowly(void **state)
{
    (void)state;
    struct sim_people *people = people_of("delay_ms=50 down_kbps=100000 up_kbps=1000");
    const struct sim_population population = {.seed = 3, .people = people};
    const struct sim_delay_port port = sim_delay_network(&population);
    struct sim_message message = {.bytes = 14600};
    struct sim_delay first = port.of(port.ctx, &message);
    assert_int_equal(first.link_us, 1168);
    assert_int_equal(first.wait_us, 0);
    assert_int_equal(first.way_us, 50000);
    message.bytes = 100000;
    struct sim_delay whole = port.of(port.ctx, &message);
    assert_int_equal(whole.link_us, 8000);
    assert_int_equal(whole.wait_us, 100000 - 1168 + 100000 - 2336);
    // In pieces it takes as long.
    const struct sim_message pieces[] = {{.bytes = 30000}, {.bytes = 70000, .behind = 30000}};
    uint64_t wait_us = 0;
    for (int i = 0; i < 2; i++) {
        wait_us += port.of(port.ctx, &pieces[i]).wait_us;
    }
    assert_int_equal(wait_us, whole.wait_us);
    message.up = true; // 14,600 bytes take longer than the round trip: the link is full at once
    assert_int_equal(port.of(port.ctx, &message).wait_us, 0);
    message.opens = true;
    assert_int_equal(port.of(port.ctx, &message).way_us, 50000 + 4 * 50000);
    sim_people_free(people);
}

// The built-in population: a device's class is the one of its attributes.
static void devices_have_their_class(void **state)
{
    (void)state;
    const struct sim_population population = {.seed = 9};
    for (uint32_t i = 0; i < 1000; i++) {
        struct sim_traits traits;
        sim_population_draw(&population, i, &traits);
        assert_ptr_equal(sim_traits_network(&traits), sim_population_network(&population, i));
        assert_true(sim_traits_network(&traits)->delay_us >= 12000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_are_those_of_the_class),
        cmocka_unit_test(loss_comes_in_bursts),
        cmocka_unit_test(who_is_offline_waits),
        cmocka_unit_test(large_messages_start_slowly),
        cmocka_unit_test(devices_have_their_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
