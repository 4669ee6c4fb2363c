// What may happen in the model's world: operators' calls, devices' doings, failures, time. One
// operation is a name and a few numbers, so a sequence is a text of one line each, which is how one
// that failed is printed and played again. Rollouts are named by a label that the sequence gives
// them: taking other operations out changes nothing about what a label means.
#ifndef MODEL_OP_H
#define MODEL_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MODEL_ARGS_MAX 14
#define MODEL_LINE_MAX 256

// X(NAME, text, names of its arguments)
#define MODEL_OP_MAP(X)                                                                            \
    X(WORLD, "world", "seed devices rooted signer lease")                                          \
    X(CREATE, "create",                                                                            \
      "rollout task version priority target arm ladder window approval floor trust gate pace "     \
      "guard")                                                                                     \
    X(START, "start", "rollout")                                                                   \
    X(PAUSE, "pause", "rollout")                                                                   \
    X(RESUME, "resume", "rollout")                                                                 \
    X(PROMOTE, "promote", "rollout")                                                               \
    X(APPROVE, "approve", "rollout")                                                               \
    X(ABORT, "abort", "rollout")                                                                   \
    X(UNDO, "undo", "rollout")                                                                     \
    X(KILL, "kill", "rollout")                                                                     \
    X(KILL_VERSION, "kill_version", "task version")                                                \
    X(UNKILL, "unkill", "task version")                                                            \
    X(SIMULATED, "simulated", "rollout failed evidence")                                           \
    X(ROTATE, "rotate", "root online")                                                             \
    X(LIFT, "lift", "rollout os")                                                                  \
    X(PREVIEW, "preview", "rollout")                                                               \
    X(VISIT, "visit", "device")                                                                    \
    X(ROUND, "round", "")                                                                          \
    X(ATTRS, "attrs", "device os ring beta")                                                       \
    X(CRASH, "crash", "device calls")                                                              \
    X(REBOOT, "reboot", "device")                                                                  \
    X(AWAY, "away", "device on")                                                                   \
    X(FAILS, "fails", "device task version on")                                                    \
    X(FAILS_OS, "fails_os", "os task version on")                                                  \
    X(CLOCK, "clock", "device seconds")                                                            \
    X(CUT, "cut", "device exchanges lost")                                                         \
    X(SAVE, "save", "device")                                                                      \
    X(RETURN, "return", "device")                                                                  \
    X(SLEEP, "sleep", "seconds")                                                                   \
    X(GATEWAY_KILL, "gateway_kill", "")                                                            \
    X(GATEWAY_DIES, "gateway_dies", "commit")                                                      \
    X(BACKUP, "backup", "")                                                                        \
    X(RESTORE, "restore", "")                                                                      \
    X(CHECK, "check", "")                                                                          \
    X(EXPECT, "expect", "device task version rule")                                                \
    X(STANDS, "stands", "rollout state")

enum model_op_kind {
#define MODEL_OP_ENUM(name, text, args) MODEL_OP_##name,
    MODEL_OP_MAP(MODEL_OP_ENUM)
#undef MODEL_OP_ENUM
        MODEL_OP_COUNT
};

struct model_op {
    enum model_op_kind kind;
    int64_t args[MODEL_ARGS_MAX];
};

struct model_ops {
    struct model_op *items; // heap
    uint32_t count;
    uint32_t capacity;
};

void model_ops_add(struct model_ops *ops, const struct model_op *op); // aborts without memory
void model_ops_done(struct model_ops *ops);
// "promote rollout=3"; `out` holds MODEL_LINE_MAX.
void model_op_print(const struct model_op *op, char *out);
// False: the line is none; *out_why says why (static). Arguments that are left out are 0.
bool model_op_parse(const char *line, struct model_op *out, const char **out_why);
// Lines, without those that are empty or begin with '#'. False: `why` has the line and what is
// wrong.
bool model_ops_parse(const char *text, struct model_ops *out, char *why, size_t capacity);
bool model_ops_read(FILE *file, struct model_ops *out, char *why, size_t capacity);
void model_ops_write(FILE *file, const struct model_ops *ops);

#endif
