// Devices with a real tunnel over a store in memory, and a gateway of a few hundred lines that
// knows the protocol's rules by itself: it is the oracle. What devices produce are tokens, each
// once; what the gateway has is a list of rows. Everything happens when the test says so.
#ifndef TUNNEL_DEVICE_RIG_H
#define TUNNEL_DEVICE_RIG_H

#include "mem/mem_kv.h"
#include "test_kit.h"
#include "tunnel/tunnel.h"

#define RIG_ROWS_MAX  40000
#define RIG_MARKS_MAX 64
#define RIG_DICT      7u
#define RIG_DEVICE    0x4d2u

struct rig_row {
    uint8_t class_id;
    uint32_t epoch;
    uint64_t seq;
    uint64_t token; // 0: declared lost
    uint8_t reason;
};

struct rig_mark {
    uint8_t class_id;
    uint32_t epoch;
    uint64_t next;       // taken
    uint64_t looked_end; // batches behind a refused one that were looked at
    uint64_t hash;
    uint64_t next_seq;
    uint64_t durable; // what ACK says
    struct rig_device *owner;
};

// Knobs are the test's.
struct rig_gateway {
    struct rig_mark marks[RIG_MARKS_MAX];
    uint32_t mark_count;
    struct rig_row *rows;
    uint32_t row_count;
    bool silent;           // takes, but acknowledges nothing
    bool mute;             // does not even read
    bool unknown_dict;     // NEEDFULL
    uint64_t bad_token;    // REJECT of batches with it
    uint32_t bad_size;     // and of records of this size; 0: of none
    bool reject_nameless;  // without the record
    uint32_t credit_bytes; // of a WELCOME
    uint32_t credit_records;
    bool no_credit_back;
    uint32_t dict; // wanted
    uint64_t violations;
    uint64_t forks;
    uint64_t batches;
    uint64_t resent; // batches that were there already
    uint64_t compressed;
    uint64_t with_dict;
    uint64_t hellos;
    uint64_t early_bytes;
    uint64_t chunks;
    uint8_t order[4096]; // class of each batch as it came
    uint32_t order_count;
};

struct rig_stream {
    bool open;
    bool announced; // on_open was called
    bool welcomed;
    bool ended; // by the gateway
    uint8_t classes;
    uint8_t *up;
    size_t up_size;
    uint8_t *down;
    size_t down_size;
    uint8_t *batch; // in chunks
    struct wire_tunnel_batch partial;
    uint32_t partial_size;
};

struct rig_device {
    struct rig_gateway *gateway;
    struct mem_kv kv;
    void *collect_memory;
    void *tunnel_memory;
    struct dev_collect *collect;
    struct dev_tunnel *tunnel;
    struct dev_tunnel_config config;
    struct base_prng prng;
    struct rig_stream streams[WIRE_TUNNEL_CLASSES];
    uint64_t now_us;
    bool offline;     // open fails
    bool choked;      // send answers BUSY
    bool no_codec;    // payloads go plain
    size_t up_max;    // BUSY beyond; 0: none
    uint64_t calls;   // of the transport
    uint64_t kill_at; // this call of the transport; 0: none
    bool killed;
    uint64_t opens;
    // The ledger.
    uint64_t *tokens[WIRE_TUNNEL_CLASSES];
    uint32_t token_count[WIRE_TUNNEL_CLASSES];
    uint64_t forgotten[WIRE_TUNNEL_CLASSES]; // offered, gone with a kill
};

void rig_gateway_init(struct rig_gateway *gateway);
void rig_gateway_done(struct rig_gateway *gateway);
void rig_device_init(struct rig_device *device, struct rig_gateway *gateway);
void rig_device_done(struct rig_device *device);
// A new process over what is stored. Counts what the old one took with it.
void rig_boot(struct rig_device *device);
// `to`, initialised, becomes a copy of what `from` has stored, with its ledger, and boots.
void rig_clone(struct rig_device *to, struct rig_device *from);
void rig_kill(struct rig_device *device);
void rig_offer(struct rig_device *device, uint8_t class_id, uint32_t size);
// So many records that nobody made (dev_tunnel_unmade); in the ledger they are offered, too.
void rig_unmade(struct rig_device *device, uint8_t class_id, uint32_t count);
// One step, then everything that is on its way arrives. Returns when to step next.
uint64_t rig_turn(struct rig_device *device);
void rig_step_only(struct rig_device *device);
// Bytes on their way: up to the gateway, down to the device.
void rig_deliver_up(struct rig_device *device);
void rig_deliver_down(struct rig_device *device);
// All streams are lost, with what was on its way.
void rig_cut(struct rig_device *device);
// Turns, with time passing, until the device is idle. Fails the test after `turns`.
void rig_drain(struct rig_device *device, uint32_t turns);
void rig_pass(struct rig_device *device, uint64_t ms);
// The law, with the tokens: all of it must be there once, lost, or forgotten in a kill.
void rig_check(struct rig_device *device);
struct dev_tunnel_stats rig_figures(const struct rig_device *device);
uint64_t rig_lost(struct rig_device *device, uint8_t class_id);
// Rows with this token.
uint32_t rig_rows_of(const struct rig_gateway *gateway, uint64_t token);
// Puts a frame into the device's ear.
void rig_say(struct rig_device *device, uint32_t stream, const uint8_t *frame, size_t size);

#endif
