// Saved states of devices: what comes out is what was put in, whatever it was, and devices that
// differ in little take little.
#include "test_kit.h"

#include "base/prng.h"
#include "ports/saved_states.h"
#include "ports/state_delta.h"

#define DEVICES     300u
#define STATE_BYTES 304u
#define PUTS        40000u
#define MANY        20000u

struct rig {
    struct test_alloc alloc;
    struct sim_states *states;
    struct base_prng prng;
};

static void rig_init(struct rig *rig)
{
    test_alloc_init(&rig->alloc, SIZE_MAX);
    base_prng_seed(&rig->prng, 17);
    assert_int_equal(sim_states_new(&rig->alloc.port, &rig->states), BASE_OK);
}

static void rig_done(struct rig *rig)
{
    sim_states_free(rig->states);
    assert_int_equal(rig->alloc.live, 0);
}

static void put(struct rig *rig, sim_state_ref *ref, const uint8_t *bytes, size_t size)
{
    assert_int_equal(sim_states_put(rig->states, ref, (struct base_span){bytes, size}, false),
                     BASE_OK);
    assert_int_not_equal(*ref, 0);
}

static void is_kept(struct rig *rig, sim_state_ref ref, const uint8_t *bytes, size_t size)
{
    static uint8_t out[SIM_STATE_BYTES_MAX];
    size_t got = SIZE_MAX;
    assert_int_equal(sim_states_get(rig->states, ref, out, sizeof(out), &got), BASE_OK);
    assert_int_equal(got, size);
    assert_memory_equal(out, bytes, size);
}

// As the runtime's are: alike but for what is a device's own, with a checksum behind.
static void state_of(struct rig *rig, uint8_t out[STATE_BYTES])
{
    for (uint32_t i = 0; i < STATE_BYTES; i++) {
        out[i] = (uint8_t)(i * 7);
    }
    for (uint32_t i = 0; i < 4; i++) {
        out[4 + i] = (uint8_t)base_prng_next(&rig->prng);
    }
    for (uint32_t i = 0; i < 8; i++) {
        out[34 + i] = (uint8_t)base_prng_next(&rig->prng);
    }
    sim_state_seal(out, STATE_BYTES);
}

static void alike_devices_take_a_cell(void **test)
{
    (void)test;
    struct rig rig;
    rig_init(&rig);
    static uint8_t bytes[DEVICES][STATE_BYTES];
    sim_state_ref refs[DEVICES] = {0};
    for (uint32_t turn = 0; turn < 3; turn++) { // the last ones stand
        for (uint32_t i = 0; i < DEVICES; i++) {
            state_of(&rig, bytes[i]);
            put(&rig, &refs[i], bytes[i], STATE_BYTES);
        }
    }
    struct sim_states_stats stats = sim_states_stats(rig.states);
    assert_int_equal(stats.kept, DEVICES);
    assert_int_equal(stats.whole, 0);
    assert_int_equal(stats.bases, 1);
    assert_int_equal(stats.cells, DEVICES);
    assert_int_equal(stats.mismatches, 0);
    for (uint32_t i = 0; i < DEVICES; i++) {
        is_kept(&rig, refs[i], bytes[i], STATE_BYTES);
        sim_states_drop(rig.states, &refs[i]);
    }
    assert_int_equal(sim_states_stats(rig.states).cells, 0);
    rig_done(&rig);
}

// Where devices differ is kept once for all of them: of each is kept what it has there.
static void places_are_kept_once(void **test)
{
    (void)test;
    struct rig rig;
    rig_init(&rig);
    static uint8_t bytes[MANY][STATE_BYTES];
    static sim_state_ref refs[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        state_of(&rig, bytes[i]);
        for (uint32_t k = 0; k < 2 && i % 3 == 2; k++) { // a third differs in one place more
            bytes[i][200 + k] = (uint8_t)base_prng_next(&rig.prng);
        }
        sim_state_seal(bytes[i], STATE_BYTES);
        put(&rig, &refs[i], bytes[i], STATE_BYTES);
    }
    struct sim_states_stats stats = sim_states_stats(rig.states);
    print_message("%.1f bytes a state\n", (double)stats.bytes / MANY);
    assert_true(stats.bytes <= 18 * (uint64_t)MANY); // 3, and 12 or 14 of its own
    assert_int_equal(stats.mismatches, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        is_kept(&rig, refs[i], bytes[i], STATE_BYTES);
        sim_states_drop(rig.states, &refs[i]);
    }
    rig_done(&rig);
}

// A block, and which of its bytes are others than the base's. False: the delta has no shape.
static bool draw_shape(struct rig *rig, uint8_t block[STATE_BYTES], bool differs[STATE_BYTES],
                       struct sim_delta_shape *out)
{
    static const uint8_t base[STATE_BYTES];
    uint8_t delta[2 * STATE_BYTES];
    const uint32_t runs = (uint32_t)base_prng_below(&rig->prng, 20);
    memset(block, 0, STATE_BYTES);
    for (uint32_t i = 0; i < runs; i++) {
        const uint32_t at = (uint32_t)base_prng_below(&rig->prng, STATE_BYTES);
        const uint32_t count =
            (uint32_t)base_prng_below(&rig->prng, 1u << base_prng_below(&rig->prng, 6));
        for (uint32_t k = at; k < at + count && k < STATE_BYTES; k++) {
            block[k] = (uint8_t)(1 + base_prng_below(&rig->prng, 255));
        }
    }
    for (uint32_t i = 0; i < STATE_BYTES; i++) {
        differs[i] = block[i] != 0;
    }
    size_t size = sim_delta_find(base, block, STATE_BYTES, delta, sizeof(delta));
    assert_int_not_equal(size, SIZE_MAX);
    return sim_shape_of(delta, size, out);
}

static void shapes_match_a_list_of_places(void **test)
{
    (void)test;
    struct rig rig;
    uint32_t shaped = 0;
    uint32_t covering = 0;
    rig_init(&rig);
    for (uint32_t turn = 0; turn < 20000; turn++) {
        struct sim_delta_shape shapes[2];
        uint8_t blocks[2][STATE_BYTES];
        uint8_t again[STATE_BYTES] = {0};
        uint8_t bytes[SIM_SHAPE_BYTES_MAX];
        bool differs[2][STATE_BYTES];
        bool in_shape[STATE_BYTES] = {false};
        bool all = true;
        if (!draw_shape(&rig, blocks[0], differs[0], &shapes[0]) ||
            !draw_shape(&rig, blocks[1], differs[1], &shapes[1])) {
            continue;
        }
        shaped++;
        sim_shape_take(&shapes[0], blocks[0], bytes);
        sim_shape_put(&shapes[0], bytes, again);
        assert_memory_equal(again, blocks[0], STATE_BYTES);
        for (uint32_t i = 0; i < shapes[0].run_count; i++) {
            memset(&in_shape[shapes[0].runs[i].at], true, shapes[0].runs[i].count);
        }
        for (uint32_t i = 0; i < shapes[1].run_count; i++) {
            for (uint32_t k = 0; k < shapes[1].runs[i].count; k++) {
                all = all && in_shape[shapes[1].runs[i].at + k];
            }
        }
        assert_int_equal(sim_shape_covers(&shapes[0], &shapes[1]), all);
        assert_true(sim_shape_covers(&shapes[0], &shapes[0]));
        covering += all;
    }
    assert_true(shaped > 5000 && covering > 100 && covering < shaped / 2);
    rig_done(&rig);
}

// Sizes and bytes that fit into nothing: few values, so that runs of equal bytes are of all
// lengths, and now and then a checksum that holds.
static size_t draw(struct rig *rig, uint8_t *out, uint32_t size_max)
{
    static const uint32_t around[] = {0, 1, 7, 8, 9, 19, 20, 21, 24, 40, 64, 300, 4095, 4096, 4097};
    uint64_t drawn = base_prng_next(&rig->prng);
    size_t size = drawn % 4 == 0 ? around[(drawn >> 8) % (sizeof(around) / sizeof(around[0]))]
                                 : (drawn >> 8) % 400;
    size = drawn % 1024 == 1 ? size_max : size;
    uint32_t values = (uint32_t)((drawn >> 32) % 4) * 85 + 1; // 1: all zero
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)base_prng_below(&rig->prng, values);
    }
    if (drawn >> 62 == 0 && size >= SIM_STATE_SEAL_BYTES) {
        sim_state_seal(out, size);
    }
    return size;
}

static void any_bytes_come_back(void **test)
{
    (void)test;
    struct rig rig;
    rig_init(&rig);
    static uint8_t bytes[32][SIM_STATE_BYTES_MAX];
    size_t sizes[32];
    sim_state_ref refs[32] = {0};
    for (uint32_t i = 0; i < PUTS; i++) {
        uint32_t device = (uint32_t)base_prng_below(&rig.prng, 32);
        if (refs[device] != 0) {
            is_kept(&rig, refs[device], bytes[device], sizes[device]);
        }
        if (base_prng_below(&rig.prng, 8) == 0) {
            sim_states_drop(rig.states, &refs[device]);
            continue;
        }
        sizes[device] = draw(&rig, bytes[device], SIM_STATE_BYTES_MAX);
        put(&rig, &refs[device], bytes[device], sizes[device]);
    }
    struct sim_states_stats stats = sim_states_stats(rig.states);
    assert_true(stats.bases > 100);
    assert_true(stats.whole > 0 && stats.whole < stats.kept);
    assert_true(stats.checked >= stats.puts / SIM_STATE_CHECK_EVERY);
    assert_int_equal(stats.mismatches, 0);
    for (uint32_t i = 0; i < 32; i++) {
        sim_states_drop(rig.states, &refs[i]);
    }
    stats = sim_states_stats(rig.states);
    assert_int_equal(stats.kept, 0);
    assert_int_equal(stats.whole, 0);
    assert_int_equal(stats.cells, 0);
    rig_done(&rig);
}

// Cells that were given back are used again.
static void what_is_dropped_leaves_room(void **test)
{
    (void)test;
    struct rig rig;
    rig_init(&rig);
    static const uint8_t bytes[SIM_STATE_BYTES_MAX] = {1};
    sim_state_ref refs[2] = {0};
    put(&rig, &refs[0], bytes, sizeof(bytes));
    put(&rig, &refs[1], bytes, sizeof(bytes));
    uint64_t memory = sim_states_stats(rig.states).bytes;
    for (uint32_t i = 0; i < 100; i++) {
        sim_states_drop(rig.states, &refs[i % 2]);
        put(&rig, &refs[i % 2], bytes, sizeof(bytes));
    }
    assert_int_equal(sim_states_stats(rig.states).bytes, memory);
    rig_done(&rig);
}

static void who_shares_nothing_has_no_base(void **test)
{
    (void)test;
    struct rig rig;
    rig_init(&rig);
    uint8_t bytes[STATE_BYTES];
    sim_state_ref ref = 0;
    state_of(&rig, bytes);
    const struct base_span state = {bytes, STATE_BYTES};
    assert_int_equal(sim_states_put(rig.states, &ref, state, true), BASE_OK);
    assert_int_equal(sim_states_stats(rig.states).bases, 0);
    assert_int_equal(sim_states_stats(rig.states).whole, 1);
    is_kept(&rig, ref, bytes, STATE_BYTES);
    size_t size = 0;
    assert_int_equal(sim_states_get(rig.states, ref, bytes, STATE_BYTES - 1, &size),
                     BASE_ERR_TOO_LARGE);
    assert_int_equal(sim_states_get(rig.states, 0, bytes, STATE_BYTES, &size), BASE_ERR_NOT_FOUND);
    rig_done(&rig);
}

// What a device had stays when there is no memory for what it has now.
static void every_allocation_may_fail(void **test)
{
    (void)test;
    bool all = false;
    for (size_t allowed = 0; !all; allowed++) {
        struct rig rig = {.states = NULL};
        uint8_t before[STATE_BYTES];
        static uint8_t after[SIM_STATE_BYTES_MAX];
        sim_state_ref ref = 0;
        base_prng_seed(&rig.prng, allowed);
        test_alloc_init(&rig.alloc, allowed);
        if (sim_states_new(&rig.alloc.port, &rig.states) != BASE_OK) {
            assert_int_equal(rig.alloc.live, 0);
            continue;
        }
        state_of(&rig, before);
        const struct base_span first = {before, sizeof(before)};
        const struct base_span second = {after, sizeof(after)};
        bool kept = sim_states_put(rig.states, &ref, first, false) == BASE_OK;
        bool more = true;
        for (uint32_t i = 0; i < 8 && kept && more; i++) { // more than a chunk of cells
            sim_state_ref other = 0;
            more = sim_states_put(rig.states, &other, second, false) == BASE_OK;
        }
        all = more && kept && sim_states_put(rig.states, &ref, second, false) == BASE_OK;
        assert_int_equal(ref != 0, kept);
        if (kept) {
            is_kept(&rig, ref, all ? after : before, all ? sizeof(after) : sizeof(before));
        }
        rig_done(&rig);
    }
}

static void what_is_no_delta_is_refused(void **test)
{
    (void)test;
    uint8_t bytes[10] = {0};
    const uint8_t beyond[] = {5, 6, 1, 2, 3, 4, 5, 6};
    const uint8_t cut[] = {1, 3, 1};
    const uint8_t good[] = {1, 2, 8, 9, 6, 1, 7};
    assert_false(sim_delta_apply(beyond, sizeof(beyond), bytes, sizeof(bytes)));
    assert_false(sim_delta_apply(cut, sizeof(cut), bytes, sizeof(bytes)));
    memset(bytes, 0, sizeof(bytes));
    assert_true(sim_delta_apply(good, sizeof(good), bytes, sizeof(bytes)));
    const uint8_t wanted[10] = {0, 8, 9, 0, 0, 0, 0, 0, 0, 7};
    assert_memory_equal(bytes, wanted, sizeof(wanted));
    uint8_t delta[16];
    const uint8_t zero[10] = {0};
    assert_int_equal(sim_delta_find(zero, wanted, sizeof(zero), delta, sizeof(delta)),
                     sizeof(good));
    assert_memory_equal(delta, good, sizeof(good));
    assert_int_equal(sim_delta_find(zero, wanted, sizeof(zero), delta, sizeof(good) - 1), SIZE_MAX);
    assert_int_equal(sim_delta_find(zero, zero, sizeof(zero), delta, sizeof(delta)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alike_devices_take_a_cell),
        cmocka_unit_test(places_are_kept_once),
        cmocka_unit_test(shapes_match_a_list_of_places),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(what_is_dropped_leaves_room),
        cmocka_unit_test(who_shares_nothing_has_no_base),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_is_no_delta_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
