// Which faults a seed of a swarm has. Not all at once: a family that hides what another one would
// bring to light is missing in half of the seeds. Pure; the same seed draws the same on any
// machine.
#include "swarm/sim_case.h"

#include "base/check.h"
#include "base/prng.h"
#include "model/population.h"

#include <stdio.h>
#include <string.h>

// Kinds that came later stand behind these, so that a seed has the faults that it had before.
#define FIRST_KINDS ((uint32_t)SIM_FAULT_DNS)

// Rates in parts per million, of what is counted.
static const uint32_t often_ppm[] = {1000, 5000, 20000, 50000, 100000, 300000};

static uint32_t rate_ppm(const struct sim_fault_about *about, uint64_t draw)
{
    uint32_t ppm = often_ppm[draw % (sizeof(often_ppm) / sizeof(often_ppm[0]))];
    // Devices and wakes are few beside exchanges and calls.
    bool seldom = strcmp(about->each, "exchange") != 0 && strcmp(about->each, "write") != 0 &&
                  strcmp(about->each, "read") != 0;
    return seldom ? ppm : ppm / 2;
}

// From a quarter of the usual amount to four times as much.
static uint32_t amount_of(const struct sim_fault_about *about, uint64_t draw)
{
    uint64_t amount = (uint64_t)about->usual << draw % 5;
    amount /= 4;
    amount = amount > 0 ? amount : 1;
    return (uint32_t)(amount < about->most ? amount : about->most);
}

static void add(enum sim_fault_kind kind, uint64_t draw, struct sim_case *out)
{
    const struct sim_fault_about *about = sim_fault_about(kind);
    char amount[16] = "";
    if (about->amount != NULL) {
        (void)snprintf(amount, sizeof(amount), " %u", amount_of(about, draw >> 16));
    }
    (void)snprintf(out->faults[out->fault_count++], SIM_CASE_FAULT_MAX, "%s:%s%s @ %.2f%%",
                   sim_fault_family_name(about->family), about->name, amount,
                   rate_ppm(about, draw >> 32) / 1e4);
}

void sim_swarm_draw(uint64_t seed, struct sim_case *out)
{
    uint64_t families = sim_draw(seed, 0, SIM_STREAM_SWARM);
    base_assert(out->fault_count == 0);
    for (uint32_t i = 0; i < SIM_FAULT_KIND_COUNT && out->fault_count < SIM_FAULTS_MAX; i++) {
        // Begun anywhere, so that no kind is always among the last, for which there is no room.
        uint32_t first = (uint32_t)((i + (families >> 32)) % FIRST_KINDS);
        enum sim_fault_kind kind = (enum sim_fault_kind)(i < FIRST_KINDS ? first : i);
        uint64_t draw = sim_draw(seed, 1 + kind, SIM_STREAM_SWARM);
        bool family = (families >> sim_fault_about(kind)->family & 1u) != 0;
        if (family && draw % 5 < 2) {
            add(kind, draw >> 8, out);
        }
    }
    out->seed = seed;
}
