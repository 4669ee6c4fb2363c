// The gate of a simulate stage over evidence: see evidence_gate.h. Called where something starts
// with evidence (cli_release.c, rollout_begin.c), and by rollout_evidence.c for the limit; one
// thread. The judgement is that of the policy, over the counts that a gateway takes from evidence;
// who signed them is for the gateway to check.
#include "cli/stages/evidence_gate.h"

#include "cli/base/cli_json.h"
#include "cli/stages/ladder.h"
#include "cli/stages/stage_json.h"

#include "wire/trust/meta.h"
#include "wire/trust/run_evidence.h"

#include <stdio.h>
#include <stdlib.h>

#define PPM_OF_PERCENT 1e4

static bool read_evidence(const json_t *body, uint8_t *bytes, size_t capacity,
                          struct wire_evidence *out)
{
    struct wire_envelope envelope;
    const char *text = cli_json_text(body, "evidence", NULL);
    size_t size = 0;

    return text != NULL && base_b64_decode(base_str_of(text), bytes, capacity, &size) == BASE_OK &&
           wire_envelope_parse(bytes, size, &envelope) == BASE_OK &&
           envelope.type == WIRE_ENVELOPE_TYPE_EVIDENCE &&
           wire_evidence_parse(envelope.payload, envelope.payload_bytes, out) == BASE_OK;
}

uint32_t evidence_gate_limit(const json_t *stage)
{
    struct pol_stage read;

    stage_json_read(stage, &read);
    return read.gate.max_failure_ppm;
}

// What is judged, by the limits of the stage.
struct weighed {
    const char *stage;
    uint32_t min_sample;
    uint32_t max_failure_ppm;
    uint64_t completed;
    uint64_t failed;
    struct pol_judgement judgement;
};

static void judge(const json_t *stage, const struct wire_evidence *evidence, struct weighed *out)
{
    struct pol_stage read;
    const struct pol_counts counts = {.offered = evidence->completed,
                                      .downloaded = evidence->completed,
                                      .activated = evidence->completed,
                                      .succeeded = evidence->completed - evidence->failed,
                                      .failed = evidence->failed};

    stage_json_read(stage, &read);
    out->stage = cli_json_text(stage, "name", "?");
    out->min_sample = read.gate.min_sample;
    out->max_failure_ppm = read.gate.max_failure_ppm;
    out->completed = evidence->completed;
    out->failed = evidence->failed;
    pol_gate_judge(&read.gate, &counts, UINT64_MAX, &out->judgement);
}

// False: there is nothing to judge here.
static bool weigh(const json_t *stages, const json_t *body, struct weighed *out)
{
    const json_t *first = json_array_get(stages, 0);
    struct wire_evidence evidence;
    uint8_t *bytes = malloc(WIRE_META_BYTES_MAX);
    bool found = bytes != NULL && ladder_kind(first) == POL_STAGE_SIMULATE &&
                 read_evidence(body, bytes, WIRE_META_BYTES_MAX, &evidence);

    if (found) {
        judge(first, &evidence, out);
    }
    free(bytes);
    return found;
}

enum cli_exit evidence_gate_check(const json_t *stages, const json_t *evidence, bool would)
{
    struct weighed of;
    const char *word = would ? "would" : "will";

    if (!weigh(stages, evidence, &of)) {
        return CLI_EXIT_OK;
    }
    if (of.judgement.verdict == POL_VERDICT_FAIL) {
        return cli_fail(CLI_EXIT_FAILED,
                        "stage %s %s not pass: %llu of %llu virtual devices failed, %.2f %%, at "
                        "most %.2f %% may",
                        of.stage, word, (unsigned long long)of.failed,
                        (unsigned long long)of.completed, of.judgement.failure_ppm / PPM_OF_PERCENT,
                        of.max_failure_ppm / PPM_OF_PERCENT);
    }
    return of.completed >= of.min_sample
               ? CLI_EXIT_OK
               : cli_fail(CLI_EXIT_REFUSED,
                          "stage %s %s not pass: it asks for %u virtual devices and %llu "
                          "completed; walle-fleet-sim simulate --devices %u --evidence FILE "
                          "brings more",
                          of.stage, word, of.min_sample, (unsigned long long)of.completed,
                          of.min_sample);
}

void evidence_gate_differs(const json_t *stages, const json_t *evidence)
{
    struct weighed of;

    if (weigh(stages, evidence, &of) && of.judgement.verdict == POL_VERDICT_PASS) {
        fprintf(stderr,
                "walle: warning: the simulation failed, and stage %s asks for less: of %llu "
                "virtual devices %llu failed, %.2f %% may\n",
                of.stage, (unsigned long long)of.completed, (unsigned long long)of.failed,
                of.max_failure_ppm / PPM_OF_PERCENT);
    }
}
