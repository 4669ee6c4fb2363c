// The cache of a version's answers: what is the same and what is not, what goes when it is full,
// and that no answer outlives the version that gave it.
#include "infer_ask.h"

static const struct base_hash_key secret = {1, 2};

static struct gw_infer_tensor tensor_of(const char *name, const float *data, int64_t rows,
                                        int64_t columns)
{
    return (struct gw_infer_tensor){.name = base_str_of(name),
                                    .desc = {ENG_F32, 2, {rows, columns}},
                                    .data = data,
                                    .bytes = (size_t)(rows * columns) * sizeof(float)};
}

static struct gw_infer_cache_key key_of(const struct gw_infer_cache *cache,
                                        const struct gw_infer_tensor *tensor, uint8_t output)
{
    const struct gw_infer_asked asked = {&tensor, 1, &output, 1};
    return gw_infer_cache_key_of(cache, &asked);
}

static bool same(struct gw_infer_cache_key a, struct gw_infer_cache_key b)
{
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

static void test_keys(void **state)
{
    static const float x[4] = {1, 2, 3, 4};
    static const float copy[4] = {1, 2, 3, 4};
    static const float other[4] = {1, 2, 3, 5};
    static const struct eng_string text = {"a", 1};
    struct gw_infer_cache *cache = gw_infer_cache_new(1000, &secret);
    (void)state;
    const struct gw_infer_tensor row = tensor_of("x", x, 1, 4);
    const struct gw_infer_tensor again = tensor_of("x", copy, 1, 4);
    const struct gw_infer_tensor differs = tensor_of("x", other, 1, 4);
    const struct gw_infer_tensor shaped = tensor_of("x", x, 2, 2);
    struct gw_infer_tensor typed = row;
    typed.desc.dtype = ENG_I32;
    const struct gw_infer_tensor texts = {
        .desc = {ENG_STRING, 1, {1}}, .data = &text, .bytes = sizeof(text)};
    struct gw_infer_cache_key key = key_of(cache, &row, 0);
    assert_true(gw_infer_cache_has_key(&key));
    assert_int_not_equal(key.words[0], key.words[1]);
    assert_true(same(key, key_of(cache, &again, 0)));
    assert_false(same(key, key_of(cache, &differs, 0)));
    assert_false(same(key, key_of(cache, &shaped, 0)));
    assert_false(same(key, key_of(cache, &typed, 0)));
    assert_false(same(key, key_of(cache, &row, 1)));
    struct gw_infer_cache_key none = key_of(cache, &texts, 0);
    assert_false(gw_infer_cache_has_key(&none));
    gw_infer_cache_free(cache);
}

// The float that is kept under this number; 0: none is.
static float kept(struct gw_infer_cache *cache, uint64_t number)
{
    struct base_arena arena;
    struct gw_infer_result result = {0};
    const struct gw_infer_cache_key key = {{number, 7}};
    float value = 0;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    if (gw_infer_cache_get(cache, &key, &arena, &result)) {
        assert_int_equal(result.output_count, 2);
        assert_true(base_str_equal(result.outputs[0].name, BASE_STR("y")));
        assert_true(base_str_equal(result.outputs[1].name, BASE_STR("long name")));
        assert_int_equal(result.outputs[1].bytes, 0);
        assert_int_equal(result.outputs[0].desc.dims[1], 20);
        value = ((const float *)result.outputs[0].data)[19];
    }
    base_arena_done(&arena);
    return value;
}

static void keep(struct gw_infer_cache *cache, uint64_t number)
{
    float values[20] = {0};
    struct gw_infer_tensor outputs[2] = {tensor_of("y", values, 1, 20),
                                         tensor_of("long name", values, 0, 20)};
    const struct gw_infer_result result = {.outputs = outputs, .output_count = 2};
    const struct gw_infer_cache_key key = {{number, 7}};
    values[19] = (float)number;
    gw_infer_cache_put(cache, &key, &result);
}

static void test_the_one_unused_longest_goes(void **state)
{
    struct gw_infer_cache *cache = gw_infer_cache_new(1 << 20, &secret);
    (void)state;
    keep(cache, 1);
    const size_t one = gw_infer_cache_bytes(cache);
    assert_true(one > 80);
    keep(cache, 1); // it is there
    assert_int_equal(gw_infer_cache_bytes(cache), one);
    gw_infer_cache_free(cache);
    cache = gw_infer_cache_new(3 * one, &secret);
    for (uint64_t i = 1; i <= 3; i++) {
        keep(cache, i);
    }
    assert_float_equal(kept(cache, 1), 1, 0); // and is used last now
    keep(cache, 4);
    assert_int_equal(gw_infer_cache_bytes(cache), 3 * one);
    assert_float_equal(kept(cache, 2), 0, 0);
    assert_float_equal(kept(cache, 1), 1, 0);
    assert_float_equal(kept(cache, 3), 3, 0);
    assert_float_equal(kept(cache, 4), 4, 0);
    gw_infer_cache_free(cache);
    cache = gw_infer_cache_new(one - 1, &secret); // one that is too large is not kept
    keep(cache, 1);
    assert_int_equal(gw_infer_cache_bytes(cache), 0);
    gw_infer_cache_free(cache);
}

static void check_figures(struct world *world, uint64_t hits, uint64_t misses, uint64_t batches)
{
    struct gw_infer_figures figures = figures_of(world, "m");
    assert_int_equal(figures.cache_hits, hits);
    assert_int_equal(figures.cache_misses, misses);
    assert_int_equal(figures.batches, batches);
    assert_int_equal(figures.calls, hits + misses);
}

static void ask_for(struct world *world, const char *name, float x)
{
    struct ask *ask = ask_new(world, name, 2);
    ask->x[4] = x;
    ask->call.id = BASE_STR("mine");
    (void)ask_one(world, ask);
    check_relu(ask);
    assert_true(base_str_equal(ask->ticket.result.model, BASE_STR("m")));
    assert_true(base_str_equal(ask->ticket.result.version, BASE_STR("1")));
    assert_true(base_str_equal(ask->ticket.result.id, BASE_STR("mine")));
    assert_true(base_str_equal(ask->ticket.result.outputs[0].name, BASE_STR("y")));
    ask_free(ask);
}

static void test_a_model_with_a_cache(void **state)
{
    struct world world;
    struct base_error error = {0};
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    infer_kit_text(&world.kit, "m/model.conf", "cache_bytes = 100000\naliases = best");
    start(&world, 1);
    ask_for(&world, "m", 5);
    check_figures(&world, 0, 1, 1);
    ask_for(&world, "m", 5);
    ask_for(&world, "best", 5); // the same model
    check_figures(&world, 2, 1, 1);
    ask_for(&world, "m", 6);
    check_figures(&world, 2, 2, 2);
    assert_true(figures_of(&world, "m").cache_bytes > 0);
    assert_int_equal(gw_infer_load(world.service, BASE_STR("m"), &error), BASE_OK);
    assert_int_equal(figures_of(&world, "m").cache_bytes, 0);
    ask_for(&world, "m", 5); // nothing is known of the new one
    check_figures(&world, 0, 1, 1);
    gw_infer_service_drain(world.service);
    struct ask *late = ask_new(&world, "m", 2);
    late->x[4] = 5;
    (void)ask_one(&world, late);
    assert_int_equal(late->ticket.status, BASE_ERR_BUSY);
    ask_free(late);
    end(&world);
}

// Without the setting nothing is kept.
static void test_a_model_without(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    infer_kit_add(&world.kit, "m", "1", NULL);
    start(&world, 1);
    ask_for(&world, "m", 5);
    ask_for(&world, "m", 5);
    struct gw_infer_figures figures = figures_of(&world, "m");
    assert_int_equal(figures.batches, 2);
    assert_int_equal(figures.cache_hits + figures.cache_misses + figures.cache_bytes, 0);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_the_one_unused_longest_goes),
        cmocka_unit_test(test_a_model_with_a_cache),
        cmocka_unit_test(test_a_model_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
