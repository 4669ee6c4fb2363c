// What is drawn, and how often. One thread.
#include "model_draw.h"

#define DAY_S       86400
#define FAILING_MAX 3 // versions of a task on a device

struct weight {
    enum model_op_kind kind;
    uint32_t parts;
};

static const struct weight weights[] = {
    {MODEL_OP_CREATE, 14},      {MODEL_OP_START, 12},       {MODEL_OP_PAUSE, 5},
    {MODEL_OP_RESUME, 5},       {MODEL_OP_PROMOTE, 16},     {MODEL_OP_APPROVE, 4},
    {MODEL_OP_ABORT, 5},        {MODEL_OP_UNDO, 3},         {MODEL_OP_KILL, 1},
    {MODEL_OP_KILL_VERSION, 1}, {MODEL_OP_VISIT, 14},       {MODEL_OP_ROUND, 4},
    {MODEL_OP_ATTRS, 4},        {MODEL_OP_CRASH, 6},        {MODEL_OP_REBOOT, 2},
    {MODEL_OP_AWAY, 3},         {MODEL_OP_FAILS, 3},        {MODEL_OP_CUT, 3},
    {MODEL_OP_SAVE, 1},         {MODEL_OP_RETURN, 1},       {MODEL_OP_SLEEP, 4},
    {MODEL_OP_GATEWAY_KILL, 2}, {MODEL_OP_GATEWAY_DIES, 2}, {MODEL_OP_BACKUP, 1},
    {MODEL_OP_RESTORE, 1},      {MODEL_OP_CHECK, 10},       {MODEL_OP_UNKILL, 2},
    {MODEL_OP_LIFT, 2},         {MODEL_OP_PREVIEW, 3},      {MODEL_OP_FAILS_OS, 2},
    {MODEL_OP_CLOCK, 3},        {MODEL_OP_ROTATE, 1},       {MODEL_OP_SIMULATED, 4},
};
#define WEIGHTS (sizeof(weights) / sizeof(weights[0]))

static int64_t below(struct model_draw *draw, uint32_t bound)
{
    return (int64_t)base_prng_below(&draw->prng, bound);
}

// True once in `of`.
static bool once_in(struct model_draw *draw, uint32_t of)
{
    return below(draw, of) == 0;
}

void model_draw_world(struct model_draw *draw, uint64_t seed, uint32_t devices,
                      struct model_op *out)
{
    *draw = (struct model_draw){0};
    base_prng_seed(&draw->prng, seed);
    int64_t signer = once_in(draw, 3) ? 0 : 1;
    int64_t lease_s = once_in(draw, 3) ? 3600 : 0;
    draw->restores = once_in(draw, 4);
    draw->device_lives = once_in(draw, 3);
    draw->gates = !draw->restores && once_in(draw, 3);
    draw->roots = signer != 0 && once_in(draw, 3);
    draw->clocks = once_in(draw, 4);
    draw->guards = once_in(draw, 3);
    *out = (struct model_op){MODEL_OP_WORLD,
                             {(int64_t)(seed & INT32_MAX), (int64_t)devices, below(draw, 5), signer,
                              signer != 0 ? lease_s : 0}};
}

static void draw_create(struct model_draw *draw, struct model_op *out)
{
    int64_t *args = out->args;
    args[0] = draw->label++;
    args[1] = below(draw, 10) < 6 ? 0 : below(draw, MODEL_TASKS);
    args[2] = below(draw, MODEL_VERSIONS);
    args[3] = once_in(draw, 3) ? 1 + below(draw, 2) * 9 : 0;
    args[4] = once_in(draw, 2) ? below(draw, MODEL_TARGETS) : 0;
    args[5] = once_in(draw, 5) ? below(draw, MODEL_ARMS) : 0;
    args[6] = below(draw, MODEL_LADDERS);
    args[7] = once_in(draw, 10) ? 1 : 0;
    args[8] = once_in(draw, 8) ? below(draw, 8) : 0;
    args[9] = once_in(draw, 3) ? 1 + below(draw, 2) : 0;
    args[10] = once_in(draw, 2) ? 1 : 0;
    args[11] = draw->gates && once_in(draw, 2) ? 1 + below(draw, 2) : 0;
    args[12] = once_in(draw, 8) ? below(draw, MODEL_PACE_COUNT) : 0;
    args[13] = draw->guards && once_in(draw, 2) ? 1 + below(draw, MODEL_GUARDS - 1) : 0;
}

// A version that fails on a device, or fails there no more. So few of a task that behind them there
// is a baseline left that is looked at.
static int64_t draw_failing(struct model_draw *draw, uint32_t failed)
{
    int64_t version = below(draw, MODEL_VERSIONS);
    while (__builtin_popcount(failed) >= FAILING_MAX && (failed >> version & 1) == 0) {
        version = (version + 1) % MODEL_VERSIONS;
    }
    return version;
}

// A rollout that may be commanded so; seldom any.
static int64_t draw_rollout(struct model_draw *draw, const struct model_record *record,
                            enum pol_command command)
{
    uint32_t fits[MODEL_ROLLOUTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < draw->label; i++) {
        if (model_command_allowed(record, i, command)) {
            fits[count++] = i;
        }
    }
    return count == 0 || once_in(draw, 20) ? below(draw, draw->label + 1)
                                           : (int64_t)fits[below(draw, count)];
}

// Seconds: right, behind by anything, or ahead by what a timestamp bears, and seldom by more.
static int64_t draw_skew(struct model_draw *draw)
{
    switch (below(draw, 4)) {
    case 0:
        return -below(draw, 400 * DAY_S);
    case 1:
        return below(draw, DAY_S / 2);
    case 2:
        return once_in(draw, 4) ? below(draw, 30 * DAY_S) : -below(draw, DAY_S);
    default:
        return 0;
    }
}

// A rollout with something in quarantine; seldom any.
static void draw_lift(struct model_draw *draw, const struct model_record *record,
                      struct model_op *out)
{
    out->args[0] = below(draw, draw->label + 1);
    out->args[1] = below(draw, 3);
    for (uint32_t i = 0; i < draw->label; i++) {
        for (int os = 0; os < 3; os++) {
            if ((record->rollouts[i].held >> os & 1) != 0) {
                out->args[0] = i;
                out->args[1] = os;
            }
        }
    }
}

// A rollout that waits for the result of its simulation, if there is one.
static void draw_simulated(struct model_draw *draw, const struct model_record *record,
                           struct model_op *out)
{
    for (uint32_t i = 0; i < draw->label; i++) {
        const struct model_rollout *rollout = &record->rollouts[i];
        bool at = rollout->there && rollout->state == POL_ROLLOUT_RUNNING &&
                  model_ladder(rollout->ladder)->stages[rollout->stage].kind == POL_STAGE_SIMULATE;
        if (at && !rollout->simulated) {
            out->args[0] = i;
        }
    }
    out->args[1] = once_in(draw, 4) ? 1 : 0;
    out->args[2] = record->root_version > 0 ? below(draw, MODEL_EVIDENCE_COUNT) : 0;
}

// A killed version; seldom any.
static void draw_unkill(struct model_draw *draw, const struct model_record *record,
                        struct model_op *out)
{
    out->args[0] = below(draw, MODEL_TASKS);
    out->args[1] = below(draw, MODEL_VERSIONS);
    for (uint32_t i = 0; i < MODEL_VERSIONS; i++) {
        int64_t version = (out->args[1] + i) % MODEL_VERSIONS;
        if (record->killed[out->args[0]][version]) {
            out->args[1] = version;
            return;
        }
    }
}

static void draw_device(struct model_draw *draw, const struct model_world *world,
                        struct model_op *out)
{
    int64_t *args = out->args;
    args[0] = below(draw, world->device_count);
    switch (out->kind) {
    case MODEL_OP_ATTRS:
        args[1] = below(draw, 3);
        args[2] = below(draw, 4);
        args[3] = below(draw, 2);
        break;
    case MODEL_OP_CRASH:
        args[1] = 1 + below(draw, 24);
        break;
    case MODEL_OP_AWAY:
        args[1] = world->devices[args[0]].away ? 0 : 1;
        break;
    case MODEL_OP_FAILS:
        args[1] = below(draw, MODEL_TASKS);
        args[2] = draw_failing(draw, world->devices[args[0]].failed[args[1]]);
        args[3] = world->devices[args[0]].fails[args[1]][args[2]] ? 0 : 1;
        break;
    case MODEL_OP_CLOCK:
        args[1] = draw_skew(draw);
        break;
    case MODEL_OP_CUT:
        args[1] = 1 + below(draw, 6);
        args[2] = 1 + below(draw, 2);
        break;
    default:
        break;
    }
}

static bool fits_world(const struct model_draw *draw, const struct model_world *world,
                       enum model_op_kind kind)
{
    bool backups = kind == MODEL_OP_BACKUP || kind == MODEL_OP_RESTORE;
    bool copies = kind == MODEL_OP_SAVE || kind == MODEL_OP_RETURN;
    return (!backups || draw->restores) && (!copies || draw->device_lives) &&
           (kind != MODEL_OP_CLOCK || draw->clocks) && (kind != MODEL_OP_ROTATE || draw->roots) &&
           ((kind != MODEL_OP_FAILS_OS && kind != MODEL_OP_LIFT) || draw->gates) &&
           // It would be unclear who moved what.
           (kind != MODEL_OP_GATEWAY_DIES || !(draw->gates || draw->guards)) &&
           (kind != MODEL_OP_RESTORE || world->gateway.has_backup);
}

static enum model_op_kind draw_kind(struct model_draw *draw, const struct model_world *world)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        total += weights[i].parts;
    }
    for (;;) {
        uint32_t at = (uint32_t)below(draw, total);
        uint32_t i = 0;
        while (at >= weights[i].parts) {
            at -= weights[i++].parts;
        }
        if (fits_world(draw, world, weights[i].kind)) {
            return weights[i].kind;
        }
    }
}

bool model_draw_next(struct model_draw *draw, const struct model_world *world, struct model_op *out)
{
    static const enum pol_command commands[MODEL_OP_COUNT] = {
        [MODEL_OP_START] = POL_COMMAND_START,     [MODEL_OP_PAUSE] = POL_COMMAND_PAUSE,
        [MODEL_OP_RESUME] = POL_COMMAND_RESUME,   [MODEL_OP_PROMOTE] = POL_COMMAND_PROMOTE,
        [MODEL_OP_APPROVE] = POL_COMMAND_APPROVE, [MODEL_OP_ABORT] = POL_COMMAND_ABORT,
        [MODEL_OP_UNDO] = POL_COMMAND_UNDO,       [MODEL_OP_KILL] = POL_COMMAND_KILL,
    };
    *out = (struct model_op){.kind = draw_kind(draw, world)};
    switch (out->kind) {
    case MODEL_OP_CREATE:
        draw_create(draw, out);
        return draw->label < MODEL_ROLLOUTS_MAX;
    case MODEL_OP_START:
    case MODEL_OP_PAUSE:
    case MODEL_OP_RESUME:
    case MODEL_OP_PROMOTE:
    case MODEL_OP_APPROVE:
    case MODEL_OP_ABORT:
    case MODEL_OP_UNDO:
    case MODEL_OP_KILL:
        out->args[0] = draw_rollout(draw, &world->record, commands[out->kind]);
        break;
    case MODEL_OP_PREVIEW:
        out->args[0] = draw_rollout(draw, &world->record, POL_COMMAND_START);
        break;
    case MODEL_OP_SIMULATED:
        draw_simulated(draw, &world->record, out);
        break;
    case MODEL_OP_ROTATE:
        out->args[0] = below(draw, MODEL_ROOT_COUNT);
        out->args[1] = once_in(draw, 3) ? 1 : 0;
        break;
    case MODEL_OP_UNKILL:
        draw_unkill(draw, &world->record, out);
        break;
    case MODEL_OP_LIFT:
        draw_lift(draw, &world->record, out);
        break;
    case MODEL_OP_FAILS_OS:
        out->args[0] = below(draw, 3);
        out->args[1] = below(draw, MODEL_TASKS);
        out->args[2] = below(draw, MODEL_VERSIONS);
        out->args[3] = below(draw, 3) > 0;
        break;
    case MODEL_OP_KILL_VERSION:
        out->args[0] = below(draw, MODEL_TASKS);
        out->args[1] = below(draw, MODEL_VERSIONS);
        break;
    case MODEL_OP_SLEEP:
        out->args[0] = once_in(draw, 4) ? below(draw, DAY_S) : below(draw, 7200);
        break;
    case MODEL_OP_GATEWAY_DIES:
        out->args[0] = 1 + below(draw, 4);
        break;
    case MODEL_OP_ROUND:
    case MODEL_OP_GATEWAY_KILL:
    case MODEL_OP_BACKUP:
    case MODEL_OP_RESTORE:
    case MODEL_OP_CHECK:
        break;
    default:
        draw_device(draw, world, out);
        break;
    }
    return true;
}
