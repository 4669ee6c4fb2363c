// The memory plan: random programs in which no two tensors that live at the same time may share a
// byte, and programs small enough to know the best plan.
#include "program_rig.h"

#include "program/plan_memory.h"

#define LIMIT ((size_t)1 << 40)

static uint32_t root_of(const struct eng_program *program, uint32_t tensor)
{
    uint32_t alias = program->tensors[tensor].alias;
    return alias == ENG_NONE ? tensor : alias;
}

// Executes the plan in thought: who owns each byte now. A command may read only bytes that still
// are its operand's, and writes its result's.
static void check_plan(const struct eng_program *program, const struct eng_memory_plan *plan)
{
    size_t units = plan->total_bytes / ENG_PLAN_ALIGNMENT;
    uint32_t *owner = malloc((units + 1) * sizeof(*owner));
    assert_non_null(owner);
    memset(owner, 0xff, (units + 1) * sizeof(*owner));
    for (uint32_t c = 0; c <= program->command_count; c++) {
        bool last = c == program->command_count;
        for (uint32_t t = 0; t < program->tensor_count; t++) {
            bool read = last && program->tensors[t].is_output;
            for (uint32_t i = 0; !last && i < program->commands[c].input_count; i++) {
                read = read || program->commands[c].inputs[i] == t;
            }
            uint32_t root = root_of(program, t);
            if (!read || program->tensors[root].kind != ENG_TEMP) {
                continue;
            }
            size_t begin = plan->offsets[root] / ENG_PLAN_ALIGNMENT;
            size_t size = eng_desc_bytes(&program->tensors[root].desc);
            assert_int_equal(plan->offsets[root] % ENG_PLAN_ALIGNMENT, 0);
            assert_true(plan->offsets[root] + size <= plan->total_bytes);
            for (size_t u = 0; u < (size + 63) / 64; u++) {
                assert_int_equal(owner[begin + u], root);
            }
        }
        for (uint32_t o = 0; !last && o < program->commands[c].output_count; o++) {
            uint32_t t = program->commands[c].outputs[o];
            size_t size = eng_desc_bytes(&program->tensors[t].desc);
            for (size_t u = 0; u < (size + 63) / 64; u++) {
                owner[plan->offsets[t] / 64 + u] = t;
            }
        }
    }
    free(owner);
}

// A random program: unary and binary commands, some over broadcasts, reductions in between.
static void build_random(struct program_rig *rig, struct base_prng *prng, uint32_t commands)
{
    uint32_t made[512];
    uint32_t count = 0;
    made[count++] = pr_input(rig, PR_DIMS(4, 16));
    made[count++] = pr_input(rig, PR_DIMS(16));
    for (uint32_t c = 0; c < commands; c++) {
        uint32_t from = count > 8 ? count - 8 : 0;
        uint32_t a = made[from + base_prng_below(prng, count - from)];
        uint32_t b = made[from + base_prng_below(prng, count - from)];
        uint32_t y;
        switch (base_prng_below(prng, 5)) {
        case 0:
            y = pr_unary(rig, ENG_NEG, a);
            break;
        case 1:
            y = pr_mean(rig, a);
            break;
        case 2:
            if (rig->program.tensors[a].kind == ENG_TEMP &&
                rig->program.tensors[a].alias == ENG_NONE) {
                y = pr_alias(rig, a, pr_desc(rig, a)->rank, pr_desc(rig, a)->dims);
                break;
            }
            __attribute__((fallthrough));
        default:
            y = pr_binary(rig, ENG_ADD, a, b);
            break;
        }
        if (base_prng_below(prng, 10) == 0) {
            rig->program.tensors[y].is_output = true;
        }
        made[count++] = y;
    }
}

static void no_two_living_tensors_share_a_byte(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    size_t total = 0, unshared = 0;
    for (uint32_t round = 0; round < 400; round++) {
        struct program_rig rig;
        pr_init(&rig);
        build_random(&rig, &prng, 5 + (uint32_t)base_prng_below(&prng, 200));
        struct eng_memory_plan plan;
        assert_int_equal(eng_program_plan_memory(&rig.program, &rig.arena, LIMIT, &plan), BASE_OK);
        assert_true(plan.total_bytes <= plan.unshared_bytes);
        check_plan(&rig.program, &plan);
        total += plan.total_bytes;
        unshared += plan.unshared_bytes;
        pr_done(&rig);
    }
    print_message("%zu of %zu bytes\n", total, unshared);
    assert_true(total * 2 < unshared);
}

// More tensors than the thrifty rule takes.
static void long_programs_are_planned_too(void **state)
{
    (void)state;
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    struct eng_program program;
    eng_program_init(&program, &arena);
    const struct eng_desc desc = {.dtype = ENG_F32, .rank = 1, .dims = {100}};
    const struct eng_desc small = {.dtype = ENG_F32, .rank = 1, .dims = {1}};
    uint32_t last;
    assert_int_equal(eng_program_tensor(&program, ENG_INPUT, ENG_PLAIN, &desc, &last), BASE_OK);
    for (uint32_t i = 0; i < ENG_PLAN_TENSORS_MAX + 100; i++) {
        struct eng_command *command;
        uint32_t next;
        bool shrink = i % 2 == 0;
        assert_int_equal(
            eng_program_tensor(&program, ENG_TEMP, ENG_PLAIN, shrink ? &small : &desc, &next),
            BASE_OK);
        assert_int_equal(
            eng_program_command(&program, shrink ? ENG_OP_REDUCE : ENG_OP_BINARY, 1, 1, &command),
            BASE_OK);
        command->inputs[0] = last;
        command->outputs[0] = next;
        command->box = (struct eng_box){.rank = 1, .size = {100}};
        program.tensors[next].is_output = i % 1000 == 0;
        last = next;
    }
    struct eng_memory_plan plan;
    assert_int_equal(eng_program_plan_memory(&program, &arena, LIMIT, &plan), BASE_OK);
    print_message("%zu of %zu bytes\n", plan.total_bytes, plan.unshared_bytes);
    assert_in_range(plan.total_bytes, 512, 4096);
    check_plan(&program, &plan);
    base_arena_done(&arena);
}

static void elementwise_chains_stay_in_place(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_init(&rig);
    uint32_t x = pr_input(&rig, PR_DIMS(64));
    uint32_t a = pr_unary(&rig, ENG_NEG, x);
    uint32_t b = pr_unary(&rig, ENG_ABS, a);
    uint32_t c = pr_binary(&rig, ENG_ADD, b, b);
    uint32_t d = pr_binary(&rig, ENG_ADD, c, x);
    pr_output(&rig, d);
    struct eng_memory_plan plan;
    assert_int_equal(eng_program_plan_memory(&rig.program, &rig.arena, LIMIT, &plan), BASE_OK);
    assert_int_equal(plan.total_bytes, 256);
    assert_int_equal(plan.unshared_bytes, 4 * 256);
    assert_int_equal(plan.offsets[a], plan.offsets[d]);
    assert_int_equal(plan.offsets[x], ENG_PLAN_NOWHERE);
    pr_done(&rig);
}

// What is read in another order, or again later, or by somebody outside, is not written over.
static void what_is_still_needed_is_kept(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_init(&rig);
    uint32_t x = pr_input(&rig, PR_DIMS(16, 16));
    uint32_t a = pr_unary(&rig, ENG_NEG, x);
    uint32_t y = pr_like(&rig, a);
    struct eng_command *command = pr_command(&rig, ENG_OP_BINARY, 2, (uint32_t[]){a, a}, y);
    command->u.binary.fn = ENG_ADD;
    command->box = (struct eng_box){.rank = 2, .size = {16, 16}};
    command->views[0] = (struct eng_view){.stride = {16, 1}};
    command->views[1] = (struct eng_view){.stride = {1, 16}}; // transposed
    pr_output(&rig, y);
    struct eng_memory_plan plan;
    assert_int_equal(eng_program_plan_memory(&rig.program, &rig.arena, LIMIT, &plan), BASE_OK);
    assert_int_not_equal(plan.offsets[a], plan.offsets[y]);

    uint32_t b = pr_unary(&rig, ENG_NEG, y); // y is an output
    uint32_t c = pr_unary(&rig, ENG_NEG, b);
    pr_output(&rig, pr_binary(&rig, ENG_ADD, c, b)); // b is read again
    assert_int_equal(eng_program_plan_memory(&rig.program, &rig.arena, LIMIT, &plan), BASE_OK);
    assert_int_not_equal(plan.offsets[b], plan.offsets[y]);
    assert_int_not_equal(plan.offsets[c], plan.offsets[b]);
    check_plan(&rig.program, &plan);
    pr_done(&rig);
}

static void plans_over_the_limit_are_refused(void **state)
{
    (void)state;
    struct program_rig rig;
    pr_init(&rig);
    pr_output(&rig, pr_unary(&rig, ENG_NEG, pr_input(&rig, PR_DIMS(64))));
    struct eng_memory_plan plan;
    assert_int_equal(eng_program_plan_memory(&rig.program, &rig.arena, 255, &plan),
                     BASE_ERR_TOO_LARGE);
    assert_int_equal(eng_program_plan_memory(&rig.program, &rig.arena, 256, &plan), BASE_OK);
    pr_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_living_tensors_share_a_byte),
        cmocka_unit_test(long_programs_are_planned_too),
        cmocka_unit_test(elementwise_chains_stay_in_place),
        cmocka_unit_test(what_is_still_needed_is_kept),
        cmocka_unit_test(plans_over_the_limit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
