// What a gateway in this process is asked as it is watched: of its rollouts whenever it is looked
// at, of its load until it was said once, for it has no transport whose load would change.
#include "test_kit.h"

#include "run/gateway_watch.h"

struct rig {
    uint32_t rollouts; // questions
    uint32_t loads;
    bool down;
    const char *state; // of the rollout
};

static int answer(void *ctx, const char *path, struct base_buffer *out)
{
    struct rig *rig = ctx;
    char text[256];
    bool load = strcmp(path, "/metrics") == 0;
    rig->loads += load;
    rig->rollouts += !load;
    if (rig->down) {
        return 0;
    }
    int size = load ? snprintf(text, sizeof(text), "walle_requests_total 0\nwalle_streams 3\n")
                    : snprintf(text, sizeof(text),
                               "{\"items\": [{\"id\": \"00000000000000ab\", \"state\": \"%s\", "
                               "\"counts\": {\"offered\": 5}}]}",
                               rig->state);
    assert_int_equal(base_buffer_add(out, text, (size_t)size), BASE_OK);
    return 200;
}

static void load_is_asked_for_until_it_is_said(void **state)
{
    (void)state;
    struct rig rig = {.state = "running", .down = true};
    struct sim_watch *watch = NULL;
    const struct sim_watch_options options = {.task = "", .answer = answer, .answer_ctx = &rig};
    assert_int_equal(sim_watch_new(&options, &watch), BASE_OK);
    sim_watch_ask(watch);
    sim_watch_ask(watch);
    assert_int_equal(rig.loads, 2); // it was not there
    assert_true(sim_watch_view(watch)->load.streams < 0);
    rig.down = false;
    for (uint32_t i = 0; i < 5; i++) {
        sim_watch_ask(watch);
    }
    assert_int_equal(rig.loads, 3);
    assert_int_equal(rig.rollouts, 7);
    assert_true(sim_watch_view(watch)->load.streams == 3);
    assert_true(sim_watch_view(watch)->load.requests_total == 0);
    assert_string_equal(sim_watch_view(watch)->state, "running");
    rig.state = "completed"; // what it says of rollouts is always news
    sim_watch_ask(watch);
    assert_string_equal(sim_watch_view(watch)->state, "completed");
    const struct sim_rollouts_seen *seen = sim_watch_rollouts(watch);
    assert_int_equal(seen->count, 1);
    assert_string_equal(seen->items[0].state, "completed");
    assert_int_equal(seen->items[0].counts.offered, 5);
    assert_true(sim_watch_view(watch)->load.streams == 3);
    sim_watch_free(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_is_asked_for_until_it_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
