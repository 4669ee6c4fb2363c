// Quarantine: a segment (model, os, app version) in which the release fails is taken out, and the
// rollout goes on elsewhere. Control thread.
//
// The policy decides (policy/slices.h), from a look at the segments of the open stage that
// completed; a look is taken whenever a count of it changed, so that what is held does not depend
// on when the gateway was started. The look that took something out is stored with it in one
// transaction, of others as many are logged as a replay under other limits wants. What is in
// quarantine counts no more.
#include "svc/rollout/rollout_state.h"
#include "svc/tally/segment_look.h"
#include "svc/rollout/catalog_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void held_now(const struct gw_rollout *rollout, struct pol_held *out)
{
    out->count = rollout->quarantine_count;
    for (uint32_t i = 0; i < rollout->quarantine_count; i++) {
        out->names[i] = rollout->quarantine[i].segment;
    }
}

void gw_rollout_quarantine_tell(struct gw_rollout *rollout)
{
    struct pol_held held;
    held_now(rollout, &held);
    gw_kept_off_set(rollout->kept_off, &held);
}

void gw_rollout_quarantine_discount(struct gw_core *core, const struct gw_rollout *rollout,
                                    struct pol_counts *counts)
{
    if (rollout->quarantine_count == 0) {
        return;
    }
    struct pol_held held;
    struct gw_tally_segment *segments = calloc(GW_TALLY_SEGMENTS_MAX, sizeof(*segments));
    uint32_t count = segments == NULL ? 0
                                      : gw_tally_segments(core->tally, rollout->release->id,
                                                          rollout->state.stage_index, segments,
                                                          GW_TALLY_SEGMENTS_MAX);
    held_now(rollout, &held);
    gw_segment_discount(segments, count, &held, counts);
    free(segments);
}

// ---- Looks

// Each with the whole of control. Returns the failures it may hold some for.
static uint64_t show(const struct gw_rollout *rollout, const struct gw_tally_segment *segments,
                     uint32_t count, struct pol_slices *out)
{
    struct pol_held held;
    held_now(rollout, &held);
    return gw_segment_look(segments, count, &held, &rollout->lifted, out);
}

static const struct gw_tally_segment *find(const struct gw_tally_segment *segments, uint32_t count,
                                           uint64_t name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (segments[i].segment == name) {
            return &segments[i];
        }
    }
    return NULL;
}

// With LOGRANK: each with its own control. What nobody completed in has no text to be named by.
static uint64_t show_trial(struct gw_core *core, const struct gw_rollout *rollout,
                           const struct gw_tally_segment *segments, uint32_t count,
                           struct pol_slices *out)
{
    struct pol_held held;
    struct gw_trial_look at;
    uint64_t failed = 0;
    uint32_t kept = 0;
    gw_rollout_look(core, rollout, &held, &at);
    gw_tally_trial_slices(core->tally, rollout->release->id, &at, &rollout->lifted, out);
    for (uint32_t i = 0; i < out->failing_count; i++) {
        if (find(segments, count, out->failing[i].name) != NULL) {
            failed += out->failing[i].seen.failures;
            out->failing[kept++] = out->failing[i];
        }
    }
    out->failing_count = kept;
    return failed;
}

static bool store_quarantine(struct gw_core *core, struct gw_rollout *rollout,
                             struct gw_rollout_change *change)
{
    change->next.revision++;
    change->next.observed_us = 0;
    change->next.segments_logged = 0;
    return gw_rollout_commit(core, rollout, change) == BASE_OK;
}

// One change for all that a look found: a crash leaves all of them out, or none.
static bool take_out(struct gw_core *core, struct gw_rollout *rollout,
                     const struct gw_tally_segment *segments, uint32_t count,
                     struct gw_rollout_change *change)
{
    struct gw_rollout_log_view *line = &change->line;
    const struct pol_held *found = &line->record.held;
    for (uint32_t i = 0; i < found->count; i++) {
        const struct gw_tally_segment *segment = find(segments, count, found->names[i]);
        struct gw_quarantined *out = &change->next.quarantine[change->next.quarantine_count++];
        out->segment = segment->segment;
        memcpy(out->text, segment->text, sizeof(out->text));
        if (i == 0) {
            snprintf(line->comment, sizeof(line->comment), "%.150s: %llu of %llu failed",
                     segment->text, (unsigned long long)segment->failed,
                     (unsigned long long)segment->completed);
        }
    }
    if (found->count > 1) {
        size_t size = strlen(line->comment);
        snprintf(line->comment + size, sizeof(line->comment) - size, "; and %u more",
                 found->count - 1);
    }
    if (!store_quarantine(core, rollout, change)) {
        rollout->segments_asked = (struct gw_segments_asked){0}; // asked again
        return false;
    }
    return true;
}

static bool look(struct gw_core *core, struct gw_rollout *rollout, const struct pol_counts *counts,
                 const struct gw_tally_segment *segments, uint32_t count)
{
    struct gw_rollout_change change;
    gw_rollout_begin(core, rollout, GW_LOG_SLICES, NULL, &change);
    struct pol_record *record = &change.line.record;
    record->kind = POL_RECORD_SLICES;
    record->counts = *counts;
    uint64_t failed =
        rollout->release->stages[rollout->state.stage_index].gate.rule == POL_GATE_LOGRANK
            ? show_trial(core, rollout, segments, count, &record->slices)
            : show(rollout, segments, count, &record->slices);
    pol_slices_judge(&rollout->release->stages[rollout->state.stage_index].gate, &record->slices,
                     &counts->control, &record->held);
    if (record->held.count > 0) {
        change.line.kind = GW_LOG_QUARANTINE;
        return take_out(core, rollout, segments, count, &change);
    }
    if (failed > rollout->segments_logged + rollout->segments_logged / GW_LOG_GROWTH) {
        record->after = rollout->state;
        change.line.revision = rollout->revision;
        change.line.failure_ppm = rollout->failure_ppm;
        rollout->log_seq = change.line.seq;
        rollout->segments_logged = failed;
        gw_rollout_note(core, rollout->release->id, &change.line);
    }
    return false;
}

// Whether there is something to look at that was not there the last time.
static bool is_news(struct gw_core *core, struct gw_rollout *rollout, struct pol_counts *out_counts)
{
    struct gw_rollout_counts seen;
    bool running = rollout->state.state == POL_ROLLOUT_RUNNING ||
                   rollout->state.state == POL_ROLLOUT_WAITING ||
                   rollout->state.state == POL_ROLLOUT_GUARDING;
    if (!running || rollout->state.before_first) {
        return false;
    }
    gw_rollout_seen(core, rollout, &seen, out_counts);
    struct gw_segments_asked ask = {.succeeded = seen.succeeded,
                                    .failed = seen.failed,
                                    .control = out_counts->control,
                                    .trial = out_counts->trial};
    if (seen.failed == 0 || memcmp(&ask, &rollout->segments_asked, sizeof(ask)) == 0) {
        return false;
    }
    rollout->segments_asked = ask;
    return true;
}

bool gw_rollout_quarantine_tick(struct gw_core *core, struct gw_rollout *rollout)
{
    struct pol_counts counts;
    if (!is_news(core, rollout, &counts)) {
        return false;
    }
    struct gw_tally_segment *segments = calloc(GW_TALLY_SEGMENTS_MAX, sizeof(*segments));
    uint32_t count = segments == NULL ? 0
                                      : gw_tally_segments(core->tally, rollout->release->id,
                                                          rollout->state.stage_index, segments,
                                                          GW_TALLY_SEGMENTS_MAX);
    bool any = count > 1 && look(core, rollout, &counts, segments, count);
    free(segments);
    return any;
}

// ---- Lifting

enum base_status gw_rollout_lift(struct gw_core *core, uint64_t id, struct base_str segment,
                                 const struct gw_rollout_who *who, struct base_error *error)
{
    struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    uint32_t at = 0;
    if (rollout == NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no such rollout");
    }
    while (at < rollout->quarantine_count &&
           !base_str_equal(segment, base_str_of(rollout->quarantine[at].text))) {
        at++;
    }
    if (at == rollout->quarantine_count) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "segment: it is not in quarantine");
    }
    struct gw_rollout_change change;
    gw_rollout_begin(core, rollout, GW_LOG_QUARANTINE, who, &change);
    struct gw_rollout *next = &change.next;
    change.line.record.kind = POL_RECORD_LIFT;
    change.line.record.held = (struct pol_held){1, {next->quarantine[at].segment}};
    struct pol_held held;
    held_now(rollout, &held);
    (void)pol_held_lift(&held, &next->lifted, next->quarantine[at].segment);
    snprintf(change.line.comment, sizeof(change.line.comment), "lifted: %.150s",
             next->quarantine[at].text);
    next->quarantine_count--;
    memmove(&next->quarantine[at], &next->quarantine[at + 1],
            (next->quarantine_count - at) * sizeof(next->quarantine[0]));
    return store_quarantine(core, rollout, &change)
               ? BASE_OK
               : base_error_set(error, BASE_ERR_IO, "the change could not be stored");
}

// ---- Names

uint32_t gw_rollout_segment_names(struct gw_core *core, uint64_t id,
                                  struct gw_quarantined out[GW_SEGMENT_NAMES_MAX])
{
    const struct gw_rollout *rollout = gw_catalog_find_rollout(core, id);
    struct gw_tally_segment *segments = calloc(GW_TALLY_SEGMENTS_MAX, sizeof(*segments));
    uint32_t written = 0;
    if (rollout == NULL || segments == NULL) {
        free(segments);
        return 0;
    }
    for (; written < rollout->quarantine_count; written++) {
        out[written] = rollout->quarantine[written];
    }
    uint32_t count =
        gw_tally_segments(core->tally, id, GW_TALLY_STAGE_ALL, segments, GW_TALLY_SEGMENTS_MAX);
    for (uint32_t i = 0; i < count && written < GW_SEGMENT_NAMES_MAX; i++, written++) {
        out[written].segment = segments[i].segment;
        memcpy(out[written].text, segments[i].text, sizeof(out[written].text));
    }
    free(segments);
    return written;
}
