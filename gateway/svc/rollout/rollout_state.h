// Stored form of rollouts and of their log. Control thread.
#ifndef GW_ROLLOUT_STATE_H
#define GW_ROLLOUT_STATE_H

#include "base/cursor.h"
#include "svc/core_private.h"

// A change of one rollout, written in one transaction: its row, its task's row, one log line.
struct gw_rollout_change {
    struct gw_rollout next; // what the rollout becomes
    uint64_t task_counter;  // what its task's counter becomes
    struct gw_rollout_log_view line;
};

// Begins a change: the rollout as it is, and a line of the log with who asked and when.
void gw_rollout_begin(struct gw_core *core, const struct gw_rollout *rollout, enum gw_log_kind kind,
                      const struct gw_rollout_who *who, struct gw_rollout_change *change);
// Puts the policy's decision into the change; `counts` is what it was found from.
void gw_rollout_decide(struct gw_core *core, struct gw_rollout_change *change,
                       const struct pol_decision *decision, const struct pol_counts *counts);
// Stores the change; memory, tally and plan follow.
BASE_NODISCARD enum base_status gw_rollout_commit(struct gw_core *core, struct gw_rollout *rollout,
                                                  struct gw_rollout_change *change);
// Takes a rollout back whose version is on the kill list since now, for that reason. As
// gw_rollout_command.
BASE_NODISCARD enum base_status gw_rollout_end_killed(struct gw_core *core,
                                                      struct gw_rollout *rollout,
                                                      const struct gw_rollout_who *who,
                                                      struct base_error *error);
bool gw_rollout_is_closed(const struct gw_rollout *rollout);
// Was a stage of it ever opened? Of one that goes back, or is back, its log tells; remembered.
bool gw_rollout_was_started(struct gw_core *core, struct gw_rollout *rollout);
// May a device of its share have been offered it although no mark of that is on record? As long as
// it is open (a gateway that was killed had not written all marks down; and in a pause, who has the
// version by another rollout is handed its statement without one), and of one that was a baseline,
// whose offers leave none.
bool gw_rollout_offers_unmarked(struct gw_core *core, struct gw_rollout *rollout);
// Has the release know which segments are kept off it.
void gw_rollout_quarantine_tell(struct gw_rollout *rollout);
// Takes segments that are shown to be bad out of a running rollout, and logs what it looked at.
// True when there were any.
bool gw_rollout_quarantine_tick(struct gw_core *core, struct gw_rollout *rollout);
// Takes the devices of segments in quarantine out of the current stage's counts.
void gw_rollout_quarantine_discount(struct gw_core *core, const struct gw_rollout *rollout,
                                    struct pol_counts *counts);
// How far the trial of the rollout's stage may be looked at now; `held` is filled, and borrowed.
void gw_rollout_look(const struct gw_core *core, const struct gw_rollout *rollout,
                     struct pol_held *held, struct gw_trial_look *out);
// Hands out how many offers workers may make until the next tick.
void gw_rollout_hand_out(struct gw_core *core, struct gw_rollout *rollout);
// One look at a rollout that is under way. True when it moved.
bool gw_rollout_tick_one(struct gw_core *core, struct gw_rollout *rollout);
// The trial of the open stage, as far as it is judged.
void gw_rollout_view_trial(struct gw_core *core, const struct gw_rollout *rollout,
                           struct gw_rollout_trial_view *out);
// What the open stage can see; the view has everything else already.
void gw_rollout_view_power(struct gw_core *core, const struct gw_rollout *rollout,
                           struct gw_rollout_view *out);
// What the counts of this moment come to, which a tick may not have looked at yet; nothing is
// decided. False: nothing is judged now.
bool gw_rollout_finds(struct gw_core *core, const struct gw_rollout *rollout,
                      struct pol_decision *out);
// Counts of the current stage: as shown, and as judged.
void gw_rollout_seen(struct gw_core *core, const struct gw_rollout *rollout,
                     struct gw_rollout_counts *out_seen, struct pol_counts *out_judged);

// Appends a line without waiting for it: it decides nothing, and may be lost in a crash.
void gw_rollout_note(struct gw_core *core, uint64_t id, const struct gw_rollout_log_view *line);
// A line that may be in a log: of this kind and action, and not written before.
struct gw_log_wish {
    enum gw_log_kind kind;
    enum pol_action action;
    uint64_t since_us;
};
// False as well when the log cannot be read.
bool gw_rollout_log_has(struct gw_core *core, uint64_t id, const struct gw_log_wish *wish);
// The highest line on disk at or above `from`; 0: none.
uint64_t gw_rollout_last_line(struct gw_core *core, uint64_t id, uint64_t from);

// Writes the change and waits until it is on disk; memory is not touched.
BASE_NODISCARD enum base_status gw_rollout_store(struct gw_core *core, const struct gw_task *task,
                                                 const struct gw_rollout_change *change);
// A text of at most `max` (255) bytes in a row: u8 size, bytes. Reading leaves `out` without a NUL
// of its own, and fails the reader when it is longer.
void gw_row_text_write(struct base_writer *writer, const char *text, size_t max);
void gw_row_text_read(struct base_reader *reader, char *out, size_t max);
// Parses a row into a new rollout (its task is not set). CORRUPT, `error` says what about its
// release, if it is that; NOMEM.
BASE_NODISCARD enum base_status gw_rollout_decode(const uint8_t *bytes, size_t size,
                                                  struct gw_rollout **out_rollout,
                                                  struct base_error *error);
// Parses a line of the log, but for its number; *out is written to in any case. CORRUPT.
BASE_NODISCARD enum base_status gw_rollout_line_decode(const uint8_t *bytes, size_t size,
                                                       struct gw_rollout_log_view *out);

// The wall clock may have gone back since the rollout was stored: a stage did not begin in the
// future. At start; the log line is noted.
void gw_rollout_mend_clock(struct gw_core *core, struct gw_rollout *rollout);
// Tells the tally which stage the rollout is in, whether it is open, offers, and its time.
void gw_rollout_tell_tally(struct gw_core *core, struct gw_rollout *rollout);

#endif
