// Explanations of rollouts, made of what the gateway says about them. Called by the rollout
// commands; one thread. cli_rollout.c calls it for `rollout explain`, rollout_show.c takes single
// lines of it. All is said from one answer of the gateway: the sentences say what the policy
// decided and why, they decide nothing again.
#include "cli/rollout/rollout_explain.h"

#include "cli/stages/audience_text.h"
#include "cli/base/cli_json.h"
#include "cli/base/duration.h"
#include "cli/stages/ladder.h"
#include "cli/rollout/plan_show.h"
#include "cli/rollout/rollout_show.h"
#include "cli/stages/stage_json.h"

#include <string.h>

#define CAUSES_MAX         3
#define EVIDENCE_PLAIN_MAX 1e6

static double real(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static unsigned long long whole(const json_t *object, const char *key)
{
    return (unsigned long long)cli_json_u64(object, key);
}

// "s", unless there is one.
static const char *plural(unsigned long long count)
{
    return count == 1 ? "" : "s";
}

static const json_t *current_stage(const json_t *rollout)
{
    const json_t *index = json_object_get(json_object_get(rollout, "stage"), "index");

    return json_array_get(json_object_get(rollout, "stages"), (size_t)json_integer_value(index));
}

static bool is_test(const json_t *stage)
{
    const char *rule = cli_json_text(stage, "rule", "");
    return strcmp(rule, "sequential") == 0 || strcmp(rule, "logrank") == 0;
}

// Evidence beyond what anybody asks for is told by its size alone.
static const char *evidence_text(double value, char out[32])
{
    (void)snprintf(out, 32, value > EVIDENCE_PLAIN_MAX ? "%.1e" : "%.2f", value);
    return out;
}

unsigned rollout_explain_evidence(FILE *file, const json_t *rollout)
{
    char worse[32];
    char good[32];
    const json_t *shown = json_object_get(rollout, "test");
    const json_t *stage = current_stage(rollout);

    if (!json_is_object(shown) || stage == NULL) {
        return 0;
    }
    double alpha = real(stage, "alpha");
    double beta = real(stage, "beta");
    fprintf(
        file,
        "  evidence: updated %.2f %%, control %.2f %%; against \"no worse\" %s of %.0f, against "
        "\"too bad\" %s of %.0f needed\n",
        100 * real(shown, "updated"), 100 * real(shown, "control"),
        evidence_text(real(shown, "evidence"), worse), alpha > 0 ? 1 / alpha : 0,
        evidence_text(real(shown, "good_evidence"), good), beta > 0 ? 1 / beta : 0);
    return 1;
}

// ", about 11 minutes"; nothing when nobody knows.
static void print_wait(FILE *file, uint64_t seconds)
{
    char text[DURATION_TEXT_MAX];

    if (seconds > 0) {
        (void)duration_text(seconds, text);
        fprintf(file, ", about %s", text);
    }
}

unsigned rollout_explain_guard(FILE *file, const json_t *rollout)
{
    const json_t *guard = json_object_get(rollout, "guard");
    const json_t *late = json_object_get(rollout, "late");
    unsigned long long outstanding = whole(guard, "outstanding");

    if (json_is_object(late)) {
        fprintf(file,
                "  FAILS LATE: %llu of %llu that ran it failed, more than the last stage may, and "
                "no gate judges it any more: walle rollout undo %s\n",
                whole(late, "failed"), whole(late, "completed"), cli_json_text(rollout, "id", "?"));
        return 1;
    }
    if (!json_is_object(guard) || strcmp(cli_json_text(rollout, "state", ""), "guarding") != 0) {
        return 0;
    }
    fprintf(file, "  guarding: %llu device%s outstanding", outstanding, plural(outstanding));
    print_wait(file, cli_json_u64(guard, "left_s"));
    fputs(" left at most\n", file);
    return 1;
}

static void print_sees(FILE *file, const json_t *rise)
{
    if (json_is_number(rise)) {
        double points = 100 * json_number_value(rise);
        fprintf(file, "show a rise of +%.*g points or more", points < 99.5 ? 2 : 3, points);
    } else {
        fputs("show no rise", file);
    }
}

unsigned rollout_explain_power(FILE *file, const json_t *rollout)
{
    const json_t *power = json_object_get(rollout, "power");
    unsigned long long completed = whole(power, "completed");
    unsigned long long needed = whole(power, "needed");
    double declared = 100 * real(power, "rise");

    if (!json_is_object(power)) {
        return 0;
    }
    if (!json_is_true(json_object_get(power, "can_detect"))) {
        fprintf(file, "  power: cannot see +%g points: the stage's %llu devices ", declared,
                whole(power, "devices"));
        print_sees(file, json_object_get(power, "best"));
    } else if (completed == 0) {
        fprintf(file, "  power: nobody is done yet; +%g points take %llu devices", declared,
                needed);
    } else {
        fprintf(file, "  power: %llu devices ", completed);
        print_sees(file, json_object_get(power, "sees"));
        if (completed < needed) {
            fprintf(file, "; +%g takes %llu more", declared, needed - completed);
            print_wait(file, cli_json_u64(power, "seconds"));
        } else {
            fprintf(file, ", so +%g would show by now", declared);
        }
    }
    if (!json_is_true(json_object_get(power, "base_measured"))) {
        fprintf(file, ", if %g %% of control fail", 100 * real(power, "base"));
    }
    fputc('\n', file);
    return 1;
}

static void say_cohort(FILE *file, const char *name, const json_t *cohort)
{
    fprintf(
        file,
        "  %s: %llu offered, %llu failed, %llu ok, %llu in their window, %llu not heard of in it\n",
        name, whole(cohort, "offered"), whole(cohort, "failed"), whole(cohort, "succeeded"),
        whole(cohort, "under_way"), whole(cohort, "unanswered"));
}

// Until when those offered by now are looked at.
static unsigned say_windows(FILE *file, const json_t *rollout, const json_t *trial)
{
    char text[TIME_TEXT_MAX];
    uint64_t end_s = cli_json_u64(trial, "windows_end_s");
    unsigned long long open = whole(json_object_get(trial, "updated"), "under_way") +
                              whole(json_object_get(trial, "control"), "under_way");

    if (end_s == 0) {
        return 0;
    }
    fprintf(file,
            "  trial, windows: %llu s each from the end of a device's block; those of all "
            "offered by now %s %s\n",
            whole(current_stage(rollout), "window_s"), open > 0 ? "end by" : "were over",
            time_text(end_s, true, text));
    return 1;
}

unsigned rollout_explain_trial(FILE *file, const json_t *rollout)
{
    const json_t *trial = json_object_get(rollout, "trial");

    if (!json_is_object(trial)) {
        return 0;
    }
    say_cohort(file, "trial, updated", json_object_get(trial, "updated"));
    if (!json_is_true(json_object_get(trial, "compares"))) {
        fputs("  trial, control: nobody to compare with; max_failure alone is asked\n", file);
        return 2 + say_windows(file, rollout, trial);
    }
    say_cohort(file, "trial, control (offered what it has)", json_object_get(trial, "control"));
    return 2 + say_windows(file, rollout, trial);
}

unsigned rollout_explain_unproven(FILE *file, const json_t *rollout)
{
    const json_t *counts = json_object_get(rollout, "counts");
    unsigned long long devices = whole(counts, "unproven");

    if (json_is_true(json_object_get(rollout, "trust_unproven"))) {
        fprintf(file, "  devices count that did not show who they are (--trust-unproven)\n");
        return 1;
    }
    if (devices == 0) {
        return 0;
    }
    fprintf(file,
            "  not counted: %llu device%s that did not show who they are; %llu said they ran it, "
            "%llu of them that it failed\n",
            devices, plural(devices), whole(counts, "unproven_completed"),
            whole(counts, "unproven_failed"));
    return 1;
}

// "2 devices of the target follow", or who does where they were not counted.
static void say_followers(FILE *file, const json_t *item)
{
    unsigned long long devices = whole(item, "devices");

    if (devices > 0) {
        fprintf(file, "%llu device%s of the target follow%s", devices, plural(devices),
                devices == 1 ? "s" : "");
    } else {
        fputs("who is in the targets of both follows", file);
    }
}

// What comes first. To an open rollout devices of one that is guarded go on when it lets them in.
static void say_first(FILE *file, const json_t *item, bool guarded)
{
    const char *id = cli_json_text(item, "rollout", "?");
    const char *version = cli_json_text(item, "version", "?");

    fprintf(file, "  behind rollout %s of %s (%s): ", id, version,
            cli_json_text(item, "state", "?"));
    say_followers(file, item);
    if (guarded) {
        fprintf(file, " that one, and whom it lets in runs %s, not this version", version);
    } else {
        fprintf(file, " that one, and %s offered nothing of this one before that ends",
                whole(item, "devices") > 1 ? "are" : "is");
    }
    fprintf(file, " (walle rollout abort %s --reason TEXT)\n", id);
}

unsigned rollout_explain_behind(FILE *file, const json_t *rollout)
{
    bool guarded = json_is_object(json_object_get(rollout, "guard"));
    unsigned lines = 0;
    size_t index;
    json_t *item;

    json_array_foreach(json_object_get(rollout, "behind"), index, item)
    {
        say_first(file, item, guarded);
        lines++;
    }
    json_array_foreach(json_object_get(rollout, "before"), index, item)
    {
        fprintf(file, "  before rollout %s of %s (%s): ", cli_json_text(item, "rollout", "?"),
                cli_json_text(item, "version", "?"), cli_json_text(item, "state", "?"));
        say_followers(file, item);
        fprintf(file, " this one, and %s offered nothing of that one before this ends\n",
                whole(item, "devices") > 1 ? "are" : "is");
        lines++;
    }
    return lines;
}

// Who has the version by other rollouts is offered nothing by this one, and so answers nothing.
static bool say_present(FILE *file, const json_t *rollout, const char *indent)
{
    const json_t *present = json_object_get(rollout, "present");
    size_t listed = json_array_size(json_object_get(present, "rollouts"));
    const json_t *first = json_array_get(json_object_get(present, "rollouts"), 0);
    unsigned long long devices = whole(present, "devices");

    if (listed == 0) {
        return false;
    }
    fprintf(file, "%s%llu device%s this version already, by rollout %s (%s)", indent, devices,
            devices == 1 ? " runs" : "s run", cli_json_text(first, "rollout", "?"),
            cli_json_text(first, "state", "?"));
    if (listed > 1) {
        fprintf(file, " and %zu more", listed - 1);
    }
    fputs(": they are offered nothing, so they answer nothing here\n", file);
    return true;
}

unsigned rollout_explain_present(FILE *file, const json_t *rollout)
{
    bool runs = strcmp(cli_json_text(rollout, "state", ""), "running") == 0;

    return runs && say_present(file, rollout, "  ") ? 1 : 0;
}

static void say_gate(FILE *file, const json_t *stage)
{
    bool trial = strcmp(cli_json_text(stage, "rule", ""), "logrank") == 0;
    bool offers = strcmp(cli_json_text(stage, "kind", ""), "simulate") != 0;

    fprintf(file, "Its gate (%s) passes when at least %llu device%s %s, ",
            cli_json_text(stage, "rule", "threshold"), whole(stage, "min_sample"),
            plural(whole(stage, "min_sample")), trial ? "had their whole time" : "completed");
    if (offers && real(stage, "min_answered") > 0) {
        fprintf(file, "%g %% of them answered, ", 100 * real(stage, "min_answered"));
    }
    fprintf(file, "%g s have gone by, and ", real(stage, "min_dwell_s"));
    if (is_test(stage)) {
        fprintf(file,
                "it is shown that not more than %g %% fail and not more than %g points above "
                "control;\nit stops what is good in at most %g %% of rollouts, and passes what is "
                "bad in at most %g %%.\n",
                100 * real(stage, "max_failure"), 100 * real(stage, "max_rise"),
                100 * real(stage, "alpha"), 100 * real(stage, "beta"));
    } else {
        fprintf(file, "at most %g %% of them failed.\n", 100 * real(stage, "max_failure"));
    }
    struct pol_stage parsed;
    stage_json_read(stage, &parsed);
    plan_show_cloud(file, &parsed.cloud, "Of each device's decisions ");
    if (offers) {
        fprintf(file, "A device has %llu s from its offer to answer.\n",
                whole(stage, trial ? "window_s" : "execution_timeout_s"));
    }
}

static void say_counts(FILE *file, const json_t *rollout, const json_t *stage)
{
    const json_t *counts = json_object_get(stage, "counts");
    unsigned long long failed = whole(counts, "failed");
    unsigned long long late = whole(counts, "timed_out");
    unsigned long long ran = whole(counts, "succeeded");
    unsigned long long offered = whole(counts, "offered");

    if (strcmp(cli_json_text(stage, "kind", ""), "simulate") == 0) {
        fprintf(file, "On virtual devices it ran %llu times and failed %llu times.\n", ran, failed);
        return;
    }
    fprintf(file,
            "%llu device%s offered it: %llu answered (%llu that it ran, %llu that it failed), "
            "%llu did not answer in time\nand count as failed, %llu %s, %llu refused it "
            "as not for them.\n",
            offered, offered == 1 ? " was" : "s were", ran + failed, ran, failed, late,
            whole(counts, "under_way"),
            rollout_is_taken_back(rollout) ? "never answered" : "are under way",
            whole(counts, "not_applicable"));
    if (whole(counts, "silent") > 0) {
        fprintf(file, "%llu that activated it were not heard of since (silent).\n",
                whole(counts, "silent"));
    }
    if (whole(counts, "control") > 0) {
        fprintf(file,
                "Beside them %llu devices without it: %llu completed, %llu failed, %llu silent.\n",
                whole(counts, "control"), whole(counts, "control_completed"),
                whole(counts, "control_failed"), whole(counts, "control_silent"));
    }
}

// How it failed, the most frequent way first, as the gateway lists them.
static void say_causes(FILE *file, const json_t *rollout)
{
    size_t index;
    json_t *item;

    json_array_foreach(json_object_get(rollout, "fingerprints"), index, item)
    {
        if (index < CAUSES_MAX) {
            fprintf(file, "On %llu device%s: %s %s\n", whole(item, "devices"),
                    plural(whole(item, "devices")), cli_json_text(item, "kind", "?"),
                    cli_json_text(item, "detail", ""));
        }
    }
}

// What a stage that runs still waits for.
static void say_simulation(FILE *file, const json_t *rollout)
{
    const json_t *simulation = json_object_get(rollout, "simulation");
    const char *id = cli_json_text(rollout, "id", "ID");

    if (strcmp(cli_json_text(simulation, "source", ""), "override_pending") == 0) {
        fprintf(file,
                "Another person than %s approves the typed numbers: walle rollout approve %s\n",
                cli_json_text(simulation, "by", "?"), id);
    } else if (!json_is_object(simulation)) {
        fprintf(file,
                "It waits for evidence of a simulation: walle rollout simulation %s --evidence "
                "FILE\n",
                id);
    }
}

// How many devices the stage can have, by the gateway's last walk over them; who came with a stage
// before is counted there, and not in this one.
static uint64_t stage_devices(const json_t *rollout, const json_t *stage)
{
    const json_t *stages = json_object_get(rollout, "stages");
    const json_t *counts = json_object_get(stage, "counts");
    enum pol_stage_kind kind = ladder_kind(stage);
    uint64_t eligible = cli_json_u64(counts, "eligible");
    uint64_t offered = cli_json_u64(counts, "offered");
    uint64_t before = 0;

    for (size_t i = 0; json_array_get(stages, i) != stage && i < json_array_size(stages); i++) {
        const json_t *earlier = json_array_get(stages, i);
        enum pol_stage_kind of = ladder_kind(earlier);
        bool within = of == POL_STAGE_GRAY || (of == POL_STAGE_BETA && kind == POL_STAGE_FULL);
        if (within && kind != POL_STAGE_BETA) {
            before += cli_json_u64(json_object_get(earlier, "counts"), "offered");
        }
    }
    uint64_t left = eligible > before ? eligible - before : 0;
    return left > offered ? left : offered;
}

// A stage whose share of the known devices is smaller than its sample waits for others.
static void say_too_few(FILE *file, const json_t *rollout, const json_t *stage)
{
    const json_t *counts = json_object_get(stage, "counts");
    unsigned long long devices = stage_devices(rollout, stage);
    unsigned long long sample = whole(stage, "min_sample");

    if (whole(counts, "eligible") == 0 || devices >= sample ||
        ladder_kind(stage) == POL_STAGE_SIMULATE) {
        return;
    }
    fprintf(file,
            "The stage is for %llu known device%s, fewer than its sample of %llu: it waits until "
            "more come, or for a promote;\na rollout with a smaller --min-sample, or with larger "
            "shares, does not.\n",
            devices, plural(devices), sample);
}

static void say_missing(FILE *file, const json_t *rollout, const json_t *stage, uint64_t now_s)
{
    const json_t *counts = json_object_get(stage, "counts");
    const json_t *updated = json_object_get(json_object_get(rollout, "trial"), "updated");
    unsigned long long completed =
        json_is_object(updated)
            ? whole(updated, "offered") - whole(updated, "under_way")
            : whole(counts, "succeeded") + whole(counts, "failed") + whole(counts, "timed_out");
    unsigned long long sample = whole(stage, "min_sample");
    uint64_t since_s = cli_json_u64(json_object_get(rollout, "stage"), "since_s");
    double open_s = now_s > since_s ? (double)(now_s - since_s) : 0;

    if (completed < sample) {
        fprintf(file, "Missing: %llu more device%s to answer, or to have had the time to.\n",
                sample - completed, plural(sample - completed));
        bool present = say_present(file, rollout, "");
        if (!present) {
            say_too_few(file, rollout, stage);
        } else {
            fprintf(file,
                    "Where nobody else is to get it, end this one, and they keep it by that one: "
                    "walle rollout abort %s --reason TEXT\n"
                    "What is to change needs a version of its own: walle task push, then walle "
                    "rollout start\n",
                    cli_json_text(rollout, "id", "ID"));
        }
    }
    if (completed < sample && whole(counts, "unproven") > 0) {
        fprintf(file,
                "Devices count that show who they are: enrol them (walle-device --enroll-token "
                "FILE),\nor start the rollout with --trust-unproven.\n");
    }
    if (open_s < real(stage, "min_dwell_s")) {
        fprintf(file, "Missing: %.0f s more.\n", real(stage, "min_dwell_s") - open_s);
    }
    if (strcmp(cli_json_text(stage, "kind", ""), "simulate") == 0) {
        say_simulation(file, rollout);
    }
}

// With the rule logrank what is heard after a window counts no more. When all windows are over and
// too few were heard of in them, waiting leads nowhere.
static void say_dead_end(FILE *file, const json_t *rollout, const json_t *stage)
{
    const json_t *updated = json_object_get(json_object_get(rollout, "trial"), "updated");
    unsigned long long offered = whole(updated, "offered");
    unsigned long long unheard = whole(updated, "unanswered");
    double asked = real(stage, "min_answered");

    if (offered == 0 || whole(updated, "under_way") > 0 ||
        (double)(offered - unheard) >= asked * (double)offered) {
        return;
    }
    fprintf(file,
            "It waits in vain, unless more devices come: %llu of %llu were not heard of within the "
            "stage's window of %llu s,\n%g %% must be, and what is heard later does not count. A "
            "window takes the time to answer and two check-ins\nat least: start it anew with a "
            "longer \"window_s\" (left out: that long), or promote it.\n",
            unheard, offered, whole(stage, "window_s"), 100 * asked);
}

static bool in_last_stage(const json_t *rollout)
{
    return whole(json_object_get(rollout, "stage"), "index") + 1 >=
           json_array_size(json_object_get(rollout, "stages"));
}

static void say_resume(FILE *file, const json_t *rollout, const char *id)
{
    if (!json_is_true(json_object_get(rollout, "stage_failed"))) {
        fprintf(file, "Go on: walle rollout resume %s\n", id);
        return;
    }
    fprintf(file,
            "Go on: walle rollout resume %s --accept-risk --reason TEXT\n"
            "(the stage failed: it is not judged again, and %s)\n",
            id,
            in_last_stage(rollout) ? "the version is everybody's at once"
                                   : "the next one opens at once");
}

static void say_next(FILE *file, const json_t *rollout)
{
    const char *state = cli_json_text(rollout, "state", "");
    const char *kind = cli_json_text(current_stage(rollout), "kind", "");
    const char *id = cli_json_text(rollout, "id", "ID");
    bool back = strcmp(state, "rolling_back") == 0 || strcmp(state, "rolled_back") == 0;
    bool done = strcmp(state, "completed") == 0;

    if (strcmp(state, "running") == 0 && strcmp(kind, "simulate") != 0) {
        fprintf(file, "%s now, its gate unasked: walle rollout promote %s\n",
                in_last_stage(rollout) ? "End the last stage, and the rollout with it,"
                                       : "Open the next stage",
                id);
    } else if (strcmp(state, "draft") == 0) {
        fprintf(file, "Start it: walle rollout start %s\n", id);
    } else if (strcmp(state, "guarding") == 0) {
        fprintf(file, "End the guard now: walle rollout promote %s\n", id);
    } else if (json_is_true(json_object_get(rollout, "passed"))) {
        fprintf(file, "The stage passed. Go on: walle rollout promote %s\n", id);
    } else if (strcmp(state, "waiting_approval") == 0) {
        fprintf(file, "Another person than its creator opens the stage: walle rollout approve %s\n",
                id);
    } else if (strcmp(state, "paused") == 0) {
        say_resume(file, rollout, id);
    } else if (back) {
        fprintf(file, "How a device failed: walle device why DEVICE --task %s\n",
                cli_json_text(rollout, "task", "TASK"));
    }
    if (!back) {
        fprintf(file, "Take it back: walle rollout %s %s --reason TEXT\n", done ? "undo" : "abort",
                id);
    }
    fprintf(file,
            "Every decision: walle rollout log %s\nWith other limits: walle rollout replay %s "
            "--threshold X\n",
            id, id);
}

static const char *cause_of(const json_t *rollout)
{
    return cli_json_text(json_object_get(rollout, "cause"), "reason", "");
}

void rollout_explain(FILE *file, const json_t *rollout, const char *story, uint64_t now_s)
{
    const json_t *stage = current_stage(rollout);
    const char *state = cli_json_text(rollout, "state", "?");
    size_t index;
    json_t *item;

    fprintf(file, "%s %s, rollout %s: %s.\n", cli_json_text(rollout, "task", "?"),
            cli_json_text(rollout, "version", "?"), cli_json_text(rollout, "id", "?"), state);
    if (json_is_true(json_object_get(rollout, "killed"))) {
        const json_t *kill = json_object_get(rollout, "kill");
        fprintf(file,
                "Its version was killed by %s: %s\nNo device is to run it (walle release kills).\n",
                cli_json_text(kill, "by", "?"), cli_json_text(kill, "reason", ""));
    } else if (strcmp(cause_of(rollout), "killed") == 0) {
        fputs("A kill ended it; its version is off the kill list, and may be released anew.\n",
              file);
    }
    if (stage == NULL) {
        return;
    }
    bool all = cli_json_text(stage, "audience", "")[0] == '\0';
    fprintf(file, "Stage %s (%s, %g %% of %s", cli_json_text(stage, "name", "?"),
            cli_json_text(stage, "kind", "?"), real(stage, "percent"),
            all ? "the target" : "its audience: ");
    audience_text_print(file, stage);
    fprintf(file, ") %s.\n",
            strcmp(state, "running") == 0 ? "is open"
            : strcmp(state, "draft") == 0 ? "is the first; it opens with the start"
                                          : "is the last that was open");
    say_gate(file, stage);
    say_counts(file, rollout, stage);
    fputs("Verdict ", file);
    rollout_show_verdict(file, rollout);
    fprintf(file, ".\n%s", story);
    (void)rollout_explain_behind(file, rollout);
    (void)rollout_explain_guard(file, rollout);
    (void)rollout_explain_evidence(file, rollout);
    (void)rollout_explain_power(file, rollout);
    (void)rollout_explain_trial(file, rollout);
    (void)rollout_explain_unproven(file, rollout);
    (void)rollout_show_simulation(file, rollout);
    say_causes(file, rollout);
    json_array_foreach(json_object_get(rollout, "quarantine"), index, item)
    {
        fprintf(file, "Kept off it: %s\n", cli_shown(json_string_value(item)));
    }
    if (strcmp(state, "running") == 0) {
        say_missing(file, rollout, stage, now_s);
        say_dead_end(file, rollout, stage);
    }
    say_next(file, rollout);
}
