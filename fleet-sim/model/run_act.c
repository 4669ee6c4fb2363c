// Parsing of acts: an operator's words go into a list of their own, faults into the plan of faults.
// command/fleet_options.c calls it for a run, fork/fork_branch.c to see whether a branch can be; on
// the main thread. Pure.
#include "model/run_act.h"

#include "base/check.h"
#include "base/text/str_cut.h"

#include <string.h>

static const char *const words[] = {"pause", "resume", "promote", "abort", "kill"};

static enum base_status word_add(struct sim_acts *acts, uint32_t at_s, struct base_str deed,
                                 struct base_error *error)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!base_str_equal(deed, base_str_of(words[i]))) {
            continue;
        }
        if (acts->count == SIM_ACTS_MAX) {
            return base_error_set(error, BASE_ERR_LIMIT, "at most %u acts", SIM_ACTS_MAX);
        }
        struct sim_act *act = &acts->list[acts->count++];
        *act = (struct sim_act){.at_s = at_s};
        base_assert(deed.size < sizeof(act->word));
        memcpy(act->word, deed.data, deed.size);
        return BASE_OK;
    }
    return base_error_set(error, BASE_ERR_INVALID,
                          "pause, resume, promote, abort, kill, calm or 'fault FAULT' is expected");
}

static enum base_status fault_add(struct sim_fault_plan *plan, uint32_t at_s, struct base_str text,
                                  struct base_error *error)
{
    struct base_error inner = {.status = BASE_OK};
    enum base_status status = sim_fault_add_later(plan, at_s, text, &inner);
    if (status != BASE_OK) {
        return base_error_set(error, status, "column %u of the fault: %s", inner.column,
                              inner.text);
    }
    base_assert(plan->rule_count > 0);
    return BASE_OK;
}

enum base_status sim_act_add(struct sim_acts *acts, struct sim_fault_plan *plan,
                             struct base_str text, struct base_error *error)
{
    const struct base_str fault = BASE_STR("fault ");
    const char *space = text.size > 0 ? memchr(text.data, ' ', text.size) : NULL;
    size_t size = space != NULL ? (size_t)(space - text.data) : text.size;
    uint64_t at_s = 0;
    base_assert(acts->count <= SIM_ACTS_MAX);
    if (space == NULL || base_str_u64((struct base_str){text.data, size}, &at_s) != BASE_OK ||
        at_s < 1 || at_s > SIM_ACT_AT_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "'SECOND DEED' is expected, from second 1 on");
    }
    struct base_str deed = base_str_trim((struct base_str){text.data + size, text.size - size});
    if (base_str_equal(deed, BASE_STR("calm"))) {
        bool before = plan->until_s != 0 && plan->until_s < at_s;
        plan->until_s = before ? plan->until_s : (uint32_t)at_s;
        return BASE_OK;
    }
    if (deed.size > fault.size && memcmp(deed.data, fault.data, fault.size) == 0) {
        return fault_add(plan, (uint32_t)at_s,
                         (struct base_str){deed.data + fault.size, deed.size - fault.size}, error);
    }
    return word_add(acts, (uint32_t)at_s, deed, error);
}
