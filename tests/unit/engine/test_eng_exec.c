// Programs made by hand on the reference backend: placement, aliases, deadlines, failures with the
// node's name, and the same through the folding runner.
#include "test_kit.h"

#include "backend/cpu/kernel/kernels.h"
#include "backend/pack.h"
#include "base/alloc.h"
#include "session/exec.h"
#include "session/fold.h"

struct bench {
    struct base_arena arena;
    struct eng_program program;
    struct base_error error;
};

static void begin(struct bench *b)
{
    memset(b, 0, sizeof *b);
    base_arena_init(&b->arena, base_alloc_heap(), 0, 0);
    eng_program_init(&b->program, &b->arena);
}

static uint32_t tensor(struct bench *b, enum eng_tensor_kind kind, enum eng_dtype dtype,
                       int64_t count)
{
    struct eng_desc desc = {.dtype = dtype, .rank = 1, .dims = {count}};
    uint32_t out = ENG_NONE;
    assert_int_equal(eng_program_tensor(&b->program, kind, ENG_PLAIN, &desc, &out), BASE_OK);
    return out;
}

static uint32_t negate(struct bench *b, uint32_t x, int64_t count)
{
    struct eng_command *command = NULL;
    uint32_t y = tensor(b, ENG_TEMP, ENG_F32, count);
    assert_int_equal(eng_program_command(&b->program, ENG_OP_UNARY, 1, 1, &command), BASE_OK);
    command->u.unary.fn = ENG_NEG;
    command->inputs[0] = x;
    command->outputs[0] = y;
    return y;
}

// data [n], indices [m]: rows of one element.
static uint32_t gather(struct bench *b, uint32_t data, int64_t n, uint32_t indices, int64_t m)
{
    struct eng_command *command = NULL;
    uint32_t y = tensor(b, ENG_TEMP, ENG_F32, m);
    assert_int_equal(eng_program_command(&b->program, ENG_OP_GATHER, 2, 1, &command), BASE_OK);
    command->u.gather = (struct eng_gather){.outer = 1, .n = n, .inner = 1};
    command->inputs[0] = data;
    command->inputs[1] = indices;
    command->outputs[0] = y;
    return y;
}

static void prepare(struct bench *b, struct eng_exec *exec)
{
    struct eng_prepare ctx = {.arena = &b->arena, .error = &b->error};
    enum base_status status = eng_exec_init(exec, &b->program, &ctx);
    if (status != BASE_OK) {
        fail_msg("%s", b->error.text);
    }
}

static void aliases_follow_their_tensor(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    uint32_t x = tensor(&b, ENG_INPUT, ENG_F32, 6);
    uint32_t same = tensor(&b, ENG_TEMP, ENG_F32, 6);
    b.program.tensors[same].alias = x;
    uint32_t y = negate(&b, same, 6);
    uint32_t again = tensor(&b, ENG_TEMP, ENG_F32, 6);
    b.program.tensors[again].alias = y;
    uint32_t z = negate(&b, again, 6);
    b.program.tensors[y].is_output = true;
    b.program.tensors[z].is_output = true;
    struct eng_exec exec;
    prepare(&b, &exec);
    assert_int_equal(exec.step_count, 2);
    assert_int_equal((uintptr_t)exec.data[y] % 64, 0);
    assert_ptr_equal(exec.data[again], exec.data[y]);
    for (int round = 0; round < 2; round++) { // the input lies elsewhere each time
        float in[6] = {1, 2, 3, 4, 5, (float)round};
        exec.data[x] = in;
        struct eng_exec_run run = {.error = &b.error};
        assert_int_equal(eng_exec_run(&exec, &run), BASE_OK);
        assert_float_equal(((const float *)exec.data[y])[5], -(float)round, 0);
        assert_memory_equal(exec.data[z], in, sizeof in);
    }
    assert_true(exec.buffer_bytes >= 2 * 24);
    eng_exec_done(&exec);
    base_arena_done(&b.arena);
}

static void deadlines_and_events(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    uint32_t x = tensor(&b, ENG_INPUT, ENG_F32, 3);
    uint32_t y = negate(&b, x, 3);
    struct eng_exec exec;
    prepare(&b, &exec);
    float in[3] = {1, 2, 3};
    exec.data[x] = in;
    memset(exec.data[y], 0, sizeof in);
    struct eng_event event = {0};
    struct eng_watch watch = {.deadline_us = 1};
    struct eng_exec_run run = {.watch = &watch, .events = &event, .error = &b.error};
    assert_int_equal(eng_exec_run(&exec, &run), BASE_ERR_TIMEOUT);
    assert_float_equal(((const float *)exec.data[y])[0], 0, 0); // nothing ran
    watch.deadline_us = UINT64_MAX;
    assert_int_equal(eng_exec_run(&exec, &run), BASE_OK);
    assert_true(event.begin_us > 0);
    assert_int_equal(watch.work, 6); // three elements read, three written
    watch = (struct eng_watch){.work_max = 5};
    assert_int_equal(eng_exec_run(&exec, &run), BASE_ERR_TIMEOUT);
    assert_int_equal(watch.work, 0);
    watch.work_max = 6;
    assert_int_equal(eng_exec_run(&exec, &run), BASE_OK);
    assert_int_equal(eng_exec_run(&exec, &run), BASE_ERR_TIMEOUT); // it is used up
    _Atomic(bool) stop = false;
    watch = (struct eng_watch){.stop = &stop};
    assert_int_equal(eng_exec_run(&exec, &run), BASE_OK);
    stop = true;
    assert_int_equal(eng_exec_run(&exec, &run), BASE_ERR_TIMEOUT);
    assert_non_null(strstr(b.error.text, "stopped"));
    eng_exec_done(&exec);
    base_arena_done(&b.arena);
}

static void failures_name_the_node(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    uint32_t x = tensor(&b, ENG_INPUT, ENG_F32, 3);
    uint32_t at = tensor(&b, ENG_INPUT, ENG_I64, 2);
    (void)gather(&b, x, 3, at, 2);
    b.program.commands[0].node = 0;
    struct eng_exec exec;
    prepare(&b, &exec);
    float in[3] = {1, 2, 3};
    int64_t indices[2] = {-1, 3};
    exec.data[x] = in;
    exec.data[at] = indices;
    struct eng_node node = {.name = "picker", .op = "Gather", .domain = "", .opset = 13};
    struct eng_graph graph = {.name = "g", .nodes = &node, .node_count = 1};
    struct eng_exec_run run = {.graph = &graph, .error = &b.error};
    assert_int_equal(eng_exec_run(&exec, &run), BASE_ERR_INVALID);
    assert_non_null(strstr(b.error.text, "picker"));
    assert_non_null(strstr(b.error.text, "Gather"));
    indices[1] = 0;
    assert_int_equal(eng_exec_run(&exec, &run), BASE_OK);
    assert_float_equal(((const float *)exec.data[exec.program->commands[0].outputs[0]])[0], 3, 0);
    eng_exec_done(&exec);
    base_arena_done(&b.arena);
}

static void folding_leaves_results_in_the_callers_arena(void **state)
{
    (void)state;
    struct eng_fold fold;
    eng_fold_init(&fold, NULL, NULL);
    struct base_arena results;
    base_arena_init(&results, base_alloc_heap(), 0, 0);
    float in[4] = {1, 2, 3, 4};
    struct eng_array out[2];
    for (int round = 0; round < 3; round++) {
        struct bench b;
        begin(&b);
        uint32_t x = tensor(&b, ENG_CONST, ENG_F32, 4);
        b.program.tensors[x].data = in;
        uint32_t y = negate(&b, x, 4);
        uint32_t same = tensor(&b, ENG_TEMP, ENG_F32, 4);
        b.program.tensors[same].alias = y;
        uint32_t z = negate(&b, same, 4);
        const struct eng_contents wanted = {(uint32_t[]){z, same}, 2, out, &results};
        assert_int_equal(eng_fold_run(&fold, &b.program, &wanted, &b.error), BASE_OK);
        base_arena_done(&b.arena);
        assert_memory_equal(out[0].data, in, sizeof in);
        assert_float_equal(((const float *)out[1].data)[3], -4, 0);
    }
    struct bench b;
    begin(&b);
    uint32_t x = tensor(&b, ENG_CONST, ENG_F32, 4);
    b.program.tensors[x].data = in;
    uint32_t y = negate(&b, x, 4);
    struct eng_watch watch = {.deadline_us = 1};
    fold.watch = &watch;
    struct eng_contents wanted = {&y, 1, out, &results};
    assert_int_equal(eng_fold_run(&fold, &b.program, &wanted, &b.error), BASE_ERR_TIMEOUT);
    fold.watch = NULL;
    uint32_t lost = tensor(&b, ENG_TEMP, ENG_F32, 4); // no command computes it
    wanted.tensors = &lost;
    assert_int_equal(eng_fold_run(&fold, &b.program, &wanted, &b.error), BASE_ERR_BUG);
    base_arena_done(&b.arena);
    base_arena_done(&results);
    eng_fold_done(&fold);
}

// Weights of a file may lie at any address: backends and steps see aligned ones.
static void constants_at_odd_addresses(void **state)
{
    (void)state;
    enum { M = 2, N = 3, K = 4 };
    const struct eng_kernels *tables[] = {NULL, eng_kernels_find("generic"),
                                          eng_kernels_find(NULL)};
    for (size_t round = 0; round < TEST_COUNT(tables); round++) {
        struct bench b;
        begin(&b);
        char *raw = malloc(K * N * sizeof(float) + 1);
        assert_non_null(raw);
        float weights[K * N];
        for (int i = 0; i < K * N; i++) {
            weights[i] = (float)(i * i % 7) - 2;
        }
        memcpy(raw + 1, weights, sizeof weights);
        uint32_t x = tensor(&b, ENG_INPUT, ENG_F32, M * K);
        uint32_t w = tensor(&b, ENG_CONST, ENG_F32, K * N);
        b.program.tensors[w].data = raw + 1;
        b.program.tensors[w].identity = raw + 1;
        uint32_t y = tensor(&b, ENG_TEMP, ENG_F32, M * N);
        struct eng_command *command = NULL;
        assert_int_equal(eng_program_command(&b.program, ENG_OP_MATMUL, 2, 1, &command), BASE_OK);
        command->inputs[0] = x;
        command->inputs[1] = w;
        command->outputs[0] = y;
        command->box = (struct eng_box){.rank = 3, .size = {M, N, K}};
        command->views[0] = (struct eng_view){.stride = {K, 0, 1}};
        command->views[1] = (struct eng_view){.stride = {0, 1, N}};
        command->u.matmul =
            (struct eng_matmul){.alpha = 1, .epilogue = {.bias = ENG_NONE, .residual = ENG_NONE}};
        uint32_t negated = negate(&b, w, K * N); // reads them as they are
        b.program.tensors[y].is_output = true;
        b.program.tensors[negated].is_output = true;
        struct eng_pack_cache *packs = NULL;
        assert_int_equal(eng_pack_cache_new(&packs), BASE_OK);
        struct eng_prepare ctx = {
            .arena = &b.arena, .packs = packs, .kernels = tables[round], .error = &b.error};
        struct eng_exec exec;
        assert_int_equal(eng_exec_init(&exec, &b.program, &ctx), BASE_OK);
        float in[M * K] = {1, 2, 3, 4, -1, 0.5f, 2, 8};
        exec.data[x] = in;
        struct eng_exec_run run = {.error = &b.error};
        assert_int_equal(eng_exec_run(&exec, &run), BASE_OK);
        for (int i = 0; i < M * N; i++) {
            float want = 0;
            for (int k = 0; k < K; k++) {
                want += in[i / N * K + k] * weights[k * N + i % N];
            }
            assert_float_equal(((const float *)exec.data[y])[i], want, 1e-5);
        }
        assert_float_equal(((const float *)exec.data[negated])[3], -weights[3], 0);
        eng_exec_done(&exec);
        eng_pack_cache_free(packs);
        base_arena_done(&b.arena);
        free(raw);
    }
}

static void activations_have_a_limit(void **state)
{
    (void)state;
    struct bench b;
    begin(&b);
    uint32_t x = tensor(&b, ENG_INPUT, ENG_F32, (int64_t)1 << 36);
    (void)negate(&b, x, (int64_t)1 << 36); // 256 GiB
    struct eng_exec exec;
    struct eng_prepare ctx = {.arena = &b.arena, .error = &b.error};
    assert_int_equal(eng_exec_init(&exec, &b.program, &ctx), BASE_ERR_TOO_LARGE);
    assert_non_null(strstr(b.error.text, "activations"));
    eng_exec_done(&exec);
    base_arena_done(&b.arena);
    begin(&b); // the caller's own limit
    x = tensor(&b, ENG_INPUT, ENG_F32, 1024);
    (void)negate(&b, x, 1024);
    for (int fits = 0; fits < 2; fits++) {
        ctx = (struct eng_prepare){
            .arena = &b.arena, .buffer_bytes_max = fits ? 4096 : 4095, .error = &b.error};
        assert_int_equal(eng_exec_init(&exec, &b.program, &ctx),
                         fits ? BASE_OK : BASE_ERR_TOO_LARGE);
        eng_exec_done(&exec);
    }
    base_arena_done(&b.arena);
}

// What a step needs beside them has the same limit, and says so.
static void scratch_has_a_limit(void **state)
{
    (void)state;
    enum { COUNT = 1000, SCRATCH = COUNT * 2 * sizeof(int64_t) };
    struct bench b;
    struct eng_exec exec;
    struct eng_command *command = NULL;
    begin(&b);
    uint32_t x = tensor(&b, ENG_INPUT, ENG_F32, COUNT);
    uint32_t values = tensor(&b, ENG_TEMP, ENG_F32, 1);
    uint32_t indices = tensor(&b, ENG_TEMP, ENG_I64, 1);
    assert_int_equal(eng_program_command(&b.program, ENG_OP_TOPK, 1, 2, &command), BASE_OK);
    command->u.topk = (struct eng_topk){.outer = 1, .n = COUNT, .inner = 1, .k = 1};
    command->inputs[0] = x;
    command->outputs[0] = values;
    command->outputs[1] = indices;
    for (int fits = 0; fits < 2; fits++) {
        struct eng_prepare ctx = {
            .arena = &b.arena, .buffer_bytes_max = fits ? SCRATCH : SCRATCH - 1, .error = &b.error};
        assert_int_equal(eng_exec_init(&exec, &b.program, &ctx),
                         fits ? BASE_OK : BASE_ERR_TOO_LARGE);
        if (!fits) {
            assert_string_equal(b.error.text,
                                "a step needs 16000 bytes beside the activations, more than 15999");
        }
        eng_exec_done(&exec);
    }
    base_arena_done(&b.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aliases_follow_their_tensor),
        cmocka_unit_test(deadlines_and_events),
        cmocka_unit_test(failures_name_the_node),
        cmocka_unit_test(folding_leaves_results_in_the_callers_arena),
        cmocka_unit_test(constants_at_odd_addresses),
        cmocka_unit_test(activations_have_a_limit),
        cmocka_unit_test(scratch_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
