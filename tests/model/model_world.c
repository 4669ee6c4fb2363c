// A world's life, and what happens in it besides operators' calls. One thread.
#include "model_world.h"

#include "model_pace.h"
#include "model_seal.h"

#include "base/alloc.h"
#include "base/check.h"

#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEGIN_WALL_US UINT64_C(1700000000000000)
#define BEGIN_MONO_US UINT64_C(5000000)
#define FAILING_MAX   3
#define STEP_US       1000000u // between two operations: records tell times in seconds

void model_world_fail(struct model_world *world, const char *rule, const char *format, ...)
{
    va_list args;
    if (world->failed) {
        return;
    }
    world->failed = true;
    (void)snprintf(world->rule, sizeof(world->rule), "%s", rule);
    va_start(args, format);
    (void)vsnprintf(world->text, sizeof(world->text), format, args);
    va_end(args);
}

static uint64_t mono_us(void *ctx)
{
    return ((const struct model_world *)ctx)->mono_us;
}

static uint64_t wall_us(void *ctx)
{
    return ((const struct model_world *)ctx)->wall_us;
}

void model_world_advance(void *ctx, uint64_t us)
{
    struct model_world *world = ctx;
    world->mono_us += us;
    world->wall_us += us;
}

uint64_t model_world_calls(const struct model_world *world)
{
    return world->gateway.requests - world->whys;
}

void model_world_make_root(struct model_world *world, enum model_root root, bool online_next)
{
    uint32_t at = world->root_count;
    const struct model_seal_root next = {
        .version = at + 1,
        .issued_s = world->wall_us / 1000000 - 3600,
        .lease_max_s = world->lease_s,
        .releases = model_root_releases(root),
        .online_next = online_next,
    };
    if (model_seal_root(&next, world->roots[at].bytes, MODEL_ROOT_BYTES, &world->roots[at].size) !=
        BASE_OK) {
        model_world_fail(world, "world", "the root cannot be made");
        return;
    }
    world->roots[at].root = root;
    world->roots[at].online_next = online_next;
    world->root_count++;
}

static int push(struct model_world *world, uint32_t index, const char *path)
{
    int status = 0;
    while (status == 0 && world->gateway.fault[0] == '\0') { // it died in it: once more
        status = model_gateway_call(&world->gateway, GW_METHOD_PUT, path, world->roots[index].bytes,
                                    world->roots[index].size, MODEL_ADMIN, NULL);
    }
    return status;
}

void model_world_push_root(struct model_world *world, uint32_t index)
{
    int status = push(world, index, "/api/v1/trust/root");
    if (status == 409 && world->restored) { // it names keys of between: a later one does not
        status = push(world, index, "/api/v1/trust/root?accept_keys=true&reason=copy");
    }
    if (status != 201 && status != 200) {
        model_world_fail(world, "answer", "root %u is answered with %d", index + 1, status);
        return;
    }
    world->record.root_version = index + 1;
    world->record.root = world->roots[index].root;
}

void model_world_open(struct model_world *world, const struct model_op *op, const char *home,
                      bool verbose)
{
    const int64_t *args = op->args; // seed devices rooted signer lease
    memset(world, 0, sizeof(*world));
    (void)snprintf(world->home, sizeof(world->home), "%s", home);
    world->verbose = verbose;
    world->mono_us = BEGIN_MONO_US;
    world->wall_us = BEGIN_WALL_US;
    world->record.seed = (uint64_t)args[0];
    world->device_count =
        args[1] < (int64_t)MODEL_DEVICES_MAX ? (uint32_t)args[1] : MODEL_DEVICES_MAX;
    struct model_ground *ground = &world->ground;
    ground->gateway = &world->gateway;
    ground->clock = (struct base_clock_port){world, mono_us, wall_us};
    ground->seed = (uint64_t)args[0];
    ground->heard = model_pace_heard;
    ground->heard_ctx = world;
    model_ground_init(ground, world->device_count);
    base_check(sim_store_new(base_alloc_heap(), dev_crypto_openssl(), &ground->store) == BASE_OK);
    (void)mkdir(home, 0700);
    if (!model_gateway_open(&world->gateway, home, &ground->clock, args[3] != 0)) {
        model_world_fail(world, "world", "%s", world->gateway.fault);
    } else if (args[3] != 0) {
        world->lease_s = (uint32_t)args[4];
        model_world_make_root(world, MODEL_ROOT_OLD, false);
        model_world_push_root(world, 0);
        ground->root = world->roots[0].bytes;
        ground->root_bytes = world->roots[0].size;
    }
    for (uint32_t i = 0; i < world->device_count; i++) {
        // `rooted` of four have the root, the others pin the release key.
        bool rooted = args[3] != 0 && (int64_t)(i % 4) < args[2];
        model_device_init(&world->devices[i], ground, i, rooted);
    }
}

void model_world_close(struct model_world *world)
{
    if (!world->failed) {
        model_check(world);
        model_check_logs(world);
    }
    for (uint32_t i = 0; i < world->device_count; i++) {
        model_device_done(&world->devices[i]);
    }
    model_gateway_done(&world->gateway);
    model_ground_done(&world->ground);
    sim_store_free(world->ground.store);
    (void)rmdir(world->home);
}

// ---- Devices

static void visit(struct model_world *world, struct model_device *device)
{
    if (!device->away) {
        model_device_visit(device, model_world_advance, world);
        model_gateway_tick(&world->gateway);
        model_note_right(world, device);
    }
}

static void device_op(struct model_world *world, const struct model_op *op)
{
    struct model_device *device = &world->devices[(uint32_t)op->args[0] % world->device_count];
    switch (op->kind) {
    case MODEL_OP_VISIT:
        visit(world, device);
        break;
    case MODEL_OP_ATTRS:
        device->attrs = (struct model_attrs){(int)op->args[1], (int)op->args[2], (int)op->args[3]};
        model_device_boot(device);
        break;
    case MODEL_OP_CRASH:
        device->calls_left = (uint32_t)op->args[1];
        visit(world, device);
        device->calls_left = 0;
        break;
    case MODEL_OP_REBOOT:
        model_device_boot(device);
        break;
    case MODEL_OP_AWAY:
        device->away = op->args[1] != 0;
        break;
    case MODEL_OP_FAILS:
        device->fails[op->args[1]][op->args[2]] = op->args[3] != 0;
        device->failed[op->args[1]] |= UINT32_C(1) << op->args[2];
        break;
    case MODEL_OP_CLOCK:
        device->skew_s = op->args[1];
        model_device_note(device);
        break;
    case MODEL_OP_CUT:
        device->cut_after = (uint32_t)op->args[1];
        device->cut = (enum model_cut)op->args[2];
        break;
    case MODEL_OP_SAVE:
        model_device_save(device);
        break;
    default:
        model_device_return(device);
        model_device_note(device);
        device->stamp_seen = 0;
        device->root_seen = 0;
        break;
    }
}

// Of those of one os that do not refuse as many versions as are drawn (model_draw.c).
static void fails_os(struct model_world *world, const struct model_op *op)
{
    int task = (int)op->args[1];
    int version = (int)op->args[2];
    for (uint32_t i = 0; i < world->device_count; i++) {
        struct model_device *device = &world->devices[i];
        uint32_t others = device->failed[task] & ~(UINT32_C(1) << version);
        if (device->attrs.os == (int)op->args[0] && __builtin_popcount(others) < FAILING_MAX) {
            device->fails[task][version] = op->args[3] != 0;
            device->failed[task] = others | UINT32_C(1) << version;
        }
    }
}

// ---- The gateway

static void backup(struct model_world *world)
{
    (void)model_gateway_backup(&world->gateway);
    world->backup = world->record;
    memcpy(world->registered_then, world->registered, sizeof(world->registered));
}

static void restore(struct model_world *world)
{
    if (world->gateway.has_backup) {
        uint64_t counters[MODEL_TASKS];
        memcpy(counters, world->record.counters, sizeof(counters));
        (void)model_gateway_restore(&world->gateway);
        model_pace_forget(world);
        world->record = world->backup;
        // As docs/OPERATIONS.md asks: what comes next is above all that devices may have seen.
        memcpy(world->record.counters, counters, sizeof(counters));
        memcpy(world->registered, world->registered_then, sizeof(world->registered));
        for (uint32_t i = 0; i < world->device_count; i++) {
            model_device_note(&world->devices[i]);
        }
        world->restored = true;
        world->ground.restored = true;
        while (world->record.root_version > 0 && world->record.root_version < world->root_count &&
               !world->failed) { // the roots made since, too
            model_world_push_root(world, (uint32_t)world->record.root_version);
        }
        model_compare_rollouts(world);
    }
}

static void gateway_op(struct model_world *world, const struct model_op *op)
{
    switch (op->kind) {
    case MODEL_OP_GATEWAY_KILL:
        (void)model_gateway_kill(&world->gateway);
        model_pace_forget(world);
        model_compare_rollouts(world);
        break;
    case MODEL_OP_GATEWAY_DIES: // within the next call
        model_pace_forget(world);
        world->gateway.dies_after = (uint32_t)op->args[0];
        break;
    case MODEL_OP_BACKUP:
        backup(world);
        break;
    default:
        restore(world);
        break;
    }
}

void model_world_do(struct model_world *world, const struct model_op *op)
{
    if (world->failed) {
        return;
    }
    if (world->verbose) {
        char line[MODEL_LINE_MAX];
        model_op_print(op, line);
        (void)fprintf(stderr, "%s\n", line);
    }
    model_world_advance(world, STEP_US);
    if (op->kind == MODEL_OP_STANDS) {
        model_gateway_tick(&world->gateway);
    }
    model_take_decisions(world);
    switch (op->kind) {
    case MODEL_OP_WORLD:
        break;
    case MODEL_OP_VISIT:
    case MODEL_OP_ATTRS:
    case MODEL_OP_CRASH:
    case MODEL_OP_REBOOT:
    case MODEL_OP_AWAY:
    case MODEL_OP_FAILS:
    case MODEL_OP_CUT:
    case MODEL_OP_SAVE:
    case MODEL_OP_RETURN:
    case MODEL_OP_CLOCK:
        device_op(world, op);
        break;
    case MODEL_OP_FAILS_OS:
        fails_os(world, op);
        break;
    case MODEL_OP_PREVIEW:
        model_preview(world, op);
        break;
    case MODEL_OP_ROUND:
        for (uint32_t i = 0; i < world->device_count; i++) {
            visit(world, &world->devices[i]);
        }
        break;
    case MODEL_OP_SLEEP:
        model_world_advance(world, (uint64_t)op->args[0] * 1000000u);
        model_gateway_tick(&world->gateway);
        break;
    case MODEL_OP_GATEWAY_KILL:
    case MODEL_OP_GATEWAY_DIES:
    case MODEL_OP_BACKUP:
    case MODEL_OP_RESTORE:
        gateway_op(world, op);
        break;
    case MODEL_OP_CHECK:
        model_check(world);
        break;
    case MODEL_OP_EXPECT:
        model_expect(world, op);
        break;
    default:
        model_operate(world, op);
        break;
    }
    if (world->gateway.fault[0] != '\0') {
        model_world_fail(world, "gateway", "%s", world->gateway.fault);
    }
    if (world->ground.unproven_runs > 0) {
        model_world_fail(world, "bytes",
                         "a device ran bytes that are not its version's or not its own");
    }
}
