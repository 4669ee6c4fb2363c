// Any bytes as the words of --cloud-load: refused with a reason, or numbers within their bounds, by
// which a calendar serves calls.
#include "fuzz_target.h"

#include "cloud/cloud_load.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 255u
#define CALLS     20u

static void expect(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool knows(void *ctx, struct base_str model)
{
    (void)ctx;
    return base_str_equal(model, BASE_STR("big"));
}

static void serve(const struct sim_cloud_load *load)
{
    struct sim_cloud_calendar *calendar = NULL;
    expect(load->service_us <= SIM_CLOUD_SERVICE_MAX * 1000u && load->instances > 0 &&
           load->instances <= SIM_CLOUD_INSTANCES_MAX && load->queue <= SIM_CLOUD_QUEUE_MAX &&
           load->per_min <= SIM_CLOUD_PER_MIN_MAX);
    expect(sim_cloud_calendar_new(load, &calendar) == BASE_OK);
    for (uint64_t i = 0; i < CALLS; i++) {
        uint64_t wait_us = 0;
        if (sim_cloud_calendar_take(calendar, i * 1500, 2000000, &wait_us)) {
            expect(wait_us <= 2000000);
        }
    }
    sim_cloud_calendar_free(calendar);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char words[WORDS_MAX + 1] = "";
    const struct sim_cloud_names names = {NULL, knows};
    struct sim_cloud_load load;
    struct base_error error = {.status = BASE_OK};
    memcpy(words, data, size < WORDS_MAX ? size : WORDS_MAX);
    if (sim_cloud_load_read(words, BASE_STR("big"), &names, &load, &error) == BASE_OK) {
        serve(&load);
    } else {
        expect(error.text[0] != '\0');
    }
    return 0;
}
