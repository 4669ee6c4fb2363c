// Thinning: the ladder as a rule of numbers, what devices are told as the memory fills and empties,
// and that high classes are never asked for a sample.
#include "tunnel_rig.h"

#include "tunnel/device_rate.h"
#include "tunnel/thinning.h"

#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMORY   (1024u * 1024)
#define DEVICE   UINT64_C(0x42)
#define RECORD   20000u
#define SECOND   UINT64_C(1000000)
#define THROTTLE 20 // at most, of a stream in a test

static struct tunnel_rig rig;
static struct tunnel_rig_stream streams[WIRE_TUNNEL_CLASSES];
static struct tunnel_rig_device devices[WIRE_TUNNEL_CLASSES];
static uint8_t payload[2 * RECORD];
static uint8_t frame[4 * RECORD];

static void test_ladder(void **state)
{
    (void)state;
    struct gw_thin thin;
    gw_thin_init(&thin, 1000, 0);
    assert_int_equal(thin.enter[1], 500);
    assert_int_equal(thin.enter[2], 750);
    assert_int_equal(thin.enter[3], 1000);
    static const struct {
        uint32_t step;
        uint64_t bytes;
        uint32_t next;
    } cases[] = {
        {0, 0, 0},   {0, 500, 0}, {0, 501, 1}, {0, 751, 2}, {0, 1001, 3}, {1, 376, 1},
        {1, 375, 0}, {2, 563, 2}, {2, 562, 2}, {2, 561, 1}, {3, 751, 3},  {3, 750, 2},
        {3, 0, 0},   {2, 300, 0}, {9, 0, 0},   {9, 999, 3},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(gw_thin_next(&thin, cases[i].step, cases[i].bytes), cases[i].next);
    }
    gw_thin_init(&thin, 1000, 100);
    assert_int_equal(gw_thin_next(&thin, 0, 1000), 0);
    assert_int_equal(gw_thin_next(&thin, 0, 1001), 3);
    // Less is kept the higher the step and the lower the class; what is urgent is always kept.
    for (uint32_t step = 0; step <= GW_THIN_STEPS; step++) {
        for (uint8_t class_id = 0; class_id < WIRE_TUNNEL_CLASSES; class_id++) {
            uint32_t ppm = gw_thin_ppm(step, class_id);
            assert_true(ppm > 0 && ppm <= WIRE_TUNNEL_SAMPLE_ALL);
            assert_true(class_id > 1 || ppm == WIRE_TUNNEL_SAMPLE_ALL);
            assert_true(step == 0 || ppm <= gw_thin_ppm(step - 1, class_id));
            assert_true(class_id == 0 || ppm <= gw_thin_ppm(step, (uint8_t)(class_id - 1)));
        }
    }
    assert_int_equal(gw_thin_ppm(0, 3), WIRE_TUNNEL_SAMPLE_ALL);
}

// The sample is as large as asked for, and what a small one keeps a larger one keeps.
static void test_what_is_kept(void **state)
{
    (void)state;
    static const uint32_t ppms[] = {0, 15625, 62500, 250000, 500000, WIRE_TUNNEL_SAMPLE_ALL};
    uint32_t kept[6] = {0};
    for (uint64_t seq = 0; seq < 40000; seq++) {
        bool before = false;
        for (uint32_t i = 0; i < 6; i++) {
            bool keeps = wire_tunnel_keeps(7 + seq % 5, 3, 1, seq, ppms[i]);
            assert_true(keeps || !before);
            before = keeps;
            kept[i] += keeps;
        }
    }
    assert_int_equal(kept[0], 0);
    assert_int_equal(kept[5], 40000);
    for (uint32_t i = 1; i < 5; i++) {
        assert_in_range(kept[i], ppms[i] / 25 * 9 / 10, ppms[i] / 25 * 11 / 10);
    }
}

// What is asked of the class's device, by all THROTTLE frames that wait to be read: the last.
static uint32_t asked(uint32_t class_id, uint32_t *out_frames)
{
    enum wire_tunnel_type type;
    const uint8_t *bytes;
    size_t size;
    uint32_t ppm = UINT32_MAX;
    uint32_t frames = 0;
    while (tunnel_rig_next(&streams[class_id], &type, &bytes, &size)) {
        if (type == WIRE_TUNNEL_THROTTLE) {
            struct wire_tunnel_throttle throttle;
            assert_int_equal(wire_tunnel_throttle_parse(bytes, size, &throttle), BASE_OK);
            assert_int_equal(throttle.class_mask, 1u << class_id);
            ppm = throttle.sample_ppm;
            frames++;
        }
    }
    if (out_frames != NULL) {
        *out_frames = frames;
    }
    assert_true(frames <= THROTTLE);
    return ppm;
}

static void send(uint32_t class_id)
{
    size_t raw = tunnel_rig_payload(1, RECORD, devices[class_id].next, payload, sizeof(payload));
    size_t size = tunnel_rig_batch(&devices[class_id], payload, raw, 1, frame, sizeof(frame));
    tunnel_rig_send(&streams[class_id], frame, size);
    assert_int_equal(streams[class_id].status, BASE_OK);
}

static uint64_t memory_bytes(struct gw_tunnel_stats *out)
{
    gw_tunnel_stats(rig.tunnel, out);
    return out->memory_bytes;
}

// Batches of all classes, one device each, until so much waits for the disk.
static void fill(uint64_t until)
{
    struct gw_tunnel_stats stats;
    for (uint32_t i = 0; memory_bytes(&stats) <= until; i++) {
        assert_true(i < 1000);
        send(i % WIRE_TUNNEL_CLASSES);
    }
}

static void empty(uint64_t until)
{
    struct gw_tunnel_stats stats;
    while (memory_bytes(&stats) > until && tunnel_rig_land(&rig, 1, BASE_OK) > 0) {
    }
    for (uint32_t i = 0; i < RIG_WORKERS; i++) {
        gw_tunnel_worker_flush(rig.workers[i].worker);
    }
}

static int setup(void **state)
{
    (void)state;
    struct wire_tunnel_welcome_class welcome;
    tunnel_rig_init(&rig);
    rig.options.memory_bytes = MEMORY;
    rig.options.credit_bytes = 16 * MEMORY;
    tunnel_rig_start(&rig, false);
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        tunnel_rig_device(&devices[i], DEVICE + i, (uint8_t)i, 1);
        tunnel_rig_open(&rig, &streams[i], 0, DEVICE + i);
        tunnel_rig_greet(&streams[i], &devices[i], &welcome);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    while (tunnel_rig_land(&rig, 1000, BASE_OK) > 0) {
    }
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        tunnel_rig_close(&streams[i]);
    }
    tunnel_rig_done(&rig);
    return 0;
}

static void test_bulk_is_thinned_first(void **state)
{
    (void)state;
    struct gw_tunnel_stats stats;
    fill(MEMORY / 2 - 2 * RECORD);
    for (uint32_t i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        assert_int_equal(asked(i, NULL), UINT32_MAX);
    }
    fill(MEMORY / 2 + 5 * RECORD);
    assert_int_equal(asked(3, NULL), WIRE_TUNNEL_SAMPLE_ALL / 4);
    assert_int_equal(asked(2, NULL), UINT32_MAX);
    fill(MEMORY / 4 * 3 + 5 * RECORD);
    assert_int_equal(asked(3, NULL), WIRE_TUNNEL_SAMPLE_ALL / 16);
    assert_int_equal(asked(2, NULL), WIRE_TUNNEL_SAMPLE_ALL / 2);
    fill(MEMORY + 5 * RECORD);
    assert_int_equal(asked(3, NULL), WIRE_TUNNEL_SAMPLE_ALL / 64);
    assert_int_equal(asked(2, NULL), WIRE_TUNNEL_SAMPLE_ALL / 4);
    // Nothing was refused, and what is urgent was not asked for anything.
    assert_int_equal(asked(0, NULL), UINT32_MAX);
    assert_int_equal(asked(1, NULL), UINT32_MAX);
    (void)memory_bytes(&stats);
    assert_int_equal(stats.sent_away_total, 0);
    assert_int_equal(stats.thin_step, 3);
    assert_true(stats.thinned_total >= 5);
}

static void test_it_is_lifted_step_by_step(void **state)
{
    (void)state;
    struct gw_tunnel_stats stats;
    fill(MEMORY / 4 * 3 + 5 * RECORD);
    (void)asked(2, NULL);
    (void)asked(3, NULL);
    empty(0); // too soon: nothing yet
    assert_int_equal(asked(3, NULL), UINT32_MAX);
    rig.mono_us += SECOND;
    empty(0);
    assert_int_equal(asked(3, NULL), WIRE_TUNNEL_SAMPLE_ALL / 4);
    assert_int_equal(asked(2, NULL), WIRE_TUNNEL_SAMPLE_ALL);
    rig.mono_us += SECOND;
    empty(0);
    assert_int_equal(asked(3, NULL), WIRE_TUNNEL_SAMPLE_ALL);
    assert_int_equal(asked(2, NULL), UINT32_MAX);
    assert_int_equal(asked(0, NULL), UINT32_MAX);
    (void)memory_bytes(&stats);
    assert_int_equal(stats.thin_step, 0);
}

// While it lasts it is said again before the device forgets it; and it is not said with each batch.
static void test_it_is_said_again(void **state)
{
    (void)state;
    uint32_t frames;
    fill(MEMORY / 2 + 5 * RECORD);
    assert_int_equal(asked(3, &frames), WIRE_TUNNEL_SAMPLE_ALL / 4);
    assert_int_equal(frames, 1);
    send(3);
    assert_int_equal(asked(3, NULL), UINT32_MAX);
    rig.mono_us += WIRE_TUNNEL_SAMPLE_MS / 2 * UINT64_C(1000);
    send(3);
    assert_int_equal(asked(3, &frames), WIRE_TUNNEL_SAMPLE_ALL / 4);
    assert_int_equal(frames, 1);
    // A new stream is told too.
    struct wire_tunnel_welcome_class welcome;
    tunnel_rig_close(&streams[3]);
    tunnel_rig_device(&devices[3], DEVICE + 9, 3, 1);
    tunnel_rig_open(&rig, &streams[3], 0, DEVICE + 9);
    tunnel_rig_greet(&streams[3], &devices[3], &welcome);
    send(3);
    assert_int_equal(asked(3, NULL), WIRE_TUNNEL_SAMPLE_ALL / 4);
}

// Entries of devices that owe nothing are forgotten, those in debt and those in use are kept.
static void test_rates_are_forgotten(void **state)
{
    (void)state;
    struct gw_device_rates *rates;
    assert_int_equal(gw_device_rates_new(&(struct base_hash_key){1, 2}, &rates), BASE_OK);
    struct gw_device_rate *used = gw_device_rate_get(rates, 1, 0);
    assert_non_null(used);
    for (uint64_t id = 100; id < 20100; id++) {
        struct gw_device_rate *rate = gw_device_rate_get(rates, base_mix64(id), 0);
        assert_non_null(rate);
        assert_int_equal(gw_device_rate_take(rate, 10, 0), 100000);
        gw_device_rate_release(rates, rate);
    }
    assert_int_equal(gw_device_rates_count(rates), 20001);
    for (uint64_t id = 30000; id < 90000; id++) {
        gw_device_rate_release(rates, gw_device_rate_get(rates, base_mix64(id), SECOND));
    }
    assert_true(gw_device_rates_count(rates) < 8192);
    assert_ptr_equal(gw_device_rate_get(rates, 1, SECOND), used);
    gw_device_rates_free(rates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ladder),
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test_setup_teardown(test_bulk_is_thinned_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_it_is_lifted_step_by_step, setup, teardown),
        cmocka_unit_test_setup_teardown(test_it_is_said_again, setup, teardown),
        cmocka_unit_test(test_rates_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
