// Reasons: every answer of the policy module carries one, so that every decision can be explained
// afterwards.
#ifndef POL_REASON_H
#define POL_REASON_H

// X(name, text)
#define POL_REASON_MAP(X)                                                                          \
    X(NONE, "no reason")                                                                           \
    X(MATCHED, "all conditions hold")                                                              \
    X(NO_CONDITIONS, "no conditions: everybody matches")                                           \
    X(ATTRIBUTE_MISSING, "the device does not have the attribute")                                 \
    X(TYPE_MISMATCH, "attribute and operand have different types")                                 \
    X(CONDITION_FALSE, "a condition does not hold")                                                \
    X(TOO_MANY_CONDITIONS, "more conditions than the limit")                                       \
    X(NO_OPERAND, "a condition lacks its operand")                                                 \
    X(BAD_OPERATOR, "operator not defined for this type")                                          \
    X(EXPR_FALSE, "the target's expression is false")                                              \
    X(EXPR_UNKNOWN, "the target's expression asks for what is not known")                          \
    X(IN_STAGE, "inside an open stage")                                                            \
    X(OUTSIDE_BUCKET, "bucket beyond the open stages")                                             \
    X(OUTSIDE_AUDIENCE, "not in the audience of an open stage")                                    \
    X(NOT_TARGETED, "rollout does not target this device")                                         \
    X(ROLLOUT_NOT_STARTED, "rollout has not started")                                              \
    X(ROLLOUT_PAUSED, "rollout is paused: no new offers")                                          \
    X(ROLLOUT_ROLLED_BACK, "rollout was rolled back")                                              \
    X(DWELL_NOT_REACHED, "stage has not dwelt long enough")                                        \
    X(SAMPLE_TOO_SMALL, "too few devices completed for a verdict")                                 \
    X(NO_COMPLETIONS, "no device completed yet")                                                   \
    X(FAILURES_OVER_LIMIT, "failure ratio over the gate")                                          \
    X(FAILURES_WITHIN_LIMIT, "failure ratio within the gate")                                      \
    X(SIMULATION_PENDING, "simulation has not reported")                                           \
    X(LAST_STAGE_PASSED, "the last stage passed")                                                  \
    X(OPERATOR, "an operator asked for it")                                                        \
    X(WRONG_STATE, "command not allowed in this state")                                            \
    X(STAGE_FAILED, "the stage failed: resume needs accepted risk")                                \
    X(ROLLBACK_COMPLETE, "all that could be reached are off it, or kept by another rollout")       \
    X(ROLLBACK_RUNNING, "devices still have to go back")                                           \
    X(NO_DATA_TOO_LONG, "no device completed for too long: somebody must look")                    \
    X(RISE_OVER_CONTROL, "failures rose over control by more than the gate allows")                \
    X(SILENT_OVER_CONTROL, "more devices fell silent than in control")                             \
    X(EVIDENCE_OPEN, "the evidence decides neither way yet")                                       \
    X(EVIDENCE_GOOD, "shown to be within the gate's limits")                                       \
    X(APPROVAL_PENDING, "the next stage waits for approval by another person")                     \
    X(KILLED, "the version was killed")                                                            \
    X(STAGES_INVALID, "stages are empty, too many, or shrink")                                     \
    X(NO_PROVEN, "no device that proved itself completed: enrol them, or trust unproven ones")     \
    X(UNDER_WAY, "too few devices have had their whole time to answer")                            \
    X(TOO_FEW_ANSWERED, "too few of the devices that had their time have answered")                \
    X(STAGE_PASSED, "the stage passed and waits: promote goes on")                                 \
    X(GUARDING, "the last stage passed: devices that answer late are judged still")                \
    X(GUARD_OVER, "the guard is over")                                                             \
    X(NOBODY_OUTSTANDING, "every targeted device has answered, or had its time")                   \
    X(STARTED, "an operator started it")                                                           \
    X(PAUSED, "an operator paused it")                                                             \
    X(RESUMED, "an operator resumed it")                                                           \
    X(RISK_ACCEPTED, "an operator went on past a failed stage")                                    \
    X(PROMOTED, "an operator promoted it")                                                         \
    X(ABORTED, "an operator aborted it")                                                           \
    X(APPROVED, "another person approved it")                                                      \
    X(UNDONE, "an operator took it back")

enum pol_reason {
#define POL_REASON_ENUM(name, text) POL_REASON_##name,
    POL_REASON_MAP(POL_REASON_ENUM)
#undef POL_REASON_ENUM
        POL_REASON_COUNT
};

// Static text and static lower-case name ("dwell_not_reached"), never NULL.
const char *pol_reason_text(enum pol_reason reason);
const char *pol_reason_name(enum pol_reason reason);

#endif
