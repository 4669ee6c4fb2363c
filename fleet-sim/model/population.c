// Seeded draw of device properties. Called by the shards at every wake, by the bad-release rules
// and by the report at the end. Pure: tables are constant, any thread may call.
//
// Shares: a phone fleet of a large consumer app (two thirds Android with a long tail of old
// versions, a quarter iOS concentrated on the last two, a small third system), app versions after a
// weekly release train, memory tied to the model, one device in a hundred on the beta channel.
#include "model/population.h"

#include "base/prng.h"
#include "wire/manifest.h"

#include <string.h>

struct choice {
    const char *text;
    uint32_t size;
    uint16_t weight;
    uint8_t group; // operating system the value belongs to, where that matters
    int64_t integer;
};

#define TEXT(literal) (literal), (sizeof(literal) - 1)

enum { OS_ANDROID, OS_HARMONY, OS_IOS, OS_COUNT };

static const struct choice os_values[] = {
    [OS_ANDROID] = {TEXT("android"), 680, 0, 0},
    [OS_HARMONY] = {TEXT("harmony"), 60, 0, 0},
    [OS_IOS] = {TEXT("ios"), 260, 0, 0},
};
static const struct choice os_version_values[] = {
    {TEXT("10"), 80, OS_ANDROID, 0},   {TEXT("11"), 120, OS_ANDROID, 0},
    {TEXT("12"), 170, OS_ANDROID, 0},  {TEXT("13"), 220, OS_ANDROID, 0},
    {TEXT("14"), 260, OS_ANDROID, 0},  {TEXT("15"), 150, OS_ANDROID, 0},
    {TEXT("3.0"), 250, OS_HARMONY, 0}, {TEXT("4.2"), 550, OS_HARMONY, 0},
    {TEXT("5.0"), 200, OS_HARMONY, 0}, {TEXT("15.8"), 60, OS_IOS, 0},
    {TEXT("16.7"), 140, OS_IOS, 0},    {TEXT("17.6"), 350, OS_IOS, 0},
    {TEXT("18.1"), 450, OS_IOS, 0},
};
static const struct choice app_version_values[] = {
    {TEXT("8.9"), 40, 0, 0},  {TEXT("9.0"), 80, 0, 0},  {TEXT("9.1"), 140, 0, 0},
    {TEXT("9.2"), 220, 0, 0}, {TEXT("9.3"), 300, 0, 0}, {TEXT("9.4"), 220, 0, 0},
};
// `integer` is the index of the model's memory in ram_values.
static const struct choice model_values[] = {
    {TEXT("nova-go"), 90, OS_ANDROID, 0},    {TEXT("nova-lite"), 210, OS_ANDROID, 1},
    {TEXT("nova"), 280, OS_ANDROID, 2},      {TEXT("nova-plus"), 220, OS_ANDROID, 3},
    {TEXT("nova-pro"), 140, OS_ANDROID, 4},  {TEXT("nova-ultra"), 60, OS_ANDROID, 5},
    {TEXT("mate-lite"), 300, OS_HARMONY, 2}, {TEXT("mate"), 450, OS_HARMONY, 4},
    {TEXT("mate-fold"), 250, OS_HARMONY, 5}, {TEXT("phone-se"), 150, OS_IOS, 1},
    {TEXT("phone-13"), 250, OS_IOS, 2},      {TEXT("phone-15"), 330, OS_IOS, 3},
    {TEXT("phone-16"), 270, OS_IOS, 4},
};
static const struct choice ram_values[] = {
    {TEXT("2048"), 0, 0, 2048}, {TEXT("3072"), 0, 0, 3072}, {TEXT("4096"), 0, 0, 4096},
    {TEXT("6144"), 0, 0, 6144}, {TEXT("8192"), 0, 0, 8192}, {TEXT("12288"), 0, 0, 12288},
};
static const struct choice network_values[] = {
    {TEXT("3g"), 30, 0, 0},
    {TEXT("4g"), 200, 0, 0},
    {TEXT("5g"), 220, 0, 0},
    {TEXT("wifi"), 550, 0, 0},
};
static const struct choice region_values[] = {
    {TEXT("cn-east"), 260, 0, 0}, {TEXT("cn-north"), 190, 0, 0}, {TEXT("cn-south"), 210, 0, 0},
    {TEXT("cn-west"), 120, 0, 0}, {TEXT("eu"), 60, 0, 0},        {TEXT("latam"), 30, 0, 0},
    {TEXT("sea"), 100, 0, 0},     {TEXT("us"), 30, 0, 0},
};
static const struct choice channel_values[] = {
    {TEXT("stable"), 0, 0, 0},
    {TEXT("beta"), 0, 0, 0},
};

struct trait_table {
    struct base_str name;
    const struct choice *values;
    uint32_t count;
    enum pol_type type;
};

#define TABLE(values) values, (uint32_t)(sizeof(values) / sizeof((values)[0]))

static const struct trait_table tables[SIM_TRAIT_COUNT] = {
    [SIM_TRAIT_APP_VERSION] = {{"app_version", 11}, TABLE(app_version_values), POL_TYPE_VERSION},
    [SIM_TRAIT_CHANNEL] = {{"channel", 7}, TABLE(channel_values), POL_TYPE_STRING},
    [SIM_TRAIT_MODEL] = {{"model", 5}, TABLE(model_values), POL_TYPE_STRING},
    [SIM_TRAIT_NETWORK] = {{"network", 7}, TABLE(network_values), POL_TYPE_STRING},
    [SIM_TRAIT_OS] = {{"os", 2}, TABLE(os_values), POL_TYPE_STRING},
    [SIM_TRAIT_OS_VERSION] = {{"os_version", 10}, TABLE(os_version_values), POL_TYPE_VERSION},
    [SIM_TRAIT_RAM_MB] = {{"ram_mb", 6}, TABLE(ram_values), POL_TYPE_INTEGER},
    [SIM_TRAIT_REGION] = {{"region", 6}, TABLE(region_values), POL_TYPE_STRING},
};

uint64_t sim_draw(uint64_t seed, uint64_t index, uint32_t stream)
{
    return base_mix64(base_mix64(base_mix64(seed) ^ stream) + index);
}

uint64_t sim_population_device_id(const struct sim_population *population, uint64_t index)
{
    return sim_draw(population->seed, index, SIM_STREAM_ID);
}

// Uniform number below `bound` from one draw; the bias of bound / 2^32 does not matter here.
static uint32_t below(uint64_t random, uint32_t bound)
{
    return (uint32_t)(((random >> 32) * bound) >> 32);
}

// Picks by weight among the values of `group`.
static uint8_t pick(const struct trait_table *table, uint8_t group, uint64_t random)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        total += table->values[i].group == group ? table->values[i].weight : 0;
    }
    uint32_t target = below(random, total);
    uint8_t last = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->values[i].group != group || table->values[i].weight == 0) {
            continue;
        }
        last = (uint8_t)i;
        if (target < table->values[i].weight) {
            break;
        }
        target -= table->values[i].weight;
    }
    return last;
}

void sim_population_draw(const struct sim_population *population, uint64_t index,
                         struct sim_traits *out)
{
    uint64_t random[SIM_TRAIT_COUNT];
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        random[i] = sim_draw(population->seed, index, SIM_STREAM_TRAITS + i);
    }
    uint8_t os = pick(&tables[SIM_TRAIT_OS], 0, random[SIM_TRAIT_OS]);
    uint8_t model = pick(&tables[SIM_TRAIT_MODEL], os, random[SIM_TRAIT_MODEL]);
    out->value[SIM_TRAIT_OS] = os;
    out->value[SIM_TRAIT_MODEL] = model;
    out->value[SIM_TRAIT_RAM_MB] = (uint8_t)model_values[model].integer;
    out->value[SIM_TRAIT_OS_VERSION] =
        pick(&tables[SIM_TRAIT_OS_VERSION], os, random[SIM_TRAIT_OS_VERSION]);
    out->value[SIM_TRAIT_APP_VERSION] =
        pick(&tables[SIM_TRAIT_APP_VERSION], 0, random[SIM_TRAIT_APP_VERSION]);
    out->value[SIM_TRAIT_NETWORK] = pick(&tables[SIM_TRAIT_NETWORK], 0, random[SIM_TRAIT_NETWORK]);
    out->value[SIM_TRAIT_REGION] = pick(&tables[SIM_TRAIT_REGION], 0, random[SIM_TRAIT_REGION]);
    out->value[SIM_TRAIT_CHANNEL] =
        below(random[SIM_TRAIT_CHANNEL], 10000) < population->beta_per_10000;
}

bool sim_traits_beta(const struct sim_traits *traits)
{
    return traits->value[SIM_TRAIT_CHANNEL] != 0; // stable, beta
}

void sim_population_widest(struct sim_traits *out)
{
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        out->value[i] = 0;
        for (uint32_t v = 1; v < tables[i].count; v++) {
            if (tables[i].values[v].size > tables[i].values[out->value[i]].size) {
                out->value[i] = (uint8_t)v;
            }
        }
    }
}

const char *sim_trait_name(enum sim_trait trait)
{
    return tables[trait].name.data;
}

uint32_t sim_trait_value_count(enum sim_trait trait)
{
    return tables[trait].count;
}

const char *sim_trait_text(enum sim_trait trait, uint32_t value)
{
    return value < tables[trait].count ? tables[trait].values[value].text : "?";
}

bool sim_trait_ordered(enum sim_trait trait)
{
    return tables[trait].type == POL_TYPE_VERSION || tables[trait].type == POL_TYPE_INTEGER;
}

enum pol_type sim_trait_type(enum sim_trait trait)
{
    return tables[trait].type;
}

int sim_trait_compare(enum sim_trait trait, uint32_t a, uint32_t b)
{
    const struct choice *left = &tables[trait].values[a];
    const struct choice *right = &tables[trait].values[b];
    if (tables[trait].type == POL_TYPE_INTEGER) {
        return (left->integer > right->integer) - (left->integer < right->integer);
    }
    struct pol_semver x, y;
    if (pol_semver_parse(left->text, left->size, &x) &&
        pol_semver_parse(right->text, right->size, &y)) {
        return pol_semver_compare(&x, &y);
    }
    return strcmp(left->text, right->text);
}

void sim_traits_wire(const struct sim_traits *traits, struct wire_attrs *out)
{
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        const struct choice *choice = &tables[i].values[traits->value[i]];
        bool integer = tables[i].type == POL_TYPE_INTEGER;
        out->items[i] = (struct wire_attr){
            .name = tables[i].name,
            .type = integer ? WIRE_ATTR_INTEGER : WIRE_ATTR_STRING,
            .text = integer ? (struct base_str){NULL, 0}
                            : (struct base_str){choice->text, choice->size},
            .integer = integer ? choice->integer : 0,
        };
    }
    out->items[SIM_TRAIT_COUNT] = (struct wire_attr){
        .name = BASE_STR("runtime"),
        .type = WIRE_ATTR_INTEGER,
        .integer = WIRE_RUNTIME_ABI,
    };
    out->count = SIM_ATTRS_COUNT;
}

void sim_traits_policy(const struct sim_traits *traits, struct pol_attr items[SIM_ATTRS_COUNT],
                       struct pol_attrs *out)
{
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        const struct choice *choice = &tables[i].values[traits->value[i]];
        items[i].name = (struct pol_text){tables[i].name.data, (uint32_t)tables[i].name.size};
        if (tables[i].type == POL_TYPE_INTEGER) {
            items[i].value.type = POL_TYPE_INTEGER;
            items[i].value.integer = choice->integer;
        } else {
            items[i].value.type = POL_TYPE_STRING;
            items[i].value.text = (struct pol_text){choice->text, choice->size};
        }
    }
    items[SIM_TRAIT_COUNT].name = (struct pol_text){"runtime", 7};
    items[SIM_TRAIT_COUNT].value.type = POL_TYPE_INTEGER;
    items[SIM_TRAIT_COUNT].value.integer = WIRE_RUNTIME_ABI;
    *out = (struct pol_attrs){items, SIM_ATTRS_COUNT};
}
