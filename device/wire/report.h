// Reports: outcomes of task versions on a device, sent with POST /v1/report when no tunnel is open.
//
//   report := u8 version (2; 1: no outcome has figures), u64 device_id, u32 epoch, u64 first_seq,
//             varint count, count x { outcome (outcome.h), u8 detail_size, detail (UTF-8 text) }
//
// Outcomes of one device are numbered without gaps from 1: outcome i has seq first_seq + i, and a
// report holds at least one. The gateway
// keeps the highest seq it has made durable per (device, epoch) and answers 204 only when all of
// the report is durable; what it has already seen is not counted again. `epoch` is drawn anew when
// a device lost its local state.
#ifndef WIRE_REPORT_H
#define WIRE_REPORT_H

#include "wire/digest.h"
#include "wire/outcome.h"

BASE_C_BEGIN

#define WIRE_REPORT_VERSION    2
#define WIRE_REPORT_PLAIN      1 // the version without figures
#define WIRE_REPORT_MAX        64
#define WIRE_REPORT_DETAIL_MAX WIRE_OUTCOME_DETAIL_MAX
#define WIRE_REPORT_BYTES_MAX  (16 * 1024)
#define WIRE_REPORT_HEADER_MAX 3072 // bytes before base64 in the header walle-report

struct wire_report {
    uint64_t device_id;
    uint32_t epoch;
    uint64_t first_seq;
    uint32_t count;
    struct wire_outcome outcomes[WIRE_REPORT_MAX];
};

// TOO_LARGE, INVALID (kind, no outcome, first_seq 0 or wrapping); parse also TRUNCATED, UNSUPPORTED
// (version). On failure only count (0) of *out is defined.
BASE_NODISCARD enum base_status wire_report_encode(const struct wire_report *report, uint8_t *out,
                                                   size_t capacity, size_t *out_size);
BASE_NODISCARD enum base_status wire_report_parse(const uint8_t *bytes, size_t size,
                                                  struct wire_report *out);

BASE_C_END

#endif
