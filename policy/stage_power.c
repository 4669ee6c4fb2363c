// The power of a running stage. Called for views of rollouts; what power is, is in power.c.
//
// Two samples are asked about: what has completed, with the control that has, for the rise that
// shows by now; and the stage as it will be, for the devices it needs. Control's rate is measured
// with half a failure more, so that a few devices without one do not promise too much.
#include "policy/stage_power.h"

#include "policy/stat/assert.h"

#define MILLION 1000000u

struct pol_test pol_stage_power_test(const struct pol_gate *gate)
{
    struct pol_test test = pol_gate_test(gate);
    if (gate->rule == POL_GATE_LOGRANK && gate->max_failure_ppm < POL_TEST_NOT_ASKED) {
        test.max_failure_ppm = POL_TEST_NOT_ASKED;
        test.alpha_ppm = pol_gate_part(test.alpha_ppm, POL_GATE_RISE_PERCENT);
    }
    return test;
}

static uint32_t measured_ppm(const struct pol_sample *sample)
{
    double failures =
        (double)(sample->failures < sample->trials ? sample->failures : sample->trials);
    return (uint32_t)((failures + 0.5) / ((double)sample->trials + 1) * MILLION + 0.5);
}

// At the pace of the stage so far.
static uint64_t seconds_until(uint64_t needed, uint64_t completed, uint64_t in_stage_us)
{
    if (completed == 0 || needed <= completed || needed >= POL_POWER_DEVICES_MAX) {
        return 0;
    }
    double seconds =
        (double)(needed - completed) / (double)completed * ((double)in_stage_us / MILLION);
    return seconds < (double)POL_POWER_DEVICES_MAX ? (uint64_t)(seconds + 0.999) : 0;
}

// What is done: who completed; with LOGRANK who answered.
static struct pol_sample done_of(const struct pol_gate *gate, const struct pol_counts *counts,
                                 bool updated)
{
    if (gate->rule == POL_GATE_LOGRANK) {
        const struct pol_outcomes *all =
            &counts->trial.all[updated ? POL_COHORT_UPDATED : POL_COHORT_CONTROL];
        return (struct pol_sample){all->failed + all->succeeded, all->failed};
    }
    return updated ? pol_gate_sample(counts) : counts->control;
}

bool pol_stage_power(const struct pol_gate *gate, const struct pol_counts *counts,
                     const struct pol_stage_size *size, struct pol_stage_power *out)
{
    if (gate->rule == POL_GATE_THRESHOLD || gate->max_rise_ppm >= POL_TEST_NOT_ASKED) {
        return false;
    }
    pol_assert(gate->rule < POL_GATE_RULE_COUNT);
    struct pol_test test = pol_stage_power_test(gate);
    struct pol_sample control_done = done_of(gate, counts, false);
    struct pol_stage_power power = {.rise_ppm = gate->max_rise_ppm,
                                    .completed = done_of(gate, counts, true).trials,
                                    .base_ppm = POL_STAGE_POWER_BASE_PPM,
                                    .base_measured = control_done.trials > 0};
    if (power.base_measured) {
        power.base_ppm = measured_ppm(&control_done);
    }
    power.devices = size->devices > power.completed ? size->devices : power.completed;
    uint64_t control = size->control > control_done.trials ? size->control : control_done.trials;
    struct pol_power_plan whole =
        pol_power(&test, (struct pol_power_ask){.stage_devices = power.devices,
                                                .control_devices = control,
                                                .base_ppm = power.base_ppm,
                                                .rise_ppm = power.rise_ppm,
                                                .completions_per_hour = 0});
    struct pol_power_plan now =
        pol_power(&test, (struct pol_power_ask){.stage_devices = power.completed,
                                                .control_devices = control_done.trials,
                                                .base_ppm = power.base_ppm,
                                                .rise_ppm = power.rise_ppm,
                                                .completions_per_hour = 0});
    pol_assert(power.devices >= power.completed);
    power.needed = whole.devices;
    power.can_detect = whole.can_detect;
    power.best_ppm = whole.smallest_rise_ppm;
    power.sees_ppm = now.smallest_rise_ppm;
    if (power.can_detect) {
        power.seconds = seconds_until(power.needed, power.completed, size->in_stage_us);
    }
    *out = power;
    return true;
}
