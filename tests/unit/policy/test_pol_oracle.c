// The rollout machine against a second, independent description of it: a list of promises that are
// checked on long random lives, and a naive machine that keeps its stages as a set.
#include "test_kit.h"

#include "policy/replay.h"

// What the naive machine knows. Stages are open or not, instead of counted by an index.
struct naive {
    bool begun;
    bool halted;
    bool going_back;
    bool gone_back;
    bool finished;
    bool failed;
    bool waits;
    bool killed;
    bool guards; // the last stage is over
    bool passed; // a stage that passed stopped there
    uint64_t guards_since;
    bool open[POL_STAGES_MAX];
    uint64_t since[POL_STAGES_MAX];
};

static uint32_t newest(const struct naive *naive)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < POL_STAGES_MAX; i++) {
        at = naive->open[i] ? i : at;
    }
    return at;
}

static enum pol_rollout_state state_of(const struct naive *naive)
{
    if (naive->gone_back) {
        return POL_ROLLOUT_ROLLED_BACK;
    }
    if (naive->going_back) {
        return POL_ROLLOUT_ROLLING_BACK;
    }
    if (naive->finished) {
        return POL_ROLLOUT_COMPLETED;
    }
    if (naive->halted) {
        return POL_ROLLOUT_PAUSED;
    }
    if (naive->waits) {
        return POL_ROLLOUT_WAITING;
    }
    if (naive->guards) {
        return POL_ROLLOUT_GUARDING;
    }
    return naive->begun ? POL_ROLLOUT_RUNNING : POL_ROLLOUT_DRAFT;
}

// The verdict in floating point of 64 bits of fraction; draws are small enough for it to be exact.
static enum pol_verdict judge(const struct pol_gate *gate, const struct pol_counts *counts,
                              uint64_t age_us)
{
    long double bad = (long double)counts->failed + (long double)counts->timed_out;
    long double all = bad + (long double)counts->succeeded;
    if (all < 1) {
        return POL_VERDICT_NO_DATA;
    }
    long double sample = (long double)gate->min_sample;
    long double judged = all > sample ? all : sample;
    if (bad * 1e6L > judged * (long double)gate->max_failure_ppm) {
        return POL_VERDICT_FAIL;
    }
    long double answered = all - (long double)counts->timed_out;
    long double offered = all + (long double)counts->under_way;
    bool heard = answered * 1e6L >= offered * (long double)gate->min_answered_ppm;
    bool enough = heard && all >= sample && age_us >= gate->min_dwell_us;
    return enough ? POL_VERDICT_PASS : POL_VERDICT_INCONCLUSIVE;
}

static bool any_open(const struct naive *naive)
{
    bool any = false;
    for (uint32_t i = 0; i < POL_STAGES_MAX; i++) {
        any = any || naive->open[i];
    }
    return any;
}

static void widen(struct naive *naive, const struct pol_stage *stages, uint32_t count,
                  uint64_t now_us, bool approved)
{
    uint32_t next = any_open(naive) ? newest(naive) + 1 : 0;
    bool guard = stages[count - 1].guard_s > 0 && !naive->failed && !naive->guards;
    naive->failed = false;
    naive->halted = false;
    naive->waits = false;
    naive->passed = false;
    if (next == count && guard) {
        naive->guards = true;
        naive->guards_since = now_us;
    } else if (next == count) {
        naive->finished = true;
        naive->guards = false;
    } else if (stages[next].approval && !approved) {
        naive->waits = true;
    } else {
        naive->open[next] = true;
        naive->since[next] = now_us;
    }
}

// When what is judged began.
static uint64_t since_of(const struct naive *naive)
{
    return naive->guards_since != 0 ? naive->guards_since : naive->since[newest(naive)];
}

static void naive_tick(struct naive *naive, const struct pol_stage *stages, uint32_t count,
                       const struct pol_counts *counts, uint64_t now_us)
{
    enum pol_rollout_state state = state_of(naive);
    if (state == POL_ROLLOUT_ROLLING_BACK) {
        naive->gone_back = counts->to_roll_back == 0;
        return;
    }
    bool waits = state == POL_ROLLOUT_WAITING && any_open(naive);
    bool guards = state == POL_ROLLOUT_GUARDING;
    if (state != POL_ROLLOUT_RUNNING && state != POL_ROLLOUT_PAUSED && !waits && !guards) {
        return;
    }
    uint32_t at = newest(naive);
    uint64_t since = since_of(naive);
    uint64_t age_us = now_us < since ? 0 : now_us - since;
    enum pol_verdict verdict = judge(&stages[at].gate, counts, age_us);
    if (verdict == POL_VERDICT_FAIL && !naive->failed) {
        bool alone = state != POL_ROLLOUT_PAUSED || naive->passed;
        naive->failed = true;
        naive->passed = false;
        naive->halted = naive->halted || (alone && stages[at].on_fail == POL_ON_FAIL_HOLD);
        naive->waits = naive->waits && !naive->halted;
        naive->going_back = alone && stages[at].on_fail == POL_ON_FAIL_ROLL_BACK;
    } else if (verdict == POL_VERDICT_PASS && state == POL_ROLLOUT_RUNNING) {
        naive->passed = stages[at].on_pass == POL_ON_PASS_PAUSE;
        naive->halted = naive->passed;
        if (!naive->passed) {
            widen(naive, stages, count, now_us, false);
        }
    } else if (guards &&
               (counts->outstanding == 0 || age_us >= stages[at].guard_s * UINT64_C(1000000))) {
        naive->guards = false;
        naive->finished = true;
    }
}

static bool naive_command(struct naive *naive, const struct pol_stage *stages, uint32_t count,
                          enum pol_command command, uint64_t now_us)
{
    enum pol_rollout_state state = state_of(naive);
    bool running = state == POL_ROLLOUT_RUNNING;
    bool paused = state == POL_ROLLOUT_PAUSED;
    bool draft = state == POL_ROLLOUT_DRAFT;
    bool waiting = state == POL_ROLLOUT_WAITING;
    bool guarding = state == POL_ROLLOUT_GUARDING;
    bool under_way = draft || running || paused || waiting || guarding;
    bool allowed = false;
    switch (command) {
    case POL_COMMAND_START:
        if (draft) {
            naive->begun = true;
            widen(naive, stages, count, now_us, false);
        }
        return draft;
    case POL_COMMAND_PAUSE:
        allowed = running || guarding || (waiting && any_open(naive));
        naive->halted = naive->halted || allowed;
        naive->waits = naive->waits && !allowed;
        return allowed;
    case POL_COMMAND_RESUME:
        allowed = paused && !naive->failed && !naive->passed;
        naive->halted = naive->halted && !allowed;
        return allowed;
    case POL_COMMAND_RESUME_ACCEPT_RISK:
        allowed = paused && !naive->passed;
        if (allowed && naive->failed) {
            widen(naive, stages, count, now_us, false);
        } else if (allowed) {
            naive->halted = false;
        }
        return allowed;
    case POL_COMMAND_PROMOTE:
        if ((running || guarding || (paused && naive->passed)) && !naive->failed) {
            widen(naive, stages, count, now_us, false);
            return true;
        }
        return false;
    case POL_COMMAND_APPROVE:
        if (waiting) {
            widen(naive, stages, count, now_us, true);
        }
        return waiting;
    case POL_COMMAND_UNDO:
        allowed = state == POL_ROLLOUT_COMPLETED || guarding;
        naive->going_back = naive->going_back || allowed;
        return allowed;
    case POL_COMMAND_KILL:
        allowed = !naive->killed;
        naive->killed = true;
        naive->going_back = naive->going_back || allowed;
        return allowed;
    default:
        naive->going_back = naive->going_back || under_way;
        return under_way;
    }
}

// A healthy life is one that mostly fails nothing, so that some reach their end.
static struct pol_counts draw_counts(struct base_prng *prng, bool good_life)
{
    uint64_t scale = 1 + base_prng_below(prng, 300);
    bool healthy = base_prng_below(prng, good_life ? 300 : 4) != 0;
    return (struct pol_counts){
        .offered = base_prng_below(prng, 1000),
        .succeeded = base_prng_below(prng, scale),
        .failed = healthy ? scale / 300 : base_prng_below(prng, scale),
        .timed_out = healthy ? 0 : base_prng_below(prng, scale),
        .not_applicable = base_prng_below(prng, 1000),
        .to_roll_back = base_prng_below(prng, 3),
        .under_way = base_prng_below(prng, 3) == 0 ? base_prng_below(prng, scale) : 0,
        .outstanding = base_prng_below(prng, 4),
    };
}

static uint32_t draw_stages(struct base_prng *prng, struct pol_stage *stages)
{
    uint32_t count =
        1 + (uint32_t)base_prng_below(prng, base_prng_below(prng, 4) == 0 ? POL_STAGES_MAX : 5);
    for (uint32_t i = 0; i < count; i++) {
        stages[i] = (struct pol_stage){
            .kind = i + 1 == count ? POL_STAGE_FULL : POL_STAGE_GRAY,
            .max_bucket = (uint16_t)(i + 1 == count ? 10000 : 10 * (i + 1)),
            .gate = {.min_sample = (uint32_t)base_prng_below(prng, 60),
                     .max_failure_ppm = (uint32_t)base_prng_below(prng, 200000),
                     .min_dwell_us = base_prng_below(prng, 2000),
                     .min_answered_ppm =
                         (uint32_t)(base_prng_below(prng, 2) * base_prng_below(prng, 1000001))},
            .approval = base_prng_below(prng, 6) == 0,
            .guard_s = i + 1 == count ? (uint32_t)base_prng_below(prng, 3) : 0,
            .on_fail = (enum pol_on_fail)(base_prng_below(prng, 4) == 0),
            .on_pass = (enum pol_on_pass)(base_prng_below(prng, 8) == 0),
        };
    }
    assert_int_equal(pol_stages_check(stages, count), POL_REASON_MATCHED);
    return count;
}

static void compare(const struct naive *naive, const struct pol_decision *decision, uint64_t step)
{
    const struct pol_rollout *next = &decision->next;
    bool started = naive->begun;
    if (next->state != state_of(naive) || next->stage_failed != naive->failed ||
        next->killed != naive->killed || (started && next->stage_index != newest(naive)) ||
        (started && next->stage_since_us != since_of(naive))) {
        fail_msg("step %llu: %s stage %u failed %d after %s (%s); wanted %s stage %u failed %d",
                 (unsigned long long)step, pol_rollout_state_name(next->state), next->stage_index,
                 next->stage_failed, pol_action_name(decision->action),
                 pol_reason_name(decision->reason), pol_rollout_state_name(state_of(naive)),
                 newest(naive), naive->failed);
    }
}

// What no decision may ever do, whatever it is told.
static void promises(const struct pol_rollout *before, const struct pol_decision *decision,
                     bool commanded)
{
    const struct pol_rollout *next = &decision->next;
    bool changed = !pol_rollout_equal(before, next);
    bool idle = decision->action == POL_ACTION_HOLD || decision->action == POL_ACTION_REFUSE;
    assert_int_equal(changed, !idle);
    assert_true(decision->reason != POL_REASON_NONE);
    assert_true(next->stage_index == before->stage_index ||
                next->stage_index == before->stage_index + 1);
    if (next->stage_index > before->stage_index && !commanded) {
        assert_int_equal(decision->verdict, POL_VERDICT_PASS); // only PASS advances
    }
    bool ended = before->state == POL_ROLLOUT_ROLLED_BACK || before->state == POL_ROLLOUT_COMPLETED;
    assert_false(ended && changed && !commanded);
    assert_false(before->killed && !next->killed); // for good
    if (before->state == POL_ROLLOUT_ROLLING_BACK) {
        assert_true(next->state == POL_ROLLOUT_ROLLING_BACK ||
                    next->state == POL_ROLLOUT_ROLLED_BACK);
    }
}

static void machines_agree(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    unsigned ends[POL_ROLLOUT_STATE_COUNT] = {0};
    for (unsigned life = 0; life < 4000; life++) {
        struct pol_stage stages[POL_STAGES_MAX];
        uint32_t count = draw_stages(&prng, stages);
        struct pol_rollout rollout = {.state = POL_ROLLOUT_DRAFT};
        struct naive naive;
        memset(&naive, 0, sizeof naive);
        uint64_t now_us = base_prng_below(&prng, 1000);
        for (unsigned step = 0; step < 120; step++) {
            // Time mostly goes forward.
            uint64_t jump = base_prng_below(&prng, 500) * (life % 5 == 0 ? 2000 : 1);
            now_us =
                base_prng_below(&prng, 20) == 0 && now_us > jump ? now_us - jump : now_us + jump;
            struct pol_decision decision;
            bool commanded = base_prng_below(&prng, 6) == 0;
            if (commanded) {
                enum pol_command command =
                    (enum pol_command)base_prng_below(&prng, POL_COMMAND_COUNT);
                bool final = command == POL_COMMAND_ABORT || command == POL_COMMAND_KILL ||
                             command == POL_COMMAND_UNDO;
                if (final && base_prng_below(&prng, 12) != 0) {
                    command = base_prng_below(&prng, 2) == 0
                                  ? POL_COMMAND_START
                                  : POL_COMMAND_APPROVE; // else few lives would get far
                }
                decision = pol_rollout_command(&rollout, stages, count, command, now_us);
                bool done = naive_command(&naive, stages, count, command, now_us);
                assert_int_equal(done, decision.action != POL_ACTION_REFUSE);
            } else {
                struct pol_counts counts = draw_counts(&prng, life % 2 == 0);
                decision = pol_rollout_tick(&rollout, stages, count, &counts, now_us);
                struct pol_decision again =
                    pol_rollout_tick(&rollout, stages, count, &counts, now_us);
                assert_int_equal(decision.action, again.action);
                assert_int_equal(decision.reason, again.reason);
                naive_tick(&naive, stages, count, &counts, now_us);
            }
            promises(&rollout, &decision, commanded);
            compare(&naive, &decision, step);
            rollout = decision.next;
        }
        ends[rollout.state]++;
    }
    // The lives were varied enough to mean something.
    for (unsigned i = 0; i < POL_ROLLOUT_STATE_COUNT; i++) {
        printf("%s %u\n", pol_rollout_state_name((enum pol_rollout_state)i), ends[i]);
    }
    assert_true(ends[POL_ROLLOUT_ROLLED_BACK] > 100 && ends[POL_ROLLOUT_COMPLETED] > 100);
    assert_true(ends[POL_ROLLOUT_GUARDING] > 10 && ends[POL_ROLLOUT_PAUSED] > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
