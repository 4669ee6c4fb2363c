// Frames of the real-time tunnel, both ways. A tunnel stream is one HTTP/2 exchange, POST
// /v1/tunnel, whose request body and response body stay open and carry frames; normally one stream
// per class.
//
//   frame := u8 type, u24 payload size, payload            (little-endian)
//
//   device to gateway:  HELLO, then BATCH, CHUNK, LOSS, PING
//   gateway to device:  WELCOME, then ACK, CREDIT, THROTTLE, REJECT, NEEDFULL, FORK, DRAIN, PONG
//
// Identity. Records of a device and class are numbered within an *epoch*; they travel in *batches*,
// numbered 0, 1, 2 ... within the epoch. An epoch is a counter (upper 16 bits) and 16 random bits,
// begun when the local log was lost, wiped, or found to be behind or beside what the gateway has. A
// batch, once sent, never changes its number or content. Batches form a chain:
//   hash(n) = XXH3-64(payload, seed hash(n-1)), hash(-1) = XXH3-64 of (device, class, epoch)
// where payload is the batch uncompressed, or what of the LOSS stands at that number.
//
// Order. A stream begins with one HELLO; the gateway answers one WELCOME and from then on takes
// nothing of these classes from older streams of the device. It takes the numbers of a class in
// order: what comes behind a gap (after REJECT, NEEDFULL) is dropped without a word, for the device
// goes back to the number that was refused. What is below the WELCOME's high water is dropped too:
// a device that sends before WELCOME came judges by WELCOME. A link that does not fit (prev_hash is
// not the chain's) or a number taken meanwhile by somebody else is answered FORK.
//
// Forks. A copy of a device (restored backup, cloned image) that reuses numbers breaks the chain:
// FORK, or the device sees it at WELCOME (hash(high_water - 1) is not its own, or high_water is
// below its tail or above its next). It opens a new epoch and sends what it has left under new
// numbers, over a new stream. Nothing is overwritten, nothing is taken for delivered that was not
// compared.
//
// Acknowledgement. ACK says that all batches below `high_water` are there, and of the 64 from
// high_water on those of the bitmap (bit 0 is high_water itself, so it is 0; a gateway that takes
// in order and writes in order has none). Level DURABLE lets the device delete. A device sends
// numbers below high_water + WIRE_TUNNEL_WINDOW.
//
// Credit counts, from the beginning of the stream, the bytes of payload in BATCH and CHUNK frames
// and the records in BATCH frames, also of those that are dropped; LOSS is free. WELCOME says the
// whole allowance so far (at least WIRE_TUNNEL_FIRST_CREDIT and WIRE_TUNNEL_RECORDS_MAX), CREDIT
// adds to it.
//
// Records a schema or limit refuses: REJECT names the batch and all of them (or
// WIRE_TUNNEL_NO_RECORD). The device puts a LOSS with reason SPLIT at the number, and what is good
// of the batch under new numbers; the bad records are declared with LOSS reason REJECTED, and the
// first of them goes to quarantine. Batches that came behind a refused one are looked at once while
// they are dropped, so refusals of all that was under way arrive together.
//
// Versions. HELLO says 2; a device that says 1 hears of one record of a batch at a time, and of
// nothing behind it.
//
// Encoders write one whole frame; parsers take one frame's payload. INVALID, TRUNCATED, TOO_LARGE,
// UNSUPPORTED as everywhere in wire. Every message has exactly one encoding.
#ifndef WIRE_TUNNEL_FRAME_H
#define WIRE_TUNNEL_FRAME_H

#include "base/cursor.h"
#include "wire/digest.h"

#define WIRE_TUNNEL_VERSION   2
#define WIRE_TUNNEL_HEAD      4  // bytes of a frame's head
#define WIRE_TUNNEL_CLASSES   4  // 0 control and crashes, 1 real time, 2 behaviour, 3 debug
#define WIRE_TUNNEL_WINDOW    64 // batches under way per class
#define WIRE_TUNNEL_FRAME_MAX (72 * 1024) // payload of one frame
#define WIRE_TUNNEL_PART_MAX                                                                       \
    (64 * 1024) // of a batch in its BATCH frame; the rest follows in CHUNKs
#define WIRE_TUNNEL_CHUNK_MAX    (32 * 1024) // of a batch in one CHUNK
#define WIRE_TUNNEL_RAW_MAX      (1024 * 1024) // of a batch, uncompressed: checked before any allocation
#define WIRE_TUNNEL_RECORDS_MAX  4096          // of a batch
#define WIRE_TUNNEL_DICTS_MAX    8             // named in a HELLO
#define WIRE_TUNNEL_TEXT_MAX     64
#define WIRE_TUNNEL_FIRST_CREDIT (128 * 1024) // bytes a device may send per class before WELCOME
#define WIRE_TUNNEL_NO_RECORD    UINT32_MAX
#define WIRE_TUNNEL_NUMBER_MAX   ((UINT64_C(1) << 48) - 1) // of batches and records in an epoch
#define WIRE_TUNNEL_CREDIT_MAX   (64 * 1024 * 1024)        // in one WELCOME or CREDIT
#define WIRE_TUNNEL_DELAY_MS_MAX (24 * 3600 * 1000)        // of THROTTLE and DRAIN
#define WIRE_TUNNEL_SAMPLE_ALL   1000000
#define WIRE_TUNNEL_SAMPLE_MS    10000 // a sample ends when it was not asked for again

enum wire_tunnel_type {
    WIRE_TUNNEL_HELLO = 1,
    WIRE_TUNNEL_BATCH,
    WIRE_TUNNEL_CHUNK,
    WIRE_TUNNEL_LOSS,
    WIRE_TUNNEL_PING,
    WIRE_TUNNEL_WELCOME = 16,
    WIRE_TUNNEL_ACK,
    WIRE_TUNNEL_CREDIT,
    WIRE_TUNNEL_THROTTLE,
    WIRE_TUNNEL_REJECT,
    WIRE_TUNNEL_NEEDFULL,
    WIRE_TUNNEL_FORK,
    WIRE_TUNNEL_DRAIN,
    WIRE_TUNNEL_PONG,
};

enum wire_tunnel_codec {
    WIRE_TUNNEL_PLAIN,
    WIRE_TUNNEL_ZSTD,
    WIRE_TUNNEL_ZSTD_DICT,
    WIRE_TUNNEL_CODEC_END
};

enum wire_tunnel_loss {
    WIRE_TUNNEL_LOSS_QUOTA = 1, // the byte quota of the class
    WIRE_TUNNEL_LOSS_EXPIRED,   // class 1, too old to be of use
    WIRE_TUNNEL_LOSS_REJECTED,  // the gateway will not have it
    WIRE_TUNNEL_LOSS_SPLIT,     // nothing is lost: the records follow under later numbers
    WIRE_TUNNEL_LOSS_POLICY,    // sampled away (THROTTLE), or not wanted any more
    WIRE_TUNNEL_LOSS_DAMAGED,   // the local store could not give it back
    WIRE_TUNNEL_LOSS_STARTS,    // never made: a match found no place to wait for its task's run
    WIRE_TUNNEL_LOSS_END
};

enum wire_tunnel_level {
    WIRE_TUNNEL_RECEIVED = 1,
    WIRE_TUNNEL_DURABLE = 2,
};

struct wire_tunnel_hello_class {
    uint8_t class_id;
    uint32_t epoch;
    uint64_t tail;      // first batch not known to be durable
    uint64_t next;      // number the next new batch gets
    uint64_t tail_hash; // hash(tail - 1)
};

struct wire_tunnel_hello {
    uint64_t device;
    struct base_str app; // app version
    struct base_str os;
    uint64_t wall_ms; // the device's clock; never believed, stored beside ours
    uint32_t dict_count;
    uint32_t dicts[WIRE_TUNNEL_DICTS_MAX]; // ids of dictionaries the device has
    uint32_t class_count;                  // classes this stream carries, ascending
    struct wire_tunnel_hello_class classes[WIRE_TUNNEL_CLASSES];
    bool single_reject; // of version 1: knows no `more` of REJECT
};

struct wire_tunnel_welcome_class {
    uint8_t class_id;
    uint32_t epoch;      // the device's
    uint64_t high_water; // durable
    uint64_t sack;
    uint64_t hash;         // hash(high_water - 1)
    uint32_t credit_bytes; // may be under way from now on, WIRE_TUNNEL_FIRST_CREDIT included
    uint32_t credit_records;
    uint64_t partial_batch; // of a batch that was interrupted within its chunks: go on from
    uint32_t partial_bytes; // this offset; 0: none
};

struct wire_tunnel_welcome {
    uint64_t wall_ms; // the gateway's clock
    uint32_t dict;    // the dictionary the gateway would like to be used; 0: none
    uint32_t class_count;
    struct wire_tunnel_welcome_class classes[WIRE_TUNNEL_CLASSES];
};

// The payload as sent: `bytes` is its first part, `sent_bytes` the whole of it, compressed.
struct wire_tunnel_batch {
    uint8_t class_id;
    uint32_t epoch;
    uint64_t number;
    uint64_t first_seq; // of its records within the epoch
    uint32_t count;     // records, at least 1
    uint64_t prev_hash;
    uint64_t hash;
    uint8_t codec;
    uint32_t dict;       // ZSTD_DICT: not 0; else 0
    uint32_t raw_bytes;  // 1 .. WIRE_TUNNEL_RAW_MAX
    uint32_t sent_bytes; // 1 .. raw_bytes; equal to it when PLAIN
    const uint8_t *bytes;
    uint32_t part_bytes; // the smaller of sent_bytes and WIRE_TUNNEL_PART_MAX
};

struct wire_tunnel_chunk {
    uint8_t class_id;
    uint64_t number;
    uint32_t offset;
    const uint8_t *bytes;
    uint32_t size; // 1 .. WIRE_TUNNEL_CHUNK_MAX
};

// Stands at `numbers` batch numbers like that many batches, and is taken or refused as one.
struct wire_tunnel_loss_frame {
    uint8_t class_id;
    uint32_t epoch;
    uint64_t number;
    uint32_t numbers; // at least 1
    uint64_t first_seq;
    uint64_t count; // records lost, at least 1; SPLIT: records that follow later
    uint8_t reason;
    uint64_t prev_hash;
    uint64_t hash; // wire_tunnel_chain_loss
};

struct wire_tunnel_ack {
    uint8_t class_id;
    uint8_t level;
    uint32_t epoch;
    uint64_t high_water;
    uint64_t sack;
};

struct wire_tunnel_credit { // more that may be sent
    uint8_t class_id;
    uint32_t bytes;
    uint32_t records;
};

struct wire_tunnel_throttle {
    uint8_t class_mask;
    uint32_t not_before_ms; // from now
    uint32_t spread_ms;     // then at a moment drawn from this span
    uint32_t sample_ppm;    // of new batches to keep; 1,000,000: all. The rest is LOSS_POLICY.
};
// Which ones: the same batch always gets the same answer, and what a smaller sample keeps a larger
// one keeps too. `first_seq` is the number its first record would have.
bool wire_tunnel_keeps(uint64_t device, uint8_t class_id, uint32_t epoch, uint64_t first_seq,
                       uint32_t sample_ppm);

// Refused are `record` and, for each bit i of `more`, record + 1 + i.
struct wire_tunnel_reject {
    uint8_t class_id;
    uint64_t number;
    uint32_t record; // index in the batch, of the first that is refused
    int32_t status;  // of this one: enum base_status, -100 .. -999
    uint64_t more;   // 0 without a record, and to devices of version 1
};

struct wire_tunnel_needfull { // send it again without a dictionary
    uint8_t class_id;
    uint64_t number;
};

struct wire_tunnel_fork { // open a new epoch
    uint8_t class_id;
    uint32_t epoch;
    uint64_t high_water;
    uint64_t hash;
};

struct wire_tunnel_drain {
    uint32_t reconnect_after_ms;
    uint32_t spread_ms;
};

// Looks at the first bytes of a stream: *out_size is the payload's. TRUNCATED: fewer than
// WIRE_TUNNEL_HEAD. TOO_LARGE, UNSUPPORTED (type).
BASE_NODISCARD enum base_status wire_tunnel_head(const uint8_t *bytes, size_t size,
                                                 enum wire_tunnel_type *out_type, size_t *out_size);

#define WIRE_TUNNEL_CODEC(name, type)                                                              \
    BASE_NODISCARD enum base_status wire_tunnel_##name##_encode(                                   \
        const struct type *value, uint8_t *out, size_t capacity, size_t *out_size);                \
    BASE_NODISCARD enum base_status wire_tunnel_##name##_parse(const uint8_t *payload,             \
                                                               size_t size, struct type *out)
WIRE_TUNNEL_CODEC(hello, wire_tunnel_hello);
WIRE_TUNNEL_CODEC(welcome, wire_tunnel_welcome);
WIRE_TUNNEL_CODEC(batch, wire_tunnel_batch);
WIRE_TUNNEL_CODEC(chunk, wire_tunnel_chunk);
WIRE_TUNNEL_CODEC(loss, wire_tunnel_loss_frame);
WIRE_TUNNEL_CODEC(ack, wire_tunnel_ack);
WIRE_TUNNEL_CODEC(credit, wire_tunnel_credit);
WIRE_TUNNEL_CODEC(throttle, wire_tunnel_throttle);
WIRE_TUNNEL_CODEC(reject, wire_tunnel_reject);
WIRE_TUNNEL_CODEC(needfull, wire_tunnel_needfull);
WIRE_TUNNEL_CODEC(fork, wire_tunnel_fork);
WIRE_TUNNEL_CODEC(drain, wire_tunnel_drain);
// The same without `bytes`, for a sender that puts this in front of where they are already.
#define WIRE_TUNNEL_BYTES_HEAD_MAX 64 // of what these two write
BASE_NODISCARD enum base_status wire_tunnel_batch_head_encode(const struct wire_tunnel_batch *value,
                                                              uint8_t *out, size_t capacity,
                                                              size_t *out_size);
BASE_NODISCARD enum base_status wire_tunnel_chunk_head_encode(const struct wire_tunnel_chunk *value,
                                                              uint8_t *out, size_t capacity,
                                                              size_t *out_size);
// PING and PONG carry u64 of the sender's choice.
BASE_NODISCARD enum base_status wire_tunnel_ping_encode(enum wire_tunnel_type type, uint64_t value,
                                                        uint8_t *out, size_t capacity,
                                                        size_t *out_size);
BASE_NODISCARD enum base_status wire_tunnel_ping_parse(const uint8_t *payload, size_t size,
                                                       uint64_t *out);

// The chain.
uint64_t wire_tunnel_chain_first(uint64_t device, uint8_t class_id, uint32_t epoch);
uint64_t wire_tunnel_chain(uint64_t prev_hash, const uint8_t *payload, size_t size);
// What a LOSS adds to the chain in place of a payload: "L", number, numbers, first_seq, count and
// reason, in the layout of docs/PROTOCOL.md; prev_hash is the seed.
uint64_t wire_tunnel_chain_loss(const struct wire_tunnel_loss_frame *loss);

#endif
