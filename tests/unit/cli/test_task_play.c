// The clocks of behaviour that is played: events have the times of their lines, the clock that
// never goes back follows forwards only.
#include "test_kit.h"

#include "base/clock.h"
#include "cli/task/task_play.h"
#include "wire/declaration.h"

#include <stdio.h>
#include <unistd.h>

#define START UINT64_C(4102444800000) // nobody's now

static char path[64];

static void played(const char *lines)
{
    (void)snprintf(path, sizeof(path), "/tmp/walle-play-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, lines, strlen(lines)), (ssize_t)strlen(lines));
    assert_int_equal(close(fd), 0);
}

static struct task_play *play_of(const struct wire_manifest *manifest)
{
    const struct task_play_options options = {.path = path, .manifest = manifest};
    struct base_error error = {.status = BASE_OK};
    struct task_play *play = NULL;
    if (task_play_new(&options, &play, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return play;
}

#define LINE(time) "{\"kind\": \"click\", \"page\": \"home\"" time "}\n"
#define AT(text)   ", \"t\": 41024448" text

static void test_times_of_lines(void **state)
{
    (void)state;
    static const struct {
        uint64_t wall_ms; // since START
        uint64_t mono_ms; // since the first
    } want[] = {{0, 0}, {500, 500}, {2000, 2000}, {1000, 2000}, {1500, 2500}, {1600, 2600}};
    const struct wire_manifest manifest = {.task_name = BASE_STR("shop/score")};
    struct base_error error = {.status = BASE_OK};
    struct dev_vm_job job = {0};
    played(LINE(AT("00000")) LINE("") "\n" LINE(AT("02000")) LINE(AT("01000")) LINE("")
               LINE(AT("01600")));
    struct task_play *play = play_of(&manifest);
    assert_int_equal(task_play_next(play, &job, &error), BASE_OK);
    assert_int_equal(job.event_count, sizeof(want) / sizeof(want[0]));
    for (uint32_t i = 0; i < job.event_count; i++) {
        assert_int_equal(job.events[i].wall_ms - START, want[i].wall_ms);
        assert_int_equal(job.events[i].mono_us - job.events[0].mono_us, 1000 * want[i].mono_ms);
    }
    assert_true(job.events[0].mono_us < 1000000); // whatever time of day the first line says
    task_play_free(play);
    (void)unlink(path);
}

// A first line without a time is now.
static void test_the_first_line_is_now(void **state)
{
    (void)state;
    const struct wire_manifest manifest = {.task_name = BASE_STR("shop/score")};
    struct base_error error = {.status = BASE_OK};
    struct dev_vm_job job = {0};
    played(LINE("") LINE(""));
    uint64_t before = base_clock_wall_us() / 1000;
    struct task_play *play = play_of(&manifest);
    uint64_t after = base_clock_wall_us() / 1000;
    assert_int_equal(task_play_next(play, &job, &error), BASE_OK);
    assert_int_equal(job.event_count, 2);
    assert_true(job.events[0].wall_ms >= before && job.events[0].wall_ms <= after);
    assert_int_equal(job.events[1].wall_ms - job.events[0].wall_ms, TASK_PLAY_GAP_MS);
    assert_int_equal(job.events[1].mono_us - job.events[0].mono_us, 1000 * TASK_PLAY_GAP_MS);
    task_play_free(play);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_of_lines),
        cmocka_unit_test(test_the_first_line_is_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
