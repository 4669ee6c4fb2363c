// Our implementation of the documented rules of hawkBit, AWS IoT Jobs and Argo Rollouts.
//
// Called by gate_play.c for every simulated rollout, and by its unit test. Pure.
#include "gate_rules.h"

enum rule_move rule_hawkbit_tick(const struct rule_hawkbit *rule, const struct rule_group *group)
{
    if (group->error * 100 > group->total * rule->error_percent) {
        return RULE_STOP;
    }
    bool succeeded = group->finished * 100 >= group->total * rule->success_percent;
    bool terminal = group->finished + group->error >= group->total;
    return succeeded || terminal ? RULE_NEXT : RULE_WAIT;
}

bool rule_aws_aborts(const struct rule_aws_criterion *criterion,
                     const struct rule_executions *executions)
{
    uint64_t unhappy[] = {
        [RULE_AWS_FAILED] = executions->failed,
        [RULE_AWS_REJECTED] = executions->rejected,
        [RULE_AWS_TIMED_OUT] = executions->timed_out,
        [RULE_AWS_ALL] = executions->failed + executions->rejected + executions->timed_out,
    };
    uint64_t executed = executions->succeeded + unhappy[RULE_AWS_ALL];
    return executed >= criterion->min_executed && executed > 0 &&
           unhappy[criterion->failure] * 10000 >= executed * criterion->threshold_hundredth;
}

double rule_aws_per_minute(const struct rule_aws_rate *rate, uint64_t notified)
{
    double per_minute = rate->base_per_minute;
    uint64_t steps = rate->notified_things > 0 ? notified / rate->notified_things : 0;
    for (uint64_t i = 0; i < steps && per_minute < rate->maximum_per_minute; i++) {
        double grown = per_minute * rate->increment_tenth / 10;
        if (grown <= per_minute) {
            break;
        }
        per_minute = grown;
    }
    return per_minute < rate->maximum_per_minute ? per_minute : rate->maximum_per_minute;
}

enum rule_argo_phase rule_argo_measure(const struct rule_argo *rule, struct rule_argo_run *run,
                                       uint64_t failed, uint64_t completed)
{
    run->measured++;
    if (completed == 0) {
        run->consecutive_errors++;
    } else {
        double result = (double)failed / (double)completed;
        run->consecutive_errors = 0;
        run->failed += result > rule->failure_above;
        run->inconclusive += result > rule->success_at_most && result <= rule->failure_above;
    }
    if (run->failed > rule->failure_limit) {
        return RULE_ARGO_FAILED;
    }
    if (run->inconclusive > rule->inconclusive_limit) {
        return RULE_ARGO_INCONCLUSIVE;
    }
    if (run->consecutive_errors > rule->consecutive_error_limit) {
        return RULE_ARGO_ERROR;
    }
    return run->measured >= rule->count ? RULE_ARGO_SUCCESSFUL : RULE_ARGO_RUNNING;
}
