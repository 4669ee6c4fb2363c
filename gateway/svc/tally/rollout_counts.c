// Sums over the devices of a rollout. Called by the tally, by the archive of outcomes that left
// their device's record, and by tests that count again. Any thread. That is tally.c, record_edit.c
// on the writer thread; way_back.c asks on the control thread what one device adds. All
// counts are sums of what single devices add, so that taking a device's old part away and adding
// its new one is exact in any order. Pure.
#include "svc/tally/rollout_counts.h"

#include <string.h>

void gw_tally_contribution(uint16_t bits, struct gw_rollout_counts *out)
{
    bool ran = (bits & GW_OUTCOME_RAN) != 0;
    bool shadow = (bits & GW_OUTCOME_SHADOW) != 0;
    bool activated = (ran && !shadow) || (bits & GW_OUTCOME_ACTIVATED) != 0;
    bool back = (bits & (GW_OUTCOME_ROLLED_BACK | GW_OUTCOME_REMOVED)) != 0;
    bool failed = (bits & GW_OUTCOME_FAILED) != 0;
    memset(out, 0, sizeof(*out));
    if ((bits & GW_OUTCOME_CONTROL) != 0) {
        out->control = 1;
        out->control_offered = (bits & GW_OUTCOME_OFFERED) != 0;
        out->control_activated = out->control_offered != 0 && activated;
        out->control_completed = ran || failed;
        out->control_failed = failed;
        return;
    }
    out->offered = bits != 0;
    out->downloaded = activated || (bits & GW_OUTCOME_DOWNLOADED) != 0;
    out->activated = activated;
    out->failed = failed;
    // Who ran it has succeeded until it fails for good: a device that says by turns that it failed
    // and may try again, and that it is active, completes once.
    out->retrying = (bits & GW_OUTCOME_RETRY) != 0 && !failed && !ran;
    out->succeeded = ran && !failed;
    out->ran = ran && !shadow;
    out->not_applicable = gw_outcome_is_not_for_it(bits);
    out->rolled_back = back;
    out->on_version = activated && !back && !failed;
}

// The fields that are sums over devices, in one list for adding and taking away.
#define SUM_FIELDS(X)                                                                              \
    X(offered)                                                                                     \
    X(downloaded)                                                                                  \
    X(activated)                                                                                   \
    X(succeeded)                                                                                   \
    X(ran)                                                                                         \
    X(failed)                                                                                      \
    X(not_applicable)                                                                              \
    X(rolled_back)                                                                                 \
    X(on_version)                                                                                  \
    X(retrying)                                                                                    \
    X(control)                                                                                     \
    X(control_offered)                                                                             \
    X(control_activated)                                                                           \
    X(control_completed)                                                                           \
    X(control_failed)

void gw_counts_add(struct gw_rollout_counts *to, const struct gw_rollout_counts *from)
{
#define ADD_FIELD(name) to->name += from->name;
    SUM_FIELDS(ADD_FIELD)
#undef ADD_FIELD
}

void gw_counts_take(struct gw_rollout_counts *to, const struct gw_rollout_counts *from)
{
#define TAKE_FIELD(name) to->name -= from->name;
    SUM_FIELDS(TAKE_FIELD)
#undef TAKE_FIELD
}

void gw_counts_judged(const struct gw_rollout_counts *seen, struct pol_counts *out)
{
    *out = (struct pol_counts){
        .offered = seen->offered,
        .downloaded = seen->downloaded,
        .activated = seen->activated,
        .succeeded = seen->succeeded - seen->silent_succeeded,
        .failed = seen->failed,
        .timed_out = seen->timed_out,
        .silent = seen->silent,
        .not_applicable = seen->not_applicable,
        .unproven = seen->unproven,
        .under_way = seen->under_way,
        .control = {seen->control_completed - seen->control_silent_done, seen->control_failed},
        .hazard = {seen->observed_s, seen->silent},
        .control_hazard = {seen->control_observed_s, seen->control_silent},
    };
}

void gw_counts_add_all(struct gw_rollout_counts *to, const struct gw_rollout_counts *from)
{
    gw_counts_add(to, from);
    to->timed_out += from->timed_out;
    to->under_way += from->under_way;
    to->expired += from->expired;
    to->silent += from->silent;
    to->silent_succeeded += from->silent_succeeded;
    to->observed_s += from->observed_s;
    to->control_silent += from->control_silent;
    to->control_silent_done += from->control_silent_done;
    to->control_observed_s += from->control_observed_s;
    to->unproven += from->unproven;
    to->unproven_completed += from->unproven_completed;
    to->unproven_failed += from->unproven_failed;
    // Stages overlap: the widest tells how many there are.
    to->eligible = from->eligible > to->eligible ? from->eligible : to->eligible;
    to->online = from->online > to->online ? from->online : to->online;
}
