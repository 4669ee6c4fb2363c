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

#define CLONES_BLOCK    64u // devices
#define REINSTALL_WAKES 12u

struct trait_table {
    const struct choice *values;
    uint32_t count;
    uint32_t stream; // of randomness, from SIM_STREAM_TRAITS on
};

#define TABLE(values) values, (uint32_t)(sizeof(values) / sizeof((values)[0]))

// Nobody says of these devices which chip they have.
static const struct trait_table tables[SIM_TRAIT_COUNT] = {
    [SIM_TRAIT_APP_VERSION] = {TABLE(app_version_values), 0},
    [SIM_TRAIT_CHANNEL] = {TABLE(channel_values), 1},
    [SIM_TRAIT_MODEL] = {TABLE(model_values), 2},
    [SIM_TRAIT_NETWORK] = {TABLE(network_values), 3},
    [SIM_TRAIT_OS] = {TABLE(os_values), 4},
    [SIM_TRAIT_OS_VERSION] = {TABLE(os_version_values), 5},
    [SIM_TRAIT_RAM_MB] = {TABLE(ram_values), 6},
    [SIM_TRAIT_REGION] = {TABLE(region_values), 7},
};

// By the values of their traits.
static const uint8_t region_zones[] = {8, 8, 8, 8, 1, 21, 7, 18};
static const struct sim_network networks[] = {
    {150000, 120000, 20000, 80000, 250000, 1500, 500, 20000}, // 3g
    {45000, 35000, 5000, 30000, 150000, 20000, 8000, 8000},   // 4g
    {20000, 15000, 2000, 20000, 100000, 120000, 30000, 5000}, // 5g
    {12000, 10000, 1000, 10000, 100000, 80000, 40000, 2000},  // wifi
};

// A clone has the id of the one before it, which may be one itself; a block begins with none.
static bool is_clone(const struct sim_population *population, uint64_t index)
{
    return population->clone_ppm > 0 && index % CLONES_BLOCK != 0 &&
           sim_chance(sim_draw(population->seed, index, SIM_STREAM_CLONE), population->clone_ppm);
}

uint64_t sim_population_device_id(const struct sim_population *population, uint64_t index)
{
    while (is_clone(population, index)) {
        index--;
    }
    return sim_draw(population->seed, index, SIM_STREAM_ID);
}

bool sim_population_shares_id(const struct sim_population *population, uint64_t index)
{
    return is_clone(population, index) || is_clone(population, index + 1);
}

uint32_t sim_population_reinstalled(const struct sim_population *population, uint64_t index,
                                    uint64_t *out_id)
{
    uint64_t fate = population->reinstall_ppm > 0
                        ? sim_draw(population->seed, index, SIM_STREAM_REINSTALL)
                        : UINT64_MAX;
    if (!sim_chance(fate, population->reinstall_ppm)) {
        return 0;
    }
    uint64_t draw = base_mix64(fate);
    *out_id = (draw & 1u) != 0 ? sim_draw(population->seed, index, SIM_STREAM_OTHER_ID)
                               : sim_population_device_id(population, index);
    return 1 + (uint32_t)((draw >> 32) % REINSTALL_WAKES);
}

// Picks by weight among the values of `group`.
static uint8_t pick(const struct trait_table *table, uint8_t group, uint64_t random)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        total += table->values[i].group == group ? table->values[i].weight : 0;
    }
    uint32_t target = sim_below(random, total);
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

static uint8_t pick_channel(const struct sim_population *population, uint64_t random)
{
    return sim_below(random, 10000) < population->beta_per_10000;
}

static void draw_built_in(const struct sim_population *population, uint64_t index,
                          struct sim_traits *out)
{
    uint64_t random[SIM_TRAIT_COUNT];
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        random[i] = sim_draw(population->seed, index, SIM_STREAM_TRAITS + tables[i].stream);
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
    out->value[SIM_TRAIT_CHANNEL] = pick_channel(population, random[SIM_TRAIT_CHANNEL]);
    out->value[SIM_TRAIT_CHIP] = SIM_TRAIT_ABSENT;
}

void sim_population_draw(const struct sim_population *population, uint64_t index,
                         struct sim_traits *out)
{
    out->people = population->people;
    if (population->people == NULL) {
        draw_built_in(population, index, out);
        return;
    }
    sim_people_draw(population->people, population->seed, index, out->value);
}

// ---- Values

static struct base_str text_of(const struct sim_people *people, enum sim_trait trait,
                               uint32_t value)
{
    if (value >= sim_trait_value_count(people, trait)) {
        return (struct base_str){NULL, 0};
    }
    if (people != NULL) {
        return sim_people_value(people, trait, value)->text;
    }
    const struct choice *choice = &tables[trait].values[value];
    return (struct base_str){choice->text, choice->size};
}

static int64_t integer_of(const struct sim_people *people, enum sim_trait trait, uint32_t value)
{
    if (value >= sim_trait_value_count(people, trait)) {
        return 0;
    }
    return people != NULL ? sim_people_value(people, trait, value)->integer
                          : tables[trait].values[value].integer;
}

bool sim_traits_beta(const struct sim_traits *traits)
{
    struct base_str channel =
        text_of(traits->people, SIM_TRAIT_CHANNEL, traits->value[SIM_TRAIT_CHANNEL]);
    return base_str_equal(channel, BASE_STR("beta"));
}

void sim_population_widest(const struct sim_people *people, struct sim_traits *out)
{
    out->people = people;
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        enum sim_trait trait = (enum sim_trait)i;
        out->value[i] = SIM_TRAIT_ABSENT;
        for (uint32_t v = 0; v < sim_trait_value_count(people, trait); v++) {
            if (out->value[i] == SIM_TRAIT_ABSENT ||
                text_of(people, trait, v).size > text_of(people, trait, out->value[i]).size) {
                out->value[i] = (uint8_t)v;
            }
        }
    }
}

const char *sim_trait_name(enum sim_trait trait)
{
    return sim_trait_about[trait].name.data;
}

uint32_t sim_trait_value_count(const struct sim_people *people, enum sim_trait trait)
{
    return people != NULL ? sim_people_count(people, trait) : tables[trait].count;
}

const char *sim_trait_text(const struct sim_people *people, enum sim_trait trait, uint32_t value)
{
    struct base_str text = text_of(people, trait, value);
    return text.data != NULL ? text.data : "?";
}

bool sim_trait_ordered(enum sim_trait trait)
{
    return sim_trait_about[trait].kind != SIM_KIND_TEXT;
}

enum pol_type sim_trait_type(enum sim_trait trait)
{
    static const enum pol_type types[] = {
        [SIM_KIND_TEXT] = POL_TYPE_STRING,
        [SIM_KIND_VERSION] = POL_TYPE_VERSION,
        [SIM_KIND_INTEGER] = POL_TYPE_INTEGER,
    };
    return types[sim_trait_about[trait].kind];
}

int sim_trait_compare(const struct sim_people *people, enum sim_trait trait, uint32_t a, uint32_t b)
{
    struct base_str left = text_of(people, trait, a);
    struct base_str right = text_of(people, trait, b);
    if (sim_trait_about[trait].kind == SIM_KIND_INTEGER) {
        int64_t x = integer_of(people, trait, a);
        int64_t y = integer_of(people, trait, b);
        return (x > y) - (x < y);
    }
    struct pol_semver x, y;
    if (left.data != NULL && right.data != NULL &&
        pol_semver_parse(left.data, (uint32_t)left.size, &x) &&
        pol_semver_parse(right.data, (uint32_t)right.size, &y)) {
        return pol_semver_compare(&x, &y);
    }
    return strcmp(sim_trait_text(people, trait, a), sim_trait_text(people, trait, b));
}

uint32_t sim_traits_zone(const struct sim_traits *traits)
{
    uint32_t region = traits->value[SIM_TRAIT_REGION];
    if (traits->people != NULL) {
        return sim_people_zone(traits->people, region);
    }
    return region < sizeof(region_zones) ? region_zones[region] : 0;
}

const struct sim_network *sim_traits_network(const struct sim_traits *traits)
{
    static const struct sim_network unknown = {.delay_us = 20000};
    uint32_t network = traits->value[SIM_TRAIT_NETWORK];
    const struct sim_network *found = NULL;
    if (traits->people != NULL) {
        found = sim_people_network(traits->people, network);
    } else if (network < sizeof(networks) / sizeof(networks[0])) {
        found = &networks[network];
    }
    return found != NULL ? found : &unknown;
}

const struct sim_network *sim_population_network(const struct sim_population *population,
                                                 uint64_t index)
{
    struct sim_traits traits = {.people = population->people};
    if (population->people != NULL) {
        sim_people_draw(population->people, population->seed, index, traits.value);
    } else {
        const struct trait_table *table = &tables[SIM_TRAIT_NETWORK];
        uint64_t random = sim_draw(population->seed, index, SIM_STREAM_TRAITS + table->stream);
        traits.value[SIM_TRAIT_NETWORK] = pick(table, 0, random);
    }
    return sim_traits_network(&traits);
}

// ---- Attributes

void sim_traits_wire(const struct sim_traits *traits, struct wire_attrs *out)
{
    out->count = 0;
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        enum sim_trait trait = (enum sim_trait)i;
        struct base_str text = text_of(traits->people, trait, traits->value[i]);
        bool integer = sim_trait_about[i].kind == SIM_KIND_INTEGER;
        if (text.data == NULL) {
            continue;
        }
        out->items[out->count++] = (struct wire_attr){
            .name = sim_trait_about[i].name,
            .type = integer ? WIRE_ATTR_INTEGER : WIRE_ATTR_STRING,
            .text = integer ? (struct base_str){NULL, 0} : text,
            .integer = integer ? integer_of(traits->people, trait, traits->value[i]) : 0,
        };
    }
    out->items[out->count++] = (struct wire_attr){
        .name = BASE_STR("runtime"),
        .type = WIRE_ATTR_INTEGER,
        .integer = WIRE_RUNTIME_ABI,
    };
}

void sim_traits_policy(const struct sim_traits *traits, struct pol_attr items[SIM_ATTRS_COUNT],
                       struct pol_attrs *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        enum sim_trait trait = (enum sim_trait)i;
        struct base_str text = text_of(traits->people, trait, traits->value[i]);
        if (text.data == NULL) {
            continue;
        }
        struct pol_attr *item = &items[count++];
        struct base_str name = sim_trait_about[i].name;
        item->name = (struct pol_text){name.data, (uint32_t)name.size};
        if (sim_trait_about[i].kind == SIM_KIND_INTEGER) {
            item->value.type = POL_TYPE_INTEGER;
            item->value.integer = integer_of(traits->people, trait, traits->value[i]);
        } else {
            item->value.type = POL_TYPE_STRING;
            item->value.text = (struct pol_text){text.data, (uint32_t)text.size};
        }
    }
    items[count].name = (struct pol_text){"runtime", 7};
    items[count].value.type = POL_TYPE_INTEGER;
    items[count++].value.integer = WIRE_RUNTIME_ABI;
    *out = (struct pol_attrs){items, count};
}
