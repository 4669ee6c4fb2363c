// The words of --cloud-load, and the calendar of a model's instances. sim_cloud.c calls both: the
// words once, before a run, and the calendar from the threads of the shards, in an order that the
// run says. A step of the calendar holds how much of it is taken by all instances together; a call
// takes no more of a step than one instance has of it.
#include "cloud/cloud_load.h"

#include "base/check.h"
#include "base/text/real.h"

#include <stdlib.h>
#include <string.h>

#define STEP_US   1000u
#define WORD_MAX  160u // of the option
#define DIGIT_MAX 24u

// ---- The words

static bool number_of(struct base_str text, double most, double *out)
{
    char digits[DIGIT_MAX + 1];
    const char *end = NULL;
    if (text.size == 0 || text.size > DIGIT_MAX) {
        return false;
    }
    memcpy(digits, text.data, text.size);
    digits[text.size] = '\0';
    *out = base_real_read(digits, &end);
    return end == digits + text.size && *out >= 0 && *out <= most;
}

static bool value_take(struct base_str key, struct base_str value, struct sim_cloud_load *out)
{
    double number = 0;
    if (base_str_equal(key, BASE_STR("service_ms"))) {
        bool good = number_of(value, SIM_CLOUD_SERVICE_MAX, &number);
        out->service_us = good ? (uint32_t)(number * 1000 + 0.5) : 0;
        return good;
    }
    const struct {
        const char *name;
        uint32_t least;
        uint32_t most;
        uint32_t *at;
    } whole[] = {{"instances", 1, SIM_CLOUD_INSTANCES_MAX, &out->instances},
                 {"queue", 0, SIM_CLOUD_QUEUE_MAX, &out->queue},
                 {"per_min", 0, SIM_CLOUD_PER_MIN_MAX, &out->per_min}};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        uint64_t count = 0;
        if (base_str_equal(key, base_str_of(whole[i].name))) {
            bool good = base_str_u64(value, &count) == BASE_OK && count >= whole[i].least &&
                        count <= whole[i].most;
            *whole[i].at = good ? (uint32_t)count : 0;
            return good;
        }
    }
    return false;
}

static size_t find(struct base_str text, char c, bool last)
{
    size_t at = text.size;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == c && (last || at == text.size)) {
            at = i;
        }
    }
    return at;
}

// One word, "big.service_ms=35" or "queue=16"; taken if it is of the model that is asked for.
static bool word_take(struct base_str word, struct base_str model,
                      const struct sim_cloud_names *names, struct sim_cloud_load *out)
{
    size_t equals = find(word, '=', false);
    if (equals == word.size) {
        return false;
    }
    struct base_str key = {word.data, equals};
    struct base_str value = {word.data + equals + 1, word.size - equals - 1};
    size_t dot = find(key, '.', true);
    if (dot == key.size) {
        return value_take(key, value, out);
    }
    struct base_str of = {key.data, dot};
    key = (struct base_str){key.data + dot + 1, key.size - dot - 1};
    struct sim_cloud_load other = *out;
    bool mine = base_str_equal(of, model);
    return !base_str_equal(key, BASE_STR("per_min")) && // a device's, whichever model it asks
           (names == NULL || names->knows(names->ctx, of)) &&
           value_take(key, value, mine ? out : &other);
}

// Words of all models are heard first, wherever they stand.
enum base_status sim_cloud_load_read(const char *words, struct base_str model,
                                     const struct sim_cloud_names *names,
                                     struct sim_cloud_load *out, struct base_error *error)
{
    *out = (struct sim_cloud_load){.service_us = (uint32_t)(SIM_CLOUD_SERVICE_MS * 1000),
                                   .instances = SIM_CLOUD_INSTANCES,
                                   .queue = SIM_CLOUD_QUEUE,
                                   .per_min = SIM_CLOUD_PER_MIN};
    for (int named = 0; named < 2; named++) {
        struct base_str left = base_str_of(words);
        while (left.size > 0) {
            size_t comma = find(left, ',', false);
            struct base_str word = {left.data, comma};
            bool is_named = memchr(word.data, '.', find(word, '=', false)) != NULL;
            if (is_named == (named == 1) && !word_take(word, model, names, out)) {
                return base_error_set(
                    error, BASE_ERR_INVALID,
                    "--cloud-load: \"%.*s\" is none of service_ms=MS, instances=N, queue=N, "
                    "per_min=N, with MODEL. in front for one model of --cloud-models (not per_min)",
                    (int)(word.size < WORD_MAX ? word.size : WORD_MAX), word.data);
            }
            size_t gone = comma < left.size ? comma + 1 : comma;
            left = (struct base_str){left.data + gone, left.size - gone};
        }
    }
    return BASE_OK;
}

// ---- The calendar

struct step {
    uint32_t number; // of the step since the clock began, modulo 2^32: others are free
    uint32_t taken_us;
};

struct sim_cloud_calendar {
    struct sim_cloud_load load;
    struct step steps[SIM_CLOUD_AHEAD_MS];
};

_Static_assert((SIM_CLOUD_AHEAD_MS & (SIM_CLOUD_AHEAD_MS - 1)) == 0, "a ring");

enum base_status sim_cloud_calendar_new(const struct sim_cloud_load *load,
                                        struct sim_cloud_calendar **out)
{
    struct sim_cloud_calendar *calendar = calloc(1, sizeof(*calendar));
    if (calendar == NULL) {
        return BASE_ERR_NOMEM;
    }
    calendar->load = *load;
    *out = calendar;
    return BASE_OK;
}

void sim_cloud_calendar_free(struct sim_cloud_calendar *calendar)
{
    free(calendar);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// When a call that arrives then has been served, or `until_us` where it is not by then. `takes`:
// the time is taken.
static uint64_t serve(struct sim_cloud_calendar *calendar, uint64_t at_us, uint64_t until_us,
                      bool takes)
{
    const uint64_t all_us = (uint64_t)calendar->load.instances * STEP_US;
    uint64_t left_us = calendar->load.service_us;
    uint64_t end_us = at_us;
    for (uint64_t i = at_us / STEP_US; left_us > 0; i++) {
        struct step *step = &calendar->steps[i % SIM_CLOUD_AHEAD_MS];
        uint64_t from_us = i * STEP_US > at_us ? i * STEP_US : at_us;
        uint64_t taken_us = step->number == (uint32_t)i ? step->taken_us : 0;
        if (from_us >= until_us) {
            return until_us;
        }
        uint64_t part_us = least(left_us, least((i + 1) * STEP_US - from_us, all_us - taken_us));
        left_us -= part_us;
        end_us = part_us > 0 ? from_us + part_us : end_us;
        if (takes && part_us > 0) {
            *step = (struct step){(uint32_t)i, (uint32_t)(taken_us + part_us)};
        }
    }
    return end_us;
}

bool sim_cloud_calendar_take(struct sim_cloud_calendar *calendar, uint64_t at_us, uint64_t most_us,
                             uint64_t *out_wait_us)
{
    const struct sim_cloud_load *load = &calendar->load;
    uint64_t queue_us = (uint64_t)load->queue * load->service_us / load->instances;
    uint64_t most = least(least(queue_us, most_us), (SIM_CLOUD_AHEAD_MS / 2) * (uint64_t)STEP_US);
    uint64_t until_us = at_us + load->service_us + most + 1;
    uint64_t end_us = serve(calendar, at_us, until_us, false);
    if (end_us == until_us) {
        return false;
    }
    base_check(end_us >= at_us + load->service_us);
    (void)serve(calendar, at_us, until_us, true);
    *out_wait_us = end_us - at_us - load->service_us;
    return true;
}
