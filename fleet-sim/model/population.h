// The population: who the virtual devices are.
//
// Every property of a device is recomputed from (seed, index) by counter-based draws, so nothing of
// it is stored: a million devices cost no memory here, and the same seed gives the same fleet on
// any machine and any number of threads. The tables in population.c are plausible shares of a
// consumer app's fleet, documented there; they are a model, not a measurement. A file takes their
// place where one is given (people/people.h).
#ifndef SIM_POPULATION_H
#define SIM_POPULATION_H

#include "people/people.h"
#include "people/sim_draw.h"
#include "policy/target.h"
#include "wire/attrs.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_population {
    uint64_t seed;
    uint32_t beta_per_10000;         // share of the beta channel, where the file has no channels
    const struct sim_people *people; // NULL: the built-in one
    uint32_t clone_ppm;              // devices that have the id of the one before them
    uint32_t reinstall_ppm;          // devices that are installed anew
};

// Indexes into the trait's value table; SIM_TRAIT_ABSENT: the device has no such attribute.
struct sim_traits {
    const struct sim_people *people;
    uint8_t value[SIM_TRAIT_COUNT];
};

// Unique within a seed, clones aside: a bijection of the index.
uint64_t sim_population_device_id(const struct sim_population *population, uint64_t index);
// Has another device its id: a clone of it, or the one that it is a clone of?
bool sim_population_shares_id(const struct sim_population *population, uint64_t index);
// Before which of its wakes, after so many, the device is installed anew; 0: never. *out_id: who it
// is from then on, in half of them the one that it was.
uint32_t sim_population_reinstalled(const struct sim_population *population, uint64_t index,
                                    uint64_t *out_id);
void sim_population_draw(const struct sim_population *population, uint64_t index,
                         struct sim_traits *out);

// The networks of the device with this index: as sim_traits_network, without all else of it.
const struct sim_network *sim_population_network(const struct sim_population *population,
                                                 uint64_t index);

bool sim_traits_beta(const struct sim_traits *traits); // on the beta channel?
// Traits whose attributes take the most bytes; no device of these needs more.
void sim_population_widest(const struct sim_people *people, struct sim_traits *out);

const char *sim_trait_name(enum sim_trait trait);
// Values there are of a trait, by number. Texts live as long as the people.
uint32_t sim_trait_value_count(const struct sim_people *people, enum sim_trait trait);
const char *sim_trait_text(const struct sim_people *people, enum sim_trait trait, uint32_t value);
// Are the values ordered (versions and sizes), so that `<` and `>=` mean something?
bool sim_trait_ordered(enum sim_trait trait);
// Order of two values of an ordered trait: <0, 0, >0.
int sim_trait_compare(const struct sim_people *people, enum sim_trait trait, uint32_t a,
                      uint32_t b);
enum pol_type sim_trait_type(enum sim_trait trait); // as an operand
// Hours later than UTC where the device is, 0 to 23.
uint32_t sim_traits_zone(const struct sim_traits *traits);
// The networks of its class.
const struct sim_network *sim_traits_network(const struct sim_traits *traits);

// Attributes as the runtime reports them and as the policy module reads them. Strings live as long
// as the people.
#define SIM_ATTRS_COUNT (SIM_TRAIT_COUNT + 1) // at most, with the runtime's ABI
void sim_traits_wire(const struct sim_traits *traits, struct wire_attrs *out);
void sim_traits_policy(const struct sim_traits *traits, struct pol_attr items[SIM_ATTRS_COUNT],
                       struct pol_attrs *out);

#endif
