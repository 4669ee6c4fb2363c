// A gateway that is slow, silent, confused or hostile: waiting, spreading, and frames no honest
// gateway would say. Nothing it says may cost more than the stream, or make the law untrue.
#include "tunnel_device_rig.h"

#include "base/prng.h"

static struct rig_gateway gateway;
static struct rig_device device;
static uint8_t frame[WIRE_TUNNEL_HEAD + WIRE_TUNNEL_FRAME_MAX];
static size_t size;

static int setup(void **state)
{
    (void)state;
    rig_gateway_init(&gateway);
    rig_device_init(&device, &gateway);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_device_done(&device);
    rig_gateway_done(&gateway);
    return 0;
}

// ---- Waiting

static void waits_grow_until_something_is_durable(void **state)
{
    (void)state;
    rig_boot(&device);
    device.offline = true;
    rig_offer(&device, 0, 10);
    uint64_t last = device.now_us;
    uint64_t longest = 0;
    uint64_t first_five = 0;
    for (unsigned tries = 0; tries < 60; tries++) {
        uint64_t calls = device.calls;
        for (unsigned i = 0; i < 1000 && device.calls == calls; i++) {
            uint64_t next = dev_tunnel_step(device.tunnel, device.now_us);
            if (device.calls == calls) {
                assert_true(next > device.now_us && next != UINT64_MAX);
                device.now_us = next;
            }
        }
        uint64_t waited = device.now_us - last;
        assert_true(waited <= DEV_TUNNEL_BACKOFF_CAP_MS * UINT64_C(1000) + 1000);
        longest = waited > longest ? waited : longest;
        first_five += tries < 5 ? waited : 0;
        last = device.now_us;
    }
    assert_true(first_five < 120 * UINT64_C(1000000));
    assert_true(longest > 60 * UINT64_C(1000000));
    // Streams that open and bring nothing do not make it eager again.
    device.offline = false;
    gateway.mute = true;
    uint64_t opens = device.opens;
    rig_pass(&device, 600000);
    assert_in_range(device.opens - opens, 1, 20);
    gateway.mute = false;
    rig_drain(&device, 3000);
    rig_check(&device);
    rig_cut(&device); // it worked: the next try is soon
    rig_offer(&device, 0, 10);
    opens = device.opens;
    rig_pass(&device, DEV_TUNNEL_BACKOFF_BASE_MS + 1);
    assert_true(device.opens > opens);
    rig_check(&device);
}

static void a_silent_gateway_is_given_up(void **state)
{
    (void)state;
    rig_boot(&device);
    rig_offer(&device, 0, 10);
    (void)rig_turn(&device);
    rig_drain(&device, 10);
    gateway.mute = true; // the connection is there, and nobody at the other end
    rig_offer(&device, 0, 10);
    uint64_t opens = device.opens;
    rig_pass(&device, DEV_TUNNEL_SILENCE_MS + 2000);
    assert_true(device.opens > opens);
    gateway.mute = false;
    rig_drain(&device, 3000);
    rig_check(&device);
    gateway.silent = true; // it answers PING and acknowledges nothing
    rig_offer(&device, 0, 10);
    opens = device.opens;
    rig_pass(&device, DEV_TUNNEL_UNMOVED_MS + 2000);
    assert_true(device.opens > opens);
    gateway.silent = false;
    rig_drain(&device, 3000);
    rig_check(&device);
}

static void retry_after_is_kept(void **state)
{
    (void)state;
    rig_boot(&device);
    rig_offer(&device, 0, 10);
    rig_step_only(&device);
    assert_int_equal(device.opens, 1);
    device.streams[0].open = false;
    dev_tunnel_on_closed(device.tunnel, 0, device.now_us, BASE_ERR_BUSY, 60);
    dev_tunnel_wake(device.tunnel, device.now_us); // does not override it
    rig_pass(&device, 59000);
    assert_int_equal(device.opens, 1);
    rig_pass(&device, 10000);
    assert_int_equal(device.opens, 2);
    rig_drain(&device, 100);
    rig_check(&device);
}

// However long the wish, weeks or what does not fit 32 bits of milliseconds: a day, and an eighth.
static void retry_after_is_cut_to_a_day(void **state)
{
    static const uint32_t wishes_s[] = {86400, 86401, 4294967, 4294968, UINT32_MAX};
    (void)state;
    rig_boot(&device);
    rig_offer(&device, 0, 10);
    rig_step_only(&device);
    assert_int_equal(device.opens, 1);
    for (size_t i = 0; i < sizeof(wishes_s) / sizeof(wishes_s[0]); i++) {
        uint64_t opens = device.opens;
        rig_offer(&device, 0, 10);
        device.streams[0].open = false;
        dev_tunnel_on_closed(device.tunnel, 0, device.now_us, BASE_ERR_BUSY, wishes_s[i]);
        rig_pass(&device, 86399 * 1000);
        if (device.opens != opens) {
            fail_msg("%u s: came back before a day was over", (unsigned)wishes_s[i]);
        }
        rig_pass(&device, 86400 / 8 * 1000 + 2000);
        if (device.opens != opens + 1) {
            fail_msg("%u s: not back after a day and an eighth", (unsigned)wishes_s[i]);
        }
    }
    rig_drain(&device, 100);
    rig_check(&device);
}

static void throttle_holds_and_samples(void **state)
{
    (void)state;
    device.config.one_stream = true;
    rig_boot(&device);
    rig_offer(&device, 0, 10);
    rig_drain(&device, 10);
    const struct wire_tunnel_throttle throttle = {4, 20000, 10000, 250000};
    assert_int_equal(wire_tunnel_throttle_encode(&throttle, frame, sizeof frame, &size), BASE_OK);
    rig_say(&device, 0, frame, size);
    rig_deliver_down(&device);
    uint64_t begin = device.now_us;
    for (unsigned i = 0; i < 400; i++) {
        rig_offer(&device, 2, DEV_TUNNEL_BATCH_BYTES / 2);
        rig_offer(&device, 2, DEV_TUNNEL_BATCH_BYTES / 2);
        (void)rig_turn(&device);
    }
    assert_int_equal(rig_figures(&device).classes[2].batches_sent, 0);
    rig_offer(&device, 0, 10); // another class is not held
    (void)rig_turn(&device);
    assert_int_equal(rig_figures(&device).classes[0].batches_sent, 2);
    rig_pass(&device, 19000);
    assert_int_equal(rig_figures(&device).classes[2].batches_sent, 0);
    rig_pass(&device, 11100);
    assert_true(rig_figures(&device).classes[2].batches_sent > 0);
    assert_true(device.now_us - begin >= 30000000);
    rig_drain(&device, 3000);
    rig_check(&device);
    // A quarter is kept; the rest is declared.
    uint64_t lost = rig_figures(&device).classes[2].lost[WIRE_TUNNEL_LOSS_POLICY];
    assert_in_range(lost, 800 * 60 / 100, 800 * 90 / 100);
    assert_int_equal(rig_figures(&device).throttles, 1);
}

static void say_throttle(uint8_t mask, uint32_t not_before_ms, uint32_t sample_ppm)
{
    const struct wire_tunnel_throttle throttle = {mask, not_before_ms, 0, sample_ppm};
    assert_int_equal(wire_tunnel_throttle_encode(&throttle, frame, sizeof frame, &size), BASE_OK);
    rig_say(&device, 0, frame, size);
    rig_deliver_down(&device);
}

// Offers so many batches of class 2 and returns how many records of them were left out.
static uint64_t left_out(unsigned batches)
{
    uint64_t before = rig_figures(&device).classes[2].lost[WIRE_TUNNEL_LOSS_POLICY];
    for (unsigned i = 0; i < batches; i++) {
        rig_offer(&device, 2, DEV_TUNNEL_BATCH_BYTES / 2);
        rig_offer(&device, 2, DEV_TUNNEL_BATCH_BYTES / 2);
        (void)rig_turn(&device);
    }
    return rig_figures(&device).classes[2].lost[WIRE_TUNNEL_LOSS_POLICY] - before;
}

// A sample alone holds nothing back and sets nobody free; it ends with its time, when it is lifted,
// and with the stream.
static void a_sample_ends(void **state)
{
    (void)state;
    device.config.one_stream = true;
    rig_boot(&device);
    rig_offer(&device, 0, 10);
    rig_drain(&device, 10);
    say_throttle(4, 0, 0);
    assert_int_equal(left_out(20), 40);
    rig_pass(&device, WIRE_TUNNEL_SAMPLE_MS + 1);
    assert_int_equal(left_out(20), 0);
    say_throttle(4, 0, 0);
    say_throttle(4, 0, WIRE_TUNNEL_SAMPLE_ALL);
    assert_int_equal(left_out(20), 0);
    rig_drain(&device, 300);
    uint64_t sent = rig_figures(&device).classes[2].batches_sent;
    say_throttle(4, 20000, WIRE_TUNNEL_SAMPLE_ALL);
    say_throttle(4, 0, WIRE_TUNNEL_SAMPLE_ALL / 2);
    uint64_t out = left_out(100);
    assert_in_range(out, 60, 140);
    assert_int_equal(rig_figures(&device).classes[2].batches_sent, sent);
    say_throttle(4, 0, 0);
    device.streams[0].open = false;
    dev_tunnel_on_closed(device.tunnel, 0, device.now_us, BASE_ERR_IO, 0);
    assert_int_equal(left_out(20), 0);
    rig_pass(&device, 40000);
    rig_drain(&device, 3000);
    assert_true(rig_figures(&device).classes[2].batches_sent > sent);
    rig_check(&device);
}

static void drain_is_obeyed(void **state)
{
    (void)state;
    rig_boot(&device);
    rig_offer(&device, 0, 10);
    rig_drain(&device, 10);
    const struct wire_tunnel_drain drain = {5000, 20000};
    assert_int_equal(wire_tunnel_drain_encode(&drain, frame, sizeof frame, &size), BASE_OK);
    rig_say(&device, 0, frame, size);
    rig_deliver_down(&device);
    rig_offer(&device, 0, 10);
    rig_offer(&device, 1, 10);
    uint64_t sent = rig_figures(&device).classes[0].batches_sent;
    rig_pass(&device, 4900);
    assert_int_equal(device.opens, 1); // nor does another stream
    assert_int_equal(rig_figures(&device).classes[0].batches_sent, sent);
    rig_pass(&device, 20200);
    assert_int_equal(device.opens, 3);
    rig_drain(&device, 100);
    rig_check(&device);
}

// ---- Lies

// A stream with something under way, that was welcomed.
static void welcomed(void)
{
    rig_boot(&device);
    rig_offer(&device, 2, 100);
    dev_tunnel_flush(device.tunnel, device.now_us);
    rig_drain(&device, 50);
    gateway.silent = true;
    for (unsigned i = 0; i < 5; i++) {
        rig_offer(&device, 2, 100);
        dev_tunnel_flush(device.tunnel, device.now_us);
        rig_step_only(&device);
    }
}

static void say_and_expect_bad(enum base_status encoded)
{
    assert_int_equal(encoded, BASE_OK);
    uint64_t before = rig_figures(&device).bad_frames;
    rig_say(&device, 2, frame, size);
    device.streams[2].up_size = 0;
    rig_deliver_down(&device);
    assert_true(dev_tunnel_validate(device.tunnel));
    assert_int_equal(rig_figures(&device).bad_frames, before + 1);
    assert_false(device.streams[2].open);
}

static void recover(void)
{
    gateway.silent = false;
    rig_drain(&device, 2000);
    rig_check(&device);
}

static void lies_end_the_stream(void **state)
{
    (void)state;
    for (unsigned lie = 0; lie < 18; lie++) {
        (void)teardown(NULL);
        (void)setup(NULL);
        welcomed();
        uint32_t epoch = rig_figures(&device).classes[2].epoch;
        const struct wire_tunnel_ack acks[] = {
            {2, WIRE_TUNNEL_DURABLE, epoch, 7, 0}, // of batches never sent
            {2, WIRE_TUNNEL_DURABLE, epoch, WIRE_TUNNEL_NUMBER_MAX, 0},
            {2, WIRE_TUNNEL_DURABLE, epoch + 1, 3, 0},
            {1, WIRE_TUNNEL_DURABLE, epoch, 3, 0}, // a class of another stream
        };
        const struct wire_tunnel_reject rejects[] = {
            {2, 0, 0, -100, 0},   // acknowledged already
            {2, 9, 0, -100, 0},   // never sent
            {2, 3, 100, -100, 0}, // a record it does not have
            {2, 3, 0, -100, UINT64_C(1) << 63},
            {3, 3, 0, -100, 0},
        };
        const struct wire_tunnel_needfull needfulls[] = {{2, 3}, {2, 9}}; // it was whole
        const struct wire_tunnel_fork fork = {2, epoch + 1, 1, 1};
        struct wire_tunnel_welcome welcome = {.class_count = 1}; // twice, or of another class
        welcome.classes[0] = (struct wire_tunnel_welcome_class){.class_id = 2, .epoch = epoch};
        const struct wire_tunnel_credit credit = {0, 1, 1};
        enum base_status status = BASE_ERR_BUG;
        if (lie < 4) {
            status = wire_tunnel_ack_encode(&acks[lie], frame, sizeof frame, &size);
        } else if (lie < 9) {
            status = wire_tunnel_reject_encode(&rejects[lie - 4], frame, sizeof frame, &size);
        } else if (lie < 11) {
            status = wire_tunnel_needfull_encode(&needfulls[lie - 9], frame, sizeof frame, &size);
        } else if (lie == 11) {
            status = wire_tunnel_fork_encode(&fork, frame, sizeof frame, &size);
        } else if (lie == 12 || lie == 13) {
            welcome.classes[0].class_id = lie == 12 ? 2 : 1;
            status = wire_tunnel_welcome_encode(&welcome, frame, sizeof frame, &size);
        } else if (lie == 14) {
            status = wire_tunnel_credit_encode(&credit, frame, sizeof frame, &size);
        } else if (lie == 15) {
            status = wire_tunnel_ping_encode(WIRE_TUNNEL_PING, 1, frame, sizeof frame, &size);
        } else if (lie == 16) { // larger than anything a gateway says
            memset(frame, 0, sizeof frame);
            frame[0] = WIRE_TUNNEL_PONG;
            frame[2] = 3;
            size = 4;
            status = BASE_OK;
        } else {
            frame[0] = 99;
            size = 4;
            status = BASE_OK;
        }
        say_and_expect_bad(status);
        recover();
    }
}

static void what_is_said_before_welcome_is_wrong(void **state)
{
    (void)state;
    welcomed();
    rig_cut(&device);
    rig_pass(&device, 0);
    device.now_us += 2000000;
    rig_step_only(&device); // HELLO is said
    assert_true(device.streams[2].open);
    const struct wire_tunnel_ack ack = {2, WIRE_TUNNEL_DURABLE,
                                        rig_figures(&device).classes[2].epoch, 2, 0};
    say_and_expect_bad(wire_tunnel_ack_encode(&ack, frame, sizeof frame, &size));
    recover();
}

static void replays_and_floods_change_nothing(void **state)
{
    (void)state;
    welcomed();
    uint32_t epoch = rig_figures(&device).classes[2].epoch;
    const struct wire_tunnel_ack ack = {2, WIRE_TUNNEL_DURABLE, epoch, 1, 0};
    const struct wire_tunnel_ack received = {2, WIRE_TUNNEL_RECEIVED, epoch, 6, 0};
    const struct wire_tunnel_credit credit = {2, WIRE_TUNNEL_CREDIT_MAX, WIRE_TUNNEL_CREDIT_MAX};
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(wire_tunnel_ack_encode(&ack, frame, sizeof frame, &size), BASE_OK);
        rig_say(&device, 2, frame, size);
        assert_int_equal(wire_tunnel_ack_encode(&received, frame, sizeof frame, &size), BASE_OK);
        rig_say(&device, 2, frame, size);
        assert_int_equal(wire_tunnel_credit_encode(&credit, frame, sizeof frame, &size), BASE_OK);
        rig_say(&device, 2, frame, size);
    }
    rig_deliver_down(&device);
    assert_int_equal(rig_figures(&device).bad_frames, 0);
    assert_int_equal(rig_figures(&device).classes[2].durable, 1);
    assert_int_equal(rig_figures(&device).classes[2].queued, 5); // RECEIVED deletes nothing
    recover();
}

// A gateway that refuses everything, for ever, and one that always forks: each round costs it a
// connection, and what is refused is declared.
static void endless_refusals_are_bounded(void **state)
{
    (void)state;
    rig_boot(&device);
    for (unsigned i = 0; i < 30; i++) {
        rig_offer(&device, 2, 50);
    }
    dev_tunnel_flush(device.tunnel, device.now_us);
    for (unsigned round = 0; round < 2000; round++) {
        rig_step_only(&device);
        rig_deliver_up(&device);
        device.streams[2].down_size = 0;
        if (device.streams[2].open) {
            struct dev_tunnel_stats stats = rig_figures(&device);
            struct wire_tunnel_welcome welcome = {.class_count = 1};
            welcome.classes[0] = (struct wire_tunnel_welcome_class){
                .class_id = 2,
                .epoch = stats.classes[2].epoch,
                .high_water = stats.classes[2].tail,
                .hash = 1, // never ours
                .credit_bytes = 100000,
                .credit_records = 5000,
            };
            assert_int_equal(wire_tunnel_welcome_encode(&welcome, frame, sizeof frame, &size),
                             BASE_OK);
            rig_say(&device, 2, frame, size);
            rig_deliver_down(&device);
        }
        assert_true(dev_tunnel_validate(device.tunnel));
        device.now_us += 100000;
    }
    struct dev_tunnel_stats stats = rig_figures(&device);
    assert_in_range(stats.forks, 2, 40); // back-off: 200 s
    assert_int_equal(stats.classes[2].queued, 30);
}

static void random_bytes_are_survived(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 300; round++) {
        (void)teardown(NULL);
        (void)setup(NULL);
        gateway.silent = round % 2 == 0;
        rig_boot(&device);
        for (unsigned i = 0; i < 30; i++) {
            rig_offer(&device, 2, 100);
            dev_tunnel_flush(device.tunnel, device.now_us);
            rig_step_only(&device);
            uint8_t bytes[64];
            for (unsigned k = 0; k < sizeof bytes; k++) {
                bytes[k] = (uint8_t)base_prng_next(&prng);
            }
            bytes[0] = (uint8_t)(WIRE_TUNNEL_WELCOME + bytes[0] % 10);
            bytes[1] = (uint8_t)(bytes[1] % 40);
            bytes[2] = bytes[3] = 0;
            bytes[4] %= 4;
            rig_say(&device, 2, bytes, 4u + bytes[1]);
            if (i % 3 == 0) {
                rig_deliver_up(&device);
            }
            rig_deliver_down(&device);
            device.now_us += 700000;
        }
        // THROTTLE and DRAIN among them may hold it for a day, sampling drops what it says.
        assert_true(dev_tunnel_validate(device.tunnel));
        rig_kill(&device);
        gateway.silent = false;
        rig_boot(&device);
        rig_drain(&device, 3000);
        rig_check(&device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(waits_grow_until_something_is_durable, setup, teardown),
        cmocka_unit_test_setup_teardown(a_silent_gateway_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(retry_after_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(retry_after_is_cut_to_a_day, setup, teardown),
        cmocka_unit_test_setup_teardown(throttle_holds_and_samples, setup, teardown),
        cmocka_unit_test_setup_teardown(a_sample_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(drain_is_obeyed, setup, teardown),
        cmocka_unit_test_setup_teardown(lies_end_the_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_said_before_welcome_is_wrong, setup, teardown),
        cmocka_unit_test_setup_teardown(replays_and_floods_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(endless_refusals_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(random_bytes_are_survived, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
