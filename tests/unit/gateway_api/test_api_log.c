// Pages of a log whose lines are long: looks at as many segments as there may be.
#include "api_kit.h"

#include "svc/rollout/rollout_state.h"

#define LINES 40u
#define ID    UINT64_C(0x61)

static const char stages[] =
    "[{\"name\":\"full\",\"kind\":\"full\",\"percent\":100,\"max_failure\":0.1,\"min_sample\":10}]";

static void note_looks(struct api_kit *kit)
{
    for (uint32_t at = 0; at < LINES; at++) {
        struct gw_rollout_log_view line = {.seq = 2 + at, .wall_us = 1, .kind = GW_LOG_SLICES};
        struct pol_slices *slices = &line.record.slices;
        line.record.kind = POL_RECORD_SLICES;
        slices->count = POL_SLICES_MAX;
        slices->failing_count = POL_SLICES_MAX;
        slices->completed = UINT64_C(1) << 40;
        for (uint32_t i = 0; i < POL_SLICES_MAX; i++) {
            slices->failing[i] =
                (struct pol_slice){.name = UINT64_MAX - i, .seen = {UINT32_MAX, at + i + 1}};
        }
        gw_rollout_note(kit->core, ID, &line);
    }
    while (gw_rollout_last_line(kit->core, ID, 1) < LINES + 1) {
        (void)gw_core_tick(kit->core);
        api_kit_drain(kit);
    }
}

// Counts what is in a page; returns the line to go on after, 0 at the end.
static uint64_t read_page(json_t *page, uint32_t *lines, uint32_t *slices)
{
    size_t index;
    json_t *item;
    *slices = 0;
    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        const json_t *look = json_object_get(item, "slices");
        const json_t *failing = json_object_get(look, "failing");
        *lines += 1;
        assert_int_equal(json_integer_value(json_object_get(item, "seq")), *lines);
        *slices += (uint32_t)json_array_size(failing);
        if (json_array_size(failing) > 0) {
            const json_t *first = json_array_get(failing, 0);
            assert_string_equal(api_text(first, "segment"), "ffffffffffffffff");
            assert_true(json_is_null(json_object_get(first, "name"))); // nobody knows it
            assert_int_equal(json_integer_value(json_object_get(first, "failed")), *lines - 1);
            assert_int_equal(json_integer_value(json_object_get(look, "count")), POL_SLICES_MAX);
        }
    }
    const json_t *next = json_object_get(page, "next");
    return json_is_integer(next) ? (uint64_t)json_integer_value(next) : 0;
}

static void long_lines_end_a_page_early(void **state)
{
    struct api_kit kit;
    struct rollout_draft draft = {.task = "shop",
                                  .id = ID,
                                  .salt = 0x5a17u,
                                  .release_counter = 1,
                                  .issued_s = base_clock_wall_us() / 1000000,
                                  .expires_s = base_clock_wall_us() / 1000000 + 86400};
    uint32_t lines = 0;
    uint32_t pages = 0;
    uint64_t after = 0;

    (void)state;
    api_kit_init(&kit);
    api_version(&kit, "shop", "1.0.0", &draft);
    char *text = api_rollout_text(&kit, &draft, stages);
    json_decref(api_call(&kit, GW_METHOD_POST, "/api/v1/rollouts", text, 201));
    free(text);
    note_looks(&kit);
    do {
        char path[128];
        uint32_t slices = 0;
        snprintf(path, sizeof(path), "/api/v1/rollouts/0000000000000061/log?limit=500&after=%llu",
                 (unsigned long long)after);
        json_t *page = api_call(&kit, GW_METHOD_GET, path, NULL, 200);
        after = read_page(page, &lines, &slices);
        assert_true(slices <= GW_API_LOG_SLICES_MAX + POL_SLICES_MAX);
        assert_true(after == 0 || (slices > GW_API_LOG_SLICES_MAX && after == lines));
        json_decref(page);
        pages++;
    } while (after != 0 && pages < LINES);
    assert_int_equal(lines, LINES + 1); // the creation's too
    assert_int_equal(pages, 3);
    api_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_lines_end_a_page_early)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
