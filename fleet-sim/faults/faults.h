// Faults around devices: decorators of a transport and of each device's ports. run/ puts them where
// a world meets a device; without --fault each call here is a look at one word.
//
// Lifetimes. A world lives as long as its shard; a device's part from its wake to its sleep,
// embedded in the awake device. One thread. Whatever a fault takes away from a device it takes from
// the port, so the runtime meets it as it would meet it on a phone. Each port counts for itself, so
// that what one family does to a device shifts the draws of no other.
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "base/ports.h"
#include "model/fault_rule.h"
#include "model/population.h"
#include "ports/sim_storage.h"
#include "ports/sim_transport.h"

struct sim_faulty;
struct sim_flipped;
struct sim_held;
struct sim_kept_answer;
struct sim_story;

struct sim_answer {
    const struct dev_response_head *head;
    const uint8_t *body;
    size_t size;
    enum base_status status;
};

// What a device stored at one time.
struct sim_backup {
    uint8_t *state;
    uint32_t state_bytes;
    uint32_t image;
};

// Of a shard.
struct sim_faults {
    const struct sim_fault_plan *plan;
    const struct base_alloc_port *alloc;
    struct base_clock_port clock;
    uint64_t start_us;
    uint64_t seed;
    uint32_t devices;
    // The part of the device that owns an exchange.
    struct sim_faulty *(*faulty_of)(const struct sim_exchange *exchange);
    // An answer that was told comes once more: nobody waits for it.
    void (*again)(const struct sim_exchange *exchange, const struct sim_answer *answer);
    struct sim_transport inner;
    struct sim_transport_events events; // the device's
    struct sim_held **heap;             // by when they are due
    uint32_t heap_count;
    uint32_t heap_capacity;
    uint64_t serial;
    struct sim_held *all;
    struct sim_backup *backups;          // a device each; NULL: nobody goes back
    struct sim_kept_answer **answers;    // likewise: nobody is told what was
    uint64_t storm;                      // windows looked at
    uint64_t hits[SIM_FAULT_KIND_COUNT]; // that happened: a draw alone is none
    struct sim_story *story;             // of a device; NULL: none is told
};

// Of a device, from its wake to its sleep.
struct sim_faulty {
    struct sim_faults *faults;
    uint64_t index;     // of the device in the population
    uint32_t device;    // in the shard
    uint32_t wakes;     // so far
    uint32_t mask;      // rules that may hit this device; 0: nothing goes wrong here
    uint32_t exchanges; // began in this wake
    uint32_t writes;
    uint32_t reads;
    uint32_t calls;   // of all ports
    uint32_t dies_at; // call within which the process dies; 0: none
    enum sim_fault_kind dies_of;
    bool dies_behind;         // ... after it took effect
    bool dead;                // whatever it does now, nobody sees
    bool excused;             // it cannot be asked to have recovered: its storage failed
    bool lost;                // what it had stored is gone, or of before
    bool readonly;            // storage
    bool never_set;           // its clock
    bool set_wrong;           // likewise, in all its wakes
    bool stepped;             // likewise, in this one
    int32_t drift_ppm;        // likewise
    uint32_t full_at;         // write from which on there is no room; 0: none
    uint32_t times;           // a run takes so many times as long
    uint32_t runs;            // began in this wake
    uint32_t heap_kib;        // that a script gets at most; 0: any
    uint32_t mtu_bytes;       // of a message, beyond which it does not arrive; 0: none
    bool connected;           // it has heard the gateway, and its connection did not end since
    uint64_t met;             // kinds that are counted once a wake, and were: a bit each
    uint64_t room;            // bytes that it may still append; UINT64_MAX: any
    uint64_t silent_us;       // until then nothing arrives, and nothing is answered
    uint64_t unheard_us;      // until then what arrives is answered, and no answer comes back
    uint64_t off_us;          // of its wall clock, modulo 2^64
    struct sim_exchange *own; // its exchanges
    uint32_t own_count;
    struct sim_storage *disk;
    struct dev_storage_port storage; // the ports behind
    struct dev_http_port http;
    struct sim_flipped *flipped; // copies that reads were given
};

// ---- A shard

struct sim_faults_options {
    const struct sim_fault_plan *plan; // outlives all
    const struct base_alloc_port *alloc;
    struct base_clock_port clock;
    uint64_t start_us;
    uint64_t seed;
    uint32_t devices;
    struct sim_faulty *(*faulty_of)(const struct sim_exchange *exchange);
    void (*again)(const struct sim_exchange *exchange, const struct sim_answer *answer);
};

void sim_faults_init(struct sim_faults *faults, const struct sim_faults_options *options);
void sim_faults_done(struct sim_faults *faults);
// Events as a transport is to give them, for a device that takes `events`.
struct sim_transport_events sim_faults_events(struct sim_faults *faults,
                                              const struct sim_transport_events *events);
// Stands between a transport and the devices. NOMEM.
BASE_NODISCARD enum base_status sim_faults_wrap(struct sim_faults *faults,
                                                struct sim_transport *transport);
// Gives on what is due. Then when something is next.
void sim_faults_turn(struct sim_faults *faults, uint64_t now_us);
uint64_t sim_faults_due_us(const struct sim_faults *faults);
// The rule by which those who sleep wake in this moment; NULL: they sleep on. Once a moment.
const struct sim_fault_rule *sim_faults_storm(struct sim_faults *faults, uint64_t now_us);
// When the next one may begin; UINT64_MAX: none.
uint64_t sim_faults_storm_us(const struct sim_faults *faults);
// Do faults still happen?
bool sim_faults_on(const struct sim_faults *faults);

// ---- A device

struct sim_faults_waker {
    uint64_t index;
    uint32_t device;
    uint32_t wakes;
    const struct sim_traits *traits;
    struct sim_storage *disk;
    struct sim_exchange *exchanges;
    uint32_t exchange_count;
};

// It wakes: its ports are there, and it has not booted. They are changed where something may go
// wrong.
void sim_faults_wake(struct sim_faults *faults, const struct sim_faults_waker *waker,
                     struct sim_faulty *out, struct dev_ports *ports);
void sim_faults_drop(struct sim_faulty *faulty);
// Its process was killed, after storage lost what a kill takes.
void sim_faults_killed(struct sim_faulty *faulty);
uint64_t sim_faults_wall_us(struct sim_faulty *faulty, uint64_t wall_us);
uint64_t sim_faults_run_us(struct sim_faulty *faulty, uint64_t run_us);

// ---- fault_device.c: what the device has for scripts, and when its timers go off
// A script is about to run: how many times slower it is just now. At most once a run.
uint32_t sim_faults_slower(struct sim_faulty *faulty);
// It asks for so much memory (KiB; 0: the default of the VM). Does it get none?
bool sim_faults_heap_refused(struct sim_faulty *faulty, uint32_t heap_kib);
// Does its process die in it? Once a run.
bool sim_faults_run_killed(struct sim_faulty *faulty);
// When a timer that is due then goes off; `sleeps`: the device is not in memory meanwhile.
uint64_t sim_faults_timer_us(struct sim_faulty *faulty, uint64_t due_us, bool sleeps);
// A request is about to begin: does the system refuse it?
bool sim_faults_saves(struct sim_faulty *faulty);

// ---- Between the files of faults/

// The first rule of the kinds from `first` to `last` that hits this device now, by its `count`;
// NULL: none does. Rules of windows are none of these. Whoever asks counts it where it happens.
const struct sim_fault_rule *sim_fault_of(struct sim_faulty *faulty, enum sim_fault_kind first,
                                          enum sim_fault_kind last, uint32_t count,
                                          uint64_t *out_draw);
// It happened to this device; `once`: what goes on for a whole wake is one.
void sim_fault_met(struct sim_faulty *faulty, enum sim_fault_kind kind);
// The same of one that may not be awake any more.
void sim_fault_happened(struct sim_faults *faults, uint64_t index, enum sim_fault_kind kind);
void sim_fault_met_once(struct sim_faulty *faulty, enum sim_fault_kind kind);
static inline uint64_t sim_faults_now_us(const struct sim_faults *faults)
{
    return faults->clock.mono_us(faults->clock.ctx);
}
void *sim_faults_zeroed(const struct sim_faults *faults, size_t bytes); // NULL: no memory
// fault_device.c: the gateway's name is asked for where there is no connection. Is it not found?
bool sim_fault_nameless(struct sim_faulty *faulty);
// fault_request.c: what happens to exchange `number` of the wake; NULL: nothing.
const struct sim_fault_rule *sim_fault_of_exchange(struct sim_faulty *faulty,
                                                   const struct sim_exchange *exchange,
                                                   uint32_t number, uint64_t *out_draw);
// A request with all that it points to; the caller releases it. NULL: no memory.
struct sim_request_copy {
    struct dev_request request;
    struct base_str credential;
    struct wire_sha256 dictionary;
    uint8_t bytes[];
};
struct sim_request_copy *sim_request_copy_new(const struct base_alloc_port *alloc,
                                              const struct sim_exchange *exchange,
                                              const struct dev_request *request);
struct sim_transport sim_faults_transport(struct sim_faults *faults);
void sim_faults_forget(struct sim_faults *faults); // every answer that is held
void sim_fault_ports_wrap(struct sim_faulty *faulty, struct dev_ports *ports);
void sim_fault_ports_drop(struct sim_faulty *faulty);
// A call of a port begins: false when the process is dead by then, and it has no effect.
bool sim_fault_call(struct sim_faulty *faulty);
void sim_fault_call_ends(struct sim_faulty *faulty);

#endif
