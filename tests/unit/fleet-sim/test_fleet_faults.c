// Faults: how they are written, and that a draw depends on nothing but the fault itself, the device
// and the count.
#include "test_kit.h"

#include "model/run_act.h"
#include "swarm/sim_case.h"

#include <stdlib.h>

static struct sim_fault_plan *plan_new(void)
{
    struct sim_fault_plan *plan = calloc(1, sizeof(*plan));
    assert_non_null(plan);
    return plan;
}

static void add(struct sim_fault_plan *plan, const char *text)
{
    struct base_error error = {0};
    if (sim_fault_add(plan, base_str_of(text), &error) != BASE_OK) {
        fail_msg("%s: column %u: %s", text, error.column, error.text);
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct sim_fault_plan *plan = plan_new();
    add(plan, "network:loss @ 5%");
    add(plan, "network:delay 500@0.25 where network == \"3g\"");
    add(plan, "  gateway:503  @ 1 ");
    add(plan, "network:loss @ 1%");
    assert_int_equal(plan->rule_count, 4);
    assert_int_equal(plan->rules[0].kind, SIM_FAULT_LOSS);
    assert_int_equal(plan->rules[0].probability_ppm, 50000);
    assert_false(plan->rules[0].picky);
    assert_int_equal(plan->rules[1].amount, 500);
    assert_int_equal(plan->rules[1].probability_ppm, 250000);
    assert_true(plan->rules[1].picky);
    assert_int_equal(plan->rules[1].where.cond_count, 1);
    assert_int_equal(plan->rules[2].probability_ppm, 1000000);
    assert_int_equal(plan->rules[0].nth, 0);
    assert_int_equal(plan->rules[3].nth, 1);
    assert_true(sim_fault_plan_has(plan, SIM_FAULT_UNAVAILABLE));
    assert_false(sim_fault_plan_has(plan, SIM_FAULT_BUSY));
    free(plan);
}

static void what_makes_no_sense_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t column;
    } cases[] = {
        {"loss @ 5%", 1},
        {"network:los @ 5%", 1},
        {"storage:loss @ 5%", 1},
        {"", 1},
        {"network:loss 3 @ 5%", 14},
        {"network:delay x @ 5%", 15},
        {"network:delay 0", 15},
        {"network:loss @ 101%", 15},
        {"network:loss @", 15},
        {"network:loss", 13},
        {"network:delay 500", 18},
        {"network:loss where os == \"android\"", 13},
        {"network:delay 9999999", 15},
        {"network:loss @ 5% where os = \"android\"", 28},
    };
    struct sim_fault_plan *plan = plan_new();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct base_error error = {0};
        assert_int_equal(sim_fault_add(plan, base_str_of(cases[i].text), &error), BASE_ERR_INVALID);
        if (error.column != cases[i].column) {
            fail_msg("'%s': column %u, not %u: %s", cases[i].text, error.column, cases[i].column,
                     error.text);
        }
    }
    assert_int_equal(plan->rule_count, 0);
    struct base_error error = {0};
    assert_int_equal(sim_fault_add(plan, BASE_STR("network:delay 9999999 @ 5%"), &error),
                     BASE_ERR_INVALID);
    assert_string_equal(error.text,
                        "a whole number from 1 to 600000 is expected here (ms at most)");
    for (uint32_t i = 0; i < SIM_FAULTS_MAX; i++) {
        add(plan, "process:kill @ 1");
    }
    assert_int_equal(sim_fault_add(plan, BASE_STR("process:kill @ 1"), &error), BASE_ERR_LIMIT);
    free(plan);
}

// Whatever the order of words: a fault of an act takes no number of those that are from the start.
static void faults_of_acts_are_numbered_apart(void **state)
{
    (void)state;
    struct sim_fault_plan *plan = plan_new();
    struct sim_fault_plan *alone = plan_new();
    struct sim_acts acts = {.count = 0};
    add(alone, "network:loss @ 5%");
    assert_int_equal(sim_act_add(&acts, plan, BASE_STR("40 fault network:loss @ 9%"), NULL),
                     BASE_OK);
    add(plan, "network:loss @ 5%");
    assert_int_equal(sim_act_add(&acts, plan, BASE_STR("20 fault network:loss @ 9%"), NULL),
                     BASE_OK);
    assert_int_equal(plan->rules[0].from_s, 40);
    assert_int_equal(plan->rules[2].from_s, 20);
    assert_true(sim_fault_draw(7, &plan->rules[1], 3, 4) ==
                sim_fault_draw(7, &alone->rules[0], 3, 4));
    while (plan->rule_count < SIM_FAULTS_MAX) {
        add(plan, "network:loss @ 5%");
    }
    for (uint32_t i = 0; i < SIM_FAULTS_MAX; i++) {
        assert_true(plan->rules[i].nth < SIM_FAULTS_MAX);
        for (uint32_t k = 0; k < i; k++) {
            assert_int_not_equal(plan->rules[i].nth, plan->rules[k].nth);
        }
    }
    free(alone);
    free(plan);
}

// Every kind can be written, with its usual amount, and the help has it.
static void every_kind_has_a_name(void **state)
{
    (void)state;
    char help[8192];
    sim_faults_help(help, sizeof(help));
    for (uint32_t k = 0; k < SIM_FAULT_KIND_COUNT; k++) {
        char text[64];
        char rule[80];
        struct sim_fault_plan *plan = plan_new();
        const struct sim_fault_about *about = sim_fault_about((enum sim_fault_kind)k);
        (void)snprintf(text, sizeof(text), "%s:%s", sim_fault_family_name(about->family),
                       about->name);
        (void)snprintf(rule, sizeof(rule), "%s @ 1%%", text);
        add(plan, rule);
        assert_int_equal(plan->rules[0].kind, k);
        assert_int_equal(plan->rules[0].amount, about->usual);
        assert_true(about->amount == NULL || (about->usual >= 1 && about->usual <= about->most));
        assert_non_null(strstr(help, text));
        free(plan);
    }
}

// One fault less, of this family or another, changes none of the draws of those that stay.
static void a_draw_is_of_its_fault_alone(void **state)
{
    (void)state;
    struct sim_fault_plan *all = plan_new();
    struct sim_fault_plan *less = plan_new();
    add(all, "storage:flip @ 1%");
    add(all, "network:loss @ 5%");
    add(all, "network:loss @ 9%");
    add(less, "network:loss @ 5%");
    uint32_t hits = 0;
    uint32_t same = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t draw = sim_fault_draw(7, &all->rules[1], i / 100, i % 100);
        assert_int_equal(draw, sim_fault_draw(7, &less->rules[0], i / 100, i % 100));
        hits += sim_fault_hits(&all->rules[1], draw);
        same += draw == sim_fault_draw(7, &all->rules[2], i / 100, i % 100);
        same += draw == sim_fault_draw(8, &all->rules[1], i / 100, i % 100);
        same += draw == sim_fault_draw(7, &all->rules[0], i / 100, i % 100);
    }
    assert_int_equal(same, 0);
    assert_in_range(hits, 850, 1150); // 5 % of 20,000
    free(all);
    free(less);
}

// What a seed of a swarm drew when there were fewer kinds, it draws in front of all others.
static void a_seed_draws_what_it_drew(void **state)
{
    (void)state;
    static const char *const before[] = {
        "network:delay 1000 @ 1.00%", "network:corrupt @ 0.05%",  "network:handover @ 1.00%",
        "network:outage 60 @ 30.00%", "network:storm 75 @ 0.50%", "storage:torn @ 5.00%",
        "storage:backup @ 0.10%",     "device:cpu 32 @ 0.50%",    "network:reset @ 2.50%"};
    const uint32_t count = sizeof(before) / sizeof(before[0]);
    uint64_t kinds = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct sim_case *drawn = calloc(1, sizeof(*drawn));
        struct sim_fault_plan *plan = plan_new();
        assert_non_null(drawn);
        sim_swarm_draw(seed, drawn);
        uint32_t last = 0;
        for (uint32_t i = 0; i < drawn->fault_count; i++) {
            add(plan, drawn->faults[i]);
            bool late = plan->rules[i].kind >= SIM_FAULT_DNS;
            assert_true(late || last == 0); // those that came later are the last
            last = late;
            kinds |= UINT64_C(1) << plan->rules[i].kind;
        }
        for (uint32_t i = 0; seed == 1 && i < count; i++) {
            assert_string_equal(drawn->faults[i], before[i]);
        }
        free(plan);
        free(drawn);
    }
    assert_int_equal(kinds, (UINT64_C(1) << SIM_FAULT_KIND_COUNT) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_makes_no_sense_is_refused_with_its_place),
        cmocka_unit_test(faults_of_acts_are_numbered_apart),
        cmocka_unit_test(every_kind_has_a_name),
        cmocka_unit_test(a_draw_is_of_its_fault_alone),
        cmocka_unit_test(a_seed_draws_what_it_drew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
