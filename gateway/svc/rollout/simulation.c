// Results of simulate stages: evidence, and overrides. See simulation.h. api_rollouts.c brings
// both, rollouts.c asks whether one is there and opens an envelope that came with a new rollout,
// rollout_state.c stores; control thread. Every number of the evidence is bound to the rollout
// before it counts: signer, root, manifest, target. An override counts when another person approved
// it.
#include "svc/rollout/simulation.h"

#include "base/text/str_cut.h"
#include "base/version.h"
#include "policy/target_text.h"
#include "svc/trust/director.h"
#include "svc/access/operators.h"
#include "svc/rollout/rollout_state.h"
#include "svc/trust/director_private.h"
#include "svc/rollout/catalog_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_ID_SHOWN 8 // bytes

const char *gw_simulation_source_name(enum gw_simulation_source source)
{
    static const char *const names[GW_SIMULATION_SOURCE_COUNT] = {
        [GW_SIMULATION_NONE] = "none",         [GW_SIMULATION_TYPED] = "typed",
        [GW_SIMULATION_EVIDENCE] = "evidence", [GW_SIMULATION_PENDING] = "override_pending",
        [GW_SIMULATION_OVERRIDE] = "override",
    };
    return source < GW_SIMULATION_SOURCE_COUNT ? names[source] : "none";
}

// ---- Bytes

void gw_simulation_write(struct base_writer *writer, const struct gw_simulation *simulation)
{
    base_writer_u8(writer, (uint8_t)simulation->source);
    base_writer_u64(writer, simulation->completed);
    base_writer_u64(writer, simulation->failed);
    base_writer_u64(writer, simulation->seed);
    base_writer_u64(writer, simulation->drawn);
    base_writer_u64(writer, simulation->matched);
    base_writer_bytes(writer, simulation->evidence.bytes, WIRE_SHA256_BYTES);
    gw_row_text_write(writer, simulation->simulator, WIRE_EVIDENCE_SIMULATOR_MAX);
    gw_row_text_write(writer, simulation->by, GW_LOG_BY_MAX);
    gw_row_text_write(writer, simulation->reason, GW_LOG_REASON_MAX);
    gw_row_text_write(writer, simulation->approved_by, GW_LOG_BY_MAX);
    base_writer_u64(writer, simulation->not_run);
    base_writer_u8(writer, (uint8_t)simulation->class_count);
    for (uint32_t i = 0; i < simulation->class_count; i++) {
        const struct gw_simulation_class *one = &simulation->classes[i];
        base_writer_u8(writer, one->outcome);
        base_writer_u64(writer, one->devices);
        gw_row_text_write(writer, one->detail, WIRE_EVIDENCE_DETAIL_MAX);
    }
}

static void read_classes(struct base_reader *reader, struct gw_simulation *out)
{
    out->not_run = base_reader_u64(reader);
    out->class_count = base_reader_u8(reader);
    if (out->class_count > GW_SIMULATION_CLASSES_MAX) {
        out->class_count = 0;
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    for (uint32_t i = 0; i < out->class_count; i++) {
        struct gw_simulation_class *one = &out->classes[i];
        one->outcome = base_reader_u8(reader);
        one->devices = base_reader_u64(reader);
        gw_row_text_read(reader, one->detail, WIRE_EVIDENCE_DETAIL_MAX);
        if (!wire_outcome_is_failure((enum wire_outcome_kind)one->outcome)) {
            base_reader_fail(reader, BASE_ERR_INVALID);
        }
    }
}

void gw_simulation_read(struct base_reader *reader, bool classes, struct gw_simulation *out)
{
    uint8_t source = base_reader_u8(reader);
    if (source >= GW_SIMULATION_SOURCE_COUNT) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return;
    }
    out->source = (enum gw_simulation_source)source;
    out->completed = base_reader_u64(reader);
    out->failed = base_reader_u64(reader);
    out->seed = base_reader_u64(reader);
    out->drawn = base_reader_u64(reader);
    out->matched = base_reader_u64(reader);
    base_reader_copy(reader, out->evidence.bytes, WIRE_SHA256_BYTES);
    gw_row_text_read(reader, out->simulator, WIRE_EVIDENCE_SIMULATOR_MAX);
    gw_row_text_read(reader, out->by, GW_LOG_BY_MAX);
    gw_row_text_read(reader, out->reason, GW_LOG_REASON_MAX);
    gw_row_text_read(reader, out->approved_by, GW_LOG_BY_MAX);
    if (classes) {
        read_classes(reader, out);
    }
    if (out->failed > out->completed) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

// ---- What evidence is bound to

// Keys of the settings as a root whose one role is theirs.
static void settings_root(const struct gw_core *core, struct wire_root *out)
{
    *out = (struct wire_root){.key_count = core->set.evidence_key_count};
    memcpy(out->keys, core->set.evidence_keys, sizeof(core->set.evidence_keys));
}

static enum base_status check_signer(const struct gw_core *core, const struct gw_release *release,
                                     const struct wire_envelope *envelope,
                                     const struct wire_root *served, struct base_error *error)
{
    struct wire_root settings;
    const struct wire_delegation *delegation = NULL;
    struct wire_role role = {.threshold = 1};
    char shown[2 * KEY_ID_SHOWN + 1];
    if (core->director->signer == NULL) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED,
                              "evidence: this gateway has no keys of its own to verify with");
    }
    if (served != NULL) {
        delegation = wire_root_delegation(served, base_str_of(release->task));
        role.keys = delegation != NULL ? delegation->role.keys : 0;
    } else {
        settings_root(core, &settings);
        role.keys = (uint16_t)((1u << core->set.evidence_key_count) - 1);
    }
    struct wire_verifier verifier = gw_director_verifier(core);
    if (role.keys != 0 && wire_root_verify(served != NULL ? served : &settings, &role, 1, envelope,
                                           &verifier) == BASE_OK) {
        return BASE_OK;
    }
    base_hex_encode(envelope->signatures[0].key_id, KEY_ID_SHOWN, shown);
    return served != NULL
               ? base_error_set(error, BASE_ERR_SIGNATURE,
                                "evidence: signature: key %.16s is not of the release role of root "
                                "%llu for task %s, or did not sign these bytes",
                                shown, (unsigned long long)served->version, release->task)
               : base_error_set(error, BASE_ERR_SIGNATURE,
                                "evidence: signature: key %.16s is none of rollout.evidence_keys, "
                                "or did not sign these bytes",
                                shown);
}

static enum base_status check_root(const struct wire_root *served, const struct wire_sha256 *digest,
                                   const struct wire_evidence *evidence, struct base_error *error)
{
    uint64_t version = served != NULL ? served->version : 0;
    if (evidence->root_version != version) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "evidence: root: the devices were born with root %llu, this gateway "
                              "serves root %llu (0: none)",
                              (unsigned long long)evidence->root_version,
                              (unsigned long long)version);
    }
    if (served != NULL && !wire_sha256_equal(&evidence->root, digest)) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "evidence: root: another root %llu than this gateway's",
                              (unsigned long long)version);
    }
    return BASE_OK;
}

static enum base_status check_content(const struct gw_release *release,
                                      const struct wire_evidence *evidence,
                                      struct base_error *error)
{
    char said[WIRE_SHA256_HEX + 1];
    char own[WIRE_SHA256_HEX + 1];
    if (!wire_evidence_same_series(evidence->simulator, BASE_STR(BASE_PRODUCT_VERSION))) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "evidence: simulator: version %.*s is not of the series of this "
                              "gateway, %s",
                              (int)evidence->simulator.size, evidence->simulator.data,
                              BASE_PRODUCT_VERSION);
    }
    if (!base_str_equal(evidence->task, base_str_of(release->task))) {
        return base_error_set(error, BASE_ERR_CONFLICT, "evidence: task: %.*s, the rollout's is %s",
                              (int)evidence->task.size, evidence->task.data, release->task);
    }
    if (!wire_sha256_equal(&evidence->manifest, &release->manifest)) {
        wire_sha256_hex(&evidence->manifest, said);
        wire_sha256_hex(&release->manifest, own);
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "evidence: manifest: %.16s..., the rollout's is %.16s...", said, own);
    }
    return BASE_OK;
}

static enum base_status check_target(const struct gw_release *release,
                                     const struct wire_evidence *evidence, struct base_error *error)
{
    char *text = malloc(WIRE_EVIDENCE_TARGET_MAX + 1);
    size_t size = 0;
    enum base_status status = BASE_OK;
    if (text == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "evidence: out of memory");
    }
    if (!pol_target_text(&release->target, text, WIRE_EVIDENCE_TARGET_MAX + 1, &size)) {
        status = base_error_set(error, BASE_ERR_CONFLICT,
                                "evidence: target: the rollout's is too long for a simulation");
    } else if (!base_str_equal(evidence->target, (struct base_str){text, size})) {
        int shown = evidence->target.size < 40 ? (int)evidence->target.size : 40;
        status = base_error_set(error, BASE_ERR_CONFLICT,
                                "evidence: target: '%.*s', the rollout's is '%.60s'", shown,
                                shown > 0 ? evidence->target.data : "", text);
    }
    free(text);
    return status;
}

static enum base_status check_run(const struct wire_evidence *evidence, struct base_error *error)
{
    if (evidence->matched == 0) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "evidence: matched: no virtual device was in the target");
    }
    if (evidence->oracle_count == 0) {
        return base_error_set(error, BASE_ERR_CONFLICT, "evidence: oracles: none was checked");
    }
    for (uint32_t i = 0; i < evidence->oracle_count; i++) {
        const struct wire_evidence_oracle *oracle = &evidence->oracles[i];
        if (!oracle->holds) {
            return base_error_set(error, BASE_ERR_CONFLICT,
                                  "evidence: oracles: '%.*s' did not hold, the run proves nothing",
                                  (int)oracle->name.size, oracle->name.data);
        }
    }
    return BASE_OK;
}

enum base_status gw_evidence_open(const struct gw_core *core, const struct gw_release *release,
                                  struct base_span envelope, struct wire_evidence *out,
                                  struct base_error *error)
{
    struct wire_envelope parsed;
    struct wire_evidence evidence;
    struct wire_root root;
    struct wire_sha256 digest;
    const struct wire_root *served = gw_director_root(core, &root, &digest) ? &root : NULL;
    if (wire_envelope_parse(envelope.data, envelope.size, &parsed) != BASE_OK ||
        parsed.type != WIRE_ENVELOPE_TYPE_EVIDENCE ||
        wire_evidence_parse(parsed.payload, parsed.payload_bytes, &evidence) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "evidence: not evidence of a simulation");
    }
    BASE_TRY(check_signer(core, release, &parsed, served, error));
    BASE_TRY(check_content(release, &evidence, error));
    BASE_TRY(check_root(served, &digest, &evidence, error));
    BASE_TRY(check_target(release, &evidence, error));
    BASE_TRY(check_run(&evidence, error));
    *out = evidence;
    return BASE_OK;
}

// ---- Results

static enum base_status find_stage(struct gw_core *core, uint64_t id, struct gw_rollout **out,
                                   struct base_error *error)
{
    struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    if (rollout == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no such rollout");
    }
    const struct pol_stage *stage = &rollout->release->stages[rollout->state.stage_index];
    if (rollout->state.state != POL_ROLLOUT_RUNNING || stage->kind != POL_STAGE_SIMULATE) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "the rollout is not in a running simulate stage");
    }
    *out = rollout;
    return BASE_OK;
}

// What came of the stage: the result, on whose word, and what the log says before their reason.
struct found {
    const struct gw_simulation *simulation;
    const struct gw_rollout_who *who;
    const char *said;
};

static enum base_status commit(struct gw_core *core, struct gw_rollout *rollout,
                               const struct found *found, struct base_error *error)
{
    struct gw_rollout_change change;
    struct gw_rollout_counts seen;
    char reason[GW_LOG_REASON_MAX + 1];
    gw_rollout_begin(core, rollout, GW_LOG_SIMULATION, found->who, &change);
    memcpy(reason, change.line.comment, sizeof(reason));
    (void)snprintf(change.line.comment, sizeof(change.line.comment), "%s%s%s", found->said,
                   reason[0] != '\0' ? ": " : "", reason);
    change.next.simulation = *found->simulation;
    change.next.revision++;
    gw_rollout_seen(core, &change.next, &seen, &change.line.record.counts);
    struct pol_decision finds; // of the counts beside it: what was found before knew none of them
    if (gw_rollout_finds(core, &change.next, &finds)) {
        change.line.record.verdict = finds.verdict;
        change.line.record.reason = finds.reason;
    }
    enum base_status status = gw_rollout_commit(core, rollout, &change);
    if (status != BASE_OK) {
        return base_error_set(error, status, "the result could not be stored: %s",
                              base_status_text(status));
    }
    (void)gw_rollout_tick_one(core, rollout);
    return BASE_OK;
}

// The most frequent ones, in their order.
static void keep_classes(const struct wire_evidence *evidence, struct gw_simulation *out)
{
    for (uint32_t i = 0; i < evidence->class_count; i++) {
        const struct wire_evidence_class *one = &evidence->classes[i];
        uint32_t at = out->class_count;
        while (at > 0 && out->classes[at - 1].devices < one->devices) {
            at--;
        }
        if (at == GW_SIMULATION_CLASSES_MAX) {
            continue;
        }
        uint32_t last = out->class_count < GW_SIMULATION_CLASSES_MAX
                            ? out->class_count
                            : GW_SIMULATION_CLASSES_MAX - 1;
        memmove(&out->classes[at + 1], &out->classes[at], (last - at) * sizeof(out->classes[0]));
        out->class_count = last + 1;
        out->classes[at] =
            (struct gw_simulation_class){.outcome = one->outcome, .devices = one->devices};
        base_str_copy(one->detail, out->classes[at].detail, sizeof(out->classes[at].detail));
    }
}

enum base_status gw_rollout_evidence(struct gw_core *core, uint64_t id, struct base_span envelope,
                                     const struct gw_rollout_who *who, struct base_error *error)
{
    struct gw_rollout *rollout = NULL;
    struct wire_evidence evidence;
    char said[GW_LOG_REASON_MAX];
    BASE_TRY(find_stage(core, id, &rollout, error));
    BASE_TRY(gw_evidence_open(core, rollout->release, envelope, &evidence, error));
    // Who was to run it and did not has failed: nobody is left out of the sample.
    struct gw_simulation simulation = {
        .source = GW_SIMULATION_EVIDENCE,
        .completed = evidence.matched,
        .failed = evidence.failed + (evidence.matched - evidence.completed),
        .seed = evidence.seed,
        .drawn = evidence.drawn,
        .matched = evidence.matched,
        .not_run = evidence.matched - evidence.completed,
    };
    keep_classes(&evidence, &simulation);
    char digest[WIRE_SHA256_HEX + 1];
    gw_sha256(envelope.data, envelope.size, &simulation.evidence);
    wire_sha256_hex(&simulation.evidence, digest);
    memcpy(simulation.simulator, evidence.simulator.data, evidence.simulator.size);
    (void)snprintf(said, sizeof(said),
                   "evidence %.16s of simulator %s: %llu of %llu devices completed, %llu failed",
                   digest, simulation.simulator, (unsigned long long)evidence.completed,
                   (unsigned long long)evidence.matched, (unsigned long long)evidence.failed);
    return commit(core, rollout, &(struct found){&simulation, who, said}, error);
}

enum base_status gw_rollout_override(struct gw_core *core, uint64_t id, struct pol_sample typed,
                                     const struct gw_rollout_who *who, struct base_error *error)
{
    struct gw_rollout *rollout = NULL;
    char said[96];
    if (typed.failures > typed.trials) {
        return base_error_set(error, BASE_ERR_INVALID, "failed: more than completed");
    }
    if (who == NULL || who->by.size == 0 || who->comment.size == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: an override needs one",
                              who == NULL || who->by.size == 0 ? "by" : "reason");
    }
    BASE_TRY(find_stage(core, id, &rollout, error));
    struct gw_simulation simulation = {
        .source = GW_SIMULATION_PENDING, .completed = typed.trials, .failed = typed.failures};
    base_str_copy(gw_rollout_person(who), simulation.by, sizeof(simulation.by));
    base_str_copy(who->comment, simulation.reason, sizeof(simulation.reason));
    (void)snprintf(said, sizeof(said), "override, to be approved: %llu completed, %llu failed",
                   (unsigned long long)typed.trials, (unsigned long long)typed.failures);
    return commit(core, rollout, &(struct found){&simulation, who, said}, error);
}

bool gw_simulation_is_pending(const struct gw_rollout *rollout)
{
    const struct pol_stage *stage = &rollout->release->stages[rollout->state.stage_index];
    return rollout->simulation.source == GW_SIMULATION_PENDING &&
           rollout->state.state == POL_ROLLOUT_RUNNING && stage->kind == POL_STAGE_SIMULATE;
}

bool gw_simulation_is_missing(const struct gw_rollout *rollout)
{
    const struct pol_stage *stage = &rollout->release->stages[rollout->state.stage_index];
    return stage->kind == POL_STAGE_SIMULATE && !gw_simulation_counts(&rollout->simulation);
}

enum base_status gw_simulation_approve(struct gw_core *core, struct gw_rollout *rollout,
                                       const struct gw_rollout_who *who, struct base_error *error)
{
    struct gw_simulation simulation = rollout->simulation;
    char said[GW_LOG_REASON_MAX];
    if (gw_same_person(gw_rollout_person(who), base_str_of(simulation.by))) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "approve: %s typed the numbers; another person has to approve",
                              simulation.by);
    }
    simulation.source = GW_SIMULATION_OVERRIDE;
    base_str_copy(gw_rollout_person(who), simulation.approved_by, sizeof(simulation.approved_by));
    (void)snprintf(said, sizeof(said),
                   "override of %s approved (%llu completed, %llu failed): %.80s", simulation.by,
                   (unsigned long long)simulation.completed, (unsigned long long)simulation.failed,
                   simulation.reason);
    return commit(core, rollout, &(struct found){&simulation, who, said}, error);
}
