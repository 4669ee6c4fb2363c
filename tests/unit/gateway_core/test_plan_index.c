// Plans, their index and the cohorts computed from them, beside a computation per device over every
// task: random releases with conditions, expressions or nobody in mind, random changes of the plan,
// cohorts that follow every plan, some plans, or come new, and devices whose attributes change.
#include "test_kit.h"

#include "base/alloc.h"
#include "policy/bucket.h"
#include "policy/expr.h"
#include "svc/plan/want.h"
#include "wire/profile.h"

#define TASKS    600u
#define BLOCKS   64u
#define PLANS    400u
#define BASES    3u
#define RELEASES (BASES + 6u) // versions of a task that rollouts move between

struct model_task {
    uint64_t task_id;
    struct gw_release *releases[RELEASES];
    struct gw_plan_task now;
};

struct model {
    struct base_prng prng;
    struct model_task tasks[TASKS]; // by ascending id
    uint32_t count;
    uint32_t slots[TASKS];
    uint8_t blocks[BLOCKS][WIRE_ATTRS_BYTES_MAX];
    size_t block_sizes[BLOCKS];
    uint64_t decided[POL_DESIRED_RULE_COUNT];
};

static struct model model;
static uint64_t next_release = 1;

static uint32_t below(uint32_t bound)
{
    return (uint32_t)base_prng_below(&model.prng, bound);
}

// ---- Drawing

static const char *const names[] = {"app_version", "channel", "model", "os", "region"};
static const char *const values[] = {"1", "2.0", "3.1.4", "a", "b", "c", "d", "7.0.0", "beta"};

static struct pol_text text_of(const char *text)
{
    return (struct pol_text){text, (uint32_t)strlen(text)};
}

static void draw_expression(struct gw_release *release, struct pol_target *out)
{
    char text[256];
    const char *name = names[below(TEST_COUNT(names))];
    const char *other = names[below(TEST_COUNT(names))];
    const char *value = values[below(TEST_COUNT(values))];
    const char *second = values[below(TEST_COUNT(values))];
    static const char *const forms[] = {
        "%s == \"%s\" && %s != \"%s\"",      "%s == \"%s\" || %s == \"%s\"",
        "!(%s != \"%s\") && !(%s ~ \"%s\")", "%s in [\"%s\", \"x\"] && (has(%s) || os == \"%s\")",
        "%s ~ \"*%s\" && %s != \"%s\"",
    };
    if (below(4) == 0) {
        snprintf(text, sizeof(text), "%s == %u", name, 1 + below(7)); // N.0.0 of a text
    } else {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof(text), forms[below(TEST_COUNT(forms))], name, value, other, second);
#pragma GCC diagnostic pop
    }
    struct pol_expr_error error = {0};
    size_t bytes = 4096;
    void *memory = base_arena_alloc(&release->hold->arena, bytes);
    assert_non_null(memory);
    if (!pol_expr_compile(text_of(text), (struct pol_expr_space){memory, bytes}, &out->expr, &bytes,
                          &error)) {
        fail_msg("%s: %s", text, error.message);
    }
}

static void draw_target(struct gw_release *release, struct pol_target *out)
{
    uint32_t dice = below(10);
    if (dice == 0) {
        return; // everybody
    }
    if (dice < 6) {
        draw_expression(release, out);
        return;
    }
    struct pol_cond *conds = base_arena_zalloc(&release->hold->arena, 2 * sizeof(conds[0]));
    struct pol_value *operands = base_arena_zalloc(&release->hold->arena, 4 * sizeof(operands[0]));
    assert_non_null(conds);
    assert_non_null(operands);
    out->conds = conds;
    out->cond_count = 1 + below(2);
    for (uint32_t i = 0; i < out->cond_count; i++) {
        bool set = below(2) == 0;
        operands[i * 2].text = text_of(values[below(TEST_COUNT(values))]);
        operands[i * 2 + 1].text = text_of(values[below(TEST_COUNT(values))]);
        conds[i] = (struct pol_cond){text_of(names[below(TEST_COUNT(names))]),
                                     set             ? POL_OP_IN
                                     : below(3) == 0 ? POL_OP_NE
                                                     : POL_OP_EQ,
                                     &operands[i * 2], set ? 2 : 1};
    }
}

static struct gw_release *draw_release(uint64_t task_id)
{
    struct gw_release *release = gw_release_blank();
    assert_non_null(release);
    release->id = next_release++;
    release->task_id = task_id;
    release->version_id = base_mix64(release->id);
    release->salt = base_mix64(release->id + 1000);
    release->release_counter = release->id;
    if (below(3) == 0) {
        release->arm.salt = 1 + below(2); // two experiments
        release->arm.from = (uint16_t)below(5000);
        release->arm.to = (uint16_t)(release->arm.from + 1 + below(5000));
    }
    draw_target(release, &release->target);
    release->stage_count = 3;
    release->stages[0].kind = POL_STAGE_BETA;
    release->stages[0].max_bucket = POL_BUCKET_COUNT;
    if (below(2) == 0) {
        draw_expression(release, &release->stages[0].audience);
    }
    release->stages[1].kind = POL_STAGE_GRAY;
    release->stages[1].max_bucket = (uint16_t)(1 + below(9000));
    release->stages[2].kind = below(4) == 0 ? POL_STAGE_GRAY : POL_STAGE_FULL;
    release->stages[2].max_bucket = POL_BUCKET_COUNT;
    if (release->stages[2].kind == POL_STAGE_GRAY) { // it ends below full
        release->stages[2].max_bucket = (uint16_t)(release->stages[1].max_bucket + below(1000));
    }
    return release;
}

// Another state of the task: other baseline, other open rollouts, other stages.
static void change_task(struct model_task *task)
{
    struct gw_plan_task *now = &task->now;
    now->base_count = below(4);
    for (uint32_t i = 0; i < now->base_count; i++) { // approved last first
        now->bases[i].release = task->releases[BASES - 1 - i];
    }
    now->open_count = below(5);
    for (uint32_t i = 0; i < now->open_count; i++) {
        now->open[i].release = task->releases[BASES + i];
        now->open[i].state.state = below(5) == 0 ? POL_ROLLOUT_PAUSED : POL_ROLLOUT_RUNNING;
        now->open[i].state.stage_index = (uint16_t)below(3);
    }
}

static void add_task(void)
{
    struct model_task task = {.task_id = base_prng_next(&model.prng)};
    uint32_t at = 0;
    while (at < model.count && model.tasks[at].task_id < task.task_id) {
        at++;
    }
    for (uint32_t i = 0; i < RELEASES; i++) {
        task.releases[i] = draw_release(task.task_id);
    }
    task.now.task_id = task.task_id;
    task.now.slot = model.count;
    change_task(&task);
    memmove(&model.tasks[at + 1], &model.tasks[at], (model.count - at) * sizeof(model.tasks[0]));
    model.tasks[at] = task;
    model.count++;
}

static void draw_block(uint32_t which)
{
    struct wire_attrs attrs = {.count = 0};
    for (uint32_t i = 0; i < TEST_COUNT(names); i++) {
        if (below(5) == 0) {
            continue;
        }
        struct wire_attr *attr = &attrs.items[attrs.count++];
        *attr = (struct wire_attr){.name = base_str_of(names[i])};
        if (below(6) == 0) {
            attr->type = WIRE_ATTR_INTEGER;
            attr->integer = 1 + below(7);
        } else {
            attr->text = base_str_of(values[below(TEST_COUNT(values))]);
        }
    }
    struct base_writer writer;
    base_writer_init(&writer, model.blocks[which], sizeof(model.blocks[which]));
    wire_attrs_write(&writer, &attrs);
    assert_int_equal(writer.status, BASE_OK);
    model.block_sizes[which] = base_writer_size(&writer);
}

static void fill(const void *ctx, uint32_t i, struct gw_plan_task *out)
{
    const struct model *from = ctx;
    *out = from->tasks[i].now;
}

// ---- What a device should have, from first principles

static bool in_arm(uint64_t device_id, const struct gw_release *release)
{
    uint16_t bucket = pol_bucket(device_id, release->arm.salt);
    return release->arm.to == 0 || (bucket >= release->arm.from && bucket < release->arm.to);
}

static bool in_stages(uint64_t device_id, const struct gw_release *release, uint32_t newest,
                      const struct pol_attrs *attrs)
{
    bool admitted = false;
    for (uint32_t s = 0; s <= newest; s++) {
        admitted =
            admitted || (pol_bucket(device_id, release->salt) < release->stages[s].max_bucket &&
                         pol_target_match(&release->stages[s].audience, attrs).matched);
    }
    return admitted;
}

static uint64_t brute(uint64_t device_id, const struct pol_attrs *attrs)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < model.count; i++) {
        const struct gw_plan_task *task = &model.tasks[i].now;
        uint64_t version = 0;
        for (uint32_t k = task->base_count; k > 0; k--) { // approved later wins
            const struct gw_release *base = task->bases[k - 1].release;
            if (in_arm(device_id, base) && pol_target_match(&base->target, attrs).matched &&
                in_stages(device_id, base, 2, attrs)) {
                version = base->version_id;
            }
        }
        for (uint32_t k = 0; k < task->open_count; k++) {
            const struct gw_release *release = task->open[k].release;
            if (!in_arm(device_id, release) || !pol_target_match(&release->target, attrs).matched) {
                continue;
            }
            if (in_stages(device_id, release, task->open[k].state.stage_index, attrs)) {
                version = release->version_id;
            }
            break;
        }
        digest += wire_profile_term(task->task_id, version, 0);
    }
    return digest;
}

// A decision that knows the cohort, and one from the attributes alone, of a device in any state.
static void check_decisions(const struct gw_cohort *cohort, const struct gw_plan *plan,
                            const struct pol_attrs *attrs, uint64_t device_id)
{
    for (uint32_t i = 0; i < plan->task_count; i++) {
        const struct gw_plan_task *task = plan->tasks[i];
        const struct gw_cohort_task *entries = NULL;
        uint32_t count = 0;
        for (uint32_t k = 0; k < cohort->task_count; k++) {
            if (cohort->tasks[k].task_id == task->task_id) {
                entries = count == 0 ? &cohort->tasks[k] : entries;
                count++;
            }
        }
        uint32_t claims = task->open_count + task->base_count;
        struct gw_device_facts facts = {.device_id = &device_id};
        if (claims > 0 && below(2) == 0) {
            uint32_t at = below(claims);
            at = at < task->open_count ? at : GW_PLAN_OPEN_MAX + at - task->open_count;
            facts.have = gw_plan_claim_release(task, (uint8_t)at)->version_id;
        }
        if (claims > 0 && below(4) == 0) {
            uint32_t at = below(claims);
            at = at < task->open_count ? at : GW_PLAN_OPEN_MAX + at - task->open_count;
            facts.blocked = gw_plan_claim_release(task, (uint8_t)at)->version_id;
        }
        struct gw_want a = gw_want_decide(task, entries, count, &facts, attrs);
        struct gw_want b = gw_want_of(task, &facts, attrs);
        assert_true(a.version_id == b.version_id && a.rule == b.rule && a.release == b.release);
        model.decided[a.rule]++;
    }
}

static void check_cohort(struct gw_cohorts *cohorts, const struct gw_plan *plan, uint32_t which)
{
    struct gw_attrs_view view;
    struct gw_cohort *cohort;
    bool created;
    assert_int_equal(gw_attrs_view(model.blocks[which], model.block_sizes[which], &view), BASE_OK);
    assert_int_equal(gw_cohorts_find(cohorts, plan,
                                     &(struct gw_cohort_name){
                                         0, {model.blocks[which], model.block_sizes[which]}},
                                     &cohort, &created),
                     BASE_OK);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t device_id = base_prng_next(&model.prng);
        uint64_t wanted = brute(device_id, &view.attrs);
        if (gw_cohort_expected(cohort, device_id) != wanted) {
            fail_msg("plan %llu, block %u: another digest", (unsigned long long)plan->generation,
                     which);
        }
        if (i == 0 && below(16) == 0) {
            check_decisions(cohort, plan, &view.attrs, device_id);
        }
    }
    for (uint32_t i = 1; i < cohort->task_count; i++) {
        const struct gw_cohort_task *a = &cohort->tasks[i - 1];
        const struct gw_cohort_task *b = &cohort->tasks[i];
        assert_true(a->task_id < b->task_id || (a->task_id == b->task_id && a->claim < b->claim));
    }
}

// A cohort computed by steps and one computed at once are the same, signature included.
static void check_fresh(struct gw_cohorts *cohorts, const struct gw_plan *plan, uint32_t which)
{
    struct gw_cohorts *fresh;
    struct gw_cohort *a;
    struct gw_cohort *b;
    bool created;
    assert_int_equal(gw_cohorts_new(&(struct base_hash_key){1, 2}, &fresh), BASE_OK);
    assert_int_equal(gw_cohorts_find(cohorts, plan,
                                     &(struct gw_cohort_name){
                                         0, {model.blocks[which], model.block_sizes[which]}},
                                     &a, &created),
                     BASE_OK);
    assert_int_equal(gw_cohorts_find(fresh, plan,
                                     &(struct gw_cohort_name){
                                         0, {model.blocks[which], model.block_sizes[which]}},
                                     &b, &created),
                     BASE_OK);
    assert_true(created);
    assert_true(a->digest == b->digest);
    assert_true(a->signature == b->signature);
    assert_int_equal(a->task_count, b->task_count);
    for (uint32_t i = 0; i < a->task_count; i++) {
        const struct gw_cohort_task *x = &a->tasks[i];
        const struct gw_cohort_task *y = &b->tasks[i];
        assert_true(x->task_id == y->task_id && x->term == y->term &&
                    x->signature == y->signature && x->slot == y->slot && x->limit == y->limit &&
                    x->claim == y->claim && x->quarantined == y->quarantined);
    }
    gw_cohorts_free(fresh);
}

static void start(uint32_t tasks)
{
    test_seed(&model.prng);
    model.count = 0;
    for (uint32_t i = 0; i < tasks; i++) {
        add_task();
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        draw_block(i);
    }
}

static void end(void)
{
    for (uint32_t i = 0; i < model.count; i++) {
        for (uint32_t k = 0; k < RELEASES; k++) {
            gw_release_unref(model.tasks[i].releases[k]);
        }
    }
}

static struct gw_plan *follow(struct gw_plan *plan)
{
    bool changed;
    struct gw_plan *next = gw_plan_build(plan, model.count, fill, &model, &changed);
    assert_int_equal(next != NULL, changed);
    if (next == NULL) {
        return plan;
    }
    assert_true(gw_plan_validate(next));
    gw_plan_unref(plan);
    return next;
}

static void cohorts_follow_every_change(void **state)
{
    (void)state;
    struct gw_cohorts *cohorts;
    start(TASKS / 2);
    assert_int_equal(gw_cohorts_new(&(struct base_hash_key){1, 2}, &cohorts), BASE_OK);
    struct gw_plan *plan = follow(NULL);
    for (uint32_t round = 0; round < PLANS; round++) {
        uint32_t dice = below(20);
        uint32_t changes = dice == 0 ? 200 : dice < 15 ? 1 + below(3) : 0;
        for (uint32_t i = 0; i < changes; i++) {
            change_task(&model.tasks[below(model.count)]);
        }
        if (dice > 14 && model.count < TASKS) {
            add_task();
        }
        if (below(3) == 0) {
            draw_block(below(BLOCKS)); // a device's attributes changed
        }
        plan = follow(plan);
        uint32_t seen = below(6); // the others fall behind
        for (uint32_t i = 0; i < seen; i++) {
            check_cohort(cohorts, plan, below(BLOCKS));
        }
        if (round % 10 == 0) {
            check_fresh(cohorts, plan, below(BLOCKS));
        }
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        check_cohort(cohorts, plan, i);
        check_fresh(cohorts, plan, i);
    }
    printf("%llu cohorts computed at once, %llu tasks evaluated\n",
           (unsigned long long)cohorts->compiled, (unsigned long long)cohorts->evaluated);
    for (uint32_t i = 0; i < POL_DESIRED_RULE_COUNT; i++) {
        assert_true(model.decided[i] > 20);
    }
    gw_cohorts_free(cohorts);
    gw_plan_unref(plan);
    end();
}

// The same state again is no new plan, and a change costs each cohort that task only.
static void changes_cost_what_changed(void **state)
{
    (void)state;
    struct gw_cohorts *cohorts;
    start(TASKS - 1);
    assert_int_equal(gw_cohorts_new(&(struct base_hash_key){1, 2}, &cohorts), BASE_OK);
    struct gw_plan *plan = follow(NULL);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        check_cohort(cohorts, plan, i);
    }
    bool changed;
    assert_null(gw_plan_build(plan, model.count, fill, &model, &changed));
    assert_false(changed);
    uint64_t compiled = cohorts->compiled;
    uint64_t evaluated = cohorts->evaluated;
    assert_true(evaluated < (uint64_t)compiled * TASKS); // the index left some out
    uint64_t generation = plan->generation;
    do {
        change_task(&model.tasks[7]);
        plan = follow(plan);
    } while (plan->generation == generation);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        check_cohort(cohorts, plan, i);
    }
    assert_int_equal(cohorts->compiled, compiled);
    assert_int_equal(cohorts->evaluated, evaluated + cohorts->count);
    gw_cohorts_free(cohorts);
    gw_plan_unref(plan);
    end();
}

// The signature of a cohort changes when a task that concerns it does, and when a release is
// retired anywhere; not when another cohort's task does.
static void signatures_tell_what_concerns(void **state)
{
    (void)state;
    static const char *const texts[] = {"os == \"a\"", "os == \"b\""};
    struct gw_cohorts *cohorts;
    start(1);
    assert_int_equal(gw_cohorts_new(&(struct base_hash_key){1, 2}, &cohorts), BASE_OK);
    add_task();
    for (uint32_t i = 0; i < 2; i++) {
        struct gw_release *release = model.tasks[i].releases[1];
        struct pol_expr_error error;
        size_t bytes = 4096;
        void *memory = base_arena_alloc(&release->hold->arena, bytes);
        release->target = (struct pol_target){0};
        release->arm = (struct pol_arm){0};
        assert_true(pol_expr_compile(text_of(texts[i]), (struct pol_expr_space){memory, bytes},
                                     &release->target.expr, &bytes, &error));
        model.tasks[i].now.base_count = 0;
        model.tasks[i].now.open_count = 1;
        model.tasks[i].now.open[0] = (struct gw_plan_open){
            .release = release, .state = {.state = POL_ROLLOUT_RUNNING, .stage_index = 1}};
    }
    struct wire_attrs attrs = {.count = 1};
    attrs.items[0] = (struct wire_attr){.name = BASE_STR("os"), .text = BASE_STR("a")};
    struct base_writer writer;
    base_writer_init(&writer, model.blocks[0], sizeof(model.blocks[0]));
    wire_attrs_write(&writer, &attrs);
    size_t size = base_writer_size(&writer);
    struct gw_plan *plan = follow(NULL);
    struct gw_cohort *cohort;
    bool created;
    uint64_t signatures[4];
    for (uint32_t step = 0; step < 4; step++) {
        if (step == 1) {
            model.tasks[1].now.open[0].state.stage_index = 2; // the other's
        } else if (step == 2) {
            model.tasks[0].now.open[0].state.stage_index = 2; // its own
        } else if (step == 3) {
            model.tasks[1].now.open_count = 0; // who keeps that one asks again
        }
        plan = follow(plan);
        assert_int_equal(gw_cohorts_find(cohorts, plan,
                                         &(struct gw_cohort_name){0, {model.blocks[0], size}},
                                         &cohort, &created),
                         BASE_OK);
        assert_int_equal(cohort->task_count, 1);
        signatures[step] = cohort->signature;
    }
    assert_true(signatures[0] == signatures[1]);
    assert_true(signatures[1] != signatures[2]);
    assert_true(signatures[2] != signatures[3]);
    gw_cohorts_free(cohorts);
    gw_plan_unref(plan);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cohorts_follow_every_change),
        cmocka_unit_test(changes_cost_what_changed),
        cmocka_unit_test(signatures_tell_what_concerns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
