// What an app hands to runs by name (device/blobs.h): each set comes back once, whatever becomes of
// the run, and a shadow gets what the run had that it is compared with.
#include "device_rig.h"

#include "core/base/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TASK    "demo/score"
#define EVERY_S 60

static struct rig rig;

// An app's camera: each set is another frame.
struct camera {
    struct dev_blob_set sets[256];
    bool out[256];
    uint32_t count;
    uint32_t back;
    bool dark; // nothing to hand out
    const struct dev_blob_set *of_run;
    const struct dev_blob_set *of_shadow;
    uint32_t compared; // shadows that began, with the set of the run before
};
static struct camera camera;

static const struct dev_blob_set *hold(void *ctx, struct base_str task)
{
    struct camera *all = ctx;
    assert_true(base_str_equal(task, BASE_STR(TASK)));
    if (all->dark) {
        return NULL;
    }
    assert_true(all->count < 256);
    all->out[all->count] = true;
    return &all->sets[all->count++];
}

static void release(void *ctx, const struct dev_blob_set *set)
{
    struct camera *all = ctx;
    size_t at = (size_t)(set - all->sets);
    assert_true(at < all->count && all->out[at]); // once
    all->out[at] = false;
    all->back++;
}

static enum base_status (*start_before)(void *, uint32_t, const struct dev_task_job *);

static enum base_status start(void *ctx, uint32_t run, const struct dev_task_job *job)
{
    enum base_status status = start_before(ctx, run, job);
    if (job->blobs != NULL) {
        assert_true(camera.out[job->blobs - camera.sets]); // still the run's
    }
    if (status == BASE_OK && job->shadow && !job->reference) {
        camera.of_shadow = job->blobs;
        camera.compared += camera.of_run != NULL && camera.of_run == job->blobs ? 1 : 0;
    } else if (status == BASE_OK) {
        camera.of_run = job->blobs;
    }
    return status;
}

static void ports_set(void)
{
    rig.ports.blobs = (struct dev_blob_port){.ctx = &camera, .hold = hold, .release = release};
    start_before = rig.ports.task.start;
    rig.ports.task.start = start;
}

static void begin(void)
{
    memset(&camera, 0, sizeof(camera));
    rig_init(&rig);
    rig_version_add(&rig, TASK, 2, 3000, WIRE_RUNTIME_ABI, EVERY_S);
    rig_version_add(&rig, TASK, 3, 4000, WIRE_RUNTIME_ABI, EVERY_S);
    rig.versions[0].result = "{\"a\": 1}";
    rig.versions[1].result = "{\"a\": 1}";
    rig_boot(&rig);
    ports_set();
    struct rig_statement install = {.task = TASK, .version = 0, .counter = 1, .rollout_id = 3};
    rig_offer(&rig, &install);
    rig_checkin(&rig);
    rig_offer_none(&rig);
}

static void run_for(uint32_t runs)
{
    rig.run_on = true;
    rig_run(&rig, (uint64_t)runs * EVERY_S * 1000000);
    rig.run_on = false;
}

static void each_set_comes_back(void **state)
{
    (void)state;
    begin();
    run_for(10);
    assert_true(camera.count >= 10);
    assert_int_equal(camera.back, camera.count);
    assert_int_equal(rig.versions[0].runs, camera.count); // a set for each run
    camera.dark = true;
    run_for(3);
    assert_null(camera.of_run);
    camera.dark = false;
    rig.port.task.refuse = BASE_ERR_BUSY; // starts that fail
    run_for(3);
    rig.port.task.refuse = BASE_OK;
    rig.hold_runs = true; // one is under way when the runtime is stopped
    run_for(2);
    assert_int_equal(camera.back + 1, camera.count);
    dev_stop(rig.runtime);
    assert_int_equal(camera.back, camera.count);
    rig_done(&rig);
}

static void a_shadow_gets_what_the_run_had(void **state)
{
    (void)state;
    begin();
    struct rig_statement shadow = {.task = TASK,
                                   .version = 1,
                                   .counter = 2,
                                   .floor = 1,
                                   .rollout_id = 9,
                                   .shadow = true,
                                   .slow_percent = 150,
                                   .memory_percent = 150};
    rig_offer(&rig, &shadow);
    rig_checkin(&rig);
    rig_offer_none(&rig);
    run_for(8);
    assert_true(rig.versions[1].runs >= 5);
    assert_int_equal(camera.compared, rig.versions[1].runs);
    assert_int_equal(camera.back, camera.count);
    rig.hold_shadows = true; // one waits with its set when the runtime is stopped
    run_for(2);
    assert_int_equal(camera.back + 1, camera.count);
    dev_stop(rig.runtime);
    assert_int_equal(camera.back, camera.count);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_set_comes_back),
        cmocka_unit_test(a_shadow_gets_what_the_run_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
