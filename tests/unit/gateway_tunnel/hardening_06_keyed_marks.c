// Devices of the tunnel whose ids were chosen: all in one shard of the marks, at one place in it,
// under the mix that the table used to have. In the keyed table they scatter; what is asked for is
// found; the checkpoint's walk gives every one of them back.
#include "tunnel/mark/marks.h"

#include "test_kit.h"

#define CHOSEN 12000u

static const struct base_hash_key key = {0x1234567890abcdef, 0xfedcba0987654321};

static uint64_t undo_shift(uint64_t x, int shift)
{
    uint64_t y = x;
    for (int done = shift; done < 64; done += shift) {
        y = x ^ (y >> shift);
    }
    return y;
}

static uint64_t chosen_id(uint32_t i)
{
    uint64_t place = (uint64_t)i << 10 & UINT32_MAX; // shard 0; the place is the high half's: 0
    uint64_t x = undo_shift(place, 31) * UINT64_C(0x319642b2d24d8ec3);
    x = undo_shift(x, 27) * UINT64_C(0x96de1b173f119089);
    return undo_shift(x, 30) - UINT64_C(0x9e3779b97f4a7c15);
}

static void count_one(void *ctx, uint64_t device, uint8_t class_id, const struct gw_mark *mark)
{
    uint64_t *sum = ctx;
    assert_int_equal(class_id, 1 + device % 3);
    assert_int_equal(mark->epoch, (uint32_t)device);
    *sum += device;
}

static void test_marks(void **state)
{
    (void)state;
    struct gw_marks *marks = NULL;
    uint64_t wanted = 0;
    uint64_t found = 0;
    uint32_t shards_used = 0;
    assert_int_equal(gw_marks_new(&key, &marks), BASE_OK);
    for (uint32_t i = 0; i < CHOSEN; i++) {
        uint64_t device = chosen_id(i);
        struct gw_mark *mark;
        assert_int_equal(base_mix64(device) & (GW_MARK_SHARDS - 1), 0);
        struct gw_mark_shard *shard = gw_marks_lock(marks, device);
        assert_int_equal(
            gw_mark_make(shard, device, (uint8_t)(1 + device % 3), (uint32_t)device, &mark),
            BASE_OK);
        gw_marks_unlock(shard);
        wanted += device;
    }
    for (uint32_t i = 0; i < GW_MARK_SHARDS; i++) {
        struct gw_mark_shard *shard = gw_marks_lock_index(marks, i);
        gw_mark_walk(shard, count_one, &found);
        shards_used += shard->count > 0;
        gw_marks_unlock(shard);
    }
    struct gw_marks_stats stats;
    gw_marks_stats(marks, &stats);
    assert_true(gw_marks_validate(marks));
    assert_int_equal(stats.marks, CHOSEN);
    assert_int_equal(found, wanted);
    assert_true(shards_used > GW_MARK_SHARDS / 2);
    assert_int_equal(stats.probes_long, 0);
    gw_marks_free(marks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
