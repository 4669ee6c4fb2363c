// Counts devices by the text of a row, and writes the rows. harvest_main.c feeds it pages, on the
// main thread. What a file cannot hold - a value with a space, a version that is none - is left out
// of its row as a value that the device does not have.
#include "harvest/device_counts.h"

#include "base/check.h"
#include "people/people.h"
#include "policy/semver.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 40
#define ROW_MAX   (SIM_TRAIT_COUNT * (VALUE_MAX + 1))

struct sim_device_counts {
    json_t *rows;                    // text of a row: devices
    json_t *values[SIM_TRAIT_COUNT]; // value: devices
    uint64_t devices;
};

enum base_status sim_device_counts_new(struct sim_device_counts **out_counts)
{
    struct sim_device_counts *counts = calloc(1, sizeof(*counts));
    if (counts == NULL) {
        return BASE_ERR_NOMEM;
    }
    bool whole = (counts->rows = json_object()) != NULL;
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        whole = (counts->values[i] = json_object()) != NULL && whole;
    }
    if (!whole) {
        sim_device_counts_free(counts);
        return BASE_ERR_NOMEM;
    }
    *out_counts = counts;
    return BASE_OK;
}

void sim_device_counts_free(struct sim_device_counts *counts)
{
    if (counts == NULL) {
        return;
    }
    json_decref(counts->rows);
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        json_decref(counts->values[i]);
    }
    free(counts);
}

// ---- Counting

static bool count_one(json_t *counts, const char *name, json_int_t more)
{
    json_int_t before = json_integer_value(json_object_get(counts, name));
    return json_object_set_new(counts, name, json_integer(before + more)) == 0;
}

static bool fits(enum sim_trait trait, const char *text)
{
    struct pol_semver version;
    size_t size = strlen(text);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '!' || *at > '~' || *at == '#') {
            return false;
        }
    }
    return size > 0 && size <= VALUE_MAX &&
           (sim_trait_about[trait].kind != SIM_KIND_VERSION ||
            pol_semver_parse(text, (uint32_t)size, &version));
}

// The attribute as a value of the file; "-" where there is none.
static void value_text(const json_t *attrs, enum sim_trait trait, char out[VALUE_MAX + 1])
{
    const json_t *value = json_object_get(attrs, sim_trait_about[trait].name.data);
    const char *text = json_string_value(value);
    (void)snprintf(out, VALUE_MAX + 1, "-");
    if (sim_trait_about[trait].kind == SIM_KIND_INTEGER && json_is_integer(value)) {
        (void)snprintf(out, VALUE_MAX + 1, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (sim_trait_about[trait].kind != SIM_KIND_INTEGER && text != NULL &&
               fits(trait, text)) {
        (void)snprintf(out, VALUE_MAX + 1, "%s", text);
    }
}

static bool device_take(struct sim_device_counts *counts, const json_t *attrs)
{
    char row[ROW_MAX + 1];
    size_t at = 0;
    bool whole = true;
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        char value[VALUE_MAX + 1];
        value_text(attrs, (enum sim_trait)i, value);
        if (strcmp(value, "-") != 0) {
            whole = count_one(counts->values[i], value, 1) && whole;
        }
        at += (size_t)snprintf(row + at, sizeof(row) - at, "%s%s", i > 0 ? " " : "", value);
        base_assert(at < sizeof(row));
    }
    counts->devices++;
    return count_one(counts->rows, row, 1) && whole;
}

enum base_status sim_device_counts_take(struct sim_device_counts *counts, const char *bytes,
                                        size_t size, uint64_t most, char out_next[SIM_PAGE_KEY_MAX])
{
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *items = json_object_get(root, "items");
    const char *next = json_string_value(json_object_get(root, "next"));
    enum base_status status = json_is_array(items) ? BASE_OK : BASE_ERR_INVALID;
    size_t index;
    json_t *item;
    json_array_foreach(items, index, item)
    {
        const json_t *attrs = json_object_get(item, "attrs");
        if (status == BASE_OK && !json_is_object(attrs)) {
            status = BASE_ERR_INVALID;
        }
        if (status == BASE_OK && counts->devices < most && !device_take(counts, attrs)) {
            status = BASE_ERR_NOMEM;
        }
    }
    (void)snprintf(out_next, SIM_PAGE_KEY_MAX, "%s", next != NULL ? next : "");
    json_decref(root);
    return status;
}

uint64_t sim_device_counts_devices(const struct sim_device_counts *counts)
{
    return counts->devices;
}

// ---- Writing

struct counted {
    const char *text;
    json_int_t devices;
};

static int most_first(const void *a, const void *b)
{
    const struct counted *x = a;
    const struct counted *y = b;
    if (x->devices != y->devices) {
        return x->devices > y->devices ? -1 : 1;
    }
    return strcmp(x->text, y->text);
}

// In order, the most frequent first; texts are the object's. NULL: no memory.
static struct counted *sorted(json_t *object, size_t *out_count)
{
    struct counted *list = calloc(json_object_size(object) + 1, sizeof(*list));
    const char *name;
    json_t *value;
    *out_count = 0;
    if (list == NULL) {
        return NULL;
    }
    json_object_foreach(object, name, value)
    {
        list[(*out_count)++] = (struct counted){name, json_integer_value(value)};
    }
    qsort(list, *out_count, sizeof(*list), most_first);
    return list;
}

// Values of a column that are too rare for the file: 1 each. NULL: no memory.
static json_t *rare_of(json_t *values)
{
    size_t count = 0;
    struct counted *list = sorted(values, &count);
    json_t *rare = list != NULL ? json_object() : NULL;
    for (size_t i = SIM_TRAIT_ABSENT; rare != NULL && i < count; i++) {
        if (!count_one(rare, list[i].text, 1)) {
            json_decref(rare);
            rare = NULL;
        }
    }
    free(list);
    return rare;
}

// The row with a - for each value that is rare.
static bool row_shorten(const char *row, json_t *const rare[SIM_TRAIT_COUNT], char out[ROW_MAX + 1])
{
    char copy[ROW_MAX + 1];
    char *rest = copy;
    size_t at = 0;
    (void)snprintf(copy, sizeof(copy), "%s", row);
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        const char *word = strsep(&rest, " ");
        if (word == NULL || rare[i] == NULL) {
            return false;
        }
        bool left_out = json_object_get(rare[i], word) != NULL;
        at += (size_t)snprintf(out + at, ROW_MAX + 1 - at, "%s%s", i > 0 ? " " : "",
                               left_out ? "-" : word);
    }
    return true;
}

// Rows as the file has them. NULL: no memory.
static json_t *rows_of(const struct sim_device_counts *counts)
{
    json_t *rare[SIM_TRAIT_COUNT];
    json_t *rows = json_object();
    const char *row;
    json_t *value;
    bool whole = rows != NULL;
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        rare[i] = rare_of(counts->values[i]);
    }
    json_object_foreach(counts->rows, row, value)
    {
        char text[ROW_MAX + 1];
        whole = whole && row_shorten(row, rare, text) &&
                count_one(rows, text, json_integer_value(value));
    }
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        json_decref(rare[i]);
    }
    if (!whole) {
        json_decref(rows);
        return NULL;
    }
    return rows;
}

static void write_head(const struct sim_device_counts *counts, size_t rows, FILE *file)
{
    (void)fprintf(file,
                  "# Made from the attributes of %" PRIu64 " devices of a gateway: a row for each "
                  "kind there is, with how many are so.\n"
                  "# A - is a value that they do not say, or one too rare or too long for this "
                  "file.\n",
                  counts->devices);
    if (rows > SIM_TABLE_ROWS_MAX) {
        (void)fprintf(file, "# The %u most frequent of %zu kinds are listed.\n", SIM_TABLE_ROWS_MAX,
                      rows);
    }
    (void)fputs("# Add what a gateway does not know: `zone REGION HOURS` later than UTC, and "
                "`network NAME delay_ms=...`\n\ntable",
                file);
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        (void)fprintf(file, " %s", sim_trait_about[i].name.data);
    }
    (void)fputc('\n', file);
}

enum base_status sim_device_counts_write(const struct sim_device_counts *counts, FILE *file)
{
    size_t count = 0;
    json_t *rows = rows_of(counts);
    struct counted *list = rows != NULL ? sorted(rows, &count) : NULL;
    if (list == NULL) {
        json_decref(rows);
        return BASE_ERR_NOMEM;
    }
    write_head(counts, count, file);
    for (size_t i = 0; i < count && i < SIM_TABLE_ROWS_MAX; i++) {
        (void)fprintf(file, "%" JSON_INTEGER_FORMAT " %s\n", list[i].devices, list[i].text);
    }
    free(list);
    json_decref(rows);
    return ferror(file) != 0 ? BASE_ERR_IO : BASE_OK;
}
