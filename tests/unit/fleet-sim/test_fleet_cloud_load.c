// How models in the cloud are served in a simulation: the words of --cloud-load, and the calendar
// of a model's instances against what queues must do. A cloud that finds no memory says so and
// leaves none behind.
#include "test_kit.h"

#include "cloud/cloud_load.h"
#include "cloud/sim_cloud.h"
#include "failing_heap.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool knows(void *ctx, struct base_str model)
{
    (void)ctx;
    return base_str_equal(model, BASE_STR("big")) || base_str_equal(model, BASE_STR("a.b"));
}

static enum base_status read_words(const char *words, const char *model, struct sim_cloud_load *out)
{
    const struct sim_cloud_names names = {NULL, knows};
    struct base_error error = {.status = BASE_OK};
    enum base_status status = sim_cloud_load_read(words, base_str_of(model), &names, out, &error);
    assert_int_equal(status != BASE_OK, strstr(error.text, "--cloud-load: \"") != NULL);
    return status;
}

static void words_are_of_all_models_or_of_one(void **state)
{
    (void)state;
    struct sim_cloud_load load;
    assert_int_equal(read_words("", "big", &load), BASE_OK);
    assert_int_equal(load.service_us, 0);
    assert_int_equal(load.instances, SIM_CLOUD_INSTANCES);
    assert_int_equal(load.queue, SIM_CLOUD_QUEUE);
    assert_int_equal(load.per_min, SIM_CLOUD_PER_MIN);
    const char *words =
        "big.service_ms=35.5,service_ms=2,instances=3,queue=0,per_min=7,a.b.queue=9";
    assert_int_equal(read_words(words, "big", &load), BASE_OK);
    assert_int_equal(load.service_us, 35500);
    assert_int_equal(load.instances, 3);
    assert_int_equal(load.queue, 0);
    assert_int_equal(read_words(words, "a.b", &load), BASE_OK);
    assert_int_equal(load.service_us, 2000);
    assert_int_equal(load.queue, 9);
    assert_int_equal(load.per_min, 7);
}

static void words_that_are_none(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "service_ms",       "service_ms=",   "service_ms=-1",
        "service_ms=60001", "service_ms=1x", "instances=0",
        "instances=4097",   "queue=4097",    "queue=1.5",
        "per_min=1000001",  "speed=1",       "=1",
        ",queue=1",         "queue=1,,",     "small.service_ms=1",
        ".service_ms=1",    "big.=1",        "big.per_min=10",
        "service_ms=nan",   "queue=1 ",      "big.service_ms=100000000000000000000000000",
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        struct sim_cloud_load load;
        if (read_words(bad[i], "big", &load) != BASE_ERR_INVALID) {
            fail_msg("\"%s\" was taken", bad[i]);
        }
    }
}

static struct sim_cloud_calendar *calendar_of(uint32_t service_us, uint32_t instances,
                                              uint32_t queue)
{
    const struct sim_cloud_load load = {service_us, instances, queue, 0};
    struct sim_cloud_calendar *calendar = NULL;
    assert_int_equal(sim_cloud_calendar_new(&load, &calendar), BASE_OK);
    return calendar;
}

static uint64_t wait_of(struct sim_cloud_calendar *calendar, uint64_t at_us)
{
    uint64_t wait_us = UINT64_MAX;
    assert_true(sim_cloud_calendar_take(calendar, at_us, UINT64_MAX / 2, &wait_us));
    return wait_us;
}

static void who_comes_alone_waits_for_nobody(void **state)
{
    (void)state;
    struct sim_cloud_calendar *calendar = calendar_of(35500, 2, 16);
    for (uint64_t i = 0; i < 200; i++) {
        assert_int_equal(wait_of(calendar, 123456789 + i * 36600), 0);
    }
    sim_cloud_calendar_free(calendar);
}

static void calls_at_once_are_served_by_all_instances(void **state)
{
    (void)state;
    struct sim_cloud_calendar *calendar = calendar_of(10000, 4, 4096);
    for (uint64_t i = 0; i < 400; i++) {
        assert_int_equal(wait_of(calendar, 5000000), i / 4 * 10000);
    }
    sim_cloud_calendar_free(calendar);
}

static void the_queue_and_the_deadline_bound_who_waits(void **state)
{
    (void)state;
    struct sim_cloud_calendar *calendar = calendar_of(10000, 1, 8);
    uint64_t wait_us = 0;
    for (uint32_t i = 0; i < 9; i++) { // one is served and eight wait
        assert_int_equal(wait_of(calendar, 1000), i * 10000);
    }
    assert_false(sim_cloud_calendar_take(calendar, 1000, UINT64_MAX / 2, &wait_us));
    assert_false(sim_cloud_calendar_take(calendar, 1000, UINT64_MAX / 2, &wait_us));
    // Who was refused took nothing: ten milliseconds later there is one place again.
    assert_int_equal(wait_of(calendar, 11000), 80000);
    assert_false(sim_cloud_calendar_take(calendar, 21000, 79999, &wait_us));
    assert_true(sim_cloud_calendar_take(calendar, 21000, 80000, &wait_us));
    assert_int_equal(wait_us, 80000);
    sim_cloud_calendar_free(calendar);
}

static void calls_need_not_come_in_order(void **state)
{
    (void)state;
    struct sim_cloud_calendar *calendar = calendar_of(10000, 1, 100);
    for (uint64_t i = 0; i < 50; i++) { // a script's: one after the other, with gaps between
        assert_int_equal(wait_of(calendar, i * 30000), 0);
    }
    assert_int_equal(wait_of(calendar, 12000), 0);
    assert_int_equal(wait_of(calendar, 0), 20000); // the gaps before and behind that one
    sim_cloud_calendar_free(calendar);
}

// In any order and long after: no more is served in any time than the instances have of it.
static void instances_are_never_more_than_there_are(void **state)
{
    (void)state;
    enum { CALLS = 3000, SERVICE_US = 7300, INSTANCES = 3 };
    struct base_prng prng;
    test_seed(&prng);
    struct sim_cloud_calendar *calendar = calendar_of(SERVICE_US, INSTANCES, 4096);
    uint64_t last_us = 0;
    for (uint32_t i = 0; i < CALLS; i++) {
        uint64_t at_us = base_prng_below(&prng, 1000000);
        uint64_t end_us = at_us + wait_of(calendar, at_us) + SERVICE_US;
        last_us = end_us > last_us ? end_us : last_us;
    }
    assert_true(last_us >= (uint64_t)CALLS * SERVICE_US / INSTANCES);
    assert_true(last_us <= (uint64_t)CALLS * SERVICE_US / INSTANCES + 200000);
    // A ring: the time comes round again, and is free.
    assert_int_equal(wait_of(calendar, (uint64_t)SIM_CLOUD_AHEAD_MS * 1000 * 3 + 500), 0);
    sim_cloud_calendar_free(calendar);
}

static void folder_make(const char *dir)
{
    char path[128];
    static const char *const parts[] = {"", "/big", "/big/1", "/big/2"};
    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        (void)snprintf(path, sizeof(path), "%s/models%s", dir, parts[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    (void)snprintf(path, sizeof(path), "%s/models/big/2/model.onnx", dir);
    FILE *file = fopen(path, "wb");
    assert_true(file != NULL && fputs("a model", file) > 0 && fclose(file) == 0);
}

static void folder_remove(const char *dir)
{
    char path[128];
    static const char *const parts[] = {"/big/2/model.onnx", "/big/2", "/big/1", "/big", ""};
    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        (void)snprintf(path, sizeof(path), "%s/models%s", dir, parts[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void memory_that_is_not_there(void **state)
{
    (void)state;
    char dir[] = "/tmp/test_fleet_cloud.XXXXXX";
    char models[64];
    assert_non_null(mkdtemp(dir));
    folder_make(dir);
    (void)snprintf(models, sizeof(models), "%s/models", dir);
    const struct sim_cloud_options options = {
        .dir = models, .call_ms = 60, .load = "big.service_ms=3"};
    bool done = false;
    for (size_t allowed = 0; !done; allowed++) {
        struct sim_cloud *cloud = NULL;
        struct sim_cloud_side side = {.cloud = NULL};
        struct sim_cloud_sums sums = {0};
        struct base_error error = {.status = BASE_OK};
        failing_heap_arm(allowed, false);
        enum base_status status = sim_cloud_new(&options, &cloud, &error);
        if (status == BASE_OK) {
            status = sim_cloud_side_init(&side, cloud, 1000, &sums);
            sim_cloud_side_done(&side);
        }
        done = !failing_heap_has_failed();
        (void)failing_heap_disarm();
        assert_true(done == (status == BASE_OK));
        sim_cloud_free(cloud);
        assert_int_equal(failing_heap_live(), 0);
        assert_true(allowed < 100);
    }
    folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_of_all_models_or_of_one),
        cmocka_unit_test(words_that_are_none),
        cmocka_unit_test(who_comes_alone_waits_for_nobody),
        cmocka_unit_test(calls_at_once_are_served_by_all_instances),
        cmocka_unit_test(the_queue_and_the_deadline_bound_who_waits),
        cmocka_unit_test(calls_need_not_come_in_order),
        cmocka_unit_test(instances_are_never_more_than_there_are),
        cmocka_unit_test(memory_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
