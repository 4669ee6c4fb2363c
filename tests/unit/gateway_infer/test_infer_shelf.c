// Versions of a shelf beside those of the disk: which are loaded, which serves, what comes and goes
// while calls are answered, and what is refused.
#include "infer_ask.h"

#include "infer/infer_shelf.h"

struct shelf {
    uint64_t versions[GW_INFER_VERSIONS_MAX]; // the highest first
    uint32_t count;
    uint64_t serving;
    uint64_t serving_until; // a higher one on the disk serves
    bool garbage;           // all of them
};

// A copy on the heap, as files come; what is not known is garbage.
static struct base_span file_of(bool garbage)
{
    const struct onnx_part *part = infer_kit_add_relu();
    uint8_t *copy = malloc(part->size);
    assert_non_null(copy);
    memcpy(copy, part->bytes, part->size);
    memset(copy, 0xff, garbage ? part->size : 0);
    return (struct base_span){copy, part->size};
}

static uint32_t list(void *self, struct base_str model, uint64_t out[GW_INFER_VERSIONS_MAX])
{
    const struct shelf *shelf = self;
    bool known = base_str_equal(model, BASE_STR("m"));
    memcpy(out, shelf->versions, sizeof(shelf->versions));
    return known ? shelf->count : 0;
}

static enum base_status load(void *self, struct base_str model, uint64_t version,
                             struct base_span *out_file, struct base_error *error)
{
    const struct shelf *shelf = self;
    (void)error;
    assert_true(base_str_equal(model, BASE_STR("m")));
    assert_true(version > 0);
    *out_file = file_of(shelf->garbage);
    return BASE_OK;
}

static uint64_t serving(void *self, struct base_str model, uint64_t highest)
{
    const struct shelf *shelf = self;
    (void)model;
    return highest <= shelf->serving_until ? shelf->serving : 0;
}

static void begin_shelf(struct world *world, struct shelf *shelf)
{
    const struct gw_infer_shelf port = {shelf, list, load, serving};
    begin(world);
    infer_kit_add(&world->kit, "m", "3", NULL);
    start(world, 1);
    gw_infer_shelf_set(world->service, &port);
    assert_ptr_equal(gw_infer_shelf_self(world->service), shelf);
    gw_infer_load_shelved(world->service, BASE_STR("m"));
}

static void check_serves(struct world *world, const char *version)
{
    uint64_t number = 0;
    uint64_t highest = 0;
    struct base_error error = {0};
    struct ask *ask = ask_one(world, ask_new(world, "m", 1));
    check_relu(ask);
    assert_true(base_str_equal(ask->ticket.result.version, base_str_of(version)));
    ask_free(ask);
    assert_int_equal(gw_infer_serving(world->service, BASE_STR("m"), &number, &highest, &error),
                     BASE_OK);
    assert_int_equal(number, strtoul(version, NULL, 10));
}

static void check_answers(struct world *world, const char *version, bool answers)
{
    struct ask *ask = ask_new(world, "m", 1);
    ask->call.version = base_str_of(version);
    (void)ask_one(world, ask);
    assert_int_equal(ask->ticket.status == BASE_OK, answers);
    ask_free(ask);
}

static void test_which_serves(void **state)
{
    struct world world;
    struct shelf shelf = {.versions = {9, 2}, .count = 2};
    (void)state;
    begin_shelf(&world, &shelf);
    check_serves(&world, "3"); // the disk's, though 9 is higher
    check_answers(&world, "9", true);
    check_answers(&world, "2", true);
    shelf.serving = 2;
    shelf.serving_until = 3;
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), NULL), BASE_OK);
    check_serves(&world, "2");
    check_answers(&world, "3", true);
    infer_kit_add(&world.kit, "m", "4", NULL);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), NULL), BASE_OK);
    check_serves(&world, "4");
    shelf.garbage = true; // those that cannot be loaded are in nobody's way
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), NULL), BASE_OK);
    check_serves(&world, "4");
    check_answers(&world, "9", false);
    end(&world);
}

static void test_a_model_of_the_shelf_alone(void **state)
{
    struct world world;
    struct shelf shelf = {.versions = {9, 2}, .count = 2};
    (void)state;
    begin(&world);
    start(&world, 1);
    const struct gw_infer_shelf port = {&shelf, list, load, serving};
    gw_infer_shelf_set(world.service, &port);
    gw_infer_load_shelved(world.service, BASE_STR("m"));
    check_serves(&world, "9");
    shelf.serving = 2;
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), NULL), BASE_OK);
    check_serves(&world, "2");
    end(&world);
}

static enum base_status add(struct world *world, const char *model, const char *version,
                            struct base_error *error)
{
    struct gw_infer_version *prepared = NULL;
    const struct gw_infer_call named = {.model = base_str_of(model),
                                        .version = base_str_of(version)};
    BASE_TRY(gw_infer_prepare(world->service, &named, file_of(false), &prepared, error));
    return gw_infer_add(world->service, prepared, error);
}

static void test_coming_and_going(void **state)
{
    struct world world;
    struct shelf shelf = {0};
    struct base_error error = {0};
    const struct gw_infer_call four = {.model = BASE_STR("m"), .version = BASE_STR("4")};
    const struct gw_infer_call three = {.model = BASE_STR("m"), .version = BASE_STR("3")};
    (void)state;
    begin_shelf(&world, &shelf);
    assert_int_equal(add(&world, "m", "4", &error), BASE_OK);
    check_serves(&world, "3");
    check_answers(&world, "4", true);
    assert_int_equal(gw_infer_may_add(world.service, &four, &error), BASE_ERR_EXISTS);
    assert_int_equal(add(&world, "m", "4", &error), BASE_ERR_EXISTS);
    assert_string_equal(error.text, "m: version 4 is there already");
    assert_int_equal(gw_infer_alike(world.service, &four, &error), BASE_OK);
    assert_int_equal(gw_infer_serve(world.service, &four, &error), BASE_OK);
    check_serves(&world, "4");
    check_answers(&world, "3", true);
    assert_int_equal(gw_infer_remove(world.service, &four, &error), BASE_ERR_CONFLICT);
    assert_int_equal(gw_infer_serve(world.service, &three, &error), BASE_OK);
    assert_int_equal(gw_infer_remove(world.service, &four, &error), BASE_OK);
    assert_int_equal(gw_infer_remove(world.service, &four, &error), BASE_ERR_NOT_FOUND);
    check_serves(&world, "3");
    check_answers(&world, "4", false);
    for (uint32_t i = 10; i < 17; i++) {
        char text[8];
        snprintf(text, sizeof(text), "%u", i);
        assert_int_equal(add(&world, "m", text, &error), BASE_OK);
    }
    assert_int_equal(add(&world, "m", "17", &error), BASE_ERR_LIMIT);
    end(&world);
}

// One input and one output with these dimensions; the sum of x with itself.
static const struct onnx_part *twice(int64_t in_rows, int64_t in_cols, int64_t out_rows,
                                     int64_t out_cols)
{
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, in_rows, in_cols);
    onnx_node(kit, "Add", "x x", "y");
    onnx_output(kit, "y", ENG_F32, out_rows, out_cols);
    return onnx_finish(kit, 13);
}

// Version 2 beside version 1, whose input is [1, in] and whose output [1, out].
static void test_what_is_alike(void **state)
{
    static const struct {
        int64_t serving[4]; // of the input, of the output
        int64_t candidate[4];
        const char *says; // NULL: alike
    } cases[] = {
        {{-1, 3, -1, 3}, {-1, 3, -1, 3}, NULL},
        {{-1, 3, -1, 3}, {-1, -1, -1, -1}, NULL},
        {{1, 3, 1, 3}, {-1, 3, -1, 3}, NULL},
        {{-1, -1, -1, -1}, {-1, -1, -1, 3}, NULL},
        {{-1, 3, -1, 3}, {-1, 4, -1, 4}, "input 'x' has other dimensions"},
        {{-1, 3, -1, 3}, {1, 3, 1, 3}, "input 'x' has other dimensions"},
        {{-1, -1, -1, -1}, {-1, 3, -1, 3}, "input 'x' has other dimensions"},
        {{-1, -1, -1, 3}, {-1, -1, -1, 4}, "output 'y' has other dimensions"},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct world world;
        struct base_error error = {0};
        const int64_t *one = cases[i].serving;
        const int64_t *two = cases[i].candidate;
        const struct gw_infer_call named = {.model = BASE_STR("n"), .version = BASE_STR("2")};
        const struct gw_infer_call first = {.model = BASE_STR("n"), .version = BASE_STR("1")};
        begin(&world);
        infer_kit_add(&world.kit, "n", "1", twice(one[0], one[1], one[2], one[3]));
        infer_kit_add(&world.kit, "n", "2", twice(two[0], two[1], two[2], two[3]));
        infer_kit_text(&world.kit, "n/model.conf", "versions = all\n");
        start(&world, 1);
        assert_int_equal(gw_infer_serve(world.service, &first, &error), BASE_OK);
        enum base_status status = gw_infer_alike(world.service, &named, &error);
        if ((status == BASE_OK) != (cases[i].says == NULL)) {
            fail_msg("case %zu: %d %s", i, status, error.text);
        }
        assert_true(cases[i].says == NULL || strstr(error.text, cases[i].says) != NULL);
        end(&world);
    }
}

// A model that is nowhere: its first version serves. Names of others are kept from it.
static void test_a_new_model(void **state)
{
    struct world world;
    struct shelf shelf = {0};
    struct base_error error = {0};
    (void)state;
    begin_shelf(&world, &shelf);
    infer_kit_text(&world.kit, "m/model.conf", "aliases = best\n");
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), &error), BASE_OK);
    assert_int_equal(add(&world, "best", "1", &error), BASE_ERR_CONFLICT);
    assert_string_equal(error.text, "the name is an alias of model 'm'");
    assert_int_equal(add(&world, "stats", "1", &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, "/v2/models/stats is of all models"));
    assert_int_equal(add(&world, "n", "9223372036854775807", &error), BASE_OK);
    assert_int_equal(add(&world, "n", "1", &error), BASE_OK);
    struct ask *ask = ask_one(&world, ask_new(&world, "n", 1));
    check_relu(ask);
    ask_free(ask);
    assert_true(gw_infer_ready(world.service));
    end(&world);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *model;
        const char *version;
        bool garbage;
        enum base_status status;
    } cases[] = {
        {"m", "0", false, BASE_ERR_INVALID},
        {"m", "01", false, BASE_ERR_INVALID},
        {"m", "", false, BASE_ERR_INVALID},
        {".m", "1", false, BASE_ERR_INVALID},
        {"m/n", "1", false, BASE_ERR_INVALID},
        {"m", "4", true, BASE_ERR_INVALID},
        {"m", "9223372036854775808", false, BASE_ERR_INVALID},
    };
    struct world world;
    struct shelf shelf = {0};
    (void)state;
    begin_shelf(&world, &shelf);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct gw_infer_version *prepared = NULL;
        struct base_error error = {0};
        const struct gw_infer_call named = {.model = base_str_of(cases[i].model),
                                            .version = base_str_of(cases[i].version)};
        enum base_status status =
            gw_infer_prepare(world.service, &named, file_of(cases[i].garbage), &prepared, &error);
        assert_true(status == cases[i].status ||
                    (cases[i].garbage && base_status_is_input(status)));
        assert_null(prepared);
        assert_string_not_equal(error.text, "");
    }
    check_serves(&world, "3");
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_serves),     cmocka_unit_test(test_a_model_of_the_shelf_alone),
        cmocka_unit_test(test_coming_and_going), cmocka_unit_test(test_a_new_model),
        cmocka_unit_test(test_what_is_refused),  cmocka_unit_test(test_what_is_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
