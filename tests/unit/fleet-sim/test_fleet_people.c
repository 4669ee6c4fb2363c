// Populations from files: shares are those of the rows, what belongs together stays together, the
// files that ship are good, and whatever is wrong with one is named with its line.
#include "test_kit.h"

#include "model/population.h"

#include <math.h>

#define DEVICES 100000u

static const char small[] = "# two systems\n"
                            "table os os_version ram_mb\n"
                            "30 android 13 2048\n"
                            "50 android 14 4096\n"
                            "20 ios 18.1 4096 # the rest\n"
                            "table region\n"
                            "1 eu\n"
                            "3 us\n"
                            "table network chip given os region\n"
                            "1 android eu 3g sd\n"
                            "1 android us wifi sd\n"
                            "9 ios us wifi -\n"
                            "1 ios us 5g a18\n"
                            "5 ios eu 5g a18\n"
                            "zone us -6\n"
                            "network 3g delay_ms=150 jitter_ms=9 loss=2.5% bad=0.08 bad_loss=25% "
                            "down_kbps=1500 up_kbps=500 offline=1%\n";

static struct sim_people *read_people(const char *text)
{
    struct base_error error = {.text = ""};
    struct sim_people *people = NULL;
    if (sim_people_parse("file", base_str_of(text), &people, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return people;
}

static const char *text_of(const struct sim_traits *traits, enum sim_trait trait)
{
    return sim_trait_text(traits->people, trait, traits->value[trait]);
}

static void share_is(const char *what, uint32_t count, double share)
{
    double by = 4 * sqrt(share * (1 - share) / DEVICES);
    if (!(fabs((double)count / DEVICES - share) <= by)) {
        fail_msg("%s: %.4f, not %.4f", what, (double)count / DEVICES, share);
    }
}

static void shares_are_those_of_the_rows(void **state)
{
    (void)state;
    struct sim_people *people = read_people(small);
    const struct sim_population population = {.seed = 5, .people = people};
    uint32_t old = 0, ios_us_wifi = 0, ios_us = 0, eu = 0;
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct sim_traits traits;
        sim_population_draw(&population, i, &traits);
        bool ios = strcmp(text_of(&traits, SIM_TRAIT_OS), "ios") == 0;
        bool us = strcmp(text_of(&traits, SIM_TRAIT_REGION), "us") == 0;
        bool wifi = strcmp(text_of(&traits, SIM_TRAIT_NETWORK), "wifi") == 0;
        old += strcmp(text_of(&traits, SIM_TRAIT_OS_VERSION), "13") == 0;
        eu += !us;
        ios_us += ios && us;
        ios_us_wifi += ios && us && wifi;
        // Rows are joint, and a table holds for what is given.
        assert_true(ios == (strcmp(text_of(&traits, SIM_TRAIT_OS_VERSION), "18.1") == 0));
        assert_true(ios || us == wifi);
        assert_int_equal(traits.value[SIM_TRAIT_CHIP] == SIM_TRAIT_ABSENT, ios && us && wifi);
        assert_int_equal(traits.value[SIM_TRAIT_MODEL], SIM_TRAIT_ABSENT);
        assert_int_equal(sim_traits_zone(&traits), us ? 18 : 0);
    }
    share_is("13", old, 0.3);
    share_is("eu", eu, 0.25);
    share_is("ios, us", ios_us, 0.15);
    share_is("ios, us, wifi", ios_us_wifi, 0.135);
    sim_people_free(people);
}

static void attributes_are_those_that_there_are(void **state)
{
    (void)state;
    struct sim_people *people = read_people(small);
    const struct sim_population population = {.seed = 5, .people = people};
    struct sim_traits widest;
    uint8_t bytes[WIRE_ATTRS_BYTES_MAX];
    for (uint32_t i = 0; i < 100; i++) {
        struct sim_traits traits;
        struct wire_attrs wire, again;
        struct pol_attr items[SIM_ATTRS_COUNT];
        struct pol_attrs attrs;
        struct base_writer writer;
        sim_population_draw(&population, i, &traits);
        sim_traits_wire(&traits, &wire);
        sim_traits_policy(&traits, items, &attrs);
        bool chip = traits.value[SIM_TRAIT_CHIP] != SIM_TRAIT_ABSENT;
        assert_int_equal(wire.count, 6 + chip); // five columns and the runtime
        assert_int_equal(attrs.count, wire.count);
        base_writer_init(&writer, bytes, sizeof(bytes));
        wire_attrs_write(&writer, &wire);
        assert_int_equal(writer.status, BASE_OK);
        assert_int_equal(wire_attrs_parse(bytes, base_writer_size(&writer), &again), BASE_OK);
        assert_int_equal(again.count, wire.count);
    }
    sim_population_widest(people, &widest);
    assert_string_equal(text_of(&widest, SIM_TRAIT_OS), "android");
    assert_int_equal(widest.value[SIM_TRAIT_MODEL], SIM_TRAIT_ABSENT);
    sim_people_free(people);
}

static void networks_are_described(void **state)
{
    (void)state;
    struct sim_people *people = read_people(small);
    struct sim_traits traits = {.people = people};
    traits.value[SIM_TRAIT_NETWORK] = 0;
    const struct sim_network *network = sim_traits_network(&traits);
    assert_int_equal(network->delay_us, 150000);
    assert_int_equal(network->jitter_us, 9000);
    assert_int_equal(network->loss_ppm, 25000);
    assert_int_equal(network->bad_ppm, 80000);
    assert_int_equal(network->bad_loss_ppm, 250000);
    assert_int_equal(network->down_kbps, 1500);
    assert_int_equal(network->up_kbps, 500);
    assert_int_equal(network->offline_ppm, 10000);
    traits.value[SIM_TRAIT_NETWORK] = 1; // wifi, of which nothing is said
    assert_int_equal(sim_traits_network(&traits)->delay_us, 20000);
    assert_int_equal(sim_traits_network(&traits)->loss_ppm, 0);
    sim_people_free(people);
}

static void wrong_lines_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *said;
    } table[] = {
        {"", "file:0: no table in it"},
        {"# nothing\n", "file:1: no table"},
        {"3 android\n", "file:1: a row before any table"},
        {"\ntable os colour\n", "file:2: no such column"},
        {"table os os\n1 a a\n", "file:1: a column stands twice"},
        {"table\n", "file:1: `table COLUMN"},
        {"table os given\n", "file:1: `table COLUMN"},
        {"table given os\n", "file:1: what is given is a column of a table before"},
        {"table os\n1 a\ntable os\n", "file:3: this column was in a table already"},
        {"table os\n", "file:1: a table without rows"},
        {"table os\n0 a\n", "file:2: a weight of 1 to"},
        {"table os\n1.5 a\n", "file:2: a weight of 1 to"},
        {"table os\n1000000001 a\n", "file:2: a weight of 1 to"},
        {"table os\n1\n", "file:2: fewer values"},
        {"table os\n1 a b\n", "file:2: more values"},
        {"table ram_mb\n1 big\n", "file:2: a whole number"},
        {"table os_version\n1 x.y\n", "file:2: a version is expected"},
        {"table os\n1 a23456789b123456789c123456789d123456789e1\n", "file:2: a value has 1 to 40"},
        {"table os\n1 \xc3\xbc\n", "file:2: a value has 1 to 40"},
        {"table os\n1 a\ntable region given os\n1 b eu\n", "file:4: a given value that no device"},
        {"table os\n1 a\n1 b\ntable region given os\n1 b eu\n",
         "file:4: devices that the tables above allow find no row"},
        {"table os\n1 a\ntable os_version given os\n1 a 1\n1 a 2\ntable region given os "
         "os_version\n"
         "1 a 1 eu\n",
         "file:6: devices that the tables above allow find no row"},
        {"table region\n1 eu\nzone us 3\n", "file:3: no row above has this region"},
        {"table region\n1 eu\nzone eu 15\n", "file:3: `zone REGION HOURS`"},
        {"table region\n1 eu\nzone eu 1 2\n", "file:3: `zone REGION HOURS`"},
        {"table network\n1 4g\nnetwork 5g delay_ms=1\n", "file:3: no row above has this network"},
        {"table network\n1 4g\nnetwork 4g delay=1\n", "file:3: delay_ms, jitter_ms"},
        {"table network\n1 4g\nnetwork 4g loss=101%\n", "file:3: delay_ms, jitter_ms"},
        {"table network\n1 4g\nnetwork 4g loss=60%\n", "file:3: loss is at most 50%"},
        {"table network\n1 4g\nnetwork 4g offline=0.95\n", "file:3: offline is at most 90%"},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        struct base_error error = {.text = ""};
        struct sim_people *people = NULL;
        enum base_status status =
            sim_people_parse("file", base_str_of(table[i].text), &people, &error);
        if (status != BASE_ERR_INVALID || strstr(error.text, table[i].said) == NULL) {
            fail_msg("case %zu: '%s', not '%s'", i, error.text, table[i].said);
        }
    }
}

// A combination that no table above allows needs no row.
static void what_cannot_be_needs_no_row(void **state)
{
    (void)state;
    struct sim_people *people =
        read_people("table os\n1 a\n1 b\ntable os_version given os\n1 a 1\n1 b 2\n"
                    "table region given os os_version\n1 a 1 eu\n1 b 2 us\n");
    const struct sim_population population = {.seed = 1, .people = people};
    for (uint32_t i = 0; i < 100; i++) {
        struct sim_traits traits;
        sim_population_draw(&population, i, &traits);
        bool first = strcmp(text_of(&traits, SIM_TRAIT_OS), "a") == 0;
        assert_string_equal(text_of(&traits, SIM_TRAIT_REGION), first ? "eu" : "us");
    }
    sim_people_free(people);
}

static void too_many_values(void **state)
{
    (void)state;
    char text[2000] = "table model\n";
    struct base_error error = {.text = ""};
    struct sim_people *people = NULL;
    for (int i = 0; i < 32; i++) {
        size_t at = strlen(text);
        (void)snprintf(text + at, sizeof(text) - at, "1 m%d\n", i);
    }
    assert_int_equal(sim_people_parse("file", base_str_of(text), &people, &error),
                     BASE_ERR_INVALID);
    assert_string_equal(error.text, "file:33: more than 31 values of this column");
}

static void files_that_ship_are_good(void **state)
{
    (void)state;
    static const char *const files[] = {"default.conf", "cheap-phones.conf"};
    for (size_t f = 0; f < TEST_COUNT(files); f++) {
        char path[500];
        struct base_error error = {.text = ""};
        struct sim_people *people = NULL;
        (void)snprintf(path, sizeof(path), "%s/conf/populations/%s", WALLE_SOURCE_DIR, files[f]);
        if (sim_people_load(path, &people, &error) != BASE_OK) {
            fail_msg("%s", error.text);
        }
        for (uint32_t n = 0; n < sim_trait_value_count(people, SIM_TRAIT_NETWORK); n++) {
            assert_non_null(sim_people_network(people, n));
        }
        assert_true(sim_trait_value_count(people, SIM_TRAIT_CHIP) > 2);
        sim_people_free(people);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_of_the_rows),
        cmocka_unit_test(attributes_are_those_that_there_are),
        cmocka_unit_test(networks_are_described),
        cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test(what_cannot_be_needs_no_row),
        cmocka_unit_test(too_many_values),
        cmocka_unit_test(files_that_ship_are_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
