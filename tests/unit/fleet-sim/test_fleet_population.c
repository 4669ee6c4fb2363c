// The population: the same seed gives the same fleet, ids are unique, and shares are those of the
// tables.
#include "test_kit.h"

#include "model/population.h"

#define DEVICES 200000u

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void same_seed_same_fleet(void **state)
{
    (void)state;
    struct sim_population one = {.seed = 7, .beta_per_10000 = 100};
    struct sim_population other = {.seed = 8, .beta_per_10000 = 100};
    uint32_t different = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        struct sim_traits a, b, c;
        sim_population_draw(&one, i, &a);
        sim_population_draw(&one, i, &b);
        sim_population_draw(&other, i, &c);
        assert_memory_equal(a.value, b.value, sizeof(a.value));
        different += memcmp(a.value, c.value, sizeof(a.value)) != 0;
        assert_true(sim_population_device_id(&one, i) == sim_population_device_id(&one, i));
        assert_true(sim_population_device_id(&one, i) != sim_population_device_id(&other, i));
    }
    assert_true(different > 900);
}

static void ids_are_unique(void **state)
{
    (void)state;
    struct sim_population population = {.seed = 42};
    uint64_t *ids = malloc(sizeof(uint64_t) * DEVICES);
    assert_non_null(ids);
    for (uint32_t i = 0; i < DEVICES; i++) {
        ids[i] = sim_population_device_id(&population, i);
    }
    qsort(ids, DEVICES, sizeof(ids[0]), by_value);
    for (uint32_t i = 1; i < DEVICES; i++) {
        assert_true(ids[i - 1] != ids[i]);
    }
    free(ids);
}

// One in ten has the id of the one before it, and nothing else of it; of a hundred percent all but
// the first of each block.
static void clones_share_an_id(void **state)
{
    (void)state;
    static const struct {
        uint32_t ppm;
        uint32_t least;
        uint32_t most;
    } shares[] = {{0, 0, 0}, {100000, 900, 1100}, {1000000, 9800, 9900}};
    for (size_t s = 0; s < TEST_COUNT(shares); s++) {
        struct sim_population population = {.seed = 42, .clone_ppm = shares[s].ppm};
        const struct sim_population plain = {.seed = 42};
        uint32_t clones = 0;
        for (uint32_t i = 1; i < 10000; i++) {
            uint64_t id = sim_population_device_id(&population, i);
            bool clone = id == sim_population_device_id(&population, i - 1);
            assert_true(clone || id == sim_population_device_id(&plain, i));
            assert_int_equal(sim_population_shares_id(&population, i),
                             clone || id == sim_population_device_id(&population, i + 1));
            clones += clone;
        }
        assert_in_range(clones, shares[s].least, shares[s].most);
    }
}

// One in five, half of them as another one, never before the second wake.
static void some_are_installed_anew(void **state)
{
    (void)state;
    const struct sim_population population = {.seed = 42, .reinstall_ppm = 200000};
    const struct sim_population plain = {.seed = 42};
    uint32_t count = 0;
    uint32_t others = 0;
    uint32_t wakes[20] = {0};
    for (uint32_t i = 0; i < 10000; i++) {
        uint64_t id = sim_population_device_id(&population, i);
        uint64_t now = id;
        uint32_t when = sim_population_reinstalled(&population, i, &now);
        assert_in_range(when, 0, 12);
        wakes[when]++;
        count += when > 0;
        others += now != id;
        assert_int_equal(sim_population_reinstalled(&plain, i, &now), 0);
    }
    assert_in_range(count, 1850, 2150);
    assert_in_range(others, count * 45 / 100, count * 55 / 100);
    for (uint32_t when = 1; when <= 12; when++) {
        assert_in_range(wakes[when], 1, 300);
    }
}

// Share of devices with this value, in parts per thousand; `os` limits to one system.
static double share(const uint32_t counts[SIM_TRAIT_VALUES_MAX], uint32_t total, uint32_t value)
{
    return total > 0 ? 1000.0 * counts[value] / total : 0;
}

static uint32_t value_of(enum sim_trait trait, const char *text)
{
    for (uint32_t v = 0; v < sim_trait_value_count(NULL, trait); v++) {
        if (strcmp(sim_trait_text(NULL, trait, v), text) == 0) {
            return v;
        }
    }
    fail_msg("no value %s", text);
    return 0;
}

static void marginals_are_those_of_the_tables(void **state)
{
    (void)state;
    static const struct {
        enum sim_trait trait;
        const char *value;
        const char *os; // NULL: of all devices
        double share;   // parts per thousand
    } expected[] = {
        {SIM_TRAIT_OS, "android", NULL, 680},         {SIM_TRAIT_OS, "ios", NULL, 260},
        {SIM_TRAIT_OS, "harmony", NULL, 60},          {SIM_TRAIT_OS_VERSION, "10", "android", 80},
        {SIM_TRAIT_OS_VERSION, "14", "android", 260}, {SIM_TRAIT_OS_VERSION, "18.1", "ios", 450},
        {SIM_TRAIT_OS_VERSION, "10", "ios", 0},       {SIM_TRAIT_MODEL, "nova-go", "android", 90},
        {SIM_TRAIT_APP_VERSION, "9.3", NULL, 300},    {SIM_TRAIT_NETWORK, "wifi", NULL, 550},
        {SIM_TRAIT_REGION, "eu", NULL, 60},           {SIM_TRAIT_CHANNEL, "beta", NULL, 50},
    };
    struct sim_population population = {.seed = 3, .beta_per_10000 = 500};
    static uint32_t counts[2][SIM_TRAIT_COUNT][SIM_TRAIT_VALUES_MAX];
    for (size_t i = 0; i < TEST_COUNT(expected); i++) {
        uint32_t os = expected[i].os != NULL ? value_of(SIM_TRAIT_OS, expected[i].os) : 0;
        uint32_t total = 0;
        memset(counts, 0, sizeof(counts));
        for (uint32_t d = 0; d < DEVICES; d++) {
            struct sim_traits traits;
            sim_population_draw(&population, d, &traits);
            if (expected[i].os == NULL || traits.value[SIM_TRAIT_OS] == os) {
                counts[0][expected[i].trait][traits.value[expected[i].trait]]++;
                total++;
            }
        }
        double found = share(counts[0][expected[i].trait], total,
                             value_of(expected[i].trait, expected[i].value));
        // Five standard deviations of the smallest group drawn from here are below 6 per mille.
        if (found < expected[i].share - 12 || found > expected[i].share + 12) {
            fail_msg("%s: %.1f per mille, expected %.1f", expected[i].value, found,
                     expected[i].share);
        }
    }
}

static void widest_is_widest(void **state)
{
    (void)state;
    struct sim_traits widest;
    sim_population_widest(NULL, &widest);
    for (uint32_t t = 0; t < SIM_TRAIT_COUNT; t++) {
        enum sim_trait trait = (enum sim_trait)t;
        size_t size = strlen(sim_trait_text(NULL, trait, widest.value[t]));
        for (uint32_t v = 0; v < sim_trait_value_count(NULL, trait); v++) {
            assert_true(strlen(sim_trait_text(NULL, trait, v)) <= size);
        }
    }
}

static void attributes_agree(void **state)
{
    (void)state;
    struct sim_population population = {.seed = 11, .beta_per_10000 = 5000};
    for (uint32_t d = 0; d < 100; d++) {
        struct sim_traits traits;
        struct wire_attrs wire;
        struct pol_attr items[SIM_ATTRS_COUNT];
        struct pol_attrs attrs;
        sim_population_draw(&population, d, &traits);
        sim_traits_wire(&traits, &wire);
        sim_traits_policy(&traits, items, &attrs);
        assert_int_equal(wire.count, attrs.count);
        for (uint32_t i = 0; i < attrs.count; i++) {
            assert_int_equal(wire.items[i].name.size, items[i].name.size);
            assert_memory_equal(wire.items[i].name.data, items[i].name.data, items[i].name.size);
            if (items[i].value.type == POL_TYPE_INTEGER) {
                assert_true(wire.items[i].integer == items[i].value.integer);
            } else {
                assert_int_equal(wire.items[i].text.size, items[i].value.text.size);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_fleet),
        cmocka_unit_test(ids_are_unique),
        cmocka_unit_test(clones_share_an_id),
        cmocka_unit_test(some_are_installed_anew),
        cmocka_unit_test(marginals_are_those_of_the_tables),
        cmocka_unit_test(widest_is_widest),
        cmocka_unit_test(attributes_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
