// What an operator signed, against the clock, the catalog and the counters of the task. Called by
// rollouts.c before a rollout is made, started or approved; control thread. It reads catalog and
// clock and changes nothing; signatures were checked before. A statement that ends before its stage
// could, or whose counter is behind the task's, is refused here with words: a device would refuse
// it without any.
#include "svc/rollout/statement_check.h"

#include "svc/core_private.h"

static enum base_status check_life(const struct gw_release *release, uint32_t index, uint64_t now_s,
                                   uint64_t dwell_s, struct base_error *error)
{
    uint64_t expires_s = release->statements[index].expires_s;
    if (expires_s <= now_s) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "stage %s: statement: it ran out %llu s ago; sign a new one",
                              release->stage_names[index], (unsigned long long)(now_s - expires_s));
    }
    if (expires_s - now_s < dwell_s) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "stage %s: statement: runs out in %llu s, before the stage "
                              "that opens can end (min_dwell_s %llu)",
                              release->stage_names[index], (unsigned long long)(expires_s - now_s),
                              (unsigned long long)dwell_s);
    }
    return BASE_OK;
}

enum base_status gw_statement_check(struct gw_core *core, const struct gw_release *release,
                                    uint32_t first, struct base_error *error)
{
    uint64_t now_s = gw_core_sure_s(core);
    struct gw_version_view version;
    BASE_TRY(
        gw_catalog_version_get(core, base_str_of(release->task), &release->manifest, &version));
    for (uint32_t i = first; i < release->stage_count; i++) {
        const struct gw_statement *statement = &release->statements[i];
        if (statement->expires_s == 0) {
            continue; // nothing is offered in it
        }
        if (statement->manifest_bytes != version.manifest_bytes) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "stage %s: statement: manifest_bytes %llu, but the manifest has "
                                  "%llu",
                                  release->stage_names[i],
                                  (unsigned long long)statement->manifest_bytes,
                                  (unsigned long long)version.manifest_bytes);
        }
        BASE_TRY(check_life(release, i, now_s, release->stages[first].gate.min_dwell_us / 1000000u,
                            error));
    }
    return BASE_OK;
}

enum base_status gw_statement_counter(const struct gw_release *release, uint64_t task_counter,
                                      struct base_error *error)
{
    unsigned long long counter = release->release_counter;
    if (counter <= task_counter) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "release_counter %llu is not above the task's %llu", counter,
                              (unsigned long long)task_counter);
    }
    if (counter > GW_RELEASE_COUNTER_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "release_counter %llu leaves no next one: %llu is the last", counter,
                              (unsigned long long)GW_RELEASE_COUNTER_MAX);
    }
    if (counter - task_counter > GW_RELEASE_STEP_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "release_counter %llu is too far above the task's %llu: at most %llu",
                              counter, (unsigned long long)task_counter,
                              (unsigned long long)GW_RELEASE_STEP_MAX);
    }
    return BASE_OK;
}
