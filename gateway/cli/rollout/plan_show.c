// A plan as text: the stages with gates and guard, and whom they would reach. Called by
// cli_release.c for `rollout plan` and for the dry run of a start; one thread. It prints the JSON
// that would be sent, read with the policy's own types (stage_json.c), so a plan cannot show
// anything else than a start does.
#include "cli/rollout/plan_show.h"

#include "cli/base/cli_json.h"
#include "cli/base/duration.h"
#include "cli/stages/audience_text.h"
#include "cli/stages/ladder.h"
#include "cli/stages/stage_json.h"
#include "cli/stages/tolerance_json.h"

#include <stdio.h>
#include <string.h>

// What a shadow stage is about, below its line.
static void print_shadow(const json_t *stage)
{
    double slow = json_number_value(json_object_get(stage, "max_slowdown"));
    double heavy = json_number_value(json_object_get(stage, "max_memory"));

    if (strcmp(cli_json_text(stage, "kind", ""), "shadow") != 0) {
        return;
    }
    printf("    runs beside the active version, its result is compared and discarded");
    if (slow > 0) {
        printf("; at most %g times the time", slow);
    }
    if (heavy > 0) {
        printf("; at most %g times the memory", heavy);
    }
    tolerance_json_print(stage);
    putchar('\n');
}

// How long devices are judged after the last stage.
static void print_guard(const json_t *last)
{
    const json_t *value = json_object_get(last, "guard_s");
    uint64_t guard_s = value != NULL ? cli_json_u64(last, "guard_s") : POL_STAGE_GUARD_S;

    if (guard_s == 0) {
        puts("With the last stage's pass it is completed (guard 0).");
    } else {
        char text[DURATION_TEXT_MAX];
        bool exact = duration_text(guard_s, text);
        printf("Behind the last one it is guarded until nobody is outstanding, for %s%s at "
               "most:\nwho fails late takes it back.\n",
               exact ? "" : "about ", text);
    }
}

void plan_show_cloud(FILE *file, const struct pol_fallback_limits *limits, const char *before)
{
    if (limits->min_kept_ppm > 0) {
        fprintf(file, "%sat most %g %% are sent to the cloud (max_sent)", before,
                100 - limits->min_kept_ppm / 1e4);
        before = ", ";
    }
    if (limits->min_agreed_ppm > 0) {
        fprintf(file, "%sat least %g %% of the answers are its own (min_agreed)", before,
                limits->min_agreed_ppm / 1e4);
        before = ", ";
    }
    if (limits->late_ms > 0) {
        fprintf(file, "%s95 %% of the answers take at most %u ms (max_cloud_ms)", before,
                limits->late_ms);
        before = ", ";
    }
    if (before[0] == ',') {
        fputc('\n', file);
    }
}

void plan_show_stages(const json_t *stages)
{
    size_t index;
    json_t *stage;
    bool tests = false;

    printf("%-3s %-12s %-9s %9s %9s %9s %9s %9s  %-10s %-9s %s\n", "", "stage", "kind", "share",
           "sample", "dwell", "failures", "answered", "rule", "on fail", "on pass");
    json_array_foreach((json_t *)(uintptr_t)stages, index, stage)
    {
        struct pol_stage parsed;
        stage_json_read(stage, &parsed);
        printf("%-3zu %-12s %-9s %8g%% %9llu %8gs %8g%% %8g%%  %-10s %-9s %s\n", index + 1,
               cli_json_text(stage, "name", "?"), cli_json_text(stage, "kind", "?"),
               json_number_value(json_object_get(stage, "percent")),
               (unsigned long long)cli_json_u64(stage, "min_sample"),
               json_number_value(json_object_get(stage, "min_dwell_s")),
               100 * json_number_value(json_object_get(stage, "max_failure")),
               parsed.gate.min_answered_ppm / 1e4, pol_gate_rule_name(parsed.gate.rule),
               pol_on_fail_name(parsed.on_fail), pol_on_pass_name(parsed.on_pass));
        if (!ladder_is_for_everybody(stage)) {
            printf("    of those with ");
            audience_text_print(stdout, stage);
            putchar('\n');
        }
        print_shadow(stage);
        plan_show_cloud(stdout, &parsed.cloud, "    of each device's decisions ");
        tests = tests || parsed.gate.rule != POL_GATE_THRESHOLD;
    }
    printf(
        "A stage ends when its sample completed, its dwell passed, the share that has to answer "
        "did,\nand at most that share failed; above it, even if all that are under way, or missing "
        "in the sample\nyet, do well, the rollout stops: every updated device goes back "
        "(roll_back), or it waits for a\nperson (hold). So a few failures end it: 2 of a "
        "sample of 20 are 10 %%.\n");
    if (tests) {
        printf("With the rules sequential and logrank both are shown by a test that compares with "
               "devices that\nare not updated.\n");
    }
    print_guard(json_array_get(stages, json_array_size(stages) - 1));
}

static void print_values(const char *name, const json_t *attr)
{
    size_t index;
    json_t *value;

    if (json_array_size(json_object_get(attr, "values")) == 0) {
        return;
    }
    printf("%-12s", name);
    json_array_foreach(json_object_get(attr, "values"), index, value)
    {
        printf(" %s %llu of %llu,", cli_json_text(value, "value", "?"),
               (unsigned long long)cli_json_u64(value, "matched"),
               (unsigned long long)cli_json_u64(value, "known"));
    }
    printf(" other %llu, without %llu\n", (unsigned long long)cli_json_u64(attr, "other"),
           (unsigned long long)cli_json_u64(attr, "without"));
}

// Attributes that no known device has: mostly a typing error, and nothing starts without a word.
static void print_unknown(const json_t *preview, const json_t *stages)
{
    size_t index;
    json_t *item;

    json_array_foreach(json_object_get(preview, "unknown"), index, item)
    {
        uint64_t stage = cli_json_u64(item, "stage");
        const char *like = cli_json_text(item, "did_you_mean", NULL);
        printf("%s: no known device has attribute %s",
               stage == 0 ? "target"
                          : cli_json_text(json_array_get(stages, stage - 1), "name", "stage"),
               cli_json_text(item, "attribute", "?"));
        if (like != NULL) {
            printf("; did you mean %s?", like);
        }
        putchar('\n');
    }
    if (cli_json_u64(preview, "matched") == 0 ||
        json_array_size(json_object_get(preview, "unknown")) > 0) {
        printf("it is refused as it stands; --accept-empty starts it all the same\n");
    }
}

void plan_show_preview(const json_t *preview, const json_t *stages)
{
    size_t index;
    json_t *item;
    const char *name;
    json_t *attr;

    printf("\n%llu of %llu known devices are targeted%s\n",
           (unsigned long long)cli_json_u64(preview, "matched"),
           (unsigned long long)cli_json_u64(preview, "devices"),
           json_is_true(json_object_get(preview, "exact"))
               ? ""
               : " (stages as an example draw of the salt has them)");
    json_array_foreach(json_object_get(preview, "stages"), index, item)
    {
        const json_t *stage = json_array_get(stages, index);
        uint64_t inside = cli_json_u64(item, "total");
        uint64_t sample = cli_json_u64(stage, "min_sample");
        uint64_t enter = cli_json_u64(item, "devices");
        bool starves = enter < sample && ladder_kind(stage) != POL_STAGE_SIMULATE;
        printf("%-3zu %-12s %12llu enter, %llu inside%s\n", index + 1,
               cli_json_text(stage, "name", "?"), (unsigned long long)enter,
               (unsigned long long)inside,
               starves ? ": fewer enter than its sample, it would wait for a promote" : "");
    }
    if (cli_json_u64(preview, "elsewhere") > 0) {
        printf("%llu more would be let in, but follow another rollout of the task\n",
               (unsigned long long)cli_json_u64(preview, "elsewhere"));
    }
    json_object_foreach(json_object_get(preview, "segments"), name, attr)
    {
        print_values(name, attr);
    }
    print_unknown(preview, stages);
    json_array_foreach(json_object_get(preview, "unmatched"), index, item)
    {
        printf("not: %12llu  %s: %s\n", (unsigned long long)cli_json_u64(item, "devices"),
               cli_json_text(item, "reason_text", ""), cli_json_text(item, "where", ""));
    }
}
