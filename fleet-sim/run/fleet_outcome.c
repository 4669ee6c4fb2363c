// The judgement of a run: passed, failed, or one of the ways in which nothing was shown. Made once
// by fleet_run.c on the coordinator's thread, after the shards ended and the oracles were judged.
// The order of the questions matters: where no gateway answered or nobody came online, that no
// invariant broke says nothing, so that is asked before. A cause in words is set with each outcome
// that is not a pass.
#include "run/fleet_outcome.h"

#include "model/repro_line.h"
#include "report/thresholds.h"

#include <string.h>
#include <unistd.h>

// A token that opens nothing: whatever else held, it was not what the run was to show.
static bool nobody_enrolled(const struct sim_counters *counters)
{
    return counters->enrolled == 0 && counters->enrol_refused > 0;
}

// No gateway is there: that nothing went wrong on it says nothing.
static bool no_gateway(struct sim_run_result *result, const struct sim_ending *ending)
{
    const struct sim_counters *counters = &result->counters;
    bool asked = counters->requests > 0 && !ending->interrupted;
    if (result->options->local || counters->answers > 0 || (ending->link_fault == NULL && !asked)) {
        return false;
    }
    if (result->options->virtual_dir[0] != '\0') {
        (void)snprintf(result->cause, SIM_CAUSE_MAX, "not one of %llu requests was answered%s",
                       (unsigned long long)counters->requests,
                       result->options->faults.rule_count > 0 ? "; the faults may be why (--fault)"
                                                              : "");
        return true;
    }
    char address[SIM_TEXT_MAX + 8];
    (void)snprintf(address, sizeof(address), "%s:%u", result->options->host, result->options->port);
    (void)snprintf(result->cause, SIM_CAUSE_MAX, "no gateway answered: %s%s",
                   ending->link_fault != NULL ? ending->link_fault : address,
                   ending->link_fault != NULL ? "" : ": no answer to any request");
    return true;
}

// What they have to show: the credentials that a run before kept there, or a token to get some.
static void tell_refused(struct sim_run_result *result)
{
    char kept[SIM_TEXT_MAX + 16];
    (void)snprintf(kept, sizeof(kept), "%s/credentials", result->options->out);
    bool found = result->options->credentials[0] == '\0' && access(kept, R_OK) == 0;
    (void)snprintf(result->cause, SIM_CAUSE_MAX,
                   "no device came online: the gateway refused them as nobody's or a stranger's: "
                   "%s%s",
                   found ? "--credentials " : "--enroll-token FILE", found ? kept : "");
}

// No device came so far that its check-in was answered.
static bool nobody_online(struct sim_run_result *result)
{
    const struct sim_options *options = result->options;
    const struct sim_counters *counters = &result->counters;
    bool online = options->local ? counters->arrived > 0 : counters->checkins > 0;
    if (online) {
        return false;
    }
    if (nobody_enrolled(counters) && options->virtual_dir[0] != '\0') {
        (void)snprintf(result->cause, SIM_CAUSE_MAX, "the gateway's core refused every enrolment%s",
                       counters->enrolled_before > 0
                           ? ": these devices are enrolled in that folder: another --seed"
                           : "");
    } else if (nobody_enrolled(counters) && counters->enrolled_before > 0) {
        (void)snprintf(result->cause, SIM_CAUSE_MAX,
                       "these devices are enrolled already, and %s does not hold their "
                       "credentials: --credentials FILE of the run that enrolled them, another "
                       "--seed, or walle device reset ID",
                       options->credentials);
    } else if (nobody_enrolled(counters)) {
        (void)snprintf(result->cause, SIM_CAUSE_MAX,
                       "the gateway refused every enrolment: it does not take the token of "
                       "--enroll-token");
    } else if (counters->unauthorized > 0) {
        tell_refused(result);
    } else {
        (void)snprintf(result->cause, SIM_CAUSE_MAX,
                       "no device came online: %llu of %u came up, and no check-in was answered "
                       "with what to do",
                       (unsigned long long)counters->arrived, options->devices);
    }
    return true;
}

// A part of the fleet was never there, since the gateway knows it of another run: what the others
// came to is not what was to be shown.
static bool part_refused(struct sim_run_result *result)
{
    const struct sim_options *options = result->options;
    const struct sim_counters *counters = &result->counters;
    if (options->local || counters->known_refused == 0 || counters->unenrolled == 0) {
        return false;
    }
    size_t used = (size_t)snprintf(result->cause, SIM_CAUSE_MAX,
                                   "%llu of %u devices never came online: they are enrolled "
                                   "already, ",
                                   (unsigned long long)counters->unenrolled, options->devices);
    if (options->virtual_dir[0] != '\0') {
        (void)snprintf(result->cause + used, SIM_CAUSE_MAX - used,
                       "in that folder: another --seed");
    } else {
        (void)snprintf(result->cause + used, SIM_CAUSE_MAX - used,
                       "by another run: --credentials FILE of that run, another --seed, or walle "
                       "device reset ID");
    }
    return true;
}

static uint64_t offers(const struct sim_counters *counters)
{
    uint64_t count = 0;
    for (uint32_t v = 1; v < SIM_VERSIONS_MAX; v++) {
        count += counters->version[v].offered;
    }
    return count;
}

// Is there a release that the run is about: one that the command line names, or one under way?
static bool about_release(const struct sim_options *options, const struct sim_watch_view *view)
{
    bool named = options->task[0] != '\0' || options->version[0] != '\0' ||
                 options->coverage_ppm > 0 || options->until_rollout != 0 ||
                 options->rollout != 0 || options->bad_version_count > 0;
    return named || (view != NULL && view->known && strcmp(view->state, "rolled_back") != 0);
}

// Devices refused what they were offered, and none took anything: they trust others than who
// signed.
static bool nobody_took(struct sim_run_result *result)
{
    const struct sim_counters *counters = &result->counters;
    if (counters->activations > 0 || counters->refused_offers + counters->refused_metadata == 0) {
        return false;
    }
    (void)snprintf(result->cause, SIM_CAUSE_MAX,
                   "no device took a release: they refused %llu offers and %llu roots, timestamps, "
                   "snapshots or orders (--trust, --root; the gateway's log)",
                   (unsigned long long)counters->refused_offers,
                   (unsigned long long)counters->refused_metadata);
    return true;
}

static bool is_offered(const struct sim_run_result *result, uint8_t version)
{
    return version != SIM_VERSION_NONE && result->counters.version[version].offered > 0;
}

// Was a version of this name, label or hash, offered to a device?
static bool has_come(const struct sim_run_result *result, const char *name)
{
    uint8_t version = sim_versions_find(result->versions, sim_options_task_id(result->options),
                                        base_str_of(name));
    bool come = strcmp(name, "*") == 0 || is_offered(result, version);
    for (uint32_t i = 0; i < result->rollout_count; i++) { // its label, where it never ran
        const struct sim_rollout_told *told = &result->rollouts[i];
        come = come || (strcmp(name, told->seen.version) == 0 && is_offered(result, told->version));
    }
    return come;
}

// The rollout that the command line names; 0: none.
static uint64_t rollout_named(const struct sim_options *options)
{
    return options->until_rollout != 0 ? options->until_rollout : options->rollout;
}

// The gateway knows of no rollout of the id that was asked for.
static bool no_such_rollout(struct sim_run_result *result, const struct sim_watch_view *view)
{
    uint64_t id = rollout_named(result->options);
    if (result->options->local || id == 0 || view == NULL || !view->missing) {
        return false;
    }
    (void)snprintf(result->cause, SIM_CAUSE_MAX, "no such rollout: the gateway has no %016llx",
                   (unsigned long long)id);
    return true;
}

// Others came to devices, and the rollout that the command line names did not.
static bool rollout_never_came(struct sim_run_result *result)
{
    uint64_t id = rollout_named(result->options);
    bool come = id == 0;
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        const struct sim_rollout_told *told = &result->rollouts[i];
        come = come || (told->seen.id == id && is_offered(result, told->version));
    }
    if (!come) {
        (void)snprintf(result->cause, SIM_CAUSE_MAX,
                       "rollout %016llx reached none of the %llu devices that came online",
                       (unsigned long long)id, (unsigned long long)sim_result_online_count(result));
    }
    return !come;
}

// ... nor the version.
static bool version_never_came(struct sim_run_result *result)
{
    const struct sim_options *options = result->options;
    if (options->version[0] == '\0' || has_come(result, options->version)) {
        return false;
    }
    (void)snprintf(result->cause, SIM_CAUSE_MAX,
                   "version %s reached none of the %llu devices that came online", options->version,
                   (unsigned long long)sim_result_online_count(result));
    return true;
}

// Offers alone are no release: did one come so far anywhere that it could be judged?
static bool nobody_activated(struct sim_run_result *result)
{
    const struct sim_counters *counters = &result->counters;
    if (counters->activations + counters->runs + counters->run_failures + counters->crashes > 0) {
        return false;
    }
    (void)snprintf(result->cause, SIM_CAUSE_MAX,
                   "%llu devices were offered a release, and none came so far as to activate it",
                   (unsigned long long)offers(counters));
    return true;
}

static bool nobody_reached(struct sim_run_result *result, const struct sim_watch_view *view)
{
    const struct sim_options *options = result->options;
    if (options->local || !about_release(options, view)) {
        return false;
    }
    if (nobody_took(result)) {
        return true;
    }
    if (offers(&result->counters) > 0) {
        return nobody_activated(result) || rollout_never_came(result) || version_never_came(result);
    }
    char release[3 * SIM_WATCH_TEXT + 64] = "no rollout of this gateway is known here";
    if (view != NULL && view->known) {
        (void)snprintf(release, sizeof(release), "the rollout of %s %s is %s, at %s", view->task,
                       view->version, view->state, view->stage);
    }
    char room[96] = "";
    if (result->counters.no_room > 0) {
        (void)snprintf(room, sizeof(room), "%llu hold %u tasks and have no room for it (--tasks); ",
                       (unsigned long long)result->counters.no_room, options->tasks);
    }
    (void)snprintf(result->cause, SIM_CAUSE_MAX,
                   "no release%s%s reached any of the %llu devices that came online: %s%s",
                   options->task[0] != '\0' ? " of " : "", options->task,
                   (unsigned long long)sim_result_online_count(result), room, release);
    return true;
}

// Devices checked in, no release was there and none was asked for: what held was not tried.
static bool no_release(struct sim_run_result *result, const struct sim_watch_view *view)
{
    if (result->options->local || offers(&result->counters) > 0) {
        return false;
    }
    char last[3 * SIM_WATCH_TEXT] = "";
    if (view != NULL && view->known) {
        (void)snprintf(last, sizeof(last), " (the last rollout, of %s %s, is %s)", view->task,
                       view->version, view->state);
    }
    (void)snprintf(result->cause, SIM_CAUSE_MAX,
                   "%llu devices checked in, and nothing was there to be judged: the gateway "
                   "released nothing while the run lasted%s; walle rollout start",
                   (unsigned long long)sim_result_online_count(result), last);
    return true;
}

// Apps that got no answer at all: what rode on their requests did so on failures alone.
static bool nobody_served(struct sim_run_result *result)
{
    const struct sim_counters *counters = &result->counters;
    if (counters->business_failed == 0 || counters->business_served > 0) {
        return false; // some may have been under way at the end
    }
    (void)snprintf(
        result->cause, SIM_CAUSE_MAX,
        "none of %llu business requests was served: does the gateway's proxy.upstream name a "
        "service that runs? --upstream PORT is one",
        (unsigned long long)counters->business);
    return true;
}

// A release that these devices were offered, and that was taken back though nobody called it bad.
// It decides, whatever came after it.
static bool taken_back(struct sim_run_result *result)
{
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        const struct sim_rollout_seen *seen = &result->rollouts[i].seen;
        if (!result->rollouts[i].wrong) {
            continue;
        }
        bool going = strcmp(seen->state, "rolling_back") == 0;
        (void)snprintf(result->cause, SIM_CAUSE_MAX,
                       "the release of %s %s %s rolled back%s%s; one that is meant to be: "
                       "--bad-version",
                       seen->task, seen->version, going ? "is being" : "was",
                       seen->reason[0] != '\0' ? ": " : "", seen->reason);
        result->decided = result->rollouts[i].version;
        return true;
    }
    return false;
}

// ---- Rollouts of the task followed

// Its version's number: by the manifest, which no other version has.
static uint8_t version_of(const struct sim_run_result *result, const struct sim_rollout_seen *seen)
{
    const char *name = seen->manifest[0] != '\0' ? seen->manifest : seen->version;
    return sim_versions_find(result->versions, wire_task_id(base_str_of(seen->task)),
                             base_str_of(name));
}

static bool called_bad(const struct sim_run_result *result, const struct sim_rollout_told *told)
{
    const struct sim_options *options = result->options;
    bool bad =
        told->version != SIM_VERSION_NONE && sim_versions_get(result->versions, told->version).bad;
    for (uint32_t i = 0; i < options->bad_version_count; i++) { // its label, where it never ran
        bad = bad || strcmp(options->bad_versions[i], told->seen.version) == 0;
    }
    return bad;
}

static bool is_followed(const struct sim_run_result *result, const struct sim_rollout_seen *seen)
{
    const struct sim_options *options = result->options;
    uint64_t task_id = sim_options_task_id(options);
    task_id = task_id != 0 ? task_id : atomic_load(&result->versions->followed);
    if (options->rollout != 0 || options->until_rollout != 0) {
        return true; // no other was asked for
    }
    return task_id == 0 || task_id == wire_task_id(base_str_of(seen->task));
}

// What ended before the run is none of its rollouts, unless its devices were brought that version.
static bool is_met(const struct sim_run_result *result, const struct sim_rollout_told *told)
{
    bool offered =
        told->version != SIM_VERSION_NONE && result->counters.version[told->version].offered > 0;
    bool named = result->options->rollout != 0 || result->options->until_rollout != 0;
    return named || !told->seen.old || (offered && !sim_rollout_back(told->seen.state));
}

// Kept in the order in which they were created; the oldest are left out.
static void rollout_add(struct sim_run_result *result, const struct sim_rollout_told *told)
{
    struct sim_rollout_told *list = result->rollouts;
    if (result->rollout_count == SIM_ROLLOUTS_TOLD_MAX) {
        result->rollouts_left_out++;
        if (told->seen.created_s < list[0].seen.created_s) {
            return;
        }
        memmove(&list[0], &list[1], sizeof(list[0]) * (SIM_ROLLOUTS_TOLD_MAX - 1));
        result->rollout_count--;
    }
    uint32_t at = result->rollout_count++;
    for (; at > 0 && list[at - 1].seen.created_s > told->seen.created_s; at--) {
        list[at] = list[at - 1];
    }
    list[at] = *told;
}

static void rollouts_gather(struct sim_run_result *result, const struct sim_rollouts_seen *seen)
{
    for (uint32_t i = 0; seen != NULL && i < seen->count; i++) {
        struct sim_rollout_told told = {.seen = seen->items[i]};
        told.version = version_of(result, &told.seen);
        bool offered =
            told.version != SIM_VERSION_NONE && result->counters.version[told.version].offered > 0;
        if (is_followed(result, &told.seen) && is_met(result, &told)) {
            bool back = sim_rollout_back(told.seen.state);
            told.meant = back && called_bad(result, &told);
            // Not one of a version that an earlier rollout brought to all of them.
            offered = offered && sim_versions_brought(result->versions, told.seen.id);
            told.wrong = back && offered && !told.meant;
            rollout_add(result, &told);
        }
    }
    result->rollouts_left_out += seen != NULL ? seen->left_out : 0;
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        uint8_t version = result->rollouts[i].version;
        bool offered = version != SIM_VERSION_NONE && result->counters.version[version].offered > 0;
        result->decided = offered ? version : result->decided; // the newest of them
    }
}

// A version that is to go back, and that no device was offered: nothing was shown of it.
static bool bad_never_came(struct sim_run_result *result)
{
    const struct sim_options *options = result->options;
    const char *missed = NULL;
    for (uint32_t i = 0; i < options->bad_version_count && !options->local; i++) {
        const char *name = options->bad_versions[i];
        missed = missed == NULL && !has_come(result, name) ? name : missed;
    }
    if (missed == NULL) {
        return false;
    }
    size_t used = (size_t)snprintf(
        result->cause, SIM_CAUSE_MAX,
        "--bad-version %.64s: never came to these devices, so it did not go back; those that came:",
        missed);
    const char *comma = " ";
    for (uint8_t v = 1; v < SIM_VERSIONS_MAX; v++) {
        char release[SIM_RELEASE_TEXT_MAX];
        sim_release_text(result, v, release);
        if (is_offered(result, v) && used + strlen(release) + 2 < SIM_CAUSE_MAX) {
            used += (size_t)snprintf(result->cause + used, SIM_CAUSE_MAX - used, "%s%s", comma,
                                     release);
            comma = ", ";
        }
    }
    return true;
}

// ---- Figures of a simulation

// Devices that did not run the version, though it is for them.
static uint64_t missing(const struct sim_run_result *result)
{
    uint64_t others = result->completed + result->refused_as[WIRE_OUTCOME_NOT_APPLICABLE];
    uint64_t devices = result->options->devices;
    return result->options->local && devices > others ? devices - others : 0;
}

// The way that most devices went, from `first` on; 0: none did.
static uint32_t most_frequent(const uint64_t counts[SIM_OUTCOMES], uint32_t first)
{
    uint32_t most = 0;
    for (uint32_t i = first; i < SIM_OUTCOMES; i++) {
        most = counts[i] > 0 && (most == 0 || counts[i] > counts[most]) ? i : most;
    }
    return most;
}

// "; most often, on 96, WHO refused the offer: fail_clock: signed metadata ran out". Nothing where
// no device said why.
static void tell_refusals(const struct sim_run_result *result, uint32_t first, const char *who,
                          char *out, size_t size)
{
    uint32_t most = most_frequent(result->refused_as, first);
    if (most == 0 || size == 0) {
        return;
    }
    enum wire_outcome_kind kind = (enum wire_outcome_kind)most;
    const struct sim_failure *top = sim_failures_top(&result->failures, SIM_VERSION_NONE, kind);
    (void)snprintf(out, size, "; most often, on %llu, %s refused the offer: %s%s%s",
                   (unsigned long long)result->refused_as[most], who, wire_outcome_name(kind),
                   top != NULL && top->detail[0] != '\0' ? ": " : "",
                   top != NULL ? top->detail : "");
}

static void tell_failures(const struct sim_run_result *result, char *out, size_t size)
{
    uint32_t most = most_frequent(result->failed_as, WIRE_OUTCOME_FIRST_FAILURE);
    enum wire_outcome_kind kind = (enum wire_outcome_kind)most;
    const struct sim_failure *top = sim_failures_top(&result->failures, result->focus, kind);
    int used =
        snprintf(out, size, "; most often, on %llu, %s%s%s; next: walle task run FOLDER",
                 (unsigned long long)result->failed_as[most], wire_outcome_name(kind),
                 top != NULL && top->detail[0] != '\0' ? ": " : "", top != NULL ? top->detail : "");
    if (used < 0 || (size_t)used >= size) {
        return;
    }
    char path[SIM_TEXT_MAX + 32];
    char words[SIM_TEXT_MAX + 64];
    const char *const attrs[] = {"--attrs", path, NULL};
    (void)snprintf(path, sizeof(path), "%s/" SIM_FAILING_ATTRS_FILE, result->options->out);
    sim_repro_words(attrs, words, sizeof(words));
    char as[sizeof(words) + 32];
    int more = snprintf(as, sizeof(as), " %s runs it once as one of them", words);
    bool fits = sim_result_failing(result) != NULL && (size_t)(used + more) < size;
    (void)snprintf(out + used, size - (size_t)used, "%s", fits ? as : " runs it once");
}

// Of a simulation that failed by its figures: the limit, what was measured, how most devices
// failed, and why those that did not run it did not.
static void tell_figures(struct sim_run_result *result)
{
    uint64_t absent = missing(result);
    uint64_t devices = result->completed + absent;
    uint64_t bad = result->failed + absent;
    const char *what = absent == 0           ? "failed"
                       : result->failed == 0 ? "did not run the version"
                                             : "failed or did not run the version";
    if (result->completed == 0) {
        (void)snprintf(result->cause, SIM_CAUSE_MAX, "no device ran the version");
    } else {
        (void)snprintf(result->cause, SIM_CAUSE_MAX,
                       "%llu of %llu devices %s, %.2f %%: at most %.2f %% may (--max-failure)",
                       (unsigned long long)bad, (unsigned long long)devices, what,
                       100.0 * (double)bad / (double)devices,
                       (double)result->options->max_failure_ppm / 1e4);
    }
    size_t used = strlen(result->cause);
    tell_refusals(result, result->completed > 0 ? WIRE_OUTCOME_FIRST_FAILURE : 1, "they",
                  result->cause + used, SIM_CAUSE_MAX - used);
    used = strlen(result->cause);
    if (result->failed > 0) {
        tell_failures(result, result->cause + used, SIM_CAUSE_MAX - used);
    }
}

// A simulation came to its end: did each device go through the version?
static void tell_whole(struct sim_run_result *result)
{
    if (!result->whole || result->completed >= result->options->devices) {
        return;
    }
    (void)snprintf(result->ended, sizeof(result->ended),
                   "%llu of %u devices went through the version",
                   (unsigned long long)result->completed, result->options->devices);
    size_t used = strlen(result->ended);
    if (result->outcome == SIM_OUTCOME_PASSED) { // else the cause says it
        tell_refusals(result, 1, "the others", result->ended + used, sizeof(result->ended) - used);
    }
}

// Of a simulation: records that no gateway would take. (In a run the gateway is there to say so.)
static bool against_schema(struct sim_run_result *result)
{
    const struct sim_behaviour_sums *sums = &result->counters.behaviour;
    if (!result->options->local || sums->records_against == 0 || result->tally == NULL) {
        return false;
    }
    (void)snprintf(result->cause, SIM_CAUSE_MAX,
                   "%llu of %llu records are not as their schemas say, and a gateway refuses them; "
                   "the first: %s",
                   (unsigned long long)sums->records_against, (unsigned long long)sums->records,
                   result->tally->against);
    return true;
}

static bool goal_missed(struct sim_run_result *result, const struct sim_ending *ending)
{
    const struct sim_options *options = result->options;
    if (options->local) {
        uint64_t absent = missing(result);
        double allowed = (double)(result->completed + absent) * options->max_failure_ppm / 1e6;
        bool missed = result->completed == 0 || (double)(result->failed + absent) > allowed;
        if (missed) {
            tell_figures(result);
        }
        return missed;
    }
    bool wanted = options->coverage_ppm > 0 || options->until_rollout != 0;
    if (wanted && !ending->goal_reached) {
        (void)snprintf(result->cause, SIM_CAUSE_MAX, "%s",
                       options->coverage_ppm > 0 ? "the coverage of --until-coverage was not "
                                                   "reached"
                                                 : "the rollout of --until-rollout is not over");
    }
    return wanted && !ending->goal_reached;
}

// Devices behind a connection that could not be opened were never there.
static bool links_missing(struct sim_run_result *result, const struct sim_ending *ending)
{
    uint64_t missing_links = result->counters.links_never_up;
    if (missing_links > 0) {
        (void)snprintf(result->cause, SIM_CAUSE_MAX,
                       "%llu connections to the gateway never came up, nor the devices behind "
                       "them: %s",
                       (unsigned long long)missing_links,
                       ending->link_fault != NULL ? ending->link_fault : "no reason is known");
    }
    return missing_links > 0;
}

// A gate that hears of none of these devices says nothing of the release, whatever it does.
static bool gate_counts_nobody(struct sim_run_result *result)
{
    for (uint32_t i = 0; i < result->rollout_count; i++) {
        const struct sim_rollout_seen *seen = &result->rollouts[i].seen;
        if (seen->uncounted && is_offered(result, result->rollouts[i].version)) {
            (void)snprintf(result->cause, SIM_CAUSE_MAX,
                           "the gate of rollout %016llx of %s %s counts devices that show who they "
                           "are, and these are strangers to it: %s, or start it with "
                           "--trust-unproven",
                           (unsigned long long)seen->id, seen->task, seen->version,
                           result->options->strangers ? "leave out --strangers"
                                                      : "--enroll-token FILE");
            result->decided = result->rollouts[i].version;
            return true;
        }
    }
    return false;
}

static bool thresholds_missed(struct sim_run_result *result)
{
    uint32_t missed = sim_thresholds_missed(result);
    const char *between = "; ";
    if (missed == 0) {
        return false;
    }
    size_t used = (size_t)snprintf(result->cause, SIM_CAUSE_MAX, "%u of %u thresholds do not hold",
                                   missed, result->options->threshold_count);
    for (uint32_t i = 0; i < result->options->threshold_count && used < SIM_CAUSE_MAX; i++) {
        char said[SIM_THRESHOLD_SAID_MAX];
        if (!result->thresholds[i].holds) {
            sim_threshold_said(result, i, said);
            used +=
                (size_t)snprintf(result->cause + used, SIM_CAUSE_MAX - used, "%s%s", between, said);
        }
    }
    return true;
}

// Of a run that was cut short, only what may never happen is judged: who is still on a bad version
// might yet have left it.
static bool broke_for_good(const struct sim_verdict *verdict)
{
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        if (i != SIM_ORACLE_BACK && verdict->oracle[i].checked && !verdict->oracle[i].holds) {
            return true;
        }
    }
    return false;
}

// The newest rollout, if it is over and everybody had time since.
static void ends_judge(struct sim_run_result *result)
{
    const struct sim_fault_plan *plan = &result->options->faults;
    const struct sim_rollout_told *last =
        result->rollout_count > 0 ? &result->rollouts[result->rollout_count - 1] : NULL;
    double since_s = result->changed_s > plan->until_s ? result->changed_s : plan->until_s;
    bool time = result->rested || result->duration_s - since_s >= SIM_ENDS_WITHIN_S;
    struct sim_astray astray;
    if (last == NULL || plan->until_s == 0 || !time || result->interrupted) {
        return;
    }
    if (!sim_ends_astray(&result->ends, last->seen.state, last->version, &astray)) {
        return;
    }
    sim_ledger_judge_ends(&result->verdict, astray.count, result->ends.devices);
    if (astray.count > 0) {
        const struct sim_population population = sim_options_population(result->options);
        struct sim_oracle_result *ended = &result->verdict.oracle[SIM_ORACLE_ENDED];
        ended->names_device = true;
        ended->device = sim_options_index(result->options, &population, astray.first);
    }
}

// What the core could not write down it did not do: the run is of this machine, not of the release.
static bool no_room(struct sim_run_result *result)
{
    if (result->unwritten == 0) {
        return false;
    }
    (void)snprintf(result->cause, SIM_CAUSE_MAX,
                   "the gateway's copy had no room for %llu of its answers: /dev/shm is full",
                   (unsigned long long)result->unwritten);
    return true;
}

void sim_outcome_judge(struct sim_run_result *result, const struct sim_ending *ending)
{
    bool gone = no_gateway(result, ending);
    sim_thresholds_judge(result);
    result->interrupted = ending->interrupted;
    rollouts_gather(result, ending->rollouts);
    ends_judge(result);
    if (no_room(result)) {
        result->outcome = SIM_OUTCOME_NO_ROOM;
    } else if (ending->interrupted) {
        result->outcome =
            broke_for_good(&result->verdict) ? SIM_OUTCOME_FAILED : SIM_OUTCOME_INTERRUPTED;
    } else if (result->verdict.holds && no_such_rollout(result, ending->view)) {
        result->outcome = SIM_OUTCOME_UNREACHED;
    } else if (gone) {
        result->outcome = SIM_OUTCOME_NO_GATEWAY;
    } else if (nobody_online(result)) {
        result->outcome = SIM_OUTCOME_NOBODY_ONLINE;
    } else if (!result->verdict.holds) {
        result->outcome = SIM_OUTCOME_FAILED;
    } else if (part_refused(result) && !taken_back(result)) {
        result->outcome = SIM_OUTCOME_REFUSED;
    } else if (nobody_reached(result, ending->view)) {
        result->outcome = SIM_OUTCOME_UNREACHED;
    } else if (nobody_served(result) || goal_missed(result, ending) || against_schema(result) ||
               taken_back(result) || bad_never_came(result) || links_missing(result, ending)) {
        result->outcome = SIM_OUTCOME_FAILED;
    } else if (no_release(result, ending->view)) {
        result->outcome = SIM_OUTCOME_NO_RELEASE;
    } else if (gate_counts_nobody(result)) {
        result->outcome = SIM_OUTCOME_UNCOUNTED;
    } else if (thresholds_missed(result)) {
        result->outcome = SIM_OUTCOME_THRESHOLD;
    } else {
        result->outcome = SIM_OUTCOME_PASSED;
    }
    tell_whole(result);
}

static const enum sim_exit exits[SIM_OUTCOME_COUNT] = {
    [SIM_OUTCOME_PASSED] = SIM_EXIT_OK,
    [SIM_OUTCOME_FAILED] = SIM_EXIT_FAILED,
    [SIM_OUTCOME_INTERRUPTED] = SIM_EXIT_INTERRUPTED,
    [SIM_OUTCOME_NO_GATEWAY] = SIM_EXIT_NO_GATEWAY,
    [SIM_OUTCOME_NOBODY_ONLINE] = SIM_EXIT_NOBODY_ONLINE,
    [SIM_OUTCOME_REFUSED] = SIM_EXIT_NOBODY_ONLINE,
    [SIM_OUTCOME_UNREACHED] = SIM_EXIT_UNREACHED,
    [SIM_OUTCOME_NO_RELEASE] = SIM_EXIT_NO_RELEASE,
    [SIM_OUTCOME_UNCOUNTED] = SIM_EXIT_UNCOUNTED,
    [SIM_OUTCOME_NO_ROOM] = SIM_EXIT_LOCAL,
    [SIM_OUTCOME_THRESHOLD] = SIM_EXIT_THRESHOLD,
};

enum sim_exit sim_outcome_exit(enum sim_outcome outcome)
{
    return exits[outcome];
}
