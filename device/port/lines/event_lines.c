// One JSON line to one recording. Called by the agent's event source (agent/event_source.c), by the
// simulator (behaviour/user_log.c) and by `walle task run` (cli/task/task_play.c), on their own
// threads; no state. A field that no event has is refused, for it is most likely a misspelt one.
// The recording borrows its texts from the parsed line, so event_line_free comes after dev_record.
#include "lines/event_lines.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct event_line {
    json_t *root;
    struct dev_event_attr attrs[DEV_EVENT_ATTRS_MAX];
};

static const char *const fields[] = {"kind", "name", "page", "item", "instance", "t", "attrs"};

static struct base_str text_of(const json_t *value)
{
    return (struct base_str){json_string_value(value), json_string_length(value)};
}

static enum base_status only_known(const json_t *root, struct base_error *error)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        bool known = false;
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
            known |= strcmp(fields[i], key) == 0;
        }
        if (!known) {
            return base_error_set(
                error, BASE_ERR_INVALID,
                "\"%.40s\" is no field of an event (kind name page item instance t attrs)", key);
        }
    }
    return BASE_OK;
}

static enum base_status take_text(const json_t *root, const char *key, struct base_str *out,
                                  struct base_error *error)
{
    const json_t *value = json_object_get(root, key);
    if (value != NULL && !json_is_string(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "\"%s\" is no text", key);
    }
    *out = text_of(value);
    return BASE_OK;
}

static enum base_status take_number(const json_t *root, const char *key, uint64_t max,
                                    uint64_t *out, struct base_error *error)
{
    const json_t *value = json_object_get(root, key);
    if (value == NULL) {
        return BASE_OK;
    }
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number > max) {
        return base_error_set(error, BASE_ERR_INVALID, "\"%s\" is no whole number from 0 to %llu",
                              key, (unsigned long long)max);
    }
    *out = (uint64_t)number;
    return BASE_OK;
}

static enum base_status take_attr(const char *name, const json_t *value, struct dev_event_attr *out,
                                  struct base_error *error)
{
    *out = (struct dev_event_attr){.name = base_str_of(name)};
    switch (json_typeof(value)) {
    case JSON_STRING:
        out->type = DEV_ATTR_STRING;
        out->text = text_of(value);
        return BASE_OK;
    case JSON_INTEGER:
        out->type = DEV_ATTR_INTEGER;
        out->integer = json_integer_value(value);
        return BASE_OK;
    case JSON_REAL:
        out->type = DEV_ATTR_REAL;
        out->real = json_real_value(value);
        return BASE_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        out->type = DEV_ATTR_BOOLEAN;
        out->integer = json_is_true(value);
        return BASE_OK;
    default:
        return base_error_set(error, BASE_ERR_INVALID,
                              "attribute \"%.40s\" is no text, number, true or false", name);
    }
}

static enum base_status take_attrs(struct event_line *line, struct dev_recording *out,
                                   struct base_error *error)
{
    json_t *attrs = json_object_get(line->root, "attrs");
    const char *name = NULL;
    json_t *value = NULL;
    if (attrs != NULL && !json_is_object(attrs)) {
        return base_error_set(error, BASE_ERR_INVALID, "\"attrs\" is no object");
    }
    out->attrs = line->attrs;
    json_object_foreach(attrs, name, value)
    {
        if (out->attr_count == DEV_EVENT_ATTRS_MAX) {
            return base_error_set(error, BASE_ERR_TOO_LARGE, "more than %d attributes",
                                  DEV_EVENT_ATTRS_MAX);
        }
        BASE_TRY(take_attr(name, value, &line->attrs[out->attr_count], error));
        out->attr_count++;
    }
    return BASE_OK;
}

static enum base_status take(struct event_line *line, struct dev_recording *out,
                             struct base_error *error)
{
    struct base_str kind;
    uint64_t instance = 0;
    BASE_TRY(only_known(line->root, error));
    BASE_TRY(take_text(line->root, "kind", &kind, error));
    BASE_TRY(take_text(line->root, "name", &out->name, error));
    BASE_TRY(take_text(line->root, "page", &out->page, error));
    BASE_TRY(take_text(line->root, "item", &out->item, error));
    BASE_TRY(take_number(line->root, "instance", UINT32_MAX, &instance, error));
    BASE_TRY(take_number(line->root, "t", INT64_MAX, &out->wall_ms, error));
    out->instance = (uint32_t)instance;
    if (dev_event_kind_parse(kind, &out->kind) != BASE_OK) {
        return base_error_set(
            error, BASE_ERR_INVALID,
            "\"kind\" is enter, scroll, exposure, click, exit or custom, not \"%.*s\"",
            (int)(kind.size < 40 ? kind.size : 40), kind.size > 0 ? kind.data : "");
    }
    if ((out->kind == DEV_EVENT_CUSTOM) != (out->name.size > 0)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "a custom event has a \"name\", no other has");
    }
    if (out->page.size == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "no \"page\"");
    }
    return take_attrs(line, out, error);
}

enum base_status event_line_parse(struct base_str text, struct event_line **out_line,
                                  struct dev_recording *out_recording, struct base_error *error)
{
    if (text.size > EVENT_LINE_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "longer than %d bytes", EVENT_LINE_MAX);
    }
    struct event_line *line = calloc(1, sizeof(*line));
    if (line == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    json_error_t at;
    struct dev_recording recording = {0};
    enum base_status status = BASE_OK;
    line->root = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &at);
    if (!json_is_object(line->root)) {
        status = line->root == NULL
                     ? base_error_set(error, BASE_ERR_INVALID, "column %d: %s", at.column, at.text)
                     : base_error_set(error, BASE_ERR_INVALID, "no object");
    } else {
        status = take(line, &recording, error);
    }
    if (status != BASE_OK) {
        event_line_free(line);
        return status;
    }
    *out_line = line;
    *out_recording = recording;
    return BASE_OK;
}

void event_line_free(struct event_line *line)
{
    if (line != NULL) {
        json_decref(line->root);
        free(line);
    }
}
