// Notes on devices and what is held against them. fleet_facts.c feeds it from the places where a
// device wakes, asks, moves and sleeps, and fleet_ports.c from those where it saves and loads; what
// it finds goes into the ledger's counters, of which the verdict is made.
#include "model/facts.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

#define MINUTE_US UINT64_C(60000000)

enum base_status sim_facts_init(struct sim_facts *facts, const struct base_alloc_port *alloc,
                                uint32_t count)
{
    size_t bytes = sizeof(facts->items[0]) * ((size_t)count + 1);
    facts->alloc = alloc;
    facts->items = alloc->alloc(alloc->ctx, bytes);
    if (facts->items == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(facts->items, 0, bytes);
    return BASE_OK;
}

void sim_facts_done(struct sim_facts *facts)
{
    if (facts->alloc != NULL) {
        facts->alloc->release(facts->alloc->ctx, facts->items);
    }
    *facts = (struct sim_facts){0};
}

// What was noted of the device in this minute of the run.
static struct sim_noted *noted_in(struct sim_facts *facts, uint32_t device, uint64_t run_us)
{
    struct sim_noted *fact = &facts->items[device];
    uint32_t minute = (uint32_t)(run_us / MINUTE_US);
    if (fact->minute != minute) {
        fact->minute = minute;
        fact->failed = 0;
        fact->asked = 0;
    }
    return fact;
}

static void count(struct sim_noted *fact, struct sim_counters *counters, uint16_t *count,
                  uint32_t most)
{
    base_assert(*count <= most);
    ++*count;
    if (*count > most) {
        counters->stormed += !fact->stormed;
        fact->stormed = true;
        *count = (uint16_t)most;
    }
}

void sim_facts_asked(struct sim_facts *facts, struct sim_counters *counters, uint32_t device,
                     uint64_t run_us)
{
    if (facts->items != NULL) {
        struct sim_noted *fact = noted_in(facts, device, run_us);
        count(fact, counters, &fact->asked, SIM_ASKED_A_MINUTE_MAX);
    }
}

void sim_facts_failed(struct sim_facts *facts, struct sim_counters *counters, uint32_t device,
                      uint64_t run_us)
{
    if (facts->items != NULL) {
        struct sim_noted *fact = noted_in(facts, device, run_us);
        count(fact, counters, &fact->failed, SIM_FAILED_A_MINUTE_MAX);
    }
}

void sim_facts_died(struct sim_facts *facts, uint32_t device)
{
    if (facts->items != NULL) {
        facts->items[device].failed = 0;
        facts->items[device].asked = 0;
        facts->items[device].slept = false;
    }
}

void sim_facts_slept(struct sim_facts *facts, uint32_t device, const struct sim_having *having)
{
    if (facts->items != NULL) {
        facts->items[device].floor = having->floor;
        facts->items[device].active = having->active;
        facts->items[device].slept = true;
    }
}

void sim_facts_forget(struct sim_facts *facts, uint32_t device)
{
    if (facts->items != NULL) {
        facts->items[device].slept = false;
    }
}

void sim_facts_anew(struct sim_facts *facts, uint32_t device)
{
    if (facts->items != NULL) {
        facts->items[device].saved = 0;
        facts->items[device].slept = false;
    }
}

static uint64_t hash_of(struct base_span record)
{
    uint64_t hash = record.size > 0 ? base_hash64(record.data, record.size) : 0;
    return hash == 0 && record.size > 0 ? 1 : hash;
}

void sim_facts_saved(struct sim_facts *facts, uint32_t device, struct base_span record)
{
    if (facts->items != NULL) {
        base_assert(record.size > 0);
        facts->items[device].saved = hash_of(record);
    }
}

void sim_facts_loaded(struct sim_facts *facts, struct sim_counters *counters, uint32_t device,
                      struct base_span record, bool excused)
{
    if (facts->items == NULL) {
        return;
    }
    struct sim_noted *fact = &facts->items[device];
    uint64_t hash = hash_of(record);
    if (fact->saved != 0 && !excused) {
        counters->kept_compared++;
        counters->kept_lost += hash != fact->saved;
    }
    fact->saved = hash;
}

void sim_facts_woke(const struct sim_facts *facts, struct sim_counters *counters, uint32_t device,
                    const struct sim_having *having)
{
    if (facts->items != NULL && facts->items[device].slept) {
        const struct sim_noted *fact = &facts->items[device];
        counters->kept_compared++;
        counters->kept_lost += having->floor < fact->floor || having->active != fact->active;
    }
}

bool sim_moves_twice(const struct sim_moves *moves)
{
    if (moves->back > 0 || moves->activations == 0) {
        return false;
    }
    return moves->activations > 1 || (moves->had && !moves->changed);
}
