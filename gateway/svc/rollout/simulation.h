// The result of a rollout's simulate stage: where it may come from, what is checked, what is kept.
//
// Evidence (wire/trust/run_evidence.h) is taken when its signature and everything it is bound to
// agree with the rollout; the counts of the stage are those of the evidence. Numbers that a person
// types are an override: they need a reason, and count once another person approved them. Control
// thread.
#ifndef GW_SIMULATION_H
#define GW_SIMULATION_H

#include "svc/rollout/rollouts.h"
#include "wire/trust/run_evidence.h"

struct base_reader;
struct base_writer;
struct gw_release;
struct gw_rollout;

#define GW_SIMULATION_BYTES_MAX                                                                    \
    (1 + 6 * 8 + WIRE_SHA256_BYTES + 5 + WIRE_EVIDENCE_SIMULATOR_MAX + 2 * GW_LOG_BY_MAX +         \
     GW_LOG_REASON_MAX + GW_SIMULATION_CLASSES_MAX * (10 + WIRE_EVIDENCE_DETAIL_MAX))

// Is there a result that the stage is judged by?
static inline bool gw_simulation_counts(const struct gw_simulation *simulation)
{
    return simulation->source == GW_SIMULATION_TYPED ||
           simulation->source == GW_SIMULATION_EVIDENCE ||
           simulation->source == GW_SIMULATION_OVERRIDE;
}
const char *gw_simulation_source_name(enum gw_simulation_source source);

// Part of a rollout's row; `classes`: is how devices failed in it?
void gw_simulation_write(struct base_writer *writer, const struct gw_simulation *simulation);
void gw_simulation_read(struct base_reader *reader, bool classes, struct gw_simulation *out);

// Does the envelope prove that `release` was simulated: signed by a key of the release
// role of its task when there is a root, else by one of the evidence keys of the settings; of the
// same manifest, task, target, newest root and simulator's series; with devices that matched and
// every oracle that was checked holding? *out borrows from it. INVALID: no evidence;
// SIGNATURE; CONFLICT; `error` says what and where.
BASE_NODISCARD enum base_status
gw_evidence_open(const struct gw_core *core, const struct gw_release *release,
                 struct base_span envelope, struct wire_evidence *out, struct base_error *error);
// Does the rollout's simulate stage wait for a second person?
bool gw_simulation_is_pending(const struct gw_rollout *rollout);
// Is its open stage a simulate stage that nothing is known of? One person cannot wave it through.
bool gw_simulation_is_missing(const struct gw_rollout *rollout);
// That person's word: the typed numbers count from now on. CONFLICT: who typed them is no second
// person; IO, FULL.
BASE_NODISCARD enum base_status gw_simulation_approve(struct gw_core *core,
                                                      struct gw_rollout *rollout,
                                                      const struct gw_rollout_who *who,
                                                      struct base_error *error);

#endif
