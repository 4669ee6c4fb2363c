// The check: what settled devices run against what the record says, and the logs. One thread.
#include "model_trust.h"
#include "model_world.h"

#include "base/check.h"
#include "svc/core_private.h"
#include "svc/rollout/catalog_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX   64u // then the devices do not settle; a rate takes its time
#define HELD_US      (UINT64_C(660) * 1000000u) // who was offered it and is away has timed out
#define HELD_MAX     6u                         // then an offer is held back for ever
#define STILL_ROUNDS 2u
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

void model_settle(struct model_world *world)
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

static bool may_wait(const struct model_world *world, const struct model_device *device)
{
    return world->restored || device->skew_s > 0 || world->record.root_version > 1;
}

static struct model_order order_of(const struct model_world *world, int task,
                                   const struct model_answer *answer)
{
    const struct model_rollout *rollout = &world->record.rollouts[answer->rollout];
    return (struct model_order){task, answer->version, rollout->counter, rollout->signers};
}

static void check_signers(struct model_world *world, const struct model_device *device,
                          const struct model_order *order)
{
    if (model_trust_of(device, order) == MODEL_TRUST_UNSIGNED) {
        model_world_fail(world, "signers",
                         "device %u took version %d of task %d, which too few keys of its root "
                         "signed",
                         (uint32_t)(device - world->devices), order->version, order->task);
    }
}

// What a device runs now is right, if it is: and it did not take it from too few signers.
static void note_task(struct model_world *world, struct model_device *device, int task)
{
    struct model_facts facts;
    if (!model_device_facts(device, task, &facts)) {
        return;
    }
    uint32_t bit = UINT32_C(1) << (facts.have + 1);
    facts.now_s = world->wall_us / 1000000;
    if ((device->lawful[task] & bit) != 0) {
        return;
    }
    struct model_facts held = facts;
    held.held = true;
    struct model_answer answer = model_desired(&world->record, task, &facts);
    if (answer.version != facts.have &&
        model_desired(&world->record, task, &held).version != facts.have) {
        return;
    }
    device->lawful[task] |= bit;
    struct model_facts before = facts; // by which rollout it took it, not by which it keeps it
    before.have = -1;
    answer = model_desired(&world->record, task, &before);
    if (answer.version >= 0 && answer.version == facts.have) {
        const struct model_order order = order_of(world, task, &answer);
        check_signers(world, device, &order);
    }
}

void model_note_right(struct model_world *world, struct model_device *device)
{
    for (int task = 0; task < (int)MODEL_TASKS && may_wait(world, device); task++) {
        note_task(world, device, task);
    }
}

// Was a version killed that was right while it followed nothing? Then nothing is left of it.
static bool lost_by_kill(const struct model_world *world, const struct model_device *device,
                         int task)
{
    bool lost = false;
    for (int version = 0; version < (int)MODEL_VERSIONS; version++) {
        lost = lost || (world->record.killed[task][version] &&
                        (device->lawful[task] >> (version + 1) & 1) != 0);
    }
    return lost;
}

// Of a restored copy a device keeps what it has of a task that the copy started nothing of; and one
// with a root follows nothing but an order to stop, until what it believes lets it (model_trust.h,
// docs/OPERATIONS.md); nor does one whose clock is ahead, when by that all has run out. Meanwhile
// it runs what it ran, or what was right since.
static bool waits(const struct model_world *world, const struct model_device *device, int task,
                  const struct model_facts *facts, const struct model_answer *answer)
{
    // What is not followed renews no lease.
    bool ended = facts->have < 0 && (world->lease_s > 0 || lost_by_kill(world, device, task));
    bool lawful = ended || (device->lawful[task] >> (facts->have + 1) & 1) != 0;
    if (!may_wait(world, device) || !lawful) {
        return false;
    }
    if (world->restored && !model_task_started(&world->record, task)) {
        return true;
    }
    if (answer->version < 0) {
        return false;
    }
    const struct model_order order = order_of(world, task, answer);
    return model_trust_of(device, &order) != MODEL_TRUST_FOLLOWS;
}

// False: an offer waits for its window or its pace. `last`: for its pace no more.
static bool check_task(struct model_world *world, struct model_device *device, int task, bool last)
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
    bool differs = answer.version != facts.have;
    bool waiting = differs && waits(world, device, task, &facts, &answer);
    facts.held = true;
    bool held =
        differs && !last && model_desired(&world->record, task, &facts).version == facts.have;
    if (differs && !waiting && !held) {
        say_difference(world, device, task, &facts, &answer);
    }
    world->waits += waiting;
    model_note_right(world, device);
    return open == facts.have || waiting;
}

// What a device with a root believes never goes back.
static void check_trust(struct model_world *world, struct model_device *device)
{
    uint64_t stamp = model_trust_timestamp(device);
    uint64_t root = model_trust_root(device);
    if (root < device->root_seen) {
        model_world_fail(world, "trust", "device %u held root %" PRIu64 " and holds %" PRIu64,
                         (uint32_t)(device - world->devices), device->root_seen, root);
    }
    if (stamp < device->stamp_seen && root == device->root_seen) { // new online keys void it

        model_world_fail(world, "trust", "device %u held timestamp %" PRIu64 " and holds %" PRIu64,
                         (uint32_t)(device - world->devices), device->stamp_seen, stamp);
    }
    device->stamp_seen = stamp;
    device->root_seen = root;
}

// False: some offer waits.
static bool check_devices(struct model_world *world, bool last)
{
    bool all = true;
    for (uint32_t i = 0; i < world->device_count && !world->failed; i++) {
        check_trust(world, &world->devices[i]);
        for (int task = 0; task < (int)MODEL_TASKS && !world->failed; task++) {
            if (!world->devices[i].away) {
                all = check_task(world, &world->devices[i], task, last) && all;
            }
        }
    }
    return all;
}

// ---- Why

// What `why` says of a task on a device.
struct told {
    int version; // -1: nothing; -2: none of the world
    char why[200];
};

// False: the gateway does not know the device, or failed.
static bool ask_why(struct model_world *world, const struct model_device *device, int task,
                    struct told *out)
{
    const char *name = model_task_name(task);
    const char *slash = strchr(name, '/');
    char path[160];
    uint64_t id = 0;
    int of_task = task;
    json_t *json = NULL;
    (void)snprintf(path, sizeof(path), "/api/v1/devices/%s/why?task=%.*s%%2F%s", device->hex,
                   (int)(slash - name), name, slash + 1);
    int status = 0;
    while (status == 0 && world->gateway.fault[0] == '\0') { // it died in it: once more
        json_decref(json);
        status =
            model_gateway_call(&world->gateway, GW_METHOD_GET, path, NULL, 0, MODEL_ADMIN, &json);
        world->whys++;
    }
    const char *version = json_string_value(json_object_get(json, "should_version_id"));
    const char *why = json_string_value(json_object_get(json, "why"));
    (void)snprintf(out->why, sizeof(out->why), "%s", why != NULL ? why : "");
    out->version = -1;
    if (version != NULL &&
        (wire_device_parse(base_str_of(version), &id) != BASE_OK ||
         !model_content_find(&world->ground, id, &of_task, &out->version) || of_task != task)) {
        out->version = -2;
    }
    json_decref(json);
    if (status != 200 && status != 404) {
        model_world_fail(world, "answer", "why is answered with %d", status);
    }
    return status == 200;
}

// The rule that the sentence tells of.
static enum pol_desired_rule rule_of(const char *why)
{
    static const char let_in[] = "stage ";
    static const char baseline[] = "so the baseline runs";
    size_t size = strlen(why);
    if (strncmp(why, let_in, sizeof(let_in) - 1) == 0) {
        return POL_DESIRED_FOLLOWED;
    }
    if (size >= sizeof(baseline) && strcmp(why + size + 1 - sizeof(baseline), baseline) == 0) {
        return POL_DESIRED_BASELINE;
    }
    for (int rule = 0; rule < (int)POL_DESIRED_RULE_COUNT; rule++) {
        if (strcmp(why, pol_desired_rule_text((enum pol_desired_rule)rule)) == 0) {
            return (enum pol_desired_rule)rule;
        }
    }
    return POL_DESIRED_NONE;
}

static bool is_by_have(enum pol_desired_rule rule)
{
    return rule == POL_DESIRED_PAUSED || rule == POL_DESIRED_STAYS || rule == POL_DESIRED_KEEPS;
}

// Is a guarded rollout of the task paused? Then what a device has decides more.
static bool is_held(const struct model_record *record, int task)
{
    bool held = false;
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX; i++) {
        const struct model_rollout *rollout = &record->rollouts[i];
        held = held || (rollout->there && rollout->task == task && rollout->guarding &&
                        rollout->state == POL_ROLLOUT_PAUSED);
    }
    return held;
}

// Does the gateway know what decides? It always does, but for reports that went with what was
// restored from a copy of it or of the device. There a device that refuses an order for what it
// believes reports a failure, too, which is none of the version.
static bool is_told(const struct model_world *world, const struct model_device *device, int task,
                    const struct model_facts *facts, const struct model_answer *answer,
                    const struct told *told)
{
    if (!world->restored && !device->returned) {
        return true;
    }
    if (may_wait(world, device) && answer->version >= 0) {
        const struct model_order order = order_of(world, task, answer);
        if (model_trust_of(device, &order) != MODEL_TRUST_FOLLOWS) {
            return false;
        }
    }
    bool failed_before = false;
    for (int version = 0; version < (int)MODEL_VERSIONS; version++) {
        failed_before = failed_before || facts->before[version];
    }
    return !failed_before && !is_by_have(answer->rule) && !is_by_have(rule_of(told->why)) &&
           facts->floor == 0 && facts->refused < 0 && !is_held(&world->record, task);
}

static void check_why(struct model_world *world, const struct model_device *device, int task)
{
    struct model_facts facts;
    struct told told;
    if (!ask_why(world, device, task, &told) || !model_device_facts(device, task, &facts)) {
        return;
    }
    struct model_answer answer = model_desired(&world->record, task, &facts);
    bool agrees = told.version == answer.version && rule_of(told.why) == answer.rule;
    if (!agrees && is_told(world, device, task, &facts, &answer, &told)) {
        model_world_fail(world, "why",
                         "why says version %d of task %d for device %u, which runs %d and should "
                         "run %d, %s (it refuses %d): %s",
                         told.version, task, (uint32_t)(device - world->devices), facts.have,
                         answer.version, pol_desired_rule_name(answer.rule), facts.refused,
                         told.why);
    }
}

static void check_whys(struct model_world *world)
{
    for (uint32_t i = 0; i < world->device_count; i++) {
        const struct model_device *device = &world->devices[i];
        for (int task = 0; task < (int)MODEL_TASKS && !world->failed; task++) {
            if (!device->away && device->certified) {
                check_why(world, device, task);
            }
        }
    }
}

// ---- What a case says

static void expect_rule(struct model_world *world, const struct model_device *device,
                        const struct model_op *op, const struct model_facts *facts)
{
    enum pol_desired_rule should = (enum pol_desired_rule)(op->args[3] - 1);
    struct model_facts now = *facts;
    struct told told;
    now.now_s = world->wall_us / 1000000;
    enum pol_desired_rule rule = model_desired(&world->record, (int)op->args[1], &now).rule;
    if (rule != should) {
        model_world_fail(world, "expect", "device %lld goes by the rule %s, the case says %s",
                         (long long)op->args[0], pol_desired_rule_name(rule),
                         pol_desired_rule_name(should));
    } else if (device->certified && model_window_wait_s(now.now_s) == 0 &&
               ask_why(world, device, (int)op->args[1], &told) && rule_of(told.why) != should) {
        model_world_fail(world, "expect", "why says of device %lld: %s; the case says %s",
                         (long long)op->args[0], told.why, pol_desired_rule_name(should));
    }
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
    } else if (op->args[3] > 0) {
        expect_rule(world, device, op, &facts);
    }
}

// ---- Ways back

// Do all devices run what they should, and know the gateway and they the same of each other?
static bool all_here(const struct model_world *world, uint64_t waits)
{
    bool here = !world->failed && !world->restored && world->waits == waits;
    for (uint32_t i = 0; i < world->device_count; i++) {
        here = here && !world->devices[i].away && !world->devices[i].returned;
    }
    return here;
}

// Then no way back has anybody to wait for.
static void check_back(struct model_world *world)
{
    for (int i = 0; i < 3; i++) { // looked at; asked, since nobody came back since; over
        model_gateway_tick(&world->gateway);
    }
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX && !world->failed; i++) {
        const struct model_rollout *expected = &world->record.rollouts[i];
        const struct gw_rollout *rollout =
            expected->there ? gw_catalog_find_rollout(world->gateway.core, expected->id) : NULL;
        if (rollout != NULL && rollout->state.state == POL_ROLLOUT_ROLLING_BACK) {
            model_world_fail(world, "back",
                             "rollout %u waits for devices that are where they "
                             "should be",
                             i);
        }
    }
}

// ---- All

void model_check(struct model_world *world)
{
    bool all = false;
    uint64_t waits = world->waits;
    for (uint32_t i = 0; i <= HELD_MAX && !all && !world->failed; i++) {
        if (i > 0) { // what waits comes when its window opens, or its turn
            uint64_t window_us = model_window_wait_s(world->wall_us / 1000000) * 1000000;
            model_world_advance(world, window_us > 0 ? window_us : HELD_US);
            model_gateway_tick(&world->gateway);
        }
        model_settle(world);
        all = !world->failed && check_devices(world, i == HELD_MAX);
    }
    check_whys(world);
    if (all && all_here(world, waits)) {
        check_back(world);
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
