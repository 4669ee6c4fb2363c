// The tunnel when things go wrong: kills and failures at every call, lost connections, copies of
// the device, refused records, unknown dictionaries, damage in the store, interrupted batches.
#include "tunnel_device_rig.h"

#include "base/hash.h"

#include "base/prng.h"

static struct rig_gateway gateway;
static struct rig_device device;
static struct rig_device other;

static int setup(void **state)
{
    (void)state;
    rig_gateway_init(&gateway);
    rig_device_init(&device, &gateway);
    rig_device_init(&other, &gateway);
    base_prng_seed(&other.prng, 8);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_device_done(&device);
    rig_device_done(&other);
    rig_gateway_done(&gateway);
    return 0;
}

static bool is_dead(const struct rig_device *of)
{
    return of->killed || of->kv.killed;
}

// A little of everything; stops when the device is killed.
static void story(struct rig_device *of)
{
    of->config.quota_bytes[2] = 12 * 1024;
    of->config.open_records = 8;
    for (unsigned i = 0; i < 60 && !is_dead(of); i++) {
        rig_offer(of, (uint8_t)(i % 3), 30 + (i * 37) % 500);
        if (i % 9 == 4) {
            rig_unmade(of, (uint8_t)(i % 3), i);
        }
        if (i % 2 == 0) {
            (void)rig_turn(of);
        }
        if (i == 20 || i == 45) {
            rig_step_only(of); // frames are lost on their way
            rig_cut(of);
        }
        if (i == 33) {
            gateway.silent = true;
        }
        if (i == 40) {
            gateway.silent = false;
            rig_cut(of);
        }
        of->now_us += 30000 * (i % 5);
    }
    gateway.silent = false;
    if (!is_dead(of)) {
        dev_tunnel_flush(of->tunnel, of->now_us);
        rig_pass(of, 3000);
    }
}

static void finish(struct rig_device *of)
{
    if (is_dead(of)) {
        rig_kill(of);
        rig_boot(of);
    }
    rig_drain(of, 3000);
    rig_check(of);
}

static void restart(void)
{
    (void)teardown(NULL);
    (void)setup(NULL);
}

static void killed_at_every_commit(void **state)
{
    (void)state;
    unsigned kills = 0;
    for (unsigned applied = 0; applied < 2; applied++) {
        for (uint64_t at = 1; at < 1000; at++) {
            restart();
            rig_boot(&device);
            device.kv.kill_at = device.kv.commits + at;
            device.kv.kill_applied = applied == 1;
            story(&device);
            bool died = is_dead(&device);
            kills += died;
            finish(&device);
            if (!died) {
                break;
            }
        }
    }
    print_message("%u kills\n", kills);
    assert_true(kills > 40);
}

static void killed_at_every_call_of_the_transport(void **state)
{
    (void)state;
    unsigned kills = 0;
    for (uint64_t at = 1; at < 1000; at++) {
        restart();
        rig_boot(&device);
        device.kill_at = device.calls + at;
        story(&device);
        bool died = is_dead(&device);
        kills += died;
        if (died) { // what was handed over before the kill still arrives, on the old streams
            for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
                device.streams[i].open = true;
            }
            rig_deliver_up(&device);
        }
        finish(&device);
        if (!died) {
            break;
        }
    }
    print_message("%u kills\n", kills);
    assert_true(kills > 50);
}

static void every_commit_fails_once(void **state)
{
    (void)state;
    for (uint64_t at = 1; at < 1000; at++) {
        restart();
        rig_boot(&device);
        device.kv.fail_at = device.kv.commits + at;
        story(&device);
        bool failed = device.kv.commits >= device.kv.fail_at;
        finish(&device);
        if (!failed) {
            assert_true(at > 20);
            break;
        }
    }
}

static void a_store_that_fails_for_long_loses_nothing_unsaid(void **state)
{
    (void)state;
    for (unsigned full = 0; full < 2; full++) {
        restart();
        rig_boot(&device);
        for (unsigned i = 0; i < 50; i++) {
            rig_offer(&device, (uint8_t)(i % 4), 100);
            (void)rig_turn(&device);
        }
        device.kv.fail_from = device.kv.commits + 1;
        device.kv.fail_status = full == 1 ? BASE_ERR_FULL : BASE_ERR_IO;
        for (unsigned i = 0; i < 3000; i++) {
            rig_offer(&device, (uint8_t)(i % 4), 100);
            (void)rig_turn(&device);
            device.now_us += 5000;
        }
        device.kv.fail_from = 0;
        assert_true(rig_lost(&device, 2) > 0); // memory was full
        rig_drain(&device, 5000);
        rig_check(&device);
    }
}

// ---- Copies

static void a_clone_gets_an_epoch_of_its_own(void **state)
{
    (void)state;
    rig_boot(&device);
    for (unsigned i = 0; i < 40; i++) {
        rig_offer(&device, 2, 100);
    }
    rig_drain(&device, 100);
    rig_pass(&device, 5000);
    rig_clone(&other, &device);
    uint32_t epoch = rig_figures(&device).classes[2].epoch;
    for (unsigned i = 0; i < 40; i++) {
        rig_offer(&device, 2, 100);
        rig_offer(&other, 2, 120);
    }
    rig_drain(&device, 100);
    rig_drain(&other, 500);
    assert_int_equal(rig_figures(&device).classes[2].epoch, epoch);
    assert_int_not_equal(rig_figures(&other).classes[2].epoch, epoch);
    assert_int_equal(rig_figures(&other).forks, 1);
    // Both go on, each in its own.
    for (unsigned i = 0; i < 40; i++) {
        rig_offer(&device, 2, 100);
        rig_offer(&other, 2, 120);
        (void)rig_turn(&device);
        (void)rig_turn(&other);
    }
    rig_drain(&device, 500);
    rig_drain(&other, 500);
    rig_check(&device);
    rig_check(&other);
}

// Both are connected when the copy is made known to the gateway: the streams of one are fenced.
static void clones_that_are_connected_at_once_stay_exact(void **state)
{
    (void)state;
    rig_boot(&device);
    rig_offer(&device, 2, 100);
    rig_drain(&device, 100);
    rig_pass(&device, 5000);
    rig_clone(&other, &device);
    for (unsigned i = 0; i < 300; i++) {
        rig_offer(i % 2 == 0 ? &device : &other, 2, 400);
        rig_step_only(&device);
        rig_step_only(&other);
        rig_deliver_up(i % 3 == 0 ? &device : &other);
        rig_deliver_up(i % 3 == 0 ? &other : &device);
        rig_deliver_down(&device);
        rig_deliver_down(&other);
        device.now_us += 50000;
        other.now_us += 50000;
        if (i % 40 == 39) {
            rig_cut(i % 80 == 39 ? &device : &other);
        }
    }
    rig_cut(&device);
    rig_cut(&other);
    rig_drain(&device, 500);
    rig_drain(&other, 500);
    rig_check(&device);
    rig_check(&other);
    assert_true(rig_figures(&device).forks + rig_figures(&other).forks >= 1);
}

// The backup is of a moment when batches were queued that were delivered since.
static void restored_from_a_backup(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        restart();
        rig_boot(&device);
        device.offline = true;
        for (unsigned i = 0; i < 30; i++) {
            rig_offer(&device, 2, 1000);
        }
        dev_tunnel_flush(device.tunnel, device.now_us);
        rig_step_only(&device);
        rig_clone(&other, &device); // the backup
        device.offline = false;
        rig_drain(&device, 500);
        for (unsigned i = 0; i < more * 10; i++) {
            rig_offer(&device, 2, 1000);
        }
        rig_drain(&device, 500);
        rig_check(&device);
        rig_kill(&device);
        rig_offer(&other, 2, 1000);
        rig_drain(&other, 500);
        struct dev_tunnel_stats stats = rig_figures(&other);
        assert_int_equal(stats.classes[2].durable, 31);
        if (more == 0) { // the chain shows that what it has was delivered
            assert_int_equal(stats.forks, 0);
            rig_check(&other);
        } else { // the gateway is ahead: that cannot be compared, so it goes again, elsewhere
            assert_int_equal(stats.forks, 1);
            assert_int_equal(rig_rows_of(&gateway, other.tokens[2][0]), 2);
            assert_int_equal(rig_rows_of(&gateway, other.tokens[2][30]), 1);
        }
    }
}

// The other copy delivered the beginning of what this one sends before WELCOME comes; the rest of
// it is judged once, so a refusal comes once.
static void what_was_sent_before_welcome_goes_on(void **state)
{
    (void)state;
    rig_boot(&device);
    device.offline = true;
    rig_offer(&device, 0, 100);
    rig_step_only(&device);
    rig_clone(&other, &device);
    device.offline = false;
    rig_drain(&device, 500);
    for (unsigned i = 0; i < 3; i++) {
        rig_offer(&other, 0, 100);
    }
    gateway.bad_token = other.tokens[0][2];
    rig_drain(&other, 500);
    rig_check(&device);
    rig_check(&other);
    assert_int_equal(rig_figures(&other).rejects, 1);
    assert_int_equal(rig_figures(&other).bad_frames, 0);
    assert_int_equal(rig_figures(&other).forks, 0);
}

static void a_wiped_device_begins_anew(void **state)
{
    (void)state;
    rig_boot(&device);
    for (unsigned i = 0; i < 10; i++) {
        rig_offer(&device, 0, 100);
    }
    rig_drain(&device, 100);
    rig_boot(&other); // the same device, an empty store
    for (unsigned i = 0; i < 10; i++) {
        rig_offer(&other, 0, 100);
    }
    rig_drain(&other, 100);
    rig_check(&other);
    assert_int_not_equal(rig_figures(&device).classes[0].epoch,
                         rig_figures(&other).classes[0].epoch);
    assert_int_equal(rig_figures(&other).forks, 0);
}

static void a_gateway_that_forgot_is_noticed(void **state)
{
    (void)state;
    rig_boot(&device);
    for (unsigned i = 0; i < 10; i++) {
        rig_offer(&device, 0, 100);
        rig_drain(&device, 100);
    }
    gateway.mark_count = 0; // restored from an older state
    gateway.row_count = 0;
    rig_cut(&device);
    rig_offer(&device, 0, 100);
    rig_drain(&device, 500);
    assert_int_equal(rig_figures(&device).forks, 1);
    assert_int_equal(rig_rows_of(&gateway, device.tokens[0][10]), 1);
}

// ---- Refused records

static void a_refused_record_is_quarantined_and_the_rest_arrives(void **state)
{
    (void)state;
    for (unsigned nameless = 0; nameless < 2; nameless++) {
        restart();
        rig_boot(&device);
        gateway.reject_nameless = nameless == 1;
        for (unsigned i = 0; i < 200; i++) {
            rig_offer(&device, 2, 60);
        }
        gateway.bad_token = device.tokens[2][37];
        rig_drain(&device, 1000);
        rig_check(&device);
        struct dev_tunnel_stats stats = rig_figures(&device);
        assert_int_equal(stats.classes[2].lost[WIRE_TUNNEL_LOSS_REJECTED], 1);
        assert_int_equal(stats.classes[2].durable, 199);
        assert_int_equal(rig_rows_of(&gateway, gateway.bad_token), 0);
        assert_in_range(stats.rejects, nameless == 1 ? 5 : 1, nameless == 1 ? 8 : 1);
    }
}

// A task whose every record is refused does not hold up what others send in its class: 10,000 of
// them, and each good record between them has arrived a few round trips after it was offered.
static void refused_records_do_not_hold_up_the_others(void **state)
{
    enum { BAD = 10000, EACH = 20, GOOD = BAD / EACH, TURNS = 6, BATCH = 64, BAD_BYTES = 70 };
    (void)state;
    static uint64_t good[GOOD];
    uint32_t settled = 0; // of good: offered long enough ago
    uint32_t count = 0;
    uint32_t at[TURNS] = {0};
    rig_boot(&device);
    gateway.bad_size = BAD_BYTES;
    for (uint32_t i = 0; i < BAD + GOOD; i++) {
        bool is_good = i % (EACH + 1) == EACH;
        rig_offer(&device, 2, is_good ? 60 : BAD_BYTES);
        if (is_good) {
            good[count++] = device.tokens[2][i];
        }
        if (i % BATCH != BATCH - 1) {
            continue;
        }
        (void)rig_turn(&device);
        device.now_us += 10000;
        for (; settled < at[i / BATCH % TURNS]; settled++) {
            assert_int_equal(rig_rows_of(&gateway, good[settled]), 1);
        }
        at[i / BATCH % TURNS] = count;
    }
    rig_drain(&device, 1000);
    struct dev_tunnel_stats stats = rig_figures(&device);
    assert_int_equal(stats.classes[2].durable, GOOD);
    assert_int_equal(stats.classes[2].lost[WIRE_TUNNEL_LOSS_REJECTED], BAD);
    assert_int_equal(stats.bad_frames, 0);
    // A refused batch costs one answer.
    assert_in_range(stats.rejects, (BAD + GOOD) / BATCH, (BAD + GOOD) / BATCH + 2);
    rig_check(&device);
}

// A queue full of them, sent when the device comes back: as many round trips as there are windows.
static void a_queue_of_refused_records_goes_in_windows(void **state)
{
    enum { BATCHES = 150, BATCH = 64, BAD_BYTES = 70, WINDOWS = BATCHES / WIRE_TUNNEL_WINDOW + 1 };
    (void)state;
    device.offline = true;
    rig_boot(&device);
    for (uint32_t i = 0; i < BATCHES * BATCH; i++) {
        rig_offer(&device, 2, i % BATCH == BATCH / 2 ? 60 : BAD_BYTES);
        if (i % BATCH == BATCH - 1) {
            device.now_us += 10000;
            rig_step_only(&device);
        }
    }
    gateway.bad_size = BAD_BYTES;
    device.offline = false;
    device.now_us += 400000000; // no back-off
    uint32_t turns = 0;
    while (rig_figures(&device).classes[2].durable < BATCHES) {
        assert_in_range(++turns, 0, 4 * WINDOWS + 4);
        (void)rig_turn(&device);
        device.now_us += 10000;
    }
    assert_int_equal(rig_figures(&device).bad_frames, 0);
    rig_drain(&device, 1000);
    rig_check(&device);
}

struct found {
    uint32_t count;
    uint64_t token;
};

static bool visit(void *ctx, uint8_t class_id, enum base_status status, const uint8_t *payload,
                  size_t size)
{
    struct found *found = ctx;
    struct wire_batch batch;
    struct wire_record record;
    uint32_t bad = 0;
    assert_int_equal(class_id, 0);
    assert_int_equal(status, BASE_ERR_INVALID);
    assert_int_equal(wire_batch_parse(payload, size, &batch, &bad), BASE_OK);
    assert_true(wire_batch_next(&batch, &record));
    memcpy(&found->token, record.bytes, sizeof(found->token));
    found->count++;
    return true;
}

static void the_quarantine_keeps_the_newest(void **state)
{
    (void)state;
    rig_boot(&device);
    for (unsigned i = 0; i < DEV_TUNNEL_QUARANTINE_MAX + 5; i++) {
        rig_offer(&device, 0, i == 3 ? 20000 : 50); // one is cut off
        gateway.bad_token = device.tokens[0][i];
        rig_drain(&device, 100);
        if (i == 9) {
            rig_kill(&device);
            rig_boot(&device);
        }
    }
    rig_check(&device);
    struct found found = {0};
    assert_int_equal(dev_tunnel_quarantine(device.tunnel, device.now_us, visit, &found), BASE_OK);
    assert_int_equal(found.count, DEV_TUNNEL_QUARANTINE_MAX);
    assert_true(found.token == gateway.bad_token);
}

static void killed_while_a_batch_comes_apart(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 40; round++) {
        restart();
        rig_boot(&device);
        gateway.reject_nameless = round % 2 == 1;
        for (unsigned i = 0; i < 30; i++) {
            rig_offer(&device, 2, 60);
        }
        gateway.bad_token = device.tokens[2][11];
        device.kv.kill_at = device.kv.commits + 1 + round / 4;
        device.kv.kill_applied = round / 2 % 2 == 1;
        for (unsigned i = 0; i < 50 && !is_dead(&device); i++) {
            (void)rig_turn(&device);
            device.now_us += 500000;
        }
        finish(&device);
        assert_int_equal(rig_rows_of(&gateway, gateway.bad_token), 0);
    }
}

static void an_unknown_dictionary_loses_nothing(void **state)
{
    (void)state;
    gateway.dict = RIG_DICT;
    rig_boot(&device);
    for (unsigned i = 0; i < 20; i++) {
        rig_offer(&device, 0, 500);
        (void)rig_turn(&device);
    }
    rig_drain(&device, 100);
    assert_true(gateway.with_dict > 0);
    gateway.unknown_dict = true;
    for (unsigned i = 0; i < 20; i++) {
        rig_offer(&device, 0, 500);
        rig_step_only(&device); // several with the dictionary are under way
    }
    rig_drain(&device, 100);
    rig_check(&device);
    assert_int_equal(rig_figures(&device).needfulls, 1);
    assert_int_equal(rig_figures(&device).bad_frames, 0);
}

// ---- Large batches

static void a_large_batch_goes_in_chunks_and_is_resumed(void **state)
{
    (void)state;
    device.config.batch_bytes_max = 400 * 1024;
    device.no_codec = true;
    rig_boot(&device);
    rig_offer(&device, 2, 300 * 1024);
    device.up_max = 140 * 1024;
    rig_step_only(&device);
    rig_deliver_up(&device); // HELLO, BATCH and CHUNKs as far as the first credit goes
    assert_true(gateway.chunks >= 1);
    uint64_t sent = rig_figures(&device).classes[2].bytes_sent;
    rig_cut(&device);
    device.up_max = 0;
    rig_drain(&device, 200);
    rig_check(&device);
    assert_int_equal(rig_rows_of(&gateway, device.tokens[2][0]), 1);
    // It went on where it was interrupted.
    assert_true(rig_figures(&device).classes[2].bytes_sent - sent < 300 * 1024 - sent / 2);
}

static void a_large_batch_survives_a_kill(void **state)
{
    (void)state;
    device.config.batch_bytes_max = 200 * 1024;
    device.no_codec = true;
    rig_boot(&device);
    rig_offer(&device, 0, 150 * 1024);
    rig_offer(&device, 2, 100 * 1024); // shares the buffers
    rig_offer(&device, 0, 100);
    rig_step_only(&device);
    rig_deliver_up(&device);
    rig_kill(&device);
    rig_boot(&device);
    rig_offer(&device, 0, 150 * 1024);
    rig_drain(&device, 500);
    rig_check(&device);
}

// ---- Damage

static void damaged_rows_are_declared(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 200; round++) {
        restart();
        base_prng_seed(&device.prng, round);
        rig_boot(&device);
        rig_offer(&device, 2, 100);
        rig_drain(&device, 100);
        device.offline = true;
        for (unsigned i = 0; i < 60; i++) {
            rig_offer(&device, 2, 100 + i);
            dev_tunnel_flush(device.tunnel, device.now_us);
            rig_step_only(&device);
        }
        bool at_boot = round % 2 == 0;
        uint8_t key[9] = {2};
        for (unsigned hits = 0; hits < 1 + round % 3; hits++) {
            key[8] = (uint8_t)(1 + base_prng_below(&prng, 60));
            assert_int_equal(mem_kv_damage(&device.kv, DEV_SPACE_QUEUE, key, sizeof key,
                                           base_prng_below(&prng, round % 5 == 0 ? 48 : 140)),
                             BASE_OK);
        }
        if (round % 7 == 3) {
            assert_int_equal(mem_kv_damage(&device.kv, DEV_SPACE_STATE, "tunnel/2", 8, round % 60),
                             BASE_OK);
        }
        if (at_boot) {
            rig_kill(&device);
            device.token_count[2] += 100; // what was acknowledged may be forgotten with the state
            rig_boot(&device);
            device.token_count[2] -= 100;
        }
        device.offline = false;
        rig_drain(&device, 1000);
        uint32_t there = 0;
        for (uint32_t i = 0; i < 61; i++) {
            uint32_t rows = rig_rows_of(&gateway, device.tokens[2][i]);
            assert_true(rows <= 1);
            there += rows;
        }
        assert_in_range(there, 61 - 3, 61);
        // The last one's loss may not be countable when its head is what was damaged.
        assert_in_range(there + rig_lost(&device, 2), 60, 61);
    }
}

// The app was updated, and its batches may only be smaller from now on.
static void batches_of_a_larger_time_are_declared(void **state)
{
    (void)state;
    device.config.batch_bytes_max = 100 * 1024;
    device.no_codec = true;
    rig_boot(&device);
    device.offline = true;
    rig_offer(&device, 2, 100);
    rig_offer(&device, 2, 80 * 1024);
    rig_offer(&device, 2, 90 * 1024); // the last one: nothing behind it tells how many it held
    dev_tunnel_flush(device.tunnel, device.now_us);
    rig_step_only(&device);
    rig_kill(&device);
    device.config.batch_bytes_max = 0;
    device.offline = false;
    rig_boot(&device);
    rig_drain(&device, 500);
    rig_check(&device);
    assert_int_equal(rig_figures(&device).classes[2].lost[WIRE_TUNNEL_LOSS_DAMAGED], 2);
}

// ---- Lost connections, at random

static void anything_at_random(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 60; round++) {
        restart();
        base_prng_seed(&device.prng, base_prng_next(&prng));
        device.config.window = 1 + (uint32_t)base_prng_below(&prng, 64);
        device.config.one_stream = round % 2 == 0;
        device.config.open_records = 1 + (uint32_t)base_prng_below(&prng, 16);
        device.config.quota_bytes[3] = 4096;
        gateway.dict = round % 3 == 0 ? RIG_DICT : 0;
        rig_boot(&device);
        for (unsigned i = 0; i < 400; i++) {
            uint64_t what = base_prng_below(&prng, 100);
            if (what < 40) {
                rig_offer(&device, (uint8_t)base_prng_below(&prng, 4),
                          (uint32_t)base_prng_below(&prng, 700));
            } else if (what < 60) {
                (void)rig_turn(&device);
            } else if (what < 75) {
                rig_step_only(&device);
            } else if (what < 80) {
                rig_deliver_up(&device);
            } else if (what < 84) {
                rig_cut(&device);
            } else if (what < 86) {
                device.offline = !device.offline;
            } else if (what < 88) {
                gateway.silent = !gateway.silent;
            } else if (what < 89) {
                rig_kill(&device);
                rig_boot(&device);
            } else if (what < 90) {
                device.kv.fail_at = device.kv.commits + 1;
            } else if (what < 91) {
                gateway.bad_token =
                    device.token_count[2] > 0 ? device.tokens[2][device.token_count[2] - 1] : 0;
                gateway.reject_nameless = what % 2 == 0;
            } else if (what < 92) {
                gateway.unknown_dict = !gateway.unknown_dict;
            } else {
                device.now_us += base_prng_below(&prng, 3000000);
            }
        }
        gateway.silent = false;
        device.offline = false;
        rig_cut(&device);
        rig_drain(&device, 5000);
        // A row with a refused record may be there from before it was refused.
        rig_check(&device);
    }
}

// The stored state as it was before LOSS(starts) had its count.
static void state_make_older(struct mem_kv *kv, uint8_t class_id)
{
    const size_t kept = 1 + 4 + 7 * 8 + 7 * 8;
    char name[] = "tunnel/0";
    name[sizeof(name) - 2] = (char)('0' + class_id);
    struct mem_kv_space *space = &kv->spaces[DEV_SPACE_STATE];
    for (uint32_t i = 0; i < space->count; i++) {
        struct mem_kv_row *row = &space->rows[i];
        if (row->key_size == sizeof(name) - 1 && memcmp(row->bytes, name, row->key_size) == 0) {
            uint8_t *value = row->bytes + row->key_size;
            assert_int_equal(row->value_size, kept + 8 + 8);
            assert_int_equal(value[0], 2);
            value[0] = 1;
            uint64_t check = base_hash64_seed(value, kept, class_id);
            memcpy(value + kept, &check, sizeof(check));
            row->value_size = (uint32_t)(kept + 8);
            return;
        }
    }
    fail();
}

static void an_older_state_is_read(void **state)
{
    (void)state;
    rig_boot(&device);
    rig_offer(&device, 2, 100);
    rig_drain(&device, 3000);
    uint32_t epoch = rig_figures(&device).classes[2].epoch;
    dev_tunnel_flush(device.tunnel, device.now_us);
    rig_pass(&device, 3000); // what was acknowledged is stored
    rig_kill(&device);
    state_make_older(&device.kv, 2);
    rig_boot(&device);
    assert_int_equal(rig_figures(&device).classes[2].durable, 1);
    rig_unmade(&device, 2, 3);
    rig_offer(&device, 2, 100);
    rig_drain(&device, 3000);
    assert_int_equal(rig_figures(&device).classes[2].epoch, epoch); // nothing began anew
    assert_int_equal(rig_figures(&device).classes[2].lost[WIRE_TUNNEL_LOSS_STARTS], 3);
    rig_check(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_at_every_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_at_every_call_of_the_transport, setup, teardown),
        cmocka_unit_test_setup_teardown(every_commit_fails_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_that_fails_for_long_loses_nothing_unsaid, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_clone_gets_an_epoch_of_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(clones_that_are_connected_at_once_stay_exact, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(restored_from_a_backup, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_sent_before_welcome_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wiped_device_begins_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(a_gateway_that_forgot_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refused_record_is_quarantined_and_the_rest_arrives, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(refused_records_do_not_hold_up_the_others, setup, teardown),
        cmocka_unit_test_setup_teardown(a_queue_of_refused_records_goes_in_windows, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_quarantine_keeps_the_newest, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_while_a_batch_comes_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_dictionary_loses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_batch_goes_in_chunks_and_is_resumed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_large_batch_survives_a_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_rows_are_declared, setup, teardown),
        cmocka_unit_test_setup_teardown(batches_of_a_larger_time_are_declared, setup, teardown),
        cmocka_unit_test_setup_teardown(anything_at_random, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_state_is_read, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
