// What follows from the options alone: who of the population takes part, how many are awake at
// once. Shards ask for their devices, each on its thread; preflight, the options' own check and the
// evidence ask for all. A draw depends on seed and index alone, so all of them draw the same.
#include "model/sim_options.h"

#include "policy/target.h"

#define WHERE_TRIES_MAX 100000 // a predicate rarer than that is given up

bool sim_options_want(const struct sim_options *options, const struct sim_population *population,
                      uint64_t index)
{
    const struct pol_target target = {.expr = options->target};
    struct sim_traits traits;
    struct pol_attr items[SIM_ATTRS_COUNT];
    struct pol_attrs attrs;
    sim_population_draw(population, index, &traits);
    sim_traits_policy(&traits, items, &attrs);
    return (options->where.cond_count == 0 || sim_predicate_match(&options->where, &attrs)) &&
           (options->target == NULL || pol_target_match(&target, &attrs).matched);
}

uint64_t sim_options_index(const struct sim_options *options,
                           const struct sim_population *population, uint64_t number)
{
    uint64_t index = options->first_device + number;
    bool picky = options->where.cond_count > 0 || options->target != NULL;
    for (uint32_t i = 0; picky && i < WHERE_TRIES_MAX; i++) {
        if (sim_options_want(options, population, index)) {
            break;
        }
        index += SIM_DEVICES_MAX;
    }
    return index;
}

uint32_t sim_options_shards(const struct sim_options *options)
{
    if (options->virtual_dir[0] == '\0') {
        return options->threads;
    }
    uint32_t count = options->devices / SIM_SHARD_DEVICES;
    count = count < SIM_SHARDS_MAX ? count : SIM_SHARDS_MAX;
    return count > 0 ? count : 1;
}

uint32_t sim_options_slots(const struct sim_options *options)
{
    bool all = options->hints || options->awake_max > options->devices;
    return all ? options->devices : options->awake_max;
}

bool sim_options_meet(const struct sim_options *options, const struct sim_predicate *predicate)
{
    const struct sim_population population = sim_options_population(options);
    for (uint32_t i = 0; i < options->devices; i++) {
        struct sim_traits traits;
        struct pol_attr items[SIM_ATTRS_COUNT];
        struct pol_attrs attrs;
        sim_population_draw(&population, sim_options_index(options, &population, i), &traits);
        sim_traits_policy(&traits, items, &attrs);
        if (sim_predicate_match(predicate, &attrs)) {
            return true;
        }
    }
    return false;
}
