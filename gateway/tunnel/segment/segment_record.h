// Bytes of the segment log. A segment is a file of at most about segment_bytes:
//
//   head    := "WALLESEG", u32 version (1), u32 zero, u64 base, u64 made_ms, u64 check   (40 bytes)
//   record  := u32 size of all of it, u64 check over what follows, u8 kind, u8 class, u8 codec
//   (LOSS:
//              reason), u8 zero, u32 tenant, u64 device, u32 epoch, u32 numbers (of a batch: 1),
//              u64 number, u64 first_seq, u64 count, u64 prev_hash, u64 hash, u64 received_ms, u64
//              device_ms, u32 dict, u32 raw_bytes, u32 sent_bytes, u32 zero (in logs of
//              before: anything), payload as sent
//
// Little-endian. `base` is how many bytes of log came before this segment, its head included in
// those counted: so base + offset is a position that names a record for good. Checks are XXH3-64.
// Pure functions.
#ifndef GW_SEGMENT_RECORD_H
#define GW_SEGMENT_RECORD_H

#include "tunnel/segment/sink.h"

#define GW_SEGMENT_VERSION     1u
#define GW_SEGMENT_HEAD        40u
#define GW_SEGMENT_RECORD_HEAD 108u // of a record, before the payload
#define GW_SEGMENT_RECORD_MAX  (GW_SEGMENT_RECORD_HEAD + WIRE_TUNNEL_RAW_MAX)

enum gw_segment_kind { GW_SEGMENT_BATCH = 1, GW_SEGMENT_LOSS = 2 };

struct gw_segment_head {
    uint64_t base;
    uint64_t made_ms;
};

void gw_segment_head_encode(const struct gw_segment_head *head, uint8_t out[GW_SEGMENT_HEAD]);
// CORRUPT, UNSUPPORTED (another version), TRUNCATED.
BASE_NODISCARD enum base_status gw_segment_head_parse(const uint8_t *bytes, size_t size,
                                                      struct gw_segment_head *out);

// Head of a record; the payload (batch->batch.bytes) goes behind it. Returns the record's size.
uint32_t gw_segment_record_encode(const struct gw_sink_batch *batch,
                                  uint8_t out[GW_SEGMENT_RECORD_HEAD]);
// Size of the record that begins here; TRUNCATED: fewer than 4 bytes. CORRUPT: no record has it.
BASE_NODISCARD enum base_status gw_segment_record_size(const uint8_t *bytes, size_t size,
                                                       uint32_t *out_size);
// A whole record. `out` borrows the payload; next, done and ctx are not set. CORRUPT.
BASE_NODISCARD enum base_status gw_segment_record_parse(const uint8_t *bytes, size_t size,
                                                        struct gw_sink_batch *out);

#endif
