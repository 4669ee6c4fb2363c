// Rules by which other systems decide about a staged update, as their documentation states them:
// our implementation of their documented rule, for the comparison of gates. Pure; counts in, a
// decision out. Nothing here is used by the product.
//
//   hawkBit        groups with a success and an error condition in percent of the group
//   AWS IoT Jobs   abortConfig over completed executions, exponential rollout rate
//   Argo Rollouts  an AnalysisRun after each setWeight step
#ifndef GATE_RULES_H
#define GATE_RULES_H

#include <stdbool.h>
#include <stdint.h>

// ---- hawkBit

enum rule_move { RULE_WAIT, RULE_NEXT, RULE_STOP };

struct rule_hawkbit {
    uint32_t success_percent; // of the group's size finished: the next group starts
    uint32_t error_percent;   // of the group's size, strictly more: the rollout pauses
};

struct rule_group {
    uint64_t total; // targets of the group, fixed at creation
    uint64_t finished;
    uint64_t error;
};

// One evaluation of one group. The error condition comes first; a group whose actions are all
// terminal executes the success action whatever the success threshold says; so does an empty one.
enum rule_move rule_hawkbit_tick(const struct rule_hawkbit *rule, const struct rule_group *group);

// ---- AWS IoT Jobs

enum rule_aws_failure { RULE_AWS_FAILED, RULE_AWS_REJECTED, RULE_AWS_TIMED_OUT, RULE_AWS_ALL };

struct rule_aws_criterion {
    enum rule_aws_failure failure;
    uint32_t min_executed;        // not looked at until so many executions completed
    uint32_t threshold_hundredth; // percent of completed executions, in hundredths
};

struct rule_aws_rate {
    uint32_t base_per_minute; // 1..1000
    uint32_t increment_tenth; // 10..50: factor 1.0 to 5.0
    uint64_t notified_things; // the rate grows each time so many more were notified
    uint32_t maximum_per_minute;
};

struct rule_executions {
    uint64_t notified;
    uint64_t succeeded;
    uint64_t failed;
    uint64_t rejected;
    uint64_t timed_out;
};

// Whether a criterion cancels the job: at least the threshold of completed executions failed so.
bool rule_aws_aborts(const struct rule_aws_criterion *criterion,
                     const struct rule_executions *executions);
double rule_aws_per_minute(const struct rule_aws_rate *rate, uint64_t notified);

// ---- Argo Rollouts

struct rule_argo {
    uint32_t count; // measurements of a step
    uint32_t failure_limit;
    uint32_t inconclusive_limit;
    uint32_t consecutive_error_limit; // 4 unless said otherwise
    double success_at_most;           // successCondition: result <= this
    double failure_above; // failureCondition: result > this; between the two: inconclusive
};

enum rule_argo_phase {
    RULE_ARGO_RUNNING,
    RULE_ARGO_SUCCESSFUL,
    RULE_ARGO_FAILED,
    RULE_ARGO_INCONCLUSIVE, // pauses the rollout
    RULE_ARGO_ERROR
};

struct rule_argo_run {
    uint32_t measured;
    uint32_t failed;
    uint32_t inconclusive;
    uint32_t consecutive_errors;
};

// Takes a measurement: the failure ratio of `completed`; without completions it is an error.
enum rule_argo_phase rule_argo_measure(const struct rule_argo *rule, struct rule_argo_run *run,
                                       uint64_t failed, uint64_t completed);

#endif
