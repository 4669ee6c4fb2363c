// What a run came to is kept whole (runs/kept_end.h): nothing in it is the VM's any more, which the
// next run uses, and without memory there is none.
#include "test_kit.h"

#include "mem/mem_port.h"
#include "pipeline/pipeline.h"
#include "runs/kept_end.h"

static void *refuse(void *ctx, size_t bytes)
{
    (void)ctx, (void)bytes;
    return NULL;
}

static void *take(void *ctx, size_t bytes)
{
    *(size_t *)ctx = bytes;
    return malloc(bytes);
}

static void give(void *ctx, void *memory)
{
    (void)ctx;
    free(memory);
}

static void nothing_of_the_vm_is_left(void **state)
{
    (void)state;
    char text[] = "nameskeyjson";
    char result[] = "[1, 2]";
    struct dev_effect effects[2] = {
        {.kind = DEV_EFFECT_FEATURE,
         .name = {text, 4},
         .key = {text + 5, 3},
         .time_ms = 7,
         .bytes = (const uint8_t *)text + 8,
         .size = 4},
        {.kind = DEV_EFFECT_UPLOAD, .name = {text, 5}},
    };
    struct sim_task_end end = {.end = {.outcome = WIRE_OUTCOME_RAN,
                                       .duration_us = 12,
                                       .result = {result, 6},
                                       .effects = effects,
                                       .effect_count = 2},
                               .detail = "told",
                               .waited_us = 3};
    size_t bytes = 0;
    const struct base_alloc_port alloc = {.ctx = &bytes, .alloc = take, .release = give};
    end.end.detail = (struct base_str){end.detail, 4};
    struct sim_task_end *kept = sim_end_keep(&alloc, &end);
    assert_non_null(kept);
    assert_int_equal(bytes, sizeof(end) + sizeof(effects) + 4 + 3 + 4 + 5 + 6);
    memset(text, '?', sizeof(text));
    memset(result, '?', sizeof(result));
    memset(effects, 0xff, sizeof(effects));
    memset(&end, 0xff, sizeof(end));
    assert_int_equal(kept->end.duration_us, 12);
    assert_int_equal(kept->waited_us, 3);
    assert_int_equal(kept->end.effect_count, 2);
    assert_true(base_str_equal(kept->end.detail, BASE_STR("told")));
    assert_true(base_str_equal(kept->end.result, BASE_STR("[1, 2]")));
    const struct dev_effect *first = &kept->end.effects[0];
    assert_int_equal(first->kind, DEV_EFFECT_FEATURE);
    assert_int_equal(first->time_ms, 7);
    assert_true(base_str_equal(first->name, BASE_STR("name")));
    assert_true(base_str_equal(first->key, BASE_STR("key")));
    assert_int_equal(first->size, 4);
    assert_memory_equal(first->bytes, "json", 4);
    assert_true(base_str_equal(kept->end.effects[1].name, BASE_STR("names")));
    assert_int_equal(kept->end.effects[1].size, 0);
    give(NULL, kept);
}

static void a_detail_that_is_a_constant_stays_one(void **state)
{
    (void)state;
    size_t bytes = 0;
    const struct base_alloc_port alloc = {.ctx = &bytes, .alloc = take, .release = give};
    const struct sim_task_end end = {
        .end = {.outcome = WIRE_OUTCOME_FAIL_MEMORY, .detail = BASE_STR("out of memory")}};
    struct sim_task_end *kept = sim_end_keep(&alloc, &end);
    assert_non_null(kept);
    assert_ptr_equal(kept->end.detail.data, end.end.detail.data);
    give(NULL, kept);
}

static void without_memory_there_is_none(void **state)
{
    (void)state;
    const struct base_alloc_port alloc = {.alloc = refuse, .release = give};
    const struct sim_task_end end = {.end = {.outcome = WIRE_OUTCOME_RAN}};
    assert_null(sim_end_keep(&alloc, &end));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_the_vm_is_left),
        cmocka_unit_test(a_detail_that_is_a_constant_stays_one),
        cmocka_unit_test(without_memory_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
