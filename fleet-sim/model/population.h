// The population: who the virtual devices are.
//
// Every property of a device is recomputed from (seed, index) by counter-based draws, so nothing of
// it is stored: a million devices cost no memory here, and the same seed gives the same fleet on
// any machine and any number of threads. The tables in population.c are plausible shares of a
// consumer app's fleet, documented there; they are a model, not a measurement.
#ifndef SIM_POPULATION_H
#define SIM_POPULATION_H

#include "policy/target.h"
#include "wire/attrs.h"

#include <stdbool.h>
#include <stdint.h>

enum sim_trait {
    SIM_TRAIT_APP_VERSION,
    SIM_TRAIT_CHANNEL,
    SIM_TRAIT_MODEL,
    SIM_TRAIT_NETWORK,
    SIM_TRAIT_OS,
    SIM_TRAIT_OS_VERSION,
    SIM_TRAIT_RAM_MB,
    SIM_TRAIT_REGION,
    SIM_TRAIT_COUNT
};

#define SIM_TRAIT_VALUES_MAX 24 // values of one trait

// Streams of randomness: each has its own, so that a change in one never shifts another.
enum sim_stream {
    SIM_STREAM_ID,
    SIM_STREAM_TRAITS, // + trait
    SIM_STREAM_ARRIVAL = 32,
    SIM_STREAM_BEHAVIOUR,
    SIM_STREAM_REAL,
    SIM_STREAM_RUNTIME,
    SIM_STREAM_REBOOT,
    SIM_STREAM_KILL,
    SIM_STREAM_SESSION,
    SIM_STREAM_CLOCK,
    SIM_STREAM_BUSINESS,
    SIM_STREAM_RUN_TIME,
};

struct sim_population {
    uint64_t seed;
    uint32_t beta_per_10000; // share of the beta channel
};

// Indexes into the trait's value table.
struct sim_traits {
    uint8_t value[SIM_TRAIT_COUNT];
};

// 64 random bits that depend on nothing but the arguments.
uint64_t sim_draw(uint64_t seed, uint64_t index, uint32_t stream);
// Unique within a seed: a bijection of the index.
uint64_t sim_population_device_id(const struct sim_population *population, uint64_t index);
void sim_population_draw(const struct sim_population *population, uint64_t index,
                         struct sim_traits *out);

// Traits whose attributes take the most bytes; no device needs more.
bool sim_traits_beta(const struct sim_traits *traits); // on the beta channel?
void sim_population_widest(struct sim_traits *out);

const char *sim_trait_name(enum sim_trait trait);
uint32_t sim_trait_value_count(enum sim_trait trait);
const char *sim_trait_text(enum sim_trait trait, uint32_t value); // static
// Are the values ordered (versions and sizes), so that `<` and `>=` mean something?
bool sim_trait_ordered(enum sim_trait trait);
// Order of two values of an ordered trait: <0, 0, >0.
int sim_trait_compare(enum sim_trait trait, uint32_t a, uint32_t b);
enum pol_type sim_trait_type(enum sim_trait trait); // as an operand

// Attributes as the runtime reports them and as the policy module reads them. All strings are
// static.
#define SIM_ATTRS_COUNT (SIM_TRAIT_COUNT + 1) // and the runtime's ABI
void sim_traits_wire(const struct sim_traits *traits, struct wire_attrs *out);
void sim_traits_policy(const struct sim_traits *traits, struct pol_attr items[SIM_ATTRS_COUNT],
                       struct pol_attrs *out);

#endif
