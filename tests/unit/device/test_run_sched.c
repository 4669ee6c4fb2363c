// The scheduler of a device's runs, rule by rule: order, places, memory, runs of one task, who may
// pass, who has to stop, what is refused.
#include "test_kit.h"

#include "core/sched/run_sched.h"

#define MIB 1048576ull

static struct dev_sched_run memory[DEV_SCHED_PLACES_MAX + DEV_SCHED_WAITING_MAX];
static struct dev_sched sched;

static void begin(uint32_t places, uint64_t budget_bytes)
{
    const struct dev_sched_limits limits = {.places = places, .budget_bytes = budget_bytes};
    size_t bytes = dev_sched_bytes(&limits);
    assert_true(bytes > 0 && bytes <= sizeof(memory));
    memset(memory, 0xa5, sizeof(memory));
    dev_sched_init(&sched, &limits, memory);
}

// A run of its own task, of 1 MiB and 100 us, without a deadline.
static struct dev_sched_want want(uint64_t key, uint8_t priority)
{
    return (struct dev_sched_want){
        .key = key,
        .task_id = key,
        .deadline_us = DEV_SCHED_NEVER,
        .time_us = 100,
        .memory_bytes = MIB,
        .priority = priority,
    };
}

static void offer(const struct dev_sched_want *what, uint64_t now_us)
{
    assert_int_equal(dev_sched_offer(&sched, what, now_us), DEV_SCHED_ACCEPTED);
    assert_true(dev_sched_validate(&sched));
}

static void offer_plain(uint64_t key, uint8_t priority)
{
    const struct dev_sched_want what = want(key, priority);
    offer(&what, 0);
}

// The deeds of one moment: keys, negative where the run has to stop.
static void deeds(uint64_t now_us, const int64_t *expected, size_t count)
{
    struct dev_sched_run run;
    enum dev_sched_deed deed = dev_sched_next(&sched, now_us, &run);
    for (size_t i = 0; i < count; i++, deed = dev_sched_next(&sched, now_us, &run)) {
        int64_t key = deed == DEV_SCHED_NOTHING ? 0 : (int64_t)run.want.key;
        assert_int_equal(deed == DEV_SCHED_STOP ? -key : key, expected[i]);
        assert_int_equal(run.running, deed == DEV_SCHED_START);
        assert_true(dev_sched_validate(&sched));
    }
    assert_int_equal(deed, DEV_SCHED_NOTHING);
}

#define DEEDS(NOW, ...)                                                                            \
    deeds(NOW, (const int64_t[]){__VA_ARGS__}, TEST_COUNT(((const int64_t[]){__VA_ARGS__})))
#define NO_DEEDS(NOW) deeds(NOW, NULL, 0)

static void they_start_in_their_order(void **state)
{
    (void)state;
    begin(4, 0);
    struct dev_sched_want late = want(4, 1);
    struct dev_sched_want soon = want(5, 1);
    late.deadline_us = 9000;
    soon.deadline_us = 8000;
    offer_plain(1, 2);
    offer_plain(2, 1);
    offer_plain(3, 1);
    offer(&late, 0);
    offer(&soon, 0);
    DEEDS(0, 5, 4, 2, 3); // by priority, deadline, and as they came; four places
    assert_true(dev_sched_end(&sched, 4, 10));
    DEEDS(10, 1);
    assert_int_equal(sched.stats.most_running, 4);
    assert_int_equal(sched.stats.most_waiting, 5);
    assert_int_equal(sched.stats.most_bytes, 4 * MIB);
}

static void memory_is_kept_for_who_waits_for_it(void **state)
{
    (void)state;
    begin(4, 10 * MIB);
    struct dev_sched_want large = want(2, 1);
    struct dev_sched_want quick = want(4, 2);
    large.memory_bytes = 10 * MIB;
    quick.time_us = 50;
    offer_plain(1, 1);
    offer(&large, 0);
    offer_plain(3, 2);
    DEEDS(0, 1, 3); // 3 is over when 1 is: 2 does not begin later for it
    assert_true(dev_sched_end(&sched, 3, 10));
    offer_plain(5, 2);
    offer(&quick, 10);
    DEEDS(10, 4); // 5 would be over after 1, and 2 would begin later
    assert_true(dev_sched_end(&sched, 4, 20));
    assert_true(dev_sched_end(&sched, 1, 20));
    DEEDS(20, 2);
    assert_true(dev_sched_end(&sched, 2, 30));
    DEEDS(30, 5);
}

static void a_deadline_far_off_lets_others_pass(void **state)
{
    (void)state;
    begin(2, 10 * MIB);
    struct dev_sched_want first = want(1, 1);
    struct dev_sched_want large = want(2, 1);
    struct dev_sched_want other = want(3, 2);
    large.memory_bytes = 10 * MIB;
    large.deadline_us = 1000; // it may begin at 900
    other.time_us = 850;
    offer(&first, 0);
    DEEDS(0, 1);
    offer(&large, 0);
    offer(&other, 0);
    DEEDS(0, 3); // over at 850
    assert_true(dev_sched_end(&sched, 1, 90));
    NO_DEEDS(90);
    assert_int_equal(dev_sched_due_us(&sched, 90), 900);
    NO_DEEDS(899);
    DEEDS(900, -3, 2); // what said 850 is not over, and gives its place
    assert_int_equal(dev_sched_find(&sched, 3)->cuts, 1);
    assert_int_equal(dev_sched_due_us(&sched, 900), DEV_SCHED_NEVER);
    assert_true(dev_sched_end(&sched, 2, 1000));
    DEEDS(1000, 3);
    assert_int_equal(sched.stats.cut, 1);
    assert_int_equal(sched.stats.late, 0);
}

static void the_first_priority_waits_for_no_other(void **state)
{
    (void)state;
    begin(2, 10 * MIB);
    struct dev_sched_want large = want(1, 3);
    large.memory_bytes = 9 * MIB;
    offer(&large, 0);
    DEEDS(0, 1);
    offer_plain(2, 2);
    DEEDS(5, 2);
    offer_plain(3, 0);
    DEEDS(10, -1, 3); // a place is enough, and 1 is of the lower priority
    offer_plain(4, 0);
    DEEDS(11, -2, 4);
    offer_plain(5, 0);
    NO_DEEDS(12); // of its own priority
    assert_true(dev_sched_end(&sched, 3, 20));
    DEEDS(20, 5);
    assert_int_equal(sched.stats.cut, 2);
}

static void only_what_helps_is_stopped(void **state)
{
    (void)state;
    begin(4, 10 * MIB);
    struct dev_sched_want first = want(1, 3);
    struct dev_sched_want second = want(2, 3);
    struct dev_sched_want third = want(3, 1);
    struct dev_sched_want urgent = want(4, 0);
    second.memory_bytes = 6 * MIB;
    third.memory_bytes = 3 * MIB;
    offer(&second, 0);
    offer(&third, 0);
    DEEDS(0, 3, 2);
    offer(&first, 1);
    DEEDS(1, 1); // it started last, and would go first
    urgent.memory_bytes = 6 * MIB;
    offer(&urgent, 2);
    DEEDS(2, -2, 4); // but 1 MiB more is of no use
    struct dev_sched_want none = want(5, 2);
    none.memory_bytes = 8 * MIB;
    none.deadline_us = 103;
    offer(&none, 3);
    NO_DEEDS(3); // stopping 1 would not make the room
    assert_int_equal(sched.stats.cut, 1);
}

static void runs_of_a_task_go_one_at_a_time(void **state)
{
    (void)state;
    begin(4, 0);
    struct dev_sched_want one = want(1, 1);
    struct dev_sched_want two = want(2, 1);
    struct dev_sched_want pair[3] = {want(3, 1), want(4, 1), want(5, 1)};
    two.task_id = one.task_id;
    offer(&one, 0);
    offer(&two, 0);
    for (size_t i = 0; i < TEST_COUNT(pair); i++) {
        pair[i].task_id = 99;
        pair[i].at_once = 2;
        offer(&pair[i], 0);
    }
    DEEDS(0, 1, 3, 4);
    assert_true(dev_sched_end(&sched, 3, 1));
    DEEDS(1, 5);
    assert_true(dev_sched_end(&sched, 1, 2));
    DEEDS(2, 2);
    struct dev_sched_want alone = want(6, 0); // of a task whose others stand in its way
    alone.task_id = 99;
    offer(&alone, 3);
    DEEDS(3, -5, -4, 6);
    NO_DEEDS(4); // and it in theirs
}

static void the_app_asks_for_memory(void **state)
{
    (void)state;
    begin(4, 10 * MIB);
    struct dev_sched_want large = want(3, 2);
    large.memory_bytes = 4 * MIB;
    offer_plain(1, 3);
    offer_plain(2, 1);
    offer(&large, 0);
    DEEDS(0, 2, 3, 1);
    dev_sched_budget(&sched, 5 * MIB);
    DEEDS(1, -1);
    dev_sched_budget(&sched, 3 * MIB);
    DEEDS(2, -3, 1); // 3 alone needs more than there is now, and stands in nobody's way
    dev_sched_budget(&sched, 10 * MIB);
    DEEDS(3, 3);
    assert_int_equal(dev_sched_offer(&sched,
                                     &(struct dev_sched_want){.key = 9,
                                                              .memory_bytes = 10 * MIB + 1,
                                                              .deadline_us = DEV_SCHED_NEVER},
                                     3),
                     DEV_SCHED_TOO_LARGE);
}

static void the_app_goes_to_the_background(void **state)
{
    (void)state;
    begin(4, 0);
    struct dev_sched_want stays = want(2, 3);
    stays.background = true;
    offer_plain(1, 0);
    offer(&stays, 0);
    offer_plain(3, 2);
    DEEDS(0, 1, 3, 2);
    dev_sched_background(&sched, true);
    DEEDS(1, -3, -1);
    offer_plain(4, 1);
    NO_DEEDS(2);
    dev_sched_background(&sched, false);
    DEEDS(3, 1, 4, 3);
}

static void what_is_refused(void **state)
{
    (void)state;
    const struct dev_sched_limits limits = {.waiting_max = 3, .task_waiting_max = 2};
    dev_sched_init(&sched, &limits, memory);
    struct dev_sched_want what = want(1, 0);
    assert_int_equal(dev_sched_offer(&sched, &what, 0), DEV_SCHED_ACCEPTED);
    assert_int_equal(dev_sched_offer(&sched, &what, 0), DEV_SCHED_KNOWN);
    what.key = 2;
    what.priority = DEV_SCHED_PRIORITY_MAX + 1;
    assert_int_equal(dev_sched_offer(&sched, &what, 0), DEV_SCHED_BAD_PRIORITY);
    what.priority = 0;
    what.memory_bytes = DEV_SCHED_BUDGET_DEFAULT + 1;
    assert_int_equal(dev_sched_offer(&sched, &what, 0), DEV_SCHED_TOO_LARGE);
    what.memory_bytes = DEV_SCHED_BUDGET_DEFAULT;
    what.deadline_us = 149;
    assert_int_equal(dev_sched_offer(&sched, &what, 50), DEV_SCHED_TOO_LATE);
    what.deadline_us = 150;
    assert_int_equal(dev_sched_offer(&sched, &what, 50), DEV_SCHED_ACCEPTED);
    what = want(3, 0);
    what.task_id = 1;
    assert_int_equal(dev_sched_offer(&sched, &what, 0), DEV_SCHED_TASK_FULL);
    what.task_id = 3;
    assert_int_equal(dev_sched_offer(&sched, &what, 0), DEV_SCHED_ACCEPTED);
    what = want(4, 0);
    assert_int_equal(dev_sched_offer(&sched, &what, 0), DEV_SCHED_FULL);
    for (int i = DEV_SCHED_KNOWN; i < DEV_SCHED_ANSWER_COUNT; i++) {
        assert_int_equal(sched.stats.refused[i], 1);
        assert_true(strlen(dev_sched_answer_text((enum dev_sched_answer)i)) > 8);
    }
    assert_true(dev_sched_validate(&sched));
}

static void what_is_not_there(void **state)
{
    (void)state;
    struct dev_sched_limits limits = {.places = DEV_SCHED_PLACES_MAX + 1};
    assert_int_equal(dev_sched_bytes(&limits), 0);
    limits = (struct dev_sched_limits){.waiting_max = DEV_SCHED_WAITING_MAX + 1};
    assert_int_equal(dev_sched_bytes(&limits), 0);
    begin(1, 0);
    NO_DEEDS(0);
    offer_plain(1, 1);
    assert_false(dev_sched_end(&sched, 1, 0)); // it waits
    assert_false(dev_sched_back(&sched, 1));
    assert_false(dev_sched_cancel(&sched, 2));
    DEEDS(0, 1);
    assert_true(dev_sched_back(&sched, 1));
    DEEDS(1, 1);
    assert_true(dev_sched_cancel(&sched, 1));
    assert_null(dev_sched_find(&sched, 1));
    assert_int_equal(sched.used_bytes, 0);
    NO_DEEDS(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_start_in_their_order),
        cmocka_unit_test(memory_is_kept_for_who_waits_for_it),
        cmocka_unit_test(a_deadline_far_off_lets_others_pass),
        cmocka_unit_test(the_first_priority_waits_for_no_other),
        cmocka_unit_test(only_what_helps_is_stopped),
        cmocka_unit_test(runs_of_a_task_go_one_at_a_time),
        cmocka_unit_test(the_app_asks_for_memory),
        cmocka_unit_test(the_app_goes_to_the_background),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
