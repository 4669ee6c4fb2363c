// task.json's triggers, events, uploads, store and how it runs beside others to a declaration.
// Called by the task builder; one thread. That is task_source.c, once for each source. Each field
// is checked here by type and range; whether the whole is something a device takes is asked of
// dev_declaration_check, the check that devices make. The bytes do not depend on the order of keys
// in the file.
#include "cli/task/task_declare.h"

#include "base/alloc.h"
#include "cli/base/cli_json.h"
#include "cli/task/task_leaves.h"
#include "pipeline/declaration_check.h"
#include "pipeline/pipeline.h"
#include "tunnel/schema/schema.h"
#include "vm/vm.h"
#include "wire/tunnel_frame.h"

#include <stdlib.h>
#include <string.h>

static const char *const event_fields[] = {"take", "most", "seconds", "attributes", NULL};
static const char *const upload_fields[] = {"name", "class", "version", "schema", NULL};
static const char *const store_fields[] = {"quota_kib", "keep", NULL};
static const char *const keeps[] = {"versions", "version"};
static const char *const takes[] = {"none", "matched", "visit", "time"};
static const char *const classes[] = {"control", "realtime", "behaviour", "debug"};

// Texts that were made here: schemas in compact form.
struct work {
    struct wire_declaration declaration;
    char *schemas[WIRE_DECLARATION_UPLOADS_MAX];
    uint8_t leaves[WIRE_LEAVES_BYTES_MAX];
};

static struct base_str text_of(const json_t *value)
{
    return (struct base_str){json_string_value(value), json_string_length(value)};
}

// Index of `text` in `names`, or `count`.
static uint32_t name_index(const char *text, const char *const *names, uint32_t count)
{
    uint32_t index = 0;
    while (index < count && (text == NULL || strcmp(text, names[index]) != 0)) {
        index++;
    }
    return index;
}

static enum base_status take_list(const json_t *document, const char *key, uint32_t max,
                                  const json_t **out, struct base_error *error)
{
    *out = json_object_get(document, key);
    if (*out != NULL && (!json_is_array(*out) || json_array_size(*out) > max)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: \"%s\" is no list, or one of more than %u", key, max);
    }
    return BASE_OK;
}

static enum base_status take_count(const json_t *object, const char *key, uint32_t max,
                                   uint32_t *out, struct base_error *error)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL) {
        return BASE_OK;
    }
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > (json_int_t)max) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: \"%s\" is a whole number from 1 to %u", key, max);
    }
    *out = (uint32_t)number;
    return BASE_OK;
}

static enum base_status take_triggers(const json_t *document, struct wire_declaration *out,
                                      struct base_error *error)
{
    const json_t *list = NULL;
    BASE_TRY(take_list(document, "triggers", WIRE_DECLARATION_TRIGGERS_MAX, &list, error));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        struct base_str text = text_of(item);
        if (!json_is_string(item) || text.size == 0 || text.size > WIRE_DECLARATION_PATTERN_MAX) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "task.json: triggers[%zu] is no pattern of 1 to %d bytes", i,
                                  WIRE_DECLARATION_PATTERN_MAX);
        }
        out->triggers[out->trigger_count++] = text;
    }
    return BASE_OK;
}

static int by_bytes(const void *a, const void *b)
{
    const struct base_str *left = a;
    const struct base_str *right = b;
    size_t shared = left->size < right->size ? left->size : right->size;
    int order = memcmp(left->data, right->data, shared);
    return order != 0 ? order : (left->size > right->size) - (left->size < right->size);
}

static enum base_status take_attributes(const json_t *events, struct wire_declaration *out,
                                        struct base_error *error)
{
    const json_t *list = NULL;
    BASE_TRY(take_list(events, "attributes", WIRE_DECLARATION_ATTRIBUTES_MAX, &list, error));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        struct base_str name = text_of(item);
        if (!json_is_string(item) || name.size == 0 || name.size > UINT8_MAX) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "task.json: events.attributes[%zu] is no name", i);
        }
        out->attributes[out->attribute_count++] = name;
    }
    qsort(out->attributes, out->attribute_count, sizeof(out->attributes[0]), by_bytes);
    return BASE_OK;
}

static enum base_status take_events(const json_t *document, struct wire_declaration *out,
                                    struct base_error *error)
{
    const json_t *events = json_object_get(document, "events");
    if (events == NULL) {
        out->events = out->trigger_count > 0 ? WIRE_EVENTS_MATCHED : WIRE_EVENTS_NONE;
        return BASE_OK;
    }
    if (!json_is_object(events)) {
        return base_error_set(error, BASE_ERR_INVALID, "task.json: \"events\" is no object");
    }
    BASE_TRY(cli_json_only(events, event_fields, "task.json: events", error));
    uint32_t take = name_index(cli_json_text(events, "take", "matched"), takes, WIRE_EVENTS_END);
    if (take == WIRE_EVENTS_END) {
        return base_error_set(
            error, BASE_ERR_INVALID,
            "task.json: events: \"take\" is \"none\", \"matched\", \"visit\" or \"time\"");
    }
    out->events = (enum wire_declared_events)take;
    BASE_TRY(take_count(events, "most", WIRE_DECLARATION_EVENTS_MAX, &out->events_max, error));
    BASE_TRY(take_count(events, "seconds", WIRE_DECLARATION_EVENTS_S_MAX, &out->events_s, error));
    if ((out->events == WIRE_EVENTS_TIME) != (out->events_s > 0)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: events: \"seconds\" belongs to \"take\": \"time\"");
    }
    return take_attributes(events, out, error);
}

// As the gateway will, when the version is pushed.
static enum base_status check_schema(const struct wire_upload *upload, struct base_error *error)
{
    struct base_error inner = {0};
    struct gw_schema *schema = NULL;
    enum base_status status = gw_schema_parse(upload->schema, &schema, &inner);
    gw_schema_free(schema);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "task.json: upload %.*s: %s", (int)upload->name.size,
                                upload->name.data, inner.text);
}

static enum base_status take_upload(struct work *work, const json_t *item, uint32_t index,
                                    struct base_error *error)
{
    char what[48];
    struct wire_upload *upload = &work->declaration.uploads[index];
    (void)snprintf(what, sizeof(what), "task.json: uploads[%u]", index);
    if (!json_is_object(item)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s is no object", what);
    }
    BASE_TRY(cli_json_only(item, upload_fields, what, error));
    upload->name = text_of(json_object_get(item, "name"));
    uint32_t version = 1;
    uint32_t class_id =
        name_index(cli_json_text(item, "class", "behaviour"), classes, WIRE_TUNNEL_CLASSES);
    if (!wire_upload_name_ok(upload->name) || class_id == WIRE_TUNNEL_CLASSES) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s: \"name\" is 1 to %d of a-z 0-9 _ -, beginning with a letter; "
                              "\"class\" is control, realtime, behaviour or debug",
                              what, WIRE_UPLOAD_NAME_MAX);
    }
    BASE_TRY(take_count(item, "version", UINT16_MAX, &version, error));
    upload->class_id = (uint8_t)class_id;
    upload->schema_version = (uint16_t)version;
    const json_t *schema = json_object_get(item, "schema");
    if (schema == NULL) {
        return BASE_OK;
    }
    if (json_is_object(schema)) {
        // Sorted keys: the same source always gives the same bytes.
        work->schemas[index] = json_dumps(schema, JSON_COMPACT | JSON_SORT_KEYS);
    }
    upload->schema = base_str_of(work->schemas[index]);
    return upload->schema.size > 0 && upload->schema.size <= WIRE_DECLARATION_SCHEMA_MAX
               ? check_schema(upload, error)
               : base_error_set(error, BASE_ERR_INVALID,
                                "%s: \"schema\" is no object, or has more than %d bytes", what,
                                WIRE_DECLARATION_SCHEMA_MAX);
}

static enum base_status take_uploads(const json_t *document, struct work *work,
                                     struct base_error *error)
{
    struct wire_declaration *out = &work->declaration;
    const json_t *list = NULL;
    BASE_TRY(take_list(document, "uploads", WIRE_DECLARATION_UPLOADS_MAX, &list, error));
    for (size_t i = 0; i < json_array_size(list); i++) {
        BASE_TRY(take_upload(work, json_array_get(list, i), (uint32_t)i, error));
        out->upload_count++;
    }
    out->result_upload = WIRE_DECLARATION_NO_UPLOAD;
    const json_t *result = json_object_get(document, "result");
    if (result == NULL) {
        return BASE_OK;
    }
    for (uint32_t i = 0; i < out->upload_count; i++) {
        if (json_is_string(result) && base_str_equal(out->uploads[i].name, text_of(result))) {
            out->result_upload = (uint8_t)i;
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_ERR_INVALID,
                          "task.json: \"result\" names none of the uploads");
}

static enum base_status take_store(const json_t *document, struct wire_declaration *out,
                                   struct base_error *error)
{
    const json_t *store = json_object_get(document, "store");
    if (store == NULL) {
        return BASE_OK;
    }
    if (!json_is_object(store)) {
        return base_error_set(error, BASE_ERR_INVALID, "task.json: \"store\" is no object");
    }
    BASE_TRY(cli_json_only(store, store_fields, "task.json: store", error));
    BASE_TRY(take_count(store, "quota_kib", WIRE_STORE_QUOTA_KIB_MAX, &out->store_kib, error));
    if (out->store_kib == 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: store: \"quota_kib\" is missing: a whole number from 1 "
                              "to %d",
                              WIRE_STORE_QUOTA_KIB_MAX);
    }
    uint32_t keep =
        name_index(cli_json_text(store, "keep", "versions"), keeps, WIRE_STORE_KEEP_END);
    if (keep == WIRE_STORE_KEEP_END) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: store: \"keep\" is \"versions\" or \"version\"");
    }
    out->store_keep = (enum wire_store_keep)keep;
    return BASE_OK;
}

static enum base_status take_priority(const json_t *document, struct wire_declared_runs *out,
                                      struct base_error *error)
{
    const json_t *value = json_object_get(document, "priority");
    json_int_t number = json_integer_value(value);
    if (value == NULL) {
        return BASE_OK;
    }
    if (!json_is_integer(value) || number < 0 || number > WIRE_RUN_PRIORITY_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.json: \"priority\" is a whole number from 0, which goes first, "
                              "to %d",
                              WIRE_RUN_PRIORITY_MAX);
    }
    out->priority = (uint8_t)(number + 1);
    return BASE_OK;
}

// A deadline shorter than a run may take is none that could be kept.
static enum base_status take_deadline(const json_t *document, struct wire_declared_runs *out,
                                      struct base_error *error)
{
    BASE_TRY(
        take_count(document, "deadline_ms", WIRE_RUN_DEADLINE_MS_MAX, &out->deadline_ms, error));
    uint64_t declared_ms = cli_json_u64(document, "time_ms");
    uint64_t time_ms = declared_ms > 0 ? declared_ms : DEV_VM_TIME_MS_DEFAULT;
    if (out->deadline_ms > 0 && time_ms > out->deadline_ms) {
        return base_error_set(
            error, BASE_ERR_INVALID,
            "task.json: \"deadline_ms\" %u is less than the %llu ms that a run may "
            "take (\"time_ms\")",
            out->deadline_ms, (unsigned long long)time_ms);
    }
    return BASE_OK;
}

static enum base_status take_runs(const json_t *document, struct wire_declaration *out,
                                  struct base_error *error)
{
    uint32_t at_once = 1;
    BASE_TRY(take_priority(document, &out->runs, error));
    BASE_TRY(take_deadline(document, &out->runs, error));
    BASE_TRY(take_count(document, "at_once", WIRE_RUN_AT_ONCE_MAX, &at_once, error));
    if (at_once > 1 && out->store_kib > 0) {
        return base_error_set(
            error, BASE_ERR_INVALID,
            "task.json: \"at_once\" is 1 where there is a \"store\": two runs would "
            "overwrite what the other keeps");
    }
    out->runs.at_once = (uint8_t)(at_once > 1 ? at_once : 0);
    return BASE_OK;
}

static enum base_status declare(const json_t *document, struct work *work, uint8_t *out,
                                size_t *out_size, struct base_error *error)
{
    struct wire_declaration *declaration = &work->declaration;
    BASE_TRY(take_triggers(document, declaration, error));
    BASE_TRY(take_events(document, declaration, error));
    BASE_TRY(take_uploads(document, work, error));
    BASE_TRY(take_store(document, declaration, error));
    BASE_TRY(take_runs(document, declaration, error));
    size_t leaves_bytes = 0;
    BASE_TRY(task_leaves(document, work->leaves, &leaves_bytes, error));
    declaration->leaves = (struct base_str){(const char *)work->leaves, leaves_bytes};
    bool nothing = declaration->trigger_count == 0 && declaration->upload_count == 0 &&
                   declaration->attribute_count == 0 && declaration->events == WIRE_EVENTS_NONE &&
                   leaves_bytes == 0 && declaration->store_kib == 0 &&
                   !wire_declared_runs_any(&declaration->runs);
    if (nothing) {
        *out_size = 0;
        return BASE_OK;
    }
    struct base_error inner = {0};
    enum base_status status = dev_declaration_check(declaration, base_alloc_heap(), &inner);
    if (status != BASE_OK) {
        return base_error_set(error, status, "task.json: %s", inner.text);
    }
    status = wire_declaration_encode(declaration, out, WIRE_DECLARATION_BYTES_MAX, out_size);
    if (status == BASE_OK && *out_size > DEV_PIPELINE_DECLARATION_BYTES) {
        return base_error_set(error, BASE_ERR_LIMIT,
                              "task.json: triggers, events, uploads and leaves take %zu bytes; "
                              "a device "
                              "has %d for all of its tasks",
                              *out_size, DEV_PIPELINE_DECLARATION_BYTES);
    }
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status,
                                "task.json: triggers, events and uploads make no valid "
                                "declaration (doubled names?): %s",
                                base_status_text(status));
}

enum base_status task_declare(const json_t *document, uint8_t out[WIRE_DECLARATION_BYTES_MAX],
                              size_t *out_size, struct base_error *error)
{
    struct work *work = calloc(1, sizeof(*work));
    if (work == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    enum base_status status = declare(document, work, out, out_size, error);
    for (uint32_t i = 0; i < WIRE_DECLARATION_UPLOADS_MAX; i++) {
        free(work->schemas[i]);
    }
    free(work);
    return status;
}
