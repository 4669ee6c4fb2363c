// Stages of a rollout. Called by `rollout plan` and `rollout start` (cli_release.c); what a stage
// is for signing and showing is asked by rollout_draft.c, plan_show.c, rollout_evidence.c and
// stage_json.c; one thread. A stage that a file leaves open in part is filled from the options, so
// a plan shows what will be sent. Fields are checked by stage_check.c, and by the gateway again.
#include "cli/stages/ladder.h"

#include "cli/base/cli_json.h"
#include "cli/stages/stage_check.h"
#include "cli/stages/stage_json.h"

#include "policy/expr.h"
#include "policy/fields/field.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static json_t *default_ladder(void)
{
    return json_pack(
        "[{s:s, s:s}, {s:s, s:s, s:[{s:s, s:s, s:s}]}, {s:s, s:s, s:f}, {s:s, s:s, s:f}, "
        "{s:s, s:s, s:f}, {s:s, s:s}]",
        "name", "simulate", "kind", "simulate", //
        "name", "beta", "kind", "beta", "audience", "attr", "channel", "op", "==", "value", "beta",
        "name", "gray-1", "kind", "gray", "percent", 1.0,   //
        "name", "gray-10", "kind", "gray", "percent", 10.0, //
        "name", "gray-50", "kind", "gray", "percent", 50.0, //
        "name", "full", "kind", "full");
}

enum pol_stage_kind ladder_kind(const json_t *stage)
{
    const json_t *value = json_object_get(stage, "kind");
    unsigned place = POL_STAGE_KIND_COUNT;

    return json_is_string(value) && pol_words_find(POL_WORDS_STAGE_KIND, json_string_value(value),
                                                   json_string_length(value), &place)
               ? (enum pol_stage_kind)place
               : POL_STAGE_KIND_COUNT;
}

uint16_t ladder_max_bucket(const json_t *stage)
{
    return (uint16_t)lround(json_number_value(json_object_get(stage, "percent")) * 100);
}

uint16_t ladder_times(const json_t *stage, const char *key)
{
    double times = json_number_value(json_object_get(stage, key));

    return times > 0 && times <= POL_SHADOW_PERCENT_MAX / 100.0 ? (uint16_t)lround(times * 100) : 0;
}

static enum cli_exit add_missing(json_t *stage, const char *key, json_t *value)
{
    json_t *defaults = json_pack("{s:o}", key, value);
    int added = json_object_update_missing(stage, defaults);

    json_decref(defaults);
    return added == 0 ? CLI_EXIT_OK : cli_fail(CLI_EXIT_LOCAL, "out of memory");
}

static bool asks_for_test(const struct cli *cli)
{
    return cli_given(cli, CLI_OPTION_MAX_RISE) || cli_given(cli, CLI_OPTION_ALPHA) ||
           cli_given(cli, CLI_OPTION_BETA);
}

// The rule of stages that name none: --rule, else what --max-rise, --alpha and --beta need; NULL:
// the gateway's default. What was not asked for is said.
static enum cli_exit rule_of(const struct cli *cli, const json_t *stages, const char **out)
{
    size_t index;
    json_t *stage;

    *out = cli->values[CLI_OPTION_RULE];
    unsigned place = 0;
    if (*out != NULL && !pol_words_find(POL_WORDS_GATE_RULE, *out, strlen(*out), &place)) {
        return cli_fail(CLI_EXIT_USAGE, "--rule: threshold, sequential or logrank, not '%s'", *out);
    }
    if (*out != NULL && strcmp(*out, pol_gate_rule_name(POL_GATE_THRESHOLD)) == 0 &&
        asks_for_test(cli)) {
        return cli_fail(CLI_EXIT_USAGE, "--rule threshold compares nobody: --max-rise, --alpha and "
                                        "--beta go with sequential or logrank");
    }
    if (*out != NULL || !asks_for_test(cli)) {
        return CLI_EXIT_OK;
    }
    *out = pol_gate_rule_name(POL_GATE_SEQUENTIAL);
    json_array_foreach((json_t *)(uintptr_t)stages, index, stage)
    {
        if (json_object_get(stage, "rule") == NULL && ladder_kind(stage) != POL_STAGE_SIMULATE) {
            fprintf(stderr,
                    "stages that name no rule are judged by 'sequential', for --max-rise, --alpha "
                    "or --beta;\n--rule logrank holds its level however late reports are "
                    "(docs/GATE.md)\n");
            break;
        }
    }
    return CLI_EXIT_OK;
}

// What the options say of a stage's rule and its numbers, where the stage says nothing.
static enum cli_exit fill_test(const struct cli *cli, const char *rule, json_t *stage)
{
    static const struct {
        enum cli_option option;
        const char *key;
    } numbers[] = {
        {CLI_OPTION_MAX_RISE, "max_rise"}, {CLI_OPTION_ALPHA, "alpha"}, {CLI_OPTION_BETA, "beta"}};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i) {
        double value = 0;
        enum cli_exit code = cli_option_real(cli, numbers[i].option, 0, 1, &value);
        if (code != CLI_EXIT_OK) {
            return code;
        }
        if (!cli_given(cli, numbers[i].option) || ladder_kind(stage) == POL_STAGE_SIMULATE) {
            continue;
        }
        if ((code = add_missing(stage, numbers[i].key, json_real(value))) != CLI_EXIT_OK) {
            return code;
        }
    }
    return rule != NULL && ladder_kind(stage) != POL_STAGE_SIMULATE
               ? add_missing(stage, "rule", json_string(rule))
               : CLI_EXIT_OK;
}

// What a verdict takes and what it does, where the options say so; else the gateway's defaults.
static enum cli_exit fill_verdicts(const struct cli *cli, json_t *stage, bool last)
{
    const char *on_fail = cli->values[CLI_OPTION_ON_FAIL];
    double answered = 0;
    uint64_t guard_s = 0;
    enum cli_exit code = cli_option_real(cli, CLI_OPTION_MIN_ANSWERED, 0, 1, &answered);

    if (code == CLI_EXIT_OK) {
        code = cli_option_u64(cli, CLI_OPTION_GUARD, 0, POL_STAGE_GUARD_S_MAX, &guard_s);
    }
    if (code == CLI_EXIT_OK && on_fail != NULL &&
        strcmp(on_fail, pol_on_fail_name(POL_ON_FAIL_ROLL_BACK)) != 0 &&
        strcmp(on_fail, pol_on_fail_name(POL_ON_FAIL_HOLD)) != 0) {
        code = cli_fail(CLI_EXIT_USAGE, "--on-fail: roll_back or hold");
    }
    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_MIN_ANSWERED)) {
        code = add_missing(stage, "min_answered", json_real(answered));
    }
    if (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_GUARD) && last) {
        code = add_missing(stage, "guard_s", json_integer((json_int_t)guard_s));
    }
    if (code == CLI_EXIT_OK && on_fail != NULL) {
        code = add_missing(stage, "on_fail", json_string(on_fail));
    }
    return code;
}

static enum cli_exit fill_stages(const struct cli *cli, json_t *stages)
{
    uint64_t min_sample = 0;
    double min_dwell = 0;
    double max_failure = 0;
    const char *rule = NULL;
    size_t index;
    json_t *stage;
    enum cli_exit code = rule_of(cli, stages, &rule);

    if (code != CLI_EXIT_OK ||
        (code = cli_option_u64(cli, CLI_OPTION_MIN_SAMPLE, LADDER_MIN_SAMPLE, UINT32_MAX,
                               &min_sample)) != CLI_EXIT_OK ||
        (code = cli_option_real(cli, CLI_OPTION_MIN_DWELL,
                                cli_given(cli, CLI_OPTION_STAGES) ? 0 : LADDER_MIN_DWELL_S,
                                30.0 * 24 * 3600, &min_dwell)) != CLI_EXIT_OK ||
        (code = cli_option_real(cli, CLI_OPTION_MAX_FAILURE, LADDER_MAX_FAILURE, 1,
                                &max_failure)) != CLI_EXIT_OK) {
        return code;
    }
    json_array_foreach(stages, index, stage)
    {
        json_t *defaults =
            json_pack("{s:I, s:f, s:f, s:f}", "min_sample", (json_int_t)min_sample, "min_dwell_s",
                      ladder_kind(stage) == POL_STAGE_SIMULATE ? 0 : min_dwell, "max_failure",
                      max_failure, "percent", 100.0);
        int added = json_object_update_missing(stage, defaults);
        json_decref(defaults);
        if (added != 0) {
            return cli_fail(CLI_EXIT_LOCAL, "stages[%zu]: not an object", index);
        }
        code = fill_test(cli, rule, stage);
        if (code == CLI_EXIT_OK) {
            code = fill_verdicts(cli, stage, index + 1 == json_array_size(stages));
        }
        if (code != CLI_EXIT_OK) {
            return code;
        }
    }
    return CLI_EXIT_OK;
}

// The array in a JSON file: the root itself, or its member `key`.
static enum cli_exit load_list(const char *path, const char *key, json_t **out)
{
    struct base_error error = {0};
    json_t *root = NULL;

    if (cli_json_load(path, &root, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    json_t *list = json_is_array(root) ? root : json_object_get(root, key);
    json_t *copy = json_is_array(list) ? json_deep_copy(list) : NULL;
    json_decref(root);
    if (copy == NULL) {
        return cli_fail(CLI_EXIT_USAGE, "%s: neither a list nor an object with \"%s\"", path, key);
    }
    *out = copy;
    return CLI_EXIT_OK;
}

// What each stage may be for itself, but not in this list. The gateway refuses it as well, of a
// rollout that is signed by then.
static enum cli_exit check_order(const json_t *list)
{
    struct pol_stage stages[POL_STAGES_MAX];
    uint32_t count = (uint32_t)json_array_size(list);

    for (uint32_t i = 0; i < count; ++i) {
        stage_json_read(json_array_get(list, i), &stages[i]);
    }
    uint32_t bad = pol_stages_reach_check(stages, count);
    if (bad == count) {
        enum pol_reason reason = pol_stages_check(stages, count);
        return reason == POL_REASON_MATCHED
                   ? CLI_EXIT_OK
                   : cli_fail(CLI_EXIT_USAGE, "stages: %s", pol_reason_text(reason));
    }
    return cli_fail(CLI_EXIT_USAGE,
                    "stages[%u] (%s): a full stage has 100 percent, and a gray one no fewer "
                    "than the gray one before it",
                    bad, cli_json_text(json_array_get(list, bad), "name", "?"));
}

bool ladder_is_for_everybody(const json_t *stage)
{
    const json_t *audience = json_object_get(stage, "audience");

    return json_array_size(audience) == 0 &&
           (json_string_value(audience) == NULL || json_string_length(audience) == 0);
}

// Behind a full stage for everybody nobody is left, and a stage that devices enter would wait for
// ever.
static enum cli_exit check_followers(const json_t *stages)
{
    const json_t *full = NULL;
    size_t index;
    json_t *stage;

    json_array_foreach((json_t *)(uintptr_t)stages, index, stage)
    {
        enum pol_stage_kind kind = ladder_kind(stage);
        if (full != NULL && kind != POL_STAGE_SIMULATE && kind != POL_STAGE_SHADOW) {
            return cli_fail(CLI_EXIT_USAGE,
                            "stages[%zu] (%s): nobody is left to come to it, the full stage %s "
                            "before it takes everybody; an \"audience\" there leaves others, or "
                            "it comes last",
                            index, cli_json_text(stage, "name", "?"),
                            cli_json_text(full, "name", "?"));
        }
        if (full == NULL && kind == POL_STAGE_FULL && ladder_is_for_everybody(stage)) {
            full = stage;
        }
    }
    return CLI_EXIT_OK;
}

enum cli_exit ladder_stages(const struct cli *cli, json_t **out_stages)
{
    json_t *stages = NULL;
    enum cli_exit code = CLI_EXIT_OK;

    if (cli_given(cli, CLI_OPTION_STAGES)) {
        code = load_list(cli->values[CLI_OPTION_STAGES], "stages", &stages);
    } else {
        stages = default_ladder();
    }
    if (code == CLI_EXIT_OK &&
        (json_array_size(stages) == 0 || json_array_size(stages) > POL_STAGES_MAX)) {
        code = cli_fail(CLI_EXIT_USAGE, "a rollout has 1 to %u stages, not %zu", POL_STAGES_MAX,
                        json_array_size(stages));
    }
    if (code == CLI_EXIT_OK) {
        code = stage_check(stages, false);
        stage_check_forget_nulls(stages); // options fill what they leave open
    }
    if (code == CLI_EXIT_OK) {
        code = fill_stages(cli, stages);
    }
    if (code == CLI_EXIT_OK) {
        code = stage_check(stages, true); // with what options say
    }
    if (code == CLI_EXIT_OK) {
        code = check_order(stages);
    }
    if (code == CLI_EXIT_OK) {
        code = check_followers(stages);
    }
    if (code != CLI_EXIT_OK) {
        json_decref(stages);
        return code;
    }
    *out_stages = stages;
    return CLI_EXIT_OK;
}

void ladder_warn(const json_t *stages)
{
    size_t index;
    json_t *stage;

    json_array_foreach((json_t *)(uintptr_t)stages, index, stage)
    {
        if (ladder_is_for_everybody(stage) && ladder_kind(stage) == POL_STAGE_BETA) {
            fprintf(stderr,
                    "walle: warning: stages[%zu]: the beta stage %s has no audience: it is for the "
                    "whole target at once; \"audience\": \"channel == \\\"beta\\\"\" in it says "
                    "for whom, and the kind gray with \"percent\" takes a share\n",
                    index, cli_json_text(stage, "name", "?"));
        }
    }
}

// A text of the targeting language, checked here so that a slip is told before anything is signed.
static enum cli_exit expression(const char *text, json_t **out_target)
{
    struct pol_expr_error where = {0};
    const struct pol_expr *expr = NULL;
    size_t bytes = 0;
    size_t size = strnlen(text, POL_EXPR_TEXT_MAX + 1);

    if (!pol_expr_compile((struct pol_text){text, (uint32_t)size}, (struct pol_expr_space){NULL, 0},
                          &expr, &bytes, &where)) {
        return cli_fail(CLI_EXIT_USAGE,
                        "--target: no such file, and no expression: line %u, "
                        "column %u: %s",
                        where.line, where.column, where.message);
    }
    *out_target = json_string(text);
    return *out_target != NULL ? CLI_EXIT_OK
                               : cli_fail(CLI_EXIT_USAGE, "--target: an expression is UTF-8");
}

// "fleet.json" is an expression too: of devices whose attribute `fleet.json` is true. Nobody means
// that.
static bool is_file_name(const char *text)
{
    const char *dot = strrchr(text, '.');
    return dot != NULL && strcmp(dot, ".json") == 0;
}

enum cli_exit ladder_target(const struct cli *cli, json_t **out_target)
{
    if (cli_given(cli, CLI_OPTION_TARGET)) {
        const char *value = cli->values[CLI_OPTION_TARGET];
        return access(value, F_OK) == 0 || is_file_name(value)
                   ? load_list(value, "target", out_target)
                   : expression(value, out_target);
    }
    *out_target = json_array();
    return CLI_EXIT_OK;
}
