// Page visits against a slow oracle that looks at the whole past of events each time, and the named
// cases: nesting, exit without enter, two tabs, re-entering, one visit too many.
#include "test_kit.h"

#include "pipeline/record/visit.h"

static struct dev_visit_step step(struct dev_visits *visits, enum dev_event_kind kind,
                                  uint64_t page, uint32_t instance, uint64_t seq)
{
    struct dev_visit_step out;
    const struct dev_event event = {
        .seq = seq, .instance = instance, .kind = kind, .page_hash = page};
    dev_visits_step(visits, &event, &out);
    assert_true(dev_visits_validate(visits));
    return out;
}

static void named_cases(void **state)
{
    (void)state;
    struct dev_visits visits;
    dev_visits_init(&visits, 10);
    assert_int_equal(step(&visits, DEV_EVENT_CLICK, 1, 0, 1).visit, 0); // no visit
    assert_int_equal(step(&visits, DEV_EVENT_EXIT, 1, 0, 2).visit, 0);
    assert_int_equal(visits.unmatched, 1);
    assert_int_equal(step(&visits, DEV_EVENT_ENTER, 1, 0, 3).visit, 10);
    assert_int_equal(step(&visits, DEV_EVENT_ENTER, 2, 0, 4).visit, 11); // nested
    assert_int_equal(step(&visits, DEV_EVENT_CLICK, 1, 0, 5).visit, 10); // of the outer page
    assert_int_equal(step(&visits, DEV_EVENT_ENTER, 1, 1, 6).visit, 12); // the same page, a tab
    assert_int_equal(step(&visits, DEV_EVENT_SCROLL, 1, 1, 7).visit, 12);
    struct dev_visit_step out = step(&visits, DEV_EVENT_EXIT, 2, 0, 8);
    assert_int_equal(out.visit, 11);
    assert_true(out.ends && out.why == DEV_VISIT_EXIT && out.ended.number == 11);
    assert_true(out.ended.enter_seq == 4);
    out = step(&visits, DEV_EVENT_ENTER, 1, 0, 9);
    assert_int_equal(out.visit, 13);
    assert_true(out.ends && out.why == DEV_VISIT_REENTER && out.ended.number == 10);
    assert_int_equal(visits.count, 2);
}

static void one_too_many_closes_the_oldest(void **state)
{
    (void)state;
    struct dev_visits visits;
    dev_visits_init(&visits, 1);
    for (uint32_t i = 0; i < DEV_VISITS_MAX; i++) {
        assert_false(step(&visits, DEV_EVENT_ENTER, 100 + i, 0, i).ends);
    }
    struct dev_visit_step out = step(&visits, DEV_EVENT_ENTER, 99, 0, 99);
    assert_true(out.ends && out.why == DEV_VISIT_OVERFLOW && out.ended.page_hash == 100);
    assert_int_equal(visits.ended[DEV_VISIT_OVERFLOW], 1);
    assert_int_equal(step(&visits, DEV_EVENT_CLICK, 100, 0, 100).visit, 0);
}

static void numbers_end(void **state)
{
    (void)state;
    struct dev_visits visits;
    dev_visits_init(&visits, UINT32_MAX);
    assert_int_equal(step(&visits, DEV_EVENT_ENTER, 1, 0, 1).visit, UINT32_MAX);
    assert_int_equal(step(&visits, DEV_EVENT_ENTER, 2, 0, 2).visit, 0);
    assert_int_equal(step(&visits, DEV_EVENT_CLICK, 2, 0, 3).visit, 0);
    assert_int_equal(step(&visits, DEV_EVENT_CLICK, 1, 0, 4).visit, UINT32_MAX);
}

// ---- The oracle

#define PAST 3000

struct past {
    enum dev_event_kind kind;
    uint64_t page;
    uint32_t instance;
};

// Is the visit that began with event `at` open before event `now`? By the words of event.h, without
// the bound on open visits.
static bool open_at(const struct past *past, uint32_t at, uint32_t now)
{
    for (uint32_t i = at + 1; i < now; i++) {
        bool same = past[i].page == past[at].page && past[i].instance == past[at].instance;
        if (same && (past[i].kind == DEV_EVENT_EXIT || past[i].kind == DEV_EVENT_ENTER)) {
            return false;
        }
    }
    return true;
}

static uint32_t expect(const struct past *past, uint32_t now)
{
    uint32_t number = 0;
    uint32_t visit = 0;
    for (uint32_t i = 0; i <= now; i++) {
        if (past[i].kind != DEV_EVENT_ENTER) {
            continue;
        }
        number++;
        bool same = past[i].page == past[now].page && past[i].instance == past[now].instance;
        if (same && open_at(past, i, now)) {
            visit = number;
        }
    }
    return visit;
}

static void random_walks_agree_with_the_oracle(void **state)
{
    (void)state;
    static struct past past[PAST];
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 4; round++) {
        struct dev_visits visits;
        dev_visits_init(&visits, 1);
        uint64_t ended = 0;
        for (uint32_t i = 0; i < PAST / 2; i++) {
            past[i] = (struct past){
                .kind = (enum dev_event_kind)(DEV_EVENT_ENTER + base_prng_below(&prng, 6)),
                .page = 1 + base_prng_below(&prng, 2 + round * 4),
                .instance = (uint32_t)base_prng_below(&prng, 2),
            };
            struct dev_visit_step out =
                step(&visits, past[i].kind, past[i].page, past[i].instance, i);
            ended += out.ends ? 1 : 0;
            if (out.visit != expect(past, i)) {
                fail_msg("event %u: visit %u, not %u", i, out.visit, expect(past, i));
            }
        }
        uint64_t counted = 0;
        for (unsigned why = 0; why < DEV_VISIT_END_COUNT; why++) {
            counted += visits.ended[why];
        }
        assert_true(counted == ended);
        assert_true(ended + visits.count == visits.next - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_cases),
        cmocka_unit_test(one_too_many_closes_the_oldest),
        cmocka_unit_test(numbers_end),
        cmocka_unit_test(random_walks_agree_with_the_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
