// What a simulate stage came to: numbers that one person types and another
// approves, or the signed evidence of a run, which is taken when it is of this
// version, target and root. One thread.
#include "model_world.h"

#include "model_seal.h"

#include "base/version.h"
#include "policy/target_text.h"
#include "svc/core_private.h"
#include "svc/rollout/catalog_private.h"
#include "wire/trust/run_evidence.h"

#include <inttypes.h>
#include <string.h>

#define MATCHED     1000u
#define FAILED_BAD  900u
#define FAILED_GOOD 1u
#define RUN_S       60u

static void must(struct model_world *world, const char *path, const char *body,
                 enum model_bearer bearer)
{
    bool again = false;
    int status = model_call(world, GW_METHOD_POST, path, body, strlen(body), bearer, &again);
    if (status != 200 && !again) {
        model_world_fail(world, "answer", "%s is answered with %d", path, status);
    }
}

// Somebody says what it came to, and another one that it counts.
static void type(struct model_world *world, const char *path, uint32_t failed)
{
    char body[160];
    char approve[96];
    (void)snprintf(body, sizeof(body),
                   "{\"completed\":%u,\"failed\":%u,\"override\":true,\"by\":"
                   "\"ana\",\"reason\":"
                   "\"x\"}",
                   MATCHED, failed);
    must(world, path, body, MODEL_ADMIN);
    (void)snprintf(approve, sizeof(approve), "%.*s/approve",
                   (int)(strlen(path) - strlen("/simulation")), path);
    must(world, approve, "{}", MODEL_APPROVER);
}

// ---- Evidence

static bool target_text(struct model_world *world, const struct model_rollout *rollout, char *out,
                        size_t capacity)
{
    const struct gw_rollout *of = gw_catalog_find_rollout(world->gateway.core, rollout->id);
    size_t size = 0;
    return of != NULL && pol_target_text(&of->release->target, out, capacity, &size);
}

// Signed as `kind` says; its size, 0: it cannot be made.
static size_t make(struct model_world *world, const struct model_rollout *rollout,
                   enum model_evidence kind, uint32_t failed, uint8_t *out, size_t capacity)
{
    const struct model_record *record = &world->record;
    const struct model_content *versions = world->ground.content[rollout->task];
    int version = rollout->version;
    uint64_t root = record->root_version;
    char target[WIRE_EVIDENCE_TARGET_MAX + 1];
    uint8_t payload[1024];
    size_t size = 0;
    uint32_t keys = model_root_releases(record->root).keys;
    if (!target_text(world, rollout, target, sizeof(target))) {
        return 0;
    }
    version =
        kind == MODEL_EVIDENCE_OF_ANOTHER_VERSION ? (version + 1) % (int)MODEL_VERSIONS : version;
    root = kind == MODEL_EVIDENCE_OF_ANOTHER_ROOT ? root + 1 : root;
    keys = kind == MODEL_EVIDENCE_BY_ANOTHER_KEY ? 1u << MODEL_KEY_ROOT : keys;
    struct wire_evidence evidence = {
        .simulator = BASE_STR(BASE_PRODUCT_VERSION),
        .task = base_str_of(model_task_name(rollout->task)),
        .manifest = versions[version].manifest,
        .root_version = root,
        .root = model_sha256(world->roots[record->root_version - 1].bytes,
                             world->roots[record->root_version - 1].size),
        .target = base_str_of(kind == MODEL_EVIDENCE_OF_ANOTHER_TARGET ? "ring == 9" : target),
        .seed = record->seed,
        .drawn = 2 * MATCHED,
        .matched = MATCHED,
        .completed = MATCHED,
        .failed = failed,
        .began_s = world->wall_us / 1000000 - RUN_S,
        .ended_s = world->wall_us / 1000000,
        .class_count = 1,
        .classes = {{.outcome = WIRE_OUTCOME_FAIL_EXCEPTION, .devices = failed}},
        .oracle_count = 1,
        .oracles = {{BASE_STR("no_crash"), true}},
    };
    return wire_evidence_encode(&evidence, payload, sizeof(payload), &size) == BASE_OK &&
                   model_seal_envelope(keys, WIRE_ENVELOPE_TYPE_EVIDENCE, payload, size, out,
                                       capacity, &size) == BASE_OK
               ? size
               : 0;
}

// False: it is not taken, and must not be.
static bool sign(struct model_world *world, const struct model_rollout *rollout, const char *path,
                 enum model_evidence kind, uint32_t failed)
{
    uint8_t envelope[2048];
    char body[BASE_B64_ENCODED(sizeof(envelope)) + 32] = "{\"evidence\":\"";
    size_t head = strlen(body);
    bool again = false;
    size_t size = make(world, rollout, kind, failed, envelope, sizeof(envelope));
    if (size == 0) {
        model_world_fail(world, "world", "evidence cannot be made");
        return false;
    }
    size = head + base_b64_encode(envelope, size, body + head);
    size += (size_t)snprintf(body + size, sizeof(body) - size, "\"}");
    int status = model_call(world, GW_METHOD_POST, path, body, size, MODEL_ADMIN, &again);
    bool taken = status == 200 || (again && status == 409 && kind == MODEL_EVIDENCE_SIGNED);
    int refusal = kind == MODEL_EVIDENCE_BY_ANOTHER_KEY ? 403 : 409;
    if (taken != (kind == MODEL_EVIDENCE_SIGNED) || (!taken && status != refusal)) {
        model_world_fail(world, "answer", "evidence of kind %d is answered with %d", (int)kind,
                         status);
    }
    return taken;
}

// ---- All

void model_simulated(struct model_world *world, const struct model_op *op)
{
    struct model_rollout *rollout = &world->record.rollouts[op->args[0] % MODEL_ROLLOUTS_MAX];
    uint32_t failed = op->args[1] != 0 ? FAILED_BAD : FAILED_GOOD;
    enum model_evidence kind = (enum model_evidence)op->args[2];
    char path[96];
    if (!rollout->there || rollout->state != POL_ROLLOUT_RUNNING || rollout->simulated ||
        !model_is_signed(&world->record, rollout) ||
        model_ladder(rollout->ladder)->stages[rollout->stage].kind != POL_STAGE_SIMULATE) {
        return;
    }
    (void)snprintf(path, sizeof(path), "/api/v1/rollouts/%016" PRIx64 "/simulation", rollout->id);
    if (kind == MODEL_EVIDENCE_TYPED || world->record.root_version == 0) {
        type(world, path, failed);
        rollout->simulated = true;
    } else {
        rollout->simulated = sign(world, rollout, path, kind, failed);
    }
}
