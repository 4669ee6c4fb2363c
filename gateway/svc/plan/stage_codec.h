// Stored form of how a stage is conducted: its gate, pace, windows, timeouts, retries, approval.
// The rest of a stage (name, audience, statement) is release_codec.c's.
#ifndef GW_STAGE_CODEC_H
#define GW_STAGE_CODEC_H

#include "base/cursor.h"
#include "policy/rollout.h"
#include "policy/slices.h"
#include "wire/tolerance.h"

// What is stored of a stage, by the version of the release.
enum gw_stage_form {
    GW_STAGE_OLDEST,
    GW_STAGE_VERDICTS, // ... and what its verdicts do and who must have answered
    GW_STAGE_CLOUD,    // ... and limits of decisions between device and cloud: as it is written
};

void gw_stage_write(struct base_writer *writer, const struct pol_stage *stage);
// Fills all of *stage but kind, max_bucket and audience. What is out of range is left to
// pol_stages_check; a malformed form fails the reader.
void gw_stage_read(struct base_reader *reader, enum gw_stage_form form, struct pol_stage *stage);

// The tolerances of a stage as its statement says them, and back.
void gw_stage_tolerances(const struct pol_stage *stage, struct wire_tolerances *out);
void gw_stage_tolerances_set(struct pol_stage *stage, const struct wire_tolerances *tolerances);

// Stored form of the counts a verdict was found from.
#define GW_COUNTS_BYTES (18u * 8)
void gw_pol_counts_write(struct base_writer *writer, const struct pol_counts *counts);
// `missing`: how many counts older lines lack: 0; 2: of who is under way; 3: ... and of the
// unproven.
#define GW_COUNTS_WITHOUT_WAY    2u
#define GW_COUNTS_WITHOUT_PROOFS 3u
void gw_pol_counts_read(struct base_reader *reader, uint32_t missing, struct pol_counts *counts);

// Stored form of a look at slices, and of names of slices that were held or lifted. What does not
// hang together fails the reader.
#define GW_SLICES_BYTES_MAX (1u + 5 + 10 + 5 + POL_SLICES_MAX * (8 + 10 + 10))
#define GW_HELD_BYTES_MAX   (1u + POL_HELD_MAX * 8)
// What a line says of a trial beside: of its counts, and of its slices.
#define GW_TRIAL_BYTES_MAX (1u + POL_LOGRANK_RATIOS * 8 + 18 * 10)
#define GW_RISES_BYTES_MAX (POL_SLICES_MAX * 4)
void gw_pol_trial_write(struct base_writer *writer, const struct pol_trial *trial);
void gw_pol_trial_read(struct base_reader *reader, struct pol_trial *trial);
void gw_pol_rises_write(struct base_writer *writer, const struct pol_slices *slices);
void gw_pol_rises_read(struct base_reader *reader, struct pol_slices *slices);
void gw_pol_slices_write(struct base_writer *writer, const struct pol_slices *slices);
void gw_pol_slices_read(struct base_reader *reader, struct pol_slices *slices);
void gw_pol_held_write(struct base_writer *writer, const struct pol_held *held);
void gw_pol_held_read(struct base_reader *reader, struct pol_held *held);

#endif
