// Rivals' rules played over the simulated rollout: one run serves all thresholds of a grid, because
// a rollout goes the same way until the first threshold stops it.
//
// Called by gate_sim.c and its unit test; one thread.
#include "gate_play.h"

#include "gate_rules.h"

#include <stdio.h>

// Ends of the stages, in ten thousandths of the fleet.
static const uint32_t stage_ends[GATE_STAGES] = {100, 500, 2000, 10000};

static uint32_t stage_end(const struct gate_fleet *fleet, uint32_t stage)
{
    return (uint32_t)((uint64_t)fleet->count * stage_ends[stage] / 10000);
}

static struct gate_outcome outcome_now(const struct gate_world *world, enum gate_end end)
{
    return (struct gate_outcome){.end = end,
                                 .at_s = gate_world_now_s(world),
                                 .exposed = world->exposed,
                                 .harmed = world->harmed,
                                 .stage = world->stage_count - 1};
}

// What is exposed when everybody below `to` gets it, as hawkBit's pause lets happen: the group that
// runs is completed.
static void complete_stages(const struct gate_fleet *fleet, uint32_t to, struct gate_outcome *out)
{
    out->exposed = 0;
    out->harmed = 0;
    for (uint32_t i = 0; i < to; i++) {
        bool exposed = gate_exposes(fleet, &fleet->devices[i]);
        out->exposed += exposed;
        out->harmed += exposed && gate_harms(&fleet->devices[i]);
    }
}

// ---- hawkBit ----

static const uint32_t success_percents[] = {50, 80, 90};
#define SUCCESSES  (sizeof(success_percents) / sizeof(success_percents[0]))
#define ERRORS_MAX (GATE_HAWKBIT_SETTINGS / SUCCESSES)

void gate_hawkbit_name(uint32_t setting, char out[GATE_SETTING_NAME_MAX])
{
    (void)snprintf(out, GATE_SETTING_NAME_MAX, "success %u %%, error %u %% of the group",
                   success_percents[setting / ERRORS_MAX], (uint32_t)(setting % ERRORS_MAX));
}

static struct rule_group group_of(const struct gate_stage_tally *tally)
{
    return (struct rule_group){.total = tally->to - tally->from,
                               .finished = tally->completed - tally->failed,
                               .error = tally->failed};
}

static void play_hawkbit(struct gate_world *world, const struct gate_fleet *fleet,
                         uint32_t success_percent, struct gate_outcome out[ERRORS_MAX])
{
    bool stopped[ERRORS_MAX] = {false};
    gate_world_open(world, stage_end(fleet, 0), 0);
    bool finished = false;
    while (!finished && world->step + 1 < GATE_STEPS) {
        gate_world_step(world, UINT64_MAX);
        enum rule_move last = RULE_WAIT;
        for (uint32_t stage = 0; stage < world->stage_count; stage++) {
            struct rule_group group = group_of(&world->stages[stage]);
            for (uint32_t percent = 0; percent < ERRORS_MAX; percent++) {
                struct rule_hawkbit rule = {.success_percent = success_percent,
                                            .error_percent = percent};
                enum rule_move move = rule_hawkbit_tick(&rule, &group);
                if (move == RULE_STOP && !stopped[percent]) {
                    stopped[percent] = true;
                    out[percent] = outcome_now(world, GATE_END_STOPPED);
                    complete_stages(fleet, world->stages[world->stage_count - 1].to, &out[percent]);
                }
            }
            struct rule_hawkbit lenient = {.success_percent = success_percent,
                                           .error_percent = 100};
            last = rule_hawkbit_tick(&lenient, &group);
        }
        if (last == RULE_NEXT && world->stage_count < GATE_STAGES) {
            gate_world_open(world, stage_end(fleet, world->stage_count), 0);
        } else {
            finished = last == RULE_NEXT;
        }
    }
    for (uint32_t percent = 0; percent < ERRORS_MAX; percent++) {
        if (!stopped[percent]) {
            out[percent] = outcome_now(world, finished ? GATE_END_COMPLETED : GATE_END_HELD);
            complete_stages(fleet, world->stages[world->stage_count - 1].to, &out[percent]);
        }
    }
}

void gate_play_hawkbit(struct gate_world *world, const struct gate_fleet *fleet,
                       struct gate_outcome out[GATE_HAWKBIT_SETTINGS])
{
    // An action has no timeout of its own: what never reports is running forever.
    struct gate_settings settings = {.timeout_s = GATE_NEVER_S};
    for (uint32_t i = 0; i < SUCCESSES; i++) {
        gate_world_reset(world, fleet, &settings);
        play_hawkbit(world, fleet, success_percents[i], out + i * ERRORS_MAX);
    }
}

// ---- AWS IoT Jobs ----

static const uint32_t aws_minimums[] = {20, 50, 100, 200, 500, 1000, 2000, 5000};
static const uint32_t aws_thresholds[] = {100, 125, 150,  175,  200,  250,  300,  350,  400,  500,
                                          600, 800, 1000, 1250, 1500, 2000, 2500, 3000, 4000, 5000};
#define AWS_THRESHOLDS (sizeof(aws_thresholds) / sizeof(aws_thresholds[0]))
// inProgressTimeoutInMinutes: long enough that slow devices are no failures.
#define AWS_TIMEOUT_S 1800.0f

static const struct rule_aws_rate ramp = {.base_per_minute = 50,
                                          .increment_tenth = 20,
                                          .notified_things = 1000,
                                          .maximum_per_minute = 1000};

void gate_aws_name(uint32_t setting, char out[GATE_SETTING_NAME_MAX])
{
    (void)snprintf(out, GATE_SETTING_NAME_MAX, "ALL, at least %u executed, %.2f %%",
                   aws_minimums[setting / AWS_THRESHOLDS],
                   aws_thresholds[setting % AWS_THRESHOLDS] / 100.0);
}

uint64_t gate_ramp_offers(double *credit, uint64_t offered)
{
    *credit += rule_aws_per_minute(&ramp, offered) * GATE_STEP_S / 60;
    uint64_t offers = (uint64_t)*credit;
    *credit -= (double)offers;
    return offers;
}

static struct rule_executions executions_of(const struct gate_stage_tally *tally)
{
    return (struct rule_executions){.notified = tally->offered,
                                    .succeeded = tally->completed - tally->failed,
                                    .failed = tally->failed,
                                    .timed_out = tally->timed_out};
}

void gate_play_aws(struct gate_world *world, const struct gate_fleet *fleet,
                   struct gate_outcome out[GATE_AWS_SETTINGS])
{
    struct gate_settings settings = {.pushed = true, .timeout_s = AWS_TIMEOUT_S};
    bool stopped[GATE_AWS_SETTINGS] = {false};
    gate_world_reset(world, fleet, &settings);
    gate_world_open(world, fleet->count, 0);
    struct gate_stage_tally *job = &world->stages[0];
    double credit = 0;
    while (world->step + 1 < GATE_STEPS && job->completed < fleet->count * 0.95) {
        gate_world_step(world, gate_ramp_offers(&credit, job->offered));
        struct rule_executions executions = executions_of(job);
        for (uint32_t i = 0; i < GATE_AWS_SETTINGS; i++) {
            struct rule_aws_criterion criterion = {.failure = RULE_AWS_ALL,
                                                   .min_executed = aws_minimums[i / AWS_THRESHOLDS],
                                                   .threshold_hundredth =
                                                       aws_thresholds[i % AWS_THRESHOLDS]};
            if (!stopped[i] && rule_aws_aborts(&criterion, &executions)) {
                stopped[i] = true;
                out[i] = outcome_now(world, GATE_END_STOPPED);
            }
        }
    }
    for (uint32_t i = 0; i < GATE_AWS_SETTINGS; i++) {
        if (!stopped[i]) {
            out[i] = outcome_now(world, GATE_END_COMPLETED);
            complete_stages(fleet, fleet->count, &out[i]);
        }
    }
}

// ---- Argo Rollouts ----

static const uint32_t argo_intervals_s[] = {60, 300};
static const uint32_t argo_counts[] = {5, 10};
static const uint32_t argo_limits[] = {0, 1, 2, 4};
static const double argo_thresholds[] = {0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05,
                                         0.06, 0.08,  0.1,  0.125, 0.15, 0.2,   0.3,  0.5};
#define ARGO_THRESHOLDS (sizeof(argo_thresholds) / sizeof(argo_thresholds[0]))
#define ARGO_LIMITS     (sizeof(argo_limits) / sizeof(argo_limits[0]))
// Of one schedule: windows (the last interval, or since the step began), limits, thresholds.
#define ARGO_GROUP (2 * ARGO_LIMITS * ARGO_THRESHOLDS)

void gate_argo_name(uint32_t setting, char out[GATE_SETTING_NAME_MAX])
{
    uint32_t schedule = setting / ARGO_GROUP;
    uint32_t within = setting % ARGO_GROUP;
    (void)snprintf(
        out, GATE_SETTING_NAME_MAX, "interval %u s, count %u, failureLimit %u, ratio %s <= %.3f",
        argo_intervals_s[schedule / 2], argo_counts[schedule % 2],
        argo_limits[within / ARGO_THRESHOLDS % ARGO_LIMITS],
        within / ARGO_THRESHOLDS / ARGO_LIMITS > 0 ? "since the step began" : "of the interval",
        argo_thresholds[within % ARGO_THRESHOLDS]);
}

struct argo_play {
    struct rule_argo_run runs[ARGO_GROUP];
    bool stopped[ARGO_GROUP];
    uint64_t failed[2]; // at the start of the window: of the interval, of the step
    uint64_t completed[2];
    uint32_t measured;
};

static void argo_measure(struct gate_world *world, struct argo_play *play, uint32_t count,
                         struct gate_outcome *out)
{
    uint64_t failed = 0;
    uint64_t completed = 0;
    for (uint32_t i = 0; i < world->stage_count; i++) {
        failed += world->stages[i].failed;
        completed += world->stages[i].completed;
    }
    for (uint32_t i = 0; i < ARGO_GROUP; i++) {
        uint32_t window = i / ARGO_THRESHOLDS / ARGO_LIMITS;
        double threshold = argo_thresholds[i % ARGO_THRESHOLDS];
        struct rule_argo rule = {.count = count,
                                 .failure_limit = argo_limits[i / ARGO_THRESHOLDS % ARGO_LIMITS],
                                 .consecutive_error_limit = 4,
                                 .success_at_most = threshold,
                                 .failure_above = threshold};
        enum rule_argo_phase phase =
            rule_argo_measure(&rule, &play->runs[i], failed - play->failed[window],
                              completed - play->completed[window]);
        bool stop = phase == RULE_ARGO_FAILED || phase == RULE_ARGO_ERROR;
        if (stop && !play->stopped[i]) {
            play->stopped[i] = true;
            out[i] = outcome_now(world, GATE_END_STOPPED);
        }
    }
    play->failed[0] = failed;
    play->completed[0] = completed;
    play->measured++;
}

static void play_argo(struct gate_world *world, const struct gate_fleet *fleet, uint32_t interval_s,
                      uint32_t count, struct gate_outcome out[ARGO_GROUP])
{
    static struct argo_play play;
    play = (struct argo_play){.measured = 0};
    gate_world_open(world, stage_end(fleet, 0), 0);
    // After the analysis of the last step but one everybody gets it: there is no further analysis.
    while (world->stage_count < GATE_STAGES && world->step + 1 < GATE_STEPS) {
        gate_world_step(world, UINT64_MAX);
        if (world->step % (interval_s / GATE_STEP_S) != 0) {
            continue;
        }
        argo_measure(world, &play, count, out);
        if (play.measured == count) {
            play.measured = 0;
            for (uint32_t i = 0; i < ARGO_GROUP; i++) {
                play.runs[i] = (struct rule_argo_run){.measured = 0};
            }
            play.failed[1] = play.failed[0];
            play.completed[1] = play.completed[0];
            gate_world_open(world, stage_end(fleet, world->stage_count), 0);
        }
    }
    for (uint32_t i = 0; i < ARGO_GROUP; i++) {
        if (!play.stopped[i]) {
            out[i] = outcome_now(world, GATE_END_COMPLETED);
            complete_stages(fleet, fleet->count, &out[i]);
        }
    }
}

void gate_play_argo(struct gate_world *world, const struct gate_fleet *fleet,
                    struct gate_outcome out[GATE_ARGO_SETTINGS])
{
    struct gate_settings settings = {.timeout_s = GATE_NEVER_S};
    for (uint32_t schedule = 0; schedule < 4; schedule++) {
        gate_world_reset(world, fleet, &settings);
        play_argo(world, fleet, argo_intervals_s[schedule / 2], argo_counts[schedule % 2],
                  out + schedule * ARGO_GROUP);
    }
}
