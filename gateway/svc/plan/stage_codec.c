// Stages and counts as bytes, for release_codec.c and rollout_state.c. Control thread, and the
// reading also at start. Apart from them because a stage's conduct is in a release and the counts
// are in log lines, while both change together with the policy's form of a stage. A count or an
// enum that cannot be is found when it is read: a row comes from disk. The layout is below.
#include "svc/plan/stage_codec.h"

#include <string.h>

//   conduct := gate, pace, u8 window_count, count x window, u32 execution_timeout_s,
//              u32 offline_expiry_s, u32 silence_s, u32 observe_s, u16 control_buckets,
//              8 x u8 retries, u8 approval, u16 shadow_slow_percent, u16 shadow_memory_percent,
//              tolerances (wire/tolerance.h), u32 min_answered_ppm, u32 window_s, u32 guard_s,
//              u8 on_fail, u8 on_pass (older releases lack these five: 0), u32
//              min_kept_ppm, u32 min_agreed_ppm, u32 late_ms (older ones lack these, too)
//   gate    := u8 rule, u32 min_sample, u32 max_failure_ppm, u64 min_dwell_us, u32 max_rise_ppm,
//              u32 tolerated_rise_ppm, u32 alpha_ppm, u32 beta_ppm, u32 max_silence_percent, u64
//              no_data_us
//   pace    := u32 per_minute, u32 factor_percent, u64 step, u8 by_success, u32 max_per_minute,
//              u64 in_flight_max
//   window  := u8 weekdays, u16 start_min, u16 minutes, u8 device_time
//   slices  := varint held_count, varint count, varint completed, varint failing_count,
//              failing_count x { u64 name, varint completed, varint failed }
//   held    := u8 count, count x u64 name
//   trial   := u8 there (0: nobody was in it; nothing follows), 6 x u64 wealth, 5 x outcomes
//              (control, updated; control and updated whose window is over; updated beside
//              control), varint compared, varint trials, varint failures (of the lead)
//   outcomes := varint offered, varint failed, varint succeeded
//   rises   := i32 for each failing slice: evidence, in 2^-16

_Static_assert(POL_TOLERANCES_MAX == WIRE_TOLERANCES_MAX, "a stage says what its statement does");
_Static_assert(POL_TOLERANCE_FIELD_MAX == WIRE_TOLERANCE_FIELD_MAX, "likewise");

static void write_gate(struct base_writer *writer, const struct pol_gate *gate)
{
    base_writer_u8(writer, (uint8_t)gate->rule);
    base_writer_u32(writer, gate->min_sample);
    base_writer_u32(writer, gate->max_failure_ppm);
    base_writer_u64(writer, gate->min_dwell_us);
    base_writer_u32(writer, gate->max_rise_ppm);
    base_writer_u32(writer, gate->tolerated_rise_ppm);
    base_writer_u32(writer, gate->alpha_ppm);
    base_writer_u32(writer, gate->beta_ppm);
    base_writer_u32(writer, gate->max_silence_percent);
    base_writer_u64(writer, gate->no_data_us);
}

static void read_gate(struct base_reader *reader, struct pol_gate *gate)
{
    uint8_t rule = base_reader_u8(reader);
    gate->rule = rule < POL_GATE_RULE_COUNT ? (enum pol_gate_rule)rule : POL_GATE_RULE_COUNT;
    gate->min_sample = base_reader_u32(reader);
    gate->max_failure_ppm = base_reader_u32(reader);
    gate->min_dwell_us = base_reader_u64(reader);
    gate->max_rise_ppm = base_reader_u32(reader);
    gate->tolerated_rise_ppm = base_reader_u32(reader);
    gate->alpha_ppm = base_reader_u32(reader);
    gate->beta_ppm = base_reader_u32(reader);
    gate->max_silence_percent = base_reader_u32(reader);
    gate->no_data_us = base_reader_u64(reader);
}

void gw_stage_tolerances(const struct pol_stage *stage, struct wire_tolerances *out)
{
    memset(out, 0, sizeof(*out));
    out->count =
        stage->tolerance_count < WIRE_TOLERANCES_MAX ? stage->tolerance_count : WIRE_TOLERANCES_MAX;
    for (uint32_t i = 0; i < out->count; i++) {
        const struct pol_tolerance *from = &stage->tolerances[i];
        out->items[i].absolute = from->absolute;
        out->items[i].relative = from->relative;
        out->items[i].field_size = from->field_size;
        memcpy(out->items[i].field, from->field, sizeof(from->field));
    }
}

void gw_stage_tolerances_set(struct pol_stage *stage, const struct wire_tolerances *tolerances)
{
    stage->tolerance_count =
        tolerances->count < POL_TOLERANCES_MAX ? tolerances->count : POL_TOLERANCES_MAX;
    for (uint32_t i = 0; i < stage->tolerance_count; i++) {
        const struct wire_tolerance *from = &tolerances->items[i];
        stage->tolerances[i].absolute = from->absolute;
        stage->tolerances[i].relative = from->relative;
        stage->tolerances[i].field_size = from->field_size;
        memcpy(stage->tolerances[i].field, from->field, sizeof(from->field));
    }
}

void gw_stage_write(struct base_writer *writer, const struct pol_stage *stage)
{
    write_gate(writer, &stage->gate);
    base_writer_u32(writer, stage->pace.per_minute);
    base_writer_u32(writer, stage->pace.factor_percent);
    base_writer_u64(writer, stage->pace.step);
    base_writer_u8(writer, stage->pace.by_success ? 1 : 0);
    base_writer_u32(writer, stage->pace.max_per_minute);
    base_writer_u64(writer, stage->pace.in_flight_max);
    uint32_t count = stage->window_count < POL_WINDOWS_MAX ? stage->window_count : POL_WINDOWS_MAX;
    base_writer_u8(writer, (uint8_t)count);
    for (uint32_t i = 0; i < count; i++) {
        base_writer_u8(writer, stage->windows[i].weekdays);
        base_writer_u16(writer, stage->windows[i].start_min);
        base_writer_u16(writer, stage->windows[i].minutes);
        base_writer_u8(writer, stage->windows[i].device_time ? 1 : 0);
    }
    base_writer_u32(writer, stage->execution_timeout_s);
    base_writer_u32(writer, stage->offline_expiry_s);
    base_writer_u32(writer, stage->silence_s);
    base_writer_u32(writer, stage->observe_s);
    base_writer_u16(writer, stage->control_buckets);
    base_writer_bytes(writer, stage->retries, sizeof(stage->retries));
    base_writer_u8(writer, stage->approval ? 1 : 0);
    base_writer_u16(writer, stage->shadow_slow_percent);
    base_writer_u16(writer, stage->shadow_memory_percent);
    struct wire_tolerances tolerances;
    gw_stage_tolerances(stage, &tolerances);
    wire_tolerances_write(writer, &tolerances);
    base_writer_u32(writer, stage->gate.min_answered_ppm);
    base_writer_u32(writer, stage->window_s);
    base_writer_u32(writer, stage->guard_s);
    base_writer_u8(writer, (uint8_t)stage->on_fail);
    base_writer_u8(writer, (uint8_t)stage->on_pass);
    base_writer_u32(writer, stage->cloud.min_kept_ppm);
    base_writer_u32(writer, stage->cloud.min_agreed_ppm);
    base_writer_u32(writer, stage->cloud.late_ms);
}

static void read_verdicts(struct base_reader *reader, struct pol_stage *stage)
{
    stage->gate.min_answered_ppm = base_reader_u32(reader);
    stage->window_s = base_reader_u32(reader);
    stage->guard_s = base_reader_u32(reader);
    uint8_t on_fail = base_reader_u8(reader);
    uint8_t on_pass = base_reader_u8(reader);
    stage->on_fail = on_fail < POL_ON_FAIL_COUNT ? (enum pol_on_fail)on_fail : POL_ON_FAIL_COUNT;
    stage->on_pass = on_pass < POL_ON_PASS_COUNT ? (enum pol_on_pass)on_pass : POL_ON_PASS_COUNT;
}

static void read_cloud(struct base_reader *reader, struct pol_fallback_limits *out)
{
    out->min_kept_ppm = base_reader_u32(reader);
    out->min_agreed_ppm = base_reader_u32(reader);
    out->late_ms = base_reader_u32(reader);
}

void gw_stage_read(struct base_reader *reader, enum gw_stage_form form, struct pol_stage *stage)
{
    read_gate(reader, &stage->gate);
    stage->pace.per_minute = base_reader_u32(reader);
    stage->pace.factor_percent = base_reader_u32(reader);
    stage->pace.step = base_reader_u64(reader);
    stage->pace.by_success = base_reader_u8(reader) != 0;
    stage->pace.max_per_minute = base_reader_u32(reader);
    stage->pace.in_flight_max = base_reader_u64(reader);
    stage->window_count = base_reader_u8(reader);
    if (stage->window_count > POL_WINDOWS_MAX) {
        stage->window_count = 0;
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    for (uint32_t i = 0; i < stage->window_count; i++) {
        stage->windows[i].weekdays = base_reader_u8(reader);
        stage->windows[i].start_min = base_reader_u16(reader);
        stage->windows[i].minutes = base_reader_u16(reader);
        stage->windows[i].device_time = base_reader_u8(reader) != 0;
    }
    stage->execution_timeout_s = base_reader_u32(reader);
    stage->offline_expiry_s = base_reader_u32(reader);
    stage->silence_s = base_reader_u32(reader);
    stage->observe_s = base_reader_u32(reader);
    stage->control_buckets = base_reader_u16(reader);
    base_reader_copy(reader, stage->retries, sizeof(stage->retries));
    stage->approval = base_reader_u8(reader) != 0;
    stage->shadow_slow_percent = base_reader_u16(reader);
    stage->shadow_memory_percent = base_reader_u16(reader);
    struct wire_tolerances tolerances;
    wire_tolerances_read(reader, &tolerances);
    gw_stage_tolerances_set(stage, &tolerances);
    if (form >= GW_STAGE_VERDICTS) {
        read_verdicts(reader, stage);
    }
    if (form >= GW_STAGE_CLOUD) {
        read_cloud(reader, &stage->cloud);
    }
}

// ---- Counts

void gw_pol_counts_write(struct base_writer *writer, const struct pol_counts *counts)
{
    const uint64_t fields[GW_COUNTS_BYTES / 8] = {
        counts->offered,
        counts->downloaded,
        counts->activated,
        counts->succeeded,
        counts->failed,
        counts->timed_out,
        counts->silent,
        counts->not_applicable,
        counts->to_roll_back,
        counts->control.trials,
        counts->control.failures,
        counts->hazard.device_seconds,
        counts->hazard.silent,
        counts->control_hazard.device_seconds,
        counts->control_hazard.silent,
        counts->unproven,
        counts->under_way,
        counts->outstanding,
    };
    for (uint32_t i = 0; i < GW_COUNTS_BYTES / 8; i++) {
        base_writer_u64(writer, fields[i]);
    }
}

void gw_pol_counts_read(struct base_reader *reader, uint32_t missing, struct pol_counts *counts)
{
    uint64_t *const fields[GW_COUNTS_BYTES / 8] = {
        &counts->offered,
        &counts->downloaded,
        &counts->activated,
        &counts->succeeded,
        &counts->failed,
        &counts->timed_out,
        &counts->silent,
        &counts->not_applicable,
        &counts->to_roll_back,
        &counts->control.trials,
        &counts->control.failures,
        &counts->hazard.device_seconds,
        &counts->hazard.silent,
        &counts->control_hazard.device_seconds,
        &counts->control_hazard.silent,
        &counts->unproven,
        &counts->under_way,
        &counts->outstanding,
    };
    for (uint32_t i = 0; i < GW_COUNTS_BYTES / 8 - missing; i++) {
        *fields[i] = base_reader_u64(reader);
    }
}

// ---- Slices

void gw_pol_slices_write(struct base_writer *writer, const struct pol_slices *slices)
{
    base_writer_varint(writer, slices->held_count);
    base_writer_varint(writer, slices->count);
    base_writer_varint(writer, slices->completed);
    base_writer_varint(writer, slices->failing_count);
    for (uint32_t i = 0; i < slices->failing_count; i++) {
        base_writer_u64(writer, slices->failing[i].name);
        base_writer_varint(writer, slices->failing[i].seen.trials);
        base_writer_varint(writer, slices->failing[i].seen.failures);
    }
}

void gw_pol_slices_read(struct base_reader *reader, struct pol_slices *slices)
{
    slices->held_count = (uint32_t)base_reader_varint_max(reader, POL_HELD_MAX);
    slices->count = (uint32_t)base_reader_varint_max(reader, POL_SLICES_MAX);
    slices->completed = base_reader_varint(reader);
    slices->failing_count = (uint32_t)base_reader_varint_max(reader, slices->count);
    for (uint32_t i = 0; i < slices->failing_count; i++) {
        struct pol_slice *slice = &slices->failing[i];
        slice->name = base_reader_u64(reader);
        slice->seen.trials = base_reader_varint(reader);
        slice->seen.failures = base_reader_varint(reader);
        if (slice->name == 0 || slice->seen.failures > slice->seen.trials) {
            base_reader_fail(reader, BASE_ERR_INVALID);
        }
    }
}

void gw_pol_held_write(struct base_writer *writer, const struct pol_held *held)
{
    base_writer_u8(writer, (uint8_t)held->count);
    for (uint32_t i = 0; i < held->count; i++) {
        base_writer_u64(writer, held->names[i]);
    }
}

void gw_pol_held_read(struct base_reader *reader, struct pol_held *held)
{
    held->count = base_reader_u8(reader);
    if (held->count > POL_HELD_MAX) {
        held->count = 0;
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    for (uint32_t i = 0; i < held->count; i++) {
        held->names[i] = base_reader_u64(reader);
    }
}

// ---- Trials

#define RISE_UNIT 65536.0 // evidence is a multiple of one over it

// The sums of a trial, in their order.
static struct pol_outcomes *outcomes_of(struct pol_trial *trial, uint32_t i)
{
    struct pol_outcomes *const all[] = {
        &trial->all[POL_COHORT_CONTROL], &trial->all[POL_COHORT_UPDATED],
        &trial->over[POL_COHORT_CONTROL], &trial->over[POL_COHORT_UPDATED], &trial->beside};
    return i < sizeof(all) / sizeof(all[0]) ? all[i] : NULL;
}

void gw_pol_trial_write(struct base_writer *writer, const struct pol_trial *trial)
{
    static const struct pol_trial nobody;
    struct pol_trial copy = *trial;
    bool there = memcmp(trial, &nobody, sizeof(nobody)) != 0;
    base_writer_u8(writer, there ? 1 : 0);
    if (!there) {
        return;
    }
    for (uint32_t i = 0; i < POL_LOGRANK_RATIOS; i++) {
        base_writer_u64(writer, (uint64_t)trial->rise.wealth[i]);
    }
    const struct pol_outcomes *sums;
    for (uint32_t i = 0; (sums = outcomes_of(&copy, i)) != NULL; i++) {
        base_writer_varint(writer, sums->offered);
        base_writer_varint(writer, sums->failed);
        base_writer_varint(writer, sums->succeeded);
    }
    base_writer_varint(writer, trial->compared);
    base_writer_varint(writer, trial->lead.trials);
    base_writer_varint(writer, trial->lead.failures);
}

void gw_pol_trial_read(struct base_reader *reader, struct pol_trial *trial)
{
    *trial = (struct pol_trial){.compared = 0};
    if (base_reader_u8(reader) == 0) {
        return;
    }
    for (uint32_t i = 0; i < POL_LOGRANK_RATIOS; i++) {
        trial->rise.wealth[i] = (int64_t)base_reader_u64(reader);
    }
    struct pol_outcomes *sums;
    for (uint32_t i = 0; (sums = outcomes_of(trial, i)) != NULL; i++) {
        sums->offered = base_reader_varint(reader);
        sums->failed = base_reader_varint(reader);
        sums->succeeded = base_reader_varint(reader);
    }
    trial->compared = base_reader_varint(reader);
    trial->lead.trials = base_reader_varint(reader);
    trial->lead.failures = base_reader_varint(reader);
    if (!pol_trial_valid(trial)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

void gw_pol_rises_write(struct base_writer *writer, const struct pol_slices *slices)
{
    for (uint32_t i = 0; i < slices->failing_count; i++) {
        base_writer_u32(writer, (uint32_t)(int32_t)(slices->failing[i].rise * RISE_UNIT));
    }
}

void gw_pol_rises_read(struct base_reader *reader, struct pol_slices *slices)
{
    for (uint32_t i = 0; i < slices->failing_count; i++) {
        slices->failing[i].rise = (int32_t)base_reader_u32(reader) / RISE_UNIT;
    }
}
