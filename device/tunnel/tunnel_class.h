// One class of the tunnel: its queue, its counts, and how far sending is.
//
// Slots. A class keeps its queue under numbers of its own, *slots*, and counts its records in a
// numbering of its own, *seqs*; both go on for as long as the store lives. An epoch is a pair of
// bases: batch number = slot - base_slot, record number = seq - base_seq. So a new epoch gives all
// that is queued new identities without touching it.
//
//   tail <= send_next <= next          slots, of batches and LOSS entries
//   [tail, send_next)                  under way on the stream that is open (flight)
//   [tail, maybe_sent)                 the gateway may have them: they stay as they are
//   [maybe_sent, next)                 nobody has seen them: they may become LOSS
#ifndef DEV_TUNNEL_CLASS_H
#define DEV_TUNNEL_CLASS_H

#include "tunnel/tunnel_entry.h"
#include "tunnel/tunnel_state.h"

struct tunnel_flight; // tunnel_chain.h

// Records that are not in a batch yet.
struct tunnel_open {
    struct wire_record *records;                        // bodies in bytes
    struct wire_upload_key uploads[DEV_TUNNEL_UPLOADS]; // texts in bytes
    uint8_t *bytes;
    uint32_t upload_count;
    uint32_t count;
    uint32_t text_bytes; // behind the bodies' area
    uint32_t body_bytes;
    uint64_t since_us;
};

// A batch within its frames.
struct tunnel_part {
    bool active; // its BATCH was sent on this stream, CHUNKs follow
    bool known;  // the rest describes an attempt of this boot
    uint64_t slot;
    uint32_t epoch;
    uint32_t offset; // what was sent
    uint32_t sent_bytes;
    uint32_t dict;
    uint8_t codec;
};

struct tunnel_class {
    uint8_t id;
    uint8_t stream;
    struct tunnel_state state;
    uint64_t bound_mark; // collect's changes with the bound in them
    uint64_t put_mark;   // and with the entry put last
    uint64_t next;
    uint64_t next_seq;
    uint64_t maybe_sent;
    uint64_t boot_next; // entries below are of earlier boots
    // Counts of records; produced is counted apart from the others, so that they can be compared.
    uint64_t produced;
    uint64_t queued;
    uint64_t waiting[TUNNEL_LOST]; // in LOSS entries of the queue
    uint64_t pending[TUNNEL_LOST]; // dropped, not yet in an entry
    uint64_t queue_bytes;
    // The last entry, when it is a LOSS nobody has seen: it can grow.
    bool tail_loss;
    uint64_t loss_slot;
    struct tunnel_entry loss;
    struct tunnel_open open;
    // Sending.
    struct tunnel_flight *flight; // ring from flight_head
    uint32_t flight_head;
    uint32_t flight_count;
    uint64_t send_next;
    uint64_t send_seq;
    uint64_t send_hash;
    struct tunnel_part part;
    bool welcomed;
    bool optimistic; // may send before WELCOME: the gateway can have nothing of it
    bool blocked;    // BUSY
    bool no_dict;
    bool ack_waits;
    uint64_t acked; // slot
    int64_t credit_bytes;
    int64_t credit_records;
    int64_t used_bytes;
    int64_t used_records;
    uint64_t hold_us;
    uint64_t retry_us; // the store did not answer
    uint32_t sample_ppm;
    uint64_t sample_end_us;
    uint64_t progress_us;
    uint64_t sent_end; // slots below were sent since the boot, or in this epoch before it
    uint64_t batches_sent;
    uint64_t batches_resent;
    uint64_t bytes_sent;
    uint64_t raw_bytes;
};

static inline uint64_t tunnel_number(const struct tunnel_class *class, uint64_t slot)
{
    return slot - class->state.base_slot;
}

#endif
