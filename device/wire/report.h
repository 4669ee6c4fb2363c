// Reports: outcomes of task versions on a device, sent with POST /v1/report when no tunnel is open.
//
//   report  := u8 version(1), u64 device_id, u32 epoch, u64 first_seq, varint count, count x
//   outcome outcome := u8 kind, u64 task_id, u64 version_id, u64 rollout_id, varint duration_us,
//   u64 fingerprint,
//              u8 detail_size, detail (UTF-8 text, for people)
//
// Outcomes of one device are numbered without gaps from 1: outcome i has seq first_seq + i, and a
// report holds at least one. The gateway
// keeps the highest seq it has made durable per (device, epoch) and answers 204 only when all of
// the report is durable; what it has already seen is not counted again. `epoch` is drawn anew when
// a device lost its local state.
#ifndef WIRE_REPORT_H
#define WIRE_REPORT_H

#include "base/cursor.h"
#include "wire/digest.h"

BASE_C_BEGIN

#define WIRE_REPORT_VERSION    1
#define WIRE_REPORT_MAX        64
#define WIRE_REPORT_DETAIL_MAX 160
#define WIRE_REPORT_BYTES_MAX  (16 * 1024)
#define WIRE_REPORT_HEADER_MAX 3072 // bytes before base64 in the header walle-report

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
    X(FAIL_INTEGRITY, 28, "fail_integrity")

enum wire_outcome_kind {
#define WIRE_OUTCOME_ENUM(name, value, text) WIRE_OUTCOME_##name = value,
    WIRE_OUTCOME_MAP(WIRE_OUTCOME_ENUM)
#undef WIRE_OUTCOME_ENUM
};

#define WIRE_OUTCOME_FIRST_FAILURE 16

struct wire_outcome {
    enum wire_outcome_kind kind;
    uint64_t task_id;
    uint64_t version_id;
    uint64_t rollout_id;
    uint64_t duration_us;
    uint64_t fingerprint; // hash of (exception type, file, line) or 0
    struct base_str detail;
};

struct wire_report {
    uint64_t device_id;
    uint32_t epoch;
    uint64_t first_seq;
    uint32_t count;
    struct wire_outcome outcomes[WIRE_REPORT_MAX];
};

bool wire_outcome_is_failure(enum wire_outcome_kind kind);
// Is it a failure that says something of the version? Content that was damaged on a device does
// not: FAIL_INTEGRITY is the device's trouble, told to people, and no gate counts it.
bool wire_outcome_blames(enum wire_outcome_kind kind);
const char *wire_outcome_name(enum wire_outcome_kind kind); // static, never NULL

// TOO_LARGE, INVALID (kind, no outcome, first_seq 0 or wrapping); parse also TRUNCATED, UNSUPPORTED
// (version). On failure only count (0) of *out is defined.
BASE_NODISCARD enum base_status wire_report_encode(const struct wire_report *report, uint8_t *out,
                                                   size_t capacity, size_t *out_size);
BASE_NODISCARD enum base_status wire_report_parse(const uint8_t *bytes, size_t size,
                                                  struct wire_report *out);

BASE_C_END

#endif
