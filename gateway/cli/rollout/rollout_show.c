// Rollouts as text: the picture of `rollout status`, the one line for logs, and the exit code that
// a rollout's state means. Called by the rollout commands, rollout_watch.c and rollout_begin.c; one
// thread. It reads the gateway's JSON and counts the lines it prints, so that a live view can draw
// over them. rollout_explain.c has the sentences.
#include "cli/rollout/rollout_show.h"

#include "cli/base/cli_json.h"
#include "cli/rollout/rollout_explain.h"

#include "policy/reason.h"

#include <math.h>
#include <string.h>

#define BAR_WIDTH 24

static unsigned long long count(const json_t *counts, const char *key)
{
    return (unsigned long long)cli_json_u64(counts, key);
}

static double ratio_of(const json_t *rollout)
{
    return json_number_value(json_object_get(rollout, "failure_ratio"));
}

// '=' succeeded, 'x' failed or not answered in time, '.' under way; empty when nobody was offered.
static void make_bar(const json_t *counts, char out[BAR_WIDTH + 1])
{
    double offered = (double)count(counts, "offered");
    double good = (double)count(counts, "succeeded");
    double bad = (double)(count(counts, "failed") + count(counts, "timed_out"));

    memset(out, ' ', BAR_WIDTH);
    out[BAR_WIDTH] = '\0';
    if (offered < good + bad) {
        offered = good + bad;
    }
    if (offered <= 0) {
        return;
    }
    int good_width = (int)floor(good / offered * BAR_WIDTH);
    int bad_width = bad > 0 ? (int)fmax(1, floor(bad / offered * BAR_WIDTH)) : 0;
    for (int i = 0; i < BAR_WIDTH; ++i) {
        out[i] = '.';
    }
    for (int i = 0; i < good_width; ++i) {
        out[i] = '=';
    }
    for (int i = 0; i < bad_width; ++i) {
        out[BAR_WIDTH - 1 - i] = 'x';
    }
}

bool rollout_is_taken_back(const json_t *rollout)
{
    return strcmp(cli_json_text(rollout, "state", ""), "rolled_back") == 0;
}

// The words of docs/OPERATIONS.md ("Watching") for what devices are at; those of few are left out
// when they count nobody.
static void print_counts(FILE *file, const json_t *rollout, const json_t *counts)
{
    static const struct {
        const char *key;
        const char *word;
        bool always;
    } words[] = {{"offered", "offered", true},
                 {"succeeded", "ok", true},
                 {"failed", "failed", true},
                 {"under_way", "under way", true},
                 {"timed_out", "not answered in time", false},
                 {"silent", "silent", false},
                 {"rolled_back", "back", false}};
    const char *before = "";

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); ++i) {
        if (words[i].always || count(counts, words[i].key) > 0) {
            bool gone = rollout_is_taken_back(rollout) && strcmp(words[i].key, "under_way") == 0;
            fprintf(file, "%s%llu %s", before, count(counts, words[i].key),
                    gone ? "never answered" : words[i].word);
            before = ", ";
        }
    }
}

// Did a person decide, and no gate?
static bool is_by_hand(const json_t *rollout)
{
    static const enum pol_reason reasons[] = {
        POL_REASON_OPERATOR,      POL_REASON_STARTED,  POL_REASON_PAUSED,  POL_REASON_RESUMED,
        POL_REASON_RISK_ACCEPTED, POL_REASON_PROMOTED, POL_REASON_ABORTED, POL_REASON_APPROVED,
        POL_REASON_UNDONE,        POL_REASON_KILLED};
    const char *reason = cli_json_text(json_object_get(rollout, "cause"), "reason",
                                       cli_json_text(rollout, "reason", ""));

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); ++i) {
        if (strcmp(reason, pol_reason_name(reasons[i])) == 0) {
            return true;
        }
    }
    return false;
}

static unsigned long long completed(const json_t *of)
{
    const json_t *counts = json_object_get(of, "counts");

    return count(counts, "succeeded") + count(counts, "failed") + count(counts, "timed_out");
}

// That no device completed is of the open stage and of the last look at it; the counts beside it
// are of all stages and of now.
static void say_nobody(FILE *file, const json_t *rollout)
{
    const json_t *index = json_object_get(json_object_get(rollout, "stage"), "index");
    const json_t *stage =
        json_array_get(json_object_get(rollout, "stages"), (size_t)json_integer_value(index));
    const char *name = cli_json_text(json_object_get(rollout, "stage"), "name", "?");

    if (completed(stage) > 0) {
        fprintf(file, "waiting: the %llu that completed stage %s so far are not judged yet",
                completed(stage), name);
    } else if (completed(rollout) > 0) {
        fprintf(file, "waiting: no device completed stage %s yet (%llu completed those before)",
                name, completed(rollout));
    } else {
        fprintf(file, "waiting: %s", cli_json_text(rollout, "reason_text", ""));
    }
}

// Was nobody offered the open stage, and does another rollout come first?
static bool say_behind(FILE *file, const json_t *rollout)
{
    const json_t *first = json_array_get(json_object_get(rollout, "behind"), 0);
    const json_t *open = json_object_get(rollout, "stage");
    const json_t *index = json_object_get(open, "index");
    const json_t *stage =
        json_array_get(json_object_get(rollout, "stages"), (size_t)json_integer_value(index));

    if (first == NULL || strcmp(cli_json_text(open, "kind", ""), "simulate") == 0 ||
        count(json_object_get(stage, "counts"), "offered") > 0) {
        return false;
    }
    fprintf(file, "waiting: rollout %s of %s (%s) comes first, devices follow that one",
            cli_json_text(first, "rollout", "?"), cli_json_text(first, "version", "?"),
            cli_json_text(first, "state", "?"));
    return true;
}

// Nobody has answered in the open stage: that is no finding, it is what the rollout waits for. A
// reason of the stage before, or of who opened this one, is told of no more.
static bool show_waiting(FILE *file, const json_t *rollout)
{
    const json_t *stage = json_object_get(rollout, "stage");
    bool running = strcmp(cli_json_text(rollout, "state", ""), "running") == 0;
    const char *reason = cli_json_text(rollout, "reason", "");
    bool own = strncmp(reason, "no_", 3) == 0 || strcmp(reason, "simulation_pending") == 0;

    if (!running || strcmp(cli_json_text(rollout, "verdict", ""), "no_data") != 0) {
        return false;
    }
    if (say_behind(file, rollout)) {
        return true;
    }
    if (strcmp(reason, "no_completions") == 0) {
        say_nobody(file, rollout);
    } else if (own) {
        fprintf(file, "waiting: %s", cli_json_text(rollout, "reason_text", ""));
    } else {
        fprintf(file, "waiting: stage %s has just opened", cli_json_text(stage, "name", "?"));
    }
    return true;
}

void rollout_show_verdict(FILE *file, const json_t *rollout)
{
    const char *verdict = cli_json_text(rollout, "verdict", "?");
    bool none = strcmp(verdict, "no_data") == 0;

    if (show_waiting(file, rollout)) {
        return;
    }
    const char *now = cli_json_text(rollout, "reason_text", "");
    const char *cause = cli_json_text(json_object_get(rollout, "cause"), "text", now);
    fprintf(file, "%s: %s", none && is_by_hand(rollout) ? "none" : verdict, cause);
    if (strcmp(cause, now) != 0) { // why it ended, and what is found of it since
        fprintf(file, "; %s", now);
    }
    if (!none) {
        fprintf(file, ", %.2f %% of the %s in the stage had failed by then",
                100 * ratio_of(rollout), cli_json_text(rollout, "failure_of", "completed"));
    }
}

void rollout_show_failed(FILE *file, const json_t *turn)
{
    const json_t *counts = json_object_get(turn, "counts");
    const json_t *updated = json_object_get(json_object_get(counts, "trial"), "updated");
    unsigned long long failed = count(counts, "failed") + count(counts, "timed_out");
    unsigned long long of = count(counts, "succeeded") + failed;

    if (updated != NULL) {
        failed = count(updated, "failed");
        of = count(updated, "offered");
    }
    // Of the counts themselves: the ratio of a line that ends something is of the verdict before.
    fprintf(file, "%.2f %% of %llu %s had failed", of > 0 ? 100 * (double)failed / (double)of : 0.0,
            of, updated != NULL ? "offered" : "completed");
}

// The state, and whether the version is killed, which every state may be.
static const char *killed_word(const json_t *rollout)
{
    return json_is_true(json_object_get(rollout, "killed")) ? ", killed" : "";
}

// By whom its version was killed, when and why.
static unsigned show_kill(FILE *file, const json_t *rollout)
{
    const json_t *kill = json_object_get(rollout, "kill");

    if (!json_is_object(kill)) {
        return 0;
    }
    fprintf(file, "  killed %s by %s: %s\n", cli_json_text(kill, "time", "?"),
            cli_json_text(kill, "by", "?"), cli_json_text(kill, "reason", ""));
    return 1;
}

static int64_t open_stage(const json_t *rollout)
{
    const json_t *index = json_object_get(json_object_get(rollout, "stage"), "index");

    return json_is_integer(index) ? json_integer_value(index) : -1;
}

static void show_stage(FILE *file, const json_t *rollout, const json_t *stage, size_t index)
{
    char bar[BAR_WIDTH + 1];
    char share[24] = "";
    const json_t *counts = json_object_get(stage, "counts");
    int64_t open = open_stage(rollout);
    const char *state = cli_json_text(rollout, "state", "");
    bool over = strcmp(state, "completed") == 0 || strcmp(state, "guarding") == 0;
    char mark = over || (int64_t)index < open ? '+' : (int64_t)index == open ? '>' : ' ';

    const char *kind = cli_json_text(stage, "kind", "");
    if (strcmp(kind, "gray") == 0 || strcmp(kind, "shadow") == 0) {
        snprintf(share, sizeof(share), "%g %%",
                 json_number_value(json_object_get(stage, "percent")));
    }
    make_bar(counts, bar);
    fprintf(file, "  %c %-10.10s %7s [%s] ", mark, cli_json_text(stage, "name", "?"), share, bar);
    if (strcmp(kind, "simulate") == 0) { // it makes no offers
        fprintf(file, "%llu virtual devices ok, %llu failed\n", count(counts, "succeeded"),
                count(counts, "failed"));
        return;
    }
    print_counts(file, rollout, counts);
    if (count(counts, "control") > 0) { // it stays with its stage when the next one is open
        fprintf(file, "; control %llu, %llu completed, %llu failed", count(counts, "control"),
                count(counts, "control_completed"), count(counts, "control_failed"));
    }
    fputc('\n', file);
}

static unsigned show_causes(FILE *file, const json_t *rollout)
{
    size_t index;
    json_t *item;
    unsigned lines = 0;

    json_array_foreach(json_object_get(rollout, "fingerprints"), index, item)
    {
        if (lines < 3) {
            fprintf(file, "  %llu device%s: %s %s\n", count(item, "devices"),
                    count(item, "devices") == 1 ? "" : "s", cli_json_text(item, "kind", "?"),
                    cli_json_text(item, "detail", ""));
            lines++;
        }
    }
    json_array_foreach(json_object_get(rollout, "slices"), index, item)
    {
        if (lines < 6 && count(item, "failed") > 0) {
            fprintf(file, "  slice %s = %s: %llu of %llu failed\n",
                    cli_json_text(item, "attr", "?"), cli_json_text(item, "value", "?"),
                    count(item, "failed"), count(item, "completed"));
            lines++;
        }
    }
    return lines;
}

// How virtual devices failed, the most frequent way first.
static unsigned show_classes(FILE *file, const json_t *simulation)
{
    unsigned long long not_run = count(simulation, "not_run");
    unsigned lines = 0;
    size_t index;
    json_t *item;

    json_array_foreach(json_object_get(simulation, "classes"), index, item)
    {
        fprintf(file, "    %llu virtual device%s: %s %s\n", count(item, "devices"),
                count(item, "devices") == 1 ? "" : "s", cli_json_text(item, "kind", "?"),
                cli_json_text(item, "detail", ""));
        lines++;
    }
    if (not_run > 0) {
        fprintf(file, "    %llu did not come to run it, and count as failed\n", not_run);
        lines++;
    }
    return lines;
}

unsigned rollout_show_simulation(FILE *file, const json_t *rollout)
{
    const json_t *simulation = json_object_get(rollout, "simulation");
    const char *source = cli_json_text(simulation, "source", "");

    if (!json_is_object(simulation)) {
        return 0;
    }
    if (strcmp(source, "evidence") == 0) {
        fprintf(file, "  simulated: %llu virtual devices, %llu failed; evidence %.16s, seed %s\n",
                count(simulation, "matched"), count(simulation, "failed"),
                cli_json_text(simulation, "evidence", "?"), cli_json_text(simulation, "seed", "?"));
        return 1 + show_classes(file, simulation);
    }
    fprintf(file, "  simulated: %llu completed, %llu failed, as typed by %s",
            count(simulation, "completed"), count(simulation, "failed"),
            cli_json_text(simulation, "by", "somebody"));
    if (strcmp(source, "override_pending") == 0) {
        fprintf(file, ", NOT APPROVED YET: %s\n", cli_json_text(simulation, "reason", ""));
    } else if (strcmp(source, "override") == 0) {
        fprintf(file, ", approved by %s: %s\n", cli_json_text(simulation, "approved_by", "?"),
                cli_json_text(simulation, "reason", ""));
    } else {
        fprintf(file, "\n");
    }
    return 1;
}

unsigned rollout_show(FILE *file, const json_t *rollout)
{
    const json_t *counts = json_object_get(rollout, "counts");
    unsigned lines = 3;
    size_t index;
    json_t *stage;

    fprintf(file, "rollout %s  %s %s  %s%s\n", cli_json_text(rollout, "id", "?"),
            cli_json_text(rollout, "task", "?"), cli_json_text(rollout, "version", ""),
            cli_json_text(rollout, "state", "?"), killed_word(rollout));
    lines += show_kill(file, rollout);
    json_array_foreach(json_object_get(rollout, "stages"), index, stage)
    {
        show_stage(file, rollout, stage, index);
        lines++;
    }
    fputs("  verdict ", file);
    rollout_show_verdict(file, rollout);
    fputc('\n', file);
    lines += rollout_explain_behind(file, rollout);
    lines += rollout_explain_present(file, rollout);
    lines += rollout_show_simulation(file, rollout);
    lines += rollout_explain_guard(file, rollout);
    lines += rollout_explain_evidence(file, rollout);
    lines += rollout_explain_power(file, rollout);
    lines += rollout_explain_trial(file, rollout);
    lines += rollout_explain_unproven(file, rollout);
    fputs("  all stages: ", file);
    print_counts(file, rollout, counts);
    fprintf(file, "; %llu activated it\n", count(counts, "activated"));
    if (count(counts, "silent") > 0) {
        fputs(
            "  silent: activated it and were not heard of since; who had run well before is among "
            "the ok, too\n",
            file);
        lines++;
    }
    json_array_foreach(json_object_get(rollout, "quarantine"), index, stage)
    {
        fprintf(file, "  in quarantine: %s\n", cli_shown(json_string_value(stage)));
        lines++;
    }
    return lines + show_causes(file, rollout);
}

void rollout_show_line(FILE *file, const json_t *rollout)
{
    const json_t *counts = json_object_get(rollout, "counts");

    fprintf(file, "%s %s%s %-8s ", cli_json_text(rollout, "id", "?"),
            cli_json_text(rollout, "state", "?"), killed_word(rollout),
            cli_json_text(json_object_get(rollout, "stage"), "name", "-"));
    rollout_show_verdict(file, rollout);
    fputs("; ", file);
    print_counts(file, rollout, counts);
    fputc('\n', file);
    (void)rollout_explain_unproven(file, rollout);
}

bool rollout_is_over(const json_t *rollout, bool completed)
{
    const char *state = cli_json_text(rollout, "state", "");
    bool held = strcmp(state, "paused") == 0 &&
                json_is_true(json_object_get(rollout, "stage_failed")) &&
                json_is_true(json_object_get(rollout, "paged"));

    return held || strcmp(state, "completed") == 0 || strcmp(state, "rolled_back") == 0 ||
           (!completed && strcmp(state, "guarding") == 0);
}

enum cli_exit rollout_exit(const json_t *rollout)
{
    const char *state = cli_json_text(rollout, "state", "");
    bool killed = json_is_true(json_object_get(rollout, "killed"));
    bool failed = json_is_true(json_object_get(rollout, "stage_failed")) ||
                  strcmp(state, "rolling_back") == 0 || strcmp(state, "rolled_back") == 0;
    bool late = json_is_object(json_object_get(rollout, "late"));

    return killed || late || (failed && strcmp(state, "completed") != 0) ? CLI_EXIT_FAILED
                                                                         : CLI_EXIT_OK;
}
