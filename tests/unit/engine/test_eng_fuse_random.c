// Random programs, optimised and laid out in one buffer, against the same programs as they were:
// the outputs must agree whatever the passes found in them.
#include "program_rig.h"

#include "program/plan_memory.h"

#define MADE_MAX 400u

struct maker {
    struct program_rig *rig;
    struct base_prng prng;
    uint32_t made[MADE_MAX];
    uint32_t count;
};

static uint32_t pick(struct maker *m)
{
    uint32_t from = m->count > 6 ? m->count - 6 : 0;
    return m->made[from + base_prng_below(&m->prng, m->count - from)];
}

// A tensor of 4 x 16 elements.
static uint32_t pick_full(struct maker *m)
{
    for (uint32_t i = m->count; i > 0; i--) {
        const struct eng_desc *desc = pr_desc(m->rig, m->made[i - 1]);
        if (desc->rank == 2 && desc->dims[0] == 4 && desc->dims[1] == 16 &&
            base_prng_below(&m->prng, 3) != 0) {
            return m->made[i - 1];
        }
    }
    return m->made[0];
}

static uint32_t norm(struct maker *m, uint32_t x)
{
    struct program_rig *rig = m->rig;
    uint32_t centred = pr_binary(rig, ENG_SUB, x, pr_mean(rig, x));
    uint32_t v = pr_mean(rig, pr_binary(rig, ENG_MUL, centred, centred));
    v = pr_unary(rig, ENG_SQRT, pr_binary(rig, ENG_ADD, v, pr_scalar(rig, 0.1F)));
    m->made[m->count++] = base_prng_below(&m->prng, 2) == 0 ? v : centred; // may be read elsewhere
    uint32_t y = pr_binary(rig, ENG_DIV, centred, v);
    return pr_binary(rig, ENG_MUL, y, pr_const(rig, PR_DIMS(16)));
}

static uint32_t gelu(struct maker *m, uint32_t x)
{
    struct program_rig *rig = m->rig;
    uint32_t e = pr_unary(rig, ENG_ERF, pr_binary(rig, ENG_MUL, x, pr_scalar(rig, 0.70710677F)));
    e = pr_binary(rig, ENG_ADD, e, pr_scalar(rig, 1));
    return pr_binary(rig, ENG_MUL, pr_binary(rig, ENG_MUL, x, pr_scalar(rig, 0.5F)), e);
}

static uint32_t attend(struct maker *m, uint32_t x)
{
    struct program_rig *rig = m->rig;
    uint32_t scores = pr_matmul(rig, x, pr_const(rig, PR_DIMS(16, 4)));
    // The keys lie row by row, as the products of heads have them.
    struct eng_command *product = &rig->program.commands[rig->program.command_count - 1];
    product->views[1] = (struct eng_view){.stride = {0, 16, 1}};
    scores = pr_binary(rig, ENG_MUL, scores, pr_scalar(rig, 0.25F));
    if (base_prng_below(&m->prng, 2) == 0) {
        scores = pr_binary(rig, ENG_ADD, scores, pr_input(rig, PR_DIMS(4)));
    }
    return pr_matmul(rig, pr_softmax(rig, scores), pick_full(m));
}

static uint32_t make(struct maker *m)
{
    static const enum eng_unary_fn unary[] = {ENG_NEG,  ENG_TANH,       ENG_SIGMOID, ENG_RELU,
                                              ENG_CLIP, ENG_LEAKY_RELU, ENG_ABS};
    static const enum eng_binary_fn binary[] = {ENG_ADD, ENG_SUB, ENG_MAX, ENG_MIN, ENG_MUL};
    struct program_rig *rig = m->rig;
    uint64_t kind = base_prng_below(&m->prng, 16);
    uint32_t x = pick(m), full = pick_full(m);
    if (kind < 4) {
        return pr_unary(rig, unary[base_prng_below(&m->prng, TEST_COUNT(unary))], x);
    }
    if (kind < 9) {
        uint32_t y = pr_binary(rig, binary[base_prng_below(&m->prng, TEST_COUNT(binary))], x,
                               kind == 8 ? pr_scalar(rig, 0.5F) : pick(m));
        return base_prng_below(&m->prng, 3) == 0 ? pr_unary(rig, ENG_TANH, y) : y;
    }
    switch (kind) {
    case 9:
    case 10:
    case 11: {
        uint32_t y = pr_matmul(rig, full, pr_const(rig, PR_DIMS(16, 16)));
        y = pr_binary(rig, ENG_MUL, y, pr_scalar(rig, 0.05F));
        return kind == 9 ? y : pr_binary(rig, ENG_ADD, y, kind == 10 ? pick_full(m) : x);
    }
    case 12:
        return norm(m, full);
    case 13:
        return gelu(m, x);
    case 14:
        return attend(m, full);
    default:
        if (rig->program.tensors[x].kind != ENG_TEMP || rig->program.tensors[x].alias != ENG_NONE) {
            return pr_softmax(rig, full);
        }
        return pr_alias(rig, x, pr_desc(rig, x)->rank, pr_desc(rig, x)->dims);
    }
}

static void build(struct program_rig *rig, uint64_t seed)
{
    struct maker m = {.rig = rig};
    base_prng_seed(&m.prng, seed);
    m.made[m.count++] = pr_input(rig, PR_DIMS(4, 16));
    m.made[m.count++] = pr_input(rig, PR_DIMS(16));
    m.made[m.count++] = pr_input(rig, PR_DIMS(4, 1));
    uint64_t length = 2 + base_prng_below(&m.prng, 30);
    for (uint64_t i = 0; i < length; i++) {
        uint32_t y = make(&m);
        m.made[m.count++] = y;
        if (rig->output_count < 3 && base_prng_below(&m.prng, 12) == 0) {
            pr_output(rig, y);
        }
    }
    for (uint32_t i = m.count; i > 0; i--) {
        if (rig->program.tensors[m.made[i - 1]].kind == ENG_TEMP) {
            pr_output(rig, m.made[i - 1]);
            break;
        }
    }
}

// Moves what the program computes into one buffer, as sessions do.
static void place_planned(struct program_rig *rig)
{
    struct eng_memory_plan plan;
    pr_place(rig);
    assert_int_equal(eng_program_plan_memory(&rig->program, &rig->arena, (size_t)1 << 30, &plan),
                     BASE_OK);
    uint8_t *buffer = base_arena_alloc(&rig->arena, plan.total_bytes + 64);
    assert_non_null(buffer);
    memset(buffer, 0x5a, plan.total_bytes);
    for (uint32_t t = 0; t < rig->program.tensor_count; t++) {
        if (plan.offsets[t] != ENG_PLAN_NOWHERE) {
            rig->data[t] = buffer + plan.offsets[t];
        }
    }
    for (uint32_t t = 0; t < rig->program.tensor_count; t++) {
        uint32_t alias = rig->program.tensors[t].alias;
        rig->data[t] = alias == ENG_NONE ? rig->data[t] : rig->data[alias];
    }
}

static void compare(const struct program_rig *plain, const struct program_rig *fused, uint64_t seed)
{
    for (uint32_t i = 0; i < plain->output_count; i++) {
        const float *a = plain->data[plain->outputs[i]], *b = fused->data[fused->outputs[i]];
        int64_t count = eng_desc_count(pr_desc(plain, plain->outputs[i]));
        float largest = 1;
        for (int64_t e = 0; e < count; e++) {
            largest = fmaxf(largest, fabsf(a[e]));
        }
        for (int64_t e = 0; e < count && largest < 1e6F; e++) {
            if (!(fabsf(a[e] - b[e]) <= 1e-3F * largest)) {
                print_message("as written:\n");
                pr_dump(plain);
                print_message("fused:\n");
                pr_dump(fused);
                fail_msg("seed %llu, output %u, element %lld: %g, not %g", (unsigned long long)seed,
                         i, (long long)e, (double)b[e], (double)a[e]);
            }
        }
    }
}

static void fused_programs_give_the_same_numbers(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    uint32_t before = 0, after = 0, ops[ENG_OP_COUNT] = {0};
    for (uint32_t round = 0; round < 3000; round++) {
        uint64_t seed = base_prng_next(&prng);
        struct program_rig plain, fused;
        pr_init(&plain);
        pr_init(&fused);
        build(&plain, seed);
        build(&fused, seed);
        assert_int_equal(eng_program_optimise(&fused.program, NULL, NULL), BASE_OK);
        pr_place(&plain);
        place_planned(&fused);
        pr_run(&plain);
        pr_run(&fused);
        compare(&plain, &fused, seed);
        before += plain.program.command_count;
        after += fused.program.command_count;
        for (uint32_t c = 0; c < fused.program.command_count; c++) {
            ops[fused.program.commands[c].op]++;
        }
        pr_done(&plain);
        pr_done(&fused);
    }
    print_message("%u commands before, %u after: %u expressions, %u norms, %u attentions\n", before,
                  after, ops[ENG_OP_EXPR], ops[ENG_OP_NORM], ops[ENG_OP_ATTENTION]);
    assert_true(ops[ENG_OP_EXPR] > 100);
    assert_true(ops[ENG_OP_NORM] > 100);
    assert_true(ops[ENG_OP_ATTENTION] > 100);
}

// Memory may end at any point: an error then, and a program that still is one.
static void want_of_memory_leaves_a_program(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    uint32_t failed = 0;
    for (uint32_t round = 0; round < 300; round++) {
        struct program_rig rig;
        pr_init(&rig);
        build(&rig, base_prng_next(&prng));
        rig.arena.limit_bytes = rig.arena.used_bytes + base_prng_below(&prng, 3000);
        enum base_status status = eng_program_optimise(&rig.program, NULL, NULL);
        assert_true(status == BASE_OK || status == BASE_ERR_NOMEM);
        failed += status != BASE_OK ? 1 : 0;
        struct base_error error = {0};
        if (eng_program_validate(&rig.program, &error) != BASE_OK) {
            pr_dump(&rig);
            fail_msg("%s", error.text);
        }
        pr_done(&rig);
    }
    print_message("%u of 300 ran out\n", failed);
    assert_in_range(failed, 10, 290);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_programs_give_the_same_numbers),
        cmocka_unit_test(want_of_memory_leaves_a_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
