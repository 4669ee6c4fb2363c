// Records of the tunnel in the JSON form of OTLP: 64-bit numbers are texts, every value says its
// type. Called by `walle tunnel export`. That is cli_tunnel.c, one record a call; one thread, no
// state. The form is that of opentelemetry.proto.collector.logs.v1 in protobuf's JSON mapping; a
// record whose format is not JSON goes as bytes in base64.
#include "cli/otlp_line.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARN        13              // of OTLP's severities
#define TIME_MAX_MS 18446744073709u // nanoseconds have 64 bits

static json_t *any_value(const json_t *value, unsigned depth);

static json_t *integer_text(json_int_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, number);
    return json_string(text);
}

static json_t *list_value(const json_t *list, unsigned depth)
{
    json_t *values = json_array();
    size_t index;
    json_t *item;
    json_array_foreach(list, index, item)
    {
        (void)json_array_append_new(values, any_value(item, depth));
    }
    return json_pack("{s:{s:o}}", "arrayValue", "values", values);
}

static json_t *object_value(const json_t *object, unsigned depth)
{
    json_t *values = json_array();
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)object, key, item)
    {
        (void)json_array_append_new(
            values, json_pack("{s:s, s:o}", "key", key, "value", any_value(item, depth)));
    }
    return json_pack("{s:{s:o}}", "kvlistValue", "values", values);
}

static json_t *any_value(const json_t *value, unsigned depth)
{
    if (depth == OTLP_DEPTH_MAX && (json_is_array(value) || json_is_object(value))) {
        char *text = json_dumps(value, JSON_COMPACT);
        json_t *made = json_pack("{s:s}", "stringValue", text != NULL ? text : "");
        free(text);
        return made;
    }
    switch (value != NULL ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING:
        return json_pack("{s:s%}", "stringValue", json_string_value(value),
                         json_string_length(value));
    case JSON_INTEGER:
        return json_pack("{s:o}", "intValue", integer_text(json_integer_value(value)));
    case JSON_REAL:
        return json_pack("{s:f}", "doubleValue", json_real_value(value));
    case JSON_TRUE:
    case JSON_FALSE:
        return json_pack("{s:b}", "boolValue", json_is_true(value));
    case JSON_ARRAY:
        return list_value(value, depth + 1);
    case JSON_OBJECT:
        return object_value(value, depth + 1);
    default:
        return json_object(); // no value
    }
}

static void attribute_add(json_t *attributes, const char *key, const json_t *item, const char *name)
{
    const json_t *value = json_object_get(item, name);
    if (value != NULL) {
        (void)json_array_append_new(
            attributes, json_pack("{s:s, s:o}", "key", key, "value", any_value(value, 0)));
    }
}

static json_t *nanoseconds(const json_t *item, const char *name)
{
    char text[32];
    json_int_t said = json_integer_value(json_object_get(item, name));
    uint64_t ms = said > 0 ? (uint64_t)said : 0;
    ms = ms < TIME_MAX_MS ? ms : TIME_MAX_MS;
    (void)snprintf(text, sizeof(text), "%" PRIu64, ms * 1000000);
    return json_string(text);
}

// Bytes come as base64url without padding; OTLP's JSON has them in base64 (RFC 4648 section 4).
static json_t *bytes_of(const char *text, size_t size)
{
    static const char padding[] = "==";
    size_t pad = (4 - size % 4) % 4;
    char *out = malloc(size + pad + 1);
    json_t *value = NULL;
    if (out != NULL) {
        for (size_t i = 0; i < size; i++) {
            out[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
        }
        memcpy(out + size, padding, pad < 3 ? pad : 0);
        value = json_stringn(out, size + pad);
    }
    free(out);
    return value;
}

static json_t *body_of(const json_t *item)
{
    const char *format = json_string_value(json_object_get(item, "format"));
    const json_t *record = json_object_get(item, "record");
    if (format != NULL && strcmp(format, "json") != 0 && json_is_string(record)) {
        return json_pack("{s:o}", "bytesValue",
                         bytes_of(json_string_value(record), json_string_length(record)));
    }
    return any_value(record, 0);
}

static json_t *record_of(const json_t *item)
{
    bool lost = json_object_get(item, "record") == NULL;
    json_t *attributes = json_array();
    attribute_add(attributes, "walle.at", item, "at");
    attribute_add(attributes, "walle.class", item, "class");
    attribute_add(attributes, "walle.epoch", item, "epoch");
    attribute_add(attributes, "walle.seq", item, "seq");
    attribute_add(attributes, "walle.lost", item, "lost");
    attribute_add(attributes, "walle.reason", item, "reason");
    json_t *record = json_pack(
        "{s:o, s:o, s:o}", "timeUnixNano", nanoseconds(item, lost ? "received_ms" : "wall_ms"),
        "observedTimeUnixNano", nanoseconds(item, "received_ms"), "attributes", attributes);
    if (lost) {
        (void)json_object_set_new(record, "severityNumber", json_integer(WARN));
        (void)json_object_set_new(record, "body",
                                  json_pack("{s:s}", "stringValue", "records declared lost"));
    } else {
        (void)json_object_set_new(record, "body", body_of(item));
    }
    return record;
}

json_t *otlp_line_new(const json_t *item)
{
    const char *task = json_string_value(json_object_get(item, "task"));
    const char *upload = json_string_value(json_object_get(item, "upload"));
    json_int_t schema = json_integer_value(json_object_get(item, "schema"));
    json_t *resource = json_array();
    (void)json_array_append_new(resource,
                                json_pack("{s:s, s:{s:s}}", "key", "service.name", "value",
                                          "stringValue", task != NULL ? task : "walle"));
    attribute_add(resource, "device.id", item, "device");
    return json_pack("{s:[{s:{s:o}, s:[{s:{s:s, s:o}, s:[o]}]}]}", "resourceLogs", "resource",
                     "attributes", resource, "scopeLogs", "scope", "name",
                     upload != NULL ? upload : "tunnel", "version", integer_text(schema),
                     "logRecords", record_of(item));
}
