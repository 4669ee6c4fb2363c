// What an operator does: calls of the API, their answers held against the record. A call that got
// no answer, because the gateway died in it, is made again, as whoever waits for one does; what was
// done already is then no conflict. One thread.
#include "model_world.h"

#include "model_pace.h"
#include "model_seal.h"

#include "svc/core_private.h"
#include "svc/rollout/catalog_private.h"
#include "svc/trust/director.h"

#include <inttypes.h>
#include <string.h>

#define BODY_MAX       16384
#define EXPIRES_S      UINT64_C(253402300799)
#define DIES_AGAIN_MAX 8

struct text {
    char bytes[BODY_MAX];
    size_t size;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text->bytes + text->size, sizeof(text->bytes) - text->size, format, args);
    va_end(args);
    text->size += (size_t)size;
}

int model_call(struct model_world *world, enum gw_method method, const char *path, const void *body,
               size_t size, enum model_bearer bearer, bool *out_again)
{
    struct model_gateway *gateway = &world->gateway;
    int status = 0;
    (void)snprintf(gateway->key, sizeof(gateway->key), "call %" PRIu64, world->asked++);
    for (uint32_t i = 0; i < DIES_AGAIN_MAX && status == 0; i++) {
        *out_again = i > 0;
        status = model_gateway_call(gateway, method, path, body, size, bearer, NULL);
    }
    gateway->key[0] = '\0';
    return status;
}

// ---- Versions

static void put_blob(struct model_world *world, const struct wire_sha256 *name, const void *bytes,
                     size_t size)
{
    char path[128];
    char hex[WIRE_SHA256_HEX + 1];
    bool again;
    wire_sha256_hex(name, hex);
    (void)snprintf(path, sizeof(path), "/api/v1/blobs/%s", hex);
    int status = model_call(world, GW_METHOD_PUT, path, bytes, size, MODEL_ADMIN, &again);
    if (status != 201 && status != 200 && !again) {
        model_world_fail(world, "answer", "content is answered with %d", status);
    }
}

// What is for single devices, all at once. `hex`: of the list that names it.
static void put_exclusive(struct model_world *world, const struct model_exclusive *exclusive,
                          char hex[WIRE_SHA256_HEX + 1])
{
    bool again;
    wire_sha256_hex(&exclusive->list, hex);
    int status = model_call(world, GW_METHOD_PUT, "/api/v1/exclusive", exclusive->pack,
                            exclusive->pack_size, MODEL_ADMIN, &again);
    if (status != 201 && status != 200 && !again) {
        model_world_fail(world, "answer", "exclusive content is answered with %d", status);
    }
}

// A task's name as a segment of a path.
static void path_name(int task, char *out, size_t capacity)
{
    const char *name = model_task_name(task);
    const char *slash = strchr(name, '/');
    (void)snprintf(out, capacity, "%.*s%%2F%s", (int)(slash - name), name, slash + 1);
}

static void need_version(struct model_world *world, int task, int version)
{
    const struct model_content *content = &world->ground.content[task][version];
    char name[96];
    char path[192];
    char body[192];
    char hex[WIRE_SHA256_HEX + 1];
    bool again;
    if (world->registered[task][version]) {
        return;
    }
    put_blob(world, &content->script, content->script_text, content->script_size);
    put_blob(world, &content->manifest, content->manifest_bytes, content->manifest_size);
    (void)snprintf(body, sizeof(body), "{\"name\":\"%s\"}", model_task_name(task));
    (void)model_call(world, GW_METHOD_POST, "/api/v1/tasks", body, strlen(body), MODEL_ADMIN,
                     &again);
    path_name(task, name, sizeof(name));
    (void)snprintf(path, sizeof(path), "/api/v1/tasks/%s/versions", name);
    wire_sha256_hex(&content->manifest, hex);
    size_t size = (size_t)snprintf(body, sizeof(body), "{\"manifest\":\"%s\"}", hex);
    if (content->exclusive != NULL) {
        put_exclusive(world, content->exclusive, hex);
        (void)snprintf(body + size - 1, sizeof(body) - size + 1, ",\"exclusive\":\"%s\"}", hex);
    }
    int status = model_call(world, GW_METHOD_POST, path, body, strlen(body), MODEL_ADMIN, &again);
    if (status != 201 && status != 200 && !again) {
        model_world_fail(world, "answer", "a version is answered with %d", status);
    }
    world->registered[task][version] = true;
}

// ---- Creation

static void add_statement(struct model_world *world, const struct model_rollout *rollout,
                          const struct model_stage *stage, struct text *out)
{
    const struct model_content *content = &world->ground.content[rollout->task][rollout->version];
    const struct pol_arm arm = model_arm(&world->record, rollout->arm);
    struct wire_release release = {
        .task_name = base_str_of(model_task_name(rollout->task)),
        .release_counter = rollout->counter,
        .floor = rollout->floor,
        .manifest = content->manifest,
        .manifest_bytes = content->manifest_size,
        .rollout_id = rollout->id,
        .salt = rollout->salt,
        .max_bucket = stage->share,
        .stage_kind = (uint8_t)stage->kind,
        .issued_s = world->wall_us / 1000000,
        .expires_s = EXPIRES_S,
        .arm_salt = arm.salt,
        .arm_from = arm.from,
        .arm_to = arm.to,
    };
    uint8_t payload[512];
    uint8_t envelope[WIRE_STATEMENT_BYTES_MAX];
    char encoded[BASE_B64_ENCODED(WIRE_STATEMENT_BYTES_MAX) + 1];
    size_t size = 0;
    if (wire_release_encode(&release, payload, sizeof(payload), &size) != BASE_OK ||
        model_seal_envelope(rollout->signers, WIRE_ENVELOPE_TYPE_RELEASE, payload, size, envelope,
                            sizeof(envelope), &size) != BASE_OK) {
        model_world_fail(world, "world", "a statement cannot be made");
        return;
    }
    encoded[base_b64_encode(envelope, size, encoded)] = '\0';
    add(out, ",\"statement\":\"%s\"}", encoded);
}

static void add_stages(struct model_world *world, const struct model_rollout *rollout,
                       struct text *out)
{
    const struct model_ladder *ladder = model_ladder(rollout->ladder);
    add(out, "\"stages\":[");
    for (uint32_t i = 0; i < ladder->count; i++) {
        const struct model_stage *stage = &ladder->stages[i];
        // Where no gate decides, operators alone move the rollout.
        add(out,
            "%s{\"name\":\"s%u\",\"kind\":\"%s\",\"percent\":%g,\"audience\":%s,"
            "\"max_failure\":%s,\"no_data_s\":0,\"approval\":%s",
            i > 0 ? "," : "", i, pol_stage_kind_name(stage->kind), stage->share / 100.0,
            model_target_text(stage->audience), model_gate_text(rollout->gate),
            (rollout->approval >> i & 1) != 0 ? "true" : "false");
        if (rollout->window != 0) {
            add(out, ",\"windows\":[{\"start\":\"%02u:%02u\",\"minutes\":%u}]",
                MODEL_WINDOW_START_MIN / 60, MODEL_WINDOW_START_MIN % 60, MODEL_WINDOW_MINUTES);
        }
        add(out, "%s", model_pace_text(rollout->pace));
        if (i + 1 == ladder->count) {
            add(out, "%s", model_guard_text(rollout->guard));
        }
        if (stage->kind == POL_STAGE_SIMULATE) { // nothing is signed for it
            add(out, "}");
        } else {
            add_statement(world, rollout, stage, out);
        }
    }
    add(out, "]");
}

static void add_rollout(struct model_world *world, const struct model_rollout *rollout, bool trust,
                        struct text *out)
{
    const struct pol_arm arm = model_arm(&world->record, rollout->arm);
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(&world->ground.content[rollout->task][rollout->version].manifest, hex);
    out->size = 0;
    add(out,
        "{\"id\":\"%016" PRIx64 "\",\"salt\":\"%016" PRIx64 "\",\"task\":\"%s\",\"manifest\":"
        "\"%s\",\"release_counter\":%" PRIu64 ",\"priority\":%d,\"trust_unproven\":%s,"
        "\"target\":%s,",
        rollout->id, rollout->salt, model_task_name(rollout->task), hex, rollout->counter,
        rollout->priority, trust ? "true" : "false", model_target_text(rollout->target));
    if (arm.to > 0) {
        add(out, "\"arm\":{\"salt\":\"%016" PRIx64 "\",\"from\":%g,\"to\":%g},", arm.salt,
            arm.from / 100.0, arm.to / 100.0);
    }
    add_stages(world, rollout, out);
    add(out, ",\"accept_empty\":true,\"by\":\"ana\"}");
}

// ---- Where a rollout is

static bool is_back(enum pol_rollout_state state)
{
    return state == POL_ROLLOUT_ROLLING_BACK || state == POL_ROLLOUT_ROLLED_BACK;
}

// Is the rollout where `expected` has it? `out` tells where it is.
static bool agrees(struct model_world *world, const struct model_rollout *expected, uint64_t id,
                   char *out, size_t capacity)
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(world->gateway.core, id);
    if (rollout == NULL || !expected->there) {
        (void)snprintf(out, capacity, "%s", rollout == NULL ? "not there" : "there");
        return (rollout != NULL) == expected->there;
    }
    const struct pol_rollout *state = &rollout->state;
    (void)snprintf(out, capacity, "%s in stage %u%s", pol_rollout_state_name(state->state),
                   state->stage_index, state->before_first ? ", before the first" : "");
    if (is_back(expected->state)) {
        return is_back(state->state);
    }
    bool staged = expected->state == POL_ROLLOUT_RUNNING || expected->state == POL_ROLLOUT_PAUSED ||
                  expected->state == POL_ROLLOUT_WAITING;
    return state->state == expected->state && state->guarding == expected->guarding &&
           (!staged || (state->before_first == expected->before_first &&
                        (state->before_first || state->stage_index == expected->stage)));
}

#define SEGMENT_OF_OS "no model os=" // and its letter: all that a device says of itself
#define SEGMENT_END   " no app_version"

// The segments that the gateway has in quarantine: those of an os.
static uint32_t held_by(const struct gw_rollout *rollout)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < rollout->quarantine_count; i++) {
        const char *text = rollout->quarantine[i].text;
        char os = strncmp(text, SEGMENT_OF_OS, strlen(SEGMENT_OF_OS)) == 0
                      ? text[strlen(SEGMENT_OF_OS)]
                      : '\0';
        held |= os >= 'a' && os <= 'c' ? UINT32_C(1) << (os - 'a') : 0;
    }
    return held;
}

void model_take_decisions(struct model_world *world)
{
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX; i++) {
        const struct model_rollout *own = &world->record.rollouts[i];
        if (own->there && (own->gate != 0 || own->guarding)) {
            const struct gw_rollout *rollout =
                gw_catalog_find_rollout(world->gateway.core, model_rollout_id(&world->record, i));
            if (rollout != NULL) {
                (void)model_decided(&world->record, i, &rollout->state);
                world->record.rollouts[i].held = held_by(rollout);
            }
        }
    }
}

void model_compare_rollouts(struct model_world *world)
{
    char is[96];
    model_take_decisions(world);
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX && !world->failed; i++) {
        const struct model_rollout *rollout = &world->record.rollouts[i];
        if (!agrees(world, rollout, model_rollout_id(&world->record, i), is, sizeof(is))) {
            model_world_fail(world, "record", "rollout %u is %s; the record has it %s in stage %u",
                             i, is, rollout->there ? pol_rollout_state_name(rollout->state) : "not",
                             rollout->stage);
        }
    }
    for (int task = 0; task < (int)MODEL_TASKS && !world->failed; task++) {
        for (int version = 0; version < (int)MODEL_VERSIONS; version++) {
            bool killed = gw_director_kills(world->gateway.core,
                                            &world->ground.content[task][version].manifest);
            if (killed != world->record.killed[task][version]) {
                model_world_fail(world, "record", "version %d of task %d is %son the kill list",
                                 version, task, killed ? "" : "not ");
            }
        }
    }
}

// ---- Operations

// Is what `after` says of the rollout, and of its version, so already? Asked when a call was cut
// off.
static bool is_so(struct model_world *world, const struct model_record *after, uint32_t label)
{
    const struct model_rollout *rollout = &after->rollouts[label];
    const struct wire_sha256 *manifest =
        &world->ground.content[rollout->task][rollout->version].manifest;
    char is[96];
    return agrees(world, rollout, model_rollout_id(after, label), is, sizeof(is)) &&
           gw_director_kills(world->gateway.core, manifest) ==
               after->killed[rollout->task][rollout->version];
}

static void create(struct model_world *world, const struct model_op *op)
{
    static struct text body;
    static struct model_record after;
    uint32_t label = (uint32_t)op->args[0] % MODEL_ROLLOUTS_MAX;
    struct model_rollout rollout = model_rollout_draft(&world->record, op->args);
    enum model_allowed allowed = model_create_allowed(&world->record, &rollout, label);
    bool again = false;
    need_version(world, rollout.task, rollout.version);
    add_rollout(world, &rollout, op->args[10] != 0, &body);
    int status = model_call(world, GW_METHOD_POST, "/api/v1/rollouts", body.bytes, body.size,
                            MODEL_ADMIN, &again);
    after = world->record;
    model_created(&after, label, &rollout);
    bool done = status == 201 || (again && status == 409 && is_so(world, &after, label));
    if ((allowed != MODEL_MAYBE && done != (allowed == MODEL_YES)) || (!done && status != 409)) {
        model_world_fail(world, "answer", "create of rollout %u is answered with %d", label,
                         status);
    } else if (done) {
        world->record = after;
    }
}

static void kill_version(struct model_world *world, const struct model_op *op)
{
    int task = (int)op->args[0];
    int version = (int)op->args[1];
    char hex[WIRE_SHA256_HEX + 1];
    char body[160];
    int status = 409;
    wire_sha256_hex(&world->ground.content[task][version].manifest, hex);
    (void)snprintf(body, sizeof(body), "{\"manifest\":\"%s\",\"reason\":\"leaks\"}", hex);
    bool again = true;
    while (status == 409 && again) { // cut off: it is asked for anew, under another key
        status = model_call(world, GW_METHOD_POST, "/api/v1/kills", body, strlen(body), MODEL_ADMIN,
                            &again);
    }
    if (status != 201 && status != 200) {
        model_world_fail(world, "answer", "a kill is answered with %d", status);
        return;
    }
    model_version_killed(&world->record, task, version);
}

// The next root, by the operators' hands: the gateway is given it, and keeps it beside the others.
static void rotate(struct model_world *world, const struct model_op *op)
{
    enum model_root root = (enum model_root)op->args[0];
    uint64_t version = world->record.root_version + 1;
    if (world->record.root_version == 0 || version > MODEL_ROOTS_MAX) {
        return;
    }
    for (uint32_t i = 0; i < world->device_count; i++) {
        model_device_note(&world->devices[i]);
    }
    if (version > world->root_count) {
        bool online_next = world->gateway.online_next != (op->args[1] != 0);
        model_world_make_root(world, root, online_next);
        if (op->args[1] != 0) { // its keys are moved away, and it is started again
            world->gateway.online_next = online_next;
            (void)model_gateway_kill(&world->gateway);
            model_pace_forget(world);
        }
    }
    model_world_push_root(world, (uint32_t)version - 1);
}

static void unkill(struct model_world *world, const struct model_op *op)
{
    int task = (int)op->args[0];
    int version = (int)op->args[1];
    bool killed = world->record.killed[task][version];
    char hex[WIRE_SHA256_HEX + 1];
    char path[128];
    bool again = false;
    wire_sha256_hex(&world->ground.content[task][version].manifest, hex);
    (void)snprintf(path, sizeof(path), "/api/v1/kills/%s/lift", hex);
    int status = model_call(world, GW_METHOD_POST, path, "{\"reason\":\"mended\"}",
                            strlen("{\"reason\":\"mended\"}"), MODEL_ADMIN, &again);
    bool done = status == 200 || (again && killed && (status == 404 || status == 409));
    if (done != killed || (!done && status != 404)) {
        model_world_fail(world, "answer", "the end of a kill is answered with %d", status);
    } else if (done) {
        model_version_unkilled(&world->record, task, version);
    }
}

// Lets the segment of an os in again.
static void lift(struct model_world *world, const struct model_op *op)
{
    uint32_t label = (uint32_t)op->args[0] % MODEL_ROLLOUTS_MAX;
    struct model_rollout *rollout = &world->record.rollouts[label];
    uint32_t bit = UINT32_C(1) << op->args[1];
    bool held = rollout->there && (rollout->held & bit) != 0;
    char path[96];
    char body[96];
    bool again = false;
    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%016" PRIx64 "/lift",
                   model_rollout_id(&world->record, label));
    (void)snprintf(body, sizeof(body),
                   "{\"segment\":\"" SEGMENT_OF_OS "%c" SEGMENT_END "\",\"reason\":\"mended\"}",
                   (char)('a' + op->args[1]));
    int status = model_call(world, GW_METHOD_POST, path, body, strlen(body), MODEL_ADMIN, &again);
    if ((status == 200) != held || (!held && status != 404 && status != 409)) {
        model_world_fail(world, "answer", "the end of a quarantine is answered with %d", status);
    } else if (held) {
        rollout->held &= ~bit;
    }
}

// A case says where the gateway has a rollout, once it had a look.
static void stands(struct model_world *world, const struct model_op *op)
{
    uint32_t label = (uint32_t)op->args[0] % MODEL_ROLLOUTS_MAX;
    const struct gw_rollout *rollout =
        gw_catalog_find_rollout(world->gateway.core, model_rollout_id(&world->record, label));
    if (rollout == NULL || (int64_t)rollout->state.state != op->args[1]) {
        model_world_fail(world, "expect", "rollout %u is %s, the case says %s", label,
                         rollout != NULL ? pol_rollout_state_name(rollout->state.state)
                                         : "not there",
                         pol_rollout_state_name((enum pol_rollout_state)op->args[1]));
    }
}

static void command(struct model_world *world, const struct model_op *op, enum pol_command kind)
{
    static struct model_record after;
    uint32_t label = (uint32_t)op->args[0] % MODEL_ROLLOUTS_MAX;
    bool allowed = model_command_allowed(&world->record, label, kind);
    enum model_bearer bearer = kind == POL_COMMAND_APPROVE ? MODEL_APPROVER : MODEL_ADMIN;
    static const char body[] = "{\"reason\":\"played\"}";
    char path[96];
    bool again = false;
    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%016" PRIx64 "/%s",
                   model_rollout_id(&world->record, label), pol_command_name(kind));
    after = world->record;
    if (allowed) {
        model_commanded(&after, label, kind);
    }
    int status = model_call(world, GW_METHOD_POST, path, body, sizeof(body) - 1, bearer, &again);
    bool done = status == 200 || (again && status == 409 && allowed && is_so(world, &after, label));
    if (again && status == 409 && allowed && !done) { // cut off halfway: asked for anew
        status = model_call(world, GW_METHOD_POST, path, body, sizeof(body) - 1, bearer, &again);
        done = status == 200;
    }
    if (done != allowed || (!done && status != 409 && status != 404 && status != 403)) {
        model_world_fail(world, "answer", "%s of rollout %u is answered with %d, %s",
                         pol_command_name(kind), label, status,
                         allowed ? "although it is allowed" : "although it is not allowed");
    } else if (done) {
        world->record = after;
    }
}

void model_operate(struct model_world *world, const struct model_op *op)
{
    static const enum pol_command commands[MODEL_OP_COUNT] = {
        [MODEL_OP_START] = POL_COMMAND_START,     [MODEL_OP_PAUSE] = POL_COMMAND_PAUSE,
        [MODEL_OP_RESUME] = POL_COMMAND_RESUME,   [MODEL_OP_PROMOTE] = POL_COMMAND_PROMOTE,
        [MODEL_OP_APPROVE] = POL_COMMAND_APPROVE, [MODEL_OP_ABORT] = POL_COMMAND_ABORT,
        [MODEL_OP_UNDO] = POL_COMMAND_UNDO,       [MODEL_OP_KILL] = POL_COMMAND_KILL,
    };
    if (op->kind == MODEL_OP_CREATE) {
        create(world, op);
    } else if (op->kind == MODEL_OP_KILL_VERSION) {
        kill_version(world, op);
    } else if (op->kind == MODEL_OP_SIMULATED) {
        model_simulated(world, op);
    } else if (op->kind == MODEL_OP_ROTATE) {
        rotate(world, op);
    } else if (op->kind == MODEL_OP_UNKILL) {
        unkill(world, op);
    } else if (op->kind == MODEL_OP_LIFT) {
        lift(world, op);
    } else if (op->kind == MODEL_OP_STANDS) {
        stands(world, op);
    } else {
        command(world, op, commands[op->kind]);
    }
    model_compare_rollouts(world);
}
