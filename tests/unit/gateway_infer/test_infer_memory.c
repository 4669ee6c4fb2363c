// Memory of the inference service: a model's files are read once.
#include "infer_kit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
