// The check: what settled devices run against what the record says, and the logs. One thread.
#include "model_world.h"

#include "base/check.h"
#include "svc/core_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX   16u // then the devices do not settle
#define STILL_ROUNDS 2u
#define WHY_OF       8u       // one of so many devices is asked about in a check; of fewer, all
#define ROUND_US     2000000u // between two rounds

static void name_version(int version, char out[16])
{
    (void)snprintf(out, 16, version < 0 ? "nothing" : "version %d", version);
}

// ---- Settling

static bool round_changes(struct model_world *world)
{
    struct model_record *before = malloc(sizeof(*before));
    bool changes = false;
    base_check(before != NULL);
    *before = world->record;
    for (uint32_t i = 0; i < world->device_count; i++) {
        struct model_device *device = &world->devices[i];
        if (!device->away) {
            uint64_t mark = model_device_mark(device);
            model_device_visit(device, model_world_advance, world);
            changes = changes || model_device_mark(device) != mark;
        }
    }
    model_gateway_tick(&world->gateway);
    model_take_decisions(world);
    changes = changes || memcmp(before, &world->record, sizeof(*before)) != 0;
    free(before);
    return changes;
}

static void settle(struct model_world *world)
{
    uint32_t still = 0;
    uint32_t rounds = 0;
    while (still < STILL_ROUNDS && rounds < ROUNDS_MAX && world->gateway.fault[0] == '\0') {
        still = round_changes(world) ? 0 : still + 1;
        model_world_advance(world, ROUND_US);
        rounds++;
    }
    if (still < STILL_ROUNDS && world->gateway.fault[0] == '\0') {
        model_world_fail(world, "settles", "something changes in each of %u rounds of check-ins",
                         rounds);
    }
}

// ---- One task on one device

static void say_difference(struct model_world *world, const struct model_device *device, int task,
                           const struct model_facts *facts, const struct model_answer *answer)
{
    char runs[16];
    char should[16];
    char refuses[16];
    name_version(facts->have, runs);
    name_version(answer->version, should);
    name_version(facts->refused, refuses);
    model_world_fail(world, pol_desired_rule_name(answer->rule),
                     "device %u (os %d, ring %d, beta %d%s) runs %s of task %d, should run %s "
                     "(%s, rollout %d); it refuses %s, its floor is %" PRIu64,
                     (uint32_t)(device - world->devices), device->attrs.os, device->attrs.ring,
                     device->attrs.beta, device->rooted ? ", has the root" : "", runs, task, should,
                     pol_desired_rule_text(answer->rule),
                     answer->rollout < MODEL_ROLLOUTS_MAX ? (int)answer->rollout : -1, refuses,
                     facts->floor);
}

// Of a restored copy: devices with a root follow nothing until its numbers are above those they
// have seen, and a device keeps what the copy knows nothing of (docs/OPERATIONS.md).
static bool is_excused(const struct model_world *world, const struct model_device *device,
                       const struct model_answer *answer)
{
    return world->restored && (device->rooted || answer->rule == POL_DESIRED_NONE);
}

// False: an offer waits for its window.
static bool check_task(struct model_world *world, const struct model_device *device, int task)
{
    struct model_facts facts;
    world->checks++;
    if (!model_device_facts(device, task, &facts)) {
        model_world_fail(world, "profile", "device %u does not tell what it runs of task %d",
                         (uint32_t)(device - world->devices), task);
        return true;
    }
    int open = model_desired(&world->record, task, &facts).version;
    facts.now_s = world->wall_us / 1000000;
    struct model_answer answer = model_desired(&world->record, task, &facts);
    if (answer.version != facts.have && !is_excused(world, device, &answer)) {
        say_difference(world, device, task, &facts, &answer);
    }
    return open == facts.have || is_excused(world, device, &answer);
}

// False: some offer waits for its window.
static bool check_devices(struct model_world *world)
{
    bool all = true;
    for (uint32_t i = 0; i < world->device_count && !world->failed; i++) {
        for (int task = 0; task < (int)MODEL_TASKS && !world->failed; task++) {
            if (!world->devices[i].away) {
                all = check_task(world, &world->devices[i], task) && all;
            }
        }
    }
    return all;
}

void model_expect(struct model_world *world, const struct model_op *op)
{
    const struct model_device *device = &world->devices[(uint32_t)op->args[0] % MODEL_DEVICES_MAX];
    struct model_facts facts;
    char runs[16];
    char should[16];
    if (op->args[0] >= (int64_t)world->device_count ||
        !model_device_facts(device, (int)op->args[1], &facts)) {
        model_world_fail(world, "profile", "device %lld tells nothing", (long long)op->args[0]);
    } else if (facts.have != (int)op->args[2]) {
        name_version(facts.have, runs);
        name_version((int)op->args[2], should);
        model_world_fail(world, "expect", "device %lld runs %s of task %lld, the case says %s",
                         (long long)op->args[0], runs, (long long)op->args[1], should);
    }
}

// ---- Why

// Does the gateway know what decides? What a device did of an approval that is older than what it
// had counts for no rollout, so of that it has no report.
static bool is_told(const struct model_world *world, const struct model_facts *facts,
                    const struct model_answer *answer, const char *said)
{
    static const enum pol_desired_rule rules[] = {POL_DESIRED_PAUSED, POL_DESIRED_STAYS,
                                                  POL_DESIRED_KEEPS};
    bool said_by_have = false;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        said_by_have = said_by_have || strcmp(said, pol_desired_rule_text(rules[i])) == 0;
    }
    bool by_have = answer->rule == POL_DESIRED_PAUSED || answer->rule == POL_DESIRED_STAYS ||
                   answer->rule == POL_DESIRED_KEEPS;
    return world->strict || (!by_have && !said_by_have && facts->floor == 0 && facts->refused < 0);
}

static void check_why(struct model_world *world, const struct model_device *device, int task)
{
    const char *name = model_task_name(task);
    const char *slash = strchr(name, '/');
    struct model_facts facts;
    char path[160];
    char should[WIRE_DEVICE_HEX + 1] = "";
    json_t *json = NULL;
    (void)snprintf(path, sizeof(path), "/api/v1/devices/%s/why?task=%.*s%%2F%s", device->hex,
                   (int)(slash - name), name, slash + 1);
    int status =
        model_gateway_call(&world->gateway, GW_METHOD_GET, path, NULL, 0, MODEL_ADMIN, &json);
    if (status == 200 && model_device_facts(device, task, &facts)) {
        struct model_answer answer = model_desired(&world->record, task, &facts);
        const char *told = json_string_value(json_object_get(json, "should_version_id"));
        const char *why = json_string_value(json_object_get(json, "why"));
        const struct model_content *content =
            &world->ground.content[task][answer.version < 0 ? 0 : answer.version];
        if (answer.version >= 0) {
            wire_device_hex(wire_version_id(&content->manifest), should);
        }
        if (is_told(world, &facts, &answer, why != NULL ? why : "") &&
            strcmp(told != NULL ? told : "", should) != 0) {
            int of_task = 0;
            int told_version = -1;
            uint64_t id = 0;
            if (told != NULL && wire_device_parse(base_str_of(told), &id) == BASE_OK) {
                (void)model_content_find(&world->ground, id, &of_task, &told_version);
            }
            model_world_fail(world, "why",
                             "why says version %d of task %d for device %u, which runs %d and "
                             "should run %d (it refuses %d): %s",
                             told_version, task, (uint32_t)(device - world->devices), facts.have,
                             answer.version, facts.refused,
                             json_string_value(json_object_get(json, "why")));
        }
    } else if (status != 404) {
        model_world_fail(world, "answer", "why is answered with %d", status);
    }
    json_decref(json);
}

static void ask_why(struct model_world *world)
{
    uint32_t turn = world->whys++ % WHY_OF;
    for (uint32_t i = 0; i < world->device_count && !world->restored; i++) {
        bool asked = world->device_count < WHY_OF || i % WHY_OF == turn;
        for (int task = 0; asked && task < (int)MODEL_TASKS && !world->failed; task++) {
            if (!world->devices[i].away && world->devices[i].certified) {
                check_why(world, &world->devices[i], task);
            }
        }
    }
}

// ---- All

void model_check(struct model_world *world)
{
    settle(world);
    if (world->failed || check_devices(world)) {
        ask_why(world);
        return;
    }
    // What waits for a window comes when that opens.
    model_world_advance(world, model_window_wait_s(world->wall_us / 1000000) * 1000000);
    model_gateway_tick(&world->gateway);
    settle(world);
    if (!world->failed) {
        (void)check_devices(world);
        ask_why(world);
    }
}

void model_check_logs(struct model_world *world)
{
    char why[200];
    model_compare_rollouts(world);
    (void)model_gateway_still(&world->gateway); // lines of logs that nobody waits for
    if (!world->failed && !model_gateway_audit_holds(&world->gateway, why, sizeof(why))) {
        model_world_fail(world, "audit", "%s", why);
    }
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX && !world->failed; i++) {
        const struct model_rollout *rollout = &world->record.rollouts[i];
        if (rollout->there &&
            !model_gateway_replays(&world->gateway, rollout->id, why, sizeof(why))) {
            model_world_fail(world, "replay", "%s", why);
        }
    }
}
