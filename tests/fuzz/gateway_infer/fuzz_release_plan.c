// Any bytes as the JSON of a model's release: refused with a reason, or every number of a stage is
// within its range, and what is written of the plan reads as the same plan. The same bytes as a row
// of the store: one that is taken can be written.
#include "fuzz_target.h"

#include "base/check.h"
#include "infer/release/release_plan.h"
#include "infer/release/release_row.h"

#include <stdlib.h>

static void check_stage(const struct gw_release_stage *stage)
{
    base_check(stage->share >= 0 && stage->share <= GW_RELEASE_SHARE_MAX);
    base_check(stage->shadow >= 0 && stage->shadow <= 1);
    base_check(stage->min_calls <= GW_RELEASE_CALLS_MAX && stage->min_s <= GW_RELEASE_SECONDS_MAX);
    base_check(stage->max_rise >= 0 && stage->max_rise <= 1);
    base_check(stage->max_slow >= 0 && stage->max_slow <= GW_RELEASE_SLOW_MAX);
    base_check(stage->max_differ >= 0 && stage->max_differ <= 1);
}

static void check_plan(const struct gw_release_plan *plan)
{
    struct gw_release_plan again;
    struct base_error error = {0};
    struct pol_stage stages[GW_RELEASE_STAGES_MAX];
    base_check(plan->count >= 1 && plan->count <= GW_RELEASE_STAGES_MAX);
    for (uint32_t i = 0; i < plan->count; i++) {
        check_stage(&plan->stages[i]);
    }
    gw_release_plan_stages(plan, stages);
    json_t *body = json_object();
    base_check(body != NULL && gw_release_plan_write(plan, body));
    base_check(gw_release_plan_read(body, &again, &error) == BASE_OK);
    base_check(again.count == plan->count);
    for (uint32_t i = 0; i < plan->count; i++) {
        base_check(again.stages[i].min_calls == plan->stages[i].min_calls);
        base_check(again.stages[i].min_s == plan->stages[i].min_s);
        base_check(again.stages[i].per_caller == plan->stages[i].per_caller);
    }
    json_decref(body);
}

static void check_row(struct base_str row)
{
    struct gw_release_model *model = calloc(1, sizeof(*model));
    base_check(model != NULL);
    if (gw_release_row_read(row, 1, model) == BASE_OK) {
        char *text = gw_release_row(model);
        base_check(text != NULL);
        free(text);
        json_t *view = gw_release_view(model);
        base_check(view != NULL);
        json_decref(view);
    }
    free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_release_plan plan;
    struct base_error error = {0};
    json_t *body = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(body)) {
        enum base_status status = gw_release_plan_read(body, &plan, &error);
        if (status == BASE_OK) {
            check_plan(&plan);
        } else {
            base_check(status == BASE_ERR_INVALID && error.text[0] != '\0');
        }
    }
    json_decref(body);
    check_row((struct base_str){(const char *)data, size});
    return 0;
}
