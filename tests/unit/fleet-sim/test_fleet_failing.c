// The devices that reports name of a way to fail: the first few by index, whatever order they were
// found in; their ids as text; their attributes as a file that `walle task run` reads.
#include "test_kit.h"

#include "base/prng.h"
#include "failing/failing_devices.h"
#include "wire/digest.h"

#define FAILED 40u

static struct sim_failing_device device_of(uint64_t index)
{
    const struct sim_population population = {.seed = 5, .beta_per_10000 = 100};
    struct sim_failing_device device = {.index = index};
    device.id = sim_population_device_id(&population, index);
    sim_population_draw(&population, index, &device.traits);
    return device;
}

// Any order of the same devices, any number of them: what is kept is what a sort would keep.
static void the_first_by_index_are_kept(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 7);
    for (uint32_t count = 0; count <= FAILED; count++) {
        struct sim_failing failing = {.devices = 0};
        uint64_t order[FAILED];
        for (uint32_t i = 0; i < count; i++) {
            order[i] = 3 + i * 10u;
        }
        for (uint32_t i = count; i > 1; i--) {
            uint64_t other = base_prng_below(&prng, i);
            uint64_t kept = order[i - 1];
            order[i - 1] = order[other];
            order[other] = kept;
        }
        for (uint32_t i = 0; i < count; i++) {
            const struct sim_failing_device device = device_of(order[i]);
            sim_failing_add(&failing, &device);
        }
        assert_int_equal(failing.devices, count);
        assert_int_equal(failing.told, count < SIM_FAILING_TOLD_MAX ? count : SIM_FAILING_TOLD_MAX);
        for (uint32_t i = 0; i < failing.told; i++) {
            assert_int_equal(failing.first[i].index, 3 + i * 10u);
            assert_true(failing.first[i].id == device_of(3 + i * 10u).id);
        }
    }
}

static void the_text_names_them_and_counts_the_rest(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        const char *text;
    } table[] = {
        {0, ""},
        {1, "0000000000000100"},
        {2, "0000000000000100, 0000000000000101"},
        {5, "0000000000000100, 0000000000000101, 0000000000000102, 0000000000000103, "
            "0000000000000104"},
        {7, "0000000000000100, 0000000000000101, 0000000000000102, 0000000000000103, "
            "0000000000000104 and 2 more"},
    };
    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        struct sim_failing failing = {.devices = 0};
        char text[SIM_FAILING_TEXT_MAX];
        for (uint32_t n = 0; n < table[i].count; n++) {
            struct sim_failing_device device = device_of(n);
            device.id = 0x100 + n;
            sim_failing_add(&failing, &device);
        }
        sim_failing_text(&failing, text);
        assert_string_equal(text, table[i].text);
        if (failing.told > 0) { // the most devices there can be
            failing.devices = UINT64_MAX;
            sim_failing_text(&failing, text);
            assert_string_equal(text + strlen(text) - 5, " more");
        }
    }
}

// All that the device says of itself, with the types it has on the wire.
static void the_attributes_are_the_devices_own(void **state)
{
    (void)state;
    for (uint64_t index = 0; index < 50; index++) {
        const struct sim_failing_device device = device_of(index);
        struct pol_attr items[SIM_ATTRS_COUNT];
        struct pol_attrs policy;
        json_t *attrs = sim_failing_attrs(&device);
        sim_traits_policy(&device.traits, items, &policy);
        assert_int_equal(json_object_size(attrs), policy.count);
        json_t *os = json_object_get(attrs, "os");
        assert_string_equal(json_string_value(os),
                            sim_trait_text(NULL, SIM_TRAIT_OS, device.traits.value[SIM_TRAIT_OS]));
        assert_true(json_is_integer(json_object_get(attrs, "ram_mb")));
        json_decref(attrs);
    }
}

static void json_has_index_id_and_attributes(void **state)
{
    (void)state;
    struct sim_failing failing = {.devices = 0};
    for (uint64_t index = 0; index < 9; index++) {
        const struct sim_failing_device device = device_of(index);
        sim_failing_add(&failing, &device);
    }
    json_t *list = sim_failing_json(&failing);
    assert_int_equal(json_array_size(list), SIM_FAILING_TOLD_MAX);
    for (uint32_t i = 0; i < SIM_FAILING_TOLD_MAX; i++) {
        json_t *item = json_array_get(list, i);
        assert_int_equal(json_integer_value(json_object_get(item, "index")), i);
        assert_int_equal(json_string_length(json_object_get(item, "id")), WIRE_DEVICE_HEX);
        assert_non_null(json_object_get(json_object_get(item, "attrs"), "os"));
    }
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_by_index_are_kept),
        cmocka_unit_test(the_text_names_them_and_counts_the_rest),
        cmocka_unit_test(the_attributes_are_the_devices_own),
        cmocka_unit_test(json_has_index_id_and_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
