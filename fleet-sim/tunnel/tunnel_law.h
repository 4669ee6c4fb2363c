// The tunnel's law on a fleet: many devices with the real device/tunnel over stores in memory, the
// real gateway/tunnel with a sink in memory, one process, one thread, virtual time, one seed.
//
// Law: for every device, class and epoch, records produced = durable + queued + declared lost; the
// rows in the sink are the set of distinct ids; what a device takes for durable is in the sink;
// copies of a device are told apart, and nothing of two of them stands in one epoch.
//
// What happens to devices: lost connections with bytes under way, old streams that still deliver
// after the device came back, kills at any moment and at any commit (before and after it took
// effect), commits that fail, long times offline, full queues, restores from a backup, clones that
// run at the same time, a sink that fails, records the gateway refuses.
//
// The ledger is independent of both sides: each record is a token of (device, lineage, index). A
// lineage is what one copy of a device's store produced after the copy was made.
#ifndef SIM_TUNNEL_LAW_H
#define SIM_TUNNEL_LAW_H

#include "base/prng.h"
#include "mem/mem_kv.h"
#include "tunnel/gw_tunnel.h"
#include "tunnel/tunnel.h"

#include <stdio.h>

#define LAW_CLASSES    2 // of the four, drawn per device
#define LAW_LINEAGES   8
#define LAW_EPOCHS_MAX 64
#define LAW_NO_LINEAGE 0xff
#define LAW_TOKEN      8
#define LAW_PROBLEMS   20 // described one by one; the rest is counted

struct law_options {
    uint64_t seed;
    uint32_t devices;
    uint32_t minutes; // of virtual time with faults; then all of them deliver what they have
    uint32_t records; // per device, about
    bool calm;        // no faults
    uint64_t device;  // follow this one, UINT64_MAX: none
};

// ---- Ledger (tunnel_law_ledger.c)

enum law_token_flag { LAW_DELIVERED = 0x3f, LAW_FORGOTTEN = 0x40, LAW_POISON = 0x80 };

struct law_tokens {
    uint8_t *flags;       // how often it is in the sink, and enum law_token_flag
    uint32_t *offered_ms; // virtual time
    uint32_t count;
    uint32_t capacity;
};

struct law_lineage {
    uint8_t parent;
    uint32_t parent_count[LAW_CLASSES]; // tokens of the parent that are in the copy
    struct law_tokens tokens[LAW_CLASSES];
};

// What the sink has of one epoch.
struct law_epoch {
    uint8_t slot; // class
    uint32_t epoch;
    uint64_t next;
    uint64_t next_seq;
    uint64_t rows;
    uint64_t lost;               // declared, SPLIT not counted
    uint32_t most[LAW_LINEAGES]; // 1 + highest index
};

struct law_phone {
    uint32_t index;
    uint8_t classes[LAW_CLASSES]; // ids
    uint8_t lineage_count;
    bool copied;     // restored or cloned
    bool unreliable; // its commits fail at times
    struct law_lineage lineages[LAW_LINEAGES];
    struct law_epoch *epochs;
    uint32_t epoch_count;
};

struct law_counts {
    uint64_t offered;
    uint64_t rows;
    uint64_t duplicates; // tokens in more than one row: of copied devices alone
    uint64_t batches;
    uint64_t losses;
    uint64_t lost_records;
    uint64_t forgotten;
    uint64_t kills;
    uint64_t kills_at_commit;
    uint64_t cuts;
    uint64_t zombies;
    uint64_t boots;
    uint64_t restores;
    uint64_t clones;
    uint64_t forks;
    uint64_t epochs;
    uint64_t copies_that_diverged;
    uint64_t failed_commits;
    uint64_t sink_failures;
    uint64_t connects;
    uint64_t resent;
    uint64_t rejects;
    uint64_t lost[WIRE_TUNNEL_LOSS_END];
    uint64_t events;
    uint64_t problems;
};

struct law_sim;

void law_problem(struct law_sim *sim, const struct law_phone *phone, const char *format, ...)
    BASE_PRINTF(3, 4);
uint64_t law_token(const struct law_phone *phone, uint8_t lineage, uint8_t slot, uint32_t index);
// A new token of the lineage.
uint64_t law_offer(struct law_sim *sim, struct law_phone *phone, uint8_t lineage, uint8_t slot,
                   bool poison);
// The newest `count` of the lineage are gone: nobody may ever see them.
void law_forget(struct law_sim *sim, struct law_phone *phone, uint8_t lineage, uint8_t slot,
                uint64_t count);
// Tokens of the lineage itself that were not forgotten.
uint64_t law_remembered(const struct law_phone *phone, uint8_t lineage, uint8_t slot);
// Tokens of a copy: all of its lineage and what it has of its ancestors'.
uint64_t law_tokens_of(const struct law_phone *phone, uint8_t lineage, uint8_t slot, bool delivered,
                       bool forgotten);
uint8_t law_branch(struct law_sim *sim, struct law_phone *phone, uint8_t parent,
                   const uint32_t counts[LAW_CLASSES]);
void law_take_batch(struct law_sim *sim, const struct gw_sink_batch *batch);
void law_check_epochs(struct law_sim *sim, struct law_phone *phone);

// ---- Devices (tunnel_law_device.c)

struct law_link;

struct law_device {
    struct law_sim *sim;
    struct law_phone *phone;
    uint8_t lineage;
    bool is_clone;
    bool alive; // its process runs
    bool offline;
    bool done; // of the last phase
    struct mem_kv kv;
    void *memory; // collect and tunnel; NULL while it does not run
    struct dev_collect *collect;
    struct dev_tunnel *tunnel;
    struct law_link *links[WIRE_TUNNEL_CLASSES]; // by stream; of one connection
    uint64_t wake_us;                            // of the event that counts
    uint64_t killed_us;
    uint32_t latency_us;
    uint32_t script;                // actions left
    uint64_t produced[LAW_CLASSES]; // when it was killed
    // A backup, and what it holds.
    struct mem_kv *backup;
    uint8_t backup_lineage;
    uint32_t backup_counts[LAW_CLASSES];
};

void law_device_new(struct law_sim *sim, struct law_phone *phone, struct law_device *device);
void law_device_done(struct law_device *device);
void law_device_boot(struct law_device *device);
void law_device_wake(struct law_device *device);
void law_device_act(struct law_device *device);
void law_device_settle(struct law_device *device); // faults are over
bool law_device_is_idle(struct law_device *device);
void law_device_check(struct law_device *device);
size_t law_device_bytes(void);

// ---- Links (tunnel_law_link.c)

enum law_event_kind { LAW_WAKE, LAW_ACT, LAW_UP, LAW_DOWN, LAW_END, LAW_SINK, LAW_KINDS };

struct law_event {
    uint64_t at_us;
    uint64_t order; // ties are broken by it
    enum law_event_kind kind;
    void *subject;
};

enum base_status law_link_open(struct law_device *device, uint32_t stream);
enum base_status law_link_send(struct law_device *device, uint32_t stream, const uint8_t *bytes,
                               size_t size);
void law_link_close(struct law_device *device, uint32_t stream);
// The connection is lost, with all its streams. `told`: the device hears of it.
void law_links_drop(struct law_device *device, bool told);
void law_link_up(struct law_link *link);
void law_link_down(struct law_link *link);
void law_link_end(struct law_link *link);
void law_sink_lands(struct law_sim *sim);
BASE_NODISCARD enum base_status law_gateway_start(struct law_sim *sim);
void law_gateway_stop(struct law_sim *sim);
void law_gateway_settle(struct law_sim *sim); // messages and acknowledgements

// ---- The run (tunnel_law_run.c)

struct law_sim {
    struct law_options options;
    struct base_prng prng;
    uint64_t now_us;
    bool calm; // faults are over
    struct law_phone *phones;
    struct law_device *devices; // one a phone, then clones
    uint32_t device_count;
    struct law_event *heap;
    uint32_t heap_count;
    uint32_t heap_capacity;
    uint64_t order;
    struct gw_tunnel *tunnel;
    struct gw_tunnel_worker *worker;
    struct gw_message *messages;
    struct gw_message **messages_end;
    struct gw_sink_batch *landing;
    struct gw_sink_batch **landing_end;
    bool sink_busy;
    struct gw_tunnel_zstd *zstd;
    struct dev_codec *codec;
    struct law_counts counts;
    uint64_t live; // devices that run
    uint64_t live_max;
    uint64_t kv_bytes_max; // of one store
};

void law_at(struct law_sim *sim, uint64_t at_us, enum law_event_kind kind, void *subject);
// True with a chance of one in `n`.
bool law_chance(struct law_sim *sim, uint64_t one_in);

// The program `walle-fleet-sim tunnel`; its exit status.
int sim_tunnel_law(int argc, char **argv, FILE *out);

#endif
