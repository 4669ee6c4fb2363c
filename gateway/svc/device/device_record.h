// The stored record of a device: the truth about what it went through, from which all counters can
// be computed again.
#ifndef GW_DEVICE_RECORD_H
#define GW_DEVICE_RECORD_H

#include "svc/device/devices.h"

#define GW_DEVICE_RECORD_BYTES_MAX  3904u
#define GW_RECORD_OUTCOME_BYTES_MAX (49u + 1u + WIRE_FIGURES_BYTES_MAX)

struct base_reader;
struct base_writer;

struct gw_record_outcome {
    uint64_t rollout_id;
    uint64_t fingerprint;
    uint32_t offered_s; // when the device entered
    uint32_t updated_s;
    uint32_t activated_s; // 0: never
    uint8_t stage;        // in which it entered
    uint8_t tries;        // attempts after the first
    uint16_t bits;        // enum gw_outcome_bit
    uint8_t last_kind;
    struct wire_figures figures; // of the last run that had some
    // Of a device in a trial (GW_OUTCOME_DRAWN; svc/tally/trial_blocks.h), 0 of others.
    uint32_t answered_s; // its first success was heard of; 0: none was
    uint32_t failed_s;   // likewise, its first failure; both when the record was written
    uint64_t segment;    // it was of when it was offered; 0: none
};

struct gw_device_record {
    uint32_t first_seen_s;
    uint32_t last_seen_s;
    uint32_t epoch; // of the reports; a device that lost its state draws another
    uint32_t previous_epoch;
    uint64_t report_seq; // highest seq made durable in `epoch`
    uint32_t interval_s; // between its check-ins; 0: not known
    bool has_epoch;
    bool proven; // once it has shown who it is, nobody reports for it without doing so
    uint32_t attrs_size;
    uint8_t attrs[WIRE_ATTRS_BYTES_MAX];
    uint32_t outcome_count;
    struct gw_record_outcome outcomes[GW_DEVICE_OUTCOMES_MAX];
};

size_t gw_device_record_encode(const struct gw_device_record *record,
                               uint8_t out[GW_DEVICE_RECORD_BYTES_MAX]);
// CORRUPT.
BASE_NODISCARD enum base_status gw_device_record_decode(const uint8_t *bytes, size_t size,
                                                        struct gw_device_record *out);
// At most GW_RECORD_OUTCOME_BYTES_MAX bytes; the writer says whether they fitted.
void gw_record_outcome_write(struct base_writer *writer, const struct gw_record_outcome *outcome);
// CORRUPT; whether there were bytes enough is the reader's to say.
BASE_NODISCARD enum base_status gw_record_outcome_read(struct base_reader *reader,
                                                       struct gw_record_outcome *out);
struct gw_record_outcome *gw_device_record_find(struct gw_device_record *record,
                                                uint64_t rollout_id);
// What an outcome does to the bits. Of control that was offered nothing it changes only whether it
// ran or failed; whether they are proven stays.
uint16_t gw_outcome_step(uint16_t bits, const struct wire_outcome *said);

#endif
