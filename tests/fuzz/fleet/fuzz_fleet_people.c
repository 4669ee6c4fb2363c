// Any bytes as a population file and as a trace of arrivals: each is refused with its line, or what
// is drawn from it are values that it has, of every device, and times that do not go back.
#include "fuzz_target.h"

#include "base/check.h"
#include "people/arrivals.h"
#include "people/people.h"

#include <stdlib.h>
#include <string.h>

static void draw_some(const struct sim_people *people)
{
    for (uint64_t i = 0; i < 64; i++) {
        uint8_t value[SIM_TRAIT_COUNT];
        sim_people_draw(people, 1, i, value);
        for (uint32_t t = 0; t < SIM_TRAIT_COUNT; t++) {
            base_check(value[t] == SIM_TRAIT_ABSENT ||
                       value[t] < sim_people_count(people, (enum sim_trait)t));
        }
        base_check(sim_people_zone(people, value[SIM_TRAIT_REGION]) < 24);
        (void)sim_people_network(people, value[SIM_TRAIT_NETWORK]);
    }
}

static void come_some(const struct sim_arrivals *arrivals)
{
    uint64_t before_us = 0;
    for (uint32_t i = 0; i < 64; i++) {
        const struct sim_arrival arrival = {i, 64, (uint64_t)i << 58};
        uint64_t us = sim_arrivals_us(arrivals, &arrival);
        base_check(us >= before_us);
        before_us = us;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct sim_arrival_fleet fleet = {.devices = 1000};
    struct sim_people *people = NULL;
    struct sim_arrivals *arrivals = NULL;
    struct base_error error = {.status = BASE_OK};
    char *text = malloc(size > 0 ? size : 1); // so that a read past the end is seen
    base_check(text != NULL);
    memcpy(text, data, size);
    if (sim_people_parse("file", (struct base_str){text, size}, &people, &error) != BASE_OK) {
        base_check(error.text[0] != '\0');
    }
    if (sim_arrivals_trace("file", (struct base_str){text, size}, &fleet, &arrivals, &error) !=
        BASE_OK) {
        base_check(error.text[0] != '\0');
    }
    free(text); // what was read does not point there
    if (people != NULL) {
        draw_some(people);
    }
    if (arrivals != NULL) {
        come_some(arrivals);
    }
    sim_people_free(people);
    sim_arrivals_free(arrivals);
    return 0;
}
