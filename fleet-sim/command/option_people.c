// Reads who the devices of a run are and makes the curve of when they come. Called by
// fleet_options.c once, on the main thread; what is made belongs to the options, and is freed with
// them.
#include "command/option_people.h"

#define ZONES_COUNTED 10000 // devices that stand for all when a day is drawn

// Where people live, as the first of them say.
static void count_zones(const struct sim_options *options, struct sim_arrival_fleet *fleet)
{
    const struct sim_population population = sim_options_population(options);
    for (uint32_t i = 0; i < ZONES_COUNTED; i++) {
        struct sim_traits traits;
        sim_population_draw(&population, i, &traits);
        fleet->zone_weights[sim_traits_zone(&traits)]++;
    }
}

static enum base_status people_read(struct sim_options *options, struct base_error *error)
{
    struct base_error inner = {.status = BASE_OK};
    if (options->population[0] == '\0') {
        return BASE_OK;
    }
    enum base_status status = sim_people_load(options->population, &options->people, &inner);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, BASE_ERR_INVALID, "--population: %s", inner.text);
}

static enum base_status arrivals_make(struct sim_options *options, struct base_error *error)
{
    struct sim_arrival_fleet fleet = {.devices = options->devices};
    struct base_error inner = {.status = BASE_OK};
    if (options->arrivals_shape[0] == '\0') {
        return BASE_OK;
    }
    count_zones(options, &fleet);
    enum base_status status =
        sim_arrivals_new(options->arrivals_shape, &fleet, &options->arrivals, &inner);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, BASE_ERR_INVALID, "--arrivals: %s", inner.text);
}

enum base_status sim_option_people(struct sim_options *options, struct base_error *error)
{
    if (options->panel_ppm == 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--panel: nobody behaves then; --behaviour none says so");
    }
    if (options->panel_ppm != SIM_PANEL_ALL && options->behaviour[0] == '\0') {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--panel: of what? --behaviour says what its devices do");
    }
    BASE_TRY(people_read(options, error));
    return arrivals_make(options, error);
}
