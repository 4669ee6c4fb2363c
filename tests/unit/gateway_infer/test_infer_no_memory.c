// The inference service when memory runs out at every place in turn: it does not start, or starts
// without a model and says so; a call gets an answer or an error; nothing is lost.
#include "failing_heap.h"
#include "infer_kit.h"

#include "base/alloc.h"
#include "infer/infer_service.h"

#include <stdatomic.h>

struct waited {
    struct gw_infer_ticket ticket; // first
    _Atomic bool over;
};

static void done(struct gw_infer_ticket *ticket)
{
    atomic_store(&((struct waited *)ticket)->over, true);
}

// Starts with `allowed` allocations. False: none failed any more.
static bool start_with(const struct infer_kit *kit, size_t allowed)
{
    struct gw_infer_service *service = NULL;
    struct base_error error = {0};
    const struct gw_infer_options options = {.models_dir = kit->dir, .threads = 1};
    long live = failing_heap_live();
    failing_heap_arm(allowed, false);
    enum base_status status = gw_infer_service_new(&options, &service, &error);
    bool failed = failing_heap_has_failed();
    (void)failing_heap_disarm();
    assert_true(failed || status == BASE_OK);
    assert_true(status == BASE_OK || status == BASE_ERR_NOMEM);
    if (status == BASE_OK) {
        assert_true(failed || gw_infer_model_ready(service, BASE_STR("m"), BASE_STR("")));
        gw_infer_service_free(service);
    }
    assert_int_equal(failing_heap_live(), live);
    return failed;
}

static void test_start(void **state)
{
    struct infer_kit kit;
    size_t allowed = 0;
    (void)state;
    infer_kit_begin(&kit);
    infer_kit_add(&kit, "m", "1", NULL);
    while (start_with(&kit, allowed)) {
        allowed++;
    }
    assert_true(allowed > 5);
    infer_kit_end(&kit);
}

// Metadata and rows in an arena that ends too early.
static void test_views(void **state)
{
    struct infer_kit kit;
    struct gw_infer_service *service = NULL;
    struct base_error error = {0};
    const struct gw_infer_call named = {.model = BASE_STR("m")};
    (void)state;
    infer_kit_begin(&kit);
    infer_kit_add(&kit, "m", "1", NULL);
    const struct gw_infer_options options = {.models_dir = kit.dir, .threads = 1};
    assert_int_equal(gw_infer_service_new(&options, &service, &error), BASE_OK);
    size_t refused = 0;
    enum base_status last = BASE_ERR_NOMEM;
    for (size_t allowed = 0; last != BASE_OK; allowed++) {
        struct test_alloc alloc;
        struct base_arena arena;
        struct gw_infer_metadata metadata = {0};
        struct gw_infer_row *rows = NULL;
        size_t count = 0;
        test_alloc_init(&alloc, allowed);
        base_arena_init(&arena, &alloc.port, 64, 0);
        last = gw_infer_metadata(service, &named, &arena, &metadata, &error);
        if (last == BASE_OK) {
            last = gw_infer_rows(service, &named, &arena, &rows, &count);
        }
        assert_true(last == BASE_OK || last == BASE_ERR_NOMEM);
        refused += last != BASE_OK;
        base_arena_done(&arena);
        assert_int_equal(alloc.live, 0);
    }
    assert_true(refused > 3);
    gw_infer_service_free(service);
    infer_kit_end(&kit);
}

// A result that its arena has no room for is an error of the call alone.
static void test_results(void **state)
{
    struct infer_kit kit;
    struct gw_infer_service *service = NULL;
    struct base_error error = {0};
    float x[3] = {1, 2, 3};
    struct gw_infer_tensor input = {
        .name = BASE_STR("x"), .desc = {ENG_F32, 2, {1, 3}}, .data = x, .bytes = sizeof(x)};
    const struct gw_infer_call call = {.model = BASE_STR("m"), .inputs = &input, .input_count = 1};
    (void)state;
    infer_kit_begin(&kit);
    infer_kit_add(&kit, "m", "1", NULL);
    const struct gw_infer_options options = {.models_dir = kit.dir, .threads = 1};
    assert_int_equal(gw_infer_service_new(&options, &service, &error), BASE_OK);
    enum base_status last = BASE_ERR_NOMEM;
    for (size_t allowed = 0; last != BASE_OK; allowed++) {
        struct test_alloc alloc;
        struct base_arena arena;
        struct waited waited = {.ticket = {.call = &call, .arena = &arena, .done = done}};
        test_alloc_init(&alloc, allowed);
        base_arena_init(&arena, &alloc.port, 16, 0);
        gw_infer_submit(service, &waited.ticket);
        while (!atomic_load(&waited.over)) {
            usleep(100);
        }
        last = waited.ticket.status;
        assert_true(last == BASE_OK || last == BASE_ERR_NOMEM);
        base_arena_done(&arena);
        assert_int_equal(alloc.live, 0);
        assert_true(allowed < 50);
    }
    gw_infer_service_free(service);
    infer_kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
