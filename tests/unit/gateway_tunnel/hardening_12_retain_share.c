// Unproven devices write a share of the segment log in a day and no more; that it is used up costs
// nobody else; the next day has one of its own. Below the floor of the disk nobody writes.
#include "tunnel_rig.h"

#include "test_kit.h"

#define RETAIN   200000u
#define PERCENT  10u
#define STRANGER UINT64_C(0x51)
#define PROVEN   UINT64_C(0x52)

static struct tunnel_rig rig;
static struct tunnel_rig_stream stranger;
static struct tunnel_rig_stream proven;
static struct wire_tunnel_welcome_class welcome;

static uint64_t refused(void)
{
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(rig.tunnel, &stats);
    return stats.no_room_total;
}

static void greet(struct tunnel_rig_stream *stream, struct tunnel_rig_device *device, uint64_t id,
                  uint32_t epoch, bool unproven)
{
    stream->unproven = unproven;
    tunnel_rig_device(device, id, 2, epoch);
    tunnel_rig_open(&rig, stream, 0, id);
    tunnel_rig_greet(stream, device, &welcome);
}

// Batches until one is refused, at most `most`. Returns how many were taken.
static uint32_t send_many(struct tunnel_rig_stream *stream, struct tunnel_rig_device *device,
                          uint32_t most)
{
    uint64_t before = refused();
    uint32_t sent = 0;
    while (sent < most && refused() == before) {
        tunnel_rig_send_batch(stream, device, sent);
        sent++;
        rig.mono_us += 100000; // no faster than a device may
    }
    return refused() == before ? sent : sent - 1;
}

static void test_share(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct tunnel_rig_device other;
    struct tunnel_rig_device again;
    tunnel_rig_init(&rig);
    rig.options.retain_bytes = RETAIN;
    rig.options.unproven_percent = PERCENT;
    tunnel_rig_start(&rig, true);
    greet(&stranger, &device, STRANGER, 1, true);
    greet(&proven, &other, PROVEN, 1, false);
    uint32_t taken = send_many(&stranger, &device, 1000);
    assert_in_range(taken, 1, RETAIN / 100 * PERCENT / 100);
    assert_int_equal(refused(), 1);
    assert_true(stranger.ended); // told to come back later
    assert_int_equal(send_many(&proven, &other, 100), 100);
    tunnel_rig_close(&stranger);
    rig.mono_us += GW_TUNNEL_DAY_US;
    greet(&stranger, &again, STRANGER, 2, true);
    assert_int_equal(send_many(&stranger, &again, 1000), taken);
    tunnel_rig_close(&stranger);
    tunnel_rig_close(&proven);
    tunnel_rig_done(&rig);
}

static void test_floor(void **state)
{
    (void)state;
    struct tunnel_rig_device device;
    struct gw_tunnel_stats stats;
    tunnel_rig_init(&rig);
    rig.options.keep_free_bytes = UINT64_C(1) << 60;
    tunnel_rig_start(&rig, true);
    greet(&proven, &device, PROVEN, 1, false);
    assert_int_equal(send_many(&proven, &device, 10), 0);
    gw_tunnel_stats(rig.tunnel, &stats);
    assert_int_equal(stats.batches_total, 0);
    assert_true(stats.retain_bytes > 0 && stats.disk_free > 0);
    tunnel_rig_close(&proven);
    tunnel_rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
