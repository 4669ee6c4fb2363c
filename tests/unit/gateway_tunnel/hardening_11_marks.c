// Marks of devices that did not show who they are: bounded, and ended when nothing came for long.
// Those of proven devices stay, whatever the others do; what a stranger made and the device itself
// took over is the device's; all of it over a restart.
#include "tunnel_rig.h"

#include "test_kit.h"
#include "tunnel/mark/marks.h"

#include <unistd.h>

#define BOUND     120u
#define EXPIRE_S  1000u
#define CLASS     2
#define STRANGERS UINT64_C(0x5000)
#define PROVEN    UINT64_C(0x9000)
#define WAITS_MAX 6000 // of 10 ms

static struct tunnel_rig rig;
static struct tunnel_rig_stream stream;
static struct tunnel_rig_device device;

static struct gw_tunnel_stats stats_now(void)
{
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(rig.tunnel, &stats);
    return stats;
}

static void start(void)
{
    rig.options.unproven_marks = BOUND;
    rig.options.unproven_expire_s = EXPIRE_S;
    rig.options.keeper_look_us = 1000;
    tunnel_rig_start(&rig, true);
}

static bool is_known(uint64_t id, uint64_t batches)
{
    uint64_t high_water = 0;
    uint64_t hash;
    return gw_tunnel_high_water(rig.tunnel, &(struct gw_mark_key){id, CLASS, 1}, &high_water,
                                &hash) &&
           high_water == batches;
}

// Until its batches are durable, or the stream has ended without.
static bool settles(uint64_t id, uint64_t batches)
{
    for (int i = 0; i < WAITS_MAX && !is_known(id, batches) && !stream.ended; i++) {
        (void)tunnel_rig_pump(&rig, 0);
        usleep(1000);
    }
    return is_known(id, batches);
}

// The next batch of a device, in a stream of its own. False: it was told to come later.
static bool send_next(struct tunnel_rig_device *of, bool unproven)
{
    struct wire_tunnel_welcome_class welcome;
    stream.unproven = unproven;
    tunnel_rig_open(&rig, &stream, 0, of->device);
    tunnel_rig_greet(&stream, of, &welcome);
    tunnel_rig_send_batch(&stream, of, of->device);
    bool taken = settles(of->device, of->next);
    tunnel_rig_close(&stream);
    rig.mono_us += 1000000;
    return taken;
}

static bool send_one(uint64_t id, bool unproven)
{
    tunnel_rig_device(&device, id, CLASS, 1);
    return send_next(&device, unproven);
}

// The keeper looks by itself.
static void wait_for_marks(uint64_t wanted)
{
    for (int i = 0; i < WAITS_MAX && stats_now().marks != wanted; i++) {
        usleep(10000);
    }
    assert_int_equal(stats_now().marks, wanted);
}

static void test_bounded(void **state)
{
    (void)state;
    tunnel_rig_init(&rig);
    start();
    struct tunnel_rig_device first;
    tunnel_rig_device(&first, STRANGERS, CLASS, 1);
    assert_true(send_next(&first, true));
    for (uint64_t i = 1; i < BOUND; i++) {
        assert_true(send_one(STRANGERS + i, true));
    }
    assert_int_equal(stats_now().unproven_marks, BOUND);
    assert_false(send_one(STRANGERS + BOUND, true));
    assert_false(is_known(STRANGERS + BOUND, 1));
    assert_true(send_one(PROVEN, false));  // nobody else's loss
    assert_true(send_next(&first, false)); // shows who it is now: a place is free
    assert_int_equal(stats_now().unproven_marks, BOUND - 1);
    assert_true(send_one(STRANGERS + BOUND, true));
    assert_true(gw_tunnel_validate(rig.tunnel));
    tunnel_rig_done(&rig);
}

static void test_ended(void **state)
{
    (void)state;
    tunnel_rig_init(&rig);
    start();
    struct tunnel_rig_device first;
    tunnel_rig_device(&first, STRANGERS, CLASS, 1);
    assert_true(send_next(&first, true));
    for (uint64_t i = 1; i < BOUND; i++) {
        assert_true(send_one(STRANGERS + i, true));
        assert_true(send_one(PROVEN + i, false));
    }
    assert_true(send_next(&first, false)); // the device itself
    rig.wall_us += UINT64_C(1000000) * EXPIRE_S / 2;
    tunnel_rig_stop(&rig); // over a restart
    start();
    assert_int_equal(stats_now().unproven_marks, BOUND - 1);
    rig.wall_us += UINT64_C(1000000) * EXPIRE_S;
    wait_for_marks(BOUND);
    assert_int_equal(stats_now().unproven_marks, 0);
    assert_int_equal(stats_now().expired_marks, BOUND - 1);
    assert_true(gw_tunnel_validate(rig.tunnel));
    assert_true(is_known(STRANGERS, 2));
    for (uint64_t i = 1; i < BOUND; i++) {
        assert_true(is_known(PROVEN + i, 1));
        assert_false(is_known(STRANGERS + i, 1));
    }
    tunnel_rig_stop(&rig); // what an older checkpoint still has ends again
    start();
    wait_for_marks(BOUND);
    assert_true(send_one(STRANGERS + 1, true)); // it begins anew
    tunnel_rig_done(&rig);
}

// ---- Several epochs of a device: those aside are found through the current one

static struct gw_marks *marks;

// Use in a period, at a mark's shard.
static void use_in(uint64_t period, uint64_t id, uint32_t epoch, bool unproven)
{
    gw_marks_set_period(marks, period);
    struct gw_mark_shard *shard = gw_marks_lock(marks, id);
    assert_int_equal(gw_mark_use(shard, id, CLASS, epoch, unproven), BASE_OK);
    gw_mark_find(shard, id, CLASS, epoch)->high_water = epoch + 10;
    gw_marks_unlock(shard);
}

static uint32_t expire_in(uint64_t period, uint64_t id)
{
    gw_marks_set_period(marks, period);
    struct gw_mark_shard *shard = gw_marks_lock(marks, id);
    uint32_t ended = gw_mark_expire(shard);
    gw_marks_unlock(shard);
    assert_true(gw_marks_validate(marks));
    return ended;
}

static bool is_marked(uint64_t id, uint32_t epoch)
{
    struct gw_mark_shard *shard = gw_marks_lock(marks, id);
    const struct gw_mark *mark = gw_mark_find(shard, id, CLASS, epoch);
    bool found = mark != NULL && mark->high_water == epoch + 10;
    gw_marks_unlock(shard);
    return found;
}

static void test_epochs_aside(void **state)
{
    (void)state;
    const struct base_hash_key key = {1, 2};
    struct gw_marks_stats stats;
    assert_int_equal(gw_marks_new(&key, &marks), BASE_OK);
    // A stranger's epoch came after the device's own: it stays for that one's sake.
    use_in(0, PROVEN, 1, false);
    use_in(0, PROVEN, 2, true);
    assert_int_equal(expire_in(3, PROVEN), 0);
    assert_true(is_marked(PROVEN, 1) && is_marked(PROVEN, 2));
    // Strangers alone: both end, the one aside first, or that one alone when the other was used.
    use_in(0, STRANGERS, 1, true);
    use_in(0, STRANGERS, 2, true);
    assert_int_equal(expire_in(3, STRANGERS), 2);
    assert_false(is_marked(STRANGERS, 1) || is_marked(STRANGERS, 2));
    use_in(0, STRANGERS, 3, true);
    use_in(1, STRANGERS, 4, true);
    assert_int_equal(expire_in(3, STRANGERS), 1);
    assert_false(is_marked(STRANGERS, 3));
    assert_true(is_marked(STRANGERS, 4));
    assert_int_equal(expire_in(4, STRANGERS), 1);
    assert_false(is_marked(STRANGERS, 4));
    gw_marks_stats(marks, &stats);
    assert_int_equal(stats.marks, 1);
    assert_int_equal(stats.asides, 1);
    assert_int_equal(stats.unproven, 1);
    assert_int_equal(stats.expired, 4);
    gw_marks_free(marks);
}

static void test_used_ones_stay(void **state)
{
    (void)state;
    struct wire_tunnel_welcome_class welcome;
    tunnel_rig_init(&rig);
    start();
    assert_true(send_one(STRANGERS, true));
    stream.unproven = true;
    tunnel_rig_device(&device, STRANGERS + 1, CLASS, 1);
    tunnel_rig_open(&rig, &stream, 0, STRANGERS + 1);
    tunnel_rig_greet(&stream, &device, &welcome);
    tunnel_rig_send_batch(&stream, &device, 1);
    assert_true(settles(STRANGERS + 1, 1));
    rig.wall_us += UINT64_C(1000000) * EXPIRE_S * 3 / 2;
    wait_for_marks(1); // the one whose stream is open
    rig.mono_us += 1000000;
    tunnel_rig_send_batch(&stream, &device, 2);
    assert_true(settles(STRANGERS + 1, 2));
    tunnel_rig_close(&stream);
    assert_true(gw_tunnel_validate(rig.tunnel));
    tunnel_rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_ended),
        cmocka_unit_test(test_used_ones_stay),
        cmocka_unit_test(test_epochs_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
