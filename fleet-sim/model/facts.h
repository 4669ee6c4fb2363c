// What the simulator notes of each device to hold it against what the device does later: what it
// saved, what it had when it went to sleep, and how often it asked in vain within a minute. Beside
// the ledger, for fleets of up to SIM_FACTS_DEVICES_MAX devices; the oracles that need it say so of
// larger ones. A shard's thread alone.
#ifndef SIM_FACTS_H
#define SIM_FACTS_H

#include "model/ledger.h"

#define SIM_FACTS_DEVICES_MAX 1000000u // of the fleet
// Requests of one device that may fail in a minute. Check-ins, metadata and content back off each
// for itself, from a second on: that makes about twenty.
#define SIM_FAILED_A_MINUTE_MAX 40u

// Check-ins and reports of one device in a minute, answered or not: a device that has nothing to
// wait for still does not ask every second.
#define SIM_ASKED_A_MINUTE_MAX 120u

struct sim_noted {
    uint64_t floor;   // when it went to sleep in order
    uint64_t saved;   // hash of the record that its storage said is durable; 0: not known
    uint32_t minute;  // of the run
    uint16_t failed;  // in that minute
    uint16_t asked;   // likewise: check-ins and reports, whatever came of them
    uint8_t active;   // when it went to sleep in order
    bool slept : 1;   // it did, and nothing was lost since
    bool stormed : 1; // it was over the bound once
};

struct sim_facts {
    const struct base_alloc_port *alloc;
    struct sim_noted *items; // NULL: the fleet is too large
};

BASE_NODISCARD enum base_status sim_facts_init(struct sim_facts *facts,
                                               const struct base_alloc_port *alloc, uint32_t count);
void sim_facts_done(struct sim_facts *facts);
// A device checked in, or reported.
void sim_facts_asked(struct sim_facts *facts, struct sim_counters *counters, uint32_t device,
                     uint64_t run_us);
// A request of a device failed.
void sim_facts_failed(struct sim_facts *facts, struct sim_counters *counters, uint32_t device,
                      uint64_t run_us);
// Its process died. What it asks from now on is not held against what it asked before, nor what it
// has against what it had: but what it saved has to be there.
void sim_facts_died(struct sim_facts *facts, uint32_t device);

// What a device has of the task followed.
struct sim_having {
    uint64_t floor;
    uint8_t active;
};

// As it goes to sleep, in order.
void sim_facts_slept(struct sim_facts *facts, uint32_t device, const struct sim_having *having);
// It may not have kept what it had.
void sim_facts_forget(struct sim_facts *facts, uint32_t device);
// Nothing that it had stored is there any more, and it is not to be.
void sim_facts_anew(struct sim_facts *facts, uint32_t device);
// Its storage said of a record that it is durable, whatever happens to the process from now on.
void sim_facts_saved(struct sim_facts *facts, uint32_t device, struct base_span record);
// It boots from this record; empty: there is none. `excused`: a fault took away what was stored.
void sim_facts_loaded(struct sim_facts *facts, struct sim_counters *counters, uint32_t device,
                      struct base_span record, bool excused);
// As it wakes.
void sim_facts_woke(const struct sim_facts *facts, struct sim_counters *counters, uint32_t device,
                    const struct sim_having *having);

// What the counters of a runtime came to since they were looked at last, on a device with one task.
struct sim_moves {
    uint64_t activations; // but for those that marks asked for
    uint64_t back;        // rollbacks and withdrawals
    bool changed;         // another version is active, or none
    bool had;             // one was
};

// Was a version activated that was active already?
bool sim_moves_twice(const struct sim_moves *moves);

#endif
