// Rules of bad releases: parsing and the seeded decision. Parsed on the main thread, asked by the
// shards at every task run; pure. fleet_options.c parses each --bad rule, fleet_device.c asks
// whether a run of a version that is marked bad is hit. The draw is from (seed, device, rule), with
// "each" also from the activation, so one seed hits the same devices whatever the threads do.
#include "model/bad_release.h"

#include "base/text/str_cut.h"
#include "model/population.h"

#include <stdlib.h>
#include <string.h>

static const char *const behaviour_names[SIM_BEHAVIOUR_COUNT] = {"none", "crash", "exception",
                                                                 "hang", "slow",  "wrong"};

#define EACH BASE_STR(" each")

enum base_status sim_ratio_parse(struct base_str text, uint32_t *out_ppm)
{
    text = base_str_trim(text);
    char copy[32];
    if (text.size == 0 || text.size >= sizeof(copy)) {
        return BASE_ERR_INVALID;
    }
    double scale = 1e6;
    if (text.data[text.size - 1] == '%') {
        scale = 1e4;
        text.size--;
        text = base_str_trim(text);
    }
    for (size_t i = 0; i < text.size; i++) {
        if ((text.data[i] < '0' || text.data[i] > '9') && text.data[i] != '.') {
            return BASE_ERR_INVALID;
        }
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    char *end = NULL;
    double value = strtod(copy, &end) * scale;
    if (text.size == 0 || *end != 0 || value < 0 || value > 1e6) {
        return BASE_ERR_INVALID;
    }
    *out_ppm = (uint32_t)(value + 0.5);
    return BASE_OK;
}

// The first whole number in `text`, or `fallback`.
static uint64_t number_in(struct base_str text, uint64_t fallback)
{
    size_t from = 0;
    while (from < text.size && (text.data[from] < '0' || text.data[from] > '9')) {
        from++;
    }
    size_t to = from;
    while (to < text.size && text.data[to] >= '0' && text.data[to] <= '9') {
        to++;
    }
    uint64_t value;
    return base_str_u64((struct base_str){text.data + from, to - from}, &value) == BASE_OK
               ? value
               : fallback;
}

static enum base_status fail_at(struct base_error *error, size_t offset, const char *what)
{
    (void)base_error_set(error, BASE_ERR_INVALID, "%s", what);
    if (error != NULL) {
        error->line = 1;
        error->column = (uint32_t)offset + 1;
    }
    return BASE_ERR_INVALID;
}

static enum base_status behaviour_parse(struct base_str text, struct sim_bad_rule *out)
{
    for (uint32_t i = SIM_BEHAVIOUR_CRASH; i < SIM_BEHAVIOUR_COUNT; i++) {
        struct base_str name = base_str_of(behaviour_names[i]);
        if (!base_str_starts(text, name) ||
            (text.size > name.size && text.data[name.size] != ' ')) {
            continue;
        }
        uint64_t fallback = i == SIM_BEHAVIOUR_SLOW ? 1000 : 1;
        uint64_t amount = number_in(text, fallback);
        if (amount < 1 || amount > SIM_BAD_SLOW_MS_MAX) {
            return BASE_ERR_INVALID;
        }
        out->behaviour = (enum sim_behaviour)i;
        out->amount = (uint32_t)amount;
        return BASE_OK;
    }
    return BASE_ERR_INVALID;
}

enum base_status sim_bad_rule_parse(struct base_str text, struct sim_bad_rule *out,
                                    struct base_error *error)
{
    const char *arrow = text.size >= 2 ? memmem(text.data, text.size, "=>", 2) : NULL;
    if (arrow == NULL) {
        return fail_at(error, text.size, "'=>' is missing: PREDICATE => BEHAVIOUR @ PROBABILITY");
    }
    struct base_str left = {text.data, (size_t)(arrow - text.data)};
    struct base_str right = {arrow + 2, text.size - left.size - 2};
    out->probability_ppm = 1000000;
    out->each = false;
    const char *at = right.size > 0 ? memchr(right.data, '@', right.size) : NULL;
    if (at != NULL) {
        struct base_str odds =
            base_str_trim((struct base_str){at + 1, right.size - (size_t)(at - right.data) - 1});
        out->each = odds.size > EACH.size &&
                    memcmp(odds.data + odds.size - EACH.size, EACH.data, EACH.size) == 0;
        odds.size -= out->each ? EACH.size : 0;
        if (sim_ratio_parse(odds, &out->probability_ppm) != BASE_OK) {
            return fail_at(error, (size_t)(at - text.data) + 1,
                           "a probability from 0 to 1 or 0% to 100% is expected here");
        }
        right.size = (size_t)(at - right.data);
    }
    struct base_str name = base_str_trim(right);
    if (behaviour_parse(name, out) != BASE_OK) {
        return fail_at(error, (size_t)(name.data - text.data),
                       "one of crash, exception [N], hang, slow [MS], wrong is expected here");
    }
    return sim_predicate_parse(left, &out->predicate, error);
}

const struct sim_bad_rule *sim_bad_release_hit(const struct sim_bad_release *release, uint64_t seed,
                                               const struct sim_bad_run *run)
{
    for (uint32_t i = 0; i < release->rule_count; i++) {
        const struct sim_bad_rule *rule = &release->rules[i];
        uint64_t salt = rule->each ? (uint64_t)run->activation * SIM_BAD_RULES_MAX : 0;
        uint64_t draw = sim_draw(seed + i + salt, run->device, SIM_STREAM_BEHAVIOUR);
        if ((draw >> 32) * 1000000 >> 32 >= rule->probability_ppm) {
            continue;
        }
        if (rule->behaviour == SIM_BEHAVIOUR_EXCEPTION && run->index + 1 < rule->amount) {
            continue;
        }
        if (sim_predicate_match(&rule->predicate, run->attrs)) {
            return rule;
        }
    }
    return NULL;
}
