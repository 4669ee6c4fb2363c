// A dry run is asked for what a draft would reach, held against the record, and the draft is
// started: then it is held against what the devices run. What the gateway knows of a device that is
// away, or does not show who it is, may be something else or nothing; so each count lies between
// two. One thread.
#include "model_world.h"

#include <inttypes.h>
#include <string.h>

#define LAST_APPROVED (UINT64_MAX - 1)

// Counts of a dry run.
struct reach {
    uint64_t devices;
    uint64_t matched;
    uint64_t outside_arm;
    uint64_t elsewhere;
    uint64_t enter[MODEL_STAGES_MAX];
};

static bool is_sure(const struct model_device *device)
{
    return !device->away && device->certified;
}

// ---- What the record says

// The record with the draft in its last stage, approved last.
static const struct model_record *opened(const struct model_record *record, uint32_t label)
{
    static struct model_record all;
    struct model_rollout *rollout = &all.rollouts[label];
    all = *record;
    rollout->state = POL_ROLLOUT_RUNNING;
    rollout->before_first = false;
    rollout->stage = model_ladder(rollout->ladder)->count - 1;
    rollout->counter = LAST_APPROVED;
    return &all;
}

static void count_device(const struct model_record *all, uint32_t label,
                         const struct model_device *device, struct reach *out)
{
    const struct model_rollout *rollout = &all->rollouts[label];
    const struct model_ladder *ladder = model_ladder(rollout->ladder);
    const struct pol_arm arm = model_arm(all, rollout->arm);
    const struct model_facts facts = {
        .device_id = device->id, .attrs = device->attrs, .have = -1, .refused = -1};
    uint16_t bucket = pol_bucket(device->id, rollout->salt);
    out->devices++;
    if (!model_target_has(rollout->target, &device->attrs)) {
        return;
    }
    if (!pol_arm_has(&arm, device->id)) {
        out->outside_arm++;
        return;
    }
    out->matched++;
    uint32_t enters = ladder->count; // the stage in which it does
    bool in[MODEL_STAGES_MAX];
    for (uint32_t i = ladder->count; i > 0; i--) {
        const struct model_stage *stage = &ladder->stages[i - 1];
        in[i - 1] = bucket < stage->share && model_target_has(stage->audience, &device->attrs);
        enters = in[i - 1] && model_stage_lets_in(stage) ? i - 1 : enters;
    }
    if (enters < ladder->count && model_desired(all, rollout->task, &facts).rollout != label) {
        out->elsewhere++;
        enters = ladder->count;
    }
    for (uint32_t i = 0; i < ladder->count; i++) {
        bool shadows = ladder->stages[i].kind == POL_STAGE_SHADOW && in[i] && i < enters;
        out->enter[i] += i == enters || shadows ? 1 : 0;
    }
}

static void count_sure(const struct model_world *world, uint32_t label, struct reach *out,
                       uint64_t *out_unsure)
{
    const struct model_record *all = opened(&world->record, label);
    *out = (struct reach){0};
    *out_unsure = 0;
    for (uint32_t i = 0; i < world->device_count; i++) {
        if (is_sure(&world->devices[i])) {
            count_device(all, label, &world->devices[i], out);
        } else {
            (*out_unsure)++;
        }
    }
}

// ---- What the gateway says

static size_t write_body(const struct model_record *record, const struct model_rollout *rollout,
                         char *out, size_t capacity)
{
    const struct model_ladder *ladder = model_ladder(rollout->ladder);
    const struct pol_arm arm = model_arm(record, rollout->arm);
    int size = snprintf(out, capacity,
                        "{\"task\":\"%s\",\"priority\":%d,\"salt\":\"%016" PRIx64
                        "\",\"target\":%s,\"stages\":[",
                        model_task_name(rollout->task), rollout->priority, rollout->salt,
                        model_target_text(rollout->target));
    for (uint32_t i = 0; i < ladder->count; i++) {
        const struct model_stage *stage = &ladder->stages[i];
        size += snprintf(out + size, capacity - (size_t)size,
                         "%s{\"kind\":\"%s\",\"percent\":%g,\"audience\":%s}", i > 0 ? "," : "",
                         pol_stage_kind_name(stage->kind), stage->share / 100.0,
                         model_target_text(stage->audience));
    }
    size += snprintf(out + size, capacity - (size_t)size, "]");
    if (arm.to > 0) {
        size += snprintf(out + size, capacity - (size_t)size,
                         ",\"arm\":{\"salt\":\"%016" PRIx64 "\",\"from\":%g,\"to\":%g}", arm.salt,
                         arm.from / 100.0, arm.to / 100.0);
    }
    return (size_t)size + (size_t)snprintf(out + size, capacity - (size_t)size, "}");
}

static uint64_t number(const json_t *json, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(json, name));
}

static bool ask(struct model_world *world, uint32_t label, struct reach *out)
{
    const struct model_rollout *rollout = &world->record.rollouts[label];
    char body[2048];
    json_t *json = NULL;
    size_t size = write_body(&world->record, rollout, body, sizeof(body));
    int status = 0;
    while (status == 0 && world->gateway.fault[0] == '\0') { // it died in it: once more
        json_decref(json);
        status = model_gateway_call(&world->gateway, GW_METHOD_POST, "/api/v1/rollouts/preview",
                                    body, size, MODEL_ADMIN, &json);
    }
    *out = (struct reach){.devices = number(json, "devices"),
                          .matched = number(json, "matched"),
                          .outside_arm = number(json, "outside_arm"),
                          .elsewhere = number(json, "elsewhere")};
    const json_t *stages = json_object_get(json, "stages");
    for (uint32_t i = 0; i < model_ladder(rollout->ladder)->count; i++) {
        out->enter[i] = number(json_array_get(stages, i), "devices");
    }
    bool exact = json_is_true(json_object_get(json, "exact"));
    json_decref(json);
    if (status != 200 || !exact) {
        model_world_fail(world, "answer", "a dry run is answered with %d%s", status,
                         exact ? "" : ", and is not exact");
    }
    return status == 200 && exact;
}

// ---- Comparison

static void compare(struct model_world *world, uint32_t label, const char *what, uint64_t said,
                    uint64_t sure, uint64_t unsure)
{
    if (said < sure || said > sure + unsure) {
        model_world_fail(world, "preview",
                         "the dry run of rollout %u counts %" PRIu64 " %s, and there are %" PRIu64
                         ", with %" PRIu64 " more that are away or show nothing",
                         label, said, what, sure, unsure);
    }
}

static void compare_all(struct model_world *world, uint32_t label, const struct reach *said)
{
    struct reach sure;
    uint64_t unsure = 0;
    count_sure(world, label, &sure, &unsure);
    compare(world, label, "devices", said->devices, sure.devices, unsure);
    compare(world, label, "in the target", said->matched, sure.matched, unsure);
    compare(world, label, "outside the arm", said->outside_arm, sure.outside_arm, unsure);
    compare(world, label, "that follow another", said->elsewhere, sure.elsewhere, unsure);
    for (uint32_t i = 0; i < MODEL_STAGES_MAX; i++) {
        compare(world, label, "entering in a stage", said->enter[i], sure.enter[i], unsure);
    }
}

// Is it the last approved of its task? A dry run takes what is asked about for that.
static bool is_last(const struct model_record *record, const struct model_rollout *rollout)
{
    return rollout->counter == record->counters[rollout->task];
}

// Those of the first stage run it, but for those that have a reason not to.
static void compare_with_devices(struct model_world *world, uint32_t label,
                                 const struct reach *said)
{
    const struct model_rollout *rollout = &world->record.rollouts[label];
    uint64_t on = 0;
    uint64_t others = 0;
    for (uint32_t i = 0; i < world->device_count; i++) {
        struct model_facts facts;
        const struct model_device *device = &world->devices[i];
        if (is_sure(device) && model_device_facts(device, rollout->task, &facts)) {
            const struct model_answer answer = model_desired(&world->record, rollout->task, &facts);
            // One version may be in two rollouts: who stays with it follows the other.
            bool follows = answer.rollout == label && answer.rule == POL_DESIRED_FOLLOWED;
            bool may_not = facts.refused == rollout->version || facts.before[rollout->version] ||
                           facts.floor > 0 || world->restored || device->skew_s != 0 ||
                           rollout->pace != 0 || rollout->window != 0;
            on += follows && facts.have == rollout->version ? 1 : 0;
            others += may_not && !(follows && facts.have == rollout->version) ? 1 : 0;
        } else {
            others++;
        }
    }
    if (said->enter[0] < on || said->enter[0] > on + others) {
        model_world_fail(world, "preview",
                         "the dry run of rollout %u let %" PRIu64
                         " devices into its first stage; %" PRIu64 " run it, and %" PRIu64
                         " may have a reason not to",
                         label, said->enter[0], on, others);
    }
}

void model_preview(struct model_world *world, const struct model_op *op)
{
    uint32_t label = (uint32_t)op->args[0] % MODEL_ROLLOUTS_MAX;
    const struct model_op start = {MODEL_OP_START, {op->args[0]}};
    struct reach said;
    if (!model_command_allowed(&world->record, label, POL_COMMAND_START) ||
        world->record
            .killed[world->record.rollouts[label].task][world->record.rollouts[label].version]) {
        return;
    }
    model_settle(world);
    if (world->failed || !ask(world, label, &said)) {
        return;
    }
    compare_all(world, label, &said);
    model_operate(world, &start);
    model_settle(world);
    const struct model_rollout *rollout = &world->record.rollouts[label];
    bool open = rollout->state == POL_ROLLOUT_RUNNING && rollout->stage == 0 &&
                rollout->gate == 0 &&
                model_stage_lets_in(&model_ladder(rollout->ladder)->stages[0]);
    if (!world->failed && open && is_last(&world->record, rollout)) {
        compare_with_devices(world, label, &said);
    }
}
