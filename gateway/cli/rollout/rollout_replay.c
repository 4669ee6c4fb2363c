// `rollout replay`: every decision of a rollout found again from its log, on this machine, with the
// gateway's own policy; and with other limits, where it would have decided otherwise. One thread.
// The table in cli_commands.c names it. A line of the log holds all that the decision was made of,
// so the policy, which is pure, has to come to the same; a line where it does not is shown as a
// difference and gives the exit code of a failure.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_pages.h"
#include "cli/stages/stage_json.h"

#include "policy/replay.h"
#include "wire/digest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PAGE_LIMIT  500
#define RECORDS_MAX 1000000u // of one rollout
#define SHOWN_MAX   20u

struct replaying {
    json_t *names; // of segments, by their hex
    struct pol_stage stages[POL_STAGES_MAX];
    uint32_t stage_count;
    bool what_if;
    struct pol_replay replay;
    bool over; // a what-if ends with its first difference of action
    json_t *differences;
};

static const char *command_name(unsigned i)
{
    return pol_command_name((enum pol_command)i);
}

static const char *action_name(unsigned i)
{
    return pol_action_name((enum pol_action)i);
}

static const char *verdict_name(unsigned i)
{
    return pol_verdict_name((enum pol_verdict)i);
}

static const char *reason_name(unsigned i)
{
    return pol_reason_name((enum pol_reason)i);
}

static const char *state_name(unsigned i)
{
    return pol_rollout_state_name((enum pol_rollout_state)i);
}

static void read_outcomes(const json_t *json, struct pol_outcomes *out)
{
    out->offered = cli_json_u64(json, "offered");
    out->failed = cli_json_u64(json, "failed");
    out->succeeded = cli_json_u64(json, "succeeded");
}

// With the rule logrank; all zero of other rules.
static void read_trial(const json_t *json, struct pol_trial *out)
{
    const json_t *wealth = json_object_get(json, "wealth");

    for (uint32_t i = 0; i < POL_LOGRANK_RATIOS; ++i) {
        out->rise.wealth[i] = json_integer_value(json_array_get(wealth, i));
    }
    read_outcomes(json_object_get(json, "updated"), &out->all[POL_COHORT_UPDATED]);
    read_outcomes(json_object_get(json, "control"), &out->all[POL_COHORT_CONTROL]);
    read_outcomes(json_object_get(json, "updated_over"), &out->over[POL_COHORT_UPDATED]);
    read_outcomes(json_object_get(json, "control_over"), &out->over[POL_COHORT_CONTROL]);
    read_outcomes(json_object_get(json, "beside"), &out->beside);
    out->compared = cli_json_u64(json, "compared");
    out->lead.trials = cli_json_u64(json, "lead_offered");
    out->lead.failures = cli_json_u64(json, "lead_failed");
}

static void read_counts(const json_t *json, struct pol_counts *out)
{
    read_trial(json_object_get(json, "trial"), &out->trial);
    out->offered = cli_json_u64(json, "offered");
    out->downloaded = cli_json_u64(json, "downloaded");
    out->activated = cli_json_u64(json, "activated");
    out->succeeded = cli_json_u64(json, "succeeded");
    out->failed = cli_json_u64(json, "failed");
    out->timed_out = cli_json_u64(json, "timed_out");
    out->silent = cli_json_u64(json, "silent");
    out->not_applicable = cli_json_u64(json, "not_applicable");
    out->to_roll_back = cli_json_u64(json, "to_roll_back");
    out->control.trials = cli_json_u64(json, "control_completed");
    out->control.failures = cli_json_u64(json, "control_failed");
    out->hazard.device_seconds = cli_json_u64(json, "observed_s");
    out->hazard.silent = cli_json_u64(json, "hazard_silent");
    out->control_hazard.device_seconds = cli_json_u64(json, "control_observed_s");
    out->control_hazard.silent = cli_json_u64(json, "control_silent");
    out->unproven = cli_json_u64(json, "unproven");
    out->under_way = cli_json_u64(json, "under_way");
    out->outstanding = cli_json_u64(json, "outstanding");
}

static bool is_true(const json_t *json, const char *key)
{
    return json_is_true(json_object_get(json, key));
}

// ---- Slices

static uint64_t read_segment(struct replaying *replaying, const json_t *json)
{
    const char *hex = cli_json_text(json, "segment", "");
    const json_t *name = json_object_get(json, "name");
    uint64_t segment = 0;

    if (wire_device_parse(base_str_of(hex), &segment) != BASE_OK) {
        return 0;
    }
    if (json_is_string(name)) {
        (void)json_object_set(replaying->names, hex, (json_t *)(uintptr_t)name);
    }
    return segment;
}

static void read_held(struct replaying *replaying, const json_t *list, struct pol_held *out)
{
    size_t index;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)list, index, item)
    {
        if (out->count < POL_HELD_MAX) {
            out->names[out->count++] = read_segment(replaying, item);
        }
    }
}

static void read_slices(struct replaying *replaying, const json_t *json, struct pol_slices *out)
{
    size_t index;
    json_t *item;
    uint64_t count = cli_json_u64(json, "count");
    uint64_t held = cli_json_u64(json, "held");

    out->held_count = held <= POL_HELD_MAX ? (uint32_t)held : UINT32_MAX;
    out->count = count <= POL_SLICES_MAX ? (uint32_t)count : UINT32_MAX;
    out->completed = cli_json_u64(json, "completed");
    json_array_foreach(json_object_get(json, "failing"), index, item)
    {
        if (out->failing_count < POL_SLICES_MAX) {
            out->failing[out->failing_count++] = (struct pol_slice){
                .name = read_segment(replaying, item),
                .seen = {cli_json_u64(item, "completed"), cli_json_u64(item, "failed")},
                .rise = json_number_value(json_object_get(item, "rise"))};
        }
    }
}

// Names of slices as a list, in hex where nobody knows the name.
static json_t *held_names(const struct replaying *replaying, const struct pol_held *held)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < held->count; ++i) {
        char hex[WIRE_DEVICE_HEX + 1];
        wire_device_hex(held->names[i], hex);
        const json_t *name = json_object_get(replaying->names, hex);
        (void)json_array_append_new(list,
                                    json_string(name != NULL ? json_string_value(name) : hex));
    }
    return list;
}

static enum pol_record_kind read_kind(const json_t *json)
{
    const char *kind = cli_json_text(json, "kind", "");

    if (strcmp(kind, "command") == 0) {
        return POL_RECORD_COMMAND;
    }
    if (strcmp(kind, "decision") == 0 || strcmp(kind, "observation") == 0) {
        return POL_RECORD_TICK;
    }
    if (strcmp(kind, "clock") == 0) {
        return POL_RECORD_CLOCK;
    }
    if (strcmp(kind, "slices") == 0 || strcmp(kind, "quarantine") == 0) {
        return json_is_array(json_object_get(json, "lifted")) ? POL_RECORD_LIFT : POL_RECORD_SLICES;
    }
    return POL_RECORD_NOTE;
}

// ---- Records

static void read_record(struct replaying *replaying, const json_t *json, struct pol_record *out)
{
    const char *what = cli_json_text(json, "what", "");

    memset(out, 0, sizeof(*out));
    out->kind = read_kind(json);
    out->now_us = cli_json_u64(json, "now_us");
    out->command =
        (enum pol_command)stage_json_name(what, POL_COMMAND_COUNT, command_name, POL_COMMAND_COUNT);
    out->action = (enum pol_action)stage_json_name(
        out->kind == POL_RECORD_COMMAND ? cli_json_text(json, "action", "") : what,
        POL_ACTION_COUNT, action_name, POL_ACTION_HOLD);
    out->verdict = (enum pol_verdict)stage_json_name(cli_json_text(json, "verdict", ""),
                                                     POL_VERDICT_COUNT, verdict_name, 0);
    out->reason = (enum pol_reason)stage_json_name(cli_json_text(json, "reason", ""),
                                                   POL_REASON_COUNT, reason_name, 0);
    out->after.state = (enum pol_rollout_state)stage_json_name(
        cli_json_text(json, "state", ""), POL_ROLLOUT_STATE_COUNT, state_name, 0);
    out->after.stage_index = (uint16_t)cli_json_u64(json, "stage_index");
    out->after.stage_since_us = cli_json_u64(json, "stage_since_us");
    out->after.before_first = is_true(json, "before_first");
    out->after.stage_failed = is_true(json, "stage_failed");
    out->after.paged = is_true(json, "paged");
    out->after.killed = is_true(json, "killed");
    out->after.guarding = is_true(json, "guarding");
    out->after.passed = is_true(json, "passed");
    read_counts(json_object_get(json, "counts"), &out->counts);
    if (out->kind == POL_RECORD_SLICES) {
        out->action = POL_ACTION_HOLD;
        read_slices(replaying, json_object_get(json, "slices"), &out->slices);
        read_held(replaying, json_object_get(json, "held"), &out->held);
    } else if (out->kind == POL_RECORD_LIFT) {
        out->action = POL_ACTION_HOLD;
        read_held(replaying, json_object_get(json, "lifted"), &out->held);
    }
}

static void note_difference(struct replaying *replaying, const json_t *json,
                            const struct pol_record *record, const struct pol_decision *decision)
{
    json_t *difference = json_pack(
        "{s:I, s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:s}", "seq",
        (json_int_t)cli_json_u64(json, "seq"), "time", cli_json_text(json, "time", "?"),
        "stage_index", (json_int_t)record->after.stage_index, "recorded_action",
        pol_action_name(record->action), "recorded_verdict", pol_verdict_name(record->verdict),
        "recorded_reason", pol_reason_name(record->reason), "action",
        pol_action_name(decision->action), "verdict", pol_verdict_name(decision->verdict), "reason",
        pol_reason_name(decision->reason));

    if (record->kind == POL_RECORD_SLICES) {
        (void)json_object_set_new(difference, "recorded_held",
                                  held_names(replaying, &record->held));
        (void)json_object_set_new(difference, "held",
                                  held_names(replaying, &replaying->replay.found));
    } else if (record->kind == POL_RECORD_LIFT) {
        (void)json_object_set_new(difference, "recorded_lifted",
                                  held_names(replaying, &record->held));
    }
    (void)json_array_append_new(replaying->differences, difference);
}

static void replay_record(struct replaying *replaying, const json_t *json)
{
    struct pol_record record;
    bool differs = false;

    read_record(replaying, json, &record);
    if (replaying->replay.records == 0) { // the first line is the creation: a draft as it says
        replaying->replay.rollout = record.after;
    }
    struct pol_decision decision = pol_replay_step(&replaying->replay, replaying->stages,
                                                   replaying->stage_count, &record, &differs);
    if (differs) {
        note_difference(replaying, json, &record, &decision);
    }
    replaying->over = replaying->what_if && replaying->replay.apart;
}

static enum cli_exit replay_pages(const struct cli *cli, struct replaying *replaying)
{
    uint64_t after = 0;
    bool more = true;

    while (more && !replaying->over && replaying->replay.records < RECORDS_MAX) {
        char path[CLI_PATH_MAX] = "/api/v1/rollouts/";
        json_t *page = NULL;
        size_t index;
        json_t *item;
        if (!cli_path_add(path, sizeof(path) - 64, cli->args[0])) {
            return cli_fail(CLI_EXIT_USAGE, "rollout id too long");
        }
        (void)snprintf(path + strlen(path), sizeof(path) - strlen(path),
                       "/log?limit=%d&after=%" PRIu64, PAGE_LIMIT, after);
        enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &page);
        if (code != CLI_EXIT_OK) {
            return code;
        }
        json_array_foreach(json_object_get(page, "items"), index, item)
        {
            if (!replaying->over) {
                replay_record(replaying, item);
            }
        }
        code = cli_pages_after(cli, page, &after, &more);
        json_decref(page);
        if (code != CLI_EXIT_OK) {
            return code;
        }
    }
    return CLI_EXIT_OK;
}

// ---- Other limits

static enum cli_exit set_share(const struct cli *cli, enum cli_option option,
                               struct replaying *replaying, size_t offset)
{
    double value = 0;
    enum cli_exit code = cli_option_real(cli, option, 0, 1, &value);

    if (code != CLI_EXIT_OK || !cli_given(cli, option)) {
        return code;
    }
    replaying->what_if = true;
    for (uint32_t i = 0; i < replaying->stage_count; ++i) {
        *(uint32_t *)(void *)((char *)&replaying->stages[i].gate + offset) =
            (uint32_t)lround(value * 1e6);
    }
    return CLI_EXIT_OK;
}

static enum cli_exit change_limits(const struct cli *cli, struct replaying *replaying)
{
    uint64_t sample = 0;
    double dwell = 0;
    enum cli_exit code;

    if ((code = set_share(cli, CLI_OPTION_THRESHOLD, replaying,
                          offsetof(struct pol_gate, max_failure_ppm))) != CLI_EXIT_OK ||
        (code = set_share(cli, CLI_OPTION_MAX_RISE, replaying,
                          offsetof(struct pol_gate, max_rise_ppm))) != CLI_EXIT_OK ||
        (code = set_share(cli, CLI_OPTION_ALPHA, replaying,
                          offsetof(struct pol_gate, alpha_ppm))) != CLI_EXIT_OK ||
        (code = set_share(cli, CLI_OPTION_BETA, replaying, offsetof(struct pol_gate, beta_ppm))) !=
            CLI_EXIT_OK ||
        (code = cli_option_u64(cli, CLI_OPTION_MIN_SAMPLE, 0, UINT32_MAX, &sample)) !=
            CLI_EXIT_OK ||
        (code = cli_option_real(cli, CLI_OPTION_MIN_DWELL, 0, 30.0 * 24 * 3600, &dwell)) !=
            CLI_EXIT_OK) {
        return code;
    }
    bool tests = cli_given(cli, CLI_OPTION_ALPHA) || cli_given(cli, CLI_OPTION_BETA) ||
                 cli_given(cli, CLI_OPTION_MAX_RISE);
    for (uint32_t i = 0; i < replaying->stage_count; ++i) {
        struct pol_gate *gate = &replaying->stages[i].gate;
        if (cli_given(cli, CLI_OPTION_MIN_SAMPLE)) {
            gate->min_sample = (uint32_t)sample;
        }
        if (cli_given(cli, CLI_OPTION_MIN_DWELL)) {
            gate->min_dwell_us = (uint64_t)llround(dwell * 1e6);
        }
        if (tests && gate->rule != POL_GATE_LOGRANK) {
            gate->rule = POL_GATE_SEQUENTIAL;
        }
        if (!pol_gate_check(gate)) {
            return cli_fail(CLI_EXIT_USAGE, "--alpha and --beta are above 0 and below 0.5");
        }
    }
    replaying->what_if = replaying->what_if || cli_given(cli, CLI_OPTION_MIN_SAMPLE) ||
                         cli_given(cli, CLI_OPTION_MIN_DWELL);
    return CLI_EXIT_OK;
}

static enum cli_exit fetch_stages(const struct cli *cli, struct replaying *replaying)
{
    char path[CLI_PATH_MAX] = "/api/v1/rollouts/";
    json_t *rollout = NULL;
    size_t index;
    json_t *stage;

    if (!cli_path_add(path, sizeof(path), cli->args[0])) {
        return cli_fail(CLI_EXIT_USAGE, "rollout id too long");
    }
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &rollout);
    json_array_foreach(json_object_get(rollout, "stages"), index, stage)
    {
        if (index < POL_STAGES_MAX) {
            stage_json_read(stage, &replaying->stages[replaying->stage_count++]);
        }
    }
    json_decref(rollout);
    return code;
}

// "model=SM-3 os=ios, model=SM-4"; nothing for none.
static void print_names(const json_t *list)
{
    size_t index;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)list, index, item)
    {
        printf("%s%s", index > 0 ? ", " : "", cli_shown(json_string_value(item)));
    }
    if (json_array_size(list) == 0) {
        fputs("nothing", stdout);
    }
}

static void print_difference(const json_t *item)
{
    const json_t *held = json_object_get(item, "recorded_held");
    const json_t *lifted = json_object_get(item, "recorded_lifted");

    printf("%4llu %s stage %llu: ", (unsigned long long)cli_json_u64(item, "seq"),
           cli_json_text(item, "time", "?"), (unsigned long long)cli_json_u64(item, "stage_index"));
    if (held != NULL) {
        fputs("recorded quarantine of ", stdout);
        print_names(held);
        fputs(", replayed of ", stdout);
        print_names(json_object_get(item, "held"));
        fputc('\n', stdout);
    } else if (lifted != NULL) {
        fputs("lifted, but not in quarantine: ", stdout);
        print_names(lifted);
        fputc('\n', stdout);
    } else {
        printf("recorded %s (%s, %s), replayed %s (%s, %s)\n",
               cli_json_text(item, "recorded_action", "?"),
               cli_json_text(item, "recorded_verdict", "?"),
               cli_json_text(item, "recorded_reason", "?"), cli_json_text(item, "action", "?"),
               cli_json_text(item, "verdict", "?"), cli_json_text(item, "reason", "?"));
    }
}

static void print_result(const struct replaying *replaying)
{
    size_t index;
    json_t *item;

    json_array_foreach(replaying->differences, index, item)
    {
        if (index < SHOWN_MAX) {
            print_difference(item);
        }
    }
    printf("%llu records, %llu decisions, %llu differ%s\n",
           (unsigned long long)replaying->replay.records,
           (unsigned long long)replaying->replay.decisions,
           (unsigned long long)replaying->replay.differences,
           replaying->over ? "; what came after would not have happened so" : "");
}

enum cli_exit cli_rollout_replay(struct cli *cli)
{
    struct replaying replaying = {0};
    enum cli_exit code = fetch_stages(cli, &replaying);

    pol_replay_init(&replaying.replay, 0);
    replaying.differences = json_array();
    replaying.names = json_object();
    if (code == CLI_EXIT_OK) {
        code = change_limits(cli, &replaying);
    }
    if (code == CLI_EXIT_OK) {
        code = replay_pages(cli, &replaying);
    }
    if (code == CLI_EXIT_OK && cli->json) {
        json_t *root =
            json_pack("{s:I, s:I, s:b, s:O}", "records", (json_int_t)replaying.replay.records,
                      "decisions", (json_int_t)replaying.replay.decisions, "what_if",
                      (int)replaying.what_if, "differences", replaying.differences);
        cli_json_print(root);
        json_decref(root);
    } else if (code == CLI_EXIT_OK) {
        print_result(&replaying);
    }
    json_decref(replaying.differences);
    json_decref(replaying.names);
    bool wrong = !replaying.what_if && replaying.replay.differences > 0;
    return code == CLI_EXIT_OK && wrong ? CLI_EXIT_FAILED : code;
}
