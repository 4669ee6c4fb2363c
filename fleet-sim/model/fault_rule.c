// Parsing and drawing of faults. Parsed on the main thread by command/fleet_options.c, asked by the
// decorators of a shard's ports (fault_network.c, fault_storage.c, fault_wake.c); pure. The table
// below is the one place that knows what kinds there are.
#include "model/fault_rule.h"

#include "base/check.h"
#include "base/prng.h"
#include "base/text/str_cut.h"
#include "model/bad_release.h"

#include <stdio.h>
#include <string.h>

#define WHERE BASE_STR(" where ")

static const char *const families[SIM_FAULT_FAMILY_COUNT] = {"network", "gateway", "storage",
                                                             "process", "clock",   "device"};

static const struct sim_fault_about abouts[SIM_FAULT_KIND_COUNT] = {
    [SIM_FAULT_LOSS] = {"loss", SIM_FAULT_NETWORK, "exchange", NULL, 0, 0},
    [SIM_FAULT_RESET] = {"reset", SIM_FAULT_NETWORK, "exchange", NULL, 0, 0},
    [SIM_FAULT_DELAY] = {"delay", SIM_FAULT_NETWORK, "exchange", "ms at most", 2000, 600000},
    [SIM_FAULT_DUPLICATE] = {"duplicate", SIM_FAULT_NETWORK, "exchange", NULL, 0, 0},
    [SIM_FAULT_TRUNCATE] = {"truncate", SIM_FAULT_NETWORK, "exchange", NULL, 0, 0},
    [SIM_FAULT_CORRUPT] = {"corrupt", SIM_FAULT_NETWORK, "exchange", NULL, 0, 0},
    [SIM_FAULT_PORTAL] = {"portal", SIM_FAULT_NETWORK, "exchange", NULL, 0, 0},
    [SIM_FAULT_HALF_OPEN] = {"half-open", SIM_FAULT_NETWORK, "exchange", "seconds", 30, 3600},
    [SIM_FAULT_HANDOVER] = {"handover", SIM_FAULT_NETWORK, "exchange", NULL, 0, 0},
    [SIM_FAULT_OUTAGE] = {"outage", SIM_FAULT_NETWORK, "window", "seconds a window", 60, 86400},
    [SIM_FAULT_STORM] = {"storm", SIM_FAULT_NETWORK, "window", "seconds a window", 300, 86400},
    [SIM_FAULT_UNAVAILABLE] = {"503", SIM_FAULT_GATEWAY, "exchange", NULL, 0, 0},
    [SIM_FAULT_BUSY] = {"429", SIM_FAULT_GATEWAY, "exchange", "seconds to wait", 5, 3600},
    [SIM_FAULT_DOWN] = {"down", SIM_FAULT_GATEWAY, "window", "seconds a window", 60, 86400},
    [SIM_FAULT_SLOW] = {"slow", SIM_FAULT_GATEWAY, "exchange", "ms", 5000, 600000},
    [SIM_FAULT_AGAIN] = {"again", SIM_FAULT_GATEWAY, "exchange", NULL, 0, 0},
    [SIM_FAULT_STALE] = {"stale", SIM_FAULT_GATEWAY, "exchange", NULL, 0, 0},
    [SIM_FAULT_ERROR] = {"error", SIM_FAULT_STORAGE, "write", NULL, 0, 0},
    [SIM_FAULT_FULL] = {"full", SIM_FAULT_STORAGE, "wake", "the first write that fails", 4, 10000},
    [SIM_FAULT_READONLY] = {"read-only", SIM_FAULT_STORAGE, "wake", NULL, 0, 0},
    [SIM_FAULT_TORN] = {"torn", SIM_FAULT_STORAGE, "kill", NULL, 0, 0},
    [SIM_FAULT_FLIP] = {"flip", SIM_FAULT_STORAGE, "read", NULL, 0, 0},
    [SIM_FAULT_BACKUP] = {"backup", SIM_FAULT_STORAGE, "wake", NULL, 0, 0},
    [SIM_FAULT_CLEAR] = {"clear", SIM_FAULT_STORAGE, "wake", NULL, 0, 0},
    [SIM_FAULT_KILL] = {"kill", SIM_FAULT_PROCESS, "wake", "calls of a port at most", 64, 10000},
    [SIM_FAULT_LOOP] = {"loop", SIM_FAULT_PROCESS, "window", "wakes a window", 4, 100},
    [SIM_FAULT_OFFSET] = {"offset", SIM_FAULT_CLOCK, "device", "seconds at most", 3600, 100000000},
    [SIM_FAULT_STEP] = {"step", SIM_FAULT_CLOCK, "wake", "seconds at most", 3600, 100000000},
    [SIM_FAULT_UNSET] = {"unset", SIM_FAULT_CLOCK, "device", NULL, 0, 0},
    [SIM_FAULT_DRIFT] = {"drift", SIM_FAULT_CLOCK, "device", "parts per million", 500, 500000},
    [SIM_FAULT_CPU] = {"cpu", SIM_FAULT_DEVICE, "device", "times as long", 8, 1000},
    [SIM_FAULT_DISK] = {"disk", SIM_FAULT_DEVICE, "device", "KiB a wake", 16, 1000000},
    [SIM_FAULT_RESTART] = {"restart", SIM_FAULT_GATEWAY, "window", "seconds a window", 300, 86400},
    [SIM_FAULT_DNS] = {"dns", SIM_FAULT_NETWORK, "window", "seconds a window", 60, 86400},
    [SIM_FAULT_MTU] = {"mtu", SIM_FAULT_NETWORK, "wake", "bytes at most", 1400, 1000000},
    [SIM_FAULT_REPLAY] = {"replay", SIM_FAULT_NETWORK, "exchange", "seconds at most", 60, 3600},
    [SIM_FAULT_THROTTLE] = {"throttle", SIM_FAULT_DEVICE, "window", "times as long", 8, 1000},
    [SIM_FAULT_MEMORY] = {"memory", SIM_FAULT_DEVICE, "device", "KiB of a script", 128, 1000000},
    [SIM_FAULT_KILLER] = {"killer", SIM_FAULT_DEVICE, "run", NULL, 0, 0},
    [SIM_FAULT_SAVER] = {"saver", SIM_FAULT_DEVICE, "window", "seconds a window", 600, 86400},
    [SIM_FAULT_DOZE] = {"doze", SIM_FAULT_DEVICE, "window", "seconds a window", 900, 86400},
    [SIM_FAULT_ONE_WAY] = {"one-way", SIM_FAULT_NETWORK, "exchange", "seconds", 30, 3600},
};

const struct sim_fault_about *sim_fault_about(enum sim_fault_kind kind)
{
    base_assert(kind < SIM_FAULT_KIND_COUNT);
    return &abouts[kind];
}

const char *sim_fault_family_name(enum sim_fault_family family)
{
    return family < SIM_FAULT_FAMILY_COUNT ? families[family] : "?";
}

// `error` says what is wrong; it is told where.
static enum base_status at_column(struct base_error *error, size_t offset)
{
    if (error != NULL) {
        error->line = 1;
        error->column = (uint32_t)offset + 1;
    }
    return BASE_ERR_INVALID;
}

static enum base_status fail_at(struct base_error *error, size_t offset, const char *what)
{
    (void)base_error_set(error, BASE_ERR_INVALID, "%s", what);
    return at_column(error, offset);
}

// "family:kind" as a kind; KIND_COUNT: there is none such.
static enum sim_fault_kind kind_of(struct base_str name)
{
    for (uint32_t i = 0; i < SIM_FAULT_KIND_COUNT; i++) {
        struct base_str family = base_str_of(families[abouts[i].family]);
        struct base_str kind = base_str_of(abouts[i].name);
        bool same = name.size == family.size + 1 + kind.size &&
                    memcmp(name.data, family.data, family.size) == 0 &&
                    name.data[family.size] == ':' &&
                    memcmp(name.data + family.size + 1, kind.data, kind.size) == 0;
        if (same) {
            return (enum sim_fault_kind)i;
        }
    }
    return SIM_FAULT_KIND_COUNT;
}

static struct base_str part(struct base_str text, size_t from, size_t to)
{
    return (struct base_str){text.data + from, to - from};
}

static size_t find(struct base_str text, struct base_str word)
{
    const char *at =
        text.size >= word.size ? memmem(text.data, text.size, word.data, word.size) : NULL;
    return at != NULL ? (size_t)(at - text.data) : text.size;
}

// The kind and its amount: "network:delay 500".
static enum base_status deed_parse(struct base_str deed, struct sim_fault_rule *out,
                                   struct base_error *error)
{
    size_t space = find(deed, BASE_STR(" "));
    out->kind = kind_of(part(deed, 0, space));
    if (out->kind == SIM_FAULT_KIND_COUNT) {
        return fail_at(error, 0, "FAMILY:KIND is expected here (--help lists them)");
    }
    const struct sim_fault_about *about = sim_fault_about(out->kind);
    uint64_t amount = about->usual;
    if (space < deed.size) {
        struct base_str number = base_str_trim(part(deed, space, deed.size));
        if (about->amount == NULL) {
            return fail_at(error, space + 1, "'@' is expected here: this kind has no amount");
        }
        if (base_str_u64(number, &amount) != BASE_OK || amount < 1 || amount > about->most) {
            (void)base_error_set(error, BASE_ERR_INVALID,
                                 "a whole number from 1 to %u is expected here (%s)", about->most,
                                 about->amount);
            return at_column(error, space + 1);
        }
    }
    out->amount = (uint32_t)amount;
    return BASE_OK;
}

bool sim_fault_plan_has(const struct sim_fault_plan *plan, enum sim_fault_kind kind)
{
    bool found = false;
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        found = found || plan->rules[i].kind == kind;
    }
    return found;
}

bool sim_fault_plan_kills(const struct sim_fault_plan *plan)
{
    return sim_fault_plan_has(plan, SIM_FAULT_KILL) || sim_fault_plan_has(plan, SIM_FAULT_KILLER);
}

void sim_faults_help(char *out, size_t size)
{
    int wrote = snprintf(out, size,
                         "\nKinds of --fault, their amount, and what the probability "
                         "is of:\n");
    size_t used = wrote > 0 ? (size_t)wrote : 0;
    for (uint32_t i = 0; i < SIM_FAULT_KIND_COUNT && used < size; i++) {
        const struct sim_fault_about *about = &abouts[i];
        char amount[64] = "";
        if (about->amount != NULL) {
            (void)snprintf(amount, sizeof(amount), " [%s: %u]", about->amount, about->usual);
        }
        wrote = snprintf(out + used, size - used, "  %s:%s%s, of a%s %s\n", families[about->family],
                         about->name, amount, about->each[0] == 'e' ? "n" : "", about->each);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

// Those of a kind that are there from the start, or those that begin later.
static uint32_t of_kind(const struct sim_fault_plan *plan, enum sim_fault_kind kind, bool later)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        count += plan->rules[i].kind == kind && (plan->rules[i].from_s > 0) == later;
    }
    return count;
}

enum base_status sim_fault_add(struct sim_fault_plan *plan, struct base_str text,
                               struct base_error *error)
{
    base_assert(plan->rule_count <= SIM_FAULTS_MAX);
    if (plan->rule_count == SIM_FAULTS_MAX) {
        return base_error_set(error, BASE_ERR_LIMIT, "too many faults");
    }
    struct sim_fault_rule *rule = &plan->rules[plan->rule_count];
    size_t where = find(text, WHERE);
    size_t at = find(part(text, 0, where), BASE_STR("@"));
    *rule = (struct sim_fault_rule){.probability_ppm = 1000000};
    BASE_TRY(deed_parse(base_str_trim(part(text, 0, at)), rule, error));
    if (at == where) {
        return fail_at(error, at, "'@ PROBABILITY' is expected here, as in '@ 5%'");
    }
    if (sim_ratio_parse(part(text, at + 1, where), &rule->probability_ppm) != BASE_OK) {
        return fail_at(error, at + 1, "a probability from 0 to 1 or 0% to 100% is expected here");
    }
    if (where < text.size) {
        size_t from = where + WHERE.size;
        enum base_status status =
            sim_predicate_parse(part(text, from, text.size), &rule->where, error);
        if (status != BASE_OK) {
            error->column += (uint32_t)from;
            return status;
        }
        rule->picky = true;
    }
    rule->nth = of_kind(plan, rule->kind, false);
    plan->rule_count++;
    return BASE_OK;
}

enum base_status sim_fault_add_later(struct sim_fault_plan *plan, uint32_t from_s,
                                     struct base_str text, struct base_error *error)
{
    base_assert(from_s > 0);
    BASE_TRY(sim_fault_add(plan, text, error));
    struct sim_fault_rule *rule = &plan->rules[plan->rule_count - 1];
    rule->nth = SIM_FAULTS_MAX - 1 - of_kind(plan, rule->kind, true);
    rule->from_s = from_s;
    return BASE_OK;
}

uint64_t sim_fault_draw(uint64_t seed, const struct sim_fault_rule *rule, uint64_t subject,
                        uint64_t count)
{
    uint32_t stream = SIM_STREAM_FAULT + (uint32_t)rule->kind * SIM_FAULTS_MAX + rule->nth;
    return sim_draw(base_mix64(seed) ^ count, subject, stream);
}

bool sim_fault_means(const struct sim_fault_rule *rule, const struct sim_traits *traits)
{
    struct pol_attr items[SIM_ATTRS_COUNT];
    struct pol_attrs attrs;
    if (!rule->picky) {
        return true;
    }
    sim_traits_policy(traits, items, &attrs);
    return sim_predicate_match(&rule->where, &attrs);
}

bool sim_fault_hits(const struct sim_fault_rule *rule, uint64_t draw)
{
    return (draw >> 32) * 1000000 >> 32 < rule->probability_ppm;
}
