// What the files of the tunnel share. Nobody else includes this.
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
//
// Store. DEV_SPACE_QUEUE: key class, slot (big-endian); value: struct tunnel_entry as in
// tunnel_entry.c, payload. DEV_SPACE_STATE "tunnel/CLASS": struct tunnel_state. What can be told
// from the entries is not in the state, so closing a batch is one put.
#ifndef DEV_TUNNEL_PRIVATE_H
#define DEV_TUNNEL_PRIVATE_H

#include "base/check.h"
#include "base/ckd.h"
#include "tunnel/tunnel.h"

#include <string.h>

#define TUNNEL_MS           UINT64_C(1000)
#define TUNNEL_ENTRY_HEAD   48
#define TUNNEL_ROOM         64 // in front of a payload: the entry's head, or the frame's
#define TUNNEL_KEY          9
#define TUNNEL_TEXT_SLACK   1024 // topics of an open batch, and of the second half of a split
#define TUNNEL_DRAIN_MS     10000
#define TUNNEL_IO_RETRY_MS  1000
#define TUNNEL_DICT_BELOW   (16 * 1024)
#define TUNNEL_GAIN_PERCENT 92  // of the raw size, or it is not worth it
#define TUNNEL_WEIGHT       5   // of as many sends of class 2 and 3, one is class 3's
#define TUNNEL_QUARANTINE   'Q' // first byte of a key, beside the classes'
#define TUNNEL_ABSORB_MAX   64  // entries dropped in one commit
#define TUNNEL_LOST         WIRE_TUNNEL_LOSS_END

// An entry of the queue: a batch, or a LOSS.
struct tunnel_entry {
    bool is_loss;
    uint8_t reason;
    uint32_t numbers; // 1 unless LOSS
    uint64_t seq;
    uint64_t count;
    uint64_t closed_us; // by the clock of the boot that closed it
    uint64_t payload_hash;
    uint32_t payload_bytes;
};

// What the store keeps of a class besides its entries.
struct tunnel_state {
    uint32_t epoch;
    uint64_t base_slot;
    uint64_t base_seq;
    uint64_t tail;
    uint64_t tail_seq;
    uint64_t tail_hash;         // hash(tail - 1)
    uint64_t bound;             // at least maybe_sent
    uint64_t durable;           // records
    uint64_t lost[TUNNEL_LOST]; // whose LOSS was acknowledged
};

struct tunnel_flight {
    uint64_t hash; // of the chain behind it
    uint64_t count;
    uint32_t numbers;
    uint32_t entry_bytes;
    bool is_loss;
    bool with_dict;
    uint8_t reason;
};

// Records that are not in a batch yet.
struct tunnel_open {
    struct wire_record *records;                 // bodies in bytes
    struct wire_topic topics[DEV_TUNNEL_TOPICS]; // texts in bytes
    uint8_t *bytes;
    uint32_t topic_count;
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
    struct tunnel_state s;
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

enum tunnel_stream_state { TUNNEL_CLOSED, TUNNEL_OPENING, TUNNEL_UP, TUNNEL_STREAM_STATES };

struct tunnel_stream {
    enum tunnel_stream_state state;
    uint8_t classes; // mask
    bool said_hello;
    bool draining;
    bool fruitful; // something became durable
    uint64_t drain_us;
    uint64_t heard_us;
    uint64_t pinged_us;
    uint64_t moved_us; // something was acknowledged, or began to wait for it
    uint32_t input_size;
    uint8_t input[WIRE_TUNNEL_HEAD + DEV_TUNNEL_ANSWER_MAX];
};

struct dev_tunnel {
    struct dev_tunnel_config config;
    struct dev_tunnel_ports ports;
    struct dev_collect *collect;
    char app[WIRE_TUNNEL_TEXT_MAX];
    char os[WIRE_TUNNEL_TEXT_MAX];
    struct tunnel_class *classes[WIRE_TUNNEL_CLASSES]; // NULL: not in use
    struct tunnel_stream streams[WIRE_TUNNEL_CLASSES];
    bool booted;
    bool flush;
    uint64_t wall_ms;
    uint64_t wall_us;
    uint64_t radio_us; // when something was sent or came last; 0: never
    uint32_t turn;     // of classes 2 and 3
    bool more;         // the step stopped at DEV_TUNNEL_SENDS_MAX
    uint32_t dict;     // the gateway wants
    // Back-off, of all streams together: they share a connection.
    uint64_t backoff_us;
    uint64_t retry_us;
    uint64_t hold_us; // by DRAIN, retry-after
    uint64_t quarantine_serial;
    // Buffers: TUNNEL_ROOM, then a payload; and the same for what is packed.
    uint8_t *raw;
    uint8_t *pack;
    uint32_t raw_capacity;
    uint32_t pack_capacity;
    struct tunnel_class *raw_class; // whose entry raw holds; NULL: none
    uint64_t raw_slot;
    struct tunnel_entry raw_entry;
    bool pack_done;  // the rest is about what raw holds
    bool pack_plain; // was asked for
    uint32_t pack_wanted;
    uint32_t pack_bytes; // what is sent: pack, or raw when the codec is PLAIN
    uint32_t pack_dict;
    uint8_t pack_codec;
    struct dev_tunnel_stats stats; // counters of the whole
};

static inline uint64_t tunnel_number(const struct tunnel_class *c, uint64_t slot)
{
    return slot - c->s.base_slot;
}

static inline bool tunnel_mergeable(const struct tunnel_class *c, uint8_t reason)
{
    return c->tail_loss && c->loss.reason == reason && c->loss_slot >= c->maybe_sent;
}

// ---- tunnel_entry.c: bytes in the store
void tunnel_key(const struct tunnel_class *c, uint64_t slot, uint8_t out[TUNNEL_KEY]);
uint64_t tunnel_key_slot(const uint8_t *key);
// Writes the head that belongs in front of the payload at `payload`.
void tunnel_entry_write(const struct tunnel_class *c, uint64_t slot,
                        const struct tunnel_entry *entry, uint8_t *head);
// CORRUPT. The payload is not looked at but for its size.
BASE_NODISCARD enum base_status tunnel_entry_read(const struct tunnel_class *c, uint64_t slot,
                                                  const uint8_t *value, size_t size,
                                                  struct tunnel_entry *out);
BASE_NODISCARD enum base_status tunnel_put_entry(struct dev_tunnel *t, struct tunnel_class *c,
                                                 uint64_t now_us, uint64_t slot,
                                                 const struct tunnel_entry *entry, uint8_t *payload,
                                                 bool high);
BASE_NODISCARD enum base_status tunnel_put_loss(struct dev_tunnel *t, struct tunnel_class *c,
                                                uint64_t now_us, uint64_t slot,
                                                const struct tunnel_entry *entry);
BASE_NODISCARD enum base_status tunnel_delete_entry(struct dev_tunnel *t, struct tunnel_class *c,
                                                    uint64_t now_us, uint64_t slot);
BASE_NODISCARD enum base_status tunnel_put_state(struct dev_tunnel *t, struct tunnel_class *c,
                                                 uint64_t now_us, const struct tunnel_state *state,
                                                 bool high);
// NOT_FOUND, CORRUPT, the port's.
BASE_NODISCARD enum base_status tunnel_get_state(struct dev_tunnel *t, struct tunnel_class *c,
                                                 struct tunnel_state *out);
uint64_t tunnel_chain_of(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t slot,
                         const struct tunnel_entry *entry, const uint8_t *payload,
                         uint64_t prev_hash);

// ---- tunnel_boot.c
BASE_NODISCARD enum base_status tunnel_boot_class(struct dev_tunnel *t, struct tunnel_class *c,
                                                  uint64_t now_us);
BASE_NODISCARD enum base_status tunnel_boot_quarantine(struct dev_tunnel *t, uint64_t now_us);
// Entry at send_next cannot be read: it becomes LOSS(DAMAGED).
BASE_NODISCARD enum base_status tunnel_repair(struct dev_tunnel *t, struct tunnel_class *c,
                                              uint64_t now_us);

// ---- tunnel_queue.c
bool tunnel_is_due(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t now_us,
                   uint64_t *out_when_us);
void tunnel_close_due(struct dev_tunnel *t, uint64_t now_us);
// Closes the open batch, and places what was dropped. BUSY, FULL, IO: it stays open.
BASE_NODISCARD enum base_status tunnel_close(struct dev_tunnel *t, struct tunnel_class *c,
                                             uint64_t now_us);
// A batch of one record that is too large for an open batch.
BASE_NODISCARD enum base_status tunnel_close_large(struct dev_tunnel *t, struct tunnel_class *c,
                                                   uint64_t now_us,
                                                   const struct wire_upload_record *record);
// Promises the store that batches below `end`, and up to a window beyond send_next, may be sent.
BASE_NODISCARD enum base_status tunnel_promise(struct dev_tunnel *t, struct tunnel_class *c,
                                               uint64_t now_us, uint64_t end);
bool tunnel_is_stored(const struct dev_tunnel *t, uint64_t mark);
void tunnel_append(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                   const struct wire_upload_record *record);
bool tunnel_fits(const struct dev_tunnel *t, const struct tunnel_class *c,
                 const struct wire_upload_record *record);

// ---- tunnel_drop.c
void tunnel_count_loss(struct tunnel_class *c, uint8_t reason, uint64_t count);
void tunnel_place_pending(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us);
// Turns the oldest batches nobody has seen into a LOSS until `bytes` are free; how many are.
uint64_t tunnel_drop_oldest(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                            uint64_t bytes, uint8_t reason);
// Batches of class 1 from send_next on that are too old. True: there were some.
bool tunnel_drop_expired(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us);
bool tunnel_is_expired(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t slot,
                       const struct tunnel_entry *entry, uint64_t now_us);

// ---- tunnel_chain.c
void tunnel_restart_sending(struct tunnel_class *c);
struct tunnel_flight *tunnel_flight_at(struct dev_tunnel *t, struct tunnel_class *c,
                                       uint32_t index);
void tunnel_flight_push(struct dev_tunnel *t, struct tunnel_class *c,
                        const struct tunnel_flight *flight);
// Deletes what was acknowledged, as far as the store takes it.
void tunnel_settle(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us);
// Everything not acknowledged gets a new epoch.
BASE_NODISCARD enum base_status tunnel_new_epoch(struct dev_tunnel *t, struct tunnel_class *c,
                                                 uint64_t now_us);
enum tunnel_judgement { TUNNEL_SAME, TUNNEL_FORKED, TUNNEL_UNKNOWN };
// Does what WELCOME says fit our chain? Then what is durable is settled. UNKNOWN: the store did
// not answer.
enum tunnel_judgement tunnel_judge(struct dev_tunnel *t, struct tunnel_class *c, uint64_t now_us,
                                   uint64_t high_water, uint64_t hash);

// ---- tunnel_reject.c
// INVALID: the gateway cannot mean that.
BASE_NODISCARD enum base_status tunnel_on_reject(struct dev_tunnel *t, struct tunnel_class *c,
                                                 uint64_t now_us,
                                                 const struct wire_tunnel_reject *reject);
// Sends again from this slot on.
void tunnel_go_back(struct dev_tunnel *t, struct tunnel_class *c, uint64_t slot);
bool tunnel_in_flight(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t slot,
                      uint32_t *out_index);

// ---- tunnel_pack.c
// Makes raw hold the entry at send_next (raw_class, raw_slot, raw_entry). CORRUPT or NOT_FOUND: it
// is damaged; others: try later.
BASE_NODISCARD enum base_status tunnel_load(struct dev_tunnel *t, struct tunnel_class *c,
                                            uint64_t slot);
void tunnel_unload(struct dev_tunnel *t);
// Compresses what raw holds, when that is worth it. `dict` 0: none.
void tunnel_pack(struct dev_tunnel *t, uint32_t dict, bool plain);

// ---- tunnel_send.c
void tunnel_send_due(struct dev_tunnel *t, uint64_t now_us);
bool tunnel_wants_stream(const struct dev_tunnel *t, const struct tunnel_class *c);
bool tunnel_can_send(const struct dev_tunnel *t, const struct tunnel_class *c, uint64_t now_us);

// ---- tunnel_link.c
void tunnel_open_streams(struct dev_tunnel *t, uint64_t now_us);
void tunnel_watch_streams(struct dev_tunnel *t, uint64_t now_us);
// Closes the stream and waits before the next.
void tunnel_give_up(struct dev_tunnel *t, uint32_t stream, uint64_t now_us, const char *why);
void tunnel_stream_gone(struct dev_tunnel *t, uint32_t stream, uint64_t now_us);
uint64_t tunnel_stream_due(const struct dev_tunnel *t, uint64_t now_us);

// ---- tunnel_retry.c
uint64_t tunnel_draw(struct dev_tunnel *t, uint64_t span); // uniform in [0, span]
void tunnel_failed(struct dev_tunnel *t, uint64_t now_us);
void tunnel_fruit(struct dev_tunnel *t, uint64_t now_us);
bool tunnel_may_connect(const struct dev_tunnel *t, uint64_t now_us);
void tunnel_throttle(struct dev_tunnel *t, uint64_t now_us,
                     const struct wire_tunnel_throttle *throttle);

#endif
