// The tunnel on a good day, and when there is too much: batches, order, due times, quotas, losses.
#include "tunnel_device_rig.h"

static struct rig_gateway gateway;
static struct rig_device device;

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

static void records_arrive_once_and_leave_the_store(void **state)
{
    (void)state;
    rig_boot(&device);
    for (unsigned i = 0; i < 500; i++) {
        rig_offer(&device, (uint8_t)(i % 4), 20 + i % 100);
    }
    rig_drain(&device, 1000);
    rig_check(&device);
    struct dev_tunnel_stats stats = rig_figures(&device);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(stats.classes[i].durable, 125);
        assert_int_equal(stats.classes[i].batches_resent, 0);
    }
    rig_pass(&device, 5000); // the deletes go with a group
    assert_int_equal(dev_collect_usage(device.collect, DEV_SPACE_QUEUE), 0);
    assert_true(gateway.compressed > 0);
}

static void one_stream_carries_all_classes(void **state)
{
    (void)state;
    device.config.one_stream = true;
    rig_boot(&device);
    for (unsigned i = 0; i < 100; i++) {
        rig_offer(&device, (uint8_t)(i % 4), 50);
    }
    rig_drain(&device, 1000);
    rig_check(&device);
    assert_int_equal(device.opens, 1);
    assert_int_equal(gateway.hellos, 1);
    assert_true(gateway.early_bytes > 0 && gateway.early_bytes < 512); // HELLO alone
}

// When batches are closed: seen by what is in the store and under way.
static void batches_are_due_by_class(void **state)
{
    (void)state;
    rig_boot(&device);
    device.offline = true;
    rig_offer(&device, 0, 10);
    rig_offer(&device, 1, 10);
    rig_offer(&device, 2, 10);
    rig_step_only(&device);
    struct dev_tunnel_stats stats = rig_figures(&device);
    assert_int_equal(stats.classes[0].next, 1); // at once
    assert_int_equal(stats.classes[1].next, 0);
    device.now_us += 49000;
    rig_step_only(&device);
    assert_int_equal(rig_figures(&device).classes[1].next, 0);
    device.now_us += 1000; // DEV_TUNNEL_COALESCE_MS
    rig_step_only(&device);
    stats = rig_figures(&device);
    assert_int_equal(stats.classes[1].next, 1);
    assert_int_equal(stats.classes[2].next, 0);
    device.now_us += 4949000;
    rig_step_only(&device);
    assert_int_equal(rig_figures(&device).classes[2].next, 0);
    device.now_us += 1000; // DEV_TUNNEL_BATCH_AGE_MS
    rig_step_only(&device);
    assert_int_equal(rig_figures(&device).classes[2].next, 1);
    for (unsigned i = 0; i < DEV_TUNNEL_BATCH_RECORDS; i++) {
        rig_offer(&device, 2, 10);
    }
    rig_step_only(&device);
    assert_int_equal(rig_figures(&device).classes[2].next, 2); // 64 records
    rig_offer(&device, 3, DEV_TUNNEL_BATCH_BYTES);
    rig_step_only(&device);
    assert_int_equal(rig_figures(&device).classes[3].next, 1); // 8 KB
    rig_offer(&device, 2, 10);
    dev_tunnel_flush(device.tunnel, device.now_us);
    rig_step_only(&device);
    assert_int_equal(rig_figures(&device).classes[2].next, 3); // background
    assert_int_equal(dev_collect_durable(device.collect), dev_collect_changes(device.collect));
}

static void class_1_is_sent_at_once_when_the_radio_is_on_and_takes_others_along(void **state)
{
    (void)state;
    rig_boot(&device);
    rig_offer(&device, 0, 10);
    rig_drain(&device, 10);
    rig_offer(&device, 2, 10);
    rig_offer(&device, 1, 10);
    // Streams of 1 and 2 are not open yet: the step opens them, the next closes what goes along.
    (void)rig_turn(&device);
    (void)rig_turn(&device);
    rig_offer(&device, 1, 10);
    rig_offer(&device, 2, 10);
    uint64_t before = rig_figures(&device).classes[1].next;
    (void)rig_turn(&device);
    assert_int_equal(rig_figures(&device).classes[1].next, before + 1);
    rig_drain(&device, 1000);
    rig_check(&device);
}

static void class_0_goes_first_and_3_waits_its_turn(void **state)
{
    (void)state;
    device.config.one_stream = true;
    rig_boot(&device);
    device.offline = true;
    for (unsigned i = 0; i < 40; i++) {
        rig_offer(&device, 3, DEV_TUNNEL_BATCH_BYTES);
        rig_offer(&device, 2, DEV_TUNNEL_BATCH_BYTES);
        rig_step_only(&device);
    }
    rig_offer(&device, 0, 100);
    rig_step_only(&device);
    device.offline = false;
    dev_tunnel_wake(device.tunnel, device.now_us);
    rig_drain(&device, 1000);
    assert_int_equal(gateway.order[0], 0);
    unsigned three = 0;
    for (unsigned i = 1; i <= 20; i++) {
        three += gateway.order[i] == 3;
    }
    assert_int_equal(three, 4); // of 20
    rig_check(&device);
}

static void class_3_does_not_starve(void **state)
{
    (void)state;
    device.config.one_stream = true;
    rig_boot(&device);
    device.offline = true;
    rig_offer(&device, 3, 100);
    rig_offer(&device, 2, 100);
    rig_pass(&device, DEV_TUNNEL_AGING_MS + 10000);
    rig_offer(&device, 2, 100);
    device.offline = false;
    dev_tunnel_wake(device.tunnel, device.now_us);
    rig_drain(&device, 1000);
    assert_int_equal(gateway.order[0], 3);
    rig_check(&device);
}

static void no_credit_no_send(void **state)
{
    (void)state;
    gateway.no_credit_back = true;
    gateway.credit_bytes = 40000;
    gateway.credit_records = 5000;
    device.no_codec = true;
    rig_boot(&device);
    for (unsigned i = 0; i < 20; i++) {
        rig_offer(&device, 2, DEV_TUNNEL_BATCH_BYTES - 100);
        (void)rig_turn(&device);
    }
    rig_pass(&device, 10000);
    struct dev_tunnel_stats stats = rig_figures(&device);
    assert_true(stats.classes[2].bytes_sent <= 41000);
    assert_true(stats.classes[2].durable >= 4);
    uint8_t frame[32];
    size_t size = 0;
    const struct wire_tunnel_credit credit = {2, 1000000, 100};
    assert_int_equal(wire_tunnel_credit_encode(&credit, frame, sizeof frame, &size), BASE_OK);
    rig_say(&device, 2, frame, size);
    rig_drain(&device, 1000);
    rig_check(&device);
}

static void the_window_bounds_what_is_under_way(void **state)
{
    (void)state;
    gateway.silent = true;
    device.config.window = 8;
    rig_boot(&device);
    for (unsigned i = 0; i < 50; i++) {
        rig_offer(&device, 0, 20);
        (void)rig_turn(&device);
    }
    struct dev_tunnel_stats stats = rig_figures(&device);
    assert_int_equal(stats.classes[0].batches_sent, 8);
    gateway.silent = false;
    rig_cut(&device);
    rig_drain(&device, 1000);
    assert_int_equal(gateway.resent, 0); // WELCOME said where to go on
    rig_check(&device);
}

static void a_busy_transport_is_waited_for(void **state)
{
    (void)state;
    rig_boot(&device);
    device.up_max = 9000; // little more than one batch
    device.no_codec = true;
    for (unsigned i = 0; i < 100; i++) {
        rig_offer(&device, (uint8_t)(i % 2), 900);
    }
    rig_drain(&device, 2000);
    rig_check(&device);
    device.choked = true;
    rig_offer(&device, 0, 10);
    rig_step_only(&device);
    rig_step_only(&device);
    device.choked = false;
    rig_drain(&device, 100);
    rig_check(&device);
}

// A month offline: the oldest go, always declared, and the losses grow together.
static void a_full_queue_drops_the_oldest_and_says_so(void **state)
{
    (void)state;
    device.config.quota_bytes[2] = 64 * 1024;
    rig_boot(&device);
    device.offline = true;
    for (unsigned i = 0; i < 3000; i++) {
        rig_offer(&device, 2, 100);
        rig_step_only(&device);
        device.now_us += 100000;
    }
    struct dev_tunnel_stats stats = rig_figures(&device);
    assert_true(stats.classes[2].lost[WIRE_TUNNEL_LOSS_QUOTA] > 1000);
    assert_true(stats.classes[2].queued > 300);
    assert_true(dev_collect_usage(device.collect, DEV_SPACE_QUEUE) <= 64 * 1024);
    rig_kill(&device); // what is stored says the same
    rig_boot(&device);
    assert_int_equal(rig_figures(&device).classes[2].lost[WIRE_TUNNEL_LOSS_QUOTA],
                     stats.classes[2].lost[WIRE_TUNNEL_LOSS_QUOTA]);
    device.offline = false;
    rig_drain(&device, 1000);
    rig_check(&device);
    // One LOSS frame said it all: its rows come first and without a batch between.
    uint32_t at = 0;
    while (gateway.rows[at].reason == WIRE_TUNNEL_LOSS_QUOTA) {
        at++;
    }
    assert_int_equal(at, rig_lost(&device, 2));
    // The newest survived.
    assert_int_equal(
        rig_rows_of(&gateway, device.tokens[2][device.token_count[2] - device.forgotten[2] - 1]),
        1);
}

// What the gateway may have is not dropped, even when nothing else can be.
static void what_was_sent_is_never_declared_lost(void **state)
{
    (void)state;
    device.config.quota_bytes[2] = 32 * 1024;
    device.no_codec = true;
    rig_boot(&device);
    gateway.silent = true;
    for (unsigned i = 0; i < 200; i++) {
        rig_offer(&device, 2, 1000);
        (void)rig_turn(&device);
        device.now_us += 200000;
        if (i == 20) {
            rig_cut(&device);
            device.offline = true;
        }
    }
    assert_true(rig_lost(&device, 2) > 0);
    gateway.silent = false;
    device.offline = false;
    rig_drain(&device, 2000);
    rig_check(&device); // a row that was there and declared lost would show
}

static void stale_records_of_class_1_expire(void **state)
{
    (void)state;
    rig_boot(&device);
    device.offline = true;
    for (unsigned i = 0; i < 30; i++) {
        rig_offer(&device, 1, 100);
        rig_step_only(&device);
        device.now_us += 100000;
    }
    device.offline = false;
    dev_tunnel_wake(device.tunnel, device.now_us);
    rig_drain(&device, 100);
    rig_check(&device);
    uint64_t expired = rig_figures(&device).classes[1].lost[WIRE_TUNNEL_LOSS_EXPIRED];
    assert_in_range(expired, 5, 15); // of 3 s, what was older than 2 s
    assert_int_equal(rig_rows_of(&gateway, device.tokens[1][29]), 1);
}

static void records_out_of_bounds_are_not_produced(void **state)
{
    (void)state;
    rig_boot(&device);
    static uint8_t body[DEV_TUNNEL_BATCH_MAX + 1];
    const struct wire_upload_record good = {
        .class_id = 1, .key = {BASE_STR("t"), BASE_STR("u"), 0}, .bytes = body, .size = 1};
    struct wire_upload_record rows[6] = {good, good, good, good, good, good};
    rows[0].class_id = WIRE_TUNNEL_CLASSES;
    rows[1].key.task = BASE_STR("T");
    rows[2].key.name = BASE_STR("");
    rows[3].format = WIRE_RECORD_FORMAT_END;
    rows[4].wall_ms = WIRE_WALL_MS_MAX + 1;
    rows[5].size = sizeof body;
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(dev_tunnel_offer(device.tunnel, device.now_us, &rows[i], NULL),
                         i < 5 ? BASE_ERR_INVALID : BASE_ERR_TOO_LARGE);
    }
    assert_int_equal(rig_figures(&device).classes[1].produced, 0);
    uint64_t seq = 0;
    assert_int_equal(dev_tunnel_offer(device.tunnel, device.now_us, &good, &seq), BASE_OK);
    assert_int_equal(seq, 0);
    assert_int_equal(dev_tunnel_offer(device.tunnel, device.now_us, &good, &seq), BASE_OK);
    assert_int_equal(seq, 1);
    // The largest there may be is a batch of its own.
    rows[5].size = DEV_TUNNEL_BATCH_MAX;
    assert_int_equal(dev_tunnel_offer(device.tunnel, device.now_us, &rows[5], &seq), BASE_OK);
    assert_int_equal(seq, 2);
    assert_true(dev_tunnel_validate(device.tunnel));
}

static void memory_is_what_it_says(void **state)
{
    (void)state;
    struct dev_tunnel_config config = {.device_id = 1};
    size_t full = dev_tunnel_bytes(&config);
    print_message("a tunnel with defaults: %zu bytes\n", full);
    assert_true(full <= 132 * 1024);
    struct dev_tunnel_config small = {.classes = 6,
                                      .one_stream = true,
                                      .batch_bytes_max = 512,
                                      .open_bytes = 256,
                                      .open_records = 8,
                                      .window = 8};
    print_message("a small one: %zu bytes\n", dev_tunnel_bytes(&small));
    small.window = 65;
    assert_int_equal(dev_tunnel_bytes(&small), 0);
    void *memory = malloc(full);
    struct dev_tunnel *tunnel = NULL;
    const struct dev_tunnel_ports ports = {0};
    assert_int_equal(dev_tunnel_init(memory, full - 1, &config, &ports, &tunnel), BASE_ERR_INVALID);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_arrive_once_and_leave_the_store, setup, teardown),
        cmocka_unit_test_setup_teardown(one_stream_carries_all_classes, setup, teardown),
        cmocka_unit_test_setup_teardown(batches_are_due_by_class, setup, teardown),
        cmocka_unit_test_setup_teardown(
            class_1_is_sent_at_once_when_the_radio_is_on_and_takes_others_along, setup, teardown),
        cmocka_unit_test_setup_teardown(class_0_goes_first_and_3_waits_its_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(class_3_does_not_starve, setup, teardown),
        cmocka_unit_test_setup_teardown(no_credit_no_send, setup, teardown),
        cmocka_unit_test_setup_teardown(the_window_bounds_what_is_under_way, setup, teardown),
        cmocka_unit_test_setup_teardown(a_busy_transport_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_queue_drops_the_oldest_and_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_sent_is_never_declared_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(stale_records_of_class_1_expire, setup, teardown),
        cmocka_unit_test_setup_teardown(records_out_of_bounds_are_not_produced, setup, teardown),
        cmocka_unit_test(memory_is_what_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
