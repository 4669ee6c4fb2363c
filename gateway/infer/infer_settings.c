// Reads model.conf: lines of KEY = VALUE, one row of a table each. Pure; infer_repository.c has
// read the file and puts its name before what is said here. A key that is there twice or that
// nobody knows is an error, so that a slip of the pen does not pass for a setting.
#include "infer/infer_settings.h"

#include "infer/infer_batch.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

bool gw_infer_name_ok(struct base_str name)
{
    if (name.size == 0 || name.size > GW_INFER_MODEL_NAME_MAX || name.data[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return true;
}

bool gw_infer_version_number(struct base_str text, uint64_t *out)
{
    return text.size > 0 && text.data[0] >= '1' && text.data[0] <= '9' &&
           base_str_u64(text, out) == BASE_OK && *out <= GW_INFER_VERSION_MAX;
}

void gw_infer_settings_defaults(struct gw_infer_settings *settings)
{
    *settings = (struct gw_infer_settings){.max_batch = 1, .queue = GW_INFER_QUEUE_USUAL};
}

static struct base_str trim(struct base_str text)
{
    while (text.size > 0 && isspace((unsigned char)text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && isspace((unsigned char)text.data[text.size - 1])) {
        text.size--;
    }
    return text;
}

// What is in front of the first `mark`, trimmed; *rest what is behind it, empty without one.
static struct base_str cut(struct base_str text, char mark, struct base_str *rest)
{
    const char *at = text.size > 0 ? memchr(text.data, mark, text.size) : NULL;
    size_t size = at != NULL ? (size_t)(at - text.data) : text.size;
    *rest = at != NULL ? (struct base_str){at + 1, text.size - size - 1} : (struct base_str){0};
    return trim((struct base_str){text.data, size});
}

static enum base_status wrong(struct base_str key, struct base_str value, const char *expected,
                              struct base_error *error)
{
    return base_error_set(error, BASE_ERR_INVALID, "%.*s: '%.*s' is not %s", (int)key.size,
                          key.data, value.size < 40 ? (int)value.size : 40, value.data, expected);
}

// ---- Values

static enum base_status take_versions(struct gw_infer_settings *settings, struct base_str key,
                                      struct base_str value, struct base_error *error)
{
    static const char expected[] = "latest, all, or at most 8 numbers from 1 with commas";
    settings->all_versions = base_str_equal(value, BASE_STR("all"));
    settings->version_count = 0;
    if (settings->all_versions || base_str_equal(value, BASE_STR("latest"))) {
        return BASE_OK;
    }
    struct base_str rest = value;
    do {
        struct base_str part = cut(rest, ',', &rest);
        if (settings->version_count == GW_INFER_VERSIONS_MAX ||
            !gw_infer_version_number(part, &settings->versions[settings->version_count++])) {
            return wrong(key, value, expected, error);
        }
    } while (rest.data != NULL);
    return BASE_OK;
}

static enum base_status take_warm(struct gw_infer_settings *settings, struct base_str key,
                                  struct base_str value, struct base_error *error)
{
    struct base_str rest = value;
    settings->warm_count = 0;
    do {
        uint64_t rows = 0;
        struct base_str part = cut(rest, ',', &rest);
        if (settings->warm_count == GW_INFER_WARM_MAX || base_str_u64(part, &rows) != BASE_OK ||
            rows == 0 || rows > GW_INFER_BATCH_MAX) {
            return wrong(key, value, "at most 8 numbers from 1 to 128 with commas", error);
        }
        settings->warm_rows[settings->warm_count++] = (uint32_t)rows;
    } while (rest.data != NULL);
    return BASE_OK;
}

static enum base_status take_aliases(struct gw_infer_settings *settings, struct base_str key,
                                     struct base_str value, struct base_error *error)
{
    struct base_str rest = value;
    settings->alias_count = 0;
    do {
        struct base_str part = cut(rest, ',', &rest);
        if (settings->alias_count == GW_INFER_ALIASES_MAX || !gw_infer_name_ok(part)) {
            return wrong(key, value, "at most 8 names of models with commas", error);
        }
        char *alias = settings->aliases[settings->alias_count++];
        memcpy(alias, part.data, part.size);
        alias[part.size] = '\0';
    } while (rest.data != NULL);
    return BASE_OK;
}

// ---- Lines

struct row {
    struct base_str key;
    size_t offset; // of a number
    uint32_t min;
    uint32_t max;
    enum base_status (*take)(struct gw_infer_settings *settings, struct base_str key,
                             struct base_str value, struct base_error *error); // NULL: a number
};

#define KEY(text)                                                                                  \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }
#define NUMBER(text, field, min, max)                                                              \
    {                                                                                              \
        KEY(text), offsetof(struct gw_infer_settings, field), min, max, NULL                       \
    }
#define OTHER(text, take)                                                                          \
    {                                                                                              \
        KEY(text), 0, 0, 0, take                                                                   \
    }

static const struct row rows[] = {
    NUMBER("max_batch", max_batch, 1, GW_INFER_BATCH_MAX),
    NUMBER("batch_delay_us", batch_delay_us, 0, GW_INFER_BATCH_DELAY_MAX),
    NUMBER("cache_bytes", cache_bytes, 0, GW_INFER_CACHE_BYTES_MAX),
    NUMBER("instances", instances, 0, 64),
    NUMBER("queue", queue, 1, GW_INFER_QUEUE_MAX),
    OTHER("versions", take_versions),
    OTHER("warm_rows", take_warm),
    OTHER("aliases", take_aliases),
};
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static enum base_status take(struct gw_infer_settings *settings, const struct row *row,
                             struct base_str value, struct base_error *error)
{
    uint64_t number = 0;
    if (row->take != NULL) {
        return row->take(settings, row->key, value, error);
    }
    if (base_str_u64(value, &number) != BASE_OK || number < row->min || number > row->max) {
        char expected[64];
        (void)snprintf(expected, sizeof(expected), "a number from %u to %u", row->min, row->max);
        return wrong(row->key, value, expected, error);
    }
    *(uint32_t *)(void *)((char *)settings + row->offset) = (uint32_t)number;
    return BASE_OK;
}

static struct base_str without_comment(struct base_str line)
{
    for (size_t i = 0; i < line.size; i++) {
        if (line.data[i] == '#' && (i == 0 || isspace((unsigned char)line.data[i - 1]))) {
            return (struct base_str){line.data, i};
        }
    }
    return line;
}

static enum base_status take_line(struct gw_infer_settings *settings, struct base_str line,
                                  bool seen[ROW_COUNT], struct base_error *error)
{
    struct base_str value;
    struct base_str key = cut(line, '=', &value);
    if (value.data == NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "not KEY = VALUE");
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!base_str_equal(rows[i].key, key)) {
            continue;
        }
        if (seen[i]) {
            return base_error_set(error, BASE_ERR_INVALID, "%s: is set twice", rows[i].key.data);
        }
        seen[i] = true;
        return take(settings, &rows[i], trim(value), error);
    }
    return base_error_set(error, BASE_ERR_INVALID, "'%.*s' is no setting of a model",
                          key.size < 40 ? (int)key.size : 40, key.data);
}

enum base_status gw_infer_settings_parse(struct gw_infer_settings *settings, struct base_str text,
                                         struct base_error *error)
{
    bool seen[ROW_COUNT] = {false};
    uint32_t number = 0;
    for (struct base_str rest = text; rest.data != NULL;) {
        struct base_str line = trim(without_comment(cut(rest, '\n', &rest)));
        number++;
        enum base_status status = line.size > 0 ? take_line(settings, line, seen, error) : BASE_OK;
        if (status != BASE_OK) {
            if (error != NULL) {
                error->line = number;
            }
            return status;
        }
    }
    return BASE_OK;
}
