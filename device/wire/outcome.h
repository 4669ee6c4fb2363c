// Outcomes: what happened to a version on a device, in the one encoding that reports (report.h) and
// the device's queue (core/outcome_queue.h) share. What the gateway keeps of a run in its record of
// a device (svc/device/device_record.h) are the figures, as they are here.
//
//   outcome := u8 kind (128 added: figures follow), u64 task_id, u64 version_id, u64 rollout_id,
//              varint duration_us, u64 fingerprint, [figures]
//   figures := u8 size, a varint for each line of WIRE_FIGURE_MAP; zeros at the end are left out
//
// A new figure is a line at the end of the map. Who knows fewer passes over the rest, who knows
// more takes 0 for what is not there; so no version changes for it, on the wire or in a store.
#ifndef WIRE_OUTCOME_H
#define WIRE_OUTCOME_H

#include "base/cursor.h"
#include "base/str.h"

BASE_C_BEGIN

#define WIRE_OUTCOME_DETAIL_MAX 160
#define WIRE_FIGURES_BYTES_MAX  50                                             // of the varints
#define WIRE_OUTCOME_BYTES_MAX  (1 + 24 + 10 + 8 + 1 + WIRE_FIGURES_BYTES_MAX) // without its detail

// X(name, value, text); 16 and above are failures.
#define WIRE_OUTCOME_MAP(X)                                                                        \
    X(DOWNLOADED, 1, "downloaded")                                                                 \
    X(ACTIVATED, 2, "activated")                                                                   \
    X(RAN, 3, "ran")                                                                               \
    X(ROLLED_BACK, 4, "rolled_back")                                                               \
    X(NOT_APPLICABLE, 5, "not_applicable")                                                         \
    X(REMOVED, 6, "removed")                                                                       \
    X(SHADOW_AGREED, 7, "shadow_agreed")                                                           \
    X(FAIL_VERIFY, 16, "fail_verify")                                                              \
    X(FAIL_DOWNLOAD, 17, "fail_download")                                                          \
    X(FAIL_LOAD, 18, "fail_load")                                                                  \
    X(FAIL_EXCEPTION, 19, "fail_exception")                                                        \
    X(FAIL_TIMEOUT, 20, "fail_timeout")                                                            \
    X(FAIL_MEMORY, 21, "fail_memory")                                                              \
    X(FAIL_CRASH, 22, "fail_crash")                                                                \
    X(FAIL_OUTPUT, 23, "fail_output")                                                              \
    X(FAIL_DIFFERENT, 24, "fail_different")                                                        \
    X(FAIL_SLOW, 25, "fail_slow")                                                                  \
    X(FAIL_HEAVY, 26, "fail_heavy")                                                                \
    X(FAIL_CLOCK, 27, "fail_clock")                                                                \
    X(FAIL_INTEGRITY, 28, "fail_integrity")                                                        \
    X(FAIL_CLOUD, 29, "fail_cloud")

enum wire_outcome_kind {
#define WIRE_OUTCOME_ENUM(name, value, text) WIRE_OUTCOME_##name = value,
    WIRE_OUTCOME_MAP(WIRE_OUTCOME_ENUM)
#undef WIRE_OUTCOME_ENUM
};

#define WIRE_OUTCOME_FIRST_FAILURE 16

// X(name): numbers of a run, and of all runs of a version since it was activated (cloud_...; their
// form is in wire/cloud/cloud_counts.h). API.md says what each is.
#define WIRE_FIGURE_MAP(X)                                                                         \
    X(heap_peak_bytes) X(left_out) X(privacy_refusals) X(cloud_counts) X(cloud_times)

struct wire_figures {
#define WIRE_FIGURE_FIELD(name) uint64_t name;
    WIRE_FIGURE_MAP(WIRE_FIGURE_FIELD)
#undef WIRE_FIGURE_FIELD
};

struct wire_outcome {
    enum wire_outcome_kind kind;
    uint64_t task_id;
    uint64_t version_id;
    uint64_t rollout_id;
    uint64_t duration_us;
    uint64_t fingerprint; // hash of (exception type, file, line) or 0
    struct wire_figures figures;
    struct base_str detail;
};

bool wire_outcome_kind_ok(unsigned kind);
bool wire_outcome_is_failure(enum wire_outcome_kind kind);
// Is it a failure that says something of the version? Content that was damaged on a device does
// not: FAIL_INTEGRITY is the device's trouble, told to people, and no gate counts it.
bool wire_outcome_blames(enum wire_outcome_kind kind);
const char *wire_outcome_name(enum wire_outcome_kind kind); // static, never NULL

bool wire_figures_any(const struct wire_figures *figures); // is one not 0?
// At least one is not 0.
void wire_figures_write(struct base_writer *writer, const struct wire_figures *figures);
// The reader fails with INVALID where they are not as _write makes them.
void wire_figures_read(struct base_reader *reader, struct wire_figures *out);

// All but the detail, whose frame is that of what the outcome lies in. The reader fails with
// INVALID for a kind that is none. True: figures follow, if only such as are not known here.
void wire_outcome_write(struct base_writer *writer, const struct wire_outcome *outcome);
bool wire_outcome_read(struct base_reader *reader, struct wire_outcome *out);

BASE_C_END

#endif
