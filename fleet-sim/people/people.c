// The reader of population files, and draws from what it read. fleet_options.c loads one on the
// main thread; from then on it is constant, and shards draw at every wake. Whatever a device could
// meet that no row is for is found here, with the line, and not in the middle of a run.
#include "people/people.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "people/people_lines.h"
#include "people/people_tables.h"
#include "people/sim_draw.h"
#include "people/sim_local_file.h"
#include "policy/semver.h"

#include <stdlib.h>
#include <string.h>

#define DAY_HOURS  24
#define DELAY_MS   3600000u // the most of a network's times
#define KBPS_MAX   100000000u
#define GIVEN_MAX  3
#define VALUE_MAX  40u    // characters: all traits together fit what a device says of itself
#define TUPLES_MAX 32768u // of given values that are looked at
#define PPM        1000000u

const struct sim_trait_about sim_trait_about[SIM_TRAIT_COUNT] = {
    [SIM_TRAIT_APP_VERSION] = {{"app_version", 11}, SIM_KIND_VERSION},
    [SIM_TRAIT_CHANNEL] = {{"channel", 7}, SIM_KIND_TEXT},
    [SIM_TRAIT_CHIP] = {{"chip", 4}, SIM_KIND_TEXT},
    [SIM_TRAIT_MODEL] = {{"model", 5}, SIM_KIND_TEXT},
    [SIM_TRAIT_NETWORK] = {{"network", 7}, SIM_KIND_TEXT},
    [SIM_TRAIT_OS] = {{"os", 2}, SIM_KIND_TEXT},
    [SIM_TRAIT_OS_VERSION] = {{"os_version", 10}, SIM_KIND_VERSION},
    [SIM_TRAIT_RAM_MB] = {{"ram_mb", 6}, SIM_KIND_INTEGER},
    [SIM_TRAIT_REGION] = {{"region", 6}, SIM_KIND_TEXT},
};

struct values {
    struct sim_value value[SIM_TRAIT_VALUES_MAX];
    uint32_t count;
    int32_t table; // that has it as a column of its own; -1: none
};

struct sim_people {
    struct base_arena arena; // texts
    struct values values[SIM_TRAIT_COUNT];
    struct sim_table tables[SIM_TABLES_MAX];
    uint32_t table_count;
    uint32_t row_count;
    uint8_t zones[SIM_TRAIT_VALUES_MAX];
    struct sim_network networks[SIM_TRAIT_VALUES_MAX];
    bool known[SIM_TRAIT_VALUES_MAX];
};

// What a line adds to. Functions below give NULL where a line is good, else what is wrong with it.
struct reading {
    struct sim_people *people;
    struct sim_lines lines;
};

static const char out_of_memory[] = "out of memory";

// ---- Values

static int32_t trait_named(struct base_str name)
{
    for (int32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        if (base_str_equal(name, sim_trait_about[i].name)) {
            return i;
        }
    }
    return -1;
}

static bool good_text(struct base_str text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '!' || text.data[i] > '~') {
            return false;
        }
    }
    return text.size <= VALUE_MAX;
}

static const char *value_check(enum sim_trait trait, struct base_str text, int64_t *out_integer)
{
    struct pol_semver version;
    if (!good_text(text)) {
        return "a value has 1 to 40 characters, all of ASCII";
    }
    if (sim_trait_about[trait].kind == SIM_KIND_INTEGER &&
        base_str_i64(text, out_integer) != BASE_OK) {
        return "a whole number is expected as value of this column";
    }
    if (sim_trait_about[trait].kind == SIM_KIND_VERSION &&
        !pol_semver_parse(text.data, (uint32_t)text.size, &version)) {
        return "a version is expected as value of this column: 14 or 9.3.1";
    }
    return NULL;
}

// Index of a value, given one when it is new.
static const char *value_take(struct sim_people *people, enum sim_trait trait, struct base_str text,
                              uint8_t *out)
{
    struct values *values = &people->values[trait];
    int64_t integer = 0;
    const char *wrong = value_check(trait, text, &integer);
    if (base_str_equal(text, BASE_STR("-"))) {
        *out = SIM_TRAIT_ABSENT;
        return NULL;
    }
    for (uint32_t i = 0; wrong == NULL && i < values->count; i++) {
        if (base_str_equal(values->value[i].text, text)) {
            *out = (uint8_t)i;
            return NULL;
        }
    }
    if (wrong != NULL || values->count == SIM_TRAIT_ABSENT) {
        return wrong != NULL ? wrong : "more than 31 values of this column";
    }
    char *copy = base_arena_text(&people->arena, text.data, text.size);
    if (copy == NULL) {
        return out_of_memory;
    }
    *out = (uint8_t)values->count;
    values->value[values->count++] = (struct sim_value){{copy, text.size}, integer};
    return NULL;
}

// ---- Lines

static const char *column_take(struct sim_people *people, struct sim_table *table, int32_t trait,
                               bool given)
{
    if (trait < 0) {
        return "no such column: app_version, channel, chip, model, network, os, os_version, ram_mb "
               "and region are the ones";
    }
    for (uint32_t i = 0; i < table->column_count; i++) {
        if (table->columns[i] == (enum sim_trait)trait) {
            return "a column stands twice";
        }
    }
    int32_t table_of = people->values[trait].table;
    if (given && (table_of < 0 || table_of == (int32_t)people->table_count)) {
        return "what is given is a column of a table before this one";
    }
    if (!given && table_of >= 0) {
        return "this column was in a table already";
    }
    table->columns[table->column_count++] = (enum sim_trait)trait;
    if (!given) {
        people->values[trait].table = (int32_t)people->table_count;
    }
    return NULL;
}

// `table COLUMN... [given COLUMN...]`: the given ones go to the front.
static const char *table_line(struct reading *reading, struct base_str line)
{
    struct sim_people *people = reading->people;
    struct sim_table own = {.line = reading->lines.number};
    struct sim_table *table = &people->tables[people->table_count];
    const char *wrong = NULL;
    bool given = false;
    if (people->table_count == SIM_TABLES_MAX) {
        return "more than 16 tables";
    }
    *table = own;
    for (struct base_str word; wrong == NULL && (word = sim_line_word(&line)).size > 0;) {
        if (!given && base_str_equal(word, BASE_STR("given"))) {
            given = true;
        } else {
            wrong = column_take(people, given ? table : &own, trait_named(word), given);
        }
    }
    table->given_count = table->column_count;
    if (wrong == NULL && (own.column_count == 0 || (given && table->given_count == 0) ||
                          table->given_count > GIVEN_MAX)) {
        wrong = "`table COLUMN... [given COLUMN...]` is expected, with at most 3 given";
    }
    for (uint32_t i = 0; wrong == NULL && i < own.column_count; i++) {
        table->columns[table->column_count++] = own.columns[i];
    }
    people->table_count++;
    return wrong;
}

// A weight, then a value of each column.
static const char *row_line(struct reading *reading, struct base_str word, struct base_str line)
{
    struct sim_people *people = reading->people;
    uint64_t weight = 0;
    uint8_t value[SIM_TRAIT_COUNT] = {0};
    const char *wrong = NULL;
    if (people->table_count == 0) {
        return "a row before any table: `table COLUMN...` is expected first";
    }
    struct sim_table *table = &people->tables[people->table_count - 1];
    if (base_str_u64(word, &weight) != BASE_OK || weight == 0 || weight > SIM_WEIGHT_MAX) {
        return "a weight of 1 to 1000000000 is expected, or table, zone or network";
    }
    for (uint32_t i = 0; wrong == NULL && i < table->column_count; i++) {
        struct base_str text = sim_line_word(&line);
        uint32_t before = people->values[table->columns[i]].count;
        if (text.size == 0) {
            return "fewer values than the table has columns";
        }
        wrong = value_take(people, table->columns[i], text, &value[table->columns[i]]);
        if (wrong == NULL && i < table->given_count &&
            people->values[table->columns[i]].count > before) {
            wrong = "a given value that no device has: the tables above do not have it";
        }
    }
    if (wrong == NULL && sim_line_word(&line).size > 0) {
        wrong = "more values than the table has columns";
    }
    if (wrong == NULL && people->row_count++ == SIM_TABLE_ROWS_MAX) {
        wrong = "more than 65536 rows";
    }
    if (wrong == NULL && sim_table_add(table, weight, reading->lines.number, value) != BASE_OK) {
        wrong = out_of_memory;
    }
    return wrong;
}

// Index of a value that some row has.
static bool value_known(const struct sim_people *people, enum sim_trait trait, struct base_str text,
                        uint32_t *out)
{
    for (uint32_t i = 0; i < people->values[trait].count; i++) {
        if (base_str_equal(people->values[trait].value[i].text, text)) {
            *out = i;
            return true;
        }
    }
    return false;
}

static const char *zone_line(struct reading *reading, struct base_str line)
{
    uint32_t region = 0;
    int64_t hours = 0;
    struct base_str name = sim_line_word(&line);
    struct base_str value = sim_line_word(&line);
    if (!value_known(reading->people, SIM_TRAIT_REGION, name, &region)) {
        return "no row above has this region";
    }
    if (base_str_i64(value, &hours) != BASE_OK || hours < -12 || hours > 14 ||
        sim_line_word(&line).size > 0) {
        return "`zone REGION HOURS` is expected, hours later than UTC, -12 to 14";
    }
    reading->people->zones[region] = (uint8_t)((hours + DAY_HOURS) % DAY_HOURS);
    return NULL;
}

// "2.5%" or "0.025" in millionths.
static bool take_share(struct base_str text, uint32_t *out)
{
    uint64_t units = 0;
    uint64_t part = 0;
    bool percent = text.size > 0 && text.data[text.size - 1] == '%';
    text.size -= percent ? 1 : 0;
    const char *point = text.size > 0 ? memchr(text.data, '.', text.size) : NULL;
    struct base_str whole = {text.data, point != NULL ? (size_t)(point - text.data) : text.size};
    if (point != NULL) {
        struct base_str rest = {point + 1, text.size - whole.size - 1};
        uint32_t digits = percent ? 4 : 6;
        if (rest.size > digits || base_str_u64(rest, &part) != BASE_OK) {
            return false;
        }
        for (size_t i = rest.size; i < digits; i++) {
            part *= 10;
        }
    }
    if (base_str_u64(whole, &units) != BASE_OK || units > 100) {
        return false;
    }
    uint64_t ppm = units * (percent ? PPM / 100 : PPM) + part;
    *out = (uint32_t)ppm;
    return ppm <= PPM;
}

static bool take_times(struct base_str text, uint64_t max, uint32_t by, uint32_t *out)
{
    uint64_t number = 0;
    if (base_str_u64(text, &number) != BASE_OK || number > max) {
        return false;
    }
    *out = (uint32_t)(number * by);
    return true;
}

static bool setting_take(struct sim_network *network, struct base_str name, struct base_str value)
{
    const struct {
        const char *name;
        uint32_t *ms;
        uint32_t *share;
        uint32_t *kbps;
    } settings[] = {
        {"delay_ms", &network->delay_us, NULL, NULL},
        {"jitter_ms", &network->jitter_us, NULL, NULL},
        {"loss", NULL, &network->loss_ppm, NULL},
        {"bad", NULL, &network->bad_ppm, NULL},
        {"bad_loss", NULL, &network->bad_loss_ppm, NULL},
        {"offline", NULL, &network->offline_ppm, NULL},
        {"down_kbps", NULL, NULL, &network->down_kbps},
        {"up_kbps", NULL, NULL, &network->up_kbps},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (!base_str_equal(name, base_str_of(settings[i].name))) {
            continue;
        }
        if (settings[i].ms != NULL) {
            return take_times(value, DELAY_MS, 1000, settings[i].ms);
        }
        return settings[i].share != NULL ? take_share(value, settings[i].share)
                                         : take_times(value, KBPS_MAX, 1, settings[i].kbps);
    }
    return false;
}

static const char *network_line(struct reading *reading, struct base_str line)
{
    uint32_t index = 0;
    struct sim_network network = {0};
    struct base_str name = sim_line_word(&line);
    if (!value_known(reading->people, SIM_TRAIT_NETWORK, name, &index)) {
        return "no row above has this network";
    }
    for (struct base_str word; (word = sim_line_word(&line)).size > 0;) {
        struct base_str setting;
        struct base_str value;
        if (!sim_line_split(word, '=', &setting, &value) ||
            !setting_take(&network, setting, value)) {
            return "delay_ms, jitter_ms, loss, bad, bad_loss, offline, down_kbps and up_kbps, each "
                   "=NUMBER or =SHARE, are expected";
        }
    }
    if (network.loss_ppm > PPM / 2 || network.bad_loss_ppm > PPM / 10 * 9) {
        return "loss is at most 50%, bad_loss 90%";
    }
    if (network.offline_ppm > PPM / 10 * 9) {
        return "offline is at most 90%: who is never online is no device";
    }
    reading->people->networks[index] = network;
    reading->people->known[index] = true;
    return NULL;
}

static const char *take_line(struct reading *reading, struct base_str line)
{
    struct base_str word = sim_line_word(&line);
    if (base_str_equal(word, BASE_STR("table"))) {
        return table_line(reading, line);
    }
    if (base_str_equal(word, BASE_STR("zone"))) {
        return zone_line(reading, line);
    }
    if (base_str_equal(word, BASE_STR("network"))) {
        return network_line(reading, line);
    }
    return row_line(reading, word, line);
}

// ---- The whole

static bool has_column(const struct sim_table *table, enum sim_trait trait)
{
    for (uint32_t i = 0; i < table->column_count; i++) {
        if (table->columns[i] == trait) {
            return true;
        }
    }
    return false;
}

// May a device have these values of the given columns of `table`? It may where each table above has
// a row with those of them that are its columns.
static bool may_meet(const struct sim_people *people, const struct sim_table *table,
                     const uint8_t value[SIM_TRAIT_COUNT])
{
    for (const struct sim_table *other = people->tables; other < table; other++) {
        bool found = false;
        for (uint32_t r = 0; r < other->row_count && !found; r++) {
            found = true;
            for (uint32_t i = 0; i < table->given_count; i++) {
                enum sim_trait trait = table->columns[i];
                found = found &&
                        (!has_column(other, trait) || other->rows[r].value[trait] == value[trait]);
            }
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

// A device without a value counts as one more value.
static uint32_t tuple_values(const struct sim_people *people, enum sim_trait trait)
{
    return people->values[trait].count + 1;
}

// Every device that the tables above allow finds rows here.
static const char *table_check(const struct sim_people *people, const struct sim_table *table)
{
    uint64_t tuples = 1;
    if (table->row_count == 0) {
        return "a table without rows";
    }
    for (uint32_t i = 0; i < table->given_count; i++) {
        tuples *= tuple_values(people, table->columns[i]);
    }
    for (uint64_t t = 0; t < tuples && t < TUPLES_MAX; t++) {
        uint8_t value[SIM_TRAIT_COUNT] = {0};
        uint64_t left = t;
        for (uint32_t i = 0; i < table->given_count; i++) {
            uint32_t count = tuple_values(people, table->columns[i]);
            uint64_t place = left % count;
            value[table->columns[i]] = (uint8_t)(place + 1 < count ? place : SIM_TRAIT_ABSENT);
            left /= count;
        }
        if (sim_table_group(table, value) == NULL && may_meet(people, table, value)) {
            return "devices that the tables above allow find no row in this table";
        }
    }
    return NULL;
}

static const char *whole_check(struct reading *reading)
{
    struct sim_people *people = reading->people;
    if (people->table_count == 0) {
        return "no table in it: who are the devices?";
    }
    for (uint32_t t = 0; t < people->table_count; t++) {
        struct sim_table *table = &people->tables[t];
        reading->lines.number = table->line;
        if (sim_table_ready(table) != BASE_OK) {
            return out_of_memory;
        }
        const char *wrong = table_check(people, table);
        if (wrong != NULL) {
            return wrong;
        }
    }
    return NULL;
}

enum base_status sim_people_parse(const char *name, struct base_str text,
                                  struct sim_people **out_people, struct base_error *error)
{
    struct reading reading = {.people = calloc(1, sizeof(struct sim_people))};
    struct base_str line;
    const char *wrong = NULL;
    if (reading.people == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, out_of_memory);
    }
    base_arena_init(&reading.people->arena, base_alloc_heap(), 0, 0);
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        reading.people->values[i].table = -1;
    }
    sim_lines_begin(&reading.lines, name, text);
    while (wrong == NULL && sim_lines_next(&reading.lines, &line)) {
        wrong = take_line(&reading, line);
    }
    wrong = wrong != NULL ? wrong : whole_check(&reading);
    if (wrong != NULL) {
        sim_people_free(reading.people);
        return wrong == out_of_memory ? base_error_set(error, BASE_ERR_NOMEM, out_of_memory)
                                      : sim_lines_refuse(&reading.lines, error, wrong);
    }
    *out_people = reading.people;
    return BASE_OK;
}

enum base_status sim_people_load(const char *path, struct sim_people **out_people,
                                 struct base_error *error)
{
    struct base_buffer text;
    BASE_TRY(sim_local_read(path, SIM_PEOPLE_FILE_MAX, &text, error));
    enum base_status status = sim_people_parse(
        path, (struct base_str){(const char *)text.data, text.size}, out_people, error);
    base_buffer_done(&text);
    return status;
}

void sim_people_free(struct sim_people *people)
{
    if (people == NULL) {
        return;
    }
    for (uint32_t i = 0; i < people->table_count; i++) {
        sim_table_done(&people->tables[i]);
    }
    base_arena_done(&people->arena);
    free(people);
}

// ---- Questions

uint32_t sim_people_count(const struct sim_people *people, enum sim_trait trait)
{
    return people->values[trait].count;
}

const struct sim_value *sim_people_value(const struct sim_people *people, enum sim_trait trait,
                                         uint32_t value)
{
    base_assert(value < people->values[trait].count);
    return &people->values[trait].value[value];
}

void sim_people_draw(const struct sim_people *people, uint64_t seed, uint64_t index,
                     uint8_t out_value[SIM_TRAIT_COUNT])
{
    memset(out_value, SIM_TRAIT_ABSENT, SIM_TRAIT_COUNT);
    for (uint32_t t = 0; t < people->table_count; t++) {
        uint64_t random = sim_draw(seed, index, SIM_STREAM_TABLES + t);
        bool drawn = sim_table_draw(&people->tables[t], random, out_value);
        base_assert(drawn);
        (void)drawn;
    }
}

uint32_t sim_people_zone(const struct sim_people *people, uint32_t region)
{
    return region < people->values[SIM_TRAIT_REGION].count ? people->zones[region] : 0;
}

const struct sim_network *sim_people_network(const struct sim_people *people, uint32_t network)
{
    bool known = network < people->values[SIM_TRAIT_NETWORK].count && people->known[network];
    return known ? &people->networks[network] : NULL;
}
