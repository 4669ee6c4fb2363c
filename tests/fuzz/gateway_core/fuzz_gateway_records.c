// Stored rollouts, lines of their logs, and device records, as a damaged disk may hand them back:
// they are refused or read, and what is read can be written again.
//
// Input: u8 which, then the bytes.
#include "fuzz_target.h"

#include "svc/device/device_record.h"
#include "svc/plan/release.h"
#include "svc/rollout/rollout_state.h"

#include <stdlib.h>
#include <string.h>

static void fuzz_release(const uint8_t *data, size_t size)
{
    const struct gw_release *release = NULL;
    struct base_error error = {0};
    if (gw_release_new(data, size, &release, &error) != BASE_OK) {
        return;
    }
    if (release->stage_count == 0 || release->spec_bytes != size) {
        abort();
    }
    gw_release_unref(release);
}

static void fuzz_rollout(const uint8_t *data, size_t size)
{
    struct gw_rollout *rollout = NULL;
    if (gw_rollout_decode(data, size, &rollout, NULL) != BASE_OK) {
        return;
    }
    if (rollout->state.stage_index >= rollout->release->stage_count) {
        abort();
    }
    gw_release_unref(rollout->release);
    free(rollout);
}

static void fuzz_line(const uint8_t *data, size_t size)
{
    static struct gw_rollout_log_view line;
    if (gw_rollout_line_decode(data, size, &line) != BASE_OK) {
        return;
    }
    const struct pol_slices *slices = &line.record.slices;
    if (slices->count > POL_SLICES_MAX || slices->failing_count > slices->count ||
        line.record.held.count > POL_HELD_MAX) {
        abort();
    }
    struct pol_stage stage = {.gate = {.rule = POL_GATE_SEQUENTIAL,
                                       .max_failure_ppm = 50000,
                                       .max_rise_ppm = 10000,
                                       .alpha_ppm = 50000,
                                       .beta_ppm = 100000}};
    struct pol_replay replay;
    bool differs;
    pol_replay_init(&replay, 0);
    replay.rollout.state = POL_ROLLOUT_RUNNING;
    (void)pol_replay_step(&replay, &stage, 1, &line.record, &differs);
    if (replay.held.count > POL_HELD_MAX) {
        abort();
    }
}

static void fuzz_device(const uint8_t *data, size_t size)
{
    struct gw_device_record record;
    struct gw_device_record again;
    uint8_t bytes[GW_DEVICE_RECORD_BYTES_MAX];
    memset(&record, 0, sizeof(record));
    memset(&again, 0, sizeof(again));
    if (gw_device_record_decode(data, size, &record) != BASE_OK) {
        return;
    }
    size_t written = gw_device_record_encode(&record, bytes);
    if (gw_device_record_decode(bytes, written, &again) != BASE_OK ||
        again.outcome_count != record.outcome_count || again.attrs_size != record.attrs_size ||
        again.report_seq != record.report_seq) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    switch (data[0] % 4) {
    case 0:
        fuzz_release(data + 1, size - 1);
        break;
    case 1:
        fuzz_rollout(data + 1, size - 1);
        break;
    case 3:
        fuzz_line(data + 1, size - 1);
        break;
    default:
        fuzz_device(data + 1, size - 1);
        break;
    }
    return 0;
}
