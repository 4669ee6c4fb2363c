// Quarantine: a segment (model, os, app version) in which the release fails is taken out, and the
// rollout goes on elsewhere. Control thread.
//
// Each segment of the open stage with completions is asked the gate's questions on its own counts;
// its evidence goes into one multiple-testing procedure (policy/sequential.h), so that with many
// segments few good ones are taken out. When what is bad is as many as half of all completions, it
// is the release and no segment: then the gate decides. What is in quarantine counts no more.
#include "svc/rollout_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gw_rollout_quarantine_tell(struct gw_rollout *rollout)
{
    for (uint32_t i = 0; i < GW_QUARANTINE_MAX; i++) {
        uint64_t segment = i < rollout->quarantine_count ? rollout->quarantine[i].segment : 0;
        atomic_store_explicit(&rollout->release->quarantine[i], segment, memory_order_relaxed);
    }
}

static bool is_out(const struct gw_rollout *rollout, uint64_t segment)
{
    for (uint32_t i = 0; i < rollout->quarantine_count; i++) {
        if (rollout->quarantine[i].segment == segment) {
            return true;
        }
    }
    return false;
}

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

void gw_rollout_quarantine_discount(struct gw_core *core, const struct gw_rollout *rollout,
                                    struct pol_counts *counts)
{
    if (rollout->quarantine_count == 0) {
        return;
    }
    struct gw_tally_segment *segments = calloc(GW_TALLY_SEGMENTS_MAX, sizeof(*segments));
    uint32_t count = segments == NULL ? 0
                                      : gw_tally_segments(core->tally, rollout->release->id,
                                                          rollout->state.stage_index, segments,
                                                          GW_TALLY_SEGMENTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (is_out(rollout, segments[i].segment)) {
            counts->failed = less(counts->failed, segments[i].failed);
            counts->succeeded = less(counts->succeeded, segments[i].completed - segments[i].failed);
        }
    }
    free(segments);
}

// Marks the segments to take out. Returns how many.
static uint32_t find_bad(struct gw_core *core, const struct gw_rollout *rollout,
                         const struct gw_tally_segment *segments, uint32_t count,
                         bool marked[GW_TALLY_SEGMENTS_MAX])
{
    const struct pol_gate *gate = &rollout->release->stages[rollout->state.stage_index].gate;
    double evidence[GW_TALLY_SEGMENTS_MAX];
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    uint64_t total = 0;
    uint64_t bad = 0;
    bool sequential = gate->rule == POL_GATE_SEQUENTIAL;
    gw_rollout_seen(core, rollout, &seen, &counts);
    struct pol_test test = {
        .max_failure_ppm = gate->max_failure_ppm,
        .max_rise_ppm =
            sequential && counts.control.trials > 0 ? gate->max_rise_ppm : POL_TEST_NOT_ASKED,
        .alpha_ppm = sequential ? gate->alpha_ppm : POL_GATE_ALPHA_PPM,
        .beta_ppm = sequential ? gate->beta_ppm : POL_GATE_BETA_PPM,
        .tolerated_rise_ppm = gate->tolerated_rise_ppm,
    };
    for (uint32_t i = 0; i < count; i++) {
        struct pol_sample sample = {segments[i].completed, segments[i].failed};
        bool out = is_out(rollout, segments[i].segment);
        bool ask = !out && segments[i].failed > 0; // without failures there is no evidence
        evidence[i] = ask ? pol_test_judge(&test, &sample, &counts.control).evidence : 0;
        total += out ? 0 : segments[i].completed;
    }
    uint32_t found = pol_slices_reject(evidence, count, test.alpha_ppm, marked);
    for (uint32_t i = 0; i < count; i++) {
        bad += marked[i] ? segments[i].completed : 0;
    }
    return 2 * bad < total && found + rollout->quarantine_count <= GW_QUARANTINE_MAX ? found : 0;
}

static bool store_quarantine(struct gw_core *core, struct gw_rollout *rollout,
                             struct gw_rollout_change *change)
{
    change->next.revision++;
    change->next.observed_us = 0;
    return gw_rollout_commit(core, rollout, change) == BASE_OK;
}

static bool take_out(struct gw_core *core, struct gw_rollout *rollout,
                     const struct gw_tally_segment *segment)
{
    struct gw_rollout_change change;
    gw_rollout_begin(core, rollout, GW_LOG_QUARANTINE, NULL, &change);
    struct gw_rollout_log_view *line = &change.line;
    struct gw_quarantined *out = &change.next.quarantine[change.next.quarantine_count++];
    out->segment = segment->segment;
    memcpy(out->text, segment->text, sizeof(out->text));
    snprintf(line->comment, sizeof(line->comment), "%.150s: %llu of %llu failed", segment->text,
             (unsigned long long)segment->failed, (unsigned long long)segment->completed);
    return store_quarantine(core, rollout, &change);
}

bool gw_rollout_quarantine_tick(struct gw_core *core, struct gw_rollout *rollout)
{
    bool running =
        rollout->state.state == POL_ROLLOUT_RUNNING || rollout->state.state == POL_ROLLOUT_WAITING;
    if (!running || rollout->state.before_first) {
        return false;
    }
    struct gw_rollout_counts seen;
    (void)gw_tally_counts(core->tally, rollout->release->id, rollout->state.stage_index,
                          gw_core_now_s(core), &seen);
    if (seen.failed == rollout->segments_asked) { // nothing failed since the last look
        return false;
    }
    rollout->segments_asked = seen.failed;
    struct gw_tally_segment *segments = calloc(GW_TALLY_SEGMENTS_MAX, sizeof(*segments));
    bool marked[GW_TALLY_SEGMENTS_MAX] = {false};
    bool any = false;
    uint32_t count = segments == NULL ? 0
                                      : gw_tally_segments(core->tally, rollout->release->id,
                                                          rollout->state.stage_index, segments,
                                                          GW_TALLY_SEGMENTS_MAX);
    if (count > 1 && find_bad(core, rollout, segments, count, marked) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            any = (marked[i] && take_out(core, rollout, &segments[i])) || any;
        }
    }
    free(segments);
    return any;
}

enum base_status gw_rollout_lift(struct gw_core *core, uint64_t id, struct base_str segment,
                                 const struct gw_rollout_who *who, struct gw_rollout_view *out,
                                 struct base_error *error)
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
    snprintf(change.line.comment, sizeof(change.line.comment), "lifted: %.150s",
             next->quarantine[at].text);
    next->quarantine_count--;
    memmove(&next->quarantine[at], &next->quarantine[at + 1],
            (next->quarantine_count - at) * sizeof(next->quarantine[0]));
    if (!store_quarantine(core, rollout, &change)) {
        return base_error_set(error, BASE_ERR_IO, "the change could not be stored");
    }
    return gw_rollout_get(core, id, out);
}
