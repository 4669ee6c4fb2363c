// Memory of the inference service: a model's files are read once, a run takes no more than it may,
// and so do the plans that wait for calls.
#include "infer_kit.h"
#include "onnx_bytes.h"

#include "base/alloc.h"
#include "infer/infer_private.h"

#include <stdatomic.h>
#include <stdlib.h>

struct waited {
    struct gw_infer_ticket ticket; // first
    struct base_arena arena;
    _Atomic bool over;
};

static void done(struct gw_infer_ticket *ticket)
{
    atomic_store(&((struct waited *)ticket)->over, true);
}

// A call with x [rows, 3] of ones. The arena is the caller's to end.
static void ask(struct gw_infer_service *service, const char *model, uint32_t rows,
                struct waited *waited)
{
    float *x = malloc(rows * 3 * sizeof(float));
    assert_non_null(x);
    for (uint32_t i = 0; i < rows * 3; i++) {
        x[i] = 1;
    }
    struct gw_infer_tensor input = {.name = BASE_STR("x"),
                                    .desc = {ENG_F32, 2, {rows, 3}},
                                    .data = x,
                                    .bytes = rows * 3 * sizeof(float)};
    const struct gw_infer_call call = {
        .model = base_str_of(model), .inputs = &input, .input_count = 1};
    *waited = (struct waited){.ticket = {.call = &call, .arena = &waited->arena, .done = done}};
    base_arena_init(&waited->arena, base_alloc_heap(), 0, GW_INFER_ARENA_MAX);
    gw_infer_submit(service, &waited->ticket);
    while (!atomic_load(&waited->over)) {
        usleep(100);
    }
    free(x);
}

static struct gw_infer_service *start(const struct gw_infer_options *options)
{
    struct gw_infer_service *service = NULL;
    struct base_error error = {0};
    if (gw_infer_service_new(options, &service, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    return service;
}

#define WEIGHT_ROWS 30000u // enough that the engine leaves them where they lie

// y = x as bytes, and w behind it
static const struct onnx_part *joined(void)
{
    static uint8_t w[WEIGHT_ROWS * 3];
    struct onnx_kit *kit = onnx_begin();
    memset(w, 9, sizeof(w));
    onnx_input(kit, "x", ENG_F32, -1, 3);
    onnx_initializer(kit, "w", ENG_U8, ONNX_DIMS(WEIGHT_ROWS, 3), w, sizeof(w));
    onnx_node(kit, "Cast", "x", "b");
    onnx_attr_int(kit, "to", ENG_U8);
    onnx_node(kit, "Concat", "b w", "y");
    onnx_attr_int(kit, "axis", 0);
    onnx_output(kit, "y", ENG_U8, -2, 3);
    return onnx_finish(kit, 13);
}

// What becomes of the file of a model that is served changes nothing until the next load.
static void test_files_change(void **state)
{
    struct infer_kit kit;
    struct waited waited;
    struct base_error error = {0};
    (void)state;
    infer_kit_begin(&kit);
    infer_kit_add(&kit, "m", "1", joined());
    struct gw_infer_service *service =
        start(&(struct gw_infer_options){.models_dir = kit.dir, .threads = 1});
    infer_kit_text(&kit, "m/1/model.onnx", "short");
    ask(service, "m", 2, &waited);
    assert_int_equal(waited.ticket.status, BASE_OK);
    const struct gw_infer_tensor *y = &waited.ticket.result.outputs[0];
    assert_int_equal(y->desc.dims[0], WEIGHT_ROWS + 2);
    assert_int_equal(((const uint8_t *)y->data)[(WEIGHT_ROWS + 2) * 3 - 1], 9);
    base_arena_done(&waited.arena);
    assert_int_not_equal(gw_infer_load(service, BASE_STR("m"), &error), BASE_OK);
    assert_true(gw_infer_model_ready(service, BASE_STR("m"), BASE_STR("1")));
    gw_infer_service_free(service);
    infer_kit_end(&kit);
}

static size_t idle_bytes(const struct gw_infer_service *service, uint32_t *out_count)
{
    size_t bytes = 0;
    *out_count = 0;
    for (struct gw_infer_version *at = service->versions; at != NULL; at = at->next) {
        for (struct gw_infer_session *session = at->idle; session != NULL;
             session = session->next) {
            bytes += session->bytes;
            *out_count += 1;
        }
    }
    return bytes;
}

// y[rows, rows] = x times itself
static const struct onnx_part *square(void)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 3);
    onnx_node(kit, "Transpose", "x", "t");
    onnx_node(kit, "MatMul", "x t", "y");
    onnx_output(kit, "y", ENG_F32, -1, -1);
    return onnx_finish(kit, 13);
}

static void check_call(struct gw_infer_service *service, const char *model, uint32_t rows,
                       enum base_status status, const char *text)
{
    struct waited waited;
    ask(service, model, rows, &waited);
    assert_int_equal(waited.ticket.status, status);
    assert_memory_equal(waited.ticket.error.text, text, strlen(text));
    base_arena_done(&waited.arena);
}

static void test_runs_are_bounded(void **state)
{
    struct infer_kit kit;
    (void)state;
    infer_kit_begin(&kit);
    infer_kit_add(&kit, "m", "1", square());
    struct gw_infer_service *service = start(&(struct gw_infer_options){
        .models_dir = kit.dir, .threads = 1, .session_bytes_max = 1 << 20});
    check_call(service, "m", 100, BASE_OK, "");
    check_call(service, "m", 2000, BASE_ERR_TOO_LARGE, "the plan needs more than 1048576 bytes");
    check_call(service, "m", 100, BASE_OK, "");
    gw_infer_service_free(service);
    service = start(&(struct gw_infer_options){.models_dir = kit.dir, .threads = 1});
    check_call(service, "m", 8200, BASE_ERR_TOO_LARGE, "outputs of more than 268435456 bytes");
    gw_infer_service_free(service);
    infer_kit_end(&kit);
}

// y = x, through so many steps
static const struct onnx_part *long_way(uint32_t steps)
{
    struct onnx_kit *kit = onnx_begin();
    char from[16] = "x";
    onnx_input(kit, "x", ENG_F32, -1, 3);
    for (uint32_t i = 0; i < steps; i++) {
        char to[16];
        snprintf(to, sizeof(to), i + 1 < steps ? "v%u" : "y", i);
        onnx_node(kit, i % 2 == 0 ? "Tanh" : "Sin", from, to);
        memcpy(from, to, sizeof(from));
    }
    onnx_output(kit, "y", ENG_F32, -1, 3);
    return onnx_finish(kit, 13);
}

// A plan that is too large is the call's fault, as activations are: not a memory that is short.
static void test_plans_are_bounded(void **state)
{
    struct infer_kit kit;
    (void)state;
    infer_kit_begin(&kit);
    infer_kit_add(&kit, "m", "1", long_way(600));
    struct gw_infer_service *service = start(&(struct gw_infer_options){
        .models_dir = kit.dir, .threads = 1, .session_bytes_max = 64 << 10});
    check_call(service, "m", 1, BASE_ERR_TOO_LARGE, "the plan's program needs more than 65536");
    gw_infer_service_free(service);
    service = start(&(struct gw_infer_options){
        .models_dir = kit.dir, .threads = 1, .session_bytes_max = 4 << 20});
    check_call(service, "m", 1, BASE_OK, "");
    gw_infer_service_free(service);
    infer_kit_end(&kit);
}

// Plans of several models and shapes: the ones unused longest go.
static void test_idle_is_bounded(void **state)
{
    enum { MAX = 512 << 10 };
    struct infer_kit kit;
    uint32_t count;
    (void)state;
    infer_kit_begin(&kit);
    infer_kit_add(&kit, "a", "1", square());
    infer_kit_add(&kit, "b", "1", square());
    struct gw_infer_service *service = start(
        &(struct gw_infer_options){.models_dir = kit.dir, .threads = 1, .idle_bytes_max = MAX});
    for (uint32_t i = 0; i < 3; i++) {
        check_call(service, "a", 200 + i, BASE_OK, "");
        check_call(service, "b", 200 + i, BASE_OK, "");
        assert_true(idle_bytes(service, &count) <= MAX);
        assert_int_not_equal(count, 0);
    }
    check_call(service, "a", 2000, BASE_OK, ""); // more than all may hold
    assert_int_equal(idle_bytes(service, &count), 0);
    assert_int_equal(count, 0);
    for (struct gw_infer_version *at = service->versions; at != NULL; at = at->next) {
        assert_int_equal(at->session_count, 0);
        assert_int_equal(at->idle_bytes, 0);
    }
    check_call(service, "b", 3, BASE_OK, "");
    gw_infer_service_free(service);
    infer_kit_end(&kit);
}

// y = x, row by row
static void add_scan(const struct infer_kit *kit, const char *name)
{
    static const int64_t dims[2] = {-1, -1}; // open, so that no load plans it
    char path[64];
    struct base_buffer graph = ob_new();
    struct base_buffer body = ob_new();
    ob_take(&body, OB_GRAPH_INPUT, ob_value("row", ENG_F32, 1, dims));
    ob_take(&body, OB_GRAPH_NODE, ob_node("Identity", "keep", "row", "same"));
    ob_take(&body, OB_GRAPH_OUTPUT, ob_value("same", ENG_F32, 1, dims));
    ob_text(&body, OB_GRAPH_NAME, "b");
    ob_take(&graph, OB_GRAPH_INPUT, ob_value("x", ENG_F32, 2, dims));
    struct base_buffer node = ob_node("Scan", "scan", "x", "y");
    ob_attr_int(&node, "num_scan_inputs", 1);
    ob_attr_graph(&node, "body", body);
    ob_take(&graph, OB_GRAPH_NODE, node);
    ob_take(&graph, OB_GRAPH_OUTPUT, ob_value("y", ENG_F32, 2, dims));
    ob_text(&graph, OB_GRAPH_NAME, "g");
    struct base_buffer model = ob_model(8, 13, graph);
    infer_kit_folder(kit, name);
    snprintf(path, sizeof(path), "%s/1", name);
    infer_kit_folder(kit, path);
    snprintf(path, sizeof(path), "%s/1/model.onnx", name);
    infer_kit_write(kit, path, model.data, model.size);
    base_buffer_done(&model);
}

// A limit of the engine that a call runs into is the call's: no other call was in its way, and the
// same one would run into it again.
static void test_limits_of_a_run(void **state)
{
    struct infer_kit kit;
    (void)state;
    infer_kit_begin(&kit);
    add_scan(&kit, "scan");
    struct gw_infer_service *service =
        start(&(struct gw_infer_options){.models_dir = kit.dir, .threads = 1});
    check_call(service, "scan", 2, BASE_OK, "");
    check_call(service, "scan", (1U << 18) + 1, BASE_ERR_TOO_LARGE, "");
    pthread_mutex_lock(&service->lock);
    const struct gw_infer_figures *figures = &service->versions->figures;
    assert_int_equal(figures->refused, 0);
    assert_int_equal(figures->failed, 1);
    pthread_mutex_unlock(&service->lock);
    gw_infer_service_free(service);
    infer_kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_change),      cmocka_unit_test(test_runs_are_bounded),
        cmocka_unit_test(test_plans_are_bounded), cmocka_unit_test(test_idle_is_bounded),
        cmocka_unit_test(test_limits_of_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
