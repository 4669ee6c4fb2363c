// A population file from a gateway's list of devices: rows are counted jointly, rare and unfit
// values are left out, and what is written is a population with the shares of the devices.
#include "test_kit.h"

#include "harvest/device_counts.h"
#include "people/people.h"

static void take(struct sim_device_counts *counts, const char *page, uint64_t most,
                 enum base_status expected, const char *next)
{
    char key[SIM_PAGE_KEY_MAX];
    assert_int_equal(sim_device_counts_take(counts, page, strlen(page), most, key), expected);
    assert_string_equal(key, next);
}

static char *written(const struct sim_device_counts *counts)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(sim_device_counts_write(counts, file), BASE_OK);
    assert_int_equal(fclose(file), 0);
    return text;
}

static const char page[] =
    "{\"items\": [{\"id\": \"1\", \"attrs\": {\"os\": \"ios\", \"ram_mb\": 4096, \"x\": true}},"
    "{\"id\": \"2\", \"attrs\": {\"os\": \"ios\", \"ram_mb\": 4096, \"os_version\": "
    "\"seventeen\"}},"
    "{\"id\": \"3\", \"attrs\": {\"os\": \"android\", \"model\": \"SM G9\", \"region\": \"eu\"}},"
    "{\"id\": \"4\", \"attrs\": {\"os\": 7, \"ram_mb\": \"big\", \"app_version\": \"9.3\"}}],"
    "\"next\": \"00000000000000ff\"}";

static void kinds_are_counted(void **state)
{
    (void)state;
    struct sim_device_counts *counts = NULL;
    assert_int_equal(sim_device_counts_new(&counts), BASE_OK);
    take(counts, page, 100, BASE_OK, "00000000000000ff");
    take(counts, "{\"items\": [], \"next\": null}", 100, BASE_OK, "");
    assert_int_equal(sim_device_counts_devices(counts), 4);
    char *text = written(counts);
    assert_non_null(strstr(text, "of 4 devices of a gateway"));
    assert_non_null(strstr(text, "\ntable app_version channel chip model network os os_version "
                                 "ram_mb region\n2 - - - - - ios - 4096 -\n1 "));
    assert_non_null(strstr(text, "\n1 - - - - - android - - eu\n"));
    assert_non_null(strstr(text, "\n1 9.3 - - - - - - - -\n"));
    free(text);
    sim_device_counts_free(counts);
}

static void no_more_than_asked(void **state)
{
    (void)state;
    struct sim_device_counts *counts = NULL;
    assert_int_equal(sim_device_counts_new(&counts), BASE_OK);
    take(counts, page, 2, BASE_OK, "00000000000000ff");
    assert_int_equal(sim_device_counts_devices(counts), 2);
    take(counts, "[]", 9, BASE_ERR_INVALID, "");
    take(counts, "no json", 9, BASE_ERR_INVALID, "");
    take(counts, "{\"items\": [{\"id\": \"1\"}]}", 9, BASE_ERR_INVALID, "");
    sim_device_counts_free(counts);
}

// 40 models, the first the most frequent: what is written is read again, with their shares.
static void what_is_written_is_a_population(void **state)
{
    (void)state;
    struct sim_device_counts *counts = NULL;
    struct sim_people *people = NULL;
    struct base_error error = {.text = ""};
    assert_int_equal(sim_device_counts_new(&counts), BASE_OK);
    for (int model = 0; model < 40; model++) {
        for (int i = 0; i < 80 - model; i++) {
            char one[200];
            (void)snprintf(one, sizeof(one),
                           "{\"items\": [{\"attrs\": {\"model\": \"m%d\", \"os_version\": "
                           "\"%d.%d\"}}], \"next\": null}",
                           model, model, i % 2);
            take(counts, one, UINT64_MAX, BASE_OK, "");
        }
    }
    char *text = written(counts);
    if (sim_people_parse("written", base_str_of(text), &people, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(sim_people_count(people, SIM_TRAIT_MODEL), 31);
    assert_int_equal(sim_people_count(people, SIM_TRAIT_OS), 0);
    uint32_t first = 0, none = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        uint8_t value[SIM_TRAIT_COUNT];
        sim_people_draw(people, 1, i, value);
        none += value[SIM_TRAIT_MODEL] == SIM_TRAIT_ABSENT;
        if (value[SIM_TRAIT_MODEL] != SIM_TRAIT_ABSENT) {
            const struct sim_value *model =
                sim_people_value(people, SIM_TRAIT_MODEL, value[SIM_TRAIT_MODEL]);
            first += strcmp(model->text.data, "m0") == 0;
        }
    }
    // 80 of 2420 are m0; m31 to m39, the rarest, are 405.
    assert_true(first > 20000 * 80 / 2420 * 8 / 10 && first < 20000 * 80 / 2420 * 12 / 10);
    assert_true(none > 20000 * 405 / 2420 * 9 / 10 && none < 20000 * 405 / 2420 * 11 / 10);
    sim_people_free(people);
    free(text);
    sim_device_counts_free(counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_counted),
        cmocka_unit_test(no_more_than_asked),
        cmocka_unit_test(what_is_written_is_a_population),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
