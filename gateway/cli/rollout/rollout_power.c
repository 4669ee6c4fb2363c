// Power of a plan's stages: how many devices and minutes each needs to find the rise it declares.
// Called by cli_release.c for `rollout plan` and `rollout start`; one thread. It calculates with
// the policy's own functions, on the stages that would be sent, and asks no gateway.
#include "cli/rollout/rollout_power.h"

#include "cli/base/cli_json.h"
#include "cli/stages/stage_json.h"

#include "policy/bucket.h"
#include "policy/stage_power.h"

#include <math.h>

struct power {
    uint64_t fleet; // 0: not known
    uint32_t base_ppm;
    uint64_t per_hour; // completions; 0: as the stage's devices check in
};

struct plan {
    struct pol_stage stages[POL_STAGES_MAX];
    uint32_t at;
};

static enum cli_exit read_options(const struct cli *cli, struct power *out)
{
    double base = 0;
    enum cli_exit code;

    if ((code = cli_option_u64(cli, CLI_OPTION_FLEET, 0, UINT32_MAX, &out->fleet)) != CLI_EXIT_OK ||
        (code = cli_option_u64(cli, CLI_OPTION_PER_HOUR, 0, UINT32_MAX, &out->per_hour)) !=
            CLI_EXIT_OK ||
        (code = cli_option_real(cli, CLI_OPTION_BASE_FAILURE, POWER_BASE_FAILURE, 1, &base)) !=
            CLI_EXIT_OK) {
        return code;
    }
    out->base_ppm = (uint32_t)lround(base * 1e6);
    return CLI_EXIT_OK;
}

static bool declares(const struct pol_stage *stage)
{
    return stage->gate.rule != POL_GATE_THRESHOLD &&
           stage->gate.max_rise_ppm < POL_TEST_NOT_ASKED &&
           (stage->kind == POL_STAGE_GRAY || stage->kind == POL_STAGE_BETA);
}

// Devices that are let in and compared, and their control.
static void sizes_of(const struct power *power, const struct plan *plan, uint64_t *out_devices,
                     uint64_t *out_control)
{
    const struct pol_stage *stage = &plan->stages[plan->at];
    struct pol_trial_span span = {.middle = stage->max_bucket};
    uint16_t from;
    uint16_t to;
    pol_stage_control_band(stage, &from, &to);
    if (stage->gate.rule == POL_GATE_LOGRANK) { // those of the stages before are compared no more
        (void)pol_stage_trial(plan->stages, plan->at, &span);
        from = span.middle;
        to = span.to;
    }
    *out_devices = power->fleet * (uint64_t)(span.middle - span.from) / POL_BUCKET_COUNT;
    *out_control = power->fleet * (uint64_t)(to - from) / POL_BUCKET_COUNT;
}

static struct pol_power_plan plan_stage(const struct power *power, const struct plan *plan,
                                        uint64_t *out_devices)
{
    const struct pol_stage *stage = &plan->stages[plan->at];
    uint64_t control;
    sizes_of(power, plan, out_devices, &control);
    uint64_t devices = *out_devices;
    uint64_t per_hour = devices * 3600 / POWER_CHECKIN_S;
    uint64_t paced = (uint64_t)stage->pace.per_minute * 60;
    struct pol_test test = pol_stage_power_test(&stage->gate);

    per_hour = paced > 0 && paced < per_hour ? paced : per_hour;
    per_hour = power->per_hour > 0 ? power->per_hour : per_hour;
    return pol_power(&test, (struct pol_power_ask){.stage_devices = devices,
                                                   .control_devices = control,
                                                   .base_ppm = power->base_ppm,
                                                   .rise_ppm = stage->gate.max_rise_ppm,
                                                   .completions_per_hour = per_hour});
}

// "about 11 minutes".
static void print_time(FILE *file, uint64_t seconds)
{
    if (seconds == 0) {
        return;
    }
    if (seconds < 120) {
        fprintf(file, ", about %llu seconds", (unsigned long long)seconds);
    } else if (seconds < 7200) {
        fprintf(file, ", about %llu minutes", (unsigned long long)(seconds + 30) / 60);
    } else {
        fprintf(file, ", about %llu hours", (unsigned long long)(seconds + 1800) / 3600);
    }
}

static bool show_stage(FILE *file, const struct power *power, const char *name,
                       const struct plan *planned)
{
    const struct pol_stage *stage = &planned->stages[planned->at];
    uint64_t devices = 0;
    double rise = stage->gate.max_rise_ppm / 1e4;

    if (stage->kind == POL_STAGE_BETA && file == NULL) {
        return false;
    }
    if (stage->kind == POL_STAGE_BETA) {
        fprintf(file, "stage %s: how many its audience is, is not known here\n", name);
        return false;
    }
    struct pol_power_plan plan = plan_stage(power, planned, &devices);
    if (file == NULL) {
        return plan.can_detect;
    }
    unsigned long long have = (unsigned long long)devices;
    if (plan.can_detect) {
        fprintf(file, "to see +%g points at stage %s you need %llu of its %llu devices", rise, name,
                (unsigned long long)plan.devices, have);
        print_time(file, plan.seconds);
        fputc('\n', file);
        return true;
    }
    double smallest = plan.smallest_rise_ppm / 1e4;
    fprintf(file, "stage %s cannot see +%g points: its %llu devices show +%.*g at best\n", name,
            rise, have, smallest < 99.5 ? 2 : 3, smallest);
    return false;
}

enum cli_exit rollout_power(const struct cli *cli, const json_t *stages, FILE *file, bool *out_sees)
{
    struct power power = {0};
    enum cli_exit code = read_options(cli, &power);
    bool asked = false;
    bool sees = false;
    struct plan plan;
    size_t index;
    json_t *json;

    if (code != CLI_EXIT_OK) {
        return code;
    }
    json_array_foreach((json_t *)(uintptr_t)stages, index, json)
    {
        plan.at = (uint32_t)index;
        struct pol_stage *stage = &plan.stages[plan.at];
        stage_json_read(json, stage);
        // How many a beta stage lets in before the others is not known.
        stage->max_bucket = stage->kind == POL_STAGE_BETA ? 0 : stage->max_bucket;
        if (!declares(stage)) {
            continue;
        }
        asked = true;
        if (power.fleet > 0) {
            sees = show_stage(file, &power, cli_json_text(json, "name", "?"), &plan) || sees;
        }
    }
    *out_sees = !asked || sees;
    return CLI_EXIT_OK;
}
